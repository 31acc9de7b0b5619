package conf

import (
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
)

// documented is one row of the reference tables in docs/configuration.md.
type documented struct{ kind, value, reload, meaning string }

func readReference(t *testing.T) (text string, rows map[string]documented) {
	t.Helper()
	raw, err := os.ReadFile("../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	rows = map[string]documented{}
	for line := range strings.SplitSeq(string(raw), "\n") {
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		key := strings.Trim(cells[0], "`")
		if len(cells) != 5 {
			t.Errorf("the row of %s has %d cells, want 5", key, len(cells))
			continue
		}
		if _, ok := rows[key]; ok {
			t.Errorf("%s is documented twice", key)
		}
		rows[key] = documented{cells[1], cells[2], cells[3], cells[4]}
	}
	return string(raw), rows
}

// visitKeys calls visit for every key of a struct that holds a value of its own.
func visitKeys(typ reflect.Type, path string, visit func(path string, typ reflect.Type)) {
	for _, f := range fieldsOf(typ) {
		inner, at := typ.FieldByIndex(f.index).Type, join(path, f.name)
		switch {
		case inner.Kind() == reflect.Struct:
			visitKeys(inner, at, visit)
		case isTables(inner):
			visitKeys(inner.Elem(), at+"[]", visit)
		default:
			visit(at, inner)
		}
	}
}

func kindOf(typ reflect.Type) string {
	switch {
	case typ == reflect.TypeFor[Duration]():
		return "duration"
	case typ.Kind() == reflect.String:
		return "text"
	case typ.Kind() == reflect.Int:
		return "number"
	case typ.Kind() == reflect.Bool:
		return "true or false"
	case typ == reflect.TypeFor[[]string]():
		return "list of text"
	}
	return typ.String()
}

// TestReferenceMatchesConfig holds docs/configuration.md against Config, the
// table of defaults and the table of effects.
func TestReferenceMatchesConfig(t *testing.T) {
	_, rows := readReference(t)
	values := map[string]any{}
	for _, d := range defaults() {
		values[d.key] = d.value
	}
	keys := map[string]bool{}
	visitKeys(reflect.TypeFor[Config](), "", func(path string, typ reflect.Type) {
		keys[path] = true
		row, ok := rows[path]
		if !ok {
			t.Errorf("%s is not documented", path)
			return
		}
		if want := kindOf(typ); row.kind != want {
			t.Errorf("%s: type %q, want %q", path, row.kind, want)
		}
		d := differ{effects: effects()}
		plain := strings.ReplaceAll(path, "[]", "")
		d.add(plain, plain, "a", "b", false)
		if want := d.changes[0].Effect.String(); row.reload != want {
			t.Errorf("%s: reload %q, want %q", path, row.reload, want)
		}
		if len(row.meaning) < 5 {
			t.Errorf("%s: no meaning", path)
		}
		value, fixed := values[path]
		delete(values, path)
		switch {
		case fixed:
			if want := "`" + printDefault(value) + "`"; row.value != want {
				t.Errorf("%s: default %s, want %s", path, row.value, want)
			}
		case typ.Kind() == reflect.Bool:
			if row.value != "`false`" {
				t.Errorf("%s: default %s, want `false`", path, row.value)
			}
		case row.value != "-" && !strings.HasPrefix(row.value, "("):
			t.Errorf("%s: default %s, but the table of defaults has none", path, row.value)
		}
	})
	for key := range rows {
		if !keys[key] {
			t.Errorf("%s is documented, but there is no such key", key)
		}
	}
	for key := range values {
		t.Errorf("the table of defaults names %s, but there is no such key", key)
	}
	for key := range effects() {
		found := false
		for path := range keys {
			plain := strings.ReplaceAll(path, "[]", "")
			found = found || plain == key || strings.HasPrefix(plain, key+".")
		}
		if !found {
			t.Errorf("the table of effects names %s, but there is no such key", key)
		}
	}
}

func printDefault(v any) string {
	if list, ok := v.([]string); ok {
		return "[\"" + strings.Join(list, "\", \"") + "\"]"
	}
	return fmt.Sprint(v)
}

// TestReferenceExample holds that the manual's example is valid.
func TestReferenceExample(t *testing.T) {
	text, _ := readReference(t)
	_, rest, ok := strings.Cut(text, "```toml\n")
	if !ok {
		t.Fatal("there is no example")
	}
	example, _, _ := strings.Cut(rest, "```")
	c := mustParse(t, example)
	if len(c.Databases[0].Tables) < 3 {
		t.Errorf("the example was cut short: %v", c)
	}
}
