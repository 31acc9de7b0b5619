package router

import "strconv"

// maxDigits is how many significant digits are kept exactly: more than any
// DECIMAL has (65).
const maxDigits = 82

// decimal is an exact number: 0.digits x 10^point. digits have neither leading
// nor trailing zeros; none at all is zero, which is never negative. The zero
// value is the number 0.
type decimal struct {
	neg    bool
	point  int
	n      int
	digits [maxDigits]byte // '0'..'9'
}

// parse reads a number from the start of b: sign, digits with at most one dot,
// exponent. used is the number of bytes it took, 0 when there are no digits. ok is
// false when the number cannot be held exactly.
func (d *decimal) parse(b []byte) (used int, ok bool) {
	*d = decimal{}
	i := 0
	if i < len(b) && (b[i] == '-' || b[i] == '+') {
		d.neg = b[i] == '-'
		i++
	}
	ok = true
	seen, dot := false, false
	zeros := 0 // zeros held back: trailing ones count only when a digit follows
	for ; i < len(b); i++ {
		c := b[i]
		if c == '.' && !dot {
			dot = true
			continue
		}
		if !isDigitByte(c) {
			break
		}
		seen = true
		if d.n == 0 && c == '0' {
			if dot {
				d.point--
			}
			continue
		}
		if !dot {
			d.point++
		}
		if c == '0' {
			zeros++
			continue
		}
		if d.n+zeros+1 > maxDigits {
			ok = false
			continue
		}
		for ; zeros > 0; zeros-- {
			d.digits[d.n] = '0'
			d.n++
		}
		d.digits[d.n] = c
		d.n++
	}
	if !seen {
		*d = decimal{}
		return 0, true
	}
	if e := exponentEnd(b, i); e > 0 {
		exp, err := strconv.Atoi(string(b[i+1 : e]))
		if err != nil || exp > 400 || exp < -400 {
			ok = false
		}
		d.point += exp
		i = e
	}
	if d.n == 0 {
		*d = decimal{}
	}
	return i, ok
}

// round rounds half away from zero to scale digits behind the dot, as the
// server rounds exact numbers.
func (d *decimal) round(scale int) {
	keep := d.point + scale
	if keep >= d.n {
		return
	}
	if keep < 0 {
		*d = decimal{}
		return
	}
	up := d.digits[keep] >= '5'
	d.n = keep
	if up {
		for d.n > 0 && d.digits[d.n-1] == '9' {
			d.n--
		}
		if d.n == 0 {
			d.digits[0], d.n = '1', 1
			d.point++
		} else {
			d.digits[d.n-1]++
		}
	}
	for d.n > 0 && d.digits[d.n-1] == '0' {
		d.n--
	}
	if d.n == 0 {
		*d = decimal{}
	}
}

// clamp limits d to what a DECIMAL(precision, scale) column holds; d was rounded.
func (d *decimal) clamp(precision, scale int) {
	if d.point <= precision-scale {
		return
	}
	d.point, d.n = precision-scale, precision
	for i := range d.n {
		d.digits[i] = '9'
	}
}

// integer tells whether d has no digits behind the dot.
func (d *decimal) integer() bool { return d.n <= d.point }

// magnitude is the absolute value of an integer d; ok is false beyond uint64.
func (d *decimal) magnitude() (u uint64, ok bool) {
	if d.point > 20 {
		return 0, false
	}
	var buf [20]byte
	b := buf[:d.point]
	for i := range b {
		b[i] = '0'
		if i < d.n {
			b[i] = d.digits[i]
		}
	}
	if len(b) == 0 {
		return 0, true
	}
	u, err := strconv.ParseUint(string(b), 10, 64)
	return u, err == nil
}

// append appends d's canonical text: no plus sign, no needless zeros, no dot
// without digits behind it, a zero before a leading dot.
func (d *decimal) append(dst []byte) []byte {
	if d.n == 0 {
		return append(dst, '0')
	}
	if d.neg {
		dst = append(dst, '-')
	}
	if d.point <= 0 {
		dst = append(dst, '0', '.')
		for range -d.point {
			dst = append(dst, '0')
		}
		return append(dst, d.digits[:d.n]...)
	}
	for i := range max(d.point, d.n) {
		if i == d.point {
			dst = append(dst, '.')
		}
		if i < d.n {
			dst = append(dst, d.digits[i])
		} else {
			dst = append(dst, '0')
		}
	}
	return dst
}

// compareNumbers orders two canonical numbers.
func compareNumbers(a, b []byte) int {
	an, bn := len(a) > 0 && a[0] == '-', len(b) > 0 && b[0] == '-'
	switch {
	case an && !bn:
		return -1
	case bn && !an:
		return 1
	case an:
		return compareMagnitudes(b[1:], a[1:])
	}
	return compareMagnitudes(a, b)
}

func compareMagnitudes(a, b []byte) int {
	ai, bi := integerLen(a), integerLen(b)
	if ai != bi {
		return ai - bi
	}
	// Equal counts before the dot: digit by digit decides, the shorter is less.
	for i := 0; i < len(a) && i < len(b); i++ {
		if a[i] != b[i] {
			return int(a[i]) - int(b[i])
		}
	}
	return len(a) - len(b)
}

func integerLen(a []byte) int {
	for i, c := range a {
		if c == '.' {
			return i
		}
	}
	return len(a)
}
