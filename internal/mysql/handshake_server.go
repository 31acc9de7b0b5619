package mysql

import (
	"crypto/tls"
	"errors"
	"net"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"
)

// ServerOptions is what AcceptHandshake needs to know of the server.
type ServerOptions struct {
	ConnectionID uint32
	Version      string // in the greeting, e.g. "8.0.36"
	Capabilities uint32 // offered; 0: ServerCapabilities
	Collation    uint8  // the greeting's; 0: 45, utf8mb4_general_ci
	Status       uint16 // the greeting's; 0: SERVER_STATUS_AUTOCOMMIT
	// AuthPlugin is the greeting's: caching_sha2_password (also when empty) or
	// mysql_native_password.
	AuthPlugin string

	TLS *tls.Config // nil: no TLS is offered
	// TLSMode is TLSPreferred, TLSDisabled or TLSRequired. When required, a
	// client on neither TLS nor a Unix socket gets error 3159.
	TLSMode TLSMode

	// RSA lets caching_sha2_password send a password without TLS; nil: such
	// logins fail unless the fast path or TLS serves them.
	RSA *RSAKey
	// Cache speeds caching_sha2_password up for users known by a hash; nil: each
	// login is a full one.
	Cache *AuthCache
	// Compress and Zstd offer the two compressions.
	Compress, Zstd bool
}

// Lookup finds what is known of a user. When it returns false, the user is
// unknown, and the Credential is only imitated: the kind of its hash decides the
// exchange, which fails at its end as a wrong password does. The zero Credential
// imitates a user known by a plain password.
type Lookup = func(user string, remote net.Addr) (Credential, bool)

// Login is who logged in, and what the client said of itself.
type Login struct {
	User     string
	Host     string // the client's address without port, or "localhost" for a Unix socket
	Database string // as asked for; it may not exist
	// Capabilities are those in force: offered by the server and wanted by the
	// client.
	Capabilities uint32
	Collation    uint16 // the character set's and collation's id as sent; may be unknown to the server
	Attributes   map[string]string
	AuthPlugin   string // the one that decided
	MaxPacket    uint32 // bytes; the client's max_allowed_packet
	TLS          bool
	// Compression starts behind the OK that ends the login: see
	// Conn.StartCompression.
	Compression Compression
	ZstdLevel   int

	salt       []byte // the greeting's
	authPlugin string // the greeting's
	// nativeSalt is the last one that the client was told with
	// mysql_native_password, at first the greeting's.
	nativeSalt []byte
}

// AcceptHandshake greets the client on c and finds out who it is. The OK packet that ends a good login is left to the caller, who may yet
// have to say that the database is unknown. It is written with the sequence id
// c is at.
//
// After an *Error the client was told, and the connection is to be closed. Any
// other error is the connection's: io.EOF in it is a client that left without a
// word, as health checks do.
//
// The caller bounds the time with a deadline on c.NetConn().
func AcceptHandshake(c *Conn, opt ServerOptions, lookup Lookup) (*Login, error) {
	limit := c.limit
	c.SetLimit(min(limit, loginBytesMax))
	defer c.SetLimit(limit)
	login, err := acceptHandshake(c, &opt, lookup)
	return login, tell(c, err)
}

// tell sends the client err if it is one for it.
func tell(c *Conn, err error) error {
	var e *Error
	if errors.As(err, &e) {
		if c.WritePacket(AppendError(nil, e)) == nil {
			_ = c.Flush() // the login has failed anyway
		}
	}
	return err
}

func acceptHandshake(c *Conn, opt *ServerOptions, lookup Lookup) (*Login, error) {
	g := opt.greeting()
	c.ResetSeq()
	if err := send(c, AppendGreeting(nil, g)); err != nil {
		return nil, err
	}
	p, err := c.ReadPacket()
	if err != nil {
		return nil, err
	}
	r, err := ParseHandshakeResponse(p, g.Capabilities)
	if err != nil {
		return nil, err
	}
	if r.Capabilities&g.Capabilities&gomysql.CLIENT_SSL != 0 {
		if err := c.startServerTLS(opt.TLS); err != nil {
			return nil, err
		}
		if p, err = c.ReadPacket(); err != nil {
			return nil, err
		}
		if r, err = ParseHandshakeResponse(p, g.Capabilities); err != nil {
			return nil, err
		}
	}
	login := &Login{
		User:         r.User,
		Host:         hostOf(c.NetConn()),
		Database:     r.Database,
		Capabilities: r.Capabilities & g.Capabilities,
		Collation:    uint16(r.Collation),
		Attributes:   r.Attributes,
		MaxPacket:    r.MaxPacket,
		TLS:          isTLS(c.NetConn()),
		salt:         g.Salt,
		authPlugin:   g.AuthPlugin,
		nativeSalt:   g.Salt,
	}
	// A client may ask for both compressions; zlib is mysqld's choice then.
	switch {
	case login.Capabilities&gomysql.CLIENT_COMPRESS != 0:
		login.Compression = CompressZlib
		login.Capabilities &^= gomysql.CLIENT_ZSTD_COMPRESSION_ALGORITHM
	case login.Capabilities&gomysql.CLIENT_ZSTD_COMPRESSION_ALGORITHM != 0:
		login.Compression, login.ZstdLevel = CompressZstd, int(r.ZstdLevel)
	}
	if err := checkClientCharset(login.Collation); err != nil {
		return nil, err
	}
	x := exchange{c: c, opt: opt, login: login, plugin: r.AuthPlugin, response: r.AuthResponse}
	x.fresh = login.Capabilities&gomysql.CLIENT_PLUGIN_AUTH == 0 || r.AuthPlugin == g.AuthPlugin
	if err := x.run(lookup); err != nil {
		return nil, err
	}
	// mysqld says so only to whoever knows a password.
	if opt.TLSMode == TLSRequired && !isPrivate(c.NetConn()) {
		return nil, errInsecureTransport()
	}
	return login, nil
}

// checkClientCharset refuses the character sets that a client cannot speak,
// because their letters of ASCII are not one byte. It does not mind an unknown id:
// there both servers take their own default.
func checkClientCharset(id uint16) error {
	found, _ := MySQLCollations().ByID(id) // those of MariaDB's below 256 are the same
	switch found.Charset {
	case "ucs2", "utf16", "utf16le", "utf32":
		return Errorf(gomysql.ER_WRONG_VALUE_FOR_VAR, "Variable 'character_set_client' can't be set to the value of '%s'", found.Charset)
	}
	return nil
}

// ChangeUser logs another user in on the connection of a former login. payload
// is the COM_CHANGE_USER packet's, command byte included; c is as it was left by
// reading it. What it returns and leaves to the caller is as AcceptHandshake
// says; whether the connection is closed after an error is the caller's
// decision (MySQL closes it, MariaDB keeps it with the former user).
//
// Compression and everything else the first handshake fixed stays.
func ChangeUser(c *Conn, opt ServerOptions, former *Login, payload []byte, lookup Lookup) (*Login, error) {
	limit := c.limit
	c.SetLimit(min(limit, loginBytesMax))
	defer c.SetLimit(limit)
	login, err := acceptChangeUser(c, &opt, former, payload, lookup)
	return login, tell(c, err)
}

func acceptChangeUser(c *Conn, opt *ServerOptions, former *Login, payload []byte, lookup Lookup) (*Login, error) {
	if len(payload) == 0 || payload[0] != gomysql.COM_CHANGE_USER {
		return nil, ErrMalformed
	}
	r, ok := parseChangeUser(payload[1:], former.Capabilities)
	if !ok {
		return nil, Errorf(gomysql.ER_MALFORMED_PACKET, "Malformed communication packet")
	}
	next := *former
	login := &next
	login.User, login.Database, login.Attributes = r.user, r.database, r.attributes
	if r.collation != 0 {
		login.Collation = r.collation
	}
	if err := checkClientCharset(login.Collation); err != nil {
		return nil, err
	}
	x := exchange{c: c, opt: opt, login: login, plugin: r.authPlugin, response: r.authResponse}
	// Which salt the client used here depends on the client and on what came
	// before. So the exchange starts over with a new one, as mysqld's does,
	// unless the client is too old for that. MariaDB's client answers
	// mysql_native_password with the salt it had before, whatever the switch
	// says, so that MariaDB's server repeats it there.
	x.repeat = true
	x.fresh = login.Capabilities&gomysql.CLIENT_PLUGIN_AUTH == 0
	if err := x.run(lookup); err != nil {
		return nil, err
	}
	return login, nil
}

func (opt *ServerOptions) greeting() *Greeting {
	g := &Greeting{
		Version:      greetingVersion(opt.Version),
		ConnectionID: opt.ConnectionID,
		Capabilities: opt.Capabilities,
		Collation:    opt.Collation,
		Status:       opt.Status,
		Salt:         newSalt(),
		AuthPlugin:   opt.AuthPlugin,
	}
	if g.Capabilities == 0 {
		g.Capabilities = ServerCapabilities
	}
	g.Capabilities &^= gomysql.CLIENT_SSL | gomysql.CLIENT_COMPRESS | gomysql.CLIENT_ZSTD_COMPRESSION_ALGORITHM
	if opt.TLS != nil && opt.TLSMode != TLSDisabled {
		g.Capabilities |= gomysql.CLIENT_SSL
	}
	if opt.Compress {
		g.Capabilities |= gomysql.CLIENT_COMPRESS
	}
	if opt.Zstd {
		g.Capabilities |= gomysql.CLIENT_ZSTD_COMPRESSION_ALGORITHM
	}
	if g.Collation == 0 {
		g.Collation = 45
	}
	if g.Status == 0 {
		g.Status = gomysql.SERVER_STATUS_AUTOCOMMIT
	}
	if g.AuthPlugin == "" {
		g.AuthPlugin = gomysql.AUTH_CACHING_SHA2_PASSWORD
	}
	return g
}

// greetingVersion is how a greeting names a version: MariaDB puts a number in
// front that clients which know only MySQL's can read.
func greetingVersion(v string) string {
	if isMariaDB(v) && v[0] != '5' {
		return "5.5.5-" + v
	}
	return v
}

// send writes one packet and flushes it.
func send(c *Conn, payload []byte) error {
	if err := c.WritePacket(payload); err != nil {
		return err
	}
	return c.Flush()
}

// hostOf is the host of 'user'@'host'.
func hostOf(nc net.Conn) string {
	addr := nc.RemoteAddr()
	switch a := addr.(type) {
	case *net.TCPAddr:
		return a.AddrPort().Addr().Unmap().String()
	case *net.UnixAddr:
		return "localhost"
	}
	if host, _, err := net.SplitHostPort(addr.String()); err == nil {
		return host
	}
	return addr.String()
}

func errInsecureTransport() *Error {
	const erSecureTransportRequired = 3159
	return Errorf(erSecureTransportRequired, "Connections using insecure transport are prohibited while --require_secure_transport=ON.")
}
