package lean

import (
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
)

// Capability flags, by their names in the protocol.
const (
	longPassword  = 1 << 0
	foundRows     = 1 << 1
	longFlag      = 1 << 2
	connectWithDB = 1 << 3
	protocol41    = 1 << 9
	transactions  = 1 << 13
	secureConn    = 1 << 15
	multiResults  = 1 << 17
	psMulti       = 1 << 18
	pluginAuth    = 1 << 19
	deprecateEOF  = 1 << 24
)

const collation = 45 // utf8mb4_general_ci

// Greet is a server's side of a login that lets anybody in. It returns the
// connection's DEPRECATE_EOF.
func Greet(c *Conn, version string, id uint32) (deprecatesEOF bool, err error) {
	const caps = uint32(longPassword | foundRows | longFlag | connectWithDB | protocol41 | transactions | secureConn | multiResults | psMulti | pluginAuth | deprecateEOF)
	p := append([]byte{10}, version...)
	p = append(p, 0)
	p = binary.LittleEndian.AppendUint32(p, id)
	p = append(p, "abcdefgh\x00"...)
	p = append(p, byte(caps&0xff), byte(caps>>8&0xff), collation, 2, 0, byte(caps>>16&0xff), byte(caps>>24), 21)
	p = append(p, make([]byte, 10)...)
	p = append(p, "ijklmnopqrst\x00mysql_native_password\x00"...)
	if _, err := c.Write(AppendPacket(nil, 0, p)); err != nil {
		return false, err
	}
	r, seq, err := c.ReadPacket()
	if err != nil {
		return false, err
	}
	if len(r) < 32 {
		return false, ErrMalformed
	}
	wants := binary.LittleEndian.Uint32(r)
	_, err = c.Write(AppendPacket(nil, seq+1, AppendOK(nil)))
	return wants&deprecateEOF != 0, err
}

// Login is how Dial reaches a server. Database may be empty.
type Login struct{ Addr, User, Password, Database string }

// Dial logs in and returns a ready connection.
func (l Login) Dial() (*Conn, error) {
	nc, err := net.Dial("tcp", l.Addr)
	if err != nil {
		return nil, err
	}
	c := NewConn(nc)
	if err := l.login(c); err != nil {
		nc.Close()
		return nil, fmt.Errorf("login at %s: %w", l.Addr, err)
	}
	return c, nil
}

func (l Login) login(c *Conn) error {
	p, _, err := c.ReadPacket()
	if err != nil {
		return err
	}
	if len(p) > 0 && p[0] == 0xff {
		return Error(p)
	}
	salt, plugin, err := parseGreeting(p)
	if err != nil {
		return err
	}
	caps := uint32(longPassword | longFlag | protocol41 | transactions | secureConn | multiResults | psMulti | pluginAuth)
	if l.Database != "" {
		caps |= connectWithDB
	}
	r := binary.LittleEndian.AppendUint32(nil, caps)
	r = binary.LittleEndian.AppendUint32(r, 1<<24)
	r = append(r, collation)
	r = append(r, make([]byte, 23)...)
	r = append(append(r, l.User...), 0)
	proof := scramble(plugin, salt, l.Password)
	r = append(append(r, byte(len(proof))), proof...)
	if l.Database != "" {
		r = append(append(r, l.Database...), 0)
	}
	r = append(append(r, plugin...), 0)
	if _, err := c.Write(AppendPacket(nil, 1, r)); err != nil {
		return err
	}
	for {
		p, seq, err := c.ReadPacket()
		switch {
		case err != nil:
			return err
		case len(p) == 0:
			return ErrMalformed
		case p[0] == 0:
			return nil
		case p[0] == 0xff:
			return Error(p)
		case p[0] == 1 && len(p) > 1 && p[1] == 3: // caching_sha2: known, an OK follows
		case p[0] == 1:
			return errors.New("lean: the server wants a full caching_sha2_password exchange")
		case p[0] == 0xfe:
			name, data, ok := bytes.Cut(p[1:], []byte{0})
			if !ok {
				return ErrMalformed
			}
			plugin, salt = string(name), bytes.Clone(data[:min(len(data), 20)])
			if _, err := c.Write(AppendPacket(nil, seq+1, scramble(plugin, salt, l.Password))); err != nil {
				return err
			}
		default:
			return ErrMalformed
		}
	}
}

// parseGreeting takes the salt and the authentication plugin from a greeting.
func parseGreeting(p []byte) (salt []byte, plugin string, err error) {
	i := bytes.IndexByte(p, 0)
	// After the version: id, 8 bytes of salt, a zero, 2+1+2+2 bytes, length, 10
	// bytes, 12 bytes of salt, a zero, the plugin.
	const fixed = 1 + 4 + 8 + 1 + 7 + 1 + 10 + 12 + 1
	if i < 1 || len(p) < i+fixed {
		return nil, "", ErrMalformed
	}
	salt = append(salt, p[i+5:i+13]...)
	salt = append(salt, p[i+32:i+44]...)
	name, _, _ := bytes.Cut(p[i+fixed:], []byte{0})
	if len(name) == 0 {
		return salt, "mysql_native_password", nil
	}
	return salt, string(name), nil
}

func scramble(plugin string, salt []byte, password string) []byte {
	if password == "" {
		return nil
	}
	if plugin == "caching_sha2_password" {
		a := sha256.Sum256([]byte(password))
		b := sha256.Sum256(a[:])
		h := sha256.Sum256(append(b[:], salt...))
		for i := range h {
			h[i] ^= a[i]
		}
		return h[:]
	}
	a := sha1.Sum([]byte(password))
	b := sha1.Sum(a[:])
	h := sha1.Sum(append(bytes.Clone(salt), b[:]...))
	for i := range h {
		h[i] ^= a[i]
	}
	return h[:]
}
