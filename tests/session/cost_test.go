package session

import (
	"fmt"
	"testing"

	"braid/conf"
	"braid/tests/e2e"
	"braid/tests/servers"
)

// Sessions that differ in database (shards of one node are schemas), isolation
// level, time zone and sql_mode take turns on one backend connection: what has to
// be changed goes with the statement, and costs no round trip of its own.
func TestContextCostsNoRoundTrip(t *testing.T) {
	each(t, func(t *testing.T, flavour servers.Flavour) {
		var relay *e2e.Relay
		b := shop(t, flavour, 1, 2, func(c *conf.Config) {
			relay = e2e.StartRelay(t, c.Nodes[0].Primary)
			c.Nodes[0].Primary = relay.Addr
			pool(c, 1, c.Pool.WaitTimeout)
		})
		keys := keys(t, b)
		one, two := connect(t, b), connect(t, b)
		must(t, one, "SET time_zone='+03:00', sql_mode='ANSI_QUOTES', @a=1")
		must(t, one, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
		must(t, two, "SET time_zone='-03:00', @a=2")
		must(t, two, "SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE")
		level := isolation(flavour)
		turn := func() {
			for i, want := range []string{"+03:00,READ-COMMITTED,1", "-03:00,SERIALIZABLE,2"} {
				c := one
				if i == 1 {
					c = two
				}
				if got := must(t, c, fmt.Sprintf("SELECT @@time_zone,%s,@a FROM i WHERE k=%d", level, keys[i])); got != want {
					t.Fatalf("session %d: %s, want %s", i, got, want)
				}
			}
		}
		turn()
		relay.Reset()
		const turns = 10
		for range turns {
			turn()
		}
		if n := relay.Traffic().RoundTrips; n != 2*turns {
			t.Errorf("%d statements took %d round trips: %q", 2*turns, n, relay.Commands())
		}
		if n := relay.Traffic().Connections; n != 0 {
			t.Errorf("%d new connections", n)
		}
		// Nothing differs any more: nothing but the statement is sent.
		relay.Reset()
		must(t, two, fmt.Sprintf("SELECT x FROM i WHERE k=%d", keys[1]))
		if got := relay.Commands(); len(got) != 1 {
			t.Errorf("sent: %q", got)
		}
	})
}
