package session

import (
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
