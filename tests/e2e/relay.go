package e2e

import (
	"bytes"
	"net"
	"sync"
	"testing"
)

// Relay passes TCP connections on to one server and counts what goes by:
// packets, bytes, round trips, and the commands that clients sent. It reads the
// MySQL framing, so connections must be without TLS and compression.
type Relay struct {
	Addr string // where it listens

	target   string
	listener net.Listener
	group    sync.WaitGroup

	mu struct {
		sync.Mutex
		traffic  Traffic
		commands []string
		conns    map[net.Conn]bool
		closed   bool
		hold     string        // "": nothing is to be held
		held     chan struct{} // closed by Release; nil: nothing is held
	}
}

// Traffic is what went by since the last Reset.
type Traffic struct {
	Connections          int
	FromClient, ToClient Direction
	// RoundTrips counts how often a client spoke again after the server had
	// spoken: what is pipelined is one.
	RoundTrips int
}

// Direction is one way of a connection's traffic.
type Direction struct {
	Packets int
	Bytes   int64
}

// StartRelay starts a relay to target ("host:port"), ended with the test.
func StartRelay(t testing.TB, target string) *Relay {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &Relay{Addr: listener.Addr().String(), target: target, listener: listener}
	r.mu.conns = map[net.Conn]bool{}
	r.group.Add(1)
	go r.accept()
	t.Cleanup(r.Close)
	return r
}

// Close ends the relay and all its connections. It may be called early and more than once.
func (r *Relay) Close() {
	r.listener.Close()
	r.Release()
	r.mu.Lock()
	r.mu.closed = true
	r.mu.Unlock()
	r.Cut()
	r.group.Wait()
}

// Cut ends all present connections; new ones are still taken.
func (r *Relay) Cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c := range r.mu.conns {
		c.Close()
	}
}

// Hold keeps back the next thing that a client sends with that text in it, and
// all that it sends afterwards, until Release. Others are not held.
func (r *Relay) Hold(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.hold = text
}

// Held tells whether something is being held.
func (r *Relay) Held() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.held != nil
}

// Release passes on what is held, unless its connection was cut meanwhile.
func (r *Relay) Release() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.held != nil {
		close(r.mu.held)
		r.mu.held = nil
	}
	r.mu.hold = ""
}

// holding returns what to wait for before p is passed on, nil for nothing.
func (r *Relay) holding(p []byte) <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.hold == "" || !bytes.Contains(p, []byte(r.mu.hold)) {
		return nil
	}
	r.mu.hold, r.mu.held = "", make(chan struct{})
	return r.mu.held
}

// Reset sets the counters to nothing.
func (r *Relay) Reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.traffic, r.mu.commands = Traffic{}, nil
}

// Traffic is what went by since Reset.
func (r *Relay) Traffic() Traffic {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.traffic
}

// Commands are the payloads of the clients' packets with sequence id 0 since
// Reset, of which each is a command; long ones are cut after 4096 bytes.
func (r *Relay) Commands() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.mu.commands...)
}

func (r *Relay) accept() {
	defer r.group.Done()
	for {
		client, err := r.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", r.target)
		if err != nil {
			client.Close()
			continue
		}
		boundBuffers(client, server)
		if !r.register(client, server) {
			client.Close()
			server.Close()
			return
		}
		link := &link{relay: r}
		r.group.Add(2)
		go r.pass(client, server, link, true)
		go r.pass(server, client, link, false)
	}
}

// relayBufferBytes is what the kernel keeps for a relay in each direction:
// otherwise it takes megabytes that nobody reads, and they are counted.
const relayBufferBytes = 64 << 10

func boundBuffers(conns ...net.Conn) {
	for _, c := range conns {
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.SetReadBuffer(relayBufferBytes)
			_ = tcp.SetWriteBuffer(relayBufferBytes)
		}
	}
}

func (r *Relay) register(conns ...net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.closed {
		return false
	}
	r.mu.traffic.Connections++
	for _, c := range conns {
		r.mu.conns[c] = true
	}
	return true
}

// link is one connection's state; the relay's mu guards it.
type link struct {
	relay       *Relay
	serverSpoke bool
}

// pass copies one way until it ends, then closes both ends.
func (r *Relay) pass(from, to net.Conn, l *link, fromClient bool) {
	defer r.group.Done()
	defer func() {
		from.Close()
		to.Close()
		r.mu.Lock()
		delete(r.mu.conns, from)
		delete(r.mu.conns, to)
		r.mu.Unlock()
	}()
	var f framer
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			// Counted before it is passed on, so that whoever has the answer finds it counted.
			l.count(&f, buf[:n], fromClient)
			if fromClient {
				if held := r.holding(buf[:n]); held != nil {
					<-held
				}
			}
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (l *link) count(f *framer, p []byte, fromClient bool) {
	r := l.relay
	r.mu.Lock()
	defer r.mu.Unlock()
	packets, commands := f.feed(p)
	way := &r.mu.traffic.ToClient
	if fromClient {
		way = &r.mu.traffic.FromClient
		r.mu.commands = append(r.mu.commands, commands...)
		if l.serverSpoke {
			r.mu.traffic.RoundTrips++
		}
	}
	l.serverSpoke = !fromClient
	way.Packets += packets
	way.Bytes += int64(len(p))
}

const commandBytesMax = 4096

// framer cuts one way of a connection into packets. The zero value is ready.
type framer struct {
	head    []byte // of the packet being read, up to 4 bytes
	left    int    // payload bytes still to come
	command []byte // payload of a packet with sequence id 0
}

// feed takes the next bytes and returns how many packets ended in them, and the
// payloads of those with sequence id 0.
func (f *framer) feed(p []byte) (packets int, commands []string) {
	for len(p) > 0 {
		if len(f.head) < 4 {
			n := min(4-len(f.head), len(p))
			f.head = append(f.head, p[:n]...)
			p = p[n:]
			if len(f.head) < 4 {
				return packets, commands
			}
			f.left = int(f.head[0]) | int(f.head[1])<<8 | int(f.head[2])<<16
		}
		n := min(f.left, len(p))
		if f.head[3] == 0 && len(f.command) < commandBytesMax {
			f.command = append(f.command, p[:min(n, commandBytesMax-len(f.command))]...)
		}
		f.left -= n
		p = p[n:]
		if f.left == 0 {
			packets++
			if f.head[3] == 0 {
				commands = append(commands, string(f.command))
			}
			f.head, f.command = f.head[:0], nil
		}
	}
	return packets, commands
}
