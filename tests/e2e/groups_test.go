package e2e

import (
	"fmt"
	"strings"
	"testing"

	"braid/conf"
	"braid/tests/servers"
)

// Expressions over aggregates move groups between nodes, not rows. What cannot
// be worked out over groups moves rows: so the count counts.
func TestGroupsCrossInsteadOfRows(t *testing.T) {
	// few is far above what groups need and far below the rows: Braid's own looks at
	// its nodes, and those of the counting, are rows sent too.
	const rows, groups, shards, few = 100_000, 10, 4, 500
	eachFlavour(t, func(t *testing.T, flavour servers.Flavour) {
		b := lab.StartBraid(t, Topology{Flavour: flavour, Nodes: 2, Shards: shards, Tables: []conf.Table{
			{Name: "t", Kind: "sharded", Key: []string{"k"}},
		}})
		db := b.Open(t)
		run := func(text string) {
			t.Helper()
			if _, err := db.ExecContext(t.Context(), text); err != nil {
				t.Fatalf("%.80s: %v", text, err)
			}
		}
		run("CREATE TABLE t(k INT PRIMARY KEY, a INT, b DECIMAL(10,2), s VARCHAR(10))")
		for k := 0; k < rows; {
			var values []string
			for range 10_000 {
				values = append(values, fmt.Sprintf("(%d,%d,%d.25,'s%d')", k, k%groups, k%1000, k%7))
				k++
			}
			run("INSERT INTO t VALUES " + strings.Join(values, ","))
		}
		for _, c := range []struct {
			query string
			sent  int64 // rows that nodes may send at most, for all that the query needs
			least int64
		}{
			{"SELECT a, SUM(b)/COUNT(*) FROM t GROUP BY a HAVING COUNT(*) > 1 ORDER BY SUM(b)*2, a", few, shards * groups},
			{"SELECT SUM(b)/COUNT(*), CONCAT(MAX(s), '!') FROM t", few, shards},
			{"SELECT a FROM t GROUP BY a HAVING MAX(s) = 's6' AND MIN(b) < 5 ORDER BY a LIMIT 3", few, shards * groups},
			{"SELECT a, STDDEV(b) + 1 FROM t GROUP BY a ORDER BY a", 2 * rows, rows},
		} {
			var before []Counters
			for _, s := range b.nodes() {
				before = append(before, Count(t, s))
			}
			got, err := db.QueryContext(t.Context(), c.query)
			if err != nil {
				t.Fatalf("%s: %v", c.query, err)
			}
			for got.Next() {
			}
			if err := got.Err(); err != nil {
				t.Fatalf("%s: %v", c.query, err)
			}
			var sent int64
			for i := range before {
				sent += before[i].Since(t, "Rows_sent")
			}
			t.Logf("%s: %d rows sent by the nodes", c.query, sent)
			if sent > c.sent || sent < c.least {
				t.Errorf("%s: the nodes sent %d rows, want %d to %d", c.query, sent, c.least, c.sent)
			}
		}
	})
}
