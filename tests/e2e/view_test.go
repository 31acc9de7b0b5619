package e2e

import (
	"errors"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"braid/conf"
	"braid/tests/servers"
)

// A view that was made on the nodes has on each shard that shard's rows: what
// it is taken for follows from the tables it reads, or from the configuration.
func TestViewsMadeOnTheNodes(t *testing.T) {
	for _, flavour := range []servers.Flavour{servers.MariaDB, servers.MySQL} {
		t.Run(string(flavour), func(t *testing.T) {
			b := lab.StartBraid(t, Topology{Flavour: flavour, Nodes: 2, Shards: 4, Tables: []conf.Table{
				{Name: "t", Kind: "sharded", Key: []string{"k"}},
				{Name: "listed", Kind: "sharded", Key: []string{"k"}, Colocated: "t"},
				{Name: "g", Kind: "global"},
			}})
			db := b.Open(t)
			for _, text := range []string{"CREATE TABLE t(k INT PRIMARY KEY, v INT)", "CREATE TABLE g(k INT PRIMARY KEY)",
				"INSERT INTO t VALUES (1,1),(2,2),(3,3),(4,4),(5,5),(6,6),(7,7),(8,8)", "INSERT INTO g VALUES (1),(2)"} {
				if _, err := db.ExecContext(t.Context(), text); err != nil {
					t.Fatalf("%s: %v", text, err)
				}
			}
			for _, place := range b.Shards() {
				node := Open(t, place.Node, place.Schema)
				for _, text := range []string{"CREATE VIEW unlisted AS SELECT k, v FROM t WHERE v > 2", "CREATE VIEW listed AS SELECT k, v + 1 AS w FROM t WHERE v > 2", "CREATE VIEW of_global AS SELECT k FROM g"} {
					if _, err := node.ExecContext(t.Context(), text); err != nil {
						t.Fatal(err)
					}
				}
			}
			if err := b.Server.Refresh(t.Context()); err != nil {
				t.Fatal(err)
			}
			number := func(text string) (n int) {
				t.Helper()
				if err := db.QueryRowContext(t.Context(), text).Scan(&n); err != nil {
					t.Errorf("%s: %v", text, err)
				}
				return n
			}
			for _, c := range []struct {
				text string
				want int
			}{{"SELECT COUNT(*) FROM listed", 6}, {"SELECT w FROM listed WHERE k = 5", 6}, {"SELECT SUM(w) FROM listed WHERE k IN (3, 7, 8)", 21}, {"SELECT COUNT(*) FROM of_global", 2},
				{"SELECT COUNT(*) FROM listed JOIN t USING (k) WHERE t.v < 5", 2}} {
				if n := number(c.text); n != c.want {
					t.Errorf("%s: %d, want %d", c.text, n, c.want)
				}
			}
			var n int
			err := db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM unlisted").Scan(&n)
			var e *mysql.MySQLError
			if !errors.As(err, &e) || !strings.Contains(e.Message, "view of the sharded table t") {
				t.Errorf("a view of a sharded table that the configuration does not name: %d, %v", n, err)
			}
		})
	}
}
