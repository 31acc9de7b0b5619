package router

import (
	"strconv"
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"

	"braid/internal/mysql"
	"braid/merge"
)

// scatter is a SELECT over several shards: the text each gets and how their
// rows become the client's.
type scatter struct {
	text  template
	spec  merge.Spec
	limit limitClause
	plain bool   // the text is the client's own
	pages *paged // how a node's shards are read in pages; nil: they are not
	// described: the shards' column definitions are not those of the client's text
	described bool
	// over is what a server runs over the merged groups, nil: they are the client's.
	over     template
	varies   bool  // Evaluate.Varies
	computed []int // Evaluate.Computed
	digits   bool  // Evaluate.Digits
}

// limitClause is a statement's LIMIT.
type limitClause struct {
	set           bool
	count, offset int // holes; offset is -1 when there is none
}

// output is one column of the result.
type output struct {
	expr   ast.ExprNode // nil: a column of a *
	col    place        // the column that it is, when it is nothing else
	alias  string       // lower case; the name that ORDER BY can use
	at     [2]int       // the expression's text
	column int          // index in the result
	canon  string
}

// item is one item of ORDER BY, GROUP BY or DISTINCT, resolved to an expression.
type item struct {
	expr  ast.ExprNode
	col   place
	text  template
	out   *output // the output that it is, or nil
	desc  bool
	canon string
}

// orderText is how a shard's ORDER BY names the item. An output that is no
// column goes by its position: a literal's own text would be one.
func (it *item) orderText() template {
	if it.out != nil && it.col.ref == nil {
		return template{}.add(strconv.Itoa(it.out.column + 1))
	}
	return it.text
}

// scatterer builds a scatter.
type scatterer struct {
	f       *found
	s       *shape
	b       *block
	sel     *ast.SelectStmt
	l       layout
	base    []edit
	outputs []output
	visible int
	hidden  []template
	spec    merge.Spec
	sorted  []item // the items of spec.Order
	grouped bool   // the statement has aggregates or GROUP BY
}

// aggregated tells whether an expression has an aggregate or a window function in it.
func aggregated(e ast.ExprNode) bool {
	found := false
	e.Accept(walk(func(n ast.Node) bool {
		switch n.(type) {
		case *ast.AggregateFuncExpr, *ast.WindowFuncExpr:
			found = true
		}
		return !found
	}))
	return found
}

// newScatter plans the SELECT over several shards. The error says why it cannot be done.
func newScatter(f *found, sel *ast.SelectStmt, r *ref, base []edit) (*scatter, *mysql.Error) {
	b := f.owner[sel]
	l, ok := layoutOf(f.shape, sel)
	switch {
	case !ok:
		return nil, refuse("this form of statement over several shards")
	case l.into:
		return nil, refuse("SELECT ... INTO over several shards")
	case len(f.assigns) > len(f.shape.vars):
		return nil, refuse("assigning user variables in a statement over several shards")
	case f.foreign:
		return nil, refuse("an aggregate in a subquery over rows of the query around it, over several shards")
	case sel.CalcFoundRows && (sel.Distinct || sel.GroupBy != nil || len(f.aggregates[b]) > 0):
		return nil, refuse("SQL_CALC_FOUND_ROWS of a grouped or DISTINCT statement over several shards")
	case sel.GroupBy != nil && sel.GroupBy.Rollup:
		return nil, refuse("WITH ROLLUP over several shards")
	}
	x := &scatterer{f: f, s: f.shape, b: b, sel: sel, l: l, base: base}
	if err := x.windows(r); err != nil {
		return nil, err
	}
	limit, ok := x.limit()
	if !ok {
		return nil, refuse("this form of LIMIT over several shards")
	}
	aggregates := f.aggregates[b]
	if len(aggregates) == 0 && sel.GroupBy == nil && !sel.Distinct && sel.OrderBy == nil {
		return x.finish(limit, true)
	}
	if err := x.readOutputs(); err != nil {
		return nil, err
	}
	if len(aggregates) > 0 || sel.GroupBy != nil {
		x.grouped = true
		groups, err := x.groups()
		if err != nil {
			return nil, err
		}
		if !x.groupsOnOneShard(groups, r) {
			again := *x
			sc, why := x.aggregate(groups, limit)
			if why == nil {
				return sc, nil
			}
			if sc, err := again.evaluate(groups); err == nil {
				return sc, nil
			}
			return nil, why
		}
	}
	if sel.Distinct {
		return x.distinct(limit)
	}
	order, err := x.orders()
	if err != nil {
		return nil, err
	}
	for i := range order {
		k, err := x.key(&order[i])
		if err != nil {
			return nil, err
		}
		x.spec.Order, x.sorted = append(x.spec.Order, k), append(x.sorted, order[i])
	}
	return x.finish(limit, true)
}

// limit reads the LIMIT clause.
func (x *scatterer) limit() (limitClause, bool) {
	l := limitClause{count: -1, offset: -1}
	if x.sel.Limit == nil {
		return l, true
	}
	l.set = true
	if l.count = x.s.hole(x.sel.Limit.Count); l.count < 0 {
		return l, false
	}
	if x.sel.Limit.Offset != nil {
		if l.offset = x.s.hole(x.sel.Limit.Offset); l.offset < 0 {
			return l, false
		}
	}
	return l, true
}

// windows refuses window functions whose windows cross shards.
func (x *scatterer) windows(r *ref) *mysql.Error {
	if len(x.f.windows) > 0 && len(x.sel.WindowSpecs) > 0 {
		return refuse("named windows over several shards")
	}
	for _, w := range x.f.windows {
		var cols []place
		if w.Spec.PartitionBy != nil {
			for _, p := range w.Spec.PartitionBy.Items {
				// A column that an outer join null-extends is NULL on every shard.
				if c := x.f.columnOf(x.b, p.Expr); !x.b.nullExtends(c.ref) {
					cols = append(cols, c)
				}
			}
		}
		if !x.coverKey(cols, r) {
			return refuse("window functions over several shards, not partitioned by the sharding key")
		}
	}
	return nil
}

// coverKey tells whether the columns hold the ref's whole sharding key.
func (x *scatterer) coverKey(cols []place, r *ref) bool {
	for _, k := range r.table.Rule.Keys {
		found := false
		for _, c := range cols {
			found = found || c.ref != nil && c.ref.block == x.b && x.b.root(c) == x.b.root(place{r, k})
		}
		if !found {
			return false
		}
	}
	return true
}

func (x *scatterer) groupsOnOneShard(groups []item, r *ref) bool {
	cols := make([]place, 0, len(groups))
	for i := range groups {
		cols = append(cols, groups[i].col)
	}
	// A key that an outer join null-extends is NULL on every shard.
	if x.b.nullExtends(r) {
		return false
	}
	for _, c := range cols {
		if x.b.nullExtends(c.ref) {
			return false
		}
	}
	return len(groups) > 0 && x.coverKey(cols, r)
}

// readOutputs lists the columns of the result, each * expanded.
func (x *scatterer) readOutputs() *mysql.Error {
	n := 0
	for i, f := range x.sel.Fields.Fields {
		if f.WildCard != nil {
			if x.b.derived > 0 {
				return refuse("* of a derived table in an ordered or grouped statement over several shards")
			}
			if x.b.using > 0 && f.WildCard.Table.L == "" {
				return refuse("* over USING or NATURAL JOIN in an ordered or grouped statement over several shards")
			}
			for _, r := range x.b.refs {
				if f.WildCard.Table.L != "" && !strings.EqualFold(r.name, f.WildCard.Table.O) {
					continue
				}
				for c := range r.table.Columns {
					col := &r.table.Columns[c]
					if hasWord(strings.ToUpper(col.Extra), "INVISIBLE") {
						continue
					}
					x.outputs = append(x.outputs, output{col: place{r, c}, alias: strings.ToLower(col.Name), column: n, canon: ""})
					n++
				}
			}
			continue
		}
		o := output{expr: f.Expr, col: x.f.columnOf(x.b, f.Expr), alias: f.AsName.L, column: n, canon: canon(f.Expr)}
		o.at = x.s.withoutAlias(x.l.fields[i], f)
		if c, ok := unparen(f.Expr).(*ast.ColumnNameExpr); ok && o.alias == "" {
			o.alias = c.Name.Name.L
		}
		x.outputs = append(x.outputs, o)
		n++
	}
	x.visible = n
	return nil
}

// columnText is how a column is written in a text of this block.
func columnText(c place) template {
	return template{}.add(quoteIdent(c.ref.name) + "." + quoteIdent(c.ref.table.Columns[c.col].Name))
}

func quoteIdent(s string) string { return "`" + strings.ReplaceAll(s, "`", "``") + "`" }

// outputItem is the item that an output stands for.
func (x *scatterer) outputItem(o *output) item {
	it := item{expr: o.expr, col: o.col, out: o, canon: o.canon}
	if o.expr == nil {
		it.text = columnText(o.col)
	} else {
		it.text = x.s.slice(o.at[0], o.at[1], x.f.bare)
	}
	return it
}

// byItem resolves one item of ORDER BY (or GROUP BY, where a column goes before an alias).
func (x *scatterer) byItem(e ast.ExprNode, at [2]int, group bool) (item, *mysql.Error) {
	if p, ok := e.(*ast.PositionExpr); ok {
		if p.P != nil {
			return item{}, refuse("a parameter in ORDER BY or GROUP BY over several shards")
		}
		if p.N < 1 || p.N > len(x.outputs) {
			where := "order clause"
			if group {
				where = "group statement"
			}
			return item{}, mysql.Errorf(1054, "Unknown column '%d' in '%s'", p.N, where)
		}
		return x.outputItem(&x.outputs[p.N-1]), nil
	}
	c, plain := unparen(e).(*ast.ColumnNameExpr)
	if plain {
		col := x.f.resolve(x.b, c.Name)
		var named *output
		if c.Name.Table.L == "" {
			for i := range x.outputs {
				if x.outputs[i].alias == c.Name.Name.L {
					if named != nil && (named.col != x.outputs[i].col || named.col.ref == nil) {
						return item{}, mysql.Errorf(1052, "Column '%s' in %s is ambiguous", c.Name.Name.O, map[bool]string{false: "order clause", true: "group statement"}[group])
					}
					if named == nil {
						named = &x.outputs[i]
					}
				}
			}
		}
		if named != nil && (!group || col.ref == nil) {
			return x.outputItem(named), nil
		}
		if col.ref == nil || col.ref.block != x.b {
			return item{}, refuse("ORDER BY or GROUP BY a column that is not of the statement's tables, over several shards")
		}
		it := item{expr: e, col: col, text: columnText(col), canon: canon(e)}
		for i := range x.outputs {
			if x.outputs[i].col == col {
				it.out = &x.outputs[i]
				break
			}
		}
		return it, nil
	}
	edits, err := x.aliasEdits(e, at)
	if err != nil {
		return item{}, err
	}
	it := item{expr: e, text: x.s.slice(at[0], at[1], sortEdits(append(edits, x.f.bare...))), canon: canon(e)}
	for i := range x.outputs {
		if it.canon != "" && x.outputs[i].canon == it.canon {
			it.out = &x.outputs[i]
		}
	}
	return it, nil
}

// aliasEdits replaces aliases inside of an expression by what they stand for:
// a select list cannot use its own aliases.
func (x *scatterer) aliasEdits(e ast.ExprNode, at [2]int) ([]edit, *mysql.Error) {
	var edits []edit
	var err *mysql.Error
	e.Accept(walk(func(n ast.Node) bool {
		c, ok := n.(*ast.ColumnNameExpr)
		if !ok || c.Name.Table.L != "" {
			return true
		}
		var named *output
		for i := range x.outputs {
			if x.outputs[i].alias == c.Name.Name.L && x.outputs[i].expr != nil {
				named = &x.outputs[i]
			}
		}
		if named == nil {
			return true
		}
		col := x.f.resolve(x.b, c.Name)
		if col.ref != nil {
			if named.col != col {
				err = refuse("an alias that hides a column inside of an expression over several shards")
			}
			return true
		}
		toks := x.s.tokensIn(at[0], at[1])
		for i, t := range toks {
			if t.ident() && strings.EqualFold(t.name(x.s.text), c.Name.Name.O) && (i == 0 || !toks[i-1].is(x.s.text, '.')) {
				with := append(template{}.add("("), x.s.slice(named.at[0], named.at[1], x.f.bare)...)
				edits = append(edits, edit{t.start, t.end, with.add(")")})
			}
		}
		return true
	}))
	return edits, err
}

// orders resolves the ORDER BY clause.
func (x *scatterer) orders() ([]item, *mysql.Error) {
	if x.sel.OrderBy == nil {
		return nil, nil
	}
	at := x.s.commaItems(x.l.order)
	if len(at) != len(x.sel.OrderBy.Items) {
		return nil, refuse("this form of ORDER BY over several shards")
	}
	var out []item
	for i, by := range x.sel.OrderBy.Items {
		if canon(by.Expr) == "NULL" {
			continue // ORDER BY NULL: no order
		}
		it, err := x.byItem(by.Expr, x.s.withoutDirection(at[i]), false)
		if err != nil {
			return nil, err
		}
		it.desc = by.Desc
		out = append(out, it)
	}
	return out, nil
}

// groups resolves the GROUP BY clause.
func (x *scatterer) groups() ([]item, *mysql.Error) {
	if x.sel.GroupBy == nil {
		return nil, nil
	}
	at := x.s.commaItems(x.l.group)
	if len(at) != len(x.sel.GroupBy.Items) {
		return nil, refuse("this form of GROUP BY over several shards")
	}
	var out []item
	for i, by := range x.sel.GroupBy.Items {
		it, err := x.byItem(by.Expr, x.s.withoutDirection(at[i]), true)
		if err != nil {
			return nil, err
		}
		out = append(out, it)
	}
	return out, nil
}

// hide adds a hidden column, or finds the one of the same text, and returns its index.
func (x *scatterer) hide(t template) int {
	text := t.String()
	for i, h := range x.hidden {
		if h.String() == text {
			return x.visible + i
		}
	}
	x.hidden = append(x.hidden, t)
	return x.visible + len(x.hidden) - 1
}

func wrap(before string, t template, after string) template {
	return append(template{}.add(before), t...).add(after)
}

// key makes an item a sort or group key (rule M1).
func (x *scatterer) key(it *item) (merge.Key, *mysql.Error) {
	k := merge.Key{Weight: -1, NumericCol: -1, Desc: it.desc}
	if it.out != nil {
		k.Col = it.out.column
	} else {
		k.Col = x.hide(it.text)
	}
	if it.col.ref == nil {
		if x.unsorted(it.expr) {
			return k, refuse("ORDER BY, GROUP BY or DISTINCT of a JSON, TEXT, BLOB or geometry value over several shards")
		}
		// The weight of a number is text to MySQL, which a UNION cannot convert
		// (error 3854).
		weight := wrap("CAST(WEIGHT_STRING(", it.text, ") AS BINARY)")
		if x.grouped && !aggregated(it.expr) {
			// One value in the group; but inside of another function the servers do
			// not know a GROUP BY expression again (error 1055).
			weight = wrap("MAX(", weight, ")")
		}
		k.Weight = x.hide(weight)
		k.Pad = merge.PaddingOf(x.collation(it.expr))
		return k, nil
	}
	c := &it.col.ref.table.Columns[it.col.col]
	switch kindOf(c) {
	case kindNumber, kindBinary:
	case kindFloat:
		k.NumericCol = x.hide(wrap("", it.text, "+0e0"))
	case kindMember:
		k.NumericCol = x.hide(wrap("", it.text, "+0"))
	case kindTimestamp:
		k.NumericCol = x.hide(wrap("UNIX_TIMESTAMP(", it.text, ")"))
	case kindText:
		k.Weight = x.hide(wrap("WEIGHT_STRING(", it.text, ")"))
		k.Pad = merge.PaddingOf(c.Collation)
		if k.Pad.Mode == merge.PadUnknown {
			return k, refuse("ORDER BY, GROUP BY or DISTINCT by collation " + c.Collation + " over several shards")
		}
	default:
		return k, refuse("ORDER BY, GROUP BY or DISTINCT of a " + strings.ToUpper(c.DataType) + " column over several shards")
	}
	return k, nil
}

// finish puts the text together. push says that LIMIT may go down to the shards.
func (x *scatterer) finish(limit limitClause, push bool) (*scatter, *mysql.Error) {
	return x.finishWith(limit, push, nil)
}

func (x *scatterer) finishWith(limit limitClause, push bool, edits []edit) (*scatter, *mysql.Error) {
	var pages *paged
	if push {
		pages = x.pages(limit, edits[:len(edits):len(edits)])
	}
	if len(x.hidden) > 0 {
		edits = append(edits, x.hiddenEdit(x.hidden))
		x.spec.Visible, x.spec.Hidden = x.visible, hiddenName(0)
	}
	if limit.set {
		var t template
		if push {
			t = append(template{}.add("LIMIT "), segment{kind: segLimit, n: limit.count})
		}
		edits = append(edits, edit{x.l.limit.start, x.l.limit.end, t})
	}
	if into := x.s.into; into[1] > 0 {
		edits = append(edits, edit{into[0], into[1], nil}) // the merged row is what goes into the variables
	}
	all := sortEdits(append(append([]edit{}, x.base...), edits...))
	sc := &scatter{spec: x.spec, limit: limit, plain: len(all) == 0, pages: pages}
	sc.text = x.s.slice(0, len(x.s.text), all)
	// HAVING could name a hidden column: whether the client's own text may have
	// such a name, it says itself. Of merged groups HAVING has only what they are by.
	sc.described = x.sel.Having != nil && len(x.hidden) > 0 && !x.spec.Aggregate
	return sc, nil
}

// hiddenName is the name of a scatter's hidden column.
func hiddenName(i int) string { return "braid:" + strconv.Itoa(i) }

// hiddenEdit adds hidden columns to the select list.
func (x *scatterer) hiddenEdit(hidden []template) edit {
	t := template{}
	for i, h := range hidden {
		t = append(t.add(", "), h...)
		t = t.add(" AS `" + hiddenName(i) + "`")
	}
	at := x.l.list.end
	if x.f.q.Mode&ModeIgnoreSpace != 0 {
		// MySQL's name of an expression may then end in the blank behind it.
		for at < len(x.s.text) && isSpace(x.s.text[at]) {
			at++
		}
		t = t.add(" ")
	}
	return edit{at, at, t}
}
