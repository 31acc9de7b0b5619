package protocol

import (
	"fmt"
	"strings"
	"testing"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"braid/tests/wire"
)

// fill writes n rows into t, of which every second one has a NULL and one is large.
func fill(t *testing.T, c *wire.Conn, n int) {
	t.Helper()
	query(t, c, "DROP TABLE IF EXISTS t")
	query(t, c, "CREATE TABLE t(k INT PRIMARY KEY, v INT, s MEDIUMTEXT)")
	for at := 0; at < n; at += 250 {
		var b strings.Builder
		for k := at; k < min(at+250, n); k++ {
			v := "NULL"
			if k%2 == 0 {
				v = fmt.Sprint(k * 7)
			}
			fmt.Fprintf(&b, ",(%d,%s,'row %d')", k, v, k)
		}
		query(t, c, "INSERT INTO t VALUES "+b.String()[1:])
	}
	query(t, c, "UPDATE t SET s=REPEAT('x',700000) WHERE k=3")
}

// TestCursors opens cursors and fetches from them, beside a plain server
// (B075, B076): rows, flags, what ends them, what closes them.
func TestCursors(t *testing.T) {
	for _, flavour := range flavours {
		for _, flags := range []uint32{0, gomysql.CLIENT_DEPRECATE_EOF} {
			t.Run(fmt.Sprintf("%s/%x", flavour, flags), func(t *testing.T) {
				b := braid(t, flavour, nil)
				var told [2][]string
				for i, o := range []wire.Options{plain(t, flavour), b.Wire()} {
					o.Flags = flags
					c := connect(t, o)
					fill(t, c, 1000)
					say := func(format string, args ...any) { told[i] = append(told[i], fmt.Sprintf(format, args...)) }
					open := func(text string, params ...wire.Param) *wire.Statement {
						s, err := c.Prepare(text)
						if err != nil {
							t.Fatal(err)
						}
						r, err := s.Open(params...)
						if err != nil {
							say("%s: open: %v", text, code(err))
							return s
						}
						for _, x := range r {
							if x.Err != nil {
								// MySQL has sent the columns by then; an error it is for the client either way.
								say("%s: open: %v", text, x.Err.Code)
								continue
							}
							say("%s: open: %d columns, %d rows, status %x, warnings %d", text, len(x.Columns), len(x.Rows), x.OK.Status&^0x30, x.OK.Warnings)
						}
						return s
					}
					fetch := func(s *wire.Statement, n int) {
						r, err := s.Fetch(n)
						if err != nil {
							t.Fatal(err)
						}
						sum := 0
						for _, row := range r.Rows {
							for _, cell := range row {
								for _, b := range cell {
									sum = sum*31 + int(b)
								}
								sum += len(cell)
							}
						}
						e := 0
						if r.Err != nil {
							e = int(r.Err.Code)
						}
						say("fetch %d: %d rows %x, status %x, error %d", n, len(r.Rows), sum, r.OK.Status&^0x30, e)
					}
					all := open("SELECT k,v,s FROM t ORDER BY k")
					fetch(all, 300)
					query(t, c, "UPDATE t SET v=-1") // a cursor is a copy
					for range 5 {
						fetch(all, 300)
					}
					fill(t, c, 1000)
					exact := open("SELECT k FROM t WHERE k<? ORDER BY k", wire.Int(300))
					fetch(exact, 300)
					fetch(exact, 300)
					fetch(exact, 300)
					empty := open("SELECT k FROM t WHERE k=-5")
					fetch(empty, 10)
					one := open("SELECT v FROM t WHERE k=?", wire.Int(4))
					fetch(one, 10)
					single := open("SELECT COUNT(*) FROM t")
					fetch(single, 1)
					fetch(single, 1)
					open("UPDATE t SET v=0 WHERE k=1")
					open("SELECT k, EXP(k*20) FROM t WHERE k>60 ORDER BY k")
					reset := open("SELECT k FROM t ORDER BY k")
					fetch(reset, 1)
					if err := reset.Reset(); err != nil {
						t.Fatal(err)
					}
					fetch(reset, 1)
					again := open("SELECT k FROM t ORDER BY k")
					fetch(again, 1)
					// Executed anew, it starts anew. (MySQL 9.7 answers an execution without a
					// cursor, after one with, with an OK too many.)
					if _, err := again.Open(); err != nil {
						t.Fatal(err)
					}
					fetch(again, 2)
					closed := open("SELECT k FROM t ORDER BY k")
					if err := closed.Close(); err != nil {
						t.Fatal(err)
					}
					fetch(closed, 1)
					query(t, c, "BEGIN")
					inTx := open("SELECT k FROM t ORDER BY k")
					fetch(inTx, 10)
					query(t, c, "UPDATE t SET v=5 WHERE k=2")
					fetch(inTx, 10)
					query(t, c, "COMMIT")
					fetch(inTx, 10)
				}
				for i := range told[0] {
					if testing.Verbose() {
						t.Log(told[0][i])
					}
					if told[0][i] != told[1][i] {
						t.Errorf("Braid: %s\nplain: %s", told[1][i], told[0][i])
					}
				}
			})
		}
	}
}
