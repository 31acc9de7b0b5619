package router

import (
	"slices"
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"

	"braid/internal/mysql"
)

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
	if t.movesKey(n.Specs) {
		return refuse("ALTER TABLE that moves the sharding key of " + t.Name + " to another place among as many columns: values without column names would be taken for others meanwhile")
	}
	for _, s := range n.Specs {
		switch s.Tp {
		case ast.AlterTableRenameTable:
			if t.Temporary || f.temporary {
				return refuse("ALTER TABLE ... RENAME of temporary tables")
			}
		case ast.AlterTableDropColumn, ast.AlterTableChangeColumn, ast.AlterTableModifyColumn, ast.AlterTableRenameColumn:
			name := s.OldColumnName
			if name == nil && len(s.NewColumns) > 0 {
				name = s.NewColumns[0].Name
			}
			if name != nil && s.Tp != ast.AlterTableDropColumn && slices.Contains(t.lockedColumns(), t.column(name.Name.L)) {
				return refuse("ALTER TABLE of the column " + t.Name + "." + name.Name.O + " of a unique key that is locked" + lockedKeys)
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

// movesKey tells whether after an ALTER TABLE the sharding key is elsewhere among
// as many columns. Only then may an INSERT without column names, planned before
// it, run behind it.
func (t *Table) movesKey(specs []*ast.AlterTableSpec) bool {
	if t.Rule == nil {
		return false
	}
	order := make([]string, len(t.Columns))
	for i := range t.Columns {
		order[i] = strings.ToLower(t.Columns[i].Name)
	}
	take := func(name string) {
		if i := slices.Index(order, name); i >= 0 {
			order = slices.Delete(order, i, i+1)
		}
	}
	for _, s := range specs {
		switch s.Tp {
		case ast.AlterTableDropColumn:
			take(s.OldColumnName.Name.L)
		case ast.AlterTableAddColumns, ast.AlterTableModifyColumn, ast.AlterTableChangeColumn:
			for i, c := range s.NewColumns {
				old := len(order)
				if s.OldColumnName != nil {
					old = slices.Index(order, s.OldColumnName.Name.L)
					take(s.OldColumnName.Name.L)
				} else if s.Tp == ast.AlterTableModifyColumn {
					old = slices.Index(order, c.Name.Name.L)
					take(c.Name.Name.L)
				}
				if s.Position != nil && s.Position.Tp == ast.ColumnPositionFirst {
					old = i
				} else if s.Position != nil && s.Position.Tp == ast.ColumnPositionAfter {
					old = slices.Index(order, s.Position.RelativeColumn.Name.L) + 1
				}
				order = slices.Insert(order, max(0, min(old, len(order))), c.Name.Name.L)
			}
		}
	}
	if len(order) != len(t.Columns) {
		return false
	}
	for _, k := range t.Rule.Keys {
		if order[k] != strings.ToLower(t.Columns[k].Name) {
			return true
		}
	}
	return false
}

// alterRenames notes the new name that an ALTER TABLE gives.
func (a *analysis) alterRenames(f *found, d *DDL, n *ast.AlterTableStmt) error {
	for _, s := range n.Specs {
		if s.Tp != ast.AlterTableRenameTable {
			continue
		}
		t, err := f.lookup(n.Table)
		if err != nil {
			return err
		}
		if err := f.db.renames(d, t, t.Name, s.NewTable); err != nil {
			return err
		}
		d.Tables = append(d.Tables, s.NewTable.Name.O)
		d.Restarts, d.Raises = true, true
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
	check := f.db.Placements[f.db.fold(t.Name)].UniqueCheck
	if check == "lock" && t.Kind == Sharded && len(f.db.Shards) > 1 {
		keyNames, columns := uniqueKeys(cols, constraints)
		for i := range columns {
			if uniqueProblem(keyNames[i], columns[i], names(t.Rule.Columns)) != "" {
				return refuse("unique key " + keyNames[i] + " without the sharding key for the table " + t.Name + " that exists: the rows of its shards are not compared; give the key in CREATE TABLE" + lockedKeys)
			}
		}
	}
	return enforceable(f.db, tableSite(t), check, cols, constraints)
}

// undoAlter is the statement that takes an ALTER TABLE back, "" where it does more
// than to add columns and named keys.
func undoAlter(n *ast.AlterTableStmt) string {
	var back []string
	for _, s := range n.Specs {
		switch {
		case s.IfNotExists:
			return ""
		case s.Tp == ast.AlterTableAddColumns:
			for _, c := range s.NewColumns {
				back = append([]string{"DROP COLUMN " + quoteIdent(c.Name.Name.O)}, back...)
			}
			if len(s.NewConstraints) > 0 {
				return ""
			}
		case s.Tp == ast.AlterTableAddConstraint && s.Constraint.Name != "" && !s.Constraint.IfNotExists:
			kind := "INDEX "
			switch s.Constraint.Tp {
			case ast.ConstraintKey, ast.ConstraintIndex, ast.ConstraintUniq, ast.ConstraintUniqKey, ast.ConstraintUniqIndex, ast.ConstraintFulltext:
			case ast.ConstraintForeignKey:
				kind = "FOREIGN KEY "
			default:
				return ""
			}
			back = append([]string{"DROP " + kind + quoteIdent(s.Constraint.Name)}, back...)
		default:
			return ""
		}
	}
	if len(back) == 0 {
		return ""
	}
	return "ALTER TABLE " + quoteIdent(n.Table.Name.O) + " " + strings.Join(back, ", ")
}
