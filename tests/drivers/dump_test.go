package drivers

import (
	"bytes"
	"fmt"
	"net"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"braid/conf"
	"braid/tests/e2e"
	"braid/tests/servers"
)

// mariadbTool runs one of the command line programs on a server's database.
func mariadbTool(t *testing.T, addr, input, program string, args ...string) (string, error) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		t.Skip("SKIPPED, NOT TESTED: ", err)
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, append([]string{"--no-defaults", "--host=" + host, "--port=" + port,
		"--user=" + servers.User, "--password=" + servers.Password, "--default-character-set=utf8mb4"}, args...)...)
	cmd.Stdin = strings.NewReader(input)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("%s: %w: %s", program, err, errs.String())
	}
	return out.String(), nil
}

// A dump of a sharded database, taken through Braid with the program's defaults
// (LOCK TABLES) and in one transaction, is loaded into one plain server, and has
// every row; the plain server's dump is loaded through Braid, and is the same again.
func TestDump(t *testing.T) {
	for _, flavour := range []servers.Flavour{servers.MariaDB, servers.MySQL} {
		t.Run(string(flavour), func(t *testing.T) {
			top := e2e.Topology{Flavour: flavour, Nodes: 2, Shards: 4, Database: "shop",
				Tables: []conf.Table{{Name: "t", Kind: "sharded", Key: []string{"k"}}, {Name: "g", Kind: "global"}, {Name: "lone", Kind: "single"}}}
			b := lab.StartBraid(t, top)
			db := b.Open(t)
			run := func(text string) {
				t.Helper()
				if _, err := db.ExecContext(t.Context(), text); err != nil {
					t.Fatalf("%.100s: %v", text, err)
				}
			}
			run("CREATE TABLE t(k INT PRIMARY KEY, s VARCHAR(40), b BLOB, d DATETIME(3), n DECIMAL(20,4))")
			run("CREATE TABLE g(k INT PRIMARY KEY, s VARCHAR(40))")
			run("CREATE TABLE lone(k INT PRIMARY KEY AUTO_INCREMENT, s VARCHAR(40))")
			var rows []string
			for k := range 500 {
				rows = append(rows, fmt.Sprintf("(%d,'é''\\\\ %d',x'00FF%02X0A',NULLIF('2024-02-29 10:00:00.123','2024-02-29 10:00:00.12%d'),%d.0001)", k, k, k%256, k%5, k))
			}
			run("INSERT INTO t VALUES " + strings.Join(rows, ","))
			run("INSERT INTO g VALUES (1,'a'),(2,NULL)")
			run("INSERT INTO lone(s) VALUES ('x'),('y')")
			plain := lab.Server(t, flavour, "plain")
			want := tables(t, b.Addr)
			for _, options := range [][]string{
				nil, // --opt with --lock-tables
				{"--lock-tables", "--skip-extended-insert"},
				{"--single-transaction"},
				{"--skip-quick", "--hex-blob", "--complete-insert", "--order-by-primary"},
			} {
				t.Run(strings.Join(options, " "), func(t *testing.T) {
					dump, err := mariadbTool(t, b.Addr, "", "mariadb-dump", append(slices.Clone(options), "shop")...)
					if err != nil {
						t.Fatal(err)
					}
					e2e.Recreate(t, plain, "shop")
					if _, err := mariadbTool(t, plain.Addr(), dump, "mariadb", "shop"); err != nil {
						t.Fatal(err)
					}
					if got := tables(t, plain.Addr()); got != want {
						t.Errorf("the dump holds %d bytes of rows, not the %d of the database", len(got), len(want))
					}
				})
			}
			dump, err := mariadbTool(t, plain.Addr(), "", "mariadb-dump", "--skip-add-locks", "shop")
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"t", "g", "lone"} {
				run("DELETE FROM " + name)
			}
			if _, err := mariadbTool(t, b.Addr, dump, "mariadb", "shop"); err != nil {
				t.Fatal(err)
			}
			if got := tables(t, b.Addr); got != want {
				t.Errorf("after loading the plain server's dump: %d bytes of rows, not %d", len(got), len(want))
			}
		})
	}
}

// tables are all rows of the three tables.
func tables(t *testing.T, addr string) string {
	t.Helper()
	var all string
	for _, name := range []string{"t", "g", "lone"} {
		out, err := mariadbTool(t, addr, "SELECT * FROM "+name+" ORDER BY k", "mariadb", "--table", "shop")
		if err != nil {
			t.Fatal(err)
		}
		all += out
	}
	return all
}
