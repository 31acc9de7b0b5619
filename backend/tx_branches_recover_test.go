package backend

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// This file tests how recovery ends transactions all of whose legs are branches.

// branchAt leaves a prepared branch with its decision row, and no owner.
func (l *lab) branchAt(t *testing.T, b *braid, i int, gtrid, list string) {
	t.Helper()
	c, err := l.root[i].Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var conn uint64
	if err := c.QueryRowContext(t.Context(), "SELECT CONNECTION_ID()").Scan(&conn); err != nil {
		t.Fatal(err)
	}
	xid := xidText(gtrid, branchID(identityOf(t, b, i), conn))
	for _, text := range []string{"XA START " + xid, decisionText(gtrid, list, time.Now().Unix()), add(1, 10), "XA END " + xid, "XA PREPARE " + xid} {
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

// bquals are branches on the servers as a decision row names them.
func bquals(t *testing.T, b *braid, servers ...int) string {
	t.Helper()
	var list []string
	for _, i := range servers {
		list = append(list, branchID(identityOf(t, b, i), 1<<40)) // of connections that are gone
	}
	return strings.Join(list, " ")
}

func testBranchesRecovery(t *testing.T, l *lab) {
	for _, test := range []struct {
		name      string
		prepared  []int  // servers with a prepared branch, of a transaction over all
		row       string // on server 2, where it has none
		committed int
		back      int
		want      [labNodes]int
		decision  Decision // that SHOW XA shows in front
	}{
		{"all prepared", []int{0, 1, 2}, "", 3, 0, [...]int{110, 110, 110}, DecidedCommit},
		{"one never was", []int{0, 1}, "", 0, 2, [...]int{100, 100, 100}, Undecided},
		{"only one is", []int{1}, "", 0, 1, [...]int{100, 100, 100}, Undecided},
		{"one is committed", []int{0, 1}, "commit", 2, 0, [...]int{110, 110, 100}, DecidedCommit},
		{"one is fenced", []int{0, 1}, "rollback", 0, 2, [...]int{100, 100, 100}, DecidedRollback},
	} {
		t.Run(test.name, func(t *testing.T) {
			l.clean(t)
			b := l.braid(t)
			gtrid := newGlobalID(b.clusterID(), identityOf(t, b, 0), time.Now()).String()
			list := bquals(t, b, 0, 1, 2)
			for _, i := range test.prepared {
				l.branchAt(t, b, i, gtrid, list)
			}
			if test.row != "" {
				l.exec(t, 2, fmt.Sprintf("INSERT INTO braid.decision VALUES ('%s','%s','%s',UNIX_TIMESTAMP())", gtrid, test.row, list))
			}
			shown, failed := b.InDoubt(t.Context())
			if len(failed) > 0 || len(shown) != len(test.prepared) || shown[0].Decider != "n0,n1,n2" || shown[0].Decision != test.decision {
				t.Errorf("%v, %+v", failed, shown)
			}
			if l.decisions(t) != 0 && test.row == "" {
				t.Error("SHOW XA has decided something")
			}
			r := pass(t, b, RecoverOptions{Unseen: true})
			if r.Committed != test.committed || r.RolledBack != test.back || len(r.Left) != 0 {
				t.Errorf("%+v", r)
			}
			l.wantRows(t, test.want[:]...)
		})
	}
	t.Run("a node that takes part is away", func(t *testing.T) {
		l.clean(t)
		b := l.braid(t)
		gtrid := newGlobalID(b.clusterID(), identityOf(t, b, 0), time.Now()).String()
		l.branchAt(t, b, 0, gtrid, bquals(t, b, 0, 1))
		away, err := newBraid(l.servers[0].Addr(), "127.0.0.1:1", l.servers[2].Addr())
		if err != nil {
			t.Fatal(err)
		}
		if r := pass(t, away, RecoverOptions{Unseen: true}); r.Committed+r.RolledBack != 0 || len(r.Left) != 1 || !strings.Contains(r.Left[0].Reason, "cannot be reached") {
			t.Errorf("%+v", r)
		}
		if r := pass(t, b, RecoverOptions{Unseen: true}); r.RolledBack != 1 {
			t.Errorf("%+v", r)
		}
	})
	t.Run("one is not prepared yet", func(t *testing.T) {
		l.clean(t)
		b := l.braid(t)
		gtrid := newGlobalID(b.clusterID(), identityOf(t, b, 0), time.Now()).String()
		list := bquals(t, b, 0, 1)
		l.branchAt(t, b, 0, gtrid, list)
		c, err := l.root[1].Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		xid := xidText(gtrid, branchID(identityOf(t, b, 1), 1))
		run := func(texts ...string) {
			t.Helper()
			for _, text := range texts {
				if _, err := c.ExecContext(t.Context(), text); err != nil {
					t.Fatalf("%s: %v", text, err)
				}
			}
		}
		run("XA START "+xid, decisionText(gtrid, list, time.Now().Unix()), add(1, 10))
		if r := pass(t, b, RecoverOptions{Unseen: true}); r.Committed+r.RolledBack != 0 || len(r.Left) != 1 {
			t.Errorf("%+v", r)
		}
		var conn uint64
		if err := c.QueryRowContext(t.Context(), "SELECT CONNECTION_ID()").Scan(&conn); err != nil {
			t.Fatal(err)
		}
		run("XA END "+xid, "XA PREPARE "+xid)
		l.exec(t, 1, "KILL "+itoa(conn))
		if committed, rolledBack := b.recoverAll(t, l); committed != 2 || rolledBack != 0 {
			t.Errorf("%d committed, %d rolled back", committed, rolledBack)
		}
		l.wantRows(t, 110, 110, 100)
	})
}

// A branch that somebody rolls back between being listed and being asked has no row
// any more. That must not make the others believe in an ordinary first leg, which a
// branch in its place would have prepared.
func testBranchesGone(t *testing.T, l *lab) {
	b := l.braid(t)
	gtrid := newGlobalID(b.clusterID(), identityOf(t, b, 0), time.Now()).String()
	for i := range 2 {
		l.branchAt(t, b, i, gtrid, bquals(t, b, 0, 1, 2))
	}
	failed := map[string]error{}
	all, _ := b.stations(t.Context())
	all = b.scan(all, failed)
	defer closeAll(all)
	if len(all) != labNodes || len(all[1].listed) != 1 {
		t.Fatalf("%v, %+v", failed, all)
	}
	l.exec(t, 1, "XA ROLLBACK "+l.prepared(t, 1)[0])
	for gone, g := range all[1].listed {
		if d, reason := b.decide(all, gone, g); d != Undecided || reason != errJustEnded.Error() {
			t.Errorf("decided %q (%s), want nothing", d, reason)
		}
	}
	if committed, rolledBack := b.recoverAll(t, l); committed != 0 || rolledBack != 1 {
		t.Errorf("%d committed, %d rolled back", committed, rolledBack)
	}
	l.wantRows(t, 100, 100, 100)
}

func testBranchesRecoveryCrashes(t *testing.T, l *lab) {
	for _, prepared := range [][]int{{0, 1, 2}, {0, 1}} {
		for _, step := range []string{stepRecoverFenced, stepRecoverFinished, stepRecoverFinished + ":2"} {
			l.clean(t)
			b := l.braid(t)
			gtrid := newGlobalID(b.clusterID(), identityOf(t, b, 0), time.Now()).String()
			for _, i := range prepared {
				l.branchAt(t, b, i, gtrid, bquals(t, b, 0, 1, 2))
			}
			l.crash(t, step)
			want := 100
			if len(prepared) == labNodes {
				want = 110
			}
			l.wantWhole(t, step, want)
		}
	}
}

func testBranchesServerKilled(t *testing.T, l *lab) {
	b := l.braid(t)
	gtrid := newGlobalID(b.clusterID(), identityOf(t, b, 0), time.Now()).String()
	for i := range l.root {
		l.branchAt(t, b, i, gtrid, bquals(t, b, 0, 1, 2))
	}
	for _, i := range []int{0, 2} {
		l.servers[i].Kill9()
		if err := l.servers[i].Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	l.wantWhole(t, "after kill -9", 110)
}

// A connection is killed while its branch prepares: the client is told what all
// nodes hold.
