package merge

import (
	"bytes"
	"encoding/binary"
	"math"
	"strconv"
)

// The functions of this file turn values of both protocols into numbers that
// compare as the values do. None allocates; ok is false for a malformed value.

const signBit = 1 << 63

// textInt parses the digits of an integer; the result is two's complement
// unless unsigned.
func textInt(v []byte, unsigned bool) (u uint64, ok bool) {
	if len(v) == 0 {
		return 0, false
	}
	neg := v[0] == '-'
	if neg {
		v = v[1:]
		if unsigned || len(v) == 0 {
			return 0, false
		}
	}
	if len(v) > 18 {
		return textLongInt(v, neg, unsigned)
	}
	for _, d := range v {
		d -= '0'
		if d > 9 {
			return 0, false
		}
		u = u*10 + uint64(d)
	}
	if neg {
		u = -u
	}
	return u, true
}

func textLongInt(v []byte, neg, unsigned bool) (u uint64, ok bool) {
	for _, d := range v {
		d -= '0'
		if d > 9 || u > math.MaxUint64/10 || u == math.MaxUint64/10 && d > 5 {
			return 0, false
		}
		u = u*10 + uint64(d)
	}
	switch {
	case neg && u > signBit, !neg && !unsigned && u >= signBit:
		return 0, false
	case neg:
		u = -u
	}
	return u, true
}

// orderedDouble maps a double to a number of the same order; -0 equals 0.
func orderedDouble(f float64) uint64 {
	if f == 0 {
		return signBit
	}
	u := math.Float64bits(f)
	if u&signBit != 0 {
		return ^u
	}
	return u | signBit
}

// double decodes a FLOAT's or DOUBLE's value.
func double(v []byte, isBinary bool) (f float64, ok bool) {
	if !isBinary {
		f, err := strconv.ParseFloat(string(v), 64)
		return f, err == nil && !math.IsNaN(f) && !math.IsInf(f, 0)
	}
	switch len(v) {
	case 4:
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(v))), true
	case 8:
		return math.Float64frombits(binary.LittleEndian.Uint64(v)), true
	}
	return 0, false
}

var pow10 = [...]uint64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19}

// decimal is the text of a DECIMAL taken apart: no leading zeros in whole, no
// trailing ones in frac. neg is false for zero.
type decimal struct {
	neg         bool
	whole, frac []byte
}

func splitDecimal(v []byte) (d decimal, ok bool) {
	if len(v) > 0 && v[0] == '-' {
		d.neg = true
		v = v[1:]
	}
	if len(v) == 0 {
		return d, false
	}
	d.whole = v
	if i := bytes.IndexByte(v, '.'); i >= 0 {
		d.whole, d.frac = v[:i], v[i+1:]
	}
	for _, s := range [2][]byte{d.whole, d.frac} {
		for _, c := range s {
			if c-'0' > 9 {
				return d, false
			}
		}
	}
	for len(d.whole) > 0 && d.whole[0] == '0' {
		d.whole = d.whole[1:]
	}
	for len(d.frac) > 0 && d.frac[len(d.frac)-1] == '0' {
		d.frac = d.frac[:len(d.frac)-1]
	}
	if len(d.whole)+len(d.frac) == 0 {
		d.neg = false
	}
	return d, true
}

// scaled gives d * 10^scale cut towards zero. exact is false when digits were
// cut off, or when the number has more than 18 digits: then it is the largest
// one of its sign.
func (d decimal) scaled(scale int) (n int64, exact bool) {
	if len(d.whole)+scale > 18 {
		if len(d.whole)+len(d.frac) == 0 {
			return 0, true
		}
		n = math.MaxInt64
	} else {
		exact = len(d.frac) <= scale
		for _, c := range d.whole {
			n = n*10 + int64(c-'0')
		}
		frac := d.frac[:min(len(d.frac), scale)]
		for _, c := range frac {
			n = n*10 + int64(c-'0')
		}
		n *= int64(pow10[scale-len(frac)])
	}
	if d.neg {
		n = -n
	}
	return n, exact
}

// shortDecimal gives v * 10^scale for a DECIMAL of at most 18 digits that has
// exactly so many decimals; ok is false for any other text, well-formed or not.
func shortDecimal(v []byte, scale int) (n int64, ok bool) {
	neg := len(v) > 0 && v[0] == '-'
	if neg {
		v = v[1:]
	}
	point := len(v)
	if scale > 0 {
		point -= scale + 1
	}
	if point < 1 || len(v) > 18 {
		return 0, false
	}
	for i, c := range v {
		d := c - '0'
		if d > 9 {
			if i != point || c != '.' {
				return 0, false
			}
			continue
		}
		n = n*10 + int64(d)
	}
	if point < len(v) && v[point] != '.' {
		return 0, false
	}
	if neg {
		n = -n
	}
	return n, true
}

// compareDecimals compares two DECIMAL texts of any length.
func compareDecimals(a, b []byte) int {
	x, _ := splitDecimal(a)
	y, _ := splitDecimal(b)
	if x.neg != y.neg {
		if x.neg {
			return -1
		}
		return 1
	}
	c := len(x.whole) - len(y.whole)
	if c == 0 {
		c = bytes.Compare(x.whole, y.whole)
	}
	if c == 0 {
		c = bytes.Compare(x.frac, y.frac) // without trailing zeros a prefix is the smaller
	}
	if x.neg {
		return -c
	}
	return c
}

// digits reads exactly n digits at v[at:].
func digits(v []byte, at, n int) (u uint64, ok bool) {
	if at+n > len(v) {
		return 0, false
	}
	for _, d := range v[at : at+n] {
		d -= '0'
		if d > 9 {
			return 0, false
		}
		u = u*10 + uint64(d)
	}
	return u, true
}

// textFraction reads ".ffffff", up to six digits or nothing, as microseconds.
func textFraction(v []byte) (us uint64, ok bool) {
	if len(v) == 0 {
		return 0, true
	}
	n := len(v) - 1
	if v[0] != '.' || n < 1 || n > 6 {
		return 0, false
	}
	us, ok = digits(v, 1, n)
	return us * pow10[6-n], ok
}

func packDatetime(year, month, day, hour, minute, second, us uint64) uint64 {
	return ((((year<<4|month)<<5|day)<<5|hour)<<6|minute)<<26 | second<<20 | us
}

// textDatetime packs "YYYY-MM-DD" or "YYYY-MM-DD hh:mm:ss[.ffffff]".
func textDatetime(v []byte) (u uint64, ok bool) {
	year, ok0 := digits(v, 0, 4)
	month, ok1 := digits(v, 5, 2)
	day, ok2 := digits(v, 8, 2)
	if !ok0 || !ok1 || !ok2 || v[4] != '-' || v[7] != '-' {
		return 0, false
	}
	if len(v) == 10 {
		return packDatetime(year, month, day, 0, 0, 0, 0), true
	}
	hour, ok0 := digits(v, 11, 2)
	minute, ok1 := digits(v, 14, 2)
	second, ok2 := digits(v, 17, 2)
	if !ok0 || !ok1 || !ok2 {
		return 0, false
	}
	us, ok := textFraction(v[19:])
	return packDatetime(year, month, day, hour, minute, second, us), ok
}

// binaryDatetime packs a DATE's, DATETIME's or TIMESTAMP's binary form: 0, 4, 7 or 11 bytes.
func binaryDatetime(v []byte) (u uint64, ok bool) {
	var year, month, day, hour, minute, second, us uint64
	switch len(v) {
	case 11:
		us = uint64(binary.LittleEndian.Uint32(v[7:]))
		fallthrough
	case 7:
		hour, minute, second = uint64(v[4]), uint64(v[5]), uint64(v[6])
		fallthrough
	case 4:
		year, month, day = uint64(binary.LittleEndian.Uint16(v)), uint64(v[2]), uint64(v[3])
	case 0:
	default:
		return 0, false
	}
	return packDatetime(year, month, day, hour, minute, second, us), true
}

// textTime gives the microseconds of "[-]hh:mm:ss[.ffffff]" with two hour digits or more.
func textTime(v []byte) (us int64, ok bool) {
	neg := len(v) > 0 && v[0] == '-'
	if neg {
		v = v[1:]
	}
	colon := bytes.IndexByte(v, ':')
	if colon < 1 || colon > 4 || len(v) < colon+6 {
		return 0, false
	}
	hour, ok0 := digits(v, 0, colon)
	minute, ok1 := digits(v, colon+1, 2)
	second, ok2 := digits(v, colon+4, 2)
	if !ok0 || !ok1 || !ok2 {
		return 0, false
	}
	fraction, ok := textFraction(v[colon+6:])
	us = int64((hour*3600+minute*60+second)*1e6 + fraction)
	if neg {
		us = -us
	}
	return us, ok
}

// binaryTime gives the microseconds of a TIME's binary form: 0, 8 or 12 bytes.
func binaryTime(v []byte) (us int64, ok bool) {
	switch len(v) {
	case 0:
		return 0, true
	case 12:
		us = int64(binary.LittleEndian.Uint32(v[8:]))
	case 8:
	default:
		return 0, false
	}
	days := int64(binary.LittleEndian.Uint32(v[1:]))
	us += (((days*24+int64(v[5]))*60+int64(v[6]))*60 + int64(v[7])) * 1e6
	if v[0] != 0 {
		us = -us
	}
	return us, true
}

// bit decodes a BIT's value, big-endian in both protocols.
func bit(v []byte) (u uint64, ok bool) {
	if len(v) > 8 {
		return 0, false
	}
	for _, b := range v {
		u = u<<8 | uint64(b)
	}
	return u, true
}
