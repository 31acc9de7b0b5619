package conf

import (
	"fmt"
	"reflect"
	"strings"
)

// Effect is what it takes to apply a change to a running Braid.
type Effect uint8

const (
	// EffectLive: a reload applies it to what begins afterwards.
	EffectLive Effect = iota
	// EffectRestart: it is read once, when Braid starts.
	EffectRestart
	// EffectPlacement: rows are looked for elsewhere afterwards. A reload may take
	// it only when they are there, as for a table that does not exist yet.
	EffectPlacement
)

func (e Effect) String() string { return [...]string{"live", "restart", "placement"}[e] }

// effects lists the keys whose change has another effect than EffectLive. A key
// stands for everything below it.
func effects() map[string]Effect {
	return map[string]Effect{
		"proxy.listen":       EffectRestart,
		"admin.listen":       EffectRestart,
		"admin.http":         EffectRestart,
		"admin.allow_remote": EffectRestart,
		"log":                EffectRestart,
		"recovery":           EffectRestart,

		"databases.default":         EffectPlacement,
		"databases.shards":          EffectPlacement,
		"databases.tables":          EffectPlacement,
		"databases.tables.sequence": EffectLive, "databases.tables.unique_check": EffectLive,
	}
}

// Change is one difference between two configurations.
type Change struct {
	Path   string // by names: "nodes.n2.primary"
	Old    string // "" for what is added; secrets as "(hidden)"
	New    string // "" for what is removed
	Effect Effect

	element bool // a whole element of a named list: Old or New is its name
}

// String is "nodes.n2.primary: a -> b", "databases.shop.tables: + orders" or
// "databases.shop.tables: - orders".
func (c Change) String() string {
	switch {
	case c.element && c.Old == "":
		return fmt.Sprintf("%s: + %s", c.Path, c.New)
	case c.element && c.New == "":
		return fmt.Sprintf("%s: - %s", c.Path, c.Old)
	case c.Old == hidden && c.New == hidden:
		return c.Path + ": changed"
	}
	or := func(s string) string {
		if s == "" {
			return "(none)"
		}
		return s
	}
	return fmt.Sprintf("%s: %s -> %s", c.Path, or(c.Old), or(c.New))
}

// Diff lists what differs between two valid configurations, in the order of the
// keys in Config; nil when nothing does. What a password_env or password_file
// leads to is not looked at.
func Diff(old, new *Config) []Change {
	d := differ{effects: effects()}
	d.table("", "", reflect.ValueOf(old).Elem(), reflect.ValueOf(new).Elem())
	return d.changes
}

// differ walks two configurations side by side. A path names elements by their
// names, a key leaves them out: "databases.shop.shards" and "databases.shards".
type differ struct {
	effects map[string]Effect
	changes []Change
}

func (d *differ) add(path, key, old, new string, element bool) {
	c := Change{Path: path, Old: old, New: new, element: element}
	for at := key; at != ""; {
		if effect, ok := d.effects[at]; ok {
			c.Effect = effect
			break
		}
		at = at[:max(strings.LastIndexByte(at, '.'), 0)]
	}
	d.changes = append(d.changes, c)
}

func (d *differ) table(path, key string, old, new reflect.Value) {
	for _, f := range fieldsOf(old.Type()) {
		a, b := old.FieldByIndex(f.index), new.FieldByIndex(f.index)
		path, key := join(path, f.name), join(key, f.name)
		switch {
		case a.Kind() == reflect.Struct:
			d.table(path, key, a, b)
		case isTables(a.Type()) && hasName(a.Type().Elem()):
			d.named(path, key, a, b)
		default:
			if !same(a, b) {
				x, y := showValue(a), showValue(b)
				if f.name == "password" || f.name == "password_hash" {
					x, y = mask(x), mask(y)
				}
				d.add(path, key, x, y, false)
			}
		}
	}
}

func hasName(t reflect.Type) bool {
	_, ok := t.FieldByName("Name")
	return ok
}

func mask(s string) string {
	if s == "" {
		return ""
	}
	return hidden
}

// named compares two lists of tables that have names.
func (d *differ) named(path, key string, old, new reflect.Value) {
	before, after := byName(old), byName(new)
	kept := func(list reflect.Value, other map[string]reflect.Value) []string {
		var names []string
		for i := range list.Len() {
			name := list.Index(i).FieldByName("Name").String()
			if _, ok := other[name]; ok {
				names = append(names, name)
			}
		}
		return names
	}
	for i := range old.Len() {
		if name := old.Index(i).FieldByName("Name").String(); !after[name].IsValid() {
			d.add(path, key, name, "", true)
		}
	}
	// The order of shards is part of the rule by which some functions choose.
	if x, y := strings.Join(kept(old, after), ", "), strings.Join(kept(new, before), ", "); x != y && strings.HasSuffix(key, ".shards") {
		d.add(path, key, x, y, false)
	}
	for i := range new.Len() {
		element := new.Index(i)
		name := element.FieldByName("Name").String()
		if other, ok := before[name]; ok {
			d.table(join(path, name), key, other, element)
		} else {
			d.add(path, key, "", name, true)
		}
	}
}

func byName(list reflect.Value) map[string]reflect.Value {
	m := map[string]reflect.Value{}
	for i := range list.Len() {
		m[list.Index(i).FieldByName("Name").String()] = list.Index(i)
	}
	return m
}

// same compares two values of keys; a missing list is an empty one.
func same(a, b reflect.Value) bool {
	if a.Kind() == reflect.Slice && a.Len() == 0 && b.Len() == 0 {
		return true
	}
	return reflect.DeepEqual(a.Interface(), b.Interface())
}

// showValue is a value in one line.
func showValue(v reflect.Value) string {
	switch x := v.Interface().(type) {
	case []string:
		return strings.Join(x, ", ")
	case []RangePart:
		parts := make([]string, len(x))
		for i, p := range x {
			parts[i] = "rest: " + p.Shard
			if p.LessThan != "" {
				parts[i] = fmt.Sprintf("< %s: %s", p.LessThan, p.Shard)
			}
		}
		return strings.Join(parts, ", ")
	case []ListPart:
		parts := make([]string, len(x))
		for i, p := range x {
			parts[i] = fmt.Sprintf("%q: %s", p.Values, p.Shard)
		}
		return strings.Join(parts, ", ")
	default:
		return fmt.Sprint(x)
	}
}
