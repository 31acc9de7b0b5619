package mysql

import (
	"bytes"
	"errors"
	"io"
	"net"
	"testing"
)

// pair returns two ends of a TCP connection on loopback, framed.
func pair(t *testing.T) (a, b *Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	type dialed struct {
		c   net.Conn
		err error
	}
	ch := make(chan dialed, 1)
	go func() {
		c, err := net.Dial("tcp", l.Addr().String())
		ch <- dialed{c, err}
	}()
	s, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	d := <-ch
	if d.err != nil {
		t.Fatal(d.err)
	}
	a, b = NewConn(s, ClientSide, 64<<20), NewConn(d.c, NodeSide, 64<<20)
	t.Cleanup(func() { a.Close(); b.Close() })
	return a, b
}

// behind runs f, which writes what reader is to read, and has it over before the
// connections are closed: a connection is one goroutine's at a time.
func behind(t *testing.T, reader *Conn, f func()) {
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	t.Cleanup(func() {
		_ = reader.NetConn().Close()
		<-done
	})
}

// payloads of every size at which something changes.
var payloadSizes = []int{0, 1, 4, 250, bufferSmall - 5, bufferSmall - 4, bufferSmall, bufferSmall + 1, bufferLarge, bufferLarge + 1, PacketMax - 1, PacketMax, PacketMax + 1, 2 * PacketMax}

func pattern(n int) []byte {
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(i*7 + i>>8)
	}
	return p
}

func TestConnPacketsOfAllSizes(t *testing.T) {
	a, b := pair(t)
	behind(t, b, func() {
		for _, n := range payloadSizes {
			if err := a.WritePacket(pattern(n)); err != nil {
				return
			}
		}
		_ = a.Flush()
	})
	for _, n := range payloadSizes {
		p, err := b.ReadPacket()
		if err != nil {
			t.Fatalf("%d bytes: %v", n, err)
		}
		if !bytes.Equal(p, pattern(n)) {
			t.Fatalf("%d bytes: another payload of %d bytes came", n, len(p))
		}
	}
	if a.Seq() != b.Seq() {
		t.Fatalf("sequence ids differ: %d written, %d read", a.Seq(), b.Seq())
	}
}

func TestConnForwardRows(t *testing.T) {
	node, proxyBack := pair(t)
	proxyFront, client := pair(t)
	sizes := []int{1, 3, 100, bufferSmall, bufferLarge * 2, PacketMax - 1, PacketMax, PacketMax + 5, 7}
	row := func(n int) []byte {
		p := pattern(n)
		p[0] = 'r'
		if n >= PacketMax {
			p[0] = 0xfe // a value of 16 MiB: not the end
		}
		return p
	}
	end := AppendOK(nil, 0xfe, &OK{Warnings: 3}, false)
	behind(t, proxyBack, func() {
		for range 3 {
			for _, n := range sizes {
				if node.WritePacket(row(n)) != nil {
					return
				}
			}
		}
		_ = node.WritePacket(end)
		_ = node.Flush()
	})
	proxyFront.SetSeq(5) // the two sequences need not be in step
	client.SetSeq(5)
	done := make(chan error, 1)
	go func() {
		got, rows, err := proxyBack.ForwardRows(proxyFront)
		switch {
		case err != nil:
		case rows != uint64(3*len(sizes)):
			err = errors.New("wrong number of rows")
		case !bytes.Equal(got, end):
			err = errors.New("wrong end")
		default:
			err = proxyFront.WritePacket([]byte("bye"))
		}
		if err == nil {
			err = proxyFront.Flush()
		}
		done <- err
		if err != nil {
			proxyFront.Close()
		}
	}()
	for range 3 {
		for _, n := range sizes {
			p, err := client.ReadPacket()
			if err != nil {
				t.Fatalf("row of %d bytes: %v (proxy: %v)", n, err, <-done)
			}
			if !bytes.Equal(p, row(n)) {
				t.Fatalf("row of %d bytes came as %d other bytes", n, len(p))
			}
		}
	}
	if p, err := client.ReadPacket(); err != nil || string(p) != "bye" {
		t.Fatalf("after the rows: %q, %v", p, err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func TestConnSkipRows(t *testing.T) {
	a, b := pair(t)
	behind(t, b, func() {
		for _, n := range []int{1, bufferLarge * 3, PacketMax, 2 * PacketMax, 9} {
			p := pattern(n)
			p[0] = 1
			_ = a.WritePacket(p)
		}
		_ = a.WritePacket(AppendError(nil, Errorf(1317, "stop")))
		_ = a.WritePacket([]byte("next"))
		_ = a.Flush()
	})
	end, err := b.SkipRows()
	if err != nil || end[0] != 0xff || ParseError(end).Code != 1317 {
		t.Fatalf("end %q, %v", end, err)
	}
	if p, err := b.ReadPacket(); err != nil || string(p) != "next" {
		t.Fatalf("after it: %q, %v", p, err)
	}
}

func TestConnRefusesWrongSequence(t *testing.T) {
	a, b := pair(t)
	a.SetSeq(3)
	_ = a.WritePacket([]byte("x"))
	_ = a.Flush()
	if _, err := b.ReadPacket(); !errors.Is(err, ErrSequence) {
		t.Fatalf("got %v", err)
	}
}

func TestConnRefusesLongPackets(t *testing.T) {
	a, b := pair(t)
	b.SetLimit(1000)
	_ = a.WritePacket(make([]byte, 1001))
	_ = a.Flush()
	if _, err := b.ReadPacket(); !errors.Is(err, ErrPacketTooLarge) {
		t.Fatalf("got %v", err)
	}
	a, b = pair(t)
	b.SetLimit(PacketMax + 10)
	behind(t, b, func() { _ = a.WritePacket(make([]byte, PacketMax+11)); _ = a.Flush() })
	if _, err := b.ReadPacket(); !errors.Is(err, ErrPacketTooLarge) {
		t.Fatalf("in two packets: got %v", err)
	}
}

func TestConnHoldsNoBufferWhenIdle(t *testing.T) {
	a, b := pair(t)
	got := make(chan error, 1)
	go func() {
		err := b.WaitCommand()
		if err == nil {
			_, err = b.ReadPacket()
		}
		b.Idle()
		got <- err
	}()
	_ = a.WritePacket([]byte("hello"))
	_ = a.Flush()
	if err := <-got; err != nil {
		t.Fatal(err)
	}
	if b.rbuf != nil || b.wbuf != nil {
		t.Fatal("an idle connection keeps its buffers")
	}
	a.Close()
	if _, err := b.ReadPacket(); !errors.Is(err, io.EOF) {
		t.Fatalf("after the peer closed: %v", err)
	}
}

func TestConnInterrupt(t *testing.T) {
	_, b := pair(t)
	got := make(chan error, 1)
	go func() { got <- b.WaitCommand() }()
	b.Interrupt()
	var se *SocketError
	if err := <-got; !errors.As(err, &se) {
		t.Fatalf("got %v", err)
	}
}

func TestRelayAllocatesNothing(t *testing.T) {
	node, back := pair(t)
	front, client := pair(t)
	row := append([]byte{5}, "12345"...)
	end := AppendOK(nil, 0xfe, &OK{}, false)
	allocs := testing.AllocsPerRun(200, func() {
		node.SetSeq(0)
		back.SetSeq(0)
		front.SetSeq(0)
		client.SetSeq(0)
		for range 10 {
			_ = node.WritePacket(row)
		}
		_ = node.WritePacket(end)
		_ = node.Flush()
		last, _, err := back.ForwardRows(front)
		if err != nil {
			t.Error(err)
		}
		_ = front.WritePacket(last)
		_ = front.Flush()
		for range 11 {
			if _, err := client.ReadPacket(); err != nil {
				t.Error(err)
			}
		}
	})
	if allocs > 0 {
		t.Errorf("%v allocations for relaying ten rows", allocs)
	}
}
