package router

import (
	"bytes"
	"errors"
	"fmt"
)

// RangeOp is a comparison by order, the key on its left.
type RangeOp uint8

const (
	RangeLess RangeOp = iota
	RangeLessEqual
	RangeGreater
	RangeGreaterEqual
)

// CompareRange returns the shards that can hold a row for which "key op v" is
// true. BETWEEN is two of them combined by And. Only a FunctionRange rule narrows
// the set; it is empty for NULL, and full for every other rule and in doubt.
func (r *Rule) CompareRange(op RangeOp, v Value, ctx KeyContext) ShardSet {
	if v.Kind == ValueNull {
		return NoShards(r.Shards)
	}
	if r.program == nil || r.Function != FunctionRange {
		return AllShards(r.Shards)
	}
	var memory [64]byte
	bound, ok := r.program.columns[0].bound(memory[:0], &v, &ctx)
	if !ok {
		return AllShards(r.Shards)
	}
	// The bound itself counts as inside: canonical bytes may be coarser than the
	// server's order, and one shard more is never wrong.
	at := r.rangeOf(bound)
	set := NoShards(r.Shards)
	for i, part := range r.Ranges {
		if i == at || (i < at) == (op == RangeLess || op == RangeLessEqual) {
			set = set.Or(OneShard(r.Shards, part.Shard))
		}
	}
	return set
}

// integer tells whether the key is one column of integers.
func (r *Rule) integer() bool {
	return r.program != nil && len(r.program.columns) == 1 && r.program.columns[0].kind == keyInteger
}

// rangeOf returns the index of the range a canonical key belongs to,
// len(r.Ranges) when it is above all of them.
func (r *Rule) rangeOf(key []byte) int {
	lo, hi := 0, len(r.program.bounds)
	for lo < hi {
		mid := (lo + hi) / 2
		if r.program.columns[0].order(key, r.program.bounds[mid]) < 0 {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return lo
}

// order compares two canonical values of the column as the server orders them.
func (c *keyColumn) order(a, b []byte) int {
	switch c.kind {
	case keyInteger:
		return compareNumbers(a, b)
	case keyText:
		return comparePadded(a, b)
	}
	return bytes.Compare(a, b)
}

// comparePadded orders text of a binary collation that pads with spaces.
func comparePadded(a, b []byte) int {
	n := min(len(a), len(b))
	if d := bytes.Compare(a[:n], b[:n]); d != 0 {
		return d
	}
	for _, c := range a[n:] {
		if c != ' ' {
			return int(c) - ' '
		}
	}
	for _, c := range b[n:] {
		if c != ' ' {
			return ' ' - int(c)
		}
	}
	return 0
}

// checkOrdered tells whether a rule by ranges or lists can stand on the columns.
func (p *keyProgram) checkOrdered(function string) error {
	if len(p.columns) != 1 {
		return fmt.Errorf("sharding function %q needs one key column", function)
	}
	switch c := &p.columns[0]; {
	case c.kind == keyDecimal, c.kind == keyText && !c.weights.Binary():
		return fmt.Errorf("sharding function %q needs a key of integers, dates or text with a binary collation; column %s has another type", function, c.name)
	}
	return nil
}

func (r *Rule) compileRanges(p *keyProgram) error {
	if err := p.checkOrdered("range"); err != nil {
		return err
	}
	if c := &p.columns[0]; c.kind == keyText && !c.weights.PadSpace() {
		// Canonical text has no trailing spaces, which such a collation orders.
		return fmt.Errorf("sharding function \"range\" cannot use column %s: its collation does not pad with spaces", c.name)
	}
	if len(r.Ranges) == 0 {
		return errors.New(`sharding function "range" needs at least one range`)
	}
	for i, part := range r.Ranges {
		if part.Shard < 0 || part.Shard >= r.Shards {
			return fmt.Errorf("range %d: there is no shard number %d", i+1, part.Shard)
		}
		if part.Unbounded {
			if i != len(r.Ranges)-1 {
				return fmt.Errorf("range %d has no less_than, but is not the last", i+1)
			}
			continue
		}
		key, err := p.columns[0].configured(part.LessThan)
		if err != nil {
			return fmt.Errorf("range %d: %w", i+1, err)
		}
		if i > 0 && p.columns[0].order(p.bounds[i-1], key) >= 0 {
			return fmt.Errorf("range %d: less_than %q is not above the range before", i+1, part.LessThan)
		}
		p.bounds = append(p.bounds, key)
	}
	return nil
}

func (r *Rule) compileList(p *keyProgram) error {
	if err := p.checkOrdered("list"); err != nil {
		return err
	}
	p.list = make(map[string]int, len(r.List))
	for text, shard := range r.List {
		if shard < 0 || shard >= r.Shards {
			return fmt.Errorf("list value %q: there is no shard number %d", text, shard)
		}
		key, err := p.columns[0].configured(text)
		if err != nil {
			return err
		}
		if other, ok := p.list[string(key)]; ok && other != shard {
			return fmt.Errorf("list value %q is the same key as one of another shard", text)
		}
		p.list[string(key)] = shard
	}
	return nil
}

// configured makes a value canonical that the operator wrote. An integer key's
// must be an integer that the column holds.
func (c *keyColumn) configured(text string) ([]byte, error) {
	v := Value{Kind: ValueString, Bytes: []byte(text), Charset: "utf8mb4"}
	if c.kind == keyInteger {
		var d decimal
		if used, ok := d.parse(v.Bytes); !ok || used != len(v.Bytes) || used == 0 || !d.integer() {
			return nil, fmt.Errorf("%q is not an integer", text)
		}
		return d.append(nil), nil
	}
	key, m := c.compare(nil, &v, &KeyContext{})
	if m != matchOne {
		return nil, fmt.Errorf("%q is not a value of column %s", text, c.name)
	}
	return key, nil
}
