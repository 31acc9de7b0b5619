package merge

import (
	"bytes"
	"encoding/binary"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"braid/internal/mysql"
)

// cell is one key value of one row, parsed once. b aliases the row.
type cell struct {
	// u decides between two values of one rank wherever it differs. Where it is
	// equal the values are, unless one of them is wide: then b decides.
	u    uint64
	b    []byte
	rank uint8 // puts NULL first or, descending, last
	wide bool
	null bool
}

// form is how a key's values are read.
type form uint8

const (
	formInt form = iota
	formDecimal
	formDouble
	formDate
	formTime
	formBit
	formBytes // binary strings and weights
)

// key is a Key made ready for one layout.
type key struct {
	col      int // where the compared value is
	shown    int // where the value itself is
	form     form
	binary   bool // rows are in the binary protocol
	unsigned bool
	desc     bool
	scale    int    // formDecimal: decimals that u holds
	pad      string // formBytes: weight of a space; "" for NO PAD and binary strings
	sure     int    // formBytes: bytes within which the shards' order is certain; 0 for no limit
}

// use is what a key is compiled for.
type use uint8

const (
	useSort use = iota // ORDER BY, GROUP BY, DISTINCT: different values must differ
	useBest            // MIN, MAX: what is shown is compared, and is monotone
)

// keyset compares rows by several keys. It belongs to one merge.
type keyset struct {
	keys []key
	// unsure is set by a comparison that only bytes beyond a key's sure ones
	// could decide.
	unsure bool
}

func unsupported(format string, args ...any) *mysql.Error {
	return mysql.Errorf(gomysql.ER_NOT_SUPPORTED_YET, "This version of Braid doesn't yet support '"+format+"'", args...)
}

// broken is an error of the plan or of a shard's answer, not of the statement.
func broken(format string, args ...any) *mysql.Error {
	return mysql.Errorf(gomysql.ER_UNKNOWN_ERROR, format, args...)
}

func compileKeys(keys []Key, l *layout, opt *Options) (keyset, error) {
	s := keyset{keys: make([]key, len(keys))}
	for i := range keys {
		k, err := compileKey(&keys[i], l, opt, useSort)
		if err != nil {
			return s, err
		}
		s.keys[i] = k
	}
	return s, nil
}

func compileKey(k *Key, l *layout, opt *Options, u use) (key, error) {
	out := key{binary: l.binary, desc: k.Desc, shown: k.Col}
	for _, col := range [...]int{k.Col, k.Weight, k.NumericCol} {
		if col < -1 || col >= len(l.cols) || k.Col < 0 {
			return out, broken("Merge key names column %d of %d", col, len(l.cols))
		}
	}
	c := &l.cols[k.Col]
	if k.Weight >= 0 && k.NumericCol < 0 && weighed(c) {
		return out, compileWeight(&out, k, l, opt, u)
	}
	if k.NumericCol >= 0 {
		out.col, c = k.NumericCol, &l.cols[k.NumericCol]
		if !isInteger(c.Type) && !isDecimal(c.Type) && c.Type != gomysql.MYSQL_TYPE_DOUBLE {
			return out, broken("Merge key's numeric column `%s` is not a number", c.Name)
		}
	} else {
		out.col = k.Col
		if err := sortable(c, l.binary, u); err != nil {
			return out, err
		}
	}
	switch {
	case isInteger(c.Type):
		out.form, out.unsigned = formInt, isUnsigned(c)
	case isDecimal(c.Type):
		out.form, out.scale = formDecimal, min(int(c.Decimals), 9)
	case c.Type == gomysql.MYSQL_TYPE_DOUBLE, c.Type == gomysql.MYSQL_TYPE_FLOAT:
		out.form = formDouble
	case c.Type == gomysql.MYSQL_TYPE_TIME:
		out.form = formTime
	case c.Type == gomysql.MYSQL_TYPE_BIT:
		out.form = formBit
	case isString(c.Type):
		out.form = formBytes
		out.sure = sureBytes(opt, Padding{Mode: NoPad}, true, u)
	case c.Type == gomysql.MYSQL_TYPE_NULL:
		out.form = formBytes
	default:
		out.form = formDate
	}
	return out, nil
}

// weighed tells whether values of c compare by a weight beside them. The plan
// asks for weights of all that may be text; what is a number, a date or a binary
// string shows only in the column's definition, and compares as it is.
func weighed(c *mysql.Column) bool {
	switch c.Type {
	case gomysql.MYSQL_TYPE_ENUM, gomysql.MYSQL_TYPE_SET, gomysql.MYSQL_TYPE_JSON, gomysql.MYSQL_TYPE_GEOMETRY:
		return true
	}
	return isString(c.Type) && !isBinaryString(c)
}

// sortable says whether c's own values can be compared exactly, without a
// weight or a number beside them.
func sortable(c *mysql.Column, isBinary bool, u use) error {
	const computed = "ORDER BY or GROUP BY over several shards: `%s` needs %s"
	switch c.Type {
	case gomysql.MYSQL_TYPE_JSON:
		return unsupported("comparing the JSON values of `%s` over several shards", c.Name)
	case gomysql.MYSQL_TYPE_GEOMETRY:
		return unsupported("comparing the geometries of `%s` over several shards", c.Name)
	case gomysql.MYSQL_TYPE_FLOAT:
		if u == useSort && !isBinary { // six digits are shown
			return unsupported(computed, c.Name, "its exact value")
		}
	case gomysql.MYSQL_TYPE_DOUBLE:
		// A column's own values are rounded to M,D when stored; computed ones only when shown.
		if u == useSort && !isBinary && c.Decimals < decimalsFloating && c.OrgName == "" {
			return unsupported(computed, c.Name, "its exact value")
		}
	case gomysql.MYSQL_TYPE_TIMESTAMP:
		if u == useSort && c.OrgName != "" {
			return unsupported(computed, c.Name, "UNIX_TIMESTAMP")
		}
	case gomysql.MYSQL_TYPE_DATE, gomysql.MYSQL_TYPE_NEWDATE, gomysql.MYSQL_TYPE_DATETIME,
		gomysql.MYSQL_TYPE_TIME, gomysql.MYSQL_TYPE_BIT, gomysql.MYSQL_TYPE_NULL:
	case gomysql.MYSQL_TYPE_ENUM, gomysql.MYSQL_TYPE_SET:
		return unsupported(computed, c.Name, "its number")
	default:
		switch {
		case isInteger(c.Type), isDecimal(c.Type):
		case !isString(c.Type):
			return unsupported("comparing values of type %d (`%s`) over several shards", c.Type, c.Name)
		case c.Flags&(gomysql.ENUM_FLAG|gomysql.SET_FLAG) != 0:
			return unsupported(computed, c.Name, "its number")
		case !isBinaryString(c):
			return unsupported(computed, c.Name, "WEIGHT_STRING")
		}
	}
	return nil
}

// isBinaryString tells whether the bytes of a string column are its value's
// order. Text that character_set_results=binary lets through as it is also
// says collation 63, but lacks the flag.
func isBinaryString(c *mysql.Column) bool {
	return c.Charset == 63 && c.Flags&gomysql.BINARY_FLAG != 0
}

func compileWeight(out *key, k *Key, l *layout, opt *Options, u use) error {
	w := &l.cols[k.Weight]
	if !isString(w.Type) || !isBinaryString(w) {
		return broken("Merge key's weight column `%s` is not a binary string", w.Name)
	}
	c := &l.cols[k.Col]
	if u == useSort && (c.Flags&(gomysql.ENUM_FLAG|gomysql.SET_FLAG) != 0 ||
		c.Type == gomysql.MYSQL_TYPE_ENUM || c.Type == gomysql.MYSQL_TYPE_SET) {
		return sortable(c, l.binary, u)
	}
	switch {
	case k.Pad.Mode == PadUnknown, k.Pad.Mode == PadSpace && k.Pad.Space == "":
		return unsupported("ORDER BY, GROUP BY, MIN or MAX over several shards in the collation of `%s`", c.Name)
	case k.Pad.Mode == PadSpace:
		out.pad = k.Pad.Space
	}
	out.col, out.form, out.sure = k.Weight, formBytes, sureBytes(opt, k.Pad, false, u)
	return nil
}

// sureBytes is how many bytes of a string key certainly take part in a shard's
// sort, 0 for all. MySQL 9.7 looks at max_sort_length bytes of a PAD SPACE
// weight. MariaDB 10.11 was seen to stop at max_sort_length/4 characters of a
// four-byte character set, at 8 bytes less than max_sort_length for BLOB; so
// we count the characters by the width of the space's weight and stay below.
func sureBytes(opt *Options, p Padding, blob bool, u use) int {
	cut := opt.PerKeyWeightCut
	if cut <= 0 || u == useBest || opt.CutPadOnly && p.Mode != PadSpace {
		return 0
	}
	switch {
	case blob:
		cut -= 8
	case len(p.Space) < 2:
		cut /= 3 // one byte a character, of up to three bytes
	default:
		cut = cut / 4 * min(len(p.Space), 4)
	}
	return max(cut, 1)
}

// parse reads a value into c; false means that it is malformed.
func (k *key) parse(c *cell, v []byte) (ok bool) {
	var u uint64
	c.null, c.wide = false, false
	switch k.form {
	case formInt:
		if k.binary {
			u, ok = binaryInt(v, k.unsigned)
		} else {
			u, ok = textInt(v, k.unsigned)
		}
		if !k.unsigned {
			u ^= signBit
		}
	case formBytes:
		u, ok = k.prefix(v), true
		c.b, c.wide = v, true
	case formDecimal:
		n, exact := shortDecimal(v, k.scale)
		ok = exact
		if !exact {
			var d decimal
			d, ok = splitDecimal(v)
			n, exact = d.scaled(k.scale)
		}
		u = uint64(n) ^ signBit
		c.b, c.wide = v, !exact
	case formDouble:
		var f float64
		f, ok = double(v, k.binary)
		u = orderedDouble(f)
	case formDate:
		if k.binary {
			u, ok = binaryDatetime(v)
		} else {
			u, ok = textDatetime(v)
		}
	case formTime:
		var n int64
		if k.binary {
			n, ok = binaryTime(v)
		} else {
			n, ok = textTime(v)
		}
		u = uint64(n) ^ signBit
	case formBit:
		u, ok = bit(v)
	}
	c.u, c.rank = u, 1
	if k.desc {
		c.u, c.rank = ^u, 0
	}
	return ok
}

func (k *key) parseNull(c *cell) {
	c.u, c.b, c.wide, c.null, c.rank = 0, nil, false, true, 0
	if k.desc {
		c.rank = 1
	}
}

// prefix gives the first eight bytes of a value, padded, as a number of the same order.
func (k *key) prefix(v []byte) uint64 {
	n := 8
	if k.sure > 0 && k.sure < n {
		n = k.sure
	}
	if len(v) >= 8 && n == 8 {
		return binary.BigEndian.Uint64(v)
	}
	var p [8]byte
	have := copy(p[:n], v)
	for i := 0; have+i < n && k.pad != ""; i++ {
		p[have+i] = k.pad[i%len(k.pad)]
	}
	return binary.BigEndian.Uint64(p[:])
}

// compare orders two rows by all keys.
func (s *keyset) compare(a, b []cell) int { return s.compareFirst(a, b, len(s.keys)) }

// compareFirst orders two rows by their first n keys.
func (s *keyset) compareFirst(a, b []cell, n int) int {
	a, b = a[:n], b[:n]
	for i := range a {
		x, y := &a[i], &b[i]
		switch {
		case x.rank != y.rank:
			return int(x.rank) - int(y.rank)
		case x.u < y.u:
			return -1
		case x.u > y.u:
			return 1
		case x.wide || y.wide:
			if c := s.compareWide(&s.keys[i], x, y); c != 0 {
				return c
			}
		}
	}
	return 0
}

func (s *keyset) compareWide(k *key, x, y *cell) (c int) {
	if k.form == formDecimal {
		c = compareDecimals(x.b, y.b)
	} else {
		c = comparePadded(x.b, y.b, k.pad)
		if c != 0 && k.sure > 0 && max(len(x.b), len(y.b)) > k.sure {
			head := func(b []byte) []byte { return b[:min(len(b), k.sure)] }
			if comparePadded(head(x.b), head(y.b), k.pad) == 0 {
				s.unsure = true
			}
		}
	}
	if k.desc {
		return -c
	}
	return c
}

// comparePadded compares bytes as if the shorter were followed by pad without
// end; with an empty pad a prefix is the smaller.
func comparePadded(a, b []byte, pad string) int {
	n := min(len(a), len(b))
	if c := bytes.Compare(a[:n], b[:n]); c != 0 || len(a) == len(b) {
		return c
	}
	sign, rest := 1, a[n:]
	if len(b) > n {
		sign, rest = -1, b[n:]
	}
	if pad == "" {
		return sign
	}
	for i, c := range rest {
		switch p := pad[i%len(pad)]; {
		case c > p:
			return sign
		case c < p:
			return -sign
		}
	}
	return 0
}

// unsureError is what an order that the shards' sorts leave open becomes.
func unsureError() *mysql.Error {
	return unsupported("ORDER BY or GROUP BY over several shards: values that differ only beyond max_sort_length")
}
