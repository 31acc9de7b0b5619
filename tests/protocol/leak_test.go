package protocol

import (
	"flag"
	"runtime"
	"sync"
	"testing"

	"braid/tests/e2e"
	"braid/tests/wire"
)

var leakRounds = flag.Int("rounds", 2500, "rounds of TestStatementsLeakNowhere on each flavour (the case's own size is 50,000)")

// leakClients is how many clients share the rounds.
const leakClients = 8

// leakTexts are the statements of a round that can be prepared: one for a shard,
// one for all of them, and two that Braid brings together itself.
func leakTexts() []string {
	return []string{"SELECT x FROM i WHERE k=?", "SELECT k FROM i WHERE x>=? ORDER BY k", "SELECT COUNT(*) FROM i WHERE x>?",
		"SELECT a.k FROM i a JOIN i b ON b.x=a.x WHERE a.k=?"}
}

// TestStatementsLeakNowhere: PREPAREs that fail, statements that are closed, and
// clients that leave theirs open leave nothing on the nodes and nothing in Braid (B085).
func TestStatementsLeakNowhere(t *testing.T) {
	for _, flavour := range flavours {
		t.Run(string(flavour), func(t *testing.T) {
			b := lab.StartBraid(t, e2e.Topology{Flavour: flavour, Nodes: 2, Shards: 4, Tables: caseTables()})
			before := []int{openStatements(t, b, 0), openStatements(t, b, 1)}
			c := connect(t, b.Wire())
			query(t, c, "CREATE TABLE i(k INT PRIMARY KEY, x INT)")
			query(t, c, "INSERT INTO i VALUES (1,1),(2,2),(3,3),(4,4),(5,5),(6,6),(7,7),(8,8)")
			leakRun(t, b, *leakRounds/5)
			heap, routines := heapInUse(), runtime.NumGoroutine()
			leakRun(t, b, *leakRounds-*leakRounds/5)
			until(t, "the clients are gone", func() bool { return len(b.Server.Sessions()) == 1 })
			if now := heapInUse(); now > heap+8<<20 {
				t.Errorf("the heap grew from %d to %d bytes", heap, now)
			}
			until(t, "no goroutine is left", func() bool { return runtime.NumGoroutine() <= routines+5 })
			// A text is prepared once on a connection, in the schema of each of the node's
			// two shards, and what brings rows together has texts of its own.
			for i := range b.Nodes {
				if n, most := openStatements(t, b, i), 6*len(leakTexts())*(leakClients+2); n > most {
					t.Errorf("%d statements are open on node %d, want %d at most", n, i, most)
				}
			}
			b.Stop()
			for i := range b.Nodes {
				until(t, "the node has as few as at the beginning", func() bool { return openStatements(t, b, i) == before[i] })
			}
		})
	}
}

// openStatements is how many prepared statements a node has.
func openStatements(t *testing.T, b *e2e.Braid, node int) int {
	t.Helper()
	var name string
	var n int
	if err := e2e.Open(t, b.Nodes[node], "").QueryRowContext(t.Context(), "SHOW GLOBAL STATUS LIKE 'Prepared_stmt_count'").Scan(&name, &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// heapInUse is how many bytes are reachable.
func heapInUse() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// leakRun is so many rounds of a PREPARE that fails and one that is executed and
// closed; and two clients for every five rounds that leave a statement open.
func leakRun(t *testing.T, b *e2e.Braid, rounds int) {
	t.Helper()
	var wg sync.WaitGroup
	for n := range leakClients {
		wg.Go(func() {
			c, err := wire.Connect(t.Context(), b.Wire())
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			texts := leakTexts()
			for round := n; round < rounds && !t.Failed(); round += leakClients {
				if _, err := c.Prepare("SELECT nosuch"); code(err) != 1054 {
					t.Errorf("SELECT nosuch: %v", err)
				}
				leakOnce(t, c, texts[round%len(texts)], true)
				if round%5 < 2 {
					other, err := wire.Connect(t.Context(), b.Wire())
					if err != nil {
						t.Error(err)
						return
					}
					leakOnce(t, other, texts[round%len(texts)], false)
					if round%5 == 0 {
						err = other.Close()
					} else {
						err = other.Abort()
					}
					if err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
}

// leakOnce prepares a text, and executes and closes it, or leaves it.
func leakOnce(t *testing.T, c *wire.Conn, text string, close bool) {
	s, err := c.Prepare(text)
	if err != nil {
		t.Errorf("%s: %v", text, err)
		return
	}
	if !close {
		return
	}
	if r, err := s.Execute(wire.Int(3)); err != nil || len(r) != 1 || r[0].Err != nil || len(r[0].Rows) == 0 {
		t.Errorf("%s: %v %v", text, r, err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
