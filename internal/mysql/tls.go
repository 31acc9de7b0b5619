package mysql

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
)

// TLSMode says how much TLS a connection needs, in the words of MySQL's
// --ssl-mode. On the server's side only the first three make sense.
type TLSMode uint8

const (
	TLSPreferred      TLSMode = iota // where the other side can, unverified
	TLSDisabled                      // never
	TLSRequired                      // always, unverified
	TLSVerifyCA                      // always; the certificate is signed by a known authority
	TLSVerifyIdentity                // always; and it is made out to the host's name
)

var tlsModeNames = [...]string{"preferred", "disabled", "required", "verify-ca", "verify-identity"}

func (m TLSMode) String() string {
	if int(m) < len(tlsModeNames) {
		return tlsModeNames[m]
	}
	return fmt.Sprintf("TLSMode(%d)", m)
}

// ParseTLSMode is String's inverse.
func ParseTLSMode(s string) (TLSMode, error) {
	for i, name := range tlsModeNames {
		if s == name {
			return TLSMode(i), nil
		}
	}
	return 0, fmt.Errorf("TLS mode %q is none of %q", s, tlsModeNames)
}

// TLSFiles names PEM files. Empty names are for what is not wanted.
type TLSFiles struct {
	Cert, Key string // own certificate (with its chain) and its key
	CA        string // authorities that the other side's certificate is checked against
}

// ServerTLS is a server's TLS setup, read from files, which can be read again
// while the server runs. It is safe for concurrent use.
type ServerTLS struct {
	files TLSFiles
	mu    struct {
		sync.RWMutex
		config *tls.Config // immutable once here
	}
}

// LoadServerTLS reads files, of which Cert and Key must be named. With a CA a
// client's certificate, where it shows one, is checked against it.
func LoadServerTLS(files TLSFiles) (*ServerTLS, error) {
	t := &ServerTLS{files: files}
	if err := t.Reload(); err != nil {
		return nil, err
	}
	return t, nil
}

// Reload reads the files again, for connections from now on. After an error the
// former setup stays.
func (t *ServerTLS) Reload() error {
	cert, err := tls.LoadX509KeyPair(t.files.Cert, t.files.Key)
	if err != nil {
		return fmt.Errorf("certificate %s, key %s: %w", t.files.Cert, t.files.Key, err)
	}
	config := &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
	if t.files.CA != "" {
		if config.ClientCAs, err = loadCA(t.files.CA); err != nil {
			return err
		}
		config.ClientAuth = tls.VerifyClientCertIfGiven
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.config = config
	return nil
}

// Config returns the setup as last read. Do not change it.
func (t *ServerTLS) Config() *tls.Config {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.mu.config
}

// ClientTLS makes the setup for connections to serverName (a host name or an
// address, without port) under mode. It is nil, without an error, for
// TLSDisabled. Without a CA the modes that verify use the system's authorities.
func ClientTLS(mode TLSMode, serverName string, files TLSFiles) (*tls.Config, error) {
	if mode == TLSDisabled {
		return nil, nil
	}
	config := &tls.Config{ServerName: serverName, MinVersion: tls.VersionTLS12}
	if files.Cert != "" || files.Key != "" {
		cert, err := tls.LoadX509KeyPair(files.Cert, files.Key)
		if err != nil {
			return nil, fmt.Errorf("certificate %s, key %s: %w", files.Cert, files.Key, err)
		}
		config.Certificates = []tls.Certificate{cert}
	}
	if files.CA != "" {
		var err error
		if config.RootCAs, err = loadCA(files.CA); err != nil {
			return nil, err
		}
	}
	switch mode {
	case TLSVerifyIdentity:
	case TLSVerifyCA:
		config.InsecureSkipVerify = true // the name only; the chain is checked here
		roots := config.RootCAs
		config.VerifyConnection = func(s tls.ConnectionState) error {
			if len(s.PeerCertificates) == 0 {
				return errors.New("the server shows no certificate")
			}
			between := x509.NewCertPool()
			for _, c := range s.PeerCertificates[1:] {
				between.AddCert(c)
			}
			_, err := s.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: between})
			return err
		}
	default:
		config.InsecureSkipVerify = true // these modes are against listeners only, as MySQL's
	}
	return config, nil
}

func loadCA(file string) (*x509.CertPool, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("CA: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(b) {
		return nil, fmt.Errorf("CA: %s holds no PEM certificate", file)
	}
	return pool, nil
}

// takeAhead returns a copy of what was read ahead and forgets it.
func (c *Conn) takeAhead() []byte {
	if c.Buffered() == 0 {
		return nil
	}
	b := append([]byte(nil), (*c.rbuf)[c.r:c.w]...)
	c.r, c.w = 0, 0
	return b
}

// aheadConn is a connection of which some bytes were read already.
type aheadConn struct {
	net.Conn
	ahead []byte
}

func (c *aheadConn) Read(p []byte) (int, error) {
	if len(c.ahead) == 0 {
		return c.Conn.Read(p)
	}
	n := copy(p, c.ahead)
	if c.ahead = c.ahead[n:]; len(c.ahead) == 0 {
		c.ahead = nil
	}
	return n, nil
}

// NetConn returns the connection below.
func (c *aheadConn) NetConn() net.Conn { return c.Conn }

// startServerTLS makes c a TLS connection behind an SSLRequest. A client does
// not wait before it says hello, so what was read ahead belongs to TLS: none of
// it is ever taken for what came through TLS.
func (c *Conn) startServerTLS(config *tls.Config) error {
	return c.startTLS(tls.Server(&aheadConn{c.nc, c.takeAhead()}, config))
}

func (c *Conn) startTLS(tc *tls.Conn) error {
	if err := tc.Handshake(); err != nil {
		return &SocketError{c.side, "TLS handshake", err}
	}
	c.SetNetConn(tc)
	return nil
}

// unwrap calls see with nc and every connection below it until see returns
// true, and tells whether it did.
func unwrap(nc net.Conn, see func(net.Conn) bool) bool {
	for nc != nil {
		if see(nc) {
			return true
		}
		below, ok := nc.(interface{ NetConn() net.Conn })
		if !ok {
			return false
		}
		nc = below.NetConn()
	}
	return false
}

// Socket returns the socket at the bottom of nc, whatever TLS, compression and
// PROXY headers lie above it; nil when there is none.
func Socket(nc net.Conn) syscall.Conn {
	var bottom net.Conn
	unwrap(nc, func(nc net.Conn) bool { bottom = nc; return false })
	sc, _ := bottom.(syscall.Conn)
	return sc
}

// TLSState tells how nc travels over TLS; ok is false when it does not.
func TLSState(nc net.Conn) (state tls.ConnectionState, ok bool) {
	unwrap(nc, func(nc net.Conn) bool {
		var tc *tls.Conn
		if tc, ok = nc.(*tls.Conn); ok {
			state = tc.ConnectionState()
		}
		return ok
	})
	return state, ok
}

// isTLS tells whether nc travels over TLS.
func isTLS(nc net.Conn) bool {
	return unwrap(nc, func(nc net.Conn) bool { _, ok := nc.(*tls.Conn); return ok })
}

// isPrivate tells whether nobody can listen: TLS, or a Unix socket. MySQL calls
// it a secure transport.
func isPrivate(nc net.Conn) bool {
	return isTLS(nc) || unwrap(nc, func(nc net.Conn) bool { _, ok := nc.(*net.UnixConn); return ok })
}

// isNetError tells a broken connection from a broken TLS handshake.
func isNetError(err error) bool {
	var ne net.Error
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.As(err, &ne)
}
