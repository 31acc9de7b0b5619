package workload

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"braid/tests/e2e"
	"braid/tests/servers"
)

const sequenceTables = `
[[databases.tables]]
name = "given"
kind = "sharded"
key = ["u"]
[[databases.tables]]
name = "named"
kind = "sharded"
key = ["u"]
`

// sequenceClient inserts rows through one Braid.
type sequenceClient struct {
	braid *program
	first int           // its rows are u = first, first+1, ...
	given map[int]int64 // by u: the ids it was told
	lost  int           // rows of whose INSERT nobody knew
}

// TestSequenceOfTwoProcesses lets 8 clients insert on each of two Braids, one of
// which is killed with SIGKILL and started again in between: no id is given
// twice, and each row has the id that its client was told.
func TestSequenceOfTwoProcesses(t *testing.T) {
	const clients = 8 // of each Braid
	inserts := size(300, 50000)
	for _, flavour := range flavours {
		t.Run(string(flavour), func(t *testing.T) {
			var nodes []*servers.Server
			var addrs []string
			for i := range 2 {
				s := lab.Server(t, flavour, "node"+strconv.Itoa(i))
				e2e.Recreate(t, s, "braid", fmt.Sprintf("shop_%d", i), fmt.Sprintf("shop_%d", i+2))
				nodes, addrs = append(nodes, s), append(addrs, s.Addr())
			}
			braids := []*program{newProgram(t, addrs, 2, sequenceTables), newProgram(t, addrs, 2, sequenceTables)}
			braids[0].start(t, "")
			db := openThrough(t, braids[0])
			for _, text := range []string{
				"CREATE TABLE given(u BIGINT NOT NULL, id BIGINT NOT NULL AUTO_INCREMENT, PRIMARY KEY(u, id), KEY(id))",
				"CREATE TABLE named(u BIGINT NOT NULL, id BIGINT NOT NULL, PRIMARY KEY(u, id), KEY(id))"} {
				if _, err := db.ExecContext(t.Context(), text); err != nil {
					t.Fatal(err)
				}
			}
			db.Close()
			braids[1].start(t, "")
			list := make([]*sequenceClient, 2*clients)
			halfway := make(chan struct{}, len(list))
			var work sync.WaitGroup
			for i := range list {
				list[i] = &sequenceClient{braid: braids[i%2], first: i * inserts, given: make(map[int]int64, inserts)}
				work.Go(func() { list[i].work(t, inserts, halfway) })
			}
			for range clients {
				<-halfway
			}
			braids[1].kill()
			braids[1].start(t, "")
			work.Wait()
			given, lost := map[int]int64{}, 0
			for _, c := range list {
				lost += c.lost
				for u, id := range c.given {
					given[u] = id
				}
			}
			rows, by := 0, map[int]int{}
			for k := range 4 {
				for _, r := range query(t, nodes[k%2], fmt.Sprintf("SELECT u, id FROM shop_%d.given", k)) {
					rows++
					if u, twice := by[r[1]]; twice {
						t.Fatalf("id %d was given to the rows u=%d and u=%d", r[1], u, r[0])
					}
					by[r[1]] = r[0]
					if id, told := given[r[0]]; told && id != int64(r[1]) {
						t.Fatalf("row u=%d has id %d, its client was told %d", r[0], r[1], id)
					}
					delete(given, r[0])
				}
			}
			if len(given) > 0 {
				t.Errorf("%d rows were acknowledged and are not there", len(given))
			}
			if all := 2 * clients * inserts; rows > all || rows < all-lost {
				t.Errorf("%d rows, want %d, of %d of which nobody knew", rows, all, lost)
			}
			t.Logf("%d rows, each with an id of its own; of %d INSERTs nobody knew", rows, lost)
		})
	}
}

func openThrough(t *testing.T, p *program) *sql.DB {
	t.Helper()
	c := mysql.NewConfig()
	c.User, c.Passwd, c.Net, c.Addr, c.DBName = servers.User, servers.Password, "tcp", p.addr, "shop"
	c.Logger = &mysql.NopLogger{}
	return openDriver(t, c)
}

// work inserts rows one by one, and goes on when its Braid is back. When half of
// them are written it says so.
func (c *sequenceClient) work(t *testing.T, inserts int, halfway chan<- struct{}) {
	db := openThrough(t, c.braid)
	defer db.Close()
	db.SetMaxOpenConns(1)
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	for u := c.first; u < c.first+inserts; u++ {
		if u == c.first+inserts/2 {
			halfway <- struct{}{}
		}
		r, err := db.ExecContext(ctx, "INSERT INTO given(u) VALUES ("+strconv.Itoa(u)+")")
		var refused *mysql.MySQLError
		switch {
		case err == nil:
			c.given[u], _ = r.LastInsertId()
			continue
		case errors.As(err, &refused):
			t.Errorf("u=%d: %v", u, err)
			halfway <- struct{}{}
			return
		}
		c.lost++
		pause := time.NewTicker(20 * time.Millisecond)
		for db.PingContext(ctx) != nil && ctx.Err() == nil {
			<-pause.C
		}
		pause.Stop()
	}
}

// TestSequenceCPU measures the CPU of Braid and its nodes for INSERTs with ids
// that Braid gives, and with ids that clients name for a table without
// AUTO_INCREMENT, in turn: no more than 5 % more.
func TestSequenceCPU(t *testing.T) {
	if !*long {
		t.Skip("too short to measure without -long; TestSequenceCost counts packets")
	}
	const inserts, turns = 10000, 6
	var nodes []*servers.Server
	var addrs []string
	for i := range 2 {
		s := lab.Server(t, servers.MariaDB, "node"+strconv.Itoa(i))
		e2e.Recreate(t, s, "braid", fmt.Sprintf("shop_%d", i), fmt.Sprintf("shop_%d", i+2))
		nodes, addrs = append(nodes, s), append(addrs, s.Addr())
	}
	b := newProgram(t, addrs, 2, sequenceTables)
	b.start(t, "")
	db := openThrough(t, b)
	defer db.Close()
	db.SetMaxOpenConns(1)
	for _, text := range []string{
		"CREATE TABLE given(u BIGINT NOT NULL, id BIGINT NOT NULL AUTO_INCREMENT, PRIMARY KEY(u, id), KEY(id))",
		"CREATE TABLE named(u BIGINT NOT NULL, id BIGINT NOT NULL, PRIMARY KEY(u, id), KEY(id))"} {
		if _, err := db.ExecContext(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	var ticks, all [2]int // of Braid; with the nodes
	for turn := range turns {
		for kind, text := range []string{"INSERT INTO named(u,id) VALUES (%[1]d,%[1]d)", "INSERT INTO given(u) VALUES (%d)"} {
			own, others := cpuTicks(t, b.pid), cpuTicks(t, nodes[0].PID())+cpuTicks(t, nodes[1].PID())
			for i := range inserts {
				if _, err := db.ExecContext(t.Context(), fmt.Sprintf(text, turn*inserts+i)); err != nil {
					t.Fatal(err)
				}
			}
			own = cpuTicks(t, b.pid) - own
			ticks[kind] += own
			all[kind] += own + cpuTicks(t, nodes[0].PID()) + cpuTicks(t, nodes[1].PID()) - others
		}
	}
	each := func(ticks int) float64 { return float64(ticks) * 1e4 / (turns * inserts) }
	t.Logf("CPU of an INSERT with an id of the client's: %.1f µs in Braid, %.1f µs with the nodes; with an id given: %.1f µs and %.1f µs, %.3f times as much",
		each(ticks[0]), each(all[0]), each(ticks[1]), each(all[1]), each(all[1])/each(all[0]))
	if all[1]*100 > all[0]*105 {
		t.Error("ids that are given cost more than 5 %")
	}
}

// cpuTicks is the CPU time that a process has used, in hundredths of a second.
func cpuTicks(t *testing.T, pid int) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Skip("SKIPPED, NOT TESTED: ", err)
	}
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	user, err1 := strconv.Atoi(fields[11])
	system, err2 := strconv.Atoi(fields[12])
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	return user + system
}
