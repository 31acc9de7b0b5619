package merge

import (
	"encoding/binary"
	"math"
	"strconv"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"braid/internal/mysql"
)

// accumulator combines the values of one column in the rows of one group. It
// is reused from group to group.
type accumulator struct {
	kind     AggKind
	col      int
	sumCol   int
	countCol int
	distinct int // number of Distinct keys; they follow the group's in the stream's

	order  keyset // AggMin, AggMax: one key
	best   cell
	weight []byte // best.b's own bytes
	value  []byte // the best value

	any   bool
	count uint64
	sum   sum
	bits  uint64
}

// compileAgg checks that the columns can be combined so, and answers 1235 where not.
func compileAgg(a *Agg, l *layout, opt *Options) (accumulator, error) {
	acc := accumulator{kind: a.Kind, col: a.Col, sumCol: -1, countCol: -1}
	if a.Col < 0 || a.Col >= len(l.cols) {
		return acc, broken("Merge aggregate names column %d of %d", a.Col, len(l.cols))
	}
	c := &l.cols[a.Col]
	var err error
	switch a.Kind {
	case AggCount:
		acc.countCol = a.Col
	case AggSum:
		acc.sumCol = a.Col
	case AggAvg:
		acc.sumCol, acc.countCol = a.SumCol, a.CountCol
	case AggMin, AggMax:
		var k key
		k, err = compileKey(&Key{Col: a.Col, Weight: a.Weight, Pad: a.Pad, NumericCol: -1, Desc: a.Kind == AggMax}, l, opt, useBest)
		acc.order.keys = []key{k}
	case AggBitAnd, AggBitOr, AggBitXor:
		if c.Type != gomysql.MYSQL_TYPE_LONGLONG {
			err = unsupported("bit aggregates of binary strings over several shards (`%s`)", c.Name)
		}
	case AggCountDistinct:
		acc.distinct = len(a.Distinct)
	case AggSumDistinct, AggAvgDistinct:
		acc.sumCol, acc.distinct = a.SumCol, len(a.Distinct)
	default:
		err = broken("Merge aggregate of unknown kind %d", a.Kind)
	}
	if err != nil {
		return acc, err
	}
	if acc.sumCol >= len(l.cols) || acc.countCol >= len(l.cols) {
		return acc, broken("Merge aggregate of `%s` names a column beyond %d", c.Name, len(l.cols))
	}
	if acc.countCol >= 0 && !isInteger(l.cols[acc.countCol].Type) {
		return acc, broken("Merge count column `%s` is not an integer", l.cols[acc.countCol].Name)
	}
	if acc.kind == AggCountDistinct && !isInteger(c.Type) {
		return acc, broken("Merge count column `%s` is not an integer", c.Name)
	}
	if acc.sumCol >= 0 {
		if acc.sum, err = newSum(&l.cols[acc.sumCol], l.binary); err != nil {
			return acc, err
		}
		return acc, acc.checkSum(c)
	}
	return acc, nil
}

// checkSum tells whether the sum can be shown in column c.
func (a *accumulator) checkSum(c *mysql.Column) error {
	average := a.kind == AggAvg || a.kind == AggAvgDistinct
	switch {
	case a.sum.double && c.Type == gomysql.MYSQL_TYPE_DOUBLE,
		!a.sum.double && isDecimal(c.Type) && int(c.Decimals) >= a.sum.scale,
		!a.sum.double && c.Type == gomysql.MYSQL_TYPE_LONGLONG && a.sum.scale == 0 && !average:
		return nil
	}
	return broken("Merge sum for `%s` is of another kind than its column", c.Name)
}

func (a *accumulator) reset() {
	a.any, a.count, a.bits = false, 0, 0
	if a.kind == AggBitAnd {
		a.bits = math.MaxUint64
	}
	a.sum.reset()
}

// add takes one row in. fresh says that its Distinct keys were not in the group
// before and none of them is NULL. ok is false for a malformed value.
func (a *accumulator) add(l *layout, row []byte, fields []field, fresh bool) (ok bool) {
	switch a.kind {
	case AggMin, AggMax:
		return a.addBest(row, fields)
	case AggBitAnd, AggBitOr, AggBitXor:
		return a.addBits(l, row, fields)
	case AggCountDistinct:
		if fresh {
			a.count++
		}
		return true
	case AggSumDistinct, AggAvgDistinct:
		if !fresh {
			return true
		}
	}
	if a.countCol >= 0 {
		f := fields[a.countCol]
		if f.null() {
			return false
		}
		n, ok := integer(f.of(row), isUnsigned(&l.cols[a.countCol]), l.binary)
		if !ok || n >= signBit {
			return false
		}
		a.count += n
	}
	if a.sumCol >= 0 {
		f := fields[a.sumCol]
		if f.null() {
			return true
		}
		if a.kind == AggAvgDistinct {
			a.count++
		}
		return a.sum.add(f.of(row), &l.cols[a.sumCol], l.binary)
	}
	return true
}

func (a *accumulator) addBest(row []byte, fields []field) (ok bool) {
	k := &a.order.keys[0]
	shown, f := fields[a.col], fields[k.col]
	if shown.null() {
		return true
	}
	var c cell
	if f.null() || !k.parse(&c, f.of(row)) {
		return false
	}
	now, best := [1]cell{c}, [1]cell{a.best}
	if a.any && a.order.compare(now[:], best[:]) >= 0 {
		return true
	}
	a.any = true
	a.value = append(a.value[:0], shown.of(row)...)
	a.weight = append(a.weight[:0], c.b...)
	c.b = a.weight
	a.best = c
	return true
}

func (a *accumulator) addBits(l *layout, row []byte, fields []field) (ok bool) {
	f := fields[a.col]
	if f.null() {
		return false
	}
	u, ok := integer(f.of(row), true, l.binary)
	switch a.kind {
	case AggBitAnd:
		a.bits &= u
	case AggBitOr:
		a.bits |= u
	default:
		a.bits ^= u
	}
	return ok
}

// appendResult appends the combined value in the form it has inside a row of
// the column's type, without length prefix; null says that it is NULL.
func (a *accumulator) appendResult(dst []byte, l *layout) (out []byte, null bool, err error) {
	c := &l.cols[a.col]
	switch a.kind {
	case AggCount, AggCountDistinct:
		return appendInteger(dst, a.count, l.binary, int(l.widths[a.col])), false, nil
	case AggBitAnd, AggBitOr, AggBitXor:
		return appendInteger(dst, a.bits, l.binary, int(l.widths[a.col])), false, nil
	case AggMin, AggMax:
		return append(dst, a.value...), !a.any, nil
	}
	if !a.sum.any {
		return dst, true, nil
	}
	average := a.kind == AggAvg || a.kind == AggAvgDistinct
	if average && a.count == 0 {
		return dst, true, nil
	}
	switch {
	case a.sum.double:
		f := a.sum.f
		if average {
			f /= float64(a.count)
		}
		if math.IsInf(f, 0) {
			return dst, false, outOfRange("DOUBLE")
		}
		if l.binary {
			return binary.LittleEndian.AppendUint64(dst, math.Float64bits(f)), false, nil
		}
		return appendDouble(dst, f, int(c.Decimals)), false, nil
	case average:
		dst, err = a.sum.appendAverage(dst, a.count, int(c.Decimals))
	case isDecimal(c.Type):
		dst, err = a.sum.appendText(dst, int(c.Decimals))
	default:
		dst, err = a.appendSumInteger(dst, l)
	}
	return dst, false, err
}

// appendSumInteger appends an exact sum for a BIGINT column.
func (a *accumulator) appendSumInteger(dst []byte, l *layout) ([]byte, error) {
	n := a.sum.total()
	unsigned := isUnsigned(&l.cols[a.col])
	switch {
	case unsigned && !n.IsUint64():
		return dst, outOfRange("BIGINT UNSIGNED")
	case !unsigned && !n.IsInt64():
		return dst, outOfRange("BIGINT")
	case !l.binary:
		return n.Append(dst, 10), nil
	case unsigned:
		return binary.LittleEndian.AppendUint64(dst, n.Uint64()), nil
	}
	return binary.LittleEndian.AppendUint64(dst, uint64(n.Int64())), nil
}

// appendInteger appends u for an integer column of so many bytes.
func appendInteger(dst []byte, u uint64, isBinary bool, width int) []byte {
	if !isBinary {
		return strconv.AppendUint(dst, u, 10)
	}
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], u)
	return append(dst, b[:width]...)
}
