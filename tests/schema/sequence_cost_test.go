package schema

import (
	"fmt"
	"testing"
	"time"

	"braid/conf"
	"braid/tests/e2e"
	"braid/tests/servers"
)

// TestSequenceCost counts what INSERTs with ids that Braid gives cost the nodes
// beside the same INSERTs into a table without AUTO_INCREMENT whose clients name
// the ids: no more than 5 % more packets and round trips, as ids come in blocks.
func TestSequenceCost(t *testing.T) {
	const inserts, percent = 3000, 105
	for _, f := range []servers.Flavour{servers.MariaDB, servers.MySQL} {
		t.Run(string(f), func(t *testing.T) {
			var relays []*e2e.Relay
			b := lab.StartBraid(t, e2e.Topology{Flavour: f, Nodes: 2, Shards: 4,
				Tables: []conf.Table{{Name: "given", Kind: "sharded", Key: []string{"id"}}, {Name: "named", Kind: "sharded", Key: []string{"id"}}},
				Change: func(c *conf.Config) {
					relays = nil
					for i := range c.Nodes {
						r := e2e.StartRelay(t, c.Nodes[i].Primary)
						relays, c.Nodes[i].Primary = append(relays, r), r.Addr
					}
					c.Recovery.Interval = conf.Duration(time.Hour) // it would be counted
				}})
			db := pooled(b.Open(t))
			exec(t, db, "CREATE TABLE given(id BIGINT AUTO_INCREMENT PRIMARY KEY, v INT)")
			exec(t, db, "CREATE TABLE named(id BIGINT PRIMARY KEY, v INT)")
			cost := func(insert func(id int) string) (packets, roundTrips int) {
				t.Helper()
				for _, r := range relays {
					r.Reset()
				}
				for id := range inserts {
					exec(t, db, insert(1+id))
				}
				for _, r := range relays {
					c := r.Traffic()
					packets, roundTrips = packets+c.FromClient.Packets+c.ToClient.Packets, roundTrips+c.RoundTrips
				}
				return packets, roundTrips
			}
			p0, r0 := cost(func(id int) string { return fmt.Sprintf("INSERT INTO named(id,v) VALUES (%d,1)", id) })
			p1, r1 := cost(func(int) string { return "INSERT INTO given(v) VALUES (1)" })
			t.Logf("%d INSERTs: %d packets and %d round trips with ids of the client's, %d and %d with ids given", inserts, p0, r0, p1, r1)
			if p1*100 > p0*percent || r1*100 > r0*percent {
				t.Errorf("ids that are given cost more than %d %%: %d packets for %d, %d round trips for %d", percent, p1, p0, r1, r0)
			}
		})
	}
}
