package router

import (
	"strconv"
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/opcode"
	driver "github.com/pingcap/tidb/pkg/parser/test_driver"
)

// cond is a condition on a sharding key: an immutable tree that is evaluated to
// a set of shards when the plan is bound. nil means all shards.
type cond interface {
	explain(b *strings.Builder)
}

type condAnd []cond
type condOr []cond

// condKey is an equality of the whole key: one of the values of each key column.
type condKey struct {
	rule *Rule
	cols [][]operand // by key column: the values it may have
	// nullSafe says that the equality is <=>, which NULL fulfils too.
	nullSafe bool
	// rows says that it is one of a list of rows, (a,b) IN ((1,2), ...).
	rows bool
}

// operandKind is what a value of a condition or of a row is.
type operandKind uint8

const (
	operandHole operandKind = iota // the literal, list or parameter of a hole
	operandNull
	operandInt      // TRUE, FALSE
	operandSum      // left + right, left - right, left * right: exact integers
	operandUnary    // -left
	operandText     // text: a column's constant default
	operandComputed // a value made by a node: number hole of the row's
	operandID       // the row's AUTO_INCREMENT id
)

// operand is a value that is known when a plan is bound.
type operand struct {
	kind        operandKind
	hole        int
	n           int64
	text        string
	op          byte // operandSum: '+', '-' or '*'
	left, right *operand
}

func (o operand) String() string {
	switch o.kind {
	case operandHole:
		return "{" + strconv.Itoa(o.hole) + "}"
	case operandNull:
		return "NULL"
	case operandInt:
		return strconv.FormatInt(o.n, 10)
	case operandSum:
		return o.left.String() + string(o.op) + o.right.String()
	case operandUnary:
		return "-" + o.left.String()
	}
	return [...]string{operandText: "DEFAULT", operandComputed: "computed", operandID: "id"}[o.kind]
}

func (c condAnd) explain(b *strings.Builder) { explainList(b, c, " AND ") }
func (c condOr) explain(b *strings.Builder)  { explainList(b, c, " OR ") }

func explainList(b *strings.Builder, list []cond, sep string) {
	b.WriteByte('(')
	for i, c := range list {
		if i > 0 {
			b.WriteString(sep)
		}
		explainCond(b, c)
	}
	b.WriteByte(')')
}

func explainCond(b *strings.Builder, c cond) {
	if c == nil {
		b.WriteString("all")
		return
	}
	c.explain(b)
}

func (c *condKey) explain(b *strings.Builder) {
	for i, list := range c.cols {
		if i > 0 {
			b.WriteString(" AND ")
		}
		b.WriteString(c.rule.Columns[i].Name)
		switch {
		case c.nullSafe:
			b.WriteString(" <=> ")
		case len(list) > 1:
			b.WriteString(" IN ")
		default:
			b.WriteString(" = ")
		}
		for j, o := range list {
			if j > 0 {
				b.WriteString(",")
			}
			b.WriteString(o.String())
		}
	}
}

// condAssign is the one shard of a row that will have the key.
type condAssign struct {
	rule *Rule
	key  []operand
}

func (c *condAssign) explain(b *strings.Builder) {
	b.WriteString("row")
	for _, o := range c.key {
		b.WriteString(" " + o.String())
	}
}

// condRange is a comparison of a key of one column by order.
type condRange struct {
	rule  *Rule
	op    RangeOp
	value operand
}

func (c *condRange) explain(b *strings.Builder) {
	b.WriteString(c.rule.Columns[0].Name + [...]string{" < ", " <= ", " > ", " >= "}[c.op] + c.value.String())
}

// keyPart is an equality of one key column, before it is known whether the
// other columns of the key have one too.
type keyPart struct {
	pos      int
	values   []operand
	nullSafe bool
}

// conds builds the conditions for one sharded ref of a block.
type conds struct {
	f    *found
	b    *block
	ref  *ref
	rule *Rule
	rows bool // within a list of rows
}

// condition is what the block's conditions say about where the ref's rows are.
// peers are the refs co-located with it: a set narrows when it narrows all of them.
func (f *found) condition(r *ref, peers []*ref) cond {
	c := conds{f: f, b: r.block, ref: r, rule: r.table.Rule}
	var list condAnd
	var parts []keyPart
	for _, set := range r.block.sets {
		if set.narrows != nil && !containsAll(set.narrows, peers) {
			continue
		}
		for _, e := range set.conj {
			x, p := c.of(e)
			if x != nil {
				list = append(list, x)
			}
			parts = append(parts, p...)
		}
	}
	list = append(list, c.keys(parts)...)
	return simplify(list)
}

func containsAll(refs, some []*ref) bool {
	for _, r := range some {
		if !contains(refs, r) {
			return false
		}
	}
	return true
}

func simplify(list condAnd) cond {
	switch len(list) {
	case 0:
		return nil
	case 1:
		return list[0]
	}
	return list
}

// keys turns parts that hold together into conditions on the whole key.
func (c *conds) keys(parts []keyPart) []cond {
	n := len(c.rule.Keys)
	byPos := make([][]keyPart, n)
	for _, p := range parts {
		byPos[p.pos] = append(byPos[p.pos], p)
	}
	var out []cond
	for i := 0; ; i++ {
		k := &condKey{rule: c.rule, cols: make([][]operand, n), rows: c.rows}
		fresh := false
		for pos := range byPos {
			list := byPos[pos]
			if len(list) == 0 {
				return out
			}
			p := list[min(i, len(list)-1)]
			if i < len(list) {
				fresh = true
			}
			k.cols[pos] = p.values
			k.nullSafe = k.nullSafe || p.nullSafe
		}
		if !fresh {
			return out
		}
		out = append(out, k)
	}
}

// of reads one condition. What it does not understand is nil: all shards.
func (c *conds) of(e ast.ExprNode) (cond, []keyPart) {
	switch x := e.(type) {
	case *ast.ParenthesesExpr:
		return c.of(x.Expr)
	case *ast.BinaryOperationExpr:
		switch x.Op {
		case opcode.LogicAnd:
			l, lp := c.of(x.L)
			r, rp := c.of(x.R)
			var list condAnd
			if l != nil {
				list = append(list, l)
			}
			if r != nil {
				list = append(list, r)
			}
			return simplify(list), append(lp, rp...)
		case opcode.LogicOr:
			l, r := c.whole(x.L), c.whole(x.R)
			if l == nil || r == nil {
				return nil, nil
			}
			return condOr{l, r}, nil
		case opcode.EQ, opcode.NullEQ:
			return c.equal(x.L, x.R, x.Op == opcode.NullEQ)
		case opcode.LT:
			return c.ordered(x.L, x.R, RangeLess, RangeGreater), nil
		case opcode.LE:
			return c.ordered(x.L, x.R, RangeLessEqual, RangeGreaterEqual), nil
		case opcode.GT:
			return c.ordered(x.L, x.R, RangeGreater, RangeLess), nil
		case opcode.GE:
			return c.ordered(x.L, x.R, RangeGreaterEqual, RangeLessEqual), nil
		}
	case *ast.BetweenExpr:
		if !x.Not {
			low := c.ordered(x.Expr, x.Left, RangeGreaterEqual, RangeLessEqual)
			high := c.ordered(x.Expr, x.Right, RangeLessEqual, RangeGreaterEqual)
			if low != nil && high != nil {
				return condAnd{low, high}, nil
			}
		}
	case *ast.PatternInExpr:
		return c.in(x)
	}
	return nil, nil
}

// whole reads a condition whose key parts cannot be completed from outside.
func (c *conds) whole(e ast.ExprNode) cond {
	x, parts := c.of(e)
	var list condAnd
	if x != nil {
		list = append(list, x)
	}
	return simplify(append(list, c.keys(parts)...))
}

func (c *conds) equal(l, r ast.ExprNode, nullSafe bool) (cond, []keyPart) {
	lr, ok := unparen(l).(*ast.RowExpr)
	if rr, ok2 := unparen(r).(*ast.RowExpr); ok && ok2 && len(lr.Values) == len(rr.Values) {
		var list condAnd
		var parts []keyPart
		for i := range lr.Values {
			x, p := c.equal(lr.Values[i], rr.Values[i], nullSafe)
			if x != nil {
				list = append(list, x)
			}
			parts = append(parts, p...)
		}
		return simplify(list), parts
	}
	pos := c.keyPos(l)
	if pos < 0 {
		if pos = c.keyPos(r); pos < 0 {
			return nil, nil
		}
		l, r = r, l
	}
	o, ok := c.f.operand(r, true)
	if !ok {
		return nil, nil
	}
	return nil, []keyPart{{pos, []operand{o}, nullSafe}}
}

// ordered reads "l op r"; back is the operator with the sides exchanged.
func (c *conds) ordered(l, r ast.ExprNode, op, back RangeOp) cond {
	if len(c.rule.Keys) != 1 || c.rule.Function != FunctionRange && !c.rule.integer() {
		return nil
	}
	if c.keyPos(l) < 0 {
		l, r, op = r, l, back
	}
	if c.keyPos(l) < 0 {
		return nil
	}
	o, ok := c.f.operand(r, true)
	if !ok {
		return nil
	}
	return &condRange{c.rule, op, o}
}

func (c *conds) in(x *ast.PatternInExpr) (cond, []keyPart) {
	if x.Not || x.Sel != nil {
		return nil, nil
	}
	if row, ok := unparen(x.Expr).(*ast.RowExpr); ok {
		var or condOr
		c := *c
		c.rows = true
		for _, item := range x.List {
			one := c.whole(&ast.BinaryOperationExpr{Op: opcode.EQ, L: row, R: item})
			if one == nil {
				return nil, nil
			}
			or = append(or, one)
		}
		return or, nil
	}
	pos := c.keyPos(x.Expr)
	if pos < 0 {
		return nil, nil
	}
	values := make([]operand, 0, len(x.List))
	for _, item := range x.List {
		o, ok := c.f.operand(item, true)
		if !ok {
			return nil, nil
		}
		values = append(values, o)
	}
	return nil, []keyPart{{pos, values, false}}
}

// keyPos tells which column of the ref's sharding key an expression is, or is
// equal to; -1 when it is none.
func (c *conds) keyPos(e ast.ExprNode) int {
	col := c.f.columnOf(c.b, e)
	if col.ref == nil {
		return -1
	}
	root := c.b.root(col)
	for i, k := range c.rule.Keys {
		if c.b.root(place{c.ref, k}) == root {
			return i
		}
	}
	return -1
}

func unparen(e ast.ExprNode) ast.ExprNode {
	for {
		p, ok := e.(*ast.ParenthesesExpr)
		if !ok {
			return e
		}
		e = p.Expr
	}
}

// operand reads a value that is known when the plan is bound. exact also
// takes sums of integers, which a row to be written may have as its key.
func (f *found) operand(e ast.ExprNode, exact bool) (operand, bool) {
	switch x := e.(type) {
	case *ast.ParenthesesExpr:
		return f.operand(x.Expr, exact)
	case *driver.ParamMarkerExpr:
		h := f.shape.hole(x)
		return operand{hole: h}, h >= 0
	case *driver.ValueExpr:
		if h := f.shape.hole(x); h >= 0 {
			return operand{hole: h}, !f.shape.introduced(h)
		}
		switch {
		case x.Kind() == driver.KindNull:
			return operand{kind: operandNull}, true
		case x.Kind() == driver.KindInt64:
			return operand{kind: operandInt, n: x.GetInt64()}, true
		}
	case *ast.UnaryOperationExpr:
		switch x.Op {
		case opcode.Plus:
			return f.operand(x.V, exact)
		case opcode.Minus:
			o, ok := f.operand(x.V, exact)
			return operand{kind: operandUnary, left: &o}, ok
		}
	case *ast.BinaryOperationExpr:
		op := map[opcode.Op]byte{opcode.Plus: '+', opcode.Minus: '-', opcode.Mul: '*'}[x.Op]
		if op == 0 || !exact {
			break
		}
		l, ok := f.operand(x.L, exact)
		r, ok2 := f.operand(x.R, exact)
		return operand{kind: operandSum, op: op, left: &l, right: &r}, ok && ok2
	}
	return operand{}, false
}
