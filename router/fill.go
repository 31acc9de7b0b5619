package router

import (
	"slices"
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"

	"braid/internal/mysql"
)

// Fill is a CREATE TABLE ... SELECT whose rows come from several shards, or go
// to others: the table is made with the columns that a node gives it, then filled by
// INSERT ... SELECT.
type Fill struct {
	Table       string
	IfNotExists bool
	Exists      bool // there is a table of that name
	// Shard has all tables that are read, though not all of their rows: a node that
	// can tell the columns.
	Shard int
	// Trial makes, on that shard, an empty temporary table of the new one's name and
	// columns; Empty reads the columns of the SELECT. Both name no database.
	Trial, Empty string
	// Text is the statement for a node to prepare; it names no database.
	Text string
	// Hints is a comment that says where the table goes; "": nothing does.
	Hints string
	// Verb is INSERT, INSERT IGNORE or REPLACE; Select is the client's SELECT.
	Verb, Select string
}

// fill plans CREATE TABLE ... SELECT in two steps.
func (a *analysis) fill(f *found, n *ast.CreateTableStmt, shard int) (planned, error) {
	if err := fillable(n); err != nil {
		return planned{}, err
	}
	if slices.ContainsFunc(a.q.Literals, func(l Literal) bool { return l.Class == ClassParam }) {
		return planned{}, refuse("parameters in CREATE TABLE ... SELECT over several shards")
	}
	text := plainComments(string(a.q.Text), a.flavour, a.q.Mode)
	own := *f
	own.shape = &shape{text: text, toks: tokenize(text, a.q.Mode, a.q.Charset)}
	s := own.shape
	for len(s.toks) > 0 && s.toks[len(s.toks)-1].is(text, ';') {
		s.toks = s.toks[:len(s.toks)-1]
	}
	head, first, last := s.filled()
	if head < 0 {
		return planned{}, refuse("this form of CREATE TABLE ... SELECT over several shards")
	}
	qualifiers, err := own.qualifierEdits()
	if err != nil {
		return planned{}, err
	}
	plain := func(from, to int) string { return cutOut(text, from, to, sortEdits(qualifiers)) }
	end := s.toks[last].end
	x := &Fill{Table: n.Table.Name.O, IfNotExists: n.IfNotExists, Exists: f.db.Table(n.Table.Name.O) != nil, Shard: max(shard, 0),
		Text: plain(0, len(text)), Verb: "INSERT", Select: text[s.toks[first].start:end]}
	switch n.OnDuplicate {
	case ast.OnDuplicateKeyHandlingIgnore:
		x.Verb = "INSERT IGNORE"
	case ast.OnDuplicateKeyHandlingReplace:
		x.Verb = "REPLACE"
	}
	x.Empty = plain(s.toks[first].start, s.withoutRows(first, last)) + " LIMIT 0"
	x.Trial = "CREATE TEMPORARY" + plain(s.toks[0].end, s.toks[head].end) + " AS " + x.Empty
	x.Hints = placeComment(&a.q.Hints)
	return planned{plan: &Plan{Kind: KindLocal, Verb: "CREATE", Database: f.db.Name, ImplicitCommit: true, Local: &Local{Op: OpFill, Name: x.Table, Fill: x}}, uncached: true}, nil
}

// fillable refuses what a temporary table cannot have, which tells the columns.
func fillable(n *ast.CreateTableStmt) *mysql.Error {
	const over = " in CREATE TABLE ... SELECT over several shards"
	if n.Partition != nil {
		return refuse("PARTITION BY" + over)
	}
	for _, c := range n.Constraints {
		switch c.Tp {
		case ast.ConstraintForeignKey:
			return refuse("FOREIGN KEY" + over)
		case ast.ConstraintFulltext:
			return refuse("FULLTEXT" + over)
		}
	}
	for _, c := range n.Cols {
		for _, o := range c.Options {
			if o.Tp == ast.ColumnOptionReference {
				return refuse("REFERENCES" + over)
			}
		}
	}
	switch n.Select.(type) {
	case *ast.SelectStmt, *ast.SetOprStmt:
		return nil
	}
	return refuse("this form of CREATE TABLE ... SELECT over several shards")
}

// filled finds the parts of a CREATE TABLE ... SELECT: the last token in front of
// IGNORE, REPLACE, AS and the SELECT, and the first and last of the SELECT, without
// parentheses around all of it. head is -1 where it is of another form.
func (s *shape) filled() (head, first, last int) {
	last = len(s.toks) - 1
	for first = 3; ; first++ {
		if first >= last {
			return -1, 0, 0
		}
		t := s.toks[first]
		if t.depth == 0 && t.word(s.text) == "SELECT" || t.depth == 0 && t.word(s.text) == "WITH" && s.toks[first+1].word(s.text) != "SYSTEM" {
			break
		}
		if w := s.toks[first+1].word(s.text); t.is(s.text, '(') && s.toks[first-1].word(s.text) == "AS" && (w == "SELECT" || w == "WITH") {
			break
		}
	}
	head = first - 1
	for slices.Contains([]string{"AS", "IGNORE", "REPLACE"}, s.toks[head].word(s.text)) {
		head--
	}
	if s.toks[first].is(s.text, '(') {
		if !s.toks[last].is(s.text, ')') || slices.ContainsFunc(s.toks[first+1:last], func(t token) bool { return t.depth == s.toks[first].depth }) {
			return -1, 0, 0
		}
		first, last = first+1, last-1
	}
	return head, first, last
}

// withoutRows is where the SELECT from token first to token last ends when its
// LIMIT and what follows it are left out.
func (s *shape) withoutRows(first, last int) int {
	for i := last; i > first; i-- {
		t := s.toks[i]
		if t.depth != s.toks[first].depth {
			continue
		}
		switch t.word(s.text) {
		case "LIMIT":
			return s.toks[i-1].end
		case "FOR", "LOCK":
			if w := s.toks[min(i+1, last)].word(s.text); w == "UPDATE" || w == "SHARE" || w == "IN" {
				if end := s.withoutRows(first, i-1); end < t.start {
					return end
				}
				return s.toks[i-1].end
			}
		}
	}
	return s.toks[last].end
}

// cutOut is a part of a text without what edits take out.
func cutOut(text string, from, to int, edits []edit) string {
	var b strings.Builder
	for _, e := range edits {
		if e.start >= from && e.end <= to {
			b.WriteString(text[from:e.start])
			from = e.end
		}
	}
	return b.String() + text[from:to]
}

// placeComment is the comment with those hints that say where a new table goes.
func placeComment(h *Hints) string {
	var words []string
	if p := h.Place; p != nil {
		for _, w := range [][2]string{{"key=", strings.Join(p.Key, ",")}, {"function=", p.Function}, {"colocated=", p.Colocated}, {"unique_check=", p.UniqueCheck}, {"sequence=", p.Sequence}} {
			if w[1] != "" {
				words = append(words, w[0]+w[1])
			}
		}
		if p.Kind == "global" || p.Kind == "single" {
			words = append(words, p.Kind)
		}
	}
	if h.Shard != "" {
		words = append(words, "shard="+h.Shard)
	}
	if len(words) == 0 {
		return ""
	}
	return " " + hintOpening + " " + strings.Join(words, " ") + "*/"
}
