package router

import (
	"math"
	"strconv"
)

// match is how much is known of the column's values that equal a literal.
type match uint8

const (
	matchAll  match = iota // they can be anything
	matchOne               // all have the same canonical bytes
	matchNone              // there are none
)

// compare appends the canonical bytes of every value of the column that the
// server finds equal to v, where they are the same for all (matchOne).
func (c *keyColumn) compare(dst []byte, v *Value, ctx *KeyContext) ([]byte, match) {
	if v.Kind == ValueNull {
		return dst, matchNone
	}
	if ctx.Rows && !c.plain(v) {
		return dst, matchAll
	}
	switch c.kind {
	case keyInteger:
		return c.compareInteger(dst, v, ctx)
	case keyDecimal:
		return c.compareDecimal(dst, v, ctx)
	}
	if ctx.Mixed {
		return dst, matchAll
	}
	switch c.kind {
	case keyDate, keyDatetime:
		t, ok := timeOf(v)
		switch {
		case !ok:
			return dst, matchAll
		case c.kind == keyDatetime && t.fits(c.fraction):
			return t.append(dst), matchOne
		case c.kind == keyDate && t.midnight():
			return t.appendDate(dst), matchOne
		}
		return dst, matchAll
	}
	switch v.Kind {
	case ValueString, ValueHexX, ValueHex0, ValueBit:
	default:
		return dst, matchAll // a number: '42', '042' and '42abc' equal 42
	}
	var ok bool
	if c.kind == keyBinary {
		dst, ok = c.appendBinary(dst, v.Bytes, v, ctx, math.MaxInt)
	} else {
		dst, ok = c.appendText(dst, v.Bytes, ctx.textSource(v), math.MaxInt)
	}
	if !ok {
		return dst, matchAll
	}
	return dst, matchOne
}

// plain tells whether a value is one of the column's own kind and range. MySQL
// keeps a list of rows by the type that it compares a column as, and what does not
// fit is converted: 7.4 becomes 7, and -1 the largest unsigned number.
func (c *keyColumn) plain(v *Value) bool {
	switch c.kind {
	case keyInteger:
		neg, u, m := c.integerEqual(v)
		return (v.Kind == ValueInt || v.Kind == ValueUint) && m == matchOne && (neg && u <= uint64(-c.min) || !neg && u <= c.max)
	case keyDecimal:
		return v.Kind == ValueInt || v.Kind == ValueUint || v.Kind == ValueDecimal
	case keyText, keyBinary:
		return v.Kind == ValueString
	}
	return false
}

func (c *keyColumn) compareInteger(dst []byte, v *Value, ctx *KeyContext) ([]byte, match) {
	neg, u, m := c.integerEqual(v)
	if m != matchOne {
		if m == matchNone && ctx.Mixed {
			m = matchAll
		}
		return dst, m
	}
	if ctx.Mixed && u >= exactFloat {
		return dst, matchAll // compared as doubles its neighbours are equal too
	}
	if neg && u > uint64(-c.min) || !neg && u > c.max {
		return dst, matchNone
	}
	return appendInteger(dst, neg, u), matchOne
}

// integerEqual is the integer that equals v (with neg only below zero).
func (c *keyColumn) integerEqual(v *Value) (neg bool, u uint64, m match) {
	var d decimal
	switch v.Kind {
	case ValueInt:
		if v.Int < 0 {
			return true, -uint64(v.Int), matchOne
		}
		return false, uint64(v.Int), matchOne
	case ValueUint:
		return false, v.Uint, matchOne
	case ValueFloat:
		switch f := v.Float; {
		case math.Abs(f) >= exactFloat:
			return false, 0, matchAll
		case f != math.Trunc(f):
			return false, 0, matchNone
		default:
			return f < 0, uint64(math.Abs(f)), matchOne
		}
	case ValueDecimal:
		if used, ok := d.parse(v.Bytes); !ok || used != len(v.Bytes) {
			return false, 0, matchAll
		}
		if !d.integer() {
			return false, 0, matchNone
		}
		if u, ok := d.magnitude(); ok {
			return d.neg, u, matchOne
		}
		return false, 0, matchNone // beyond every integer column
	}
	if n, ok := c.bytesNumber(v); ok {
		if len(v.Bytes) == 0 || len(v.Bytes) > 8 || n > math.MaxInt64 {
			return false, 0, matchAll
		}
		return false, n, matchOne
	}
	if v.Kind != ValueString && v.Kind != ValueHexX {
		return false, 0, matchAll
	}
	_, whole, ok := d.parseText(v)
	if !ok || !d.integer() {
		return false, 0, matchAll
	}
	u, ok = d.magnitude()
	// Text is compared as a double; a whole integer exactly (seen on both servers).
	if !ok || u >= exactFloat && !whole {
		return false, 0, matchAll
	}
	return d.neg, u, matchOne
}

func (c *keyColumn) compareDecimal(dst []byte, v *Value, ctx *KeyContext) ([]byte, match) {
	// Each decimal of up to 15 digits has a double of its own: there, comparing as
	// doubles finds one decimal at most.
	asDouble := c.precision <= 15
	var d decimal
	var buf [400]byte
	switch v.Kind {
	case ValueInt, ValueUint, ValueDecimal:
		var err error
		if d, err = c.decimalOf(v); err != nil || ctx.Mixed && (!asDouble || d.n > 15) {
			return dst, matchAll
		}
	case ValueFloat:
		if !asDouble || math.Abs(v.Float) > 1e15 {
			return dst, matchAll
		}
		if _, ok := d.parse(strconv.AppendFloat(buf[:0], v.Float, 'f', -1, 64)); !ok {
			return dst, matchAll
		}
	case ValueString:
		used, _, ok := d.parseText(v)
		if !ok || !asDouble || d.n > 15 || len(used) > 40 {
			return dst, matchAll
		}
	default:
		return dst, matchAll
	}
	if d.n-d.point > c.scale || d.point > c.precision-c.scale {
		if ctx.Mixed {
			return dst, matchAll
		}
		return dst, matchNone
	}
	return d.append(dst), matchOne
}

// bound appends the canonical bytes of a bound that the column is ordered
// against; ok is false when its place in the column's order is not certain. For an
// integer column it may lie between two integers.
func (c *keyColumn) bound(dst []byte, v *Value, ctx *KeyContext) (out []byte, ok bool) {
	switch c.kind {
	case keyInteger:
		var d decimal
		var buf [400]byte
		switch v.Kind {
		case ValueInt:
			return strconv.AppendInt(dst, v.Int, 10), !ctx.Mixed || v.Int < exactFloat && v.Int > -exactFloat
		case ValueUint:
			return strconv.AppendUint(dst, v.Uint, 10), !ctx.Mixed
		case ValueDecimal:
			used, ok := d.parse(v.Bytes)
			return d.append(dst), ok && used == len(v.Bytes)
		case ValueFloat:
			if math.Abs(v.Float) >= exactFloat {
				return dst, false
			}
			_, ok := d.parse(strconv.AppendFloat(buf[:0], v.Float, 'f', -1, 64))
			return d.append(dst), ok
		case ValueString:
			_, whole, ok := d.parseText(v)
			u, small := d.magnitude()
			return d.append(dst), ok && whole && small && u < exactFloat
		}
		return dst, false
	case keyDate, keyDatetime:
		// A time of day within a date, or a fraction within a second, lies inside
		// the part that its canonical form is in: the bound itself is included.
		t, ok := timeOf(v)
		if !ok || ctx.Mixed {
			return dst, false
		}
		if c.kind == keyDate {
			return t.appendDate(dst), true
		}
		return t.append(dst), true
	}
	dst, m := c.compare(dst, v, ctx)
	return dst, m == matchOne
}
