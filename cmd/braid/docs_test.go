package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"braid/conf"
)

// TestDependenciesAreExplained holds docs/dependencies.md against the go.mod of
// Braid and that of its demo.
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
	required := map[string]bool{}
	for _, file := range []string{"../../go.mod", "../braid-demo/go.mod"} {
		lines := regexp.MustCompile(`(?m)^(?:require )?\s*([a-z0-9.-]+\.[a-z]+/\S+) v\S+$`).FindAllStringSubmatch(read(file), -1)
		if len(lines) < 3 {
			t.Fatalf("%s requires only %q", file, lines)
		}
		for _, line := range lines {
			required[line[1]] = true
			if !explained[line[1]] {
				t.Errorf("docs/dependencies.md does not say why %s needs %s", file, line[1])
			}
		}
	}
	for module := range explained {
		if !required[module] {
			t.Errorf("docs/dependencies.md explains %s, which no go.mod requires directly", module)
		}
	}
}

// manual is every page of the documentation, by its path from the root.
func manual(t *testing.T) map[string]string {
	t.Helper()
	pages := map[string]string{}
	for _, pattern := range []string{"../../*.md", "../../docs/*.md", "../../docs/decisions/*.md"} {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			pages[path] = string(text)
		}
	}
	if len(pages) < 10 {
		t.Fatalf("only %d pages", len(pages))
	}
	return pages
}

// TestLinksLead holds that each relative link of the documentation leads to a file.
func TestLinksLead(t *testing.T) {
	links := 0
	for path, text := range manual(t) {
		for _, m := range regexp.MustCompile(`\]\(([^)#\s]+)[^)]*\)`).FindAllStringSubmatch(text, -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			links++
			if _, err := os.Stat(filepath.Join(filepath.Dir(path), m[1])); err != nil {
				t.Errorf("%s: %v", path, err)
			}
		}
	}
	if links < 10 {
		t.Errorf("only %d links found", links)
	}
}

// TestConfigurationsInTheManual holds that each whole configuration of the
// documentation is valid; parts of one, without nodes, are left out.
func TestConfigurationsInTheManual(t *testing.T) {
	whole := 0
	for path, text := range manual(t) {
		for i, block := range strings.Split(text, "```toml\n")[1:] {
			block, _, _ = strings.Cut(block, "```")
			if !strings.Contains(block, "nodes") {
				continue
			}
			whole++
			if _, err := conf.Parse(path, []byte(block)); err != nil {
				t.Errorf("%s, configuration %d: %v", path, i+1, err)
			}
		}
	}
	if whole < 3 {
		t.Errorf("only %d configurations found", whole)
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
