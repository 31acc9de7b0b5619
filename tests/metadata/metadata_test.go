package metadata

import (
	"fmt"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"braid/conf"
	"braid/tests/e2e"
	"braid/tests/servers"
	"braid/tests/wire"
)

var lab = e2e.NewLab()

func TestMain(m *testing.M) { os.Exit(lab.Main(m)) }

// sides are one client of Braid and one of a plain server with the same tables.
type sides struct {
	b            *e2e.Braid
	braid, plain *wire.Conn
	plainServer  *servers.Server
}

var tables = []conf.Table{
	{Name: "a", Kind: "sharded", Key: []string{"k"}},
	{Name: "g", Kind: "global"},
	{Name: "one", Kind: "single"},
	{Name: "far", Kind: "single", Shard: "s1"},  // on the other node
	{Name: "near", Kind: "single", Shard: "s2"}, // on the first shard's node
}

// each runs a test on each flavour: four shards on two nodes.
func each(t *testing.T, test func(t *testing.T, s *sides)) {
	for _, flavour := range []servers.Flavour{servers.MariaDB, servers.MySQL} {
		t.Run(string(flavour), func(t *testing.T) {
			s := &sides{b: lab.StartBraid(t, e2e.Topology{Flavour: flavour, Nodes: 2, Shards: 4, Tables: tables}), plainServer: lab.Server(t, flavour, "plain")}
			e2e.Recreate(t, s.plainServer, "shop")
			s.braid = connect(t, s.b.Wire())
			s.plain = connect(t, wire.Options{Addr: s.plainServer.Addr(), User: servers.User, Password: servers.Password, Database: "shop"})
			for _, text := range []string{
				"CREATE TABLE a(k INT PRIMARY KEY, v VARCHAR(20) DEFAULT 'x', KEY (v))",
				"CREATE TABLE g(k INT PRIMARY KEY, d DECIMAL(5,2) NOT NULL COMMENT 'shop_0')",
				"CREATE TABLE one(id INT PRIMARY KEY AUTO_INCREMENT, t TEXT)",
				"CREATE TABLE far(id INT PRIMARY KEY, b BLOB, e ENUM('x','y'), ts TIMESTAMP NULL)",
				"CREATE TABLE near(id INT PRIMARY KEY, u INT UNIQUE, f FLOAT, KEY fu (f,u))",
			} {
				s.both(t, text)
			}
			test(t, s)
		})
	}
}

func connect(t *testing.T, o wire.Options) *wire.Conn {
	t.Helper()
	c, err := wire.Connect(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func (s *sides) both(t *testing.T, text string) {
	t.Helper()
	for _, c := range []*wire.Conn{s.braid, s.plain} {
		if _, err := c.Query(text); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
}

// ask runs a statement as text or as a prepared one, and prints all of the
// answer but the values that keep tells to leave out.
func ask(c *wire.Conn, text string, prepared bool, values bool) string {
	var results []wire.Result
	var err error
	var b strings.Builder
	if prepared {
		var st *wire.Statement
		if st, err = c.Prepare(text); err == nil {
			fmt.Fprintf(&b, "announced %d %+v\n", st.Params, st.Columns)
			results, err = st.Execute()
			if closed := st.Close(); err == nil {
				err = closed
			}
		}
	} else {
		results, err = c.Query(text)
	}
	for _, r := range results {
		fmt.Fprintf(&b, "columns %+v\n%d rows, %d warnings, status %#x\n", r.Columns, len(r.Rows), r.OK.Warnings, r.OK.Status&^(gomysql.SERVER_STATUS_NO_INDEX_USED|gomysql.SERVER_STATUS_NO_GOOD_INDEX_USED))
		if values {
			for _, row := range r.Rows {
				fmt.Fprintf(&b, "%q\n", row)
			}
		}
	}
	if err != nil {
		fmt.Fprintf(&b, "error %v", err)
	}
	return b.String()
}

// same compares the answers to a statement, text and prepared.
func (s *sides) same(t *testing.T, text string, values bool) {
	t.Helper()
	for _, prepared := range []bool{false, true} {
		got, want := ask(s.braid, text, prepared, values), ask(s.plain, text, prepared, values)
		if got != want {
			t.Errorf("%s (prepared %v)\n--- Braid\n%s\n--- plain\n%s", text, prepared, got, want)
		}
	}
}

// TestTablesWhereverTheyAre lists and describes tables of every kind, on
// whichever shard they are: each once, by the database's name (B143).
func TestTablesWhereverTheyAre(t *testing.T) {
	each(t, func(t *testing.T, s *sides) {
		for _, text := range []string{
			"SHOW TABLES", "SHOW FULL TABLES", "SHOW TABLES LIKE '%a%'", "SHOW TABLES WHERE Tables_in_shop > 'f'",
			"DESC far", "DESCRIBE shop.near f", "SHOW COLUMNS FROM far LIKE 'e'", "SHOW FULL COLUMNS FROM shop.near", "EXPLAIN one", "SHOW FULL COLUMNS FROM g",
			"SHOW CREATE TABLE a", "SHOW CREATE TABLE far", "SHOW CREATE TABLE shop.near", "SHOW CREATE TABLE g",
			"SHOW KEYS FROM nosuch", "SHOW COLUMNS FROM nosuch", "SHOW CREATE TABLE shop.nosuch", "SHOW INDEX FROM near WHERE Key_name = 'fu'",
			"SELECT TABLE_NAME, TABLE_TYPE, ENGINE FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'shop' ORDER BY TABLE_NAME",
			"SELECT TABLE_SCHEMA, COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA LIKE 'sho%' GROUP BY TABLE_SCHEMA",
			"SELECT TABLE_NAME, COLUMN_NAME, ORDINAL_POSITION, COLUMN_DEFAULT, COLUMN_TYPE, COLUMN_COMMENT FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE() ORDER BY TABLE_NAME, ORDINAL_POSITION",
			"SELECT TABLE_NAME, INDEX_NAME, COLUMN_NAME, SEQ_IN_INDEX FROM information_schema.STATISTICS WHERE TABLE_SCHEMA = 'shop' ORDER BY TABLE_NAME, INDEX_NAME, SEQ_IN_INDEX",
			"SELECT TABLE_NAME, CONSTRAINT_NAME, CONSTRAINT_TYPE FROM information_schema.TABLE_CONSTRAINTS WHERE TABLE_SCHEMA = 'shop' ORDER BY TABLE_NAME, CONSTRAINT_NAME",
			"SELECT CONSTRAINT_SCHEMA, TABLE_NAME, COLUMN_NAME FROM information_schema.KEY_COLUMN_USAGE WHERE TABLE_SCHEMA = 'shop' ORDER BY TABLE_NAME, CONSTRAINT_NAME, COLUMN_NAME",
		} {
			s.same(t, text, !strings.Contains(text, "INDEX FROM near"))
		}
	})
}

// TestNoSchemaShows looks for names of the nodes' own: shards' schemas, Braid's
// schema, routines of other schemas.
func TestNoSchemaShows(t *testing.T) {
	each(t, func(t *testing.T, s *sides) {
		for _, place := range s.b.Shards() {
			db := e2e.Open(t, place.Node, place.Schema)
			for _, text := range []string{"CREATE PROCEDURE p() SELECT 1", "CREATE TRIGGER tr BEFORE INSERT ON a FOR EACH ROW SET NEW.v = 'y'"} {
				if _, err := db.ExecContext(t.Context(), text); err != nil {
					t.Fatal(err)
				}
			}
		}
		rows := map[string]int{
			"SHOW DATABASES": 2,
			"SHOW TRIGGERS":  1,
			"SHOW OPEN TABLES WHERE `Database` = 'braid'":                          0,
			"SHOW PROCEDURE STATUS WHERE Db = 'shop'":                              1,
			"SHOW PROCEDURE STATUS WHERE Name = 'p'":                               1,
			"SHOW CREATE PROCEDURE p":                                              1,
			"SHOW CREATE TRIGGER tr":                                               1,
			"SHOW CREATE DATABASE shop":                                            1,
			"SELECT SCHEMA_NAME FROM information_schema.SCHEMATA":                  2,
			"SELECT ROUTINE_SCHEMA, ROUTINE_NAME FROM information_schema.ROUTINES": 1,
			"SELECT TRIGGER_SCHEMA, EVENT_OBJECT_SCHEMA, EVENT_OBJECT_TABLE FROM information_schema.TRIGGERS":                                                        1,
			"SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES WHERE TABLE_TYPE = 'BASE TABLE'":                                                         5,
			"SELECT DISTINCT TABLE_SCHEMA FROM information_schema.COLUMNS WHERE TABLE_SCHEMA NOT IN ('information_schema')":                                          1,
			"SELECT 1 FROM information_schema.TABLES WHERE TABLE_SCHEMA LIKE 'shop\\_%' OR TABLE_SCHEMA IN ('braid', 'mysql', 'sys')":                                0,
			"SELECT SPECIFIC_NAME FROM information_schema.PARAMETERS WHERE SPECIFIC_SCHEMA = 'shop'":                                                                 0,
			"SELECT TABLE_NAME FROM information_schema.PARTITIONS WHERE TABLE_SCHEMA = 'shop'":                                                                       5,
			"SELECT CONSTRAINT_NAME FROM information_schema.REFERENTIAL_CONSTRAINTS WHERE UNIQUE_CONSTRAINT_SCHEMA IN ('shop', 'shop_0')":                            0,
			"SELECT t.TABLE_NAME FROM information_schema.TABLES t JOIN information_schema.SCHEMATA s ON s.SCHEMA_NAME = t.TABLE_SCHEMA WHERE s.SCHEMA_NAME = 'shop'": 5,
		}
		for text, want := range rows {
			results, err := s.braid.Query(text)
			if err != nil {
				t.Errorf("%s: %v", text, err)
				continue
			}
			if n := len(results[0].Rows); n != want {
				t.Errorf("%s: %d rows, want %d: %q", text, n, want, results[0].Rows)
			}
			for _, row := range results[0].Rows {
				for _, cell := range row {
					if strings.Contains(string(cell), "shop_") || string(cell) == "braid" {
						t.Errorf("%s shows %q", text, row)
					}
				}
			}
		}
		for _, text := range []string{"SELECT * FROM information_schema.PROCESSLIST", "SELECT * FROM information_schema.INNODB_TABLESTATS", "SELECT * FROM mysql.user", "SHOW BINARY LOGS", "SHOW ENGINE INNODB STATUS"} {
			if _, err := s.braid.Query(text); err == nil {
				t.Errorf("%s is answered", text)
			}
		}
	})
}

// TestSizesAreOfAllShards sums what the shards say of a sharded table.
func TestSizesAreOfAllShards(t *testing.T) {
	each(t, func(t *testing.T, s *sides) {
		var values []string
		for k := range 400 {
			values = append(values, fmt.Sprintf("(%d,'v%d')", k, k))
		}
		s.both(t, "INSERT INTO a VALUES "+strings.Join(values, ","))
		want := map[string]uint64{}
		for _, place := range s.b.Shards() {
			db := e2e.Open(t, place.Node, place.Schema)
			if _, err := db.ExecContext(t.Context(), "ANALYZE TABLE a"); err != nil {
				t.Fatal(err)
			}
			var rows, data, index uint64
			if s.b.Flavour() == servers.MySQL {
				setStats := "SET GLOBAL information_schema_stats_expiry = 0"
				if _, err := db.ExecContext(t.Context(), setStats); err != nil {
					t.Fatal(err)
				}
			}
			conn, err := db.Conn(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if s.b.Flavour() == servers.MySQL {
				if _, err := conn.ExecContext(t.Context(), "SET information_schema_stats_expiry = 0"); err != nil {
					t.Fatal(err)
				}
			}
			err = conn.QueryRowContext(t.Context(), "SELECT TABLE_ROWS, DATA_LENGTH, INDEX_LENGTH FROM information_schema.TABLES WHERE TABLE_SCHEMA = ? AND TABLE_NAME = 'a'", place.Schema).Scan(&rows, &data, &index)
			conn.Close()
			if err != nil {
				t.Fatal(err)
			}
			want["rows"] += rows
			want["data"] += data
			want["index"] += index
		}
		if want["rows"] < 300 {
			t.Fatalf("the shards count %d rows", want["rows"])
		}
		if s.b.Flavour() == servers.MySQL {
			if _, err := s.braid.Query("SET information_schema_stats_expiry = 0"); err != nil {
				t.Fatal(err)
			}
		}
		for _, text := range []string{"SHOW TABLE STATUS LIKE 'a'", "SELECT * FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'shop' AND TABLE_NAME = 'a'",
			"SELECT TABLE_ROWS, DATA_LENGTH, INDEX_LENGTH FROM information_schema.TABLES WHERE TABLE_NAME = 'a'"} {
			results, err := s.braid.Query(text)
			if err != nil || len(results[0].Rows) != 1 {
				t.Fatalf("%s: %v %v", text, results, err)
			}
			got := map[string]uint64{}
			for i, c := range results[0].Columns {
				for name, short := range map[string]string{"Rows": "rows", "TABLE_ROWS": "rows", "Data_length": "data", "DATA_LENGTH": "data", "Index_length": "index", "INDEX_LENGTH": "index"} {
					if c.Name == name {
						got[short], _ = strconv.ParseUint(string(results[0].Rows[0][i]), 10, 64)
					}
				}
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%s: %v, the shards sum to %v", text, got, want)
			}
		}
		for _, text := range []string{"SHOW TABLE STATUS WHERE Rows > 1", "SHOW TABLE STATUS WHERE Data_length > 1"} {
			if _, err := s.braid.Query(text); err == nil || !strings.Contains(err.Error(), "1235") {
				t.Errorf("%s: %v", text, err)
			}
		}
	})
}
