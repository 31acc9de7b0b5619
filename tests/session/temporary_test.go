package session

import (
	"strconv"
	"strings"
	"testing"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"braid/conf"
	"braid/tests/e2e"
	"braid/tests/servers"
)

// A temporary table is its session's until that drops it, is reset or leaves,
// whatever else the session and the others do on a small pool (B100).
func TestTemporaryTablesStay(t *testing.T) {
	each(t, func(t *testing.T, flavour servers.Flavour) {
		b := shop(t, flavour, 2, 4, func(c *conf.Config) { pool(c, 3, c.Pool.WaitTimeout) })
		a, other := connect(t, b), connect(t, b)
		must(t, a, "CREATE TEMPORARY TABLE tmp(i INT)")
		must(t, a, "INSERT INTO tmp VALUES (1),(2),(3)")
		mine := func(when, want string) {
			t.Helper()
			for range 3 {
				must(t, other, "SELECT COUNT(*) FROM i")
			}
			if got := must(t, a, "SELECT COUNT(*) FROM tmp"); got != want {
				t.Errorf("%s: %s rows, want %s", when, got, want)
			}
			if _, err := run(other, "SELECT COUNT(*) FROM tmp"); !isCode(err, 1146) {
				t.Errorf("%s: another session: %v", when, err)
			}
		}
		mine("at once", "3")
		// The decider is another node.
		k := keys(t, b)
		must(t, a, "BEGIN")
		for _, key := range []int{k[3], k[2], k[1], k[0]} {
			must(t, a, "UPDATE i SET x=x+1 WHERE k="+strconv.Itoa(key))
		}
		must(t, a, "COMMIT")
		mine("after a commit of two nodes", "3")
		must(t, a, "BEGIN")
		must(t, a, "INSERT INTO tmp VALUES (4)")
		must(t, a, "INSERT INTO i VALUES (101,1),(102,1),(103,1),(104,1),(105,1)")
		must(t, a, "ROLLBACK")
		mine("after a rollback of two nodes", "3")
		for _, command := range []byte{gomysql.COM_RESET_CONNECTION, 0} {
			if command == 0 {
				must(t, a, "DROP TEMPORARY TABLE tmp")
			} else if _, err := a.Command(command, nil); err != nil {
				t.Fatal(err)
			}
			if _, err := run(a, "SELECT COUNT(*) FROM tmp"); !isCode(err, 1146) {
				t.Errorf("it is there still: %v", err)
			}
			must(t, a, "CREATE TEMPORARY TABLE tmp(i INT)")
			mine("made anew", "0")
		}
		a.Abort()
		if got := must(t, other, "SELECT COUNT(*) FROM i"); got != "40" {
			t.Errorf("after the client left: %s", got)
		}
	})
}

// Statements that were planned, cached or prepared by other sessions, or before
// the table was made, do not decide what a hidden name means.
func TestTemporaryTableHides(t *testing.T) {
	each(t, func(t *testing.T, flavour servers.Flavour) {
		b := shop(t, flavour, 2, 4, nil)
		a, other := connect(t, b), connect(t, b)
		const text = "SELECT * FROM i WHERE k=7"
		hidden := func(want string) {
			t.Helper()
			st, err := a.Prepare(text)
			if err != nil {
				t.Fatal(err)
			}
			if got := must(t, a, text); got != want {
				t.Errorf("text: %s, want %s", got, want)
			}
			if n := 1 + strings.Count(want, ","); len(st.Columns) != n {
				t.Errorf("prepared: %d columns, want %d", len(st.Columns), n)
			}
			if got := must(t, other, text); got != "7,70" {
				t.Errorf("another session: %s", got)
			}
		}
		must(t, other, text)
		hidden("7,70")
		must(t, a, "PREPARE p FROM '"+text+"'")
		must(t, a, "CREATE TEMPORARY TABLE i(k INT)")
		must(t, a, "INSERT INTO i VALUES (7)")
		hidden("7")
		if got := must(t, a, "EXECUTE p"); got != "7" {
			t.Errorf("prepared before: %s", got)
		}
		must(t, a, "ALTER TABLE i ADD COLUMN y INT DEFAULT 1, ADD COLUMN z INT DEFAULT 2")
		hidden("7,1,2")
		// The others change the schema meanwhile.
		must(t, other, "CREATE TABLE later(k INT PRIMARY KEY)")
		hidden("7,1,2")
		if got := must(t, a, "SELECT COUNT(*) FROM later"); got != "0" {
			t.Error(got)
		}
		must(t, a, "DROP TABLE i")
		hidden("7,70")
		if got := must(t, a, "SELECT COUNT(*) FROM i"); got != "40" {
			t.Errorf("the table of that name has %s rows", got)
		}
		if got := must(t, a, "EXECUTE p"); got != "7,70" {
			t.Errorf("prepared before: %s", got)
		}
	})
}

// What would need temporary tables and rows of other shards is refused, and
// changes nothing.
func TestTemporaryTablesAreRefusedElsewhere(t *testing.T) {
	each(t, func(t *testing.T, flavour servers.Flavour) {
		b := shop(t, flavour, 2, 4, nil)
		a := connect(t, b)
		k := keys(t, b)
		must(t, a, "CREATE TEMPORARY TABLE tmp(k INT)")
		must(t, a, "INSERT INTO tmp VALUES (41),(42),("+strconv.Itoa(k[0])+")")
		for _, text := range []string{
			"SELECT COUNT(*) FROM tmp JOIN i ON i.k=tmp.k",
			"SELECT COUNT(*) FROM i WHERE k IN (SELECT k FROM tmp)",
			"SELECT k FROM tmp UNION SELECT k FROM i",
			"INSERT INTO tmp SELECT k FROM i",
			"INSERT INTO i SELECT k+1000,1 FROM tmp",
			"UPDATE i JOIN tmp ON tmp.k=i.k SET i.x=0",
			"DELETE FROM i WHERE k IN (SELECT k FROM tmp)",
			"SELECT COUNT(*) FROM tmp JOIN i ON i.k=tmp.k WHERE i.k=" + strconv.Itoa(k[1]),
			"SET @n=(SELECT COUNT(*) FROM tmp JOIN i ON i.k=tmp.k)",
			"CREATE TEMPORARY TABLE tmp2 SELECT * FROM i",
			"CREATE TABLE tmp(k INT)",
			"CREATE TABLE copy LIKE tmp",
			"CREATE VIEW v AS SELECT * FROM tmp",
			"RENAME TABLE tmp TO tmp2",
			"DROP TABLE tmp, i",
		} {
			if got, err := run(a, text); !isCode(err, 1235) {
				t.Errorf("%s: %s %v", text, got, err)
			}
			if _, err := a.Prepare(text); err != nil && !isCode(err, 1235) && !isCode(err, 1295) {
				t.Errorf("preparing %s: %v", text, err)
			}
		}
		if got := must(t, a, "SELECT i.k FROM tmp JOIN i ON i.k=tmp.k WHERE i.k="+strconv.Itoa(k[0])); got != strconv.Itoa(k[0]) {
			t.Errorf("on its own shard: %s", got)
		}
		if got := must(t, a, "SELECT COUNT(*), SUM(x) FROM i"); got != "40,8200" {
			t.Errorf("something was changed: %s", got)
		}
		if got := must(t, a, "SELECT COUNT(*) FROM tmp"); got != "3" {
			t.Errorf("something was changed: %s", got)
		}
		must(t, a, "START TRANSACTION READ ONLY")
		if _, err := run(a, "INSERT INTO tmp VALUES (9)"); !isCode(err, 1235) {
			t.Errorf("in a READ ONLY transaction: %v", err)
		}
		must(t, a, "COMMIT")
	})
}

// Where temporary tables are not the first node's of a transaction, MySQL cannot
// have them in it: that is said, and the transaction goes on (rule T17).
func TestTemporaryTableOnABranch(t *testing.T) {
	each(t, func(t *testing.T, flavour servers.Flavour) {
		b := shop(t, flavour, 2, 2, nil)
		a := connect(t, b)
		k := keys(t, b)
		must(t, a, "CREATE TEMPORARY TABLE tmp(k INT)")
		must(t, a, "BEGIN")
		must(t, a, "UPDATE i SET x=1 WHERE k="+strconv.Itoa(k[1]))
		_, err := run(a, "INSERT INTO tmp VALUES (1)")
		want := "1"
		if flavour == servers.MySQL {
			want = "0"
			if !isCode(err, 1235) {
				t.Errorf("%v", err)
			}
		} else if err != nil {
			t.Error(err)
		}
		must(t, a, "UPDATE i SET x=1 WHERE k="+strconv.Itoa(k[0]))
		must(t, a, "COMMIT")
		if got := must(t, a, "SELECT COUNT(*) FROM tmp"); got != want {
			t.Errorf("%s rows, want %s", got, want)
		}
		if got := must(t, a, "SELECT COUNT(*) FROM i WHERE x=1"); got != "2" {
			t.Errorf("committed: %s", got)
		}
	})
}

// A session whose temporary tables are lost with their connection is told.
func TestLostTemporaryTablesAreTold(t *testing.T) {
	each(t, func(t *testing.T, flavour servers.Flavour) {
		b := shop(t, flavour, 1, 1, nil)
		a := connect(t, b)
		must(t, a, "CREATE TEMPORARY TABLE i(k INT)")
		must(t, a, "DO GET_LOCK('l',1)")
		node := e2e.Open(t, b.Nodes[0], "")
		var backend string
		if err := node.QueryRowContext(t.Context(), "SELECT IS_USED_LOCK('l')").Scan(&backend); err != nil {
			t.Fatal(err)
		}
		if _, err := node.ExecContext(t.Context(), "KILL "+backend); err != nil {
			t.Fatal(err)
		}
		if got, err := run(a, "SELECT COUNT(*) FROM i"); err == nil {
			t.Errorf("the session goes on: %s", got)
		}
		if _, err := run(a, "SELECT 1"); err == nil {
			t.Error("the session still answers")
		}
	})
}
