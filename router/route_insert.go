package router

import (
	"errors"
	"slices"
	"strings"

	"braid/internal/mysql"
)

// insertBody runs an INSERT with values: each row on its own shard, or, of a
// global table, every row on all.
type insertBody struct {
	db     *Database
	table  *Table
	copies bool     // a global table
	ignore bool     // IGNORE
	single template // the client's text for one shard; nil: as it is
	// What the statement is put together from when it is split, or when values
	// were made for it. prefix and suffix are nil for the form with SET.
	prefix, suffix template
	// selects is the beginning of INSERT ... SELECT of a row's values, columns what stands
	// between it and the values; nil where the values cannot be a SELECT's.
	selects, columns template
	rows             []insertRow
}

// insertRow is one row; the only one stands for all of a folded VALUES list.
type insertRow struct {
	key []operand
	// unique are the values for columns of unique keys that are locked, by column.
	unique map[int]operand
	auto   *operand   // the value given for the AUTO_INCREMENT column; nil: none
	exprs  []template // values that a node makes
	first  int        // the place of the first of them among the statement's
	text   template   // with its parentheses
	// selects is what follows insertBody.selects where the values of this row can be
	// a SELECT's without some of the columns; nil: all of them.
	selects template
}

// number is how many rows the statement has.
func (b *insertBody) number(q *Query) (n int, folded bool) {
	n = len(b.rows)
	if q.Rows.Rows > 1 && n == 1 {
		return int(q.Rows.Rows), true
	}
	return n, false
}

// row is row i of the statement: the planned row, its place in a folded list,
// and the place of its first made value.
func (b *insertBody) row(i int, folded bool) (row *insertRow, fold, first int) {
	if folded {
		return &b.rows[0], i, i * len(b.rows[0].exprs)
	}
	return &b.rows[i], 0, b.rows[i].first
}

// needs implements needy.
func (b *insertBody) needs(q *Query) (*Needs, error) {
	ids := b.table.Sequence != ""
	exprs := false
	for i := range b.rows {
		exprs = exprs || len(b.rows[i].exprs) > 0
	}
	if !ids && !exprs {
		return nil, nil
	}
	n := &Needs{Database: b.db.Name, Table: b.table}
	rows, folded := b.number(q)
	for i := range rows {
		row, fold, first := b.row(i, folded)
		for k := range row.exprs {
			w := writer{q: q, r: &Route{}, db: b.db, row: fold, at: i, first: first, inline: true}
			w.template(row.exprs[k])
			if w.failed {
				return nil, refuse("a parameter of this type in an expression as the sharding key of a new row")
			}
			n.Texts = append(n.Texts, string(w.r.buf))
		}
		if !ids {
			continue
		}
		id := uint64(0)
		if row.auto != nil && row.auto.kind == operandComputed {
			return nil, refuse("an expression for the AUTO_INCREMENT column of the table " + b.table.Name)
		}
		if row.auto != nil {
			v, ok := value(q, row.auto, fold)
			if !ok {
				return nil, refuse("this value for the AUTO_INCREMENT column of the table " + b.table.Name)
			}
			var err *mysql.Error
			if id, err = b.table.autoValue(v, b.db.Flavour, q.Mode&ModeNoAutoValueOnZero != 0); err != nil {
				return nil, err
			}
		}
		n.IDs = append(n.IDs, id)
	}
	return n, nil
}

func (b *insertBody) bind(p *Plan, q *Query, r *Route) error {
	r.places = r.places[:0]
	set := NoShards(len(b.db.Shards))
	n, folded := b.number(q)
	if b.copies {
		set = AllShards(len(b.db.Shards))
		n = 0
	}
	if q.Made == nil && (!q.Prepared || len(q.Params) > 0) {
		if n, err := b.needs(q); n != nil || err != nil {
			return errors.Join(err, refuse("an INSERT whose ids or keys were not made, as in EXPLAIN"))
		}
	}
	ctx := q.KeyContext()
	switch {
	case b.ignore:
		ctx.Strict = false
	case n == 1:
		ctx.Strict = true // NULL for a NOT NULL column of a single row is an error in every sql_mode
	}
	for i := range n {
		shard, unknown, err := b.place(q, i, folded, ctx)
		if err != nil {
			return err
		}
		if unknown { // preparing: no values yet
			r.places = r.places[:0]
			set = OneShard(len(b.db.Shards), 0)
			break
		}
		r.places = append(r.places, int32(shard))
		set = set.Or(OneShard(len(b.db.Shards), shard))
	}
	made := q.Made != nil && (q.Made.First != 0 || len(q.Made.Values) > 0)
	if made {
		r.FirstID = q.Made.First
	}
	shard, one := set.Single()
	if !one && p.Rows && b.ignore {
		return refuse("RETURNING of an INSERT IGNORE over several shards") // which rows are missing is not known
	}
	if (!one && !b.copies) || made || q.Row > 0 && n > 1 {
		return b.write(q, r, set, folded)
	}
	text := q.Text
	var params []ParamRef
	if b.single != nil {
		w := writer{q: q, r: r, db: b.db}
		w.template(b.single)
		text, params = r.buf, w.params()
	}
	if b.copies {
		for shard := range set.Each() {
			r.Targets = append(r.Targets, Target{Shard: shard, Text: text, Params: params, Same: b.single == nil})
		}
		return nil
	}
	r.Targets = append(r.Targets, Target{Shard: shard, Text: text, Params: params, Same: b.single == nil, Rows: len(r.places)})
	return nil
}

// place finds row i's shard. unknown says that a parameter has no value yet.
func (b *insertBody) place(q *Query, i int, folded bool, ctx KeyContext) (shard int, unknown bool, err error) {
	rule := b.table.Rule
	row, fold, first := b.row(i, folded)
	if len(row.key) > keyColumnsMax {
		return 0, false, refuse("sharding keys of so many columns")
	}
	var vals [keyColumnsMax]Value
	for k := range row.key {
		v, ok := b.value(q, &row.key[k], row, i, fold, first)
		if !ok {
			if q.Prepared && len(q.Params) == 0 {
				return 0, true, nil
			}
			return 0, false, b.notDecidable(k)
		}
		vals[k] = v
	}
	shard, err = rule.Assign(vals[:len(row.key)], ctx)
	if errors.Is(err, ErrNotDecidable) {
		err = refuse(err.Error())
	}
	return shard, false, err
}

// value is the value of one of a row's key columns.
func (b *insertBody) value(q *Query, o *operand, row *insertRow, i, fold, first int) (Value, bool) {
	switch o.kind {
	case operandComputed:
		if q.Made == nil {
			return Value{}, false
		}
		return q.Made.Values[first+o.hole], true
	case operandID:
		if q.Made == nil {
			return Value{}, false
		}
		if id := q.Made.IDs[i]; id != 0 {
			return uintValue(id), true
		}
		return value(q, row.auto, fold)
	}
	return value(q, o, fold)
}

func (b *insertBody) notDecidable(i int) error {
	return refuse("this value for the sharding key " + b.table.Name + "." + b.table.Rule.Columns[i].Name)
}

// write writes one statement for each shard, its rows in their order, or with
// Query.ByRow one for each row.
func (b *insertBody) write(q *Query, r *Route, set ShardSet, folded bool) error {
	w := writer{q: q, r: r, db: b.db}
	type part struct {
		text, params [2]int
		rows         int
		first, last  int
	}
	n, _ := b.number(q)
	selects := q.Selects && b.selects != nil && n > 1
	if q.Prepared && r.params == nil {
		r.params = make([]ParamRef, 0, 4) // a text without parameters takes none, not all
	}
	if q.ByRow || q.Row > 0 {
		for i := range n {
			if q.Row > 0 && i != q.Row-1 {
				continue
			}
			at := len(r.buf)
			params := len(r.params)
			row, fold, first := b.row(i, folded)
			w.alone(b, selects)
			w.row, w.at, w.first = fold, i, first
			w.inRow(b, row, selects)
			w.row = 0
			w.template(b.suffix)
			t := Target{Shard: int(r.places[i]), Text: slices.Clone(r.buf[at:]), Rows: 1, First: i, Last: i}
			if q.Prepared {
				t.Params = slices.Clone(r.params[params:])
			}
			r.Targets = append(r.Targets, t)
		}
		return b.unless(&w, r, set, folded)
	}
	parts := make([]part, 0, set.Len())
	for shard := range set.Each() {
		p := part{text: [2]int{len(r.buf), 0}, params: [2]int{len(r.params), 0}}
		alone := selects && b.onShard(r, shard) == 1
		w.alone(b, alone)
		for i := range n {
			if !b.copies && int(r.places[i]) != shard {
				continue
			}
			if p.rows++; p.rows > 1 {
				r.buf = append(r.buf, ',')
			}
			if p.last = i; p.rows == 1 {
				p.first = i
			}
			row, fold, first := b.row(i, folded)
			w.row, w.at, w.first = fold, i, first
			w.inRow(b, row, alone)
			w.row = 0
		}
		w.template(b.suffix)
		p.text[1], p.params[1] = len(r.buf), len(r.params)
		parts = append(parts, p)
	}
	// The memory no longer moves: cut it.
	at := 0
	for shard := range set.Each() {
		p := parts[at]
		at++
		t := Target{Shard: shard, Text: r.buf[p.text[0]:p.text[1]], Rows: p.rows, First: p.first, Last: p.last}
		if q.Prepared {
			t.Params = r.params[p.params[0]:p.params[1]]
		}
		r.Targets = append(r.Targets, t)
	}
	return b.unless(&w, r, set, folded)
}

// unless writes the statements again without SELECT where a parameter is of a
// type that has no literal.
func (b *insertBody) unless(w *writer, r *Route, set ShardSet, folded bool) error {
	if !w.failed {
		return nil
	}
	r.Targets, r.buf, r.params = r.Targets[:0], r.buf[:0], r.params[:0]
	w.q.Selects = false
	defer func() { w.q.Selects = true }()
	return b.write(w.q, r, set, folded)
}

// onShard is how many rows a shard gets.
func (b *insertBody) onShard(r *Route, shard int) (rows int) {
	for _, p := range r.places {
		if int(p) == shard {
			rows++
		}
	}
	return rows
}

// alone begins a text, which with selects has one row, as a SELECT; parameters are
// then written as literals, since those of a SELECT have types of their own.
func (w *writer) alone(b *insertBody, selects bool) {
	if w.inline = selects; selects {
		w.template(b.selects)
		return
	}
	w.template(b.prefix)
}

// inRow writes a row's values, with selects without their parentheses.
func (w *writer) inRow(b *insertBody, row *insertRow, selects bool) {
	switch {
	case !selects:
		w.template(row.text)
	case row.selects != nil:
		w.template(row.selects)
	default:
		w.template(b.columns)
		at := len(w.r.buf)
		w.template(row.text)
		w.r.buf[at], w.r.buf[len(w.r.buf)-1] = ' ', ' '
	}
}

func (b *insertBody) describe() (template, ShardSet) {
	return b.single, AllShards(len(b.db.Shards))
}

func (b *insertBody) explain(s *strings.Builder) {
	for i := range b.rows {
		s.WriteString("  row")
		for j, o := range b.rows[i].key {
			s.WriteString(" " + b.table.Rule.Columns[j].Name + "=" + o.String())
		}
		if b.table.Sequence != "" {
			s.WriteString(" id from " + b.table.Sequence)
		}
		s.WriteString(" of " + b.table.Name + "\n")
	}
	if b.single != nil {
		s.WriteString("  single: " + b.single.String() + "\n")
	}
	if b.prefix != nil {
		s.WriteString("  split: " + b.prefix.String() + "{rows}" + b.suffix.String() + "\n")
	}
}

// Row tells which row of the statement the n-th row of a target's INSERT is,
// both counted from 1.
func (r *Route) Row(t *Target, n int) int {
	if t.Rows == 0 || len(r.places) == 0 {
		return n
	}
	if t.Rows == 1 {
		return t.First + 1
	}
	seen := 0
	for i, shard := range r.places {
		if int(shard) == t.Shard {
			if seen++; seen == n {
				return i + 1
			}
		}
	}
	return n
}
