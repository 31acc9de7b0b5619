package workload

import (
	"net"
	"slices"
	"strconv"
	"testing"
	"time"

	"braid/conf"
	"braid/tests/e2e"
	"braid/tests/servers"
)

// TestReloadUnderLoad reloads while sysbench runs: configurations that change
// nothing, that give every node a new pool, that add a table, and that are
// refused. No client may see an error or lose its connection.
func TestReloadUnderLoad(t *testing.T) {
	program := look(t, "sysbench", "scripts/deps.sh")
	seconds := size(6, 60)
	for _, flavour := range flavours {
		t.Run(string(flavour), func(t *testing.T) {
			b := lab.StartBraid(t, e2e.Topology{Flavour: flavour, Nodes: 2, Shards: 4,
				Tables: []conf.Table{{Name: "sbtest1", Kind: "sharded", Key: []string{"id"}}}})
			host, port, err := net.SplitHostPort(b.Addr)
			if err != nil {
				t.Fatal(err)
			}
			common := []string{"--db-driver=mysql", "--mysql-host=" + host, "--mysql-port=" + port, "--mysql-user=" + servers.User, "--mysql-password=" + servers.Password,
				"--mysql-db=shop", "--tables=1", "--table-size=2000", "--auto-inc=off"}
			if out, err := tool(t, 5*time.Minute, program, append(common, "oltp_read_write", "prepare")...); err != nil {
				t.Fatalf("%v\n%s", err, tail(out))
			}
			type outcome struct {
				output string
				err    error
			}
			done := make(chan outcome, 1)
			go func() {
				out, err := tool(t, time.Duration(seconds)*time.Second+5*time.Minute, program,
					append(common, "--threads=4", "--time="+strconv.Itoa(seconds), "--rand-type=uniform", "oltp_read_write", "run")...)
				done <- outcome{out, err}
			}()
			changed := func(change func(*conf.Config)) *conf.Config {
				c := *b.Config
				c.Nodes, c.Databases = slices.Clone(c.Nodes), slices.Clone(c.Databases)
				c.Databases[0].Shards, c.Databases[0].Tables = slices.Clone(c.Databases[0].Shards), slices.Clone(c.Databases[0].Tables)
				change(&c)
				return &c
			}
			steps := []struct {
				cfg *conf.Config
				bad bool
			}{
				{cfg: changed(func(*conf.Config) {})},
				{cfg: changed(func(c *conf.Config) { c.Pool.IdleMax = 3 })},
				{cfg: changed(func(c *conf.Config) { c.Databases[0].Shards[1].Schema = "nowhere" }), bad: true},
				{cfg: changed(func(c *conf.Config) {
					c.Databases[0].Tables = append(c.Databases[0].Tables, conf.Table{Name: "later", Kind: "global"})
				})},
				{cfg: changed(func(c *conf.Config) { c.Databases[0].Tables[0].Key = []string{"k"} }), bad: true},
			}
			reloads := 0
			tick := time.NewTicker(100 * time.Millisecond)
			defer tick.Stop()
			for running := true; running; {
				select {
				case end := <-done:
					running = false
					r, err := parseSysbench(end.output)
					if end.err != nil || err != nil || r.queries == 0 || r.errors != 0 || r.reconnects != 0 || len(lines(end.output, "FATAL")) > 0 {
						t.Fatalf("%+v, %v, %v\n%s", r, end.err, err, tail(end.output))
					}
					t.Logf("%d queries over %d reloads, no errors", r.queries, reloads)
				case <-tick.C:
					s := steps[reloads%len(steps)]
					reloads++
					if _, err := b.Server.Reload(s.cfg); s.bad != (err != nil) {
						t.Errorf("reload %d: %v", reloads, err)
					}
				}
			}
			if reloads < len(steps) {
				t.Errorf("only %d reloads", reloads)
			}
			if seen, there := tableRowsOf(t, b, "sbtest1"); seen != 2000 || there != 2000 {
				t.Errorf("%d rows through Braid, %d on the shards, want 2000", seen, there)
			}
		})
	}
}
