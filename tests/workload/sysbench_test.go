package workload

import (
	"fmt"
	"net"
	"regexp"
	"strconv"
	"testing"
	"time"

	"braid/conf"
	"braid/tests/e2e"
	"braid/tests/servers"
)

const sysbenchTables = 4

// sysbenchRun is what sysbench says of a run.
type sysbenchRun struct {
	queries, errors, reconnects int
}

var sysbenchFigures = map[string]*regexp.Regexp{
	"queries":    regexp.MustCompile(`(?m)^\s*queries:\s+(\d+)`),
	"errors":     regexp.MustCompile(`(?m)^\s*ignored errors:\s+(\d+)`),
	"reconnects": regexp.MustCompile(`(?m)^\s*reconnects:\s+(\d+)`),
}

// parseSysbench reads the figures of a run; all must be there.
func parseSysbench(output string) (r sysbenchRun, err error) {
	for name, to := range map[string]*int{"queries": &r.queries, "errors": &r.errors, "reconnects": &r.reconnects} {
		m := sysbenchFigures[name].FindStringSubmatch(output)
		if m == nil {
			return r, fmt.Errorf("sysbench printed no %s", name)
		}
		if *to, err = strconv.Atoi(m[1]); err != nil {
			return r, err
		}
	}
	return r, nil
}

func TestParseSysbench(t *testing.T) {
	const text = "SQL statistics:\n    queries performed:\n        total:   20\n    transactions:                        1      (0.98 per sec.)\n" +
		"    queries:                             20     (19.64 per sec.)\n    ignored errors:                      3      (0.00 per sec.)\n    reconnects:                          2      (0.00 per sec.)\n"
	if r, err := parseSysbench(text); err != nil || r != (sysbenchRun{20, 3, 2}) {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := parseSysbench("FATAL: nothing"); err == nil {
		t.Error("no figures, no error")
	}
}

// TestSysbench runs sysbench's workloads over four shards on two nodes: no
// error, no lost connection, and as many rows afterwards as before.
func TestSysbench(t *testing.T) {
	program := look(t, "sysbench", "scripts/deps.sh")
	rows := size(10_000, 25_000)
	seconds := size(10, 60)
	for _, flavour := range flavours {
		t.Run(string(flavour), func(t *testing.T) {
			var tables []conf.Table
			for i := range sysbenchTables {
				tables = append(tables, conf.Table{Name: "sbtest" + strconv.Itoa(i+1), Kind: "sharded", Key: []string{"id"}})
			}
			b := lab.StartBraid(t, e2e.Topology{Flavour: flavour, Nodes: 2, Shards: 4, Tables: tables})
			host, port, err := net.SplitHostPort(b.Addr)
			if err != nil {
				t.Fatal(err)
			}
			common := []string{"--db-driver=mysql", "--mysql-host=" + host, "--mysql-port=" + port, "--mysql-user=" + servers.User, "--mysql-password=" + servers.Password,
				"--mysql-db=shop", "--tables=" + strconv.Itoa(sysbenchTables), "--table-size=" + strconv.Itoa(rows), "--auto-inc=off"}
			sysbench := func(t *testing.T, args ...string) string {
				t.Helper()
				out, err := tool(t, time.Duration(seconds)*time.Second+5*time.Minute, program, append(common, args...)...)
				if fatal := lines(out, "FATAL"); err != nil || len(fatal) > 0 {
					t.Fatalf("sysbench %v: %v\n%s", args, err, tail(out))
				}
				return out
			}
			sysbench(t, "--threads=4", "oltp_read_write", "prepare")
			for _, workload := range []string{"oltp_point_select", "oltp_read_write", "oltp_write_only"} {
				for _, ps := range []string{"auto", "disable"} {
					t.Run(workload+"-ps-"+ps, func(t *testing.T) {
						out := sysbench(t, "--threads=8", "--time="+strconv.Itoa(seconds), "--rand-type=uniform", "--db-ps-mode="+ps, workload, "run")
						r, err := parseSysbench(out)
						if err != nil || r.queries == 0 || r.errors != 0 || r.reconnects != 0 {
							t.Fatalf("%+v, %v\n%s", r, err, tail(out))
						}
						t.Logf("%d queries, %d a second, no errors", r.queries, r.queries/seconds)
						if n := tableRows(t, b); n != sysbenchTables*rows {
							t.Errorf("%d rows on the shards, want %d", n, sysbenchTables*rows)
						}
					})
				}
			}
		})
	}
}

// tableRows counts sysbench's rows on the shards, behind Braid's back, and
// checks that Braid counts as many.
func tableRows(t *testing.T, b *e2e.Braid) int {
	t.Helper()
	total := 0
	for i := range sysbenchTables {
		table := "sbtest" + strconv.Itoa(i+1)
		seen, there := tableRowsOf(t, b, table)
		if seen != there {
			t.Errorf("%s: %d through Braid, %d on the shards", table, seen, there)
		}
		total += there
	}
	return total
}

// tableRowsOf counts a table's rows through Braid and on the shards.
func tableRowsOf(t *testing.T, b *e2e.Braid, table string) (seen, there int) {
	t.Helper()
	count := "SELECT COUNT(*) FROM " + table
	if err := b.Open(t).QueryRowContext(t.Context(), count).Scan(&seen); err != nil {
		t.Fatalf("%s: %v", count, err)
	}
	for _, place := range b.Shards() {
		var n int
		if err := e2e.Open(t, place.Node, place.Schema).QueryRowContext(t.Context(), count).Scan(&n); err != nil {
			t.Fatalf("shard %s: %v", place.Shard, err)
		}
		there += n
	}
	return seen, there
}
