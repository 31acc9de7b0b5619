package transaction

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"braid/conf"
	"braid/tests/e2e"
	"braid/tests/servers"
	"braid/tests/wire"
)

// paged is a table that has indexes of many types and values that repeat.
var paged = conf.Table{Name: "pg", Kind: "sharded", Key: []string{"id"}}

// pagedWorld is a world with that table of rows rows; each has pad bytes more.
func pagedWorld(t *testing.T, rows, pad int, f func(t *testing.T, w *world, c *client)) {
	eachWith(t, func(c *conf.Config) {
		own := paged
		own.Function = "hash"
		c.Databases[0].Tables = append(c.Databases[0].Tables, own)
	}, func(t *testing.T, w *world) {
		c := w.client(t)
		c.makePaged(rows, pad)
		f(t, w, c)
	})
}

func (c *client) makePaged(rows, pad int) {
	c.t.Helper()
	c.ok(`CREATE TABLE pg(id INT PRIMARY KEY, k INT, u BIGINT UNSIGNED NOT NULL, s VARCHAR(20) COLLATE utf8mb4_general_ci, l VARCHAR(200) COLLATE utf8mb4_unicode_ci,
		vb VARBINARY(20), d DATETIME(3), ts TIMESTAMP(2) NULL, f FLOAT, dd DOUBLE, n DECIMAL(10,2), m ENUM('b','a','c'), pad VARCHAR(2000) CHARACTER SET latin1 NOT NULL,
		KEY(k, u), KEY(s), KEY(l), KEY(vb), KEY(d), KEY(ts), KEY(f), KEY(dd), KEY(n), KEY(m)) DEFAULT CHARSET utf8mb4`)
	for at := 0; at < rows; at += 500 {
		var values []string
		for id := at; id < min(at+500, rows); id++ {
			k, s := fmt.Sprint(id*7%11), fmt.Sprintf("'%c%d'", "aAéeZ"[id%5:][0], id*31%97)
			if id%5 == 2 || id%5 == 3 {
				s = fmt.Sprintf("'é%d'", id*31%97)
			}
			if id%11 == 4 {
				k, s = "NULL", "NULL"
			}
			values = append(values, fmt.Sprintf("(%d,%s,%d,%s,%s,'%c%d',%s,%s,%d.1,%d.25,%d.5,%d,REPEAT('x',%d))", id, k, uint64(1)<<63+uint64(id%13), s, s, 'a'+id%3, id*17%400,
				fmt.Sprintf("'2024-03-31 0%d:%02d:00.%03d'", id%5, id%60, id%1000), fmt.Sprintf("'2024-01-%02d 12:00:%02d.5'", 1+id%28, id%60), id%37, -id%41, id%43, 1+id%3, pad))
		}
		c.ok("INSERT INTO pg VALUES " + strings.Join(values, ","))
	}
}

// T18: where two shards share a leg, a long sorted answer is read in pages. It has
// each row once, in order, whatever the types and however many are equal; with the
// columns it has outside; and the transaction's own rows.
func TestPagesAreTheWholeAnswer(t *testing.T) {
	const rows = 3000
	pagedWorld(t, rows, 0, func(t *testing.T, w *world, c *client) {
		for _, q := range []struct {
			text   string
			params []wire.Param
			keys   int // leading columns whose values are in one order
		}{
			{"SELECT id, pad FROM pg ORDER BY id", nil, 2},
			{"SELECT id, k FROM pg ORDER BY id DESC", nil, 2},
			{"SELECT * FROM pg ORDER BY id", nil, 1},
			{"SELECT k, id FROM pg ORDER BY k", nil, 1},
			{"SELECT k, u, id FROM pg ORDER BY k DESC, u DESC", nil, 2},
			{"SELECT k AS x, id FROM pg ORDER BY 1 LIMIT 1000", nil, 1},
			{"SELECT s, id FROM pg ORDER BY s", nil, 1},
			{"SELECT s, id FROM pg ORDER BY s DESC LIMIT 700", nil, 1},
			{"SELECT l, id FROM pg ORDER BY l", nil, 1},
			{"SELECT vb, id FROM pg ORDER BY vb LIMIT 300, 1400", nil, 1},
			{"SELECT d, id FROM pg ORDER BY d", nil, 1},
			{"SELECT ts, id FROM pg ORDER BY ts DESC", nil, 1},
			{"SELECT f, id FROM pg ORDER BY f", nil, 1},
			{"SELECT dd, id FROM pg ORDER BY dd DESC", nil, 1},
			{"SELECT n, id FROM pg ORDER BY n", nil, 1},
			{"SELECT m, id FROM pg ORDER BY m", nil, 1},
			{"SELECT id FROM pg ORDER BY m, id", nil, 0},
			{"SELECT id FROM pg ORDER BY k, s, id", nil, 1},
			{"SELECT u, id FROM pg WHERE k = 3 ORDER BY u", nil, 1},
			{"SELECT id FROM pg WHERE k <> 'x' ORDER BY id", nil, 1},
			{"SELECT k, COUNT(*), SUM(id), MAX(vb) FROM pg GROUP BY k ORDER BY k", nil, 3},
			{"SELECT k, u, COUNT(*) FROM pg GROUP BY k, u", nil, 3},
			{"SELECT vb, COUNT(*), AVG(n) FROM pg GROUP BY vb ORDER BY vb DESC LIMIT 10, 380", nil, 3},
			{"SELECT id, COUNT(*), MIN(d) FROM pg GROUP BY id ORDER BY id LIMIT 2000", nil, 3},
			{"SELECT DISTINCT vb FROM pg ORDER BY vb", nil, 1},
			{"SELECT DISTINCT k, u FROM pg ORDER BY k DESC, u DESC", nil, 2},
			{"SELECT id, ? FROM pg WHERE id > ? ORDER BY id LIMIT ?", []wire.Param{wire.Text("y"), wire.Int(40), wire.Int(2500)}, 2},
			{"SELECT k, id FROM pg WHERE u >= ? ORDER BY k", []wire.Param{wire.Int(1)}, 1},
		} {
			for _, limit := range []string{"DEFAULT", "600"} {
				for _, prepared := range []bool{false, true} {
					if !prepared && q.params != nil {
						continue
					}
					c.ok("SET sql_select_limit=" + limit)
					// At READ COMMITTED every text has a snapshot of its own.
					c.ok("SET TRANSACTION ISOLATION LEVEL READ COMMITTED", "BEGIN")
					whole := c.ask(q.text, prepared, q.params)
					c.ok("ROLLBACK", "BEGIN")
					inside := c.ask(q.text, prepared, q.params)
					c.ok("ROLLBACK")
					name := fmt.Sprintf("%s (prepared %t, limit %s)", q.text, prepared, limit)
					if !reflect.DeepEqual(whole.Columns, inside.Columns) {
						t.Errorf("%s: columns\n%+v\nin one text\n%+v", name, inside.Columns, whole.Columns)
					}
					cut := limit != "DEFAULT" || strings.Contains(q.text, "LIMIT")
					if err := sameOrder(whole.Rows, inside.Rows, q.keys, cut); err != "" {
						t.Errorf("%s: %s", name, err)
					}
				}
			}
		}
		c.ok("SET sql_select_limit=DEFAULT", "BEGIN", "SELECT id FROM pg ORDER BY id", "INSERT INTO pg (id,u,pad) VALUES (5009,1,'')", "DELETE FROM pg WHERE id < 4")
		w.client(t).ok("DELETE FROM pg WHERE id IN (20, 2999)")
		got := c.ok("SELECT id FROM pg ORDER BY id")
		if len(got) != rows-3 || got[0][0] != "4" || got[len(got)-1][0] != "5009" {
			t.Errorf("the transaction's own view: %d rows, %v", len(got), got[len(got)-1])
		}
		c.ok("ROLLBACK")
		// Warnings are those of one reading.
		c.ok("BEGIN", "UPDATE pg SET s='5x' WHERE id=77")
		c.ok("SELECT id FROM pg WHERE id >= '0' AND k < 100 AND s <> 5 ORDER BY id")
		inside := c.one("SELECT @@warning_count")
		c.ok("COMMIT", "SET TRANSACTION ISOLATION LEVEL READ COMMITTED", "BEGIN")
		c.ok("SELECT id FROM pg WHERE id >= '0' AND k < 100 AND s <> 5 ORDER BY id")
		if outside := c.one("SELECT @@warning_count"); inside != outside || inside == "0" {
			t.Errorf("%s warnings in pages, %s otherwise", inside, outside)
		}
		c.ok("COMMIT")
	})
}

// T18: the shard that has a node for itself gives the same columns as those that
// are read in pages.
func TestPagesBesideAShardAlone(t *testing.T) {
	for _, flavour := range []servers.Flavour{servers.MariaDB, servers.MySQL} {
		t.Run(string(flavour), func(t *testing.T) {
			c := connect(t, lab.StartBraid(t, e2e.Topology{Flavour: flavour, Nodes: 2, Shards: 3, Tables: []conf.Table{paged}}))
			const rows = 1500
			c.makePaged(rows, 0)
			for _, text := range []string{
				"SELECT k, id FROM pg ORDER BY k DESC", "SELECT id, s FROM pg ORDER BY id LIMIT 1200", "SELECT m, id FROM pg ORDER BY m",
				"SELECT k, COUNT(*) FROM pg GROUP BY k ORDER BY k", "SELECT id, COUNT(*) FROM pg GROUP BY id ORDER BY id", "SELECT DISTINCT k, u FROM pg ORDER BY k, u",
			} {
				for _, prepared := range []bool{false, true} {
					outside := c.ask(text, prepared, nil)
					c.ok("BEGIN")
					inside := c.ask(text, prepared, nil)
					c.ok("COMMIT")
					if err := sameOrder(outside.Rows, inside.Rows, 1, strings.Contains(text, "LIMIT")); err != "" {
						t.Errorf("%s (prepared %t): %s", text, prepared, err)
					}
				}
			}
			c.ok("BEGIN")
			if code := c.code("SELECT id FROM pg ORDER BY id LIMIT 1000 INTO @a"); code != 1172 {
				t.Errorf("more rows than INTO takes: error %d, want 1172", code)
			}
			c.ok("COMMIT")
		})
	}
}

// ask runs a query, which must go well, as text or prepared.
func (c *client) ask(text string, prepared bool, params []wire.Param) *wire.Result {
	c.t.Helper()
	var r []wire.Result
	var err error
	if prepared {
		var st *wire.Statement
		if st, err = c.Prepare(text); err == nil {
			r, err = st.Execute(params...)
		}
	} else {
		r, err = c.Query(text)
	}
	if err == nil && r[0].Err != nil {
		err = r[0].Err
	}
	if err != nil {
		c.t.Fatalf("%s (prepared %t): %v", text, prepared, err)
	}
	return &r[0]
}

// sameOrder compares two answers whose order is fixed by their first keys columns
// only; cut says that a LIMIT may have chosen among equal ones. "" says that they
// are the same.
func sameOrder(want, got [][][]byte, keys int, cut bool) string {
	if len(want) != len(got) {
		return fmt.Sprintf("%d rows, want %d", len(got), len(want))
	}
	all := func(rows [][][]byte) (lines []string) {
		for _, r := range rows {
			lines = append(lines, fmt.Sprintf("%q", r))
		}
		slices.Sort(lines)
		return lines
	}
	for i := range want {
		for k := range keys {
			if !strings.EqualFold(fold(want[i][k]), fold(got[i][k])) || (want[i][k] == nil) != (got[i][k] == nil) {
				return fmt.Sprintf("row %d is %q, want %q", i, got[i], want[i])
			}
		}
	}
	if !cut && !slices.Equal(all(want), all(got)) {
		return "not the same rows"
	}
	return ""
}

// fold makes texts one that the table's collations do not tell apart.
func fold(b []byte) string { return strings.ReplaceAll(string(b), "é", "e") }

// Issue 9: with an index on the sort columns the first row comes independent of
// the result's size, also in a transaction in which two shards share a node: when it
// is there, the nodes have read no more than the first page of each shard. Without
// an index they have to read all.
func TestFirstRowDoesNotWaitForTheLast(t *testing.T) {
	const (
		some  = 4000
		times = 3 // the rows are doubled: where a table is small, an optimizer rather sorts it than uses an index
		rows  = some << times
	)
	// What is sent ahead of the client is less than a page of such rows.
	wide := "pad"
	for i := range 40 {
		wide += fmt.Sprintf(", pad AS p%d", i)
	}
	pagedWorld(t, some, 1000, func(t *testing.T, w *world, c *client) {
		for i, place := range w.braid.Shards() {
			var texts []string
			for n := range times {
				texts = append(texts, fmt.Sprintf("INSERT INTO %s.pg SELECT id + %d, k, u + %[2]d, s, l, vb, d, ts, f, dd, n, m, pad FROM %[1]s.pg", place.Schema, some<<n))
			}
			for _, text := range append(texts, "ANALYZE TABLE "+place.Schema+".pg") {
				if _, err := w.node[i%2].ExecContext(t.Context(), text); err != nil {
					t.Fatalf("%s: %v", text, err)
				}
			}
		}
		read := func(f func()) (n int64) {
			var before []e2e.Counters
			for _, s := range w.braid.Nodes {
				before = append(before, e2e.Count(t, s))
			}
			f()
			for i := range before {
				for _, name := range []string{"Handler_read_next", "Handler_read_prev", "Handler_read_rnd_next"} {
					n += before[i].Since(t, name)
				}
			}
			return n
		}
		for _, q := range []struct {
			text string
			soon bool
		}{
			{"SELECT id, wide FROM pg ORDER BY id", true},
			{"SELECT id, wide FROM pg ORDER BY id DESC", true},
			{"SELECT k, u, wide FROM pg ORDER BY k, u", true},
			{"SELECT s, wide FROM pg ORDER BY s", true},
			{"SELECT u, wide FROM pg WHERE k = 5 ORDER BY u", true},
			{"SELECT id, COUNT(*), wide FROM pg GROUP BY id ORDER BY id", true},
			{"SELECT n, k FROM pg ORDER BY n, k", false},
		} {
			c := w.client(t)
			c.ok("BEGIN", "SELECT COUNT(*) FROM acc")
			counting := read(func() {}) // what asking for the counters counts
			n := read(func() {
				if _, err := c.QueryFirst(strings.Replace(q.text, "wide", wide, 1)); err != nil {
					t.Fatalf("%s: %v", q.text, err)
				}
			}) - counting
			c.Abort()
			// Each row of a page the node reads by the index, and up to three times
			// where it sorts.
			if bound := int64(rows / 8); q.soon && n > bound || !q.soon && n < rows {
				t.Errorf("%s: the nodes had read %d rows when the first one came; a page of each shard is less than %d, all are at least %d", q.text, n, bound, rows)
			}
		}
	})
}
