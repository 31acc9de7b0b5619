package conf

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
)

// TestPositions marks the expected places in the text itself: each line's
// comment holds the paths that start on it, with their columns.
func TestPositions(t *testing.T) {
	text := `# a comment with [header] and key = 1
title = "a # no comment ] \" \\" # title 1
'q.x'.y = 1            # "q.x" 1, "q.x".y 1
long = """
[no.header]
x = 1""""              # long is above
raw = '''
'' ' '''
[a.b]                  # a 1, a.b 1
list = [               # a.b.list 1
  1, [2,               # a.b.list[0] 3, a.b.list[1] 6, a.b.list[1][0] 7
  3],                  # a.b.list[1][1] 3
  # no element
  "],",                # a.b.list[2] 3
]
  [[n]]                # n 3, n[0] 3
  "ü" = 1
  s = [{ x = 1, y.z = [ "é", 'b' ] }, { x = 2 }] # n[0].s 3, n[0].s[0] 8, n[0].s[0].x 10, n[0].s[0].y 17, n[0].s[0].y.z 17, n[0].s[0].y.z[0] 25, n[0].s[0].y.z[1] 30, n[0].s[1] 39, n[0].s[1].x 41
[[n]]                  # n[1] 1
[[n.m]]                # n[1].m 1, n[1].m[0] 1
k = 1979-05-27 07:32:00 # n[1].m[0].k 1
[n.m.o]                # n[1].m[0].o 1
p = {}                 # n[1].m[0].o.p 1
`
	at := indexPositions(text)
	for path, offset := range map[string]int{"long": strings.Index(text, "long"), "raw": strings.Index(text, "raw"), "n[0].ü": strings.Index(text, `"ü" = 1`)} {
		if at[path] != offset {
			t.Errorf("%s stands at %d, want %d", path, at[path], offset)
		}
		delete(at, path)
	}
	want := map[string]bool{}
	for i, line := range strings.Split(text, "\n") {
		mark := strings.LastIndex(line, "# ")
		if mark <= 0 || strings.HasSuffix(line, "above") || strings.HasSuffix(line, "no element") {
			continue
		}
		for _, entry := range strings.Split(line[mark+2:], ", ") {
			path, column, _ := strings.Cut(entry, " ")
			want[path] = true
			offset, ok := at[path]
			if !ok {
				t.Errorf("%s is not indexed", path)
				continue
			}
			gotLine, gotColumn := lineColumn(text, offset)
			if gotLine != i+1 || column != strconv.Itoa(gotColumn) {
				t.Errorf("%s stands at %d:%d, want %d:%s", path, gotLine, gotColumn, i+1, column)
			}
		}
	}
	for path := range at {
		if !want[path] {
			t.Errorf("%s is indexed, but nothing of that name is in the text", path)
		}
	}
	if _, err := toml.Decode(text, &map[string]any{}); err != nil {
		t.Errorf("the text is not TOML: %v", err)
	}
}

func TestNearestPosition(t *testing.T) {
	at := positions{"nodes[1]": 7, "nodes": 3}
	for path, want := range map[string]int{"nodes[1].primary": 7, "nodes[1]": 7, "nodes[0].primary": 3, "users": 0, "": 0} {
		if got := at.nearest(path); got != want {
			t.Errorf("%q: %d, want %d", path, got, want)
		}
	}
}

// FuzzParse holds that no text makes Parse panic or hang, that each problem has
// a place in the text, and that an accepted text prints as one that is accepted.
func FuzzParse(f *testing.F) {
	f.Add(small)
	for _, c := range broken {
		if c.old != "" {
			f.Add(strings.Replace(small, c.old, c.new, 1))
		} else {
			f.Add(small + c.new)
		}
	}
	f.Add("a = [[{b=1,\n}],]\n\"c.d\".e = '''x''''\n[[a.b]]\n")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := Parse("t", []byte(text))
		if err == nil {
			for i := range c.Users {
				c.Users[i].Secret = Secret{Password: "x"}
			}
			for i := range c.Admin.Users {
				c.Admin.Users[i].Secret = Secret{Password: "x"}
			}
			for i := range c.Nodes {
				c.Nodes[i].Secret = Secret{}
			}
			again, err := Parse("t", []byte(c.String()))
			if err != nil {
				t.Fatalf("does not read back: %v\n%s", err, c)
			}
			if changes := Diff(c.Masked(), again); len(changes) > 0 {
				t.Fatalf("reads back differently: %v", changes)
			}
			return
		}
		lines := strings.Count(text, "\n") + 1
		for _, p := range err.(Problems) {
			if p.Line < 1 || p.Line > lines || p.Column < 1 {
				t.Errorf("no place in the text: %+v", p)
			}
		}
	})
}

// TestEveryKeyHasPosition holds that each key the library sees is indexed.
func TestEveryKeyHasPosition(t *testing.T) {
	md, err := toml.Decode(small, &map[string]any{})
	if err != nil {
		t.Fatal(err)
	}
	at := indexPositions(small)
	plain := map[string]bool{}
	for path := range maps.Keys(at) {
		for i := range 10 {
			path = strings.ReplaceAll(path, "["+string(rune('0'+i))+"]", "")
		}
		plain[path] = true
	}
	keys := md.Keys()
	if len(keys) == 0 {
		t.Fatal("the library sees no key")
	}
	for _, key := range keys {
		if path := strings.Join(key, "."); !plain[path] {
			t.Errorf("%s is not indexed; there are %q", path, slices.Sorted(maps.Keys(plain)))
		}
	}
}
