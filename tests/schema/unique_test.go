package schema

import (
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/go-sql-driver/mysql"

	"braid/conf"
	"braid/tests/e2e"
)

// lockedTables have unique keys without the sharding key, whose values are locked.
var lockedTables = []conf.Table{
	{Name: "u", Kind: "sharded", Key: []string{"k"}, UniqueCheck: "lock"},
	{Name: "src", Kind: "single"},
	{Name: "ids", Kind: "sharded", Key: []string{"owner"}, UniqueCheck: "lock"},
}

const makeLocked = "CREATE TABLE u(k INT PRIMARY KEY, mail VARCHAR(20), n INT, d DECIMAL(6,2), b VARBINARY(8), note INT, UNIQUE KEY mail (mail), UNIQUE KEY nd (n, d), UNIQUE KEY b (b)) DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci"

// TestLockedUniqueKeys runs statements that write values of unique keys without
// the sharding key (rule W2) here and on one server with all the rows: outcomes,
// errors' texts and rows are the same, in autocommit and in transactions.
func TestLockedUniqueKeys(t *testing.T) {
	flavours(t, lockedTables, func(t *testing.T, b *e2e.Braid) {
		server := lab.Server(t, b.Flavour(), "plain")
		e2e.Recreate(t, server, "shop")
		db, plain := pooled(b.Open(t)), pooled(e2e.Open(t, server, "shop"))
		both := func(text string) { t.Helper(); exec(t, db, text); exec(t, plain, text) }
		both(makeLocked)
		both("CREATE TABLE src(k INT PRIMARY KEY, mail VARCHAR(20))")
		both("INSERT INTO src VALUES (50,'fifty'),(51,'fiftyone'),(52,'A@x')")
		compare := func(text string) {
			t.Helper()
			if got, want := outcome(t, db, text, false), outcome(t, plain, text, false); got != want {
				t.Errorf("%s\n  braid: %s\n  plain: %s", text, got, want)
			}
			if got, want := contents(t, db, "u"), contents(t, plain, "u"); got != want {
				t.Fatalf("%s\n  braid holds %s\n  plain holds %s", text, got, want)
			}
		}
		texts := []string{
			"INSERT INTO u(k, mail) VALUES (1,'a@x')",
			"INSERT INTO u(k, mail) VALUES (2,'a@x')",
			"INSERT INTO u(k, mail) VALUES (3,'A@X')",
			"INSERT INTO u(k, mail) VALUES (3,'a@x '),(4,'q')",
			"INSERT INTO u(k, mail) VALUES (3,NULL),(4,NULL)",
			"INSERT INTO u(k, mail, n, d) VALUES (5,'b@x',1,1.5),(6,'c@x',1,1.25),(7,'d@x',NULL,1.5)",
			"INSERT INTO u(k, n, d) VALUES (8,1,'1.50')",
			"INSERT INTO u(k, n, d) VALUES (8,2,1.50),(9,'2',1.5),(10,2,'x')",
			"INSERT INTO u(k, mail) VALUES (11,'e@x'),(12,'E@x'),(5,'f@x')",
			"INSERT INTO u(k, mail) VALUES (11,'e@x'),(5,'f@x'),(12,'E@x')",
			"INSERT INTO u(k, mail) VALUES (20,'a very long mail that does not fit'),(21,'a@x')",
			"INSERT INTO u(k, mail) VALUES (21,'a@x'),(20,'a very long mail that does not fit')",
			"INSERT INTO u(k, b) VALUES (30,x'00ff41'),(31,x'00ff4100')",
			"INSERT INTO u(k, b) VALUES (32,x'00ff41')",
			"INSERT INTO u SET k=33, mail=CONCAT('c','@x')",
			"INSERT INTO u SET k=33, mail=CONCAT('g','@x')",
			"UPDATE u SET mail='b@x' WHERE k=1",
			"UPDATE u SET mail='B@x' WHERE k=5",
			"UPDATE u SET mail='new' WHERE mail='c@x'",
			"UPDATE u SET mail='all' WHERE k IN (1,5,6)",
			"UPDATE u SET mail='all' WHERE k > 900",
			"UPDATE u SET mail='c@x', note=1 WHERE k=7",
			"UPDATE u SET mail='b@X' WHERE k=7",
			"UPDATE u SET mail=NULL WHERE k IN (5,6)",
			"UPDATE u SET n=1, d=1.25 WHERE k=7",
			"UPDATE u SET n=1, d=1.26 WHERE k=7",
			"INSERT INTO u(k, mail) VALUES (34,'b@x')",
			"DELETE FROM u WHERE k=34",
			"INSERT INTO u(k, mail) VALUES (35,'b@x')",
			"INSERT INTO u(k, mail) SELECT k, mail FROM src WHERE k < 52",
			"INSERT INTO u(k, mail) SELECT k+10, mail FROM src ORDER BY k DESC",
			"UPDATE u SET k=60 WHERE k=50",
			"UPDATE u SET k=60 WHERE k=51",
			"TRUNCATE TABLE u",
			"INSERT INTO u(k, mail) VALUES (2,'a@x')",
		}
		for _, text := range texts {
			compare(text)
		}
		both("TRUNCATE TABLE u")
		for _, text := range texts {
			if strings.HasPrefix(text, "TRUNCATE") {
				continue
			}
			both("BEGIN")
			compare("INSERT INTO u(k, mail) VALUES (70,'t@x')")
			compare(text)
			compare("INSERT INTO u(k, mail) VALUES (71,'T@x')")
			compare("INSERT INTO u(k, mail) VALUES (71,'s@x')")
			both("ROLLBACK")
			compare(text)
		}
		both("TRUNCATE TABLE u")
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		r := rand.New(rand.NewPCG(seed, 1))
		value := func() string { return []string{"NULL", "'a'", "'b'", "'B'", "'c'", "'d '", "'d'", "7"}[r.IntN(8)] }
		for i := range 150 {
			var text string
			switch r.IntN(5) {
			case 0:
				text = fmt.Sprintf("UPDATE u SET mail=%s WHERE k %s %d", value(), []string{"=", ">"}[r.IntN(2)], r.IntN(20))
			case 1:
				text = fmt.Sprintf("DELETE FROM u WHERE k IN (%d,%d,%d,%d,%d)", r.IntN(20), r.IntN(20), r.IntN(20), r.IntN(20), r.IntN(20))
			case 2:
				text = fmt.Sprintf("INSERT INTO u(k, mail) VALUES (%d,%s)", r.IntN(20), value())
			default:
				var list []string
				for range 2 + r.IntN(3) {
					list = append(list, fmt.Sprintf("(%d,%s,%d,%d)", r.IntN(20), value(), r.IntN(9), r.IntN(9)))
				}
				text = "INSERT INTO u(k, mail, n, d) VALUES " + strings.Join(list, ",")
			}
			if i%20 == 0 {
				both("BEGIN")
			}
			if i%20 == 9 {
				both([]string{"ROLLBACK", "COMMIT"}[r.IntN(2)])
			}
			compareRandom(t, db, plain, text)
		}
	})
}

// compareRandom compares one statement whose UPDATE may stop at one of several
// rows: which key an error names is then the order of rows.
func compareRandom(t *testing.T, db, plain *sql.DB, text string) {
	t.Helper()
	got, want := outcome(t, db, text, false), outcome(t, plain, text, false)
	if got != want {
		t.Errorf("%s\n  braid: %s\n  plain: %s", text, got, want)
	}
	if got, want := contents(t, db, "u"), contents(t, plain, "u"); got != want {
		t.Fatalf("%s\n  braid holds %s\n  plain holds %s", text, got, want)
	}
}

// TestLockedUniqueKeysAtOnce lets clients insert and update to the same values at
// once, on different shards: one of them has each value afterwards.
func TestLockedUniqueKeysAtOnce(t *testing.T) {
	flavours(t, lockedTables, func(t *testing.T, b *e2e.Braid) {
		db := b.Open(t)
		exec(t, db, makeLocked)
		const values, clients = 15, 4
		for v := range values {
			exec(t, db, fmt.Sprintf("INSERT INTO u(k) VALUES (%d)", 1000+v))
		}
		won := make([]int, values)
		var mu sync.Mutex
		for v := range values {
			var wg sync.WaitGroup
			for c := range clients {
				wg.Go(func() {
					text := fmt.Sprintf("INSERT INTO u(k, mail) VALUES (%d,'v%d')", v*clients+c, v)
					if c == 3 {
						text = fmt.Sprintf("UPDATE u SET mail='V%d' WHERE k=%d", v, 1000+v)
					}
					tx, err := db.BeginTx(t.Context(), nil)
					if err != nil {
						t.Error(err)
						return
					}
					_, err = tx.ExecContext(t.Context(), text)
					var e *mysql.MySQLError
					if err != nil {
						if !errors.As(err, &e) || e.Number != 1062 && e.Number != 1213 {
							t.Errorf("%s: %v", text, err)
						}
						_ = tx.Rollback()
						return
					}
					if err := tx.Commit(); err != nil {
						t.Errorf("COMMIT of %s: %v", text, err)
						return
					}
					mu.Lock()
					defer mu.Unlock()
					won[v]++
				})
			}
			wg.Wait()
		}
		for v, n := range won {
			if n != 1 {
				t.Errorf("value v%d: %d clients have it, want 1", v, n)
			}
			if got := one(t, db, fmt.Sprintf("SELECT COUNT(*) FROM u WHERE mail='v%d'", v)); got != fmt.Sprint(n) {
				t.Errorf("value v%d is there %s times, told %d", v, got, n)
			}
		}
	})
}

// TestLockedUniqueKeysRefused names what may meet a row of another shard in a way
// that Braid does not carry out.
func TestLockedUniqueKeysRefused(t *testing.T) {
	flavours(t, lockedTables, func(t *testing.T, b *e2e.Braid) {
		db := pooled(b.Open(t))
		const locked = `unique_check = "lock"`
		refused(t, db, 1235, locked, "CREATE TABLE u(k INT PRIMARY KEY, mail VARCHAR(20), UNIQUE KEY m (mail(5)))")
		exec(t, db, makeLocked)
		exec(t, db, "CREATE TABLE ids(id BIGINT AUTO_INCREMENT PRIMARY KEY, owner INT NOT NULL)")
		exec(t, db, "INSERT INTO u(k, mail) VALUES (1,'a'),(2,'b')")
		for _, text := range []string{
			"REPLACE INTO u(k, mail) VALUES (3,'a')",
			"INSERT IGNORE INTO u(k, mail) VALUES (3,'a')",
			"INSERT INTO u(k, mail) VALUES (3,'a') ON DUPLICATE KEY UPDATE note=1",
			"UPDATE u SET mail=CONCAT(mail,'x')",
			"UPDATE u SET n=1 WHERE k=1",
			"UPDATE IGNORE u SET mail='a' WHERE k=2",
			"UPDATE u SET mail='c' ORDER BY k LIMIT 1",
			"UPDATE u SET mail='c', k=9 WHERE k=1",
			"ALTER TABLE u ADD UNIQUE KEY (note)",
			"CREATE UNIQUE INDEX x ON u(note)",
			"ALTER TABLE u MODIFY mail VARCHAR(30)",
			"LOAD DATA LOCAL INFILE 'Reader::x' INTO TABLE u (k, mail)",
		} {
			refused(t, db, 1235, locked, text)
		}
		exec(t, db, "LOCK TABLES u WRITE")
		refused(t, db, 1235, locked, "INSERT INTO u(k, mail) VALUES (3,'c')")
		exec(t, db, "UNLOCK TABLES")
		exec(t, db, "XA START 'x' /*braid shard=s0*/")
		refused(t, db, 1235, "XA", "INSERT INTO u(k, mail) VALUES (3,'c')")
		exec(t, db, "XA END 'x'")
		exec(t, db, "XA ROLLBACK 'x'")
		exec(t, db, "SET sql_mode=''")
		refused(t, db, 1235, "converts", "INSERT INTO u(k, mail) VALUES (3,'a text that is cut when it is stored')")
		exec(t, db, "SET sql_mode=DEFAULT")
		exec(t, db, "CREATE TRIGGER tr BEFORE INSERT ON u FOR EACH ROW SET NEW.note=1")
		refused(t, db, 1235, locked, "INSERT INTO u(k) VALUES (3)")
		if got := one(t, db, "SELECT GROUP_CONCAT(k, mail ORDER BY k) FROM u"); got != "1a,2b" {
			t.Errorf("the table holds %s", got)
		}

		exec(t, db, "INSERT INTO ids(owner) VALUES (1),(2),(3),(4)")
		if got := one(t, db, "SELECT COUNT(DISTINCT id) FROM ids"); got != "4" {
			t.Errorf("%s ids, want 4", got)
		}
		id := one(t, db, "SELECT id FROM ids WHERE owner=1")
		for owner := range 6 {
			refused(t, db, 1062, "Duplicate entry '"+id+"' for key", fmt.Sprintf("INSERT INTO ids(id, owner) VALUES (%s,%d)", id, owner))
		}
		stmt, err := db.PrepareContext(t.Context(), "INSERT INTO ids(id, owner) VALUES (?,?),(?,?)")
		if err != nil {
			t.Fatal(err)
		}
		defer stmt.Close()
		if _, err := stmt.ExecContext(t.Context(), 5001, 1, 5002, 2); err != nil {
			t.Error(err)
		}
		var e *mysql.MySQLError
		if _, err := stmt.ExecContext(t.Context(), 5003, 1, 5001, 3); !errors.As(err, &e) || e.Number != 1062 || !strings.Contains(e.Message, "'5001'") {
			t.Errorf("a prepared INSERT of an id that is there: %v", err)
		}
	})
}
