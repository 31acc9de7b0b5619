package transaction

import (
	"reflect"
	"testing"

	"braid/tests/wire"
)

// T18: inside a transaction a node is one stream. Answers, with every field of
// their columns, are those of the same statement outside, where each shard has a
// connection of its own; as text and prepared; plain and locking.
func TestT18OneStreamPerNode(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		c := w.client(t)
		for id := range rowsMax {
			c.ok(update(id, id*7%13))
		}
		for _, lock := range []string{"", " FOR UPDATE", " LOCK IN SHARE MODE"} {
			for _, s := range []struct {
				text    string
				params  []wire.Param
				grouped bool // not locking
			}{
				{"SELECT id, v FROM acc ORDER BY v, id", nil, false},
				{"SELECT v AS `a b`, id, v+1 FROM acc WHERE id > 3 ORDER BY 1 DESC, id LIMIT 7", nil, false},
				{"SELECT id FROM acc ORDER BY v DESC, id DESC LIMIT 5, 9", nil, false},
				{"SELECT id, ? FROM acc WHERE v > ? ORDER BY v, id LIMIT 11", []wire.Param{wire.Text("x"), wire.Int(4)}, false},
				{"SELECT COUNT(*), SUM(v), MIN(id), MAX(v) FROM acc", nil, true},
				{"SELECT v, SUM(id) FROM acc GROUP BY v ORDER BY v", nil, true},
				{"SELECT DISTINCT v FROM acc ORDER BY v", nil, true},
				{"SELECT id FROM acc WHERE id = 5", nil, false},
			} {
				if lock != "" && s.grouped {
					continue
				}
				text := s.text + lock
				for _, prepared := range []bool{false, true} {
					if !prepared && s.params != nil {
						continue
					}
					ask := func() []wire.Result {
						t.Helper()
						var r []wire.Result
						var err error
						if prepared {
							var st *wire.Statement
							if st, err = c.Prepare(text); err == nil {
								r, err = st.Execute(s.params...)
							}
						} else {
							r, err = c.Query(text)
						}
						if err == nil && r[0].Err != nil {
							err = r[0].Err
						}
						if err != nil {
							t.Fatalf("%s (prepared %t): %v", text, prepared, err)
						}
						return r
					}
					outside := ask()
					c.ok("BEGIN")
					inside := ask()
					for i := range w.node {
						if n := len(w.open(t, i)); lock != "" && n > 1 {
							t.Errorf("%s: %d transactions on node %d", text, n, i)
						}
					}
					c.ok("ROLLBACK")
					if s.grouped {
						// A server sets this flag of an aggregate when it took no temporary table.
						for _, r := range [][]wire.Column{outside[0].Columns, inside[0].Columns} {
							for i := range r {
								r[i].Flags &^= 128
							}
						}
					}
					if !reflect.DeepEqual(outside[0].Columns, inside[0].Columns) {
						t.Errorf("%s (prepared %t): columns\n%+v\noutside\n%+v", text, prepared, inside[0].Columns, outside[0].Columns)
					}
					if !reflect.DeepEqual(outside[0].Rows, inside[0].Rows) {
						t.Errorf("%s (prepared %t): rows %q\noutside %q", text, prepared, inside[0].Rows, outside[0].Rows)
					}
				}
			}
		}
		// A locking read locks on every shard.
		other := w.client(t)
		other.ok("SET innodb_lock_wait_timeout=1")
		c.ok("BEGIN", "SELECT id FROM acc ORDER BY v, id FOR UPDATE")
		for i, ids := range w.shard {
			if code := other.code(update(ids[0], 1)); code != 1205 {
				t.Errorf("shard %d is not locked: %d", i, code)
			}
		}
		c.ok("COMMIT")
		other.ok(update(w.shard[3][0], 1))
	})
}

// open lists the transactions that are open on a node.
func (w *world) open(t *testing.T, node int) []int {
	t.Helper()
	return numbers(t, w.node[node], "SELECT trx_mysql_thread_id FROM information_schema.INNODB_TRX WHERE trx_mysql_thread_id<>0")
}
