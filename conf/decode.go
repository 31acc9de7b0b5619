package conf

import (
	"encoding"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// field is one key of a table, as a struct declares it.
type field struct {
	name    string
	index   []int // for reflect.Value.FieldByIndex
	literal bool  // a text that may be written as a number
}

// fieldsOf lists the keys of a struct in its order; those of an embedded struct
// stand among the outer one's, as they do in the text.
func fieldsOf(t reflect.Type) []field {
	var fields []field
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("toml"), ",")
		switch {
		case name == "-":
		case f.Anonymous:
			for _, inner := range fieldsOf(f.Type) {
				inner.index = append([]int{i}, inner.index...)
				fields = append(fields, inner)
			}
		default:
			fields = append(fields, field{name, []int{i}, f.Tag.Get("literal") != ""})
		}
	}
	return fields
}

// decoder fills structs from the TOML library's plain maps. The library's own
// decoding stops at the first mismatch; this one collects them all, and knows
// which keys were set.
type decoder struct {
	checker
	set map[string]bool // by index path
}

func (d *decoder) table(dst reflect.Value, src map[string]any, at place) {
	fields := fieldsOf(dst.Type())
	for _, name := range slices.Sorted(maps.Keys(src)) {
		i := slices.IndexFunc(fields, func(f field) bool { return f.name == name })
		if i < 0 {
			d.unknown(at.key(keyPart(name)), name, fields)
			continue
		}
		d.set[at.key(name).index] = true
		d.value(dst.FieldByIndex(fields[i].index), src[name], at.key(name), fields[i])
	}
}

func (d *decoder) unknown(at place, name string, fields []field) {
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.name
	}
	fix := "the keys here are " + strings.Join(names, ", ")
	if near := nearest(name, names); near != "" {
		fix = fmt.Sprintf("did you mean %q?", near)
	}
	d.add(at, "unknown key", fix)
}

// value decodes one value. Problems name types only, never the value: it may be
// a password.
func (d *decoder) value(dst reflect.Value, src any, at place, f field) {
	if reader, ok := dst.Addr().Interface().(encoding.TextUnmarshaler); ok {
		text, ok := src.(string)
		if !ok || reader.UnmarshalText([]byte(text)) != nil {
			d.add(at, "is not a duration", `write a number with its unit in quotes: "250ms", "5s", "10m", "8h"`)
		}
		return
	}
	switch dst.Kind() {
	case reflect.String:
		switch v := src.(type) {
		case string:
			dst.SetString(v)
			return
		case int64:
			if f.literal {
				dst.SetString(strconv.FormatInt(v, 10))
				return
			}
		}
		d.add(at, "must be text, found "+typeName(src), "put it in quotes")
	case reflect.Int:
		if v, ok := src.(int64); ok {
			dst.SetInt(v)
			return
		}
		d.add(at, "must be a whole number, found "+typeName(src), "write it without quotes and without a unit")
	case reflect.Bool:
		if v, ok := src.(bool); ok {
			dst.SetBool(v)
			return
		}
		d.add(at, "must be true or false, found "+typeName(src), "write it without quotes")
	case reflect.Struct:
		if v, ok := src.(map[string]any); ok {
			d.table(dst, v, at)
			return
		}
		d.add(at, "must be a table, found "+typeName(src), fmt.Sprintf("write it as [%s] with its keys below", f.name))
	case reflect.Slice:
		d.list(dst, src, at, f)
	}
}

func (d *decoder) list(dst reflect.Value, src any, at place, f field) {
	var elements []any
	switch v := src.(type) {
	case []any:
		elements = v
	case []map[string]any:
		for _, element := range v {
			elements = append(elements, element)
		}
	default:
		fix := "put it in brackets: [ ... ]"
		if _, ok := src.(map[string]any); ok {
			fix = "write its header with two brackets: [[ ... ]]"
		}
		d.add(at, "must be a list, found "+typeName(src), fix)
		return
	}
	if len(elements) == 0 {
		return
	}
	dst.Set(reflect.MakeSlice(dst.Type(), len(elements), len(elements)))
	for i, element := range elements {
		name := ""
		if m, ok := element.(map[string]any); ok {
			name, _ = m["name"].(string)
		}
		d.value(dst.Index(i), element, at.item(i, name), f)
	}
}

func typeName(v any) string {
	switch v.(type) {
	case string:
		return "text"
	case int64:
		return "a whole number"
	case float64:
		return "a number with a fraction"
	case bool:
		return "true or false"
	case time.Time:
		return "a date or time"
	case map[string]any:
		return "a table"
	default:
		return "a list"
	}
}

// keyPart is a key as a part of a path: quoted when its own text would read as
// more than one part.
func keyPart(name string) string {
	if strings.ContainsAny(name, ".[] \t\n") || name == "" {
		return strconv.Quote(name)
	}
	return name
}
