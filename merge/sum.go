package merge

import (
	"math"
	"math/big"
	"math/bits"
	"strconv"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"braid/internal/mysql"
)

// sum adds the values of one column: integers and DECIMAL exactly, DOUBLE as
// doubles. It is reused from group to group.
type sum struct {
	double bool
	scale  int // decimals of the exact sum
	any    bool

	f       float64
	small   int64   // part of the exact sum that fits
	large   big.Int // the rest, when spilled
	spilled bool
	term    big.Int
	scratch []byte
}

func newSum(c *mysql.Column, isBinary bool) (sum, error) {
	switch {
	case isInteger(c.Type):
		return sum{}, nil
	case isDecimal(c.Type):
		return sum{scale: int(c.Decimals)}, nil
	case c.Type == gomysql.MYSQL_TYPE_DOUBLE && (isBinary || c.Decimals >= decimalsFloating):
		return sum{double: true}, nil
	case c.Type == gomysql.MYSQL_TYPE_DOUBLE: // the partial sums came rounded
		return sum{}, unsupported("SUM or AVG of DOUBLE(M,D) over several shards (`%s`)", c.Name)
	}
	return sum{}, unsupported("SUM or AVG over several shards in a column of type %d (`%s`)", c.Type, c.Name)
}

func (s *sum) reset() {
	s.any, s.f, s.small = false, 0, 0
	if s.spilled {
		s.spilled = false
		s.large.SetInt64(0)
	}
}

// add adds a value of column c.
func (s *sum) add(v []byte, c *mysql.Column, isBinary bool) (ok bool) {
	s.any = true
	switch {
	case s.double:
		f, ok := double(v, isBinary)
		s.f += f
		return ok
	case isInteger(c.Type):
		u, ok := integer(v, isUnsigned(c), isBinary)
		if isUnsigned(c) && u >= signBit {
			s.spill(s.term.SetUint64(u))
			return ok
		}
		s.addSmall(int64(u))
		return ok
	}
	if n, ok := shortDecimal(v, s.scale); ok {
		s.addSmall(n)
		return true
	}
	d, ok := splitDecimal(v)
	if !ok || len(d.frac) > s.scale {
		return false
	}
	if n, exact := d.scaled(s.scale); exact {
		s.addSmall(n)
		return true
	}
	s.scratch = append(append(s.scratch[:0], d.whole...), d.frac...)
	for range s.scale - len(d.frac) {
		s.scratch = append(s.scratch, '0')
	}
	if _, ok = s.term.SetString(string(s.scratch), 10); !ok {
		return false
	}
	if d.neg {
		s.term.Neg(&s.term)
	}
	s.spill(&s.term)
	return true
}

func (s *sum) addSmall(n int64) {
	total := s.small + n
	if (n > 0) != (total > s.small) && n != 0 {
		s.spill(s.term.SetInt64(n))
		return
	}
	s.small = total
}

func (s *sum) spill(n *big.Int) {
	s.spilled = true
	s.large.Add(&s.large, n)
}

// total gives the exact sum times 10^scale. It may be changed by the caller
// and is valid until the next call of any method.
func (s *sum) total() *big.Int {
	s.term.SetInt64(s.small)
	return s.term.Add(&s.term, &s.large)
}

// appendText appends the exact sum with at least its own decimals, or the
// double, as text. A sum beyond MySQL's range is error 1690.
func (s *sum) appendText(dst []byte, decimals int) ([]byte, error) {
	if s.double {
		if math.IsInf(s.f, 0) {
			return dst, outOfRange("DOUBLE")
		}
		return appendDouble(dst, s.f, decimals), nil
	}
	if s.spilled {
		s.scratch = s.total().Append(s.scratch[:0], 10)
	} else {
		s.scratch = strconv.AppendInt(s.scratch[:0], s.small, 10)
	}
	for range decimals - s.scale {
		s.scratch = append(s.scratch, '0')
	}
	return appendScaled(dst, s.scratch, max(decimals, s.scale))
}

// appendAverage appends the exact sum / count (count > 0) with so many decimals.
//
// MySQL divides in words of nine decimal digits (do_div_mod of decimal.cc): the
// quotient is cut after whole words and only then rounded half away from zero,
// so that AVG of a DECIMAL(10,5) is cut, not rounded, at its nine decimals.
func (s *sum) appendAverage(dst []byte, count uint64, decimals int) ([]byte, error) {
	words := func(digits int) int { return (digits + 8) / 9 * 9 }
	cut := max(words(s.scale), words(decimals)) // decimals of the quotient
	if n, ok := s.smallQuotient(count, cut-s.scale); ok {
		s.scratch = strconv.AppendInt(s.scratch[:0], roundSmall(n, cut-decimals), 10)
	} else {
		q := s.total()
		ten := big.NewInt(10)
		q.Mul(q, ten.Exp(ten, big.NewInt(int64(cut-s.scale)), nil))
		q.Quo(q, new(big.Int).SetUint64(count))
		s.scratch = roundLarge(q, cut-decimals).Append(s.scratch[:0], 10)
	}
	for range decimals - cut {
		s.scratch = append(s.scratch, '0')
	}
	return appendScaled(dst, s.scratch, decimals)
}

// smallQuotient gives sum * 10^shift / count cut towards zero when 128 bits are enough.
func (s *sum) smallQuotient(count uint64, shift int) (n int64, ok bool) {
	if s.spilled || shift >= len(pow10) || s.small == math.MinInt64 {
		return 0, false
	}
	hi, lo := bits.Mul64(uint64(max(s.small, -s.small)), pow10[shift])
	if hi >= count {
		return 0, false
	}
	q, _ := bits.Div64(hi, lo, count)
	if q > math.MaxInt64/2 {
		return 0, false
	}
	if s.small < 0 {
		return -int64(q), true
	}
	return int64(q), true
}

// roundSmall divides by 10^drop, halves away from zero.
func roundSmall(n int64, drop int) int64 {
	if drop <= 0 {
		return n
	}
	if drop >= 19 {
		return 0
	}
	p := int64(pow10[drop])
	q, r := n/p, n%p
	switch {
	case r >= p-r:
		q++
	case -r >= p+r:
		q--
	}
	return q
}

// roundLarge is roundSmall in place.
func roundLarge(n *big.Int, drop int) *big.Int {
	if drop <= 0 {
		return n
	}
	ten := big.NewInt(10)
	p := new(big.Int).Exp(ten, big.NewInt(int64(drop)), nil)
	half := new(big.Int).Rsh(p, 1)
	if n.Sign() < 0 {
		half.Neg(half)
	}
	return n.Quo(n.Add(n, half), p)
}

// decimalDigitsMax is MySQL's limit of a DECIMAL's digits.
const decimalDigitsMax = 65

// appendScaled appends an integer's text divided by 10^scale as a DECIMAL.
func appendScaled(dst, n []byte, scale int) ([]byte, error) {
	if n[0] == '-' {
		dst, n = append(dst, '-'), n[1:]
	}
	if len(n) > decimalDigitsMax {
		return dst, outOfRange("DECIMAL")
	}
	whole := len(n) - scale
	if whole <= 0 {
		dst = append(dst, '0')
	} else {
		dst = append(dst, n[:whole]...)
		n = n[whole:]
	}
	if scale == 0 {
		return dst, nil
	}
	dst = append(dst, '.')
	for range scale - len(n) {
		dst = append(dst, '0')
	}
	return append(dst, n...), nil
}

func outOfRange(what string) *mysql.Error {
	return mysql.Errorf(gomysql.ER_DATA_OUT_OF_RANGE, "%s value is out of range in an aggregate over several shards", what)
}

// integer decodes an integer of either protocol.
func integer(v []byte, unsigned, isBinary bool) (u uint64, ok bool) {
	if isBinary {
		return binaryInt(v, unsigned)
	}
	return textInt(v, unsigned)
}
