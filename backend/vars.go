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
	user int // where in key the user variables end
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

// settings is text without the user variables, which stand first.
func (v *Vars) settings() string {
	if v == nil {
		return ""
	}
	return v.key[v.user:]
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
	user := 0
	for _, x := range m {
		b.WriteString(x.Name)
		b.WriteByte('=')
		b.WriteString(x.Value)
		b.WriteByte(0)
		if x.Name[0] == '@' {
			user = b.Len()
		}
	}
	return &Vars{list: m, key: b.String(), user: user}
}

// strays tells whether have sets a user variable that v does not. Such a
// variable cannot be unset by SET: even NULL has a type that shows.
func (v *Vars) strays(have *Vars) bool {
	for _, x := range have.vars() {
		if x.Name[0] != '@' {
			return false // user variables stand first
		}
		if _, ok := v.Get(x.Name); !ok {
			return true
		}
	}
	return false
}

// Names is the variable that stands for SET NAMES: its value is "'charset'
// COLLATE 'collation'". It sets four variables at once, and is not the same as
// setting the four: character_set_results then keeps the collation, which column
// definitions carry. Where one of the four is in a Vars too, it counts.
const Names = "NAMES"

// characterSet tells whether a variable is Names or one of the four it sets.
func characterSet(name string) bool {
	switch name {
	case Names, "character_set_client", "character_set_connection", "character_set_results", "collation_connection":
		return true
	}
	return false
}

// appendDiff appends the SET statement that brings a connection from have to
// want; nothing when they are equal. Variables go in the order of their names;
// those of the character set all together when one of them differs, since each
// of them moves others.
func appendDiff(dst []byte, have, want *Vars, mariadb bool) []byte {
	start := len(dst)
	put := func(name, value string) {
		if len(dst) == start {
			dst = append(dst, "SET "...)
		} else {
			dst = append(dst, ',')
		}
		switch {
		case name == Names:
			dst = append(append(dst, "NAMES "...), value...)
			return
		case name[0] == '@':
			dst = append(dst, "@`"...)
			dst = append(dst, strings.ReplaceAll(name[1:], "`", "``")...)
			dst = append(dst, '`')
		default:
			dst = append(dst, "SESSION "...)
			dst = append(dst, WireName(name, mariadb)...)
		}
		dst = append(append(dst, '='), value...)
	}
	h, w := have.vars(), want.vars()
	again := characterSetDiffers(h, w)
	_, named := want.Get(Names)
	for len(h) > 0 || len(w) > 0 {
		switch {
		case len(w) == 0 || len(h) > 0 && h[0].Name < w[0].Name:
			switch {
			case characterSet(h[0].Name) && named:
			case h[0].Name == Names:
				put(Names, "DEFAULT")
			case h[0].Name[0] == '@':
				put(h[0].Name, "NULL")
			case h[0].Name == "foreign_key_checks" || h[0].Name == "unique_checks":
				put(h[0].Name, "@@GLOBAL."+h[0].Name) // MySQL 9 takes DEFAULT for 0, whatever the global value
			default:
				put(h[0].Name, "DEFAULT")
			}
			h = h[1:]
		case len(h) == 0 || w[0].Name < h[0].Name:
			put(w[0].Name, w[0].Value)
			w = w[1:]
		default:
			if h[0].Value != w[0].Value || again && characterSet(w[0].Name) {
				put(w[0].Name, w[0].Value)
			}
			h, w = h[1:], w[1:]
		}
	}
	return dst
}

// characterSetDiffers tells whether the two lists say different things of
// character sets.
func characterSetDiffers(h, w []Var) bool {
	next := func(l []Var) []Var {
		for len(l) > 0 && !characterSet(l[0].Name) {
			l = l[1:]
		}
		return l
	}
	for {
		h, w = next(h), next(w)
		if len(h) == 0 || len(w) == 0 {
			return len(h) != len(w)
		}
		if h[0] != w[0] {
			return true
		}
		h, w = h[1:], w[1:]
	}
}

// WireName is the name the node's server family has for a variable that the
// two families call differently. Vars uses MySQL's.
func WireName(name string, mariadb bool) string {
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
