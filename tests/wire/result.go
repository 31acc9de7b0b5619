package wire

import (
	"errors"
	"fmt"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"
)

// Column is every field of a column definition.
type Column struct {
	Catalog, Schema, Table, OrgTable, Name, OrgName string

	Charset  uint16
	Length   uint32
	Type     byte
	Flags    uint16
	Decimals byte
}

// OK is an OK packet, or the OK or EOF that ends a result set (of which an EOF
// fills Status and Warnings only).
type OK struct {
	AffectedRows, InsertID uint64
	Status, Warnings       uint16
	Info                   string
	EOF                    bool // it was an EOF packet
}

// Result is one answer: rows when Columns is not nil, else an OK alone. When the
// server ended the rows with an error, Err is that error and OK is zero.
type Result struct {
	Columns []Column
	Binary  bool
	Rows    [][][]byte // cells as they travelled: text, or binary values without length prefix; nil is NULL
	OK      OK
	Err     *Error
}

// Query runs a text statement and reads all its results. An *Error as the whole
// answer is returned as error, with the results before it.
func (c *Conn) Query(text string) ([]Result, error) {
	if err := c.command(gomysql.COM_QUERY, []byte(text)); err != nil {
		return nil, err
	}
	return c.results(false)
}

// Command sends any command and reads one OK, EOF or ERR.
func (c *Conn) Command(code byte, body []byte) (OK, error) {
	if err := c.command(code, body); err != nil {
		return OK{}, err
	}
	p, err := c.read()
	if err != nil {
		return OK{}, err
	}
	switch {
	case p[0] == 0xff:
		return OK{}, parseError(p)
	case p[0] == 0xfe && len(p) == 5:
		return parseEOF(p), nil
	case p[0] == 0x00:
		return parseOK(p)
	}
	return OK{}, fmt.Errorf("unexpected answer %x", p)
}

func (c *Conn) results(binary bool) ([]Result, error) {
	var all []Result
	for {
		r, err := c.result(binary)
		if err != nil {
			return all, err
		}
		all = append(all, *r)
		if r.Err != nil || r.OK.Status&gomysql.SERVER_MORE_RESULTS_EXISTS == 0 {
			return all, nil
		}
	}
}

func (c *Conn) result(binary bool) (*Result, error) {
	p, err := c.read()
	if err != nil {
		return nil, err
	}
	switch p[0] {
	case 0xff:
		return nil, parseError(p)
	case 0x00:
		ok, err := parseOK(p)
		return &Result{OK: ok}, err
	case 0xfb:
		return nil, errors.New("LOAD DATA LOCAL is not supported by this client")
	}
	head := reader{p: p}
	n, _ := head.lenenc()
	if head.bad || len(head.p) > 0 {
		return nil, fmt.Errorf("malformed column count %x", p)
	}
	r := &Result{Binary: binary}
	if r.Columns, err = c.columns(int(n)); err != nil {
		return nil, err
	}
	if !c.DeprecateEOF() {
		if _, err := c.eof(); err != nil {
			return nil, err
		}
	}
	for {
		p, err := c.read()
		if err != nil {
			return nil, err
		}
		switch {
		case p[0] == 0xff:
			r.Err = parseError(p)
			return r, nil
		case p[0] == 0xfe && !c.DeprecateEOF() && len(p) <= 5:
			r.OK = parseEOF(p)
			return r, nil
		case p[0] == 0xfe && c.DeprecateEOF() && len(p) < maxPacket:
			r.OK, err = parseOK(p)
			return r, err
		}
		row, err := parseRow(p, r.Columns, binary)
		if err != nil {
			return nil, err
		}
		r.Rows = append(r.Rows, row)
	}
}

func (c *Conn) columns(n int) ([]Column, error) {
	columns := make([]Column, n)
	for i := range columns {
		p, err := c.read()
		if err != nil {
			return nil, err
		}
		if p[0] == 0xff {
			return nil, parseError(p)
		}
		r := reader{p: p}
		col := &columns[i]
		col.Catalog, col.Schema, col.Table = string(r.str()), string(r.str()), string(r.str())
		col.OrgTable, col.Name, col.OrgName = string(r.str()), string(r.str()), string(r.str())
		fixed, _ := r.lenenc()
		col.Charset, col.Length, col.Type, col.Flags, col.Decimals = r.u16(), r.u32(), r.u8(), r.u16(), r.u8()
		if filler := r.rest(); r.bad || fixed != 12 || len(filler) != 2 {
			return nil, fmt.Errorf("malformed column definition %x", p)
		}
	}
	return columns, nil
}

func (c *Conn) eof() (OK, error) {
	p, err := c.read()
	if err != nil {
		return OK{}, err
	}
	if p[0] != 0xfe || len(p) != 5 {
		return OK{}, fmt.Errorf("%x where an EOF is due", p)
	}
	return parseEOF(p), nil
}

func parseOK(p []byte) (OK, error) {
	r := reader{p: p[1:]}
	var ok OK
	ok.AffectedRows, _ = r.lenenc()
	ok.InsertID, _ = r.lenenc()
	ok.Status, ok.Warnings = r.u16(), r.u16()
	if len(r.p) > 0 {
		ok.Info = string(r.str())
	}
	if r.bad {
		return ok, fmt.Errorf("malformed OK %x", p)
	}
	return ok, nil
}

func parseEOF(p []byte) OK {
	r := reader{p: p[1:]}
	ok := OK{EOF: true}
	ok.Warnings, ok.Status = r.u16(), r.u16()
	return ok
}

func parseError(p []byte) *Error {
	r := reader{p: p[1:]}
	e := &Error{Code: r.u16()}
	rest := r.rest()
	if len(rest) >= 6 && rest[0] == '#' {
		e.State, rest = string(rest[1:6]), rest[6:]
	}
	e.Message = string(rest)
	return e
}

func parseRow(p []byte, columns []Column, binary bool) ([][]byte, error) {
	row := make([][]byte, len(columns))
	r := reader{p: p}
	if !binary {
		for i := range row {
			row[i] = r.str()
		}
	} else {
		r.bytes(1)
		nulls := r.bytes((len(columns) + 7 + 2) / 8)
		for i := range row {
			if r.bad || nulls[(i+2)/8]&(1<<((i+2)%8)) != 0 {
				continue
			}
			row[i] = r.value(columns[i].Type)
		}
	}
	if r.bad || len(r.p) > 0 {
		return nil, fmt.Errorf("malformed row of %d bytes: %d columns, %d bytes over", len(p), len(columns), len(r.p))
	}
	return row, nil
}

// value is one binary-protocol value without its length prefix.
func (r *reader) value(columnType byte) []byte {
	switch columnType {
	case gomysql.MYSQL_TYPE_TINY:
		return r.bytes(1)
	case gomysql.MYSQL_TYPE_SHORT, gomysql.MYSQL_TYPE_YEAR:
		return r.bytes(2)
	case gomysql.MYSQL_TYPE_LONG, gomysql.MYSQL_TYPE_INT24, gomysql.MYSQL_TYPE_FLOAT:
		return r.bytes(4)
	case gomysql.MYSQL_TYPE_LONGLONG, gomysql.MYSQL_TYPE_DOUBLE:
		return r.bytes(8)
	case gomysql.MYSQL_TYPE_NULL:
		return nil
	}
	return r.str()
}
