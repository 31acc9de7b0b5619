package mysql

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"
)

const testLimit = 64 << 20

// certs are PEM files of an authority and of a certificate for localhost and
// 127.0.0.1 that it signed.
type certs struct{ ca, cert, key string }

func newCerts(t testing.TB) certs {
	t.Helper()
	dir := t.TempDir()
	write := func(name, kind string, der []byte) string {
		path := filepath.Join(dir, name)
		b := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	ca := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test CA"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, &caKey.PublicKey, caKey)
	must(err)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	leaf := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "server"},
		NotBefore: ca.NotBefore, NotAfter: ca.NotAfter, KeyUsage: x509.KeyUsageDigitalSignature,
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	leafDER, err := x509.CreateCertificate(rand.Reader, leaf, ca, &key.PublicKey, caKey)
	must(err)
	keyDER, err := x509.MarshalECPrivateKey(key)
	must(err)
	return certs{write("ca.pem", "CERTIFICATE", caDER), write("cert.pem", "CERTIFICATE", leafDER),
		write("key.pem", "EC PRIVATE KEY", keyDER)}
}

func (c certs) server(t testing.TB) *tls.Config {
	t.Helper()
	s, err := LoadServerTLS(TLSFiles{Cert: c.cert, Key: c.key})
	if err != nil {
		t.Fatal(err)
	}
	return s.Config()
}

// accepted is what came of one connection to a testServer.
type accepted struct {
	login *Login
	err   error // of the handshake or of the commands behind it
}

// testServer logs clients in and answers every command with OK. It understands
// COM_CHANGE_USER and COM_QUIT. What came of each connection is sent to done.
type testServer struct {
	net.Listener
	opt    ServerOptions
	lookup Lookup
	wrap   []func(net.Conn) (net.Conn, error) // what is done to a connection first
	done   chan accepted
}

// serve starts a server on network "tcp" or "unix" that stops with the test.
func serve(t testing.TB, network string, opt ServerOptions, lookup Lookup, wrap ...func(net.Conn) (net.Conn, error)) *testServer {
	t.Helper()
	addr := "127.0.0.1:0"
	if network == "unix" {
		dir, err := os.MkdirTemp("", "braid") // t.TempDir may be too long for a socket
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(dir) })
		addr = filepath.Join(dir, "s")
	}
	l, err := net.Listen(network, addr)
	if err != nil {
		t.Fatal(err)
	}
	if opt.Version == "" {
		opt.Version = "8.0.36-braid"
	}
	s := &testServer{Listener: l, opt: opt, lookup: lookup, wrap: wrap, done: make(chan accepted, 64)}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			go s.one(nc)
		}
	}()
	t.Cleanup(func() { l.Close(); <-stopped })
	return s
}

func (s *testServer) one(nc net.Conn) {
	defer nc.Close()
	nc.SetDeadline(time.Now().Add(20 * time.Second))
	for _, wrap := range s.wrap {
		var err error
		if nc, err = wrap(nc); err != nil {
			s.done <- accepted{nil, err}
			return
		}
	}
	c := NewConn(nc, ClientSide, testLimit)
	opt := s.opt
	opt.ConnectionID = 4711
	login, err := AcceptHandshake(c, opt, s.lookup)
	if err != nil {
		s.done <- accepted{login, err}
		return
	}
	err = s.commands(c, &login)
	s.done <- accepted{login, err}
}

// commands answers until COM_QUIT, after which its error is nil.
func (s *testServer) commands(c *Conn, login **Login) error {
	ok := func() error { return send(c, AppendOK(nil, 0, &OK{Status: gomysql.SERVER_STATUS_AUTOCOMMIT}, false)) }
	if err := ok(); err != nil {
		return err
	}
	var frames *CompressedConn
	if (*login).Compression != CompressNone {
		if err := c.StartCompression((*login).Compression, (*login).ZstdLevel); err != nil {
			return err
		}
		frames = c.NetConn().(*CompressedConn)
	}
	for {
		if err := c.WaitCommand(); err != nil {
			return err
		}
		c.ResetSeq()
		p, err := c.ReadPacket()
		if err != nil {
			return err
		}
		if frames != nil {
			c.SetSeq(frames.Seq())
		}
		switch {
		case len(p) > 0 && p[0] == gomysql.COM_QUIT:
			return nil
		case len(p) > 0 && p[0] == gomysql.COM_CHANGE_USER:
			next, err := ChangeUser(c, s.opt, *login, append([]byte(nil), p...), s.lookup)
			if err != nil {
				return err
			}
			*login = next
		}
		if err := ok(); err != nil {
			return err
		}
	}
}

// dial connects to the server and logs in, but does not say good-bye.
func (s *testServer) dial(t testing.TB, opt ClientOptions) (*Conn, *ServerInfo, error) {
	t.Helper()
	nc, err := net.Dial(s.Addr().Network(), s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	nc.SetDeadline(time.Now().Add(20 * time.Second))
	t.Cleanup(func() { nc.Close() })
	c := NewConn(nc, NodeSide, testLimit)
	info, err := Connect(c, opt)
	return c, info, err
}

// command sends one command and returns the answer's first packet, whatever its
// sequence id.
func command(c *Conn, cmd byte, payload string) ([]byte, error) {
	if f, ok := c.NetConn().(*CompressedConn); ok {
		f.ResetSeq()
	}
	if err := c.WriteCommand(cmd, []byte(payload)); err != nil {
		return nil, err
	}
	if err := c.Flush(); err != nil {
		return nil, err
	}
	return readAny(c)
}

// readAny reads a packet and takes its sequence id for the right one.
func readAny(c *Conn) ([]byte, error) {
	if err := c.fill(4); err != nil {
		return nil, err
	}
	_, c.seq = c.header()
	return c.ReadPacket()
}

func quit(t testing.TB, c *Conn) {
	t.Helper()
	if f, ok := c.NetConn().(*CompressedConn); ok {
		f.ResetSeq()
	}
	if err := c.WriteCommand(gomysql.COM_QUIT, nil); err != nil {
		t.Error(err)
	}
	if err := c.Flush(); err != nil {
		t.Error(err)
	}
}

// users is a Lookup over a map; all others are unknown.
func users(m map[string]Credential) Lookup {
	return func(user string, _ net.Addr) (Credential, bool) {
		c, ok := m[user]
		return c, ok
	}
}

func wantError(t *testing.T, err error, code uint16, message string) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("error is %v, not the server's %d", err, code)
	}
	if e.Code != code || e.Message != message {
		t.Fatalf("error is %v, want %d %q", e, code, message)
	}
}

func isEOF(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) }

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, b, 0o600); err != nil {
		t.Fatal(err)
	}
}
