package protocol

import (
	"fmt"
	"testing"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"braid/tests/e2e"
	"braid/tests/wire"
)

// TestStoredPrograms calls procedures in a database of one shard beside a plain
// server: several results, errors amid them, and what a program leaves in its
// session and nowhere else.
func TestStoredPrograms(t *testing.T) {
	for _, flavour := range flavours {
		for _, flags := range []uint32{0, gomysql.CLIENT_DEPRECATE_EOF} {
			t.Run(fmt.Sprintf("%s/%x", flavour, flags), func(t *testing.T) {
				b := lab.StartBraid(t, e2e.Topology{Flavour: flavour})
				var said [2][]string
				for i, o := range []wire.Options{plain(t, flavour), b.Wire()} {
					o.Flags |= flags | gomysql.CLIENT_MULTI_STATEMENTS
					w := &worker{t: t, o: o}
					w.c = connect(t, o)
					setup(w, "CREATE TABLE c(k INT AUTO_INCREMENT PRIMARY KEY, v INT)",
						"CREATE PROCEDURE several(n INT) BEGIN SELECT n; INSERT INTO c(v) VALUES (n); SELECT k, v FROM c ORDER BY k; SET @left = n; END",
						"CREATE PROCEDURE fails() BEGIN SELECT 1; SET @left = 'before'; SELECT nosuch FROM c; END",
						"CREATE PROCEDURE quiet(OUT x INT) SET x = 77",
						"CREATE FUNCTION twice(n INT) RETURNS INT DETERMINISTIC RETURN n*2",
						"CREATE TRIGGER doubled BEFORE INSERT ON c FOR EACH ROW SET NEW.v = NEW.v*2")
					w.query("CALL several(7)")
					w.query("SELECT @left")
					w.query("CALL fails()")
					w.query("SELECT @left")
					w.query("CALL quiet(@x)")
					w.query("SELECT @x")
					w.query("SELECT twice(21)")
					w.query("BEGIN")
					w.query("CALL several(9)")
					w.query("ROLLBACK")
					w.query("SELECT v FROM c ORDER BY k")
					w.query("SELECT 1; CALL several(1); SELECT 2")
					w.execute(w.prepare("CALL several(?)"), wire.Int(3))
					w.query("CALL nosuch()")
					for range 3 {
						other := connect(t, o)
						r := query(t, other, "SELECT @left, @x")
						if r[0].Rows[0][0] != nil || r[0].Rows[0][1] != nil {
							t.Errorf("another session has %q", r[0].Rows[0])
						}
					}
					setup(w, "DROP PROCEDURE several", "DROP FUNCTION twice", "DROP TRIGGER doubled")
					said[i] = w.lines
				}
				for i := range max(len(said[0]), len(said[1])) {
					if i >= len(said[0]) || i >= len(said[1]) || said[0][i] != said[1][i] {
						t.Fatalf("Braid: %s\nplain: %s", shorten(fmt.Sprint(said[1][min(i, len(said[1])):])), shorten(fmt.Sprint(said[0][min(i, len(said[0])):])))
					}
				}
			})
		}
	}
}
