package proxy

import (
	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"braid/internal/mysql"
)

// client is the writing side of a connection whose login is done: answers in
// the form that the client's capabilities ask for. Nothing is sent before Flush,
// unless it is much.
type client struct {
	c     *mysql.Conn
	caps  uint32
	chars charsetInfo
	bare  bool   // column definitions are left out (resultset_metadata=NONE)
	track []byte // session-track data for the next OK
}

func (cl *client) deprecateEOF() bool { return cl.caps&gomysql.CLIENT_DEPRECATE_EOF != 0 }

// ok answers a command without rows, and fills in o's session-track data.
func (cl *client) ok(o *mysql.OK) error {
	o.Track = cl.takeTrack()
	cl.c.Scratch = mysql.AppendOK(cl.c.Scratch[:0], 0, o, cl.tracks())
	return cl.c.WritePacket(cl.c.Scratch)
}

// end ends a result set.
func (cl *client) end(status, warnings uint16) error {
	b := cl.c.Scratch[:0]
	if cl.deprecateEOF() {
		b = mysql.AppendOK(b, 0xfe, &mysql.OK{Status: status, Warnings: warnings, Track: cl.takeTrack()}, cl.tracks())
	} else {
		b = mysql.AppendEOF(b, status, warnings)
	}
	cl.c.Scratch = b
	return cl.c.WritePacket(b)
}

// columnsEnd stands between column definitions and rows where the client wants it.
func (cl *client) columnsEnd(status uint16) error {
	if cl.deprecateEOF() {
		return nil
	}
	cl.c.Scratch = mysql.AppendEOF(cl.c.Scratch[:0], status, 0)
	return cl.c.WritePacket(cl.c.Scratch)
}

// optionalMetadata is CLIENT_OPTIONAL_RESULTSET_METADATA: behind every count of columns
// the client is told whether their definitions follow.
const optionalMetadata = 1 << 25

// defined appends whether column definitions follow, where the client wants to be told.
func (cl *client) defined(b []byte) []byte {
	switch {
	case cl.caps&optionalMetadata == 0:
		return b
	case cl.bare:
		return append(b, 0)
	}
	return append(b, 1)
}

// columnCount begins a result set; behind it come n definitions, unless the client
// wants none.
func (cl *client) columnCount(n uint64) error {
	cl.c.Scratch = cl.defined(mysql.AppendLenEncInt(cl.c.Scratch[:0], n))
	return cl.c.WritePacket(cl.c.Scratch)
}

// columns announces a result set.
func (cl *client) columns(cols []mysql.Column, status uint16) error {
	if err := cl.columnCount(uint64(len(cols))); err != nil {
		return err
	}
	if cl.bare {
		cols = nil
	}
	for i := range cols {
		cl.c.Scratch = mysql.AppendColumn(cl.c.Scratch[:0], &cols[i])
		if err := cl.c.WritePacket(cl.c.Scratch); err != nil {
			return err
		}
	}
	return cl.columnsEnd(status)
}

func (cl *client) writeError(e *mysql.Error) error {
	cl.track = cl.track[:0]
	return cl.c.WritePacket(mysql.AppendError(nil, e))
}

// rows sends the rows of a result whose columns were announced.
func (cl *client) rows(r *resultSet, bin bool) error {
	var buf []byte
	for _, row := range r.rows {
		buf = buf[:0]
		if bin {
			buf = appendBinaryRow(buf, r.columns, row)
		} else {
			for _, c := range row {
				if c.set {
					buf = mysql.AppendLenEncString(buf, c.text)
				} else {
					buf = append(buf, 0xfb)
				}
			}
		}
		if err := cl.c.WritePacket(buf); err != nil {
			return err
		}
	}
	return nil
}
