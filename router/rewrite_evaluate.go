package router

import (
	"slices"
	"strconv"
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/opcode"

	"braid/internal/mysql"
	"braid/merge"
)

// MergedTable is the temporary table, as a text names it, that holds merged
// groups where a server evaluates expressions over them. It is in the schema in
// which copies are made, which no client names.
const MergedTable = "`braid`.`braid:merged`"

// Evaluate is what a server runs over merged groups, one row of MergedTable each
// (decision 0010). It belongs to a Route and lives as long.
type Evaluate struct {
	Text   []byte
	Params []ParamRef // of Text, for a prepared statement
	// Computed are the merged columns that are sums of computed values, where Text
	// divides: how many digits a server's quotient has hangs on how many the values
	// had, not on their type (SumDigits).
	Computed []int
	// Digits says that Text's quotients are those of the client's text only where
	// div_precision_increment is 4, as servers have it by default.
	Digits bool
	// Varies says that a parameter decides what columns the client's are.
	Varies bool
}

// SumDigits is the most decimals that a sum of computed values may have for its
// quotients to be the same whatever decimals the values had: MySQL's DECIMAL has
// nine digits to a word, and a quotient has div_precision_increment (4) more than
// its dividend, in whole words.
const SumDigits = 5

// evaluation plans a grouping with expressions over aggregates: the shards send
// what their groups add up to, the merge makes one row of each group, and a
// server works out the rest from these rows. In the text over them a column of a
// group and an aggregate are columns; their types are those that a server gives
// them when it makes a table of the shard's text.
type evaluation struct {
	grouping
	columns  []string   // the merged column that each group item is, quoted
	list     []template // the select list over the merged groups
	computed []int      // Evaluate.Computed
	exact    bool       // every AVG() of it is one of which only the value counts
	digits   bool       // Evaluate.Digits
	alone    bool       // the expression being written is an aggregate and nothing else
}

// evaluate plans a grouping whose aggregates stand in expressions. An error says
// why the merged groups do not suffice: then the rows themselves have to meet.
func (x *scatterer) evaluate(groups []item) (*scatter, *mysql.Error) {
	switch {
	case x.sel.Distinct:
		// MariaDB's answer to DISTINCT over aggregates depends on how it groups.
		return nil, refuse("DISTINCT over groups that cross shards")
	case x.f.readsViews():
		return nil, refuse("expressions over aggregates of a view over several shards")
	case len(x.f.windows) > 0 || x.f.locking || x.f.unstable != "" || len(x.f.assigns) > 0:
		return nil, refuse("an expression over aggregates that is not the same wherever it is evaluated")
	case x.sel.Having == nil && x.l.having.end > 0:
		return nil, refuse("this form of HAVING over several shards")
	}
	x.spec.Aggregate = true
	v := evaluation{grouping: grouping{scatterer: x, groups: slices.Clone(groups)}}
	if err := v.groupColumns(); err != nil {
		return nil, err
	}
	for i := range x.outputs {
		o := &x.outputs[i]
		if o.expr == nil {
			return nil, refuse("* beside aggregates over several shards")
		}
		t, err := v.over(o.at, o.expr, nil)
		if err != nil {
			return nil, err
		}
		v.list = append(v.list, t)
	}
	text, err := v.statement()
	if err != nil {
		return nil, err
	}
	return v.put(text)
}

// groupColumns has the shards send what the groups are by.
func (v *evaluation) groupColumns() *mysql.Error {
	x := v.scatterer
	// The shards' rows have columns of the plan's own only: all are hidden ones.
	x.visible = 0
	for i := range v.groups {
		it := &v.groups[i]
		it.out, it.desc = nil, false
		if it.col.ref == nil {
			columns := false
			it.expr.Accept(walk(func(n ast.Node) bool {
				_, is := n.(*ast.ColumnNameExpr)
				columns = columns || is
				return true
			}))
			if aggregated(it.expr) || !columns || it.canon == "" {
				return refuse("this form of GROUP BY over several shards")
			}
		} else if k := kindOf(&it.col.ref.table.Columns[it.col.col]); k == kindFloat || k == kindTimestamp {
			return refuse("expressions over groups by a FLOAT or TIMESTAMP over several shards") // the text of one is less than its value
		}
		if c, ok := unparen(it.expr).(*ast.ColumnNameExpr); ok && c.Name.Table.L == "" && it.col.ref != nil {
			for j := range v.outputs {
				if o := &v.outputs[j]; o.alias == c.Name.Name.L && o.col != it.col {
					return refuse("GROUP BY a name with two meanings over several shards") // a server warns of it
				}
			}
		}
		k, err := v.key(it)
		if err != nil {
			return err
		}
		v.columns = append(v.columns, quoteIdent(hiddenName(k.Col)))
	}
	return v.order(nil)
}

// statement is the text over the merged groups.
func (v *evaluation) statement() (template, *mysql.Error) {
	x := v.scatterer
	t := template{}.add("SELECT ")
	for i, o := range v.list {
		if i > 0 {
			t = t.add(", ")
		}
		t = append(t, o...)
	}
	t = t.add(" FROM " + MergedTable)
	if x.sel.Having != nil {
		toks := x.s.toks[x.l.having.first:x.l.having.last]
		if len(toks) == 0 {
			return nil, refuse("this form of HAVING over several shards")
		}
		if _, ok := unparen(x.sel.Having.Expr).(*ast.AggregateFuncExpr); ok {
			return nil, refuse("an aggregate as a condition over several shards") // of an average, all digits count
		}
		having, err := v.over([2]int{toks[0].start, toks[len(toks)-1].end}, x.sel.Having.Expr, v.alias)
		if err != nil {
			return nil, err
		}
		t = append(t.add(" WHERE "), having...)
	}
	order, err := v.orderBy()
	if err != nil {
		return nil, err
	}
	t = append(t, order...)
	if x.sel.Limit != nil {
		t = append(t.add(" "), x.s.slice(x.l.limit.start, x.l.limit.end, nil)...)
	}
	return t, nil
}

// orderBy is the ORDER BY over the merged groups, with a blank in front.
func (v *evaluation) orderBy() (template, *mysql.Error) {
	x := v.scatterer
	if x.sel.OrderBy == nil || len(v.groups) == 0 {
		return nil, nil // none, or one row
	}
	at := x.s.commaItems(x.l.order)
	if len(at) != len(x.sel.OrderBy.Items) {
		return nil, refuse("this form of ORDER BY over several shards")
	}
	var t template
	for i, by := range x.sel.OrderBy.Items {
		it, err := x.byItem(by.Expr, x.s.withoutDirection(at[i]), false)
		if err != nil {
			return nil, err
		}
		text := template{}
		if canon(by.Expr) == "NULL" {
			text = text.add("NULL")
		} else if it.out != nil {
			text = text.add(strconv.Itoa(it.out.column + 1))
		} else if names, calls, err := v.parts(by.Expr); err != nil || len(names)+calls == 0 {
			return nil, refuse("ORDER BY a constant over several shards") // MariaDB may warn of what it evaluates for it
		} else if text, err = v.over(x.s.withoutDirection(at[i]), by.Expr, v.alias); err != nil {
			return nil, err
		}
		t = append(t.add([]string{" ORDER BY ", ", "}[min(i, 1)]), text...)
		if by.Desc {
			t = t.add(" DESC")
		}
	}
	return t, nil
}

// alias is the select item over the merged groups that a name in HAVING or ORDER
// BY means; nil when it means none.
func (v *evaluation) alias(c *ast.ColumnName) (template, *mysql.Error) {
	if c.Table.L != "" {
		return nil, nil
	}
	col := v.f.resolve(v.b, c)
	var found template
	for i := range v.outputs {
		o := &v.outputs[i]
		switch {
		case o.alias != c.Name.L || o.col.ref != nil && o.col == col:
		case found != nil || col.ref != nil:
			return nil, refuse("a name in HAVING or ORDER BY with two meanings over several shards")
		case o.col.ref == nil && v.groupOf(o.col, o.canon) >= 0:
			// Servers compare a constant with a column as the column's type has it, and
			// with a computed value otherwise.
			return nil, refuse("a computed group inside of HAVING or ORDER BY over several shards")
		default:
			found = wrap("(", v.list[i], ")")
			a, ok := unparen(o.expr).(*ast.AggregateFuncExpr)
			if !ok {
				continue
			}
			var c *Column
			if p := v.f.columnOf(v.b, a.Args[0]); p.ref != nil {
				c = &p.ref.table.Columns[p.col]
			}
			var err *mysql.Error
			v.exact = false // whatever stands around the name
			if found, err = v.nested(strings.ToLower(a.F), c, found); err != nil {
				return nil, err
			}
		}
	}
	return found, nil
}

// over writes an expression of the statement as one over the merged groups. named
// gives what names stand for that are no columns; nil: nothing.
func (v *evaluation) over(at [2]int, e ast.ExprNode, named func(*ast.ColumnName) (template, *mysql.Error)) (template, *mysql.Error) {
	if i := v.groupOf(v.f.columnOf(v.b, e), canon(e)); i >= 0 && named == nil {
		return template{}.add(v.columns[i]), nil
	}
	_, v.alone = unparen(e).(*ast.AggregateFuncExpr)
	v.exact = valuedAverages(e)
	names, calls, err := v.parts(e)
	if err != nil {
		return nil, err
	}
	s := v.s
	edits := slices.Clone(v.f.bare)
	toks := s.tokensIn(at[0], at[1])
	for i := 0; i < len(toks); i++ {
		t := toks[i]
		if !t.ident() || i > 0 && (toks[i-1].is(s.text, '.') || toks[i-1].is(s.text, '@')) {
			continue
		}
		if i+1 < len(toks) && toks[i+1].is(s.text, '(') {
			if !aggregateName(t.word(s.text)) {
				continue
			}
			last := i + 2
			for last < len(toks) && !(toks[last].depth == toks[i+1].depth && toks[last].is(s.text, ')')) {
				last++
			}
			if last == len(toks) {
				return nil, refuse("this form of an aggregate over several shards")
			}
			with, err := v.aggregateOver(strings.ToLower(t.word(s.text)), toks[i+2:last])
			if err != nil {
				return nil, err
			}
			edits = append(edits, edit{t.start, toks[last].end, with})
			calls--
			i = last
			continue
		}
		c, n := columnTokens(s, toks[i:])
		if names[c.Name.L] == 0 {
			continue
		}
		names[c.Name.L]--
		var with template
		if named != nil {
			if with, err = named(c); err != nil {
				return nil, err
			}
		}
		if with == nil {
			col := v.f.resolve(v.b, c)
			g := -1
			if col.ref != nil {
				g = v.groupOf(col, "")
			}
			if g < 0 {
				return nil, refuse("columns beside aggregates over several shards")
			}
			if cut(&col.ref.table.Columns[col.col]) {
				return nil, refuse("expressions over groups by such a DECIMAL over several shards")
			}
			with = template{}.add(v.columns[g])
		}
		edits = append(edits, edit{t.start, toks[i+n-1].end, with})
		i += n - 1
	}
	for _, left := range names {
		calls += left
	}
	if calls != 0 {
		return nil, refuse("this form of an expression over aggregates over several shards")
	}
	return s.slice(at[0], at[1], sortEdits(edits)), nil
}

// cut tells whether a server that groups in a temporary table may cut what it
// computes of such a group: more digits than a DECIMAL has, or, of a column that
// has decimals only, the text, for which the 0 in front is not counted.
func cut(c *Column) bool {
	if c.DataType != "decimal" {
		return false
	}
	args := typeArguments(c.ColumnType)
	return len(args) != 2 || args[0] == args[1] || args[0] > 30
}

// nested is what an aggregate of a column, nil: of anything else, is inside of an
// expression, where t is the merged column, or columns, that it is.
func (v *evaluation) nested(name string, c *Column, t template) (template, *mysql.Error) {
	switch name {
	case "avg":
		switch {
		case v.average(c):
			return t, nil
		case v.exact && c != nil && fewDigits(c):
			// A dividend of 5 decimals has a quotient of 9: all that an average has.
			v.digits = true
			sum, count, _ := strings.Cut(strings.Trim(t.String(), "()"), "/")
			return template{}.add("(CAST(" + sum + " AS DECIMAL(65,5))/" + count + ")"), nil
		}
		return nil, refuse("expressions over this AVG() over several shards")
	case "sum":
		return t, nil
	case "bit_and", "bit_or", "bit_xor":
		if v.f.db.Flavour == MariaDB {
			return nil, refuse(signs)
		}
	case "min", "max":
		if v.f.db.Flavour == MariaDB && strings.Contains(c.ColumnType, "unsigned") && c.DataType == "bigint" {
			return nil, refuse(signs)
		}
		if strings.Contains(c.ColumnType, "zerofill") {
			// An expression's value has no zeros in front where a column's has, or the other way round.
			return nil, refuse("expressions over MIN() or MAX() of a ZEROFILL column over several shards")
		}
		switch c.DataType {
		case "time", "year":
			// MariaDB's COALESCE() of a negative TIME is a positive number; that of the year 0000 is the text 0.
			return nil, refuse("expressions over MIN() or MAX() of TIME or YEAR over several shards")
		case "decimal", "double", "char", "varchar", "binary", "varbinary":
			return t, nil
		}
	}
	// Servers compare a constant with a column as the column's type has it (YEAR > 1
	// is after 2001), and with an aggregate by its value: so this is no column.
	return wrap("COALESCE(", t, ")"), nil
}

// signs says why large unsigned aggregates are not merged for MariaDB, which takes
// them for negative where an expression wants a DOUBLE: a column is not.
const signs = "expressions over unsigned BIGINT aggregates over several shards"

// parts finds the columns, by name, and the aggregates of an expression, and
// refuses what cannot be evaluated over merged groups.
func (v *evaluation) parts(e ast.ExprNode) (names map[string]int, calls int, err *mysql.Error) {
	names = map[string]int{}
	e.Accept(walk(func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AggregateFuncExpr:
			calls++
			name := strings.ToLower(n.F)
			for _, a := range n.Args {
				if (name == "sum" || name == "avg") && hidesDigits(a) {
					err = refuse(quotients)
				}
				a.Accept(walk(func(n ast.Node) bool {
					switch n.(type) {
					case *ast.AggregateFuncExpr, *ast.SubqueryExpr:
						err = refuse("subqueries inside of aggregates over several shards")
					}
					return true
				}))
			}
			return false
		case *ast.ColumnNameExpr:
			names[n.Name.Name.L]++
		case *ast.BinaryOperationExpr:
			if divides := n.Op == opcode.Div || n.Op == opcode.IntDiv || n.Op == opcode.Mod; divides && v.warnsEarly(n.L, n.R) {
				err = refuse("quotients by an aggregate over several shards, whose dividend is not NULL over no rows")
			}
		case *ast.SubqueryExpr, *ast.ExistsSubqueryExpr, *ast.WindowFuncExpr, *ast.DefaultExpr, *ast.ValuesExpr, *ast.MatchAgainst:
			err = refuse("this in an expression over aggregates over several shards")
		}
		return err == nil
	}))
	return names, calls, err
}

func aggregateName(word string) bool {
	switch word {
	case "COUNT", "SUM", "AVG", "MIN", "MAX", "BIT_AND", "BIT_OR", "BIT_XOR":
		return true
	}
	return false
}

// columnTokens reads a name with what qualifies it, and says how many tokens it has.
func columnTokens(s *shape, toks []token) (c *ast.ColumnName, n int) {
	parts := []string{toks[0].name(s.text)}
	n = 1
	for n+1 < len(toks) && toks[n].is(s.text, '.') && toks[n+1].ident() {
		parts = append(parts, toks[n+1].name(s.text))
		n += 2
	}
	c = &ast.ColumnName{Name: ast.NewCIStr(parts[len(parts)-1])}
	if len(parts) > 1 {
		c.Table = ast.NewCIStr(parts[len(parts)-2])
	}
	return c, n
}

// aggregateOver has the shards send an aggregate, whose arguments are args, and
// writes it as an expression over the merged groups.
func (v *evaluation) aggregateOver(name string, args []token) (template, *mysql.Error) {
	s := v.s
	if len(args) > 0 {
		switch args[0].word(s.text) {
		case "ALL":
			args = args[1:]
		case "DISTINCT", "DISTINCTROW":
			return nil, refuse("expressions over DISTINCT aggregates over several shards")
		}
	}
	if len(args) == 0 {
		return nil, refuse("this form of an aggregate over several shards")
	}
	text := s.slice(args[0].start, args[len(args)-1].end, v.f.bare)
	var col *Column
	c, n := columnTokens(s, args)
	if plain := args[0].ident() && n == len(args); plain {
		if p := v.f.resolve(v.b, c); p.ref != nil {
			col = &p.ref.table.Columns[p.col]
		}
	}
	column := func(call string, kind merge.AggKind) (string, *mysql.Error) {
		whole := wrap(call+"(", text, ")")
		agg := merge.Agg{Kind: kind, Col: v.hide(whole), Weight: -1}
		if kind == merge.AggSum && col == nil {
			v.computed = append(v.computed, agg.Col)
		}
		if kind == merge.AggMin || kind == merge.AggMax {
			if err := v.extreme(&ast.ColumnNameExpr{Name: c}, whole, &agg); err != nil {
				return "", err
			}
		}
		if !slices.ContainsFunc(v.spec.Aggs, func(a merge.Agg) bool { return a.Col == agg.Col }) {
			v.spec.Aggs = append(v.spec.Aggs, agg)
		}
		return quoteIdent(hiddenName(agg.Col)), nil
	}
	kind, ok := map[string]merge.AggKind{"count": merge.AggCount, "sum": merge.AggSum, "min": merge.AggMin, "max": merge.AggMax,
		"bit_and": merge.AggBitAnd, "bit_or": merge.AggBitOr, "bit_xor": merge.AggBitXor}[name]
	switch name {
	case "min", "max":
		if col == nil || kindOf(col) != kindNumber && kindOf(col) != kindText && kindOf(col) != kindBinary {
			return nil, refuse("expressions over MIN() or MAX() of this over several shards")
		}
	case "avg":
		if col != nil && !summed(col) {
			return nil, refuse("expressions over AVG() of this over several shards")
		}
		sum, err := column("SUM", merge.AggSum)
		if err != nil {
			return nil, err
		}
		count, err := column("COUNT", merge.AggCount)
		if err != nil {
			return nil, err
		}
		return v.written(name, col, template{}.add("("+sum+"/"+count+")"))
	case "sum", "bit_and", "bit_or", "bit_xor":
		if col != nil && !summed(col) {
			return nil, refuse("expressions over " + strings.ToUpper(name) + "() of this over several shards")
		}
	}
	if !ok {
		return nil, refuse(strings.ToUpper(name) + "() in an expression over several shards")
	}
	one, err := column(strings.ToUpper(name), kind)
	if err != nil {
		return nil, err
	}
	return v.written(name, col, template{}.add(one))
}

// written is an aggregate as the expression being written has it.
func (v *evaluation) written(name string, c *Column, t template) (template, *mysql.Error) {
	if v.alone {
		return t, nil
	}
	return v.nested(name, c, t)
}

// summed tells whether the column is a number that aggregates take as it is.
func summed(c *Column) bool {
	switch c.DataType {
	case "tinyint", "smallint", "mediumint", "int", "bigint", "decimal", "float", "double":
		return true
	}
	return false
}

// put makes the scatter: the shards' text, and the one over what is merged of it.
func (v *evaluation) put(over template) (*scatter, *mysql.Error) {
	x := v.scatterer
	list, by := template{}, template{}
	for i, h := range x.hidden {
		if i > 0 {
			list = list.add(", ")
		}
		list = append(list, h...).add(" AS " + quoteIdent(hiddenName(i)))
	}
	for i := range v.groups {
		by = append(by.add([]string{"GROUP BY ", ", "}[min(i, 1)]), v.groups[i].text...)
	}
	edits := []edit{{x.l.list.start, x.l.list.end, list}}
	for _, c := range []clause{x.l.having, x.l.limit} {
		if c.end > 0 {
			edits = append(edits, edit{c.start, c.end, nil})
		}
	}
	if x.l.group.end > 0 {
		edits = append(edits, edit{x.l.group.start, x.l.group.end, by})
	}
	order := template{}
	if len(v.ordered) > 0 {
		order = wrap("ORDER BY ", v.ordered, "")
	}
	switch {
	case x.l.order.end > 0:
		edits = append(edits, edit{x.l.order.start, x.l.order.end, order})
	case len(order) > 0:
		edits = append(edits, edit{x.l.order.at, x.l.order.at, wrap(" ", order, "")})
	}
	varies := false
	x.sel.Fields.Accept(walk(func(n ast.Node) bool {
		_, param := n.(ast.ParamMarkerExpr)
		varies = varies || param
		return true
	}))
	all := sortEdits(append(slices.Clone(x.f.bare), edits...))
	if !strings.Contains(over.String(), "/") {
		v.computed = nil
	}
	return &scatter{digits: v.digits || len(v.computed) > 0, computed: v.computed, text: x.s.slice(0, x.l.end, all), spec: x.spec, limit: limitClause{count: -1, offset: -1}, over: over, varies: varies}, nil
}
