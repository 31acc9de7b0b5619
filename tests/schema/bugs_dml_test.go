package schema

import (
	"fmt"
	"sync"
	"testing"

	"braid/conf"
	"braid/tests/e2e"
)

// dmlCase is a case of the collection of other systems' failures: statements
// whose answers and rows must be one plain server's, over four shards.
type dmlCase struct {
	name   string
	tables []string // that are compared
	texts  []string
}

var dmlCases = []dmlCase{
	{"B126 ORDER BY and LIMIT count over all shards", []string{"ul"}, []string{
		"CREATE TABLE ul(k INT PRIMARY KEY, n INT, s VARCHAR(9))",
		"INSERT INTO ul VALUES (1,1,'delta'),(3,3,'alpha'),(2,2,'gamma'),(4,4,'beta')",
		"UPDATE ul SET n=n+10 WHERE n>=2 ORDER BY s LIMIT 1",
		"DELETE FROM ul ORDER BY n DESC LIMIT 2",
		"DELETE FROM ul LIMIT 0",
		"UPDATE ul SET n=0 WHERE n>1 LIMIT 1",
		"UPDATE ul SET n=n+1 ORDER BY k DESC LIMIT 1",
	}},
	{"B128 given ids are with the right rows", []string{"gk"}, []string{
		"CREATE TABLE gk(id BIGINT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(20))",
		"INSERT INTO gk(name) VALUES ('r1'),('r2'),('r3'),('r4')",
		"INSERT INTO gk(name) VALUES ('r5'),('r6'),('r7'),('r8'),('r9'),('r10'),('r11')",
		"UPDATE gk SET name=CONCAT(name,'!') WHERE id=3",
		"DELETE FROM gk WHERE id IN (1, 7)",
	}},
	{"B129 the insert id is the first of consecutive ones", []string{"gk"}, []string{
		"CREATE TABLE gk(id BIGINT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(20))",
		"INSERT INTO gk(name) VALUES ('a'),('b'),('c')",
		"INSERT INTO gk(id,name) VALUES (0,'d'),(NULL,'e'),(500,'f'),(NULL,'g')",
		"INSERT INTO gk(id,name) VALUES (600,'own')",
		"INSERT INTO gk(name) SELECT name FROM gk WHERE id<3",
		"SET SESSION sql_mode='NO_AUTO_VALUE_ON_ZERO,STRICT_TRANS_TABLES'",
		"INSERT INTO gk(id,name) VALUES (0,'zero')",
	}},
	{"B131 REPLACE counts the rows that go", []string{"w", "mv"}, []string{
		"CREATE TABLE w(u INT PRIMARY KEY, n INT)", "CREATE TABLE mv(k INT PRIMARY KEY, v INT)",
		"INSERT INTO w VALUES (1,1),(2,2)", "INSERT INTO mv VALUES (3,3),(4,4)",
		"REPLACE INTO w(u,n) VALUES (1,5),(88,5)",
		"REPLACE INTO mv VALUES (3,9)",
		"REPLACE INTO mv SET k=3, v=10",
		"REPLACE INTO mv SELECT k,v+1 FROM mv WHERE k=3",
		"REPLACE INTO mv SELECT k,v+1 FROM mv",
	}},
	{"B132 info texts and warning counts are the whole's", []string{"w"}, []string{
		"CREATE TABLE w(u INT PRIMARY KEY, n INT)",
		"INSERT INTO w(u,n) VALUES (1,1),(2,1),(3,1)",
		"INSERT INTO w(u,n) VALUES (101,1),(102,1),(103,1)",
		"INSERT IGNORE INTO w(u,n) VALUES (1,0),(2,0)",
		"INSERT IGNORE INTO w(u,n) VALUES (1,0),(2,0),(7,'x')",
		"INSERT INTO w(u,n) VALUES (9,1)",
		"UPDATE w SET n=7 WHERE u IN (1,2,3)",
		"UPDATE w SET n=7 WHERE n>0",
		"ALTER TABLE w COMMENT='c'",
		"INSERT INTO w(u,n) SELECT u+1000,n FROM w WHERE u<3",
		"DELETE FROM w WHERE n=7",
	}},
	{"B135 UPDATE and DELETE of several tables", []string{"m1", "m2"}, []string{
		"CREATE TABLE m1(k INT PRIMARY KEY, v INT)", "CREATE TABLE m2(k INT PRIMARY KEY, m1k INT, v INT)",
		"INSERT INTO m1 VALUES (1,1),(2,2),(3,3)", "INSERT INTO m2 VALUES (1,1,10),(2,1,10),(3,2,20)",
		"UPDATE m1 JOIN m2 ON m2.m1k=m1.k SET m1.v=m1.v+m2.v, m2.v=0",
		"DELETE m1,m2 FROM m1 JOIN m2 ON m2.m1k=m1.k WHERE m1.k=1",
		"DELETE FROM m2 USING m2 JOIN m1 ON m2.m1k=m1.k",
	}},
}

// TestDMLCases runs the collection's dml cases (B134 and B137 are below and with
// LOAD DATA): all of each OK, its warnings, and the rows.
func TestDMLCases(t *testing.T) {
	tables := []conf.Table{
		{Name: "ul", Kind: "sharded", Key: []string{"k"}}, {Name: "gk", Kind: "sharded", Key: []string{"id"}},
		{Name: "w", Kind: "sharded", Key: []string{"u"}}, {Name: "mv", Kind: "sharded", Key: []string{"k"}},
		{Name: "m1", Kind: "sharded", Key: []string{"k"}}, {Name: "m2", Kind: "sharded", Key: []string{"k"}},
		{Name: "un2", Kind: "sharded", Key: []string{"k"}}, {Name: "ku", Kind: "sharded", Key: []string{"k"}},
	}
	flavours(t, tables, func(t *testing.T, b *e2e.Braid) {
		server := lab.Server(t, b.Flavour(), "plain")
		for _, c := range dmlCases {
			t.Run(c.name, func(t *testing.T) {
				e2e.Recreate(t, server, "shop")
				braid, plain := newWriteSide(t, b.Open(t), b.DriverConfig().Addr), newWriteSide(t, e2e.Open(t, server, "shop"), server.Addr())
				for _, table := range c.tables {
					exec(t, braid.db, "DROP TABLE IF EXISTS "+table)
				}
				for _, text := range c.texts {
					got, _ := writeHow{}.run(t, braid, text)
					want, _ := writeHow{}.run(t, plain, text)
					if got != want {
						t.Errorf("%s\n  braid: %s\n  plain: %s", text, got, want)
					}
				}
				for _, table := range c.tables {
					if got, want := contents(t, braid.db, table), contents(t, plain.db, table); got != want {
						t.Errorf("%s:\n  braid holds %s\n  plain holds %s", table, got, want)
					}
				}
			})
		}
		t.Run("B129 clients in parallel", func(t *testing.T) {
			db := b.Open(t)
			exec(t, db, "TRUNCATE TABLE gk")
			var work sync.WaitGroup
			for c := range 16 {
				work.Go(func() {
					for n := range 20 {
						name := fmt.Sprintf("%d.%d", c, n)
						r, err := db.ExecContext(t.Context(), fmt.Sprintf("INSERT INTO gk(name) VALUES ('%[1]s.0'),('%[1]s.1'),('%[1]s.2')", name))
						if err != nil {
							t.Error(err)
							return
						}
						first, _ := r.LastInsertId()
						for k := range int64(3) {
							var got string
							if err := db.QueryRowContext(t.Context(), fmt.Sprintf("SELECT name FROM gk WHERE id=%d", first+k)).Scan(&got); err != nil || got != fmt.Sprintf("%s.%d", name, k) {
								t.Errorf("id %d is of %q (%v), want %s.%d", first+k, got, err, name, k)
							}
						}
					}
				})
			}
			work.Wait()
		})
		t.Run("B131 and B134 unique keys over shards are refused", func(t *testing.T) {
			db := b.Open(t)
			refused(t, db, 1235, "unique key", "CREATE TABLE un2(k INT PRIMARY KEY, num INT UNIQUE)")
			refused(t, db, 1235, "unique key", "CREATE TABLE ku(k INT PRIMARY KEY, u INT, UNIQUE KEY (u))")
			exec(t, db, "CREATE TABLE un2(k INT PRIMARY KEY, num INT, UNIQUE KEY (num, k))")
			refused(t, db, 1235, "unique key", "ALTER TABLE un2 ADD UNIQUE KEY (num)")
			refused(t, db, 1235, "unique key", "CREATE UNIQUE INDEX u ON un2 (num)")
			refused(t, db, 1062, "Duplicate entry '4'", "INSERT INTO un2 VALUES (1,70),(2,70),(3,80),(4,70),(4,71)")
			if got := one(t, db, "SELECT COUNT(*) FROM un2"); got != "0" {
				t.Errorf("%s rows of the INSERT that failed are there", got)
			}
		})
	})
}
