package proxy

import (
	"io"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"braid/backend"
	"braid/internal/mysql"
	"braid/router"
)

// intoColumns refuses SELECT ... INTO @a over several shards where a value's
// type or collation cannot be told from the merged row: a user variable keeps
// the collation of what it was set to, and a column definition does not tell it.
func intoColumns(cols []mysql.Column, plan *router.Plan) *mysql.Error {
	if len(cols) != len(plan.Into) {
		return mysql.Errorf(1222, "The used SELECT statements have a different number of columns")
	}
	for i := range cols {
		switch cols[i].Type {
		case gomysql.MYSQL_TYPE_LONGLONG, gomysql.MYSQL_TYPE_LONG, gomysql.MYSQL_TYPE_INT24, gomysql.MYSQL_TYPE_SHORT, gomysql.MYSQL_TYPE_TINY,
			gomysql.MYSQL_TYPE_NEWDECIMAL, gomysql.MYSQL_TYPE_DOUBLE:
		default:
			return mysql.Errorf(1235, "This version of Braid doesn't yet support 'SELECT ... INTO a user variable of other than a number over several shards'")
		}
	}
	return nil
}

// readInto reads the merged rows of SELECT ... INTO: the first one's values go
// into the variables, another one is an error.
func readInto(out mysql.Rows, cols []mysql.Column, plan *router.Plan) (vars []backend.Var, rows uint64, err error) {
	for {
		row, err := out.Next()
		if err == io.EOF {
			return vars, rows, nil
		}
		if err != nil {
			return vars, rows, err
		}
		if rows++; rows > 1 {
			return vars, rows, mysql.Errorf(1172, "Result consisted of more than one row")
		}
		p := []byte(row)
		for i := range cols {
			v, null, n := mysql.LenEncString(p)
			if n == 0 {
				return vars, rows, mysql.ErrMalformed
			}
			p = p[n:]
			value := append([]byte{}, v...)
			if null {
				value = nil
			}
			vars = append(vars, backend.Var{Name: userName(plan.Into[i]), Value: userLiteral(&cols[i], value, "", "binary", "binary")})
		}
	}
}

// endInto keeps what SELECT ... INTO over several shards read and answers. text
// says that it was not prepared: a prepared one was warned of then.
func (s *Session) endInto(plan *router.Plan, vars []backend.Var, rows uint64, text bool) error {
	if text && plan.IntoLast && s.mariadb() {
		s.warned++
		s.warnings = append([]warning{{"Warning", 1287, "'<select expression> INTO <destination>;' is deprecated and will be removed in a future release. Please use 'SELECT <select list> INTO <destination> FROM...' instead"}}, s.warnings...)
	}
	s.setVars(s.vars.With(vars...))
	s.facts.RowCount, s.facts.FoundRows = int64(rows), rows
	if rows == 0 {
		s.warned++
		s.warnings = append(s.warnings, warning{"Warning", 1329, "No data - zero rows fetched, selected, or processed"})
	}
	return s.writeOK(&mysql.OK{AffectedRows: rows, Warnings: s.warned})
}
