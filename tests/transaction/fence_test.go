package transaction

import (
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"
)

// T16: behind the fence every sum over the shards is exact, while transactions
// move amounts between them.
func TestT16ReadFence(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		stop := make(chan struct{})
		var movers sync.WaitGroup
		moved := make([]int, 3)
		for i := range moved {
			c := w.client(t)
			movers.Go(func() {
				for n := 0; ; n++ {
					select {
					case <-stop:
						return
					default:
					}
					x, y := w.at[0][(n*7+i*5)%len(w.at[0])], w.at[1][(n*3+i*11)%len(w.at[1])]
					if x > y {
						x, y = y, x
					}
					failed := 0
					for _, text := range []string{"BEGIN", update(x, -1), update(y, 1), "COMMIT"} {
						if failed = c.code(text); failed != 0 {
							break
						}
					}
					switch failed {
					case 0:
						moved[i]++
					case 1213, 1205:
						c.code("ROLLBACK")
					default:
						t.Errorf("moving failed: %d", failed)
						return
					}
				}
			})
		}
		r := w.client(t)
		r.ok("SET braid_read_fence = 1")
		reads, retried := 0, 0
		sum := func(text string) {
			results, err := r.Query(text)
			if err != nil || results[0].Err != nil {
				retried++
				return
			}
			if got := string(results[0].Rows[0][0]); got != "0" {
				t.Errorf("%s: %s", text, got)
			}
			reads++
		}
		deadline := time.Now().Add(15 * time.Second)
		for reads < 12 && time.Now().Before(deadline) {
			sum("SELECT SUM(v) FROM acc")
			// Inside a transaction, shard by shard.
			r.ok("BEGIN")
			total, failed := 0, false
			for _, ids := range w.shard {
				results, err := r.Query(fmt.Sprintf("SELECT v FROM acc WHERE id IN (%s)", list(ids)))
				if err != nil || results[0].Err != nil {
					failed = true
					break
				}
				for _, row := range results[0].Rows {
					n, _ := strconv.Atoi(string(row[0]))
					total += n
				}
			}
			r.ok("COMMIT")
			if !failed && total != 0 {
				t.Errorf("shard by shard: %d", total)
			}
		}
		close(stop)
		movers.Wait()
		if reads < 5 || moved[0]+moved[1]+moved[2] < 20 {
			t.Errorf("only %d reads (%d to be retried) and %v moves", reads, retried, moved)
		}
		t.Logf("%d exact sums, %d refused as deadlocks, moves %v", reads, retried, moved)
	})
}

func list(ids []int) string {
	text := ""
	for _, id := range ids {
		text += "," + strconv.Itoa(id)
	}
	return text[1:]
}

// The fence is a session variable of Braid's, with the manners of one.
func TestT16FenceVariable(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		c := w.client(t)
		if code := c.code("SET braid_read_fence = 2"); code != 1231 {
			t.Errorf("2: %d", code)
		}
		c.ok("BEGIN")
		if code := c.code("SET braid_read_fence = 1"); code != 1568 {
			t.Errorf("inside a transaction: %d", code)
		}
		c.ok("COMMIT", "SET SESSION braid_read_fence = ON")
		if code := c.code("SET braid_read_fence = 0, sql_mode = 'NOSUCH'"); code != 1231 {
			t.Errorf("together with what is refused: %d", code)
		}
		// It is on still: the read waits for the writer.
		other := w.client(t)
		other.ok("BEGIN", update(w.at[0][0], 1))
		read := c.later("SELECT COUNT(*) FROM acc")
		w.waiting(t, 1)
		other.ok("COMMIT")
		if code := <-read; code != 0 {
			t.Errorf("the read: %d", code)
		}
		c.ok("SET braid_read_fence = DEFAULT")
		other.ok("BEGIN", update(w.at[0][0], 1))
		if got := c.one("SELECT SUM(v) FROM acc"); got != "1" {
			t.Errorf("without the fence: %s", got)
		}
		other.ok("ROLLBACK")
	})
}

// It shows as a variable of the session does, of each type of statement.
func TestT16FenceShown(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		c := w.client(t)
		for i, value := range []string{"0", "1", "0"} {
			c.ok("SET braid_read_fence = " + value)
			for _, text := range []string{"SELECT @@braid_read_fence", "SELECT @@session.Braid_Read_Fence", fmt.Sprintf("SELECT MAX(@@braid_read_fence) FROM acc WHERE id=%d", w.at[1][0])} {
				if got := c.one(text); got != value {
					t.Errorf("%d: %s: %s", i, text, got)
				}
			}
			rows := c.ok("SHOW VARIABLES LIKE 'braid\\_read_fenc_'")
			if want := []string{"OFF", "ON"}[i%2]; len(rows) != 1 || rows[0][0] != "braid_read_fence" || rows[0][1] != want {
				t.Errorf("%d: SHOW VARIABLES: %v", i, rows)
			}
		}
		if rows := c.ok("SHOW VARIABLES LIKE 'fence%'"); len(rows) != 0 {
			t.Errorf("another pattern: %v", rows)
		}
		for text, want := range map[string]int{"SELECT @@global.braid_read_fence": 1193, "SET GLOBAL braid_read_fence = 1": 1193} {
			if code := c.code(text); code != want {
				t.Errorf("%s: %d", text, code)
			}
		}
	})
}

// The hint puts one statement, or one transaction, behind the fence.
func TestT16FenceHint(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		c, other := w.client(t), w.client(t)
		y := w.at[1][0]
		locks := func(what string, texts ...string) {
			t.Helper()
			other.ok("BEGIN", update(y, 1))
			done := make(chan int, 1)
			go func() {
				code := 0
				for _, text := range texts {
					code = max(code, c.code(text))
				}
				done <- code
			}()
			w.waiting(t, 1)
			other.ok("COMMIT")
			if code := <-done; code != 0 {
				t.Errorf("%s: %d", what, code)
			}
		}
		locks("a statement", "SELECT SUM(v) FROM acc /*braid read_fence*/")
		locks("a transaction", "BEGIN /*braid read_fence*/", "SELECT SUM(v) FROM acc", "COMMIT")
		// What comes behind is as before.
		other.ok("BEGIN", update(y, 1))
		c.ok("SELECT SUM(v) FROM acc", "BEGIN", "SELECT SUM(v) FROM acc /*braid read_fence*/")
		if rows := c.ok("SHOW WARNINGS"); len(rows) != 1 || rows[0][1] != "1105" {
			t.Errorf("inside a transaction: %v", rows)
		}
		c.ok("COMMIT", "SELECT SUM(v) FROM acc")
		other.ok("ROLLBACK")
	})
}

// T16: what a locking transaction has read holds together only as long as its
// locks last: where a node has lost them, others may have changed both halves
// between the two reads, so that COMMIT fails. It writes nowhere, or somewhere.
func TestT16LostLocks(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		for _, begin := range [][]string{{"BEGIN /*braid read_fence*/"}, {"SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE", "BEGIN"}} {
			for lost := range w.node {
				for writes := range 2 {
					c, other := w.client(t), w.client(t)
					c.ok(begin...)
					c.ok(fmt.Sprintf("SELECT v FROM acc WHERE id=%d", w.at[lost][0]))
					w.killLegs(t, lost)
					other.ok("UPDATE acc SET v=v+1")
					c.ok(fmt.Sprintf("SELECT v FROM acc WHERE id=%d", w.at[1-lost][0]))
					if writes > 0 {
						c.ok(update(w.at[1-lost][1], 100))
					}
					if code := c.code("COMMIT"); code != 1213 {
						t.Errorf("%s, node %d lost, %d writes: COMMIT: %d", begin, lost, writes, code)
					}
					if c.inTransaction() {
						t.Error("still in a transaction")
					}
					if got := c.one("SELECT MAX(v) < 100 FROM acc"); got != "1" {
						t.Fatal("what was not committed is there")
					}
				}
			}
		}
	})
}
