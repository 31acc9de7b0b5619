package router

import (
	"slices"
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"

	"braid/internal/mysql"
)

// GatherWrite says what an UPDATE or DELETE over copies does to a table: the
// rows that the statement changed in the copy are then written on their shards
// (rule G2).
type GatherWrite struct {
	Copy int // which of the table's copies is written
	// Key are the columns that tell a row from all others, over all shards.
	Key []int
	// Set are the columns whose values may differ afterwards; none: the rows are
	// deleted.
	Set []int
	// Moves says that columns of keys are among them: changed rows are taken out,
	// all of them, and put in anew.
	Moves bool
}

// written is one reference that an UPDATE or DELETE writes to.
type written struct {
	ref *ref
	set []int // the columns that an UPDATE sets; nil: DELETE
}

// gatherWrites plans an UPDATE or DELETE as a gather: over copies of the rows
// that it needs, which stay locked, and then by key on the shards. An error says
// why it cannot be.
func (f *found) gatherWrites(verb string, writes []written, ignore bool, sources []source, stmt ast.StmtNode) (*gatherPlan, *mysql.Error) {
	what := verb + " where the rows of several shards have to meet"
	if f.readsViews() {
		return nil, refuse("views in " + what)
	}
	g, err := newGather(f, sources, stmt)
	if err != nil {
		return nil, err
	}
	for i := range g.tables {
		g.tables[i].locking = lockShare
	}
	for _, w := range writes {
		s := g.source(w.ref.table)
		if s.write != nil {
			return nil, refuse("writing one table under two names, where the rows of several shards have to meet")
		}
		s.locking = lockUpdate
		if s.write, err = f.gatherWrite(w, what, ignore || len(writes) > 1); err != nil {
			return nil, err
		}
		if w.set != nil || hasReturning(f.shape) {
			s.columns = copiedColumns(w.ref.table, nil, true)
		}
		if s.write.Moves && ignore {
			// A row that meets another one stays: all others have to be looked at.
			s.where, s.conds, s.all = nil, nil, true
		}
		if s.copies > 1 {
			if s.write.Copy, err = f.writtenCopy(g, w.ref); err != nil {
				return nil, err
			}
			g.ask = true
		}
	}
	return g, nil
}

func (g *gatherPlan) source(t *Table) *gatherSource {
	for i := range g.tables {
		if g.tables[i].table == t {
			return &g.tables[i]
		}
	}
	return nil
}

// gatherWrite plans what one reference's rows go through. loose says that rows
// may be left out where they are refused, or that the order between tables
// matters.
func (f *found) gatherWrite(w written, what string, loose bool) (*GatherWrite, *mysql.Error) {
	t := w.ref.table
	out := &GatherWrite{}
	switch {
	case len(t.Primary) == 0:
		return nil, refuse(what + ", of a table without a primary key: " + t.Name)
	case t.Triggers:
		return nil, refuse(what + ", of a table with triggers: " + t.Name)
	}
	out.Key = append(out.Key, t.Primary...)
	if t.Rule != nil {
		for _, k := range t.Rule.Keys {
			if !slices.Contains(out.Key, k) {
				out.Key = append(out.Key, k)
			}
		}
	}
	for _, k := range out.Key {
		if typ := t.Columns[k].DataType; typ == "float" {
			return nil, refuse(what + ", of a table with a key of type " + typ + ": " + t.Name)
		}
	}
	for i := range t.Columns {
		c := &t.Columns[i]
		if w.set != nil && !generated(c) && (slices.Contains(w.set, i) || strings.Contains(strings.ToUpper(c.Extra), "ON UPDATE")) {
			out.Set = append(out.Set, i)
			out.Moves = out.Moves || slices.Contains(out.Key, i)
		}
	}
	for _, key := range t.Uniques {
		for _, c := range key {
			out.Moves = out.Moves || w.set != nil && (c < 0 || generated(&t.Columns[c]) || slices.Contains(out.Set, c))
		}
	}
	if t.Linked && (loose || out.Moves) {
		return nil, refuse(what + ", of a table with foreign keys: " + t.Name)
	}
	return out, nil
}

// writtenCopy finds which copy of its table a reference of the outermost block
// is.
func (f *found) writtenCopy(g *gatherPlan, r *ref) (int, *mysql.Error) {
	toks, tables, _, err := f.copyTokens()
	if err != nil {
		return 0, err
	}
	text := f.shape.text
	n, hit := 0, -1
	for _, i := range tables {
		if f.db.Table(toks[i].name(text)) != r.table {
			continue
		}
		name := toks[i].name(text)
		if i+1 < len(toks) && aliasFollows(toks[i+1], text) {
			j := i + 1
			if toks[j].word(text) == "AS" && j+1 < len(toks) {
				j++
			}
			name = toks[j].name(text)
		}
		if toks[i].depth == 0 && strings.EqualFold(name, r.name) {
			if hit >= 0 {
				return 0, refuse("this form of a write where the rows of several shards have to meet")
			}
			hit = n
		}
		n++
	}
	if hit < 0 {
		return 0, refuse("this form of a write where the rows of several shards have to meet")
	}
	return hit, nil
}

// columns are the table's columns with these indexes.
func (t *Table) columns(list []int) []Column {
	out := make([]Column, len(list))
	for i, c := range list {
		out[i] = t.Columns[c]
	}
	return out
}
