package merge

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"testing"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"braid/internal/mysql"
)

// memRows is an input: rows in memory, given out in one reused buffer, so that
// a row kept past its time is seen to change.
type memRows struct {
	cols   []mysql.Column
	binary bool
	rows   [][]byte
	err    error // at the end; nil: io.EOF

	at, closes int
	buf        []byte
}

func (r *memRows) Columns() []mysql.Column { return r.cols }
func (r *memRows) Binary() bool            { return r.binary }

func (r *memRows) Next() (mysql.Row, error) {
	for i := range r.buf {
		r.buf[i] = 0xee
	}
	if r.closes > 0 {
		return nil, errors.New("Next of a closed input")
	}
	if r.at == len(r.rows) {
		if r.err != nil {
			return nil, r.err
		}
		return nil, io.EOF
	}
	r.buf = append(r.buf[:0], r.rows[r.at]...)
	r.at++
	return r.buf, nil
}

func (r *memRows) Close() error {
	r.closes++
	return nil
}

// value is one column's value: nil is NULL, else what fmt.Sprint shows in text
// rows. In binary rows an int64, uint64 or float64 is encoded by the column's
// type, raw is taken as it is, a string is length-encoded.
type value any

type raw struct {
	text string
	bin  []byte // without length prefix
}

func encode(cols []mysql.Column, isBinary bool, vals ...value) []byte {
	l := newLayout(cols, isBinary, 0)
	var row []byte
	if isBinary {
		row = make([]byte, 1+nullBytes(len(cols)))
	}
	for c, v := range vals {
		switch {
		case v == nil && isBinary:
			row[1+(c+2)/8] |= 1 << ((c + 2) % 8)
		case v == nil:
			row = append(row, 0xfb)
		default:
			row = l.appendValue(row, c, form1(v, isBinary, int(l.widths[c])))
		}
	}
	return row
}

func form1(v value, isBinary bool, width int) []byte {
	if r, ok := v.(raw); ok {
		if isBinary {
			return r.bin
		}
		return []byte(r.text)
	}
	if i, ok := v.(int); ok {
		v = int64(i)
	}
	if !isBinary || width < 0 {
		if f, ok := v.(float64); ok {
			return strconv.AppendFloat(nil, f, 'g', -1, 64)
		}
		return []byte(fmt.Sprint(v))
	}
	var b [8]byte
	switch v := v.(type) {
	case int64:
		binary.LittleEndian.PutUint64(b[:], uint64(v))
	case uint64:
		binary.LittleEndian.PutUint64(b[:], v)
	case float64:
		binary.LittleEndian.PutUint64(b[:], math.Float64bits(v))
	default:
		panic(fmt.Sprintf("%T for a value of %d bytes", v, width))
	}
	return b[:width]
}

// show prints a row: NULL as NULL, integers and doubles decoded, the rest as bytes.
func show(cols []mysql.Column, isBinary bool, row []byte) string {
	l := newLayout(cols, isBinary, len(cols))
	fields := make([]field, len(cols))
	end, ok := l.scan(row, len(cols), fields)
	if !ok || end != len(row) {
		return fmt.Sprintf("malformed %x", row)
	}
	var out []string
	for c, f := range fields {
		if f.null() {
			out = append(out, "NULL")
			continue
		}
		v := f.of(row)
		switch {
		case !isBinary:
			out = append(out, string(v))
		case isInteger(cols[c].Type):
			u, _ := binaryInt(v, isUnsigned(&cols[c]))
			if isUnsigned(&cols[c]) {
				out = append(out, fmt.Sprint(u))
			} else {
				out = append(out, fmt.Sprint(int64(u)))
			}
		case cols[c].Type == gomysql.MYSQL_TYPE_DOUBLE, cols[c].Type == gomysql.MYSQL_TYPE_FLOAT:
			f, _ := double(v, true)
			out = append(out, string(appendDouble(nil, f, int(cols[c].Decimals))))
		default:
			out = append(out, string(v))
		}
	}
	return strings.Join(out, ",")
}

// all reads a stream to its end and closes it.
func all(r mysql.Rows) ([]string, error) {
	var out []string
	for {
		row, err := r.Next()
		if err != nil {
			r.Close()
			if err == io.EOF {
				err = nil
			}
			return out, err
		}
		out = append(out, show(r.Columns(), r.Binary(), row))
	}
}

func col(name string, typ byte, flags uint16, decimals byte) mysql.Column {
	c := mysql.Column{Name: name, OrgName: name, Type: typ, Flags: flags, Decimals: decimals, Charset: 63}
	return c
}

func intCol(name string) mysql.Column { return col(name, gomysql.MYSQL_TYPE_LONGLONG, 0, 0) }
func decCol(name string, d byte) mysql.Column {
	return col(name, gomysql.MYSQL_TYPE_NEWDECIMAL, gomysql.BINARY_FLAG, d)
}
func dblCol(name string) mysql.Column { return col(name, gomysql.MYSQL_TYPE_DOUBLE, 0, 31) }
func textCol(name string) mysql.Column {
	c := col(name, gomysql.MYSQL_TYPE_VAR_STRING, 0, 0)
	c.Charset = 45
	return c
}
func bytesCol(name string) mysql.Column {
	return col(name, gomysql.MYSQL_TYPE_VAR_STRING, gomysql.BINARY_FLAG, 0)
}

func at(c int) Key   { return Key{Col: c, Weight: -1, NumericCol: -1} }
func desc(c int) Key { return Key{Col: c, Weight: -1, NumericCol: -1, Desc: true} }

// shardsOf makes one input of each list of rows.
func shardsOf(cols []mysql.Column, isBinary bool, parts ...[][]value) []mysql.Rows {
	in := make([]mysql.Rows, len(parts))
	for i, part := range parts {
		r := &memRows{cols: cols, binary: isBinary}
		for _, vals := range part {
			r.rows = append(r.rows, encode(cols, isBinary, vals...))
		}
		in[i] = r
	}
	return in
}

// wantClosed checks that each input was closed exactly once.
func wantClosed(t *testing.T, in []mysql.Rows) {
	t.Helper()
	for i, r := range in {
		if n := r.(*memRows).closes; n != 1 {
			t.Errorf("input %d was closed %d times", i, n)
		}
	}
}

func protocols(t *testing.T, f func(t *testing.T, isBinary bool)) {
	t.Run("text", func(t *testing.T) { f(t, false) })
	t.Run("binary", func(t *testing.T) { f(t, true) })
}
