package admin

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"braid/conf"
	"braid/tests/e2e"
	"braid/tests/servers"
)

// bounded gives each node's pool a size and a time to wait for it.
func bounded(size int, wait time.Duration) func(*conf.Config) {
	return func(c *conf.Config) {
		c.Pool.ConnectionsMax, c.Pool.WaitTimeout = size, conf.Duration(wait)
		for i := range c.Nodes {
			c.Nodes[i].ConnectionsMax = size
		}
	}
}

const operatedRows = 40

// rowsOf makes the table t with rows 1 to operatedRows and finds one of each node.
func rowsOf(t *testing.T, b *e2e.Braid, db *sql.DB) (onNode [2]int) {
	t.Helper()
	var values []string
	for k := 1; k <= operatedRows; k++ {
		values = append(values, fmt.Sprintf("(%d,0)", k))
	}
	exec(t, db, "CREATE TABLE t(k INT PRIMARY KEY, v INT NOT NULL)", "INSERT INTO t VALUES "+strings.Join(values, ","))
	for i, place := range b.Shards() {
		if err := e2e.Open(t, place.Node, place.Schema).QueryRowContext(t.Context(), "SELECT MIN(k) FROM t").Scan(&onNode[i%2]); err != nil {
			t.Fatal(err)
		}
	}
	return onNode
}

// clients are connections of their own, closed at the test's end.
func clients(t *testing.T, db *sql.DB, n int) []*sql.Conn {
	t.Helper()
	out := make([]*sql.Conn, n)
	for i := range out {
		c, err := db.Conn(t.Context())
		if err != nil {
			t.Fatalf("client %d: %v", i, err)
		}
		t.Cleanup(func() { c.Close() })
		out[i] = c
	}
	return out
}

func code(err error) uint16 {
	var e *mysql.MySQLError
	if errors.As(err, &e) {
		return e.Number
	}
	return 0
}

// poolsAtRest waits until no connection of a pool is in use.
func poolsAtRest(t *testing.T, ops *sql.DB) {
	t.Helper()
	eventually(t, "no connection is in use", func() bool {
		_, rows := ask(t, ops, "SHOW POOLS")
		for _, row := range rows {
			if row[3] != "0" || row[4] != "0" {
				return false
			}
		}
		return len(rows) == 2
	})
}

// TestB164ScattersOnSmallPools: statements over all shards, and transactions that
// take the nodes in either order, on pools of one and of two connections. Who waits
// too long is told 1040 and gives back what he held; everybody gets through.
func TestB164ScattersOnSmallPools(t *testing.T) {
	for _, flavour := range flavours {
		for _, size := range []int{1, 2} {
			t.Run(fmt.Sprintf("%s/%d", flavour, size), func(t *testing.T) {
				b := start(t, flavour, nil, bounded(size, 100*time.Millisecond))
				db, ops := b.Open(t), open(t, b, operator, operatorPassword)
				on := rowsOf(t, b, db)
				update := func(k int) string { return fmt.Sprintf("UPDATE t SET v=v+1 WHERE k=%d", k) }
				works := [][]string{
					{"SELECT COUNT(*) FROM t"},
					{"BEGIN", update(on[0]), update(on[1]), "COMMIT"},
					{"BEGIN", update(on[1]), update(on[0]), "COMMIT"},
					{"BEGIN", update(on[0]), "SELECT COUNT(*) FROM t", "COMMIT"},
				}
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
				defer cancel()
				const each, ofAKind = 2, 2
				var wg sync.WaitGroup
				for i, c := range clients(t, db, len(works)*ofAKind) {
					wg.Add(1)
					go func() {
						defer wg.Done()
						work := works[i%len(works)]
						for done := 0; done < each; {
							var err error
							for _, text := range work {
								if _, err = c.ExecContext(ctx, text); err != nil {
									err = fmt.Errorf("%s: %w", text, err)
									break
								}
							}
							switch code(err) {
							case 0:
								if err != nil {
									t.Error(err)
									return
								}
								done++
								continue
							case 1040, 1205, 1213: // no connection in time; a circle of locks
							default:
								t.Error(err)
								return
							}
							// What ends the transaction cannot fail for want of a connection.
							if _, err := c.ExecContext(ctx, "ROLLBACK"); err != nil && code(err) != 1213 {
								t.Errorf("ROLLBACK: %v", err)
								return
							}
						}
					}()
				}
				wg.Wait()
				poolsAtRest(t, ops)
				var sums [2]int
				for i := range sums {
					if err := db.QueryRowContext(t.Context(), "SELECT v FROM t WHERE k=?", on[i]).Scan(&sums[i]); err != nil {
						t.Fatal(err)
					}
				}
				if want := [2]int{3 * ofAKind * each, 2 * ofAKind * each}; sums != want {
					t.Errorf("the rows were changed %v times, want %v", sums, want)
				}
			})
		}
	}
}

// TestB165ConnectionsComeBack: after statements that fail no connection is in use,
// and after a node was restarted while all idled nobody is given a dead one.
func TestB165ConnectionsComeBack(t *testing.T) {
	for _, flavour := range flavours {
		t.Run(string(flavour), func(t *testing.T) {
			b := start(t, flavour, nil)
			db, ops := b.Open(t), open(t, b, operator, operatorPassword)
			on := rowsOf(t, b, db)
			all := clients(t, db, 30)
			for i, c := range all {
				for text, want := range map[string]uint16{
					"SELECT * FROM nothing":                             1146,
					"SELECT v FORM t":                                   1064,
					"INSERT INTO t VALUES(1,0)":                         1062,
					"SELECT nothing FROM t":                             1054,
					"INSERT INTO t VALUES(1,0),(2,0),(3,0),(4,0),(5,0)": 1062,
				} {
					if _, err := c.ExecContext(t.Context(), text); code(err) != want {
						t.Errorf("client %d: %s: %v, want %d", i, text, err, want)
					}
				}
			}
			poolsAtRest(t, ops)
			if err := b.Nodes[1].Restart(t.Context()); err != nil {
				t.Fatal(err)
			}
			for i, c := range all {
				first := []string{fmt.Sprintf("SELECT v FROM t WHERE k=%d", on[1]), "SELECT COUNT(*) FROM t", "BEGIN"}[i%3]
				if _, err := c.ExecContext(t.Context(), first); err != nil {
					t.Errorf("client %d: %s: %v", i, first, err)
				}
				if _, err := c.ExecContext(t.Context(), fmt.Sprintf("SELECT v FROM t WHERE k=%d", on[1])); err != nil {
					t.Errorf("client %d, second: %v", i, err)
				}
				if _, err := c.ExecContext(t.Context(), "COMMIT"); err != nil {
					t.Errorf("client %d: COMMIT: %v", i, err)
				}
			}
			poolsAtRest(t, ops)
		})
	}
}

// TestB167NodeMoves: a node is gone and its address is changed. Who was idle goes
// on with his variables, a transaction gets one error, who lost a temporary table
// is told, and no write is done twice.
func TestB167NodeMoves(t *testing.T) {
	for _, flavour := range flavours {
		t.Run(string(flavour), func(t *testing.T) {
			var old, next *e2e.Relay
			b, f := startWithFile(t, flavour, func(c *conf.Config) {
				old, next = e2e.StartRelay(t, c.Nodes[0].Primary), e2e.StartRelay(t, c.Nodes[0].Primary)
				c.Nodes[0].Primary = old.Addr
			})
			db, ops := b.Open(t), open(t, b, operator, operatorPassword)
			on := rowsOf(t, b, db)
			all := clients(t, db, 4)
			idle, holder, tx, auto := all[0], all[1], all[2], all[3]
			update := fmt.Sprintf("UPDATE t SET v=v+1 WHERE k=%d", on[0])
			exec(t, idle, "SET @kept=5, time_zone='+03:00'", "SELECT 1")
			exec(t, holder, "CREATE TEMPORARY TABLE own(a INT)", "INSERT INTO own VALUES (1)")
			exec(t, tx, "BEGIN", update)
			acknowledged := 0
			exec(t, auto, "INSERT INTO t VALUES (101,0),(102,0),(103,0),(104,0),(105,0),(106,0),(107,0),(108,0)") // over both nodes
			exec(t, auto, fmt.Sprintf("UPDATE t SET v=v+1 WHERE k=%d", on[1]))
			old.Close()
			if _, err := auto.ExecContext(t.Context(), update); err == nil {
				t.Error("a write on a node that is gone went well")
			}
			if auto.PingContext(t.Context()) != nil { // the write's outcome was not known: the client was cut off (rule T4)
				auto = clients(t, db, 1)[0]
			}
			f.replace(t, old.Addr, next.Addr)
			ask(t, ops, "RELOAD CONFIG")

			eventually(t, "a client without a transaction goes on", func() bool {
				_, err := auto.ExecContext(t.Context(), update)
				if err == nil {
					acknowledged++
				}
				return err == nil
			})
			var kept int
			var zone string
			if err := idle.QueryRowContext(t.Context(), fmt.Sprintf("SELECT @kept, @@time_zone FROM t WHERE k=%d", on[0])).Scan(&kept, &zone); err != nil || kept != 5 || zone != "+03:00" {
				t.Errorf("an idle session has @kept=%d, time_zone=%s: %v", kept, zone, err)
			}
			if _, err := tx.ExecContext(t.Context(), update); err == nil {
				t.Error("a transaction goes on whose node is gone")
			}
			if _, err := tx.ExecContext(t.Context(), "ROLLBACK"); err != nil {
				t.Errorf("ROLLBACK: %v", err)
			}
			exec(t, tx, "BEGIN", update, "COMMIT")
			acknowledged++
			if rows, err := holder.QueryContext(t.Context(), "SELECT a FROM own"); err == nil {
				rows.Close()
				t.Error("a session reads a temporary table that is lost")
			}
			var n int
			if err := db.QueryRowContext(t.Context(), "SELECT v FROM t WHERE k=?", on[0]).Scan(&n); err != nil || n != acknowledged {
				t.Errorf("%d writes are there, %d were acknowledged: %v", n, acknowledged, err)
			}
		})
	}
}

// TestB168SickNode: a node takes connections and does not answer. Statements that
// need it fail in the time that is configured; clients of the other node are
// served, log in, and can be killed; and all is well when it answers again.
func TestB168SickNode(t *testing.T) {
	for _, flavour := range flavours {
		t.Run(string(flavour), func(t *testing.T) {
			b := start(t, flavour, nil, func(c *conf.Config) {
				c.Timeouts.Statement, c.Timeouts.Connect = conf.Duration(time.Second), conf.Duration(time.Second)
			})
			db := b.Open(t)
			on := rowsOf(t, b, db)
			all := clients(t, db, 4)
			sick, sleeper := all[0], all[1]
			var id int
			if err := sleeper.QueryRowContext(t.Context(), "SELECT CONNECTION_ID()").Scan(&id); err != nil {
				t.Fatal(err)
			}
			if err := b.Nodes[1].Pause(); err != nil {
				t.Fatal(err)
			}
			resume := sync.OnceFunc(func() {
				if err := b.Nodes[1].Continue(); err != nil {
					t.Error(err)
				}
			})
			defer resume()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			told := make(chan error, 2)
			go func() {
				for _, text := range []string{"SELECT COUNT(*) FROM t", fmt.Sprintf("SELECT v FROM t WHERE k=%d", on[1])} {
					_, err := sick.ExecContext(ctx, text)
					told <- err
				}
			}()
			slept := make(chan error, 1)
			go func() {
				_, err := sleeper.ExecContext(ctx, fmt.Sprintf("SELECT SLEEP(50) FROM t WHERE k=%d", on[0]))
				slept <- err
			}()
			point := fmt.Sprintf("SELECT v FROM t WHERE k=%d", on[0])
			for range 20 {
				exec(t, all[2], point)
				fresh, err := sql.Open("mysql", b.DSN())
				if err != nil {
					t.Fatal(err)
				}
				exec(t, fresh, point)
				fresh.Close()
			}
			exec(t, all[3], fmt.Sprintf("KILL QUERY %d", id))
			if err := <-slept; err != nil && code(err) != 1317 && code(err) != 3024 {
				t.Errorf("KILL QUERY: %v", err)
			}
			for range 2 {
				if err := <-told; code(err) == 0 {
					t.Errorf("a statement that needs the sick node: %v", err)
				}
			}
			resume()
			eventually(t, "all is well again", func() bool {
				_, err := sick.ExecContext(ctx, "SELECT COUNT(*) FROM t")
				return err == nil
			})
			exec(t, all[2], fmt.Sprintf("UPDATE t SET v=1 WHERE k IN (%d,%d)", on[0], on[1]))
		})
	}
}

// TestB173SettingsShareThePool: clients with many settings share a few connections.
// There are never more than the limit, and nobody meets another's setting.
func TestB173SettingsShareThePool(t *testing.T) {
	const size, settings, rounds = 4, 20, 15
	for _, flavour := range flavours {
		t.Run(string(flavour), func(t *testing.T) {
			b := start(t, flavour, nil, bounded(size, time.Minute))
			db := b.Open(t)
			on := rowsOf(t, b, db)
			all := clients(t, db, 3*settings)
			for i, c := range all {
				exec(t, c, fmt.Sprintf("SET time_zone='+00:%02d', group_concat_max_len=%d", i%settings, 1000+i%settings))
			}
			var over atomic.Int64
			stop, stopped := make(chan struct{}), make(chan struct{})
			root := e2e.Open(t, b.Nodes[0], "")
			count := func() (n int64) {
				if err := root.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE USER=?", servers.User).Scan(&n); err != nil {
					t.Error(err)
				}
				return n
			}
			before := count()
			go func() {
				defer close(stopped)
				for {
					select {
					case <-stop:
						return
					default:
						over.Store(max(over.Load(), count()))
					}
				}
			}()
			var wg sync.WaitGroup
			for i, c := range all {
				wg.Add(1)
				go func() {
					defer wg.Done()
					want := fmt.Sprintf("+00:%02d/%d", i%settings, 1000+i%settings)
					for range rounds {
						var got string
						err := c.QueryRowContext(t.Context(), fmt.Sprintf("SELECT CONCAT(@@time_zone,'/',@@group_concat_max_len) FROM t WHERE k=%d", on[0])).Scan(&got)
						if err != nil || got != want {
							t.Errorf("client %d has %s, want %s: %v", i, got, want, err)
							return
						}
					}
				}()
			}
			wg.Wait()
			close(stop)
			<-stopped
			const own = 2 // of Braid's own work
			if got := over.Load(); got > size+own || got == 0 {
				t.Errorf("%d connections to the node (%d before), the pool has %d", got, before, size)
			}
		})
	}
}
