package router

import (
	"slices"
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"

	"braid/internal/mysql"
)

// ddl plans a statement that changes the schema.
func (a *analysis) ddl(f *found, stmt ast.DDLNode) (planned, error) {
	switch n := stmt.(type) {
	case *ast.CreateTableStmt:
		return a.createTable(f, n)
	case *ast.AlterTableStmt:
		if err := a.alterable(f, n); err != nil {
			return planned{}, err
		}
		p, err := a.schemaChange(f, "ALTER TABLE", []*ast.TableName{n.Table}, false)
		if err == nil && !p.plan.Temporary {
			p.plan.DDL.Raises = setsAutoIncrement(n)
			p.plan.DDL.Undo = undoAlter(n)
			err = a.alterRenames(f, p.plan.DDL, n)
		}
		return p, err
	case *ast.DropTableStmt:
		verb := "DROP TABLE"
		if n.IsView {
			verb = "DROP VIEW"
		}
		return a.drop(f, verb, n)
	case *ast.TruncateTableStmt:
		return a.schemaChange(f, "TRUNCATE TABLE", []*ast.TableName{n.Table}, false)
	case *ast.RenameTableStmt:
		return a.rename(f, n)
	case *ast.CreateIndexStmt:
		if n.KeyType == ast.IndexKeyTypeUnique {
			unique := []*ast.Constraint{{Tp: ast.ConstraintUniq, Name: n.IndexName, Keys: n.IndexPartSpecifications}}
			if err := a.constrains(f, n.Table, nil, unique); err != nil {
				return planned{}, err
			}
		}
		p, err := a.schemaChange(f, "CREATE INDEX", []*ast.TableName{n.Table}, false)
		if err == nil && !p.plan.Temporary && !n.IfNotExists {
			p.plan.DDL.Undo = "DROP INDEX " + quoteIdent(n.IndexName) + " ON " + quoteIdent(n.Table.Name.O)
		}
		return p, err
	case *ast.DropIndexStmt:
		return a.schemaChange(f, "DROP INDEX", []*ast.TableName{n.Table}, false)
	case *ast.CreateViewStmt:
		return a.createView(f, n)
	case *ast.OptimizeTableStmt:
		return a.maintenance(f, "OPTIMIZE", n.Tables)
	case *ast.RepairTableStmt:
		return a.maintenance(f, "REPAIR", []*ast.TableName{n.Table})
	case *ast.CreateDatabaseStmt:
		return a.databaseDDL("CREATE", n.Name.O, true, n.IfNotExists)
	case *ast.DropDatabaseStmt:
		return a.databaseDDL("DROP", n.Name.O, false, n.IfExists)
	case *ast.AlterDatabaseStmt:
		return a.alterDatabase(f, n)
	}
	return planned{}, refuse(strings.ToUpper(ast.GetStmtLabel(stmt)))
}

// committing makes the error of a schema change a plan: MySQL commits the open
// transaction before it finds out. What is not supported commits nothing.
func committing(stmt ast.DDLNode, p planned, err error) (planned, error) {
	e, ok := err.(*mysql.Error)
	if !ok || e.Code == 1235 {
		return p, err
	}
	switch n := stmt.(type) {
	case *ast.CreateTableStmt:
		if n.TemporaryKeyword != ast.TemporaryNone {
			return p, err
		}
	case *ast.DropTableStmt:
		if n.TemporaryKeyword != ast.TemporaryNone {
			return p, err
		}
	}
	label, verb := strings.ToUpper(ast.GetStmtLabel(stmt)), ""
	for _, w := range []string{"CREATE", "DROP", "ALTER", "TRUNCATE", "RENAME"} {
		if strings.HasPrefix(label, w) {
			verb = w
		}
	}
	return planned{plan: &Plan{Kind: KindRefuse, Err: e, Verb: verb, ImplicitCommit: true}, uncached: true}, nil
}

// schemaChange plans a change of tables that exist: on all shards that have them.
func (a *analysis) schemaChange(f *found, verb string, tables []*ast.TableName, missingOK bool) (planned, error) {
	d := &DDL{Verb: verb}
	if own, err := f.temporaries(verb, tables); own || err != nil {
		for _, t := range tables {
			if err == nil {
				_, err = f.find(t)
			}
			d.Tables = append(d.Tables, t.Name.O)
		}
		if err != nil {
			return planned{}, err
		}
		return a.temporaryPlan(f, d, []source{{name: d.Tables[0], shard: TemporaryShard}}, true)
	}
	shard, everywhere := -1, false
	for _, t := range tables {
		table, err := f.find(t)
		if err != nil {
			var unknown *mysql.Error
			if e, ok := err.(*mysql.Error); ok {
				unknown = e
			}
			if missingOK && unknown != nil && unknown.Code == 1146 {
				d.Tables = append(d.Tables, t.Name.O)
				continue
			}
			return planned{}, err
		}
		if table == nil {
			return planned{}, refuse(verb + " of a table of " + f.system)
		}
		d.Tables = append(d.Tables, table.Name)
		if table.Kind != Single {
			everywhere = true
		} else if shard >= 0 && shard != table.Shard {
			return planned{}, refuse(verb + " of tables of several shards in one statement")
		} else {
			shard = table.Shard
		}
	}
	if everywhere && shard >= 0 && len(f.db.Shards) > 1 {
		return planned{}, refuse(verb + " of tables of several kinds in one statement")
	}
	return a.ddlPlan(f, d, shard)
}

// ddlPlan is the plan of a schema change on one shard, or on all when shard is -1.
func (a *analysis) ddlPlan(f *found, d *DDL, shard int) (planned, error) {
	verb, _, _ := strings.Cut(d.Verb, " ")
	d.Restarts = d.Restarts || d.Verb == "DROP TABLE" || verb == "TRUNCATE"
	d.Raises = d.Raises || d.Verb == "CREATE TABLE"
	p := &Plan{Kind: KindBroadcast, Verb: verb, Writer: true, ImplicitCommit: true, DDL: d, Database: f.db.Name}
	body := &readBody{db: f.db, write: true, all: true}
	if shard >= 0 {
		p.Kind, body.all = KindSingle, false
		body.sources = []source{{name: d.Tables[0], shard: shard}}
	}
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

// drop plans DROP TABLE and DROP VIEW.
func (a *analysis) drop(f *found, verb string, n *ast.DropTableStmt) (planned, error) {
	if n.TemporaryKeyword != ast.TemporaryNone {
		return a.dropTemporary(f, n)
	}
	p, err := a.schemaChange(f, verb, n.Tables, n.IfExists)
	if e, ok := err.(*mysql.Error); ok && e.Code == 1146 {
		var unknown []string
		for _, t := range n.Tables {
			name := t.Schema.O
			if name == "" {
				name = f.q.Database
			}
			if db := a.r.topology.Databases[name]; db != nil && db.Table(t.Name.O) == nil {
				unknown = append(unknown, name+"."+t.Name.O)
			}
		}
		if len(unknown) < len(n.Tables) && a.flavour == MariaDB {
			return p, refuse(verb + " of several, one of which does not exist") // MariaDB drops the others
		}
		if n.IsView && a.flavour == MariaDB {
			return p, &mysql.Error{Code: 4092, State: "42S02", Message: "Unknown VIEW: '" + strings.Join(unknown, ",") + "'"}
		}
		return p, mysql.Errorf(1051, "Unknown table '%s'", strings.Join(unknown, ","))
	}
	if err == nil && !p.plan.Temporary {
		for _, t := range n.Tables {
			if x := f.db.Table(t.Name.O); x != nil {
				f.db.dropped(p.plan.DDL, x)
			}
		}
		if err := f.db.followers(p.plan.DDL); err != nil {
			return planned{}, err
		}
	}
	return p, err
}

// dropped notes in c that a table is no more.
func (d *Database) dropped(c *DDL, t *Table) {
	p, listed := d.Placements[d.fold(t.Name)]
	if len(d.Shards) < 2 || !p.Remembered && t.Rule == nil {
		return
	}
	place := TablePlace{Rule: d.Rules[d.fold(t.Name)], Configured: listed && !p.Remembered}
	if place.Rule.Name = t.Name; t.Rule != nil {
		place.Keys = t.Rule.Keys
		if !listed {
			place.Rule.Kind, place.Rule.Key = "sharded", names(t.Rule.Columns)
		}
	}
	c.Dropped = append(c.Dropped, place)
}

// followers looks at what is co-located with the tables that c drops: views have
// no place any more, and tables would lose the rule of their rows.
func (d *Database) followers(c *DDL) *mysql.Error {
	gone := func(name string) bool {
		return slices.ContainsFunc(c.Tables, func(t string) bool { return d.fold(t) == d.fold(name) })
	}
	for i := range d.Remembered {
		r := &d.Remembered[i]
		t := d.Table(r.Name)
		if r.Colocated == "" || t == nil || !gone(r.Colocated) || gone(r.Name) {
			continue
		}
		if !t.View {
			return refuse("DROP TABLE of " + r.Colocated + " while " + r.Name + " is co-located with it")
		}
		d.dropped(c, t)
	}
	return nil
}

// database finds the database that a new table or view is made in.
func (a *analysis) database(f *found, t *ast.TableName) (*Database, *mysql.Error) {
	name := t.Schema.O
	if name == "" {
		name = f.q.Database
	}
	if name == "" {
		return nil, mysql.Errorf(1046, "No database selected")
	}
	db := a.r.topology.Databases[name]
	if db == nil {
		if SystemSchema(name) {
			return nil, refuse("creating a table in " + name)
		}
		return nil, mysql.Errorf(1049, "Unknown database '%s'", name)
	}
	return db, nil
}

// createTable plans CREATE TABLE. A table that the configuration does not name
// goes where the database's default puts it.
func (a *analysis) createTable(f *found, n *ast.CreateTableStmt) (planned, error) {
	db, err := a.database(f, n.Table)
	if err != nil {
		return planned{}, err
	}
	f.db = db
	if n.TemporaryKeyword != ast.TemporaryNone {
		return a.createTemporary(f, n)
	}
	if t := db.Table(n.Table.Name.O); t != nil && t.Temporary {
		return planned{}, refuse("CREATE TABLE under a temporary table's name")
	}
	if n.Select != nil {
		return a.createFilled(f, n)
	}
	d := &DDL{Verb: "CREATE TABLE", NewTable: n.Table.Name.O, Tables: []string{n.Table.Name.O}}
	if t := db.Table(n.Table.Name.O); t != nil {
		if where, known := db.site(t.Name); known && n.ReferTable == nil {
			if err := enforceable(db, where, db.Placements[db.fold(t.Name)].UniqueCheck, n.Cols, n.Constraints); err != nil {
				return planned{}, err
			}
		}
		return a.createOn(f, d, t.Kind, t.Shard)
	}
	rule, remember, failed := a.newPlace(f, db, n)
	if failed != nil {
		return planned{}, failed
	}
	place, unfit := db.placement(&rule)
	if unfit != nil {
		return planned{}, mysql.Errorf(1105, "%v", unfit)
	}
	var keys []int
	if n.ReferTable != nil {
		t, err := f.lookup(n.ReferTable)
		if err == nil && t != nil {
			keys, err = likeable(t, place)
		}
		if err != nil {
			return planned{}, err
		}
	} else {
		var err *mysql.Error
		if keys, err = a.keyed(n, place.Key); err != nil {
			return planned{}, err
		}
		if err := enforceable(db, placementSite(rule.Name, place), place.UniqueCheck, n.Cols, n.Constraints); err != nil {
			return planned{}, err
		}
	}
	if len(db.Shards) > 1 && (remember || place.Kind == Sharded) {
		d.New = &TablePlace{Rule: rule, Keys: keys, Configured: !remember}
	}
	d.Undo = "DROP TABLE " + quoteIdent(rule.Name)
	return a.createOn(f, d, place.Kind, place.Shard)
}

// likeable refuses a table LIKE t that cannot be where it is to be; otherwise it
// gives the positions of its sharding key.
func likeable(t *Table, place Placement) (keys []int, err error) {
	switch {
	case t.Temporary:
		return nil, refuse("CREATE TABLE ... LIKE a temporary table")
	case t.Kind == Single && (place.Kind != Single || place.Shard != t.Shard):
		return nil, refuse("CREATE TABLE ... LIKE a table that is on another shard")
	case place.Kind != Sharded:
		return nil, nil
	}
	for _, k := range place.Key {
		c := t.column(strings.ToLower(k))
		if c < 0 {
			return nil, mysql.Errorf(1072, "Key column '%s' doesn't exist in table", k)
		}
		if !t.allHold(c) && place.UniqueCheck == "" {
			return nil, refuse("CREATE TABLE ... LIKE " + t.Name + ", which has a unique key without the sharding key " + k)
		}
		keys = append(keys, c)
	}
	return keys, nil
}

// createOn plans a CREATE of a table of a kind.
func (a *analysis) createOn(f *found, d *DDL, kind TableKind, shard int) (planned, error) {
	if kind != Single {
		shard = -1
	}
	return a.ddlPlan(f, d, shard)
}

// keyed are the positions of a new table's sharding key, which it must have.
func (a *analysis) keyed(n *ast.CreateTableStmt, key []string) (at []int, err *mysql.Error) {
	for _, k := range key {
		i := slices.IndexFunc(n.Cols, func(c *ast.ColumnDef) bool { return strings.EqualFold(c.Name.Name.O, k) })
		if i < 0 {
			return nil, mysql.Errorf(1072, "Key column '%s' doesn't exist in table", k)
		}
		at = append(at, i)
	}
	return at, nil
}

// createKey is the column a new table would be sharded by: the first of its
// primary key, else of its first unique key; empty when it has none.
func createKey(n *ast.CreateTableStmt) string {
	for _, c := range n.Cols {
		for _, o := range c.Options {
			if o.Tp == ast.ColumnOptionPrimaryKey {
				return c.Name.Name.O
			}
		}
	}
	for _, want := range [][]ast.ConstraintType{{ast.ConstraintPrimaryKey}, {ast.ConstraintUniq, ast.ConstraintUniqKey, ast.ConstraintUniqIndex}} {
		for _, c := range n.Constraints {
			for _, tp := range want {
				if c.Tp == tp && len(c.Keys) > 0 && c.Keys[0].Column != nil {
					return c.Keys[0].Column.Name.O
				}
			}
		}
	}
	for _, c := range n.Cols {
		for _, o := range c.Options {
			if o.Tp == ast.ColumnOptionUniqKey {
				return c.Name.Name.O
			}
		}
	}
	return ""
}

// rename plans RENAME TABLE of tables that no configuration names: they keep
// their places under any name.
func (a *analysis) rename(f *found, n *ast.RenameTableStmt) (planned, error) {
	d := &DDL{Verb: "RENAME TABLE", Raises: true, Restarts: true}
	shard := -1
	var back []string
	named := map[string]*Table{} // by the names that the statement has given so far
	for i, x := range n.TableToTables {
		t := named[x.OldTable.Name.O]
		if t == nil || x.OldTable.Schema.O != "" {
			var err error
			if t, err = f.lookup(x.OldTable); err != nil {
				return planned{}, err
			}
		}
		if t == nil || f.db == nil {
			return planned{}, refuse("RENAME TABLE of a table of " + f.system)
		}
		if err := f.db.renames(d, t, x.OldTable.Name.O, x.NewTable); err != nil {
			return planned{}, err
		}
		named[x.NewTable.Name.O] = t
		one := t.Shard
		if t.Kind != Single {
			one = -1
		}
		if i > 0 && one != shard {
			return planned{}, refuse("RENAME TABLE of tables of several shards in one statement")
		}
		shard = one
		d.Tables = append(d.Tables, x.OldTable.Name.O, x.NewTable.Name.O)
		back = append([]string{quoteIdent(x.NewTable.Name.O) + " TO " + quoteIdent(x.OldTable.Name.O)}, back...)
	}
	d.Undo = "RENAME TABLE " + strings.Join(back, ", ")
	return a.ddlPlan(f, d, shard)
}

// renames notes in d that a table gets a new name, and refuses it where the
// name says where its rows are.
func (d *Database) renames(c *DDL, t *Table, from string, to *ast.TableName) *mysql.Error {
	if new := d.Table(to.Name.O); t.Temporary || new != nil && new.Temporary {
		return refuse(c.Verb + " of temporary tables")
	}
	if s := to.Schema.O; s != "" && s != d.Name {
		return refuse(c.Verb + " to another database")
	}
	for _, name := range []string{t.Name, to.Name.O} {
		if p, listed := d.Placements[d.fold(name)]; listed && !p.Remembered && len(d.Shards) > 1 {
			return refuse(c.Verb + " of " + name + ": the configuration names it")
		}
	}
	for i := range d.Remembered {
		if c := d.Remembered[i].Colocated; c != "" && d.fold(c) == d.fold(t.Name) {
			return refuse("another name for " + t.Name + ": " + d.Remembered[i].Name + " is co-located with it")
		}
	}
	if d.Placements[d.fold(t.Name)].Remembered {
		c.Renames = append(c.Renames, from, to.Name.O)
	}
	return nil
}

// maintenance plans ANALYZE, OPTIMIZE, CHECK, REPAIR of tables of one shard.
func (a *analysis) maintenance(f *found, verb string, tables []*ast.TableName) (planned, error) {
	p, err := a.schemaChange(f, verb+" TABLE", tables, false)
	if err != nil {
		return p, err
	}
	p.plan.Rows, p.plan.DDL, p.plan.Maintenance = true, nil, true
	return p, nil
}
