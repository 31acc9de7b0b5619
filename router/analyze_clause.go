package router

import (
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/format"
)

// clause is where a clause of a SELECT is in a shape's text: from its keyword
// to the next clause's. Both are 0 when there is none; then at is where it would stand.
type clause struct {
	start, end int
	at         int
	first      int // index of the first token behind the keywords
	last       int // index behind the last token
}

// layout is where the clauses of a plain SELECT statement are.
type layout struct {
	list, from, group, having, order, limit clause
	end                                     int      // of the statement, without a semicolon
	fields                                  [][2]int // each item of the select list, with its alias
	into                                    bool
}

// layoutOf finds the clauses of a SELECT that begins with its keyword; ok is
// false for anything else (parentheses, unions, WITH).
func layoutOf(s *shape, sel *ast.SelectStmt) (layout, bool) {
	var l layout
	if len(s.toks) == 0 || s.toks[0].word(s.text) != "SELECT" || sel.Kind != ast.SelectStmtKindSelect || len(sel.Fields.Fields) == 0 {
		return l, false
	}
	end := len(s.toks)
	for end > 0 && s.toks[end-1].is(s.text, ';') {
		end--
	}
	listAt := sel.Fields.Fields[0].Offset
	// Positions of the clause keywords, in the order of the grammar.
	order := []string{"LIST", "FROM", "WHERE", "GROUP", "HAVING", "WINDOW", "ORDER", "LIMIT", "TAIL"}
	at := make(map[string]int)
	for i := 1; i < end; i++ {
		t := s.toks[i]
		if t.depth != 0 || t.kind != tokWord || s.toks[i-1].is(s.text, '.') {
			continue
		}
		if t.start >= listAt {
			if _, ok := at["LIST"]; !ok {
				at["LIST"] = i
			}
		}
		w := t.word(s.text)
		next := ""
		if i+1 < end {
			next = s.toks[i+1].word(s.text)
		}
		key := ""
		switch w {
		case "FROM", "WHERE", "HAVING", "LIMIT":
			key = w
		case "GROUP", "ORDER":
			if next == "BY" {
				key = w
			}
		case "WINDOW":
			if len(sel.WindowSpecs) > 0 {
				key = w
			}
		case "FOR":
			if next == "UPDATE" || next == "SHARE" {
				key = "TAIL"
			} else { // USE INDEX FOR ORDER BY (...)
				i += 2
			}
		case "LOCK":
			if next == "IN" {
				key = "TAIL"
			}
		case "INTO":
			l.into = true
			key = "TAIL"
		case "UNION", "INTERSECT", "EXCEPT":
			return l, false
		}
		if key != "" {
			if _, ok := at[key]; !ok {
				at[key] = i
			}
		}
	}
	for i := 1; i < end; i++ {
		if s.toks[i].start >= listAt {
			at["LIST"] = i
			break
		}
	}
	if _, ok := at["LIST"]; !ok {
		return l, false
	}
	find := func(name string, words int) clause {
		c := clause{last: end}
		passed := false
		for _, n := range order {
			if n == name {
				passed = true
				continue
			}
			if i, ok := at[n]; ok && passed {
				c.last = i
				break
			}
		}
		c.at = s.toks[c.last-1].end
		if i, ok := at[name]; ok {
			c.start, c.first, c.end = s.toks[i].start, i+words, s.toks[c.last-1].end
		}
		return c
	}
	l.list, l.from = find("LIST", 0), find("FROM", 1)
	l.end = s.toks[end-1].end
	l.group, l.having, l.order, l.limit = find("GROUP", 2), find("HAVING", 1), find("ORDER", 2), find("LIMIT", 1)
	l.fields = s.commaItems(l.list)
	return l, len(l.fields) == len(sel.Fields.Fields)
}

// commaItems splits a clause at its commas.
func (s *shape) commaItems(c clause) [][2]int {
	if c.end == 0 {
		return nil
	}
	var out [][2]int
	start := c.first
	for i := c.first; i <= c.last; i++ {
		if i < c.last && !(s.toks[i].depth == 0 && s.toks[i].is(s.text, ',')) {
			continue
		}
		if i > start {
			out = append(out, [2]int{s.toks[start].start, s.toks[i-1].end})
		}
		start = i + 1
	}
	return out
}

// tokensIn returns the tokens of text[a:b].
func (s *shape) tokensIn(a, b int) []token {
	lo := 0
	for lo < len(s.toks) && s.toks[lo].start < a {
		lo++
	}
	hi := lo
	for hi < len(s.toks) && s.toks[hi].end <= b {
		hi++
	}
	return s.toks[lo:hi]
}

// withoutDirection cuts ASC or DESC off an item of ORDER BY or GROUP BY.
func (s *shape) withoutDirection(r [2]int) [2]int {
	toks := s.tokensIn(r[0], r[1])
	if n := len(toks); n > 1 {
		if w := toks[n-1].word(s.text); (w == "ASC" || w == "DESC") && !toks[n-2].is(s.text, '.') {
			r[1] = toks[n-2].end
		}
	}
	return r
}

// withoutAlias cuts the alias off an item of the select list.
func (s *shape) withoutAlias(r [2]int, f *ast.SelectField) [2]int {
	if f.AsName.L == "" {
		return r
	}
	toks := s.tokensIn(r[0], r[1])
	n := len(toks) - 1
	if n > 1 && toks[n-1].word(s.text) == "AS" {
		n--
	}
	if n > 0 {
		r[1] = toks[n-1].end
	}
	return r
}

// canon is an expression's canonical text: equal texts mean equal expressions.
// It is "" for one with parameters, which all look alike.
func canon(e ast.ExprNode) string {
	params := false
	e.Accept(walk(func(n ast.Node) bool {
		if _, ok := n.(ast.ParamMarkerExpr); ok {
			params = true
		}
		return !params
	}))
	if params {
		return ""
	}
	var b strings.Builder
	flags := format.RestoreStringSingleQuotes | format.RestoreKeyWordUppercase | format.RestoreNameBackQuotes | format.RestoreNameLowercase
	if err := unparen(e).Restore(format.NewRestoreCtx(flags, &b)); err != nil {
		return ""
	}
	return b.String()
}

// walk visits an expression's nodes, subqueries' included, until visit returns false for one.
type walk func(ast.Node) bool

func (w walk) Enter(n ast.Node) (ast.Node, bool) { return n, !w(n) }
func (w walk) Leave(n ast.Node) (ast.Node, bool) { return n, true }
