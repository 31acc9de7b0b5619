package transaction

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"braid/tests/servers"
	"braid/tests/wire"
)

// lockingText is a read over all shards, its locking clause in place of %s.
type lockingText struct {
	text    string
	ordered bool
}

var lockingTexts = []lockingText{
	{"SELECT id FROM acc ORDER BY id%s", true},
	{"SELECT id FROM acc%s", false},
	{"SELECT id FROM acc WHERE v < 1000 ORDER BY id%s", true},
}

// asked runs a text as text or prepared: its first column, or an error number.
func (c *client) asked(text string, prepared bool) (ids []int, code int) {
	c.t.Helper()
	var r []wire.Result
	var err error
	if prepared {
		var st *wire.Statement
		if st, err = c.Prepare(text); err == nil {
			r, err = st.Execute()
		}
	} else {
		r, err = c.Query(text)
	}
	if err == nil && r[0].Err != nil {
		err = r[0].Err
	}
	var e *wire.Error
	if errors.As(err, &e) {
		return nil, int(e.Code)
	}
	if err != nil {
		c.t.Fatalf("%s: %v", text, err)
	}
	for _, row := range r[0].Rows {
		if prepared {
			ids = append(ids, int(binary.LittleEndian.Uint32(row[0])))
			continue
		}
		id, err := strconv.Atoi(string(row[0]))
		if err != nil {
			c.t.Fatal(err)
		}
		ids = append(ids, id)
	}
	return ids, 0
}

// clauses are a flavour's ways to lock what is free, and to fail on what is not.
func clauses(w *world) (skip, fail []string, failed int) {
	skip, fail = []string{" FOR UPDATE SKIP LOCKED"}, []string{" FOR UPDATE NOWAIT"}
	if w.braid.Flavour() == servers.MySQL {
		return append(skip, " FOR SHARE SKIP LOCKED"), append(fail, " FOR SHARE NOWAIT"), 3572
	}
	return append(skip, " LOCK IN SHARE MODE SKIP LOCKED"), append(fail, " FOR UPDATE WAIT 0", " LOCK IN SHARE MODE WAIT 0", " LOCK IN SHARE MODE NOWAIT"), 1205
}

// TestLockingReads: what others hold is skipped, waited for, or an error, on
// whatever shard it is; under autocommit, where each read is a transaction of its
// own, and in a transaction, where a node's shards are read by one text.
func TestLockingReads(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		skip, fail, failed := clauses(w)
		holder, c := w.client(t), w.client(t)
		c.ok("SET innodb_lock_wait_timeout=1")
		held := []int{w.shard[0][1], w.shard[3][2]}
		var free, all []int
		for id := range rowsMax {
			all = append(all, id)
			if !slices.Contains(held, id) {
				free = append(free, id)
			}
		}
		holder.ok("BEGIN", update(held[0], 1), update(held[1], 1))
		for _, inside := range []bool{false, true} {
			for _, q := range lockingTexts {
				for _, prepared := range []bool{false, true} {
					run := func(clause string, want []int, code int) {
						t.Helper()
						text := fmt.Sprintf(q.text, clause)
						if inside {
							c.ok("BEGIN")
						}
						got, e := c.asked(text, prepared)
						if !q.ordered {
							slices.Sort(got)
						}
						if e != code || !slices.Equal(got, want) {
							t.Errorf("%s (inside %t, prepared %t): %v, error %d, want %v, %d", text, inside, prepared, got, e, want, code)
						}
						if inside {
							// The transaction lives on, and so does what it locked.
							if !c.inTransaction() {
								t.Errorf("%s: the transaction ended", text)
							}
							c.ok("ROLLBACK")
						}
						if c.inTransaction() {
							t.Errorf("%s: a transaction is open", text)
						}
					}
					for _, clause := range skip {
						run(clause, free, 0)
					}
					for _, clause := range fail {
						run(clause, nil, failed)
					}
				}
			}
			// Waiting ends as on one server: with an error of the statement alone.
			if inside {
				c.ok("BEGIN")
			}
			if _, e := c.asked("SELECT id FROM acc ORDER BY id FOR UPDATE", false); e != 1205 {
				t.Errorf("inside %t: waited for a lock and got %d", inside, e)
			}
			if c.inTransaction() != inside {
				t.Errorf("inside %t: not after a time-out", inside)
			}
			c.ok("ROLLBACK")
		}
		holder.ok("ROLLBACK")

		// Nothing is left locked, and what nobody holds is not skipped.
		for _, clause := range append(skip, fail...) {
			c.ok("BEGIN")
			for range 2 {
				if got, e := c.asked("SELECT id FROM acc ORDER BY id"+clause, false); e != 0 || !slices.Equal(got, all) {
					t.Errorf("%s: %v, error %d", clause, got, e)
				}
			}
			c.ok("COMMIT")
		}
	})
}

// TestLocksLast: a locking read's rows are locked on every shard until the
// transaction ends; under autocommit until the statement does.
func TestLocksLast(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		skip, fail, failed := clauses(w)
		a, b := w.client(t), w.client(t)
		for _, clause := range append([]string{" FOR UPDATE", " LOCK IN SHARE MODE"}, append(skip, fail...)...) {
			shared := strings.Contains(clause, "SHARE")
			for _, q := range lockingTexts {
				text := fmt.Sprintf(q.text, clause)
				a.ok("BEGIN", text)
				for i, ids := range w.shard {
					if e := b.code(fmt.Sprintf("SELECT id FROM acc WHERE id=%d FOR UPDATE NOWAIT", ids[0])); e != failed {
						t.Errorf("%s: shard %d: %d, is it not locked?", text, i, e)
					}
				}
				if shared && w.braid.Flavour() == servers.MySQL {
					if _, e := b.asked("SELECT id FROM acc ORDER BY id FOR SHARE NOWAIT", false); e != 0 {
						t.Errorf("%s: not shared: %d", text, e)
					}
				}
				if got, e := b.asked("SELECT id FROM acc FOR UPDATE SKIP LOCKED", false); e != 0 || len(got) > 0 {
					t.Errorf("%s: others find %v free, error %d", text, got, e)
				}
				a.ok("COMMIT")
				a.ok(text)
				if got, e := b.asked("SELECT id FROM acc FOR UPDATE NOWAIT", false); e != 0 || len(got) != rowsMax {
					t.Errorf("%s: still locked under autocommit: %v, %d", text, got, e)
				}
			}
		}
		// What would hide rows from the next is refused; on one shard it is a shard's own.
		if e := a.code("SELECT id FROM acc ORDER BY id LIMIT 2 FOR UPDATE SKIP LOCKED"); e != 1235 {
			t.Errorf("SKIP LOCKED with LIMIT over shards: %d", e)
		}
		ids := w.shard[1]
		a.ok("BEGIN")
		one := fmt.Sprintf("SELECT id FROM acc WHERE id=%d LIMIT 1 FOR UPDATE SKIP LOCKED", ids[0])
		if rows := a.ok(one); len(rows) != 1 {
			t.Errorf("%s: %v", one, rows)
		}
		if rows := b.ok(one); len(rows) != 0 {
			t.Errorf("%s: %v for another", one, rows)
		}
		a.ok("ROLLBACK")
	})
}
