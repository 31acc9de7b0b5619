package difftest

import (
	"testing"

	"braid/tests/e2e"
	"braid/tests/wire"
)

// countReached counts the SELECTs that reach the nodes for statements that one
// shard can answer, and reports those that reach more than one.
func countReached(t *testing.T, braid *e2e.Braid, o wire.Options, statements []*randomSelect) {
	t.Helper()
	conn, err := wire.Connect(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	reached := func(texts []string, times int) int64 {
		var before []e2e.Counters
		for _, n := range braid.Nodes {
			before = append(before, e2e.Count(t, n))
		}
		for _, text := range texts {
			for range times {
				if _, err := ask(conn, &Case{Text: text}, false); err != nil {
					t.Fatalf("%s: %v", text, err)
				}
			}
		}
		sum := int64(0)
		for _, c := range before {
			sum += c.Since(t, "Com_select")
		}
		return sum - int64(len(before)) // the first count's own, of Rows_sent
	}
	const batch, times = 25, 5
	var texts []string
	for _, q := range statements {
		if q.single && len(q.before) == 0 {
			texts = append(texts, plainLiterals.Replace(q.marked()))
		}
	}
	for i := 0; i < len(texts); i += batch {
		some := texts[i:min(i+batch, len(texts))]
		if reached(some, 1) <= int64(len(some)) {
			continue
		}
		for _, text := range some {
			n := reached([]string{text}, times)
			for again := 0; n >= 2*times && again < 3; again++ {
				n = min(n, reached([]string{text}, times)) // Braid's own look at its nodes was among them
			}
			if n >= 2*times {
				t.Errorf("asked %d times, %d SELECTs reached the nodes: %s", times, n, text)
			}
		}
	}
	t.Logf("%d statements for one shard", len(texts))
}
