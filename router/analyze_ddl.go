package router

import (
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
		if err == nil {
			p.plan.DDL.Raises = setsAutoIncrement(n)
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
		return a.schemaChange(f, "CREATE INDEX", []*ast.TableName{n.Table}, false)
	case *ast.DropIndexStmt:
		return a.schemaChange(f, "DROP INDEX", []*ast.TableName{n.Table}, false)
	case *ast.CreateViewStmt:
		return a.createView(f, n)
	case *ast.OptimizeTableStmt:
		return a.maintenance(f, "OPTIMIZE", n.Tables)
	case *ast.RepairTableStmt:
		return a.maintenance(f, "REPAIR", []*ast.TableName{n.Table})
	case *ast.CreateDatabaseStmt:
		return planned{}, refuse("CREATE DATABASE: databases are made by the configuration")
	case *ast.DropDatabaseStmt:
		return planned{}, refuse("DROP DATABASE: databases are made by the configuration")
	case *ast.AlterDatabaseStmt:
		return planned{}, refuse("ALTER DATABASE")
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
	shard, everywhere, any := -1, false, false
	for _, t := range tables {
		table, err := f.find(t)
		if err != nil {
			var unknown *mysql.Error
			if e, ok := err.(*mysql.Error); ok {
				unknown = e
			}
			if missingOK && unknown != nil && unknown.Code == 1146 {
				d.Tables = append(d.Tables, t.Name.O)
				everywhere = true
				continue
			}
			return planned{}, err
		}
		if table == nil {
			return planned{}, refuse(verb + " of a table of " + f.system)
		}
		d.Tables = append(d.Tables, table.Name)
		any = true
		if table.Kind != Single {
			everywhere = true
		} else if shard >= 0 && shard != table.Shard {
			return planned{}, refuse(verb + " of tables of several shards in one statement")
		} else {
			shard = table.Shard
		}
	}
	if everywhere && shard >= 0 && any {
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
		return p, mysql.Errorf(1051, "Unknown table '%s'", strings.Join(unknown, ","))
	}
	return p, err
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
		if systemSchema(name) {
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
		return planned{}, refuse("CREATE TABLE ... SELECT")
	}
	d := &DDL{Verb: "CREATE TABLE", NewTable: n.Table.Name.O, Tables: []string{n.Table.Name.O}}
	kind, shard := Single, 0
	where, known := db.site(n.Table.Name.O)
	if t := db.Table(n.Table.Name.O); t != nil {
		kind, shard = t.Kind, t.Shard
		if t.Broken != "" {
			known = false
		}
	} else if place, ok := db.Placements[db.fold(n.Table.Name.O)]; ok {
		kind, shard = place.Kind, place.Shard
		if kind == Sharded && n.ReferTable == nil {
			if err := a.keyed(n, place.Key); err != nil {
				return planned{}, err
			}
		}
	} else if n.ReferTable != nil {
		t, err := f.lookup(n.ReferTable)
		if err != nil {
			return planned{}, err
		}
		if t != nil {
			if t.Temporary {
				return planned{}, refuse("CREATE TABLE ... LIKE a temporary table")
			}
			kind, shard = t.Kind, t.Shard
			if t.Kind == Sharded && db.Default != "hash" || t.Kind == Global {
				return planned{}, refuse("CREATE TABLE ... LIKE: the new table is not in the configuration")
			}
		}
	} else {
		where, known = defaultSite(db, n), true
		kind = where.kind
	}
	if known && n.ReferTable == nil {
		if err := enforceable(db, where, db.Placements[db.fold(n.Table.Name.O)].UniqueCheck, n.Cols, n.Constraints); err != nil {
			return planned{}, err
		}
	}
	if kind != Single {
		shard = -1
	}
	return a.ddlPlan(f, d, shard)
}

// keyed checks that a new table has its sharding key's columns.
func (a *analysis) keyed(n *ast.CreateTableStmt, key []string) *mysql.Error {
	for _, k := range key {
		found := false
		for _, c := range n.Cols {
			found = found || strings.EqualFold(c.Name.Name.O, k)
		}
		if !found {
			return mysql.Errorf(1072, "Key column '%s' doesn't exist in table", k)
		}
	}
	return nil
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
	shard, all := -1, false
	for i, x := range n.TableToTables {
		t, err := f.lookup(x.OldTable)
		if err != nil {
			return planned{}, err
		}
		if t == nil || f.db == nil {
			return planned{}, refuse("RENAME TABLE of a table of " + f.system)
		}
		db := f.db
		if new := db.Table(x.NewTable.Name.O); t.Temporary || new != nil && new.Temporary {
			return planned{}, refuse("RENAME TABLE of temporary tables")
		}
		if s := x.NewTable.Schema.O; s != "" && s != db.Name {
			return planned{}, refuse("RENAME TABLE to another database")
		}
		for _, name := range []string{t.Name, x.NewTable.Name.O} {
			if _, listed := db.Placements[db.fold(name)]; listed && len(db.Shards) > 1 {
				return planned{}, refuse("RENAME TABLE of " + name + ": the configuration names it")
			}
		}
		one := t.Shard
		if t.Kind != Single {
			one, all = -1, true
		}
		if i > 0 && one != shard {
			return planned{}, refuse("RENAME TABLE of tables of several shards in one statement")
		}
		shard = one
		d.Tables = append(d.Tables, t.Name, x.NewTable.Name.O)
	}
	if all {
		shard = -1
	}
	return a.ddlPlan(f, d, shard)
}

// alterable refuses changes of what routing stands on (rule K2).
func (a *analysis) alterable(f *found, n *ast.AlterTableStmt) *mysql.Error {
	t, err := f.find(n.Table)
	if err != nil || t == nil {
		return nil // reported by the caller
	}
	var cols []*ast.ColumnDef
	var constraints []*ast.Constraint
	for _, s := range n.Specs {
		for _, c := range s.NewColumns {
			for _, o := range c.Options {
				counts := t.AutoIncrement >= 0 && t.AutoIncrement == t.column(c.Name.Name.L)
				if o.Tp == ast.ColumnOptionAutoIncrement && t.Kind != Single && len(f.db.Shards) > 1 && !counts {
					return refuse("ALTER TABLE that makes " + t.Name + "." + c.Name.Name.O + " AUTO_INCREMENT: each shard would count for itself")
				}
			}
		}
		cols = append(cols, s.NewColumns...)
		constraints = append(constraints, s.NewConstraints...)
		if s.Constraint != nil {
			constraints = append(constraints, s.Constraint)
		}
	}
	if err := a.constrains(f, n.Table, cols, constraints); err != nil {
		return err
	}
	for _, s := range n.Specs {
		switch s.Tp {
		case ast.AlterTableRenameTable:
			return refuse("ALTER TABLE ... RENAME: the configuration names tables")
		case ast.AlterTableDropColumn, ast.AlterTableChangeColumn, ast.AlterTableModifyColumn, ast.AlterTableRenameColumn:
			name := s.OldColumnName
			if name == nil && len(s.NewColumns) > 0 {
				name = s.NewColumns[0].Name
			}
			if t.Rule != nil && name != nil {
				for _, k := range t.Rule.Keys {
					if t.column(name.Name.L) == k {
						return refuse("ALTER TABLE of the sharding key " + t.Name + "." + t.Columns[k].Name)
					}
				}
			}
		case ast.AlterTableOption:
			for _, o := range s.Options {
				if t.Kind == Sharded && (o.Tp == ast.TableOptionCharset && o.UintValue == ast.TableOptionCharsetWithConvertTo) {
					return refuse("CONVERT TO CHARACTER SET of a sharded table")
				}
			}
		}
	}
	return nil
}

// setsAutoIncrement tells whether an ALTER TABLE says where ids go on.
func setsAutoIncrement(n *ast.AlterTableStmt) bool {
	for _, s := range n.Specs {
		for _, o := range s.Options {
			if o.Tp == ast.TableOptionAutoIncrement {
				return true
			}
		}
	}
	return false
}

// constrains refuses new constraints of a table that exists which its shards
// cannot enforce together.
func (a *analysis) constrains(f *found, name *ast.TableName, cols []*ast.ColumnDef, constraints []*ast.Constraint) *mysql.Error {
	t, err := f.find(name)
	if err != nil || t == nil || t.Broken != "" {
		return nil // reported by the caller, or there to be repaired
	}
	return enforceable(f.db, tableSite(t), f.db.Placements[f.db.fold(t.Name)].UniqueCheck, cols, constraints)
}

// createView plans CREATE VIEW: on every shard when all its tables are global,
// on one when they are single.
func (a *analysis) createView(f *found, n *ast.CreateViewStmt) (planned, error) {
	db, err := a.database(f, n.ViewName)
	if err != nil {
		return planned{}, err
	}
	n.Select.Accept(f)
	if f.err != nil {
		return planned{}, f.err
	}
	if f.db != nil && f.db != db {
		return planned{}, refuse("tables of two databases in one statement")
	}
	f.db = db
	d := &DDL{Verb: "CREATE VIEW", NewTable: n.ViewName.Name.O, Tables: []string{n.ViewName.Name.O}}
	if t := db.Table(n.ViewName.Name.O); t != nil && t.Temporary || f.temporary {
		return planned{}, refuse("views and temporary tables in one statement")
	}
	shard := -1
	for i, r := range f.refs {
		switch {
		case r.table.Kind == Sharded && len(db.Shards) > 1:
			return planned{}, refuse("views over sharded tables")
		case r.table.Kind == Single && (i == 0 || shard == r.table.Shard):
			shard = r.table.Shard
		case r.table.Kind == Single || shard >= 0:
			return planned{}, refuse("views over tables of several shards")
		}
	}
	return a.ddlPlan(f, d, shard)
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
