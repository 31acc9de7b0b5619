package transaction

import (
	"fmt"
	"strings"
	"testing"

	"braid/conf"
	"braid/tests/e2e"
	"braid/tests/servers"
)

// A session's transaction after one over several nodes begins with a branch, and
// the one after that on one node does not; a client sees nothing of it.
func TestTransactionsAfterOneOverNodes(t *testing.T) {
	var relays []*e2e.Relay
	eachWith(t, func(c *conf.Config) { throughRelays(t, &relays)(c) }, func(t *testing.T, w *world) {
		c := w.client(t)
		x, y := w.at[0][0], w.at[1][0]
		over := func() { c.ok("BEGIN", update(x, 1), update(y, -1), "COMMIT") }
		branches := func(what string, want bool, texts ...string) {
			t.Helper()
			for _, r := range relays {
				r.Reset()
			}
			c.ok(texts...)
			if got := strings.Contains(strings.Join(relays[0].Commands(), "\n"), "XA START"); got != want {
				t.Errorf("%s: a branch on the first node is %v, want %v: %q", what, got, want, relays[0].Commands())
			}
		}
		one := []string{"BEGIN", update(x, 1), "COMMIT"}
		branches("the first", false, one...)
		over()
		branches("after one over nodes", true, one...)
		branches("after one on a node", false, one...)
		over()
		branches("after statements on several nodes under autocommit", true, append([]string{update(x, 1), "UPDATE acc SET v=v+0"}, one...)...)
		over()
		branches("autocommit=0", true, "SET autocommit=0", update(x, 1), "COMMIT", "SET autocommit=1")
		over()
		branches("READ ONLY", false, "START TRANSACTION READ ONLY", fmt.Sprintf("SELECT v FROM acc WHERE id=%d", x), "COMMIT")
		over()
		branches("a snapshot", false, "START TRANSACTION WITH CONSISTENT SNAPSHOT", update(x, 0), "COMMIT")
		over()
		branches("rolled back", true, "BEGIN", update(x, 100), "ROLLBACK")
		c.ok("BEGIN", update(x, 1), update(y, 1))
		branches("COMMIT AND CHAIN", true, "COMMIT AND CHAIN", update(x, 1), "COMMIT")
		over()
		// Savepoints, a statement that fails on one node, and a second and third leg.
		c.ok("BEGIN", update(x, 1), "SAVEPOINT a", update(y, 5), "ROLLBACK TO a", update(y, 7))
		if code := c.code(fmt.Sprintf("INSERT INTO acc VALUES (%d,1),(%d,1)", x, rowsMax+1)); code != 1062 {
			t.Errorf("got %d", code)
		}
		c.ok(update(y, 1), "COMMIT")
		if got := c.one(fmt.Sprintf("SELECT v FROM acc WHERE id=%d", y)); got != "2" { // -1 seven times, +1, +7, +1
			t.Errorf("v is %s", got)
		}
		if got := c.one(fmt.Sprintf("SELECT COUNT(*) FROM acc WHERE id=%d", rowsMax+1)); got != "0" {
			t.Errorf("a failed statement left %s rows", got)
		}
	})
}

// Temporary tables after a transaction over several nodes (rule T17).
func TestTemporaryTablesAfterOneOverNodes(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		over := func(c *client) { c.ok("BEGIN", update(w.at[0][0], 1), update(w.at[1][0], -1), "COMMIT") }
		c := w.client(t)
		over(c)
		// First in its transaction: it is an ordinary one.
		c.ok("BEGIN", "CREATE TEMPORARY TABLE tmp(a INT)", "INSERT INTO tmp VALUES (1)", "COMMIT")
		// A session that has some is not taken for one over several nodes.
		over(c)
		c.ok("BEGIN", "INSERT INTO tmp VALUES (2)", "COMMIT")
		if got := c.one("SELECT COUNT(*) FROM tmp"); got != "2" {
			t.Errorf("%s rows", got)
		}
		// Behind another statement MySQL has to begin anew, once.
		c = w.client(t)
		over(c)
		for try := range 2 {
			c.ok("BEGIN", update(w.at[0][0], 1))
			code := c.code("CREATE TEMPORARY TABLE tmp(a INT)")
			if code == 0 {
				c.ok("COMMIT", "INSERT INTO tmp VALUES (1)")
				return
			}
			if code != 1213 || try == 1 || w.braid.Flavour() != servers.MySQL {
				t.Fatalf("try %d: %d", try, code)
			}
		}
	})
}

// Rows that a statement copies while its transaction joins a second node.
func TestCopiesAfterOneOverNodes(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		c := w.client(t)
		x, y := w.at[0][0], w.at[1][0]
		over := func() { c.ok("BEGIN", update(x, 1), update(y, -1), "COMMIT") }
		before := c.one("SELECT COUNT(*) FROM acc")
		for _, first := range []string{update(x, 1), update(y, 1)} {
			over()
			c.ok("BEGIN", first, "INSERT INTO acc SELECT id+1000000,v FROM acc", "SAVEPOINT a",
				"DELETE FROM acc WHERE id>=1000000", "ROLLBACK TO a", "DELETE FROM acc WHERE id>=1000000", "COMMIT")
			if got := c.one("SELECT COUNT(*) FROM acc"); got != before {
				t.Errorf("%s rows, want %s", got, before)
			}
		}
		if got := c.one("SELECT SUM(v) FROM acc"); got != "2" {
			t.Errorf("the sum is %s", got)
		}
	})
}
