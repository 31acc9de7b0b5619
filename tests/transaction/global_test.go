package transaction

import (
	"fmt"
	"testing"

	"braid/conf"
)

// withGlobal adds a global table g(k, v) with the rows (1,0) and (2,0).
func withGlobal(t *testing.T, f func(t *testing.T, w *world)) {
	t.Helper()
	eachWith(t, func(c *conf.Config) {
		c.Databases[0].Tables = append(c.Databases[0].Tables, conf.Table{Name: "g", Kind: "global"})
	}, func(t *testing.T, w *world) {
		w.client(t).ok("CREATE TABLE g(k INT PRIMARY KEY, v INT NOT NULL)", "INSERT INTO g VALUES (1,0),(2,0)")
		f(t, w)
	})
}

// T15: writers of one global row wait for each other on its first copy; none is
// a victim, whether its text goes to the shards or its rows are gathered.
func TestT15GlobalWriters(t *testing.T) {
	const writers, writes = 4, 25
	for name, text := range map[string]string{
		"split":    "UPDATE g SET v=v+1 WHERE k=1",
		"gathered": "UPDATE g SET v=v+1+FLOOR(RAND()*0) WHERE k=1",
	} {
		t.Run(name, func(t *testing.T) {
			withGlobal(t, func(t *testing.T, w *world) {
				failed := make(chan error, writers)
				for range writers {
					c := w.client(t)
					go func() {
						for range writes {
							if code := c.code(text); code != 0 {
								failed <- fmt.Errorf("error %d", code)
								return
							}
						}
						failed <- nil
					}()
				}
				for range writers {
					if err := <-failed; err != nil {
						t.Error(err)
					}
				}
				for i, place := range w.braid.Shards() {
					if got := numbers(t, w.node[i%2], "SELECT v FROM "+place.Schema+".g WHERE k=1"); got[0] != writers*writes {
						t.Errorf("shard %s: %d, want %d", place.Shard, got[0], writers*writes)
					}
				}
			})
		})
	}
}

// A transaction reads global tables where it already is, and sees its own writes
// there.
func TestGlobalReadsStay(t *testing.T) {
	withGlobal(t, func(t *testing.T, w *world) {
		const open = "SELECT trx_mysql_thread_id FROM information_schema.INNODB_TRX"
		for at := range 2 {
			for range 4 { // of as many sessions, each on its own shard by itself
				c := w.client(t)
				c.ok("BEGIN", update(w.at[at][0], 1))
				if got := c.one("SELECT SUM(v) FROM g"); got != "0" {
					t.Errorf("sum %s", got)
				}
				until(t, "a transaction on one node only", func() bool {
					return len(numbers(t, w.node[at], open)) == 1 && len(numbers(t, w.node[1-at], open)) == 0
				})
				c.ok("UPDATE g SET v=v+7 WHERE k=2")
				if got := c.one("SELECT v FROM g WHERE k=2"); got != "7" {
					t.Errorf("v %s, want its own 7", got)
				}
				c.ok("ROLLBACK")
			}
		}
	})
}

// M5: what a function gives that never answers the same twice is one value on
// all copies of a global table: as a value, as a default, in an UPDATE, and in
// rows of a query.
func TestGlobalCopiesAlike(t *testing.T) {
	eachWith(t, func(c *conf.Config) {
		for _, name := range []string{"u", "n"} {
			c.Databases[0].Tables = append(c.Databases[0].Tables, conf.Table{Name: name, Kind: "global"})
		}
	}, func(t *testing.T, w *world) {
		c := w.client(t)
		c.ok("CREATE TABLE u(k INT PRIMARY KEY, a VARCHAR(40) NOT NULL DEFAULT (UUID()), r DOUBLE, s DATETIME(6))",
			"CREATE TABLE n(id INT AUTO_INCREMENT PRIMARY KEY, v INT)")
		for _, text := range []string{
			"INSERT INTO u VALUES (1,UUID(),RAND(),SYSDATE(6))",
			"INSERT INTO u(k,a,r) VALUES (2,UUID(),RAND()),(3,CONCAT('x',UUID()),7)",
			"INSERT INTO u(r,k) VALUES (1.5,4),(2.5,5)",
			"INSERT INTO u VALUES (6,DEFAULT,1,NULL),(7,'plain',RAND(),NULL)",
			"INSERT INTO u SET k=8",
			"INSERT INTO u(k) SELECT k+100 FROM (SELECT k FROM u) x",
			"REPLACE INTO u(k,r) VALUES (4,RAND()*100)",
			"UPDATE u SET r=RAND(), s=SYSDATE(6) WHERE k>100",
			"UPDATE u SET a=DEFAULT WHERE k=7",
			"INSERT INTO n(v) VALUES (1),(2)",
			"INSERT INTO n(v) SELECT k FROM u",
			"INSERT INTO n(v) VALUES (3)",
		} {
			c.ok(text)
			for _, sum := range []string{"SELECT COUNT(DISTINCT a)*1000+COUNT(*) FROM %s.u", "SELECT CRC32(GROUP_CONCAT(k,a,COALESCE(r,'-'),COALESCE(s,'-') ORDER BY k)) FROM %s.u",
				"SELECT CRC32(COALESCE(GROUP_CONCAT(id,'/',v ORDER BY id),'')) FROM %s.n"} {
				var first int
				for i, place := range w.braid.Shards() {
					got := numbers(t, w.node[i%2], fmt.Sprintf(sum, place.Schema))[0]
					if i == 0 {
						first = got
					} else if got != first {
						t.Errorf("after %s: shard %s differs: %s", text, place.Shard, sum)
					}
				}
			}
		}
		if got := c.ok("SELECT COUNT(*), COUNT(DISTINCT a) FROM u")[0]; got[0] != "16" || got[1] != "16" {
			t.Errorf("rows and different values: %v", got)
		}
	})
}
