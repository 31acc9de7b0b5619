package router

import (
	"slices"
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/opcode"

	"braid/internal/mysql"
)

// wordAt is the place of the first of some words outside all parentheses from
// token i on: len(toks) when there is none.
func (s *shape) wordAt(i int, words ...string) int {
	for ; i < len(s.toks); i++ {
		if t := s.toks[i]; t.depth == 0 && slices.Contains(words, t.word(s.text)) {
			return i
		}
	}
	return i
}

// from is where token i begins; the text's end for one behind the last.
func (s *shape) from(i int) int {
	if i < len(s.toks) {
		return s.toks[i].start
	}
	return len(s.text)
}

// pick plans an UPDATE or DELETE of one sharded table with LIMIT: the primary
// keys of the rows are read and locked first, in order over all shards. It says
// why that cannot be.
func (a *analysis) pick(f *found, b *block, verb string, form writeForm, assigned []int) (*stepsPlan, *mysql.Error) {
	no := refuse(verb + " with LIMIT over several shards")
	if len(b.refs) != 1 || b.derived > 0 || hasReturning(f.shape) {
		return nil, no
	}
	t := b.refs[0].table
	key, err := pickKey(t, verb+" with LIMIT")
	if err != nil {
		return nil, err
	}
	for _, c := range assigned {
		if t.unique(c) {
			return nil, refuse("UPDATE of columns of unique keys with LIMIT over several shards")
		}
	}
	p := &stepsPlan{kind: StepsPick, table: t, key: key, ignore: form.ignore}
	p.conditional = a.flavour == MariaDB && (verb == "DELETE" || form.ordered)
	s, own := f.shape, sortEdits(f.factEdits())
	tables, head := a.writeParts(s, verb)
	rest := s.wordAt(tables[1], "WHERE", "ORDER", "LIMIT")
	p.read = template{}.add("SELECT " + quoted(key) + " FROM ")
	p.read = append(p.read, s.slice(s.from(tables[0]), s.from(min(tables[1], rest)), own)...)
	p.read = append(p.read, template{}.add(" ")...)
	p.read = append(p.read, s.slice(s.from(rest), len(s.text), own)...)
	p.read = append(p.read, template{}.add(" FOR UPDATE")...)
	if verb == "UPDATE" {
		head = s.wordAt(head, "WHERE", "ORDER", "LIMIT")
	}
	p.head = append(s.slice(0, s.from(min(head, rest)), own), template{}.add(" WHERE ")...)
	return p, nil
}

// writeParts finds the tokens between which the table of an UPDATE or DELETE
// stands, and from where on its conditions can come.
func (a *analysis) writeParts(s *shape, verb string) (tables [2]int, rest int) {
	if verb == "DELETE" {
		from := s.wordAt(0, "FROM")
		end := s.wordAt(from, "WHERE", "ORDER", "LIMIT")
		return [2]int{from + 1, end}, end
	}
	i := 1
	for i < len(s.toks) && slices.Contains([]string{"LOW_PRIORITY", "IGNORE"}, s.toks[i].word(s.text)) {
		i++
	}
	set := s.wordAt(i, "SET")
	return [2]int{i, set}, set
}

func quoted(columns []string) string {
	var b strings.Builder
	for i, c := range columns {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString("`" + strings.ReplaceAll(c, "`", "``") + "`")
	}
	return b.String()
}

// unique tells whether a column is in a unique key.
func (t *Table) unique(c int) bool {
	return slices.Contains(t.Primary, c) || slices.ContainsFunc(t.Uniques, func(k []int) bool { return slices.Contains(k, c) })
}

// pickKey is the primary key by which rows that were read are found again.
func pickKey(t *Table, what string) ([]string, *mysql.Error) {
	if len(t.Primary) == 0 {
		return nil, refuse(what + " over several shards of a table without a primary key")
	}
	for _, k := range t.Rule.Keys {
		if !slices.Contains(t.Primary, k) {
			return nil, refuse(what + " over several shards of a table whose primary key does not hold the sharding key")
		}
	}
	var out []string
	for _, c := range t.Primary {
		if typ := t.Columns[c].DataType; typ == "float" {
			return nil, refuse(what + " over several shards of a table with a primary key of type " + typ)
		}
		out = append(out, t.Columns[c].Name)
	}
	return out, nil
}

// move plans an UPDATE of a sharding key.
func (a *analysis) move(f *found, b *block, stmt *ast.UpdateStmt) (planned, error) {
	no := func(why string) (planned, error) { return planned{}, refuse("UPDATE of the sharding key " + why) }
	if len(b.refs) != 1 || b.derived > 0 {
		return no("in an UPDATE of several tables")
	}
	t := b.refs[0].table
	switch {
	case t.Linked:
		return no("of a table with foreign keys or triggers: " + t.Name)
	case len(f.assigns) > 0 || f.setsID:
		return no("with user variables")
	case f.unstable != "":
		return no("with " + f.unstable)
	case len(f.refs) > 1:
		return no("with subqueries")
	}
	key, err := pickKey(t, "UPDATE of the sharding key")
	if err != nil {
		return planned{}, err
	}
	p := &stepsPlan{kind: StepsMove, table: t, key: key, several: true, ignore: stmt.IgnoreErr}
	if stmt.IgnoreErr {
		return no("with IGNORE")
	}
	s, own := f.shape, sortEdits(f.factEdits())
	tables, set := a.writeParts(s, "UPDATE")
	rest := s.wordAt(set, "WHERE", "ORDER", "LIMIT")
	values := assignedValues(s, set+1, rest)
	if len(values) != len(stmt.List) {
		return no("in this form")
	}
	news := map[int]template{}
	assigned := map[int]bool{}
	for i, x := range stmt.List {
		c := f.resolve(b, x.Column)
		if c.ref == nil {
			return planned{}, mysql.Errorf(1054, "Unknown column '%s' in 'field list'", x.Column.Name.O)
		}
		if uses(f, b, x.Expr, assigned) {
			return no("where a value depends on one set before it")
		}
		if _, constant := f.operand(x.Expr, true); t.unique(c.col) && !constant {
			p.several = false
		}
		if isDefault(x.Expr) {
			return no("with DEFAULT")
		}
		assigned[c.col] = true
		news[c.col] = s.slice(values[i][0], values[i][1], own)
	}
	p.read = template{}.add("SELECT " + quoted(key))
	for i := range t.Columns {
		c := &t.Columns[i]
		extra := strings.ToUpper(c.Extra)
		if strings.Contains(extra, "GENERATED") && !strings.Contains(extra, "DEFAULT_GENERATED") {
			continue
		}
		name := quoted([]string{c.Name})
		v, given := news[i]
		switch {
		case given:
			v = append(append(template{}.add("("), v...), template{}.add(")")...)
		case strings.Contains(extra, "ON UPDATE"):
			return no("of a table whose columns follow the time of an UPDATE: " + t.Name)
		case c.DataType == "float":
			v = template{}.add(name + "+0e0")
		default:
			v = template{}.add(name)
		}
		p.read = append(p.read.add(","), v...)
		p.columns = append(p.columns, c.Name)
	}
	rows := append(template{}.add(" FROM "), s.slice(s.from(tables[0]), s.from(tables[1]), own)...)
	rows = append(rows.add(" "), s.slice(s.from(rest), len(s.text), own)...)
	if p.conditional = a.flavour == MariaDB && !f.onePoint(b, t); p.conditional {
		p.rows = append(template{}.add("SELECT "+quoted(key)), rows...)
	}
	p.read = append(p.read, rows...).add(" FOR UPDATE")
	p.head = append(s.slice(0, s.from(rest), own), template{}.add(" WHERE ")...)
	p.tail = template{}.add("`" + strings.ReplaceAll(f.db.Name, "`", "``") + "`.`" + strings.ReplaceAll(t.Name, "`", "``") + "`")
	plan := &Plan{Kind: KindWrite, Verb: "UPDATE", Writer: true, Database: f.db.Name}
	body := &readBody{db: f.db, write: true, sources: f.sources(), steps: p, moves: true}
	if base, err := f.baseEdits(); err != nil {
		return planned{}, err
	} else if len(base) > 0 {
		body.single = f.shape.slice(0, len(f.shape.text), base) // for the node that describes it
	}
	plan.body = body
	return planned{plan: plan}, nil
}

// onePoint tells whether the conditions give each column of a unique key of t,
// the block's only table, one value.
func (f *found) onePoint(b *block, t *Table) bool {
	given := map[int]bool{}
	for _, set := range b.sets {
		for _, e := range set.conj {
			eq, ok := e.(*ast.BinaryOperationExpr)
			if !ok || eq.Op != opcode.EQ {
				continue
			}
			for _, sides := range [2][2]ast.ExprNode{{eq.L, eq.R}, {eq.R, eq.L}} {
				c, ok := sides[0].(*ast.ColumnNameExpr)
				if _, constant := f.operand(sides[1], true); !ok || !constant {
					continue
				}
				if at := f.resolve(b, c.Name); at.ref != nil {
					given[at.col] = true
				}
			}
		}
	}
	return slices.ContainsFunc(append([][]int{t.Primary}, t.Uniques...), func(key []int) bool {
		return !slices.ContainsFunc(key, func(c int) bool { return !given[c] })
	})
}

// assignedValues are the places of the values in "a = 1, b = 2" between tokens.
func assignedValues(s *shape, from, to int) [][2]int {
	l := insertLayout{}
	cut := *s
	cut.toks = s.toks[:to]
	l.assignments(&cut, from)
	return l.rows[0].values
}

// uses tells whether an expression reads one of the columns.
func uses(f *found, b *block, e ast.ExprNode, columns map[int]bool) bool {
	v := &columnUse{f: f, b: b, columns: columns}
	e.Accept(v)
	return v.hit
}

type columnUse struct {
	f       *found
	b       *block
	columns map[int]bool
	hit     bool
}

// Enter implements ast.Visitor.
func (v *columnUse) Enter(n ast.Node) (ast.Node, bool) {
	if c, ok := n.(*ast.ColumnNameExpr); ok {
		if p := v.f.resolve(v.b, c.Name); p.ref != nil && v.columns[p.col] {
			v.hit = true
		}
	}
	return n, v.hit
}

// Leave implements ast.Visitor.
func (v *columnUse) Leave(n ast.Node) (ast.Node, bool) { return n, true }

// insertFrom plans an INSERT ... SELECT whose rows are read first and then
// written as an INSERT with values; nil when it has no such form.
func (a *analysis) insertFrom(f *found, stmt *ast.InsertStmt, t *Table) *stepsPlan {
	s := f.shape
	if hasReturning(s) || len(f.assigns) > 0 || f.setsID {
		return nil
	}
	i := s.wordAt(0, "SELECT", "WITH", "VALUES", "TABLE")
	// The list of columns is in parentheses, and so may be the query.
	if i == len(s.toks) || s.toks[i].word(s.text) == "VALUES" || s.toks[i].word(s.text) == "TABLE" {
		return nil
	}
	end := s.wordAt(i, "ON")
	for end < len(s.toks) && (end+1 >= len(s.toks) || s.toks[end+1].word(s.text) != "DUPLICATE") {
		end = s.wordAt(end+1, "ON")
	}
	for _, x := range stmt.OnDuplicate {
		if foreignColumn(x.Expr, t) {
			return nil
		}
	}
	own := sortEdits(f.factEdits())
	p := &stepsPlan{kind: StepsInsert, table: t, ignore: stmt.IgnoreErr}
	p.read = s.slice(s.from(i), s.from(end), own)
	if sel, ok := stmt.Select.(*ast.SelectStmt); ok && sel.From != nil && (sel.LockInfo == nil || sel.LockInfo.LockType == ast.SelectLockNone) && len(f.refs) > 0 && sel.GroupBy == nil && !sel.Distinct {
		p.read = append(p.read, template{}.add(" LOCK IN SHARE MODE")...)
	}
	p.head = append(s.slice(0, s.from(i), own), template{}.add("VALUES ")...)
	p.tail = s.slice(s.from(end), len(s.text), own)
	return p
}

// foreignColumn tells whether an expression names columns that are not the
// table's own.
func foreignColumn(e ast.ExprNode, t *Table) bool {
	v := &foreignUse{t: t}
	e.Accept(v)
	return v.hit
}

type foreignUse struct {
	t   *Table
	hit bool
}

// Enter implements ast.Visitor.
func (v *foreignUse) Enter(n ast.Node) (ast.Node, bool) {
	switch n := n.(type) {
	case *ast.ColumnNameExpr:
		if v.t.column(n.Name.Name.L) < 0 || n.Name.Table.L != "" && !strings.EqualFold(n.Name.Table.O, v.t.Name) {
			v.hit = true
		}
	case *ast.SubqueryExpr:
		v.hit = true
	}
	return n, v.hit
}

// Leave implements ast.Visitor.
func (v *foreignUse) Leave(n ast.Node) (ast.Node, bool) { return n, true }
