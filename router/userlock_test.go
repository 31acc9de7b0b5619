package router

import (
	"slices"
	"testing"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"
)

func TestLockNames(t *testing.T) {
	text := func(s string) Param { return Param{Type: gomysql.MYSQL_TYPE_VAR_STRING, Value: []byte(s)} }
	for _, c := range []struct {
		text   string
		params []Param
		names  []string
		ok     bool
	}{
		{"SELECT GET_LOCK('a', 1)", nil, []string{"a"}, true},
		{"DO get_lock('a b.c', 1), /* GET_LOCK('c', 1) */ GET_LOCK( 'B' ,0)", nil, []string{"a b.c", "B"}, true},
		{"SELECT RELEASE_LOCK('a'), 'GET_LOCK(\\'x\\',1)', get_lock FROM t", nil, nil, true},
		{"SELECT ?, GET_LOCK(?, ?)", []Param{text("x"), text("name"), text("1")}, []string{"name"}, true},
		{"SELECT GET_LOCK(?, ?)", []Param{{Null: true}, text("1")}, nil, false},
		{"SELECT GET_LOCK(?, ?)", nil, nil, false},
		{"SELECT GET_LOCK(CONCAT('a','b'), 1)", nil, nil, false},
		{"SELECT GET_LOCK('a' 'b', 1)", nil, nil, false},
		{"SELECT GET_LOCK('é', 1)", nil, nil, false},
		{"SELECT GET_LOCK('a''b', 1)", nil, nil, false},
		{"SELECT GET_LOCK(x'61', 1)", nil, nil, false},
		{"SELECT GET_LOCK('', 1)", nil, nil, false},
	} {
		names, ok := LockNames(c.text, 0, "utf8mb4", c.params)
		if ok != c.ok || !slices.Equal(names, c.names) {
			t.Errorf("%s: %q %v, want %q %v", c.text, names, ok, c.names, c.ok)
		}
	}
}
