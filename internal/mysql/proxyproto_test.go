package mysql

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
)

const (
	v2IPv4  = proxyV2Sign + "\x21\x11\x00\x0c" + "\xcb\x00\x71\x07\xc0\x00\x02\x01\xc3\x50\x0c\xea"
	v2IPv6  = proxyV2Sign + "\x21\x21\x00\x27" + "\x20\x01\x0d\xb8\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x07" + "\x20\x01\x0d\xb8\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01" + "\xc3\x50\x0c\xea" + "\x04\x00\x00"
	v2Local = proxyV2Sign + "\x20\x00\x00\x00"
)

func TestParseProxyHeader(t *testing.T) {
	for _, v := range []struct{ name, in, source, destination string }{
		{"v1 IPv4", "PROXY TCP4 203.0.113.7 192.0.2.1 50000 3306\r\n", "203.0.113.7:50000", "192.0.2.1:3306"},
		{"v1 IPv6", "PROXY TCP6 2001:db8::7 2001:db8::1 50000 3306\r\n", "[2001:db8::7]:50000", "[2001:db8::1]:3306"},
		{"v1 mapped", "PROXY TCP6 ::ffff:203.0.113.7 ::ffff:192.0.2.1 1 2\r\n", "203.0.113.7:1", "192.0.2.1:2"},
		{"v1 unknown", "PROXY UNKNOWN\r\n", "", ""},
		{"v1 unknown with addresses", "PROXY UNKNOWN ::1 ::1 1 2\r\n", "", ""},
		{"v2 IPv4", v2IPv4, "203.0.113.7:50000", "192.0.2.1:3306"},
		{"v2 IPv6 with an extension", v2IPv6, "[2001:db8::7]:50000", "[2001:db8::1]:3306"},
		{"v2 local", v2Local, "", ""},
		{"v2 local with addresses", proxyV2Sign + "\x20\x11\x00\x0c" + "123456789012", "", ""},
		{"v2 Unix socket", proxyV2Sign + "\x21\x31\x00\xd8" + strings.Repeat("x", 216), "", ""},
		{"v2 unspecified", proxyV2Sign + "\x21\x00\x00\x00", "", ""},
	} {
		show := func(a netip.AddrPort) string {
			if !a.IsValid() {
				return ""
			}
			return a.String()
		}
		h, n, err := ParseProxyHeader([]byte(v.in + "rest"))
		if err != nil || n != len(v.in) || show(h.Source) != v.source || show(h.Destination) != v.destination {
			t.Errorf("%s: %+v, %d bytes of %d, %v", v.name, h, n, len(v.in), err)
		}
		for i := range len(v.in) {
			if _, _, err := ParseProxyHeader([]byte(v.in[:i])); err != io.ErrUnexpectedEOF {
				t.Errorf("%s: the first %d bytes: %v", v.name, i, err)
				break
			}
		}
	}
	for name, in := range map[string]string{
		"something else":     "GET / HTTP/1.1\r\n",
		"v1 too long":        "PROXY UNKNOWN " + strings.Repeat("x", 107) + "\r\n",
		"v1 other family":    "PROXY UDP4 203.0.113.7 192.0.2.1 50000 3306\r\n",
		"v1 family mixed":    "PROXY TCP4 ::1 192.0.2.1 50000 3306\r\n",
		"v1 no address":      "PROXY TCP4 localhost 192.0.2.1 50000 3306\r\n",
		"v1 zone":            "PROXY TCP6 fe80::1%eth0 ::1 50000 3306\r\n",
		"v1 port":            "PROXY TCP4 203.0.113.7 192.0.2.1 65536 3306\r\n",
		"v1 signed port":     "PROXY TCP4 203.0.113.7 192.0.2.1 -1 3306\r\n",
		"v1 fields":          "PROXY TCP4 203.0.113.7 192.0.2.1 1\r\n",
		"v1 nothing":         "PROXY \r\n",
		"v2 version":         proxyV2Sign + "\x11\x11\x00\x0c" + "123456789012",
		"v2 command":         proxyV2Sign + "\x22\x11\x00\x0c" + "123456789012",
		"v2 family":          proxyV2Sign + "\x21\x12\x00\x0c" + "123456789012",
		"v2 addresses short": proxyV2Sign + "\x21\x11\x00\x0b" + "12345678901",
		"v2 IPv6 short":      proxyV2Sign + "\x21\x21\x00\x0c" + "123456789012",
		"v2 huge":            proxyV2Sign + "\x21\x11\xff\xff",
	} {
		if h, _, err := ParseProxyHeader([]byte(in)); !errors.Is(err, ErrProxyHeader) {
			t.Errorf("%s: %+v, %v", name, h, err)
		}
	}
}

// addrConn is a pipe's end that says it comes from somewhere.
type addrConn struct {
	net.Conn
	remote net.Addr
}

func (c addrConn) RemoteAddr() net.Addr { return c.remote }

func TestAcceptProxy(t *testing.T) {
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	from := func(addr string, says string) (net.Conn, func(), error) {
		a, b := net.Pipe()
		go func() {
			_, _ = b.Write([]byte(says))
			_ = b.Close()
		}()
		nc, err := AcceptProxy(addrConn{a, net.TCPAddrFromAddrPort(netip.MustParseAddrPort(addr))}, trusted)
		return nc, func() { a.Close() }, err
	}
	for _, v := range []struct{ name, addr, says, remote, rest string }{
		{"v1", "10.0.0.1:1", "PROXY TCP4 203.0.113.7 192.0.2.1 50000 3306\r\nrest", "203.0.113.7:50000", "rest"},
		{"v2", "[::ffff:10.0.0.1]:1", v2IPv4 + "rest", "203.0.113.7:50000", "rest"},
		{"v2 with an extension", "10.0.0.1:1", v2IPv6 + "rest", "[2001:db8::7]:50000", "rest"},
		{"local", "10.0.0.1:1", v2Local + "rest", "10.0.0.1:1", "rest"},
		{"unknown", "10.0.0.1:1", "PROXY UNKNOWN\r\nrest", "10.0.0.1:1", "rest"},
		{"not trusted", "192.0.2.9:1", "PROXY UNKNOWN\r\nrest", "192.0.2.9:1", "PROXY UNKNOWN\r\nrest"},
	} {
		nc, stop, err := from(v.addr, v.says)
		if err != nil {
			t.Errorf("%s: %v", v.name, err)
			continue
		}
		rest, err := io.ReadAll(nc)
		if nc.RemoteAddr().String() != v.remote || string(rest) != v.rest || err != nil {
			t.Errorf("%s: from %s, rest %q, %v", v.name, nc.RemoteAddr(), rest, err)
		}
		stop()
	}
	for name, says := range map[string]string{"none": "\x01\x00\x00\x01 a client's packet", "short": "PROXY", "cut": "PROXY TCP4 203.0.113.7 192.0.2.1", "cut v2": v2IPv4[:20]} {
		_, stop, err := from("10.0.0.1:1", says)
		if err == nil {
			t.Errorf("%s: no error", name)
		}
		stop()
	}
}
