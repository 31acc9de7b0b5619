package router

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
)

// exactFloat bounds the integers that a double holds without gaps.
const exactFloat = 1 << 53

func (c *keyColumn) undecided(why string) error {
	return fmt.Errorf("column %s: %w (%s)", c.name, ErrNotDecidable, why)
}

// assign appends the canonical bytes of what the server stores for v.
func (c *keyColumn) assign(dst []byte, v *Value, ctx *KeyContext) (out []byte, null bool, err error) {
	if v.Kind == ValueNull {
		switch {
		case c.autoIncrement:
			return dst, false, c.undecided("the node would generate it")
		case c.nullable || ctx.Strict: // strict: error 1048 on any shard
			return dst, true, nil
		}
		return dst, false, c.undecided("NULL for a NOT NULL column")
	}
	switch c.kind {
	case keyInteger:
		out, err = c.assignInteger(dst, v, ctx)
	case keyDecimal:
		out, err = c.assignDecimal(dst, v)
	case keyDate, keyDatetime:
		out, err = c.assignTime(dst, v, ctx)
	default:
		out, err = c.assignText(dst, v, ctx)
	}
	return out, false, err
}

func (c *keyColumn) assignInteger(dst []byte, v *Value, ctx *KeyContext) ([]byte, error) {
	neg, u, err := c.integerOf(v)
	if err != nil {
		return dst, err
	}
	if neg && u == 0 {
		neg = false
	}
	switch {
	case neg && (c.min == 0 || u > uint64(-c.min)):
		u, neg = uint64(-c.min), c.min != 0
	case !neg && u > c.max:
		u = c.max
	}
	if u == 0 && c.autoIncrement && !ctx.NoAutoValueOnZero {
		return dst, c.undecided("the node would generate it")
	}
	return appendInteger(dst, neg, u), nil
}

func appendInteger(dst []byte, neg bool, u uint64) []byte {
	if neg {
		dst = append(dst, '-')
	}
	return strconv.AppendUint(dst, u, 10)
}

// integerOf is v rounded to an integer as the server does for an integer column,
// with u at its maximum for all that is beyond.
func (c *keyColumn) integerOf(v *Value) (neg bool, u uint64, err error) {
	switch v.Kind {
	case ValueInt:
		if v.Int < 0 {
			return true, -uint64(v.Int), nil
		}
		return false, uint64(v.Int), nil
	case ValueUint:
		return false, v.Uint, nil
	case ValueFloat:
		f := math.RoundToEven(v.Float)
		if math.Abs(f) < exactFloat {
			return f < 0, uint64(math.Abs(f)), nil
		}
		return false, 0, c.undecided("a large floating-point number")
	case ValueDecimal:
		var d decimal
		if used, ok := d.parse(v.Bytes); !ok || used != len(v.Bytes) {
			return false, 0, c.undecided("a number of too many digits")
		}
		return d.rounded()
	}
	if n, ok := c.bytesNumber(v); ok {
		if len(v.Bytes) == 0 || len(v.Bytes) > 8 {
			return false, 0, c.undecided("a hexadecimal or bit literal that is no 64-bit number")
		}
		return false, n, nil
	}
	d, err := c.assignedNumber(v)
	if err != nil {
		return false, 0, err
	}
	// The server keeps 19 or 20 digits while it rounds; beyond them it may round twice.
	if d.n > 18 && !d.integer() {
		return false, 0, c.undecided("text of too many digits")
	}
	return d.rounded()
}

// rounded is d rounded to an integer, at most the largest uint64.
func (d *decimal) rounded() (neg bool, u uint64, err error) {
	d.round(0)
	u, ok := d.magnitude()
	if !ok {
		u = math.MaxUint64
	}
	return d.neg, u, nil
}

// bytesNumber is the number that x'..', 0x.. or b'..' is in a numeric context; ok
// is false for other kinds, and for x'..' on MariaDB, where it is a string.
func (c *keyColumn) bytesNumber(v *Value) (n uint64, ok bool) {
	if v.Kind != ValueHex0 && v.Kind != ValueBit && !(v.Kind == ValueHexX && c.flavour == MySQL) {
		return 0, false
	}
	for _, b := range v.Bytes {
		n = n<<8 | uint64(b)
	}
	return n, true
}

// assignedNumber is the number a text begins with, which is what the server
// stores when it does not refuse the text; 0 when there is none.
func (c *keyColumn) assignedNumber(v *Value) (d decimal, err error) {
	if v.Kind != ValueString && v.Kind != ValueHexX {
		return d, c.undecided("a value of this kind")
	}
	used, _, ok := d.parseText(v)
	// MariaDB reads on behind a second dot ('2020.01.02' is 202001).
	if !ok || bytes.Count(v.Bytes, []byte{'.'}) > bytes.Count(used, []byte{'.'}) {
		return d, c.undecided("text that may be another number to the server")
	}
	return d, nil
}

// parseText reads the number a string begins with, behind blanks. whole says
// that nothing but blanks follows it and that it is written without dot and
// exponent; used is the text of the number. ok is false where the server's reading
// is not certain.
func (d *decimal) parseText(v *Value) (used []byte, whole, ok bool) {
	if v.Kind == ValueString && textSourceOf(v.Charset) == sourceNone {
		return nil, false, false
	}
	b := v.Bytes
	for len(b) > 0 && isBlankByte(b[0]) {
		b = b[1:]
	}
	if len(b) > 0 && b[0] >= 0x80 {
		return nil, false, false // may be a blank too
	}
	n, ok := d.parse(b)
	used, b = b[:n], b[n:]
	for len(b) > 0 && isBlankByte(b[0]) {
		b = b[1:]
	}
	whole = len(b) == 0 && n > 0
	for i, c := range used {
		whole = whole && (isDigitByte(c) || i == 0)
	}
	return used, whole, ok
}

func (c *keyColumn) assignDecimal(dst []byte, v *Value) ([]byte, error) {
	d, err := c.decimalOf(v)
	if err != nil {
		return dst, err
	}
	d.round(c.scale)
	if d.neg && c.unsigned {
		d = decimal{}
	}
	d.clamp(c.precision, c.scale)
	return d.append(dst), nil
}

func (c *keyColumn) decimalOf(v *Value) (d decimal, err error) {
	switch v.Kind {
	case ValueInt:
		var buf [24]byte
		d.parse(strconv.AppendInt(buf[:0], v.Int, 10))
		return d, nil
	case ValueUint:
		var buf [24]byte
		d.parse(strconv.AppendUint(buf[:0], v.Uint, 10))
		return d, nil
	case ValueDecimal:
		if used, ok := d.parse(v.Bytes); !ok || used != len(v.Bytes) || d.n > 65 {
			return d, c.undecided("a number of too many digits")
		}
		return d, nil
	case ValueFloat:
		if v.Float != math.Trunc(v.Float) || math.Abs(v.Float) >= 1e15 {
			return d, c.undecided("a floating-point number for an exact one")
		}
		var buf [24]byte
		d.parse(strconv.AppendInt(buf[:0], int64(v.Float), 10))
		return d, nil
	}
	if n, ok := c.bytesNumber(v); ok {
		if len(v.Bytes) == 0 || len(v.Bytes) > 8 {
			return d, c.undecided("a hexadecimal or bit literal that is no 64-bit number")
		}
		var buf [24]byte
		d.parse(strconv.AppendUint(buf[:0], n, 10))
		return d, nil
	}
	if d, err = c.assignedNumber(v); err == nil && d.n > 30 {
		err = c.undecided("text of too many digits")
	}
	return d, err
}

func (c *keyColumn) assignTime(dst []byte, v *Value, ctx *KeyContext) ([]byte, error) {
	t, ok := timeOf(v)
	switch {
	case !ok:
		return dst, c.undecided("a date in a form that the server may read in several ways")
	case c.kind == keyDate:
		if t.Micros != 0 {
			return dst, c.undecided("a fraction of a second, which may round to the next day")
		}
		return t.appendDate(dst), nil
	case !t.fits(c.fraction):
		return dst, c.undecided("more digits of a second than the column holds")
	}
	return t.append(dst), nil
}

// timeOf is the date (and time) that v means to both servers alike.
func timeOf(v *Value) (t DateTime, ok bool) {
	switch v.Kind {
	case ValueDate, ValueDatetime:
		return v.Time, v.Time.valid()
	case ValueString:
		if textSourceOf(v.Charset) == sourceNone {
			return t, false
		}
		t, _, ok = parseDateTime(v.Bytes)
		return t, ok
	case ValueInt:
		// 20200131 and 20200131100000; shorter numbers have shorter years.
		if v.Int >= 1000_01_01 && v.Int <= 9999_12_31 || v.Int >= 1000_01_01_00_00_00 && v.Int <= 9999_12_31_23_59_59 {
			var buf [16]byte
			t, _, ok = parseDateTime(strconv.AppendInt(buf[:0], v.Int, 10))
			return t, ok
		}
	}
	return t, false
}

func (c *keyColumn) assignText(dst []byte, v *Value, ctx *KeyContext) ([]byte, error) {
	var buf [96]byte
	text, src := v.Bytes, ctx.textSource(v)
	switch v.Kind {
	case ValueString, ValueHexX, ValueHex0, ValueBit:
	case ValueInt:
		text = strconv.AppendInt(buf[:0], v.Int, 10)
	case ValueUint:
		text = strconv.AppendUint(buf[:0], v.Uint, 10)
	case ValueDecimal:
		var ok bool
		if text, ok = decimalText(buf[:0], v.Bytes); !ok {
			return dst, c.undecided("a number whose spelling is not certain")
		}
	case ValueDate:
		text = v.Time.appendDate(buf[:0])
	default:
		return dst, c.undecided("a value of this kind as text")
	}
	if v.Kind == ValueInt || v.Kind == ValueUint || v.Kind == ValueDecimal || v.Kind == ValueDate {
		src = sourceASCII
	}
	var ok bool
	if c.kind == keyBinary {
		if src == sourceASCII && v.Kind != ValueString {
			v = &Value{Kind: ValueHexX, Bytes: text} // its bytes are the same in all character sets
		}
		dst, ok = c.appendBinary(dst, text, v, ctx, c.length)
	} else {
		dst, ok = c.appendText(dst, text, src, c.length)
	}
	if !ok {
		return dst, c.undecided("text that the column's character set may not hold")
	}
	return dst, nil
}

// decimalText is how the server prints a decimal literal: no leading zeros but
// one, no dot without digits behind it.
func decimalText(dst, number []byte) (text []byte, ok bool) {
	neg := len(number) > 0 && number[0] == '-'
	if neg {
		number = number[1:]
	}
	for len(number) > 1 && number[0] == '0' && number[1] != '.' {
		number = number[1:]
	}
	dot := integerLen(number)
	if !isDecimal(number) || len(number) > 60 || len(number)-dot > 31 {
		return nil, false
	}
	zero := true
	for _, c := range number {
		zero = zero && (c == '0' || c == '.')
	}
	if neg && zero {
		return nil, false
	}
	if neg {
		dst = append(dst, '-')
	}
	if dot == 0 {
		dst = append(dst, '0')
	}
	if dot == len(number)-1 {
		number = number[:dot]
	}
	return append(dst, number...), true
}
