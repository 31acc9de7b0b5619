package router

import (
	"slices"

	"github.com/pingcap/tidb/pkg/parser/ast"
)

// listSplit is an IN list on the whole sharding key that every row of the
// statement fulfils. A shard has no rows of other shards' values, so each gets
// only those that may be its own.
type listSplit struct {
	rule *Rule
	list []operand
	text template // the statement for several shards
}

// splitList finds a list to split among the conditions that hold for every row
// of the statement; nil when there is none. The column has to be the key itself:
// one that a join makes equal to it may have rows on every shard.
func (f *found) splitList(src *source, text template) *listSplit {
	if len(src.rule.Keys) != 1 || !src.rule.integer() && src.rule.Columns[0].Collation == "" {
		return nil
	}
	b := f.blocks[0]
	for _, set := range b.sets {
		if set.narrows != nil {
			continue
		}
		for _, e := range set.conj {
			x, ok := unparen(e).(*ast.PatternInExpr)
			if !ok {
				continue
			}
			col := f.columnOf(b, x.Expr)
			if col.ref == nil || !contains(src.refs, col.ref) || col.ref.table.Rule.Keys[0] != col.col {
				continue
			}
			c := conds{f: f, b: b, ref: col.ref, rule: src.rule}
			_, parts := c.in(x)
			if len(parts) != 1 || !slices.ContainsFunc(parts[0].values, func(o operand) bool { return o.kind == operandHole }) {
				continue
			}
			if text == nil {
				text = f.shape.slice(0, len(f.shape.text), nil)
			}
			return &listSplit{src.rule, parts[0].values, text}
		}
	}
	return nil
}

// owners finds the shards that may have rows of each literal of the list, in
// order. ok is false when the list is better sent whole: a value is not known,
// the values or the key are not alike, so that the server converts and may
// warn, or each shard would get all of it.
func (l *listSplit) owners(q *Query, owners []ShardSet) (_ []ShardSet, ok bool) {
	if countValues(q, l.list) < 2 {
		return owners, false
	}
	ctx := q.KeyContext()
	split := false
	for i := range l.list {
		o := &l.list[i]
		count := 1
		if o.kind == operandHole {
			count = int(q.Holes[o.hole].N)
		}
		for k := range count {
			v, ok := listValue(q, o, k)
			integer := v.Kind == ValueInt || v.Kind == ValueUint
			switch {
			case !ok, v.Kind != ValueNull && integer != l.rule.integer(), !integer && v.Kind != ValueNull && v.Kind != ValueString:
				return owners, false
			case o.kind != operandHole:
				continue // stays as it is
			}
			set := NoShards(l.rule.Shards)
			if v.Kind != ValueNull {
				vals := [1]Value{v}
				set = l.rule.Compare(vals[:], ctx)
			}
			split = split || !set.All()
			owners = append(owners, set)
		}
	}
	return owners, split
}

// split sends each shard of the set the statement with its own values; false
// when the list has to be sent whole.
func (l *listSplit) split(q *Query, r *Route, w writer, set ShardSet) bool {
	var ok bool
	if r.owners, ok = l.owners(q, r.owners[:0]); !ok {
		return false
	}
	w.list = l
	for i := range set.Each() {
		w.shard, w.own = i, l.own(q, r.owners, i)
		at, from := len(r.buf), len(r.params)
		w.template(l.text)
		t := Target{Shard: i, Text: r.buf[at:len(r.buf):len(r.buf)]}
		if params := w.params(); params != nil {
			t.Params = params[from:len(params):len(params)]
		}
		r.Targets = append(r.Targets, t)
	}
	return true
}

// own finds the shard's first value among the list's parameters, by literal; -1
// when there is none.
func (l *listSplit) own(q *Query, owners []ShardSet, shard int) int {
	at := 0
	for i := range l.list {
		if l.list[i].kind != operandHole {
			continue
		}
		hole := q.Holes[l.list[i].hole]
		if q.Literals[hole.First].Class == ClassParam && owners[at].Has(shard) {
			return int(hole.First)
		}
		at += int(hole.N)
	}
	return -1
}

// ownValues writes the shard's own literals of hole h, and tells whether the
// hole is one of the list's. Where none is the shard's, NULL is in their place:
// nothing equals it. In the place of a parameter that is not the shard's stands
// one that is, so that a node has one text to prepare, whatever the values.
func (w *writer) ownValues(h int) bool {
	q, r := w.q, w.r
	at := 0
	for i := range w.list.list {
		o := &w.list.list[i]
		if o.kind != operandHole {
			continue
		}
		hole := q.Holes[o.hole]
		if o.hole != h {
			at += int(hole.N)
			continue
		}
		if first := int(hole.First); q.Literals[first].Class == ClassParam {
			if !r.owners[at].Has(w.shard) && w.own >= 0 {
				first = w.own
			}
			r.buf = append(r.buf, '?')
			r.params = append(r.params, ParamRef{Index: paramIndex(q, first)})
			return true
		}
		n := 0
		for k := range int(hole.N) {
			if !r.owners[at+k].Has(w.shard) {
				continue
			}
			if n++; n > 1 {
				r.buf = append(r.buf, ',')
			}
			r.buf = append(r.buf, q.LiteralBytes(int(hole.First)+k)...)
		}
		if n == 0 {
			r.buf = append(r.buf, "NULL"...)
		}
		return true
	}
	return false
}
