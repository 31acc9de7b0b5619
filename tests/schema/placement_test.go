package schema

import (
	"database/sql"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"braid/tests/e2e"
	"braid/tests/servers"
)

// spread counts a table's rows on each shard, -1 where the shard lacks it.
func spread(t *testing.T, b *e2e.Braid, table string) (rows []int) {
	t.Helper()
	for _, place := range b.Shards() {
		node := e2e.Open(t, place.Node, place.Schema)
		if one(t, node, "SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA=DATABASE() AND TABLE_NAME='"+table+"'") == "0" {
			rows = append(rows, -1)
			continue
		}
		n := 0
		if err := node.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM "+table).Scan(&n); err != nil {
			t.Fatal(err)
		}
		rows = append(rows, n)
	}
	return rows
}

func tables(rows []int) (n int) {
	for _, x := range rows {
		if x >= 0 {
			n++
		}
	}
	return n
}

// fill puts the keys 1 to 40 into a table with columns a and b, b = 100 - a.
func fill(t *testing.T, db *sql.DB, table string) {
	t.Helper()
	var b strings.Builder
	b.WriteString("INSERT INTO " + table + "(a, b) SELECT 1, 99")
	for i := 2; i <= 40; i++ {
		b.WriteString(" UNION ALL SELECT ")
		b.WriteString(strings.Join([]string{itoa(i), itoa(100 - i)}, ", "))
	}
	exec(t, db, b.String())
}

// TestPlacementIsRemembered: where a CREATE TABLE puts rows by its hint or by the
// database's default is known to every Braid, to those that start later and to
// those that run already, and goes with the table when it is renamed.
func TestPlacementIsRemembered(t *testing.T) {
	flavours(t, nil, func(t *testing.T, b *e2e.Braid) {
		db, other := b.Open(t), b.Another(t).Open(t)
		exec(t, other, "DO 1")
		exec(t, db, "CREATE TABLE byb(a INT, b INT, PRIMARY KEY(a, b)) /*braid key=b*/")
		exec(t, db, "/*braid global*/ CREATE TABLE glob(a INT PRIMARY KEY, b INT)")
		exec(t, db, "CREATE TABLE one2(a INT PRIMARY KEY, b INT) /*braid single shard=s2*/")
		exec(t, db, "CREATE TABLE one3(a INT PRIMARY KEY, b INT) /*braid shard=s3*/")
		exec(t, db, "CREATE TABLE plain(a INT PRIMARY KEY, b INT)")
		exec(t, db, "CREATE TABLE likeb LIKE byb")
		exec(t, db, "CREATE TABLE ids(a INT PRIMARY KEY AUTO_INCREMENT, b INT) /*braid key=a sequence=block*/")
		exec(t, db, "CREATE TABLE loose(a INT PRIMARY KEY, b INT UNIQUE) /*braid key=a unique_check=none*/")
		exec(t, db, "CREATE TABLE modded(a INT PRIMARY KEY, b INT) /*braid key=a function=mod*/")
		exec(t, db, "CREATE TABLE besides(a INT, b INT) /*braid key=b colocated=modded*/")
		check := func(who string, db *sql.DB) {
			t.Helper()
			for _, table := range []string{"byb", "likeb", "ids", "loose", "modded", "besides"} {
				if rows := spread(t, b, table); tables(rows) != 4 || slices.Contains(rows, 40) {
					t.Errorf("%s: %s is not spread: %v", who, table, rows)
				}
				if got := one(t, db, "SELECT SUM(a) FROM "+table+" WHERE b = 70"); got != "30" {
					t.Errorf("%s: %s where b = 70: %s", who, table, got)
				}
				if got := one(t, db, "SELECT COUNT(*) FROM "+table); got != "40" {
					t.Errorf("%s: %s has %s rows", who, table, got)
				}
			}
			if rows := spread(t, b, "glob"); !slices.Equal(rows, []int{40, 40, 40, 40}) {
				t.Errorf("%s: global: %v", who, rows)
			}
			for table, want := range map[string][]int{"one2": {-1, -1, 40, -1}, "one3": {-1, -1, -1, 40}, "plain": {40, -1, -1, -1}} {
				if rows := spread(t, b, table); !slices.Equal(rows, want) {
					t.Errorf("%s: %s: %v, want %v", who, table, rows, want)
				}
			}
		}
		for _, table := range []string{"byb", "glob", "one2", "one3", "plain", "likeb", "ids", "loose", "modded", "besides"} {
			fill(t, other, table) // the other Braid was there before the tables
		}
		check("the other Braid", other)
		check("the one that made them", db)
		b.Restart(t)
		db = b.Open(t)
		check("after a restart", db)

		exec(t, db, "RENAME TABLE byb TO swap, likeb TO byb, swap TO likeb")
		exec(t, db, "RENAME TABLE loose TO looser")
		exec(t, db, "ALTER TABLE glob RENAME TO globe")
		b.Restart(t)
		db = b.Open(t)
		for _, table := range []string{"byb", "likeb", "looser", "globe"} {
			if got := one(t, db, "SELECT CONCAT(COUNT(*), ' ', SUM(b = 70)) FROM "+table); got != "40 1" {
				t.Errorf("%s after the renaming: %s", table, got)
			}
			exec(t, db, "DELETE FROM "+table+" WHERE a = 30")
			exec(t, other, "INSERT INTO "+table+"(a, b) VALUES (30, 70)")
			if got := one(t, db, "SELECT a FROM "+table+" WHERE b = 70"); got != "30" {
				t.Errorf("%s after the renaming: %s", table, got)
			}
		}
		exec(t, db, "INSERT INTO besides(a, b) SELECT a, a FROM modded")
		for _, place := range b.Shards() {
			if got := one(t, e2e.Open(t, place.Node, place.Schema), "SELECT COUNT(*) FROM besides x LEFT JOIN modded m ON m.a = x.b WHERE x.b = x.a AND m.a IS NULL"); got != "0" {
				t.Errorf("shard %s has %s rows that are not beside the co-located ones", place.Shard, got)
			}
		}
		refused(t, db, 1235, "co-located", "RENAME TABLE modded TO elsewhere")
	})
}

// TestTableMadeWhileSchemaIsRead: a Braid that reads the schema while another one
// makes a table, which it sees on some shards only, puts no row in the wrong place.
func TestTableMadeWhileSchemaIsRead(t *testing.T) {
	for _, f := range []servers.Flavour{servers.MariaDB, servers.MySQL} {
		t.Run(string(f), func(t *testing.T) {
			b := lab.StartBraid(t, e2e.Topology{Flavour: f, Nodes: 2, Shards: 4})
			db := b.Open(t)
			exec(t, db, "CREATE TABLE first(a INT PRIMARY KEY)")
			relay := e2e.StartRelay(t, b.Config.Nodes[1].Primary)
			relayed := *b.Config
			relayed.Nodes = slices.Clone(relayed.Nodes)
			relayed.Nodes[1].Primary = relay.Addr
			b.Config = &relayed
			other := b.Another(t).Open(t)
			exec(t, other, "SELECT * FROM first")
			relay.Hold("TABLE_TYPE, ENGINE, 0 FROM information_schema.TABLES")
			made := make(chan error, 1)
			go func() {
				_, err := other.ExecContext(t.Context(), "CREATE TABLE second(a INT PRIMARY KEY)")
				made <- err
			}()
			deadline, tick := time.After(time.Minute), time.NewTicker(5*time.Millisecond)
			defer tick.Stop()
			for !relay.Held() {
				select {
				case <-deadline:
					t.Fatal("the schema is not read")
				case <-tick.C:
				}
			}
			exec(t, db, "CREATE TABLE spread(a INT, b INT, PRIMARY KEY(a, b)) /*braid key=b*/")
			relay.Release()
			if err := <-made; err != nil {
				t.Fatal(err)
			}
			fill(t, other, "spread")
			if rows := spread(t, b, "spread"); tables(rows) != 4 || slices.Contains(rows, 40) {
				t.Errorf("rows on the shards: %v", rows)
			}
			if got := one(t, db, "SELECT SUM(a) FROM spread WHERE b = 70"); got != "30" {
				t.Errorf("a where b = 70: %s", got)
			}
		})
	}
}

// TestNameUsedAgain: a name may be used again for a table whose rows are
// elsewhere, and no Braid puts a row where the old one's were.
func TestNameUsedAgain(t *testing.T) {
	flavours(t, nil, func(t *testing.T, b *e2e.Braid) {
		db, other := b.Open(t), b.Another(t).Open(t)
		exec(t, db, "CREATE TABLE again(a INT, b INT, PRIMARY KEY(a, b)) /*braid key=a*/")
		fill(t, other, "again")
		exec(t, db, "DROP TABLE again")
		exec(t, db, "CREATE TABLE again(a INT, b INT, PRIMARY KEY(a, b)) /*braid key=b*/")
		fill(t, other, "again")
		for _, d := range []*sql.DB{db, other} {
			if got := one(t, d, "SELECT COUNT(DISTINCT a) FROM again WHERE b = 80"); got != "1" {
				t.Errorf("rows with b = 80: %s", got)
			}
		}
		exec(t, other, "DROP TABLE again")
		refused(t, db, 1146, "again", "INSERT INTO again VALUES (1, 1)")
		exec(t, db, "CREATE TABLE again(a INT, b INT, PRIMARY KEY(a, b)) /*braid key=b*/")
	})
}

// TestPlacementRefused: hints that cannot be followed are errors that change nothing.
func TestPlacementRefused(t *testing.T) {
	flavours(t, nil, func(t *testing.T, b *e2e.Braid) {
		db := b.Open(t)
		exec(t, db, "CREATE TABLE leader(a INT PRIMARY KEY, b INT) /*braid key=a*/")
		exec(t, db, "CREATE TABLE alone(a INT PRIMARY KEY)")
		for _, c := range []struct {
			number    uint16
			why, text string
		}{
			{1072, "nokey", "CREATE TABLE x(a INT PRIMARY KEY) /*braid key=nokey*/"},
			{1235, "unique key", "CREATE TABLE x(a INT PRIMARY KEY, b INT) /*braid key=b*/"},
			{1235, "sharding key", "CREATE TABLE x(a DOUBLE PRIMARY KEY, b INT) /*braid key=a*/"},
			{1235, "by which key", "CREATE TABLE x(a INT PRIMARY KEY) /*braid colocated=leader*/"},
			{1235, "co-located", "CREATE TABLE x(a INT PRIMARY KEY) /*braid key=a colocated=alone*/"},
			{1146, "nobody", "CREATE TABLE x(a INT PRIMARY KEY) /*braid key=a colocated=nobody*/"},
			{1235, "hint shard", "CREATE TABLE x(a INT PRIMARY KEY) /*braid global shard=s1*/"},
			{1105, "no shard", "CREATE TABLE x(a INT PRIMARY KEY) /*braid single shard=s9*/"},
			{1235, "another shard", "CREATE TABLE x LIKE alone /*braid global*/"},
			{1235, "unique key", "CREATE TABLE x LIKE leader /*braid key=b*/"},
			{1235, "type and collation", "CREATE TABLE x(a BIGINT PRIMARY KEY) /*braid key=a colocated=leader*/"},
		} {
			refused(t, db, c.number, c.why, c.text)
			if rows := spread(t, b, "x"); tables(rows) != 0 {
				t.Errorf("%s left tables behind: %v", c.text, rows)
			}
		}
		exec(t, db, "CREATE TABLE x(a INT PRIMARY KEY) /*braid key=a*/")
		exec(t, db, "CREATE TABLE IF NOT EXISTS x(a INT PRIMARY KEY, b INT) /*braid single*/")
		if rows := spread(t, b, "x"); tables(rows) != 4 {
			t.Errorf("x is on %v", rows)
		}
	})
}

// TestDefaultPlacementIsRemembered: a table that the database's default sharded
// by its first key stays sharded by it when it gets another.
func TestDefaultPlacementIsRemembered(t *testing.T) {
	for _, f := range []servers.Flavour{servers.MariaDB, servers.MySQL} {
		t.Run(string(f), func(t *testing.T) {
			b := lab.StartBraid(t, e2e.Topology{Flavour: f, Nodes: 2, Shards: 4, Default: "hash"})
			db := b.Open(t)
			exec(t, db, "CREATE TABLE h(a INT NOT NULL, b INT NOT NULL, PRIMARY KEY(a, b))")
			fill(t, db, "h")
			exec(t, db, "ALTER TABLE h DROP PRIMARY KEY, ADD PRIMARY KEY(b, a)")
			b.Restart(t)
			db = b.Open(t)
			for i := 1; i <= 40; i++ {
				if got := one(t, db, "SELECT COUNT(*) FROM h WHERE a = "+itoa(i)); got != "1" {
					t.Errorf("a = %d: %s rows", i, got)
				}
			}
		})
	}
}

func itoa(n int) string { return strconv.Itoa(n) }

// TestKeyStaysInItsPlace: columns may come and go around the sharding key, but it
// does not change places with another while other Braids may count columns.
func TestKeyStaysInItsPlace(t *testing.T) {
	flavours(t, nil, func(t *testing.T, b *e2e.Braid) {
		db := b.Open(t)
		exec(t, db, "CREATE TABLE p(a INT, k INT, c INT) /*braid key=k*/")
		refused(t, db, 1235, "moves the sharding key", "ALTER TABLE p MODIFY c INT FIRST")
		refused(t, db, 1235, "moves the sharding key", "ALTER TABLE p CHANGE a d INT AFTER k")
		refused(t, db, 1235, "moves the sharding key", "ALTER TABLE p DROP COLUMN a, ADD COLUMN d INT")
		exec(t, db, "ALTER TABLE p DROP COLUMN a, ADD COLUMN d INT FIRST")
		exec(t, db, "ALTER TABLE p ADD COLUMN e INT FIRST")
		exec(t, db, "ALTER TABLE p MODIFY c BIGINT FIRST, DROP COLUMN e")
		exec(t, db, "INSERT INTO p VALUES (1, 2, 3), (4, 5, 6), (7, 8, 9)")
		if got := one(t, db, "SELECT GROUP_CONCAT(k) FROM p WHERE k = 9"); got != "9" {
			t.Errorf("k = 9: %s", got)
		}
	})
}

// TestCreateTableSelectOverShards: a table that is made of rows of several shards
// goes where any other new table would, and is filled as a whole or not there.
func TestCreateTableSelectOverShards(t *testing.T) {
	flavours(t, nil, func(t *testing.T, b *e2e.Braid) {
		db := b.Open(t)
		exec(t, db, "CREATE TABLE s(a INT PRIMARY KEY, b INT) /*braid key=a*/")
		exec(t, db, "CREATE TABLE o(a INT PRIMARY KEY, b INT) /*braid shard=s2*/")
		fill(t, db, "s")
		fill(t, db, "o")
		for table, text := range map[string]string{
			"plain":  "CREATE TABLE plain SELECT * FROM s",
			"keyed":  "CREATE TABLE keyed SELECT * FROM s /*braid key=a*/",
			"moved":  "CREATE TABLE moved(PRIMARY KEY (a)) SELECT * FROM o /*braid key=a*/",
			"copied": "CREATE TABLE copied SELECT * FROM s /*braid global*/",
			"there":  "CREATE /*braid single shard=s3*/ TABLE there AS (SELECT a, b FROM s)",
			"whose":  "CREATE TABLE whose SELECT a, USER() AS u FROM o",
		} {
			result, err := db.ExecContext(t.Context(), text)
			if err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			if n, _ := result.RowsAffected(); n != 40 {
				t.Errorf("%s: %d rows affected", text, n)
			}
			if got := one(t, db, "SELECT COUNT(*) FROM "+table); got != "40" {
				t.Errorf("%s has %s rows", table, got)
			}
		}
		stmt, err := db.PrepareContext(t.Context(), "CREATE TABLE prepared SELECT a, b FROM s /*braid key=a*/")
		if err != nil {
			t.Fatal(err)
		}
		defer stmt.Close()
		if _, err := stmt.ExecContext(t.Context()); err != nil {
			t.Errorf("prepared: %v", err)
		}
		b.Restart(t)
		db = b.Open(t)
		for table, want := range map[string][]int{"prepared": spread(t, b, "s"), "plain": {40, -1, -1, -1}, "copied": {40, 40, 40, 40}, "there": {-1, -1, -1, 40}, "whose": {40, -1, -1, -1},
			"keyed": spread(t, b, "s"), "moved": spread(t, b, "s")} {
			if rows := spread(t, b, table); !slices.Equal(rows, want) {
				t.Errorf("%s: %v, want %v", table, rows, want)
			}
		}
		refused(t, db, 1062, "", "CREATE TABLE x(c INT PRIMARY KEY) SELECT a DIV 2 AS c FROM s /*braid key=c*/")
		refused(t, db, 1235, "PARTITION", "CREATE TABLE x(a INT PRIMARY KEY) PARTITION BY HASH (a) PARTITIONS 2 SELECT a FROM s")
		refused(t, db, 1235, "FOREIGN", "CREATE TABLE x(a INT, FOREIGN KEY (a) REFERENCES o (a)) SELECT a FROM s")

		// Stopped while it is being filled.
		holder, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := holder.ExecContext(t.Context(), "UPDATE s SET b = b + 1000 WHERE a = 7"); err != nil {
			t.Fatal(err)
		}
		c := pooled(b.Open(t))
		id := one(t, c, "SELECT CONNECTION_ID()")
		done := make(chan error, 1)
		go func() {
			_, err := c.ExecContext(t.Context(), "CREATE TABLE y SELECT * FROM s")
			done <- err
		}()
		var nodes []*sql.DB
		for _, n := range b.Nodes {
			nodes = append(nodes, pooled(e2e.Open(t, n, "")))
		}
		until(t, "y is being filled", func() bool {
			return slices.ContainsFunc(nodes, func(n *sql.DB) bool {
				return one(t, n, "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO='SELECT * FROM s LOCK IN SHARE MODE'") == "1"
			})
		})
		if rows := spread(t, b, "y"); tables(rows) != 1 {
			t.Errorf("y while it is filled: %v", rows)
		}
		exec(t, db, "KILL QUERY "+id)
		var e *mysql.MySQLError
		if err := <-done; !errors.As(err, &e) || e.Number != 1317 {
			t.Errorf("CREATE TABLE ... SELECT that is stopped: %v", err)
		}
		if err := holder.Rollback(); err != nil {
			t.Fatal(err)
		}
		if rows := spread(t, b, "y"); tables(rows) != 0 {
			t.Errorf("y was left behind: %v", rows)
		}
	})
}

// TestCreateTableSelect: a table that is made of rows of one shard is made there.
func TestCreateTableSelect(t *testing.T) {
	flavours(t, nil, func(t *testing.T, b *e2e.Braid) {
		db := b.Open(t)
		exec(t, db, "CREATE TABLE s(a INT PRIMARY KEY, b INT) /*braid key=a*/")
		exec(t, db, "CREATE TABLE o(a INT PRIMARY KEY, b INT) /*braid shard=s2*/")
		exec(t, db, "CREATE TABLE g(a INT PRIMARY KEY, b INT) /*braid global*/")
		fill(t, db, "o")
		fill(t, db, "g")
		result, err := db.ExecContext(t.Context(), "CREATE TABLE made(KEY (b)) SELECT o.a, g.b FROM o JOIN g USING (a) WHERE a > 10")
		if err != nil {
			t.Fatal(err)
		}
		if n, _ := result.RowsAffected(); n != 30 {
			t.Errorf("%d rows affected", n)
		}
		exec(t, db, "CREATE TABLE ofglobal AS SELECT b FROM g")
		exec(t, db, "CREATE TABLE ofnothing SELECT 1 AS x, 'a' AS y")
		b.Restart(t)
		db = b.Open(t)
		for table, want := range map[string][]int{"made": {-1, -1, 30, -1}, "ofglobal": {40, -1, -1, -1}, "ofnothing": {1, -1, -1, -1}} {
			if rows := spread(t, b, table); !slices.Equal(rows, want) {
				t.Errorf("%s: %v, want %v", table, rows, want)
			}
			if got := one(t, db, "SELECT COUNT(*) FROM "+table); got != itoa(slices.Max(want)) {
				t.Errorf("%s has %s rows", table, got)
			}
		}
		refused(t, db, 1050, "made", "CREATE TABLE made SELECT a FROM o")
		refused(t, db, 1235, "INSERT ... SELECT", "CREATE TABLE x SELECT o.a FROM o, ofglobal")
		refused(t, db, 1062, "", "CREATE TABLE x(a INT PRIMARY KEY) SELECT 1 AS a UNION ALL SELECT 1")
		if rows := spread(t, b, "x"); tables(rows) != 0 {
			t.Errorf("x was left behind: %v", rows)
		}
	})
}
