package router

import (
	"strconv"
	"strings"

	"braid/internal/mysql"
)

// Unite makes one text of several targets of a scattered read whose shards are
// on one node, for a connection that can run only one statement at a time (rule
// T18): the targets' texts joined by UNION ALL, in the merge's order, each table
// under its shard's physical schema. targets are indexes into r.Targets. The
// columns of the answer have the values and types of a single target's, but not
// their table names and flags. page is zero unless the route is one of pages.
func (r *Route) Unite(db *Database, q *Query, targets []int, page Page) (*Target, error) {
	if r.Merge == nil {
		return nil, refuse("a statement of this form on several shards of one node inside a transaction")
	}
	out := &Target{Shard: r.Targets[targets[0]].Shard}
	var b []byte
	for n, i := range targets {
		t := r.Targets[i]
		if r.paged {
			t = r.pages.bind(db, q, i, t.Shard, page, r)
		}
		if n > 0 {
			b = append(b, " UNION ALL "...)
		}
		b = append(b, '(')
		var err *mysql.Error
		if b, err = qualify(b, string(t.Text), db, db.Shards[t.Shard].Schema, q.Mode, q.Charset); err != nil {
			return nil, err
		}
		b = append(b, ')')
		if q.Prepared {
			if t.Params != nil {
				out.Params = append(out.Params, t.Params...)
				continue
			}
			for k := range q.Params {
				out.Params = append(out.Params, ParamRef{Index: k})
			}
		}
	}
	by := " ORDER BY "
	order := func(col int, desc bool) {
		b = strconv.AppendInt(append(b, by...), int64(col+1), 10)
		if desc {
			b = append(b, " DESC"...)
		}
		by = ", "
	}
	for _, k := range r.Merge.Order {
		if k.NumericCol >= 0 {
			order(k.NumericCol, k.Desc)
		} else {
			order(k.Col, k.Desc)
		}
	}
	if r.paged {
		for col := r.pages.ties; col < r.pages.columns; col++ {
			order(col, r.pages.desc)
		}
	}
	count, bounded := r.shardRows()
	bounded = bounded && len(r.Merge.Group) == 0 && !r.Merge.Aggregate && len(r.Merge.Sort) == 0
	switch {
	case page.Count > 0:
		count, bounded = page.Count, true
	case page.Offset > 0 && bounded:
		count -= page.Offset
	case page.Offset > 0:
		count, bounded = 1<<64-1, true
	}
	if bounded {
		b = strconv.AppendUint(append(b, " LIMIT "...), count, 10)
	}
	if page.Offset > 0 {
		b = strconv.AppendUint(append(b, " OFFSET "...), page.Offset, 10)
	}
	out.Text = b
	return out, nil
}

// selectPart is which part of a SELECT a token is in.
type selectPart uint8

const (
	partNone   selectPart = iota // not directly in a SELECT: a function's arguments
	partSelect                   // before FROM
	partTables                   // in FROM, where a table may stand
	partOn                       // in a join's condition
	partRest                     // WHERE and behind
)

// qualify appends a SELECT's text with schema in front of every table of db
// that has no database in front. A text in which it is not certain what is a
// table is refused.
func qualify(dst []byte, text string, db *Database, schema string, mode Mode, charset string) ([]byte, *mysql.Error) {
	toks := tokenize(text, mode, charset)
	for _, t := range toks {
		if t.word(text) == "WITH" {
			return nil, refuse("WITH on several shards of one node inside a transaction")
		}
	}
	tables, err := tableTokens(text, toks, db, nil)
	if err != nil {
		return nil, err
	}
	at := 0
	for _, t := range toks[min(1, len(toks)):] {
		skip, modifier := selectModifier(t.word(text), db.Flavour)
		if !modifier {
			break
		}
		if skip {
			dst = append(dst, text[at:t.start]...)
			at = t.end
		}
	}
	for _, i := range tables {
		dst = append(dst, text[at:toks[i].start]...)
		dst = append(append(append(dst, '`'), strings.ReplaceAll(schema, "`", "``")...), "`."...)
		at = toks[i].start
	}
	return append(dst, text[at:]...), nil
}

// selectModifier tells whether a word behind SELECT is no part of the list yet,
// and whether it may not stand in a part of a union, where it means nothing. MySQL
// takes SQL_NO_CACHE, and warns of it.
func selectModifier(w string, f Flavour) (skip, modifier bool) {
	switch w {
	case "SQL_NO_CACHE":
		return f == MariaDB, true
	case "SQL_CACHE", "SQL_BUFFER_RESULT", "HIGH_PRIORITY":
		return true, true
	case "ALL", "DISTINCT", "DISTINCTROW", "STRAIGHT_JOIN", "SQL_SMALL_RESULT", "SQL_BIG_RESULT":
		return false, true
	}
	return false, false
}

// tableTokens finds the tokens that name tables of db, without a database in
// front, in the order of the text. with are the names of common table
// expressions, in lower case, which are passed over. A text in which it is not
// certain what is a table is refused.
func tableTokens(text string, toks []token, db *Database, with map[string]bool) ([]int, *mysql.Error) {
	found, _, err := fromTokens(text, toks, db, with)
	return found, err
}

// fromTokens is tableTokens, and finds the tokens in FROM that name one of with
// too.
func fromTokens(text string, toks []token, db *Database, with map[string]bool) (found, named []int, err *mysql.Error) {
	state := []selectPart{partNone}
	for i, t := range toks {
		for len(state) <= t.depth+1 {
			state = append(state, partNone)
		}
		cur := &state[t.depth]
		switch {
		case t.is(text, '('):
			state[t.depth+1] = partNone
			if *cur == partTables && tableStarts(toks, i, text) {
				state[t.depth+1] = partTables // a nested join; a SELECT in it changes that
			}
			continue
		case t.is(text, ','):
			if *cur == partOn {
				*cur = partTables
			}
			continue
		}
		if t.depth == 0 && *cur == partNone && t.word(text) == "USING" {
			*cur = partTables // the tables of a DELETE FROM ... USING
			continue
		}
		if t.kind == tokWord && (i == 0 || !toks[i-1].is(text, '.')) && cur.word(t.word(text)) {
			continue
		}
		if *cur != partTables || !t.ident() || !tableStarts(toks, i, text) || i+1 < len(toks) && toks[i+1].is(text, '.') {
			continue
		}
		if name := t.name(text); db.Table(name) == nil {
			if with[strings.ToLower(name)] {
				named = append(named, i)
				continue
			}
			if strings.EqualFold(name, "dual") {
				continue
			}
			return nil, nil, refuse("this form of FROM where the rows of several shards have to meet")
		}
		found = append(found, i)
	}
	return found, named, nil
}

// word moves on at a keyword; false when the word is none that matters.
func (p *selectPart) word(w string) bool {
	switch w {
	case "SELECT", "DELETE":
		*p = partSelect
	case "UPDATE", "TABLE":
		if *p == partNone {
			*p = partTables
		}
	case "FROM":
		if *p == partSelect {
			*p = partTables
		}
	case "ON", "USING":
		if *p == partTables {
			*p = partOn
		}
	case "JOIN", "STRAIGHT_JOIN":
		if *p == partOn {
			*p = partTables
		}
	case "WHERE", "SET", "GROUP", "HAVING", "ORDER", "LIMIT", "WINDOW", "FOR", "LOCK", "PROCEDURE":
		if *p == partTables || *p == partOn {
			*p = partRest
		}
	case "UNION", "EXCEPT", "INTERSECT":
		*p = partNone
	case "WITH":
		if *p == partTables { // a derived table's
			*p = partNone
		}
	case "LOW_PRIORITY", "IGNORE": // between UPDATE and its tables
	default:
		return false
	}
	return true
}

// tableStarts tells whether token i stands where a table reference begins.
func tableStarts(toks []token, i int, text string) bool {
	if i == 0 {
		return false
	}
	p := toks[i-1]
	if p.is(text, ',') || p.is(text, '(') {
		return true
	}
	switch p.word(text) {
	case "FROM", "TABLE", "JOIN", "STRAIGHT_JOIN", "UPDATE", "LOW_PRIORITY", "USING":
		return true
	case "IGNORE": // of UPDATE, not of an index hint
		return i > 1 && (toks[i-2].word(text) == "UPDATE" || toks[i-2].word(text) == "LOW_PRIORITY")
	}
	return false
}
