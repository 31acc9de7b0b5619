package transaction

import (
	"strings"
	"testing"

	"braid/conf"
	"braid/tests/e2e"
)

// T17: a schema change does not wait for ever for a transaction that uses the
// table, and what fails on the first shard has changed nothing.
func TestT17SchemaChangeWaitsBounded(t *testing.T) {
	var relays []*e2e.Relay
	eachWith(t, func(c *conf.Config) { throughRelays(t, &relays)(c) }, func(t *testing.T, w *world) {
		a, b := w.client(t), w.client(t)
		a.ok("BEGIN", "SELECT COUNT(*) FROM acc")
		b.ok("SET lock_wait_timeout=1")
		if code := b.code("ALTER TABLE acc ADD COLUMN more INT"); code != 1205 {
			t.Fatalf("ALTER TABLE: %d, want 1205", code)
		}
		a.ok("COMMIT")
		for i, place := range w.braid.Shards() {
			if n := numbers(t, w.node[i%2], "SELECT COUNT(*) FROM information_schema.COLUMNS WHERE TABLE_SCHEMA='"+place.Schema+"' AND TABLE_NAME='acc'"); n[0] != 2 {
				t.Errorf("shard %s has %d columns", place.Shard, n[0])
			}
		}
		b.ok("SET lock_wait_timeout=DEFAULT")
		for _, text := range []string{"SET lock_wait_timeout=123", ""} {
			c := w.client(t)
			want := "lock_wait_timeout=60"
			if text != "" {
				c.ok(text)
				want = "lock_wait_timeout=123"
			}
			relays[1].Reset()
			c.ok("ALTER TABLE acc COMMENT='" + text + "'")
			if sent := strings.Join(relays[1].Commands(), "\n"); !strings.Contains(sent, want) {
				t.Errorf("after %q the node got %q, want %s", text, sent, want)
			}
		}
	})
}

// T17: a schema change and two transactions wait for each other over two nodes:
// it for both, and each of them, on the other's node, behind it. The schema change
// gives up after its lock_wait_timeout, and both transactions go on.
func TestT17MetadataCycle(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		a, b, ddl := w.client(t), w.client(t), w.client(t)
		x, y := w.at[0][0], w.at[1][0]
		a.ok("BEGIN", update(x, 1))
		b.ok("BEGIN", update(y, 1))
		ddl.ok("SET lock_wait_timeout=3")
		done := ddl.later("ALTER TABLE acc ADD COLUMN more INT")
		w.running(t, 0, "INFO LIKE 'ALTER TABLE%'")
		first, second := a.later(update(w.at[1][1], 1)), b.later(update(w.at[0][1], 1))
		if code := <-done; code != 1205 {
			t.Errorf("ALTER TABLE: %d, want 1205", code)
		}
		for i, c := range []<-chan int{first, second} {
			if code := <-c; code != 0 {
				t.Errorf("transaction %d: %d", i, code)
			}
		}
		a.ok("COMMIT")
		b.ok("COMMIT")
		if got := ddl.one("SELECT SUM(v) FROM acc"); got != "4" {
			t.Errorf("sum %s", got)
		}
		ddl.ok("ALTER TABLE acc ADD COLUMN more INT")
	})
}
