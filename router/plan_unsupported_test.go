package router

import (
	"os"
	"strings"
	"testing"
)

const unsupportedHead = `# What Braid refuses

Each of these statements is answered with error 1235 before anything is changed. All but those marked
(always) run when their values lead to one shard. The tables are those of router/testdata/plans/schema.txt.
This file is written by a test: go test ./router -run Unsupported -update

| statement | reason |
| --- | --- |
`

// TestUnsupported holds docs/unsupported.md to what the planner refuses.
func TestUnsupported(t *testing.T) {
	text, err := os.ReadFile("testdata/unsupported.txt")
	if err != nil {
		t.Fatal(err)
	}
	r := New(testTopology(t), Options{})
	var doc strings.Builder
	doc.WriteString(unsupportedHead)
	for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		if section, ok := strings.CutPrefix(line, "# "); ok {
			doc.WriteString("| **" + section + "** | |\n")
			continue
		}
		q := testQuery(line)
		p, err := r.Plan(q)
		always := " (always)"
		if err == nil {
			if p.Kind != KindRefuse {
				always = ""
			}
			var needs *Needs
			if needs, err = p.Needs(q); needs != nil {
				makeForTest(q, needs)
			}
			if err == nil {
				err = p.Bind(q, &Route{})
			}
		}
		if err == nil || !strings.HasPrefix(err.Error(), "ERROR 1235 ") {
			t.Errorf("%s: not refused: %v", line, err)
			continue
		}
		reason := err.Error()[strings.Index(err.Error(), "support '")+len("support '"):]
		doc.WriteString("| `" + strings.ReplaceAll(line, "|", "\\|") + "` | " + strings.TrimSuffix(reason, "'") + always + " |\n")
	}
	const file = "../docs/unsupported.md"
	if *update {
		if err := os.WriteFile(file, []byte(doc.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	have, err := os.ReadFile(file)
	if err != nil || string(have) != doc.String() {
		t.Errorf("docs/unsupported.md is not what the planner does: run with -update (%v)", err)
	}
}
