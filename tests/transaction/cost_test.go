package transaction

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"braid/conf"
	"braid/tests/e2e"
	"braid/tests/servers"
	"braid/tests/wire"
)

// throughRelays makes Braid reach its nodes through relays that count.
func throughRelays(t testing.TB, relays *[]*e2e.Relay) func(*conf.Config) {
	return func(c *conf.Config) {
		*relays = nil
		for i := range c.Nodes {
			r := e2e.StartRelay(t, c.Nodes[i].Primary)
			*relays = append(*relays, r)
			c.Nodes[i].Primary = r.Addr
		}
		c.Recovery.Interval = conf.Duration(time.Hour) // it would be counted
	}
}

// A transaction on one shard costs the node what the client's own commands
// would: no more round trips, and nothing at all on the other node.
func TestPacketsOfOneShard(t *testing.T) {
	var relays []*e2e.Relay
	eachWith(t, func(c *conf.Config) { throughRelays(t, &relays)(c) }, func(t *testing.T, w *world) {
		c := w.client(t)
		x := w.at[1][0]
		texts := []string{"BEGIN", update(x, 1), fmt.Sprintf("SELECT v FROM acc WHERE id=%d", x), update(x, -1), "SAVEPOINT a", update(x, 1), "COMMIT"}
		c.ok(texts...) // the connection's first transaction asks the node who it is
		for _, how := range []string{"COMMIT", "ROLLBACK"} {
			texts[len(texts)-1] = how
			for _, r := range relays {
				r.Reset()
			}
			c.ok(texts...)
			if got := relays[1].Traffic(); got.RoundTrips > len(texts) || got.Connections > 0 {
				t.Errorf("%s: %d round trips and %d new connections for %d commands of the client's: %q", how, got.RoundTrips, got.Connections, len(texts), relays[1].Commands())
			}
			if got := relays[0].Traffic(); got.FromClient.Packets != 0 {
				t.Errorf("%s: the other node got %q", how, relays[0].Commands())
			}
		}
	})
}

// A transaction on two nodes: each phase of its commit is one round trip, and
// goes to all nodes at once; also where its legs are branches only, because the
// session's last transaction was on two nodes, and there the decision rows go out
// with the statements.
func TestPacketsOfTwoNodes(t *testing.T) {
	var relays []*e2e.Relay
	eachWith(t, func(c *conf.Config) { throughRelays(t, &relays)(c) }, func(t *testing.T, w *world) {
		reset := func() {
			for _, r := range relays {
				r.Reset()
			}
		}
		begin := []string{"BEGIN", update(w.at[0][0], 1), update(w.at[1][0], -1)}
		alone := func(c *client) { c.ok("BEGIN", update(w.at[0][0], 0), "COMMIT") }
		for _, branches := range []bool{false, true} {
			c := w.client(t)
			c.ok(append(slices.Clone(begin), "COMMIT")...)
			if !branches {
				alone(c)
			}
			c.ok(begin...)
			reset()
			c.ok("COMMIT")
			for i := range relays { // decision and COMMIT, or XA PREPARE; XA COMMIT
				// One less is counted where the answer to something before was still on its way.
				if got := relays[i].Traffic().RoundTrips; got > 2 || got == 0 {
					t.Errorf("branches %v: COMMIT took %d round trips on node %d, want at most 2: %q", branches, got, i, relays[i].Commands())
				}
				if rows := strings.Count(strings.Join(relays[i].Commands(), "\n"), "INSERT INTO braid.decision"); branches && rows != 0 || !branches && rows != 1-i {
					t.Errorf("branches %v: COMMIT wrote %d decision rows on node %d: %q", branches, rows, i, relays[i].Commands())
				}
			}
			expect := []string{"XA PREPARE", "INSERT INTO braid.decision"} // while node 0, node 1 does not answer
			if branches {
				expect[1] = "XA PREPARE"
			}
			for slow, expect := range expect {
				if !branches {
					alone(c)
				}
				c.ok(begin...)
				reset()
				if err := w.braid.Nodes[slow].Pause(); err != nil {
					t.Fatal(err)
				}
				done := c.later("COMMIT")
				until(t, expect+" is sent while the other node does not answer", func() bool {
					return strings.Contains(strings.Join(relays[1-slow].Commands(), "\n"), expect)
				})
				if err := w.braid.Nodes[slow].Continue(); err != nil {
					t.Fatal(err)
				}
				if code := <-done; code != 0 {
					t.Errorf("COMMIT: %d", code)
				}
			}
		}
		c := w.client(t)
		if got := c.one("SELECT SUM(v) FROM acc"); got != "0" {
			t.Errorf("sum %s", got)
		}
	})
}

// A statement under autocommit that writes on two nodes: each is asked to write,
// with what begins the branch and its decision row in the same write, to prepare,
// and to commit.
func TestPacketsOfAWriteOnTwoNodes(t *testing.T) {
	var relays []*e2e.Relay
	eachWith(t, func(c *conf.Config) { throughRelays(t, &relays)(c) }, func(t *testing.T, w *world) {
		c := w.client(t)
		text := fmt.Sprintf("UPDATE acc SET v=v+1 WHERE id IN (%d,%d)", w.at[0][0], w.at[1][0])
		c.ok(text)
		for _, r := range relays {
			r.Reset()
		}
		c.ok(text)
		for i, r := range relays {
			all := strings.Join(r.Commands(), "\n")
			for _, want := range []string{"XA START", "INSERT INTO braid.decision", "UPDATE acc", "XA PREPARE", "XA COMMIT"} {
				if strings.Count(all, want) != 1 {
					t.Errorf("node %d: not one %s: %q", i, want, r.Commands())
				}
			}
			if got := r.Traffic().RoundTrips; got != 3 {
				t.Errorf("node %d: %d round trips, want 3: %q", i, got, r.Commands())
			}
		}
	})
}

// BenchmarkCommit compares COMMIT on two nodes with COMMIT on one, ten by turns,
// for both values of commit_ok, on nodes that write their logs through to the
// disk, with and without a binary log; the figures are medians in microseconds, and
// their ratio, of COMMIT and of the whole transaction. Where COMMIT does not wait
// for the branches, the next transaction of the ten does, which is on the same
// rows.
func BenchmarkCommit(b *testing.B) {
	for _, log := range []struct {
		name    string
		options servers.Options
	}{
		{"binlog", servers.Options{BinaryLog: true, Args: []string{"--innodb-flush-log-at-trx-commit=1", "--sync-binlog=1"}}},
		{"no-binlog", servers.Options{Args: []string{"--innodb-flush-log-at-trx-commit=1"}}},
	} {
		durable := e2e.NewLabWith(log.options)
		defer func() {
			if err := durable.Close(); err != nil {
				b.Error(err)
			}
		}()
		for _, ok := range []string{"applied", "decided"} {
			b.Run(log.name+"/"+ok, func(b *testing.B) {
				benchEach(b, durable, func(c *conf.Config) { c.Databases[0].CommitOK = ok }, benchCommit)
			})
		}
	}
}

func benchCommit(b *testing.B, c *wire.Conn, one, two [2]int) {
	var took, whole [2][]time.Duration
	n := 0
	for b.Loop() {
		for i, ids := range [][2]int{one, two} {
			for range 10 {
				n++
				begin := time.Now()
				for _, text := range []string{"BEGIN", update(ids[0], n), update(ids[1], n)} {
					mustQuery(b, c, text)
				}
				start := time.Now()
				mustQuery(b, c, "COMMIT")
				took[i] = append(took[i], time.Since(start))
				whole[i] = append(whole[i], time.Since(begin))
			}
		}
	}
	report(b, took, "one-node", "two-nodes", "ratio")
	report(b, whole, "transaction-one-node", "transaction-two-nodes", "transaction-ratio")
}

// BenchmarkReadFence compares a sum over all shards with and without the fence.
func BenchmarkReadFence(b *testing.B) {
	benchEach(b, lab, nil, func(b *testing.B, c *wire.Conn, _, _ [2]int) {
		var took [2][]time.Duration
		for b.Loop() {
			for i, fence := range []string{"0", "1"} {
				mustQuery(b, c, "SET braid_read_fence="+fence)
				start := time.Now()
				mustQuery(b, c, "SELECT SUM(v) FROM acc")
				took[i] = append(took[i], time.Since(start))
			}
		}
		report(b, took, "plain", "fenced", "ratio")
	})
}

func report(b *testing.B, took [2][]time.Duration, names ...string) {
	var median [2]float64
	for i, list := range took {
		slices.Sort(list)
		median[i] = float64(list[len(list)/2]) / float64(time.Microsecond)
		b.ReportMetric(median[i], names[i]+"-µs")
	}
	b.ReportMetric(median[1]/median[0], names[2])
	b.ReportMetric(0, "ns/op")
}

func mustQuery(b *testing.B, c *wire.Conn, text string) {
	b.Helper()
	if results, err := c.Query(text); err != nil || results[0].Err != nil {
		b.Fatalf("%s: %v", text, err)
	}
}

// benchEach gives f a connection over two nodes with table acc, two ids on one
// node, and one on each.
func benchEach(b *testing.B, lab *e2e.Lab, change func(*conf.Config), f func(b *testing.B, c *wire.Conn, one, two [2]int)) {
	for _, flavour := range []servers.Flavour{servers.MariaDB, servers.MySQL} {
		b.Run(string(flavour), func(b *testing.B) {
			braid := lab.StartBraid(b, e2e.Topology{Flavour: flavour, Nodes: 2, Shards: 4, Change: change,
				Tables: []conf.Table{{Name: "acc", Kind: "sharded", Key: []string{"id"}}}})
			c, err := wire.Connect(b.Context(), braid.Wire())
			if err != nil {
				b.Fatal(err)
			}
			defer braid.Stop()
			defer c.Close()
			mustQuery(b, c, "CREATE TABLE acc(id INT PRIMARY KEY, v INT NOT NULL)")
			for id := range rowsMax {
				mustQuery(b, c, fmt.Sprintf("INSERT INTO acc VALUES (%d,0)", id))
			}
			var at [2][]int
			for i, place := range braid.Shards() {
				db := e2e.Open(b, place.Node, place.Schema)
				for id := range rowsMax {
					var n int
					if err := db.QueryRowContext(b.Context(), "SELECT COUNT(*) FROM acc WHERE id=?", id).Scan(&n); err != nil {
						b.Fatal(err)
					}
					if n == 1 {
						at[i%2] = append(at[i%2], id)
					}
				}
			}
			f(b, c, [2]int{at[0][0], at[0][1]}, [2]int{at[0][2], at[1][0]})
		})
	}
}
