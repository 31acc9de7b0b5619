package backend

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"braid/conf"
	"braid/tests/servers"
)

// TestRecovery checks the rules T5-T10 and crashes of Braid at every step.
func TestRecovery(t *testing.T) {
	eachLab(t, append(bothWays([]labTest{
		{"a storm of kills and hasty recoveries leaves everything whole", testStorm, false},
	}), []labTest{
		{"every crash leaves every transfer whole", testCrashes, false},
		{"a crash of recovery is recovered from", testRecoveryCrashes, false},
		{"T5 a fence waits for an uncommitted decision", testT5, false},
		{"T6 foreign branches are never touched", testT6Foreign, false},
		{"T7 seen prepared over the grace period", testT7Grace, false},
		{"T7 old branches are an operator's", testT7Old, false},
		{"T7 a commit under way here is left alone", testT7Open, false},
		{"T8 an attached owner is killed", testT8, false},
		{"T9 decisions go when nobody can need them", testT9, false},
		{"T10 another server in the decider's place decides nothing", testT10, false},
		{"an unreachable node's branches wait", testRecoverUnreachable, false},
		{"Run recovers by itself", testRun, false},
	}...))
}

// childVariable holds the addresses of the servers that a child process of the
// test works on, separated by commas.
const childVariable = "BRAID_TX_CHILD"

// spreadVariable says "true" where the child's transactions begin with a branch.
const spreadVariable = "BRAID_TX_SPREAD"

// TestTransactionChild is not a test: it is the process that is killed at a
// step of a transfer, or of recovery when the step is one of recovery's.
func TestTransactionChild(t *testing.T) {
	addrs := os.Getenv(childVariable)
	if addrs == "" {
		t.Skip("only runs as a child of TestRecovery")
	}
	b, err := newBraid(strings.Split(addrs, ",")...)
	if err != nil {
		t.Fatal(err)
	}
	b.spread = os.Getenv(spreadVariable) == "true"
	if strings.HasPrefix(os.Getenv(failpointVariable), "recover.") {
		if _, err := b.RecoverNow(t.Context(), RecoverOptions{Unseen: true}); err != nil {
			t.Fatal(err)
		}
		return
	}
	tx := transfer(t, b, 0, 1, 2)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// crash runs the child with a failpoint and expects it to be killed there.
func (l *lab) crash(t *testing.T, failpoint string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestTransactionChild$")
	cmd.Env = append(os.Environ(), spreadVariable+"="+strconv.FormatBool(l.spread), childVariable+"="+strings.Join(l.addrs(), ","), failpointVariable+"="+failpoint)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != -1 {
		t.Fatalf("%s: the child was not killed there: %v\n%s", failpoint, err, out)
	}
}

func testCrashes(t *testing.T, l *lab) {
	const rolledBack, committed, either = 100, 110, 0
	for _, test := range []struct {
		failpoint string
		want      int
	}{
		{stepBeforePrepare, rolledBack},
		{stepPreparing, rolledBack},
		{stepBranchPrepared, rolledBack},
		{stepBranchPrepared + ":2", rolledBack},
		{stepPrepared, rolledBack},
		{stepBeforeDecision, rolledBack},
		{stepDeciding, either},
		{stepDecided, committed},
		{stepBranchSent, committed},
		{stepHalfCommitted, committed},
		{stepHalfCommitted + ":2", committed},
		{stepCommitted, committed},
	} {
		l.clean(t)
		l.crash(t, test.failpoint)
		l.braid(t).recoverAll(t, l)
		// v waits for what the servers still hold of the dead process.
		got := [labNodes]int{l.v(t, 0, 1), l.v(t, 1, 1), l.v(t, 2, 1)}
		if n := l.preparedAnywhere(t); n != 0 {
			// It was prepared after the recovery: recovered like any other.
			l.braid(t).recoverAll(t, l)
			got = [labNodes]int{l.v(t, 0, 1), l.v(t, 1, 1), l.v(t, 2, 1)}
		}
		want := test.want
		if want == either {
			want = got[0]
		}
		if got != [labNodes]int{want, want, want} {
			t.Errorf("%s: values are %v, want %d", test.failpoint, got, want)
		}
	}
}

func testRecoveryCrashes(t *testing.T, l *lab) {
	for _, first := range []string{stepBeforeDecision, stepDecided} {
		for _, second := range []string{stepRecoverFenced, stepRecoverFinished} {
			l.clean(t)
			l.crash(t, first)
			until(t, "the branches to be prepared and the decider's row to be settled", func() bool {
				return len(l.prepared(t, 1)) == 1 && len(l.prepared(t, 2)) == 1 &&
					l.value(t, 0, "SELECT v FROM app.t WHERE id=1 FOR UPDATE") > 0
			})
			l.crash(t, second)
			l.braid(t).recoverAll(t, l)
			want := 100
			if first == stepDecided {
				want = 110
			}
			l.wantRows(t, want, want, want)
		}
	}
}

// stall runs a transfer that stops for good at a step, with its connections
// open, like a process that hangs. release lets it go on and returns its result.
func stall(t *testing.T, b *braid, step string) (gtrid string, release func() error) {
	t.Helper()
	tx := transfer(t, b, 0, 1, 2)
	gtrid = b.Open()[0].GTRID
	reached, goOn, result := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	b.failpoint = func(s string) {
		if s == step {
			close(reached)
			<-goOn
		}
	}
	go func() { result <- tx.Commit(context.Background()) }()
	<-reached
	return gtrid, func() error {
		close(goOn)
		err := <-result
		b.failpoint = nil
		return err
	}
}

func testT5(t *testing.T, l *lab) {
	a, b := l.braid(t), l.braid(t)
	gtrid, release := stall(t, a, stepBeforeDecision)
	c, err := ownConn(t.Context(), b.nodes[0], time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if d, err := fence(c, gtrid); !errors.Is(err, errFenceBusy) {
		t.Errorf("a fence decided %q, %v while the decision was being written", d, err)
	}
	if err := release(); err != nil {
		t.Fatal(err)
	}
	if d, err := fence(c, gtrid); err != nil || d != DecidedCommit {
		t.Errorf("got %q, %v", d, err)
	}
	fresh := newGlobalID(a.clusterID(), c.mustIdentity(t), time.Now()).String()
	for range 2 {
		if d, err := fence(c, fresh); err != nil || d != DecidedRollback {
			t.Errorf("got %q, %v", d, err)
		}
	}
}

// mustIdentity asks a connection's server who it is.
func (c *Conn) mustIdentity(t *testing.T) string {
	t.Helper()
	f, err := lookAtNode(c)
	if err != nil {
		t.Fatal(err)
	}
	return f.identity
}

// identityOf is a server's identity.
func identityOf(t *testing.T, b *braid, i int) string {
	t.Helper()
	f, err := b.prepared(t.Context(), b.nodes[i])
	if err != nil {
		t.Fatal(err)
	}
	return f.identity
}

// prepareBranch leaves a prepared branch with no owner on server i.
func (l *lab) prepareBranch(t *testing.T, i int, xid string, id int) {
	t.Helper()
	c, err := l.root[i].Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var conn uint64
	if err := c.QueryRowContext(t.Context(), "SELECT CONNECTION_ID()").Scan(&conn); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"XA START " + xid, add(id, 10), "XA END " + xid, "XA PREPARE " + xid} {
		if _, err := c.ExecContext(t.Context(), text); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
	l.exec(t, i, "KILL "+itoa(conn))
	_ = c.Close()
	until(t, "the owner to go", func() bool {
		return l.value(t, i, "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE ID="+itoa(conn)) == 0
	})
}

func testT6Foreign(t *testing.T, l *lab) {
	b := l.braid(t)
	g := newGlobalID(b.clusterID(), identityOf(t, b, 0), time.Now())
	bqual := branchID(identityOf(t, b, 1), 1)
	other := g
	other.cluster = randomID(8)
	foreign := []string{
		fmt.Sprintf("'%s','%s',%d", g, bqual, 1),                                 // another format
		xidText(other.String(), bqual),                                           // another cluster
		xidText("order-4711", "b1"),                                              // somebody who uses the same number
		xidText(strings.ToUpper(g.String()), bqual),                              // not as Braid writes it
		xidText(newGlobalID(b.clusterID(), g.decider, time.Now()).String(), "x"), // another bqual
	}
	for i, x := range foreign {
		l.prepareBranch(t, 1, x, i+1)
	}
	r, err := b.RecoverNow(t.Context(), RecoverOptions{Unseen: true, Old: true})
	if err != nil || len(r.Failed) > 0 {
		t.Fatal(err, r)
	}
	if r.Committed+r.RolledBack+len(r.Left) > 0 || len(l.prepared(t, 1)) != len(foreign) {
		t.Errorf("foreign branches were touched: %+v", r)
	}
	if list, _ := b.InDoubt(t.Context()); len(list) != 0 {
		t.Errorf("foreign branches are shown: %+v", list)
	}
	if l.decisions(t) != 0 {
		t.Error("a decision was made for a foreign branch")
	}
}

// orphan leaves a prepared branch of a Braid that is gone on server 1.
func (l *lab) orphan(t *testing.T, b *braid, began time.Time) (gtrid string) {
	t.Helper()
	g := newGlobalID(b.clusterID(), identityOf(t, b, 0), began)
	l.prepareBranch(t, 1, xidText(g.String(), branchID(identityOf(t, b, 1), 1)), 1)
	return g.String()
}

func pass(t *testing.T, b *braid, o RecoverOptions) *RecoverReport {
	t.Helper()
	r, err := b.RecoverNow(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func testT7Grace(t *testing.T, l *lab) {
	b := l.braid(t)
	now := time.Now()
	b.now = func() time.Time { return now }
	l.orphan(t, b, now)
	grace := time.Duration(b.recovery.Grace)
	for _, step := range []time.Duration{0, grace - time.Second} {
		now = now.Add(step)
		if r := pass(t, b, RecoverOptions{}); r.RolledBack != 0 || len(r.Left) != 1 {
			t.Fatalf("after %v: %+v", step, r)
		}
		if l.decisions(t) != 0 {
			t.Fatal("decided before the grace period was over")
		}
	}
	now = now.Add(time.Second)
	list, failed := b.InDoubt(t.Context())
	if len(failed) != 0 || len(list) != 1 || list[0].Reason != "" || list[0].Decider != "n0" || list[0].Node != "n1" {
		t.Errorf("%+v", list)
	}
	if r := pass(t, b, RecoverOptions{}); r.RolledBack != 1 || len(r.Left) != 0 {
		t.Errorf("%+v", r)
	}
	l.wantRows(t, 100, 100, 100)

	// A first look does not become a second one by age alone.
	now = now.Add(time.Hour)
	l.orphan(t, b, now)
	if r := pass(t, b, RecoverOptions{}); r.RolledBack != 0 {
		t.Errorf("%+v", r)
	}
}

func testT7Old(t *testing.T, l *lab) {
	b := l.braid(t)
	gtrid := l.orphan(t, b, time.Now().Add(-time.Duration(b.recovery.Retention)/2-time.Minute))
	l.exec(t, 0, "INSERT INTO braid.decision VALUES ('"+gtrid+"','commit','',UNIX_TIMESTAMP())")
	r := pass(t, b, RecoverOptions{Unseen: true})
	if r.Committed != 0 || len(r.Left) != 1 || !strings.Contains(r.Left[0].Reason, "operator") || r.Left[0].Decision != DecidedCommit {
		t.Fatalf("%+v", r)
	}
	if r := pass(t, b, RecoverOptions{Unseen: true, Old: true}); r.Committed != 1 {
		t.Errorf("%+v", r)
	}
	l.wantRows(t, 100, 110, 100)
}

func testT7Open(t *testing.T, l *lab) {
	b := l.braid(t)
	_, release := stall(t, b, stepBeforeDecision)
	if r := pass(t, b, RecoverOptions{Unseen: true}); r.RolledBack != 0 || len(r.Left) != 2 {
		t.Errorf("%+v", r)
	}
	if err := release(); err != nil {
		t.Fatal(err)
	}
	l.wantRows(t, 110, 110, 110)
}

// T8: a hanging Braid's branches are finished, and it learns that it was taken
// for dead.
func testT8(t *testing.T, l *lab) {
	for _, test := range []struct {
		step string
		want int
	}{{stepDecided, 110}, {stepAborting, 100}} {
		l.clean(t)
		a, b := l.braid(t), l.braid(t)
		if test.step == stepAborting {
			// Its decision row is refused, and then it hangs with two prepared branches.
			tx := transfer(t, a, 0, 1, 2)
			l.exec(t, 0, "INSERT INTO braid.decision VALUES ('"+a.Open()[0].GTRID+"','rollback','',UNIX_TIMESTAMP())")
			reached := make(chan struct{})
			a.failpoint = func(s string) {
				if s == test.step {
					close(reached)
					runtime.Goexit()
				}
			}
			go func() { _ = tx.Commit(context.Background()) }()
			<-reached
			b.recoverBranches(t, l)
			for _, n := range a.nodes[:1] { // the decider's own part dies with its connection
				l.exec(t, 0, "KILL "+itoa(tx.On(n).id))
			}
		} else {
			_, release := stall(t, a, test.step)
			b.recoverBranches(t, l)
			if err := release(); err != nil {
				t.Error(err)
			}
		}
		l.wantRows(t, test.want, test.want, test.want)
	}
}

// recoverBranches makes one recovery over hanging owners.
func (b *braid) recoverBranches(t *testing.T, l *lab) {
	t.Helper()
	committed, rolledBack := b.recoverAll(t, l)
	if committed+rolledBack != 2 {
		t.Errorf("%d committed, %d rolled back", committed, rolledBack)
	}
}

func testT9(t *testing.T, l *lab) {
	b := l.braid(t)
	retention := time.Duration(b.recovery.Retention)
	old := time.Now().Add(-retention - time.Hour)
	server := identityOf(t, b, 0)
	row := func(began time.Time, ageSeconds int, branches string) string {
		g := newGlobalID(b.clusterID(), server, began).String()
		l.exec(t, 0, fmt.Sprintf("INSERT INTO braid.decision VALUES ('%s','commit','%s',UNIX_TIMESTAMP()-%d)", g, branches, ageSeconds))
		return g
	}
	age := int(retention/time.Second) + 1800
	participant := identityOf(t, b, 1)
	gone := row(old, age, participant)
	goneToo := row(old, age, "")
	young := row(time.Now(), 10, participant)
	late := row(old, 10, participant)                        // a long transaction that was decided just now
	elsewhere := row(old, age, participant+" "+randomID(16)) // a participant that was not scanned
	needed := row(old, age, participant)                     // a branch of it is still there
	l.prepareBranch(t, 1, xidText(needed, branchID(participant, 1)), 1)

	there := func(gtrid string) bool {
		return l.value(t, 0, "SELECT COUNT(*) FROM braid.decision WHERE gtrid='"+gtrid+"'") == 1
	}
	// A node that cannot be scanned keeps everything.
	half, err := newBraid(l.servers[0].Addr(), l.servers[1].Addr(), "127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	if r := pass(t, half, RecoverOptions{}); r.Purged != 0 || !there(gone) {
		t.Errorf("purged without seeing every node: %+v", r)
	}
	if r := pass(t, b, RecoverOptions{}); r.Purged != 2 {
		t.Errorf("purged %d", r.Purged)
	}
	for name, c := range map[string]struct {
		gtrid string
		want  bool
	}{"old": {gone, false}, "old fence": {goneToo, false}, "young": {young, true}, "decided lately": {late, true},
		"participant unseen": {elsewhere, true}, "branch left": {needed, true}} {
		if there(c.gtrid) != c.want {
			t.Errorf("%s: there is %v, want %v", name, !c.want, c.want)
		}
	}
	if r := pass(t, b, RecoverOptions{Unseen: true, Old: true}); r.Committed != 1 {
		t.Errorf("%+v", r)
	}
	if r := pass(t, b, RecoverOptions{}); r.Purged != 1 || there(needed) {
		t.Errorf("%+v", r)
	}
}

func testT10(t *testing.T, l *lab) {
	b := l.braid(t)
	before := randomID(16) // the server that was there
	g := newGlobalID(b.clusterID(), before, time.Now()).String()
	l.prepareBranch(t, 1, xidText(g, branchID(identityOf(t, b, 1), 1)), 1)
	var recorded string
	if err := l.root[0].QueryRow("SELECT identity FROM braid.node").Scan(&recorded); err != nil {
		t.Fatal(err)
	}
	if l.flavour == servers.MySQL {
		l.exec(t, 0, "UPDATE braid.node SET identity='"+before+"'")
	}
	defer l.exec(t, 0, "UPDATE braid.node SET identity='"+recorded+"',predecessors=''")
	b = l.braid(t)
	r := pass(t, b, RecoverOptions{Unseen: true, Old: true})
	if r.RolledBack+r.Committed != 0 || len(r.Left) != 1 || !strings.Contains(r.Left[0].Reason, "failover") {
		t.Fatalf("%+v", r)
	}
	if l.decisions(t) != 0 {
		t.Fatal("decided on another server")
	}
	// New transactions go on: their decisions are this server's own.
	if err := transfer(t, b, 0, 2).Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if l.flavour != servers.MySQL {
		return // a MariaDB replica has its primary's identity, with its rows
	}
	if err := b.Settle(t.Context(), b.nodes[0]); err != nil {
		t.Fatal(err)
	}
	if r := pass(t, b, RecoverOptions{Unseen: true}); r.RolledBack != 1 {
		t.Errorf("%+v", r)
	}
	l.wantRows(t, 110, 100, 110)
}

func testRecoverUnreachable(t *testing.T, l *lab) {
	b := l.braid(t)
	l.orphan(t, b, time.Now())
	// The decider is away: nothing is decided.
	away, err := newBraid("127.0.0.1:1", l.servers[1].Addr(), l.servers[2].Addr())
	if err != nil {
		t.Fatal(err)
	}
	r := pass(t, away, RecoverOptions{Unseen: true})
	if len(r.Failed) != 1 || r.RolledBack != 0 || len(r.Left) != 1 {
		t.Errorf("%+v", r)
	}
	if l.preparedAnywhere(t) != 1 {
		t.Error("decided without the decider")
	}
	// The branch's node is away: the others go on.
	away, err = newBraid(l.servers[0].Addr(), "127.0.0.1:1", l.servers[2].Addr())
	if err != nil {
		t.Fatal(err)
	}
	if r := pass(t, away, RecoverOptions{Unseen: true}); len(r.Left)+r.RolledBack != 0 {
		t.Errorf("%+v", r)
	}
	if _, rolledBack := b.recoverAll(t, l); rolledBack != 1 {
		t.Error("not rolled back")
	}
}

func testRun(t *testing.T, l *lab) {
	b := l.braid(t)
	b.recovery.Interval = conf.Duration(10 * time.Millisecond)
	b.recovery.Grace = conf.Duration(20 * time.Millisecond)
	l.orphan(t, b, time.Now())
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); b.Run(ctx) }()
	until(t, "the loop to recover", func() bool { return l.preparedAnywhere(t) == 0 })
	cancel()
	<-done
	l.wantRows(t, 100, 100, 100)
}
