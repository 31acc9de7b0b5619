package difftest

import (
	"flag"
	"fmt"
	"testing"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"braid/tests/e2e"
	"braid/tests/servers"
)

var (
	randomN    = flag.Int("random", 1000, "TestRandomStatements: how many statements on each flavour, each as text and prepared")
	randomSeed = flag.Uint64("seed", 1, "TestRandomStatements: the first seed; statement i has seed+i")
	randomOver = flag.Int("nodes", 2, "TestRandomStatements: how many nodes the four shards are on; with 4 their schemas have the database's name")
	randomOnly = flag.String("flavour", "", "TestRandomStatements: only this flavour")
)

// TestRandomStatements compares random SELECTs over four shards with one plain
// server. A failing one is made shorter as long as it fails.
func TestRandomStatements(t *testing.T) {
	var total Tally
	for _, flavour := range []servers.Flavour{servers.MariaDB, servers.MySQL} {
		if *randomOnly != "" && *randomOnly != string(flavour) {
			continue
		}
		t.Run(string(flavour), func(t *testing.T) {
			f, err := randomFile()
			if err != nil {
				t.Fatal(err)
			}
			statements := make([]*randomSelect, *randomN)
			for i := range statements {
				statements[i] = newRandom(*randomSeed + uint64(i)).statement()
				f.Cases = append(f.Cases, statements[i].asCases(i, flavour)...)
			}
			plain := lab.Server(t, flavour, "plain")
			e2e.Recreate(t, plain, database)
			braid := lab.StartBraid(t, e2e.Topology{Flavour: flavour, Nodes: *randomOver, Shards: 4, Database: database, Tables: f.Tables})
			wrong := map[int]string{} // the first report, by line
			r := &Run{Braid: options(braid.Addr, gomysql.CLIENT_DEPRECATE_EOF), Plain: options(plain.Addr(), gomysql.CLIENT_DEPRECATE_EOF), Flavour: flavour, MayRefuse: true}
			r.Wrong = func(format string, args ...any) {
				if len(args) > 1 {
					if line, ok := args[1].(int); ok && wrong[line] == "" {
						wrong[line] = fmt.Sprintf(format, args...)
					}
				}
			}
			reasons := map[string]int{}
			r.Refused = func(c *Case, message string) { reasons[message]++ }
			tally, err := r.File(t.Context(), f)
			if err != nil {
				t.Fatal(err)
			}
			total.Add(tally)
			for i, q := range statements {
				if wrong[i] != "" {
					short, report := shrink(t, r, f, q)
					if report == "" {
						report = "(does not fail a second time) " + wrong[i]
					}
					t.Errorf("seed %d: %s\nshorter: %s\n%s", *randomSeed+uint64(i), q, short, report)
				}
			}
			countReached(t, braid, r.Braid, statements)
			for reason, n := range reasons {
				t.Logf("refused %d times: %s", n, reason)
			}
			if r.Contradicted > 0 {
				t.Logf("the plain server contradicted itself %d times (bugs of its own that docs/testing.md names)", r.Contradicted)
			}
			t.Logf("%s, random: %s", flavour, tally)
		})
	}
	fmt.Println(total)
}

// shrink leaves pieces of a failing statement out as long as it still fails.
func shrink(t *testing.T, r *Run, f *File, q *randomSelect) (*randomSelect, string) {
	t.Helper()
	report := ""
	fails := func(q *randomSelect) bool {
		text := ""
		try := *r
		try.Wrong = func(format string, args ...any) {
			if text == "" {
				text = fmt.Sprintf(format, args...)
			}
		}
		g := *f
		g.Setup, g.Tables, g.Cases = nil, nil, q.asCases(0, r.Flavour)
		if _, err := try.File(t.Context(), &g); err != nil {
			return false
		}
		if text != "" {
			report = text
		}
		return text != ""
	}
	if !fails(q) {
		return q, ""
	}
	for again := true; again; {
		again = false
		for _, s := range q.shorter() {
			if fails(s) {
				q, again = s, true
				break
			}
		}
	}
	return q, report
}
