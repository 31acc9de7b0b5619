package transaction

import (
	"fmt"
	"strings"
	"testing"

	"braid/conf"
	"braid/proxy"
	"braid/tests/e2e"
	"braid/tests/servers"
)

// T19: what Braid's user may do, and what makes a node lose commits, is told.
func TestT19CheckLive(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		for _, n := range w.node {
			for _, text := range []string{"DROP USER IF EXISTS few@'%'", "CREATE USER few@'%' IDENTIFIED BY 'f'", "GRANT SELECT ON *.* TO few@'%'"} {
				if _, err := n.ExecContext(t.Context(), text); err != nil {
					t.Fatal(err)
				}
			}
		}
		full := findings(t, w.braid.Config)
		if strings.Contains(full, "is missing") {
			t.Errorf("the user of the tests may do all, and yet:\n%s", full)
		}
		if !strings.Contains(full, "innodb_flush_log_at_trx_commit is 2") {
			t.Errorf("nothing is said of innodb_flush_log_at_trx_commit:\n%s", full)
		}
		few := *w.braid.Config
		few.Nodes = append([]conf.Node(nil), few.Nodes...)
		for i := range few.Nodes {
			few.Nodes[i].User, few.Nodes[i].Secret = "few", conf.Secret{Password: "f"}
		}
		want := []string{"PROCESS on *.*", "CREATE TEMPORARY TABLES on *.*", "CREATE on braid.*", "INSERT on braid.*", "UPDATE on braid.*", "DELETE on braid.*"}
		if w.braid.Nodes[0].Flavour() == servers.MySQL {
			want = append(want, "XA_RECOVER_ADMIN on *.*")
		}
		got := findings(t, &few)
		for _, p := range want {
			if !strings.Contains(got, "the privilege "+p+" is missing") {
				t.Errorf("nothing is said of %s:\n%s", p, got)
			}
		}
		if strings.Contains(got, "SELECT on") {
			t.Errorf("SELECT is granted:\n%s", got)
		}
		two := *w.braid.Config
		two.Nodes = append([]conf.Node(nil), two.Nodes...)
		two.Nodes[1].Primary = two.Nodes[0].Primary
		if got := findings(t, &two); !strings.Contains(got, "it is the same server as node n0") {
			t.Errorf("one server as two nodes:\n%s", got)
		}
	})
}

func findings(t *testing.T, c *conf.Config) string {
	t.Helper()
	list, err := proxy.CheckLive(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, f := range list {
		fmt.Fprintf(&b, "%s %s: %s\n", f.Level, f.Node, f.What)
	}
	return b.String()
}

// T11: what a client was told is committed is seen by every later statement of
// this Braid, also when a node could not finish its branch at once.
func TestT11CommittedIsSeen(t *testing.T) {
	var relays []*e2e.Relay
	eachWith(t, func(c *conf.Config) { throughRelays(t, &relays)(c) }, func(t *testing.T, w *world) {
		c, reader := w.client(t), w.client(t)
		slow := w.braid.Nodes[1]
		y := w.at[1][0]
		c.ok("BEGIN", update(w.at[0][0], 1), update(y, 1))
		relays[1].Reset()
		relays[0].Reset()
		// The node takes its XA PREPARE and stops answering after that.
		relays[1].Hold("XA COMMIT")
		done := c.later("COMMIT")
		until(t, "the branch is told to commit", func() bool { return relays[1].Held() })
		relays[1].Cut() // its answer is lost, and it may or may not have done it
		relays[1].Release()
		if code := <-done; code != 0 {
			t.Fatalf("COMMIT: %d; %s", code, slow.Log())
		}
		if got := reader.one(fmt.Sprintf("SELECT v FROM acc WHERE id=%d", y)); got != "1" {
			t.Errorf("the committed change is not seen: %s", got)
		}
		if got := reader.one("SELECT SUM(v) FROM acc"); got != "2" {
			t.Errorf("sum %s", got)
		}
	})
}
