package wire

import (
	"bufio"
	"context"
	"crypto/rsa"
	"crypto/x509"
	"encoding/binary"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"
)

// Options says how to log in.
type Options struct {
	Addr     string // "host:port" or an absolute path of a unix socket
	User     string
	Password string
	Database string
	// Flags are further client capabilities, such as gomysql.CLIENT_FOUND_ROWS.
	// PROTOCOL_41, SECURE_CONNECTION, PLUGIN_AUTH, TRANSACTIONS, MULTI_RESULTS
	// and PS_MULTI_RESULTS are always asked for.
	Flags     uint32
	Collation byte          // character set of the handshake; 0: utf8mb4_general_ci (45)
	Timeout   time.Duration // for each answer; 0: one minute

	// Local opens the files of LOAD DATA LOCAL; nil: none. They are sent in
	// packets of LocalPacket bytes; 0: 64 KiB.
	Local       func(name string) (io.Reader, error)
	LocalPacket int
}

// Conn is one client connection. It is not safe for concurrent use. After an
// error that is not an *Error it is unusable.
type Conn struct {
	conn    net.Conn
	r       *bufio.Reader
	seq     byte
	flags   uint32 // what both sides have
	timeout time.Duration

	local       func(string) (io.Reader, error)
	localPacket int

	Version string // the server's, from the greeting
	ID      uint32 // connection id, from the greeting
	Login   OK     // the OK that ended the login
	Charset byte   // the server's default collation, from the greeting
	Status  uint16 // status flags of the greeting
	Server  uint32 // the server's capabilities, from the greeting
}

// Error is an ERR packet.
type Error struct {
	Code    uint16
	State   string
	Message string
}

func (e *Error) Error() string { return fmt.Sprintf("ERROR %d (%s): %s", e.Code, e.State, e.Message) }

const baseFlags = gomysql.CLIENT_LONG_PASSWORD | gomysql.CLIENT_LONG_FLAG | gomysql.CLIENT_PROTOCOL_41 |
	gomysql.CLIENT_SECURE_CONNECTION | gomysql.CLIENT_PLUGIN_AUTH | gomysql.CLIENT_TRANSACTIONS |
	gomysql.CLIENT_MULTI_RESULTS | gomysql.CLIENT_PS_MULTI_RESULTS

// Connect logs in. A refused login is an *Error.
func Connect(ctx context.Context, o Options) (*Conn, error) {
	network := "tcp"
	if len(o.Addr) > 0 && o.Addr[0] == '/' {
		network = "unix"
	}
	var d net.Dialer
	nc, err := d.DialContext(ctx, network, o.Addr)
	if err != nil {
		return nil, err
	}
	c := &Conn{conn: nc, r: bufio.NewReaderSize(nc, 64<<10), timeout: o.Timeout, local: o.Local, localPacket: o.LocalPacket}
	if c.localPacket == 0 {
		c.localPacket = 64 << 10
	}
	if c.timeout == 0 {
		c.timeout = time.Minute
	}
	if err := c.login(o); err != nil {
		nc.Close()
		return nil, err
	}
	return c, nil
}

// Close ends the connection with COM_QUIT.
func (c *Conn) Close() error {
	c.seq = 0
	quit := c.send([]byte{gomysql.COM_QUIT})
	if err := c.conn.Close(); err != nil {
		return err
	}
	return quit
}

// Abort drops the connection without a word.
func (c *Conn) Abort() error { return c.conn.Close() }

// DeprecateEOF tells whether CLIENT_DEPRECATE_EOF is in force.
func (c *Conn) DeprecateEOF() bool { return c.flags&gomysql.CLIENT_DEPRECATE_EOF != 0 }

func (c *Conn) login(o Options) error {
	p, err := c.read()
	if err != nil {
		return err
	}
	if p[0] == 0xff {
		return parseError(p)
	}
	g := reader{p: p}
	if v := g.u8(); v != 10 {
		return fmt.Errorf("greeting of protocol %d", v)
	}
	c.Version = string(g.until0())
	c.ID = g.u32()
	salt := append([]byte(nil), g.bytes(8)...)
	g.bytes(1)
	server := uint32(g.u16())
	c.Charset = g.u8()
	c.Status = g.u16()
	server |= uint32(g.u16()) << 16
	c.Server = server
	saltLen := int(g.u8())
	g.bytes(10)
	salt = append(salt, g.bytes(max(13, saltLen-8))...)
	plugin := string(g.until0())
	if g.bad {
		return errors.New("malformed greeting")
	}
	salt = salt[:20]

	want := uint32(baseFlags) | o.Flags
	if o.Database != "" {
		want |= gomysql.CLIENT_CONNECT_WITH_DB
	}
	c.flags = want & server
	collation := o.Collation
	if collation == 0 {
		collation = 45
	}
	auth, err := scramble(plugin, o.Password, salt)
	if err != nil {
		// An unknown default plugin: answer with one of ours, the server then asks to switch.
		plugin = gomysql.AUTH_NATIVE_PASSWORD
		auth = gomysql.CalcPassword(salt, []byte(o.Password))
	}
	b := binary.LittleEndian.AppendUint32(nil, c.flags)
	b = binary.LittleEndian.AppendUint32(b, 64<<20)
	b = append(b, collation)
	b = append(b, make([]byte, 23)...)
	b = append(append(b, o.User...), 0)
	b = append(append(b, byte(len(auth))), auth...)
	if c.flags&gomysql.CLIENT_CONNECT_WITH_DB != 0 {
		b = append(append(b, o.Database...), 0)
	}
	b = append(append(b, plugin...), 0)
	if err := c.send(b); err != nil {
		return err
	}
	return c.finishLogin(o.Password, plugin, salt)
}

// ChangeUser is COM_CHANGE_USER to o's user, password and database.
func (c *Conn) ChangeUser(o Options) error {
	b := append(append([]byte(o.User), 0), 0) // no response: the server is to ask
	b = append(append(b, o.Database...), 0)
	collation := o.Collation
	if collation == 0 {
		collation = 45
	}
	b = append(b, collation, 0)
	b = append(append(b, gomysql.AUTH_NATIVE_PASSWORD...), 0)
	if err := c.command(gomysql.COM_CHANGE_USER, b); err != nil {
		return err
	}
	return c.finishLogin(o.Password, gomysql.AUTH_NATIVE_PASSWORD, nil)
}

// finishLogin follows the server's questions until OK or ERR.
func (c *Conn) finishLogin(password, plugin string, salt []byte) error {
	for {
		p, err := c.read()
		if err != nil {
			return err
		}
		switch p[0] {
		case 0x00:
			c.Login, err = c.parseOK(p)
			return err
		case 0xff:
			return parseError(p)
		case 0xfe: // switch to another plugin
			r := reader{p: p[1:]}
			plugin = string(r.until0())
			salt = append([]byte(nil), r.rest()...)
			if len(salt) > 20 {
				salt = salt[:20]
			}
			auth, err := scramble(plugin, password, salt)
			if err != nil {
				return err
			}
			if err := c.send(auth); err != nil {
				return err
			}
		case 0x01:
			if plugin != gomysql.AUTH_CACHING_SHA2_PASSWORD || len(p) < 2 {
				return fmt.Errorf("unexpected login data %x", p)
			}
			switch p[1] {
			case 3: // fast path taken: OK follows
			case 4: // the whole password, under the server's public key
				if err := c.sendEncrypted(password, salt); err != nil {
					return err
				}
			default:
				return fmt.Errorf("unexpected login data %x", p)
			}
		default:
			return fmt.Errorf("unexpected packet %x in the login", p[0])
		}
	}
}

func (c *Conn) sendEncrypted(password string, salt []byte) error {
	if err := c.send([]byte{2}); err != nil { // request the public key
		return err
	}
	p, err := c.read()
	if err != nil {
		return err
	}
	if p[0] == 0xff {
		return parseError(p)
	}
	block, _ := pem.Decode(p[1:])
	if block == nil {
		return errors.New("no public key in the login")
	}
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return err
	}
	rsaKey, ok := key.(*rsa.PublicKey)
	if !ok {
		return fmt.Errorf("public key is a %T", key)
	}
	text, err := gomysql.EncryptPassword(password, salt, rsaKey)
	if err != nil {
		return err
	}
	return c.send(text)
}

func scramble(plugin, password string, salt []byte) ([]byte, error) {
	switch plugin {
	case gomysql.AUTH_NATIVE_PASSWORD:
		return gomysql.CalcPassword(salt, []byte(password)), nil
	case gomysql.AUTH_CACHING_SHA2_PASSWORD:
		return gomysql.CalcCachingSha2Password(salt, password), nil
	}
	return nil, fmt.Errorf("login plugin %q is not known here", plugin)
}

const maxPacket = 1<<24 - 1

// send writes one payload, split where it must be.
func (c *Conn) send(payload []byte) error {
	if err := c.conn.SetDeadline(time.Now().Add(c.timeout)); err != nil {
		return err
	}
	for {
		n := min(len(payload), maxPacket)
		packet := append([]byte{byte(n), byte(n >> 8), byte(n >> 16), c.seq}, payload[:n]...)
		c.seq++
		if _, err := c.conn.Write(packet); err != nil {
			return err
		}
		payload = payload[n:]
		if n < maxPacket {
			return nil
		}
	}
}

// read returns the next payload, joined where it was split; it is the caller's.
func (c *Conn) read() ([]byte, error) {
	var payload []byte
	for {
		var head [4]byte
		if _, err := io.ReadFull(c.r, head[:]); err != nil {
			return nil, err
		}
		if head[3] != c.seq {
			return nil, fmt.Errorf("packet with sequence id %d where %d is due", head[3], c.seq)
		}
		c.seq++
		n := int(head[0]) | int(head[1])<<8 | int(head[2])<<16
		start := len(payload)
		payload = append(payload, make([]byte, n)...)
		if _, err := io.ReadFull(c.r, payload[start:]); err != nil {
			return nil, err
		}
		if n < maxPacket {
			break
		}
	}
	if len(payload) == 0 {
		return nil, errors.New("empty packet")
	}
	return payload, nil
}

// command starts a command.
func (c *Conn) command(code byte, body []byte) error {
	c.seq = 0
	return c.send(append([]byte{code}, body...))
}
