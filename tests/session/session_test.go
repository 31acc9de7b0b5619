package session

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"braid/conf"
	"braid/tests/e2e"
	"braid/tests/servers"
	"braid/tests/wire"
)

var (
	lab   = e2e.NewLab()
	steps = flag.Int("steps", 2000, "steps of the leak test")
)

func TestMain(m *testing.M) { flag.Parse(); os.Exit(lab.Main(m)) }

// each runs f on both flavours.
func each(t *testing.T, f func(t *testing.T, flavour servers.Flavour)) {
	for _, flavour := range []servers.Flavour{servers.MariaDB, servers.MySQL} {
		t.Run(string(flavour), func(t *testing.T) { f(t, flavour) })
	}
}

// shop is a Braid over shards with rows 1..40 of i(k,x) and a global table.
func shop(t *testing.T, flavour servers.Flavour, nodes, shards int, change func(*conf.Config)) *e2e.Braid {
	t.Helper()
	b := lab.StartBraid(t, e2e.Topology{Flavour: flavour, Nodes: nodes, Shards: shards, Change: change,
		Tables: []conf.Table{{Name: "i", Kind: "sharded", Key: []string{"k"}}}})
	c := connect(t, b)
	must(t, c, "CREATE TABLE i(k INT PRIMARY KEY, x INT)")
	var rows []string
	for k := 1; k <= 40; k++ {
		rows = append(rows, fmt.Sprintf("(%d,%d)", k, 10*k))
	}
	must(t, c, "INSERT INTO i VALUES "+strings.Join(rows, ","))
	return b
}

// pool bounds the connections to each node.
func pool(c *conf.Config, connections int, wait conf.Duration) {
	c.Pool.ConnectionsMax, c.Pool.WaitTimeout = connections, wait
	for i := range c.Nodes {
		c.Nodes[i].ConnectionsMax = connections
	}
}

// connect logs a client in, closed at the test's end.
func connect(t *testing.T, b *e2e.Braid) *wire.Conn {
	t.Helper()
	c, err := wire.Connect(t.Context(), b.Wire())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Abort() })
	return c
}

// must runs a statement that has to go well and returns its rows as text:
// cells with commas between, rows with semicolons.
func must(t *testing.T, c *wire.Conn, text string) string {
	t.Helper()
	got, err := run(c, text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return got
}

func run(c *wire.Conn, text string) (string, error) {
	results, err := c.Query(text)
	if err != nil {
		return "", err
	}
	r := results[len(results)-1]
	if r.Err != nil {
		return "", r.Err
	}
	var rows []string
	for _, row := range r.Rows {
		var cells []string
		for _, v := range row {
			if v == nil {
				cells = append(cells, "NULL")
			} else {
				cells = append(cells, string(v))
			}
		}
		rows = append(rows, strings.Join(cells, ","))
	}
	return strings.Join(rows, ";"), nil
}

func isCode(err error, code uint16) bool {
	var e *wire.Error
	return errors.As(err, &e) && e.Code == code
}

// keys returns a key of each shard, in the shards' order.
func keys(t *testing.T, b *e2e.Braid) []int {
	t.Helper()
	var out []int
	for _, p := range b.Shards() {
		var k int
		if err := e2e.Open(t, p.Node, p.Schema).QueryRowContext(t.Context(), "SELECT MIN(k) FROM i").Scan(&k); err != nil {
			t.Fatalf("shard %s: %v", p.Shard, err)
		}
		out = append(out, k)
	}
	return out
}
