package router

import (
	"strings"

	"braid/internal/mysql"
)

// Handler is what a HANDLER statement does. Its READ and CLOSE carry where the
// session has the table open; Known is false when it has none of that name, and
// any node may say so.
type Handler struct {
	Verb  HandlerVerb
	Known bool
	OpenHandler
}

// HandlerVerb names what a HANDLER statement does.
type HandlerVerb uint8

const (
	HandlerOpen HandlerVerb = iota
	HandlerRead
	HandlerClose
)

// OpenHandler is a table that a session has open by HANDLER. Aliases are
// compared without regard to case, on every server.
type OpenHandler struct {
	Alias    string
	Database string
	Table    string
	Shard    int // in the generation in which it was opened
}

// handler plans HANDLER, which the parser does not know. Only the names are read
// here: the nodes understand the rest.
func (l *localParser) handler() (*Plan, bool, error) {
	if l.q.Prepared {
		if l.mariadb() {
			return nil, true, refuse("HANDLER as a prepared statement")
		}
		return nil, true, mysql.Errorf(1295, "This command is not supported in the prepared statement protocol yet")
	}
	start := l.i
	name, err := l.name()
	if err != nil {
		return nil, true, err
	}
	database := l.q.Database
	qualified := l.punct('.')
	if qualified {
		if database, name, start = name, "", l.i; start == len(l.toks) {
			return nil, true, l.wrong()
		}
		if name, err = l.name(); err != nil {
			return nil, true, err
		}
	}
	if l.word() != "OPEN" && !qualified {
		p, err := l.useHandler(name)
		return p, true, err
	}
	if !l.take("OPEN") {
		return nil, true, l.wrong()
	}
	alias := name
	if l.take("AS") || l.i < len(l.toks) {
		if alias, err = l.name(); err != nil {
			return nil, true, err
		}
	}
	if l.i < len(l.toks) {
		return nil, true, l.wrong()
	}
	p, err := l.openHandler(database, name, alias)
	if err == nil && qualified {
		// The connection's schema is the table's.
		p.body.(*readBody).single = template{{kind: segText, text: "HANDLER " + string(l.q.Text[l.toks[start].start:])}}
	}
	return p, true, err
}

// openHandler plans HANDLER ... OPEN, which reads no table: it begins no
// transaction under autocommit=0.
func (l *localParser) openHandler(database, name, alias string) (*Plan, error) {
	if database == "" {
		return nil, mysql.Errorf(1046, "No database selected")
	}
	db := l.r.topology.Databases[database]
	switch {
	case db == nil && SystemSchema(database):
		return nil, refuse("HANDLER of tables of " + database)
	case db == nil && !l.mariadb():
		return nil, mysql.Errorf(1049, "Unknown database '%s'", database)
	case db == nil || db.Table(name) == nil:
		return nil, mysql.Errorf(1146, "Table '%s.%s' doesn't exist", database, name)
	}
	t := db.Table(name)
	if t.Broken != "" {
		return nil, mysql.Errorf(1105, "Table '%s.%s' cannot be used: it %s", database, name, t.Broken)
	}
	body := &readBody{db: db}
	switch {
	case t.View: // as any node says
	case t.Kind == Single:
		body.sources = []source{{name: name, shard: t.Shard}}
	case t.Kind == Sharded && t.Rule != nil:
		body.sources = []source{{name: name, rule: t.Rule, refs: []*ref{{table: t, name: name}}}}
		body.several = refuse("HANDLER of a table over several shards: each gives the rows in an order of its own")
	}
	return &Plan{Kind: KindSingle, Verb: "HANDLER", Database: database, NoTables: true, Temporary: t.Temporary, body: body,
		Handler: &Handler{OpenHandler: OpenHandler{Alias: alias, Database: database, Table: name}}}, nil
}

// useHandler plans HANDLER ... READ and CLOSE, which run where the table is open.
func (l *localParser) useHandler(alias string) (*Plan, error) {
	h := &Handler{Verb: HandlerClose}
	if l.word() == "READ" {
		h.Verb = HandlerRead
	}
	p := &Plan{Kind: KindSingle, Verb: "HANDLER", Handler: h, Rows: h.Verb == HandlerRead}
	if l.q.Facts != nil && l.q.Facts.Handler != nil {
		h.OpenHandler, h.Known = l.q.Facts.Handler(alias)
	}
	if !h.Known {
		db := l.r.anyDatabase(l.q.Database)
		if db == nil {
			return nil, mysql.Errorf(1109, "Unknown table '%s' in HANDLER", alias)
		}
		p.Database, p.NoTables, p.body = db.Name, true, &readBody{db: db}
		return p, nil
	}
	db := l.r.topology.Databases[h.Database]
	if db == nil || h.Shard >= len(db.Shards) {
		return nil, refuse("HANDLER of a table whose shard has moved to another node")
	}
	u := unparsed{db: db, topology: l.r.topology, text: l.text, toks: l.toks}
	if u.kept() {
		return nil, refuse("HANDLER ... READ with what the session itself knows, as DATABASE()")
	}
	for i := range u.toks {
		if !db.SamePhysical && u.toks[i].ident() && strings.EqualFold(u.toks[i].name(u.text), db.Name) && u.follows(i, '.') {
			return nil, refuse("HANDLER ... READ with a database's name, where the shards' schemas have other names")
		}
	}
	p.Database, p.NoTables = h.Database, h.Verb == HandlerClose
	p.body = &readBody{db: db, sources: []source{{name: h.Table, shard: h.Shard}}}
	return p, nil
}
