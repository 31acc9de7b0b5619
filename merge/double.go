package merge

import "strconv"

// decimalsFloating is what a DOUBLE column without a fixed number of decimals
// says in its definition.
const decimalsFloating = 31

// appendDouble appends f, which is finite, as MySQL's text protocol shows a
// DOUBLE of that many decimals.
//
// Without fixed decimals (31) that is my_gcvt of strings/dtoa.cc: the shortest
// digits that read back as f, with an exponent when f is below 1e-15, or has
// more than 15 digits before the point and none behind it. With fixed decimals
// it is my_fcvt: the same digits, rounded, where there are too many.
func appendDouble(dst []byte, f float64, decimals int) []byte {
	var scratch [32]byte
	e := strconv.AppendFloat(scratch[:0], f, 'e', -1, 64) // -d.ddde±xx
	neg := e[0] == '-'
	if neg {
		e = e[1:]
	}
	var buf [20]byte
	n, i := 0, 0
	for ; e[i] != 'e'; i++ {
		if e[i] != '.' {
			buf[n] = e[i]
			n++
		}
	}
	exponent, _ := strconv.Atoi(string(e[i+1:]))
	digits, point := buf[:n], exponent+1 // f = 0.digits * 10^point
	if f == 0 {
		digits, point, neg = digits[:0], 0, false
	}
	if decimals < decimalsFloating {
		if n := point + decimals; n < len(digits) {
			// Too many: round f itself, not its shortest digits.
			return appendRounded(dst, f, decimals)
		}
		if neg {
			dst = append(dst, '-')
		}
		return appendPlain(dst, digits, point, decimals)
	}
	if neg {
		dst = append(dst, '-')
	}
	if len(digits) > 0 && (point < -14 || point > 15 && len(digits) <= point) {
		dst = append(dst, digits[0])
		if len(digits) > 1 {
			dst = append(append(dst, '.'), digits[1:]...)
		}
		return strconv.AppendInt(append(dst, 'e'), int64(point-1), 10)
	}
	return appendPlain(dst, digits, point, max(len(digits)-point, 0))
}

// appendPlain appends 0.digits * 10^point with so many decimals, which are enough.
func appendPlain(dst, digits []byte, point, decimals int) []byte {
	at := func(i int) byte { // the digit of weight 10^(point-1-i)
		if i < 0 || i >= len(digits) {
			return '0'
		}
		return digits[i]
	}
	if point <= 0 {
		dst = append(dst, '0')
	}
	for i := range point {
		dst = append(dst, at(i))
	}
	if decimals > 0 {
		dst = append(dst, '.')
	}
	for i := range decimals {
		dst = append(dst, at(point+i))
	}
	return dst
}

// appendRounded appends f rounded to so many decimals; a zero has no sign.
func appendRounded(dst []byte, f float64, decimals int) []byte {
	start := len(dst)
	dst = strconv.AppendFloat(dst, f, 'f', decimals, 64)
	if dst[start] != '-' {
		return dst
	}
	for _, c := range dst[start+1:] {
		if c != '0' && c != '.' {
			return dst
		}
	}
	return append(dst[:start], dst[start+1:]...)
}
