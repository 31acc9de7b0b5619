package proxy

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"braid/backend"
	"braid/internal/mysql"
	"braid/router"
)

// rowColumn numbers the rows of a copy that a statement writes, so that each is
// known again whatever has become of it. SELECT * does not see it.
const rowColumn = "braid_row"

// beforeTable is the name of what the copy of the statement's n-th table held
// before. A table's own name may be as long as names can be.
func beforeTable(n int) string { return "braid_before_" + strconv.Itoa(n) }

// gatherWrite is an UPDATE or DELETE whose rows have to meet. It runs over the
// copies; the rows that it changed there are written on their shards, by key and
// in the same transaction. What the client is told is what the server said of
// the copies.
type gatherWrite struct {
	gathering
	ok   mysql.OK
	back returned
}

// runGatherWrite runs an UPDATE or DELETE by gathering its rows.
func (s *Session) runGatherWrite(plan *router.Plan, ps *execution) error {
	w := &gatherWrite{gathering: s.gathering(plan, ps)}
	if err := s.together(w.run); err != nil {
		return s.failErr(err)
	}
	if plan.Rows {
		return s.writeReturned(&w.back, w.ok.Warnings)
	}
	return s.writeOK(&w.ok)
}

func (w *gatherWrite) run() error {
	ctx, cancel := w.s.context()
	defer cancel()
	if err := w.connect(ctx); err != nil {
		return err
	}
	changes, err := w.onCopies(ctx)
	stopped := w.s.drop(w.scratch)
	w.scratch.Destroy()
	switch {
	case stopped != nil:
		return stopped
	case err != nil:
		return w.told(err)
	}
	s := w.s
	facts, warnings, warned, errored := s.facts, s.warnings, s.warned, s.errored
	s.warnings = nil
	for i := range changes {
		if err := changes[i].write(s); err != nil {
			return err
		}
	}
	s.facts, s.warnings, s.warned, s.errored = facts, warnings, warned, errored
	return nil
}

// onCopies copies the rows, runs the statement and finds out what it changed.
func (w *gatherWrite) onCopies(ctx context.Context) ([]tableChange, error) {
	if err := w.ask(ctx); err != nil {
		return nil, err
	}
	if err := w.copyTables(ctx); err != nil {
		return nil, err
	}
	for i := range w.g.Tables {
		if t := &w.g.Tables[i]; t.Write != nil {
			if _, err := w.scratch.Exec(keepBefore(t, beforeTable(i))); err != nil {
				return nil, err
			}
		}
	}
	if err := w.statement(); err != nil {
		return nil, err
	}
	read := backend.Need{Schema: scratchSchema, Vars: loadVars().With(backend.Var{Name: "character_set_results", Value: "NULL"}), Autocommit: true}
	var changes []tableChange
	for i := range w.g.Tables {
		t := &w.g.Tables[i]
		if t.Write == nil {
			continue
		}
		c := tableChange{table: t, name: ident(w.db.Name) + "." + ident(t.Table.Name)}
		if err := w.changed(&read, &c, beforeTable(i)); err != nil {
			return nil, err
		}
		changes = append(changes, c)
	}
	return changes, nil
}

// ask lets a shard refuse what it would refuse of the statement as it is.
func (w *gatherWrite) ask(ctx context.Context) error {
	if w.g.Ask == nil {
		return nil
	}
	p := w.s.place(w.plan, 0)
	c, err := p.node.Get(ctx, w.s.caps&gomysql.CLIENT_FOUND_ROWS != 0, p.schema, w.s.vars)
	if err != nil {
		return p.shardError(err)
	}
	w.s.hold(c)
	need := backend.Need{Schema: p.schema, Vars: w.s.varsFor(w.plan), Autocommit: true}
	_, err = c.Prepare(&need, w.g.Ask)
	stopped := w.s.drop(c)
	var e *mysql.Error
	if stopped != nil || err != nil && (!errors.As(err, &e) || isPrefix(err)) {
		w.s.scrap(c)
	} else {
		w.s.giveBack(c)
	}
	if stopped != nil {
		return stopped
	}
	if err != nil {
		return p.shardError(err)
	}
	return nil
}

// statement runs the client's statement over the copies.
func (w *gatherWrite) statement() error {
	s, c := w.s, w.scratch
	need := backend.Need{Schema: scratchSchema, Vars: s.varsFor(w.plan), Autocommit: true, Write: true}
	err := s.sendOnly(c, &need, w.plan, w.target(), w.ps)
	var first []byte
	if err == nil {
		first, err = c.First()
	}
	if err != nil {
		return err
	}
	if first[0] == 0xff {
		e := mysql.ParseError(first)
		// What the statement warned of before it failed stays in SHOW WARNINGS.
		rows, err := c.Query(showWarnings, warningsMax)
		if err != nil {
			return err
		}
		s.warnings = s.warnings[:0]
		s.addWarnings(rows, &w.p)
		s.diagnosed = len(rows) > 1
		if err := s.keepAssigned(c, w.plan); err != nil {
			return err
		}
		return e
	}
	r := relayed{set: w.plan.Rows}
	if r.set {
		if first, err = s.readReturned(c, first, &w.p, &w.back, &router.Target{}, w.plan); err != nil {
			return err
		}
		r.rows = uint64(len(w.back.rows))
	}
	if r.ok, err = mysql.ParseOK(first, false); err != nil {
		return err
	}
	if err := s.afterwards(c, w.plan, &w.p, &r); err != nil {
		return err
	}
	if err := s.keepAssigned(c, w.plan); err != nil {
		return err
	}
	w.ok = r.ok
	return nil
}

// keepBefore makes the table that remembers what a written copy holds: its
// keys, and the values that the statement may change.
func keepBefore(t *router.GatherTable, before string) string {
	var b strings.Builder
	b.WriteString("CREATE TEMPORARY TABLE " + ident(before) + " (" + rowColumn + " BIGINT UNSIGNED NOT NULL PRIMARY KEY) SELECT " + rowColumn)
	seen := map[int]bool{}
	for _, list := range [][]int{t.Write.Key, t.Write.Set} {
		for _, col := range list {
			if !seen[col] {
				b.WriteString("," + ident(t.Table.Columns[col].Name))
			}
			seen[col] = true
		}
	}
	b.WriteString(" FROM " + ident(router.CopyName(t.Table, t.Write.Copy)))
	return b.String()
}

// changedRows is the SELECT of the rows that a statement changed in a copy: their
// old keys, and, where they are not gone, the values to write.
func changedRows(t *router.GatherTable, before string) string {
	var b strings.Builder
	column := func(of string, col int) {
		c := &t.Table.Columns[col]
		b.WriteString(of + "." + ident(c.Name))
		if c.DataType == "float" {
			b.WriteString("+0e0")
		}
	}
	b.WriteString("SELECT ")
	for i, col := range t.Write.Key {
		if i > 0 {
			b.WriteString(",")
		}
		column("b", col)
	}
	for _, col := range newValues(t) {
		b.WriteString(",")
		column("a", col)
	}
	b.WriteString(" FROM " + ident(before) + " b LEFT JOIN " + ident(router.CopyName(t.Table, t.Write.Copy)) + " a ON a." + rowColumn + "=b." + rowColumn + " WHERE ")
	if t.Write.Set == nil {
		b.WriteString("a." + rowColumn + " IS NULL")
	} else {
		b.WriteString("NOT (1")
		for _, col := range t.Write.Set {
			n := ident(t.Table.Columns[col].Name)
			// What compares equal may still be written differently.
			b.WriteString(" AND a." + n + "<=>b." + n + " AND CAST(a." + n + " AS BINARY)<=>CAST(b." + n + " AS BINARY)")
		}
		b.WriteString(")")
	}
	b.WriteString(" ORDER BY b." + rowColumn)
	return b.String()
}

// newValues are the columns of a changed row that are written.
func newValues(t *router.GatherTable) []int {
	if t.Write.Moves {
		return t.Columns
	}
	return t.Write.Set
}

// tableChange is what is to be written of one table. All texts are literals.
type tableChange struct {
	table *router.GatherTable
	name  string   // with its database
	keys  []string // of the changed rows, in parentheses where there are several columns
	// rows are the changed rows' values: of an UPDATE "a=1,b=2", of one that moves
	// rows "1,2". Empty: the rows are deleted.
	rows []string
}

// changed reads what the statement changed; before has what the copy held.
func (w *gatherWrite) changed(need *backend.Need, ch *tableChange, before string) error {
	if err := w.scratch.Send(need, gomysql.COM_QUERY, []byte(changedRows(ch.table, before))); err != nil {
		return err
	}
	return eachRow(w.scratch, false, func(_ []mysql.Column, row mysql.Row) error { return ch.add(row) })
}

// add takes a changed row.
func (ch *tableChange) add(row mysql.Row) error {
	t := ch.table
	p := []byte(row)
	var b []byte
	next := func(col int) error {
		v, null, n := mysql.LenEncString(p)
		if n == 0 {
			return mysql.ErrMalformed
		}
		p = p[n:]
		if null {
			b = append(b, "NULL"...)
		} else {
			b = appendColumnLiteral(b, &t.Table.Columns[col], v)
		}
		return nil
	}
	for i, col := range t.Write.Key {
		if i > 0 {
			b = append(b, ',')
		}
		if err := next(col); err != nil {
			return err
		}
	}
	key := string(b)
	if len(t.Write.Key) > 1 {
		key = "(" + key + ")"
	}
	ch.keys = append(ch.keys, key)
	if t.Write.Set == nil {
		return nil
	}
	b = nil
	for i, col := range newValues(t) {
		if i > 0 {
			b = append(b, ',')
		}
		if !t.Write.Moves {
			b = append(append(b, ident(t.Table.Columns[col].Name)...), '=')
		}
		if err := next(col); err != nil {
			return err
		}
	}
	ch.rows = append(ch.rows, string(b))
	return nil
}

// appendColumnLiteral is appendLiteral for a column that may be a sharding key:
// the value's place can be told from it.
func appendColumnLiteral(b []byte, c *router.Column, v []byte) []byte {
	switch {
	case c.DataType == "bit":
		var u uint64
		for _, c := range v {
			u = u<<8 | uint64(c)
		}
		return strconv.AppendUint(b, u, 10)
	case c.Charset != "" && c.DataType != "json":
		return append(hex.AppendEncode(append(append(append(b, '_'), c.Charset...), " x'"...), v), '\'')
	}
	return appendLiteral(b, c, v)
}

// write writes the changes on the shards.
func (ch *tableChange) write(s *Session) error {
	var columns []string
	for _, k := range ch.table.Write.Key {
		columns = append(columns, ch.table.Table.Columns[k].Name)
	}
	where := " WHERE " + identList(columns) + " IN ("
	if len(columns) > 1 {
		where = " WHERE (" + identList(columns) + ") IN ("
	}
	if ch.table.Write.Set == nil || ch.table.Write.Moves {
		if err := ch.batches(s, "DELETE FROM "+ch.name+where, ch.keys, ")"); err != nil || ch.rows == nil {
			return err
		}
		columns = columns[:0]
		for _, col := range newValues(ch.table) {
			columns = append(columns, ch.table.Table.Columns[col].Name)
		}
		for i := range ch.rows {
			ch.rows[i] = "(" + ch.rows[i] + ")"
		}
		return ch.batches(s, "INSERT INTO "+ch.name+" ("+identList(columns)+") VALUES ", ch.rows, "")
	}
	// Rows that get the same values are written together.
	var order []string
	byValues := map[string][]string{}
	for i, values := range ch.rows {
		if byValues[values] == nil {
			order = append(order, values)
		}
		byValues[values] = append(byValues[values], ch.keys[i])
	}
	for _, values := range order {
		if err := ch.batches(s, "UPDATE "+ch.name+" SET "+values+where, byValues[values], ")"); err != nil {
			return err
		}
	}
	return nil
}

// batches writes the items in statements of some length. All the rows are
// there, and locked: a statement that finds others is an error.
func (ch *tableChange) batches(s *Session, head string, items []string, tail string) error {
	vars := s.vars.With(
		backend.Var{Name: backend.Names, Value: "'utf8mb4' COLLATE 'utf8mb4_bin'"},
		backend.Var{Name: "sql_mode", Value: "'NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES'"},
		backend.Var{Name: "time_zone", Value: "'+00:00'"})
	mode := s.mode
	s.mode = router.ModeNoAutoValueOnZero
	defer func() { s.mode = mode }()
	for len(items) > 0 {
		b := []byte(head)
		n := 0
		for n < len(items) && (n == 0 || len(b)+len(items[n]) < stepBytesMax) {
			if n > 0 {
				b = append(b, ',')
			}
			b = append(b, items[n]...)
			n++
		}
		a, err := s.carryOut(string(append(b, tail...)), vars)
		if err != nil {
			return err
		}
		found := a.ok.AffectedRows
		var sum infoSum
		if sum.add(a.ok.Info); sum.matched {
			found = sum.first
		}
		if found != uint64(n) {
			return fmt.Errorf("table %s: %d of %d rows that were read and locked were found again", ch.table.Table.Name, found, n)
		}
		items = items[n:]
	}
	return nil
}
