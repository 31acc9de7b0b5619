package transaction

import (
	"fmt"
	"strings"
	"testing"
)

// T14: WITH CONSISTENT SNAPSHOT takes the views of all nodes when it is said.
func TestT14SnapshotOnAllNodes(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		a, b := w.client(t), w.client(t)
		a.ok("START TRANSACTION WITH CONSISTENT SNAPSHOT")
		b.ok("UPDATE acc SET v=v+1")
		for _, ids := range w.at {
			if got := a.one(fmt.Sprintf("SELECT v FROM acc WHERE id=%d", ids[0])); got != "0" {
				t.Errorf("the snapshot sees %s", got)
			}
		}
		if got := a.one("SELECT SUM(v) FROM acc"); got != "0" {
			t.Errorf("the snapshot's sum is %s", got)
		}
		// It may write, on both nodes.
		a.ok(update(w.at[0][0], 5), update(w.at[1][0], 5), "COMMIT")
		if got := b.one("SELECT SUM(v) FROM acc"); got != fmt.Sprint(rowsMax+10) {
			t.Errorf("in the end %s", got)
		}
	})
}

// T4, B121: a connection of the transaction dies on its node.
func TestT4LostLeg(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		for _, lost := range []int{0, 1} {
			for _, autocommit := range []string{"1", "0"} {
				t.Run(fmt.Sprintf("node %d, autocommit %s", lost, autocommit), func(t *testing.T) {
					c := w.client(t)
					c.ok("SET autocommit="+autocommit, "BEGIN", update(w.at[0][0], 1), update(w.at[1][0], 1))
					w.killLegs(t, lost)
					if code := c.code(update(w.at[lost][1], 1)); code != 1213 {
						t.Fatalf("the statement on the lost node: %d", code)
					}
					for _, text := range []string{update(w.at[1-lost][1], 1), "SELECT COUNT(*) FROM acc", "SAVEPOINT a"} {
						if code := c.code(text); code != 1213 {
							t.Errorf("%s: %d", text, code)
						}
					}
					if code := c.code("COMMIT"); code != 1213 {
						t.Errorf("COMMIT: %d", code)
					}
					c.ok(update(w.at[0][2], 0), "COMMIT")
					if got := c.one("SELECT SUM(v) FROM acc"); got != "0" {
						t.Errorf("%s is left of the lost transaction", got)
					}
				})
			}
		}
		t.Run("seen at COMMIT", func(t *testing.T) {
			c := w.client(t)
			c.ok("BEGIN", update(w.at[0][0], 1), update(w.at[1][0], 1))
			w.killLegs(t, 1)
			if code := c.code("COMMIT"); code != 1213 {
				t.Errorf("COMMIT: %d", code)
			}
			if c.inTransaction() {
				t.Error("still in a transaction")
			}
			if got := c.one("SELECT SUM(v) FROM acc"); got != "0" {
				t.Errorf("%s is left of the lost transaction", got)
			}
		})
	})
}

// killLegs ends the connections that have a transaction open on a node.
func (w *world) killLegs(t *testing.T, node int) {
	t.Helper()
	var ids []int
	until(t, "a transaction is open", func() bool { // the list may be a little old
		ids = numbers(t, w.node[node], "SELECT trx_mysql_thread_id FROM information_schema.INNODB_TRX WHERE trx_mysql_thread_id<>0")
		return len(ids) > 0
	})
	for _, id := range ids {
		if _, err := w.node[node].ExecContext(t.Context(), fmt.Sprintf("KILL %d", id)); err != nil {
			t.Fatal(err)
		}
	}
	until(t, "the killed transactions are gone", func() bool {
		return len(numbers(t, w.node[node], "SELECT trx_mysql_thread_id FROM information_schema.INNODB_TRX")) == 0
	})
}

// The mode of a database: single keeps a transaction on its first node.
func TestSingleMode(t *testing.T) {
	eachWith(t, singleMode, func(t *testing.T, w *world) {
		c := w.client(t)
		c.ok("BEGIN", update(w.at[0][0], 1))
		if code := c.code(update(w.at[1][0], 1)); code != 1235 {
			t.Fatalf("a second node: %d", code)
		}
		c.ok(update(w.at[0][1], 1), "COMMIT")
		if got := c.one("SELECT SUM(v) FROM acc"); got != "2" {
			t.Errorf("sum %s", got)
		}
		if code := c.code("UPDATE acc SET v=v+1"); code != 1235 {
			t.Errorf("a write on two nodes: %d", code)
		}
		if got := c.one("SELECT SUM(v) FROM acc"); got != "2" {
			t.Errorf("sum %s after the refused write", got)
		}
		c.ok("START TRANSACTION WITH CONSISTENT SNAPSHOT", update(w.at[1][0], 1), "COMMIT")
	})
}

// B118: a client's XA statements are refused before anything is done, and
// Braid's own branches do not show.
func TestClientXA(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		c := w.client(t)
		for _, text := range []string{"XA START 'a','b',1", "XA BEGIN 'a'", "XA RECOVER", "XA COMMIT 'a' ONE PHASE", "XA ROLLBACK 0x61,0x62,0x1"} {
			_, err := c.Query(text)
			if err == nil || !strings.Contains(err.Error(), "1235") || !strings.Contains(err.Error(), "XA") {
				t.Errorf("%s: %v", text, err)
			}
			if c.inTransaction() {
				t.Errorf("%s began a transaction", text)
			}
		}
		// Inside a transaction it changes nothing either.
		c.ok("BEGIN", update(w.at[0][0], 1), update(w.at[1][0], 1))
		if code := c.code("XA END 'a'"); code != 1235 {
			t.Errorf("inside: %d", code)
		}
		c.ok("COMMIT")
		if got := c.one("SELECT SUM(v) FROM acc"); got != "2" {
			t.Errorf("sum %s", got)
		}
	})
}
