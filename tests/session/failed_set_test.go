package session

import (
	"slices"
	"strings"
	"testing"
	"time"

	"braid/conf"
	"braid/tests/e2e"
	"braid/tests/servers"
)

// A SET during which a node goes away leaves the session as it was on all
// shards, or changed on all (B102): what a statement is read under is what it
// runs under.
func TestSetWhileANodeIsLost(t *testing.T) {
	each(t, func(t *testing.T, flavour servers.Flavour) {
		relays := map[string]*e2e.Relay{}
		b := shop(t, flavour, 2, 4, func(c *conf.Config) {
			c.Timeouts.Connect = conf.Duration(2 * time.Second)
			for i := range c.Nodes {
				relays[c.Nodes[i].Name] = e2e.StartRelay(t, c.Nodes[i].Primary)
				c.Nodes[i].Primary = relays[c.Nodes[i].Name].Addr
			}
		})
		c := connect(t, b)
		const state = "SELECT @@sql_mode, @@time_zone FROM i" // of the connections to all shards
		must(t, c, "SELECT COUNT(*) FROM i")
		for _, text := range []string{
			"SET @u=1, sql_mode=CONCAT('ANSI','_QUOTES')", "SET sql_mode='PIPES_AS_CONCAT', @u=2", "SET time_zone='+04:00', sql_mode=CONCAT('','')",
		} {
			before := must(t, c, state)
			for _, r := range relays {
				r.Cut() // the pools' connections are dead, and nobody has noticed
			}
			_, err := run(c, text)
			// Reads find new connections by themselves: at most one statement fails.
			got, again := run(c, state)
			if again != nil {
				got = must(t, c, state)
			}
			rows := strings.Split(got, ";")
			if len(rows) != 40 || len(slices.Compact(rows)) != 1 {
				t.Errorf("after %s the shards are not alike: %q", text, slices.Compact(rows))
			}
			if err != nil && got != before {
				t.Errorf("%s failed (%v) and left %q, was %q", text, err, got, before)
			}
			if err == nil && got == before {
				t.Errorf("%s went well and left %q", text, got)
			}
		}
	})
}
