package router

import (
	"slices"
	"strings"

	"braid/internal/mysql"
)

// systemEdits put a place for a derived table wherever the statement reads a
// table of information_schema: a node knows schemas, the client databases.
// tables are the tables' names as the client spells them.
func (f *found) systemEdits() (edits []edit, tables []string, err *mysql.Error) {
	if !strings.EqualFold(f.system, "information_schema") {
		if len(f.db.Shards) > 1 || !f.db.SamePhysical || len(f.topology.Databases) > 1 {
			return nil, nil, refuse("tables of " + f.system)
		}
		return nil, nil, nil
	}
	s := f.shape
	for i := 0; i+2 < len(s.toks); i++ {
		t, name := s.toks[i], s.toks[i+2]
		if !t.ident() || !strings.EqualFold(t.name(s.text), f.system) || !s.toks[i+1].is(s.text, '.') || !name.ident() || i > 0 && s.toks[i-1].is(s.text, '.') {
			continue
		}
		if i+3 < len(s.toks) && s.toks[i+3].is(s.text, '.') {
			edits = append(edits, edit{t.start, name.start, nil}) // a column
			continue
		}
		table := name.name(s.text)
		with := template{{kind: segSystem, text: table}}
		if i+3 >= len(s.toks) || !s.toks[i+3].alias(s.text) {
			with = with.add(" AS " + s.text[name.start:name.end])
		}
		edits = append(edits, edit{t.start, name.end, with})
		if !slices.Contains(tables, table) {
			tables = append(tables, table)
		}
	}
	if len(tables) == 0 {
		return nil, nil, refuse("tables of " + f.system + " without its name in front")
	}
	return edits, tables, nil
}

// alias tells whether the token behind a table's name begins its alias.
func (t token) alias(text string) bool {
	if t.kind != tokWord {
		return t.kind == tokQuoted
	}
	switch t.word(text) {
	case "WHERE", "JOIN", "INNER", "CROSS", "LEFT", "RIGHT", "NATURAL", "STRAIGHT_JOIN", "ON", "USING", "GROUP", "ORDER", "HAVING", "LIMIT",
		"UNION", "EXCEPT", "INTERSECT", "FOR", "WINDOW", "PROCEDURE", "INTO", "USE", "FORCE", "IGNORE", "PARTITION", "LOCK", "OFFSET", "FETCH":
		return false
	}
	return true
}
