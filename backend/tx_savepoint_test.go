package backend

import (
	"strings"
	"testing"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"braid/internal/mysql"
)

func testT13Undo(t *testing.T, l *lab) {
	b := l.braid(t)
	tx := transfer(t, b, 0) // 110 stays
	var conns []*Conn
	for _, n := range b.nodes {
		c, err := tx.Leg(t.Context(), n, "app", nil)
		if err != nil {
			t.Fatal(err)
		}
		tx.Wrote(n)
		conns = append(conns, c)
	}
	for range 2 { // a second one replaces the first
		if err := tx.Guard(conns...); err != nil {
			t.Fatal(err)
		}
		texts := []string{add(1, 1000), add(1, 1000), "INSERT INTO app.t VALUES (9,9),(1,1)"}
		for i, c := range conns {
			_, err := c.Exec(texts[i])
			if i == 2 {
				wantCode(t, err, gomysql.ER_DUP_ENTRY)
				wantCode(t, tx.Failed(b.nodes[i], err), gomysql.ER_DUP_ENTRY)
			} else if err != nil {
				t.Fatal(err)
			}
		}
		if err := tx.Undo(t.Context(), conns...); err != nil {
			t.Fatal(err)
		}
		wantState(t, tx, TxActive)
	}
	mustExec(t, tx, b.nodes[2], add(1, 5))
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.wantRows(t, 110, 100, 105)
	if n := l.value(t, 2, "SELECT COUNT(*) FROM app.t WHERE id=9"); n != 0 {
		t.Error("half the statement is there")
	}

	// What cannot be undone ends the transaction.
	tx = transfer(t, b, 0, 1)
	wantCode(t, tx.Undo(t.Context(), tx.On(b.nodes[0]), tx.On(b.nodes[1])), gomysql.ER_LOCK_DEADLOCK)
	wantState(t, tx, TxEnded)
	l.wantRows(t, 110, 100, 105)
}

func testT13Savepoints(t *testing.T, l *lab) {
	b := l.braid(t)
	ctx := t.Context()
	tx := b.Begin(TxOptions{})
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ok(tx.Savepoint(ctx, "s1"))
	ok(tx.RollbackTo(ctx, "s1"))
	mustExec(t, tx, b.nodes[0], add(1, 1))
	ok(tx.Savepoint(ctx, "s2"))
	mustExec(t, tx, b.nodes[0], add(1, 10))
	mustExec(t, tx, b.nodes[1], add(1, 10)) // late: joined after s2
	ok(tx.Savepoint(ctx, "weird `name`"))
	mustExec(t, tx, b.nodes[1], add(1, 100))
	ok(tx.RollbackTo(ctx, "WEIRD `name`"))
	mustExec(t, tx, b.nodes[2], add(1, 10))
	ok(tx.RollbackTo(ctx, "S2"))
	mustExec(t, tx, b.nodes[2], add(1, 2))
	ok(tx.Savepoint(ctx, "S2")) // replaces it
	mustExec(t, tx, b.nodes[1], add(1, 1000))
	ok(tx.RollbackTo(ctx, "s2"))
	ok(tx.Release(ctx, "s2"))
	wantCode(t, tx.RollbackTo(ctx, "s2"), gomysql.ER_SP_DOES_NOT_EXIST)
	wantState(t, tx, TxActive)
	ok(tx.Commit(ctx))
	l.wantRows(t, 101, 100, 102)

	// s1 of before any leg winds everything back.
	tx = b.Begin(TxOptions{})
	ok(tx.Savepoint(ctx, "s1"))
	mustExec(t, tx, b.nodes[0], add(1, 1))
	mustExec(t, tx, b.nodes[1], add(1, 1))
	ok(tx.RollbackTo(ctx, "s1"))
	ok(tx.Commit(ctx))
	l.wantRows(t, 101, 100, 102)
}

func testT13Errors(t *testing.T, l *lab) {
	b := l.braid(t)
	ctx := t.Context()
	tx := transfer(t, b, 0)
	defer tx.Rollback(ctx)
	err := tx.Release(ctx, "NoSuch")
	wantCode(t, err, gomysql.ER_SP_DOES_NOT_EXIST)
	_, want := l.root[0].Exec("RELEASE SAVEPOINT NoSuch")
	if want == nil || !strings.HasSuffix(want.Error(), err.(*mysql.Error).Message) {
		t.Errorf("got %v, the server says %v", err, want)
	}
	wantCode(t, tx.Savepoint(ctx, statementSavepoint), gomysql.ER_NOT_SUPPORTED_YET)
	wantCode(t, tx.Savepoint(ctx, "é"), gomysql.ER_NOT_SUPPORTED_YET)
	wantState(t, tx, TxActive)
}
