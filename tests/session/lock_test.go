package session

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"braid/conf"
	"braid/tests/e2e"
	"braid/tests/servers"
	"braid/tests/wire"
)

// waits tells whether a session, whose lock_wait_timeout is short, waits for the
// table on all shards or on none.
func waits(t *testing.T, c *wire.Conn, keys []int) bool {
	t.Helper()
	n := 0
	for _, k := range keys {
		switch _, err := run(c, fmt.Sprintf("SELECT x FROM i WHERE k=%d", k)); {
		case isCode(err, 1205):
			n++
		case err != nil:
			t.Fatal(err)
		}
	}
	if n != 0 && n != len(keys) {
		t.Errorf("%d of %d shards are locked", n, len(keys))
	}
	return n > 0
}

// LOCK TABLES holds all shards until the session says otherwise, in whatever way
// it does, and whatever it did in between.
func TestTablesStayLocked(t *testing.T) {
	each(t, func(t *testing.T, flavour servers.Flavour) {
		b := shop(t, flavour, 2, 4, func(c *conf.Config) { pool(c, 4, c.Pool.WaitTimeout) })
		keys := keys(t, b)[:2] // one of each node
		other := connect(t, b)
		must(t, other, "SET lock_wait_timeout=1")
		for name, end := range map[string]func(c *wire.Conn) error{
			"UNLOCK TABLES":          func(c *wire.Conn) error { _, err := run(c, "UNLOCK TABLES"); return err },
			"BEGIN":                  func(c *wire.Conn) error { _, err := run(c, "BEGIN"); return err },
			"LOCK TABLES of another": func(c *wire.Conn) error { _, err := run(c, "LOCK TABLES j READ"); return err },
			"LOCK TABLES that fails": func(c *wire.Conn) error { _, err := run(c, "LOCK TABLES nosuch READ"); return isNot(err, 1146) },
			"COM_RESET_CONNECTION":   func(c *wire.Conn) error { _, err := c.Command(gomysql.COM_RESET_CONNECTION, nil); return err },
			"leaving without a word": func(c *wire.Conn) error { c.Abort(); return nil },
			"KILL": func(c *wire.Conn) error {
				_, err := run(other, "KILL "+must(t, c, "SELECT CONNECTION_ID()"))
				return err
			},
		} {
			t.Run(name, func(t *testing.T) {
				c := connect(t, b)
				must(t, c, "CREATE TABLE IF NOT EXISTS j(k INT PRIMARY KEY)")
				must(t, c, "LOCK TABLES i WRITE, j READ")
				must(t, c, "SELECT COUNT(*) FROM i")
				must(t, c, fmt.Sprintf("UPDATE i SET x=x+1 WHERE k=%d", keys[1]))
				must(t, c, fmt.Sprintf("UPDATE i SET x=x-1 WHERE k=%d", keys[1]))
				if _, err := run(c, "SELECT nosuch FROM i"); !isCode(err, 1054) {
					t.Errorf("%v", err)
				}
				if !waits(t, other, keys) {
					t.Error("the table is not locked")
				}
				if err := end(c); err != nil {
					t.Fatal(err)
				}
				for deadline := time.Now().Add(10 * time.Second); waits(t, other, keys); {
					if time.Now().After(deadline) {
						t.Fatal("the table is still locked")
					}
				}
			})
		}
	})
}

func isNot(err error, code uint16) error {
	if isCode(err, code) {
		return nil
	}
	return fmt.Errorf("error %v, not %d", err, code)
}

// Two Braids lock the same tables in whatever order they are named: one waits
// for the other, never each for the other.
func TestLockingInOneOrder(t *testing.T) {
	each(t, func(t *testing.T, flavour servers.Flavour) {
		b := shop(t, flavour, 3, 3, nil)
		must(t, connect(t, b), "CREATE TABLE j(k INT PRIMARY KEY)")
		two := b.Another(t)
		errs := make(chan error, 2)
		for n, at := range []*e2e.Braid{b, two} {
			c := connect(t, at)
			must(t, c, "SET lock_wait_timeout=30")
			text := []string{"LOCK TABLES i WRITE, j WRITE", "LOCK TABLES j WRITE, i WRITE"}[n]
			go func() {
				var failed error
				for range 30 {
					if _, err := run(c, text); err != nil {
						failed = fmt.Errorf("%s: %w", text, err)
						break
					}
					if _, err := run(c, "UNLOCK TABLES"); err != nil {
						failed = err
						break
					}
				}
				errs <- failed
			}()
		}
		for range 2 {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
	})
}

// Why writes over several nodes are refused under LOCK TABLES: servers begin no
// branch there. Should that ever change, this tells.
func TestServersBeginNoBranchUnderLocks(t *testing.T) {
	each(t, func(t *testing.T, flavour servers.Flavour) {
		b := shop(t, flavour, 2, 2, nil)
		p := b.Shards()[0]
		c, err := wire.Connect(t.Context(), wire.Options{Addr: p.Node.Addr(), User: servers.User, Password: servers.Password, Database: p.Schema})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		must(t, c, "LOCK TABLES i WRITE")
		if _, err := run(c, "XA START 'a','b',1"); !isCode(err, 1400) {
			t.Errorf("%v", err)
		}
		before := must(t, connect(t, b), "SELECT 1")
		c2 := connect(t, b)
		must(t, c, "UNLOCK TABLES")
		must(t, c2, "LOCK TABLES i WRITE")
		if _, err := run(c2, "UPDATE i SET x=x+1"); !isCode(err, 1235) {
			t.Errorf("%v", err)
		}
		must(t, c2, "UNLOCK TABLES")
		if got := must(t, c2, "SELECT SUM(x) FROM i"); got != "8200" || before != "1" {
			t.Errorf("the refused UPDATE left %s", got)
		}
	})
}

// A session whose locks a node has lost is told, and closed; the locks on the
// other nodes go with it.
func TestLostTableLocksAreTold(t *testing.T) {
	each(t, func(t *testing.T, flavour servers.Flavour) {
		b := shop(t, flavour, 2, 2, nil)
		keys := keys(t, b)
		c, other := connect(t, b), connect(t, b)
		must(t, other, "SET lock_wait_timeout=1")
		must(t, c, "LOCK TABLES i WRITE")
		if got := sessionPins(b, c, t); !strings.Contains(got, "n0: locked tables") || !strings.Contains(got, "n1: locked tables") {
			t.Errorf("SHOW SESSIONS has %q", got)
		}
		node := e2e.Open(t, b.Nodes[0], "")
		rows, err := node.QueryContext(t.Context(), "SELECT ID FROM information_schema.PROCESSLIST WHERE DB='shop' AND COMMAND='Sleep' AND ID<>CONNECTION_ID()")
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for rows.Next() {
			var id string
			if err := rows.Scan(&id); err != nil {
				t.Fatal(err)
			}
			ids = append(ids, id)
		}
		for _, id := range ids {
			if _, err := node.ExecContext(t.Context(), "KILL "+id); err != nil && !strings.Contains(err.Error(), "1094") {
				t.Fatal(err)
			}
		}
		if _, err := run(c, "SELECT COUNT(*) FROM i"); err == nil {
			t.Error("the session goes on")
		}
		if _, err := run(c, "SELECT 1"); err == nil || errors.As(err, new(*wire.Error)) && !errors.Is(err, io.EOF) {
			t.Errorf("the session still answers: %v", err)
		}
		for deadline := time.Now().Add(10 * time.Second); waits(t, other, keys); {
			if time.Now().After(deadline) {
				t.Fatal("the table is still locked")
			}
		}
	})
}

// With the last of its locked tables a node ends LOCK TABLES; the session's are over
// when no node has any left, and until then nothing else may be used on any node.
func TestDroppedTablesAreLockedNoMore(t *testing.T) {
	each(t, func(t *testing.T, flavour servers.Flavour) {
		b := handlers(t, flavour)
		c := connect(t, b)
		must(t, c, "LOCK TABLES one WRITE")
		must(t, c, "DROP TABLE one")
		if got := sessionPins(b, c, t); got != "" {
			t.Errorf("all locked tables are dropped: SHOW SESSIONS has %q", got)
		}
		must(t, c, "SELECT COUNT(*) FROM other")
		must(t, c, "UPDATE i SET x=x+1")
		must(t, c, "CREATE TABLE one(k INT PRIMARY KEY)")

		must(t, c, "LOCK TABLES one WRITE, other READ")
		must(t, c, "DROP TABLE one")
		must(t, c, "SELECT COUNT(*) FROM other")
		for _, k := range keys(t, b) {
			if got, err := run(c, "SELECT x FROM i WHERE k="+strconv.Itoa(k)); !isCode(err, 1100) {
				t.Errorf("i, where k=%d: %q, %v; want error 1100", k, got, err)
			}
		}
		if _, err := run(c, "CREATE TABLE one(k INT PRIMARY KEY)"); !isCode(err, 1100) {
			t.Errorf("CREATE TABLE: %v; want error 1100", err)
		}
		must(t, c, "UNLOCK TABLES")
		must(t, c, "UPDATE i SET x=x+1")
	})
}

// sessionPins is what SHOW SESSIONS tells of the pins of a session.
func sessionPins(b *e2e.Braid, c *wire.Conn, t *testing.T) string {
	t.Helper()
	id := must(t, c, "SELECT CONNECTION_ID()")
	for _, s := range b.Server.Sessions() {
		if in := s.Describe(); fmt.Sprint(in.ID) == id {
			return in.Pinned
		}
	}
	t.Fatalf("no session %s", id)
	return ""
}
