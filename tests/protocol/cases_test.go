package protocol

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"strings"
	"sync"
	"testing"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"braid/conf"
	"braid/tests/e2e"
	"braid/tests/servers"
	"braid/tests/wire"
)

// script is a client's work; what it says is what a plain server's client would.
type script struct {
	name string // the cases of bugs.md it covers
	run  func(w *worker)
}

// worker is one client that carries out a script.
type worker struct {
	t     *testing.T
	o     wire.Options
	c     *wire.Conn
	lines []string
}

func (w *worker) say(format string, args ...any) {
	w.lines = append(w.lines, fmt.Sprintf(format, args...))
}

// results notes an answer with all there is to see.
func (w *worker) results(what string, r []wire.Result, err error) {
	for i := range r {
		x := &r[i]
		var b strings.Builder
		for _, col := range x.Columns {
			fmt.Fprintf(&b, " %s:%d", col.Name, col.Type)
		}
		for _, row := range x.Rows {
			b.WriteString(" (")
			for _, cell := range row {
				switch {
				case cell == nil:
					b.WriteString(" NULL")
				case len(cell) > 200:
					fmt.Fprintf(&b, " %d bytes %x", len(cell), crc32.ChecksumIEEE(cell))
				default:
					fmt.Fprintf(&b, " %q", cell)
				}
			}
			b.WriteString(" )")
		}
		if x.Err != nil {
			fmt.Fprintf(&b, " error %d %s %s", x.Err.Code, x.Err.State, x.Err.Message)
		}
		w.say("%.120s:%s status %x warnings %d affected %d id %d %s", what, b.String(),
			x.OK.Status&^(gomysql.SERVER_STATUS_NO_INDEX_USED|gomysql.SERVER_STATUS_NO_GOOD_INDEX_USED), x.OK.Warnings, x.OK.AffectedRows, x.OK.InsertID, x.OK.Info)
	}
	if err != nil {
		w.say("%.120s: %v", what, err)
	}
}

func (w *worker) query(text string) {
	r, err := w.c.Query(text)
	w.results(text, r, err)
}

// prepare notes what PREPARE says; nil when it was refused.
func (w *worker) prepare(text string) *wire.Statement {
	s, err := w.c.Prepare(text)
	if err != nil {
		w.say("PREPARE %.100s: %v", text, err)
		return nil
	}
	w.say("PREPARE %.100s: %d parameters, %d columns", text, s.Params, len(s.Columns))
	return s
}

func (w *worker) execute(s *wire.Statement, params ...wire.Param) {
	if s == nil {
		return
	}
	r, err := s.Execute(params...)
	w.results("EXECUTE", r, err)
}

// beside runs scripts on a plain server and on Braid over four shards, with and
// without CLIENT_DEPRECATE_EOF, and compares what they say.
func beside(t *testing.T, tables []conf.Table, scripts []script) {
	besideWith(t, flavours, 0, tables, scripts)
}

// besideWith is beside for some flavours, with further capabilities of the client.
func besideWith(t *testing.T, flavours []servers.Flavour, more uint32, tables []conf.Table, scripts []script) {
	for _, flavour := range flavours {
		for _, flags := range []uint32{more, more | gomysql.CLIENT_DEPRECATE_EOF} {
			b := lab.StartBraid(t, e2e.Topology{Flavour: flavour, Nodes: 2, Shards: 4, Tables: tables})
			direct := plain(t, flavour)
			for _, s := range scripts {
				t.Run(fmt.Sprintf("%s/%x/%s", flavour, flags, s.name), func(t *testing.T) {
					var said [2][]string
					for i, o := range []wire.Options{direct, b.Wire()} {
						o.Flags |= flags
						w := &worker{t: t, o: o}
						w.c = connect(t, o)
						s.run(w)
						said[i] = w.lines
					}
					for i := range max(len(said[0]), len(said[1])) {
						var a, b string
						if i < len(said[0]) {
							a = said[0][i]
						}
						if i < len(said[1]) {
							b = said[1][i]
						}
						if a != b {
							t.Errorf("Braid: %s\nplain: %s", shorten(b), shorten(a))
						}
					}
				})
			}
			b.Stop()
		}
	}
}

// param is a parameter of any type.
func param(typ byte, unsigned bool, value ...byte) wire.Param {
	return wire.Param{Type: typ, Unsigned: unsigned, Value: value}
}

func setup(w *worker, texts ...string) {
	w.t.Helper()
	for _, text := range texts {
		query(w.t, w.c, text)
	}
}

func caseTables() []conf.Table {
	return append(tables(),
		conf.Table{Name: "i", Kind: "sharded", Key: []string{"k"}},
		conf.Table{Name: "a", Kind: "sharded", Key: []string{"k"}},
		conf.Table{Name: "s", Kind: "sharded", Key: []string{"c"}},
		conf.Table{Name: "bl", Kind: "sharded", Key: []string{"k"}})
}

func tableI(w *worker) {
	setup(w, "DROP TABLE IF EXISTS i", "CREATE TABLE i(k INT PRIMARY KEY, x INT)", "INSERT INTO i VALUES (0,0),(1,10),(2,20),(49,490),(-1,-10),(5,NULL)")
}

func tableA(w *worker) {
	setup(w, "DROP TABLE IF EXISTS a", "CREATE TABLE a(k INT PRIMARY KEY, g VARCHAR(10), v INT)",
		"INSERT INTO a VALUES (1,'x',1),(2,'x',2),(3,'y',2),(4,NULL,5),(5,'x',4),(6,NULL,NULL)")
}

func TestPreparedCases(t *testing.T) {
	beside(t, caseTables(), []script{
		{"B064 B069 B082 parameters", func(w *worker) {
			tableI(w)
			s := w.prepare("SELECT k,x FROM i WHERE k=? OR x=? ORDER BY k")
			for _, p := range [][2]int64{{1, 20}, {2, 10}, {1, 20}, {49, 490}} {
				w.execute(s, wire.Int(p[0]), wire.Int(p[1]))
			}
			r, err := s.ExecuteWith(0, false, wire.Int(5), wire.Int(0))
			w.results("EXECUTE without types", r, err)
			w.execute(w.prepare("SELECT * FROM i WHERE x = ?"), wire.Null())
			w.execute(w.prepare("INSERT INTO i VALUES (?,?)"), wire.Int(200), wire.Null())
			w.execute(w.prepare("SELECT ? IS NULL, ? IS NULL"), wire.Null(), wire.Text(""))
			w.query("SELECT * FROM i ORDER BY k")
			w.prepare("UPDATE i SET x=? WHERE k=?")
			w.prepare("SELECT ?, '?' , x /* ? */ FROM i WHERE k=? -- ?")
			w.prepare("SELECT nosuch FROM i")
			w.prepare("SELEC 1")
		}},
		{"B066 B067 signs", func(w *worker) {
			s := w.prepare("SELECT ?")
			w.execute(s, param(gomysql.MYSQL_TYPE_LONGLONG, true, bytes.Repeat([]byte{0xff}, 8)...))
			w.execute(s, param(gomysql.MYSQL_TYPE_LONG, true, bytes.Repeat([]byte{0xff}, 4)...))
			w.execute(s, param(gomysql.MYSQL_TYPE_TINY, false, 0xff))
			w.execute(w.prepare("DO ?"), param(gomysql.MYSQL_TYPE_TINY, true, 1))
			setup(w, "DROP TABLE IF EXISTS t", "CREATE TABLE t(k INT PRIMARY KEY, n INT UNSIGNED)", "INSERT INTO t VALUES (1,0)")
			w.execute(w.prepare("UPDATE t SET n=? WHERE k=?"), param(gomysql.MYSQL_TYPE_LONG, false, 0xff, 0xff, 0xff, 0xff), param(gomysql.MYSQL_TYPE_LONG, false, 1, 0, 0, 0))
			w.query("SELECT * FROM t")
		}},
		{"B070 null bitmaps", func(w *worker) {
			for n := 1; n <= 40; n += 3 {
				setup(w, "DROP TABLE IF EXISTS t")
				var cols, one, two []string
				for c := range n {
					cols = append(cols, fmt.Sprintf("c%d %s", c, []string{"INT", "VARCHAR(9)", "DATETIME", "DOUBLE"}[c%4]))
					v := []string{"7", "'a'", "'2024-01-01'", "1.5"}[c%4]
					if c%2 == 0 {
						one, two = append(one, "NULL"), append(two, v)
					} else {
						one, two = append(one, v), append(two, "NULL")
					}
				}
				setup(w, "CREATE TABLE t(k INT PRIMARY KEY, "+strings.Join(cols, ",")+")",
					"INSERT INTO t VALUES (1,"+strings.Join(one, ",")+"),(2,"+strings.Join(two, ",")+"),(3,"+strings.Join(one, ",")+")")
				w.execute(w.prepare("SELECT * FROM t ORDER BY k"))
				w.execute(w.prepare("SELECT * FROM t WHERE k=?"), wire.Int(2))
			}
		}},
		{"B072 long data", func(w *worker) {
			setup(w, "DROP TABLE IF EXISTS bl", "CREATE TABLE bl(k INT PRIMARY KEY, b LONGBLOB)")
			s := w.prepare("INSERT INTO bl VALUES (?,?)")
			long := func(k int64, sizes ...int) {
				for i, n := range sizes {
					if err := s.LongData(1, bytes.Repeat([]byte{byte('a' + i)}, n)); err != nil {
						w.t.Fatal(err)
					}
				}
				w.execute(s, wire.Int(k), param(gomysql.MYSQL_TYPE_BLOB, false))
			}
			long(1, 0, 1, 8191, 8192, 100000, 1<<20, 3, 2<<20, 5)
			if err := s.LongData(1, []byte("dropped")); err != nil {
				w.t.Fatal(err)
			}
			if err := s.Reset(); err != nil {
				w.t.Fatal(err)
			}
			w.execute(s, wire.Int(2), wire.Blob([]byte("x")))
			w.execute(s, wire.Int(3), wire.Blob([]byte("gone after EXECUTE")))
			w.query("SELECT k, LENGTH(b), CRC32(b) FROM bl ORDER BY k")
		}},
		{"B073 altered tables", func(w *worker) {
			setup(w, "DROP TABLE IF EXISTS t", "CREATE TABLE t(k INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1,1),(2,2),(3,3)")
			one, all := w.prepare("SELECT * FROM t WHERE k=?"), w.prepare("SELECT * FROM t ORDER BY k")
			other := connect(w.t, w.o)
			each := func() {
				w.execute(one, wire.Int(1))
				w.execute(all)
			}
			each()
			query(w.t, other, "ALTER TABLE t ADD COLUMN z INT DEFAULT 7 FIRST")
			each()
			w.prepare("SELECT * FROM t WHERE k=?")
			query(w.t, other, "ALTER TABLE t DROP COLUMN z")
			each()
			query(w.t, other, "DROP TABLE t")
			each()
		}},
		{"B078 statements end with the session", func(w *worker) {
			tableI(w)
			s := w.prepare("SELECT x FROM i WHERE k=?")
			w.execute(s, wire.Int(1))
			if _, err := w.c.Command(gomysql.COM_RESET_CONNECTION, nil); err != nil {
				w.t.Fatal(err)
			}
			_, err := s.Execute(wire.Int(1))
			w.say("after COM_RESET_CONNECTION: %d", code(err))
			w.execute(w.prepare("SELECT x FROM i WHERE k=?"), wire.Int(2))
		}},
		{"B079 PREPARE in SQL", func(w *worker) {
			tableI(w)
			for _, text := range []string{"PREPARE p FROM 'SELECT ?+1, ?'", "SET @a=3,@b='x'", "EXECUTE p USING @a,@b", "EXECUTE p USING @a", "DEALLOCATE PREPARE p",
				"EXECUTE p USING @a,@b", "SET @q='SELECT k FROM i WHERE k=?'", "PREPARE p FROM @q", "SET @k='2'", "EXECUTE p USING @k"} {
				w.query(text)
			}
		}},
		{"B081 parameters everywhere", func(w *worker) {
			tableA(w)
			s := w.prepare("SELECT COUNT(*), COALESCE(?, MAX(g)) FROM a WHERE k IN (?,?,?) LIMIT ?")
			w.execute(s, wire.Text("z"), wire.Int(1), wire.Int(2), wire.Int(3), wire.Int(1))
			s = w.prepare("SELECT v+? AS w, COUNT(*) FROM a GROUP BY w ORDER BY w LIMIT ?,?")
			w.execute(s, wire.Int(10), wire.Int(1), wire.Int(2))
			s = w.prepare("SELECT k FROM a ORDER BY k LIMIT ? OFFSET ?")
			w.execute(s, wire.Int(2), wire.Int(3))
			s = w.prepare("INSERT INTO a VALUES (?,?,?) ON DUPLICATE KEY UPDATE v=v+?")
			w.execute(s, wire.Int(1), wire.Text("q"), wire.Int(5), wire.Int(100))
			w.query("SELECT * FROM a ORDER BY k")
		}},
		{"B087 text and bytes", func(w *worker) {
			setup(w, "DROP TABLE IF EXISTS s", "CREATE TABLE s(c VARCHAR(20) COLLATE utf8mb4_general_ci PRIMARY KEY, x INT)", "INSERT INTO s VALUES ('Alice',1),('bob',2)")
			s := w.prepare("SELECT x FROM s WHERE c=?")
			w.execute(s, wire.Text("ALICE"))
			w.execute(s, wire.Text("BOB"))
			w.execute(w.prepare("SELECT CONCAT(?,1), CHARSET(?)"), wire.Text("a"), wire.Text("b"))
			setup(w, "SET NAMES latin1")
			w.execute(w.prepare("SELECT CHARSET(?), HEX(?), LENGTH(?)"), wire.Text("\xe9"), wire.Text("\xe9"), wire.Text("\xe9"))
			w.execute(w.prepare("INSERT INTO s VALUES (?,3)"), wire.Text("\xe9t\xe9"))
			w.execute(w.prepare("SELECT x FROM s WHERE c=?"), wire.Text("\xc9T\xc9"))
			setup(w, "SET NAMES utf8mb4")
			w.query("SELECT HEX(c), x FROM s ORDER BY x")
		}},
		{"times and other types", func(w *worker) {
			setup(w, "DROP TABLE IF EXISTS t", "CREATE TABLE t(k INT PRIMARY KEY, d DATE, dt DATETIME(6), tm TIME(6), n DECIMAL(20,4), f DOUBLE)")
			s := w.prepare("INSERT INTO t VALUES (?,?,?,?,?,?)")
			date := param(gomysql.MYSQL_TYPE_DATE, false, 4, 0xe8, 7, 2, 29)
			stamp := param(gomysql.MYSQL_TYPE_DATETIME, false, 11, 0xe8, 7, 2, 29, 23, 59, 58, 0x40, 0xe2, 1, 0)
			clock := param(gomysql.MYSQL_TYPE_TIME, false, 12, 1, 1, 0, 0, 0, 2, 3, 4, 0x40, 0xe2, 1, 0)
			zero := param(gomysql.MYSQL_TYPE_TIME, false, 0)
			number := param(gomysql.MYSQL_TYPE_NEWDECIMAL, false, append([]byte{8}, "12345.67"...)...)
			for k := int64(1); k <= 5; k++ {
				w.execute(s, wire.Int(k), date, stamp, clock, number, wire.Float(0.1))
			}
			w.execute(s, wire.Int(6), wire.Null(), wire.Text("2024-02-29 01:02:03"), zero, wire.Text("1e2"), wire.Null())
			w.query("SELECT * FROM t ORDER BY k")
			w.execute(w.prepare("SELECT * FROM t ORDER BY k"))
			w.execute(w.prepare("SELECT k FROM t WHERE dt=? AND k=?"), stamp, wire.Int(3))
		}},
	})
}

// TestManyPrepareAtOnce: no client sees another's values (B064, B072), and
// statements are closed on the nodes (B085).
func TestManyPrepareAtOnce(t *testing.T) {
	for _, flavour := range flavours {
		t.Run(string(flavour), func(t *testing.T) {
			b := lab.StartBraid(t, e2e.Topology{Flavour: flavour, Nodes: 2, Shards: 4, Tables: caseTables(), Change: func(c *conf.Config) { c.Pool.StatementsMax = 16 }})
			c := connect(t, b.Wire())
			query(t, c, "CREATE TABLE bl(k INT PRIMARY KEY, b LONGBLOB)")
			var wg sync.WaitGroup
			for n := range 16 {
				wg.Add(1)
				go func() {
					defer wg.Done()
					c, err := wire.Connect(t.Context(), b.Wire())
					if err != nil {
						t.Error(err)
						return
					}
					if n%2 == 0 {
						defer c.Close()
					} else {
						defer c.Abort() // leaves its statements open
					}
					in, err := c.Prepare("INSERT INTO bl VALUES (?,?)")
					if err != nil {
						t.Error(err)
						return
					}
					for k := n * 100; k < n*100+10; k++ {
						want := bytes.Repeat([]byte{byte(n), byte(k)}, 20000+k)
						for at := 0; at < len(want); at += 9000 {
							if err := in.LongData(1, want[at:min(at+9000, len(want))]); err != nil {
								t.Error(err)
								return
							}
						}
						if _, err := in.Execute(wire.Int(int64(k)), param(gomysql.MYSQL_TYPE_BLOB, false)); err != nil {
							t.Error(err)
							return
						}
						if _, err := c.Prepare(fmt.Sprintf("SELECT nosuch%d", k)); code(err) != 1054 {
							t.Error(err)
						}
						out, err := c.Prepare(fmt.Sprintf("SELECT b, %d FROM bl WHERE k=?", k))
						if err != nil {
							t.Error(err)
							return
						}
						r, err := out.Execute(wire.Int(int64(k)))
						if err != nil || len(r[0].Rows) != 1 || !bytes.Equal(r[0].Rows[0][0], want) {
							t.Errorf("k=%d: another value, %v", k, err)
						}
						if k%2 == 0 {
							if err := out.Close(); err != nil {
								t.Error(err)
							}
						}
					}
				}()
			}
			wg.Wait()
			for _, node := range b.Nodes {
				var name string
				var open int
				if err := e2e.Open(t, node, "").QueryRowContext(t.Context(), "SHOW GLOBAL STATUS LIKE 'Prepared_stmt_count'").Scan(&name, &open); err != nil {
					t.Fatal(err)
				}
				if limit := 16 * b.Config.Pool.ConnectionsMax; open > limit {
					t.Errorf("%d statements are open on a node", open)
				}
			}
		})
	}
}

func TestWireCases(t *testing.T) {
	multi := func(w *worker) {
		w.c.Close()
		w.o.Flags |= gomysql.CLIENT_MULTI_STATEMENTS
		w.c = connect(w.t, w.o)
	}
	beside(t, caseTables(), []script{
		{"B149 multi-statements and errors", func(w *worker) {
			tableI(w)
			multi(w)
			w.query("SELECT 1; SELECT nosuch FROM i; SELECT 3")
			w.query("UPDATE i SET x=1 WHERE k=1; UPDATE i SET x=2 WHERE k=1; UPDATE i st x=3")
			w.query("SELECT * FROM i ORDER BY k")
			w.query("SELECT 1; SELEC 2; SELECT 3")
			w.query("SELECT 1;\nSELECT FROM; SELECT 3")
			w.query("SELECT 1; SELECT k FROM i WHERE; SELECT 3")
			w.query("SELECT 1; SELECT 'x; SELECT 3")
		}},
		{"B150 multi-statements and semicolons", func(w *worker) {
			tableI(w)
			w.query("SELECT 1; SELECT 2")
			w.query("SELECT 1;")
			multi(w)
			setup(w, "DROP TABLE IF EXISTS c", "CREATE TABLE c(id INT AUTO_INCREMENT PRIMARY KEY, u INT)")
			w.query("INSERT INTO c(u) VALUES (300); SELECT LAST_INSERT_ID() AS LID")
			w.query("SELECT ';'; SELECT 1 /* ; */; SELECT \"a;b\" -- ;\n; SELECT 2 ; ")
			w.query("BEGIN; INSERT INTO i VALUES (77,7); INSERT INTO i VALUES (78,8); COMMIT")
			w.query("SELECT 1; ; SELECT 2")
			w.query("SELECT 1; /* nothing */")
			w.query("SELECT k FROM i ORDER BY k; SELECT COUNT(*) FROM i; UPDATE i SET x=0")
			if _, err := w.c.Command(gomysql.COM_SET_OPTION, []byte{1, 0}); err != nil {
				w.t.Fatal(err)
			}
			w.query("SELECT 1; SELECT 2")
			if _, err := w.c.Command(gomysql.COM_SET_OPTION, []byte{0, 0}); err != nil {
				w.t.Fatal(err)
			}
			w.query("SELECT 1; SELECT 2")
			_, err := w.c.Command(gomysql.COM_SET_OPTION, []byte{9, 0})
			w.say("COM_SET_OPTION 9: %d", code(err))
		}},
		{"B152 answers of every kind", func(w *worker) {
			tableI(w)
			for _, text := range []string{"SELECT 1", "SELECT * FROM i WHERE k=-5", "SELECT * FROM i WHERE x=-5", "SELECT CAST('x' AS SIGNED)", "SHOW WARNINGS",
				"SELECT k FROM i ORDER BY k", "UPDATE i SET x=5 WHERE k>1", "UPDATE i SET x='y' WHERE k=1", "DELETE FROM i WHERE k=1", "INSERT INTO i VALUES (1,1),(100,2),(101,3)",
				"INSERT INTO i VALUES (1,1)", "INSERT IGNORE INTO i VALUES (1,1),(102,1)", "SELECT CAST('x' AS SIGNED), k FROM i ORDER BY k"} {
				w.query(text)
				w.execute(w.prepare(text))
			}
			w.execute(w.prepare("SELECT x FROM i WHERE k=?"), wire.Int(2))
		}},
		{"B159 errors amid rows", func(w *worker) {
			tableI(w)
			texts := []string{"SELECT k, (SELECT 1 UNION SELECT k) FROM i ORDER BY k", "SELECT k, (SELECT 1 UNION SELECT k) FROM i WHERE k=49",
				"SELECT k, EXP(k*20) FROM i", "SELECT k, EXP(k*20) FROM i ORDER BY k", "SELECT EXP(k*20) FROM i WHERE k=49"}
			if !strings.Contains(w.c.Version, "MariaDB") { // which does not know the hint
				texts = append(texts, "SELECT /*+ MAX_EXECUTION_TIME(10) */ k, BENCHMARK(2000000000, MD5(k)) FROM i ORDER BY k",
					"SELECT /*+ MAX_EXECUTION_TIME(10) */ k, BENCHMARK(2000000000, MD5(k)) FROM i WHERE k=49")
			}
			for _, text := range texts {
				r, err := w.c.Query(text)
				e := code(err)
				if err == nil && r[0].Err != nil {
					e = int(r[0].Err.Code)
				}
				w.say("%s: %d", text, e)
				w.query("SELECT 1")
				s := w.prepare(text)
				if s == nil {
					continue
				}
				r, err = s.Execute()
				if e = code(err); err == nil && r[0].Err != nil {
					e = int(r[0].Err.Code)
				}
				w.say("%s prepared: %d", text, e)
				w.query("SELECT COUNT(*) FROM i")
			}
		}},
		{"B161 commands", func(w *worker) {
			tableI(w)
			for _, cmd := range []byte{gomysql.COM_PING, gomysql.COM_INIT_DB, gomysql.COM_DEBUG, gomysql.COM_SLEEP, gomysql.COM_CREATE_DB, gomysql.COM_TIME, gomysql.COM_DELAYED_INSERT, 0x7f, 0xfe} {
				body := []byte{}
				if cmd == gomysql.COM_INIT_DB {
					body = []byte("shop")
				}
				ok, err := w.c.Command(cmd, body)
				if cmd == gomysql.COM_DEBUG {
					err = nil // the test's user may; Braid's clients are no administrators of nodes
					ok = wire.OK{}
				}
				w.say("command %d: %x %d", cmd, ok.Status, code(err))
			}
			for _, body := range [][]byte{{}, {1, 0}, {99, 0, 0, 0}} {
				for _, cmd := range []byte{gomysql.COM_STMT_RESET, gomysql.COM_STMT_FETCH, gomysql.COM_STMT_EXECUTE} {
					_, err := w.c.Command(cmd, append([]byte{}, body...))
					if len(body) == 4 {
						w.say("command %d of a statement that is none: %d", cmd, code(err))
					}
				}
			}
			w.query("SELECT 1")
		}},
	})
}

// TestLargePackets sends and reads values around the borders of packets, one
// shard and several, text and binary (B084, B147).
func TestLargePackets(t *testing.T) {
	for _, flavour := range flavours {
		t.Run(string(flavour), func(t *testing.T) {
			b := lab.StartBraid(t, e2e.Topology{Flavour: flavour, Nodes: 2, Shards: 4, Tables: caseTables()})
			c := connect(t, b.Wire())
			query(t, c, "CREATE TABLE bl(k INT PRIMARY KEY, b LONGBLOB)")
			head, foot := "INSERT INTO bl VALUES (1,'", "')"
			sizes := []int{1<<24 - 2, 1<<24 - 1, 1 << 24, 2*(1<<24-1) + 1}
			for _, payload := range sizes {
				n := payload - 1 - len(head) - len(foot)
				query(t, c, head+strings.Repeat("x", n)+foot)
				r := query(t, c, "SELECT b FROM bl WHERE k=1")
				if got := r[0].Rows[0][0]; len(got) != n || bytes.Count(got, []byte("x")) != n {
					t.Errorf("statement of %d bytes: %d of %d came back", payload, len(got), n)
				}
				query(t, c, "DELETE FROM bl")
			}
			in, err := c.Prepare("INSERT INTO bl VALUES (?,?)")
			if err != nil {
				t.Fatal(err)
			}
			fixed := 4 + 1 + 4 + 1 + 1 + 4 + 8 + 4 // of the execution, with the command byte's payload counted below
			for k, payload := range append(sizes, 20<<20) {
				value := bytes.Repeat([]byte{byte('a' + k)}, payload-1-fixed)
				if _, err := in.Execute(wire.Int(int64(k)), wire.Blob(value)); err != nil {
					t.Fatalf("execution of %d bytes: %v", payload, err)
				}
			}
			out, err := c.Prepare("SELECT k, b FROM bl ORDER BY k")
			if err != nil {
				t.Fatal(err)
			}
			for _, protocol := range []string{"text", "binary"} {
				var r []wire.Result
				if protocol == "text" {
					r = query(t, c, "SELECT k, b FROM bl ORDER BY k")
				} else if r, err = out.Execute(); err != nil {
					t.Fatal(err)
				}
				for k, payload := range append(sizes, 20<<20) {
					got := r[0].Rows[k][1]
					if n := payload - 1 - fixed; len(got) != n || bytes.Count(got, []byte{byte('a' + k)}) != n {
						t.Errorf("%s, %d: %d of %d bytes", protocol, k, len(got), n)
					}
				}
			}
			// More than max_allowed_packet: the error, and the connection closes.
			if _, err := c.Query("SELECT '" + strings.Repeat("x", 65<<20) + "'"); code(err) != 1153 && code(err) != -1 {
				t.Errorf("beyond max_allowed_packet: %v", err)
			}
		})
	}
}

// TestLongDataBeyondTheLimit is refused whole, not cut.
func TestLongDataBeyondTheLimit(t *testing.T) {
	b := lab.StartBraid(t, e2e.Topology{Flavour: servers.MariaDB, Tables: caseTables(), Change: func(c *conf.Config) { c.Proxy.PacketBytesMax = 1 << 20 }})
	c := connect(t, b.Wire())
	query(t, c, "CREATE TABLE bl(k INT PRIMARY KEY, b LONGBLOB)")
	s, err := c.Prepare("INSERT INTO bl VALUES (?,?)")
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := s.LongData(1, make([]byte, 500_000)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Execute(wire.Int(1), param(gomysql.MYSQL_TYPE_BLOB, false)); code(err) != 1105 {
		t.Errorf("1.5 MB under a limit of 1 MB: %v", err)
	}
	if got := value(t, c, "SELECT COUNT(*) FROM bl"); got != "0" {
		t.Errorf("%s rows", got)
	}
	if _, err := s.Execute(wire.Int(1), wire.Blob([]byte("afterwards"))); err != nil {
		t.Error(err)
	}
}

// TestQueryAttributes sends attributes with statements of both protocols.
func TestQueryAttributes(t *testing.T) {
	b := braid(t, servers.MySQL, nil)
	for i, o := range []wire.Options{plain(t, servers.MySQL), b.Wire()} {
		o.Flags |= gomysql.CLIENT_QUERY_ATTRIBUTES
		c := connect(t, o)
		query(t, c, "CREATE TABLE t(k INT PRIMARY KEY)")
		query(t, c, "INSERT INTO t VALUES (1),(2),(3)")
		// Two attributes: a string and an integer, then the text.
		body := []byte{2, 1, 0, 1, gomysql.MYSQL_TYPE_STRING, 0, 2, 'n', '1', gomysql.MYSQL_TYPE_LONG, 0, 2, 'n', '2', 3, 'v', 'a', 'l'}
		body = binary.LittleEndian.AppendUint32(body, 7)
		r, err := c.QueryRaw(append(body, "SELECT COUNT(*) FROM t"...))
		if err != nil || string(r[0].Rows[0][0]) != "3" {
			t.Errorf("%d: %v %v", i, r, err)
		}
		// An execution with one parameter and one attribute.
		s, err := c.Prepare("SELECT k FROM t WHERE k=?")
		if err != nil {
			t.Fatal(err)
		}
		args := []byte{8, 1, 0, 0, 0, 2, 0, 1, gomysql.MYSQL_TYPE_LONG, 0, 0, gomysql.MYSQL_TYPE_STRING, 0, 2, 'n', '1'}
		args = append(binary.LittleEndian.AppendUint32(args, 2), 3, 'v', 'a', 'l')
		r, err = s.ExecuteRaw(args)
		if err != nil || len(r[0].Rows) != 1 || r[0].Rows[0][0][0] != 2 {
			t.Errorf("%d: execution %v %v", i, r, err)
		}
		// Attributes that are cut off are an error, not a statement.
		if _, err := c.QueryRaw([]byte{5, 1, 0, 1, 3}); i == 1 && code(err) <= 0 {
			t.Errorf("cut off: %v", err)
		}
	}
}
