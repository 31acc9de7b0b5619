package router

import (
	"slices"
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"

	"braid/internal/mysql"
)

// insertLayout is where the parts of an INSERT's text are.
type insertLayout struct {
	columns int // the "(" of the column list; -1: none
	empty   bool
	values  int // VALUES or VALUE
	set     int // SET, of the form with assignments; -1: none
	rows    []rowLayout
}

// rowLayout is one row: with its parentheses, and each of its values.
type rowLayout struct {
	start, end int
	values     [][2]int
}

// layoutInsert finds the parts of an INSERT or REPLACE with n rows of values.
func layoutInsert(s *shape, set bool, n int) (insertLayout, bool) {
	l := insertLayout{columns: -1, set: -1}
	i := 0
	for ; i < len(s.toks); i++ {
		t := s.toks[i]
		if t.depth != 0 {
			continue
		}
		w := t.word(s.text)
		if set && w == "SET" {
			l.set = t.start
			return l, l.assignments(s, i+1)
		}
		if !set && (w == "VALUES" || w == "VALUE") && i+1 < len(s.toks) && s.toks[i+1].is(s.text, '(') {
			l.values = t.start
			break
		}
		if t.is(s.text, '(') && l.columns < 0 && !partition(s, i) {
			l.columns = t.start
			l.empty = i+1 < len(s.toks) && s.toks[i+1].is(s.text, ')')
		}
	}
	for i++; i < len(s.toks); i++ {
		t := s.toks[i]
		switch {
		case t.depth > 0 || t.is(s.text, ','):
		case t.is(s.text, '('):
			row := rowLayout{start: t.start}
			i = row.read(s, i)
			l.rows = append(l.rows, row)
		default:
			i = len(s.toks)
		}
	}
	return l, len(l.rows) == n && n > 0
}

// partition tells whether the parenthesis at token i is PARTITION's.
func partition(s *shape, i int) bool {
	return i > 0 && s.toks[i-1].word(s.text) == "PARTITION"
}

// read reads a row from its "(" at token i, and returns where its ")" is.
func (r *rowLayout) read(s *shape, i int) int {
	depth := s.toks[i].depth
	from := -1
	last := 0
	for i++; i < len(s.toks); i++ {
		t := s.toks[i]
		if t.depth == depth && t.is(s.text, ')') {
			if from >= 0 {
				r.values = append(r.values, [2]int{from, last})
			}
			r.end = t.end
			return i
		}
		if t.depth == depth+1 && t.is(s.text, ',') {
			r.values = append(r.values, [2]int{from, last})
			from = -1
			continue
		}
		if from < 0 {
			from = t.start
		}
		last = t.end
	}
	return i
}

// assignments reads "a = 1, b = 2" from token i on as one row of values.
func (l *insertLayout) assignments(s *shape, i int) bool {
	row := rowLayout{end: len(s.text)}
	from, last := -1, 0
	value := false
	end := func() {
		if from >= 0 {
			row.values = append(row.values, [2]int{from, last})
		}
		from, value = -1, false
	}
	for ; i < len(s.toks); i++ {
		t := s.toks[i]
		w := t.word(s.text)
		if t.depth == 0 && (w == "ON" || w == "AS" || w == "RETURNING") {
			break
		}
		switch {
		case t.depth == 0 && t.is(s.text, ','):
			end()
		case t.depth == 0 && !value && t.is(s.text, '='):
			value = true
		case value:
			if from < 0 {
				from = t.start
			}
			last = t.end
		}
	}
	end()
	l.rows = []rowLayout{row}
	return true
}

// insertRows plans the rows of an INSERT with values into a table whose rows go
// to shards of their own, or, of a global table, to all.
func (a *analysis) insertRows(f *found, stmt *ast.InsertStmt, body *insertBody, base []edit) error {
	table := body.table
	if table.Rule != nil {
		if err := assignsKey(table, stmt.OnDuplicate); err != nil {
			return err
		}
	}
	if len(f.assigns) > 0 && len(f.db.Shards) > 1 {
		return refuse("assigning user variables in a statement over several shards")
	}
	l, ok := layoutInsert(f.shape, stmt.Setlist, len(stmt.Lists))
	if !ok {
		return refuse("this form of INSERT")
	}
	c, err := a.insertColumns(table, stmt)
	if err != nil {
		return err
	}
	adds := ""
	for _, col := range c.added {
		adds += "`" + strings.ReplaceAll(table.Columns[col].Name, "`", "``") + "`,"
	}
	if adds != "" && l.set < 0 && l.columns < 0 && len(l.rows[0].values) > 0 {
		return refuse("INSERT without a list of columns into a table with invisible columns")
	}
	made := 0
	selectable := l.set < 0 && l.selectable(f.shape, stmt, adds == "")
	for i, list := range stmt.Lists {
		row, err := a.insertRow(f, stmt, c, l.rows[i], list, i)
		if err != nil {
			return err
		}
		row.first = made
		made += len(row.exprs)
		if l.set < 0 {
			body.rows = append(body.rows, row.insertRow)
			edits := sortEdits(append(row.edits, base...))
			body.rows[i].text = f.shape.slice(l.rows[i].start, l.rows[i].end, edits)
			if selectable {
				body.rows[i].selects = f.selected(table, stmt, l.rows[i], list, edits)
			}
			continue
		}
		row.text = f.shape.slice(0, len(f.shape.text), sortEdits(append(row.edits, base...)))
		body.rows = append(body.rows, row.insertRow)
	}
	if l.set >= 0 {
		return nil
	}
	head := append([]edit{}, base...)
	if adds != "" {
		switch {
		case l.columns < 0:
			head = append(head, edit{l.values, l.values, template{}.add("(" + strings.TrimSuffix(adds, ",") + ") ")})
		case l.empty:
			head = append(head, edit{l.columns, l.columns + 1, template{}.add("(" + strings.TrimSuffix(adds, ","))})
		default:
			head = append(head, edit{l.columns, l.columns + 1, template{}.add("(" + adds)})
		}
	}
	body.prefix = f.shape.slice(0, l.rows[0].start, sortEdits(head))
	if selectable {
		end := l.values + len("VALUES")
		if !strings.EqualFold(f.shape.text[l.values:end], "VALUES") {
			end--
		}
		with := template{}
		if adds != "" && l.columns < 0 {
			with, head = head[len(head)-1].with, head[:len(head)-1]
		}
		head = sortEdits(append(head, edit{l.values, end, with.add("SELECT ")}))
		columns := l.values
		if l.columns >= 0 {
			columns = l.columns
		}
		body.selects = f.shape.slice(0, columns, head)
		body.columns = f.shape.slice(columns, l.rows[0].start, head)
	}
	body.suffix = f.shape.slice(l.rows[len(l.rows)-1].end, len(f.shape.text), base)
	return nil
}

// selectable tells whether each row's values may be those of a SELECT too, with
// defaults where DEFAULT may be left out.
func (l *insertLayout) selectable(s *shape, stmt *ast.InsertStmt, defaults bool) bool {
	for i, list := range stmt.Lists {
		if len(list) == 0 || len(l.rows[i].values) != len(list) {
			return false
		}
		given := 0
		for _, e := range list {
			if defaults && isDefault(e) {
				continue
			}
			if given++; uncomputable(e) != "" {
				return false
			}
		}
		if given == 0 {
			return false
		}
	}
	end := l.rows[len(l.rows)-1].end
	for _, t := range s.toks {
		if t.start >= end && t.depth == 0 && t.word(s.text) == "AS" {
			return false // the rows' alias
		}
	}
	return true
}

// selected is what stands behind the table's name when a row with DEFAULT among
// its values is written as INSERT ... SELECT: the other columns and their values. It
// is nil for a row without.
func (f *found) selected(t *Table, stmt *ast.InsertStmt, at rowLayout, list []ast.ExprNode, edits []edit) template {
	if !slices.ContainsFunc(list, isDefault) {
		return nil
	}
	var columns []string
	for _, c := range stmt.Columns {
		columns = append(columns, c.Name.O)
	}
	for i := 0; i < len(t.Columns) && len(stmt.Columns) == 0; i++ {
		if !hasWord(strings.ToUpper(t.Columns[i].Extra), "INVISIBLE") {
			columns = append(columns, t.Columns[i].Name)
		}
	}
	if len(columns) != len(list) {
		return nil // which is an error
	}
	var names []string
	var values template
	for i, e := range list {
		where := at.values[i]
		made := slices.ContainsFunc(edits, func(e edit) bool { return e.start == where[0] && e.end == where[1] })
		if isDefault(e) && !made {
			continue
		}
		if len(names) > 0 {
			values = values.add(",")
		}
		names = append(names, columns[i])
		for _, s := range f.shape.slice(where[0], where[1], edits) {
			if s.kind == segText {
				values = values.add(s.text)
			} else {
				values = append(values, s)
			}
		}
	}
	return append(template{}.add(" ("+quoted(names)+") SELECT "), values...)
}

// insertColumns are the columns of an INSERT that Braid must look at.
type insertColumns struct {
	table *Table
	keys  []int // by key column: the place of its value; -1: not given
	auto  int   // the place of the AUTO_INCREMENT column's value; -1: not given
	ids   bool  // its ids are Braid's to give
	// The columns of unique keys that are locked, and the places of their values; -1:
	// not given.
	uniques, uniquePos []int
	added              []int // columns that are not given and that Braid gives
	pos                []int // by added column: 0 for the id, 1 + the key column, or -1 - the place in defaults
	// Of a global table: defaults that each copy would compute for itself, of
	// columns that are not given, and of those that are.
	defaults []string
	explicit []copiedDefault
}

func (a *analysis) insertColumns(table *Table, stmt *ast.InsertStmt) (*insertColumns, error) {
	c := &insertColumns{table: table, auto: -1, ids: table.Sequence != ""}
	if c.ids {
		pos, err := insertPosition(table, stmt, table.AutoIncrement)
		if err != nil {
			return nil, err
		}
		if c.auto = pos; pos < 0 {
			c.added, c.pos = append(c.added, table.AutoIncrement), append(c.pos, 0)
		}
	}
	if table.Rule == nil {
		return c, a.copyDefaults(c, stmt)
	}
	for i, k := range table.Rule.Keys {
		pos, err := insertPosition(table, stmt, k)
		if err != nil {
			return nil, err
		}
		c.keys = append(c.keys, pos)
		if pos >= 0 || k == table.AutoIncrement {
			continue
		}
		col := &table.Columns[k]
		switch {
		case col.Default == nil && !col.Nullable && (a.q.Mode&ModeStrict == 0 || stmt.IgnoreErr):
			return nil, refuse("INSERT without a value for the sharding key " + table.Name + "." + col.Name + " that has no default, where the node would make one up")
		case col.Default == nil && !col.Nullable:
			return nil, mysql.Errorf(1364, "Field '%s' doesn't have a default value", col.Name)
		}
		if _, _, constant := a.columnDefault(col); !constant {
			c.added, c.pos = append(c.added, k), append(c.pos, 1+i)
		}
	}
	for _, k := range table.lockedColumns() {
		pos, err := insertPosition(table, stmt, k)
		if err != nil {
			return nil, err
		}
		c.uniques, c.uniquePos = append(c.uniques, k), append(c.uniquePos, pos)
		if pos >= 0 || k == table.AutoIncrement || slices.Contains(table.Rule.Keys, k) {
			continue
		}
		col := &table.Columns[k]
		if _, _, constant := a.columnDefault(col); !constant || col.Default == nil && !col.Nullable && a.q.Mode&ModeStrict == 0 {
			return nil, refuse("INSERT without a value for the unique key column " + table.Name + "." + col.Name + ", where the node would make one up" + lockedKeys)
		}
	}
	return c, nil
}

// columnDefault is what a column has when no value is given: an operand, or,
// when that is not constant, an expression to be computed.
func (a *analysis) columnDefault(c *Column) (o operand, expr string, constant bool) {
	if c.Default == nil {
		return operand{kind: operandNull}, "", true
	}
	text := *c.Default
	if a.flavour == MySQL {
		if strings.Contains(strings.ToUpper(c.Extra), "DEFAULT_GENERATED") {
			return operand{}, text, false
		}
		return operand{kind: operandText, text: text}, "", true
	}
	switch {
	case strings.EqualFold(text, "NULL"):
		return operand{kind: operandNull}, "", true
	case len(text) > 1 && text[0] == '\'' && text[len(text)-1] == '\'' && !strings.ContainsAny(text[1:len(text)-1], `'\`):
		return operand{kind: operandText, text: text[1 : len(text)-1]}, "", true
	case strings.Trim(text, "0123456789") == "":
		return operand{kind: operandText, text: text}, "", true
	}
	return operand{}, text, false
}

// plannedRow is a row with the edits that its text takes.
type plannedRow struct {
	insertRow
	edits    []edit
	defaults []int // by insertColumns.defaults: which of exprs it is
}

// insertRow plans one row.
func (a *analysis) insertRow(f *found, stmt *ast.InsertStmt, c *insertColumns, at rowLayout, list []ast.ExprNode, n int) (plannedRow, error) {
	var row plannedRow
	value := func(pos int) (ast.ExprNode, [2]int, *mysql.Error) {
		if pos >= len(list) || pos >= len(at.values) {
			return nil, [2]int{}, mysql.Errorf(1136, "Column count doesn't match value count at row %d", n+1)
		}
		return list[pos], at.values[pos], nil
	}
	computed := func(e ast.ExprNode, where [2]int, what string) (operand, *mysql.Error) {
		if why := uncomputable(e); why != "" {
			return operand{}, refuse(why + " as the value of " + what)
		}
		row.exprs = append(row.exprs, f.shape.slice(where[0], where[1], f.bare))
		i := len(row.exprs) - 1
		row.edits = append(row.edits, edit{where[0], where[1], template{{kind: segComputed, n: i}}})
		return operand{kind: operandComputed, hole: i}, nil
	}
	if c.auto >= 0 {
		e, where, err := value(c.auto)
		if err != nil {
			return row, err
		}
		var o operand
		if isDefault(e) {
			o = operand{kind: operandNull}
		} else if lit, ok := f.operand(e, true); ok {
			o = lit
		} else if o, err = computed(e, where, "the AUTO_INCREMENT column "+c.table.Name+"."+c.table.Columns[c.table.AutoIncrement].Name); err != nil {
			return row, err
		}
		row.auto = &o
		alt := f.shape.slice(where[0], where[1], f.bare)
		if o.kind == operandComputed {
			alt = template{{kind: segComputed, n: o.hole}}
			row.edits = row.edits[:len(row.edits)-1]
		}
		row.edits = append(row.edits, edit{where[0], where[1], template{{kind: segID, alt: alt}}})
	}
	valueOf := func(col, pos int, what string) (operand, error) {
		switch {
		case c.ids && col == c.table.AutoIncrement:
			return operand{kind: operandID}, nil
		case pos < 0:
			o, expr, constant := a.columnDefault(&c.table.Columns[col])
			if !constant {
				if strings.Contains(expr, `\`) {
					return o, refuse("INSERT without a value for " + what + ", whose default is an expression")
				}
				row.exprs = append(row.exprs, template{}.add(expr))
				o = operand{kind: operandComputed, hole: len(row.exprs) - 1}
			}
			return o, nil
		}
		e, where, err := value(pos)
		if err != nil {
			return operand{}, err
		}
		if isDefault(e) {
			if d := &c.table.Columns[col]; d.Default == nil && !d.Nullable && (a.q.Mode&ModeStrict == 0 || stmt.IgnoreErr) {
				return operand{}, refuse("DEFAULT as the value of " + what + " that has no default, where the node would make one up")
			}
			o, expr, constant := a.columnDefault(&c.table.Columns[col])
			if !constant {
				row.exprs = append(row.exprs, template{}.add(expr))
				o = operand{kind: operandComputed, hole: len(row.exprs) - 1}
				row.edits = append(row.edits, edit{where[0], where[1], template{{kind: segComputed, n: o.hole}}})
			}
			return o, nil
		}
		if o, ok := f.operand(e, true); ok {
			return o, nil
		}
		o, err := computed(e, where, what)
		if err != nil {
			return o, err
		}
		return o, nil
	}
	for i, pos := range c.keys {
		col := c.table.Rule.Keys[i]
		o, err := valueOf(col, pos, "the sharding key "+c.table.Name+"."+c.table.Columns[col].Name)
		if err != nil {
			return row, err
		}
		row.key = append(row.key, o)
	}
	for i, col := range c.uniques {
		if row.unique == nil {
			row.unique = map[int]operand{}
		}
		if k := slices.Index(c.table.Rule.Keys, col); k >= 0 {
			row.unique[col] = row.key[k]
			continue
		}
		o, err := valueOf(col, c.uniquePos[i], "the unique key column "+c.table.Name+"."+c.table.Columns[col].Name)
		if err != nil {
			return row, err
		}
		row.unique[col] = o
	}
	if err := row.copiedRow(f, c, at, list); err != nil {
		return row, err
	}
	row.add(c, at, stmt.Setlist, f.shape)
	return row, nil
}

// add puts the values of added columns in front of a row's own.
func (r *plannedRow) add(c *insertColumns, at rowLayout, set bool, s *shape) {
	if len(c.added) == 0 {
		return
	}
	t := template{}
	for i, col := range c.added {
		if set {
			t = t.add("`" + strings.ReplaceAll(c.table.Columns[col].Name, "`", "``") + "`=")
		}
		switch {
		case c.pos[i] == 0:
			t = append(t, segment{kind: segID})
		case c.pos[i] < 0:
			t = append(t, segment{kind: segComputed, n: r.defaults[-c.pos[i]-1]})
		default:
			t = append(t, segment{kind: segComputed, n: r.key[c.pos[i]-1].hole})
		}
		if i < len(c.added)-1 || len(at.values) > 0 {
			t = t.add(",")
		}
	}
	if set {
		i := setToken(s)
		r.edits = append(r.edits, edit{i, i + 3, append(template{}.add("SET "), t...)})
		return
	}
	r.edits = append(r.edits, edit{at.start, at.start + 1, append(template{}.add("("), t...)})
}

// setToken is where the SET of an INSERT ... SET is.
func setToken(s *shape) int {
	for _, t := range s.toks {
		if t.depth == 0 && t.word(s.text) == "SET" {
			return t.start
		}
	}
	return 0
}

// isDefault tells whether a value is the word DEFAULT.
func isDefault(e ast.ExprNode) bool {
	d, ok := unparen(e).(*ast.DefaultExpr)
	return ok && d.Name == nil
}

// uncomputable says why a node cannot compute an expression by itself; "" when
// it can.
func uncomputable(e ast.ExprNode) string {
	v := &computable{}
	e.Accept(v)
	return v.why
}

type computable struct{ why string }

// Enter implements ast.Visitor.
func (v *computable) Enter(n ast.Node) (ast.Node, bool) {
	switch n := n.(type) {
	case *ast.ColumnNameExpr:
		v.why = "an expression with columns"
	case *ast.DefaultExpr, *ast.ValuesExpr:
		v.why = "an expression with DEFAULT() or VALUES()"
	case *ast.SubqueryExpr, *ast.ExistsSubqueryExpr:
		v.why = "a subquery"
	case *ast.VariableExpr:
		if n.Value != nil {
			v.why = "an assignment"
		}
	}
	return n, v.why != ""
}

// Leave implements ast.Visitor.
func (v *computable) Leave(n ast.Node) (ast.Node, bool) { return n, v.why == "" }
