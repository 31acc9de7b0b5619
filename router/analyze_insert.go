package router

import (
	"errors"
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"

	"braid/internal/mysql"
)

// insert plans an INSERT or REPLACE.
func (a *analysis) insert(f *found, stmt *ast.InsertStmt) (planned, error) {
	verb := "INSERT"
	if stmt.IsReplace {
		verb = "REPLACE"
	}
	name, ok := stmt.Table.TableRefs.Left.(*ast.TableSource)
	if !ok {
		return planned{}, refuse("this form of " + verb)
	}
	tn, ok := name.Source.(*ast.TableName)
	if !ok {
		return planned{}, refuse("this form of " + verb)
	}
	table, err := f.lookup(tn)
	if err != nil {
		return planned{}, err
	}
	if table == nil {
		return planned{}, refuse("writing to " + f.system)
	}
	target := &ref{table: table, name: tn.Name.O}
	stmt.Accept(f) // the table itself is not read: only what subqueries and a SELECT read counts
	if f.err != nil {
		return planned{}, f.err
	}
	if err := table.lockableInsert(f, stmt); err != nil {
		return planned{}, err
	}
	p := &Plan{Kind: KindWrite, Verb: verb, Writer: true, Database: f.db.Name}
	base, err2 := f.baseEdits()
	if err2 != nil {
		return planned{}, err2
	}
	var single template
	if len(base) > 0 {
		single = f.shape.whole(base)
	}
	if hasReturning(f.shape) {
		p.Rows = true
	}
	p.Clock = f.readsClock(table)
	p.Ignore, p.OnDuplicate = stmt.IgnoreErr, len(stmt.OnDuplicate) > 0
	if table.Sequence != "" {
		p.IDs = table
		p.AutoIncrement = f.functions["last_insert_id"]
	} else if table.AutoIncrement >= 0 {
		p.AutoIncrement = true
		pos, err := insertPosition(table, stmt, table.AutoIncrement)
		p.GeneratesID = err == nil && pos < 0
	}
	if p.Rows {
		// Behind rows there is no insert id: the node has to be asked.
		p.SetsID, p.GeneratesID = p.AutoIncrement, false
		if p.IDs != nil && (p.Ignore || p.OnDuplicate) {
			return planned{}, refuse("RETURNING of an INSERT that may keep the rows that are there, into a table whose ids Braid gives")
		}
	}
	switch table.Kind {
	case Single:
		sources := append(f.sources(), source{name: table.Name, shard: table.Shard, refs: []*ref{target}})
		body := &readBody{db: f.db, write: true, single: single, sources: sources,
			several: refuse(verb + " ... SELECT from other shards")}
		if stmt.Select != nil {
			body.steps = a.insertFrom(f, stmt, table)
		}
		p.body = body
		if oneShard(sources) {
			p.Kind = KindSingle
		}
		return planned{plan: p}, nil
	case Global:
		made, err := a.copiedValues(f, stmt, table)
		if stmt.Select == nil && err == nil {
			unstable := f.unstable
			f.unstable = "" // the values that it gives are made
			err = a.broadcastable(f, f.sources(), true)
			f.unstable = unstable
		} else if err == nil {
			err = a.broadcastable(f, f.sources(), false)
		}
		several := len(f.db.Shards) > 1
		switch {
		case several && stmt.Select != nil && (err != nil || made):
			if steps := a.insertFrom(f, stmt, table); steps != nil {
				p.Kind, p.body = KindWrite, &readBody{db: f.db, write: true, single: single, steps: steps, moves: true}
				return planned{plan: p}, nil
			}
			if err == nil {
				err = refuse("this form of " + verb + " ... SELECT into a global table")
			}
			return planned{}, err
		case several && err != nil:
			return planned{}, err
		case stmt.Select == nil && (table.Sequence != "" || several && made):
			body := &insertBody{db: f.db, table: table, single: single, copies: true, ignore: stmt.IgnoreErr}
			if err := a.insertRows(f, stmt, body, base); err != nil {
				return planned{}, err
			}
			p.Kind, p.body = KindBroadcast, body
			return planned{plan: p}, nil
		}
		p.Kind, p.body = KindBroadcast, &readBody{db: f.db, write: true, single: single, all: true}
		return planned{plan: p}, nil
	}
	if len(f.db.Shards) == 1 {
		if stmt.Select == nil {
			p.Kind, p.body = KindSingle, &readBody{db: f.db, write: true, single: single, sources: []source{{name: table.Name, refs: []*ref{target}}}}
			return planned{plan: p}, nil
		}
	}
	if stmt.Select != nil && len(table.Locked) > 0 {
		steps := a.insertFrom(f, stmt, table)
		if steps == nil {
			return planned{}, refuse("this form of INSERT ... SELECT into " + table.Name + lockedKeys)
		}
		p.Kind, p.body = KindWrite, &readBody{db: f.db, write: true, single: single, steps: steps, moves: true}
		return planned{plan: p}, nil
	}
	if stmt.Select != nil {
		made, err := a.insertSelect(f, p, stmt, target, single)
		if refusal := (*mysql.Error)(nil); err != nil && (!errors.As(err, &refusal) || refusal.Code != 1235) {
			return made, err
		}
		steps := a.insertFrom(f, stmt, table)
		switch body, _ := p.body.(*readBody); {
		case steps == nil:
			return made, err
		case err == nil && body != nil:
			body.steps = steps
		default:
			p.Kind, p.body = KindWrite, &readBody{db: f.db, write: true, single: single, steps: steps, moves: true}
		}
		return planned{plan: p}, nil
	}
	if len(f.refs) > 0 {
		for _, r := range f.refs {
			if r.table.Kind != Global {
				return planned{}, refuse(verb + " with subqueries over tables that are not global")
			}
		}
	}
	body := &insertBody{db: f.db, table: table, single: single, ignore: stmt.IgnoreErr}
	if err := a.insertRows(f, stmt, body, base); err != nil {
		return planned{}, err
	}
	p.body = body
	if len(table.Locked) > 0 {
		p.unique = &uniqueWrite{db: f.db, table: table, insert: body}
	}
	return planned{plan: p}, nil
}

func hasReturning(s *shape) bool {
	for _, t := range s.toks {
		if t.depth == 0 && t.word(s.text) == "RETURNING" {
			return true
		}
	}
	return false
}

// insertPosition finds where a column's value stands in the rows: -1 when the
// statement does not give it.
func insertPosition(table *Table, stmt *ast.InsertStmt, col int) (int, *mysql.Error) {
	if len(stmt.Columns) == 0 {
		pos := 0
		for i := range table.Columns {
			if hasWord(strings.ToUpper(table.Columns[i].Extra), "INVISIBLE") {
				if i == col {
					return -1, nil
				}
				continue
			}
			if i == col {
				if len(stmt.Lists) > 0 && len(stmt.Lists[0]) == 0 {
					return -1, nil
				}
				return pos, nil
			}
			pos++
		}
		return -1, nil
	}
	at := -1
	for i, c := range stmt.Columns {
		if table.column(c.Name.L) == col {
			if at >= 0 {
				return -1, mysql.Errorf(1110, "Column '%s' specified twice", c.Name.O)
			}
			at = i
		}
	}
	return at, nil
}

// insertSelect plans INSERT ... SELECT: it runs where everything it reads and
// writes is on one shard, which is known only of single tables and of values
// that are the sharding key's.
func (a *analysis) insertSelect(f *found, p *Plan, stmt *ast.InsertStmt, target *ref, single template) (planned, error) {
	no := refuse(p.Verb + " ... SELECT into a sharded table")
	sel, ok := stmt.Select.(*ast.SelectStmt)
	if !ok || len(f.db.Shards) < 2 && len(f.db.Shards) > 0 {
		if len(f.db.Shards) == 1 {
			p.Kind, p.body = KindSingle, &readBody{db: f.db, write: true, single: single}
			return planned{plan: p}, nil
		}
		return planned{}, no
	}
	rule := target.table.Rule
	if err := assignsKey(target.table, stmt.OnDuplicate); err != nil {
		return planned{}, err
	}
	key := make([]operand, 0, len(rule.Keys))
	sources := f.sources()
	b := f.owner[sel]
	for i, k := range rule.Keys {
		pos, err := insertPosition(target.table, stmt, k)
		if err != nil {
			return planned{}, err
		}
		if pos < 0 || pos >= len(sel.Fields.Fields) {
			return planned{}, no
		}
		for j := 0; j <= pos; j++ {
			if sel.Fields.Fields[j].WildCard != nil {
				return planned{}, no
			}
		}
		e := sel.Fields.Fields[pos].Expr
		if o, ok := f.operand(e, false); ok && o.kind == operandHole {
			key = append(key, o)
			continue
		}
		// The key of the rows read: they are on the shard their conditions name.
		c := f.columnOf(b, e)
		if c.ref == nil || c.ref.table.Kind != Sharded || c.ref.table.Rule.Group != rule.Group || i >= len(c.ref.table.Rule.Keys) || c.ref.table.Rule.Keys[i] != c.col {
			return planned{}, no
		}
	}
	switch len(key) {
	case 0:
	case len(rule.Keys):
		sources = append(sources, source{name: target.table.Name, rule: rule, cond: &condAssign{rule: rule, key: key}, refs: []*ref{target}})
	default:
		return planned{}, no
	}
	if target.table.Sequence != "" {
		return planned{}, no // the node would count for itself
	}
	if target.table.AutoIncrement >= 0 {
		if pos, err := insertPosition(target.table, stmt, target.table.AutoIncrement); err != nil || pos < 0 {
			return planned{}, refuse("AUTO_INCREMENT in the sharded table " + target.table.Name)
		}
	}
	p.body = &readBody{db: f.db, write: true, single: single, sources: sources, several: no}
	return planned{plan: p}, nil
}

// assignsKey refuses ON DUPLICATE KEY UPDATE of a sharding key.
func assignsKey(table *Table, list []*ast.Assignment) *mysql.Error {
	for _, s := range list {
		for _, k := range table.Rule.Keys {
			if table.column(s.Column.Name.L) == k && !keepsKey(table, k, s.Expr) {
				return refuse("ON DUPLICATE KEY UPDATE of the sharding key " + table.Name + "." + table.Columns[k].Name)
			}
		}
	}
	return nil
}

// keepsKey tells whether a value assigned to key column k of a duplicate is what
// the column has: itself, LAST_INSERT_ID() of itself, or the new row's, which is
// equal where every unique key holds the sharding key.
func keepsKey(t *Table, k int, e ast.ExprNode) bool {
	switch x := unparen(e).(type) {
	case *ast.ColumnNameExpr:
		return t.column(x.Name.Name.L) == k && (x.Name.Table.L == "" || strings.EqualFold(x.Name.Table.O, t.Name))
	case *ast.FuncCallExpr:
		return x.FnName.L == "last_insert_id" && len(x.Args) == 1 && keepsKey(t, k, x.Args[0])
	case *ast.ValuesExpr:
		return x.Column != nil && t.column(x.Column.Name.Name.L) == k && t.allHold(k)
	}
	return false
}
