package proxy

import (
	"bytes"
	"testing"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"braid/router"
)

// FuzzExecution: whatever a client sends as COM_STMT_EXECUTE is either refused or
// decoded to values that lie within what it sent, and what goes to a node then
// decodes to the same values.
func FuzzExecution(f *testing.F) {
	f.Add([]byte{0, 1, 0, 0, 0, 0, 1, gomysql.MYSQL_TYPE_LONG, 0, gomysql.MYSQL_TYPE_VAR_STRING, 0, 7, 0, 0, 0, 2, 'h', 'i'}, uint8(2), false)
	f.Add([]byte{0, 1, 0, 0, 0, 2, 1, gomysql.MYSQL_TYPE_LONGLONG, 0x80, gomysql.MYSQL_TYPE_BLOB, 0, 255, 255, 255, 255, 255, 255, 255, 255}, uint8(2), false)
	f.Add([]byte{0, 1, 0, 0, 0, 0, 1, gomysql.MYSQL_TYPE_DATETIME, 0, gomysql.MYSQL_TYPE_TIME, 0, 4, 0xe8, 7, 2, 29, 0}, uint8(2), false)
	f.Add([]byte{0, 1, 0, 0, 0, 0, 1, gomysql.MYSQL_TYPE_NEWDECIMAL, 0, 0xfc, 3, 0, '1', '.', '5'}, uint8(1), false)
	f.Add([]byte{0, 1, 0, 0, 0, 0, 0, 7, 0, 0, 0}, uint8(1), false)
	f.Add([]byte{8, 1, 0, 0, 0, 2, 0, 1, gomysql.MYSQL_TYPE_LONG, 0, 0, gomysql.MYSQL_TYPE_STRING, 0, 2, 'n', '1', 2, 0, 0, 0, 3, 'v', 'a', 'l'}, uint8(1), true)
	f.Add([]byte{8, 1, 0, 0, 0, 0}, uint8(0), true)
	f.Fuzz(func(t *testing.T, raw []byte, count uint8, attributes bool) {
		if len(raw) < 5 {
			return // comExecute has seen to that
		}
		ex := execution{ps: &prepared{params: int(count)}, raw: bytes.Clone(raw)}
		if ex.parse(attributes) != nil {
			return
		}
		if len(ex.vals) != int(count) {
			t.Fatalf("%d values for %d parameters", len(ex.vals), count)
		}
		vals := append([]router.Param(nil), ex.vals...)
		ex.raw = nil
		again := execution{ps: &prepared{params: int(count)}, raw: bytes.Clone(ex.args(&router.Target{}, int(count)))}
		if err := again.parse(false); err != nil {
			t.Fatalf("what goes to a node: %v", err)
		}
		for i, v := range again.vals {
			if w := vals[i]; v.Null != w.Null || v.Type != w.Type || v.Unsigned != w.Unsigned || !bytes.Equal(v.Value, w.Value) {
				t.Fatalf("parameter %d is %+v for the client, %+v for the node", i, w, v)
			}
		}
	})
}

// FuzzQueryAttributes: the text is a piece of what the client sent, or it is refused.
func FuzzQueryAttributes(f *testing.F) {
	f.Add([]byte{0, 1, 'S'})
	f.Add([]byte{1, 1, 0, 1, gomysql.MYSQL_TYPE_LONG, 0, 1, 'n', 7, 0, 0, 0, 'S'})
	f.Add([]byte{0xfd, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, payload []byte) {
		text, err := queryText(payload)
		if err == nil && !bytes.HasSuffix(payload, text) {
			t.Fatalf("%q is no piece of %x", text, payload)
		}
	})
}
