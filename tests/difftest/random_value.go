package difftest

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// random makes statements from one seed.
type random struct {
	*rand.Rand
	tables []*randomTable
	depth  int // of subqueries
	names  int // aliases given
}

func newRandom(seed uint64) *random {
	return &random{Rand: rand.New(rand.NewPCG(seed, 0)), tables: randomTables()}
}

func (r *random) one(of ...string) string { return of[r.IntN(len(of))] }
func (r *random) in(n int) bool           { return r.IntN(n) == 0 }

func (r *random) table(name string) *randomTable {
	for _, t := range r.tables {
		if t.name == name {
			return t
		}
	}
	panic("no table " + name)
}

// alias is a name of its own.
func (r *random) alias(prefix string) string {
	r.names++
	return fmt.Sprintf("%s%d", prefix, r.names)
}

// scope is what a SELECT's expressions can name: its FROM's tables.
type scope []scoped

// scoped is one table of a FROM; alias is "" when columns go without.
type scoped struct {
	alias string
	*randomTable
}

func (s scoped) column(name string) string {
	if s.alias != "" {
		return s.alias + "." + name
	}
	return name
}

// key are the columns that together are unique over the whole scope.
func (s scope) key() []string {
	var out []string
	for _, t := range s {
		for _, k := range t.randomTable.key {
			out = append(out, t.column(k))
		}
	}
	return out
}

// class tells kinds of columns apart.
type class func(t *randomTable) []string

func numbers(t *randomTable) []string { return t.numbers }
func floats(t *randomTable) []string  { return t.floats }
func sharp(t *randomTable) []string   { return t.sharp }
func folded(t *randomTable) []string  { return t.folded }
func times(t *randomTable) []string   { return t.times }
func others(t *randomTable) []string  { return t.others }

// column picks a column of one of the classes; without one any key column.
func (r *random) column(s scope, classes ...class) string {
	var all []string
	for _, t := range s {
		for _, c := range classes {
			for _, name := range c(t.randomTable) {
				all = append(all, t.column(name))
			}
		}
	}
	if len(all) == 0 {
		return ""
	}
	return r.one(all...)
}

// number is an exact number.
func (r *random) number(s scope) string {
	c := r.column(s, numbers)
	if c == "" {
		return "LENGTH(" + r.text(s) + ")"
	}
	switch r.IntN(22) {
	case 0:
		if r.depth > 0 { // whether a product is out of range shows when it is worked out, which a plan decides
			return c + r.one(" + 0", " % 3", " DIV 10")
		}
		return c + r.one(" + 0", " % 3", " * 2", " DIV 10")
	case 1:
		return "IFNULL(" + c + ", " + literal("0") + ")"
	case 2:
		return "COALESCE(" + r.column(s, numbers) + ", " + c + ")"
	case 3:
		return "CASE WHEN " + r.condition(s) + " THEN " + c + " ELSE " + literal("0") + " END"
	case 4:
		return "LENGTH(" + r.text(s) + ")"
	case 5:
		return "ABS(" + c + ")"
	case 6:
		return "CAST(" + c + " AS " + r.one("SIGNED", "DECIMAL(30,2)", "CHAR") + ") + 0"
	case 7:
		return "IF(" + r.condition(s) + ", 1, 2)"
	case 8:
		return "ROUND(" + c + ", 1)"
	case 9:
		if t := r.column(s, times); t != "" && !strings.HasSuffix(t, "took") {
			return r.one("YEAR(", "MONTH(", "DAYOFWEEK(", "TO_DAYS(", "QUARTER(") + t + ")"
		}
	case 10:
		return "GREATEST(" + c + ", " + r.column(s, numbers) + ")"
	case 11:
		return r.column(s, numbers, times, sharp, folded) + " IS NULL"
	case 12:
		return c + " <=> " + r.column(s, numbers)
	case 13:
		return "NULLIF(" + c + ", " + literal("1") + ")"
	case 14:
		if r.depth < 2 {
			return r.scalar(s)
		}
	}
	return c
}

// text is a text, of which equal ones may look different.
func (r *random) text(s scope) string {
	c := r.column(s, sharp, folded)
	if c == "" {
		return "CAST(" + r.number(s) + " AS CHAR)"
	}
	switch r.IntN(12) {
	case 0:
		return "UPPER(" + c + ")"
	case 1:
		return "CONCAT(" + c + ", " + literal("'-'") + ", " + r.column(s, sharp, folded, numbers) + ")"
	case 2:
		return "LEFT(" + c + ", 2)"
	case 3:
		return "COALESCE(" + c + ", " + literal("'none'") + ")"
	case 4:
		return "REPLACE(" + c + ", 'a', 'b')"
	case 5:
		return "JSON_UNQUOTE(JSON_EXTRACT(JSON_OBJECT('a', " + c + "), '$.a'))"
	case 6:
		return c + " COLLATE " + r.one("utf8mb4_bin", "utf8mb4_unicode_ci")
	}
	return c
}

// time is a date or a time.
func (r *random) time(s scope) string {
	c := r.column(s, times)
	if c == "" || strings.HasSuffix(c, "took") {
		return r.number(s)
	}
	switch r.IntN(7) {
	case 0:
		return c + " + INTERVAL 1 " + r.one("DAY", "MONTH")
	case 1:
		return "DATE(" + c + ")"
	case 2:
		return "LAST_DAY(" + c + ")"
	}
	return c
}

// exact is a value of which equal ones look alike.
func (r *random) exact(s scope) string {
	switch r.IntN(6) {
	case 0:
		if c := r.column(s, sharp); c != "" {
			return c
		}
	case 1:
		return r.time(s)
	}
	return r.number(s)
}

// expression is any value.
func (r *random) expression(s scope) string {
	switch r.IntN(9) {
	case 0, 1, 2:
		return r.number(s)
	case 3:
		if c := r.column(s, floats); c != "" {
			return c
		}
	case 4:
		return r.time(s)
	case 5, 6:
		return r.text(s)
	}
	if c := r.column(s, numbers, floats, sharp, folded, times, others); c != "" {
		return c
	}
	return r.text(s)
}

// condition is a condition on the scope's columns.
func (r *random) condition(s scope) string {
	t := s[r.IntN(len(s))]
	var names []string
	for _, list := range [][]string{t.randomTable.key, t.numbers, t.sharp, t.folded, t.times, t.floats} {
		for _, n := range list {
			if t.values[n] != nil {
				names = append(names, n)
			}
		}
	}
	if len(names) == 0 {
		return r.column(scope{t}, numbers, sharp, folded, times, floats) + " IS NOT NULL"
	}
	n := r.one(names...)
	if r.in(3) && t.values[t.randomTable.key[0]] != nil {
		n = t.randomTable.key[0]
	}
	c, v := t.column(n), func() string { return literal(r.one(t.values[n]...)) }
	switch r.IntN(26) {
	case 0, 1, 2:
		return c + " = " + v()
	case 3:
		return v() + " = " + c
	case 4, 5:
		return c + " " + r.one("<", "<=", ">", ">=", "<>") + " " + v()
	case 6, 7:
		return c + r.one(" IN (", " IN (", " NOT IN (") + v() + ", " + v() + ", " + v() + ")"
	case 8:
		return c + r.one(" BETWEEN ", " NOT BETWEEN ") + v() + " AND " + v()
	case 9:
		return c + r.one(" IS NULL", " IS NOT NULL")
	case 10:
		return "(" + r.condition(s) + " OR " + r.condition(s) + ")"
	case 11:
		return r.one("NOT (", "(") + r.condition(s) + ")"
	case 12:
		return c + " <=> " + v()
	case 13:
		return "(" + r.condition(s) + r.one(" AND ", " XOR ") + r.condition(s) + ")"
	case 14, 15:
		if m := r.one(names...); m != n {
			w := func() string { return literal(r.one(t.values[m]...)) }
			row := "(" + c + ", " + t.column(m) + ")"
			if r.in(3) {
				return row + r.one(" = ", " <=> ", " <> ", " < ") + "(" + v() + ", " + w() + ")"
			}
			return row + " IN ((" + v() + ", " + w() + "), (" + v() + ", " + w() + "))"
		}
	case 16:
		return "(" + c + " = " + v() + ") IS " + r.one("TRUE", "FALSE", "NOT TRUE", "NULL")
	case 17:
		if f := r.column(scope{t}, folded, sharp); f != "" {
			return f + r.one(" LIKE 'a%'", " LIKE '%o%'", " REGEXP '^[a-d]'", " NOT LIKE '_____'")
		}
	case 18, 19, 20, 21:
		if r.depth < 2 {
			return r.subquery(s, t)
		}
	case 22:
		if m := r.column(s, numbers); m != "" {
			return r.number(s) + " " + r.one("=", "<", ">=", "<>") + " " + m
		}
	case 23:
		if f := r.column(scope{t}, folded); f != "" {
			return f + " = " + literal("'alice'") + r.one(" COLLATE utf8mb4_bin", " COLLATE utf8mb4_general_ci", "")
		}
	}
	return c + " = " + v()
}
