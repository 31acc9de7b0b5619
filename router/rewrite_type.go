package router

import (
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/opcode"
)

// columnKind is how values of a column are ordered (rule M1).
type columnKind uint8

const (
	kindOther     columnKind = iota // JSON, TEXT, BLOB, geometry: not by a merge
	kindNumber                      // integers, DECIMAL, DOUBLE, dates and times
	kindFloat                       // FLOAT, and DOUBLE(M,D): what is shown is rounded
	kindMember                      // ENUM, SET, BIT
	kindTimestamp                   // TIMESTAMP: what is shown depends on the time zone
	kindText
	kindBinary
)

func kindOf(c *Column) columnKind {
	switch c.DataType {
	case "tinyint", "smallint", "mediumint", "int", "integer", "bigint", "decimal", "numeric", "year", "date", "datetime", "time":
		return kindNumber
	case "double":
		if strings.Contains(c.ColumnType, "(") {
			return kindFloat
		}
		return kindNumber
	case "float":
		return kindFloat
	case "enum", "set", "bit":
		return kindMember
	case "timestamp":
		return kindTimestamp
	case "char", "varchar":
		if c.Collation == "binary" {
			return kindBinary
		}
		return kindText
	case "binary", "varbinary":
		return kindBinary
	}
	return kindOther
}

// unsorted tells whether an expression may have a value that merges do not sort by.
func (x *scatterer) unsorted(e ast.ExprNode) bool {
	bad := false
	e.Accept(walk(func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncCallExpr:
			switch n.FnName.L {
			case "length", "char_length", "octet_length", "bit_length", "crc32", "md5", "sha1", "sha2", "instr", "locate", "isnull":
				return false
			}
			if strings.HasPrefix(n.FnName.L, "json") || strings.HasPrefix(n.FnName.L, "st_") {
				bad = true
			}
		case *ast.IsNullExpr:
			return false
		case *ast.AggregateFuncExpr:
			if n.F == "count" {
				return false
			}
		case *ast.SubqueryExpr:
			bad = true
		case *ast.ColumnNameExpr:
			if c := x.f.resolve(x.b, n.Name); c.ref != nil && kindOf(&c.ref.table.Columns[c.col]) == kindOther {
				bad = true
			}
		}
		return !bad
	}))
	return bad
}

// collation is an expression's collation where the planner is sure of it, else
// "": then the merge takes the value only if it is no text.
func (x *scatterer) collation(e ast.ExprNode) string {
	switch n := unparen(e).(type) {
	case *ast.SetCollationExpr:
		return n.Collate
	case *ast.ColumnNameExpr:
		if c := x.f.resolve(x.b, n.Name); c.ref != nil {
			return c.ref.table.Columns[c.col].Collation
		}
	case *ast.AggregateFuncExpr:
		if (n.F == "max" || n.F == "min") && len(n.Args) == 1 {
			return x.collation(n.Args[0])
		}
	case *ast.FuncCallExpr:
		switch n.FnName.L {
		case "lower", "upper", "lcase", "ucase", "trim", "ltrim", "rtrim", "left", "right", "substring", "substr", "mid", "reverse":
			if len(n.Args) > 0 {
				return x.collation(n.Args[0])
			}
		case "concat", "ifnull", "coalesce", "nullif":
			// A column's collation goes before a literal's.
			found := ""
			for _, a := range n.Args {
				if _, ok := unparen(a).(ast.ValueExpr); ok {
					continue
				}
				c := x.collation(a)
				if c == "" || found != "" && c != found {
					return ""
				}
				found = c
			}
			return found
		}
	}
	return ""
}

// hidesDigits tells whether an expression may be a DECIMAL that a server adds up
// with more digits than it shows: a quotient. Sums of what shards show of such
// sums are others than the sum of all.
func hidesDigits(e ast.ExprNode) bool {
	hides := false
	e.Accept(walk(func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BinaryOperationExpr:
			hides = hides || n.Op == opcode.Div
		case *ast.FuncCastExpr:
			return false
		case *ast.FuncCallExpr:
			switch n.FnName.L {
			case "round", "truncate", "floor", "ceil", "ceiling":
				return false
			}
		}
		return !hides
	}))
	return hides
}

// quotients says why such a sum is refused.
const quotients = "SUM() or AVG() of quotients over several shards"
