package session

import (
	"fmt"
	"strings"
	"testing"

	"braid/conf"
	"braid/tests/servers"
	"braid/tests/wire"
)

// levels are global isolation levels, one for each node, as an operator may
// have left them.
var levels = [...]string{"READ-COMMITTED", "REPEATABLE-READ", "SERIALIZABLE", "READ-UNCOMMITTED"}

// The isolation story: BenchmarkSQL's Delivery takes the oldest order of a
// district, deletes it, and when nothing was deleted, because another terminal
// was faster, it looks again. At READ COMMITTED it then sees the next order. At
// REPEATABLE READ it sees the same one for ever. What happens must not depend on
// which node the district is on: Braid's setting alone decides.
func TestIsolationIsBraidsOwn(t *testing.T) {
	each(t, func(t *testing.T, flavour servers.Flavour) {
		for _, level := range []string{"READ-COMMITTED", "REPEATABLE-READ"} {
			t.Run(level, func(t *testing.T) { delivery(t, flavour, level) })
		}
	})
}

func delivery(t *testing.T, flavour servers.Flavour, level string) {
	b := shop(t, flavour, 4, 4, func(c *conf.Config) { c.Databases[0].Isolation = level })
	name := strings.TrimPrefix(isolation(flavour), "@@")
	for i, n := range b.Nodes {
		if err := n.SetGlobal(t.Context(), name, "'"+levels[i]+"'"); err != nil {
			t.Fatal(err)
		}
		defer n.SetGlobal(t.Context(), name, "'REPEATABLE-READ'")
	}
	b.Restart(t) // so that its connections have begun under the nodes' levels
	one, two := connect(t, b), connect(t, b)
	for i, k := range keys(t, b) {
		where := fmt.Sprintf("node with %s", levels[i])
		if got := must(t, one, fmt.Sprintf("SELECT %s FROM i WHERE k=%d", isolation(flavour), k)); got != level {
			t.Errorf("%s: %s", where, got)
		}
		tries := deliver(t, one, two, k)
		if want := map[string]int{"READ-COMMITTED": 2, "REPEATABLE-READ": triesMax}[level]; tries != want {
			t.Errorf("%s: %d tries, want %d", where, tries, want)
		}
		// What the session says for itself goes before the configuration.
		must(t, one, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
		if tries := deliver(t, one, two, k); tries != 2 {
			t.Errorf("%s, the session at READ COMMITTED: %d tries", where, tries)
		}
		must(t, one, "SET "+name+" = DEFAULT")
	}
}

// triesMax is when a terminal that looks again and again is given up.
const triesMax = 5

// deliver is one terminal's Delivery for the district of key k, while another
// takes the oldest order away, and returns how often it looked.
func deliver(t *testing.T, one, two *wire.Conn, k int) int {
	t.Helper()
	// The orders are the values of x: an "order" is taken by raising it.
	must(t, two, fmt.Sprintf("UPDATE i SET x=1 WHERE k=%d", k))
	must(t, one, "BEGIN")
	defer must(t, one, "COMMIT")
	for try := 1; try <= triesMax; try++ {
		oldest := must(t, one, fmt.Sprintf("SELECT x FROM i WHERE k=%d", k))
		if try == 1 {
			must(t, two, fmt.Sprintf("UPDATE i SET x=x+1 WHERE k=%d", k)) // the other terminal was faster
		}
		results, err := one.Query(fmt.Sprintf("UPDATE i SET x=x+1 WHERE k=%d AND x=%s", k, oldest))
		if err != nil {
			t.Fatal(err)
		}
		if results[0].OK.AffectedRows == 1 {
			return try
		}
	}
	return triesMax
}
