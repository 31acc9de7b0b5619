package transaction

import (
	"fmt"
	"testing"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"braid/tests/wire"
)

// joined sets something in row x where row y, on another node, is there too.
func joined(set string, x, y int) string {
	return fmt.Sprintf("UPDATE acc a JOIN acc b ON b.v<1000 SET %s WHERE a.id=%d AND b.id=%d", set, x, y)
}

// What a gathered write read stays as it was until its transaction ends: a row
// that it only looked at, too.
func TestGatheredWriteLocks(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		x, y := w.at[0][0], w.at[1][0]
		a, b := w.client(t), w.client(t)
		a.ok("BEGIN", update(y, 10))
		done := b.later(joined("a.v=a.v+b.v+1", x, y))
		w.waiting(t, 1)
		a.ok("COMMIT")
		if code := <-done; code != 0 {
			t.Fatalf("error %d", code)
		}
		if got := a.one(fmt.Sprintf("SELECT v FROM acc WHERE id=%d", x)); got != "11" {
			t.Errorf("v is %s, want 11: made of a row that another changed", got)
		}
		a.ok("SET innodb_lock_wait_timeout=1")
		b.ok("BEGIN", joined("a.v=a.v+b.v+1", x, y))
		for _, id := range []int{x, y} {
			if code := a.code(update(id, 1)); code != 1205 {
				t.Errorf("row %d is not locked: %d", id, code)
			}
		}
		b.ok("ROLLBACK")
		if code := a.code(update(y, 1)); code != 0 {
			t.Errorf("still locked after ROLLBACK: %d", code)
		}
		if got := a.one("SELECT SUM(v) FROM acc"); got != "22" {
			t.Errorf("sum %s, want 22", got)
		}
	})
}

// A gathered write that a shard refuses leaves nothing behind, and the rest of
// the transaction as it was.
func TestGatheredWriteFails(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		x, y, taken := w.shard[0][0], w.shard[1][0], w.shard[2][0]
		c := w.client(t)
		c.ok("BEGIN", update(w.shard[3][0], 7))
		if code := c.code(joined(fmt.Sprintf("a.v=100, a.id=%d", taken), x, y)); code != 1062 {
			t.Fatalf("error %d, want 1062", code)
		}
		if !c.inTransaction() {
			t.Fatal("the transaction ended")
		}
		c.ok("COMMIT")
		if got := c.ok("SELECT COUNT(*), SUM(v), MAX(v) FROM acc")[0]; got[0] != "64" || got[1] != "7" || got[2] != "7" {
			t.Errorf("count, sum, max: %v", got)
		}
		c.ok(joined("a.v=100, a.id=1000", x, y))
		if got := c.ok("SELECT COUNT(*), SUM(v), MAX(id) FROM acc")[0]; got[0] != "64" || got[1] != "107" || got[2] != "1000" {
			t.Errorf("after a move: count, sum, max id: %v", got)
		}
	})
}

// A client with CLIENT_FOUND_ROWS is told of rows that were met, others of rows
// that were changed.
func TestGatheredWriteFoundRows(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		x, y := w.at[0][0], w.at[1][0]
		for _, flags := range []uint32{0, gomysql.CLIENT_FOUND_ROWS} {
			o := w.braid.Wire()
			o.Flags |= flags
			c, err := wire.Connect(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { c.Abort() })
			for _, q := range []struct {
				set            string
				found, changed uint64
			}{{"a.v=5", 1, 1}, {"a.v=5", 1, 0}, {"a.v=0", 1, 1}} {
				r, err := c.Query(joined(q.set, x, y))
				if err != nil {
					t.Fatal(err)
				}
				want := q.changed
				if flags != 0 {
					want = q.found
				}
				if r[0].OK.AffectedRows != want {
					t.Errorf("flags %x, SET %s: %d rows, want %d", flags, q.set, r[0].OK.AffectedRows, want)
				}
			}
		}
	})
}
