package e2e

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"

	"braid/conf"
	"braid/tests/servers"
)

// readShop is Braid over four shards on two nodes with rows to read: t and its
// co-located part, of which key 7 has 6000, and a global table g.
func readShop(t *testing.T, flavour servers.Flavour) (*Braid, *sql.DB) {
	t.Helper()
	b := lab.StartBraid(t, Topology{Flavour: flavour, Nodes: 2, Shards: 4, Tables: []conf.Table{
		{Name: "t", Kind: "sharded", Key: []string{"k"}},
		{Name: "part", Kind: "sharded", Key: []string{"k"}, Colocated: "t"},
		{Name: "g", Kind: "global"},
	}})
	db := b.Open(t)
	run := func(text string) {
		t.Helper()
		if _, err := db.ExecContext(t.Context(), text); err != nil {
			t.Fatalf("%.80s: %v", text, err)
		}
	}
	run("CREATE TABLE t(k INT PRIMARY KEY, v INT)")
	run("CREATE TABLE part(k INT, n INT, PRIMARY KEY(k, n))")
	run("CREATE TABLE g(v INT PRIMARY KEY, name VARCHAR(10))")
	run("INSERT INTO g VALUES (0,'zero'),(1,'one'),(2,'two')")
	rows := make([]string, 0, 6000)
	for k := range 100 {
		rows = append(rows, fmt.Sprintf("(%d,%d)", k, k%3))
	}
	run("INSERT INTO t VALUES " + strings.Join(rows, ","))
	rows = rows[:0]
	for n := range 6000 {
		rows = append(rows, fmt.Sprintf("(7,%d)", n))
	}
	for k := range 50 {
		if k != 7 {
			rows = append(rows, fmt.Sprintf("(%d,1)", k))
		}
	}
	run("INSERT INTO part VALUES " + strings.Join(rows, ","))
	return b, db
}

func eachFlavour(t *testing.T, f func(t *testing.T, flavour servers.Flavour)) {
	for _, flavour := range []servers.Flavour{servers.MariaDB, servers.MySQL} {
		t.Run(string(flavour), func(t *testing.T) { f(t, flavour) })
	}
}

// nodes are the servers under b, each once.
func (b *Braid) nodes() []*servers.Server {
	var out []*servers.Server
	seen := map[*servers.Server]bool{}
	for _, p := range b.Shards() {
		if !seen[p.Node] {
			seen[p.Node] = true
			out = append(out, p.Node)
		}
	}
	return out
}

// grown runs f and tells by how much a counter grew over all nodes.
func (b *Braid) grown(t *testing.T, counter string, f func()) int64 {
	t.Helper()
	var before []Counters
	for _, s := range b.nodes() {
		before = append(before, Count(t, s))
	}
	f()
	sum := int64(0)
	for _, c := range before {
		sum += c.Since(t, counter)
	}
	return sum
}

// TestOneShardIsAskedWhatItCanAnswer counts the SELECTs that reach the nodes:
// what one shard can answer goes to no other.
func TestOneShardIsAskedWhatItCanAnswer(t *testing.T) {
	eachFlavour(t, func(t *testing.T, flavour servers.Flavour) {
		b, db := readShop(t, flavour)
		for _, text := range []string{
			"SELECT v FROM t WHERE k = 7",
			"SELECT v FROM t WHERE '7' = k AND v IS NOT NULL",
			"SELECT COUNT(*) FROM t WHERE k IN (7) OR k = 7.0",
			"SELECT v FROM t WHERE k = 7 AND k IN (7, 8)",
			"SELECT v FROM t WHERE k = 3 + 4",
			"SELECT COUNT(*) FROM t WHERE k BETWEEN 7 AND 7",
			"SELECT COUNT(*) FROM t WHERE k > 6 AND k < 8",
			"SELECT COUNT(*) FROM t WHERE k BETWEEN 8 AND 7",
			"SELECT v FROM t WHERE k = 7 AND k = 8",
			"SELECT v FROM t WHERE (k, v) IN ((7, 1), (7, 2))",
			"SELECT v FROM t WHERE (k, v) = (7, 1)",
			"SELECT l.n FROM t JOIN part l ON l.k = t.k WHERE t.k = 7 ORDER BY l.n LIMIT 1",
			"SELECT l.n FROM t JOIN part l USING (k) WHERE l.k = 7 LIMIT 1",
			"SELECT t.v FROM t, part l WHERE t.k = l.k AND l.k = 7 LIMIT 1",
			"SELECT g.name FROM t JOIN g ON g.v = t.v WHERE t.k = 7",
			"SELECT * FROM (SELECT k, v FROM t WHERE k = 7) d",
			"WITH c AS (SELECT k, v FROM t WHERE k = 7) SELECT * FROM c",
			"SELECT v FROM t WHERE k = 7 UNION SELECT v FROM t WHERE k = 7",
			"SELECT v FROM t WHERE k = 7 AND EXISTS (SELECT 1 FROM part WHERE part.k = t.k)",
			"SELECT v FROM t WHERE k = 7 AND k IN (SELECT k FROM part)",
			"SELECT COUNT(*), GROUP_CONCAT(n ORDER BY n) FROM part WHERE k = 8",
			"SELECT name FROM g WHERE v = 1",
			"SELECT COUNT(*) FROM g",
			"/*braid shard=s1*/ SELECT COUNT(*) FROM t",
		} {
			const times = 20
			got := b.grown(t, "Com_select", func() {
				for range times {
					rows, err := db.QueryContext(t.Context(), text)
					if err != nil {
						t.Fatalf("%s: %v", text, err)
					}
					for rows.Next() {
					}
					if err := rows.Close(); err != nil {
						t.Fatal(err)
					}
				}
			})
			// Braid's own look at its nodes may be among them, now and then.
			if got < times || got >= 2*times {
				t.Errorf("%s: %d SELECTs reached the nodes, want %d", text, got, times)
			}
		}
	})
}

// TestRowsSentByShards counts the rows that leave the shards: one shard is sent the
// LIMIT (B170).
func TestRowsSentByShards(t *testing.T) {
	eachFlavour(t, func(t *testing.T, flavour servers.Flavour) {
		b, db := readShop(t, flavour)
		for _, c := range []struct {
			text      string
			rows, max int64 // rows of the answer, and the most that shards may send
		}{
			{"SELECT n FROM part WHERE k = 7 ORDER BY n LIMIT 10 OFFSET 5000", 10, 10},
			{"SELECT n FROM part WHERE k IN (7) ORDER BY n LIMIT 5000, 10", 10, 10},
			{"SELECT n FROM part ORDER BY n, k LIMIT 10", 10, 40},
			{"SELECT n FROM part LIMIT 10", 10, 40},
			{"SELECT DISTINCT n FROM part ORDER BY n LIMIT 3", 3, 12},
			{"SELECT COUNT(*), MAX(n), AVG(n) FROM part", 1, 4},
			{"SELECT k, COUNT(*) FROM part GROUP BY k ORDER BY k", 50, 50},
			{"SELECT v, COUNT(*) FROM t GROUP BY v ORDER BY v", 3, 12},
			{"SELECT k FROM t WHERE k = 7 AND k = 8", 0, 0},
		} {
			var n int64
			got := b.grown(t, "Rows_sent", func() {
				rows, err := db.QueryContext(t.Context(), c.text)
				if err != nil {
					t.Fatalf("%s: %v", c.text, err)
				}
				defer rows.Close()
				for rows.Next() {
					n++
				}
				if err := rows.Err(); err != nil {
					t.Fatal(c.text, err)
				}
			})
			const own = 8 // rows of Braid's own look at its nodes
			if n != c.rows || got > c.max+own {
				t.Errorf("%s: %d rows, want %d; the shards sent %d, want at most %d", c.text, n, c.rows, got, c.max)
			}
		}
	})
}

func TestHints(t *testing.T) {
	eachFlavour(t, func(t *testing.T, flavour servers.Flavour) {
		b, db := readShop(t, flavour)
		conn, err := db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		number := func(text string, args ...any) int {
			t.Helper()
			var n int
			if err := conn.QueryRowContext(t.Context(), text, args...).Scan(&n); err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			return n
		}
		sum := 0
		for _, p := range b.Shards() {
			var want int
			if err := Open(t, p.Node, p.Schema).QueryRowContext(t.Context(), "SELECT COUNT(*) FROM t").Scan(&want); err != nil {
				t.Fatal(err)
			}
			got := number("/*braid shard=" + p.Shard + "*/ SELECT COUNT(*) FROM t")
			if prepared := number("SELECT COUNT(*) FROM t WHERE k >= ? /*braid shard="+p.Shard+"*/", 0); got != want || prepared != want {
				t.Errorf("shard %s: %d rows, prepared %d, want %d", p.Shard, got, prepared, want)
			}
			sum += got
		}
		if sum != 100 {
			t.Errorf("%d rows on all shards", sum)
		}
		if n := number("SELECT COUNT(*) /*braid shard = s1 nosuch=1*/ FROM t"); n != 100 {
			t.Errorf("unknown hints: %d rows", n)
		}
		var level, message string
		var code, warnings int
		rows, err := conn.QueryContext(t.Context(), "SHOW WARNINGS")
		if err != nil {
			t.Fatal(err)
		}
		for rows.Next() {
			if err := rows.Scan(&level, &code, &message); err != nil {
				t.Fatal(err)
			}
			warnings++
		}
		rows.Close()
		if warnings != 4 || !strings.Contains(message, "nosuch=1") {
			t.Errorf("%d warnings, the last %q", warnings, message)
		}
		if _, err := conn.ExecContext(t.Context(), "SELECT COUNT(*) FROM part a JOIN part b ON b.k = a.k JOIN part c ON c.k = a.k WHERE a.k = 7 AND a.n + b.n + c.n < 0 /*braid timeout=50ms*/"); err == nil {
			t.Error("the hint timeout let a long statement run")
		}
		if n := number("SELECT SLEEP(0.2) FROM t WHERE k = 7"); n != 0 {
			t.Errorf("the statement after a timeout: %d", n)
		}

		// READ COMMITTED sees what was committed since; the session's level does not.
		for _, c := range []struct {
			begin string
			sees  bool
		}{{"BEGIN", false}, {"BEGIN /*braid isolation=read-committed*/", true}} {
			if _, err := conn.ExecContext(t.Context(), c.begin); err != nil {
				t.Fatal(c.begin, err)
			}
			before := number("SELECT v FROM t WHERE k = 1")
			if _, err := db.ExecContext(t.Context(), "UPDATE t SET v = v + 100 WHERE k = 1"); err != nil {
				t.Fatal(err)
			}
			if after := number("SELECT v FROM t WHERE k = 1"); (after != before) != c.sees {
				t.Errorf("%s: %d, then %d", c.begin, before, after)
			}
			if _, err := conn.ExecContext(t.Context(), "ROLLBACK"); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestShardsOfDifferentColumns alters one shard's table behind Braid's back
// (B040): no row may come under columns that it does not fit, and the session
// goes on. Once all shards agree the new columns are answered.
func TestShardsOfDifferentColumns(t *testing.T) {
	eachFlavour(t, func(t *testing.T, flavour servers.Flavour) {
		b, db := readShop(t, flavour)
		conn, err := db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		columns := func(text string) (int, error) {
			rows, err := conn.QueryContext(t.Context(), text)
			if err != nil {
				return 0, err
			}
			defer rows.Close()
			names, err := rows.Columns()
			for rows.Next() {
			}
			if err == nil {
				err = rows.Err()
			}
			return len(names), err
		}
		texts := []string{"SELECT * FROM t ORDER BY k", "SELECT * FROM t ORDER BY v, k DESC LIMIT 5", "SELECT * FROM t"}
		for _, text := range texts {
			if n, err := columns(text); n != 2 || err != nil {
				t.Fatalf("%s: %d columns, %v", text, n, err)
			}
		}
		places := b.Shards()
		alter := func(p Place) {
			t.Helper()
			if _, err := Open(t, p.Node, p.Schema).ExecContext(t.Context(), "ALTER TABLE t ADD COLUMN more INT FIRST"); err != nil {
				t.Fatal(p.Shard, err)
			}
		}
		alter(places[1])
		for _, text := range texts {
			if n, err := columns(text); err == nil || !strings.Contains(err.Error(), "Error 1105") {
				t.Errorf("%s: %d columns, %v", text, n, err)
			}
		}
		if n, err := columns("SELECT k FROM t ORDER BY k"); n != 1 || err != nil {
			t.Errorf("the session after it: %d columns, %v", n, err)
		}
		alter(places[0])
		alter(places[2])
		alter(places[3])
		for _, text := range texts {
			_, _ = columns(text) // may be the one that finds out
			if n, err := columns(text); n != 3 || err != nil {
				t.Errorf("%s: %d columns, %v", text, n, err)
			}
		}
	})
}

// TestShardsLookUpOnlyTheirValues counts the keys that the nodes look up for an
// IN list over all shards: each shard its own, not all of the list.
func TestShardsLookUpOnlyTheirValues(t *testing.T) {
	eachFlavour(t, func(t *testing.T, flavour servers.Flavour) {
		b, db := readShop(t, flavour)
		const keys = 90
		var list, marks []string
		var values []any
		for k := range keys {
			list, marks, values = append(list, fmt.Sprint(k)), append(marks, "?"), append(values, k)
		}
		in, params := strings.Join(list, ","), strings.Join(marks, ",")
		for _, c := range []struct {
			text  string
			args  []any
			reads int64 // index look-ups for each key
		}{
			{"SELECT k FROM t WHERE k IN (" + in + ") AND v < 10", nil, 1},
			{"SELECT k FROM t WHERE k IN (" + in + ") ORDER BY k", nil, 1},
			{"SELECT k FROM t WHERE k IN (" + params + ") ORDER BY k", values, 1},
			{"UPDATE t SET v = v + 1 WHERE k IN (" + in + ")", nil, 2},
			{"UPDATE t SET v = v + 1 WHERE k IN (" + params + ")", values, 2},
			{"DELETE FROM t WHERE v > 1000 AND k IN (" + in + ")", nil, 1},
		} {
			rows := 0
			got := b.grown(t, "Handler_read_key", func() {
				if !strings.HasPrefix(c.text, "SELECT") {
					if _, err := db.ExecContext(t.Context(), c.text, c.args...); err != nil {
						t.Fatal(err)
					}
					return
				}
				answer, err := db.QueryContext(t.Context(), c.text, c.args...)
				if err != nil {
					t.Fatal(err)
				}
				defer answer.Close()
				for answer.Next() {
					rows++
				}
				if err := answer.Err(); err != nil {
					t.Fatal(err)
				}
			})
			if strings.HasPrefix(c.text, "SELECT") && rows != keys {
				t.Errorf("%.60s: %d rows, want %d", c.text, rows, keys)
			}
			// What else the nodes do meanwhile is less than a third list.
			if most := (c.reads + 1) * keys; got > most {
				t.Errorf("%.60s: %d look-ups for %d keys, at most %d wanted", c.text, got, keys, most)
			}
		}
		for k := keys; k < 20000; k++ {
			list = append(list, fmt.Sprint(k))
		}
		var n, sum int
		if err := db.QueryRowContext(t.Context(), "SELECT COUNT(*), SUM(k) FROM t WHERE k IN ("+strings.Join(list, ",")+")").Scan(&n, &sum); err != nil || n != 100 || sum != 4950 {
			t.Errorf("20,000 values: %d rows with sum %d, want 100 with 4950 (%v)", n, sum, err)
		}
	})
}
