package schema

import (
	"database/sql"
	"testing"

	"braid/tests/e2e"
)

// TestViewsOfShardedTables: a view made through Braid has all the rows, for every
// Braid, and finds those of a key on their shard.
func TestViewsOfShardedTables(t *testing.T) {
	flavours(t, nil, func(t *testing.T, b *e2e.Braid) {
		db, other := b.Open(t), b.Another(t).Open(t)
		for _, text := range []string{
			"CREATE TABLE t(a INT, b INT, PRIMARY KEY(a, b)) /*braid key=b*/",
			"CREATE TABLE u(x INT, y INT) /*braid key=x colocated=t*/",
			"CREATE TABLE g(n INT PRIMARY KEY, w VARCHAR(9)) /*braid global*/",
			"CREATE TABLE one(n INT PRIMARY KEY) /*braid shard=s1*/",
			"INSERT INTO g VALUES (60,'sixty'),(70,'seventy')",
			"INSERT INTO u SELECT n, 1 FROM g",
		} {
			exec(t, db, text)
		}
		fill(t, db, "t")
		exec(t, db, "INSERT INTO u SELECT n, 2 FROM g")
		for _, text := range []string{
			"CREATE VIEW every AS SELECT * FROM t",
			"CREATE VIEW big(low, high) AS SELECT a, b FROM t WHERE a > 20",
			"CREATE VIEW named AS SELECT t.b AS id, g.w, t.a + 1 AS c FROM t LEFT JOIN g ON g.n = t.b",
			"CREATE VIEW pairs AS SELECT u.y, t.b, t.a FROM t JOIN u ON u.x = t.b",
			"CREATE VIEW over_view AS SELECT high, low FROM big WHERE low < 35",
			"CREATE VIEW of_global AS SELECT w FROM g",
			"CREATE VIEW of_one AS SELECT n FROM one",
			"CREATE OR REPLACE VIEW big(low, high) AS SELECT a, b FROM t WHERE a > 25",
		} {
			exec(t, db, text)
		}
		check := func(who string) {
			t.Helper()
			for _, c := range [][2]string{
				{"SELECT COUNT(*) FROM every", "40"},
				{"SELECT a FROM every WHERE b = 70", "30"},
				{"SELECT COUNT(*) FROM big", "15"},
				{"SELECT SUM(low) FROM big", "495"},
				{"SELECT low FROM big WHERE high = 65", "35"},
				{"SELECT CONCAT(id, w, c) FROM named WHERE id = 60", "60sixty41"},
				{"SELECT COUNT(*) FROM named", "40"},
				{"SELECT COUNT(w) FROM named", "2"},
				{"SELECT SUM(y) FROM pairs", "6"},
				{"SELECT SUM(a) FROM pairs", "140"},
				{"SELECT SUM(low) FROM over_view", "270"},
				{"SELECT low FROM over_view WHERE high = 70", "30"},
				{"SELECT COUNT(*) FROM big JOIN t ON t.b = big.high WHERE t.a > 30", "10"},
				{"SELECT COUNT(*) FROM of_global", "2"},
				{"SELECT COUNT(*) FROM of_one", "0"},
			} {
				for name, d := range map[string]*sql.DB{"the one that made it": db, "the other Braid": other} {
					if got := one(t, d, c[0]); got != c[1] {
						t.Errorf("%s, %s: %s: %s, want %s", who, name, c[0], got, c[1])
					}
				}
			}
		}
		check("as made")
		b.Restart(t)
		db = b.Open(t)
		check("after a restart")
		exec(t, db, "UPDATE big SET low = 100 WHERE high = 65")
		if got := one(t, db, "SELECT a FROM t WHERE b = 65"); got != "100" {
			t.Errorf("a row written through the view: %s", got)
		}
		refused(t, db, 1235, "one after the other", "CREATE VIEW x AS SELECT b, COUNT(*) FROM t GROUP BY a")
		refused(t, db, 1235, "one after the other", "CREATE VIEW x AS SELECT b FROM t ORDER BY a")
		refused(t, db, 1235, "one after the other", "CREATE VIEW x AS SELECT b FROM t LIMIT 3")
		refused(t, db, 1235, "one after the other", "CREATE VIEW x AS SELECT t.b FROM t JOIN u ON u.y = t.a")
		refused(t, db, 1235, "one after the other", "CREATE VIEW x AS SELECT b FROM t UNION ALL SELECT x FROM u")
		refused(t, db, 1235, "do not show the sharding key", "CREATE VIEW x AS SELECT a FROM t")
		refused(t, db, 1235, "do not show the sharding key", "CREATE VIEW x AS SELECT b + 0 AS b FROM t")
		refused(t, db, 1235, "session itself knows", "CREATE VIEW x AS SELECT b, USER() FROM t")
		refused(t, db, 1050, "every", "CREATE VIEW every AS SELECT b FROM t")

		// The view of a table that is dropped is no view of the next one by itself.
		refused(t, db, 1235, "co-located", "DROP TABLE t")
		exec(t, db, "DROP TABLE u, t")
		exec(t, db, "CREATE TABLE t(a INT, b INT, PRIMARY KEY(a, b)) /*braid key=a*/")
		fill(t, other, "t")
		if _, err := db.ExecContext(t.Context(), "SELECT COUNT(*) FROM every"); err == nil {
			t.Error("a view of the table before can be read")
		}
		exec(t, db, "CREATE OR REPLACE VIEW every AS SELECT * FROM t")
		if got := one(t, other, "SELECT b FROM every WHERE a = 30"); got != "70" {
			t.Errorf("the view made again: %s", got)
		}
		exec(t, db, "DROP VIEW every")
		exec(t, db, "DROP VIEW of_one")
		refused(t, other, 1146, "every", "DELETE FROM every")
	})
}
