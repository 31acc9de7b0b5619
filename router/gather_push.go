package router

import (
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/opcode"
)

// pushedCond is a condition with which the rows of one table are read: a
// comparison of a column with the values of holes.
type pushedCond struct {
	text   template
	column *Column
	holes  []int
}

// bindPushed joins the conditions that may be pushed with a query's values. A
// server warns where it converts a value or, row by row, a column's text, also of
// rows that it rejects, and makes errors of that in a write: such conditions stay
// with the statement over the copies.
func bindPushed(conds []pushedCond, q *Query) template {
	var out template
	for i := range conds {
		if !conds[i].silent(q) {
			continue
		}
		if len(out) > 0 {
			out = out.add(" AND ")
		}
		out = append(out, conds[i].text...)
	}
	return out
}

// silent tells whether nothing is converted that could be warned of.
func (c *pushedCond) silent(q *Query) bool {
	for _, h := range c.holes {
		o := q.Holes[h]
		for i := o.First; i < o.First+o.N; i++ {
			v, ok := literal(q, int(i))
			if !ok || !comparesSilently(c.column, v) {
				return false
			}
		}
	}
	return true
}

// comparesSilently tells whether a server compares a column with a value without
// a warning, whatever the column holds.
func comparesSilently(c *Column, v Value) bool {
	text := string(v.Bytes)
	switch c.DataType {
	case "tinyint", "smallint", "mediumint", "int", "bigint", "decimal", "float", "double":
		return v.Kind != ValueString && v.Kind != ValueDate && v.Kind != ValueDatetime ||
			v.Kind == ValueString && len(text) > 0 && len(text) < 10 && strings.Trim(text, "0123456789") == ""
	case "date", "datetime":
		return v.Kind == ValueNull || v.Kind == ValueDate || v.Kind == ValueDatetime || v.Kind == ValueString && plainTime(text)
	case "char", "varchar", "tinytext", "text", "mediumtext", "longtext", "binary", "varbinary":
		return v.Kind == ValueNull || v.Kind == ValueString
	}
	return v.Kind == ValueNull
}

// plainTime tells whether a text is a date, or a date and time, that is valid
// under every sql_mode.
func plainTime(s string) bool {
	const date, both = "0000-00-00", "0000-00-00 00:00:00"
	form := both
	if len(s) == len(date) {
		form = date
	}
	if len(s) != len(form) {
		return false
	}
	for i := range len(s) {
		if digit := form[i] == '0'; digit && !isDigit(s[i]) || !digit && s[i] != form[i] {
			return false
		}
	}
	if s[:4] == "0000" || s[5:7] < "01" || s[5:7] > "12" || s[8:10] < "01" || s[8:10] > "28" {
		return false
	}
	return form == date || s[11:13] <= "23" && s[14:16] <= "59" && s[17:] <= "59"
}

// pushed is the condition that a reference's own rows have to meet to matter
// (rule G1): conjuncts of WHERE and of inner joins where no outer join
// null-extends the reference, and of the ON of the outer join that does. Only
// plain comparisons with values are pushed.
func (f *found) pushed(r *ref) []pushedCond {
	nullable := r.block.nullExtends(r)
	var out []pushedCond
	for _, set := range r.block.sets {
		if set.narrows == nil && nullable || set.narrows != nil && !contains(set.narrows, r) {
			continue
		}
		if len(set.narrows) > 1 && nullable {
			// The condition of an outer join around this reference and others: a row
			// of one that it rejects does not keep the others from being null-extended.
			continue
		}
		for _, e := range set.conj {
			c := pushedCond{}
			ok := false
			if c.text, ok = f.pushable(r, e, &c); ok {
				out = append(out, c)
			}
		}
	}
	return out
}

// pushable writes a comparison of one of the reference's columns with values, and
// notes both in p.
func (f *found) pushable(r *ref, e ast.ExprNode, p *pushedCond) (template, bool) {
	column := func(e ast.ExprNode) (template, bool) {
		c := f.columnOf(r.block, e)
		if c.ref != r {
			return nil, false
		}
		col := &r.table.Columns[c.col]
		if col.DataType == "timestamp" || col.DataType == "time" {
			// Rows are read in another time zone than the statement's, and what
			// value or date these mean depends on it.
			return nil, false
		}
		p.column = col
		return template{}.add(quoteIdent(col.Name)), true
	}
	value := func(e ast.ExprNode) (template, bool) {
		o, ok := f.operand(e, false)
		if !ok || o.kind != operandHole {
			return nil, false
		}
		p.holes = append(p.holes, o.hole)
		return template{{kind: segHole, n: o.hole}}, true
	}
	join := func(parts ...template) template {
		var t template
		for _, p := range parts {
			t = append(t, p...)
		}
		return t
	}
	text := func(s string) template { return template{}.add(s) }
	switch x := e.(type) {
	case *ast.BinaryOperationExpr:
		op, ok := map[opcode.Op]string{opcode.EQ: " = ", opcode.LT: " < ", opcode.LE: " <= ", opcode.GT: " > ", opcode.GE: " >= ", opcode.NE: " <> "}[x.Op]
		if !ok {
			return nil, false
		}
		if c, ok := column(x.L); ok {
			v, ok := value(x.R)
			return join(c, text(op), v), ok
		}
		if c, ok := column(x.R); ok {
			v, ok := value(x.L)
			return join(v, text(op), c), ok
		}
	case *ast.BetweenExpr:
		c, ok := column(x.Expr)
		l, ok2 := value(x.Left)
		h, ok3 := value(x.Right)
		if x.Not || !ok || !ok2 || !ok3 {
			return nil, false
		}
		return join(c, text(" BETWEEN "), l, text(" AND "), h), true
	case *ast.PatternInExpr:
		c, ok := column(x.Expr)
		if x.Not || x.Sel != nil || !ok {
			return nil, false
		}
		t := join(c, text(" IN ("))
		for i, e := range x.List {
			v, ok := value(e)
			if !ok {
				return nil, false
			}
			if i > 0 {
				t = join(t, text(", "))
			}
			t = join(t, v)
		}
		return join(t, text(")")), true
	case *ast.IsNullExpr:
		c, ok := column(x.Expr)
		if !ok {
			return nil, false
		}
		if x.Not {
			return join(c, text(" IS NOT NULL")), true
		}
		return join(c, text(" IS NULL")), true
	}
	return nil, false
}
