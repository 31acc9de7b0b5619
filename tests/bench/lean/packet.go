// Package lean is the least of the MySQL protocol that a load generator and a
// null server need: framing over one reused buffer, a login of either side, and
// following an answer to its end. It is apart from braid/internal/mysql on
// purpose: a change there must not change what measures it.
//
// Clients of this package never ask for CLIENT_DEPRECATE_EOF; servers may offer
// it. Payloads of 16 MiB and more, TLS and compression are refused.
package lean

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"time"
)

// ErrMalformed is a packet that does not follow the protocol.
var ErrMalformed = errors.New("lean: malformed packet")

const bufferBytes = 16 << 10

// Conn reads packets from a stream into one growing buffer. Not safe for
// concurrent use.
type Conn struct {
	net.Conn
	buf  []byte
	r, w int
}

// NewConn wraps nc.
func NewConn(nc net.Conn) *Conn { return &Conn{Conn: nc, buf: make([]byte, bufferBytes)} }

// Buffered tells whether a whole packet is already in memory.
func (c *Conn) Buffered() bool {
	return c.w-c.r >= 4 && c.w-c.r >= 4+payloadLen(c.buf[c.r:])
}

func payloadLen(header []byte) int {
	return int(header[0]) | int(header[1])<<8 | int(header[2])<<16
}

// fill makes n bytes available behind c.r.
func (c *Conn) fill(n int) error {
	for c.w-c.r < n {
		if c.r > 0 && (c.r == c.w || c.r+n > len(c.buf)) {
			copy(c.buf, c.buf[c.r:c.w])
			c.w -= c.r
			c.r = 0
		}
		if n > len(c.buf) {
			grown := make([]byte, n+n/2)
			copy(grown, c.buf[:c.w])
			c.buf = grown
		}
		m, err := c.Conn.Read(c.buf[c.w:])
		if m == 0 && err != nil {
			return err
		}
		c.w += m
	}
	return nil
}

// ReadPacket returns the next payload, valid until the next call, and its
// sequence id. A payload may be empty.
func (c *Conn) ReadPacket() ([]byte, byte, error) {
	if err := c.fill(4); err != nil {
		return nil, 0, err
	}
	n := payloadLen(c.buf[c.r:])
	if n == 1<<24-1 {
		return nil, 0, errors.New("lean: payload of 16 MiB or more")
	}
	if err := c.fill(4 + n); err != nil {
		return nil, 0, err
	}
	seq := c.buf[c.r+3]
	p := c.buf[c.r+4 : c.r+4+n]
	c.r += 4 + n
	return p, seq, nil
}

// AppendPacket appends payload as one packet.
func AppendPacket(dst []byte, seq byte, payload []byte) []byte {
	n := len(payload)
	return append(append(dst, byte(n), byte(n>>8), byte(n>>16), seq), payload...)
}

// AppendString appends s length-encoded.
func AppendString(dst []byte, s string) []byte { return append(AppendInt(dst, len(s)), s...) }

// AppendInt appends n, at most 2^24-1, length-encoded.
func AppendInt(dst []byte, n int) []byte {
	switch {
	case n < 251:
		return append(dst, byte(n))
	case n < 1<<16:
		return append(dst, 0xfc, byte(n), byte(n>>8))
	}
	return append(dst, 0xfd, byte(n), byte(n>>8), byte(n>>16))
}

// AppendOK appends an OK payload: no rows affected, autocommit on.
func AppendOK(dst []byte) []byte { return append(dst, 0, 0, 0, 2, 0, 0, 0) }

// AppendEnd appends the payload that ends columns or rows: an EOF packet, or
// under CLIENT_DEPRECATE_EOF an OK whose first byte is an EOF's.
func AppendEnd(dst []byte, deprecateEOF bool) []byte {
	if deprecateEOF {
		return append(dst, 0xfe, 0, 0, 2, 0, 0, 0)
	}
	return append(dst, 0xfe, 0, 0, 2, 0)
}

// AppendError appends an ERR payload.
func AppendError(dst []byte, code uint16, text string) []byte {
	dst = append(dst, 0xff, byte(code), byte(code>>8))
	return append(append(dst, "#HY000"...), text...)
}

// Error is the error that an ERR payload says.
func Error(p []byte) error {
	if len(p) < 3 {
		return ErrMalformed
	}
	return fmt.Errorf("error %d %s", binary.LittleEndian.Uint16(p[1:]), p[3:])
}

// Result says what an answer held.
type Result struct {
	Rows     int
	FirstRow time.Time // zero without rows
}

// ReadAnswer reads one command's answer to its end.
func (c *Conn) ReadAnswer() (res Result, err error) {
	p, _, err := c.ReadPacket()
	if err != nil {
		return res, err
	}
	if len(p) == 0 {
		return res, ErrMalformed
	}
	switch p[0] {
	case 0:
		return res, nil
	case 0xff:
		return res, Error(p)
	}
	for ends := 0; ends < 2; {
		if p, _, err = c.ReadPacket(); err != nil {
			return res, err
		}
		switch {
		case len(p) > 0 && p[0] == 0xfe && len(p) < 9:
			ends++
		case len(p) > 0 && p[0] == 0xff:
			return res, Error(p)
		case ends == 1:
			if res.Rows == 0 {
				res.FirstRow = time.Now()
			}
			res.Rows++
		}
	}
	return res, nil
}

// Prepare prepares a statement and returns its id.
func (c *Conn) Prepare(text string) (id uint32, err error) {
	if _, err := c.Write(AppendPacket(nil, 0, append([]byte{22}, text...))); err != nil {
		return 0, err
	}
	p, _, err := c.ReadPacket()
	if err != nil {
		return 0, err
	}
	if len(p) > 0 && p[0] == 0xff {
		return 0, Error(p)
	}
	if len(p) < 12 {
		return 0, ErrMalformed
	}
	id = binary.LittleEndian.Uint32(p[1:])
	columns, params := binary.LittleEndian.Uint16(p[5:]), binary.LittleEndian.Uint16(p[7:])
	for _, n := range []uint16{params, columns} {
		if n == 0 {
			continue
		}
		for range n + 1 { // the definitions and an EOF
			if _, _, err := c.ReadPacket(); err != nil {
				return 0, err
			}
		}
	}
	return id, nil
}
