package mysql

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha1"
	"crypto/tls"
	"net"
	"strings"
	"testing"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"
)

// The hashes of "secret", as the servers wrote them.
const (
	nativeSecret = "*14E65567ABDB5135D0CFD9A70B3032C179A49EE7"
	cryptSecret  = "0x24412430304124715C5371276C21201B015D770B7A745B600635267A6C372F6B524C504D6539355A47372E364E2E484A4977383061634950556A336A6C72567279473664512F"
	pbkdfSecret  = "0x244224303041241601094D05444C3B4A163E325E090D52251659466D6375532F6B54654A7568663339634B37486A5748734A74354C54596E342B31592B4878326A542B3330717247686E752B69466958336C314E2F726B31466E564A6F4D2F44376A3959546D49616E436772434B4632413D3D"
)

func TestStoredHashes(t *testing.T) {
	for name, hash := range map[string]string{"native": nativeSecret, "crypt": cryptSecret, "pbkdf2": pbkdfSecret} {
		c := Credential{Hash: hash}
		s, err := c.secret()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for password, want := range map[string]bool{"secret": true, "": false, "Secret": false, "secretsecret": false,
			strings.Repeat("x", 300): false} {
			if got := s.matchPassword(password); got != want {
				t.Errorf("%s: %q matches: %v", name, password, got)
			}
		}
	}
	for _, bad := range []string{"secret", "*123", "*" + strings.Repeat("g", 40), "$A$005$", "$C$005$x", "0x1",
		"$A$zzz$" + strings.Repeat("x", 63), "$A$000$" + strings.Repeat("x", 63)} {
		if CheckHash(bad) == nil {
			t.Errorf("%q is taken for a hash", bad)
		}
	}
}

// Vectors checked with "openssl passwd -5".
func TestSHA256Crypt(t *testing.T) {
	for _, v := range []struct {
		salt, password string
		rounds         int
		want           string
	}{
		{"saltstring", "Hello world!", 5000, "5B8vYYiY.CVt1RlTTf8KbXBH3hsxY/GNooZaBBGWEc5"},
		{"saltstringsaltst", "Hello world!", 10000, "3xv.VbSHBb41AL9AvLeujZkZRBAwqFMz2.opqey6IcA"},
		{"short", "we have a short salt string but not a short password", 77777, "JiO1O3ZpDAxGJeaDIuqCoEFysAe1mZNJRs3pw0KQRd/"},
	} {
		if got := sha256Crypt(v.password, v.salt, v.rounds); got != v.want {
			t.Errorf("salt %s: %s, want %s", v.salt, got, v.want)
		}
	}
}

func TestSalt(t *testing.T) {
	for range 1000 {
		s := newSalt()
		if len(s) != 20 {
			t.Fatalf("%d bytes", len(s))
		}
		for _, b := range s {
			if b == 0 || b == '$' || b >= 0x80 {
				t.Fatalf("salt %q holds %#x", s, b)
			}
		}
	}
}

// TestLogins has both sides log in to each other by every plugin, stored form,
// transport and password.
func TestLogins(t *testing.T) {
	files := newCerts(t)
	stored := map[string]Credential{
		"plain":  {Password: "secret"},
		"native": {Hash: nativeSecret},
		"crypt":  {Hash: cryptSecret},
		"pbkdf2": {Hash: pbkdfSecret},
		"empty":  {},
	}
	for _, transport := range []string{"tcp", "tls", "unix"} {
		for _, greeting := range []string{gomysql.AUTH_CACHING_SHA2_PASSWORD, gomysql.AUTH_NATIVE_PASSWORD} {
			t.Run(transport+"/"+greeting, func(t *testing.T) {
				opt := ServerOptions{AuthPlugin: greeting, RSA: NewRSAKey(), Cache: NewAuthCache()}
				client := ClientOptions{TLSMode: TLSDisabled}
				network := transport
				if transport == "tls" {
					network = "tcp"
					opt.TLS = files.server(t)
					client.TLSMode = TLSVerifyIdentity
					var err error
					if client.TLS, err = ClientTLS(client.TLSMode, "localhost", TLSFiles{CA: files.ca}); err != nil {
						t.Fatal(err)
					}
				}
				host := "127.0.0.1"
				if network == "unix" {
					host = "localhost"
				}
				s := serve(t, network, opt, users(stored))
				for _, user := range []string{"plain", "native", "crypt", "pbkdf2", "empty", "nobody"} {
					right := "secret"
					if user == "empty" {
						right = ""
					}
					// The right one twice: the second time caching_sha2_password is fast.
					for _, password := range []string{"secret", "secret", "Secret", ""} {
						client.User, client.Password, client.Schema = user, password, "shop"
						c, info, err := s.dial(t, client)
						if user != "nobody" && password == right {
							if err != nil {
								t.Fatalf("%s by %q: %v", user, password, err)
							}
							if info.Version != s.opt.Version || info.ConnectionID != 4711 || info.MariaDB ||
								info.Status != gomysql.SERVER_STATUS_AUTOCOMMIT || info.TLS != (transport == "tls") {
								t.Errorf("server info is %+v", info)
							}
							quit(t, c)
							got := <-s.done
							if got.err != nil {
								t.Fatalf("%s by %q: server: %v", user, password, got.err)
							}
							l := got.login
							if l.User != user || l.Database != "shop" || l.Host != host || l.Collation != 45 ||
								l.TLS != info.TLS || l.Attributes["program_name"] != "braid" || l.Capabilities != info.Capabilities&ServerCapabilities|l.Capabilities&gomysql.CLIENT_SSL {
								t.Errorf("login is %+v", l)
							}
							continue
						}
						using := "YES"
						if password == "" {
							using = "NO"
						}
						want := "Access denied for user '" + user + "'@'" + host + "' (using password: " + using + ")"
						wantError(t, err, 1045, want)
						wantError(t, (<-s.done).err, 1045, want)
					}
				}
				for _, user := range []string{"crypt", "pbkdf2"} {
					c := stored[user]
					secret, _ := c.secret()
					if _, ok := opt.Cache.lookup(user, secret.sha2); !ok {
						t.Errorf("no fast path for %s after a login", user)
					}
				}
			})
		}
	}
}

// rawClient answers a greeting by hand.
type rawClient struct {
	*Conn
	t *testing.T
	g *Greeting
}

func (s *testServer) raw(t *testing.T) rawClient {
	t.Helper()
	nc, err := net.Dial(s.Addr().Network(), s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	c := rawClient{Conn: NewConn(nc, NodeSide, testLimit), t: t}
	if c.g, err = ParseGreeting(c.read()); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c rawClient) read() []byte {
	c.t.Helper()
	p, err := c.ReadPacket()
	if err != nil {
		c.t.Fatal(err)
	}
	return p
}

func (c rawClient) send(p []byte) {
	c.t.Helper()
	if err := send(c.Conn, p); err != nil {
		c.t.Fatal(err)
	}
}

// respond sends a response under nodeCapabilities less without.
func (c rawClient) respond(user, plugin string, auth []byte, without uint32) {
	c.t.Helper()
	c.send(AppendHandshakeResponse(nil, &HandshakeResponse{Capabilities: nodeCapabilities &^ without,
		Collation: 45, User: user, AuthPlugin: plugin, AuthResponse: auth}))
}

func (c rawClient) wantSwitch(plugin string) (salt []byte) {
	c.t.Helper()
	p := c.read()
	if p[0] != 0xfe {
		c.t.Fatalf("answer is %q, not a switch to %s", p, plugin)
	}
	got, salt, err := parseAuthSwitch(p)
	if err != nil || got != plugin || len(salt) != saltBytes {
		c.t.Fatalf("switch to %q with %d bytes of salt, %v; want %s", got, len(salt), err, plugin)
	}
	return salt
}

func (c rawClient) wantErr(code uint16) {
	c.t.Helper()
	p := c.read()
	if p[0] != 0xff || ParseError(p).Code != code {
		c.t.Fatalf("answer is %q, not error %d", p, code)
	}
}

func (c rawClient) wantOK() {
	c.t.Helper()
	if p := c.read(); p[0] != 0 {
		c.t.Fatalf("answer is %q, not OK", p)
	}
}

// A client without plugins has made its scramble by mysql_native_password.
func TestLoginWithoutPlugins(t *testing.T) {
	const old = gomysql.CLIENT_PLUGIN_AUTH | gomysql.CLIENT_PLUGIN_AUTH_LENENC_CLIENT_DATA | gomysql.CLIENT_CONNECT_ATTRS
	s := serve(t, "tcp", ServerOptions{}, users(map[string]Credential{"n": {Hash: nativeSecret}, "p": {Password: "secret"}, "c": {Hash: cryptSecret}}))
	for _, user := range []string{"n", "p"} {
		c := s.raw(t)
		c.respond(user, "", gomysql.CalcPassword(c.g.Salt, []byte("secret")), old)
		c.wantOK()
	}
	c := s.raw(t)
	c.respond("n", "", gomysql.CalcPassword(c.g.Salt, []byte("wrong")), old)
	c.wantErr(1045)
	c = s.raw(t)
	c.respond("c", "", gomysql.CalcPassword(c.g.Salt, []byte("secret")), old)
	c.wantErr(1251)
}

// libmysqlclient with another default plugin than the greeting's sends nothing
// and waits for a switch, also to the plugin it named.
func TestLoginEmptyResponseOfOtherPlugin(t *testing.T) {
	s := serve(t, "tcp", ServerOptions{}, users(map[string]Credential{"p": {Password: "secret"}}))
	c := s.raw(t)
	c.respond("p", gomysql.AUTH_NATIVE_PASSWORD, nil, 0)
	salt := c.wantSwitch(gomysql.AUTH_NATIVE_PASSWORD)
	if bytes.Equal(salt, c.g.Salt) {
		t.Error("the switch has the greeting's salt")
	}
	c.send(gomysql.CalcPassword(salt, []byte("secret")))
	c.wantOK()
}

// An unknown plugin is switched to one that the user can be checked by.
func TestLoginUnknownPlugin(t *testing.T) {
	s := serve(t, "tcp", ServerOptions{}, users(map[string]Credential{"n": {Hash: nativeSecret}, "p": {Password: "secret"}}))
	c := s.raw(t)
	c.respond("n", "dialog", []byte("x"), 0)
	c.send(gomysql.CalcPassword(c.wantSwitch(gomysql.AUTH_NATIVE_PASSWORD), []byte("secret")))
	c.wantOK()
	c = s.raw(t)
	c.respond("p", "dialog", []byte("x"), 0)
	c.send(gomysql.CalcCachingSha2Password(c.wantSwitch(gomysql.AUTH_CACHING_SHA2_PASSWORD), "secret"))
	if p := c.read(); !bytes.Equal(p, []byte{1, 3}) {
		t.Fatalf("answer is %q, not the fast path's", p)
	}
	c.wantOK()
}

// Clear text counts on TLS and Unix sockets only; elsewhere it is not even read.
func TestLoginClearPassword(t *testing.T) {
	all := users(map[string]Credential{"n": {Hash: nativeSecret}, "p": {Password: "secret"}, "c": {Hash: cryptSecret}})
	s := serve(t, "unix", ServerOptions{}, all)
	for _, user := range []string{"n", "p", "c"} {
		for password, ok := range map[string]bool{"secret": true, "Secret": false, "": false} {
			c := s.raw(t)
			c.respond(user, gomysql.AUTH_CLEAR_PASSWORD, nil, 0)
			c.wantSwitch(gomysql.AUTH_CLEAR_PASSWORD)
			c.send(append([]byte(password), 0))
			if ok {
				c.wantOK()
			} else {
				c.wantErr(1045)
			}
		}
	}
	c := serve(t, "tcp", ServerOptions{}, all).raw(t)
	c.respond("p", gomysql.AUTH_CLEAR_PASSWORD, []byte("secret\x00"), 0)
	c.wantSwitch(gomysql.AUTH_CACHING_SHA2_PASSWORD)
}

// Without TLS and without a key there is no way to send a password.
func TestFullExchangeWithoutKey(t *testing.T) {
	s := serve(t, "tcp", ServerOptions{}, users(map[string]Credential{"c": {Hash: cryptSecret}}))
	for _, last := range [][]byte{{2}, []byte("secret\x00"), {}} {
		c := s.raw(t)
		c.respond("c", gomysql.AUTH_CACHING_SHA2_PASSWORD, gomysql.CalcCachingSha2Password(c.g.Salt, "secret"), 0)
		if p := c.read(); !bytes.Equal(p, []byte{1, 4}) {
			t.Fatalf("answer is %q, not a request for the password", p)
		}
		c.send(last)
		c.wantErr(1045)
	}
}

// A changed hash is not served by what was cached for the former one, and a
// wrong scramble falls back to the full exchange.
func TestAuthCache(t *testing.T) {
	c := NewAuthCache()
	c.store("u", "hash1", newFastDigest("secret"))
	if d, ok := c.lookup("u", "hash1"); !ok || !d.match(make([]byte, 20), gomysql.CalcCachingSha2Password(make([]byte, 20), "secret")) {
		t.Error("the entry is not found, or does not match")
	}
	if d, _ := c.lookup("u", "hash1"); d.match(make([]byte, 20), gomysql.CalcCachingSha2Password(make([]byte, 20), "Secret")) {
		t.Error("a wrong password matches")
	}
	if _, ok := c.lookup("u", "hash2"); ok {
		t.Error("an entry of a former hash is used")
	}
	if _, ok := c.lookup("v", "hash1"); ok {
		t.Error("an entry of another user is used")
	}
	var none *AuthCache
	none.store("u", "h", fastDigest{})
	if _, ok := none.lookup("u", "h"); ok {
		t.Error("no cache remembers")
	}
}

// The key takes what OAEP with SHA-1 made, and nothing that is not ended by a
// zero byte.
func TestRSAKey(t *testing.T) {
	k, salt := NewRSAKey(), newSalt()
	key, public, err := k.get()
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := parsePublicKey(public)
	if err != nil || !parsed.Equal(&key.PublicKey) {
		t.Fatalf("the public key sent is another: %v", err)
	}
	for _, password := range []string{"", "secret", strings.Repeat("long", 40)} {
		b, err := gomysql.EncryptPassword(password, salt, parsed)
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := k.decrypt(b, salt); !ok || got != password {
			t.Errorf("%q came as %q, %v", password, got, ok)
		}
		b[5] ^= 1
		if _, ok := k.decrypt(b, salt); ok {
			t.Errorf("a broken %q is taken", password)
		}
	}
	open, err := rsa.EncryptOAEP(sha1.New(), rand.Reader, parsed, []byte("x"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := k.decrypt(open, make([]byte, 20)); ok {
		t.Error("a password without its end is taken")
	}
}

// Where the server demands TLS, MySQL's error 3159 says so; a user who needs it
// is refused as by a wrong password.
func TestTLSRequired(t *testing.T) {
	files := newCerts(t)
	lookup := users(map[string]Credential{"u": {Password: "secret"}, "tls": {Password: "secret", RequireTLS: true}})
	opt := ServerOptions{TLS: files.server(t), TLSMode: TLSRequired}
	s := serve(t, "tcp", opt, lookup)
	plain := ClientOptions{User: "u", Password: "secret", TLSMode: TLSDisabled}
	_, _, err := s.dial(t, plain)
	wantError(t, err, 3159, "Connections using insecure transport are prohibited while --require_secure_transport=ON.")
	wrong := plain
	wrong.Password = "wrong"
	_, _, err = s.dial(t, wrong)
	wantError(t, err, 1045, "Access denied for user 'u'@'127.0.0.1' (using password: YES)")
	over := plain
	over.TLSMode = TLSRequired
	if over.TLS, err = ClientTLS(TLSRequired, "", TLSFiles{}); err != nil {
		t.Fatal(err)
	}
	if _, info, err := s.dial(t, over); err != nil || !info.TLS {
		t.Fatalf("over TLS: %v", err)
	}
	if _, _, err := serve(t, "unix", opt, lookup).dial(t, plain); err != nil {
		t.Fatalf("over a Unix socket: %v", err)
	}
	opt.TLSMode = TLSPreferred
	s = serve(t, "tcp", opt, lookup)
	plain.User = "tls"
	_, _, err = s.dial(t, plain)
	wantError(t, err, 1045, "Access denied for user 'tls'@'127.0.0.1' (using password: YES)")
	over.User = "tls"
	if _, _, err := s.dial(t, over); err != nil {
		t.Fatal(err)
	}
}

// TestClientTLSModes has every mode meet servers with and without TLS, of a
// known and an unknown authority, and of another name.
func TestClientTLSModes(t *testing.T) {
	files, others := newCerts(t), newCerts(t)
	lookup := users(map[string]Credential{"u": {Password: "secret"}})
	with := serve(t, "tcp", ServerOptions{TLS: files.server(t)}, lookup)
	without := serve(t, "tcp", ServerOptions{}, lookup)
	for _, v := range []struct {
		mode          TLSMode
		ca, name      string
		server        *testServer
		wantOK, isTLS bool
	}{
		{TLSDisabled, "", "", with, true, false},
		{TLSPreferred, "", "", with, true, true},
		{TLSPreferred, "", "", without, true, false},
		{TLSRequired, "", "", with, true, true},
		{TLSRequired, "", "", without, false, false},
		{TLSVerifyCA, files.ca, "elsewhere", with, true, true},
		{TLSVerifyCA, others.ca, "localhost", with, false, false},
		{TLSVerifyCA, "", "localhost", with, false, false},
		{TLSVerifyCA, files.ca, "", without, false, false},
		{TLSVerifyIdentity, files.ca, "localhost", with, true, true},
		{TLSVerifyIdentity, files.ca, "127.0.0.1", with, true, true},
		{TLSVerifyIdentity, files.ca, "elsewhere", with, false, false},
		{TLSVerifyIdentity, others.ca, "localhost", with, false, false},
	} {
		name := v.mode.String() + " as " + v.name
		config, err := ClientTLS(v.mode, v.name, TLSFiles{CA: v.ca})
		if err != nil {
			t.Fatal(err)
		}
		c, info, err := v.server.dial(t, ClientOptions{User: "u", Password: "secret", TLSMode: v.mode, TLS: config})
		if !v.wantOK {
			var e *Error
			if e, _ = err.(*Error); e == nil || e.Code != 2026 || !strings.HasPrefix(e.Message, "SSL connection error: ") {
				t.Errorf("%s: error is %v, not 2026", name, err)
			}
			continue
		}
		if err != nil || info.TLS != v.isTLS {
			t.Errorf("%s: %v, %+v", name, err, info)
			continue
		}
		quit(t, c)
	}
	if m, err := ParseTLSMode("verify-ca"); m != TLSVerifyCA || err != nil {
		t.Errorf("%v, %v", m, err)
	}
	if _, err := ParseTLSMode("off"); err == nil {
		t.Error("a mode that is none is taken")
	}
}

// A client certificate is checked where it is shown.
func TestClientCertificate(t *testing.T) {
	files, others := newCerts(t), newCerts(t)
	st, err := LoadServerTLS(TLSFiles{Cert: files.cert, Key: files.key, CA: files.ca})
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t, "tcp", ServerOptions{TLS: st.Config()}, users(map[string]Credential{"u": {}}))
	// TLS 1.2 tells a client within the handshake that its certificate is bad.
	for _, v := range []struct {
		cert, key string
		ok        bool
	}{{"", "", true}, {files.cert, files.key, true}, {others.cert, others.key, false}} {
		config, err := ClientTLS(TLSRequired, "", TLSFiles{Cert: v.cert, Key: v.key})
		if err != nil {
			t.Fatal(err)
		}
		config.MaxVersion = tls.VersionTLS12
		if _, _, err := s.dial(t, ClientOptions{User: "u", TLSMode: TLSRequired, TLS: config}); (err == nil) != v.ok {
			t.Errorf("certificate %q: %v", v.cert, err)
		}
	}
}

// Reload takes a new certificate, and keeps the former after an error.
func TestServerTLSReload(t *testing.T) {
	a, b := newCerts(t), newCerts(t)
	st, err := LoadServerTLS(TLSFiles{Cert: a.cert, Key: a.key})
	if err != nil {
		t.Fatal(err)
	}
	first := st.Config()
	copyFile(t, b.cert, a.cert)
	if err := st.Reload(); err == nil {
		t.Error("a certificate with another key is taken")
	}
	if st.Config() != first {
		t.Error("the former setup is lost")
	}
	copyFile(t, b.key, a.key)
	if err := st.Reload(); err != nil || st.Config() == first {
		t.Errorf("reload: %v", err)
	}
	if bytes.Equal(st.Config().Certificates[0].Certificate[0], first.Certificates[0].Certificate[0]) {
		t.Error("the certificate is the former one")
	}
}
