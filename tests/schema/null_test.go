package schema

import (
	"database/sql"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"braid/conf"
	"braid/tests/e2e"
)

// TestNullAmongRows writes NULL for NOT NULL columns under a sql_mode that is not
// strict: among several rows it is converted with a warning, wherever the rows
// go, and in a single row it is an error.
func TestNullAmongRows(t *testing.T) {
	tables := []conf.Table{
		{Name: "a", Kind: "sharded", Key: []string{"k"}},
		{Name: "ai", Kind: "sharded", Key: []string{"k"}},
		{Name: "w", Kind: "sharded", Key: []string{"k"}},
	}
	flavours(t, tables, func(t *testing.T, b *e2e.Braid) {
		server := lab.Server(t, b.Flavour(), "plain")
		e2e.Recreate(t, server, "shop")
		db, plain := pooled(b.Open(t)), pooled(e2e.Open(t, server, "shop"))
		both := func(text string) { t.Helper(); exec(t, db, text); exec(t, plain, text) }
		both("CREATE TABLE a(k INT PRIMARY KEY, v INT NOT NULL, s VARCHAR(5) NOT NULL, d DATE NOT NULL) DEFAULT CHARSET utf8mb4 COLLATE utf8mb4_general_ci")
		both("CREATE TABLE ai(id INT AUTO_INCREMENT, k INT, v INT NOT NULL, PRIMARY KEY(id, k))")
		both("CREATE TABLE w(k INT PRIMARY KEY, n INT NOT NULL DEFAULT 7, t VARCHAR(5) NOT NULL DEFAULT 'dflt', v INT DEFAULT 9)")
		both("SET sql_mode=''")
		compare := func(table, text string) {
			t.Helper()
			if got, want := outcome(t, db, text, false), outcome(t, plain, text, false); got != want {
				t.Errorf("%s\n  braid: %s\n  plain: %s", text, got, want)
			}
			if got, want := contents(t, db, table), contents(t, plain, table); got != want {
				t.Fatalf("%s\n  braid holds %s\n  plain holds %s", text, got, want)
			}
		}
		for _, inTx := range []bool{false, true} {
			for _, text := range []string{
				"INSERT INTO a VALUES (1,NULL,'x','2020-01-01')",
				"INSERT INTO a VALUES (1,NULL,NULL,NULL),(2,1,'x','2020-01-01'),(3,2,NULL,'2020-01-02')",
				"INSERT INTO a(v, k, s, d) VALUE (NULL,10,NULL,NULL),(1,11,'x','2020-01-01'),(2,12,'y','2020-01-02'),(3,13,'z','2020-01-03')",
				"INSERT INTO a VALUES (20,NULL,'ab',20200101),(21,x'41','a',NULL),(22,0x41,x'42',NULL),(23,b'11',1.5,'x')",
				"INSERT INTO a VALUES (30,NULL,'a','2020-01-01'),(31,1,'a text that is cut',NULL),(1,2,'a','2020-01-01')",
				"INSERT INTO a VALUES (30,1,'a','2020-01-01'),(31,NULL,'a',NULL),(2,NULL,'a',NULL),(1,NULL,NULL,NULL)",
				"INSERT INTO a VALUES (1,5,'a','2020-01-01'),(32,NULL,'b',NULL),(33,NULL,'c',NULL) ON DUPLICATE KEY UPDATE v=VALUES(v)+1, s='u'",
				"INSERT INTO a VALUES (1,NULL,NULL,NULL),(2,NULL,NULL,NULL),(34,NULL,'c',NULL) ON DUPLICATE KEY UPDATE v=VALUES(v)+1, s=VALUES(s)",
				"REPLACE INTO a VALUES (1,NULL,NULL,NULL),(2,5,'q','2021-01-01'),(35,6,'r',NULL)",
				"INSERT IGNORE INTO a VALUES (1,NULL,NULL,NULL),(36,NULL,'q',NULL),(37,6,'r',NULL)",
				"INSERT INTO a VALUES (40,1+1,NULL,CURDATE()),(41,NULLIF(1,1),CONCAT('a','b'),NULL)",
				"INSERT INTO a VALUES (60,NULL,DEFAULT,'2020-01-01'),(61,1,'x',DEFAULT),(62,DEFAULT,NULL,NULL)",
				"INSERT INTO a(s, k, v, d) VALUES (DEFAULT,63,NULL,NULL),(DEFAULT,64,NULL,NULL),(DEFAULT,65,NULL,NULL)",
				"INSERT INTO w VALUES (1,NULL,DEFAULT,DEFAULT),(2,DEFAULT,NULL,DEFAULT),(3,3,DEFAULT,NULL)",
				"INSERT INTO w(t, n, k) VALUES (DEFAULT,NULL,4),(NULL,DEFAULT,5),(NULL,NULL,6),('x',1,7)",
				"INSERT INTO w VALUES (8,NULL,DEFAULT,1),(9,DEFAULT,NULL,2) ON DUPLICATE KEY UPDATE v=VALUES(v)",
				"INSERT INTO w VALUES (8,NULL,DEFAULT,1),(9,DEFAULT,NULL,2) ON DUPLICATE KEY UPDATE t=VALUES(t), n=VALUES(n)",
				"REPLACE INTO w VALUES (8,NULL,DEFAULT,DEFAULT),(9,DEFAULT,NULL,DEFAULT)",
				"REPLACE INTO w VALUES (8,DEFAULT,'not strict',NULL),(9,NULL,DEFAULT,NULL),(10,NULL,NULL,DEFAULT)",
			} {
				if inTx {
					both("BEGIN")
					both("INSERT INTO a VALUES (50,0,'t',NOW()),(51,0,'t',NOW())")
				}
				table := "a"
				if strings.Contains(text, "INTO w") {
					table = "w"
				}
				compare(table, text)
				if inTx {
					both("COMMIT")
					both("DELETE FROM a")
					both("DELETE FROM w")
				}
			}
			both("DELETE FROM a")
			both("DELETE FROM w")
		}
		compare("ai", "INSERT INTO ai(k, v) VALUES (1,NULL),(2,NULL),(3,3)")
		compare("ai", "INSERT INTO ai VALUES (NULL,1,NULL),(0,2,NULL),(NULL,3,3)")
		r := rand.New(rand.NewPCG(7, 7))
		for range 60 {
			var list []string
			for range 2 + r.IntN(4) {
				list = append(list, fmt.Sprintf("(%d,%s,%s,%s)", r.IntN(40), []string{"NULL", "1", "'7x'", "DEFAULT"}[r.IntN(4)], []string{"NULL", "'s'", "5", "DEFAULT"}[r.IntN(4)], []string{"NULL", "'2022-02-02'", "DEFAULT"}[r.IntN(3)]))
			}
			compare("a", "INSERT INTO a VALUES "+strings.Join(list, ","))
		}
		both("DELETE FROM a")
		for _, c := range []*sql.DB{db, plain} {
			stmt, err := c.PrepareContext(t.Context(), "INSERT INTO a VALUES (?,?,?,?),(?,?,?,?),(?,?,?,?)")
			if err != nil {
				t.Fatal(err)
			}
			defer stmt.Close()
			if _, err := stmt.ExecContext(t.Context(), 1, nil, "a", nil, 2, 2.5, nil, "2020-02-02", 3, "7", 4, nil); err != nil {
				t.Errorf("a prepared INSERT: %v", err)
			}
		}
		compare("a", "DELETE FROM a WHERE k=9999")
	})
}
