package schema

import (
	"fmt"
	"testing"
	"time"

	"braid/conf"
	"braid/tests/e2e"
	"braid/tests/servers"
	"braid/tests/wire"
)

// A CHECK TABLE that compares the copies of a global table is stopped by KILL
// QUERY, by KILL and by the statement's timeout, like any statement.
func TestCheckOfCopiesIsStopped(t *testing.T) {
	for _, f := range []servers.Flavour{servers.MariaDB, servers.MySQL} {
		for _, how := range []string{"KILL QUERY %d", "KILL %d", "timeout"} {
			t.Run(fmt.Sprintf("%s/%s", f, how), func(t *testing.T) {
				var relay *e2e.Relay
				b := lab.StartBraid(t, e2e.Topology{Flavour: f, Nodes: 2, Shards: 2, Tables: []conf.Table{{Name: "g", Kind: "global"}},
					Change: func(c *conf.Config) {
						relay = e2e.StartRelay(t, c.Nodes[1].Primary)
						c.Nodes[1].Primary = relay.Addr
						if how == "timeout" {
							c.Timeouts.Statement = conf.Duration(5 * time.Second)
						}
					}})
				db := b.Open(t)
				exec(t, db, "CREATE TABLE g(k INT PRIMARY KEY)")
				c, err := wire.Connect(t.Context(), b.Wire())
				if err != nil {
					t.Fatal(err)
				}
				defer c.Abort()
				r, err := c.Query("SELECT CONNECTION_ID()")
				if err != nil {
					t.Fatal(err)
				}
				var id int
				if _, err := fmt.Sscan(string(r[0].Rows[0][0]), &id); err != nil {
					t.Fatal(err)
				}
				relay.Hold("SELECT COUNT(*)")
				done := make(chan error, 1)
				go func() {
					_, err := c.Query("CHECK TABLE g")
					done <- err
				}()
				until(t, "the second copy is about to be read", relay.Held)
				// The copy is locked, so that its reading waits on the node.
				shard := b.Shards()[1]
				locker, err := e2e.Open(t, shard.Node, shard.Schema).Conn(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				defer locker.Close()
				if _, err := locker.ExecContext(t.Context(), "LOCK TABLES g WRITE"); err != nil {
					t.Fatal(err)
				}
				relay.Release()
				watch := pooled(e2e.Open(t, shard.Node, ""))
				until(t, "the node waits for the locked copy", func() bool {
					return one(t, watch, "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE STATE LIKE 'Waiting for table metadata lock'") == "1"
				})
				if how != "timeout" {
					exec(t, db, fmt.Sprintf(how, id))
				}
				select {
				case err := <-done:
					want := uint16(1317)
					if how == "timeout" {
						want = 3024
					}
					if e, ok := err.(*wire.Error); !ok || e.Code != want {
						t.Errorf("CHECK TABLE: %v, want error %d", err, want)
					}
				case <-time.After(30 * time.Second):
					t.Fatal("CHECK TABLE is not stopped")
				}
				until(t, "nothing waits on the node any more", func() bool {
					return one(t, watch, "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE STATE LIKE 'Waiting for table metadata lock'") == "0"
				})
			})
		}
	}
}
