package mysql

import (
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/subtle"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"strconv"
	"strings"
	"sync"
)

const (
	cryptSaltBytes   = 20 // mysqld's, longer than other crypt implementations allow
	cryptDigestBytes = 43
	// passwordBytesMax is mysqld's limit for caching_sha2_password: beyond it
	// hashing would be work for whoever asks.
	passwordBytesMax = 256
)

// cryptHash is a stored caching_sha2_password hash. MySQL writes two forms:
//
//	$A$005$<20 bytes of salt><43 characters>  SHA-256 crypt
//	$B$00A$<20 bytes of salt><88 characters>  PBKDF2 with HMAC-SHA-512, base64 (9.x, storage_format PBKDF2_SHA512)
//
// The number is hexadecimal, in thousands of rounds.
type cryptHash struct {
	pbkdf2 bool
	rounds int
	salt   string
	digest string
}

func parseCryptHash(s string) (cryptHash, error) {
	var h cryptHash
	var digestBytes int
	switch {
	case strings.HasPrefix(s, "$A$"):
		digestBytes = cryptDigestBytes
	case strings.HasPrefix(s, "$B$"):
		h.pbkdf2, digestBytes = true, base64.StdEncoding.EncodedLen(sha512.Size)
	default:
		return h, fmt.Errorf("neither $A$ nor $B$")
	}
	if want := 7 + cryptSaltBytes + digestBytes; len(s) != want || s[6] != '$' {
		return h, fmt.Errorf("%d bytes long, not %d (a salt may hold bytes that do not print: use the 0x... form)", len(s), want)
	}
	n, err := strconv.ParseUint(s[3:6], 16, 16)
	if err != nil || n == 0 {
		return h, fmt.Errorf("rounds %q is not a hexadecimal number", s[3:6])
	}
	h.rounds = int(n) * 1000
	h.salt, h.digest = s[7:7+cryptSaltBytes], s[7+cryptSaltBytes:]
	return h, nil
}

// match tells whether h is password's hash. It takes milliseconds, on purpose.
func (h *cryptHash) match(password string) bool {
	if len(password) > passwordBytesMax {
		return false
	}
	var got string
	if h.pbkdf2 {
		key, err := pbkdf2.Key(sha512.New, password, []byte(h.salt), h.rounds, sha512.Size)
		if err != nil {
			return false
		}
		got = base64.StdEncoding.EncodeToString(key)
	} else {
		got = sha256Crypt(password, h.salt, h.rounds)
	}
	return subtle.ConstantTimeCompare([]byte(got), []byte(h.digest)) == 1
}

// sha256Crypt is U. Drepper's SHA-256 crypt ("Unix crypt using SHA-256 and
// SHA-512", 2008), the step numbers being his, without the limit on the salt's
// length. It returns the 43 characters of the digest.
func sha256Crypt(password, salt string, rounds int) string {
	pw, st := []byte(password), []byte(salt)
	b := sha256.New() // 4-8
	b.Write(pw)
	b.Write(st)
	b.Write(pw)
	alt := b.Sum(nil)

	a := sha256.New() // 1-3, 9-12
	a.Write(pw)
	a.Write(st)
	writeRepeated(a.Write, alt, len(pw))
	for n := len(pw); n > 0; n >>= 1 {
		if n&1 != 0 {
			a.Write(alt)
		} else {
			a.Write(pw)
		}
	}
	sum := a.Sum(nil)

	dp := sha256.New() // 13-16
	for range pw {
		dp.Write(pw)
	}
	p := repeatTo(dp.Sum(nil), len(pw))

	ds := sha256.New() // 17-20
	for range 16 + int(sum[0]) {
		ds.Write(st)
	}
	s := repeatTo(ds.Sum(nil), len(st))

	c := sha256.New()
	for i := range rounds { // 21
		c.Reset()
		if i&1 != 0 {
			c.Write(p)
		} else {
			c.Write(sum)
		}
		if i%3 != 0 {
			c.Write(s)
		}
		if i%7 != 0 {
			c.Write(p)
		}
		if i&1 != 0 {
			c.Write(sum)
		} else {
			c.Write(p)
		}
		sum = c.Sum(sum[:0])
	}

	out := make([]byte, 0, cryptDigestBytes) // 22
	emit := func(b2, b1, b0 byte, n int) {
		for v := uint32(b2)<<16 | uint32(b1)<<8 | uint32(b0); n > 0; n-- {
			out = append(out, cryptAlphabet[v&0x3f])
			v >>= 6
		}
	}
	for n, i, j, k := 0, 0, 10, 20; n < 10; n, i, j, k = n+1, k+1, i+1, j+1 {
		emit(sum[i], sum[j], sum[k], 4)
	}
	emit(0, sum[31], sum[30], 3)
	return string(out)
}

const cryptAlphabet = "./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// writeRepeated writes the first n bytes of b repeated without end.
func writeRepeated(write func([]byte) (int, error), b []byte, n int) {
	for ; n > len(b); n -= len(b) {
		_, _ = write(b) // a hash never fails
	}
	_, _ = write(b[:n])
}

// repeatTo returns the first n bytes of b repeated without end.
func repeatTo(b []byte, n int) []byte {
	out := make([]byte, n)
	for i := range out {
		out[i] = b[i%len(b)]
	}
	return out
}

// fastDigest is what caching_sha2_password's fast path is checked against.
type fastDigest [sha256.Size]byte

func newFastDigest(password string) fastDigest {
	stage1 := sha256.Sum256([]byte(password))
	return sha256.Sum256(stage1[:])
}

// match checks the client's scramble: SHA256(password) XOR
// SHA256(SHA256(SHA256(password)), salt).
func (d *fastDigest) match(salt, scramble []byte) bool {
	if len(scramble) != sha256.Size {
		return false
	}
	h := sha256.New()
	h.Write(d[:])
	h.Write(salt)
	var stage1 [sha256.Size]byte
	subtle.XORBytes(stage1[:], scramble, h.Sum(nil))
	got := sha256.Sum256(stage1[:])
	return subtle.ConstantTimeCompare(got[:], d[:]) == 1
}

// AuthCache remembers, per user, what makes the next caching_sha2_password
// login cheap: SHA256(SHA256(password)), once a full exchange has shown the
// password. An entry holds only for the stored hash it was made with, so a
// changed password needs no invalidation. The zero value is ready to use, and
// safe for concurrent use; nil remembers nothing. It grows to one entry per user
// with a hash.
type AuthCache struct {
	mu struct {
		sync.RWMutex
		byUser map[string]authCacheEntry
	}
}

// NewAuthCache makes an empty cache.
func NewAuthCache() *AuthCache { return &AuthCache{} }

type authCacheEntry struct {
	hash   string
	digest fastDigest
}

func (c *AuthCache) lookup(user, hash string) (fastDigest, bool) {
	if c == nil {
		return fastDigest{}, false
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	e, ok := c.mu.byUser[user]
	return e.digest, ok && e.hash == hash
}

func (c *AuthCache) store(user, hash string, d fastDigest) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.byUser == nil {
		c.mu.byUser = make(map[string]authCacheEntry)
	}
	c.mu.byUser[user] = authCacheEntry{hash, d}
}

// RSAKey is the RSA key that protects a password on a connection without TLS.
// It is made when first asked for. The zero value is ready to use, and safe for
// concurrent use; one serves a whole server.
type RSAKey struct {
	once sync.Once
	key  *rsa.PrivateKey
	pem  []byte // the public key
	err  error
}

// NewRSAKey makes a key that is generated on first use.
func NewRSAKey() *RSAKey { return &RSAKey{} }

func (k *RSAKey) get() (key *rsa.PrivateKey, public []byte, err error) {
	k.once.Do(func() {
		if k.key, k.err = rsa.GenerateKey(rand.Reader, 2048); k.err != nil {
			return
		}
		der, err := x509.MarshalPKIXPublicKey(&k.key.PublicKey)
		if err != nil {
			k.err = err
			return
		}
		k.pem = pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	})
	return k.key, k.pem, k.err
}

// decrypt undoes what a client did to its password: XOR with the salt, then
// RSA-OAEP with SHA-1. The zero byte that ends the password is cut off. Every
// failure is the same false.
func (k *RSAKey) decrypt(b, salt []byte) (password string, ok bool) {
	key, _, err := k.get()
	if err != nil {
		return "", false
	}
	p, err := rsa.DecryptOAEP(sha1.New(), nil, key, b, nil)
	if err != nil {
		return "", false
	}
	for i := range p {
		p[i] ^= salt[i%len(salt)]
	}
	return cutPassword(p)
}

// cutPassword takes a password that ends with a zero byte and nothing behind.
func cutPassword(p []byte) (password string, ok bool) {
	if len(p) == 0 || p[len(p)-1] != 0 {
		return "", false
	}
	return string(p[:len(p)-1]), true
}
