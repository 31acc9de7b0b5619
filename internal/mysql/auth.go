package mysql

import (
	"crypto/rand"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"
)

// Credential is what is known of a user's password: one of the two fields, or
// neither for an empty password.
type Credential struct {
	Password string
	// Hash is a stored hash as MySQL prints it: '*' and 40 hex digits
	// (mysql_native_password), or '$A$005$...' or '$B$00A$...'
	// (caching_sha2_password), also in the 0x... form of
	// print_identified_with_as_hex. CheckHash tells whether it is one; nobody
	// logs in by a wrong one.
	Hash string
	// RequireTLS refuses the user without TLS, as REQUIRE SSL does.
	RequireTLS bool
}

// secret is a Credential in the form that passwords are checked against.
type secret struct {
	kind   secretKind
	plain  string
	native [sha1.Size]byte // SHA1(SHA1(password))
	sha2   string          // the stored hash, for the cache's key
	crypt  cryptHash
}

type secretKind uint8

const (
	plainKind  secretKind = iota // the password itself: serves every plugin
	nativeKind                   // '*HEX'
	sha2Kind                     // '$A$...' or '$B$...'
)

func (c *Credential) secret() (secret, error) {
	if c.Hash == "" {
		return secret{plain: c.Password}, nil
	}
	return parseHash(c.Hash)
}

// CheckHash tells what is wrong with a Credential's Hash.
func CheckHash(hash string) error {
	_, err := parseHash(hash)
	return err
}

func parseHash(hash string) (secret, error) {
	if len(hash) > 2 && (hash[:2] == "0x" || hash[:2] == "0X") {
		b, err := hex.DecodeString(hash[2:])
		if err != nil {
			return secret{}, fmt.Errorf("password hash: %w", err)
		}
		hash = string(b)
	}
	switch {
	case strings.HasPrefix(hash, "*"):
		s := secret{kind: nativeKind}
		if len(hash) != 1+2*sha1.Size {
			return s, fmt.Errorf("password hash: '*' is followed by %d characters, not by 40 hex digits", len(hash)-1)
		}
		if _, err := hex.Decode(s.native[:], []byte(hash[1:])); err != nil {
			return s, fmt.Errorf("password hash: %w", err)
		}
		return s, nil
	case strings.HasPrefix(hash, "$"):
		crypt, err := parseCryptHash(hash)
		if err != nil {
			return secret{}, fmt.Errorf("password hash: %w", err)
		}
		return secret{kind: sha2Kind, sha2: hash, crypt: crypt}, nil
	}
	return secret{}, errors.New("password hash: neither '*' and 40 hex digits nor '$A$...' or '$B$...'")
}

// decoy is a secret of s's kind that no password matches: a user who does
// not exist is asked for a password the same way as one who does.
func (s *secret) decoy() secret {
	d := secret{kind: s.kind}
	var r [32]byte
	rand.Read(r[:]) // never fails (crypto/rand)
	switch s.kind {
	case plainKind:
		d.plain = string(r[:])
	case nativeKind:
		copy(d.native[:], r[:])
	case sha2Kind:
		d.crypt = s.crypt
		d.crypt.digest = string(r[:]) // of a length no digest has
		d.sha2 = string(r[:])
	}
	return d
}

// empty tells whether the password is the empty one.
func (s *secret) empty() bool { return s.kind == plainKind && s.plain == "" }

// matchNative checks mysql_native_password's scramble.
func (s *secret) matchNative(salt, scramble []byte) bool {
	if len(scramble) == 0 {
		return s.empty()
	}
	if len(scramble) != sha1.Size || s.empty() {
		return false
	}
	stage2 := s.native
	if s.kind == plainKind {
		stage1 := sha1.Sum([]byte(s.plain))
		stage2 = sha1.Sum(stage1[:])
	}
	// The client sent SHA1(password) XOR SHA1(salt, SHA1(SHA1(password))).
	h := sha1.New()
	h.Write(salt)
	h.Write(stage2[:])
	var stage1 [sha1.Size]byte
	subtle.XORBytes(stage1[:], scramble, h.Sum(nil))
	got := sha1.Sum(stage1[:])
	return subtle.ConstantTimeCompare(got[:], stage2[:]) == 1
}

// matchPassword checks a password that came in clear.
func (s *secret) matchPassword(password string) bool {
	switch s.kind {
	case nativeKind:
		if password == "" {
			return false
		}
		stage1 := sha1.Sum([]byte(password))
		got := sha1.Sum(stage1[:])
		return subtle.ConstantTimeCompare(got[:], s.native[:]) == 1
	case sha2Kind:
		return s.crypt.match(password)
	}
	// Compared as digests, so that the time tells nothing about the length.
	a, b := sha256.Sum256([]byte(password)), sha256.Sum256([]byte(s.plain))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1
}

// serves tells whether the secret can be checked by that plugin. Clear text
// serves every kind; that it travels only where nobody reads it is the
// exchange's business.
func (s *secret) serves(plugin string) bool {
	switch plugin {
	case gomysql.AUTH_NATIVE_PASSWORD:
		return s.kind != sha2Kind
	case gomysql.AUTH_CACHING_SHA2_PASSWORD:
		return s.kind != nativeKind
	case gomysql.AUTH_CLEAR_PASSWORD:
		return true
	}
	return false
}

// accessDenied is error 1045. host is the client's address without the port,
// or "localhost" for a Unix socket.
func accessDenied(user, host string, withPassword bool) *Error {
	using := "NO"
	if withPassword {
		using = "YES"
	}
	return Errorf(gomysql.ER_ACCESS_DENIED_ERROR, "Access denied for user '%s'@'%s' (using password: %s)",
		clip(user, 48), clip(host, 64), using)
}

// clip cuts s as mysqld's "%-.48s" does, but never within a character.
func clip(s string, bytes int) string {
	if len(s) <= bytes {
		return s
	}
	return strings.ToValidUTF8(s[:bytes], "")
}
