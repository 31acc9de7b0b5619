package router

import (
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"

	"braid/internal/mysql"
)

// unstable tells whether a function answers differently from call to call, so
// that the copies of a global table would differ.
func unstable(name string) bool {
	switch name {
	case "rand", "uuid", "uuid_short", "sleep", "random_bytes", "sysdate", "get_lock", "release_lock", "release_all_locks", "load_file":
		return true
	}
	return false
}

// callsUnstable tells whether an expression calls an unstable function.
func callsUnstable(e ast.Node) bool {
	hit := false
	e.Accept(walk(func(n ast.Node) bool {
		if f, ok := n.(*ast.FuncCallExpr); ok {
			hit = hit || unstable(f.FnName.L)
		}
		return !hit
	}))
	return hit
}

// unstableDefault is the expression that a column has for a value that is not
// given, where each copy would compute another one; "" when there is none.
func (a *analysis) unstableDefault(c *Column) string {
	_, expr, constant := a.columnDefault(c)
	if constant {
		return ""
	}
	toks := tokenize(expr, 0, "utf8mb4")
	for i, t := range toks {
		if i+1 < len(toks) && toks[i+1].is(expr, '(') && unstable(strings.ToLower(t.name(expr))) {
			return expr
		}
	}
	return ""
}

// unstableDefaults tells whether a table has such columns.
func (a *analysis) unstableDefaults(t *Table) bool {
	for i := range t.Columns {
		if a.unstableDefault(&t.Columns[i]) != "" {
			return true
		}
	}
	return false
}

// copiedValues tells whether the values of an INSERT into a global table have to
// be made by Braid for all copies alike: ids, and what unstable functions give.
// An error says that they cannot be.
func (a *analysis) copiedValues(f *found, stmt *ast.InsertStmt, t *Table) (bool, *mysql.Error) {
	if f.unstable == "" {
		return t.Sequence != "" || a.unstableDefaults(t), nil
	}
	no := refuse("writing a global table with " + f.unstable)
	if f.locks || f.unstable == "stored function" {
		return false, no
	}
	for _, x := range stmt.OnDuplicate {
		if callsUnstable(x.Expr) {
			return false, no
		}
	}
	return true, nil
}

// copyDefaults adds the columns that are not given and that each copy would give
// another value.
func (a *analysis) copyDefaults(c *insertColumns, stmt *ast.InsertStmt) error {
	for i := range c.table.Columns {
		expr := a.unstableDefault(&c.table.Columns[i])
		if expr == "" {
			continue
		}
		pos, err := insertPosition(c.table, stmt, i)
		if err != nil {
			return err
		}
		if strings.Contains(expr, `\`) {
			return refuse("INSERT without a value for " + c.table.Name + "." + c.table.Columns[i].Name + ", whose default is an expression")
		}
		if pos >= 0 {
			c.explicit = append(c.explicit, copiedDefault{pos, expr})
			continue
		}
		c.defaults = append(c.defaults, expr)
		c.added, c.pos = append(c.added, i), append(c.pos, -len(c.defaults))
	}
	return nil
}

// copiedDefault is an unstable default of the column whose values are at pos.
type copiedDefault struct {
	pos  int
	expr string
}

// copiedRow makes the values of a row of a global table that each copy would
// compute for itself.
func (r *plannedRow) copiedRow(f *found, c *insertColumns, at rowLayout, list []ast.ExprNode) *mysql.Error {
	if c.table.Kind != Global {
		return nil
	}
	compute := func(where [2]int, expr template) {
		r.exprs = append(r.exprs, expr)
		r.edits = append(r.edits, edit{where[0], where[1], template{{kind: segComputed, n: len(r.exprs) - 1}}})
	}
	for i, e := range list {
		if i >= len(at.values) || i == c.auto || !callsUnstable(e) {
			continue
		}
		if why := uncomputable(e); why != "" {
			return refuse(why + " with " + f.unstable + " in a new row of a global table")
		}
		compute(at.values[i], f.shape.slice(at.values[i][0], at.values[i][1], f.bare))
	}
	for _, d := range c.explicit {
		if d.pos < len(list) && d.pos < len(at.values) && isDefault(list[d.pos]) {
			compute(at.values[d.pos], template{}.add(d.expr))
		}
	}
	for _, expr := range c.defaults {
		r.exprs = append(r.exprs, template{}.add(expr))
		r.defaults = append(r.defaults, len(r.exprs)-1)
	}
	return nil
}
