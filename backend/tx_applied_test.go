package backend

import (
	"context"
	"testing"
	"time"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"
)

func testT11(t *testing.T, l *lab) {
	b := l.braid(t)
	b.patience = 300 * time.Millisecond
	tx := transfer(t, b, 0, 1, 2)
	b.failpoint = func(step string) {
		if step == stepDecided {
			l.pause(t, 2)
		}
	}
	err := tx.Commit(t.Context())
	b.failpoint = nil
	if err != nil {
		t.Fatal(err)
	}
	// Whoever comes to the node waits for its branch, or is told.
	next := b.Begin(TxOptions{})
	wantCode(t, legExec(t, next, b.nodes[2], "SELECT 1"), gomysql.ER_LOCK_WAIT_TIMEOUT)
	mustExec(t, next, b.nodes[1], "SELECT 1")
	if err := l.servers[2].Continue(); err != nil {
		t.Fatal(err)
	}
	b.patience = patience
	c, err := next.Leg(t.Context(), b.nodes[2], "", nil)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := c.Query("SELECT v FROM app.t WHERE id=1", 1)
	if err != nil || string(rows[0][0]) != "110" {
		t.Errorf("the next transaction reads %s, %v", rows, err)
	}
	_ = next.Rollback(t.Context())
	l.wantRows(t, 110, 110, 110)
}

// commit_ok = "decided": COMMIT is over while a node does not commit, and whoever
// comes to that node waits, also in a transaction that is open there.
func testT11Decided(t *testing.T, l *lab) {
	b := l.braid(t)
	open := b.Begin(TxOptions{Isolation: "READ-COMMITTED"})
	if got := legValue(t, open, b.nodes[2]); got != "100" {
		t.Errorf("before: %s", got)
	}
	tx := b.Begin(TxOptions{Decided: true})
	for _, n := range b.nodes {
		mustExec(t, tx, n, add(1, 10))
	}
	// A node that reads and does not commit.
	lock, err := l.root[2].Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	b.failpoint = func(step string) {
		if step == stepDecided {
			if _, err := lock.ExecContext(t.Context(), "FLUSH TABLES WITH READ LOCK"); err != nil {
				t.Error(err)
			}
		}
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantState(t, tx, TxEnded)
	if len(b.applyingOn(b.nodes[2].name)) != 1 || !b.Unfinished() {
		t.Error("nobody would wait for the branch")
	}
	read := make(chan string)
	next := b.Begin(TxOptions{})
	for _, tx := range []*Tx{open, next} {
		go func() { read <- legValue(t, tx, b.nodes[2]) }()
	}
	// Who will not wait is told so.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = b.Begin(TxOptions{}).Leg(ctx, b.nodes[2], "", nil)
	wantCode(t, err, gomysql.ER_LOCK_WAIT_TIMEOUT)
	if _, err := lock.ExecContext(t.Context(), "UNLOCK TABLES"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if got := <-read; got != "110" {
			t.Errorf("behind the OK: %s", got)
		}
	}
	b.Applied()
	if b.Unfinished() {
		t.Error("still unfinished")
	}
	_, _ = open.Rollback(t.Context()), next.Rollback(t.Context())
	l.wantRows(t, 110, 110, 110)
}

// The node of a branch dies behind the OK: its change is there when it is back.
func testT11DecidedLost(t *testing.T, l *lab) {
	b := l.braid(t)
	tx := b.Begin(TxOptions{Decided: true})
	for _, n := range b.nodes {
		mustExec(t, tx, n, add(1, 10))
	}
	b.failpoint = func(step string) {
		if step == stepDecided {
			l.servers[2].Kill9()
		}
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := l.servers[2].Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	next := b.Begin(TxOptions{})
	var got string
	until(t, "the node to be back", func() bool {
		c, err := next.Leg(t.Context(), b.nodes[2], "", nil)
		if err == nil {
			rows, err := c.Query("SELECT v FROM app.t WHERE id=1", 1)
			if err != nil {
				t.Fatal(err)
			}
			got = string(rows[0][0])
		}
		return err == nil
	})
	if got != "110" {
		t.Errorf("behind the OK: %s", got)
	}
	_ = next.Rollback(t.Context())
	b.Applied()
	l.wantRows(t, 110, 110, 110)
	if n := l.preparedAnywhere(t); n != 0 {
		t.Errorf("%d branches are left prepared", n)
	}
}

// legValue reads row 1 in a transaction.
func legValue(t *testing.T, tx *Tx, n *Node) string {
	c, err := tx.Leg(t.Context(), n, "", nil)
	if err != nil {
		t.Error(err)
		return ""
	}
	rows, err := c.Query("SELECT v FROM app.t WHERE id=1", 1)
	if err != nil {
		t.Error(err)
		return ""
	}
	return string(rows[0][0])
}

// A locking transaction whose reading leg was lost is not committed, with any
// number of writers beside it.
func testT16LostReader(t *testing.T, l *lab) {
	for _, writers := range [][]int{nil, {0}, {1}, {0, 1}} {
		b := l.braid(t)
		tx := b.Begin(TxOptions{Locking: true, Isolation: "SERIALIZABLE"})
		for _, n := range []int{0, 2} {
			mustExec(t, tx, b.nodes[n], "SELECT v FROM app.t WHERE id=1")
		}
		for _, n := range writers {
			mustExec(t, tx, b.nodes[n], add(1, 10))
			tx.Wrote(b.nodes[n])
		}
		victim := tx.On(b.nodes[2])
		l.exec(t, 2, "KILL "+itoa(victim.id))
		until(t, "the connection to close", func() bool { return !victim.alive() })
		wantCode(t, tx.Commit(t.Context()), gomysql.ER_LOCK_DEADLOCK)
		wantState(t, tx, TxEnded)
		l.wantRows(t, 100, 100, 100)
		if n := l.preparedAnywhere(t); n != 0 {
			t.Errorf("writers %v: %d branches are left prepared", writers, n)
		}
		for _, n := range b.nodes {
			if s := n.Stats(); s.Open != s.Idle {
				t.Errorf("writers %v: node %s: %+v", writers, n.name, s)
			}
		}
	}
}
