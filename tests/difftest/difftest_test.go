package difftest

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"
	"github.com/go-sql-driver/mysql"

	"braid/conf"
	"braid/tests/e2e"
	"braid/tests/servers"
	"braid/tests/wire"
)

var (
	lab      = e2e.NewLab()
	braidDSN = flag.String("braid", "", "TestInstallation: data source name of a Braid of yours, user:password@tcp(host:port)/database")
	plainDSN = flag.String("plain", "", "TestInstallation: data source name of one plain server, with a database of the same name")
	mark     = flag.Bool("mark", false, "TestBraidAgainstPlain: write what Braid refuses now into the case files")
	only     = flag.String("file", "", "run only this case file, such as reads")
)

func TestMain(m *testing.M) { os.Exit(lab.Main(m)) }

// load reads every case file.
func load(t *testing.T) []*File {
	t.Helper()
	paths, err := filepath.Glob("cases/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no case files: %v", err)
	}
	var files []*File
	for _, path := range paths {
		f, err := Load(path)
		if err != nil {
			t.Fatal(err)
		}
		if *only == "" || f.Name == *only {
			files = append(files, f)
		}
	}
	return files
}

func options(addr string, flags uint32) wire.Options {
	return wire.Options{Addr: addr, User: servers.User, Password: servers.Password, Database: database, Flags: flags}
}

// TestPlainAgainstPlain compares two plain servers of one flavour: what differs
// here is unstable, and no case may be.
func TestPlainAgainstPlain(t *testing.T) {
	for _, flavour := range []servers.Flavour{servers.MariaDB, servers.MySQL} {
		t.Run(string(flavour), func(t *testing.T) {
			one, two := lab.Server(t, flavour, "plain"), lab.Server(t, flavour, "node0")
			var total Tally
			for _, f := range load(t) {
				t.Run(f.Name, func(t *testing.T) {
					e2e.Recreate(t, one, database)
					e2e.Recreate(t, two, database)
					r := &Run{Braid: options(two.Addr(), gomysql.CLIENT_DEPRECATE_EOF), Plain: options(one.Addr(), gomysql.CLIENT_DEPRECATE_EOF),
						Flavour: flavour, NeverRefuse: true, Wrong: t.Errorf}
					tally, err := r.File(t.Context(), f)
					if err != nil {
						t.Fatal(err)
					}
					total.Add(tally)
				})
			}
			t.Logf("%s, plain against plain: %s", flavour, total)
		})
	}
}

// TestPlainAgainstOther shows that the harness sees differences: over a table
// whose rows and columns differ on the two sides, every kind of case must fail.
func TestPlainAgainstOther(t *testing.T) {
	plain := lab.Server(t, servers.MariaDB, "plain")
	e2e.Recreate(t, plain, "left", "right")
	db := e2e.Open(t, plain, "")
	for _, text := range []string{
		"CREATE TABLE left.t(k INT PRIMARY KEY, v INT)", "INSERT INTO left.t VALUES (1,1),(2,2),(3,3)",
		"CREATE TABLE right.t(k INT PRIMARY KEY, v INT UNSIGNED)", "INSERT INTO right.t VALUES (1,1),(2,3),(3,4)",
	} {
		if _, err := db.ExecContext(t.Context(), strings.NewReplacer("left.", "`left`.", "right.", "`right`.").Replace(text)); err != nil {
			t.Fatal(text, err)
		}
	}
	for _, c := range []struct {
		name string
		c    Case
		want string // part of the report
	}{
		{"rows", Case{Text: "SELECT v FROM t ORDER BY k", Ignore: []string{"schema", "length", "flags", "prepare"}}, "row 2"},
		{"rows as a set", Case{Text: "SELECT v FROM t", Ignore: []string{"schema", "length", "flags", "prepare"}}, "as sets"},
		{"sort keys", Case{Text: "SELECT v FROM t ORDER BY k", Order: OrderKeys, SortKeys: []int{1}, Ignore: []string{"schema", "length", "flags", "prepare"}}, "sort key 1"},
		{"number of rows", Case{Text: "SELECT k FROM t WHERE v = 4", ColumnsOnly: true, Ignore: []string{"schema", "prepare"}}, "1 rows"},
		{"schema", Case{Text: "SELECT k FROM t"}, "schema"},
		{"column flags", Case{Text: "SELECT v FROM t WHERE k = 1", Ignore: []string{"schema"}}, "flags"},
		{"column length", Case{Text: "SELECT v FROM t WHERE k = 1", Ignore: []string{"schema", "flags"}}, "length"},
		{"error text", Case{Text: "SELECT * FROM nosuch"}, "Table"},
		{"error or none", Case{Text: "INSERT INTO t SELECT 9, -1"}, "no error"},
		{"affected", Case{Text: "UPDATE t SET v = 3 WHERE k = 2", Ignore: []string{"info"}}, "affected"},
		{"info", Case{Text: "UPDATE t SET v = 4 WHERE k = 3", Ignore: []string{"affected"}}, "info"},
		{"warnings", Case{Text: "INSERT IGNORE INTO t VALUES (8, -1)"}, "warnings"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var reports []string
			left, right := options(plain.Addr(), 0), options(plain.Addr(), 0)
			left.Database, right.Database = "left", "right"
			r := &Run{Braid: right, Plain: left, Flavour: servers.MariaDB, NeverRefuse: true,
				Wrong: func(format string, args ...any) { reports = append(reports, fmt.Sprintf(format, args...)) }}
			c.c.TextOnly = true
			tally, err := r.File(t.Context(), &File{Name: "made here", Cases: []Case{c.c}})
			if err != nil {
				t.Fatal(err)
			}
			if tally.Wrong != 1 || len(reports) != 1 || !strings.Contains(reports[0], c.want) {
				t.Errorf("%d wrong, want a report of %q: %q", tally.Wrong, c.want, reports)
			}
		})
	}
}

// topologies are what Braid stands over, one per row. Old clients, which do not
// know CLIENT_DEPRECATE_EOF, and Braid without its shortcuts get their share.
var topologies = []struct {
	top   e2e.Topology
	flags uint32
}{
	{e2e.Topology{Flavour: servers.MariaDB, Nodes: 1, Shards: 1}, 0},
	{e2e.Topology{Flavour: servers.MariaDB, Nodes: 2, Shards: 4}, gomysql.CLIENT_DEPRECATE_EOF},
	{e2e.Topology{Flavour: servers.MySQL, Nodes: 1, Shards: 1}, gomysql.CLIENT_DEPRECATE_EOF},
	{e2e.Topology{Flavour: servers.MySQL, Nodes: 2, Shards: 4}, 0},
	{e2e.Topology{Flavour: servers.MySQL, Nodes: 2, Shards: 2, ShortcutsOff: true}, gomysql.CLIENT_DEPRECATE_EOF},
}

func TestBraidAgainstPlain(t *testing.T) {
	var total Tally
	notes := map[string]map[int]Note{} // by file, over several shards
	for _, row := range topologies {
		t.Run(row.top.String(), func(t *testing.T) {
			var sum Tally
			plain := lab.Server(t, row.top.Flavour, "plain")
			for _, f := range load(t) {
				t.Run(f.Name, func(t *testing.T) {
					e2e.Recreate(t, plain, database)
					top := row.top
					top.Database, top.Tables = database, f.Tables
					braid := lab.StartBraid(t, top)
					r := &Run{Braid: options(braid.Addr, row.flags), Plain: options(plain.Addr(), row.flags),
						Flavour: top.Flavour, MayRefuse: top.Shards > 1, Wrong: t.Errorf}
					if top.Shards > 1 {
						if notes[f.Name] == nil {
							notes[f.Name] = map[int]Note{}
						}
						r.Noted = notes[f.Name]
					}
					tally, err := r.File(t.Context(), f)
					sum.Add(tally)
					if err != nil {
						t.Fatal(err)
					}
					checkPlacement(t, braid, plain, f)
				})
			}
			t.Logf("%s: %s", row.top, sum)
			total.Add(sum)
		})
	}
	fmt.Println(total)
	if *mark {
		for name, noted := range notes {
			if err := Mark(filepath.Join("cases", name+".txt"), noted); err != nil {
				t.Error(err)
			}
		}
	}
}

// checkPlacement looks behind the proxy: the shards' rows of a sharded table
// together are the plain server's, a global table is whole on each shard, and
// a single one is on the first.
func checkPlacement(t *testing.T, braid *e2e.Braid, plain *servers.Server, f *File) {
	t.Helper()
	for _, table := range f.Tables {
		whole, err := tableRows(t, plain, database, table.Name)
		if err != nil {
			continue // the cases dropped it
		}
		var shards [][]string
		for _, place := range braid.Shards() {
			rows, err := tableRows(t, place.Node, place.Schema, table.Name)
			if err != nil && table.Kind != "single" {
				t.Errorf("%s: shard %s: %v", table.Name, place.Shard, err)
			}
			shards = append(shards, rows)
		}
		switch table.Kind {
		case "sharded":
			together := slices.Concat(shards...)
			slices.Sort(together)
			if !slices.Equal(together, whole) {
				t.Errorf("%s: the shards hold %d rows together, not the %d of one server", table.Name, len(together), len(whole))
			}
		case "global":
			for i, rows := range shards {
				if !slices.Equal(rows, whole) {
					t.Errorf("%s: shard %d has another copy than the rest", table.Name, i)
				}
			}
		case "single":
			if !slices.Equal(shards[0], whole) {
				t.Errorf("%s: the first shard has not the table's rows", table.Name)
			}
		}
	}
}

// tableRows is a table's rows as sorted texts, read directly.
func tableRows(t *testing.T, s *servers.Server, schema, table string) ([]string, error) {
	t.Helper()
	o := options(s.Addr(), 0)
	o.Database = schema
	c, err := wire.Connect(t.Context(), o)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	results, err := c.Query("SELECT * FROM `" + strings.ReplaceAll(table, "`", "``") + "`")
	if err != nil {
		return nil, err
	}
	return sortedRows(&results[0]), nil
}

// TestInstallation runs the cases on a Braid and a plain server of the user's,
// in their databases, whose tables of the cases' names it drops. Without -braid
// it prints the tables' configuration that such a Braid needs.
func TestInstallation(t *testing.T) {
	tables := map[string]conf.Table{}
	var names []string
	for _, f := range load(t) {
		for _, table := range f.Tables {
			if known, ok := tables[table.Name]; ok && fmt.Sprint(known) != fmt.Sprint(table) {
				t.Errorf("%s: table %s has another sharding than in another file", f.Name, table.Name)
			} else if !ok {
				names = append(names, table.Name)
			}
			tables[table.Name] = table
		}
	}
	if *braidDSN == "" || *plainDSN == "" {
		c := &conf.Config{Databases: []conf.Database{{Name: database}}}
		for _, name := range names {
			c.Databases[0].Tables = append(c.Databases[0].Tables, tables[name])
		}
		_, text, _ := strings.Cut(c.String(), "[[databases]]")
		t.Skipf("no -braid DSN and -plain DSN; the Braid needs a database with these tables:\n\n[[databases]]%s", text)
	}
	braid, flavour := dsnOptions(t, *braidDSN)
	plain, plainFlavour := dsnOptions(t, *plainDSN)
	if flavour != plainFlavour {
		t.Fatalf("Braid says it is %s, the plain server is %s", flavour, plainFlavour)
	}
	if braid.Database != plain.Database || braid.Database != database {
		t.Fatalf("the database must be called %s on both sides", database)
	}
	var total Tally
	for _, f := range load(t) {
		t.Run(f.Name, func(t *testing.T) {
			r := &Run{Braid: braid, Plain: plain, Flavour: flavour, Wrong: t.Errorf}
			tally, err := r.File(t.Context(), f)
			total.Add(tally)
			if err != nil {
				t.Fatal(err)
			}
		})
	}
	fmt.Println(total)
}

// dsnOptions reads a data source name and asks the server for its flavour.
func dsnOptions(t *testing.T, dsn string) (wire.Options, servers.Flavour) {
	t.Helper()
	c, err := mysql.ParseDSN(dsn)
	if err != nil {
		t.Fatal(err)
	}
	o := wire.Options{Addr: c.Addr, User: c.User, Password: c.Passwd, Database: c.DBName, Flags: gomysql.CLIENT_DEPRECATE_EOF}
	conn, err := wire.Connect(t.Context(), o)
	if err != nil {
		t.Fatalf("%s: %v", c.Addr, err)
	}
	defer conn.Close()
	if strings.Contains(conn.Version, "MariaDB") {
		return o, servers.MariaDB
	}
	return o, servers.MySQL
}
