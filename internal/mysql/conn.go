package mysql

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Sizes in bytes.
const (
	bufferSmall = 16 << 10 // what a connection borrows while a command is under way
	bufferLarge = 64 << 10 // what it borrows once a read filled the small one
	flushAt     = 16 << 10 // pending output that is written without waiting for Flush
	// PacketMax is the largest payload one packet header can announce; longer
	// payloads continue in further packets.
	PacketMax = 1<<24 - 1
)

// Side says whose socket failed.
type Side uint8

const (
	ClientSide Side = iota
	NodeSide
)

// SocketError is a failure of a connection itself, not a server's answer.
// After one the connection is useless.
type SocketError struct {
	Side Side
	Op   string // "read" or "write"
	Err  error
}

func (e *SocketError) Error() string {
	return fmt.Sprintf("%s %s: %v", [...]string{"client", "node"}[e.Side], e.Op, e.Err)
}

func (e *SocketError) Unwrap() error { return e.Err }

// ErrPacketTooLarge is a payload beyond the connection's limit; the packet was
// not read.
var ErrPacketTooLarge = errors.New("packet larger than max_allowed_packet")

// ErrSequence is a packet whose sequence id is not the next one.
var ErrSequence = errors.New("packets out of order")

var (
	smallBuffers = sync.Pool{New: func() any { b := make([]byte, bufferSmall); return &b }}
	largeBuffers = sync.Pool{New: func() any { b := make([]byte, bufferLarge); return &b }}
)

// Conn frames packets over a stream. Reading and writing share the sequence
// id, as the protocol does. Its buffers are borrowed while there is something
// in them and given back by Idle, so an idle connection holds none.
//
// A Conn is not safe for concurrent use, except for NetConn().SetDeadline and
// NetConn().Close.
type Conn struct {
	nc     net.Conn
	frames *CompressedConn // nc, when packets travel in compressed frames
	side   Side
	raw    syscall.RawConn            // nil: nc does not offer it (TLS, compression)
	rfn    func(fd uintptr) (ok bool) // c.readRaw, made once

	rbuf  *[]byte
	r, w  int // unread bytes are (*rbuf)[r:w]
	wbuf  *[]byte
	wn    int     // pending output is (*wbuf)[:wn]
	seq   byte    // of the next packet, read or written
	limit int     // largest payload accepted, in bytes
	big   []byte  // a payload that came in several packets
	head  [5]byte // of a packet on its way out: a field, so that it is not allocated
	torn  bool    // a packet was begun on the way out and not finished

	turn   atomic.Uint64 // see Turn
	amid   bool          // a packet whose beginning was read is waited for
	rawN   int           // result of readRaw
	rawErr error

	// Scratch is for the owner to build payloads in.
	Scratch []byte

	// Counters for metrics; read them from the owning goroutine.
	BytesIn, BytesOut uint64
}

// NewConn frames packets over nc. limit is the largest payload accepted.
func NewConn(nc net.Conn, side Side, limit int) *Conn {
	c := &Conn{side: side, limit: limit}
	c.rfn = c.readRaw
	c.SetNetConn(nc)
	return c
}

// NetConn returns the stream.
func (c *Conn) NetConn() net.Conn { return c.nc }

// SetNetConn replaces the stream, as after a switch to TLS. Bytes already read
// ahead are lost: call it only where the protocol pauses.
func (c *Conn) SetNetConn(nc net.Conn) {
	c.nc = nc
	c.frames, _ = nc.(*CompressedConn)
	c.raw = nil
	if sc, ok := nc.(syscall.Conn); ok {
		if raw, err := sc.SyscallConn(); err == nil {
			c.raw = raw
		}
	}
}

// SetLimit changes the largest payload accepted.
func (c *Conn) SetLimit(bytes int) { c.limit = bytes }

// Close closes the stream and gives the buffers back.
func (c *Conn) Close() error {
	err := c.nc.Close()
	c.r, c.w, c.wn = 0, 0, 0
	c.Idle()
	return err
}

// Idle gives back the buffers that hold nothing.
func (c *Conn) Idle() {
	if c.rbuf != nil && c.r == c.w {
		giveBack(c.rbuf)
		c.rbuf, c.r, c.w = nil, 0, 0
	}
	if c.wbuf != nil && c.wn == 0 {
		giveBack(c.wbuf)
		c.wbuf = nil
	}
	c.big = nil
	if cap(c.Scratch) > 1<<10 {
		c.Scratch = nil
	}
}

func giveBack(b *[]byte) {
	switch cap(*b) {
	case bufferSmall:
		smallBuffers.Put(b)
	case bufferLarge:
		largeBuffers.Put(b)
	}
}

// ResetSeq starts a new command: the next packet has sequence id 0. Towards a
// node on a compressed connection nothing may be pending: see WriteCommand.
func (c *Conn) ResetSeq() {
	c.seq = 0
	if c.frames != nil && c.side == NodeSide {
		c.frames.ResetSeq()
	}
}

// Seq returns the sequence id of the next packet.
func (c *Conn) Seq() byte { return c.seq }

// SetSeq sets the sequence id of the next packet.
func (c *Conn) SetSeq(s byte) { c.seq = s }

// Buffered returns how many bytes were read ahead.
func (c *Conn) Buffered() int { return c.w - c.r }

// Pending returns how many bytes wait for Flush.
func (c *Conn) Pending() int { return c.wn }

func (c *Conn) readErr(err error) error {
	if errors.Is(err, io.EOF) && c.w > c.r {
		err = io.ErrUnexpectedEOF
	}
	return &SocketError{c.side, "read", err}
}

// readRaw is what the runtime's poller calls: it borrows a buffer only when
// there are bytes to put in.
func (c *Conn) readRaw(fd uintptr) bool {
	if c.rbuf == nil {
		c.rbuf = smallBuffers.Get().(*[]byte)
	}
	for {
		c.rawN, c.rawErr = syscall.Read(int(fd), (*c.rbuf)[c.w:])
		if c.rawErr != syscall.EINTR {
			break
		}
	}
	if c.rawErr == syscall.EAGAIN {
		if c.w == 0 {
			giveBack(c.rbuf)
			c.rbuf = nil
		}
		return false
	}
	return true
}

// readMore reads once into the buffer's free space, which is there.
func (c *Conn) readMore() error {
	var n int
	var err error
	if c.raw != nil {
		err = c.raw.Read(c.rfn)
		if err == nil {
			n, err = c.rawN, c.rawErr
			if n == 0 && err == nil {
				err = io.EOF
			}
		}
	} else {
		if c.rbuf == nil {
			c.rbuf = smallBuffers.Get().(*[]byte)
		}
		n, err = c.nc.Read((*c.rbuf)[c.w:])
	}
	if n > 0 {
		c.w += n
		c.BytesIn += uint64(n)
		if c.amid {
			c.turn.Add(2)
		}
		return nil
	}
	if err == nil {
		err = io.ErrNoProgress
	}
	return c.readErr(err)
}

// fill makes at least n bytes available from c.r on.
func (c *Conn) fill(n int) error {
	for c.w-c.r < n {
		if c.rbuf != nil {
			if c.r == c.w {
				if c.w == bufferSmall && len(*c.rbuf) == bufferSmall {
					c.grow(bufferLarge) // the last read filled it: a long answer
				}
				c.r, c.w = 0, 0
			}
			if c.r+n > len(*c.rbuf) {
				if n > len(*c.rbuf) {
					c.grow(n)
				} else {
					copy(*c.rbuf, (*c.rbuf)[c.r:c.w])
					c.r, c.w = 0, c.w-c.r
				}
			}
		} else if n > bufferSmall {
			c.grow(n)
		}
		if err := c.readMore(); err != nil {
			return err
		}
	}
	return nil
}

// grow gives the read buffer room for n bytes from c.r on.
func (c *Conn) grow(n int) {
	var nb *[]byte
	switch {
	case n <= bufferSmall:
		nb = smallBuffers.Get().(*[]byte)
	case n <= bufferLarge:
		nb = largeBuffers.Get().(*[]byte)
	default:
		b := make([]byte, n+n/8)
		nb = &b
	}
	if c.rbuf != nil {
		c.w = copy(*nb, (*c.rbuf)[c.r:c.w])
		c.r = 0
		giveBack(c.rbuf)
	}
	c.rbuf = nb
}

// WaitCommand blocks until the peer has sent something, holding no buffer
// meanwhile.
func (c *Conn) WaitCommand() error {
	c.Idle()
	return c.fill(1)
}

// header returns the payload length and sequence id of the packet at c.r, of
// which at least 4 bytes are there.
func (c *Conn) header() (int, byte) {
	h := (*c.rbuf)[c.r : c.r+4]
	return int(h[0]) | int(h[1])<<8 | int(h[2])<<16, h[3]
}

// Turn tells, to whoever watches c from another goroutine, whether c is in the
// middle of something that the peer has to go on with: a packet that was begun on
// the way in, or output that the peer has to take. busy with the same turn as
// some time ago means that nothing has moved since.
func (c *Conn) Turn() (turn uint64, busy bool) {
	turn = c.turn.Load()
	return turn, turn&1 != 0
}

// ReadPacket returns the next payload, whatever number of packets it came in.
// It is valid until the next read from c. Memory grows with what has arrived, not
// with what a header announces.
func (c *Conn) ReadPacket() ([]byte, error) {
	if have := c.w - c.r; have < 4 {
		fill := c.fill
		if have > 0 {
			fill = c.fillAmid
		}
		if err := fill(4); err != nil {
			return nil, err
		}
	}
	n, err := c.next(0)
	if err != nil {
		return nil, err
	}
	if n <= bufferLarge {
		if c.w-c.r < 4+n {
			if err := c.fillAmid(4 + n); err != nil {
				return nil, err
			}
		}
		c.seq++
		p := (*c.rbuf)[c.r+4 : c.r+4+n]
		c.r += 4 + n
		c.syncSeq()
		return p, nil
	}
	c.big = c.big[:0]
	for {
		c.seq++
		c.r += 4
		for left := n; left > 0; {
			if c.r == c.w {
				if err := c.fillAmid(1); err != nil {
					return nil, err
				}
			}
			m := min(left, c.w-c.r)
			c.big = append(c.big, (*c.rbuf)[c.r:c.r+m]...)
			c.r += m
			left -= m
		}
		if n < PacketMax {
			c.syncSeq()
			return c.big, nil
		}
		if err := c.fillAmid(4); err != nil {
			return nil, err
		}
		if n, err = c.next(len(c.big)); err != nil {
			return nil, err
		}
	}
}

// next checks the header at c.r of a packet whose payload follows before bytes of
// the same one, and returns its length.
func (c *Conn) next(before int) (int, error) {
	n, seq := c.header()
	if seq != c.seq && c.frames == nil {
		return 0, &SocketError{c.side, "read", ErrSequence}
	}
	if before+n > c.limit {
		return 0, &SocketError{c.side, "read", ErrPacketTooLarge}
	}
	return n, nil
}

// fillAmid is fill in the middle of a payload, where Turn shows it.
func (c *Conn) fillAmid(n int) error {
	c.amid = true
	c.turn.Add(1)
	err := c.fill(n)
	c.turn.Add(1)
	c.amid = false
	return err
}

// syncSeq goes on from the frames read, which is how the packets behind are
// numbered where there are frames.
func (c *Conn) syncSeq() {
	if c.frames != nil {
		c.seq = c.frames.Seq()
	}
}

// WritePacket appends payload to the pending output, as one packet or several.
// Errors show in Flush at the latest; large output is written on the way.
func (c *Conn) WritePacket(payload []byte) error {
	for {
		n := min(len(payload), PacketMax)
		c.head = [5]byte{byte(n), byte(n >> 8), byte(n >> 16), c.seq}
		c.seq++
		if err := c.write(c.head[:4]); err != nil {
			return err
		}
		if err := c.write(payload[:n]); err != nil {
			return err
		}
		payload = payload[n:]
		if n < PacketMax {
			return nil
		}
	}
}

// WriteCommand appends a command packet, which starts a sequence of its own.
// After it, Seq is the sequence id of the answer's first packet.
//
// Compressed, each command begins a frame of its own, numbered 0: the server
// counts from there when it has read the command in front.
func (c *Conn) WriteCommand(cmd byte, payload []byte) error {
	if c.frames != nil {
		if err := c.Flush(); err != nil {
			return err
		}
	}
	c.ResetSeq()
	if len(payload)+1 < PacketMax {
		n := len(payload) + 1
		c.head = [5]byte{byte(n), byte(n >> 8), byte(n >> 16), 0, cmd}
		c.seq = 1
		if err := c.write(c.head[:]); err != nil {
			return err
		}
		return c.write(payload)
	}
	return c.WritePacket(append([]byte{cmd}, payload...))
}

// write appends b to the pending output, or writes both when that is much.
func (c *Conn) write(b []byte) error {
	if c.wn == 0 && len(b) >= flushAt {
		return c.writeOut(b)
	}
	if c.wbuf == nil {
		c.wbuf = smallBuffers.Get().(*[]byte)
	}
	if c.wn+len(b) > len(*c.wbuf) {
		if err := c.Flush(); err != nil {
			return err
		}
		if len(b) >= flushAt {
			return c.writeOut(b)
		}
	}
	c.wn += copy((*c.wbuf)[c.wn:], b)
	return nil
}

func (c *Conn) writeOut(b []byte) error {
	c.turn.Add(1)
	n, err := c.nc.Write(b)
	c.turn.Add(1)
	c.BytesOut += uint64(n)
	if err != nil {
		return &SocketError{c.side, "write", err}
	}
	return nil
}

// Flush writes the pending output.
func (c *Conn) Flush() error {
	if c.wn == 0 {
		return nil
	}
	n := c.wn
	c.wn = 0
	return c.writeOut((*c.wbuf)[:n])
}

// isEnd tells whether a packet of n bytes that begins with first ends a stream
// of rows: ERR, or the OK with header 0xFE (a row with that first byte holds a
// value of 16 MiB, and its packet is full).
func isEnd(first byte, n int) bool {
	return first == 0xff || first == 0xfe && n < PacketMax
}

// ForwardRows passes row packets on to dst, numbered in dst's sequence, until
// the packet that ends them, whose payload it returns without passing it on
// (valid until the next read). rows is how many were passed. What was passed is
// flushed whenever the next row is not there yet.
func (c *Conn) ForwardRows(dst *Conn) (end []byte, rows uint64, err error) {
	continued := false // the packet at c.r continues the row before it
	for {
		start, buf := c.r, []byte(nil)
		if c.rbuf != nil {
			buf = *c.rbuf
		}
		over := false
		for c.w-c.r >= 4 {
			h := buf[c.r:]
			n := int(h[0]) | int(h[1])<<8 | int(h[2])<<16
			if !continued {
				if c.w-c.r < 5 {
					break
				}
				if isEnd(h[4], n) {
					over = true
					break
				}
			}
			if c.w-c.r < 4+n {
				break
			}
			h[3] = dst.seq
			dst.seq++
			c.seq++
			c.r += 4 + n
			if continued = n == PacketMax; !continued {
				rows++
			}
		}
		if c.r > start {
			if err := dst.write(buf[start:c.r]); err != nil {
				return nil, rows, err
			}
		}
		if over {
			end, err = c.ReadPacket()
			return end, rows, err
		}
		if c.w-c.r >= 5 {
			if n, _ := c.header(); n > bufferLarge {
				if err := c.forwardLong(dst, n); err != nil {
					return nil, rows, err
				}
				if continued = n == PacketMax; !continued {
					rows++
				}
				continue
			}
		}
		if dst.wn > 0 {
			if err := dst.Flush(); err != nil {
				return nil, rows, err
			}
		}
		need := 5
		if c.w-c.r >= 4 {
			n, _ := c.header()
			if need = 4 + n; n > bufferLarge {
				need = 5
			}
		} else if continued {
			need = 4
		}
		if err := c.fill(need); err != nil {
			return nil, rows, err
		}
	}
}

// forwardLong passes on one packet of n payload bytes as it comes in, without
// holding all of it.
func (c *Conn) forwardLong(dst *Conn, n int) error {
	dst.head = [5]byte{byte(n), byte(n >> 8), byte(n >> 16), dst.seq}
	dst.seq++
	c.seq++
	c.r += 4
	dst.torn = true
	if err := dst.write(dst.head[:4]); err != nil {
		return err
	}
	for n > 0 {
		if c.r == c.w {
			if err := c.fill(1); err != nil {
				return err
			}
		}
		m := min(n, c.w-c.r)
		if err := dst.write((*c.rbuf)[c.r : c.r+m]); err != nil {
			return err
		}
		c.r += m
		n -= m
	}
	dst.torn = false
	return nil
}

// Torn tells whether a packet was begun on the way out and cannot be finished,
// so that nothing sensible can follow it.
func (c *Conn) Torn() bool { return c.torn }

// SkipRows reads and drops row packets until the one that ends them, whose
// payload it returns.
func (c *Conn) SkipRows() (end []byte, err error) {
	continued := false
	for {
		if err := c.fill(4); err != nil {
			return nil, err
		}
		n, _ := c.header()
		if !continued && n > 0 {
			if err := c.fill(5); err != nil {
				return nil, err
			}
			if isEnd((*c.rbuf)[c.r+4], n) {
				return c.ReadPacket()
			}
		}
		continued = n == PacketMax
		c.seq++
		c.r += 4
		for n > 0 {
			if c.r == c.w {
				if err := c.fill(1); err != nil {
					return nil, err
				}
			}
			m := min(n, c.w-c.r)
			c.r += m
			n -= m
		}
	}
}

// past is a deadline that has gone by: setting it wakes whoever waits on a socket.
var past = time.Unix(1, 0)

// Interrupt makes the read or write under way, and every later one, fail. It
// may be called from any goroutine.
func (c *Conn) Interrupt() { _ = c.nc.SetDeadline(past) }
