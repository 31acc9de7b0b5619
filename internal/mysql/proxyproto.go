package mysql

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"syscall"
)

const (
	proxyV1BytesMax = 107 // with its CR LF
	proxyV2Head     = 16
	// proxyV2BytesMax bounds the addresses and extensions of a v2 header.
	proxyV2BytesMax = 4 << 10
	proxyV2Sign     = "\r\n\r\n\x00\r\nQUIT\n"
)

// ErrProxyHeader is a connection that does not begin with a PROXY header where
// one has to be.
var ErrProxyHeader = errors.New("malformed PROXY protocol header")

// ProxyHeader is what a PROXY protocol header (versions 1 and 2) says.
type ProxyHeader struct {
	// Source and Destination are the client's and the listener's addresses as
	// the sender saw them. They are invalid for a connection of the sender's own
	// (LOCAL) and where it does not know (UNKNOWN, Unix sockets).
	Source, Destination netip.AddrPort
}

// ParseProxyHeader decodes the PROXY header at the start of p and returns how
// many bytes it took. It returns io.ErrUnexpectedEOF when p may be the start of
// one, and ErrProxyHeader when it is not.
func ParseProxyHeader(p []byte) (h ProxyHeader, n int, err error) {
	switch {
	case bytes.HasPrefix(p, []byte(proxyV2Sign)):
		return parseProxyV2(p)
	case bytes.HasPrefix(p, []byte("PROXY ")):
		return parseProxyV1(p)
	case strings.HasPrefix(proxyV2Sign, string(p)), strings.HasPrefix("PROXY ", string(p)):
		return h, 0, io.ErrUnexpectedEOF
	}
	return h, 0, ErrProxyHeader
}

func parseProxyV1(p []byte) (h ProxyHeader, n int, err error) {
	line := p[:min(len(p), proxyV1BytesMax)]
	end := bytes.Index(line, []byte("\r\n"))
	if end < 0 {
		if len(p) < proxyV1BytesMax {
			return h, 0, io.ErrUnexpectedEOF
		}
		return h, 0, ErrProxyHeader
	}
	n = end + 2
	f := strings.Split(string(line[:end]), " ")
	if f[1] == "UNKNOWN" {
		return h, n, nil
	}
	if len(f) != 6 || f[1] != "TCP4" && f[1] != "TCP6" {
		return h, 0, ErrProxyHeader
	}
	parse := func(addr, port string) netip.AddrPort {
		a, err := netip.ParseAddr(addr)
		if err != nil || a.Is4() != (f[1] == "TCP4") || a.Zone() != "" {
			return netip.AddrPort{}
		}
		ap, err := netip.ParseAddrPort(net.JoinHostPort(addr, port))
		if err != nil {
			return netip.AddrPort{}
		}
		return netip.AddrPortFrom(a.Unmap(), ap.Port())
	}
	h.Source, h.Destination = parse(f[2], f[4]), parse(f[3], f[5])
	if !h.Source.IsValid() || !h.Destination.IsValid() {
		return ProxyHeader{}, 0, ErrProxyHeader
	}
	return h, n, nil
}

func parseProxyV2(p []byte) (h ProxyHeader, n int, err error) {
	if len(p) < proxyV2Head {
		return h, 0, io.ErrUnexpectedEOF
	}
	size := int(binary.BigEndian.Uint16(p[14:]))
	command := p[12]
	if command != 0x20 && command != 0x21 || size > proxyV2BytesMax {
		return h, 0, ErrProxyHeader
	}
	if n = proxyV2Head + size; len(p) < n {
		return h, 0, io.ErrUnexpectedEOF
	}
	if command == 0x20 { // LOCAL: the addresses, if any, mean nothing
		return h, n, nil
	}
	b := p[proxyV2Head:n]
	var addrBytes int
	switch p[13] {
	case 0x11: // TCP over IPv4
		addrBytes = 4
	case 0x21: // TCP over IPv6
		addrBytes = 16
	case 0x00, 0x31: // unspecified, Unix stream
		return h, n, nil
	default:
		return h, 0, ErrProxyHeader
	}
	if len(b) < 2*addrBytes+4 {
		return h, 0, ErrProxyHeader
	}
	at := func(addr, port []byte) netip.AddrPort {
		a, _ := netip.AddrFromSlice(addr)
		return netip.AddrPortFrom(a.Unmap(), binary.BigEndian.Uint16(port))
	}
	h.Source = at(b[:addrBytes], b[2*addrBytes:])
	h.Destination = at(b[addrBytes:2*addrBytes], b[2*addrBytes+2:])
	return h, n, nil
}

// AcceptProxy reads the PROXY header of a connection that comes from one of
// trusted, where it has to have one, and returns a connection whose RemoteAddr
// is the client's. Connections from elsewhere are returned as they are, unread:
// their client may not choose its own address. It reads not a byte beyond the
// header. The caller bounds the time with a deadline.
func AcceptProxy(nc net.Conn, trusted []netip.Prefix) (net.Conn, error) {
	remote, ok := nc.RemoteAddr().(*net.TCPAddr)
	if !ok || !containsAddr(trusted, remote.AddrPort().Addr().Unmap()) {
		return nc, nil
	}
	h, err := readProxyHeader(nc)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", remote, err)
	}
	if !h.Source.IsValid() {
		return nc, nil
	}
	return &proxyConn{nc, net.TCPAddrFromAddrPort(h.Source)}, nil
}

func containsAddr(prefixes []netip.Prefix, a netip.Addr) bool {
	for _, p := range prefixes {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

func readProxyHeader(r io.Reader) (ProxyHeader, error) {
	// No header is shorter than the 15 bytes of "PROXY UNKNOWN\r\n".
	b := make([]byte, 15, proxyV1BytesMax)
	if _, err := io.ReadFull(r, b); err != nil {
		return ProxyHeader{}, err
	}
	for {
		h, _, err := ParseProxyHeader(b)
		if err != io.ErrUnexpectedEOF {
			return h, err
		}
		more := 1
		if len(b) >= proxyV2Head && b[0] == proxyV2Sign[0] {
			more = proxyV2Head + int(binary.BigEndian.Uint16(b[14:])) - len(b)
		}
		b = append(b, make([]byte, more)...)
		if _, err := io.ReadFull(r, b[len(b)-more:]); err != nil {
			return ProxyHeader{}, err
		}
	}
}

// proxyConn is a connection whose client sits behind the one it came from.
type proxyConn struct {
	net.Conn
	remote net.Addr
}

func (c *proxyConn) RemoteAddr() net.Addr { return c.remote }

// NetConn returns the connection below.
func (c *proxyConn) NetConn() net.Conn { return c.Conn }

// SyscallConn lets Conn read as it reads from the connection below.
func (c *proxyConn) SyscallConn() (syscall.RawConn, error) {
	if sc, ok := c.Conn.(syscall.Conn); ok {
		return sc.SyscallConn()
	}
	return nil, errors.ErrUnsupported
}
