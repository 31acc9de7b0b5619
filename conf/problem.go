package conf

import (
	"fmt"
	"slices"
	"strings"
)

// Problem is one thing wrong with a configuration.
type Problem struct {
	File         string // "" when the configuration did not come from a text
	Line, Column int    // from 1, the column in characters; 0 when there is no text
	Path         string // where, by names: "nodes.n2.primary"
	What         string // what is wrong
	Fix          string // what to do about it; may be empty

	index string // where, by positions: "nodes[1].primary"; the key of the position index
}

// Error is "file:line:column: path: what; fix".
func (p Problem) Error() string {
	var b strings.Builder
	switch {
	case p.Line > 0:
		fmt.Fprintf(&b, "%s:%d:%d: ", p.File, p.Line, p.Column)
	case p.File != "":
		fmt.Fprintf(&b, "%s: ", p.File)
	}
	if p.Path != "" {
		b.WriteString(p.Path + ": ")
	}
	b.WriteString(p.What)
	if p.Fix != "" {
		b.WriteString("; " + p.Fix)
	}
	return b.String()
}

// Problems are all things wrong with a configuration, in the text's order. As an
// error it prints one per line.
type Problems []Problem

func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.Error()
	}
	return strings.Join(lines, "\n")
}

// err is the list as an error: nil, untyped, when it is empty.
func (ps Problems) err() error {
	if len(ps) == 0 {
		return nil
	}
	return ps
}

// locate fills in the file and the positions, and sorts by them.
func (ps Problems) locate(file string, text string, at positions) {
	for i := range ps {
		ps[i].File = file
		if ps[i].Line == 0 {
			ps[i].Line, ps[i].Column = lineColumn(text, at.nearest(ps[i].index))
		}
	}
	slices.SortStableFunc(ps, func(a, b Problem) int {
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return a.Column - b.Column
	})
}

// place is where in a configuration something stands, in both spellings: by
// positions for the index, by names for people.
type place struct{ index, label string }

func (p place) key(name string) place {
	return place{join(p.index, name), join(p.label, name)}
}

// item is the i-th element of the list at p; name is the element's own, or "".
func (p place) item(i int, name string) place {
	index := fmt.Sprintf("%s[%d]", p.index, i)
	if name == "" {
		return place{index, fmt.Sprintf("%s[%d]", p.label, i)}
	}
	return place{index, join(p.label, name)}
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// checker collects problems.
type checker struct{ problems Problems }

func (k *checker) add(at place, what, fix string) {
	k.problems = append(k.problems, Problem{Path: at.label, index: at.index, What: what, Fix: fix})
}

// word adds a problem unless value is one of the words.
func (k *checker) word(at place, value string, words ...string) {
	if slices.Contains(words, value) {
		return
	}
	fix := "write " + alternatives(words)
	if near := nearest(value, words); near != "" {
		fix = fmt.Sprintf("did you mean %q?", near)
	}
	k.add(at, fmt.Sprintf("%q is not known here", value), fix)
}

// reference adds a problem unless name is one of the names of that kind.
func (k *checker) reference(at place, kind, name string, names []string) bool {
	if slices.Contains(names, name) {
		return true
	}
	fix := ""
	switch near := nearest(name, names); {
	case near != "":
		fix = fmt.Sprintf("did you mean %q?", near)
	case len(names) == 0:
		fix = "there is none"
	default:
		fix = "write " + alternatives(names)
	}
	k.add(at, fmt.Sprintf("there is no %s %q", kind, name), fix)
	return false
}

// alternatives lists words as `"a", "b" or "c"`, the first ten of them.
func alternatives(words []string) string {
	more := ""
	if len(words) > 10 {
		words, more = words[:10], ", ..."
	}
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = fmt.Sprintf("%q", w)
	}
	if n := len(quoted); n > 1 && more == "" {
		return strings.Join(quoted[:n-1], ", ") + " or " + quoted[n-1]
	}
	return strings.Join(quoted, ", ") + more
}

// nearest is the candidate that a typing mistake most likely meant, or "" when
// none is close. Letter case does not count as a difference.
func nearest(word string, candidates []string) string {
	best, bestDistance := "", 2+len(word)/3
	for _, c := range candidates {
		if d := editDistance(strings.ToLower(word), strings.ToLower(c)); d < bestDistance {
			best, bestDistance = c, d
		}
	}
	return best
}

// editDistance counts the letters to insert, delete, replace or swap with their
// neighbour to get from a to b.
func editDistance(a, b string) int {
	s, t := []rune(a), []rune(b)
	before, last, row := make([]int, len(t)+1), make([]int, len(t)+1), make([]int, len(t)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(s); i++ {
		row[0] = i
		for j := 1; j <= len(t); j++ {
			cost := 1
			if s[i-1] == t[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && s[i-1] == t[j-2] && s[i-2] == t[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(t)]
}
