package transaction

import (
	"fmt"
	"strings"
	"testing"

	"braid/conf"
	"braid/tests/e2e"
)

// TestLimitStopsTheShards: when the answer is complete, the shards' work ends:
// what they would still have to say is neither read nor waited for, whether the
// LIMIT could be given to them or, as with groups, not. In a transaction the legs
// are usable afterwards.
func TestLimitStopsTheShards(t *testing.T) {
	const (
		rows = 16_000
		long = 1000            // bytes of a row: all have 16 MB, twice that with the weights of their texts
		most = rows * long / 4 // bytes that all nodes may send
		// A leg's connection stays, so what the node's kernel has taken already must
		// be read: up to 4 MiB a connection, and a little on the way.
		mostOfLeg = 6 << 20
		one       = "INSERT INTO big VALUES "
	)
	var relays []*e2e.Relay
	eachWith(t, func(c *conf.Config) {
		throughRelays(t, &relays)(c)
		c.Databases[0].Tables = append(c.Databases[0].Tables, conf.Table{Name: "big", Kind: "sharded", Key: []string{"id"}, Function: "hash"})
	}, func(t *testing.T, w *world) {
		c := w.client(t)
		c.ok("CREATE TABLE big(id INT PRIMARY KEY, pad VARCHAR(1100) COLLATE utf8mb4_bin) DEFAULT CHARSET utf8mb4")
		for at := 0; at < rows; at += 1000 {
			var values []string
			for id := at; id < at+1000; id++ {
				values = append(values, fmt.Sprintf("(%d,'%08d%s')", id, id*7919%rows, strings.Repeat("x", long-8)))
			}
			c.ok(one + strings.Join(values, ","))
		}
		for _, inside := range []bool{false, true} {
			for _, q := range []struct {
				limit string // sql_select_limit
				text  string
				first string // what the first value begins with; "": any
			}{
				{"DEFAULT", "SELECT pad, COUNT(*) FROM big GROUP BY pad ORDER BY pad LIMIT 5", "00000000x"},
				{"DEFAULT", "SELECT pad, COUNT(*) AS n FROM big GROUP BY pad ORDER BY pad DESC LIMIT 1, 5", "00015998x"},
				{"DEFAULT", "SELECT DISTINCT pad FROM big ORDER BY pad LIMIT 5", "00000000x"},
				{"DEFAULT", "SELECT id, pad FROM big ORDER BY id LIMIT 5", "0"},
				{"DEFAULT", "SELECT id, pad FROM big LIMIT 5", ""},
				{"5", "SELECT id, pad FROM big ORDER BY id", "0"},
				{"5", "SELECT id, pad FROM big", ""},
			} {
				c.ok("SET sql_select_limit = " + q.limit)
				if inside {
					c.ok("BEGIN", update(w.at[0][0], 1))
				}
				for _, r := range relays {
					r.Reset()
				}
				got := c.ok(q.text)
				if len(got) != 5 || !strings.HasPrefix(got[0][0], q.first) {
					t.Errorf("%s (inside %t): %d rows, %.20q", q.text, inside, len(got), got)
				}
				sent := int64(0)
				for _, r := range relays {
					sent += r.Traffic().ToClient.Bytes
				}
				bound := int64(most)
				if inside {
					bound = int64(len(relays) * mostOfLeg)
				}
				if sent > bound {
					t.Errorf("%s (inside %t): the nodes sent %d bytes, want at most %d", q.text, inside, sent, bound)
				}
				if !inside {
					continue
				}
				if !c.inTransaction() {
					t.Errorf("%s: the transaction ended", q.text)
				}
				if v := c.one(fmt.Sprintf("SELECT v FROM acc WHERE id=%d", w.at[0][0])); v != "1" {
					t.Errorf("%s: the transaction's own change is %s", q.text, v)
				}
				c.ok(update(w.at[1][0], -1), "COMMIT", update(w.at[0][0], -1), update(w.at[1][0], 1))
			}
		}
	})
}
