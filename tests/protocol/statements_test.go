package protocol

import (
	"fmt"
	"strconv"
	"sync"
	"testing"

	"braid/conf"
	"braid/tests/e2e"
	"braid/tests/servers"
	"braid/tests/wire"
)

// limitStatements sets a node's max_prepared_stmt_count until the test's end.
func limitStatements(t *testing.T, node *servers.Server, count int) {
	t.Helper()
	db := e2e.Open(t, node, "")
	if _, err := db.ExecContext(t.Context(), "SET GLOBAL max_prepared_stmt_count="+strconv.Itoa(count)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := e2e.Open(t, node, "").Exec("SET GLOBAL max_prepared_stmt_count=DEFAULT"); err != nil {
			t.Error(err)
		}
	})
}

// What Braid keeps prepared on the nodes is a cache: no client may be refused a
// statement because of it, when a node allows few, however it learns of that, and
// when others hold what there is.
func TestKeptStatementsMakeRoom(t *testing.T) {
	const limit = 40
	for _, flavour := range flavours {
		for _, learned := range []string{"from the schema", "from the refusal"} {
			t.Run(fmt.Sprintf("%s/%s", flavour, learned), func(t *testing.T) {
				b := lab.StartBraid(t, e2e.Topology{Flavour: flavour, Nodes: 2, Shards: 4, Tables: caseTables(), Change: func(c *conf.Config) {
					c.Pool.ConnectionsMax = 12
				}})
				c := connect(t, b.Wire())
				query(t, c, "CREATE TABLE bl(k INT PRIMARY KEY, b LONGBLOB)")
				for _, node := range b.Nodes {
					limitStatements(t, node, limit)
					for range 10 { // of others
						if _, err := e2e.Open(t, node, "").PrepareContext(t.Context(), "SELECT 1"); err != nil {
							t.Fatal(err)
						}
					}
				}
				if learned == "from the schema" {
					query(t, c, "CREATE TABLE other(k INT PRIMARY KEY)")
				}
				var wg sync.WaitGroup
				for n := range 8 {
					wg.Go(func() {
						c, err := wire.Connect(t.Context(), b.Wire())
						if err != nil {
							t.Error(err)
							return
						}
						defer c.Abort()
						for k := range 30 {
							if k%10 == 0 { // its connections stay its own meanwhile
								if _, err := c.Query("BEGIN"); err != nil {
									t.Error(err)
								}
							}
							for _, text := range []string{
								fmt.Sprintf("SELECT %d FROM bl WHERE k=?", 100*n+k), // one shard
								fmt.Sprintf("SELECT k, %d FROM bl WHERE k>? ORDER BY k", 100*n+k),
								fmt.Sprintf("UPDATE bl SET b=%d WHERE k=?", 100*n+k),
							} {
								s, err := c.Prepare(text)
								if err != nil {
									t.Errorf("%s: %v", text, err)
									return
								}
								r, err := s.Execute(wire.Int(int64(100*n + k)))
								if err != nil || r[0].Err != nil {
									t.Errorf("%s: %v, %v", text, err, r)
									return
								}
								if err := s.Close(); err != nil {
									t.Error(err)
								}
							}
							if k%10 == 9 {
								if _, err := c.Query("COMMIT"); err != nil {
									t.Error(err)
								}
							}
						}
					})
				}
				wg.Wait()
			})
		}
	}
}

// The prepared statements of all clients together are bounded by
// max_prepared_stmt_count, those of SQL's PREPARE among them, as on one server.
func TestClientsStatementsAreBounded(t *testing.T) {
	const limit = 10
	for _, flavour := range flavours {
		t.Run(string(flavour), func(t *testing.T) {
			b := braid(t, flavour, func(c *conf.Config) { c.Proxy.SetGlobal = "broadcast" })
			for _, node := range b.Nodes {
				limitStatements(t, node, limit)
			}
			one := connect(t, b.Wire())
			query(t, one, "SET GLOBAL max_prepared_stmt_count="+strconv.Itoa(limit))
			two := connect(t, b.Wire())
			var open []*wire.Statement
			for i := range limit - 1 {
				c := one
				if i%2 == 0 {
					c = two
				}
				s, err := c.Prepare(fmt.Sprintf("SELECT %d", i))
				if err != nil {
					t.Fatal(err)
				}
				open = append(open, s)
			}
			query(t, one, "PREPARE s FROM 'SELECT 1'")
			full := func(when string) {
				t.Helper()
				want := fmt.Sprintf("ERROR 1461 (42000): Can't create more than max_prepared_stmt_count statements (current value: %d)", limit)
				if _, err := two.Prepare("SELECT 'more'"); err == nil || err.Error() != want {
					t.Errorf("%s: %v", when, err)
				}
				if _, err := two.Query("PREPARE more FROM 'SELECT 1'"); err == nil || err.Error() != want {
					t.Errorf("%s: SQL: %v", when, err)
				}
			}
			room := func(when string) {
				t.Helper()
				until(t, when+" there is room", func() bool {
					s, err := two.Prepare("SELECT 'more'")
					return err == nil && s.Close() == nil
				})
				query(t, two, "SELECT 1") // the close has arrived
			}
			full("at the bound")
			query(t, one, "PREPARE s FROM 'SELECT 2'") // in place of the one before
			full("after a PREPARE of the same name")
			if _, err := two.Prepare("SELECT FROM"); code(err) != 1461 {
				t.Errorf("a text that is wrong: %v", err)
			}
			query(t, one, "DEALLOCATE PREPARE s")
			if _, err := two.Prepare("SELECT FROM"); code(err) != 1064 {
				t.Errorf("a text that is wrong: %v", err)
			}
			room("after DEALLOCATE")
			query(t, one, "PREPARE s FROM 'SELECT 1'")
			full("again")
			if err := open[0].Close(); err != nil {
				t.Fatal(err)
			}
			room("after a close")
			if _, err := two.Prepare("SELECT 'the last'"); err != nil {
				t.Fatal(err)
			}
			full("once more")
			one.Abort()
			room("after a client left")
		})
	}
}
