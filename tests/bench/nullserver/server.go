// Package nullserver is a MySQL server without data: every SELECT from
// sb.sbtest1 gets made-up rows at next to no cost, so that whatever stands in
// front of it is the bottleneck. It also answers what Braid asks a node, so
// that Braid plans for a real table sb.sbtest1(id INT PRIMARY KEY, k INT,
// c CHAR(120), pad CHAR(60)).
//
// It lets anybody in, takes every other statement without effect, and refuses
// a SELECT it does not know with error 1235 and the statement's text.
package nullserver

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"sync/atomic"

	"braid/tests/bench/lean"
)

// Version is what the server calls itself.
const Version = "8.0.36-null"

// Schema and Table are the one table there is.
const (
	Schema = "sb"
	Table  = "sbtest1"
)

// Options is what a server's rows look like. A SELECT without WHERE finds Rows
// rows with the ids Base, Base+Stride, ...; one with WHERE finds one row. A UNION
// ALL of n SELECTs finds each row n times, in the order of ids. A COUNT(*) is 1.
type Options struct {
	Rows         int
	Base, Stride int64
	Number       int // different for each server of one Braid: its identity
}

// Server answers on one listener.
type Server struct {
	listener net.Listener
	options  Options
	ids      atomic.Uint32
}

// Listen makes a server on addr ("127.0.0.1:0" for a free port).
func Listen(addr string, options Options) (*Server, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, err
	}
	return &Server{listener: l, options: options}, nil
}

// Addr is where it listens.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// Serve serves until Close; a connection's goroutine ends with its client.
func (s *Server) Serve() {
	for {
		nc, err := s.listener.Accept()
		if err != nil {
			return
		}
		go s.serve(nc)
	}
}

// Close ends Serve.
func (s *Server) Close() error { return s.listener.Close() }

const sendBufferBytes = 64 << 10

// session is one connection.
type session struct {
	server     *Server
	c          *lean.Conn
	id         uint32
	deprecates bool // CLIENT_DEPRECATE_EOF is in force
	shapes     map[string]*shape
	statements map[uint32]*shape
	out        []byte // pending output
}

func (s *Server) serve(nc net.Conn) {
	defer nc.Close()
	// Otherwise the kernel takes some megabytes at once, and this server runs far
	// ahead of its reader, on the CPU that the reader needs.
	if tcp, ok := nc.(*net.TCPConn); ok {
		_ = tcp.SetWriteBuffer(sendBufferBytes)
	}
	c := lean.NewConn(nc)
	x := &session{server: s, c: c, id: s.ids.Add(1), shapes: map[string]*shape{}, statements: map[uint32]*shape{}}
	var err error
	if x.deprecates, err = lean.Greet(c, Version, x.id); err != nil {
		return
	}
	for {
		p, _, err := c.ReadPacket()
		if err != nil || len(p) == 0 || p[0] == comQuit {
			return
		}
		if err := x.command(p); err != nil {
			return
		}
		// Commands that came together are answered together.
		if !c.Buffered() {
			if err := x.flush(); err != nil {
				return
			}
		}
	}
}

func (x *session) flush() error {
	if len(x.out) == 0 {
		return nil
	}
	_, err := x.c.Write(x.out)
	x.out = x.out[:0]
	return err
}

// The commands it knows; the others are answered with an OK.
const (
	comQuit         = 1
	comQuery        = 3
	comStmtPrepare  = 22
	comStmtExecute  = 23
	comSendLongData = 24
	comStmtClose    = 25
	comSetOption    = 27
)

func (x *session) command(p []byte) error {
	switch p[0] {
	case comQuery:
		return x.query(p[1:])
	case comStmtPrepare:
		x.prepare(p[1:])
	case comStmtExecute:
		if len(p) < 5 {
			return lean.ErrMalformed
		}
		sh := x.statements[binary.LittleEndian.Uint32(p[1:])]
		if sh == nil {
			x.fail(1243, "Unknown prepared statement handler")
			return nil
		}
		return x.rows(sh, sh.limit, sh.offset, true)
	case comSendLongData:
	case comStmtClose:
		if len(p) >= 5 {
			delete(x.statements, binary.LittleEndian.Uint32(p[1:]))
		}
	case comSetOption:
		x.out = lean.AppendPacket(x.out, 1, lean.AppendEnd(nil, false))
	default:
		x.ok()
	}
	return nil
}

func (x *session) ok() { x.out = lean.AppendPacket(x.out, 1, lean.AppendOK(nil)) }

func (x *session) fail(code uint16, text string) {
	x.out = lean.AppendPacket(x.out, 1, lean.AppendError(nil, code, text))
}

func (x *session) query(q []byte) error {
	if !isSelect(q) {
		if bytes.EqualFold(q, []byte("XA RECOVER")) {
			x.table([]string{"formatID", "gtrid_length", "bqual_length", "data"}, nil)
			return nil
		}
		x.ok()
		return nil
	}
	if sh := x.shape(q); sh != nil {
		limit, offset := sh.limit, sh.offset
		if !sh.where {
			limit, offset = limitOf(q, x.server.options.Rows*sh.parts)
		}
		return x.rows(sh, limit, offset, false)
	}
	if names, rows, ok := x.metadata(string(q)); ok {
		x.table(names, rows)
		return nil
	}
	x.fail(1235, fmt.Sprintf("the null server does not know: %s", q))
	return nil
}

func (x *session) prepare(q []byte) {
	sh := x.shape(q)
	if sh == nil {
		x.fail(1235, fmt.Sprintf("the null server does not know: %s", q))
		return
	}
	prepared := *sh
	if !prepared.where {
		prepared.limit, prepared.offset = limitOf(q, x.server.options.Rows*sh.parts)
	}
	id := uint32(len(x.statements) + 1)
	for x.statements[id] != nil {
		id++
	}
	x.statements[id] = &prepared
	params := bytes.Count(q, []byte("?"))
	head := binary.LittleEndian.AppendUint32([]byte{0}, id)
	head = binary.LittleEndian.AppendUint16(head, uint16(len(sh.columns)))
	head = binary.LittleEndian.AppendUint16(head, uint16(params))
	seq := byte(1)
	put := func(p []byte) {
		x.out = lean.AppendPacket(x.out, seq, p)
		seq++
	}
	put(append(head, 0, 0, 0))
	for range params {
		put(appendColumn(nil, column{name: "?", typ: typeVarString}))
	}
	if params > 0 && !x.deprecates {
		put(lean.AppendEnd(nil, false))
	}
	for _, c := range sh.columns {
		put(appendColumn(nil, c))
	}
	if !x.deprecates {
		put(lean.AppendEnd(nil, false))
	}
}
