package router

import (
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
	p := &Plan{Kind: KindWrite, Verb: verb, Writer: true, Database: f.db.Name}
	base, err2 := f.baseEdits()
	if err2 != nil {
		return planned{}, err2
	}
	var single template
	if len(base) > 0 {
		single = f.shape.slice(0, len(f.shape.text), base)
	}
	if hasReturning(f.shape) {
		p.Rows = true
	}
	if table.AutoIncrement >= 0 {
		p.AutoIncrement = true
		pos, err := insertPosition(table, stmt, table.AutoIncrement)
		p.GeneratesID = err == nil && pos < 0
	}
	switch table.Kind {
	case Single:
		sources := append(f.sources(), source{name: table.Name, shard: table.Shard, refs: []*ref{target}})
		p.body = &readBody{db: f.db, write: true, single: single, sources: sources,
			several: refuse(verb + " ... SELECT from other shards")}
		if oneShard(sources) {
			p.Kind = KindSingle
		}
		return planned{plan: p}, nil
	case Global:
		if err := a.broadcastable(f, f.sources(), stmt.Select == nil); err != nil {
			return planned{}, err
		}
		ids, err := globalIDs(f, table, stmt)
		if err != nil {
			return planned{}, err
		}
		p.Kind, p.body = KindBroadcast, &readBody{db: f.db, write: true, single: single, all: true, ids: ids}
		return planned{plan: p}, nil
	}
	if stmt.Select != nil {
		return a.insertSelect(f, p, stmt, target, single)
	}
	if len(f.refs) > 0 {
		for _, r := range f.refs {
			if r.table.Kind != Global {
				return planned{}, refuse(verb + " with subqueries over tables that are not global")
			}
		}
	}
	body := &insertBody{db: f.db, table: table, single: single}
	if err := a.insertRows(f, stmt, body, base); err != nil {
		return planned{}, err
	}
	p.body = body
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

// globalIDs are the values of a global table's AUTO_INCREMENT column: when one
// is 0 or NULL each shard would choose for itself, which binding refuses.
func globalIDs(f *found, table *Table, stmt *ast.InsertStmt) ([]operand, *mysql.Error) {
	if table.AutoIncrement < 0 || len(f.db.Shards) < 2 {
		return nil, nil
	}
	pos, err := insertPosition(table, stmt, table.AutoIncrement)
	if err != nil {
		return nil, err
	}
	no := refuse("AUTO_INCREMENT in the global table " + table.Name + ": give the value of " + table.Columns[table.AutoIncrement].Name)
	if pos < 0 {
		return nil, no
	}
	var ids []operand
	for _, row := range stmt.Lists {
		if pos >= len(row) {
			return nil, no
		}
		o, ok := f.operand(row[pos], false)
		if !ok {
			return nil, no
		}
		ids = append(ids, o)
	}
	return ids, nil
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
			if table.column(s.Column.Name.L) == k {
				return refuse("ON DUPLICATE KEY UPDATE of the sharding key " + table.Name + "." + table.Columns[k].Name)
			}
		}
	}
	return nil
}

// insertRows plans the rows of an INSERT into a sharded table.
func (a *analysis) insertRows(f *found, stmt *ast.InsertStmt, body *insertBody, base []edit) error {
	table, rule := body.table, body.table.Rule
	if err := assignsKey(table, stmt.OnDuplicate); err != nil {
		return err
	}
	if f.userVariables && len(f.db.Shards) > 1 {
		return refuse("user variables in a statement over several shards")
	}
	positions := make([]int, len(rule.Keys))
	for i, k := range rule.Keys {
		pos, err := insertPosition(table, stmt, k)
		if err != nil {
			return err
		}
		if pos < 0 {
			c := &table.Columns[k]
			if k == table.AutoIncrement {
				return refuse("AUTO_INCREMENT as the sharding key " + table.Name + "." + c.Name + ": give its value")
			}
			if c.Default == nil && !c.Nullable {
				return mysql.Errorf(1364, "Field '%s' doesn't have a default value", c.Name)
			}
			return refuse("INSERT without a value for the sharding key " + table.Name + "." + c.Name)
		}
		positions[i] = pos
	}
	autoPos := -1
	if table.AutoIncrement >= 0 && len(f.db.Shards) > 1 {
		var err *mysql.Error
		if autoPos, err = insertPosition(table, stmt, table.AutoIncrement); err != nil {
			return err
		}
		if autoPos < 0 {
			return refuse("AUTO_INCREMENT in the sharded table " + table.Name + ": give the value of " + table.Columns[table.AutoIncrement].Name)
		}
	}
	places, prefix, suffix, ok := rowPlaces(f.shape, len(stmt.Lists))
	if stmt.Setlist {
		places, prefix, suffix, ok = [][2]int{{0, 0}}, 0, 0, len(stmt.Lists) == 1
	}
	if !ok {
		return refuse("this form of " + "INSERT")
	}
	for i, list := range stmt.Lists {
		row := insertRow{key: make([]operand, len(positions))}
		for j, pos := range positions {
			if pos >= len(list) {
				return mysql.Errorf(1136, "Column count doesn't match value count at row %d", i+1)
			}
			o, ok := f.operand(list[pos], true)
			if !ok {
				return refuse("an expression as the sharding key " + table.Name + "." + rule.Columns[j].Name + " of a new row")
			}
			row.key[j] = o
		}
		if autoPos >= 0 {
			if autoPos >= len(list) {
				return mysql.Errorf(1136, "Column count doesn't match value count at row %d", i+1)
			}
			o, ok := f.operand(list[autoPos], false)
			if !ok {
				return refuse("an expression for the AUTO_INCREMENT column of the sharded table " + table.Name)
			}
			row.auto = &o
		}
		row.text = f.shape.slice(places[i][0], places[i][1], base)
		body.rows = append(body.rows, row)
	}
	if !stmt.Setlist {
		body.prefix = f.shape.slice(0, prefix, base)
		body.suffix = f.shape.slice(suffix, len(f.shape.text), base)
	}
	return nil
}

// rowPlaces finds the rows of a VALUES list, with their parentheses, and where
// the list begins and ends.
func rowPlaces(s *shape, n int) (places [][2]int, start, end int, ok bool) {
	i := 0
	for i < len(s.toks) {
		t := s.toks[i]
		w := t.word(s.text)
		if t.depth == 0 && (w == "VALUES" || w == "VALUE") && i+1 < len(s.toks) && s.toks[i+1].is(s.text, '(') {
			break
		}
		i++
	}
	open := -1
	for i++; i < len(s.toks); i++ {
		t := s.toks[i]
		if t.depth != 0 {
			continue
		}
		switch {
		case t.is(s.text, '('):
			open = t.start
		case t.is(s.text, ')'):
			places = append(places, [2]int{open, t.end})
		case !t.is(s.text, ','):
			i = len(s.toks)
		}
	}
	if len(places) != n || n == 0 {
		return nil, 0, 0, false
	}
	return places, places[0][0], places[n-1][1], true
}
