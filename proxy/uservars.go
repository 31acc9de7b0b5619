package proxy

import (
	"strings"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"braid/backend"
	"braid/internal/mysql"
)

// userName is how a Vars names a user variable.
func userName(name string) string { return "@" + strings.ToLower(name) }

// writtenName is a user variable in SQL text.
func writtenName(name string) string {
	return "@`" + strings.ReplaceAll(strings.TrimPrefix(name, "@"), "`", "``") + "`"
}

// readUserVariables asks a connection for literals that give the named user
// variables ("@a") the type, value and collation that they have there.
func readUserVariables(c *backend.Conn, names []string) ([]backend.Var, error) {
	if len(names) == 0 {
		return nil, nil
	}
	var b strings.Builder
	for i, n := range names {
		if i > 0 {
			b.WriteByte(',')
		} else {
			b.WriteString("SELECT ")
		}
		w := writtenName(n)
		b.WriteString(w + ",HEX(" + w + "),CHARSET(" + w + "),COLLATION(" + w + ")")
	}
	b.WriteString(" LIMIT 1")
	columns, rows, err := c.QueryColumns(b.String(), 1)
	if err != nil {
		return nil, err
	}
	if len(rows) != 1 || len(rows[0]) != 4*len(names) {
		return nil, mysql.ErrMalformed
	}
	out := make([]backend.Var, 0, len(names))
	for i, n := range names {
		r := rows[0][4*i : 4*i+4]
		out = append(out, backend.Var{Name: n, Value: userLiteral(&columns[4*i], r[0], string(r[1]), string(r[2]), string(r[3]))})
	}
	return out, nil
}

// userLiteral is the SQL text of a user variable's value. A user variable is an
// integer, a decimal, a double or a string, also when it is NULL.
func userLiteral(col *mysql.Column, value []byte, hex, charset, collation string) string {
	v := string(value)
	switch col.Type {
	case gomysql.MYSQL_TYPE_LONGLONG, gomysql.MYSQL_TYPE_LONG, gomysql.MYSQL_TYPE_INT24, gomysql.MYSQL_TYPE_SHORT, gomysql.MYSQL_TYPE_TINY:
		switch {
		case value == nil && col.Flags&gomysql.UNSIGNED_FLAG != 0:
			return "CAST(NULL AS UNSIGNED)"
		case value == nil:
			return "CAST(NULL AS SIGNED)"
		case col.Flags&gomysql.UNSIGNED_FLAG != 0:
			return "CAST(" + v + " AS UNSIGNED)"
		case len(v) > 18:
			return "CAST('" + v + "' AS SIGNED)" // -9223372036854775808 has no literal
		}
		return v
	case gomysql.MYSQL_TYPE_NEWDECIMAL, gomysql.MYSQL_TYPE_DECIMAL:
		switch {
		case value == nil:
			return "CAST(NULL AS DECIMAL(65,30))"
		case !strings.Contains(v, "."):
			return "CAST(" + v + " AS DECIMAL(65,0))"
		}
		return v
	case gomysql.MYSQL_TYPE_DOUBLE, gomysql.MYSQL_TYPE_FLOAT:
		switch {
		case value == nil:
			return "(CAST(NULL AS SIGNED)+0e0)"
		case !strings.Contains(v, "e"):
			return v + "e0"
		}
		return v
	}
	switch {
	case value == nil && charset == "binary":
		return "NULL"
	case value == nil:
		return "CONVERT(NULL USING " + charset + ") COLLATE " + collation
	case charset == "binary":
		return "x'" + hex + "'"
	}
	return textLiteral(hex, charset, collation)
}

func textLiteral(hex, charset, collation string) string {
	return "CONVERT(x'" + hex + "' USING " + charset + ") COLLATE " + collation
}

// plainString is the literal of a client's string, when it can be told without
// a node: ASCII means the same in all character sets that a client may use.
func (s *Session) plainString(value string) (string, bool) {
	const digits = "0123456789ABCDEF"
	const bytesMax = 1024
	_, collation, ok := strings.Cut(s.namesText(), " COLLATE ")
	if _, set := s.vars.Get("collation_connection"); set || !ok || len(value) > bytesMax {
		return "", false
	}
	hex := make([]byte, 0, 2*len(value))
	for i := range len(value) {
		if value[i] >= 0x80 {
			return "", false
		}
		hex = append(hex, digits[value[i]>>4], digits[value[i]&15])
	}
	return textLiteral(string(hex), s.connection, unquote(collation)), true
}

// collation is the session's collation_connection.
func (s *Session) collation() string {
	if v, set := s.vars.Get("collation_connection"); set {
		return unquote(v)
	}
	_, collation, _ := strings.Cut(s.namesText(), " COLLATE ")
	return unquote(collation)
}

// namesText is the value of the session's SET NAMES.
func (s *Session) namesText() string {
	v, _ := s.vars.Get(backend.Names)
	return v
}

// numeric tells whether v is a number as system variables show them.
func numeric(v []byte) bool {
	if len(v) == 0 {
		return false
	}
	dot := false
	for i, b := range v {
		switch {
		case b >= '0' && b <= '9':
		case b == '-' && i == 0 && len(v) > 1:
		case b == '.' && !dot && i > 0:
			dot = true
		default:
			return false
		}
	}
	return true
}
