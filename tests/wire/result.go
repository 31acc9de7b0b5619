package wire

import (
	"errors"
	"fmt"
	"io"
	"strings"

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
	Track                  string // session-track data: "schema=shop autocommit=OFF", in the order they came
	EOF                    bool   // it was an EOF packet
}

// Result is one answer: rows when Columns is not nil, else an OK alone. When the
// server ended the rows with an error, Err is that error and OK is zero.
type Result struct {
	Columns []Column
	Binary  bool
	Bare    bool       // the columns' definitions were left out: Columns are empty, and a binary row is one cell, whole
	Rows    [][][]byte // cells as they travelled: text, or binary values without length prefix; nil is NULL
	OK      OK
	Err     *Error
}

// Query runs a text statement and reads all its results. An *Error as the whole
// answer is returned as error, with the results before it.
func (c *Conn) Query(text string) ([]Result, error) {
	var head []byte
	if c.flags&gomysql.CLIENT_QUERY_ATTRIBUTES != 0 {
		head = []byte{0, 1} // none, of one set
	}
	if err := c.command(gomysql.COM_QUERY, append(head, text...)); err != nil {
		return nil, err
	}
	return c.results(false)
}

// QueryFirst runs a text statement and reads the first row of its answer, no
// more: the connection is of no other use than to be closed.
func (c *Conn) QueryFirst(text string) ([][]byte, error) {
	if err := c.command(gomysql.COM_QUERY, []byte(text)); err != nil {
		return nil, err
	}
	p, err := c.read()
	if err != nil {
		return nil, err
	}
	if p[0] == 0xff {
		return nil, parseError(p)
	}
	head := reader{p: p}
	n, _ := head.lenenc()
	columns, err := c.columns(int(n))
	if err == nil && !c.DeprecateEOF() {
		_, err = c.eof()
	}
	if err == nil {
		p, err = c.read()
	}
	if err != nil {
		return nil, err
	}
	if p[0] == 0xff {
		return nil, parseError(p)
	}
	return parseRow(p, columns, false)
}

// QueryRaw is Query with the whole payload behind the command byte.
func (c *Conn) QueryRaw(payload []byte) ([]Result, error) {
	if err := c.command(gomysql.COM_QUERY, payload); err != nil {
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
	case p[0] == 0x00, p[0] == 0xfe && c.DeprecateEOF():
		return c.parseOK(p)
	}
	return OK{}, fmt.Errorf("unexpected answer %x", p)
}

// Packets sends any command and reads the packets of its answer as they are: up
// to an error, an EOF or an OK, or only the first where single says that the
// answer is one packet of whatever form.
func (c *Conn) Packets(code byte, body []byte, single bool) ([][]byte, error) {
	if err := c.command(code, body); err != nil {
		return nil, err
	}
	var all [][]byte
	for {
		p, err := c.read()
		if err != nil {
			return all, err
		}
		all = append(all, append([]byte(nil), p...))
		if single || p[0] == 0xff || p[0] == 0xfe || p[0] == 0 {
			return all, nil
		}
	}
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
		ok, err := c.parseOK(p)
		return &Result{OK: ok}, err
	case 0xfb:
		if err := c.sendFile(string(p[1:])); err != nil {
			return nil, err
		}
		return c.result(binary)
	}
	head := reader{p: p}
	n, _ := head.lenenc()
	metadata := byte(1)
	if c.flags&clientOptionalMetadata != 0 {
		metadata = head.u8()
	}
	if head.bad || len(head.p) > 0 {
		return nil, fmt.Errorf("malformed column count %x", p)
	}
	r := &Result{Binary: binary}
	if r.Bare = metadata == 0; r.Bare {
		r.Columns = make([]Column, n)
	} else if r.Columns, err = c.columns(int(n)); err != nil {
		return nil, err
	}
	if !c.DeprecateEOF() {
		end, err := c.eof()
		if err != nil {
			return nil, err
		}
		if end.Status&gomysql.SERVER_STATUS_CURSOR_EXISTS != 0 {
			r.OK = end // the rows wait for Fetch
			return r, nil
		}
	}
	return r, c.rows(r)
}

// rows reads rows into r until what ends them.
func (c *Conn) rows(r *Result) error {
	for {
		p, err := c.read()
		if err != nil {
			return err
		}
		switch {
		case p[0] == 0xff:
			r.Err = parseError(p)
			return nil
		case p[0] == 0xfe && !c.DeprecateEOF() && len(p) <= 5:
			r.OK = parseEOF(p)
			return nil
		case p[0] == 0xfe && c.DeprecateEOF() && len(p) < maxPacket:
			r.OK, err = c.parseOK(p)
			return err
		}
		row := [][]byte{p}
		if !r.Bare || !r.Binary {
			if row, err = parseRow(p, r.Columns, r.Binary); err != nil {
				return err
			}
		}
		r.Rows = append(r.Rows, row)
	}
}

// clientOptionalMetadata is CLIENT_OPTIONAL_RESULTSET_METADATA.
const clientOptionalMetadata = 1 << 25

// sendFile answers a request for a LOCAL file, in packets of LocalPacket bytes.
func (c *Conn) sendFile(name string) error {
	if c.local == nil {
		return errors.New("the server asks for the file " + name)
	}
	file, err := c.local(name)
	if err != nil {
		return c.send(nil) // as clients do: nothing, and the error is theirs
	}
	buf := make([]byte, c.localPacket)
	for {
		n, err := io.ReadFull(file, buf)
		if n > 0 {
			if err := c.send(buf[:n]); err != nil {
				return err
			}
		}
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return c.send(nil)
		}
		if err != nil {
			return err
		}
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
	if p[0] == 0xff {
		return OK{}, parseError(p)
	}
	if p[0] != 0xfe || len(p) != 5 {
		return OK{}, fmt.Errorf("%x where an EOF is due", p)
	}
	return parseEOF(p), nil
}

func (c *Conn) parseOK(p []byte) (OK, error) {
	r := reader{p: p[1:]}
	var ok OK
	ok.AffectedRows, _ = r.lenenc()
	ok.InsertID, _ = r.lenenc()
	ok.Status, ok.Warnings = r.u16(), r.u16()
	if len(r.p) > 0 {
		ok.Info = string(r.str())
	}
	switch changed := ok.Status&gomysql.SERVER_SESSION_STATE_CHANGED != 0; {
	case changed && c.flags&gomysql.CLIENT_SESSION_TRACK == 0:
		return ok, fmt.Errorf("session state flag for a client that does not track: %x", p)
	case changed:
		ok.Track = trackText(r.str()) // MySQL 9 sends empty data when what changed is not tracked
	}
	if r.bad || len(r.p) > 0 {
		return ok, fmt.Errorf("malformed OK %x", p)
	}
	return ok, nil
}

// trackText is session-track data as text.
func trackText(p []byte) string {
	var items []string
	for r := (reader{p: p}); len(r.p) > 0 && !r.bad; {
		kind := r.u8()
		data := reader{p: r.str()}
		switch kind {
		case 0:
			name, value := string(data.str()), string(data.str())
			items = append(items, name+"="+value)
		case 1:
			items = append(items, "schema="+string(data.str()))
		case 2:
			items = append(items, "changed="+string(data.rest()))
		case 4:
			items = append(items, "characteristics="+string(data.str()))
		case 5:
			items = append(items, "state="+string(data.str()))
		default:
			items = append(items, fmt.Sprintf("%d=%x", kind, data.rest()))
		}
	}
	return strings.Join(items, " ")
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
		return nil, fmt.Errorf("malformed row of %d bytes: %d columns, %d bytes over: %.40x", len(p), len(columns), len(r.p), p)
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
