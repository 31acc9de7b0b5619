package admin

import (
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"braid/tests/e2e"
)

// list reads an answer of the admin port as lines of fields joined by " | ".
func list(t *testing.T, db *sql.DB, text string) string {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for rows.Next() {
		values, to := make([]string, len(names)), make([]any, len(names))
		for i := range values {
			to[i] = &values[i]
		}
		if err := rows.Scan(to...); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, strings.Join(values, " | "))
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return strings.Join(lines, "\n")
}

func do(t *testing.T, db *sql.DB, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if _, err := db.ExecContext(t.Context(), text); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
}

// fails runs a statement that must fail with an error of that number, and returns its text.
func fails(t *testing.T, db *sql.DB, number uint16, text string) string {
	t.Helper()
	_, err := db.ExecContext(t.Context(), text)
	var e *mysql.MySQLError
	if !errors.As(err, &e) || e.Number != number {
		t.Fatalf("%s: %v, want error %d", text, err, number)
	}
	return e.Message
}

// TestSchemaChangeThatFailsOnSomeShards: what can be taken back is, and the
// client gets one server's error; the rest is listed, and can be finished.
func TestSchemaChangeThatFailsOnSomeShards(t *testing.T) {
	for _, flavour := range flavours {
		t.Run(string(flavour), func(t *testing.T) {
			b := start(t, flavour, nil)
			db, ops := b.Open(t), open(t, b, operator, operatorPassword)
			nodes := map[string]*sql.DB{}
			for _, p := range b.Shards() {
				nodes[p.Shard] = e2e.Open(t, p.Node, p.Schema)
			}
			do(t, db, "CREATE TABLE t(k INT PRIMARY KEY, v INT, w VARCHAR(10))", "INSERT INTO t VALUES (1,1,'a'),(2,2,'b'),(3,3,'c'),(4,4,'d'),(5,5,'e'),(6,6,'f'),(7,7,'g'),(8,8,'h')")
			alike := func() {
				t.Helper()
				if text := list(t, ops, "SHOW DDL"); text != "" {
					t.Errorf("SHOW DDL: %s", text)
				}
				if text := list(t, ops, "SHOW DRIFT"); text != "" {
					t.Errorf("SHOW DRIFT: %s", text)
				}
			}
			alike()

			// Taken back at once. What is in the way is on the last shard.
			do(t, nodes["s3"], "CREATE TABLE n(a INT)", "ALTER TABLE t ADD KEY here (v)")
			for _, c := range []struct {
				number     uint16
				text, want string
			}{
				{1050, "CREATE TABLE n(a INT PRIMARY KEY) /*braid key=a*/", "Table 'n' already exists"},
				{1061, "CREATE INDEX here ON t(v)", "Duplicate key name 'here'"},
				{1061, "ALTER TABLE t ADD COLUMN x INT, ADD UNIQUE KEY new (k, w), ADD KEY here (w)", "Duplicate key name 'here'"},
			} {
				if got := fails(t, db, c.number, c.text); got != c.want {
					t.Errorf("%s: %s, want %s", c.text, got, c.want)
				}
			}
			do(t, nodes["s3"], "DROP TABLE n", "ALTER TABLE t DROP KEY here")
			alike()

			// Not to be taken back: it is listed, and goes on when the reason is gone.
			stops := func(number uint16, text string) (change string) {
				t.Helper()
				told := fails(t, db, number, text)
				if !strings.Contains(told, "(failed on shard s2; done on s0, s1; RESUME DDL shop.") {
					t.Fatalf("%s: %s", text, told)
				}
				_, change, _ = strings.Cut(told, "RESUME DDL ")
				change, _, _ = strings.Cut(change, " ")
				if line := list(t, ops, "SHOW DDL"); !strings.HasPrefix(line, change+" | "+text+" | s0,s1 | s2,s3 | ") {
					t.Errorf("SHOW DDL: %s", line)
				}
				if drift := list(t, ops, "SHOW DRIFT"); !strings.Contains(drift, "shop | table "+strings.Fields(text)[2]+" | s") {
					t.Errorf("SHOW DRIFT: %s", drift)
				}
				return change
			}
			resumed := func(change, want string) {
				t.Helper()
				if got := list(t, ops, "RESUME DDL "+change); got != want {
					t.Errorf("RESUME DDL: %s, want %s", got, want)
				}
				alike()
			}
			do(t, nodes["s2"], "INSERT INTO t VALUES (1000000, 100000, 'x')")
			change := stops(1264, "ALTER TABLE t MODIFY v TINYINT")
			if err := ops.QueryRowContext(t.Context(), "RESUME DDL "+change).Scan(new(string)); err == nil || !strings.Contains(err.Error(), "shard s2: ") {
				t.Errorf("RESUME DDL before the remedy: %v", err)
			}
			do(t, nodes["s2"], "DELETE FROM t WHERE k = 1000000")
			resumed(change, "finished")

			// Finished by hand where it failed.
			do(t, nodes["s2"], "ALTER TABLE t DROP COLUMN w")
			resumed(stops(1091, "ALTER TABLE t DROP COLUMN w"), "finished")

			// Taken back by hand where it was done.
			do(t, nodes["s2"], "ALTER TABLE t RENAME COLUMN v TO u")
			change = stops(1054, "ALTER TABLE t MODIFY v BIGINT")
			do(t, nodes["s2"], "ALTER TABLE t RENAME COLUMN u TO v")
			do(t, nodes["s0"], "ALTER TABLE t MODIFY v TINYINT")
			do(t, nodes["s1"], "ALTER TABLE t MODIFY v TINYINT")
			resumed(change, "the shards are alike")
			if got := list(t, db, "SELECT COUNT(*), MAX(v) FROM t"); got != "8 | 8" {
				t.Errorf("the rows: %s", got)
			}
			// So is a rename: the table keeps its rule, and its rows are found.
			do(t, db, "CREATE TABLE m(a INT, k INT, PRIMARY KEY(a, k)) /*braid key=k*/", "INSERT INTO m VALUES (1,11),(2,12),(3,13),(4,14),(5,15),(6,16),(7,17),(8,18)")
			do(t, nodes["s2"], "CREATE TABLE r(a INT)")
			change = stops(1050, "ALTER TABLE m RENAME TO r")
			do(t, nodes["s2"], "DROP TABLE r")
			do(t, nodes["s0"], "RENAME TABLE r TO m")
			do(t, nodes["s1"], "RENAME TABLE r TO m")
			resumed(change, "taken back by hand")
			for a := range 8 {
				if got, want := list(t, db, fmt.Sprintf("SELECT k FROM m WHERE a = %d", 1+a)), fmt.Sprint(11+a); got != want {
					t.Errorf("k of a = %d: %s, want %s", 1+a, got, want)
				}
			}
			do(t, nodes["s2"], "CREATE TABLE r(a INT)")
			change = stops(1050, "ALTER TABLE m RENAME TO r")
			do(t, nodes["s2"], "DROP TABLE r", "RENAME TABLE m TO r")
			do(t, nodes["s3"], "RENAME TABLE m TO r")
			resumed(change, "the shards are alike")
			if got := list(t, db, "SELECT k FROM r WHERE a < 4 ORDER BY a"); got != "11\n12\n13" {
				t.Errorf("the rows under the new name: %s", got)
			}
			var none string
			if err := ops.QueryRowContext(t.Context(), "RESUME DDL shop.77").Scan(&none); err == nil {
				t.Error("RESUME DDL of a change that is not there says nothing")
			}
		})
	}
}

// TestSchemaChangeWhoseBraidDied: the change of a Braid that stopped half way is
// gone on with by another; one that is under way is left alone.
func TestSchemaChangeWhoseBraidDied(t *testing.T) {
	for _, flavour := range flavours {
		t.Run(string(flavour), func(t *testing.T) {
			b := start(t, flavour, nil)
			db, ops := b.Open(t), open(t, b, operator, operatorPassword)
			do(t, db, "CREATE TABLE t(k INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1,1),(2,2),(3,3),(4,4),(5,5),(6,6),(7,7),(8,8)")
			// A transaction of somebody else has the table on s2.
			p := b.Shards()[2]
			node := e2e.Open(t, p.Node, p.Schema)
			tx, err := node.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer tx.Rollback()
			if _, err := tx.ExecContext(t.Context(), "SELECT * FROM t"); err != nil {
				t.Fatal(err)
			}
			dying := b.Another(t)
			answered := make(chan error, 1)
			conn := dying.Open(t)
			go func() {
				_, err := conn.ExecContext(t.Context(), "ALTER TABLE t DROP COLUMN v")
				answered <- err
			}()
			eventually(t, "the change waits on s2", func() bool { return strings.Contains(list(t, ops, "SHOW DDL"), " | s0,s1 | s2,s3 | ") })
			change, _, _ := strings.Cut(list(t, ops, "SHOW DDL"), " |")
			if err := ops.QueryRowContext(t.Context(), "RESUME DDL "+change).Scan(new(string)); err == nil || !strings.Contains(err.Error(), "under way") {
				t.Errorf("RESUME DDL of a change under way: %v", err)
			}
			dying.Stop()
			if err := <-answered; err == nil {
				t.Fatal("the change was made although its Braid stopped")
			}
			if err := tx.Rollback(); err != nil {
				t.Fatal(err)
			}
			if got := list(t, ops, "RESUME DDL "+change); got != "finished" {
				t.Errorf("RESUME DDL: %s", got)
			}
			if text := list(t, ops, "SHOW DRIFT"); text != "" {
				t.Errorf("SHOW DRIFT: %s", text)
			}
			if got := list(t, db, "SELECT * FROM t WHERE k < 3 ORDER BY k"); got != "1\n2" {
				t.Errorf("the rows: %s", got)
			}
		})
	}
}
