package transaction

import (
	"fmt"
	"testing"

	"braid/conf"
	"braid/tests/e2e"
)

// T11: with commit_ok = "decided" COMMIT is answered while a node has not committed
// yet, and every session of this Braid that comes to that node sees the change all
// the same: the same one, others outside a transaction, in a new one, in an open one.
func TestT11CommitOKDecided(t *testing.T) {
	var relays []*e2e.Relay
	change := func(c *conf.Config) {
		throughRelays(t, &relays)(c)
		c.Databases[0].CommitOK = "decided"
	}
	eachWith(t, change, func(t *testing.T, w *world) {
		c := w.client(t)
		x, y := w.at[0][0], w.at[1][0]
		read := fmt.Sprintf("SELECT v FROM acc WHERE id=%d", y)
		readers := []*client{c, w.client(t), w.client(t), w.client(t), w.client(t)}
		readers[2].ok("BEGIN")
		readers[3].ok("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED", "BEGIN", read)
		relays[1].Hold("XA COMMIT")
		defer relays[1].Release()
		c.ok("BEGIN", update(x, 1), update(y, 1), "COMMIT")
		until(t, "XA COMMIT is on its way", relays[1].Held)
		if got := numbers(t, w.node[1], "SELECT COUNT(*) FROM "+w.braid.Shards()[1].Schema+".acc WHERE v<>0"); got[0] != 0 {
			t.Fatal("node 1 has committed already")
		}
		// Other nodes are nobody's business.
		if got := readers[1].one(fmt.Sprintf("SELECT v FROM acc WHERE id=%d", x)); got != "1" {
			t.Errorf("on the first node: %s", got)
		}
		type answer struct {
			reader int
			value  string
		}
		answers := make(chan answer, len(readers))
		for i, r := range readers {
			go func() {
				text := read
				if i == 4 {
					text = "SELECT SUM(v)-1 FROM acc"
				}
				results, err := r.Query(text)
				if err != nil || results[0].Err != nil {
					answers <- answer{i, fmt.Sprint(err)}
					return
				}
				answers <- answer{i, string(results[0].Rows[0][0])}
			}()
		}
		// Nothing that these could be answered with is on its way to the node.
		if sessions := w.client(t); sessions.one("SELECT 1") != "1" {
			t.Error("a statement without a table waits")
		}
		if n := len(answers); n > 0 {
			t.Fatalf("%d answered before the change was there: %+v", n, <-answers)
		}
		relays[1].Release()
		for range readers {
			if a := <-answers; a.value != "1" {
				t.Errorf("reader %d sees %s", a.reader, a.value)
			}
		}
		// Many, as they come.
		for n := 2; n < 30; n++ {
			c.ok("BEGIN", update(x, 1), update(y, 1), "COMMIT")
			for i, r := range readers[:4] {
				if got := r.one(read); i != 2 && got != fmt.Sprint(n) || i == 2 && got != "1" {
					t.Errorf("reader %d sees %s of %d", i, got, n)
				}
			}
		}
	})
}
