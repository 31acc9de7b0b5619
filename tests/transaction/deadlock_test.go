package transaction

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"braid/conf"
	"braid/tests/e2e"
	"braid/tests/servers"
)

// T15: a cycle of which each node sees a half ends with 1213 for the youngest,
// long before innodb_lock_wait_timeout's 50 s.
func TestT15DeadlockOverNodes(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		x, y := w.at[0][0], w.at[1][0]
		a, b := w.client(t), w.client(t)
		a.ok("BEGIN", update(x, 1))
		b.ok("BEGIN", update(y, 10))
		first := a.later(update(y, 1))
		w.waiting(t, 1)
		if code := b.code(update(x, 10)); code != 1213 {
			t.Fatalf("the youngest got %d, want 1213", code)
		}
		if code := <-first; code != 0 {
			t.Fatalf("the older got %d", code)
		}
		if b.inTransaction() {
			t.Error("the victim is still in a transaction")
		}
		b.ok("BEGIN", update(w.at[0][1], 5), update(w.at[1][1], 5))
		a.ok("COMMIT")
		b.ok("COMMIT")
		if got := a.one("SELECT SUM(v) FROM acc"); got != "12" {
			t.Errorf("sum %s, want 12", got)
		}
	})
}

// The cycle goes on through a transaction that is on one node only, and over
// statements that write on several shards.
func TestT15DeadlockOfThree(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		x, y, z := w.at[0][0], w.at[1][0], w.at[1][1]
		a, b, local := w.client(t), w.client(t), w.client(t)
		a.ok("BEGIN", update(x, 1))
		local.ok("BEGIN", update(y, 100))
		b.ok("BEGIN", update(z, 10))
		first := a.later(update(y, 1)) // waits for local
		w.waiting(t, 1)
		second := local.later(update(z, 100)) // waits for b
		w.waiting(t, 2)
		if code := b.code("UPDATE acc SET v=v+10 WHERE id IN (" + strconv.Itoa(x) + "," + strconv.Itoa(w.at[1][2]) + ")"); code != 1213 {
			t.Fatalf("the youngest got %d, want 1213", code)
		}
		if code := <-second; code != 0 {
			t.Fatalf("the one on one node got %d", code)
		}
		local.ok("COMMIT")
		if code := <-first; code != 0 {
			t.Fatalf("the oldest got %d", code)
		}
		a.ok("COMMIT")
		if got := a.one("SELECT SUM(v) FROM acc"); got != "202" {
			t.Errorf("sum %s, want 202", got)
		}
	})
}

// Two Braids: each sees the other's transactions by @braid_gtrid.
func TestT15DeadlockOfTwoBraids(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		other := w.braid.Another(t)
		x, y, u, v := w.at[0][0], w.at[1][0], w.at[0][1], w.at[1][1]
		a, b := w.client(t), connect(t, other)
		a.ok("BEGIN", update(u, 1), update(v, 1), update(x, 1))
		b.ok("BEGIN", update(w.at[1][3], 10), update(w.at[0][3], 10), update(y, 10))
		first := a.later(update(y, 1))
		w.waiting(t, 1)
		second := b.later(update(x, 10))
		one, two := 0, 0
		select {
		case one = <-first:
			a.code("ROLLBACK")
			two = <-second
		case two = <-second:
			b.code("ROLLBACK")
			one = <-first
		}
		if one+two != 1213 {
			t.Errorf("the two got %d and %d, want 1213 for one of them", one, two)
		}
	})
}

// A cycle through a connection of a Braid that is gone, which waits in the server
// and does not notice: its transaction is the youngest and nobody stops it.
func TestT15DeadlockThroughABraidThatIsGone(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		x, y, z := w.at[0][0], w.at[1][0], w.at[1][1]
		gone, err := w.node[1].Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		id := 0
		if err := gone.QueryRowContext(t.Context(), "SELECT CONNECTION_ID()").Scan(&id); err != nil {
			t.Fatal(err)
		}
		table := func(id int) string {
			for i, ids := range w.shard {
				if slices.Contains(ids, id) {
					return w.braid.Shards()[i].Schema + ".acc"
				}
			}
			return ""
		}
		zeros := strings.Repeat("0", 26)
		for _, text := range []string{"SET @braid_gtrid='" + zeros[:13] + "." + zeros + ".ffffffff." + zeros[:13] + "'", "BEGIN",
			fmt.Sprintf("UPDATE %s SET v=v WHERE id=%d", table(z), z)} {
			if _, err := gone.ExecContext(t.Context(), text); err != nil {
				t.Fatal(err)
			}
		}
		a, b := w.client(t), w.client(t)
		a.ok("BEGIN", update(x, 1), update(w.at[1][2], 1))
		b.ok("BEGIN", update(w.at[0][1], 10), update(y, 10))
		waited := make(chan struct{})
		go func() {
			defer close(waited)
			_, _ = gone.ExecContext(context.Background(), fmt.Sprintf("UPDATE %s SET v=v WHERE id=%d", table(y), y)) // waits for b
		}()
		w.waiting(t, 1)
		first := a.later(update(z, 1)) // waits for the one that is gone
		w.waiting(t, 2)
		second := b.later(update(x, 10)) // waits for a
		one, two := 0, 0
		select {
		case one = <-first:
			a.code("ROLLBACK")
			two = <-second
		case two = <-second:
			if _, err := w.node[1].Exec(fmt.Sprintf("KILL %d", id)); err != nil {
				t.Fatal(err)
			}
			one = <-first
		}
		if one+two != 1213 {
			t.Errorf("the two got %d and %d, want 1213 for one of them", one, two)
		}
		_, _ = w.node[1].Exec(fmt.Sprintf("KILL %d", id)) // it may be over
		<-waited
		_ = gone.Close()
	})
}

// A statement that takes long, or waits for somebody who does not wait, is let be.
func TestT15WaitingIsNoDeadlock(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		x, y := w.at[0][0], w.at[1][0]
		a, b := w.client(t), w.client(t)
		a.ok("BEGIN", update(x, 1), update(y, 1))
		b.ok("SET innodb_lock_wait_timeout=3", "BEGIN", update(w.at[1][1], 10), update(w.at[0][1], 10))
		if code := b.code(update(x, 10)); code != 1205 {
			t.Fatalf("got %d, want 1205", code)
		}
		if !b.inTransaction() {
			t.Error("a lock wait timeout ended the transaction")
		}
		b.ok("COMMIT")
		a.ok("COMMIT")
		if got := a.one("SELECT SUM(v) FROM acc"); got != "22" {
			t.Errorf("sum %s, want 22", got)
		}
	})
}

// B112: a cycle on one node is the node's own to break; the victim's changes on
// the other node go as well.
func TestDeadlockOnOneNode(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		x, y := w.at[1][0], w.at[1][1]
		a, b := w.client(t), w.client(t)
		a.ok("BEGIN", update(w.at[0][0], 1), update(x, 1))
		b.ok("BEGIN", update(w.at[0][1], 10), update(y, 10))
		first := a.later(update(y, 1))
		w.waiting(t, 1)
		second := b.later(update(x, 10))
		one, two := <-first, <-second
		if one+two != 1213 {
			t.Fatalf("the two got %d and %d, want 1213 for one of them", one, two)
		}
		winner, victim, want := a, b, "3"
		if one != 0 {
			winner, victim, want = b, a, "30"
		}
		if victim.inTransaction() {
			t.Error("the victim is still in a transaction")
		}
		winner.ok("COMMIT")
		if got := victim.one("SELECT SUM(v) FROM acc"); got != want {
			t.Errorf("sum %s, want %s", got, want)
		}
		victim.ok("COMMIT")
	})
}

// innodb_rollback_on_timeout=ON: error 1205 ends the whole transaction, on the
// node that says so and on the others.
func TestRollbackOnTimeout(t *testing.T) {
	for _, flavour := range []servers.Flavour{servers.MariaDB, servers.MySQL} {
		t.Run(string(flavour), func(t *testing.T) {
			own := e2e.NewLabWith(servers.Options{Args: []string{"--innodb-rollback-on-timeout=ON"}})
			defer func() {
				if err := own.Close(); err != nil {
					t.Error(err)
				}
			}()
			b := own.StartBraid(t, e2e.Topology{Flavour: flavour, Nodes: 2, Tables: []conf.Table{{Name: "acc", Kind: "sharded", Key: []string{"id"}}}})
			defer b.Stop()
			c, other := connect(t, b), connect(t, b)
			c.ok("CREATE TABLE acc(id INT PRIMARY KEY, v INT)", "INSERT INTO acc VALUES (0,0),(1,0),(2,0),(3,0),(4,0),(5,0),(6,0),(7,0)",
				"BEGIN", "UPDATE acc SET v=1 WHERE id=3")
			other.ok("SET innodb_lock_wait_timeout=1", "BEGIN")
			for _, id := range []int{0, 1, 2, 4, 5, 6, 7} {
				other.ok(update(id, 10))
			}
			if code := other.code("UPDATE acc SET v=10 WHERE id=3"); code != 1205 {
				t.Fatalf("got %d, want 1205", code)
			}
			if other.inTransaction() {
				t.Error("still in a transaction")
			}
			other.ok("COMMIT")
			c.ok("COMMIT")
			if got := c.one("SELECT SUM(v) FROM acc"); got != "1" {
				t.Errorf("sum %s, want 1", got)
			}
		})
	}
}
