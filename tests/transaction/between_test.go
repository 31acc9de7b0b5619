package transaction

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"braid/conf"
	"braid/tests/e2e"
)

// T3, T4, T18: inside a transaction the shards of a node are read one after the
// other on its leg. What ends the transaction at a later shard is noticed as it is
// at the first: a deadlock, and the loss of the connection.
func TestT18LaterShardFails(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		for _, how := range []string{"deadlock", "lost"} {
			for _, read := range []string{"SELECT id FROM acc WHERE id IN (%d,%d) FOR UPDATE", "SELECT SUM(v) FROM acc WHERE id IN (%d,%d) LOCK IN SHARE MODE"} {
				t.Run(how+" "+read, func(t *testing.T) {
					c := w.client(t)
					x, y := w.shard[0][0], w.at[1][0]
					c.ok("BEGIN", update(x, 1), update(y, 1))
					var leg []int
					until(t, "the leg is listed", func() bool {
						// The list of transactions may be a moment old, and have a connection
						// that is gone.
						leg = numbers(t, w.node[0], "SELECT ID FROM information_schema.PROCESSLIST JOIN information_schema.INNODB_TRX ON trx_mysql_thread_id=ID")
						return len(leg) == 1
					})
					// Another holds shard 2, which is on the node of shard 0, and has
					// changed more, so that it is not the victim.
					places := w.braid.Shards()
					other, err := w.node[0].Conn(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					defer other.Close()
					for _, text := range []string{"BEGIN", "UPDATE " + places[2].Schema + ".acc SET v=v+1", "UPDATE " + places[2].Schema + ".acc SET v=v-1", "UPDATE " + places[2].Schema + ".acc SET v=v+1"} {
						if _, err := other.ExecContext(t.Context(), text); err != nil {
							t.Fatal(err)
						}
					}
					defer other.ExecContext(t.Context(), "ROLLBACK")
					blocked := make(chan error, 1)
					if how == "deadlock" {
						go func() {
							_, err := other.ExecContext(t.Context(), fmt.Sprintf("UPDATE %s.acc SET v=v WHERE id=%d", places[0].Schema, x))
							blocked <- err
						}()
						w.running(t, 0, "INFO LIKE 'UPDATE %SET v=v WHERE%'")
					}
					done := c.later(fmt.Sprintf(read, w.shard[0][1], w.shard[2][1]))
					if how == "lost" {
						w.running(t, 0, fmt.Sprintf("ID=%d AND DB='%s'", leg[0], places[2].Schema))
						if _, err := w.node[0].ExecContext(t.Context(), fmt.Sprintf("KILL %d", leg[0])); err != nil {
							t.Fatal(err)
						}
					}
					if code := <-done; code != 1213 {
						t.Fatalf("the read: %d", code)
					}
					if how == "deadlock" {
						if err := <-blocked; err != nil {
							t.Fatal(err)
						}
						if c.inTransaction() {
							t.Error("still in a transaction")
						}
					} else if code := c.code(update(y, 1)); code != 1213 {
						t.Errorf("the next statement of a lost transaction: %d", code)
					}
					// Rolled back on the other node already.
					if got := numbers(t, w.node[1], fmt.Sprintf("SELECT v FROM %s.acc WHERE id=%d FOR UPDATE NOWAIT", places[1].Schema, y)); got[0] != 0 {
						t.Errorf("on the other node v is %d", got[0])
					}
					c.ok("ROLLBACK")
				})
			}
		}
	})
}

// running waits until a node runs a statement that is so in its list.
func (w *world) running(t *testing.T, node int, where string) {
	t.Helper()
	until(t, where, func() bool {
		return len(numbers(t, w.node[node], "SELECT ID FROM information_schema.PROCESSLIST WHERE COMMAND='Query' AND ID<>CONNECTION_ID() AND "+where)) > 0
	})
}

// A read that loses a node in the middle of its answer says which shard's rows are
// missing, outside a transaction and inside one; it never ends as if they were all.
func TestReadNamesTheLostShard(t *testing.T) {
	var relays []*e2e.Relay
	eachWith(t, func(c *conf.Config) { throughRelays(t, &relays)(c) }, func(t *testing.T, w *world) {
		long := "SELECT id, REPEAT('x', 2000000) FROM acc" // more than all buffers on the way hold
		for _, begin := range []string{"", "BEGIN"} {
			for _, text := range []string{long, long + " ORDER BY id", long + " WHERE id >= 0 LIMIT 1000"} {
				db := w.braid.Open(t)
				c, err := db.Conn(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if begin != "" {
					if _, err := c.ExecContext(t.Context(), begin); err != nil {
						t.Fatal(err)
					}
				}
				rows, err := c.QueryContext(t.Context(), text)
				if err != nil {
					t.Fatal(err)
				}
				n := 0
				for rows.Next() {
					if n++; n == 2 {
						relays[0].Cut()
					}
				}
				err = rows.Err()
				var e *mysql.MySQLError
				switch {
				case n == rowsMax || err == nil:
					t.Errorf("%s %s: %d rows, %v", begin, text[len(long):], n, err)
				case !errors.As(err, &e) || !strings.Contains(e.Message, "node n0"):
					t.Errorf("%s %s: %v", begin, text[len(long):], err)
				case begin == "" && (e.Number != 1105 || !strings.Contains(e.Message, "shard s")):
					t.Errorf("%s: %v", text[len(long):], err)
				case begin != "" && e.Number != 1213:
					t.Errorf("%s %s: %v", begin, text[len(long):], err)
				}
				_ = c.Close()
				_ = db.Close()
			}
		}
	})
}
