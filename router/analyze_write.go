package router

import (
	"slices"
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"

	"braid/internal/mysql"
)

// update plans an UPDATE.
func (a *analysis) update(f *found, stmt *ast.UpdateStmt) (planned, error) {
	b, err := a.writeBlock(f, stmt, stmt.TableRefs, stmt.Where)
	if err != nil {
		return planned{}, err
	}
	w := change{verb: "UPDATE", stmt: stmt, writeForm: writeForm{stmt.Limit != nil, stmt.Order != nil, stmt.IgnoreErr}}
	moves := false
	for _, s := range stmt.List {
		c := f.resolve(b, s.Column)
		if c.ref == nil {
			continue // the server says so
		}
		w.sets(c)
		moves = moves || c.ref.table.Kind == Sharded && len(f.db.Shards) > 1 && !f.q.KeyStays && slices.Contains(c.ref.table.Rule.Keys, c.col)
	}
	unique, refused := a.uniqueUpdate(f, b, stmt, &w)
	if refused == nil && unique != nil && moves {
		refused = refuse("UPDATE of the sharding key and the unique key " + unique.table.Name + "." + unique.keys[0].Name + " at once" + lockedKeys)
	}
	if refused != nil {
		return planned{}, refused
	}
	if moves {
		base, err := f.baseEdits()
		if err != nil {
			return planned{}, err
		}
		p, refused := a.move(f, b, stmt)
		if refused == nil {
			return p, nil
		}
		return a.gathered(f, &w, base, f.sources(), refused)
	}
	if len(w.writes) == 0 {
		for _, r := range b.refs {
			w.writes = append(w.writes, written{ref: r, set: []int{}})
		}
	}
	p, err := a.write(f, b, &w)
	if unique != nil && err == nil {
		p.plan.unique = unique
		if body, ok := p.plan.body.(*readBody); ok {
			body.gather = nil
		}
	}
	return p, err
}

// change is an UPDATE or DELETE: its form and what it writes to.
type change struct {
	writeForm
	verb   string
	stmt   ast.StmtNode
	writes []written
}

// writeForm is what an UPDATE or DELETE has: LIMIT, ORDER BY, IGNORE.
type writeForm struct{ bounded, ordered, ignore bool }

// sets notes that a column is set.
func (c *change) sets(p place) {
	for i := range c.writes {
		if c.writes[i].ref == p.ref {
			c.writes[i].set = append(c.writes[i].set, p.col)
			return
		}
	}
	c.writes = append(c.writes, written{ref: p.ref, set: []int{p.col}})
}

// gathered plans a change that cannot be made shard by shard, for the reason
// refused, over copies.
func (a *analysis) gathered(f *found, w *change, base []edit, sources []source, refused error) (planned, error) {
	g, why := f.gatherWrites(w.verb, w.writes, w.ignore, sources, w.stmt)
	if why != nil {
		if len(f.refs) > 1 {
			refused = why
		}
		return planned{}, refused
	}
	body := &readBody{db: f.db, write: true, sources: sources, gather: g, moves: true}
	if len(base) > 0 {
		body.single = f.shape.slice(0, len(f.shape.text), base)
	}
	return planned{plan: &Plan{Kind: KindWrite, Verb: w.verb, Writer: true, Database: f.db.Name, Rows: hasReturning(f.shape), SetsID: f.setsID, body: body}}, nil
}

// delete plans a DELETE.
func (a *analysis) delete(f *found, stmt *ast.DeleteStmt) (planned, error) {
	b, err := a.writeBlock(f, stmt, stmt.TableRefs, stmt.Where)
	if err != nil {
		return planned{}, err
	}
	w := change{verb: "DELETE", stmt: stmt, writeForm: writeForm{stmt.Limit != nil, stmt.Order != nil, stmt.IgnoreErr}}
	for _, r := range b.refs {
		named := !stmt.IsMultiTable || stmt.Tables == nil
		if !named {
			for _, t := range stmt.Tables.Tables {
				named = named || strings.EqualFold(r.name, t.Name.O) || r.table.Name == t.Name.O && (t.Schema.L != "" || f.db.LowerCase)
			}
		}
		if named {
			w.writes = append(w.writes, written{ref: r})
		}
	}
	if len(w.writes) == 0 {
		return planned{}, refuse("this form of DELETE")
	}
	return a.write(f, b, &w)
}

// writeBlock reads the tables and conditions of an UPDATE or DELETE.
func (a *analysis) writeBlock(f *found, stmt ast.Node, tables *ast.TableRefsClause, where ast.ExprNode) (*block, error) {
	if w, ok := stmt.(*ast.UpdateStmt); ok {
		f.names(w.With)
	} else if w, ok := stmt.(*ast.DeleteStmt); ok {
		f.names(w.With)
	}
	b := f.push()
	f.from(b, tables.TableRefs, nil)
	if where != nil {
		set := condSet{conj: conjuncts(where, nil)}
		b.sets = append(b.sets, set)
		for _, e := range set.conj {
			f.lookupIn(e)
		}
	}
	if f.err == nil {
		stmt.Accept(f)
	}
	if f.err != nil {
		return nil, f.err
	}
	if f.db == nil {
		return nil, refuse("writing to " + f.system)
	}
	if f.system != "" {
		return nil, refuse("tables of " + f.system + " together with others")
	}
	return b, nil
}

// write plans an UPDATE or DELETE that leaves rows on their shards. ORDER BY
// without LIMIT is each shard's own matter, since what it decides, which row
// meets a unique key first, is.
func (a *analysis) write(f *found, b *block, w *change) (planned, error) {
	p := &Plan{Kind: KindWrite, Verb: w.verb, Rows: hasReturning(f.shape), Writer: true, Database: f.db.Name, SetsID: f.setsID}
	body := &readBody{db: f.db, write: true}
	p.body = body
	base, err := f.baseEdits()
	if err != nil {
		return planned{}, err
	}
	if len(base) > 0 {
		body.single = f.shape.slice(0, len(f.shape.text), base)
	}
	body.sources = f.sources()
	global := false
	var assigned []int
	for _, x := range w.writes {
		p.Clock = p.Clock || f.readsClock(x.ref.table)
		global = global || x.ref.table.Kind == Global
		assigned = append(assigned, x.set...)
	}
	if global {
		err := a.broadcastable(f, body.sources, len(w.writes) == 1 && !w.bounded)
		for _, x := range w.writes {
			if err == nil && len(f.db.Shards) > 1 && f.defaults && a.unstableDefaults(x.ref.table) {
				err = refuse("writing a global table with DEFAULT, where each copy would have another")
			}
		}
		if err != nil {
			return a.gathered(f, w, base, body.sources, err)
		}
		p.Kind, body.all = KindBroadcast, true
		return planned{plan: p}, nil
	}
	if len(body.sources) == 0 || oneShard(body.sources) {
		p.Kind = KindSingle
		return planned{plan: p}, nil
	}
	switch body.several = f.acrossShards(body.sources); {
	case body.several != nil:
	case p.Rows:
		body.several = refuse("RETURNING over several shards")
	case f.setsID:
		body.several = refuse("LAST_INSERT_ID(expression) over several shards")
	case len(f.assigns) > 0:
		body.several = refuse("assigning user variables in a statement over several shards")
	case w.bounded:
		body.steps, body.several = a.pick(f, b, w.verb, w.writeForm, assigned)
	default:
		body.list = f.splitList(&body.sources[0], body.single)
	}
	if body.several != nil {
		var why *mysql.Error
		if body.gather, why = f.gatherWrites(w.verb, w.writes, w.ignore, body.sources, w.stmt); why != nil {
			body.several = why
		}
	}
	return planned{plan: p}, nil
}

// broadcastable tells whether a write of global tables does the same on every shard.
func (a *analysis) broadcastable(f *found, sources []source, simple bool) *mysql.Error {
	switch {
	case len(f.db.Shards) < 2:
		return nil
	case len(sources) > 0:
		return refuse("writing a global table by the rows of tables that are not global")
	case f.unstable != "":
		return refuse("writing a global table with " + f.unstable)
	case f.setsID:
		return refuse("writing a global table with LAST_INSERT_ID(expression)")
	case len(f.assigns) > 0:
		return refuse("writing a global table while assigning user variables")
	case !simple:
		return refuse("writing a global table with ORDER BY, LIMIT or several tables")
	}
	return nil
}
