package drivers

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"braid/conf"
	"braid/tests/e2e"
	"braid/tests/servers"
)

var lab = e2e.NewLab()

func TestMain(m *testing.M) { flag.Parse(); os.Exit(lab.Main(m)) }

var flavours = []servers.Flavour{servers.MariaDB, servers.MySQL}

// outcome runs go-sql-driver's tests against addr and tells how each one ended.
func outcome(t *testing.T, addr, database string) map[string]string {
	t.Helper()
	// TestConnectorReturnsTimeout dials an address outside of this machine.
	cmd := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-v", "-skip", "^TestConnectorReturnsTimeout$", "github.com/go-sql-driver/mysql")
	cmd.Env = append(os.Environ(), "MYSQL_TEST_USER="+servers.User, "MYSQL_TEST_PASS="+servers.Password, "MYSQL_TEST_PROT=tcp",
		"MYSQL_TEST_ADDR="+addr, "MYSQL_TEST_DBNAME="+database, "MYSQL_TEST_CONCURRENT=1")
	out, err := cmd.CombinedOutput()
	if err != nil && len(out) == 0 {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^\s*--- (PASS|FAIL|SKIP): (\S+)`).FindAllSubmatch(out, -1) {
		found[string(m[2])] = string(m[1])
	}
	if len(found) < 100 || bytes.Contains(out, []byte("server not running")) {
		t.Fatalf("only %d tests ran against %s: %v\n%s", len(found), addr, err, tail(out))
	}
	for name, how := range found {
		if how == "FAIL" {
			t.Logf("%s failed on %s:\n%s", name, addr, about(out, name))
		}
	}
	return found
}

func tail(b []byte) []byte { return b[max(0, len(b)-3000):] }

// about is what the output says between a test's start and its end.
func about(out []byte, name string) string {
	text := string(out)
	at := strings.Index(text, "=== RUN   "+name+"\n")
	if at < 0 {
		return ""
	}
	text = text[at:]
	if end := strings.Index(text[10:], "=== RUN"); end > 0 {
		text = text[:10+end]
	}
	return text[:min(len(text), 1500)]
}

// TestGoSQLDriverSuite runs the driver's own tests on a server, on Braid over one
// shard and on Braid over four, where tables with a primary key are sharded by it:
// they pass, fail and skip alike but for the exceptions.
func TestGoSQLDriverSuite(t *testing.T) {
	exceptions := map[string]string{} // over how many shards
	text, err := os.ReadFile("../../docs/clients.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile("(?m)^\\| `(Test\\w+)` \\| ([14, ]+) \\| .+ \\|$").FindAllSubmatch(text, -1) {
		exceptions[string(m[1])] = string(m[2])
	}
	for _, flavour := range flavours {
		t.Run(string(flavour), func(t *testing.T) {
			plain := lab.Server(t, flavour, "plain")
			e2e.Recreate(t, plain, "gotest")
			direct := outcome(t, plain.Addr(), "gotest")
			a := e2e.NewAuthority(t)
			a.Issue(t, "braid", 2)
			over := []int{1, 4}
			if flavour == servers.MySQL && !*all {
				over = over[:1] // schema changes over shards take their time there; make long has them
			}
			for _, shards := range over {
				b := lab.StartBraid(t, e2e.Topology{Flavour: flavour, Nodes: min(shards, 2), Shards: shards, Database: "gotest", Default: "hash", Change: func(c *conf.Config) {
					if flavour == servers.MySQL { // which has certificates by itself
						c.Proxy.TLS, c.Proxy.TLSCertificate, c.Proxy.TLSKey = "optional", a.File("braid.pem"), a.File("braid.key")
					}
				}})
				through := outcome(t, b.Addr, "gotest")
				b.Stop()
				var differ []string
				for name, want := range direct {
					top, _, _ := strings.Cut(name, "/")
					if got := through[name]; got != want && !strings.Contains(exceptions[top], fmt.Sprint(shards)) {
						differ = append(differ, fmt.Sprintf("%d shards: %s: %s, on the server %s", shards, name, got, want))
					}
				}
				slices.Sort(differ)
				for _, text := range differ {
					t.Error(text)
				}
			}
			t.Logf("%d tests", len(direct))
		})
	}
}
