package drivers

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"braid/conf"
	"braid/tests/e2e"
	"braid/tests/servers"
)

// client is one driver (or shell) of the matrix.
type client struct {
	name string
	// needs are programs and files without which it is not on this machine.
	needs []string
	// command runs its work; the last arguments are host, port, user, password, database.
	command []string
	env     []string
	input   string // file for its standard input
}

// clients are the drivers of the matrix; scripts/deps.sh installs them.
func clients() []client {
	cache := os.Getenv("BRAID_CACHE")
	if cache == "" {
		cache = "/var/cache/braid"
	}
	modules := filepath.Join(cache, "npm", "node_modules")
	jar := "/usr/share/java/mariadb-java-client.jar"
	return []client{
		{name: "PyMySQL", needs: []string{"/usr/lib/python3/dist-packages/pymysql"}, command: []string{"/usr/bin/python3", "work/dbapi.py", "pymysql"}},
		{name: "mysqlclient", needs: []string{"/usr/lib/python3/dist-packages/MySQLdb"}, command: []string{"/usr/bin/python3", "work/dbapi.py", "MySQLdb"}},
		{name: "DBD-mysql", needs: []string{"perl", "/usr/share/doc/libdbd-mysql-perl"}, command: []string{"/usr/bin/perl", "work/dbi.pl", "mysql"}},
		{name: "DBD-MariaDB", needs: []string{"perl", "/usr/share/doc/libdbd-mariadb-perl"}, command: []string{"/usr/bin/perl", "work/dbi.pl", "MariaDB"}},
		{name: "PHP", needs: []string{"php", "/usr/share/doc/php-mysql"}, command: []string{"php", "work/php.php"}},
		{name: "mysql2", needs: []string{"node", modules + "/mysql2"}, command: []string{"node", "work/node.js", "mysql2"}, env: []string{"NODE_PATH=" + modules}},
		{name: "mariadb-node", needs: []string{"node", modules + "/mariadb"}, command: []string{"node", "work/node.js", "mariadb"}, env: []string{"NODE_PATH=" + modules}},
		{name: "Connector-J", needs: []string{"java", jar}, command: []string{"java", "-cp", jar, "work/Work.java"}},
		{name: "mariadb-shell", needs: []string{"mariadb"}, input: "work/cli.sql"},
	}
}

// missing tells what of a client this machine lacks, "" when it has all.
func (c *client) missing() string {
	for _, need := range c.needs {
		var err error
		if filepath.IsAbs(need) {
			_, err = os.Stat(need)
		} else {
			_, err = exec.LookPath(need)
		}
		if err != nil {
			return need
		}
	}
	return ""
}

// work runs the client's work against addr and returns what it printed.
func (c *client) work(t *testing.T, addr string) string {
	t.Helper()
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	command := append(c.command, host, port, servers.User, servers.Password, "shop")
	if c.input != "" {
		command = []string{"mariadb", "--no-defaults", "--force", "--verbose", "--table", "--local-infile=1", "--host=" + host, "--port=" + port,
			"--user=" + servers.User, "--password=" + servers.Password, "--database=shop", "--default-character-set=utf8mb4"}
	}
	cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
	cmd.Env = append(os.Environ(), c.env...)
	if c.input != "" {
		text, err := os.ReadFile(c.input)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "rows.csv")
		if err := os.WriteFile(file, []byte("200,a\n201,b\n202,c\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		cmd.Stdin = strings.NewReader(strings.ReplaceAll(string(text), "FILE", file))
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		return strings.ReplaceAll(string(out), file, "FILE")
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%s against %s: %v\n%s", c.name, addr, err, tail(out))
	}
	return string(out)
}

// TestMatrix has each driver do its work on a plain server and on Braid over
// four shards, of both flavours: it sees the same.
func TestMatrix(t *testing.T) {
	for _, flavour := range flavours {
		plain := lab.Server(t, flavour, "plain")
		b := lab.StartBraid(t, e2e.Topology{Flavour: flavour, Nodes: 2, Shards: 4, Tables: []conf.Table{{Name: "t", Kind: "sharded", Key: []string{"k"}}}})
		for _, c := range clients() {
			t.Run(string(flavour)+"/"+c.name, func(t *testing.T) {
				if what := c.missing(); what != "" {
					t.Skipf("SKIPPED, NOT TESTED: no %s here (scripts/deps.sh)", what)
				}
				e2e.Recreate(t, plain, "shop")
				want := strings.Split(c.work(t, plain.Addr()), "\n")
				got := strings.Split(c.work(t, b.Addr), "\n")
				if len(want) < 10 {
					t.Fatalf("only this was printed:\n%s", strings.Join(want, "\n"))
				}
				for i := range max(len(want), len(got)) {
					var x, y string
					if i < len(want) {
						x = want[i]
					}
					if i < len(got) {
						y = got[i]
					}
					if x != y {
						t.Errorf("line %d:\nBraid: %.500s\nplain: %.500s", i+1, y, x)
					}
				}
			})
		}
		b.Stop()
	}
}
