package workload

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"braid/tests/e2e"
	"braid/tests/servers"
)

const (
	writers    = 4
	writerRows = 8   // of each writer
	writerIDs  = 100 // how many ids a writer has for them
)

const cellTable = `
[[databases.tables]]
name = "cell"
kind = "sharded"
key = ["id"]
`

// cells are a writer's rows: versions by id.
type cells map[int]int

// writer is one client of TestCrashedWrites, which alone writes its rows.
type writer struct {
	number  int
	rng     *rand.Rand
	held    cells // as the last answer says
	pending cells // as they are if the statement that nobody answered was done; nil: none is
	version int
	told    map[string]int // how statements ended
}

// writeCrash is the state of TestCrashedWrites.
type writeCrash struct {
	nodes   []*servers.Server
	braid   *program
	writers []*writer
}

// TestCrashedWrites kills Braid or a node with SIGKILL in the middle of
// statements under autocommit that change rows on several nodes: INSERTs of
// several rows, REPLACEs, UPDATEs, DELETEs, with and without LIMIT, and rows that
// move to another shard. After recovery each of them is there wholly or not at
// all, as its client was told, and no branch is left.
func TestCrashedWrites(t *testing.T) {
	rounds := size(8, 200)
	for _, flavour := range flavours {
		t.Run(string(flavour), func(t *testing.T) {
			seed := uint64(time.Now().UnixNano())
			t.Logf("seed %d", seed)
			rng := rand.New(rand.NewPCG(seed, 0))
			w := newWriteCrash(t, flavour, rng)
			torn := 0
			for round := range rounds {
				what := w.crash(t, rng, round)
				if branches(t, w.nodes[0])+branches(t, w.nodes[1]) > 0 {
					torn++
				}
				if w.dead() {
					w.braid.start(t, "")
				}
				w.awaitService(t)
				awaitNoBranches(t, w.nodes)
				w.verify(t)
				if t.Failed() {
					t.Fatalf("in round %d: %s", round, what)
				}
			}
			told := map[string]int{}
			for _, c := range w.writers {
				for k, n := range c.told {
					told[k] += n
				}
			}
			t.Logf("%d crashes, %d of which left prepared branches; statements: %v", rounds, torn, told)
			if torn < rounds/8 || told["acknowledged"] < rounds {
				t.Errorf("too little went on: %d torn crashes of %d, %d statements acknowledged", torn, rounds, told["acknowledged"])
			}
		})
	}
}

func newWriteCrash(t *testing.T, flavour servers.Flavour, rng *rand.Rand) *writeCrash {
	t.Helper()
	w := &writeCrash{}
	var addrs []string
	for i := range 2 {
		s := lab.Server(t, flavour, "node"+strconv.Itoa(i))
		e2e.Recreate(t, s, "braid", fmt.Sprintf("shop_%d", i), fmt.Sprintf("shop_%d", i+2))
		w.nodes, addrs = append(w.nodes, s), append(addrs, s.Addr())
	}
	w.braid = newProgram(t, addrs, 2, cellTable)
	w.braid.start(t, "")
	db := w.open(t)
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), "CREATE TABLE cell(id INT PRIMARY KEY, owner INT NOT NULL, version INT NOT NULL, KEY(owner))"); err != nil {
		t.Fatal(err)
	}
	for i := range writers {
		w.writers = append(w.writers, &writer{number: i, rng: rand.New(rand.NewPCG(rng.Uint64(), 1)), held: cells{}, told: map[string]int{}})
	}
	return w
}

func (w *writeCrash) open(t *testing.T) *sql.DB {
	t.Helper()
	c := mysql.NewConfig()
	c.User, c.Passwd, c.Net, c.Addr, c.DBName = servers.User, servers.Password, "tcp", w.braid.addr, "shop"
	c.Logger = &mysql.NopLogger{}
	return openDriver(t, c)
}

func (w *writeCrash) dead() bool {
	select {
	case <-w.braid.done:
		return true
	default:
		return false
	}
}

// crash lets the writers work until something is killed, and, where it was a node,
// started again. It returns what was done.
func (w *writeCrash) crash(t *testing.T, rng *rand.Rand, round int) (what string) {
	t.Helper()
	step := ""
	if round%4 < 2 {
		step = fmt.Sprintf("%s:%d", failpoints[1+rng.IntN(len(failpoints)-1)], 1+rng.IntN(20))
	}
	if step != "" || w.dead() {
		w.braid.kill()
		w.braid.start(t, step)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	done, stop := make(chan struct{}, 10000), make(chan struct{}) // statements; no more of them
	var work sync.WaitGroup
	for _, c := range w.writers {
		db := w.open(t)
		work.Go(func() {
			defer db.Close()
			c.work(ctx, t, db, done, stop)
		})
	}
	after := 1 + rng.IntN(40)
	for n := 0; n < after && step == ""; n++ {
		select {
		case <-done:
		case <-ctx.Done():
			n = after
		}
	}
	switch {
	case step != "":
		what = "Braid at " + step
		select {
		case <-w.braid.done:
		case <-ctx.Done():
			t.Errorf("step %s was not reached", step)
			w.braid.kill()
		}
	case round%4 == 2:
		what = fmt.Sprintf("Braid after %d statements", after)
		w.braid.kill()
	default:
		n := rng.IntN(len(w.nodes))
		what = fmt.Sprintf("node %d after %d statements", n, after)
		w.nodes[n].Kill9()
		// Until it is back, rows of a commit that it decides stay locked on the other.
		if err := w.nodes[n].Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	work.Wait()
	return what
}

// work makes statements until one of them fails, or stop is closed.
func (c *writer) work(ctx context.Context, t *testing.T, db *sql.DB, done chan<- struct{}, stop <-chan struct{}) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return // dead already
	}
	defer conn.Close()
	for ctx.Err() == nil {
		select {
		case <-stop:
			return
		default:
		}
		text, after := c.statement()
		_, err := conn.ExecContext(ctx, text)
		var refused *mysql.MySQLError
		switch {
		case err == nil:
			c.held = after
			c.told["acknowledged"]++
			select {
			case done <- struct{}{}:
			default:
			}
		case errors.As(err, &refused):
			c.told["refused"]++
			if !slices.Contains(expected, refused.Number) {
				t.Errorf("%s: %v", text, err)
			}
			// Gaps between rows are locked for other writers too: these two go on.
			if refused.Number != 1213 && refused.Number != 1205 {
				return
			}
		default:
			c.told["without an answer"]++
			c.pending = after
			return
		}
	}
}

// statement makes the next statement, and what the rows are after it.
func (c *writer) statement() (text string, after cells) {
	c.version++
	base := c.number * writerIDs
	after = maps.Clone(c.held)
	ids := slices.Sorted(maps.Keys(after))
	if len(ids) < writerRows/2 {
		var rows []string
		for id := base; len(after) < writerRows; id++ {
			if _, there := after[id]; !there {
				rows = append(rows, fmt.Sprintf("(%d,%d,%d)", id, c.number, c.version))
				after[id] = c.version
			}
		}
		return "INSERT INTO cell VALUES " + strings.Join(rows, ","), after
	}
	switch c.rng.IntN(7) {
	case 0:
		for _, id := range ids {
			after[id] = c.version
		}
		return fmt.Sprintf("UPDATE cell SET version=%d WHERE owner=%d", c.version, c.number), after
	case 1:
		for _, id := range ids {
			after[id]++
		}
		return fmt.Sprintf("UPDATE cell SET version=version+1 WHERE id BETWEEN %d AND %d", base, base+writerIDs-1), after
	case 2:
		return fmt.Sprintf("DELETE FROM cell WHERE owner=%d", c.number), cells{}
	case 3:
		for _, id := range ids[:3] {
			delete(after, id)
		}
		return fmt.Sprintf("DELETE FROM cell WHERE owner=%d ORDER BY id LIMIT 3", c.number), after
	case 4:
		var rows []string
		for k := range 4 {
			id := base + k*5
			rows = append(rows, fmt.Sprintf("(%d,%d,%d)", id, c.number, c.version))
			after[id] = c.version
		}
		return "REPLACE INTO cell VALUES " + strings.Join(rows, ","), after
	case 5:
		for _, id := range ids[:4] {
			after[id] = c.version
		}
		return fmt.Sprintf("UPDATE cell SET version=%d WHERE owner=%d ORDER BY id LIMIT 4", c.version, c.number), after
	}
	from, to := ids[c.rng.IntN(len(ids))], base+writerIDs/2
	for _, there := after[to]; there; _, there = after[to] {
		to++
	}
	after[to] = after[from]
	delete(after, from)
	return fmt.Sprintf("UPDATE cell SET id=%d WHERE id=%d", to, from), after
}

// awaitService waits until statements over all shards are answered again.
func (w *writeCrash) awaitService(t *testing.T) {
	t.Helper()
	db := w.open(t)
	defer db.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		var n int
		err := db.QueryRowContext(ctx, "SELECT COUNT(*) FROM cell").Scan(&n)
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("Braid does not serve: %v\n%s", err, w.braid.logTail())
		}
	}
}

// awaitNoBranches waits until no prepared branch is left.
func awaitNoBranches(t *testing.T, nodes []*servers.Server) {
	t.Helper()
	deadline := time.After(time.Minute)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		left := 0
		for _, n := range nodes {
			left += branches(t, n)
		}
		if left == 0 {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%d branches are left after a minute", left)
		}
	}
}

// verify compares the rows on the shards with what the writers were told. The
// locking reads wait for what a killed connection's node is still about to do.
func (w *writeCrash) verify(t *testing.T) {
	t.Helper()
	there := make([]cells, writers)
	for i := range there {
		there[i] = cells{}
	}
	for k := range 4 {
		for _, r := range query(t, w.nodes[k%2], fmt.Sprintf("SELECT id, version FROM shop_%d.cell LOCK IN SHARE MODE", k)) {
			c := there[r[0]/writerIDs]
			if _, twice := c[r[0]]; twice {
				t.Errorf("row %d is on two shards", r[0])
			}
			c[r[0]] = r[1]
		}
	}
	for i, c := range w.writers {
		switch {
		case c.pending != nil && maps.Equal(there[i], c.pending):
			c.told["done without an answer"]++
		case !maps.Equal(there[i], c.held):
			t.Errorf("writer %d has %v\n  was told %v\n  or, had the last statement been done, %v", i, there[i], c.held, c.pending)
		}
		c.held, c.pending = there[i], nil
	}
}
