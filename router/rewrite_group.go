package router

import (
	"slices"
	"strconv"
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"

	"braid/internal/mysql"
	"braid/merge"
)

// aggregate plans a grouping whose groups may cross shards.
func (x *scatterer) aggregate(groups []item, limit limitClause) (*scatter, *mysql.Error) {
	switch {
	case x.sel.Distinct:
		return nil, refuse("DISTINCT over groups that cross shards")
	case len(x.f.windows) > 0:
		return nil, refuse("window functions over groups that cross shards")
	}
	for i := range groups {
		if aggregated(groups[i].expr) {
			return nil, refuse("aggregates in GROUP BY") // the server's error
		}
	}
	x.spec.Aggregate = true
	g := grouping{scatterer: x, groups: groups}
	for i := range x.outputs {
		if err := g.output(&x.outputs[i]); err != nil {
			return nil, err
		}
	}
	if err := g.having(); err != nil {
		return nil, err
	}
	order, err := x.orders()
	if err != nil {
		return nil, err
	}
	if len(groups) == 0 {
		order = nil // one row
	}
	if err := g.order(order); err != nil {
		return nil, err
	}
	return g.finish(limit)
}

// grouping is the state of planning one.
type grouping struct {
	*scatterer
	groups   []item
	distinct []item      // what DISTINCT aggregates look at: the shards group by it too
	keys     []merge.Key // of distinct
	ordered  template    // the shards' ORDER BY
}

// output plans one column of the select list.
func (g *grouping) output(o *output) *mysql.Error {
	if o.expr == nil {
		if len(g.groups) == 0 {
			return refuse("columns beside aggregates over several shards")
		}
		return nil
	}
	if a, ok := unparen(o.expr).(*ast.AggregateFuncExpr); ok {
		return g.aggregateColumn(a, o.at, o.column)
	}
	return g.ungrouped(o.expr)
}

// ungrouped checks an expression that is no aggregate: any row of the group may give its value.
func (g *grouping) ungrouped(e ast.ExprNode) *mysql.Error {
	aggregate, subquery, col := false, false, false
	e.Accept(walk(func(n ast.Node) bool {
		switch n.(type) {
		case *ast.AggregateFuncExpr:
			aggregate = true
		case *ast.SubqueryExpr:
			subquery = true
		case *ast.ColumnNameExpr:
			col = true
		}
		return true
	}))
	switch {
	case aggregate:
		return refuse("expressions over aggregates over several shards")
	case subquery:
		return refuse("subqueries beside aggregates over several shards")
	case col && len(g.groups) == 0:
		return refuse("columns beside aggregates over several shards")
	}
	return nil
}

// aggregateColumn plans an aggregate that is column col of the shards' rows.
func (g *grouping) aggregateColumn(a *ast.AggregateFuncExpr, at [2]int, col int) *mysql.Error {
	name := strings.ToLower(a.F)
	for _, arg := range a.Args {
		bad := false
		arg.Accept(walk(func(n ast.Node) bool {
			switch n.(type) {
			case *ast.AggregateFuncExpr, *ast.SubqueryExpr:
				bad = true
			}
			return true
		}))
		if bad {
			return refuse("subqueries inside of aggregates over several shards")
		}
	}
	if (name == "sum" || name == "avg") && len(a.Args) == 1 && hidesDigits(a.Args[0]) {
		return refuse(quotients)
	}
	agg := merge.Agg{Col: col, Weight: -1}
	switch name {
	case "count":
		agg.Kind = merge.AggCount
	case "sum":
		agg.Kind = merge.AggSum
	case "avg":
		agg.Kind = merge.AggAvg
	case "min", "max":
		agg.Kind = merge.AggMin
		if name == "max" {
			agg.Kind = merge.AggMax
		}
	case "bit_and":
		agg.Kind = merge.AggBitAnd
	case "bit_or":
		agg.Kind = merge.AggBitOr
	case "bit_xor":
		agg.Kind = merge.AggBitXor
	default:
		return refuse(strings.ToUpper(name) + "() over several shards")
	}
	args, whole, ok := g.arguments(at)
	if !ok {
		return refuse("this form of " + strings.ToUpper(name) + "() over several shards")
	}
	if a.Distinct && (name == "count" || name == "sum" || name == "avg") {
		return g.distinctColumn(a, name, args, agg)
	}
	switch name {
	case "avg":
		agg.SumCol = g.hide(wrap("SUM(", args, ")"))
		agg.CountCol = g.hide(wrap("COUNT(", args, ")"))
	case "min", "max":
		if err := g.extreme(a.Args[0], whole, &agg); err != nil {
			return err
		}
	}
	g.spec.Aggs = append(g.spec.Aggs, agg)
	return nil
}

// extreme says how MIN or MAX of an expression compares (rules M1, M2).
func (g *grouping) extreme(e ast.ExprNode, whole template, agg *merge.Agg) *mysql.Error {
	c := g.f.columnOf(g.b, e)
	collation := ""
	if c.ref != nil {
		col := &c.ref.table.Columns[c.col]
		switch kindOf(col) {
		case kindNumber, kindBinary, kindFloat, kindTimestamp:
			return nil
		case kindMember:
			if col.DataType == "bit" {
				return nil
			}
		case kindOther:
			return refuse("MIN() or MAX() of a " + strings.ToUpper(col.DataType) + " column over several shards")
		}
		collation = col.Collation
	} else {
		if g.unsorted(e) {
			return refuse("MIN() or MAX() of a JSON, TEXT, BLOB or geometry value over several shards")
		}
		collation = g.collation(e)
	}
	agg.Weight = g.hide(wrap("CAST(WEIGHT_STRING(", whole, ") AS BINARY)"))
	agg.Pad = merge.PaddingOf(collation)
	return nil
}

// arguments is the text between an aggregate's parentheses, without DISTINCT
// or ALL, and the aggregate's whole text.
func (g *grouping) arguments(at [2]int) (args, whole template, ok bool) {
	toks := g.s.tokensIn(at[0], at[1])
	for len(toks) > 0 && toks[0].is(g.s.text, '(') { // parentheses around the aggregate
		toks = toks[1 : len(toks)-1]
	}
	n := len(toks)
	if n < 4 || toks[0].kind != tokWord || !toks[1].is(g.s.text, '(') || !toks[n-1].is(g.s.text, ')') {
		return nil, nil, false
	}
	first := 2
	for first < n-1 {
		if w := toks[first].word(g.s.text); w != "DISTINCT" && w != "ALL" && w != "DISTINCTROW" {
			break
		}
		first++
	}
	if first == n-1 {
		return nil, nil, false
	}
	return g.s.slice(toks[first].start, toks[n-2].end, g.f.bare), g.s.slice(toks[0].start, toks[n-1].end, g.f.bare), true
}

// distinctColumn plans COUNT, SUM or AVG of different values.
func (g *grouping) distinctColumn(a *ast.AggregateFuncExpr, name string, args template, agg merge.Agg) *mysql.Error {
	if len(a.Args) != 1 {
		return refuse("COUNT(DISTINCT) of several expressions over several shards")
	}
	if len(g.groups) == 0 && len(g.outputs) > 0 {
		for i := range g.outputs {
			if o := &g.outputs[i]; o.expr != nil {
				if _, ok := unparen(o.expr).(*ast.AggregateFuncExpr); !ok {
					return refuse("values beside DISTINCT aggregates over several shards")
				}
			}
		}
	} else if !g.onlyGroupColumns() {
		return refuse("ungrouped columns beside DISTINCT aggregates over several shards")
	}
	e := unparen(a.Args[0])
	it := item{expr: e, col: g.f.columnOf(g.b, e), text: args, canon: canon(e)}
	if len(g.distinct) == 0 {
		k, err := g.key(&it)
		if err != nil {
			return err
		}
		g.distinct, g.keys = []item{it}, []merge.Key{k}
	} else if g.distinct[0].canon != it.canon {
		return refuse("DISTINCT aggregates of different expressions over several shards")
	}
	agg.Distinct = g.keys
	switch name {
	case "count":
		agg.Kind = merge.AggCountDistinct
	case "sum":
		agg.Kind = merge.AggSumDistinct
		agg.SumCol = agg.Col
	case "avg":
		agg.Kind = merge.AggAvgDistinct
		agg.SumCol = g.hide(wrap("SUM(DISTINCT ", args, ")"))
	}
	g.spec.Aggs = append(g.spec.Aggs, agg)
	return nil
}

// onlyGroupColumns tells whether everything beside the aggregates is a group
// item: then grouping the shards' rows further hides no error of the server's.
func (g *grouping) onlyGroupColumns() bool {
	for i := range g.outputs {
		o := &g.outputs[i]
		if o.expr != nil {
			if _, ok := unparen(o.expr).(*ast.AggregateFuncExpr); ok {
				continue
			}
		}
		if g.groupOf(o.col, o.canon) < 0 {
			return false
		}
	}
	return true
}

// groupOf finds the group item that a column or expression is, -1 when none.
func (g *grouping) groupOf(c place, canon string) int {
	for i := range g.groups {
		it := &g.groups[i]
		if c.ref != nil && it.col == c || c.ref == nil && canon != "" && it.canon == canon {
			return i
		}
	}
	return -1
}

// having allows a condition on the groups' columns only: each shard can check it.
func (g *grouping) having() *mysql.Error {
	if g.sel.Having == nil {
		return nil
	}
	ok := true
	g.sel.Having.Expr.Accept(walk(func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AggregateFuncExpr, *ast.SubqueryExpr:
			ok = false
		case *ast.ColumnNameExpr:
			if !g.groupName(n) {
				ok = false
			}
		}
		return ok
	}))
	if !ok || len(g.groups) == 0 {
		return refuse("HAVING over aggregates over several shards")
	}
	return nil
}

// groupName tells whether a name in HAVING is a group item's.
func (g *grouping) groupName(n *ast.ColumnNameExpr) bool {
	col := g.f.resolve(g.b, n.Name)
	for i := range g.outputs {
		o := &g.outputs[i]
		if n.Name.Table.L == "" && o.alias == n.Name.Name.L && g.groupOf(o.col, o.canon) < 0 {
			return false
		}
		if n.Name.Table.L == "" && o.alias == n.Name.Name.L && col.ref == nil {
			return true
		}
	}
	return col.ref != nil && g.groupOf(col, "") >= 0
}

// order plans ORDER BY: by the groups where it can be, else a sort of the merged rows.
func (g *grouping) order(items []item) *mysql.Error {
	used := make([]bool, len(g.groups))
	var stream []merge.Key
	add := func(i int, desc bool) *mysql.Error {
		if used[i] {
			return nil
		}
		used[i] = true
		it := g.groups[i]
		it.desc = desc
		k, err := g.key(&it)
		if err != nil {
			return err
		}
		stream, g.scatterer.sorted = append(stream, k), append(g.scatterer.sorted, it)
		g.by(it.orderText(), desc)
		return nil
	}
	sorted := false
	for i := range items {
		j := g.groupOf(items[i].col, items[i].canon)
		if j < 0 {
			sorted = true
			break
		}
	}
	if !sorted {
		for i := range items {
			if err := add(g.groupOf(items[i].col, items[i].canon), items[i].desc); err != nil {
				return err
			}
		}
	}
	for i := range g.groups {
		if err := add(i, false); err != nil {
			return err
		}
	}
	g.spec.Order = stream
	for _, k := range stream {
		k.Desc = false
		g.spec.Group = append(g.spec.Group, k)
	}
	for i := 0; sorted && i < len(items); i++ {
		k, err := g.sortKey(&items[i]) // which may be the first to look at distinct values
		if err != nil {
			return err
		}
		g.spec.Sort = append(g.spec.Sort, k)
	}
	for i := range g.distinct {
		g.spec.Order = append(g.spec.Order, g.keys[i])
		g.by(g.distinct[i].text, false)
	}
	return nil
}

// by adds a column to the shards' ORDER BY.
func (g *grouping) by(t template, desc bool) {
	if len(g.ordered) > 0 {
		g.ordered = g.ordered.add(", ")
	}
	g.ordered = append(g.ordered, t...)
	if desc {
		g.ordered = g.ordered.add(" DESC")
	}
}

// sortKey is a key of the sort of the merged rows.
func (g *grouping) sortKey(it *item) (merge.Key, *mysql.Error) {
	if j := g.groupOf(it.col, it.canon); j >= 0 {
		group := g.groups[j]
		group.desc = it.desc
		return g.key(&group)
	}
	a, ok := unparen(it.expr).(*ast.AggregateFuncExpr)
	if it.expr == nil || !ok {
		if it.expr != nil {
			if err := g.ungrouped(it.expr); err != nil {
				return merge.Key{}, err
			}
		}
		return merge.Key{}, refuse("ORDER BY ungrouped columns over several shards")
	}
	k := merge.Key{Weight: -1, NumericCol: -1, Desc: it.desc}
	if len(a.Args) == 1 && (a.F == "min" || a.F == "max" || a.F == "MIN" || a.F == "MAX") {
		c := g.f.columnOf(g.b, a.Args[0])
		if c.ref == nil || kindOf(&c.ref.table.Columns[c.col]) != kindNumber && kindOf(&c.ref.table.Columns[c.col]) != kindBinary {
			return k, refuse("ORDER BY MIN() or MAX() of other than a number or date column over several shards")
		}
	}
	if it.out != nil {
		k.Col = it.out.column
		return k, nil
	}
	before := len(g.hidden)
	k.Col = g.hide(it.text)
	if len(g.hidden) == before {
		return k, nil
	}
	return k, g.hiddenAggregate(a, it.text, k.Col)
}

// hiddenAggregate plans an aggregate that only ORDER BY looks at.
func (g *grouping) hiddenAggregate(a *ast.AggregateFuncExpr, text template, col int) *mysql.Error {
	for _, by := range g.sel.OrderBy.Items {
		if unparen(by.Expr) == ast.ExprNode(a) {
			at := g.s.commaItems(g.l.order)
			for i := range g.sel.OrderBy.Items {
				if g.sel.OrderBy.Items[i] == by {
					return g.aggregateColumn(a, g.s.withoutDirection(at[i]), col)
				}
			}
		}
	}
	return refuse("ORDER BY this aggregate over several shards")
}

// nullGroups are what a shard groups by beside expressions that it sorts downwards.
// MariaDB 10.11 does not see that a DECIMAL's group ends where NULL follows, when
// an aggregate has DISTINCT.
func (g *grouping) nullGroups() template {
	var out template
	if g.f.db.Flavour != MariaDB || !slices.ContainsFunc(g.spec.Order, func(k merge.Key) bool { return k.Desc }) {
		return nil
	}
	for i := range g.groups {
		if it := &g.groups[i]; it.col.ref == nil {
			out = append(out, wrap(", (", it.text, ") IS NULL")...)
		}
	}
	return out
}

// finish puts the grouping's text together.
func (g *grouping) finish(limit limitClause) (*scatter, *mysql.Error) {
	var edits []edit
	if len(g.distinct) > 0 {
		by := template{}.add(", ")
		at := g.l.group.end
		if len(g.groups) == 0 {
			by, at = template{}.add(" GROUP BY "), g.l.group.at
		}
		by = append(append(by, g.distinct[0].text...), g.nullGroups()...)
		edits = append(edits, edit{at, at, by})
	}
	if len(g.distinct) > 0 && len(g.groups) == 0 {
		return g.finishOneRow(edits, limit)
	}
	if len(g.ordered) > 0 {
		t := wrap("ORDER BY ", g.ordered, "")
		if g.l.order.end > 0 {
			edits = append(edits, edit{g.l.order.start, g.l.order.end, t})
		} else {
			edits = append(edits, edit{g.l.order.at, g.l.order.at, wrap(" ", t, "")})
		}
	}
	push := len(g.groups) > 0 && len(g.spec.Sort) == 0 && len(g.distinct) == 0
	sc, err := g.finishWith(limit, push, edits)
	if sc != nil {
		sc.described = sc.described || len(g.distinct) > 0
	}
	return sc, err
}

// finishOneRow puts together the text of DISTINCT aggregates without GROUP BY.
// Grouped by the distinct values a shard without rows would send none; so each
// sends one row more, of nothing: what the aggregates are over no rows.
func (g *grouping) finishOneRow(edits []edit, limit limitClause) (*scatter, *mysql.Error) {
	if g.f.locking {
		return nil, refuse("locking reads with DISTINCT aggregates over several shards")
	}
	k := g.keys[0]
	by := k.Col
	if k.NumericCol >= 0 {
		by = k.NumericCol
	}
	if g.l.order.end > 0 {
		edits = append(edits, edit{g.l.order.start, g.l.order.end, nil})
	}
	end := g.l.end
	nothing := append(template{}.add(") UNION ALL (SELECT "), g.s.slice(g.l.list.start, g.l.list.end, g.base)...)
	for i, h := range g.hidden {
		nothing = nothing.add(", ")
		if c := g.visible + i; c == k.Col || c == k.Weight || c == k.NumericCol {
			nothing = nothing.add("NULL")
		} else {
			nothing = append(nothing, h...)
		}
	}
	nothing = append(nothing.add(" "), g.s.slice(g.l.from.start, g.l.from.end, g.base)...)
	nothing = nothing.add(" WHERE FALSE) ORDER BY `braid:" + strconv.Itoa(by-g.visible) + "`")
	edits = append(edits, edit{0, 0, template{}.add("(")}, edit{end, len(g.s.text), nothing})
	sc, err := g.finishWith(limit, false, edits)
	if sc != nil {
		sc.described = true
	}
	return sc, err
}

// distinct plans SELECT DISTINCT: equal rows of all shards become one.
func (x *scatterer) distinct(limit limitClause) (*scatter, *mysql.Error) {
	order, err := x.orders()
	if err != nil {
		return nil, err
	}
	used := make([]bool, len(x.outputs))
	var by template
	add := func(o *output, desc bool) *mysql.Error {
		if used[o.column] {
			return nil
		}
		used[o.column] = true
		it := x.outputItem(o)
		it.desc = desc
		k, err := x.key(&it)
		if err != nil {
			return err
		}
		x.spec.Order, x.sorted = append(x.spec.Order, k), append(x.sorted, it)
		if len(by) > 0 {
			by = by.add(", ")
		}
		by = append(by, it.orderText()...)
		if desc {
			by = by.add(" DESC")
		}
		return nil
	}
	for i := range order {
		if order[i].out == nil {
			return nil, refuse("SELECT DISTINCT with ORDER BY another column over several shards")
		}
		if err := add(order[i].out, order[i].desc); err != nil {
			return nil, err
		}
	}
	for i := range x.outputs {
		if err := add(&x.outputs[i], false); err != nil {
			return nil, err
		}
	}
	push := true
	for _, k := range x.spec.Order {
		// The shard tells values apart that differ in trailing spaces only (rule M3).
		push = push && k.Pad.Mode != merge.PadSpace
		k.Desc = false
		x.spec.Group = append(x.spec.Group, k)
	}
	var edits []edit
	if x.l.order.end > 0 {
		edits = append(edits, edit{x.l.order.start, x.l.order.end, wrap("ORDER BY ", by, "")})
	} else {
		edits = append(edits, edit{x.l.order.at, x.l.order.at, wrap(" ORDER BY ", by, "")})
	}
	return x.finishWith(limit, push, edits)
}
