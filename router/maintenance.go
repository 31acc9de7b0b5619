package router

import "braid/internal/mysql"

// lookAfter plans CHECK TABLE, CHECKSUM TABLE and FLUSH TABLES, which the parser
// does not know; first is the word that the statement begins with.
func (l *localParser) lookAfter(first string) (*Plan, bool, error) {
	if first == "FLUSH" && !l.take("LOCAL") {
		l.take("NO_WRITE_TO_BINLOG")
	}
	if !l.take("TABLE") && !l.take("TABLES") {
		return nil, true, refuse(first + " " + l.word())
	}
	p := &Plan{Kind: KindBroadcast, Verb: first, Writer: first == "FLUSH", ImplicitCommit: first != "CHECKSUM", Rows: first != "FLUSH", Maintenance: true, Checksum: first == "CHECKSUM"}
	db := l.r.topology.Databases[l.q.Database]
	single, everywhere := -1, false
	for l.i < len(l.toks) && l.toks[l.i].ident() && l.word() != "WITH" && l.word() != "FOR" {
		of := db
		name, err := l.name()
		if err != nil {
			return nil, true, err
		}
		if l.punct('.') {
			of = l.r.topology.Databases[name]
			if name, err = l.name(); err != nil {
				return nil, true, err
			}
			if of == nil {
				return nil, true, refuse(first + " TABLE of another database")
			}
			if !of.SamePhysical {
				return nil, true, refuse(first + " TABLE with a database's name, where the shards' schemas have other names")
			}
		}
		switch {
		case of == nil:
			return nil, true, mysql.Errorf(1046, "No database selected")
		case p.Database != "" && of.Name != p.Database:
			return nil, true, refuse("tables of two databases in one statement")
		}
		db, p.Database = of, of.Name
		t := db.Table(name)
		p.Names = append(p.Names, t)
		switch {
		case t != nil && t.Temporary:
			return nil, true, refuse(first + " TABLE of temporary tables")
		case t == nil, t.Kind != Single || len(db.Shards) == 1:
			everywhere = true
		case single >= 0 && single != t.Shard:
			return nil, true, refuse(first + " TABLE of tables of several shards in one statement")
		default:
			single = t.Shard
		}
		if !l.punct(',') {
			break
		}
	}
	switch {
	case l.word() == "WITH" || l.word() == "FOR":
		return nil, true, refuse(first + " TABLES ... " + l.word())
	case first == "FLUSH" && l.i < len(l.toks), first != "FLUSH" && len(p.Names) == 0:
		return nil, true, l.wrong()
	case everywhere && single >= 0:
		return nil, true, refuse(first + " TABLE of tables of several kinds in one statement")
	case db == nil:
		if db = l.r.anyDatabase(""); db == nil {
			return nil, true, mysql.Errorf(1046, "No database selected")
		}
	}
	l.i = len(l.toks) // the options are the nodes' to read
	p.Database = db.Name
	body := &readBody{db: db, write: true, all: true}
	if single >= 0 {
		p.Kind, body.all = KindSingle, false
		body.sources = []source{{name: p.Names[0].Name, shard: single}}
	}
	p.body = body
	return p, true, nil
}
