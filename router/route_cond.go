package router

import "math"

// evaluate gives the shards on which a condition can hold, of n.
func evaluate(c cond, q *Query, n int) ShardSet {
	switch c := c.(type) {
	case condAnd:
		set := AllShards(n)
		for _, x := range c {
			set = set.And(evaluate(x, q, n))
		}
		return c.between(q, set)
	case condOr:
		set := NoShards(n)
		for _, x := range c {
			set = set.Or(evaluate(x, q, n))
		}
		return set
	case *condKey:
		return c.evaluate(q, n)
	case *condRange:
		return c.evaluate(q, n)
	case *condAssign:
		return c.evaluate(q, n)
	}
	return AllShards(n)
}

// betweenMax is how many keys between two bounds are looked at one by one.
const betweenMax = 64

// between narrows the set by bounds on both sides of an integer key: between 7
// and 9 are three keys, wherever the rule puts them.
func (c condAnd) between(q *Query, set ShardSet) ShardSet {
	low, high := int64(math.MinInt64), int64(math.MaxInt64)
	var rule *Rule
	for _, x := range c {
		r, ok := x.(*condRange)
		if !ok || rule != nil && r.rule != rule {
			continue
		}
		v, ok := value(q, &r.value, 0)
		if !ok || v.Kind != ValueInt || v.Int == math.MinInt64 || v.Int == math.MaxInt64 {
			continue
		}
		rule = r.rule
		switch r.op {
		case RangeLess:
			high = min(high, v.Int-1)
		case RangeLessEqual:
			high = min(high, v.Int)
		case RangeGreater:
			low = max(low, v.Int+1)
		case RangeGreaterEqual:
			low = max(low, v.Int)
		}
	}
	if rule == nil || !rule.integer() || low == math.MinInt64 || high == math.MaxInt64 {
		return set
	}
	keys := NoShards(rule.Shards)
	if low <= high {
		if high-low >= betweenMax || high-low < 0 {
			return set
		}
		ctx := q.KeyContext()
		for k := low; k <= high; k++ {
			vals := [1]Value{IntValue(k)}
			keys = keys.Or(rule.Compare(vals[:], ctx))
		}
	}
	return set.And(keys)
}

const (
	keyColumnsMax = 8
	// productMax bounds the combinations of values that are looked at for a key
	// of several columns: beyond it all shards are asked.
	productMax = 4096
)

// evaluate unites the shards of every combination of the columns' values.
func (c *condKey) evaluate(q *Query, n int) ShardSet {
	if len(c.cols) > keyColumnsMax {
		return AllShards(n)
	}
	total := 1
	for _, list := range c.cols {
		if total *= countValues(q, list); total > productMax && len(c.cols) > 1 {
			return AllShards(n)
		}
	}
	var vals [keyColumnsMax]Value
	ctx := q.KeyContext()
	ctx.Mixed, ctx.Rows = c.mixed(q), c.rows
	return c.combine(q, n, 0, &vals, ctx)
}

// combine goes through the values of column i and those behind it.
func (c *condKey) combine(q *Query, n, i int, vals *[keyColumnsMax]Value, ctx KeyContext) ShardSet {
	if i == len(c.cols) {
		return c.rule.Compare(vals[:len(c.cols)], ctx)
	}
	set := NoShards(n)
	for j := range c.cols[i] {
		o := &c.cols[i][j]
		count := 1
		if o.kind == operandHole {
			count = int(q.Holes[o.hole].N)
		}
		for k := range count {
			v, ok := listValue(q, o, k)
			if !ok || v.Kind == ValueNull && c.nullSafe {
				return AllShards(n)
			}
			if v.Kind == ValueNull {
				continue // equal to nothing
			}
			vals[i] = v
			if set = set.Or(c.combine(q, n, i+1, vals, ctx)); set.All() {
				return set
			}
		}
	}
	return set
}

func countValues(q *Query, list []operand) int {
	n := 0
	for i := range list {
		if list[i].kind == operandHole {
			n += int(q.Holes[list[i].hole].N)
		} else {
			n++
		}
	}
	return n
}

// mixed tells whether an IN list has values of several kinds, which the server
// may compare as floating-point numbers.
func (c *condKey) mixed(q *Query) bool {
	for _, list := range c.cols {
		if countValues(q, list) < 2 {
			continue
		}
		first := ValueUnknown
		for i := range list {
			if list[i].kind != operandHole {
				continue
			}
			o := q.Holes[list[i].hole]
			for k := range int(o.N) {
				v, ok := listValue(q, &list[i], k)
				if !ok || q.Literals[o.First].Class != ClassParam && k > 0 {
					break // a folded list is of one class
				}
				kind := v.Kind
				if kind == ValueUint {
					kind = ValueInt
				}
				if first == ValueUnknown {
					first = kind
				}
				if kind != ValueNull && first != kind {
					return true
				}
			}
		}
	}
	return false
}

func (c *condRange) evaluate(q *Query, n int) ShardSet {
	v, ok := value(q, &c.value, 0)
	if !ok {
		return AllShards(n)
	}
	return c.rule.CompareRange(c.op, v, q.KeyContext())
}

func (c *condAssign) evaluate(q *Query, n int) ShardSet {
	if len(c.key) > keyColumnsMax {
		return AllShards(n)
	}
	var vals [keyColumnsMax]Value
	for i := range c.key {
		v, ok := value(q, &c.key[i], 0)
		if !ok {
			return AllShards(n)
		}
		vals[i] = v
	}
	shard, err := c.rule.Assign(vals[:len(c.key)], q.KeyContext())
	if err != nil {
		return AllShards(n)
	}
	return OneShard(n, shard)
}

// listValue is value k of an operand that may be a folded list.
func listValue(q *Query, o *operand, k int) (Value, bool) {
	if o.kind != operandHole {
		return value(q, o, 0)
	}
	return literal(q, int(q.Holes[o.hole].First)+k)
}

// value is an operand's value, in row number row of a folded VALUES list. ok is
// false when it is not known.
func value(q *Query, o *operand, row int) (Value, bool) {
	switch o.kind {
	case operandHole:
		lit := int(q.Holes[o.hole].First)
		if row > 0 {
			lit += row * int(q.Rows.PerRow)
		}
		return literal(q, lit)
	case operandNull:
		return Value{Kind: ValueNull}, true
	case operandInt:
		return IntValue(o.n), true
	case operandText:
		return Value{Kind: ValueString, Bytes: []byte(o.text), Charset: "utf8mb4"}, true
	case operandUnary:
		v, ok := value(q, o.left, row)
		if !ok || v.Kind == ValueNull {
			return v, ok
		}
		return q.Negate(v)
	case operandSum:
		return sum(q, o, row)
	}
	return Value{}, false
}

// literal decodes literal lit of the statement, or its parameter.
func literal(q *Query, lit int) (Value, bool) {
	if q.Literals[lit].Class == ClassParam {
		i := paramIndex(q, lit)
		if i >= len(q.Params) {
			return Value{}, false
		}
		return q.Params[i].Decode(q.Charset), true
	}
	v, err := q.Value(q.Literals[lit].Class, q.LiteralBytes(lit))
	return v, err == nil
}

// sum computes with signed integers; ok is false for everything else, and where
// the result is not exact.
func sum(q *Query, o *operand, row int) (Value, bool) {
	l, ok := value(q, o.left, row)
	r, ok2 := value(q, o.right, row)
	if !ok || !ok2 || l.Kind != ValueInt || r.Kind != ValueInt {
		return Value{}, false
	}
	const limit = math.MaxInt32
	if l.Int > limit || l.Int < -limit || r.Int > limit || r.Int < -limit {
		return Value{}, false
	}
	switch o.op {
	case '+':
		return IntValue(l.Int + r.Int), true
	case '-':
		return IntValue(l.Int - r.Int), true
	}
	return IntValue(l.Int * r.Int), true
}
