package merge

import (
	"encoding/binary"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"braid/internal/mysql"
)

// Widths of a binary-protocol value that are not a number of bytes.
const (
	widthLenEnc   = -1 // a length-encoded string
	widthTemporal = -2 // one byte of length, then as many bytes
)

// layout is what the columns say about the form of a row. It is read-only once built.
type layout struct {
	cols    []mysql.Column
	binary  bool
	visible int
	widths  []int8 // binary rows: each column's width
}

// field is where a value lies in its row, without any length prefix; from is
// -1 for NULL.
type field struct{ from, to int32 }

func (f field) null() bool { return f.from < 0 }

func (f field) of(row []byte) []byte { return row[f.from:f.to] }

func newLayout(cols []mysql.Column, isBinary bool, visible int) *layout {
	l := &layout{cols: cols, binary: isBinary, visible: visible, widths: make([]int8, len(cols))}
	for i := range cols {
		l.widths[i] = binaryWidth(cols[i].Type)
	}
	return l
}

func binaryWidth(typ byte) int8 {
	switch typ {
	case gomysql.MYSQL_TYPE_NULL:
		return 0
	case gomysql.MYSQL_TYPE_TINY:
		return 1
	case gomysql.MYSQL_TYPE_SHORT, gomysql.MYSQL_TYPE_YEAR:
		return 2
	case gomysql.MYSQL_TYPE_INT24, gomysql.MYSQL_TYPE_LONG, gomysql.MYSQL_TYPE_FLOAT:
		return 4
	case gomysql.MYSQL_TYPE_LONGLONG, gomysql.MYSQL_TYPE_DOUBLE:
		return 8
	case gomysql.MYSQL_TYPE_DATE, gomysql.MYSQL_TYPE_NEWDATE, gomysql.MYSQL_TYPE_DATETIME,
		gomysql.MYSQL_TYPE_TIMESTAMP, gomysql.MYSQL_TYPE_TIME:
		return widthTemporal
	}
	return widthLenEnc
}

// nullBytes is the length of a binary row's NULL bitmap for n columns.
func nullBytes(n int) int { return (n + 7 + 2) / 8 }

// scan finds the first n fields of row and stores them in dst, which has room
// for them. end is the offset behind the last of them; ok is false for a row
// that does not follow the protocol.
func (l *layout) scan(row []byte, n int, dst []field) (end int, ok bool) {
	if l.binary {
		return l.scanBinary(row, n, dst)
	}
	return scanText(row, n, dst)
}

func scanText(row []byte, n int, dst []field) (end int, ok bool) {
	p := 0
	dst = dst[:n]
	for c := range dst {
		if p >= len(row) {
			return 0, false
		}
		size := int(row[p])
		switch {
		case size < 251:
			p++
		case size == 251:
			dst[c] = field{-1, -1}
			p++
			continue
		default:
			v, _, head := mysql.LenEncInt(row[p:])
			if head == 0 || v > uint64(len(row)) {
				return 0, false
			}
			p += head
			size = int(v)
		}
		if p+size > len(row) {
			return 0, false
		}
		dst[c] = field{int32(p), int32(p + size)}
		p += size
	}
	return p, true
}

func (l *layout) scanBinary(row []byte, n int, dst []field) (end int, ok bool) {
	p := 1 + nullBytes(len(l.cols))
	if len(row) < p || row[0] != 0 {
		return 0, false
	}
	dst = dst[:n]
	for c := range dst {
		if row[1+(c+2)/8]&(1<<((c+2)%8)) != 0 {
			dst[c] = field{-1, -1}
			continue
		}
		size := int(l.widths[c])
		switch size {
		case widthTemporal:
			if p >= len(row) {
				return 0, false
			}
			size = int(row[p])
			p++
		case widthLenEnc:
			v, null, head := mysql.LenEncInt(row[p:])
			if head == 0 || null || v > uint64(len(row)) {
				return 0, false
			}
			p += head
			size = int(v)
		}
		if p+size > len(row) {
			return 0, false
		}
		dst[c] = field{int32(p), int32(p + size)}
		p += size
	}
	return p, true
}

// appendValue appends a value of column c in the row's form, v without its
// length prefix.
func (l *layout) appendValue(dst []byte, c int, v []byte) []byte {
	if !l.binary {
		return mysql.AppendLenEncString(dst, v)
	}
	switch l.widths[c] {
	case widthLenEnc:
		return mysql.AppendLenEncString(dst, v)
	case widthTemporal:
		dst = append(dst, byte(len(v)))
	}
	return append(dst, v...)
}

// appendVisible appends the row without its hidden columns to dst. Only binary
// rows need it: a text row is just cut.
func (l *layout) appendVisible(dst, row []byte, fields []field) ([]byte, bool) {
	end, ok := l.scanBinary(row, l.visible, fields)
	if !ok {
		return dst, false
	}
	bitmap := nullBytes(l.visible)
	dst = append(dst, row[:1+bitmap]...)
	if used := (l.visible + 2) % 8; used != 0 {
		dst[len(dst)-1] &= 1<<used - 1
	}
	return append(dst, row[1+nullBytes(len(l.cols)):end]...), true
}

// isInteger tells whether the type is sent as an integer.
func isInteger(typ byte) bool {
	switch typ {
	case gomysql.MYSQL_TYPE_TINY, gomysql.MYSQL_TYPE_SHORT, gomysql.MYSQL_TYPE_INT24,
		gomysql.MYSQL_TYPE_LONG, gomysql.MYSQL_TYPE_LONGLONG, gomysql.MYSQL_TYPE_YEAR:
		return true
	}
	return false
}

func isDecimal(typ byte) bool {
	return typ == gomysql.MYSQL_TYPE_NEWDECIMAL || typ == gomysql.MYSQL_TYPE_DECIMAL
}

func isString(typ byte) bool {
	switch typ {
	case gomysql.MYSQL_TYPE_VARCHAR, gomysql.MYSQL_TYPE_VAR_STRING, gomysql.MYSQL_TYPE_STRING,
		gomysql.MYSQL_TYPE_TINY_BLOB, gomysql.MYSQL_TYPE_MEDIUM_BLOB,
		gomysql.MYSQL_TYPE_LONG_BLOB, gomysql.MYSQL_TYPE_BLOB:
		return true
	}
	return false
}

// isUnsigned tells whether an integer column's values are unsigned; YEAR's are.
func isUnsigned(c *mysql.Column) bool {
	return c.Flags&gomysql.UNSIGNED_FLAG != 0 || c.Type == gomysql.MYSQL_TYPE_YEAR
}

// binaryInt decodes a binary-protocol integer of 1, 2, 4 or 8 bytes, sign-extended
// unless unsigned.
func binaryInt(v []byte, unsigned bool) (u uint64, ok bool) {
	switch len(v) {
	case 1:
		if unsigned {
			return uint64(v[0]), true
		}
		return uint64(int64(int8(v[0]))), true
	case 2:
		w := binary.LittleEndian.Uint16(v)
		if unsigned {
			return uint64(w), true
		}
		return uint64(int64(int16(w))), true
	case 4:
		w := binary.LittleEndian.Uint32(v)
		if unsigned {
			return uint64(w), true
		}
		return uint64(int64(int32(w))), true
	case 8:
		return binary.LittleEndian.Uint64(v), true
	}
	return 0, false
}
