package merge

import (
	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"braid/internal/mysql"
)

// Widen gives rows the columns cols where its own differ from them only in what a
// server decides when it plans: whether an expression's value goes through a
// temporary table, which makes INT of BIGINT and BLOB of VARCHAR. Shards with
// different rows plan differently. Where the rows differ in more, or are wider,
// they come back as they are. The result owns rows.
func Widen(cols []mysql.Column, rows mysql.Rows) mysql.Rows {
	own := rows.Columns()
	if len(own) != len(cols) {
		return rows
	}
	differ, integers := false, false
	for i := range cols {
		if own[i].Type == cols[i].Type {
			continue
		}
		if !sameExpression(&own[i], &cols[i]) || widthOf(&own[i]) > widthOf(&cols[i]) {
			return rows
		}
		differ = true
		integers = integers || isInteger(cols[i].Type)
	}
	if !differ {
		return rows
	}
	w := &widened{Rows: rows, cols: cols}
	if integers && rows.Binary() {
		w.from, w.to = newLayout(own, true, len(own)), newLayout(cols, true, len(cols))
		w.fields = make([]field, len(cols))
	}
	return w
}

// widest are the columns that hold the values of all inputs: the first one's,
// but for expressions that another has wider.
func widest(in []mysql.Rows) []mysql.Column {
	cols := in[0].Columns()
	own := true
	for _, r := range in[1:] {
		other := r.Columns()
		if len(other) != len(cols) {
			continue
		}
		for i := range cols {
			if cols[i].Type == other[i].Type || !sameExpression(&cols[i], &other[i]) || widthOf(&other[i]) <= widthOf(&cols[i]) {
				continue
			}
			if own {
				cols, own = append([]mysql.Column{}, cols...), false
			}
			cols[i] = other[i]
		}
	}
	return cols
}

// sameExpression tells whether two columns, of different types, are one
// expression's that servers can make a little different.
func sameExpression(x, y *mysql.Column) bool {
	if x.OrgTable != "" || y.OrgTable != "" || typeFlags(x) != typeFlags(y) {
		return false
	}
	return wideInteger(x.Type) && wideInteger(y.Type) || isString(x.Type) && isString(y.Type)
}

func wideInteger(typ byte) bool { return isInteger(typ) && typ != gomysql.MYSQL_TYPE_YEAR }

// widthOf orders the types of sameExpression.
func widthOf(c *mysql.Column) uint32 {
	if !isInteger(c.Type) {
		return c.Length
	}
	if c.Type == gomysql.MYSQL_TYPE_INT24 {
		return 3
	}
	return uint32(binaryWidth(c.Type))
}

// widened are rows under other columns.
type widened struct {
	mysql.Rows
	cols     []mysql.Column
	from, to *layout // binary rows with integers to widen; nil: rows stay as they are
	fields   []field
	row      []byte
}

// Columns implements mysql.Rows.
func (w *widened) Columns() []mysql.Column { return w.cols }

// Next implements mysql.Rows.
func (w *widened) Next() (mysql.Row, error) {
	row, err := w.Rows.Next()
	if err != nil || w.from == nil {
		return row, err
	}
	if _, ok := w.from.scanBinary(row, len(w.cols), w.fields); !ok {
		return nil, mysql.ErrMalformed
	}
	w.row = append(w.row[:0], row[:1+nullBytes(len(w.cols))]...)
	for i, f := range w.fields {
		if f.null() {
			continue
		}
		v := f.of(row)
		w.row = w.to.appendValue(w.row, i, v)
		if !isInteger(w.cols[i].Type) {
			continue
		}
		sign := byte(0)
		if !isUnsigned(&w.cols[i]) && v[len(v)-1] >= 0x80 {
			sign = 0xff
		}
		for n := len(v); n < int(w.to.widths[i]); n++ {
			w.row = append(w.row, sign)
		}
	}
	return w.row, nil
}
