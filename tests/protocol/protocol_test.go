package protocol

import (
	"context"
	"database/sql"
	"os"
	"testing"
	"time"

	driver "github.com/go-sql-driver/mysql"

	"braid/conf"
	"braid/tests/e2e"
	"braid/tests/servers"
	"braid/tests/wire"
)

var lab = e2e.NewLab()

func TestMain(m *testing.M) { os.Exit(lab.Main(m)) }

var flavours = []servers.Flavour{servers.MariaDB, servers.MySQL}

// tables are those the tests share: t is sharded by k, c single.
func tables() []conf.Table {
	return []conf.Table{
		{Name: "t", Kind: "sharded", Key: []string{"k"}},
		{Name: "g", Kind: "global"},
		{Name: "c", Kind: "single"},
	}
}

// braid is Braid over four shards on two nodes, or as top says otherwise.
func braid(t *testing.T, flavour servers.Flavour, change func(*conf.Config)) *e2e.Braid {
	t.Helper()
	return lab.StartBraid(t, e2e.Topology{Flavour: flavour, Nodes: 2, Shards: 4, Tables: tables(), Change: change})
}

// connect is a raw client of o, closed at the test's end.
func connect(t *testing.T, o wire.Options) *wire.Conn {
	t.Helper()
	c, err := wire.Connect(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// query runs a statement that must succeed.
func query(t *testing.T, c *wire.Conn, text string) []wire.Result {
	t.Helper()
	r, err := c.Query(text)
	if err != nil {
		t.Fatalf("%.200s: %v", text, err)
	}
	for i := range r {
		if r[i].Err != nil {
			t.Fatalf("%.200s: %v", text, r[i].Err)
		}
	}
	return r
}

// value runs a statement of one row and one column.
func value(t *testing.T, c *wire.Conn, text string) string {
	t.Helper()
	r := query(t, c, text)
	if len(r) != 1 || len(r[0].Rows) != 1 || len(r[0].Rows[0]) != 1 {
		t.Fatalf("%.200s: not one value: %v", text, r)
	}
	return string(r[0].Rows[0][0])
}

// until polls what, every few milliseconds, until it holds.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-ctx.Done():
			t.Fatalf("%s: not within 30 s", what)
		case <-tick.C:
		}
	}
}

// open opens a driver's configuration, closed at the test's end.
func open(t *testing.T, d *driver.Config) *sql.DB {
	t.Helper()
	connector, err := driver.NewConnector(d)
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(connector)
	t.Cleanup(func() { db.Close() })
	return db
}
