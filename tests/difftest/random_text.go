package difftest

import (
	"math/rand/v2"
	"strings"
)

// disguise writes a marked text in another way that means the same: comments and
// line ends for blanks, names of columns in quotes and other letters, keywords in
// small ones. Literals stay.
func disguise(marked string, seed uint64) string {
	r := &random{Rand: rand.New(rand.NewPCG(seed, 1))}
	var b strings.Builder
	for i := 0; i < len(marked); {
		c := marked[i]
		switch {
		case c == literalBegin[0] || c == '\'':
			end := map[byte]string{literalBegin[0]: literalEnd, '\'': "'"}[c]
			n := strings.Index(marked[i+1:], end)
			b.WriteString(marked[i : i+n+2])
			i += n + 2
		case c == ' ' && marked[i-1] != ',' && r.in(9): // MariaDB has a comment behind a comma in an item's name
			b.WriteString(r.one("\n", "\t", " /**/ ", " /* SELECT 'it' ; */ ", " /* (\" */", " -- of ? and `\n", " # ')\n", "  "))
			i++
		case isLetter(c):
			n := i
			for n < len(marked) && (isLetter(marked[n]) || marked[n] >= '0' && marked[n] <= '9') {
				n++
			}
			b.WriteString(r.disguiseWord(marked[i:n], n < len(marked) && marked[n] == '('))
			i = n
		default:
			b.WriteByte(c)
			i++
		}
	}
	return b.String()
}

func isLetter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' }

// disguiseWord writes one word; called says that it is a function's name.
func (r *random) disguiseWord(w string, called bool) string {
	switch w {
	case "id", "customer_id", "login", "seq", "day", "k", "v", "no", "credit", "qty", "city", "name", "amount", "placed":
		if !called && r.in(4) {
			return r.one("`"+w+"`", strings.ToUpper(w), "`"+strings.ToUpper(w)+"`")
		}
	case "SELECT", "FROM", "WHERE", "AND", "OR", "IN", "JOIN", "ON", "GROUP", "BY", "ORDER", "LIMIT", "IS", "NULL", "UNION", "WITH", "AS", "BETWEEN", "EXISTS", "HAVING", "DISTINCT":
		if r.in(6) {
			return r.one(strings.ToLower(w), w[:1]+strings.ToLower(w[1:]))
		}
	}
	return w
}
