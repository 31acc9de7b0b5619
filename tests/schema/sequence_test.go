package schema

import (
	"database/sql"
	"fmt"
	"strings"
	"sync"
	"testing"

	"braid/conf"
	"braid/proxy"
	"braid/tests/e2e"
	"braid/tests/servers"

	"go.uber.org/zap"
)

// sameWrites runs writes on Braid and on one plain server, and compares affected
// rows, insert ids, LAST_INSERT_ID() and, behind each, the table's rows.
func sameWrites(t *testing.T, db, plain *sql.DB, table string, texts ...string) {
	t.Helper()
	state := func(db *sql.DB, text string) string {
		conn, err := db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		said := ""
		if r, err := conn.ExecContext(t.Context(), text); err != nil {
			said = err.Error()
		} else {
			affected, _ := r.RowsAffected()
			id, _ := r.LastInsertId()
			said = fmt.Sprintf("affected %d, id %d", affected, id)
		}
		var last string
		if err := conn.QueryRowContext(t.Context(), "SELECT LAST_INSERT_ID()").Scan(&last); err != nil {
			t.Fatal(err)
		}
		rows, err := conn.QueryContext(t.Context(), "SELECT * FROM "+table+" ORDER BY 1, 2")
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		columns, _ := rows.Columns()
		var b strings.Builder
		for rows.Next() {
			values, into := make([]sql.NullString, len(columns)), make([]any, len(columns))
			for i := range values {
				into[i] = &values[i]
			}
			if err := rows.Scan(into...); err != nil {
				t.Fatal(err)
			}
			for _, v := range values {
				fmt.Fprintf(&b, "%s ", v.String)
			}
			b.WriteString("| ")
		}
		if rows.Err() != nil {
			t.Fatal(rows.Err())
		}
		return said + ", last " + last + "\n\t" + b.String()
	}
	for _, text := range texts {
		if got, want := state(db, text), state(plain, text); got != want {
			t.Errorf("%s\n  braid: %s\n  plain: %s", text, got, want)
			return
		}
	}
}

// pooled makes a pool of one connection, so that statements follow each other on it.
func pooled(db *sql.DB) *sql.DB {
	db.SetMaxOpenConns(1)
	return db
}

func TestSequence(t *testing.T) {
	tables := []conf.Table{
		{Name: "gk", Kind: "sharded", Key: []string{"id"}},
		{Name: "w", Kind: "sharded", Key: []string{"u"}},
		{Name: "gl", Kind: "global"},
	}
	flavours(t, tables, func(t *testing.T, b *e2e.Braid) {
		db := pooled(b.Open(t))
		server := lab.Server(t, b.Flavour(), "plain")
		e2e.Recreate(t, server, "shop")
		plain := pooled(e2e.Open(t, server, "shop"))
		both := func(text string) { t.Helper(); exec(t, db, text); exec(t, plain, text) }
		both("CREATE TABLE gk(id BIGINT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(20))")
		both("CREATE TABLE w(u INT, id INT AUTO_INCREMENT, n INT, PRIMARY KEY(u, id), UNIQUE KEY nn (n, u), KEY(id))")
		both("CREATE TABLE gl(id INT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(20), at DATETIME(6) DEFAULT CURRENT_TIMESTAMP(6)) AUTO_INCREMENT=40")
		sameWrites(t, db, plain, "gk",
			"INSERT INTO gk(name) VALUES ('r1'),('r2'),('r3'),('r4')",
			"INSERT INTO gk(id,name) VALUES (0,'d'),(NULL,'e'),(500,'f'),(NULL,'g')",
			"INSERT INTO gk(name) VALUES ('h')",
			"INSERT INTO gk VALUES (NULL,'i'),(DEFAULT,'j'),('0','k')",
			"INSERT INTO gk SET name='l'",
			"INSERT INTO gk() VALUES (),()",
			"INSERT INTO gk VALUES ()",
			"INSERT INTO gk VALUES (777,'own')",
			"INSERT INTO gk(name) VALUES ('after own')",
			"INSERT INTO gk VALUES (20,'below'),(-5,'negative')",
			"INSERT INTO gk(name) VALUES ('after below')",
			"REPLACE INTO gk(id,name) VALUES (1,'again'),(NULL,'new')",
			"INSERT INTO gk VALUES (3,'x') ON DUPLICATE KEY UPDATE name='updated'",
			"INSERT INTO gk VALUES (3,'x') ON DUPLICATE KEY UPDATE id=LAST_INSERT_ID(id), name='told'",
			"INSERT IGNORE INTO gk VALUES (3,'ignored')",
			// Here one server skips ids that it had set aside.
			"INSERT INTO gk VALUES (900,'onward')",
			"SET SESSION sql_mode='NO_AUTO_VALUE_ON_ZERO,STRICT_TRANS_TABLES'",
			"INSERT INTO gk VALUES (0,'zero')",
			"INSERT INTO gk VALUES (NULL,'not zero')",
			"UPDATE gk SET name='u' WHERE id=0",
			"TRUNCATE TABLE gk",
			"INSERT INTO gk(name) VALUES ('one again')",
			"ALTER TABLE gk AUTO_INCREMENT=100",
			"INSERT INTO gk(name) VALUES ('hundred'),('and one')",
		)
		sameWrites(t, db, plain, "w",
			"INSERT INTO w(u,n) VALUES (1,1),(2,1),(3,1),(4,1)",
			"INSERT INTO w(u,n) VALUES (5,1)",
			"INSERT IGNORE INTO w(u,n) VALUES (1,1)",
			"REPLACE INTO w(u,n) VALUES (1,1),(88,5)",
		)
		sameWrites(t, db, plain, "(SELECT id, name FROM gl) x",
			"INSERT INTO gl(name) VALUES ('a')",
			"INSERT INTO gl(name) VALUES ('b'),('c')",
			"INSERT INTO gl(id, name) VALUES (60,'d'),(NULL,'e')",
		)
		// What stayed out must not show as the first id of the statement.
		exec(t, db, "INSERT IGNORE INTO w(u,n) VALUES (2,1),(6,1),(7,1)")
		if got, want := one(t, db, "SELECT LAST_INSERT_ID()"), one(t, db, "SELECT MIN(id) FROM w WHERE u IN (6,7)"); got != want {
			t.Errorf("LAST_INSERT_ID() %s, want %s", got, want)
		}
		exec(t, db, "INSERT IGNORE INTO w(u,n) SELECT u+1, 1 FROM w")
		if got, want := one(t, db, "SELECT LAST_INSERT_ID()"), one(t, db, "SELECT MIN(id) FROM w WHERE u IN (8,89)"); got != want {
			t.Errorf("INSERT IGNORE ... SELECT: LAST_INSERT_ID() %s, want %s", got, want)
		}
		var copies []string
		for _, place := range b.Shards() {
			copies = append(copies, one(t, e2e.Open(t, place.Node, place.Schema), "SELECT GROUP_CONCAT(id, name, at ORDER BY id) FROM gl"))
		}
		for i, c := range copies {
			if c != copies[0] {
				t.Errorf("shard %d has another copy of the global table: %s\nnot %s", i, c, copies[0])
			}
		}
		refused(t, db, 1235, "AUTO_INCREMENT", "ALTER TABLE w ADD COLUMN x INT, MODIFY id INT, MODIFY n INT AUTO_INCREMENT")
	})
}

// TestSequencePrepared runs the same text with other values: the node must see
// one text whatever ids it gets.
func TestSequencePrepared(t *testing.T) {
	flavours(t, []conf.Table{{Name: "gk", Kind: "sharded", Key: []string{"id"}}}, func(t *testing.T, b *e2e.Braid) {
		db := pooled(b.Open(t))
		exec(t, db, "CREATE TABLE gk(id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, name VARCHAR(20))")
		for _, text := range []string{"INSERT INTO gk(name) VALUES (?),(?)", "INSERT INTO gk(id, name) VALUES (NULL,?),(0,?)"} {
			st, err := db.PrepareContext(t.Context(), text)
			if err != nil {
				t.Fatal(err)
			}
			for range 20 {
				r, err := st.ExecContext(t.Context(), "a", "b")
				if err != nil {
					t.Fatal(err)
				}
				id, _ := r.LastInsertId()
				if got := one(t, db, fmt.Sprintf("SELECT GROUP_CONCAT(name ORDER BY id) FROM gk WHERE id = %d", id)) + one(t, db, fmt.Sprintf("SELECT name FROM gk WHERE id = %d", id+1)); got != "ab" {
					t.Fatalf("rows %d and the next are %q", id, got)
				}
			}
			st.Close()
		}
	})
}

// secondBraid starts another Braid over the nodes of b.
func secondBraid(t *testing.T, b *e2e.Braid) *sql.DB {
	t.Helper()
	config := *b.Config
	second, err := proxy.New(&config, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(run(t, second))
	c := b.DriverConfig()
	c.Addr = second.Addr().String()
	db, err := sql.Open("mysql", c.FormatDSN())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// TestTakenIDs lets clients of one Braid name ids that another one has in its
// block (rule W1): its INSERTs take others, and none of the rows that are there
// is replaced, changed, or kept in the place of a new one.
func TestTakenIDs(t *testing.T) {
	tables := []conf.Table{{Name: "gk", Kind: "sharded", Key: []string{"id"}}, {Name: "w", Kind: "sharded", Key: []string{"u"}}}
	flavours(t, tables, func(t *testing.T, b *e2e.Braid) {
		db := pooled(b.Open(t))
		exec(t, db, "CREATE TABLE gk(id BIGINT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(20))")
		exec(t, db, "CREATE TABLE w(u INT PRIMARY KEY)")
		other := secondBraid(t, b)
		rows := 0
		next := func() int64 {
			t.Helper()
			r, err := db.ExecContext(t.Context(), "INSERT INTO gk(name) VALUES ('new')")
			if err != nil {
				t.Fatal(err)
			}
			rows++
			id, _ := r.LastInsertId()
			return id + 1
		}
		for n, form := range []struct {
			text  string
			rows  int
			begin bool
			args  []any
		}{
			{text: "INSERT INTO gk(name) VALUES ('new')", rows: 1},
			{text: "INSERT INTO gk(name) VALUES ('new'),('new'),('new')", rows: 3},
			{text: "INSERT INTO gk(name) VALUES (?),(?)", rows: 2, args: []any{"new", "new"}},
			{text: "INSERT INTO gk SET name='new'", rows: 1, begin: true},
			{text: "INSERT INTO gk(name) VALUES ('new'),('new'),('new'),('new')", rows: 4, begin: true},
			{text: "INSERT INTO gk(name) SELECT 'new' FROM w WHERE u < 3", rows: 2},
			{text: "REPLACE INTO gk(name) VALUES ('new')", rows: 1},
			{text: "REPLACE INTO gk(name) VALUES ('new'),('new'),('new')", rows: 3, begin: true},
			{text: "INSERT IGNORE INTO gk(name) VALUES ('new'),('new'),('new')", rows: 3},
			{text: "INSERT IGNORE INTO gk(name) VALUES ('new')", rows: 1},
			{text: "INSERT INTO gk(name) VALUES ('new') ON DUPLICATE KEY UPDATE name='changed'", rows: 1},
			{text: "INSERT INTO gk(id,name) VALUES (NULL,'new'),(0,'new') ON DUPLICATE KEY UPDATE name='changed'", rows: 2, begin: true},
		} {
			exec(t, db, fmt.Sprintf("INSERT INTO w VALUES (%d)", n+1))
			id := next()
			for _, taken := range []int64{id, id + 2} {
				exec(t, other, fmt.Sprintf("INSERT INTO gk VALUES (%d,'own')", taken))
				rows++
			}
			if form.begin {
				exec(t, db, "BEGIN")
				exec(t, db, fmt.Sprintf("INSERT INTO w VALUES (%d)", 100+n))
			}
			r, err := db.ExecContext(t.Context(), form.text, form.args...)
			if err != nil {
				t.Fatalf("%s: %v", form.text, err)
			}
			if form.begin {
				exec(t, db, "COMMIT")
				if got := one(t, db, fmt.Sprintf("SELECT COUNT(*) FROM w WHERE u=%d", 100+n)); got != "1" {
					t.Errorf("%s: what the transaction did before is gone", form.text)
				}
			}
			rows += form.rows
			first, _ := r.LastInsertId()
			if affected, _ := r.RowsAffected(); affected != int64(form.rows) {
				t.Errorf("%s: %d rows affected, want %d", form.text, affected, form.rows)
			}
			ids := fmt.Sprintf("id BETWEEN %d AND %d", first, first+int64(form.rows)-1)
			if got := one(t, db, "SELECT COUNT(*) FROM gk WHERE name='new' AND "+ids); got != fmt.Sprint(form.rows) {
				t.Errorf("%s: %s new rows with %s, want %d", form.text, got, ids, form.rows)
			}
			if got := one(t, db, "SELECT COUNT(*) FROM gk WHERE name='own'"); got != fmt.Sprint(2*(n+1)) {
				t.Errorf("%s: %s of the rows with ids of their own are left, want %d", form.text, got, 2*(n+1))
			}
			if got := one(t, db, "SELECT COUNT(*) FROM gk"); got != fmt.Sprint(rows) {
				t.Errorf("%s: %s rows, want %d", form.text, got, rows)
			}
		}
		exec(t, db, "LOCK TABLES gk WRITE")
		exec(t, db, "REPLACE INTO gk(name) VALUES ('new')")
		exec(t, db, "UNLOCK TABLES")
		rows++
		// What a client names itself stays its own error, also beside ids that were given.
		id := next()
		exec(t, other, fmt.Sprintf("INSERT INTO gk VALUES (%d,'own')", id))
		duplicate := fmt.Sprintf("Duplicate entry '%d'", id)
		refused(t, db, 1062, duplicate, fmt.Sprintf("INSERT INTO gk VALUES (%d,'again')", id))
		refused(t, db, 1062, duplicate, fmt.Sprintf("INSERT INTO gk VALUES (NULL,'x'),(%d,'again')", id))
		refused(t, db, 1062, duplicate, fmt.Sprintf("INSERT INTO gk VALUES (%d,'again'),(NULL,'x')", id))
		if got := one(t, db, "SELECT COUNT(*) FROM gk"); got != fmt.Sprint(rows+1) {
			t.Errorf("%s rows, want %d", got, rows+1)
		}
	})
}

// TestSequenceOfTwoBraids lets two Braids insert at once, one of them being
// stopped and started again: no id is given twice.
func TestSequenceOfTwoBraids(t *testing.T) {
	for _, kind := range []string{"block", "snowflake"} {
		t.Run(kind, func(t *testing.T) {
			top := e2e.Topology{Flavour: servers.MariaDB, Nodes: 2, Shards: 4, Tables: []conf.Table{{Name: "w", Kind: "sharded", Key: []string{"u"}, Sequence: kind}}}
			one1 := lab.StartBraid(t, top)
			exec(t, one1.Open(t), "CREATE TABLE w(u INT, id BIGINT AUTO_INCREMENT, PRIMARY KEY(u, id), KEY(id))")
			db2 := secondBraid(t, one1)
			const clients, rounds, rows = 8, 25, 3
			var wg sync.WaitGroup
			for c := range 2 * clients {
				db := one1.Open(t)
				if c%2 == 1 {
					db = db2
				}
				wg.Add(1)
				go func() {
					defer wg.Done()
					for r := range rounds {
						u := c*1000 + r
						res, err := db.ExecContext(t.Context(), fmt.Sprintf("INSERT INTO w(u) VALUES (%d),(%d),(%d)", u, u+100, u+200))
						if err != nil {
							t.Error(err)
							return
						}
						first, _ := res.LastInsertId()
						for k := range rows {
							var got int
							if err := db.QueryRowContext(t.Context(), fmt.Sprintf("SELECT COUNT(*) FROM w WHERE u=%d AND id=%d", u+100*k, first+int64(k))).Scan(&got); err != nil || got != 1 {
								t.Errorf("row %d of u=%d has not id %d: %v", k, u, first+int64(k), err)
								return
							}
						}
					}
				}()
			}
			wg.Wait()
			one1.Restart(t)
			db := one1.Open(t)
			for i := range 50 {
				exec(t, db, fmt.Sprintf("INSERT INTO w(u) VALUES (%d)", 90000+i))
			}
			want := fmt.Sprint(2*clients*rounds*rows + 50)
			if n, ids := one(t, db, "SELECT COUNT(*) FROM w"), one(t, db, "SELECT COUNT(DISTINCT id) FROM w"); n != want || ids != want {
				t.Errorf("%s rows with %s ids, want %s", n, ids, want)
			}
		})
	}
}

// A look for ids that are taken (rule W1) leaves nothing behind on the
// connection that it was made on: a transaction that gets the connection next
// reads what is committed by then.
func TestTakenLeavesNoSnapshot(t *testing.T) {
	for _, f := range []servers.Flavour{servers.MariaDB, servers.MySQL} {
		t.Run(string(f), func(t *testing.T) {
			b := lab.StartBraid(t, e2e.Topology{Flavour: f, Nodes: 1, Shards: 2, Tables: []conf.Table{{Name: "w", Kind: "sharded", Key: []string{"u"}}}})
			db := b.Open(t)
			exec(t, db, "CREATE TABLE w(u INT, id INT AUTO_INCREMENT, n INT, PRIMARY KEY(u, id), KEY(id))")
			exec(t, db, "INSERT INTO w(u,n) VALUES (1,1),(2,1),(3,1),(4,1),(5,1),(6,1),(7,1),(8,1)")
			read := func(tx *sql.Tx, u int) (n int) {
				t.Helper()
				if err := tx.QueryRowContext(t.Context(), "SELECT n FROM w WHERE u = ?", u).Scan(&n); err != nil {
					t.Fatal(err)
				}
				return n
			}
			// Each of these leaves a connection that was a transaction's.
			var open []*sql.Tx
			for u := 1; u <= 8; u++ {
				tx, err := db.BeginTx(t.Context(), nil)
				if err != nil {
					t.Fatal(err)
				}
				read(tx, u)
				open = append(open, tx)
			}
			for _, tx := range open {
				if err := tx.Commit(); err != nil {
					t.Fatal(err)
				}
			}
			exec(t, db, "REPLACE INTO w(u,n) VALUES (11,1),(12,1),(13,1),(14,1),(15,1),(16,1),(17,1),(18,1)")
			for _, p := range b.Shards() {
				exec(t, e2e.Open(t, p.Node, p.Schema), "UPDATE w SET n = 2")
			}
			open = nil
			for u := 1; u <= 8; u++ {
				tx, err := db.BeginTx(t.Context(), nil)
				if err != nil {
					t.Fatal(err)
				}
				if n := read(tx, u); n != 2 {
					t.Errorf("u = %d in a new transaction: n = %d, which was changed to 2 before", u, n)
				}
				open = append(open, tx)
			}
			for _, tx := range open {
				if err := tx.Rollback(); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}
