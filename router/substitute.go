package router

import (
	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"braid/internal/mysql"
)

// Substitute puts SQL texts in the places of a statement's parameters: the text
// form of EXECUTE name USING.
func Substitute(text []byte, mode Mode, charset string, values []string) ([]byte, error) {
	q := Query{Text: text, Mode: mode, Charset: charset, Prepared: true}
	if err := q.Scan(); err != nil {
		return nil, err
	}
	var out []byte
	at, n := 0, 0
	for i := range q.Literals {
		l := &q.Literals[i]
		if l.Class != ClassParam {
			continue
		}
		if n == len(values) {
			return nil, mysql.Errorf(gomysql.ER_WRONG_ARGUMENTS, "Incorrect arguments to EXECUTE")
		}
		out = append(append(out, text[at:l.Start]...), values[n]...)
		at, n = int(l.End), n+1
	}
	if n != len(values) {
		return nil, mysql.Errorf(gomysql.ER_WRONG_ARGUMENTS, "Incorrect arguments to EXECUTE")
	}
	return append(out, text[at:]...), nil
}
