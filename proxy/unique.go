package proxy

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"braid/backend"
	"braid/internal/mysql"
	"braid/router"
)

// uniqueTables make the locks of unique keys that are enforced over all shards.
// Values that are equal share a slot, and the slot belongs to one shard: whoever
// writes a value first locks its slot there, in the same transaction, and then
// looks for the value on all shards with a locking read. Nobody else can have it
// written meanwhile, so that the look is no race (rule W2). Rows are made when
// they are first locked and hold nothing: they never have to be kept right.
func uniqueTables() []string {
	return []string{
		"CREATE DATABASE IF NOT EXISTS braid",
		"CREATE TABLE IF NOT EXISTS braid.unique_lock (slot INT UNSIGNED NOT NULL PRIMARY KEY) ENGINE=InnoDB",
	}
}

// uniqueTries is how often a statement is begun anew whose error is gone when its
// rows are written one by one.
const uniqueTries = 3

// uniqueLookMax is how many values one SELECT looks for.
const uniqueLookMax = 200

// runUnique runs a bound INSERT or UPDATE that writes values of unique keys which
// no shard can check for all: their locks are taken, the statement is run, and
// the values are looked for on all shards, in one transaction. Where an INSERT of
// several rows fails it is undone and run again row by row, so that the error is
// the earliest row's.
func (s *Session) runUnique(plan *router.Plan, q *router.Query, ps *execution) error {
	if s.locks() {
		return s.fail(mysql.Errorf(gomysql.ER_NOT_SUPPORTED_YET, "This version of Braid doesn't yet support 'writing values of unique keys that are locked (unique_check = \"lock\") under LOCK TABLES'"))
	}
	facts, hints, rows := s.facts, s.hints, 0
	defer func() { s.hints = hints }()
	for i := range s.route.Targets {
		rows += s.route.Targets[i].Rows
	}
	var ok mysql.OK
	var err error
	for range uniqueTries {
		if err = s.together(func() error { return s.writeUnique(plan, q, ps, &ok, nil) }); err == nil {
			return s.writeOK(&ok)
		}
		var e *mysql.Error
		if rows < 2 || !errors.As(err, &e) || s.tx != nil && s.tx.Over() || s.isStopped() || ended(e.Code) {
			break
		}
		was := err
		if err = s.together(func() error { return s.uniqueByRow(plan, q, ps, rows, was) }); err != errRowsPass {
			break
		}
		err = was
		if bound := plan.Bind(q, &s.route); bound != nil {
			err = bound
			break
		}
	}
	s.facts = facts
	if err == errTaken {
		return err
	}
	return s.failErr(err)
}

// errRowsPass undoes rows that were all written one by one, though the statement
// had failed.
var errRowsPass = errors.New("the statement may be tried again")

// ended tells whether an error ends its transaction or says nothing of a row.
func ended(code uint16) bool {
	switch code {
	case gomysql.ER_LOCK_DEADLOCK, gomysql.ER_LOCK_WAIT_TIMEOUT, gomysql.ER_QUERY_INTERRUPTED:
		return true
	}
	return false
}

// uniqueByRow writes an INSERT's rows one by one and returns the first error.
func (s *Session) uniqueByRow(plan *router.Plan, q *router.Query, ps *execution, rows int, was error) error {
	q.Selects = s.mode&router.ModeStrict == 0
	defer func() { q.Row, q.Selects = 0, false }()
	for q.Row = 1; q.Row <= rows; q.Row++ {
		if err := plan.Bind(q, &s.route); err != nil {
			return err
		}
		var ok mysql.OK
		if err := s.writeUnique(plan, q, ps, &ok, was); err != nil {
			return err
		}
	}
	return errRowsPass
}

// writeUnique runs the bound statement between the locks of its values and the
// look for them. was is the error that it failed with as a whole, nil the first
// time.
func (s *Session) writeUnique(plan *router.Plan, q *router.Query, ps *execution, ok *mysql.OK, was error) error {
	values := s.route.Unique
	single := len(s.route.Targets) == 1 && s.route.Targets[0].Rows == 1
	if err := s.lockUnique(plan, values); err != nil {
		return err
	}
	a, err := s.captured(s.vars, func() error {
		if was != nil {
			return s.runWrite(plan, q, ps, was)
		}
		return s.runBound(plan, q, ps)
	})
	if isCode(err, gomysql.ER_DUP_ENTRY) && plan.Verb == "INSERT" && (was != nil || single) {
		return s.lookUnique(plan, values, nobody, err) // an earlier key may meet another shard's row
	}
	if err != nil {
		s.diagnosed = len(s.warnings) > 1
		return err
	}
	*ok = a.ok
	look := written
	if plan.Verb == "UPDATE" {
		var info infoSum
		if info.add(ok.Info); info.first == 0 {
			look = maybe
		}
	}
	facts, warned, errored, warnings := s.facts, s.warned, s.errored, slices.Clone(s.warnings)
	if err := s.lookUnique(plan, values, look, nil); err != nil {
		if s.isTaken(plan, err) {
			return errTaken
		}
		return err
	}
	s.facts, s.warned, s.errored, s.warnings = facts, warned, errored, warnings
	return nil
}

// byKey parts values by their keys, in the keys' order, and in parts of
// some length.
func byKey(t *router.Table, values []router.UniqueValue) (lists [][]router.UniqueValue) {
	for i := range t.Locked {
		var list []router.UniqueValue
		for _, v := range values {
			if v.Key == &t.Locked[i] {
				list = append(list, v)
			}
		}
		for part := range slices.Chunk(list, uniqueLookMax) {
			lists = append(lists, part)
		}
	}
	return lists
}

// lockUnique locks the slots of values, in one order.
func (s *Session) lockUnique(plan *router.Plan, values []router.UniqueValue) error {
	shards := len(s.gen.topology.Databases[plan.Database].Shards)
	slots := make([][]int, shards)
	for i := range values {
		at := values[i].Slot % shards
		slots[at] = append(slots[at], values[i].Slot)
	}
	for shard, list := range slots {
		if len(list) == 0 {
			continue
		}
		slices.Sort(list)
		text := []byte("INSERT INTO braid.unique_lock (slot) VALUES ")
		for i, slot := range slices.Compact(list) {
			if i > 0 {
				text = append(text, ',')
			}
			text = append(strconv.AppendInt(append(text, '('), int64(slot), 10), ')')
		}
		text = append(text, " ON DUPLICATE KEY UPDATE slot=slot"...)
		p := s.place(plan, shard)
		err := s.lockSlots(plan, &p, text)
		if missingTable(err) {
			if err = s.makeUnique(&p); err == nil {
				err = s.lockSlots(plan, &p, text)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// lockSlots runs the statement that locks slots at p, on the transaction's leg.
func (s *Session) lockSlots(plan *router.Plan, p *place, text []byte) error {
	c, err := s.take(plan, p)
	if err != nil {
		return err
	}
	need := s.need(plan, p)
	need.Write = true
	err = c.Send(&need, gomysql.COM_QUERY, text)
	var first []byte
	if err == nil {
		first, err = c.First()
	}
	if err == nil && first[0] == 0xff {
		err = mysql.ParseError(first)
	}
	if backend.IsLost(err) || isPrefix(err) {
		return s.broken(c, plan, p, err)
	}
	stopped := s.drop(c)
	if err != nil && !missingTable(err) {
		err = s.tx.Failed(p.node, p.shardError(err))
		s.noteEnd()
	}
	if stopped != nil {
		return stopped
	}
	return err
}

// makeUnique makes the table of locks, outside of the transaction.
func (s *Session) makeUnique(p *place) error {
	ctx, cancel := s.context()
	defer cancel()
	c, err := p.node.Own(ctx, sequenceTimeout)
	if err != nil {
		return p.shardError(err)
	}
	defer c.Close()
	for _, text := range uniqueTables() {
		if _, err := c.Exec(text); err != nil {
			return fmt.Errorf("making braid.unique_lock: %w", p.shardError(err))
		}
	}
	return nil
}

// look says what is known of the rows that hold the values that are looked for.
type look uint8

const (
	nobody  look = iota // none is the statement's
	maybe               // one may be
	written             // one is
)

// lookUnique looks for the values of a statement on all shards. The error is that
// of the first key that is there twice; dup, when not nil, is one that a shard gave.
func (s *Session) lookUnique(plan *router.Plan, values []router.UniqueValue, look look, dup error) error {
	t := plan.UniqueTable()
	var dups []error
	if dup != nil {
		dups = append(dups, dup)
	}
	for _, list := range byKey(t, values) {
		if dup != nil && keyOf(dup) == list[0].Key.Name {
			continue
		}
		err := s.lookKey(plan, list, look)
		if err != nil && !isCode(err, gomysql.ER_DUP_ENTRY) {
			return err
		}
		if err != nil {
			dups = append(dups, err)
		}
	}
	if len(dups) < 2 {
		return errors.Join(dups...)
	}
	// The server goes through the keys as SHOW CREATE TABLE has them.
	a, err := s.carryOut("SHOW CREATE TABLE "+ident(plan.Database)+"."+ident(t.Name), s.vars)
	if err != nil {
		return err
	}
	if a.rows == nil {
		return mysql.ErrMalformed
	}
	row, err := a.next(s)
	if err != nil {
		return err
	}
	at := func(err error) int {
		name := keyOf(err)
		if name == "PRIMARY" {
			return -1
		}
		return strings.Index(string(row[1].Bytes), "UNIQUE KEY "+ident(name)+" ")
	}
	return slices.MinFunc(dups, func(x, y error) int { return cmp.Compare(at(x), at(y)) })
}

// keyOf is the key that an error 1062 names, without its table.
func keyOf(err error) string {
	var e *mysql.Error
	if !errors.As(err, &e) {
		return ""
	}
	_, name, _ := strings.Cut(e.Message[max(0, strings.LastIndex(e.Message, "for key '")):], "'")
	name = strings.TrimSuffix(name, "'")
	return name[strings.LastIndexByte(name, '.')+1:]
}

// lookKey looks for values of one key. With nobody none may be there, else none more
// than once; with written each has to be.
func (s *Session) lookKey(plan *router.Plan, values []router.UniqueValue, look look) error {
	t, key := plan.UniqueTable(), values[0].Key
	var which, where, columns strings.Builder
	for i := range values {
		if i > 0 {
			where.WriteString(" OR ")
		}
		where.WriteString(values[i].Match)
		fmt.Fprintf(&which, "WHEN %s THEN %d ", values[i].Match, i)
	}
	for _, c := range key.Columns {
		columns.WriteString("," + ident(t.Columns[c].Name))
	}
	a, err := s.carryOut("SELECT CASE "+which.String()+"END"+columns.String()+" FROM "+ident(plan.Database)+"."+ident(t.Name)+
		" WHERE "+where.String()+" FOR UPDATE", s.vars.With(
		backend.Var{Name: "character_set_results", Value: "utf8mb4"},
		backend.Var{Name: "sql_select_limit", Value: "18446744073709551615"}))
	if err != nil {
		return err
	}
	if a.rows == nil {
		return mysql.ErrMalformed
	}
	seen := make([]int, len(values))
	entries := make([]string, len(values))
	for {
		row, err := a.next(s)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		i := int(row[0].Int)
		if row[0].Kind != router.ValueInt || i < 0 || i >= len(values) {
			return mysql.ErrMalformed
		}
		seen[i]++
		entries[i] = values[i].Shown(t, row[1:])
	}
	for i := range values {
		for j := range values[:i] {
			if values[i].Same(&values[j]) {
				return s.duplicate(t, key, entries[j])
			}
		}
	}
	for i, n := range seen {
		switch {
		case n > 1, n == 1 && look == nobody:
			return s.duplicate(t, key, entries[i])
		case n == 0 && look == written:
			return mysql.Errorf(gomysql.ER_NOT_SUPPORTED_YET, "This version of Braid doesn't yet support 'a value that the node converts, for the unique key %s of %s, whose values are locked'", key.Name, t.Name)
		}
	}
	return nil
}

// duplicate is the error of a value that is there already, as a node of the
// session's flavour says it.
func (s *Session) duplicate(t *router.Table, key *router.UniqueKey, entry string) error {
	name, shownMax := key.Name, 192
	if !s.mariadb() {
		name, shownMax = t.Name+"."+name, 64
	}
	if r := []rune(entry); len(r) > shownMax {
		entry = string(r[:shownMax])
	}
	return mysql.Errorf(gomysql.ER_DUP_ENTRY, "Duplicate entry '%s' for key '%s'", entry, name)
}
