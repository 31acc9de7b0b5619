package conf

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Masked is a copy with every password and hash replaced by "(hidden)"; the
// names of variables and files stay. The copy shares nothing that it changes.
func (c *Config) Masked() *Config {
	m := *c
	mask := func(users []User) []User {
		users = slices.Clone(users)
		for i := range users {
			users[i].Secret = users[i].Secret.masked()
		}
		return users
	}
	m.Users = mask(c.Users)
	m.Admin.Users = mask(c.Admin.Users)
	m.Nodes = slices.Clone(c.Nodes)
	for i := range m.Nodes {
		m.Nodes[i].Secret = m.Nodes[i].Secret.masked()
	}
	return &m
}

// String is the whole configuration as TOML that Parse reads again, defaults
// included, secrets masked. Keys with empty texts and empty lists are left out.
func (c *Config) String() string {
	var b strings.Builder
	printTable(&b, "", reflect.ValueOf(c.Masked()).Elem())
	return strings.TrimPrefix(b.String(), "\n")
}

// printTable writes a table's own keys, then the tables in it.
func printTable(b *strings.Builder, path string, v reflect.Value) {
	fields := fieldsOf(v.Type())
	for _, f := range fields {
		inner := v.FieldByIndex(f.index)
		if text := printValue(inner); text != "" {
			fmt.Fprintf(b, "%s = %s\n", f.name, text)
		}
	}
	for _, f := range fields {
		inner := v.FieldByIndex(f.index)
		name := join(path, f.name)
		switch {
		case inner.Kind() == reflect.Struct:
			fmt.Fprintf(b, "\n[%s]\n", name)
			printTable(b, name, inner)
		case isTables(inner.Type()):
			for i := range inner.Len() {
				fmt.Fprintf(b, "\n[[%s]]\n", name)
				printTable(b, name, inner.Index(i))
			}
		}
	}
}

func isTables(t reflect.Type) bool {
	return t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct
}

// printValue is a value in TOML, or "" for a table and for what is empty.
func printValue(v reflect.Value) string {
	if d, ok := v.Interface().(Duration); ok {
		return quote(d.String())
	}
	switch v.Kind() {
	case reflect.String:
		if v.Len() > 0 {
			return quote(v.String())
		}
	case reflect.Int:
		return strconv.FormatInt(v.Int(), 10)
	case reflect.Bool:
		return strconv.FormatBool(v.Bool())
	case reflect.Slice:
		if v.Len() == 0 || isTables(v.Type()) {
			return ""
		}
		parts := make([]string, v.Len())
		for i := range parts {
			parts[i] = quote(v.Index(i).String())
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	return ""
}

// quote writes a TOML basic string.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteRune('\\')
			b.WriteRune(r)
		case r < ' ' || r == 0x7f:
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
