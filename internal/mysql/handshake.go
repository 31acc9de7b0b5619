package mysql

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"strings"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"
)

const (
	saltBytes = 20
	// attributesBytesMax bounds the connection attributes, as mysqld does.
	attributesBytesMax = 64 << 10
	// loginBytesMax bounds a packet of somebody who has not logged in yet.
	loginBytesMax = attributesBytesMax + 8<<10
)

// newSalt makes a challenge of 20 bytes. Clients treat it as a string that ends
// with a zero byte, and some old ones as text: it holds neither zeros, nor '$',
// nor bytes above 0x7f, as mysqld's.
func newSalt() []byte {
	s := make([]byte, saltBytes)
	rand.Read(s) // never fails (crypto/rand)
	for i, b := range s {
		if b &= 0x7f; b == 0 || b == '$' {
			b++
		}
		s[i] = b
	}
	return s
}

// Greeting is the server's first packet (Protocol::HandshakeV10).
type Greeting struct {
	Version      string
	ConnectionID uint32
	Capabilities uint32
	Collation    uint8 // only the id's low byte travels
	Status       uint16
	Salt         []byte // 20 bytes, without the zero byte that ends it on the wire
	AuthPlugin   string
}

// AppendGreeting appends g as a payload.
func AppendGreeting(dst []byte, g *Greeting) []byte {
	dst = append(dst, 10)
	dst = append(append(dst, g.Version...), 0)
	dst = binary.LittleEndian.AppendUint32(dst, g.ConnectionID)
	dst = append(append(dst, g.Salt[:8]...), 0)
	dst = append(dst, byte(g.Capabilities), byte(g.Capabilities>>8), g.Collation,
		byte(g.Status), byte(g.Status>>8), byte(g.Capabilities>>16), byte(g.Capabilities>>24))
	if g.Capabilities&gomysql.CLIENT_PLUGIN_AUTH != 0 {
		dst = append(dst, byte(len(g.Salt)+1))
	} else {
		dst = append(dst, 0)
	}
	dst = append(dst, make([]byte, 10)...)
	dst = append(append(dst, g.Salt[8:]...), 0)
	if g.Capabilities&gomysql.CLIENT_PLUGIN_AUTH != 0 {
		dst = append(append(dst, g.AuthPlugin...), 0)
	}
	return dst
}

// ParseGreeting decodes a greeting. A payload that begins with 0xFF is not
// one: use ParseError. The result does not alias p.
func ParseGreeting(p []byte) (*Greeting, error) {
	if len(p) == 0 {
		return nil, ErrMalformed
	}
	if p[0] != 10 {
		return nil, fmt.Errorf("handshake protocol version %d is not supported: %w", p[0], ErrMalformed)
	}
	g := &Greeting{}
	var ok bool
	if g.Version, p, ok = cutString(p[1:]); !ok {
		return nil, ErrMalformed
	}
	if len(p) < 4+8+1+2 {
		return nil, ErrMalformed
	}
	g.ConnectionID = binary.LittleEndian.Uint32(p)
	g.Salt = append(g.Salt, p[4:12]...)
	g.Capabilities = uint32(binary.LittleEndian.Uint16(p[13:]))
	p = p[15:]
	if len(p) < 1+2+2+1+10 {
		// Servers older than 4.1 end here; nothing of theirs is spoken.
		return nil, ErrMalformed
	}
	g.Collation = p[0]
	g.Status = binary.LittleEndian.Uint16(p[1:])
	g.Capabilities |= uint32(binary.LittleEndian.Uint16(p[3:])) << 16
	saltLen := int(p[5])
	p = p[16:]
	if g.Capabilities&gomysql.CLIENT_SECURE_CONNECTION != 0 {
		n := max(13, saltLen-8)
		if len(p) < n {
			return nil, ErrMalformed
		}
		s := p[:n]
		if s[n-1] == 0 {
			s = s[:n-1]
		}
		g.Salt = append(g.Salt, s...)
		p = p[n:]
	}
	if g.Capabilities&gomysql.CLIENT_PLUGIN_AUTH != 0 {
		// MySQL 5.5.7 to 5.5.9 send the name without the zero byte.
		name, _, ok := cutString(p)
		if !ok {
			name = string(p)
		}
		g.AuthPlugin = name
	}
	return g, nil
}

// HandshakeResponse is the client's answer to the greeting
// (Protocol::HandshakeResponse41).
type HandshakeResponse struct {
	Capabilities uint32 // as the client sent them
	MaxPacket    uint32
	// Collation is one byte: a client that wants an id above 255 gets what
	// mysqld gives it, the collation of the low byte (and sends SET NAMES).
	Collation    uint8
	User         string
	AuthResponse []byte
	Database     string
	AuthPlugin   string
	Attributes   map[string]string // nil when none were sent
	ZstdLevel    uint8             // 0 when not asked for
}

// AppendHandshakeResponse appends r as a payload; which fields travel is said
// by r.Capabilities.
func AppendHandshakeResponse(dst []byte, r *HandshakeResponse) []byte {
	dst = appendResponseHead(dst, r)
	dst = append(append(dst, r.User...), 0)
	switch {
	case r.Capabilities&gomysql.CLIENT_PLUGIN_AUTH_LENENC_CLIENT_DATA != 0:
		dst = AppendLenEncString(dst, r.AuthResponse)
	case r.Capabilities&gomysql.CLIENT_SECURE_CONNECTION != 0:
		dst = append(append(dst, byte(len(r.AuthResponse))), r.AuthResponse...)
	default:
		dst = append(append(dst, r.AuthResponse...), 0)
	}
	if r.Capabilities&gomysql.CLIENT_CONNECT_WITH_DB != 0 {
		dst = append(append(dst, r.Database...), 0)
	}
	if r.Capabilities&gomysql.CLIENT_PLUGIN_AUTH != 0 {
		dst = append(append(dst, r.AuthPlugin...), 0)
	}
	if r.Capabilities&gomysql.CLIENT_CONNECT_ATTRS != 0 {
		dst = appendAttributes(dst, r.Attributes)
	}
	if r.Capabilities&gomysql.CLIENT_ZSTD_COMPRESSION_ALGORITHM != 0 {
		dst = append(dst, r.ZstdLevel)
	}
	return dst
}

// appendResponseHead appends the 32 bytes that are also the whole SSLRequest.
func appendResponseHead(dst []byte, r *HandshakeResponse) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, r.Capabilities)
	dst = binary.LittleEndian.AppendUint32(dst, r.MaxPacket)
	return append(append(dst, r.Collation), make([]byte, 23)...)
}

func appendAttributes(dst []byte, attrs map[string]string) []byte {
	var b []byte
	for k, v := range attrs {
		b = AppendLenEncString(AppendLenEncString(b, k), v)
	}
	return AppendLenEncString(dst, b)
}

// responseHeadBytes is the length of an SSLRequest.
const responseHeadBytes = 32

// ParseHandshakeResponse decodes a HandshakeResponse41, or an SSLRequest (then
// everything behind Collation is empty and the client's CLIENT_SSL is set).
// offered are the greeting's capabilities: fields of a flag that was not
// offered are not there, whatever the client claims. A HandshakeResponse320 and
// anything else that is not 4.1 is error 1043. The result does not alias p.
func ParseHandshakeResponse(p []byte, offered uint32) (*HandshakeResponse, error) {
	if len(p) < 4 || uint32(p[1])<<8&gomysql.CLIENT_PROTOCOL_41 == 0 || len(p) < responseHeadBytes {
		return nil, errHandshake()
	}
	r := &HandshakeResponse{
		Capabilities: binary.LittleEndian.Uint32(p),
		MaxPacket:    binary.LittleEndian.Uint32(p[4:]),
		Collation:    p[8],
	}
	caps := r.Capabilities & offered
	if p = p[responseHeadBytes:]; len(p) == 0 && caps&gomysql.CLIENT_SSL != 0 {
		return r, nil
	}
	var ok bool
	if r.User, p, ok = cutString(p); !ok {
		return nil, errHandshake()
	}
	var auth []byte
	if auth, p, ok = cutAuthResponse(p, caps); !ok {
		return nil, errHandshake()
	}
	r.AuthResponse = append(r.AuthResponse, auth...)
	if caps&gomysql.CLIENT_CONNECT_WITH_DB != 0 {
		// mysqld takes a name that the packet's end cuts off, and none at all.
		r.Database, p = cutLastString(p)
	}
	if caps&gomysql.CLIENT_PLUGIN_AUTH != 0 {
		r.AuthPlugin, p = cutLastString(p)
	}
	if caps&gomysql.CLIENT_CONNECT_ATTRS != 0 && len(p) > 0 {
		if r.Attributes, p, ok = cutAttributes(p); !ok {
			return nil, errHandshake()
		}
	}
	if caps&gomysql.CLIENT_ZSTD_COMPRESSION_ALGORITHM != 0 && len(p) > 0 {
		r.ZstdLevel = p[0]
	}
	return r, nil
}

// changeUser is a COM_CHANGE_USER's payload behind the command byte.
type changeUser struct {
	user, database, authPlugin string
	authResponse               []byte
	collation                  uint16 // 0 when not sent: stays as it is
	attributes                 map[string]string
}

// parseChangeUser decodes a COM_CHANGE_USER under the connection's capabilities.
func parseChangeUser(p []byte, caps uint32) (*changeUser, bool) {
	r := &changeUser{}
	var ok bool
	if r.user, p, ok = cutString(p); !ok {
		return nil, false
	}
	// Here the length is one byte, with or without LENENC_CLIENT_DATA.
	var auth []byte
	if auth, p, ok = cutAuthResponse(p, caps&^gomysql.CLIENT_PLUGIN_AUTH_LENENC_CLIENT_DATA); !ok {
		return nil, false
	}
	r.authResponse = append(r.authResponse, auth...)
	if r.database, p, ok = cutString(p); !ok {
		return nil, false
	}
	if len(p) < 2 {
		return r, true
	}
	r.collation = binary.LittleEndian.Uint16(p)
	p = p[2:]
	if caps&gomysql.CLIENT_PLUGIN_AUTH != 0 {
		r.authPlugin, p = cutLastString(p)
	}
	if caps&gomysql.CLIENT_CONNECT_ATTRS != 0 && len(p) > 0 {
		if r.attributes, _, ok = cutAttributes(p); !ok {
			return nil, false
		}
	}
	return r, true
}

// cutString takes a string that ends with a zero byte.
func cutString(p []byte) (s string, rest []byte, ok bool) {
	for i, b := range p {
		if b == 0 {
			return string(p[:i]), p[i+1:], true
		}
	}
	return "", p, false
}

// cutLastString is cutString where the packet's end ends the string as well.
func cutLastString(p []byte) (s string, rest []byte) {
	if s, rest, ok := cutString(p); ok {
		return s, rest
	}
	return string(p), nil
}

// cutAuthResponse takes the auth data in the form that caps say. It aliases p.
func cutAuthResponse(p []byte, caps uint32) (auth, rest []byte, ok bool) {
	switch {
	case caps&gomysql.CLIENT_PLUGIN_AUTH_LENENC_CLIENT_DATA != 0:
		auth, null, n := LenEncString(p)
		if n == 0 || null {
			return nil, nil, false
		}
		return auth, p[n:], true
	case caps&gomysql.CLIENT_SECURE_CONNECTION != 0:
		if len(p) == 0 || len(p)-1 < int(p[0]) {
			return nil, nil, false
		}
		n := 1 + int(p[0])
		return p[1:n], p[n:], true
	}
	s, rest, ok := cutString(p)
	return []byte(s), rest, ok
}

// cutAttributes takes the connection attributes: a length, then pairs.
func cutAttributes(p []byte) (attrs map[string]string, rest []byte, ok bool) {
	b, null, n := LenEncString(p)
	if n == 0 || null || len(b) > attributesBytesMax {
		return nil, nil, false
	}
	rest = p[n:]
	attrs = make(map[string]string)
	for len(b) > 0 {
		k, null, n := LenEncString(b)
		if n == 0 || null {
			return nil, nil, false
		}
		b = b[n:]
		v, null, n := LenEncString(b)
		if n == 0 || null {
			return nil, nil, false
		}
		b = b[n:]
		attrs[string(k)] = string(v)
	}
	return attrs, rest, true
}

// authSwitch is a request to start over with another plugin
// (Protocol::AuthSwitchRequest).
func appendAuthSwitch(dst []byte, plugin string, salt []byte) []byte {
	dst = append(dst, 0xfe)
	dst = append(append(dst, plugin...), 0)
	return append(append(dst, salt...), 0)
}

// parseAuthSwitch decodes an AuthSwitchRequest, whose first byte is 0xFE.
func parseAuthSwitch(p []byte) (plugin string, salt []byte, err error) {
	if len(p) == 1 {
		return gomysql.AUTH_MYSQL_OLD_PASSWORD, nil, nil
	}
	plugin, rest, ok := cutString(p[1:])
	if !ok {
		return "", nil, ErrMalformed
	}
	if n := len(rest); n > 0 && rest[n-1] == 0 {
		rest = rest[:n-1]
	}
	return plugin, append([]byte(nil), rest...), nil
}

func errHandshake() *Error { return Errorf(gomysql.ER_HANDSHAKE_ERROR, "Bad handshake") }

// isMariaDB tells MariaDB from MySQL by the greeting's version.
func isMariaDB(version string) bool { return strings.Contains(version, "MariaDB") }
