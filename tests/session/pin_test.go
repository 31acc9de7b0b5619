package session

import (
	"fmt"
	"strings"
	"testing"
	"time"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"braid/conf"
	"braid/tests/e2e"
	"braid/tests/servers"
)

// User locks are the session's: they last over other statements and
// transactions, whatever connections those use, and end with the session (B099).
func TestUserLocksStay(t *testing.T) {
	each(t, func(t *testing.T, flavour servers.Flavour) {
		b := shop(t, flavour, 2, 4, func(c *conf.Config) { pool(c, 4, c.Pool.WaitTimeout) })
		a, other := connect(t, b), connect(t, b)
		if got := must(t, a, "SELECT GET_LOCK('l',1)"); got != "1" {
			t.Fatalf("GET_LOCK: %s", got)
		}
		id := must(t, a, "SELECT CONNECTION_ID()")
		held := func(when string) {
			t.Helper()
			if got := must(t, other, "SELECT GET_LOCK('l',0), IS_FREE_LOCK('l'), IS_USED_LOCK('l')"); got != "0,0,"+id {
				t.Errorf("%s: %s, the lock is held by %s", when, got, id)
			}
		}
		held("at once")
		must(t, a, "BEGIN")
		must(t, a, "INSERT INTO i VALUES (101,1),(102,1),(103,1),(104,1)")
		must(t, a, "SELECT COUNT(*) FROM i")
		held("in a transaction")
		must(t, a, "COMMIT")
		held("after it")
		if got := must(t, a, "SELECT RELEASE_LOCK('l'), RELEASE_LOCK('l')"); got != "1,NULL" {
			t.Errorf("RELEASE_LOCK: %s", got)
		}
		if got := must(t, other, "SELECT GET_LOCK('l',0), RELEASE_ALL_LOCKS()"); got != "1,1" {
			t.Errorf("after the release: %s", got)
		}
		must(t, a, "SELECT GET_LOCK('l',1)")
		if _, err := a.Command(gomysql.COM_RESET_CONNECTION, nil); err != nil {
			t.Fatal(err)
		}
		if got := must(t, other, "SELECT GET_LOCK('l',0), RELEASE_ALL_LOCKS()"); got != "1,1" {
			t.Errorf("after COM_RESET_CONNECTION: %s", got)
		}
		must(t, a, "SELECT GET_LOCK('l',1)")
		a.Abort()
		if got := must(t, other, "SELECT GET_LOCK('l',10), RELEASE_ALL_LOCKS()"); got != "1,1" {
			t.Errorf("after the client left: %s", got)
		}
	})
}

// With the last of its user locks a session lets go of the connection, however
// it got and lost them, and a lock that it did not get pins nothing. What it
// cannot tell keeps it pinned.
func TestLastLockUnpins(t *testing.T) {
	each(t, func(t *testing.T, flavour servers.Flavour) {
		b := shop(t, flavour, 2, 4, nil)
		holder := connect(t, b)
		must(t, holder, "SELECT GET_LOCK('taken',0)")
		for _, c := range []struct {
			texts  []string
			pinned bool
		}{
			{[]string{"SELECT GET_LOCK('a',0)"}, true},
			{[]string{"SELECT GET_LOCK('a',0)", "SELECT RELEASE_LOCK('a')"}, false},
			{[]string{"SELECT GET_LOCK('a',0)", "DO RELEASE_LOCK('a')"}, false},
			{[]string{"SELECT GET_LOCK('a',0)", "SELECT GET_LOCK('a',0)", "SELECT RELEASE_LOCK('a')"}, true},
			{[]string{"SELECT GET_LOCK('a',0)", "SELECT GET_LOCK('a',0)", "SELECT RELEASE_LOCK('a')", "SELECT RELEASE_LOCK('a')"}, false},
			{[]string{"SELECT GET_LOCK('a',0), GET_LOCK('b',0)", "SELECT RELEASE_LOCK('a')"}, true},
			{[]string{"SELECT GET_LOCK('a',0), GET_LOCK('b',0)", "SELECT RELEASE_LOCK('b'), RELEASE_LOCK('a')"}, false},
			{[]string{"SELECT GET_LOCK('taken',0)"}, false},
			{[]string{"SELECT GET_LOCK('a',0), GET_LOCK('taken',0)", "SELECT RELEASE_LOCK('taken')"}, true},
			{[]string{"SELECT GET_LOCK(CONCAT('a','b'),0)", "SELECT RELEASE_LOCK('ab')"}, true},
			{[]string{"SELECT GET_LOCK(CONCAT('a','b'),0)", "SELECT RELEASE_ALL_LOCKS()"}, false},
			{[]string{"PREPARE p FROM 'SELECT GET_LOCK(?,0)'", "SET @l='a'", "EXECUTE p USING @l", "SELECT RELEASE_LOCK('a')"}, false},
			{[]string{"BEGIN", "SELECT x FROM i WHERE k=1", "SELECT GET_LOCK('a',0)", "SELECT RELEASE_LOCK('a')", "COMMIT"}, false},
			{[]string{"SELECT GET_LOCK('a',0)", "BEGIN", "SELECT COUNT(*) FROM i", "SELECT RELEASE_LOCK('a')", "COMMIT"}, false},
			{[]string{"SELECT GET_LOCK('a',0)", "BEGIN", "SELECT COUNT(*) FROM i", "COMMIT"}, true},
		} {
			s := connect(t, b)
			for _, text := range c.texts {
				must(t, s, text)
			}
			if got := sessionPins(b, s, t); (got != "") != c.pinned {
				t.Errorf("after %q it is pinned to %q", c.texts, got)
			}
			must(t, s, "SELECT RELEASE_ALL_LOCKS()")
		}
		// A statement that fails behind its GET_LOCK() has the lock.
		s := connect(t, b)
		if _, err := run(s, "SELECT GET_LOCK('a',0), (SELECT 1 UNION SELECT 2)"); !isCode(err, 1242) {
			t.Fatalf("%v", err)
		}
		if got := must(t, s, "SELECT IS_USED_LOCK('a')=CONNECTION_ID()"); got != "1" && sessionPins(b, s, t) == "" && got != "NULL" {
			t.Errorf("the lock is %s's", got)
		}
		if _, err := run(s, "SET @got = GET_LOCK('set',0)"); !isCode(err, 1235) {
			t.Errorf("GET_LOCK() in SET: %v", err)
		}
	})
}

// An idle open transaction shows the connections that it keeps.
func TestSessionsShowTransactions(t *testing.T) {
	each(t, func(t *testing.T, flavour servers.Flavour) {
		b := shop(t, flavour, 2, 4, nil)
		s := connect(t, b)
		id := must(t, s, "SELECT CONNECTION_ID()")
		shown := func() (connections int, pinned string) {
			for _, x := range b.Server.Sessions() {
				if in := x.Describe(); fmt.Sprint(in.ID) == id {
					return in.Connections, in.Pinned
				}
			}
			t.Fatal("no session", id)
			return 0, ""
		}
		for _, c := range []struct {
			text        string
			connections int
			pinned      string
		}{
			{"SELECT COUNT(*) FROM i", 0, ""},
			{"BEGIN", 0, ""},
			{fmt.Sprintf("SELECT x FROM i WHERE k=%d", keys(t, b)[0]), 1, "n0: transaction"},
			{"SELECT COUNT(*) FROM i", 2, "n0: transaction; n1: transaction"},
			{"SELECT GET_LOCK('a',0)", 2, "n0: user locks; n1: transaction"},
			{"CREATE TEMPORARY TABLE t1(k INT)", 2, "n0: user locks, temporary tables; n1: transaction"},
			{"DROP TEMPORARY TABLE t1", 2, "n0: user locks; n1: transaction"},
			{"COMMIT", 1, "n0: user locks"},
			{"LOCK TABLES i READ", 2, "n0: user locks, locked tables; n1: locked tables"},
			{"BEGIN", 1, "n0: user locks"},
			{"SELECT RELEASE_LOCK('a')", 0, ""},
		} {
			must(t, s, c.text)
			if n, pinned := shown(); n != c.connections || pinned != c.pinned {
				t.Errorf("after %s: %d connections, %q; want %d, %q", c.text, n, pinned, c.connections, c.pinned)
			}
		}
	})
}

// A session that holds locks does not go on without them when its connection
// to the node is lost: it is told, and closed.
func TestLostLocksAreTold(t *testing.T) {
	each(t, func(t *testing.T, flavour servers.Flavour) {
		b := shop(t, flavour, 1, 1, nil)
		a := connect(t, b)
		must(t, a, "SELECT GET_LOCK('l',1)")
		var backend string
		node := e2e.Open(t, b.Nodes[0], "")
		if err := node.QueryRowContext(t.Context(), "SELECT IS_USED_LOCK('l')").Scan(&backend); err != nil {
			t.Fatal(err)
		}
		if _, err := node.ExecContext(t.Context(), "KILL "+backend); err != nil {
			t.Fatal(err)
		}
		if _, err := run(a, "SELECT IS_USED_LOCK('l')"); err == nil {
			t.Error("the session goes on")
		}
		if _, err := run(a, "SELECT 1"); err == nil {
			t.Error("the session still answers")
		}
	})
}

// Waiting for a connection has a deadline, and an error that names the pool.
func TestWaitingForThePool(t *testing.T) {
	each(t, func(t *testing.T, flavour servers.Flavour) {
		b := shop(t, flavour, 1, 1, func(c *conf.Config) {
			pool(c, 1, conf.Duration(100*time.Millisecond))
		})
		holder, waiter := connect(t, b), connect(t, b)
		must(t, holder, "BEGIN")
		must(t, holder, "SELECT x FROM i WHERE k=1 FOR UPDATE")
		_, err := run(waiter, "SELECT x FROM i WHERE k=2")
		if !isCode(err, 1040) || !strings.Contains(err.Error(), "n0") || !strings.Contains(err.Error(), "pool.connections_max") {
			t.Errorf("%v", err)
		}
		must(t, holder, "COMMIT")
		if got := must(t, waiter, "SELECT x FROM i WHERE k=2"); got != "20" {
			t.Error(got)
		}
	})
}
