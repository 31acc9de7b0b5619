package backend

import (
	"strconv"
	"strings"
	"testing"
	"time"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"
	"go.uber.org/zap"

	"braid/conf"
)

func TestT6GlobalIDs(t *testing.T) {
	server, err := identityOfUUID("4ccfa2ff-ecf4-11f1-bd7e-02fc00000001")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1_790_000_000, 999)
	g := newGlobalID(randomID(8), server, now)
	text := g.String()
	if len(text) > 64 || strings.ToLower(text) != text || strings.ContainsAny(text, "'\\\" ") {
		t.Errorf("gtrid %q", text)
	}
	back, ok := parseGlobalID(text)
	if !ok || back != g || back.began.Unix() != now.Unix() {
		t.Errorf("%q is read back as %+v, %v", text, back, ok)
	}
	if other := newGlobalID(g.cluster, server, now.Add(time.Second)).String(); other <= text || other == text {
		t.Errorf("%q does not sort behind %q", other, text)
	}
	if newGlobalID(g.cluster, server, now) == g {
		t.Error("the same id twice")
	}
	bqual := branchID(server, 1<<63)
	if len(bqual) > 64 {
		t.Errorf("bqual %q is too long", bqual)
	}
	if node, id, ok := parseBranchID(bqual); !ok || node != server || id != 1<<63 {
		t.Errorf("%q is read back as %q, %d, %v", bqual, node, id, ok)
	}
	for _, foreign := range []string{"", "x", text[1:], text + "0", strings.ToUpper(text), strings.Replace(text, ".", ",", 1),
		g.cluster + "." + server + ".zzzzzzzz." + g.random, g.cluster + "." + server + "." + g.random} {
		if _, ok := parseGlobalID(foreign); ok {
			t.Errorf("%q passes as Braid's", foreign)
		}
	}
	for _, foreign := range []string{"", "1", server, server + ".", server + ".x", server + ".-1", "x.1"} {
		if _, _, ok := parseBranchID(foreign); ok {
			t.Errorf("bqual %q passes as Braid's", foreign)
		}
	}
	for _, bad := range []string{"", "4ccfa2ff", "zccfa2ff-ecf4-11f1-bd7e-02fc00000001"} {
		if _, err := identityOfUUID(bad); err == nil {
			t.Errorf("server_uuid %q passes", bad)
		}
	}
}

// All nodes of the widest transaction have their names in its decision rows.
func TestT1WidestTransaction(t *testing.T) {
	server, err := identityOfUUID("4ccfa2ff-ecf4-11f1-bd7e-02fc00000001")
	if err != nil {
		t.Fatal(err)
	}
	k, err := NewCoordinator(conf.Recovery{}, nil, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	tx := k.Begin(TxOptions{})
	for i := range legsMax {
		l := &leg{node: &Node{name: strconv.Itoa(i)}, bqual: branchID(server, 1<<64-1)}
		l.wrote.Store(true)
		tx.mu.legs = append(tx.mu.legs, l)
	}
	if _, list := tx.voters(); len(list) > branchesMax {
		t.Errorf("%d bytes of names in a column of %d", len(list), branchesMax)
	}
	_, err = tx.Leg(t.Context(), &Node{name: "one more"}, "", nil)
	wantCode(t, err, gomysql.ER_NOT_SUPPORTED_YET)
}

func TestT10Decides(t *testing.T) {
	for _, test := range []struct {
		name  string
		facts nodeFacts
		asked string
		want  bool
	}{
		{"itself", nodeFacts{identity: "a", recorded: "a"}, "a", true},
		{"another", nodeFacts{identity: "a", recorded: "a"}, "b", false},
		{"after a failover, its own", nodeFacts{identity: "b", recorded: "a"}, "b", true},
		{"after a failover, the old server's", nodeFacts{identity: "b", recorded: "a"}, "a", false},
		{"after a second failover, an older server's", nodeFacts{identity: "c", recorded: "b", predecessors: []string{"a"}}, "a", false},
		{"settled", nodeFacts{identity: "b", recorded: "b", predecessors: []string{"x", "a"}}, "a", true},
	} {
		if got := test.facts.decides(test.asked); got != test.want {
			t.Errorf("%s: %v", test.name, got)
		}
	}
}

func TestFailpoint(t *testing.T) {
	died := 0
	die := func() { died++ }
	hook, err := failpointFrom("commit.decided:2", die)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []int{0, 1, 1} {
		hook("commit.prepared")
		hook("commit.decided")
		if died != want {
			t.Errorf("hit %d: died %d times, want %d", i+1, died, want)
		}
	}
	if hook, err := failpointFrom("", die); hook != nil || err != nil {
		t.Error("a failpoint without a name")
	}
	for _, bad := range []string{"a:", "a:0", "a:x"} {
		if _, err := failpointFrom(bad, die); err == nil {
			t.Errorf("%q passes", bad)
		}
	}
}
