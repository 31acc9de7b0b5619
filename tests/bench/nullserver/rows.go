package nullserver

import (
	"bytes"
	"encoding/binary"
	"strconv"
	"strings"

	"braid/tests/bench/lean"
)

// shape is a SELECT from the table as far as its answer depends on it.
type shape struct {
	columns       []column
	where         bool // one row
	parts         int  // of a UNION ALL: how often each row is there
	limit, offset int
	one           [2][]byte // the whole answer with one row: text, binary; made when first needed
}

type column struct {
	name  string
	typ   byte
	bytes int // of a value
}

const (
	typeLong      = 0x03
	typeLongLong  = 0x08
	typeVarString = 0xfd
	typeString    = 0xfe
)

var (
	selectWord = []byte("SELECT ")
	fromTable  = []byte(" FROM " + Table)
	fromQuoted = []byte(" FROM `" + Table + "`")
	fromOther  = []byte(" FROM `" + Schema)
	tableEnd   = []byte("`." + Table)
	whereWord  = []byte(" WHERE ")
	unionWords = []byte(" UNION ALL ")
)

// isSelect tells whether q is a SELECT, also in parentheses or behind a comment.
func isSelect(q []byte) bool {
	q = bytes.TrimLeft(q, " (\n\t")
	if bytes.HasPrefix(q, []byte("/*")) {
		if i := bytes.Index(q, []byte("*/")); i > 0 {
			return isSelect(q[i+2:])
		}
	}
	return len(q) > 7 && bytes.EqualFold(q[:7], selectWord)
}

// shape finds the shape of a SELECT from the table, nil for any other.
func (x *session) shape(q []byte) *shape {
	start := bytes.Index(q, selectWord)
	end := bytes.Index(q, fromTable)
	if end < 0 {
		end = bytes.Index(q, fromQuoted)
	}
	if end < 0 { // a shard's schema is Schema or begins so
		if end = bytes.Index(q, fromOther); end >= 0 && !bytes.Contains(bytes.ReplaceAll(q[end:], []byte("`.`"), []byte("`.")), tableEnd) {
			return nil
		}
	}
	if start < 0 || end < start {
		return nil
	}
	where := bytes.Contains(q[end:], whereWord)
	list := q[start+len(selectWord) : end]
	parts := 1 + bytes.Count(q[end:], unionWords)
	known := x.shapes[string(list)]
	if known != nil && known.where == where && known.parts == parts {
		return known
	}
	sh := &shape{columns: columnsOf(string(list)), where: where, limit: 1, parts: parts}
	x.shapes[string(list)] = sh
	return sh
}

// columnsOf reads a select list.
func columnsOf(list string) []column {
	if strings.TrimSpace(list) == "*" {
		list = "id,k,c,pad"
	}
	var columns []column
	depth, from := 0, 0
	add := func(item string) {
		item = strings.TrimSpace(item)
		source, name := item, item
		if i := strings.LastIndex(strings.ToUpper(item), " AS "); i >= 0 {
			source, name = item[:i], item[i+4:]
		}
		source = strings.ReplaceAll(source, "`", "")
		if i := strings.LastIndexByte(source, '.'); i >= 0 {
			source = source[i+1:]
		}
		c := column{name: strings.Trim(name, "`\"' "), typ: typeString, bytes: 119}
		if c.name == strings.ReplaceAll(item, "`", "") {
			c.name = source
		}
		switch source {
		case "id", "k":
			c.typ, c.bytes = typeLong, 0
		case "pad":
			c.bytes = 59
		case "COUNT(*)", "0", "1", "2", "3": // a shard's number
			c.typ, c.bytes = typeLongLong, 0
		}
		columns = append(columns, c)
	}
	for i := range len(list) {
		switch list[i] {
		case '(':
			depth++
		case ')':
			depth--
		case ',':
			if depth == 0 {
				add(list[from:i])
				from = i + 1
			}
		}
	}
	add(list[from:])
	return columns
}

// limitOf reads a LIMIT at the end of q, behind all parentheses; without one it is rows.
func limitOf(q []byte, rows int) (limit, offset int) {
	i := bytes.LastIndex(bytes.ToUpper(q), []byte(" LIMIT "))
	if i < 0 || bytes.IndexByte(q[i:], ')') >= 0 {
		return rows, 0
	}
	words := strings.FieldsFunc(strings.ToUpper(string(q[i+7:])), func(r rune) bool { return r == ' ' || r == ',' })
	number := func(k int) int {
		if k >= len(words) {
			return 0
		}
		n, err := strconv.Atoi(words[k])
		if err != nil {
			return rows // larger than any number of rows here
		}
		return n
	}
	switch {
	case len(words) == 3 && words[1] == "OFFSET":
		limit, offset = number(0), number(2)
	case len(words) == 2:
		limit, offset = number(1), number(0)
	default:
		limit = number(0)
	}
	return max(0, min(limit, rows-offset)), offset
}

// filler is what strings consist of, as sysbench's are.
const filler = "08566691963-88624912351-16662227201-46648573979-64646226163-77505759394-75470094713-41097360717-15161106334-50535565977-"

// chunkBytes is how much of a long answer is written at once.
const chunkBytes = 64 << 10

// rows answers with limit rows behind the first offset.
func (x *session) rows(sh *shape, limit, offset int, isBinary bool) error {
	if limit != 1 || !sh.where {
		return x.stream(sh, limit, offset, isBinary)
	}
	form := 0
	if isBinary {
		form = 1
	}
	if sh.one[form] == nil {
		before := len(x.out)
		if err := x.stream(sh, 1, 0, isBinary); err != nil {
			return err
		}
		sh.one[form] = bytes.Clone(x.out[before:])
		return nil
	}
	x.out = append(x.out, sh.one[form]...)
	return nil
}

func (x *session) stream(sh *shape, limit, offset int, isBinary bool) error {
	seq := byte(1)
	put := func(p []byte) {
		x.out = lean.AppendPacket(x.out, seq, p)
		seq++
	}
	put(lean.AppendInt(nil, len(sh.columns)))
	for _, c := range sh.columns {
		put(appendColumn(nil, c))
	}
	if !x.deprecates {
		put(lean.AppendEnd(nil, false))
	}
	var row []byte
	o := &x.server.options
	for r := range limit {
		id := o.Base + int64((offset+r)/sh.parts)*o.Stride
		row = row[:0]
		if isBinary {
			row = append(row, make([]byte, 1+(len(sh.columns)+9)/8)...)
		}
		for _, c := range sh.columns {
			switch {
			case c.typ == typeLongLong && isBinary:
				row = binary.LittleEndian.AppendUint64(row, 1)
			case c.typ == typeLongLong:
				row = lean.AppendString(row, "1")
			case c.typ != typeLong:
				row = lean.AppendString(row, filler[:c.bytes])
			case isBinary:
				row = binary.LittleEndian.AppendUint32(row, uint32(id))
			default:
				var digits [20]byte
				d := strconv.AppendInt(digits[:0], id, 10)
				row = append(append(row, byte(len(d))), d...)
			}
		}
		put(row)
		if len(x.out) > chunkBytes {
			if err := x.flush(); err != nil {
				return err
			}
		}
	}
	put(lean.AppendEnd(nil, x.deprecates))
	return nil
}

func appendColumn(dst []byte, c column) []byte {
	dst = lean.AppendString(dst, "def")
	for _, s := range []string{Schema, Table, Table, c.name, c.name} {
		dst = lean.AppendString(dst, s)
	}
	charset, length, flags := uint16(255), uint32(4*120), uint16(0)
	if c.typ == typeLong {
		charset, length = 63, 11
		if c.name == "id" {
			flags = 1 | 2 // NOT NULL, primary key
		}
	}
	if c.typ == typeLongLong {
		charset, length, flags = 63, 21, 1|128 // NOT NULL, as a COUNT is
	}
	dst = append(dst, 0x0c)
	dst = binary.LittleEndian.AppendUint16(dst, charset)
	dst = binary.LittleEndian.AppendUint32(dst, length)
	dst = append(dst, c.typ)
	dst = binary.LittleEndian.AppendUint16(dst, flags)
	return append(dst, 0, 0, 0)
}
