package merge

import (
	"errors"
	"io"
	"slices"
	"testing"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"braid/internal/mysql"
)

// TestWiden merges shards that made an expression's column more or less wide, by
// plans of their own; the order must hold and the values stay.
func TestWiden(t *testing.T) {
	for _, c := range []struct {
		name       string
		a, b, want mysql.Column
		values     [2][]value
		merged     []value
		refused    bool
	}{
		{"INT and BIGINT", mysql.Column{Type: gomysql.MYSQL_TYPE_LONG}, mysql.Column{Type: gomysql.MYSQL_TYPE_LONGLONG}, mysql.Column{Type: gomysql.MYSQL_TYPE_LONGLONG},
			[2][]value{{int64(-2), int64(3)}, {int64(-1), int64(4)}}, []value{int64(-2), int64(-1), int64(3), int64(4)}, false},
		{"BIGINT and TINYINT", mysql.Column{Type: gomysql.MYSQL_TYPE_LONGLONG}, mysql.Column{Type: gomysql.MYSQL_TYPE_TINY}, mysql.Column{Type: gomysql.MYSQL_TYPE_LONGLONG},
			[2][]value{{nil, int64(7)}, {int64(-128), int64(127)}}, []value{nil, int64(-128), int64(7), int64(127)}, false},
		{"unsigned", mysql.Column{Type: gomysql.MYSQL_TYPE_SHORT, Flags: gomysql.UNSIGNED_FLAG}, mysql.Column{Type: gomysql.MYSQL_TYPE_LONG, Flags: gomysql.UNSIGNED_FLAG},
			mysql.Column{Type: gomysql.MYSQL_TYPE_LONG, Flags: gomysql.UNSIGNED_FLAG}, [2][]value{{uint64(65535)}, {uint64(4000000000)}}, []value{uint64(65535), uint64(4000000000)}, false},
		{"VARCHAR and BLOB", mysql.Column{Type: gomysql.MYSQL_TYPE_VAR_STRING, Charset: 63, Length: 40, Flags: gomysql.BINARY_FLAG}, mysql.Column{Type: gomysql.MYSQL_TYPE_BLOB, Charset: 63, Length: 400, Flags: gomysql.BINARY_FLAG},
			mysql.Column{Type: gomysql.MYSQL_TYPE_BLOB, Charset: 63, Length: 400, Flags: gomysql.BINARY_FLAG}, [2][]value{{"a", "c"}, {"b"}}, []value{"a", "b", "c"}, false},
		{"a table's column", mysql.Column{Type: gomysql.MYSQL_TYPE_LONG, OrgTable: "t"}, mysql.Column{Type: gomysql.MYSQL_TYPE_LONGLONG, OrgTable: "t"}, mysql.Column{},
			[2][]value{{int64(1)}, {int64(2)}}, nil, true},
		{"signed and unsigned", mysql.Column{Type: gomysql.MYSQL_TYPE_LONG}, mysql.Column{Type: gomysql.MYSQL_TYPE_LONGLONG, Flags: gomysql.UNSIGNED_FLAG}, mysql.Column{},
			[2][]value{{int64(1)}, {uint64(2)}}, nil, true},
		{"a number and a text", mysql.Column{Type: gomysql.MYSQL_TYPE_LONG}, mysql.Column{Type: gomysql.MYSQL_TYPE_VAR_STRING}, mysql.Column{},
			[2][]value{{int64(1)}, {"2"}}, nil, true},
	} {
		for _, protocol := range []string{"text", "binary"} {
			t.Run(c.name+", "+protocol, func(t *testing.T) {
				isBinary := protocol == "binary"
				var in []mysql.Rows
				for i, col := range []mysql.Column{c.a, c.b} {
					col.Name = "v"
					cols := []mysql.Column{col, {Name: "n", Type: gomysql.MYSQL_TYPE_LONG}}
					r := &memRows{cols: cols, binary: isBinary}
					for n, v := range c.values[i] {
						r.rows = append(r.rows, encode(cols, isBinary, v, int64(n)))
					}
					in = append(in, r)
				}
				out, err := Merge(&Spec{Order: []Key{{Col: 0, Weight: -1, NumericCol: -1}}}, Limit{}, in, Options{})
				if c.refused {
					if changed := (*ColumnsError)(nil); !errors.As(err, &changed) {
						t.Fatalf("merged, or %v", err)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				defer out.Close()
				cols := out.Columns()
				if cols[0].Type != c.want.Type || cols[0].Length != c.want.Length || cols[0].Flags != c.want.Flags {
					t.Errorf("column %+v, want %+v", cols[0], c.want)
				}
				l := newLayout(cols, isBinary, 2)
				fields := make([]field, 2)
				for i, v := range c.merged {
					row, err := out.Next()
					if err != nil {
						t.Fatal(i, err)
					}
					if _, ok := l.scan(row, 2, fields); !ok {
						t.Fatalf("row %d: %x", i, row)
					}
					want := encode(cols, isBinary, v, int64(0))
					wanted := make([]field, 2)
					if _, ok := l.scan(want, 2, wanted); !ok || fields[0].null() != wanted[0].null() || v != nil && !slices.Equal(fields[0].of(row), wanted[0].of(want)) {
						t.Errorf("row %d: %x, want %x", i, row, want)
					}
				}
				if _, err := out.Next(); err != io.EOF {
					t.Errorf("at the end: %v", err)
				}
			})
		}
	}
}
