package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestDependenciesAreExplained holds docs/dependencies.md against go.mod.
func TestDependenciesAreExplained(t *testing.T) {
	read := func(name string) string {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	explained := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\| .{10,} \\|$").FindAllStringSubmatch(read("../../docs/dependencies.md"), -1) {
		explained[row[1]] = true
	}
	required := regexp.MustCompile(`(?m)^(?:require )?\s*([a-z0-9.-]+\.[a-z]+/\S+) v\S+$`).FindAllStringSubmatch(read("../../go.mod"), -1)
	if len(required) < 3 {
		t.Fatalf("go.mod requires only %q", required)
	}
	for _, r := range required {
		if !explained[r[1]] {
			t.Errorf("docs/dependencies.md does not say why %s is needed", r[1])
		}
		delete(explained, r[1])
	}
	for module := range explained {
		t.Errorf("docs/dependencies.md explains %s, which go.mod does not require directly", module)
	}
}

// TestGlossaryIsSorted holds that the glossary can be looked up in, and that no
// word has two meanings.
func TestGlossaryIsSorted(t *testing.T) {
	text, err := os.ReadFile("../../docs/glossary.md")
	if err != nil {
		t.Fatal(err)
	}
	words := regexp.MustCompile(`(?m)^\| \*\*([^*]+)\*\* \| .{5,} \|$`).FindAllStringSubmatch(string(text), -1)
	if len(words) < 20 {
		t.Fatalf("the glossary has only %d words", len(words))
	}
	for i := 1; i < len(words); i++ {
		if strings.Compare(words[i-1][1], words[i][1]) >= 0 {
			t.Errorf("%q stands before %q", words[i-1][1], words[i][1])
		}
	}
}
