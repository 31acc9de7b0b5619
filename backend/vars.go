package backend

import (
	"sort"
	"strings"
)

// Var is one session or user variable as a session has set it.
type Var struct {
	Name  string // lower case; "@name" for a user variable
	Value string // SQL text of the value: a literal, never an expression
}

// Vars is everything a session has set that its backend connections must share:
// session variables, and user variables under names that begin with "@". It is
// immutable; two Vars with the same content are equal, and the same pointer is
// the fast case. The zero value (or nil) is a fresh connection's.
//
// What a fresh connection has of its own is a node's global default, so a
// setting that must be the same everywhere (the isolation level above all) has
// to be in every Vars.
type Vars struct {
	list []Var // sorted by name
	key  string
}

// NewVars makes a Vars of list; of two with one name the later counts.
func NewVars(list ...Var) *Vars { return (*Vars)(nil).With(list...) }

func (v *Vars) vars() []Var {
	if v == nil {
		return nil
	}
	return v.list
}

// Equal tells whether the two say the same.
func (v *Vars) Equal(o *Vars) bool {
	return v == o || v.text() == o.text()
}

func (v *Vars) text() string {
	if v == nil {
		return ""
	}
	return v.key
}

// Get returns the SQL text of a variable's value.
func (v *Vars) Get(name string) (value string, ok bool) {
	list := v.vars()
	i := sort.Search(len(list), func(i int) bool { return list[i].Name >= name })
	if i < len(list) && list[i].Name == name {
		return list[i].Value, true
	}
	return "", false
}

// Each calls f for every variable in the order of names.
func (v *Vars) Each(f func(Var)) {
	for _, x := range v.vars() {
		f(x)
	}
}

// With returns a Vars with the given variables set.
func (v *Vars) With(set ...Var) *Vars {
	m := append([]Var(nil), v.vars()...)
	for _, s := range set {
		i := sort.Search(len(m), func(i int) bool { return m[i].Name >= s.Name })
		if i < len(m) && m[i].Name == s.Name {
			m[i].Value = s.Value
			continue
		}
		m = append(m, Var{})
		copy(m[i+1:], m[i:])
		m[i] = s
	}
	return fromList(m)
}

// Without returns a Vars with the named variables back at their defaults.
func (v *Vars) Without(names ...string) *Vars {
	var m []Var
next:
	for _, x := range v.vars() {
		for _, n := range names {
			if x.Name == n {
				continue next
			}
		}
		m = append(m, x)
	}
	return fromList(m)
}

func fromList(m []Var) *Vars {
	var b strings.Builder
	for _, x := range m {
		b.WriteString(x.Name)
		b.WriteByte('=')
		b.WriteString(x.Value)
		b.WriteByte(0)
	}
	return &Vars{list: m, key: b.String()}
}

// appendDiff appends the SET statement that brings a connection from have to
// want; nothing when they are equal. Variables go in the order of their names,
// which happens to be the right one for character_set_connection and
// collation_connection: setting the former resets the latter.
func appendDiff(dst []byte, have, want *Vars, mariadb bool) []byte {
	start := len(dst)
	put := func(name, value string) {
		if len(dst) == start {
			dst = append(dst, "SET "...)
		} else {
			dst = append(dst, ',')
		}
		if name[0] == '@' {
			dst = append(dst, "@`"...)
			dst = append(dst, strings.ReplaceAll(name[1:], "`", "``")...)
			dst = append(dst, '`')
		} else {
			dst = append(dst, "SESSION "...)
			dst = append(dst, wireName(name, mariadb)...)
		}
		dst = append(append(dst, '='), value...)
	}
	h, w := have.vars(), want.vars()
	// A dropped setting of the character set of the connection resets its
	// collation, so a kept collation is told again.
	recollate := false
	for len(h) > 0 || len(w) > 0 {
		switch {
		case len(w) == 0 || len(h) > 0 && h[0].Name < w[0].Name:
			if h[0].Name[0] == '@' {
				put(h[0].Name, "NULL")
			} else {
				put(h[0].Name, "DEFAULT")
			}
			recollate = recollate || h[0].Name == "character_set_connection"
			h = h[1:]
		case len(h) == 0 || w[0].Name < h[0].Name:
			put(w[0].Name, w[0].Value)
			recollate = recollate || w[0].Name == "character_set_connection"
			w = w[1:]
		default:
			if h[0].Value != w[0].Value || recollate && w[0].Name == "collation_connection" {
				put(w[0].Name, w[0].Value)
				recollate = recollate || w[0].Name == "character_set_connection"
			}
			h, w = h[1:], w[1:]
		}
	}
	return dst
}

// wireName is the name the node's server family has for a variable that the
// two families call differently. Vars uses MySQL's.
func wireName(name string, mariadb bool) string {
	if mariadb {
		switch name {
		case "transaction_isolation":
			return "tx_isolation"
		case "transaction_read_only":
			return "tx_read_only"
		}
	}
	return name
}
