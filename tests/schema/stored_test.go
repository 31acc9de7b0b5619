package schema

import (
	"testing"

	"braid/conf"
	"braid/tests/e2e"
)

// TestStoredProgramsOverShards: triggers and functions that need nothing but
// their own values do on the shards what they do on one server; what would see a
// part of the rows is refused; a procedure runs on the shard that is named.
func TestStoredProgramsOverShards(t *testing.T) {
	tables := []conf.Table{{Name: "t", Kind: "sharded", Key: []string{"k"}}, {Name: "g", Kind: "global"}}
	flavours(t, tables, func(t *testing.T, b *e2e.Braid) {
		if b.Flavour() == "mysql" {
			for _, n := range b.Nodes {
				exec(t, e2e.Open(t, n, ""), "SET GLOBAL log_bin_trust_function_creators = 1")
			}
		}
		db := b.Open(t)
		for _, text := range []string{
			"CREATE TABLE t(k INT PRIMARY KEY, v INT, w VARCHAR(20))",
			"CREATE TABLE g(k INT PRIMARY KEY, v INT)",
			"CREATE TABLE one(k INT PRIMARY KEY, v INT) /*braid shard=s2*/",
			"CREATE TRIGGER t_in BEFORE INSERT ON t FOR EACH ROW BEGIN IF NEW.v > 5 THEN SET NEW.v = 5; END IF; SET NEW.w = TRIM(LEADING ' ' FROM CONCAT(' ', REPLACE(NEW.w, 'a', 'b'))); END",
			"CREATE TRIGGER g_in BEFORE INSERT ON g FOR EACH ROW SET NEW.v = NEW.k * 2",
			"CREATE TRIGGER one_in BEFORE INSERT ON one FOR EACH ROW SET NEW.v = 9",
			"CREATE FUNCTION twice(x INT) RETURNS INT DETERMINISTIC RETURN x * 2",
			"CREATE PROCEDURE how_many() SELECT COUNT(*) FROM t",
			"INSERT INTO t VALUES (1,1,'a'),(2,2,'ab'),(3,3,'x'),(4,4,'y'),(5,50,'a'),(6,60,'b'),(7,70,'c'),(8,80,'d')",
			"INSERT INTO g(k) VALUES (1),(2)",
			"INSERT INTO one(k) VALUES (1)",
		} {
			exec(t, db, text)
		}
		for _, c := range [][2]string{
			{"SELECT SUM(v) FROM t", "30"},
			{"SELECT w FROM t WHERE k = 2", "bb"},
			{"SELECT twice(v) FROM t WHERE k = 3", "6"},
			{"SELECT SUM(twice(v)) FROM t", "60"},
			{"SELECT v FROM g WHERE k = 2", "4"},
			{"SELECT v FROM one", "9"},
		} {
			if got := one(t, db, c[0]); got != c[1] {
				t.Errorf("%s: %s, want %s", c[0], got, c[1])
			}
		}
		for i, p := range b.Shards() {
			node := e2e.Open(t, p.Node, p.Schema)
			if got := one(t, node, "SELECT SUM(v) FROM g"); got != "6" {
				t.Errorf("shard %s: the global table's rows: %s", p.Shard, got)
			}
			want := one(t, node, "SELECT COUNT(*) FROM t")
			if got := one(t, db, "CALL how_many() /*braid shard=s"+itoa(i)+"*/"); got != want {
				t.Errorf("CALL on shard %s: %s, want %s", p.Shard, got, want)
			}
		}
		refused(t, db, 1235, "without the hint shard", "CALL how_many()")

		// What triggers read of the clock is one time for a statement's rows on all shards.
		exec(t, db, "CREATE TABLE at(k INT PRIMARY KEY, v DATETIME(6)) /*braid key=k*/")
		exec(t, db, "CREATE TRIGGER at_in BEFORE INSERT ON at FOR EACH ROW SET NEW.v = NOW(6)")
		exec(t, db, "INSERT INTO at(k) VALUES (1),(2),(3),(4),(5),(6),(7),(8)")
		if got := one(t, db, "SELECT COUNT(DISTINCT v) FROM at"); got != "1" {
			t.Errorf("times of one INSERT: %s", got)
		}
		for _, c := range [][2]string{
			{"sharding key", "CREATE TRIGGER x BEFORE INSERT ON t FOR EACH ROW SET NEW.k = 1"},
			{"uses tables", "CREATE TRIGGER x AFTER INSERT ON t FOR EACH ROW INSERT INTO g VALUES (NEW.k, 1)"},
			{"uses tables", "CREATE TRIGGER x AFTER INSERT ON t FOR EACH ROW SET NEW.v = (SELECT MAX(v) FROM t)"},
			{"uses tables", "CREATE TRIGGER x AFTER INSERT ON t FOR EACH ROW CALL how_many()"},
			{"sharding key", "CREATE TRIGGER x BEFORE INSERT ON t FOR EACH ROW SET `new`.`k` = 1"},
			{"another value", "CREATE FUNCTION f() RETURNS DOUBLE NO SQL RETURN RAND()"},
			{"another value", "CREATE FUNCTION f() RETURNS DATETIME NO SQL RETURN NOW()"},
			{"variables", "CREATE TRIGGER x AFTER INSERT ON t FOR EACH ROW SET @a = 1"},
			{"copies", "CREATE TRIGGER x BEFORE UPDATE ON g FOR EACH ROW SET NEW.v = UNIX_TIMESTAMP()"},
			{"uses tables", "CREATE FUNCTION f() RETURNS INT READS SQL DATA RETURN (SELECT COUNT(*) FROM t)"},
			{"DATABASE", "CREATE FUNCTION f() RETURNS VARCHAR(64) RETURN DATABASE()"},
			{"EVENT", "CREATE EVENT e ON SCHEDULE EVERY 1 DAY DO DELETE FROM t"},
		} {
			refused(t, db, 1235, c[0], c[1])
		}
		refused(t, db, 1146, "nothere", "CREATE TRIGGER x BEFORE INSERT ON nothere FOR EACH ROW SET NEW.k = 1")
		refused(t, db, 1304, "twice", "CREATE FUNCTION twice(x INT) RETURNS INT DETERMINISTIC RETURN x")
		exec(t, db, "DROP TRIGGER t_in")
		exec(t, db, "DROP TRIGGER IF EXISTS one_in")
		exec(t, db, "DROP FUNCTION twice")
		exec(t, db, "DROP PROCEDURE how_many")
		exec(t, db, "DROP PROCEDURE IF EXISTS how_many")
		refused(t, db, 1360, "", "DROP TRIGGER one_in")
		exec(t, db, "INSERT INTO t VALUES (9, 90, 'a'), (10, 100, 'a'), (11, 110, 'a')")
		if got := one(t, db, "SELECT SUM(v) FROM t WHERE w = 'a'"); got != "300" {
			t.Errorf("after DROP TRIGGER: %s", got)
		}
		exec(t, db, "ALTER DATABASE CHARACTER SET latin1")
		exec(t, db, "CREATE TABLE after(k INT PRIMARY KEY, w VARCHAR(20)) /*braid key=k*/")
		for _, p := range b.Shards() {
			if got := one(t, e2e.Open(t, p.Node, p.Schema), "SELECT CHARACTER_SET_NAME FROM information_schema.COLUMNS WHERE TABLE_SCHEMA=DATABASE() AND TABLE_NAME='after' AND COLUMN_NAME='w'"); got != "latin1" {
				t.Errorf("shard %s: %s", p.Shard, got)
			}
		}
	})
}
