package mysql

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
)

// Compression is the algorithm of a compressed connection.
type Compression uint8

const (
	CompressNone Compression = iota
	CompressZlib
	CompressZstd
)

const (
	frameHeaderBytes = 7
	// frameSmall is what mysqld does not try to compress.
	frameSmall = 50
	// framePayloadMax is the most one frame of Braid's carries, uncompressed; it
	// bounds the memory. Frames of others may carry PacketMax.
	framePayloadMax = 128 << 10
	zstdWindowMax   = 8 << 20
)

// ErrFrame is a compressed frame that does not follow the protocol.
var ErrFrame = errors.New("malformed compressed frame")

// CompressedConn is a stream in compressed frames over another stream. One
// goroutine may read and another write; the sequence id, which both share, then
// belongs to whoever's turn it is, as the protocol has turns.
//
// Frames have sequence ids of their own, which start at 0 with each command and
// go on from the command's frames to the answer's. On MySQL and MariaDB the ids
// of an answer's packets go on from the number of the command's *frames* too,
// not of its packets: Conn asks Seq for that.
type CompressedConn struct {
	net.Conn
	side Side
	seq  byte // of the next frame, read or written

	in    *bufio.Reader
	raw   io.LimitedReader // the current frame's bytes
	plain int              // uncompressed bytes left in the current frame
	body  io.Reader        // where they come from: raw, or a decompressor over it
	inz   decompressor     // made with the first compressed frame

	out  compressor
	obuf []byte // the frame being written
}

type decompressor interface {
	io.Reader
	reset(r io.Reader) error
	// left is how many bytes it read ahead without using them.
	left() int
}

// compressor appends the compressed form of p to dst.
type compressor interface {
	appendTo(dst, p []byte) ([]byte, error)
}

// NewCompressedConn compresses what is written to nc and decompresses what is
// read from it. level is the algorithm's; 0 is its usual one.
func NewCompressedConn(nc net.Conn, side Side, algorithm Compression, level int) (*CompressedConn, error) {
	c := &CompressedConn{Conn: nc, side: side, in: bufio.NewReader(nc)}
	switch algorithm {
	case CompressZlib:
		if level == 0 {
			level = 6
		}
		w, err := zlib.NewWriterLevel(io.Discard, level)
		if err != nil {
			return nil, err
		}
		c.inz, c.out = &zlibReader{}, &zlibWriter{w: w}
	case CompressZstd:
		w, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(framePayloadMax),
			zstd.WithLowerEncoderMem(true), zstd.WithEncoderLevel(zstd.EncoderLevelFromZstd(zstdLevel(level))))
		if err != nil {
			return nil, err
		}
		c.inz, c.out = &zstdReader{}, zstdWriter{w}
	default:
		return nil, fmt.Errorf("no such compression: %d", algorithm)
	}
	return c, nil
}

// zstdLevel is the level that MySQL's clients take for 0, and a legal one for
// any other.
func zstdLevel(level int) int {
	if level == 0 {
		return 3
	}
	return min(max(level, 1), 22)
}

// StartCompression puts compressed frames under c's packets: after the OK that
// ends a login was flushed or read.
func (c *Conn) StartCompression(algorithm Compression, level int) error {
	nc := c.nc
	if ahead := c.takeAhead(); ahead != nil {
		nc = &aheadConn{nc, ahead}
	}
	cc, err := NewCompressedConn(nc, c.side, algorithm, level)
	if err != nil {
		return err
	}
	c.SetNetConn(cc)
	return nil
}

// NetConn returns the stream below.
func (c *CompressedConn) NetConn() net.Conn { return c.Conn }

// Seq returns the sequence id of the next frame. When all of a command (or a
// LOCAL file) was read, it is also the sequence id of the answer's first packet.
func (c *CompressedConn) Seq() byte { return c.seq }

// ResetSeq starts a new command's frames, on the side that sends commands.
func (c *CompressedConn) ResetSeq() { c.seq = 0 }

// Read reads from the current frame, or the next when there is nothing left.
func (c *CompressedConn) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for c.plain == 0 {
		if err := c.nextFrame(); err != nil {
			return 0, err
		}
	}
	n, err := c.body.Read(p[:min(len(p), c.plain)])
	c.plain -= n
	switch {
	case err != nil && err != io.EOF:
		return n, c.frameError(err)
	case c.plain == 0:
		return n, c.endFrame()
	case err == io.EOF:
		return n, c.frameError(io.ErrUnexpectedEOF)
	}
	return n, nil
}

// frameError makes err ErrFrame, unless the connection broke within the frame:
// then it is that.
func (c *CompressedConn) frameError(err error) error {
	switch {
	case c.raw.N == 0 || !isNetError(err):
		return fmt.Errorf("%w: %v", ErrFrame, err)
	case errors.Is(err, io.EOF):
		return io.ErrUnexpectedEOF
	}
	return err
}

// nextFrame reads a frame's header.
func (c *CompressedConn) nextFrame() error {
	var h [frameHeaderBytes]byte
	if _, err := io.ReadFull(c.in, h[:]); err != nil {
		return err
	}
	size := int64(h[0]) | int64(h[1])<<8 | int64(h[2])<<16
	plain := int(h[4]) | int(h[5])<<8 | int(h[6])<<16
	// A command starts with id 0 whatever was before. A node's answers are not
	// checked: behind pipelined commands its ids follow the order in which it
	// read their frames.
	if h[3] != c.seq && h[3] != 0 && c.side == ClientSide {
		return ErrSequence
	}
	c.seq = h[3] + 1
	c.raw = io.LimitedReader{R: c.in, N: size}
	if plain == 0 {
		c.plain, c.body = int(size), &c.raw
		return nil
	}
	if err := c.inz.reset(&c.raw); err != nil {
		return c.frameError(err)
	}
	c.plain, c.body = plain, c.inz
	return nil
}

// endFrame checks that a frame holds no more than it announced.
func (c *CompressedConn) endFrame() error {
	if c.body == &c.raw {
		return nil
	}
	var one [1]byte
	n, err := io.ReadFull(c.body, one[:])
	if n > 0 || c.raw.N > 0 || c.inz.left() > 0 {
		return ErrFrame
	}
	if err != io.EOF {
		return c.frameError(err)
	}
	return nil
}

// Write writes p in frames.
func (c *CompressedConn) Write(p []byte) (int, error) {
	written := 0
	for len(p) > 0 {
		n := min(len(p), framePayloadMax)
		if err := c.writeFrame(p[:n]); err != nil {
			return written, err
		}
		written += n
		p = p[n:]
	}
	if cap(c.obuf) > framePayloadMax/8 {
		c.obuf = nil // an idle connection keeps little
	}
	return written, nil
}

func (c *CompressedConn) writeFrame(p []byte) error {
	b := append(c.obuf[:0], make([]byte, frameHeaderBytes)...)
	plain := 0
	if len(p) >= frameSmall {
		var err error
		if b, err = c.out.appendTo(b, p); err != nil {
			return err
		}
		plain = len(p)
	}
	if plain == 0 || len(b)-frameHeaderBytes >= len(p) {
		b, plain = append(b[:frameHeaderBytes], p...), 0
	}
	size := len(b) - frameHeaderBytes
	copy(b, []byte{byte(size), byte(size >> 8), byte(size >> 16), c.seq, byte(plain), byte(plain >> 8), byte(plain >> 16)})
	c.seq++
	c.obuf = b
	_, err := c.Conn.Write(b)
	return err
}

type zlibReader struct {
	ahead bufio.Reader
	r     io.ReadCloser // nil before the first frame
}

func (z *zlibReader) Read(p []byte) (int, error) { return z.r.Read(p) }

func (z *zlibReader) reset(r io.Reader) (err error) {
	z.ahead.Reset(r)
	if z.r == nil {
		z.r, err = zlib.NewReader(&z.ahead)
		return err
	}
	return z.r.(zlib.Resetter).Reset(&z.ahead, nil)
}

func (z *zlibReader) left() int { return z.ahead.Buffered() }

type zlibWriter struct{ w *zlib.Writer }

func (z *zlibWriter) appendTo(dst, p []byte) ([]byte, error) {
	a := appender{dst}
	z.w.Reset(&a)
	if _, err := z.w.Write(p); err != nil {
		return nil, err
	}
	err := z.w.Close()
	return a.b, err
}

// appender appends what is written to it.
type appender struct{ b []byte }

func (a *appender) Write(p []byte) (int, error) {
	a.b = append(a.b, p...)
	return len(p), nil
}

type zstdReader struct{ r *zstd.Decoder }

func (z *zstdReader) Read(p []byte) (int, error) { return z.r.Read(p) }

func (z *zstdReader) reset(r io.Reader) (err error) {
	if z.r == nil {
		// With a concurrency of 1 it starts no goroutine, so it needs no Close.
		z.r, err = zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(zstdWindowMax))
		return err
	}
	return z.r.Reset(r)
}

// left is 0: bytes behind the data are an error of Read's.
func (z *zstdReader) left() int { return 0 }

type zstdWriter struct{ w *zstd.Encoder }

func (z zstdWriter) appendTo(dst, p []byte) ([]byte, error) { return z.w.EncodeAll(p, dst), nil }
