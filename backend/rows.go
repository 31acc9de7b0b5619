package backend

import (
	"io"

	"braid/internal/mysql"
)

// Rows is the stream of one result set on one connection: it implements
// mysql.Rows. It holds nothing but the row under way; the node is held back by
// TCP. After its end, End has the closing packet's facts.
type Rows struct {
	c       *Conn
	columns []mysql.Column
	defs    [][]byte // the column definitions as the node sent them
	binary  bool
	done    bool
	err     error
	// End is the OK that closed the stream; set when Next returned io.EOF or
	// when Close read that far.
	End mysql.OK
}

// ReadRows reads the column definitions of an answer whose first packet
// announced a result set.
func (c *Conn) ReadRows(first []byte, binary bool) (*Rows, error) {
	n, _, k := mysql.LenEncInt(first)
	if k == 0 || n == 0 || n > 4096 {
		return nil, mysql.ErrMalformed
	}
	r := &Rows{c: c, binary: binary, columns: make([]mysql.Column, 0, n), defs: make([][]byte, 0, n)}
	for range n {
		p, err := c.ReadPacket()
		if err != nil {
			return nil, err
		}
		col, err := mysql.ParseColumn(p)
		if err != nil {
			return nil, err
		}
		r.columns = append(r.columns, col)
		r.defs = append(r.defs, append([]byte(nil), p...))
	}
	return r, nil
}

// Columns implements mysql.Rows.
func (r *Rows) Columns() []mysql.Column { return r.columns }

// Binary implements mysql.Rows.
func (r *Rows) Binary() bool { return r.binary }

// Next implements mysql.Rows.
func (r *Rows) Next() (mysql.Row, error) {
	if r.done {
		return nil, r.err
	}
	p, err := r.c.ReadPacket()
	if err != nil {
		return nil, r.end(err)
	}
	switch {
	case len(p) == 0:
		return nil, r.end(mysql.ErrMalformed)
	case p[0] == 0xff:
		return nil, r.end(mysql.ParseError(p))
	case p[0] == 0xfe && len(p) < mysql.PacketMax:
		ok, err := mysql.ParseOK(p, false)
		if err != nil {
			return nil, r.end(err)
		}
		r.End = ok
		return nil, r.end(io.EOF)
	}
	return p, nil
}

func (r *Rows) end(err error) error {
	r.done, r.err = true, err
	return err
}

// Ended tells whether the stream was read to its end, so that the connection
// is free for the next command. An *mysql.Error is an end too.
func (r *Rows) Ended() bool {
	return r.done && !IsLost(r.err)
}

// Close gives up what was not read. It does not read it: whoever owns the
// connection decides whether draining it or destroying the connection is
// cheaper.
func (r *Rows) Close() error { return nil }

// Drain reads and drops what is left of the stream.
func (r *Rows) Drain() error {
	if r.done {
		if r.Ended() {
			return nil
		}
		return r.err
	}
	p, err := r.c.SkipRows()
	if err != nil {
		return r.end(err)
	}
	if p[0] == 0xff {
		_ = r.end(mysql.ParseError(p))
		return nil
	}
	ok, err := mysql.ParseOK(p, false)
	if err != nil {
		return r.end(err)
	}
	r.End = ok
	_ = r.end(io.EOF)
	return nil
}

// DrainSome reads and drops what is left of the stream, as long as it is not
// much more than bytesMax; ended tells whether that was all.
func (r *Rows) DrainSome(bytesMax int) (ended bool, err error) {
	limit := r.c.BytesIn + uint64(bytesMax)
	for !r.done {
		if r.c.BytesIn > limit {
			return false, nil
		}
		if _, err := r.Next(); err != nil && !r.Ended() {
			return false, err
		}
	}
	return r.Ended(), nil
}

// Failed tells whether the stream ended with an error.
func (r *Rows) Failed() bool { return r.done && r.err != io.EOF }

// SetBinary says that the rows are in the binary protocol.
func (r *Rows) SetBinary() { r.binary = true }
