package router

import (
	"github.com/pingcap/tidb/pkg/parser/ast"

	"braid/internal/mysql"
)

// uniqueKeys are the unique keys that column definitions and constraints of a
// CREATE or ALTER TABLE make: the columns that are in them whole, by name.
func uniqueKeys(cols []*ast.ColumnDef, constraints []*ast.Constraint) (keyNames []string, columns [][]string) {
	add := func(name string, cols ...string) {
		keyNames, columns = append(keyNames, name), append(columns, cols)
	}
	for _, c := range cols {
		for _, o := range c.Options {
			switch o.Tp {
			case ast.ColumnOptionPrimaryKey:
				add("PRIMARY", c.Name.Name.O)
			case ast.ColumnOptionUniqKey:
				add(c.Name.Name.O, c.Name.Name.O)
			}
		}
	}
	for _, c := range constraints {
		name := c.Name
		switch c.Tp {
		case ast.ConstraintPrimaryKey:
			name = "PRIMARY"
		case ast.ConstraintUniq, ast.ConstraintUniqKey, ast.ConstraintUniqIndex:
		default:
			continue
		}
		whole := wholeParts(c.Keys)
		if name == "" && len(whole) > 0 {
			name = whole[0]
		}
		add(name, whole...)
	}
	return keyNames, columns
}

// wholeParts are the columns that a key holds whole: no expressions, no beginnings.
func wholeParts(parts []*ast.IndexPartSpecification) []string {
	var out []string
	for _, p := range parts {
		if p.Column != nil && p.Length <= 0 {
			out = append(out, p.Column.Name.O)
		}
	}
	return out
}

// foreignKeys are the foreign keys that definitions make, as statements of the
// database db name tables.
func foreignKeys(db *Database, constraints []*ast.Constraint) []foreignKey {
	var out []foreignKey
	for _, c := range constraints {
		if c.Tp != ast.ConstraintForeignKey || c.Refer == nil || c.Refer.Table == nil {
			continue
		}
		k := foreignKey{name: c.Name, table: c.Refer.Table.Name.O}
		if s := c.Refer.Table.Schema.O; s != "" && s != db.Name {
			k.table = ""
		}
		for _, p := range c.Keys {
			if p.Column != nil {
				k.columns = append(k.columns, p.Column.Name.O)
			}
		}
		for _, p := range c.Refer.IndexPartSpecifications {
			if p.Column != nil {
				k.referred = append(k.referred, p.Column.Name.O)
			}
		}
		out = append(out, k)
	}
	return out
}

// enforceable refuses constraints that the shards of a table at s cannot
// enforce together.
func enforceable(db *Database, s site, check string, cols []*ast.ColumnDef, constraints []*ast.Constraint) *mysql.Error {
	if len(db.Shards) < 2 {
		return nil
	}
	if s.kind == Sharded && check == "lock" {
		if why := beginnings(constraints, s.key); why != "" {
			return refuse(why)
		}
	}
	if s.kind == Sharded && check == "" {
		keyNames, columns := uniqueKeys(cols, constraints)
		for i := range columns {
			if why := uniqueProblem(keyNames[i], columns[i], s.key); why != "" {
				return refuse(why)
			}
		}
	}
	for _, k := range foreignKeys(db, constraints) {
		if why := db.foreignProblem(s, k); why != "" {
			return refuse(why)
		}
	}
	return nil
}

// beginnings says which unique key without the sharding key has parts that are
// no whole columns, whose values are not locked.
func beginnings(constraints []*ast.Constraint, key []string) string {
	for _, c := range constraints {
		names, columns := uniqueKeys(nil, []*ast.Constraint{c})
		if len(names) > 0 && len(columns[0]) < len(c.Keys) && uniqueProblem(names[0], columns[0], key) != "" {
			return "unique key " + names[0] + " without the sharding key, of the beginning of a column or an expression" + lockedKeys
		}
	}
	return ""
}
