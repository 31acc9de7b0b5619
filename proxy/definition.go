package proxy

import (
	"errors"
	"strings"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"braid/backend"
	"braid/internal/mysql"
)

// withoutIDs is a table's definition without what it says of the ids given so far.
func withoutIDs(text string) string {
	before, after, ok := strings.Cut(text, " AUTO_INCREMENT=")
	if !ok {
		return text
	}
	return before + strings.TrimLeft(after, "0123456789")
}

// definition is what SHOW CREATE says of a schema's object of a kind ("TABLE",
// "VIEW", "TRIGGER", ...), without what may differ between shards; "" when there
// is none.
func definition(c *backend.Conn, schema, kind, name string) (string, error) {
	rows, err := c.Query("SHOW CREATE "+kind+" "+ident(schema)+"."+ident(name), 1)
	var e *mysql.Error
	if errors.As(err, &e) {
		switch e.Code {
		case gomysql.ER_NO_SUCH_TABLE, gomysql.ER_SP_DOES_NOT_EXIST, gomysql.ER_TRG_DOES_NOT_EXIST, gomysql.ER_EVENT_DOES_NOT_EXIST:
			return "", nil
		case gomysql.ER_WRONG_OBJECT:
			return "not a " + strings.ToLower(kind), nil
		}
	}
	if err != nil || len(rows) == 0 {
		return "", err
	}
	at := 1
	switch kind {
	case "PROCEDURE", "FUNCTION", "TRIGGER":
		at = 2
	case "EVENT":
		at = 3
	}
	text := strings.ReplaceAll(string(rows[0][at]), ident(schema)+".", "")
	if kind == "TABLE" {
		text = withoutIDs(text)
	}
	return text, nil
}

// objectKind is what a schema change is about, as SHOW CREATE names it.
func objectKind(verb string) string {
	switch _, kind, _ := strings.Cut(verb, " "); kind {
	case "VIEW", "PROCEDURE", "FUNCTION", "TRIGGER", "EVENT":
		return kind
	}
	return "TABLE"
}

// firstDifference is where two definitions begin to differ, line against line.
func firstDifference(a, b string) (string, string) {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range max(len(x), len(y)) {
		var l, r string
		if i < len(x) {
			l = strings.TrimSuffix(strings.TrimSpace(x[i]), ",")
		}
		if i < len(y) {
			r = strings.TrimSuffix(strings.TrimSpace(y[i]), ",")
		}
		if l != r {
			return l, r
		}
	}
	return "", ""
}
