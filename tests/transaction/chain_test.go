package transaction

import "testing"

// T3, T18: shards of one node are read one after the other on the leg. When the
// second one's text ends the transaction on its node, it is over for the client too.
func TestT3DeadlockInTheSecondShardOfANode(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		first, second := w.shard[0], w.shard[2] // on one node
		reader, writer := w.client(t), w.client(t)
		reader.ok("BEGIN", update(first[0], 1), update(w.at[1][0], 1))
		writer.ok("BEGIN")
		for _, id := range second { // the heavier one is not the victim
			writer.ok(update(id, 1))
		}
		code := make(chan int, 1)
		go func() { code <- reader.code("SELECT id FROM acc FOR UPDATE") }()
		w.waiting(t, 1)
		writer.ok(update(first[0], 1))
		if got := <-code; got != 1213 {
			t.Fatalf("the reader got %d, want 1213", got)
		}
		if reader.inTransaction() {
			t.Error("the reader is still in a transaction, which its node has rolled back")
		}
		reader.code("COMMIT")
		writer.ok("ROLLBACK")
		if v := w.client(t).one("SELECT SUM(v) FROM acc"); v != "0" {
			t.Errorf("the sum is %s", v)
		}
	})
}
