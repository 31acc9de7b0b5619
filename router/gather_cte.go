package router

import (
	"slices"
	"strings"

	"braid/internal/mysql"
)

// cteText is a common table expression in a statement's text: name AS (body) or
// name (columns) AS (body).
type cteText struct {
	name       string // in lower case
	list       string // "(columns)" or ""
	start, end int    // of (body), in the text
	// Where it can be named: in the text from end up to here.
	scopeEnd int
	// once says that its rows have to be worked out once for all its references:
	// it names itself, or which of several rows it takes is open, so that two
	// workings out may not be alike.
	once bool
}

// cteTexts finds the statement's common table expressions. Of those of one name
// none is in the list.
func cteTexts(text string, toks []token) []cteText {
	var out []cteText
	seen := map[string]int{}
	for i := range toks {
		if toks[i].word(text) != "WITH" {
			continue
		}
		depth, scopeEnd := toks[i].depth, len(text)
		if n := slices.IndexFunc(toks[i:], func(t token) bool { return t.depth < depth }); n >= 0 {
			scopeEnd = toks[i+n].start
		}
		i++
		if i < len(toks) && toks[i].word(text) == "RECURSIVE" {
			i++
		}
		for {
			c, next, ok := cteAt(text, toks, i)
			if !ok {
				break
			}
			c.scopeEnd = scopeEnd
			seen[c.name]++
			out = append(out, c)
			if next >= len(toks) || !toks[next].is(text, ',') {
				break
			}
			i = next + 1
		}
	}
	return slices.DeleteFunc(out, func(c cteText) bool { return seen[c.name] > 1 })
}

// cteAt reads the common table expression at token i, and finds the token behind it.
func cteAt(text string, toks []token, i int) (c cteText, next int, ok bool) {
	if i+2 >= len(toks) || !toks[i].ident() {
		return c, 0, false
	}
	c.name = strings.ToLower(toks[i].name(text))
	i++
	if toks[i].is(text, '(') {
		end := closing(toks, i)
		if end < 0 {
			return c, 0, false
		}
		c.list = text[toks[i].start:toks[end].end]
		i = end + 1
	}
	if i+1 >= len(toks) || toks[i].word(text) != "AS" || !toks[i+1].is(text, '(') {
		return c, 0, false
	}
	end := closing(toks, i+1)
	if end < 0 {
		return c, 0, false
	}
	c.start, c.end = toks[i+1].start, toks[end].end
	for _, t := range toks[i+1 : end] {
		c.once = c.once || choosesRows(t.word(text)) || t.ident() && strings.EqualFold(t.name(text), c.name)
	}
	return c, end + 1, true
}

// choosesRows tells whether a word in a SELECT may make its answer depend on the
// order in which the server comes across rows.
func choosesRows(word string) bool {
	switch word {
	case "LIMIT", "FETCH", "OVER", "ANY_VALUE", "GROUP_CONCAT", "JSON_ARRAYAGG", "JSON_OBJECTAGG":
		return true
	}
	return false
}

// closing is the index of the parenthesis that closes the one at i, -1 for none.
func closing(toks []token, i int) int {
	for j := i + 1; j < len(toks); j++ {
		if toks[j].depth <= toks[i].depth {
			return j
		}
	}
	return -1
}

// cteEdits write the references to common table expressions in text[a:b] but the
// first of each as derived tables of their own: a server that cannot open a
// temporary table twice would for each reference to one that reads copies.
func (c *copyNames) cteEdits(a, b int) ([]edit, *mysql.Error) {
	s := c.f.shape
	var out []edit
	for _, i := range c.named {
		t := c.toks[i]
		if t.start < a || t.end > b {
			continue
		}
		n := slices.IndexFunc(c.ctes, func(w cteText) bool {
			return w.name == strings.ToLower(t.name(s.text)) && w.end <= t.start && t.end <= w.scopeEnd
		})
		if n < 0 {
			continue
		}
		w := &c.ctes[n]
		if c.used[w.name]++; c.used[w.name] == 1 || w.once {
			continue
		}
		body, err := c.body(w)
		if err != nil {
			return nil, err
		}
		if j := i + 1; j < len(c.toks) && aliasFollows(c.toks[j], s.text) {
			if c.toks[j].word(s.text) == "AS" {
				j++
			}
			out = append(out, edit{t.start, t.end, body})
			if w.list != "" {
				out = append(out, edit{c.toks[j].end, c.toks[j].end, template{}.add(" " + w.list)})
			}
			continue
		}
		out = append(out, edit{t.start, t.end, body.add(" AS " + quoteIdent(t.name(s.text)) + w.list)})
	}
	return out, nil
}

// body is the common table expression's body over copies that nothing else reads.
func (c *copyNames) body(w *cteText) (template, *mysql.Error) {
	edits, err := c.tableEdits(w.start, w.end)
	if err != nil {
		return nil, err
	}
	more, err := c.cteEdits(w.start, w.end)
	if err != nil {
		return nil, err
	}
	edits = sortEdits(slices.Concat(c.base, edits, more))
	edits = sortEdits(slices.Concat(edits, c.f.nameEdits(edits)))
	return c.f.shape.slice(w.start, w.end, edits), nil
}

// tableEdits write the references to tables in text[a:b].
func (c *copyNames) tableEdits(a, b int) ([]edit, *mysql.Error) {
	s := c.f.shape
	var out []edit
	for _, i := range c.tables {
		t := c.toks[i]
		if t.start < a || t.end > b {
			continue
		}
		name := t.name(s.text)
		with, err := c.next(c.f.db.Table(name), name, i+1 < len(c.toks) && aliasFollows(c.toks[i+1], s.text))
		if err != nil {
			return nil, err
		}
		if with != "" {
			out = append(out, edit{t.start, t.end, template{}.add(with)})
		}
	}
	return out, nil
}
