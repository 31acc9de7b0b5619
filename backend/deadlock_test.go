package backend

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
)

// TestWaitGraph reads waits such as "A1>B1": A waits for B on node 1. A capital
// is a transaction of this Braid that began the later the further it is in the
// alphabet; a small letter is one of another Braid, ordered likewise; a digit is
// a connection of nobody's.
func TestWaitGraph(t *testing.T) {
	cluster, decider := strings.Repeat("0", clusterChars), strings.Repeat("0", identityChars)
	foreign := func(c byte) string {
		g := globalID{cluster, decider, time.Unix(int64(c), 0), strings.Repeat("0", randomChars)}
		return g.String()
	}
	for _, c := range []struct{ name, waits, want string }{
		{"nobody waits", "", ""},
		{"a queue", "A1>B1 B2>C2", ""},
		{"two on two nodes", "A1>B1 B2>A2", "B"},
		{"the youngest, whoever waits first", "C1>A1 A2>C2", "C"},
		{"three on three nodes", "A1>B1 B2>C2 C3>A3", "C"},
		{"through somebody on one node only", "A1>7 7>B1 B2>A2", "B"},
		{"two cycles", "A1>B1 B2>A2 C1>D1 D2>C2", "B D"},
		{"two cycles with one victim", "A1>C1 C2>A2 B1>C1 C2>B2", "C"},
		{"one that is left when the victim is gone", "A1>B1 B2>A2 B2>C2 C1>B1 A2>C2 C1>A1", "B C"},
		{"somebody waits for a cycle", "A1>B1 B2>A2 C1>A1", "B"},
		{"another Braid's is younger", "A1>b1 b2>A2", "b"},
		{"two of other Braids", "a1>b1 b2>a2", "b"},
		{"only strangers", "7>8 8>7", "8"},
	} {
		t.Run(c.name, func(t *testing.T) {
			own := map[connKey]party{}
			var waits []lockWait
			side := func(s string) (k connKey, gtrid string) {
				k = connKey{"n", uint64(s[0])}
				switch {
				case s[0] >= 'A' && s[0] <= 'Z':
					k.node = "n" + s[1:]
					p := party{key: foreign(s[0] - 60), tx: &Tx{}, began: time.Unix(int64(s[0]), 0)}
					own[k] = p
				case s[0] >= 'a':
					k.node, gtrid = "n"+s[1:], foreign(s[0])
				}
				return k, gtrid
			}
			for _, w := range strings.Fields(c.waits) {
				a, b, _ := strings.Cut(w, ">")
				var l lockWait
				l.waiter, l.waiterGTRID = side(a)
				l.blocker, l.blockerGTRID = side(b)
				waits = append(waits, l)
			}
			var got []string
			for _, d := range newWaitGraph(waits, own).deadlocks() {
				v := d.victim()
				name := v.key
				switch g, ok := parseGlobalID(v.key); {
				case v.tx != nil:
					name = string(rune(v.began.Unix()))
				case ok:
					name = string(rune(g.began.Unix()))
				default:
					var id int
					if _, err := fmt.Sscanf(v.key, "connection %d", &id); err == nil {
						name = string(rune(id))
					}
				}
				got = append(got, name)
			}
			slices.Sort(got)
			if s := strings.Join(got, " "); s != c.want {
				t.Errorf("victims %q, want %q", s, c.want)
			}
		})
	}
}

// A victim whose kill was lost, as here where no node can be reached, is stopped
// again as long as its statement is under way.
func TestVictimIsStoppedAgain(t *testing.T) {
	cfg := labConfig("127.0.0.1:1", "127.0.0.1:2")
	c, err := NewCluster(cfg, nil, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	k, err := NewCoordinator(cfg.Recovery, func() *Cluster { return c }, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	tx := k.Begin(TxOptions{})
	for _, n := range c.Nodes() {
		tx.mu.legs = append(tx.mu.legs, &leg{node: n, conn: &Conn{node: n, id: 1}})
	}
	tx.since.Store(5)
	for try := range 3 {
		if !tx.stop(5) {
			t.Fatalf("not stopped the %d. time", try+1)
		}
	}
	tx.since.Store(6)
	if tx.stop(5) {
		t.Error("a statement was stopped that is over")
	}
	if tx.awaitKill(true); tx.stop(6) {
		t.Error("stopped while it ends")
	}
}
