package wire

import (
	"encoding/binary"
	"fmt"
	"math"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"
)

// Statement is a prepared statement of one connection.
type Statement struct {
	c        *Conn
	id       uint32
	cursor   []Column // of the last execution
	bare     bool     // their definitions were left out
	Columns  []Column // as PREPARE announced them
	Params   int
	Warnings uint16
}

// Param is a parameter in the binary protocol's form.
type Param struct {
	Type     byte
	Unsigned bool
	Null     bool
	Value    []byte // with its length prefix where the type has one
}

// Int, Uint, Float, Text, Blob and Null make parameters.
func Int(v int64) Param {
	return Param{Type: gomysql.MYSQL_TYPE_LONGLONG, Value: binary.LittleEndian.AppendUint64(nil, uint64(v))}
}

func Uint(v uint64) Param {
	return Param{Type: gomysql.MYSQL_TYPE_LONGLONG, Unsigned: true, Value: binary.LittleEndian.AppendUint64(nil, v)}
}

func Float(v float64) Param {
	return Param{Type: gomysql.MYSQL_TYPE_DOUBLE, Value: binary.LittleEndian.AppendUint64(nil, math.Float64bits(v))}
}

func Text(s string) Param {
	return Param{Type: gomysql.MYSQL_TYPE_VAR_STRING, Value: append(appendLenenc(nil, uint64(len(s))), s...)}
}

func Blob(b []byte) Param {
	return Param{Type: gomysql.MYSQL_TYPE_BLOB, Value: append(appendLenenc(nil, uint64(len(b))), b...)}
}

func Null() Param { return Param{Type: gomysql.MYSQL_TYPE_NULL, Null: true} }

// Prepare is COM_STMT_PREPARE.
func (c *Conn) Prepare(text string) (*Statement, error) {
	if err := c.command(gomysql.COM_STMT_PREPARE, []byte(text)); err != nil {
		return nil, err
	}
	p, err := c.read()
	if err != nil {
		return nil, err
	}
	if p[0] == 0xff {
		return nil, parseError(p)
	}
	r := reader{p: p[1:]}
	s := &Statement{c: c, id: r.u32()}
	columns, params := int(r.u16()), int(r.u16())
	r.bytes(1)
	s.Warnings = r.u16()
	metadata := byte(1)
	if c.flags&clientOptionalMetadata != 0 {
		metadata = r.u8()
	}
	if r.bad {
		return nil, fmt.Errorf("malformed answer to PREPARE: %x", p)
	}
	s.Params = params
	for _, n := range []int{params, columns} {
		if n == 0 {
			continue
		}
		if metadata == 0 {
			s.Columns = make([]Column, n)
		} else if s.Columns, err = c.columns(n); err != nil {
			return nil, err
		}
		if !c.DeprecateEOF() {
			if _, err := c.eof(); err != nil {
				return nil, err
			}
		}
	}
	if columns == 0 {
		s.Columns = nil
	}
	return s, nil
}

// Execute is COM_STMT_EXECUTE without a cursor; errors are as Query's.
func (s *Statement) Execute(params ...Param) ([]Result, error) {
	return s.ExecuteWith(0, true, params...)
}

// Open is COM_STMT_EXECUTE with a read-only cursor. When the server opens one the
// only result has no rows and SERVER_STATUS_CURSOR_EXISTS: Fetch them.
func (s *Statement) Open(params ...Param) ([]Result, error) {
	return s.ExecuteWith(gomysql.CURSOR_TYPE_READ_ONLY, true, params...)
}

// ExecuteWith is COM_STMT_EXECUTE with flags; types says whether the parameters'
// types are sent.
func (s *Statement) ExecuteWith(flags byte, types bool, params ...Param) ([]Result, error) {
	b := binary.LittleEndian.AppendUint32(nil, s.id)
	b = append(b, flags)
	b = binary.LittleEndian.AppendUint32(b, 1)
	if len(params) > 0 {
		nulls := make([]byte, (len(params)+7)/8)
		for i, p := range params {
			if p.Null {
				nulls[i/8] |= 1 << (i % 8)
			}
		}
		b = append(b, nulls...)
		if !types {
			b = append(b, 0)
		} else {
			b = append(b, 1)
			for _, p := range params {
				flag := byte(0)
				if p.Unsigned {
					flag = 0x80
				}
				b = append(b, p.Type, flag)
			}
		}
		for _, p := range params {
			if !p.Null {
				b = append(b, p.Value...)
			}
		}
	}
	if err := s.c.command(gomysql.COM_STMT_EXECUTE, b); err != nil {
		return nil, err
	}
	r, err := s.c.results(true)
	if len(r) > 0 {
		s.cursor, s.bare = r[len(r)-1].Columns, r[len(r)-1].Bare
	}
	return r, err
}

// ExecuteRaw is Execute with the whole payload behind the statement's id.
func (s *Statement) ExecuteRaw(payload []byte) ([]Result, error) {
	if err := s.c.command(gomysql.COM_STMT_EXECUTE, append(binary.LittleEndian.AppendUint32(nil, s.id), payload...)); err != nil {
		return nil, err
	}
	return s.c.results(true)
}

// Fetch is COM_STMT_FETCH of n rows of the cursor that Open left.
func (s *Statement) Fetch(n int) (*Result, error) {
	b := binary.LittleEndian.AppendUint32(nil, s.id)
	b = binary.LittleEndian.AppendUint32(b, uint32(n))
	if err := s.c.command(gomysql.COM_STMT_FETCH, b); err != nil {
		return nil, err
	}
	r := &Result{Columns: s.cursor, Binary: true, Bare: s.bare}
	return r, s.c.rows(r)
}

// LongData is COM_STMT_SEND_LONG_DATA, which has no answer.
func (s *Statement) LongData(param int, data []byte) error {
	b := binary.LittleEndian.AppendUint32(nil, s.id)
	b = binary.LittleEndian.AppendUint16(b, uint16(param))
	return s.c.command(gomysql.COM_STMT_SEND_LONG_DATA, append(b, data...))
}

// Reset is COM_STMT_RESET.
func (s *Statement) Reset() error {
	_, err := s.c.Command(gomysql.COM_STMT_RESET, binary.LittleEndian.AppendUint32(nil, s.id))
	return err
}

// Close is COM_STMT_CLOSE, which has no answer.
func (s *Statement) Close() error {
	return s.c.command(gomysql.COM_STMT_CLOSE, binary.LittleEndian.AppendUint32(nil, s.id))
}
