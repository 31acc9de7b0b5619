package router

import (
	"slices"
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"

	"braid/conf"
)

// createView plans CREATE VIEW: on every shard when all its tables are global,
// on one when they are single. A view of sharded tables is made on every shard,
// where it has that shard's part of the rows, and is sharded itself.
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
	shard, sharded := -1, false
	for i, r := range f.refs {
		switch {
		case r.table.Kind == Sharded && len(db.Shards) > 1:
			sharded = true
		case r.table.Kind == Single && (i == 0 || shard == r.table.Shard):
			shard = r.table.Shard
		case r.table.Kind == Single || shard >= 0:
			return planned{}, refuse("views over tables of several shards")
		}
	}
	if len(db.Shards) > 1 && len(f.factEdits()) > 0 {
		return planned{}, refuse("views of what the session itself knows, as DATABASE()")
	}
	if t := db.Table(d.NewTable); t != nil && t.View && n.OrReplace && t.Broken == "" && len(db.Shards) > 1 &&
		((t.Kind == Sharded) != sharded || (t.Kind == Single) != (shard >= 0) || shard >= 0 && t.Shard != shard) {
		return planned{}, refuse("CREATE OR REPLACE VIEW whose rows are elsewhere than those of the view before")
	}
	if sharded {
		rule, err := a.viewRule(db, n)
		if err != nil {
			return planned{}, err
		}
		_, listed := db.Placements[db.fold(rule.Name)]
		configured := listed && !db.Placements[db.fold(rule.Name)].Remembered
		if hint := a.q.Hints.Place; hint != nil && (hint.Kind != "sharded" || !slices.EqualFunc(hint.Key, rule.Key, strings.EqualFold)) {
			return planned{}, refuse("a hint that puts a view elsewhere than its tables are")
		}
		if !configured {
			d.New = &TablePlace{Rule: rule}
		}
		shard = -1
	} else if a.q.Hints.Place != nil {
		return planned{}, refuse("a hint that puts a view elsewhere than its tables are")
	}
	if !n.OrReplace {
		d.Undo = "DROP VIEW " + quoteIdent(d.NewTable)
	}
	return a.ddlPlan(f, d, shard)
}

// viewRule is the rule of a view of sharded tables: its rows are where those of
// one of its tables are, by the columns that show that table's sharding key. It
// is an error when the shards' parts together are not the view's rows.
func (a *analysis) viewRule(db *Database, n *ast.CreateViewStmt) (conf.Table, error) {
	rule := conf.Table{Name: n.ViewName.Name.O, Kind: "sharded"}
	q := &Query{Text: []byte(n.Select.Text()), Database: a.q.Database, Mode: a.q.Mode, Charset: a.q.Charset, Connection: a.q.Connection, Facts: a.q.Facts}
	if err := q.Scan(); err != nil {
		return rule, err
	}
	inner := &analysis{r: a.r, q: q, flavour: a.flavour}
	s := newShape(q, a.flavour, func(int) bool { return true })
	stmt, err := inner.parse(s)
	if err != nil {
		return rule, inner.syntaxError(err)
	}
	f := inner.newFound(s)
	p, err := inner.planAs(f, stmt)
	if err != nil {
		return rule, err
	}
	body, _ := p.plan.body.(*readBody)
	sel, _ := stmt.(*ast.SelectStmt)
	if body == nil || sel == nil || body.scatter == nil || body.several != nil || body.scatter.limit.set ||
		len(body.scatter.spec.Order)+len(body.scatter.spec.Group)+len(body.scatter.spec.Sort) > 0 || body.scatter.spec.Aggregate {
		return rule, refuse("views of sharded tables whose rows are not those of the shards one after the other")
	}
	t := f.viewKey(sel, n.Cols, &rule)
	if t == nil {
		return rule, refuse("views of sharded tables that do not show the sharding key")
	}
	rule.Colocated = t.Name
	return rule, nil
}

// viewKey finds a table of the SELECT whose sharding key is among the columns of
// the view, and enters the names that it has there; nil: there is none.
func (f *found) viewKey(sel *ast.SelectStmt, columns []ast.CIStr, rule *conf.Table) *Table {
	b := f.owner[sel]
	if b == nil || b.using > 0 {
		return nil
	}
	outer, left := joinKinds(sel)
	shown := map[place]string{}
	at := 0
	show := func(p place, name string) {
		if at < len(columns) {
			name = columns[at].O
		}
		if p.ref != nil && shown[p] == "" {
			shown[p] = name
		}
		at++
	}
	for _, field := range sel.Fields.Fields {
		switch e := field.Expr.(type) {
		case nil:
			if b.derived > 0 {
				return nil
			}
			for _, r := range b.refs {
				if w := field.WildCard.Table.O; w != "" && !strings.EqualFold(w, r.name) {
					continue
				}
				for i := range r.table.Columns {
					if !strings.Contains(strings.ToUpper(r.table.Columns[i].Extra), "INVISIBLE") {
						show(place{r, i}, r.table.Columns[i].Name)
					}
				}
			}
		case *ast.ColumnNameExpr:
			name := field.AsName.O
			if name == "" {
				name = e.Name.Name.O
			}
			show(f.resolve(b, e.Name), name)
		default:
			show(place{}, "")
		}
	}
	for i, r := range b.refs {
		if r.table.Rule == nil || outer && (i > 0 || !left) {
			continue
		}
		rule.Key = rule.Key[:0]
		for _, k := range r.table.Rule.Keys {
			if name := shown[place{r, k}]; name != "" {
				rule.Key = append(rule.Key, name)
			}
		}
		if len(rule.Key) == len(r.table.Rule.Keys) {
			return r.table
		}
	}
	return nil
}

// joinKinds tells whether a SELECT has outer joins, and whether they are all LEFT
// joins, so that the first table's rows are all there.
func joinKinds(sel *ast.SelectStmt) (outer, left bool) {
	left = true
	if sel.From == nil {
		return false, true
	}
	sel.From.Accept(walk(func(n ast.Node) bool {
		if j, ok := n.(*ast.Join); ok && j.Right != nil {
			outer = outer || j.Tp == ast.LeftJoin || j.Tp == ast.RightJoin
			left = left && j.Tp != ast.RightJoin
		}
		return true
	}))
	return outer, left
}
