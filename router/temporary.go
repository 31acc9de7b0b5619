package router

import (
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"
)

// TemporaryShard is the shard on which a database's temporary tables live: all
// of a session's are on one connection, so that they can be joined.
const TemporaryShard = 0

// TemporaryTable is a session's temporary table, whose keys do not matter: a
// statement that names one runs on TemporaryShard or not at all. broken says why
// no statement may use it, except to drop it; "" when all is well.
func TemporaryTable(name string, columns []Column, broken string) *Table {
	t := newTable(TableInfo{Name: name, Columns: columns})
	t.Kind, t.Shard, t.Temporary, t.Broken = Single, TemporaryShard, true, broken
	return t
}

// With is a router for a session that has temporary tables, by database: they
// hide others of their names. Its plans are neither taken from r's cache nor put
// into it. Tables of databases that r does not know are left out.
func (r *Router) With(temporary map[string][]*Table) *Router {
	t := *r.topology
	t.Databases = make(map[string]*Database, len(r.topology.Databases))
	for name, db := range r.topology.Databases {
		t.Databases[name] = db
		if len(temporary[name]) == 0 {
			continue
		}
		own := *db
		own.Tables = make(map[string]*Table, len(db.Tables)+len(temporary[name]))
		for k, v := range db.Tables {
			own.Tables[k] = v
		}
		for _, v := range temporary[name] {
			own.Tables[db.fold(v.Name)] = v
		}
		t.Databases[name] = &own
	}
	return &Router{topology: &t, parsers: r.parsers}
}

// createTemporary plans CREATE TEMPORARY TABLE, which commits nothing.
func (a *analysis) createTemporary(f *found, n *ast.CreateTableStmt) (planned, error) {
	d := &DDL{Verb: "CREATE TABLE", NewTable: n.Table.Name.O, Tables: []string{n.Table.Name.O}, Temporary: true}
	made := source{name: n.Table.Name.O, shard: TemporaryShard}
	db := f.db
	if n.ReferTable != nil {
		t, err := f.lookup(n.ReferTable)
		switch {
		case err != nil:
			return planned{}, err
		case t == nil:
			return planned{}, refuse("CREATE TEMPORARY TABLE ... LIKE a table of " + f.system)
		case t.Kind == Single && t.Shard != TemporaryShard:
			return planned{}, refuse("CREATE TEMPORARY TABLE ... LIKE a table of another shard")
		}
		f.db = db
	}
	if n.Select == nil {
		return a.temporaryPlan(f, d, []source{made}, false)
	}
	d.Fills = true
	n.Select.Accept(f)
	switch {
	case f.err != nil:
		return planned{}, f.err
	case f.system != "":
		return planned{}, refuse("CREATE TEMPORARY TABLE ... SELECT from " + f.system)
	case f.locks:
		return planned{}, refuse("GET_LOCK() and its like together with tables")
	case len(f.factEdits()) > 0:
		return planned{}, refuse("CREATE TEMPORARY TABLE ... SELECT of what the session itself knows, as DATABASE()")
	}
	return a.temporaryPlan(f, d, append(f.sources(), made), false)
}

// temporaryPlan is the plan of a change of temporary tables.
func (a *analysis) temporaryPlan(f *found, d *DDL, sources []source, commits bool) (planned, error) {
	d.Temporary = true
	verb, _, _ := strings.Cut(d.Verb, " ")
	p := &Plan{Kind: KindSingle, Verb: verb, Writer: true, ImplicitCommit: commits, Temporary: true, DDL: d, Database: f.db.Name}
	body := &readBody{db: f.db, write: true, sources: sources, several: refuse("temporary tables together with rows of other shards")}
	if !f.db.SamePhysical {
		base, err := f.qualifierEdits()
		if err != nil {
			return planned{}, err
		}
		if len(base) > 0 {
			body.single = f.shape.slice(0, len(f.shape.text), sortEdits(base))
		}
	}
	p.body = body
	return planned{plan: p, uncached: true}, nil
}

// dropTemporary plans DROP TEMPORARY TABLE, which commits nothing. The node
// knows which of the tables there are.
func (a *analysis) dropTemporary(f *found, n *ast.DropTableStmt) (planned, error) {
	d := &DDL{Verb: "DROP TABLE"}
	for _, t := range n.Tables {
		db, err := a.database(f, t)
		if err != nil {
			return planned{}, err
		}
		if f.db != nil && f.db != db {
			return planned{}, refuse("tables of two databases in one statement")
		}
		f.db = db
		d.Tables = append(d.Tables, t.Name.O)
	}
	return a.temporaryPlan(f, d, []source{{name: d.Tables[0], shard: TemporaryShard}}, false)
}

// temporaries tells whether all of the tables are temporary, or, with an error,
// that only some are.
func (f *found) temporaries(verb string, tables []*ast.TableName) (bool, error) {
	n := 0
	for _, t := range tables {
		name := t.Schema.O
		if name == "" {
			name = f.q.Database
		}
		if db := f.topology.Databases[name]; db != nil {
			if x := db.Table(t.Name.O); x != nil && x.Temporary {
				n++
			}
		}
	}
	if n > 0 && n < len(tables) {
		return false, refuse(verb + " of temporary and other tables in one statement")
	}
	return n > 0, nil
}
