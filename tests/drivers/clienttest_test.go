package drivers

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"braid/tests/e2e"
	"braid/tests/servers"
)

// clientTestDatabase is the one name that mariadb-client-test works in.
const clientTestDatabase = "client_test_db"

// clientTestTimeout bounds one of its tests: one that hangs has failed.
const clientTestTimeout = time.Minute

// clientTest is the test program of MariaDB's C client (and MySQL's before it),
// "" where this machine lacks it.
func clientTest() string {
	if path, err := exec.LookPath("mariadb-client-test"); err == nil {
		return path
	}
	cache := os.Getenv("BRAID_CACHE")
	if cache == "" {
		cache = "/var/cache/braid"
	}
	path := filepath.Join(cache, "mariadb-test", "bin", "mariadb-client-test")
	if _, err := os.Stat(path); err != nil {
		return ""
	}
	return path
}

// all has every test of mariadb-client-test run; without it it is every fourth,
// and every twelfth over four shards, and go-sql-driver's suite is not run over
// four shards of MySQL.
var all = flag.Bool("all", false, "all tests of mariadb-client-test, not every fourth or twelfth")

// clientTestRun is one test of the program against one address.
type clientTestRun struct {
	pass bool
	said string // the end of what it printed
}

// runClientTest runs the named tests of the program one by one, each in its own
// process, so that one that gives up does not end the others.
func runClientTest(t *testing.T, program, addr string, names []string) map[string]clientTestRun {
	t.Helper()
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	found := map[string]clientTestRun{}
	for _, name := range names {
		empty(t, addr)
		ctx, cancel := context.WithTimeout(t.Context(), clientTestTimeout)
		cmd := exec.CommandContext(ctx, program, "--no-defaults", "--silent", "--host="+host, "--port="+port, "--user="+servers.User,
			"--password="+servers.Password, "--database="+clientTestDatabase, "--do-not-drop-database", "--vardir="+dir, name)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		cancel()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		found[name] = clientTestRun{pass: err == nil && bytes.Contains(out, []byte("SUCCESS")), said: strings.TrimSpace(string(out[max(0, len(out)-700):]))}
	}
	return found
}

// empty drops what a test that gave up has left in the database.
func empty(t *testing.T, addr string) {
	t.Helper()
	config := mysql.NewConfig()
	config.User, config.Passwd, config.Net, config.Addr, config.DBName = servers.User, servers.Password, "tcp", addr, clientTestDatabase
	db, err := sql.Open("mysql", config.FormatDSN())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	for _, list := range []string{"SHOW FULL TABLES", "SHOW PROCEDURE STATUS WHERE Db='" + clientTestDatabase + "'", "SHOW FUNCTION STATUS WHERE Db='" + clientTestDatabase + "'"} {
		rows, err := db.QueryContext(t.Context(), list)
		if err != nil {
			t.Fatalf("%s on %s: %v", list, addr, err)
		}
		columns, err := rows.Columns()
		if err != nil {
			t.Fatal(err)
		}
		var drops []string
		for rows.Next() {
			cells := make([]sql.NullString, len(columns))
			into := make([]any, len(columns))
			for i := range cells {
				into[i] = &cells[i]
			}
			if err := rows.Scan(into...); err != nil {
				t.Fatal(err)
			}
			kind, name := cells[1].String, cells[0].String
			if len(columns) > 2 { // Db, Name, Type, ...
				kind, name = cells[2].String, cells[1].String
			}
			drops = append(drops, "DROP "+strings.TrimPrefix(kind, "BASE ")+" `"+name+"`")
		}
		if err := rows.Close(); err != nil {
			t.Fatal(err)
		}
		if len(drops) > 0 {
			drops = slices.Insert(drops, 0, "SET foreign_key_checks=0")
		}
		for _, text := range drops {
			if _, err := db.ExecContext(t.Context(), text); err != nil {
				t.Fatalf("%s on %s: %v", text, addr, err)
			}
		}
	}
}

// exceptionsOf reads docs/clients.md: the program's tests that may end otherwise
// over so many shards.
func exceptionsOf(t *testing.T, shards int) map[string]bool {
	t.Helper()
	text, err := os.ReadFile("../../docs/clients.md")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| (`test_[^|]+) \\| ([14, ]+) \\| .+ \\|$").FindAllStringSubmatch(string(text), -1) {
		if strings.Contains(m[2], fmt.Sprint(shards)) {
			for _, name := range strings.Split(m[1], ", ") {
				found[strings.Trim(name, "`")] = true
			}
		}
	}
	return found
}

// every is each nth of the names, the first included.
func every(n int, names []string) []string {
	var out []string
	for i := 0; i < len(names); i += n {
		out = append(out, names[i])
	}
	return out
}

// TestClientTest runs the test program of MariaDB's client on a server, on Braid
// over one shard and on Braid over four: each of its tests ends alike, but for
// the exceptions that docs/clients.md lists with their reasons. What is listed
// and ends alike on both flavours is to be taken off the list.
func TestClientTest(t *testing.T) {
	program := clientTest()
	if program == "" {
		t.Skip("SKIPPED, NOT TESTED: no mariadb-client-test here (scripts/deps.sh)")
	}
	text, err := exec.CommandContext(t.Context(), program, "--no-defaults", "--show-tests").CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	names := regexp.MustCompile(`(?m)^test_\w+`).FindAllString(string(text), -1)
	if len(names) < 250 {
		t.Fatalf("only %d tests:\n%s", len(names), text)
	}
	if !*all {
		names = every(4, names)
	}
	needless := map[int]map[string]bool{}
	ran := 0
	for _, flavour := range flavours {
		t.Run(string(flavour), func(t *testing.T) {
			plain := lab.Server(t, flavour, "plain")
			e2e.Recreate(t, plain, clientTestDatabase)
			direct := runClientTest(t, program, plain.Addr(), names)
			for _, shards := range []int{1, 4} {
				t.Run(fmt.Sprint(shards), func(t *testing.T) {
					b := lab.StartBraid(t, e2e.Topology{Flavour: flavour, Nodes: min(shards, 2), Shards: shards, Database: clientTestDatabase, Default: "hash"})
					defer b.Stop()
					names := names
					if shards > 1 && !*all {
						names = every(3, names) // the same names with other keys: each CREATE TABLE waits ten seconds
					}
					through := runClientTest(t, program, b.Addr, names)
					excepted := exceptionsOf(t, shards)
					if needless[shards] == nil {
						needless[shards] = maps.Clone(excepted)
					}
					ran++
					passed := 0
					for _, name := range slices.Sorted(slices.Values(names)) {
						want, got := direct[name], through[name]
						for try := 0; try < 3 && want.pass && !got.pass && !excepted[name]; try++ {
							// Some kill their own connection and race with what then comes.
							got = runClientTest(t, program, b.Addr, []string{name})[name]
						}
						if got.pass {
							passed++
						}
						if want.pass == got.pass {
							continue
						}
						delete(needless[shards], name)
						if !excepted[name] {
							t.Errorf("%s: passes: %v, on the server %v\n%s", name, got.pass, want.pass, got.said)
						}
					}
					t.Logf("%d tests, %d pass", len(names), passed)
				})
			}
		})
	}
	if ran < 2*len(flavours) || !*all {
		return // the list is of all
	}
	for shards, left := range needless {
		for name := range left {
			t.Errorf("%s is an exception over %d shards in docs/clients.md, but ends as on a server", name, shards)
		}
	}
}
