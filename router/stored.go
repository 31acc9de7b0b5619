package router

import (
	"slices"
	"strings"

	"braid/internal/mysql"
)

// storedText is a CREATE, DROP or ALTER of a stored program, of which only the
// tokens are known.
type storedText struct {
	unparsed
	kind string // "PROCEDURE", "FUNCTION", "TRIGGER" or "EVENT"
	name string
	body int // the token behind the name
}

// stored plans a statement about a stored program; kind is its token at. In a
// database whose only shard has its name it is passed on: there all that the
// program can touch is in one place. Over several shards the program is made on
// every shard, or with a single table's, and must do there what it would do on
// one server.
func (l *localParser) stored(first, kind string, at int) (*Plan, *mysql.Error) {
	db := l.r.topology.Databases[l.q.Database]
	x := storedText{kind: kind}
	x.text, x.toks, x.topology = l.text, l.toks, l.r.topology
	i := at + 1
	free := false // IF [NOT] EXISTS, or OR REPLACE
	if x.words(i, "IF", "NOT", "EXISTS") {
		i, free = i+3, true
	} else if x.words(i, "IF", "EXISTS") {
		i, free = i+2, true
	}
	free = free || x.words(1, "OR", "REPLACE")
	if i >= len(l.toks) || !l.toks[i].ident() {
		return nil, nil
	}
	x.name = l.toks[i].name(l.text)
	qualified := x.follows(i, '.') && i+2 < len(l.toks) && l.toks[i+2].ident()
	if qualified {
		db, x.name = l.r.topology.Databases[x.name], l.toks[i+2].name(l.text)
		i += 2
	}
	if db == nil {
		return nil, nil
	}
	x.db, x.body = db, i+1
	if len(db.Shards) == 1 {
		if !db.SamePhysical || db.Name != l.q.Database {
			return nil, nil
		}
		return &Plan{Kind: KindSingle, Database: db.Name, Verb: first + " " + kind, Writer: true, ImplicitCommit: true, NoTables: true, body: &readBody{db: db}}, nil
	}
	if !db.SamePhysical && (qualified || x.namesSchema()) {
		return nil, refuse(first + " " + kind + " with names of databases, where the shards' schemas have other names")
	}
	d := &DDL{Verb: first + " " + kind, Tables: []string{x.name}}
	p := &Plan{Kind: KindBroadcast, Verb: first, Writer: true, ImplicitCommit: true, DDL: d, Database: db.Name}
	body := &readBody{db: db, write: true, all: true}
	p.body = body
	if kind == "EVENT" {
		return nil, refuse(first + " EVENT over several shards: each node would run it for itself")
	}
	var on *Table
	var err *mysql.Error
	switch {
	case first == "CREATE" && kind == "TRIGGER":
		on, err = x.trigger()
	case first == "CREATE" && kind == "FUNCTION":
		err = x.pure("CREATE FUNCTION", "over several shards: each would give another value")
	case first == "DROP" && kind == "TRIGGER":
		on = x.triggered()
	}
	if err != nil {
		return nil, err
	}
	if on != nil && on.Kind == Single {
		p.Kind, body.all = KindSingle, false
		body.sources = []source{{name: on.Name, shard: on.Shard}}
	}
	if first == "CREATE" && !free {
		d.Undo = "DROP " + kind + " " + quoteIdent(x.name)
	}
	return p, nil
}

// namesSchema tells whether the text qualifies names with a database.
func (x *storedText) namesSchema() bool {
	for i, t := range x.toks {
		if t.ident() && x.follows(i, '.') && x.topology.Databases[t.name(x.text)] != nil {
			return true
		}
	}
	return false
}

// triggered is the table of the trigger that the statement names, nil when there
// is no such trigger.
func (x *storedText) triggered() *Table {
	for _, t := range x.db.Tables {
		if slices.ContainsFunc(t.TriggerNames, func(n string) bool { return strings.EqualFold(n, x.name) }) {
			return t
		}
	}
	return nil
}

// trigger finds the table of a CREATE TRIGGER, and refuses a trigger that would
// not do on the shards what it does on one server.
func (x *storedText) trigger() (*Table, *mysql.Error) {
	i := x.body
	for i < len(x.toks) && !x.words(i, "ON") {
		i++
	}
	if i+1 >= len(x.toks) || !x.toks[i+1].ident() {
		return nil, syntaxErrorAt(x.text, len(x.text))
	}
	i++
	if x.follows(i, '.') && i+2 < len(x.toks) {
		i += 2
	}
	name := x.toks[i].name(x.text)
	t := x.db.Table(name)
	if t == nil {
		return nil, mysql.Errorf(1146, "Table '%s.%s' doesn't exist", x.db.Name, name)
	}
	x.body = i + 1
	alike := ""
	if t.Kind == Global {
		alike = "on a global table: its copies would differ"
	}
	if err := x.pure("CREATE TRIGGER", alike); err != nil {
		return nil, err
	}
	for i := x.body; i+2 < len(x.toks); i++ {
		if !x.toks[i].ident() || !strings.EqualFold(x.toks[i].name(x.text), "NEW") || !x.follows(i, '.') || i+3 < len(x.toks) && !x.toks[i+3].is(x.text, '=') && !x.toks[i+3].is(x.text, ':') {
			continue
		}
		c := t.column(strings.ToLower(x.toks[i+2].name(x.text)))
		switch {
		case t.Rule != nil && slices.Contains(t.Rule.Keys, c):
			// Also a mere comparison: which of the two it is cannot be told here.
			return nil, refuse("CREATE TRIGGER that sets or compares the sharding key " + t.Name + "." + t.Columns[c].Name)
		case c >= 0 && c == t.AutoIncrement && t.Sequence != "":
			return nil, refuse("CREATE TRIGGER that sets or compares " + t.Name + "." + t.Columns[c].Name + ", whose values Braid gives")
		}
	}
	return t, nil
}

// pure refuses a program that looks at more than its own values: other rows than
// the shard's, or what differs between nodes and clients. alike says why it must
// also give the same on every shard each time; "" when it need not.
func (x *storedText) pure(what, alike string) *mysql.Error {
	for i := x.body; i < len(x.toks); i++ {
		t := x.toks[i]
		if t.is(x.text, '@') {
			return refuse(what + " with variables of the session, over several shards")
		}
		if i > 0 && x.toks[i-1].is(x.text, '.') {
			continue // a column
		}
		w := t.word(x.text)
		switch w {
		case "FROM", "JOIN", "INSERT", "REPLACE", "UPDATE", "DELETE", "TRUNCATE", "CALL", "EXECUTE", "PREPARE", "LOAD", "HANDLER", "TABLE":
			if w == "INSERT" || w == "REPLACE" || w == "FROM" {
				if w == "FROM" && !x.selects(i) || w != "FROM" && x.follows(i, '(') {
					continue // the functions, and EXTRACT(... FROM x)
				}
			}
			return refuse(what + " that uses tables or other programs, over several shards: on each it would see the rows of that shard")
		case "SONAME":
			return refuse(what + " of a library")
		}
		if k, ok := factOf(w); ok && (x.follows(i, '(') || k == factCurrentUser) {
			return refuse(what + " with " + w + ", over several shards")
		}
		if alike != "" {
			switch w {
			case "RAND", "UUID", "UUID_SHORT", "NOW", "SYSDATE", "CURDATE", "CURTIME", "UTC_TIMESTAMP", "UTC_DATE", "UTC_TIME", "UNIX_TIMESTAMP",
				"CURRENT_TIMESTAMP", "CURRENT_DATE", "CURRENT_TIME", "LOCALTIME", "LOCALTIMESTAMP", "RANDOM_BYTES":
				return refuse(what + " with " + w + " " + alike)
			}
		}
	}
	return nil
}

// selects tells whether the FROM at token i may be a query's: TRIM, EXTRACT,
// SUBSTRING have one inside of their parentheses, without SELECT before it there.
func (x *storedText) selects(i int) bool {
	for k := i - 1; k >= x.body; k-- {
		t := x.toks[k]
		if t.depth < x.toks[i].depth {
			return false
		}
		if t.depth == x.toks[i].depth && (t.word(x.text) == "SELECT" || t.word(x.text) == "DELETE") {
			return true
		}
	}
	return x.toks[i].depth == 0
}
