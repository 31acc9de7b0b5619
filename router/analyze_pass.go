package router

import "strings"

// pass plans a statement that the parser does not understand for a database of
// one shard, whose node holds all the rows and decides what the text means: the
// text goes there as it is. ok is false for whatever needs more than that: other
// verbs than those of rows, names outside of the database, and what the proxy
// answers or keeps for the session.
func (a *analysis) pass() (planned, bool) {
	db := a.r.topology.Databases[a.q.Database]
	if db == nil || len(db.Shards) != 1 {
		return planned{}, false
	}
	text := plainComments(string(a.q.Text), a.flavour, a.q.Mode)
	u := unparsed{db: db, topology: a.r.topology, text: text, toks: tokenize(text, a.q.Mode, a.q.Charset)}
	p := u.plan()
	if p == nil || !u.ownNames() || u.kept() || !u.tables(p) {
		return planned{}, false
	}
	return planned{plan: p}, true
}

// unparsed is a statement of which only the tokens are known.
type unparsed struct {
	db       *Database
	topology *Topology
	text     string
	toks     []token
}

// words tells whether words stand one after the other from token i on.
func (u *unparsed) words(i int, words ...string) bool {
	for k, w := range words {
		if i+k >= len(u.toks) || u.toks[i+k].word(u.text) != w {
			return false
		}
	}
	return true
}

// has tells whether words stand one after the other anywhere.
func (u *unparsed) has(words ...string) bool {
	for i := range u.toks {
		if u.words(i, words...) {
			return true
		}
	}
	return false
}

func (u *unparsed) follows(i int, punct byte) bool {
	return i+1 < len(u.toks) && u.toks[i+1].is(u.text, punct)
}

// verb is the word that says what the statement does: behind WITH it is the
// first one outside of the common table expressions.
func (u *unparsed) verb() string {
	i := 0
	for i < len(u.toks) && u.toks[i].is(u.text, '(') {
		i++
	}
	if i == len(u.toks) {
		return ""
	}
	first := u.toks[i].word(u.text)
	if first != "WITH" {
		return first
	}
	for _, t := range u.toks[i:] {
		if t.depth != u.toks[i].depth {
			continue
		}
		switch w := t.word(u.text); w {
		case "SELECT", "UPDATE", "DELETE", "INSERT", "REPLACE", "VALUES", "TABLE":
			return w
		}
	}
	return ""
}

// plan is the plan of the statement's verb, nil for verbs that do more than read
// and write rows.
func (u *unparsed) plan() *Plan {
	p := &Plan{Kind: KindSingle, Database: u.db.Name, Verb: u.verb()}
	p.body = &readBody{db: u.db, sources: []source{{name: "not understood by Braid"}}}
	switch p.Verb {
	case "SELECT", "VALUES", "TABLE":
		if u.has("INTO") {
			return nil
		}
		p.Writer = u.has("FOR", "UPDATE") || u.has("FOR", "SHARE") || u.has("LOCK", "IN")
		p.NoTables = p.Verb != "TABLE" && !u.has("FROM") && !u.has("TABLE")
		p.Verb, p.Rows = "SELECT", true
	case "INSERT", "REPLACE", "UPDATE", "DELETE":
		p.Writer, p.Rows = true, u.has("RETURNING")
		p.OnDuplicate = u.has("ON", "DUPLICATE")
	default:
		return nil
	}
	return p
}

// ownNames tells whether all names with a dot behind them are of this database:
// its own name, where the node knows it by that, or a table or alias, which then
// also stands somewhere by itself.
func (u *unparsed) ownNames() bool {
	alone := map[string]bool{}
	for i, t := range u.toks {
		if t.ident() && !u.follows(i, '.') && (i == 0 || !u.toks[i-1].is(u.text, '.')) {
			alone[strings.ToLower(t.name(u.text))] = true
		}
	}
	for i, t := range u.toks {
		if !t.ident() || !u.follows(i, '.') || i > 0 && u.toks[i-1].is(u.text, '.') {
			continue
		}
		name := t.name(u.text)
		switch {
		case name == u.db.Name && u.db.SamePhysical:
		case u.schema(name) || !alone[strings.ToLower(name)]:
			return false
		}
	}
	return true
}

// schema tells whether a node may have a schema of the name that is not for the
// database's clients.
func (u *unparsed) schema(name string) bool {
	if SystemSchema(name) || strings.EqualFold(name, "braid") {
		return true
	}
	for _, db := range u.topology.Databases {
		if strings.EqualFold(name, db.Name) {
			return true
		}
		for _, s := range db.Shards {
			if strings.EqualFold(name, s.Schema) {
				return true
			}
		}
	}
	return false
}

// kept tells whether the statement reads or sets what the proxy keeps for the
// session, so that the node's own answer would be another.
func (u *unparsed) kept() bool {
	for i, t := range u.toks {
		if t.is(u.text, '@') && u.follows(i, '@') || t.is(u.text, ':') && u.follows(i, '=') {
			return true
		}
		w := t.word(u.text)
		if k, ok := factOf(w); ok && (u.follows(i, '(') || k == factCurrentUser) {
			return true
		}
		switch w {
		case "SQL_CALC_FOUND_ROWS":
			return true
		case "GET_LOCK", "RELEASE_LOCK", "RELEASE_ALL_LOCKS", "IS_FREE_LOCK", "IS_USED_LOCK":
			if u.follows(i, '(') {
				return true
			}
		}
	}
	return false
}

// tables looks at the tables that the statement may name, and says in the plan
// what they ask for. It tells whether the node can work on them alone.
func (u *unparsed) tables(p *Plan) bool {
	inserts := p.Verb == "INSERT" || p.Verb == "REPLACE"
	for _, t := range u.toks {
		if !t.ident() {
			continue
		}
		table := u.db.Table(t.name(u.text))
		if table == nil {
			continue
		}
		if table.Broken != "" || inserts && table.Sequence != "" {
			return false
		}
		p.AutoIncrement = p.AutoIncrement || inserts && table.AutoIncrement >= 0
	}
	return true
}
