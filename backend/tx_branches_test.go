package backend

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"braid/tests/servers"
)

// TestBranches checks what is different where every leg of a transaction is a
// branch.
func TestBranches(t *testing.T) {
	eachLab(t, []labTest{
		{"COMMIT prepares all at once", testBranchesCommit, true},
		{"one node is committed in one phase", testBranchesOne, true},
		{"every crash leaves every transfer whole", testBranchesCrashes, true},
		{"recovery finds out how it was decided", testBranchesRecovery, true},
		{"a branch that goes while it is looked at decides nothing", testBranchesGone, true},
		{"a crash of recovery is recovered from", testBranchesRecoveryCrashes, true},
		{"a killed server has its branches and rows again", testBranchesServerKilled, true},
		{"a leg lost while it prepares is resolved", testBranchesLost, true},
		{"a server that dies while it prepares is waited for", testBranchesServerLost, true},
		{"a leg that nobody can ask about is an unknown outcome", testBranchesUnknown, true},
		{"T1 a fence on any node is a rollback everywhere", testBranchesFenced, true},
		{"T1 rows that were undone are written again", testBranchesUndone, true},
		{"rows of several transactions do not wait for each other", testBranchesRowsApart, true},
		{"what failed in front of a row is not forgotten", testBranchesAnnounceFails, true},
		{"T5 a fence waits for an uncommitted row", testBranchesT5, true},
		{"T8 a branch whose owner hangs before it prepares", testBranchesHang, true},
		{"T7 answers of long ago are not trusted", testBranchesLate, true},
		{"T9 rows go on every node when nobody can need them", testBranchesT9, true},
		{"T17 a temporary table has the transaction begun anew", testBranchesT17, true},
		{"an interrupted COMMIT is decided", testBranchesInterrupted, true},
	})
}

func testBranchesCommit(t *testing.T, l *lab) {
	for _, nodes := range [][]int{{0, 1}, {2, 1, 0}} {
		l.clean(t)
		b := l.braid(t)
		tx := transfer(t, b, nodes...)
		for _, i := range nodes {
			// The row is there before COMMIT, and names all that have written.
			list := ""
			row := "SET SESSION TRANSACTION ISOLATION LEVEL READ UNCOMMITTED"
			c, err := l.root[i].Conn(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := c.ExecContext(t.Context(), row); err != nil {
				t.Fatal(err)
			}
			until(t, "the decision row", func() bool {
				return c.QueryRowContext(t.Context(), "SELECT branches FROM braid.decision").Scan(&list) == nil && len(strings.Fields(list)) == len(nodes)
			})
			if _, err := c.ExecContext(t.Context(), "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ"); err != nil {
				t.Fatal(err)
			}
			_ = c.Close()
		}
		if err := tx.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !tx.Spanned() {
			t.Error("it has written on several nodes")
		}
		for _, i := range nodes {
			if got := l.v(t, i, 1); got != 110 {
				t.Errorf("server %d: %d", i, got)
			}
			if n := l.value(t, i, "SELECT COUNT(*) FROM braid.decision WHERE decision='commit'"); n != 1 {
				t.Errorf("server %d: %d rows", i, n)
			}
		}
		if n := l.preparedAnywhere(t); n != 0 {
			t.Errorf("%d branches are left prepared", n)
		}
	}
}

func testBranchesOne(t *testing.T, l *lab) {
	b := l.braid(t)
	for _, nodes := range [][]int{{1}, {1, 0}} { // the second only reads
		tx := transfer(t, b, nodes[0])
		for _, i := range nodes[1:] {
			mustExec(t, tx, b.nodes[i], "SELECT v FROM app.t WHERE id=1")
		}
		if err := tx.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		if tx.Spanned() {
			t.Error("it has written on one node only")
		}
	}
	l.wantRows(t, 100, 120, 100)
	if n := l.decisions(t); n != 0 {
		t.Errorf("%d decision rows", n)
	}
}

func testBranchesCrashes(t *testing.T, l *lab) {
	const rolledBack, committed, either = 100, 110, 0
	for _, test := range []struct {
		failpoint string
		want      int
	}{
		{stepBeforePrepare, rolledBack},
		{stepPreparing, either},
		{stepBranchPrepared, either},
		{stepBranchPrepared + ":2", either},
		{stepPrepared, committed},
		{stepDecided, committed},
		{stepBranchSent, committed},
		{stepHalfCommitted, committed},
		{stepHalfCommitted + ":2", committed},
		{stepCommitted, committed},
	} {
		l.clean(t)
		l.crash(t, test.failpoint)
		l.wantWhole(t, test.failpoint, test.want)
	}
}

// wantWhole recovers until nothing is prepared, and checks row 1 on all servers:
// it is want, or the same everywhere where want is 0.
func (l *lab) wantWhole(t *testing.T, when string, want int) {
	t.Helper()
	b := l.braid(t)
	var got [labNodes]int
	for {
		b.recoverAll(t, l)
		// v waits for what the servers still hold of the dead process.
		got = [labNodes]int{l.v(t, 0, 1), l.v(t, 1, 1), l.v(t, 2, 1)}
		if l.preparedAnywhere(t) == 0 {
			break
		}
	}
	if want == 0 && (got[0] == 100 || got[0] == 110) {
		want = got[0]
	}
	if got != [labNodes]int{want, want, want} {
		t.Errorf("%s: values are %v, want %d", when, got, want)
	}
}

func testBranchesLost(t *testing.T, l *lab) {
	for _, step := range []string{stepBeforePrepare, stepPreparing, stepBranchPrepared, stepPrepared, stepDecided} {
		for victim := range labNodes {
			l.clean(t)
			b := l.braid(t)
			tx := transfer(t, b, 0, 1, 2)
			id := tx.On(b.nodes[victim]).id
			killed := false
			b.failpoint = func(s string) {
				if s != step || killed {
					return
				}
				killed = true
				if _, err := l.root[victim].Exec("KILL " + itoa(id)); err != nil && !strings.Contains(err.Error(), "1094") {
					t.Error(err)
				}
			}
			err := tx.Commit(t.Context())
			b.failpoint = nil
			want := 110
			if err != nil {
				want = 100
				wantCode(t, err, gomysql.ER_LOCK_DEADLOCK)
			}
			if step == stepPrepared && want != 110 || step == stepBeforePrepare && want != 100 {
				t.Errorf("%s, server %d: %v", step, victim, err)
			}
			l.wantRows(t, want, want, want)
			if n := l.preparedAnywhere(t); n != 0 {
				t.Errorf("%s, server %d: %d branches are left prepared", step, victim, n)
			}
			wantState(t, tx, TxEnded)
			for _, n := range b.nodes {
				if s := n.Stats(); s.Open != s.Idle {
					t.Errorf("%s, server %d: node %s: %+v", step, victim, n.name, s)
				}
			}
		}
	}
}

func testBranchesServerLost(t *testing.T, l *lab) {
	for victim := range labNodes {
		l.clean(t)
		b := l.braid(t)
		tx := transfer(t, b, 0, 1, 2)
		back := make(chan error, 1)
		b.failpoint = func(s string) {
			if s == stepPreparing {
				l.servers[victim].Kill9()
				go func() { back <- l.servers[victim].Restart(context.WithoutCancel(t.Context())) }()
			}
		}
		err := tx.Commit(t.Context())
		b.failpoint = nil
		if err := <-back; err != nil {
			t.Fatal(err)
		}
		want := 110
		switch {
		case errors.Is(err, ErrOutcomeUnknown): // it took longer than Braid waits
			want = 0
		case err != nil:
			want = 100
			wantCode(t, err, gomysql.ER_LOCK_DEADLOCK)
		}
		until(t, "the server to be ready", func() bool {
			_, err := b.RecoverNow(t.Context(), RecoverOptions{})
			return err == nil && b.ready(t, victim)
		})
		l.wantWhole(t, fmt.Sprintf("server %d", victim), want)
	}
}

// ready tells whether a node takes connections.
func (b *braid) ready(t *testing.T, i int) bool {
	c, err := ownConn(t.Context(), b.nodes[i], time.Second)
	if err != nil {
		return false
	}
	_ = c.Close()
	return true
}

func testBranchesUnknown(t *testing.T, l *lab) {
	b := l.braid(t)
	b.patience = 200 * time.Millisecond
	tx := transfer(t, b, 0, 1, 2)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	b.failpoint = func(s string) {
		switch s {
		case stepBeforePrepare:
			l.pause(t, 2)
		case stepPreparing:
			cancel()
		}
	}
	err := tx.Commit(ctx)
	b.failpoint = nil
	if err := l.servers[2].Continue(); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(err, ErrOutcomeUnknown) {
		t.Fatalf("got %v", err)
	}
	wantState(t, tx, TxUnknown)
	l.wantWhole(t, "an unknown outcome", 0)
}

func testBranchesFenced(t *testing.T, l *lab) {
	b := l.braid(t)
	for i := range labNodes {
		tx := b.Begin(TxOptions{})
		for k, n := range b.nodes {
			c, err := tx.Leg(t.Context(), n, "app", nil)
			if err != nil {
				t.Fatal(err)
			}
			tx.Wrote(n) // COMMIT writes the rows
			for _, text := range []string{"SET SESSION sql_select_limit=1,sql_mode=''", add(1, 10+k)} {
				if _, err := c.Exec(text); err != nil {
					t.Fatal(err)
				}
			}
		}
		l.exec(t, i, "INSERT INTO braid.decision VALUES ('"+b.Open()[0].GTRID+"','rollback','',UNIX_TIMESTAMP())")
		wantCode(t, tx.Commit(t.Context()), gomysql.ER_LOCK_DEADLOCK)
		wantState(t, tx, TxEnded)
		l.wantRows(t, 100, 100, 100)
		if n := l.preparedAnywhere(t); n != 0 {
			t.Errorf("%d branches are left prepared", n)
		}
	}
}

// What a dump says in front of its rows makes MariaDB lock an empty table as a whole
// for its first row (InnoDB's bulk insert).
func testBranchesRowsApart(t *testing.T, l *lab) {
	b := l.braid(t)
	begin := func(id int) *Tx {
		tx := b.Begin(TxOptions{})
		for _, n := range b.nodes[:2] {
			mustExec(t, tx, n, "SET SESSION unique_checks=0,foreign_key_checks=0,innodb_lock_wait_timeout=1")
			mustExec(t, tx, n, add(id, 10))
		}
		mustExec(t, tx, b.nodes[0], add(id, 0)) // sees that its row is there
		return tx
	}
	first, second := begin(1), begin(2)
	for _, tx := range []*Tx{second, first} {
		if err := tx.Commit(t.Context()); err != nil {
			t.Error(err)
		}
	}
	l.wantRows(t, 110, 110, 100)
}

// An error that comes while a row is queued is one of a statement before it.
func testBranchesAnnounceFails(t *testing.T, l *lab) {
	b := l.braid(t)
	for _, inHand := range []bool{true, false} {
		tx := transfer(t, b, 0)
		c, err := tx.Leg(t.Context(), b.nodes[1], "app", nil)
		if err != nil {
			t.Fatal(err)
		}
		legs := tx.AppendConns(nil)
		if err := legs[0].Queue("SET SESSION braid_has_no_such_variable=1"); err != nil {
			t.Fatal(err)
		}
		// Answers are read once so much is queued.
		if err := legs[0].Queue("SET @braid_test='" + strings.Repeat("x", prefixBytesMax-300) + "'"); err != nil {
			t.Fatal(err)
		}
		tx.Wrote(b.nodes[1])
		if inHand {
			tx.Announce(legs...)
		} else {
			tx.Announce(c)
		}
		if _, err = c.Exec(add(1, 10)); err == nil {
			_, err = legs[0].Exec(add(1, 10))
		}
		if err == nil {
			t.Error("the statement ran although what was in front of it had failed")
			_ = tx.Rollback(t.Context())
			continue
		}
		wantCode(t, tx.Failed(b.nodes[0], err), gomysql.ER_LOCK_DEADLOCK)
		wantState(t, tx, TxLost)
		_ = tx.Rollback(t.Context())
		l.wantRows(t, 100, 100, 100)
	}
}

// ROLLBACK TO SAVEPOINT, and a statement that is undone, take rows with them.
func testBranchesUndone(t *testing.T, l *lab) {
	for name, undo := range map[string]func(*Tx) error{
		"savepoint": func(tx *Tx) error { return tx.RollbackTo(t.Context(), "a") },
		"statement": func(tx *Tx) error { return tx.Undo(t.Context(), tx.AppendConns(nil)...) },
	} {
		for _, fenced := range []bool{false, true} {
			l.clean(t)
			b := l.braid(t)
			tx := transfer(t, b, 0)
			if name == "savepoint" {
				if err := tx.Savepoint(t.Context(), "a"); err != nil {
					t.Fatal(err)
				}
			} else if err := tx.Guard(tx.AppendConns(nil)...); err != nil {
				t.Fatal(err)
			}
			c, err := tx.Leg(t.Context(), b.nodes[1], "app", nil)
			if err != nil {
				t.Fatal(err)
			}
			if name == "statement" {
				if err := tx.Guard(c); err != nil {
					t.Fatal(err)
				}
			}
			tx.Wrote(b.nodes[1])
			tx.Announce(c)
			if _, err := c.Exec(add(1, 5)); err != nil {
				t.Fatal(err)
			}
			if err := undo(tx); err != nil {
				t.Fatal(err)
			}
			if _, err := c.Exec(add(1, 10)); err != nil {
				t.Fatal(err)
			}
			if fenced {
				// What a hasty recoverer does. MySQL may still lock where the row was.
				own, err := ownConn(t.Context(), b.nodes[0], time.Minute)
				if err != nil {
					t.Fatal(err)
				}
				_, err = fence(own, b.Open()[0].GTRID)
				_ = own.Close()
				if err == nil {
					wantCode(t, tx.Commit(t.Context()), gomysql.ER_LOCK_DEADLOCK)
					l.wantRows(t, 100, 100, 100)
					continue
				}
				if !errors.Is(err, errFenceBusy) || l.flavour != servers.MySQL {
					t.Fatal(err)
				}
			}
			_, list := tx.voters()
			if err := tx.Commit(t.Context()); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			l.wantRows(t, 110, 110, 100)
			for i := range 2 {
				if n := l.value(t, i, "SELECT COUNT(*) FROM braid.decision WHERE branches='"+list+"'"); n != 1 {
					t.Errorf("%s: server %d has no row that names both", name, i)
				}
			}
		}
	}
}

func testBranchesT5(t *testing.T, l *lab) {
	a, b := l.braid(t), l.braid(t)
	gtrid, release := stall(t, a, stepBeforePrepare)
	for i, n := range b.nodes {
		c, err := ownConn(t.Context(), n, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		if d, err := fence(c, gtrid); !errors.Is(err, errFenceBusy) {
			t.Errorf("server %d: a fence decided %q, %v before the branch was over", i, d, err)
		}
		_ = c.Close()
	}
	if err := release(); err != nil {
		t.Fatal(err)
	}
	l.wantRows(t, 110, 110, 110)
}

// A Braid hangs, or its machine is gone, when one branch is prepared and the others
// are not: their connections are open and hold what the fence waits for.
func testBranchesHang(t *testing.T, l *lab) {
	a, b := l.braid(t), l.braid(t)
	tx := transfer(t, a, 0, 1, 2)
	first := tx.leg(a.nodes[0])
	xid := xidText(a.Open()[0].GTRID, first.bqual)
	for _, text := range []string{"XA END " + xid, "XA PREPARE " + xid} {
		if _, err := first.conn.Exec(text); err != nil {
			t.Fatal(err)
		}
	}
	if committed, rolledBack := b.recoverAll(t, l); committed != 0 || rolledBack != 1 {
		t.Errorf("%d committed, %d rolled back", committed, rolledBack)
	}
	if err := tx.Commit(t.Context()); err == nil {
		t.Error("it was committed behind a rollback")
	}
	l.wantRows(t, 100, 100, 100)
}

func testBranchesLate(t *testing.T, l *lab) {
	b := l.braid(t)
	now := time.Now()
	b.now = func() time.Time { return now }
	tx := transfer(t, b, 0, 1, 2)
	b.failpoint = func(s string) {
		if s == stepPrepared {
			now = now.Add(time.Duration(b.recovery.Retention))
		}
	}
	err := tx.Commit(t.Context())
	b.failpoint = nil
	if !errors.Is(err, ErrOutcomeUnknown) {
		t.Errorf("got %v", err)
	}
	wantState(t, tx, TxUnknown)
	if n := l.preparedAnywhere(t); n != labNodes {
		t.Errorf("%d branches are prepared", n)
	}
	l.wantWhole(t, "late", 110)
}

func testBranchesT9(t *testing.T, l *lab) {
	b := l.braid(t)
	if err := transfer(t, b, 1, 2).Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := l.decisions(t); n != 2 {
		t.Fatalf("%d rows", n)
	}
	if r := pass(t, b, RecoverOptions{}); r.Purged != 0 {
		t.Errorf("young rows were deleted: %+v", r)
	}
	// As if it had been long ago.
	retention := time.Duration(b.recovery.Retention)
	g := newGlobalID(b.clusterID(), identityOf(t, b, 1), time.Now().Add(-retention-time.Hour)).String()
	for _, i := range []int{1, 2} {
		l.exec(t, i, fmt.Sprintf("UPDATE braid.decision SET gtrid='%s', created=created-%d", g, int(retention/time.Second)+60))
	}
	if r := pass(t, b, RecoverOptions{}); r.Purged != 2 {
		t.Errorf("%+v", r)
	}
	if n := l.decisions(t); n != 0 {
		t.Errorf("%d rows are left", n)
	}
}

func testBranchesT17(t *testing.T, l *lab) {
	b := l.braid(t)
	tx := transfer(t, b, 0, 1)
	err := legExec(t, tx, b.nodes[0], "CREATE TEMPORARY TABLE app.tmp (a INT)")
	if l.flavour == servers.MariaDB {
		if err != nil {
			t.Fatal(err)
		}
		tx.On(b.nodes[0]).Tainted = true
		if err := tx.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		l.wantRows(t, 110, 110, 100)
		return
	}
	wantCode(t, tx.Failed(b.nodes[0], err), gomysql.ER_LOCK_DEADLOCK)
	wantState(t, tx, TxEnded)
	if tx.Spanned() {
		t.Error("it would begin as a branch again")
	}
	l.wantRows(t, 100, 100, 100)
}

func testBranchesInterrupted(t *testing.T, l *lab) {
	for _, step := range []string{stepBeforePrepare, stepPreparing, stepBranchPrepared, stepPrepared} {
		l.clean(t)
		b := l.braid(t)
		tx := transfer(t, b, 0, 1, 2)
		ctx, cancel := context.WithCancel(t.Context())
		b.failpoint = func(s string) {
			if s == step {
				cancel()
			}
		}
		err := tx.Commit(ctx)
		b.failpoint = nil
		cancel()
		want := 110
		if err != nil {
			want = 100
			wantCode(t, err, gomysql.ER_LOCK_DEADLOCK)
		}
		l.wantRows(t, want, want, want)
		if n := l.preparedAnywhere(t); n != 0 {
			t.Errorf("%s: %d branches are left prepared", step, n)
		}
		for _, n := range b.nodes {
			if s := n.Stats(); s.Open != s.Idle {
				t.Errorf("%s: node %s: %+v", step, n.name, s)
			}
		}
	}
}
