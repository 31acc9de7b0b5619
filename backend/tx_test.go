package backend

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"braid/tests/servers"
)

// TestTransactions checks the rules T1-T17 on servers of both flavours.
func TestTransactions(t *testing.T) {
	eachLab(t, append(bothWays([]labTest{
		{"commits on all nodes", testCommits, false},
		{"rolls back on all nodes", testRollsBack, false},
		{"T1 a failed decision row is a rollback everywhere", testT1InsertFails, false},
		{"T2 a failed prefix commits nothing", testT2, false},
		{"T3 a deadlock in a branch rolls everything back first", testT3, false},
		{"T4 a lost leg", testT4Lost, false},
		{"T4 a leg found lost at COMMIT", testT4AtCommit, false},
		{"T4 a lost leg whose id is another connection's", testT4Innocent, false},
		{"T4 an unknown outcome", testT4Unknown, false},
		{"T6 one server twice is refused", testT6Twice, false},
		{"T6 nodes of two clusters are refused", testT6Clusters, false},
		{"T6 a new Braid finds the cluster id", testT6Same, false},
		{"T8 legs have a wait_timeout", testT8WaitTimeout, false},
		{"T11 a branch that does not answer is finished before the next read", testT11, false},
		{"T11 an early OK is waited behind", testT11Decided, false},
		{"T11 a node that dies behind an early OK", testT11DecidedLost, false},
		{"T12 who writes decides how to commit", testT12, false},
		{"T13 a failed statement is undone on all legs", testT13Undo, false},
		{"T13 savepoints reach late legs", testT13Savepoints, false},
		{"T13 savepoint errors", testT13Errors, false},
		{"T14 one-shot characteristics reach every leg", testT14, false},
		{"T14 a snapshot is opened in a branch", testT14Snapshot, false},
		{"T16 a lost reading leg ends a locking transaction", testT16LostReader, false},
		{"T17 temporary tables", testT17, false},
		{"single mode stays on one node", testSingle, false},
		{"an unreachable node costs the statement only", testUnreachable, false},
	}), []labTest{
		{"T1 a lost fence is a rollback everywhere", testT1Fenced, false},
		{"a lost COMMIT is resolved by the fence", testResolve, false},
	}...))
}

func testCommits(t *testing.T, l *lab) {
	b := l.braid(t)
	tx := transfer(t, b, 0, 1, 2)
	if open := b.Open(); len(open) != 1 || len(open[0].Nodes) != 3 || len(open[0].GTRID) != 63 {
		t.Errorf("open: %+v", open)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.wantRows(t, 110, 110, 110)
	if n := l.preparedAnywhere(t); n != 0 {
		t.Errorf("%d branches are left prepared", n)
	}
	if n := l.value(t, 0, "SELECT COUNT(*) FROM braid.decision WHERE decision='commit'"); n != 1 {
		t.Errorf("%d decisions", n)
	}
	if len(b.Open()) != 0 || !tx.Over() {
		t.Error("still open")
	}
	for _, n := range b.nodes {
		if s := n.Stats(); s.Open != 1 || s.Idle != 1 {
			t.Errorf("node %s: %+v", n.name, s)
		}
	}
	// The connections serve the next ones, also under autocommit.
	tx = transfer(t, b, 1, 0)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	c, err := b.nodes[1].Get(t.Context(), false, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Bring(&Need{Autocommit: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Exec(add(2, 1)); err != nil {
		t.Fatal(err)
	}
	c.Release()
	if got := l.v(t, 1, 2); got != 101 {
		t.Errorf("an autocommit write behind a transaction: %d", got)
	}
	l.wantRows(t, 120, 120, 110)
}

func testRollsBack(t *testing.T, l *lab) {
	b := l.braid(t)
	tx := transfer(t, b, 0, 1, 2)
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.wantRows(t, 100, 100, 100)
	for _, n := range b.nodes {
		if s := n.Stats(); s.Open != 1 || s.Idle != 1 {
			t.Errorf("node %s: %+v", n.name, s)
		}
	}
}

func testT1Fenced(t *testing.T, l *lab) {
	b := l.braid(t)
	tx := transfer(t, b, 0, 1, 2)
	l.exec(t, 0, "INSERT INTO braid.decision VALUES ('"+b.Open()[0].GTRID+"','rollback','',UNIX_TIMESTAMP())")
	wantCode(t, tx.Commit(t.Context()), gomysql.ER_LOCK_DEADLOCK)
	wantState(t, tx, TxEnded)
	l.wantRows(t, 100, 100, 100)
	if n := l.preparedAnywhere(t); n != 0 {
		t.Errorf("%d branches are left prepared", n)
	}
}

func testT1InsertFails(t *testing.T, l *lab) {
	b := l.braid(t)
	l.exec(t, 0, "RENAME TABLE braid.decision TO braid.away")
	defer l.exec(t, 0, "RENAME TABLE braid.away TO braid.decision")
	tx := transfer(t, b, 0, 1, 2)
	wantCode(t, tx.Commit(t.Context()), gomysql.ER_ERROR_DURING_COMMIT)
	l.wantRows(t, 100, 100, 100)
}

func testT2(t *testing.T, l *lab) {
	b := l.braid(t)
	bad := NewVars(Var{"sql_mode", "'NO_SUCH_MODE'"})
	if err := transfer(t, b, 0, 1, 2).Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, before := range [][]int{nil, {0}} {
		// The connection comes from an autocommit statement.
		idle, err := b.nodes[1].Get(t.Context(), false, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := idle.Bring(&Need{Autocommit: true}); err != nil {
			t.Fatal(err)
		}
		idle.Release()
		tx := transfer(t, b, before...)
		n := b.nodes[1]
		c, err := tx.Leg(t.Context(), n, "app", bad)
		if err != nil {
			t.Fatal(err)
		}
		tx.Wrote(n)
		_, err = c.Exec(add(1, 10))
		var prefix *ErrPrefix
		if !errors.As(err, &prefix) {
			t.Fatalf("leg %d: %v", i, err)
		}
		wantCode(t, tx.Failed(n, err), gomysql.ER_LOCK_DEADLOCK)
		wantState(t, tx, TxLost)
		_ = tx.Rollback(t.Context())
		l.wantRows(t, 100, 100, 100)
		if err := transfer(t, b, 1).Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func testT3(t *testing.T, l *lab) {
	b := l.braid(t)
	tx := transfer(t, b, 0, 1)
	// The other one has changed more rows, so that it is not the victim.
	other, err := l.root[1].Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		_, _ = other.ExecContext(context.Background(), "ROLLBACK")
		_ = other.Close()
	}()
	for _, text := range []string{"BEGIN", "UPDATE app.t SET v=v+1 WHERE id>1"} {
		if _, err := other.ExecContext(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	done := make(chan error)
	go func() {
		_, err := other.ExecContext(t.Context(), "UPDATE app.t SET v=v+1 WHERE id=1")
		done <- err
	}()
	until(t, "the other to wait", func() bool {
		// The servers renew this table only when nobody has read it for 100 ms.
		for range 2 {
			if pause(t.Context()) != nil {
				return false
			}
		}
		return l.value(t, 1, "SELECT COUNT(*) FROM information_schema.INNODB_TRX WHERE trx_state='LOCK WAIT'") == 1
	})
	err = legExec(t, tx, b.nodes[1], add(2, 10))
	if err == nil {
		t.Fatal("no deadlock")
	}
	wantCode(t, tx.Failed(b.nodes[1], err), gomysql.ER_LOCK_DEADLOCK)
	wantState(t, tx, TxEnded)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	// The locks on the other node are gone at once.
	if got := l.value(t, 0, "SELECT v FROM app.t WHERE id=1 FOR UPDATE NOWAIT"); got != 100 {
		t.Errorf("v is %d", got)
	}
	if _, err := other.ExecContext(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	l.wantRows(t, 100, 100, 100)
	if err := legExec(t, tx, b.nodes[0], "SELECT 1"); err == nil {
		t.Error("an ended transaction takes a statement")
	}
}

func testT4Lost(t *testing.T, l *lab) {
	b := l.braid(t)
	tx := transfer(t, b, 0, 1, 2)
	victim := tx.On(b.nodes[1])
	l.exec(t, 1, "KILL "+itoa(victim.id))
	err := legExec(t, tx, b.nodes[1], add(2, 10))
	if err == nil {
		t.Fatal("the killed leg answered")
	}
	wantCode(t, tx.Failed(b.nodes[1], err), gomysql.ER_LOCK_DEADLOCK)
	wantState(t, tx, TxLost)
	// Refused on every node until COMMIT, which answers the error.
	wantCode(t, legExec(t, tx, b.nodes[2], add(3, 1)), gomysql.ER_LOCK_DEADLOCK)
	wantCode(t, tx.Savepoint(t.Context(), "a"), gomysql.ER_LOCK_DEADLOCK)
	wantCode(t, tx.Commit(t.Context()), gomysql.ER_LOCK_DEADLOCK)
	wantState(t, tx, TxEnded)
	l.wantRows(t, 100, 100, 100)
	for _, n := range b.nodes {
		if s := n.Stats(); s.Open != s.Idle {
			t.Errorf("node %s: %+v", n.name, s)
		}
	}
}

// The id of a connection that died with its server may be another's since the server
// was started again: that one is left in peace.
func testT4Innocent(t *testing.T, l *lab) {
	b := l.braid(t)
	for _, older := range []bool{true, false} {
		tx := transfer(t, b, 0)
		c := tx.On(b.nodes[0])
		other, err := b.nodes[0].Own(t.Context(), time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		c.id = other.id
		if older {
			c.born = c.born.Add(-24 * time.Hour)
		}
		tx.Abandon(c)
		_ = tx.Rollback(t.Context())
		if _, err := other.Query("SELECT 1", 1); (err == nil) != older {
			t.Errorf("a connection from before the server was started, %v: the other one: %v", older, err)
		}
		_ = other.Close()
	}
}

func testT4AtCommit(t *testing.T, l *lab) {
	b := l.braid(t)
	for _, writers := range [][]int{{0}, {0, 1, 2}, {1, 0}} {
		tx := transfer(t, b, writers...)
		last := b.nodes[writers[len(writers)-1]]
		victim := tx.On(last)
		l.exec(t, writers[len(writers)-1], "KILL "+itoa(victim.id))
		until(t, "the connection to close", func() bool { return !victim.alive() })
		wantCode(t, tx.Commit(t.Context()), gomysql.ER_LOCK_DEADLOCK)
		wantState(t, tx, TxEnded)
		l.wantRows(t, 100, 100, 100)
		if n := l.preparedAnywhere(t); n != 0 {
			t.Errorf("%d branches are left prepared", n)
		}
	}
}

func testT4Unknown(t *testing.T, l *lab) {
	b := l.braid(t)
	for _, nodes := range [][]int{{1}, {0, 1}} {
		tx := b.Begin(TxOptions{})
		for _, n := range nodes[:len(nodes)-1] {
			mustExec(t, tx, b.nodes[n], "SELECT v FROM app.t WHERE id=1")
		}
		mustExec(t, tx, b.nodes[1], add(1, 10))
		l.pause(t, 1)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		err := tx.Commit(ctx)
		cancel()
		if err := l.servers[1].Continue(); err != nil {
			t.Fatal(err)
		}
		if !errors.Is(err, ErrOutcomeUnknown) {
			t.Fatalf("got %v", err)
		}
		wantState(t, tx, TxUnknown)
	}
}

func testT6Twice(t *testing.T, l *lab) {
	_, err := newBraid(l.servers[0].Addr(), strings.Replace(l.servers[0].Addr(), "127.0.0.1", "localhost", 1))
	var conflict *Conflict
	if !errors.As(err, &conflict) {
		t.Fatalf("got %v", err)
	}
}

func testT6Clusters(t *testing.T, l *lab) {
	l.braid(t)
	l.exec(t, 2, "UPDATE braid.node SET cluster='"+randomID(8)+"'")
	defer func() {
		l.exec(t, 2, "UPDATE braid.node SET cluster='"+clusterOf(t, l, 0)+"'")
	}()
	_, err := newBraid(l.addrs()...)
	var conflict *Conflict
	if !errors.As(err, &conflict) {
		t.Fatalf("got %v", err)
	}
}

func clusterOf(t *testing.T, l *lab, i int) (id string) {
	if err := l.root[i].QueryRow("SELECT cluster FROM braid.node").Scan(&id); err != nil {
		t.Fatal(err)
	}
	return id
}

func testT6Same(t *testing.T, l *lab) {
	a := l.braid(t)
	for i := range l.root {
		if got := clusterOf(t, l, i); got != a.clusterID() {
			t.Errorf("server %d: cluster %q, want %q", i, got, a.clusterID())
		}
	}
	// The first node is down: the others know.
	dead, err := newBraid("127.0.0.1:1", l.servers[1].Addr(), l.servers[2].Addr())
	if err != nil {
		t.Fatal(err)
	}
	if dead.clusterID() != a.clusterID() {
		t.Errorf("cluster %q, want %q", dead.clusterID(), a.clusterID())
	}
	tx := transfer(t, dead, 1, 2)
	if err := tx.Commit(t.Context()); err != nil {
		t.Error(err)
	}
}

func testT8WaitTimeout(t *testing.T, l *lab) {
	b := l.braid(t)
	tx := b.Begin(TxOptions{})
	for _, n := range b.nodes {
		c, err := tx.Leg(t.Context(), n, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		rows, err := c.Query("SELECT @@wait_timeout, @@autocommit", 1)
		if err != nil {
			t.Fatal(err)
		}
		if string(rows[0][0]) != "28861" || string(rows[0][1]) != "0" {
			t.Errorf("node %s: %s", n.name, rows[0])
		}
	}
	_ = tx.Rollback(t.Context())
}

func testT12(t *testing.T, l *lab) {
	b := l.braid(t)
	read := "SELECT v FROM app.t WHERE id=1"
	for _, test := range []struct {
		name      string
		texts     [labNodes]string
		decisions [2]int // with an ordinary first leg, with branches only
		want      [labNodes]int
	}{
		{"none", [...]string{read, read, read}, [...]int{0, 0}, [...]int{100, 100, 100}},
		{"the first", [...]string{add(1, 1), read, read}, [...]int{0, 0}, [...]int{101, 100, 100}},
		{"a branch", [...]string{read, add(1, 1), read}, [...]int{0, 0}, [...]int{101, 101, 100}},
		{"two branches behind a reading decider", [...]string{read, add(1, 1), add(1, 1)}, [...]int{1, 2}, [...]int{101, 102, 101}},
		{"a locking read counts", [...]string{add(1, 1), read + " FOR UPDATE", read}, [...]int{2, 4}, [...]int{102, 102, 101}},
	} {
		tx := b.Begin(TxOptions{})
		for i, text := range test.texts {
			mustExec(t, tx, b.nodes[i], text)
		}
		if err := tx.Commit(t.Context()); err != nil {
			t.Fatalf("%s: %v", test.name, err)
		}
		want := test.decisions[0]
		if l.spread {
			want = test.decisions[1]
		}
		if got := l.decisions(t); got != want {
			t.Errorf("%s: %d decisions, want %d", test.name, got, want)
		}
		l.wantRows(t, test.want[:]...)
		for _, n := range b.nodes {
			if s := n.Stats(); s.Idle != 1 || s.Open != 1 {
				t.Errorf("%s: node %s: %+v", test.name, n.name, s)
			}
		}
	}
	if n := l.preparedAnywhere(t); n != 0 {
		t.Errorf("%d branches are left prepared", n)
	}
}

func testT14(t *testing.T, l *lab) {
	b := l.braid(t)
	vars := NewVars(Var{"transaction_isolation", "'REPEATABLE-READ'"})
	for range 2 { // fresh and pooled connections
		tx := b.Begin(TxOptions{Isolation: "READ-COMMITTED", ReadOnly: true})
		for i, n := range b.nodes {
			c, err := tx.Leg(t.Context(), n, "", vars)
			if err != nil {
				t.Fatal(err)
			}
			read := func(want string) {
				t.Helper()
				rows, err := c.Query("SELECT v FROM app.t WHERE id=3", 1)
				if err != nil || string(rows[0][0]) != want {
					t.Errorf("node %s: %s, %v; want %s", n.name, rows, err, want)
				}
			}
			read("100")
			l.exec(t, i, "UPDATE app.t SET v=200 WHERE id=3")
			read("200") // READ COMMITTED
			_, err = c.Exec(add(1, 1))
			wantCode(t, err, gomysql.ER_CANT_EXECUTE_IN_READ_ONLY_TRANSACTION)
			l.exec(t, i, "UPDATE app.t SET v=100 WHERE id=3")
		}
		if err := tx.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	// The next transaction is an ordinary one again.
	tx := b.Begin(TxOptions{})
	c, err := tx.Leg(t.Context(), b.nodes[1], "", vars)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		rows, err := c.Query("SELECT v FROM app.t WHERE id=3", 1)
		if err != nil || string(rows[0][0]) != "100" {
			t.Errorf("%s, %v", rows, err)
		}
		l.exec(t, 1, "UPDATE app.t SET v=200 WHERE id=3")
	}
	_ = tx.Rollback(t.Context())
	_, err = b.Begin(TxOptions{Isolation: "SERIALIZABLE; DROP TABLE app.t"}).Leg(t.Context(), b.nodes[0], "", nil)
	wantCode(t, err, gomysql.ER_WRONG_VALUE_FOR_VAR)
}

func testT14Snapshot(t *testing.T, l *lab) {
	b := l.braid(t)
	tx := b.Begin(TxOptions{Snapshot: true})
	for i, n := range b.nodes {
		c, err := tx.Leg(t.Context(), n, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Confirm(); err != nil { // the snapshot is taken now
			t.Fatal(err)
		}
		l.exec(t, i, "UPDATE app.t SET v=500 WHERE id=1")
		rows, err := c.Query("SELECT v FROM app.t WHERE id=1", 1)
		if err != nil || string(rows[0][0]) != "100" {
			t.Errorf("node %s: %s, %v", n.name, rows, err)
		}
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func testT17(t *testing.T, l *lab) {
	b := l.braid(t)
	tx := transfer(t, b, 0)
	err := legExec(t, tx, b.nodes[1], "CREATE TEMPORARY TABLE app.tmp (a INT)")
	if l.flavour == servers.MariaDB {
		if err != nil {
			t.Fatal(err)
		}
	} else {
		wantCode(t, tx.Failed(b.nodes[1], err), gomysql.ER_NOT_SUPPORTED_YET)
		wantState(t, tx, TxActive)
	}
	tx.On(b.nodes[1]).Tainted = true
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s := b.nodes[1].Stats(); s.Idle != 0 {
		t.Error("a connection with a temporary table went to the pool")
	}
	l.wantRows(t, 110, 100, 100)
}

func testSingle(t *testing.T, l *lab) {
	b := l.braid(t)
	tx := b.Begin(TxOptions{Mode: TxSingle})
	mustExec(t, tx, b.nodes[1], add(1, 1))
	wantCode(t, legExec(t, tx, b.nodes[0], "SELECT 1"), gomysql.ER_NOT_SUPPORTED_YET)
	mustExec(t, tx, b.nodes[1], add(1, 1))
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.wantRows(t, 100, 102, 100)
}

func testResolve(t *testing.T, l *lab) {
	b := l.braid(t)
	for _, test := range []struct {
		step string
		want int
		code uint16
	}{
		{stepBeforeDecision, 100, gomysql.ER_LOCK_DEADLOCK}, // killed before COMMIT reaches it
		{stepDeciding, -1, 0},                               // at about the same time: either
	} {
		tx := transfer(t, b, 0, 1, 2)
		id := tx.On(b.nodes[0]).id
		b.failpoint = func(step string) {
			if step == test.step {
				if _, err := l.root[0].Exec("KILL " + itoa(id)); err != nil {
					var gone bool
					if gone = strings.Contains(err.Error(), "1094"); !gone {
						t.Error(err)
					}
				}
			}
		}
		err := tx.Commit(t.Context())
		b.failpoint = nil
		want := 100
		if err == nil {
			want = 110
		} else {
			wantCode(t, err, gomysql.ER_LOCK_DEADLOCK)
		}
		if test.want >= 0 && want != test.want {
			t.Errorf("%s: %v", test.step, err)
		}
		l.wantRows(t, want, want, want)
		if n := l.preparedAnywhere(t); n != 0 {
			t.Errorf("%s: %d branches are left prepared", test.step, n)
		}
		wantState(t, tx, TxEnded)
	}
}

func testUnreachable(t *testing.T, l *lab) {
	b, err := newBraid(l.servers[0].Addr(), l.servers[1].Addr(), "127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	tx := transfer(t, b, 0, 1)
	err = legExec(t, tx, b.nodes[2], "SELECT 1")
	var u *Unreachable
	if !errors.As(err, &u) {
		t.Fatalf("got %v", err)
	}
	wantCode(t, tx.Failed(b.nodes[2], err), gomysql.ER_CONNECT_TO_FOREIGN_DATA_SOURCE)
	wantState(t, tx, TxActive)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.wantRows(t, 110, 110, 100)
}
