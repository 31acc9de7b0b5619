package transaction

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"braid/conf"
	"braid/tests/e2e"
	"braid/tests/servers"
	"braid/tests/wire"
)

// B118: on a database of one shard a client's own XA transactions answer as the
// server's do: every state, what is refused in it, and the flags.
func TestXAOnOneShard(t *testing.T) {
	for _, flavour := range []servers.Flavour{servers.MariaDB, servers.MySQL} {
		t.Run(string(flavour), func(t *testing.T) {
			b := lab.StartBraid(t, e2e.Topology{Flavour: flavour, Nodes: 1, Shards: 1,
				Tables: []conf.Table{{Name: "acc", Kind: "sharded", Key: []string{"id"}}}})
			e2e.Recreate(t, b.Nodes[0], "plain")
			o := wire.Options{Addr: b.Nodes[0].Addr(), User: servers.User, Password: servers.Password, Database: "plain"}
			plain, err := wire.Connect(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			defer plain.Close()
			c := connect(t, b)
			for _, autocommit := range []string{"1", "0"} {
				texts := []string{
					"DROP TABLE IF EXISTS acc", "CREATE TABLE acc(id INT PRIMARY KEY, v INT)", "SET autocommit=" + autocommit,
					"XA START 'a','b',1", "INSERT INTO acc VALUES (630,1)", "PREPARE p FROM 'SELECT v FROM acc WHERE id=630'", "EXECUTE p", "SELECT v FROM acc WHERE id=630", "SELECT 1",
					"BEGIN", "COMMIT", "ROLLBACK", "START TRANSACTION READ ONLY", "COMMIT AND CHAIN", "CREATE TABLE other(a INT)", "TRUNCATE acc",
					"SET TRANSACTION ISOLATION LEVEL SERIALIZABLE", "SET @@transaction_isolation='SERIALIZABLE'", "SET @@tx_isolation='SERIALIZABLE'", "SELECT v FROM acc WHERE id=630", "LOCK TABLES acc READ",
					"SAVEPOINT s", "INSERT INTO acc VALUES (631,1)", "ROLLBACK TO s", "RELEASE SAVEPOINT s", "RELEASE SAVEPOINT s",
					"INSERT INTO acc VALUES (630,2)", "XA START 'c'", "XA PREPARE 'a','b',1", "XA COMMIT 'a','b',1", "XA END 'c'",
					"XA END 'a','b',1", "SELECT v FROM acc", "INSERT INTO acc VALUES (632,1)", "COMMIT", "XA END 'a','b',1",
					"XA PREPARE 'a','b',1", "XA RECOVER", "XA RECOVER CONVERT XID", "SELECT 1", "COMMIT", "XA PREPARE 'a','b',1",
					"XA COMMIT 'a','b',1", "XA RECOVER", "SELECT id, v FROM acc ORDER BY id", "COMMIT",
					"XA BEGIN 0x61,0x62,0x1", "UPDATE acc SET v=2 WHERE id=630", "XA END 0x61,0x62,0x1", "XA COMMIT 0x61,0x62,0x1 ONE PHASE",
					"SELECT v FROM acc", "COMMIT", "XA START 'r'", "DELETE FROM acc", "XA END 'r'", "XA ROLLBACK 'r'", "SELECT COUNT(*) FROM acc", "COMMIT",
					"XA COMMIT 'nosuch'", "XA ROLLBACK 'nosuch'", "XA END 'nosuch'", "XA PREPARE 'nosuch'", "XA NONSENSE", "XA START",
					"SET TRANSACTION READ ONLY", "XA START 'o'", "INSERT INTO acc VALUES (640,1)", "XA END 'o'", "XA ROLLBACK 'o'",
					"INSERT INTO acc VALUES (641,1)", "COMMIT", "BEGIN", "INSERT INTO acc VALUES (642,1)", "XA START 'a'", "ROLLBACK",
					"SELECT id FROM acc ORDER BY id", "COMMIT",
				}
				// One after the other: their names would collide on the one server.
				var want []string
				for _, text := range texts {
					want = append(want, strings.ReplaceAll(answerOf(plain, text), "plain", "shop"))
				}
				for i, text := range texts {
					if got := answerOf(c.Conn, text); got != want[i] {
						t.Errorf("autocommit=%s: %s: %s, the server says %s", autocommit, text, got, want[i])
					}
				}
			}
		})
	}
}

// answerOf tells all of a statement's answer but its columns.
func answerOf(c *wire.Conn, text string) string {
	results, err := c.Query(text)
	if err != nil {
		return err.Error()
	}
	r := results[0]
	if r.Err != nil {
		return r.Err.Error()
	}
	return fmt.Sprintf("%q %d rows affected, status %#x", r.Rows, r.OK.AffectedRows, r.OK.Status&^(1<<4|1<<5|1<<14)) // indexes used, state changed
}

// Over several shards a client's XA transaction is one shard's, that of the hint.
func TestXAOnHintedShard(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		const hint = " /*braid shard=s1*/"
		x, elsewhere := w.shard[1][0], w.shard[0][0]
		recovered := func(c *client) (names []string) {
			t.Helper()
			for _, r := range c.ok("XA RECOVER" + hint) {
				names = append(names, r[3])
			}
			return names
		}
		c := w.client(t)
		c.ok("XA START 'a','b'"+hint, update(x, 7))
		for _, text := range []string{update(elsewhere, 1), "UPDATE acc SET v=v+1", "SELECT SUM(v) FROM acc"} {
			if code := c.code(text); code != 1235 {
				t.Errorf("%s leaves the shard: %d", text, code)
			}
		}
		c.ok("XA END 'a','b'", "XA PREPARE 'a','b'")
		c.Abort()
		other := w.client(t)
		until(t, "the prepared transaction outlives its client", func() bool { return reflect.DeepEqual(recovered(other), []string{"ab"}) })
		until(t, "it is committed", func() bool { return other.code("XA COMMIT 'a','b'"+hint) == 0 }) // its owner may be there still
		if got := other.one("SELECT SUM(v) FROM acc"); got != "7" {
			t.Errorf("sum %s", got)
		}
		// One that is not prepared ends with its client.
		c = w.client(t)
		c.ok("XA START 'a','b'"+hint, update(x, 1))
		c.Abort()
		other.ok(update(x, 1))
		if got := other.one("SELECT SUM(v) FROM acc"); got != "8" {
			t.Errorf("sum %s", got)
		}
		// What is a Braid's own is not there for clients.
		conn, err := w.node[1].Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		own := "'x','y',1112686921"
		for _, text := range []string{"XA START " + own, "UPDATE " + w.braid.Shards()[1].Schema + ".acc SET v=v+100", "XA END " + own, "XA PREPARE " + own} {
			if _, err := conn.ExecContext(t.Context(), text); err != nil {
				t.Fatal(err)
			}
		}
		if names := recovered(other); len(names) != 0 {
			t.Errorf("XA RECOVER shows %q", names)
		}
		for text, want := range map[string]int{"XA COMMIT " + own + hint: 1397, "XA ROLLBACK 0x78,0x79,0x42524149" + hint: 1397,
			"XA ROLLBACK 'x','y',001112686921" + hint: 1397, "XA COMMIT 'x','y',x'42524149'" + hint: 1397, "XA COMMIT 'x','y',X'0042524149'" + hint: 1397, "XA COMMIT 'x','y',0x0042524149" + hint: 1397,
			"XA START 'z','z',1112686921" + hint: 1235} {
			if code := other.code(text); code != want {
				t.Errorf("%s: %d", text, code)
			}
		}
		if _, err := conn.ExecContext(t.Context(), "XA ROLLBACK "+own); err != nil {
			t.Errorf("it is not there any more: %v", err)
		}
	})
}
