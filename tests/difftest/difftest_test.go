package difftest

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"braid/tests/e2e"
	"braid/tests/servers"
	"braid/tests/wire"
)

var lab = e2e.NewLab()

func TestMain(m *testing.M) { os.Exit(lab.Main(m)) }

const database = "shop"

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
		files = append(files, f)
	}
	return files
}

func options(addr string) wire.Options {
	return wire.Options{Addr: addr, User: servers.User, Password: servers.Password, Database: database, Flags: gomysql.CLIENT_DEPRECATE_EOF}
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
					r := &Run{Braid: options(two.Addr()), Plain: options(one.Addr()), Flavour: flavour, NeverRefuse: true, Wrong: t.Errorf}
					tally, err := r.File(t.Context(), f)
					if err != nil {
						t.Fatal(err)
					}
					total.Add(tally)
				})
			}
			fmt.Printf("%s, plain against plain: %s\n", flavour, total)
		})
	}
}
