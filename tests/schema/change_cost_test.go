package schema

import (
	"strings"
	"testing"
	"time"

	"braid/conf"
	"braid/tests/e2e"
	"braid/tests/servers"
)

// A change of the schema is followed by reading it. All shards of a node are read
// on one connection by one set of questions, so that more shards cost no more round
// trips, and the nodes side by side.
func TestReadingTheSchemaCost(t *testing.T) {
	const nodes = 2
	for _, f := range []servers.Flavour{servers.MariaDB, servers.MySQL} {
		t.Run(string(f), func(t *testing.T) {
			var cost []int
			for _, shards := range []int{2, 8} {
				var relays []*e2e.Relay
				b := lab.StartBraid(t, e2e.Topology{Flavour: f, Nodes: nodes, Shards: shards,
					Change: func(c *conf.Config) {
						relays = nil
						for i := range c.Nodes {
							r := e2e.StartRelay(t, c.Nodes[i].Primary)
							relays, c.Nodes[i].Primary = append(relays, r), r.Addr
						}
						c.Recovery.Interval = conf.Duration(time.Hour) // it would be counted
					}})
				db := pooled(b.Open(t))
				exec(t, db, "CREATE TABLE t(k INT PRIMARY KEY)")
				exec(t, db, "ALTER TABLE t ADD v INT") // connects
				measure := func() (questions, connections int) {
					t.Helper()
					for _, r := range relays {
						r.Reset()
					}
					if err := b.Server.Refresh(t.Context()); err != nil {
						t.Fatal(err)
					}
					roundTrips := 0
					for _, r := range relays {
						c := r.Traffic()
						roundTrips, connections = roundTrips+c.RoundTrips, connections+c.Connections
						for _, text := range r.Commands() {
							if strings.Contains(text, "information_schema") {
								questions++
							}
						}
					}
					t.Logf("%d shards on %d nodes: %d round trips, of them %d questions, on %d new connections", shards, nodes, roundTrips, questions, connections)
					return questions, connections
				}
				n, connections := measure()
				if connections > nodes {
					t.Errorf("%d connections for %d nodes", connections, nodes)
				}
				cost = append(cost, n)

				asked := func(r *e2e.Relay, what string) bool { return strings.Contains(strings.Join(r.Commands(), "\n"), what) }
				for slow := range relays {
					for _, r := range relays {
						r.Reset()
					}
					relays[slow].Hold("information_schema.TABLES")
					done := make(chan error, 1)
					go func() { done <- b.Server.Refresh(t.Context()) }()
					until(t, "the other node is read whole while one does not answer", func() bool {
						return relays[slow].Held() && asked(relays[1-slow], "information_schema.KEY_COLUMN_USAGE")
					})
					relays[slow].Release()
					if err := <-done; err != nil {
						t.Error(err)
					}
				}
				b.Stop()
			}
			if cost[1] != cost[0] || cost[0] == 0 {
				t.Errorf("8 shards cost %d questions, 2 cost %d", cost[1], cost[0])
			}
		})
	}
}

// until polls what, every few milliseconds, until it holds.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline, tick := time.After(30*time.Second), time.NewTicker(5*time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-deadline:
			t.Fatalf("%s: not within 30 s", what)
		case <-tick.C:
		}
	}
}
