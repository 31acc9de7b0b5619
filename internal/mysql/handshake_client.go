package mysql

import (
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"strings"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"
)

// ClientOptions is what Connect needs to know.
type ClientOptions struct {
	User, Password string
	Schema         string // empty: none
	Collation      uint8  // low byte of the collation id; 0: 45, utf8mb4_general_ci
	MaxPacket      uint32 // bytes; 0: 1 GiB, the most a server takes

	FoundRows  bool // affected rows count rows found, not rows changed
	LocalFiles bool // the node may ask for a LOCAL file's contents

	// TLSMode says when TLS, from ClientTLS, is used. Without TLS the mode
	// TLSPreferred is TLSDisabled, and the ones that need it fail.
	TLSMode TLSMode
	TLS     *tls.Config
	// Compression, where the node offers it; starts when Connect returns.
	Compression Compression
	ZstdLevel   int // 1..22; 0: 3

	Attributes map[string]string // besides program_name
}

// ServerInfo is what a node says of itself.
type ServerInfo struct {
	Version      string // without the "5.5.5-" that MariaDB puts in front
	MariaDB      bool
	ConnectionID uint64 // the low 32 bits, which is all that travels
	Capabilities uint32 // in force: offered by the node and asked for
	Status       uint16 // SERVER_STATUS_*, after the login
	Charset      uint8  // low byte of the greeting's collation id
	TLS          bool
}

// Connect reads a node's greeting on c and logs in. A server's refusal (1040,
// 1045, 1049, ...) is an *Error, and so is what Braid itself refuses, with the
// numbers of MySQL's client library: 2026 for TLS, 2059 for an authentication
// plugin it does not speak, 2061 for one it will not use. Other errors are the
// connection's. After an error the connection is to be closed.
//
// The caller bounds the time with a deadline on c.NetConn(). On success the
// sequence is at its start and nothing is buffered.
func Connect(c *Conn, opt ClientOptions) (*ServerInfo, error) {
	c.ResetSeq()
	p, err := c.ReadPacket()
	if err != nil {
		return nil, err
	}
	if len(p) > 0 && p[0] == 0xff {
		return nil, greetingError(p)
	}
	g, err := ParseGreeting(p)
	if err != nil {
		return nil, fmt.Errorf("greeting: %w", err)
	}
	if g.Capabilities&gomysql.CLIENT_PROTOCOL_41 == 0 || len(g.Salt) != saltBytes {
		return nil, fmt.Errorf("greeting: server %s does not speak protocol 4.1: %w", g.Version, ErrMalformed)
	}
	r := opt.response(g)
	if err := startClientTLS(c, &opt, g, r); err != nil {
		return nil, err
	}
	x := proof{c: c, password: opt.Password, private: isPrivate(c.NetConn()), plugin: g.AuthPlugin, salt: g.Salt}
	if err := x.begin(r); err != nil {
		return nil, err
	}
	if err := send(c, AppendHandshakeResponse(nil, r)); err != nil {
		return nil, err
	}
	ok, err := x.finish()
	if err != nil {
		return nil, err
	}
	c.ResetSeq()
	switch {
	case r.Capabilities&gomysql.CLIENT_COMPRESS != 0:
		err = c.StartCompression(CompressZlib, 0)
	case r.Capabilities&gomysql.CLIENT_ZSTD_COMPRESSION_ALGORITHM != 0:
		err = c.StartCompression(CompressZstd, int(r.ZstdLevel))
	}
	if err != nil {
		return nil, err
	}
	info := &ServerInfo{
		Version:      g.Version,
		MariaDB:      isMariaDB(g.Version),
		ConnectionID: uint64(g.ConnectionID),
		Capabilities: r.Capabilities,
		Status:       ok.Status,
		Charset:      g.Collation,
		TLS:          isTLS(c.NetConn()),
	}
	if info.MariaDB {
		info.Version = strings.TrimPrefix(info.Version, "5.5.5-")
	}
	return info, nil
}

// response is the answer to g but for the proof of the password.
func (opt *ClientOptions) response(g *Greeting) *HandshakeResponse {
	want := nodeCapabilities
	if opt.FoundRows {
		want |= gomysql.CLIENT_FOUND_ROWS
	}
	if opt.LocalFiles {
		want |= gomysql.CLIENT_LOCAL_FILES
	}
	if opt.Schema != "" {
		want |= gomysql.CLIENT_CONNECT_WITH_DB
	}
	switch opt.Compression {
	case CompressZlib:
		want |= gomysql.CLIENT_COMPRESS
	case CompressZstd:
		want |= gomysql.CLIENT_ZSTD_COMPRESSION_ALGORITHM
	}
	r := &HandshakeResponse{
		// MariaDB offers no CLIENT_LONG_PASSWORD (to it the bit is "I am MySQL's
		// protocol"), and a client without it is taken for one that sends
		// MariaDB's extended capabilities; so it is set towards both.
		Capabilities: want&g.Capabilities | gomysql.CLIENT_LONG_PASSWORD,
		MaxPacket:    opt.MaxPacket,
		Collation:    opt.Collation,
		User:         opt.User,
		Database:     opt.Schema,
		Attributes:   map[string]string{"program_name": "braid"},
	}
	maps.Copy(r.Attributes, opt.Attributes)
	if r.MaxPacket == 0 {
		r.MaxPacket = 1 << 30
	}
	if r.Collation == 0 {
		r.Collation = 45
	}
	if r.Capabilities&gomysql.CLIENT_ZSTD_COMPRESSION_ALGORITHM != 0 {
		r.ZstdLevel = uint8(zstdLevel(opt.ZstdLevel))
	}
	return r
}

// startClientTLS switches to TLS where opt and the node want it.
func startClientTLS(c *Conn, opt *ClientOptions, g *Greeting, r *HandshakeResponse) error {
	if opt.TLSMode == TLSDisabled || opt.TLSMode == TLSPreferred && (opt.TLS == nil || isPrivate(c.NetConn())) {
		return nil // as MySQL's clients: a Unix socket is private already
	}
	if g.Capabilities&gomysql.CLIENT_SSL == 0 {
		if opt.TLSMode == TLSPreferred {
			return nil
		}
		return &Error{2026, "HY000", "SSL connection error: SSL is required but the server doesn't support it"}
	}
	if opt.TLS == nil {
		return fmt.Errorf("TLS mode %s without a TLS configuration", opt.TLSMode)
	}
	r.Capabilities |= gomysql.CLIENT_SSL
	if err := send(c, appendResponseHead(nil, r)); err != nil {
		return err
	}
	if c.Buffered() > 0 {
		// Somebody put bytes in front of the TLS handshake, to have them taken
		// for what came through it.
		return fmt.Errorf("unexpected data in front of the TLS handshake: %w", ErrMalformed)
	}
	if err := c.startTLS(tls.Client(c.NetConn(), opt.TLS)); err != nil {
		var broken *SocketError
		if errors.As(err, &broken) && !isNetError(broken.Err) {
			return &Error{2026, "HY000", "SSL connection error: " + broken.Err.Error()}
		}
		return err
	}
	return nil
}

// greetingError decodes the ERR packet that a server sends in place of its
// greeting. It may come without SQLSTATE.
func greetingError(p []byte) *Error {
	e := ParseError(p)
	if e.State == "HY000" {
		if state, ok := gomysql.MySQLState[e.Code]; ok {
			e.State = state
		}
	}
	return e
}

// proof shows the node the password.
type proof struct {
	c        *Conn
	password string
	private  bool // nobody can listen
	plugin   string
	salt     []byte
}

// begin puts the first response into r, for the greeting's plugin where that
// can be; the node asks for another one where it must be.
func (x *proof) begin(r *HandshakeResponse) error {
	switch x.plugin {
	case gomysql.AUTH_NATIVE_PASSWORD, gomysql.AUTH_CACHING_SHA2_PASSWORD:
	default:
		// Clear text is never volunteered, and of unknown ones the user's own
		// plugin may yet be another.
		x.plugin = gomysql.AUTH_NATIVE_PASSWORD
	}
	var err error
	r.AuthPlugin = x.plugin
	r.AuthResponse, err = x.response()
	return err
}

// response is the plugin's first response to the salt.
func (x *proof) response() ([]byte, error) {
	switch x.plugin {
	case gomysql.AUTH_NATIVE_PASSWORD:
		if len(x.salt) != saltBytes {
			return nil, ErrMalformed
		}
		return gomysql.CalcPassword(x.salt, []byte(x.password)), nil
	case gomysql.AUTH_CACHING_SHA2_PASSWORD:
		if len(x.salt) != saltBytes {
			return nil, ErrMalformed
		}
		return gomysql.CalcCachingSha2Password(x.salt, x.password), nil
	case gomysql.AUTH_CLEAR_PASSWORD:
		if !isTLS(x.c.NetConn()) {
			return nil, &Error{2061, "HY000", "Authentication plugin 'mysql_clear_password' reported error: it needs a TLS connection"}
		}
		return append([]byte(x.password), 0), nil
	}
	return nil, &Error{2059, "HY000", fmt.Sprintf("Authentication plugin '%s' cannot be loaded: not supported", x.plugin)}
}

// finish goes on until the node says OK or ERR.
func (x *proof) finish() (OK, error) {
	for {
		p, err := x.c.ReadPacket()
		if err != nil {
			return OK{}, err
		}
		if len(p) == 0 {
			return OK{}, ErrMalformed
		}
		switch p[0] {
		case 0x00:
			return ParseOK(p, false)
		case 0xff:
			return OK{}, ParseError(p)
		case 0xfe:
			if x.plugin, x.salt, err = parseAuthSwitch(p); err != nil {
				return OK{}, err
			}
			response, err := x.response()
			if err != nil {
				return OK{}, err
			}
			if err := send(x.c, response); err != nil {
				return OK{}, err
			}
		case gomysql.MORE_DATE_HEADER:
			if err := x.more(p[1:]); err != nil {
				return OK{}, err
			}
		default:
			return OK{}, ErrMalformed
		}
	}
}

// more answers a packet of the plugin's own.
func (x *proof) more(p []byte) error {
	if x.plugin != gomysql.AUTH_CACHING_SHA2_PASSWORD || len(p) != 1 {
		return ErrMalformed
	}
	switch p[0] {
	case gomysql.CACHE_SHA2_FAST_AUTH:
		return nil
	case gomysql.CACHE_SHA2_FULL_AUTH:
	default:
		return ErrMalformed
	}
	if x.private {
		return send(x.c, append([]byte(x.password), 0))
	}
	const requestPublicKey = 2
	if err := send(x.c, []byte{requestPublicKey}); err != nil {
		return err
	}
	p, err := x.c.ReadPacket()
	if err != nil {
		return err
	}
	if len(p) > 0 && p[0] == 0xff {
		return ParseError(p)
	}
	if len(p) == 0 || p[0] != gomysql.MORE_DATE_HEADER {
		return ErrMalformed
	}
	key, err := parsePublicKey(p[1:])
	if err != nil {
		return err
	}
	b, err := gomysql.EncryptPassword(x.password, x.salt, key)
	if err != nil {
		return err
	}
	return send(x.c, b)
}

// parsePublicKey decodes a server's RSA key.
func parsePublicKey(b []byte) (*rsa.PublicKey, error) {
	block, _ := pem.Decode(b)
	if block == nil {
		return nil, fmt.Errorf("public key: no PEM block: %w", ErrMalformed)
	}
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("public key: %w", err)
	}
	if key, ok := key.(*rsa.PublicKey); ok {
		return key, nil
	}
	return nil, fmt.Errorf("public key: %T is not RSA: %w", key, ErrMalformed)
}
