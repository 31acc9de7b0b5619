package schema

import (
	"fmt"
	"strings"
	"testing"

	"braid/conf"
	"braid/tests/e2e"
)

// TestEarliestRowsError lets several rows of an INSERT over shards fail, at every
// place (rule T13): the client gets the error of the first of them, as from one
// server, and no row is there, by itself and in a transaction that goes on.
func TestEarliestRowsError(t *testing.T) {
	flavours(t, []conf.Table{{Name: "a", Kind: "sharded", Key: []string{"k"}}}, func(t *testing.T, b *e2e.Braid) {
		server := lab.Server(t, b.Flavour(), "plain")
		e2e.Recreate(t, server, "shop")
		db, plain := pooled(b.Open(t)), pooled(e2e.Open(t, server, "shop"))
		both := func(text string) { t.Helper(); exec(t, db, text); exec(t, plain, text) }
		both("CREATE TABLE a(k INT PRIMARY KEY, v TINYINT NOT NULL)")
		for k := range 12 {
			both(fmt.Sprintf("INSERT INTO a VALUES (%d, 0)", 100+k))
		}
		const rows = 12
		bad := []func(i int) string{
			func(i int) string { return fmt.Sprintf("(%d,1)", 100+i) },       // a key that is there
			func(i int) string { return fmt.Sprintf("(%d,1000)", i) },        // out of range
			func(i int) string { return fmt.Sprintf("(%d,NULL)", i) },        // not nullable
			func(i int) string { return fmt.Sprintf("(%d,'abc')", i) },       // no number
			func(i int) string { return fmt.Sprintf("(%d,1)", max(i-1, 0)) }, // the row before it again
		}
		for first := range rows {
			for n := range bad {
				list := make([]string, rows)
				for i := range list {
					list[i] = fmt.Sprintf("(%d,%d)", i, i)
					if i >= first && (i-first)%2 == 0 {
						list[i] = bad[(n+i-first)%len(bad)](i)
					}
				}
				text := "INSERT INTO a VALUES " + strings.Join(list, ",")
				for _, inTx := range []bool{false, true} {
					if inTx {
						both("BEGIN")
						both("INSERT INTO a VALUES (200,0),(201,0),(202,0)")
					}
					if got, want := outcome(t, db, text, false), outcome(t, plain, text, false); got != want {
						t.Errorf("in a transaction %t: %s\n  braid: %s\n  plain: %s", inTx, text, got, want)
					}
					if got, want := contents(t, db, "a"), contents(t, plain, "a"); got != want {
						t.Fatalf("%s\n  braid holds %s\n  plain holds %s", text, got, want)
					}
					if inTx {
						both("ROLLBACK")
					}
					both("DELETE FROM a WHERE k < 100")
				}
			}
		}
	})
}
