package router

import (
	"errors"
	"strings"
)

// insertBody runs an INSERT into a sharded table: each row on its own shard.
type insertBody struct {
	db             *Database
	table          *Table
	single         template // the text for one shard; nil: the client's own
	prefix, suffix template
	rows           []insertRow
}

// insertRow is one row; the only one stands for all of a folded VALUES list.
type insertRow struct {
	key  []operand
	auto *operand // the AUTO_INCREMENT column's value, where it matters
	text template // with its parentheses
}

func (b *insertBody) bind(p *Plan, q *Query, r *Route) error {
	r.places = r.places[:0]
	set := NoShards(len(b.db.Shards))
	n := len(b.rows)
	folded := q.Rows.Rows > 1 && n == 1
	if folded {
		n = int(q.Rows.Rows)
	}
	for i := range n {
		row, fold := &b.rows[0], i
		if !folded {
			row, fold = &b.rows[i], 0
		}
		shard, unknown, err := b.place(q, row, fold)
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
	if shard, one := set.Single(); one {
		if b.single == nil {
			r.Targets = append(r.Targets, Target{Shard: shard, Text: q.Text, Same: true, Rows: len(r.places)})
			return nil
		}
		w := writer{q: q, r: r, db: b.db}
		w.template(b.single)
		r.Targets = append(r.Targets, Target{Shard: shard, Text: r.buf, Params: w.params(), Rows: len(r.places)})
		return nil
	}
	return b.split(q, r, set, folded)
}

// place finds a row's shard. unknown says that a parameter has no value yet.
func (b *insertBody) place(q *Query, row *insertRow, fold int) (shard int, unknown bool, err error) {
	rule := b.table.Rule
	if len(row.key) > keyColumnsMax {
		return 0, false, refuse("sharding keys of so many columns")
	}
	var vals [keyColumnsMax]Value
	for i := range row.key {
		v, ok := value(q, &row.key[i], fold)
		if !ok {
			if q.Prepared && len(q.Params) == 0 {
				return 0, true, nil
			}
			return 0, false, b.notDecidable(i)
		}
		if rule.Keys[i] == b.table.AutoIncrement && zeroID(v) && len(b.db.Shards) > 1 {
			return 0, false, refuse("AUTO_INCREMENT as the sharding key " + b.table.Name + "." + rule.Columns[i].Name + ": give its value")
		}
		vals[i] = v
	}
	if row.auto != nil {
		v, ok := value(q, row.auto, fold)
		if !ok && q.Prepared && len(q.Params) == 0 {
			return 0, true, nil
		}
		if !ok || zeroID(v) {
			return 0, false, refuse("AUTO_INCREMENT in the sharded table " + b.table.Name + " by 0, NULL or an expression")
		}
	}
	shard, err = rule.Assign(vals[:len(row.key)], KeyContext{})
	if errors.Is(err, ErrNotDecidable) {
		err = refuse(err.Error())
	}
	return shard, false, err
}

func (b *insertBody) notDecidable(i int) error {
	return refuse("this value for the sharding key " + b.table.Name + "." + b.table.Rule.Columns[i].Name)
}

// split writes one statement for each shard, its rows in their order.
func (b *insertBody) split(q *Query, r *Route, set ShardSet, folded bool) error {
	w := writer{q: q, r: r, db: b.db}
	type part struct {
		text, params [2]int
		rows         int
	}
	parts := make([]part, 0, set.Len())
	for shard := range set.Each() {
		p := part{text: [2]int{len(r.buf), 0}, params: [2]int{len(r.params), 0}}
		w.template(b.prefix)
		for i, s := range r.places {
			if int(s) != shard {
				continue
			}
			if p.rows++; p.rows > 1 {
				r.buf = append(r.buf, ',')
			}
			if folded {
				w.row = i
				w.template(b.rows[0].text)
				w.row = 0
			} else {
				w.template(b.rows[i].text)
			}
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
		t := Target{Shard: shard, Text: r.buf[p.text[0]:p.text[1]], Rows: p.rows}
		if q.Prepared {
			t.Params = r.params[p.params[0]:p.params[1]]
		}
		r.Targets = append(r.Targets, t)
	}
	return nil
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
		s.WriteString(" of " + b.table.Name + "\n")
	}
	if b.single != nil {
		s.WriteString("  single: " + b.single.String() + "\n")
	}
	if b.prefix != nil {
		s.WriteString("  split: " + b.prefix.String() + "{rows}" + b.suffix.String() + "\n")
	}
}
