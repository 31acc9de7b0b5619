package main

import (
	"fmt"
	"io"
	"net"
)

// The floor: the least that a Go proxy can do with one goroutine a session: read
// a command, pass it on, follow the answer's packets to its end, pass whole
// reads on. It knows no statement and shares no connection.

// side is one connection with its buffer.
type side struct {
	net.Conn
	buf []byte
}

// follower tracks the packets of one answer over reads of any size. It does not
// expect empty packets, which only follow one of 16 MiB.
type follower struct {
	header [5]byte // of the packet under way, with the first byte of its payload
	have   int     // bytes of header so far
	skip   int     // bytes of payload still to pass over
	state  int     // 0: first packet, 1: columns, 2: rows
	last   bool    // the packet under way ends the answer
}

// feed passes over p and tells whether the answer has ended.
func (f *follower) feed(p []byte) bool {
	for len(p) > 0 {
		if f.skip > 0 {
			n := min(f.skip, len(p))
			f.skip -= n
			p = p[n:]
		} else {
			n := copy(f.header[f.have:], p)
			f.have += n
			p = p[n:]
			if f.have < len(f.header) {
				return false
			}
			f.have = 0
			size := int(f.header[0]) | int(f.header[1])<<8 | int(f.header[2])<<16
			f.skip = size - 1
			switch b := f.header[4]; {
			case b == 0xff:
				f.last = true
			case f.state == 0:
				f.state = 1
				f.last = b == 0
			case b == 0xfe && size < 9:
				f.state++
				f.last = f.state == 3
			}
		}
		if f.last && f.skip == 0 {
			return true
		}
	}
	return false
}

// command reads one command of one packet.
func (s *side) command() ([]byte, error) {
	for n := 0; ; {
		m, err := s.Read(s.buf[n:])
		if err != nil {
			return nil, err
		}
		n += m
		if n >= 4 && n >= 4+(int(s.buf[0])|int(s.buf[1])<<8|int(s.buf[2])<<16) {
			return s.buf[:n], nil
		}
		if n == len(s.buf) {
			return nil, fmt.Errorf("command of more than %d bytes", n)
		}
	}
}

func relaySession(client net.Conn, backend string) error {
	defer client.Close()
	node, err := net.Dial("tcp", backend)
	if err != nil {
		return err
	}
	defer node.Close()
	const bufferBytes = 16 << 10
	c, b := &side{client, make([]byte, bufferBytes)}, &side{node, make([]byte, bufferBytes)}
	// The login: greeting, answer, OK. Clients of this benchmark never ask for
	// DEPRECATE_EOF, so that the follower can count EOF packets.
	for i := range 3 {
		from, to := b, c
		if i == 1 {
			from, to = c, b
		}
		p, err := from.command()
		if err != nil {
			return err
		}
		if _, err := to.Write(p); err != nil {
			return err
		}
	}
	for {
		p, err := c.command()
		if err != nil || p[4] == 1 { // COM_QUIT
			return err
		}
		if _, err := b.Write(p); err != nil {
			return err
		}
		// A PREPARE's answer is not a result set; one read has it all here.
		prepare := p[4] == 22
		for f := (follower{}); ; {
			n, err := b.Read(b.buf)
			if err != nil {
				return err
			}
			if _, err := c.Write(b.buf[:n]); err != nil {
				return err
			}
			if prepare || f.feed(b.buf[:n]) {
				break
			}
		}
	}
}

// serveRelay relays connections of addr to backend until its listener fails.
func serveRelay(addr, backend string) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	for {
		nc, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			if err := relaySession(nc, backend); err != nil && err != io.EOF {
				fmt.Println("relay:", err)
			}
		}()
	}
}
