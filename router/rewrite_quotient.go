package router

import (
	"fmt"
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/opcode"
)

// What follows is about quotients over merged groups: how many digits they have
// inside of a server, and when it warns of them (decision 0010).

// average tells whether AVG() of a column, nil for anything else, is its sum
// divided by its count also in an expression: MySQL rounds a quotient, and an
// average only where it is shown or sorted by.
func (v *evaluation) average(c *Column) bool {
	return c != nil && (v.f.db.Flavour == MariaDB || c.DataType == "float" || c.DataType == "double")
}

// fewDigits tells whether AVG() of the column has nine decimals at most inside, and
// its sum room for five.
func fewDigits(c *Column) bool {
	if c.DataType != "decimal" {
		return summed(c)
	}
	var precision, scale int
	_, err := fmt.Sscanf(c.ColumnType, "decimal(%d,%d)", &precision, &scale)
	return err == nil && precision <= 38 && scale <= SumDigits
}

// valuedAverages tells whether of every AVG() in an expression only the value
// counts, and not how many decimals its type has: it is compared or rounded.
func valuedAverages(e ast.ExprNode) bool {
	valued := map[ast.Node]bool{}
	only := true
	e.Accept(walk(func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BinaryOperationExpr:
			switch n.Op {
			case opcode.EQ, opcode.NE, opcode.LT, opcode.LE, opcode.GT, opcode.GE:
				valued[unparen(n.L)], valued[unparen(n.R)] = true, true
			}
		case *ast.BetweenExpr:
			valued[unparen(n.Expr)] = true
		case *ast.FuncCallExpr:
			switch n.FnName.L {
			case "round", "truncate":
				if len(n.Args) == 1 || len(n.Args) == 2 && fewDecimals(n.Args[1]) {
					valued[unparen(n.Args[0])] = true
				}
			}
		case *ast.AggregateFuncExpr:
			only = only && (!strings.EqualFold(n.F, "avg") || valued[n])
		}
		return only
	}))
	return only
}

// warnsEarly tells whether a server may warn of a division by zero before it has
// counted: MariaDB evaluates expressions of some groupings once over no rows.
func (v *evaluation) warnsEarly(dividend, divisor ast.ExprNode) bool {
	return v.f.db.Flavour == MariaDB && aggregated(divisor) && !nullOverNone(dividend)
}

// nullOverNone tells whether an expression over aggregates is NULL over no rows.
func nullOverNone(e ast.ExprNode) bool {
	switch n := unparen(e).(type) {
	case *ast.AggregateFuncExpr:
		switch strings.ToLower(n.F) {
		case "sum", "avg", "min", "max":
			return true
		}
	case *ast.UnaryOperationExpr:
		return nullOverNone(n.V)
	case *ast.BinaryOperationExpr:
		switch n.Op {
		case opcode.Plus, opcode.Minus, opcode.Mul, opcode.Div, opcode.IntDiv, opcode.Mod:
			return nullOverNone(n.L) || nullOverNone(n.R)
		}
	}
	return false
}

// fewDecimals tells whether the literal is a number of decimals that every AVG() has.
func fewDecimals(e ast.ExprNode) bool {
	v, ok := e.(ast.ValueExpr)
	if !ok {
		return false
	}
	switch n := v.GetValue().(type) {
	case int64:
		return 0 <= n && n <= 4
	case uint64:
		return n <= 4
	}
	return false
}
