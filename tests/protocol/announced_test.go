package protocol

import (
	"strings"
	"testing"

	"braid/tests/wire"
)

func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }

// TestAnnounced compares what PREPARE and the first executions behind it announce
// and warn of.
func TestAnnounced(t *testing.T) {
	beside(t, caseTables(), []script{
		{"B073 cursors over altered tables", func(w *worker) {
			setup(w, "DROP TABLE IF EXISTS t", "CREATE TABLE t(k INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1,1),(2,2),(3,3)")
			s, grouped := w.prepare("SELECT * FROM t ORDER BY k"), w.prepare("SELECT COUNT(*), v FROM t GROUP BY v ORDER BY v")
			each := func() {
				r, err := s.Open()
				w.results("EXECUTE with a cursor", r, err)
				rows, err := s.Fetch(10)
				w.results("FETCH", []wire.Result{*rows}, err)
				w.execute(grouped)
			}
			each()
			for _, text := range []string{"ALTER TABLE t MODIFY v VARCHAR(20)", "ALTER TABLE t ADD COLUMN z INT", "ALTER TABLE t DROP COLUMN v, ADD COLUMN v INT"} {
				query(w.t, w.c, text)
				each()
				each()
			}
		}},
		{"warnings of PREPARE, and of statements without tables behind them", func(w *worker) {
			tableI(w)
			for _, text := range []string{"SELECT 1 FROM DUAL WHERE 1/0", "SELECT BINARY 'a'", "SELECT CAST('x' AS SIGNED)", "SELECT x FROM i WHERE k=1", "DO 1", "SELECT BINARY 'b', k FROM i ORDER BY k"} {
				for range 2 {
					s := w.prepare(text)
					w.say("%d warnings", s.Warnings)
					w.query("SHOW WARNINGS")
					w.execute(s)
					w.query("SHOW WARNINGS")
					w.query("SHOW COUNT(*) WARNINGS")
				}
				w.query("PREPARE p FROM " + quoted(text))
				w.query("SHOW WARNINGS")
			}
			for _, text := range []string{"SELECT 1", "SET @a=1", "SET SESSION sql_safe_updates=0", "BEGIN", "SAVEPOINT s", "COMMIT", "DO 2", "SELECT @@sql_mode IS NULL", "SELECT @@warning_count",
				"SELECT 1 FROM i WHERE k=1", "SELECT COUNT(*) FROM i", "SHOW TABLES LIKE 'nosuch'", "SELECT * FROM information_schema.engines WHERE 1=0", "SELECT nosuch", "SET @x=1/0"} {
				w.query("SELECT CAST('x' AS SIGNED), 1/0")
				w.query(text)
				w.query("SHOW WARNINGS")
			}
		}},
		{"schema changes are prepared unseen", func(w *worker) {
			for _, text := range []string{"DROP TABLE nosuch", "RENAME TABLE nosuch TO x, y TO z", "ALTER TABLE nosuch ADD c INT", "TRUNCATE TABLE nosuch", "CREATE INDEX i ON nosuch(a)", "DROP VIEW nosuch", "DROP TABLE IF EXISTS nosuch",
				"SELECT 1 INTO @a"} {
				s := w.prepare(text)
				w.execute(s)
			}
			r, err := w.prepare("SELECT 1 INTO @a").Open()
			w.results("INTO with a cursor", r, err)
		}},
	})
}
