package merge

import (
	"io"

	"braid/internal/mysql"
)

// grouper turns adjacent rows of a source that are equal by its first keys
// into one row. It holds one row and one set of key values.
type grouper struct {
	src  *source
	keys int // leading keys of the source that make a group
	last []cell
	own  [][]byte // last's bytes

	aggs     []accumulator // none: DISTINCT
	byCol    []int         // index into aggs for each column, or -1
	byWeight []int         // the same for the weight of a MIN or MAX, which goes with it
	combine  bool
	distinct int // most keys behind the group's that an aggregate looks at
	scan     int // columns that the aggregates read
	fields   []field

	first   []byte // copy of the group's first row
	out     []byte
	value   []byte
	pending bool // the source's current row begins the next group
	begun   bool // last is set
}

func newGrouper(src *source, spec *Spec, opt *Options) (*grouper, error) {
	g := &grouper{src: src, keys: len(spec.Group), combine: spec.Aggregate}
	if !sameKeys(spec.Group, spec.Order) {
		return nil, broken("Merge group keys are not the first sort keys")
	}
	if spec.Aggregate {
		if err := g.compileAggs(spec, opt); err != nil {
			return nil, err
		}
	}
	n := g.keys + g.distinct
	g.last, g.own = make([]cell, n), make([][]byte, n)
	return g, nil
}

func (g *grouper) compileAggs(spec *Spec, opt *Options) error {
	l := g.src.lay
	g.byCol, g.byWeight = make([]int, len(l.cols)), make([]int, len(l.cols))
	for i := range g.byCol {
		g.byCol[i], g.byWeight[i] = -1, -1
	}
	for i := range spec.Aggs {
		a := &spec.Aggs[i]
		acc, err := compileAgg(a, l, opt)
		if err != nil {
			return err
		}
		if acc.distinct > 0 && (len(spec.Order) < g.keys || !sameKeys(a.Distinct, spec.Order[g.keys:])) {
			return broken("Merge DISTINCT keys do not follow the group keys")
		}
		switch a.Kind {
		case AggCountDistinct, AggSumDistinct, AggAvgDistinct:
			if acc.distinct == 0 {
				return broken("Merge DISTINCT aggregate without keys")
			}
		}
		g.distinct = max(g.distinct, acc.distinct)
		g.scan = max(g.scan, acc.col+1, acc.sumCol+1, acc.countCol+1)
		for _, k := range acc.order.keys {
			g.scan = max(g.scan, k.col+1)
			if k.col != acc.col {
				g.byWeight[k.col] = len(g.aggs)
			}
		}
		g.byCol[acc.col] = len(g.aggs)
		g.aggs = append(g.aggs, acc)
	}
	g.fields = make([]field, len(l.cols))
	return nil
}

// sameKeys tells whether keys is a permutation of the first len(keys) of order.
func sameKeys(keys, order []Key) bool {
	if len(keys) > len(order) {
		return false
	}
	for _, k := range keys {
		found := false
		for _, o := range order[:len(keys)] {
			found = found || k.Col == o.Col && k.Weight == o.Weight && k.NumericCol == o.NumericCol
		}
		if !found {
			return false
		}
	}
	return true
}

func (g *grouper) next() (mysql.Row, error) {
	if !g.combine {
		return g.nextDistinct()
	}
	if !g.pending {
		row, err := g.src.next()
		if err != nil {
			return nil, err
		}
		g.first = append(g.first[:0], row...)
	} else {
		g.first = append(g.first[:0], g.src.rows[g.src.cur]...)
	}
	g.pending = false
	for i := range g.aggs {
		g.aggs[i].reset()
	}
	if err := g.add(g.first, true); err != nil {
		return nil, err
	}
	for n := 1; ; n++ {
		row, err := g.src.next()
		if err == io.EOF {
			return g.finish(n)
		}
		if err != nil {
			return nil, err
		}
		if g.keys > 0 {
			same, err := g.equal(g.keys)
			if err != nil {
				return nil, err
			}
			if !same {
				g.pending = true
				return g.finish(n)
			}
		}
		if err := g.add(row, false); err != nil {
			return nil, err
		}
	}
}

func (g *grouper) nextDistinct() (mysql.Row, error) {
	for {
		row, err := g.src.next()
		if err != nil {
			return nil, err
		}
		if g.begun {
			same, err := g.equal(g.keys)
			if err != nil {
				return nil, err
			}
			if same {
				continue
			}
		}
		g.begun = true
		g.keep()
		return row, nil
	}
}

// equal compares the source's current row with the kept key values by the first n keys.
func (g *grouper) equal(n int) (bool, error) {
	x, y := &g.src.current()[0], &g.last[0]
	if x.rank != y.rank || x.u != y.u { // the usual case, for speed
		return false, nil
	}
	same := g.src.keys.compareFirst(g.src.current(), g.last, n) == 0
	if g.src.keys.unsure {
		return false, unsureError()
	}
	return same, nil
}

// keep remembers the key values of the source's current row.
func (g *grouper) keep() {
	if len(g.last) == 0 {
		return
	}
	copy(g.last, g.src.current())
	for i := range g.last {
		if c := &g.last[i]; c.b != nil {
			g.own[i] = append(g.own[i][:0], c.b...)
			c.b = g.own[i]
		}
	}
}

// add takes the source's current row into the group. first says that it begins it.
func (g *grouper) add(row []byte, first bool) error {
	if _, ok := g.src.lay.scan(row, g.scan, g.fields); !ok {
		return broken("Malformed row from shard %s", g.src.names(g.src.cur))
	}
	for i := range g.aggs {
		a := &g.aggs[i]
		fresh := false
		if a.distinct > 0 {
			fresh = first
			if !first {
				same, err := g.equal(g.keys + a.distinct)
				if err != nil {
					return err
				}
				fresh = !same
			}
			for _, c := range g.src.current()[g.keys : g.keys+a.distinct] {
				fresh = fresh && !c.null
			}
		}
		if !a.add(g.src.lay, row, g.fields, fresh) {
			return broken("Malformed row from shard %s: value of `%s`", g.src.names(g.src.cur), g.src.lay.cols[a.col].Name)
		}
	}
	if first || g.distinct > 0 {
		g.keep()
	}
	return nil
}

// finish gives the row of the n rows taken in: the first one, with the
// combined values in it. The weight of a MIN or MAX is combined with it, since
// Spec.Sort may order by it.
func (g *grouper) finish(n int) (mysql.Row, error) {
	if n == 1 || len(g.aggs) == 0 {
		return g.first, nil
	}
	l := g.src.lay
	if _, ok := l.scan(g.first, len(l.cols), g.fields); !ok {
		return nil, broken("Malformed row of a group")
	}
	out := g.out[:0]
	if l.binary {
		out = append(out, 0)
		for range nullBytes(len(l.cols)) {
			out = append(out, 0)
		}
	}
	for c := range l.cols {
		var v []byte
		f := g.fields[c]
		null := f.null()
		if i := g.byCol[c]; i >= 0 {
			var err error
			if g.value, null, err = g.aggs[i].appendResult(g.value[:0], l); err != nil {
				return nil, err
			}
			v = g.value
		} else if i := g.byWeight[c]; i >= 0 {
			null, v = !g.aggs[i].any, g.aggs[i].weight
		} else if !null {
			v = f.of(g.first)
		}
		switch {
		case !null:
			out = l.appendValue(out, c, v)
		case l.binary:
			out[1+(c+2)/8] |= 1 << ((c + 2) % 8)
		default:
			out = append(out, 0xfb)
		}
	}
	g.out = out
	return out, nil
}
