package workload

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"braid/conf"
	"braid/tests/e2e"
	"braid/tests/servers"
)

const goTPC = "github.com/pingcap/go-tpc/cmd/go-tpc@v1.0.7"

// tpccTables shards every table by its warehouse; the items are everywhere.
func tpccTables() []conf.Table {
	tables := []conf.Table{{Name: "warehouse", Kind: "sharded", Key: []string{"w_id"}}, {Name: "item", Kind: "global"}}
	for _, t := range []struct{ name, key string }{{"district", "d_w_id"}, {"customer", "c_w_id"}, {"history", "h_w_id"}, {"new_order", "no_w_id"},
		{"orders", "o_w_id"}, {"order_line", "ol_w_id"}, {"stock", "s_w_id"}} {
		tables = append(tables, conf.Table{Name: t.name, Kind: "sharded", Key: []string{t.key}, Colocated: "warehouse"})
	}
	return tables
}

// installGoTPC builds go-tpc into the cache, or skips.
func installGoTPC(t *testing.T) string {
	t.Helper()
	if path := filepath.Join(cacheBin(), "go-tpc"); executable(path) {
		return path
	}
	if err := os.MkdirAll(cacheBin(), 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", "install", goTPC)
	cmd.Dir = t.TempDir() // outside the module: its go.mod is not to change
	cmd.Env = append(os.Environ(), "GOBIN="+cacheBin(), "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Skipf("SKIPPED, NOT TESTED: go install %s: %v\n%s", goTPC, err, tail(string(out)))
	}
	return filepath.Join(cacheBin(), "go-tpc")
}

// TestTPCC loads TPC-C through Braid and runs it; go-tpc's twelve consistency
// conditions must hold before and after.
func TestTPCC(t *testing.T) {
	program := installGoTPC(t)
	warehouses := size(1, 4)
	run := size(30*time.Second, 2*time.Minute)
	for _, flavour := range size(flavours[:1], flavours) {
		t.Run(string(flavour), func(t *testing.T) {
			b := lab.StartBraid(t, e2e.Topology{Flavour: flavour, Nodes: 2, Shards: 4, Tables: tpccTables()})
			host, port, err := net.SplitHostPort(b.Addr)
			if err != nil {
				t.Fatal(err)
			}
			// tpcc reports what goes wrong and goes on: go-tpc ends with code 0 whatever
			// happens, and says it in its output.
			tpcc := func(limit time.Duration, args ...string) string {
				t.Helper()
				args = append([]string{"tpcc", "-H", host, "-P", port, "-U", servers.User, "-p", servers.Password, "-D", "shop", "--warehouses", strconv.Itoa(warehouses)}, args...)
				out, err := tool(t, limit, program, args...)
				if bad := lines(out, "failed", "panic", "should be", "but got", "Error"); err != nil || len(bad) > 0 || !strings.Contains(out, "Finished") {
					t.Errorf("go-tpc %v: %v\n%s\n...\n%s", args, err, strings.Join(bad[:min(len(bad), 10)], "\n"), tail(out))
				}
				return out
			}
			check := func() {
				t.Helper()
				out := tpcc(10*time.Minute, "check")
				if n := len(lines(out, "begin to check warehouse")); n < 10*warehouses {
					t.Errorf("only %d conditions were checked", n)
				}
			}
			if tpcc(20*time.Minute, "-T", "4", "prepare", "--no-check"); t.Failed() {
				return
			}
			check()
			out := tpcc(run+5*time.Minute, "-T", "4", "--time", run.String(), "run")
			if n := len(lines(out, "NEW_ORDER - ")); n == 0 {
				t.Errorf("no order was placed:\n%s", tail(out))
			}
			t.Log(strings.Join(lines(out, "tpmC", "[Summary]"), "\n"))
			check()
			tpccPlacement(t, b, warehouses)
		})
	}
}

// tpccPlacement checks behind Braid's back that a warehouse's rows are on one
// shard, and that every shard has all items.
func tpccPlacement(t *testing.T, b *e2e.Braid, warehouses int) {
	t.Helper()
	owner := map[int]string{}
	for _, place := range b.Shards() {
		db := e2e.Open(t, place.Node, place.Schema)
		var items int
		if err := db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM item").Scan(&items); err != nil || items != 100_000 {
			t.Errorf("shard %s has %d items, %v", place.Shard, items, err)
		}
		for _, table := range tpccTables() {
			if table.Kind != "sharded" {
				continue
			}
			rows, err := db.QueryContext(t.Context(), "SELECT DISTINCT "+table.Key[0]+" FROM "+table.Name)
			if err != nil {
				t.Fatal(err)
			}
			for rows.Next() {
				var w int
				if err := rows.Scan(&w); err != nil {
					t.Fatal(err)
				}
				if first, ok := owner[w]; ok && first != place.Shard {
					t.Errorf("warehouse %d: %s is on shard %s, others on %s", w, table.Name, place.Shard, first)
				}
				owner[w] = place.Shard
			}
			if err := rows.Err(); err != nil {
				t.Fatal(err)
			}
			rows.Close()
		}
	}
	if len(owner) != warehouses {
		t.Errorf("rows of %d warehouses, want %d", len(owner), warehouses)
	}
}
