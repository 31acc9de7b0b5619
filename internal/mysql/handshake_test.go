package mysql

import (
	"bytes"
	"crypto/tls"
	"maps"
	"net"
	"strings"
	"testing"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"
)

// greetingMySQL is MySQL 9.7's greeting, greetingMariaDB is 10.11's.
var (
	greetingMySQL = "\n9.7.4-2\x00\x08\x00\x00\x00w\x12\x1e\x10[U=_\x00\xff\xff\xff\x02\x00\xff\xdf\x15\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00" +
		"\\{)\x1cO\x17U#N\x1f\x12\x1d\x00caching_sha2_password\x00"
	greetingMariaDB = "\n5.5.5-10.11.19-MariaDB-0+deb12u1\x00\x05\x00\x00\x00AUy2TV/5\x00\xfe\xf7\x08\x02\x00\xff\x81\x15\x00\x00\x00\x00\x00\x00\x1d\x00\x00\x00" +
		"7vl/Ae/,ACVk\x00mysql_native_password\x00"
)

func TestParseGreeting(t *testing.T) {
	g, err := ParseGreeting([]byte(greetingMySQL))
	if err != nil {
		t.Fatal(err)
	}
	if g.Version != "9.7.4-2" || g.ConnectionID != 8 || g.Capabilities != 0xdfffffff || g.Collation != 255 || g.Status != 2 ||
		string(g.Salt) != "w\x12\x1e\x10[U=_\\{)\x1cO\x17U#N\x1f\x12\x1d" || g.AuthPlugin != gomysql.AUTH_CACHING_SHA2_PASSWORD {
		t.Errorf("MySQL: %+v", g)
	}
	if got := AppendGreeting(nil, g); string(got) != greetingMySQL {
		t.Errorf("appended:\n%q\nparsed:\n%q", got, greetingMySQL)
	}
	if g, err = ParseGreeting([]byte(greetingMariaDB)); err != nil {
		t.Fatal(err)
	}
	if g.Version != "5.5.5-10.11.19-MariaDB-0+deb12u1" || g.ConnectionID != 5 || g.Capabilities != 0x81fff7fe || g.Collation != 8 ||
		string(g.Salt) != "AUy2TV/57vl/Ae/,ACVk" || g.AuthPlugin != gomysql.AUTH_NATIVE_PASSWORD || !isMariaDB(g.Version) {
		t.Errorf("MariaDB: %+v", g)
	}
	for i := range len(greetingMySQL) - len("caching_sha2_password\x00") {
		if _, err := ParseGreeting([]byte(greetingMySQL[:i])); err == nil {
			t.Errorf("the first %d bytes are taken for a greeting", i)
		}
	}
}

func TestHandshakeResponseFields(t *testing.T) {
	want := &HandshakeResponse{Capabilities: ServerCapabilities | gomysql.CLIENT_ZSTD_COMPRESSION_ALGORITHM, MaxPacket: 1 << 24, Collation: 255,
		User: "ü", AuthResponse: bytes.Repeat([]byte{7}, 300), Database: "shop", AuthPlugin: "p",
		Attributes: map[string]string{"_os": "Linux", "program_name": strings.Repeat("x", 60_000)}, ZstdLevel: 7}
	p := AppendHandshakeResponse(nil, want)
	got, err := ParseHandshakeResponse(p, want.Capabilities)
	if err != nil {
		t.Fatal(err)
	}
	if got.Capabilities != want.Capabilities || got.MaxPacket != want.MaxPacket || got.Collation != want.Collation ||
		got.User != want.User || !bytes.Equal(got.AuthResponse, want.AuthResponse) || got.Database != want.Database ||
		got.AuthPlugin != want.AuthPlugin || !maps.Equal(got.Attributes, want.Attributes) || got.ZstdLevel != want.ZstdLevel {
		t.Errorf("got %+v", got)
	}
	// The database's flag without the field's being there, as some drivers do.
	want.Capabilities = gomysql.CLIENT_PROTOCOL_41 | gomysql.CLIENT_SECURE_CONNECTION
	want.AuthResponse = []byte("12345678901234567890")
	p = AppendHandshakeResponse(nil, want)
	p[0] |= byte(gomysql.CLIENT_CONNECT_WITH_DB)
	if got, err = ParseHandshakeResponse(p, ServerCapabilities); err != nil || got.Database != "" || got.User != want.User {
		t.Errorf("got %+v, %v", got, err)
	}
	// Attributes beyond mysqld's 64 KiB.
	want.Capabilities = ServerCapabilities
	want.Attributes = map[string]string{"x": strings.Repeat("x", 70_000)}
	_, err = ParseHandshakeResponse(AppendHandshakeResponse(nil, want), ServerCapabilities)
	wantError(t, err, 1043, "Bad handshake")
}

// B156: what is not a handshake of protocol 4.1 is refused with 1043, and clients
// that leave without a word or at half a word leave nothing behind.
func TestBadHandshakes(t *testing.T) {
	s := serve(t, "tcp", ServerOptions{}, users(nil))
	for name, p := range map[string][]byte{
		"HandshakeResponse320":            append([]byte{0x85, 0x24, 0, 0, 0}, "haproxy\x00"...),
		"empty":                           {},
		"no user":                         AppendHandshakeResponse(nil, &HandshakeResponse{Capabilities: nodeCapabilities})[:32],
		"TLS request where none is there": appendResponseHead(nil, &HandshakeResponse{Capabilities: nodeCapabilities | gomysql.CLIENT_SSL}),
	} {
		t.Run(name, func(t *testing.T) {
			c := s.raw(t)
			c.send(p)
			c.wantErr(1043)
			wantError(t, (<-s.done).err, 1043, "Bad handshake")
		})
	}
	t.Run("silent", func(t *testing.T) {
		s.raw(t).Close()
		if err := (<-s.done).err; !isEOF(err) {
			t.Errorf("error is %v", err)
		}
	})
	t.Run("TLS hello at once", func(t *testing.T) {
		nc, err := net.Dial("tcp", s.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if err := tls.Client(nc, &tls.Config{InsecureSkipVerify: true}).Handshake(); err == nil {
			t.Error("TLS without a greeting")
		}
		nc.Close()
		if err := (<-s.done).err; err == nil {
			t.Error("no error")
		}
	})
	t.Run("long", func(t *testing.T) {
		c := s.raw(t)
		// The header alone: the server does not wait for 16 MB of a stranger's.
		if _, err := c.NetConn().Write([]byte{0xff, 0xff, 0xff, 1}); err != nil {
			t.Fatal(err)
		}
		if err := (<-s.done).err; err == nil || !strings.Contains(err.Error(), ErrPacketTooLarge.Error()) {
			t.Errorf("error is %v", err)
		}
	})
}

// What stands behind an SSLRequest in clear is TLS's, never a packet: somebody
// on the way cannot slip a response in.
func TestNothingSlipsInFrontOfTLS(t *testing.T) {
	s := serve(t, "tcp", ServerOptions{TLS: newCerts(t).server(t)}, users(map[string]Credential{"u": {}}))
	c := s.raw(t)
	r := &HandshakeResponse{Capabilities: nodeCapabilities | gomysql.CLIENT_SSL, User: "u", AuthPlugin: c.g.AuthPlugin}
	if err := c.WritePacket(appendResponseHead(nil, r)); err != nil {
		t.Fatal(err)
	}
	c.send(AppendHandshakeResponse(nil, r))
	if got := <-s.done; got.err == nil || got.login != nil {
		t.Errorf("login %+v, error %v", got.login, got.err)
	}
}

// A server that puts bytes in front of its TLS handshake is not believed either.
func TestNothingSlipsInFrontOfTLSFromNode(t *testing.T) {
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	go func() {
		c := NewConn(b, ClientSide, testLimit)
		g := (&ServerOptions{TLS: &tls.Config{}}).greeting()
		_ = c.WritePacket(AppendGreeting(nil, g))
		_ = c.WritePacket(AppendOK(nil, 0, &OK{}, false))
		if c.Flush() == nil {
			_, _ = c.ReadPacket()
		}
	}()
	config, err := ClientTLS(TLSRequired, "", TLSFiles{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = Connect(NewConn(a, NodeSide, testLimit), ClientOptions{TLSMode: TLSRequired, TLS: config})
	if err == nil || !strings.Contains(err.Error(), "in front of the TLS handshake") {
		t.Errorf("error is %v", err)
	}
}

// serverSays runs Connect against packets of a server that does not listen.
func serverSays(t *testing.T, opt ClientOptions, packets ...string) error {
	t.Helper()
	a, b := net.Pipe()
	defer a.Close()
	go func() {
		defer b.Close()
		c := NewConn(b, ClientSide, testLimit)
		for i, p := range packets {
			if i > 0 {
				if _, err := c.ReadPacket(); err != nil {
					return
				}
			}
			if send(c, []byte(p)) != nil {
				return
			}
		}
		_, _ = c.ReadPacket()
	}()
	_, err := Connect(NewConn(a, NodeSide, testLimit), opt)
	return err
}

func TestConnectRefusals(t *testing.T) {
	opt := ClientOptions{User: "u", Password: "secret"}
	t.Run("1040 for a greeting", func(t *testing.T) {
		wantError(t, serverSays(t, opt, "\xff\x10\x04Too many connections"), 1040, "Too many connections")
		e := greetingError([]byte("\xff\x10\x04Too many connections"))
		if e.State != "08004" {
			t.Errorf("state is %s", e.State)
		}
	})
	t.Run("unknown plugin", func(t *testing.T) {
		wantError(t, serverSays(t, opt, greetingMariaDB, "\xfeclient_ed25519\x00"+strings.Repeat("s", 32)), 2059,
			"Authentication plugin 'client_ed25519' cannot be loaded: not supported")
	})
	t.Run("old password", func(t *testing.T) {
		wantError(t, serverSays(t, opt, greetingMariaDB, "\xfe"), 2059,
			"Authentication plugin 'mysql_old_password' cannot be loaded: not supported")
	})
	t.Run("clear text without TLS", func(t *testing.T) {
		wantError(t, serverSays(t, opt, greetingMySQL, "\xfemysql_clear_password\x00"), 2061,
			"Authentication plugin 'mysql_clear_password' reported error: it needs a TLS connection")
	})
	t.Run("clear text in the greeting", func(t *testing.T) {
		g := (&ServerOptions{AuthPlugin: gomysql.AUTH_CLEAR_PASSWORD}).greeting()
		wantError(t, serverSays(t, opt, string(AppendGreeting(nil, g)), "\xff\x15\x04#28000no"), 1045, "no")
	})
	for name, packets := range map[string][]string{
		"no greeting":         {""},
		"protocol 9":          {"\x09" + greetingMySQL[1:]},
		"rows":                {greetingMySQL, "\x01\x02\x03"},
		"more than asked for": {greetingMariaDB, "\x01\x04"},
		"half an OK":          {greetingMySQL, "\x00\x00"},
		"empty packet":        {greetingMySQL, ""},
		"short salt":          {greetingMySQL, "\xfemysql_native_password\x00abc\x00"},
		"no key":              {greetingMySQL, "\x01\x04", "\x01not PEM"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := serverSays(t, opt, packets...); err == nil {
				t.Error("no error")
			}
		})
	}
}

// A node that asks for the password in clear gets it over TLS.
func TestConnectClearPassword(t *testing.T) {
	config := newCerts(t).server(t)
	a, b := net.Pipe()
	defer a.Close()
	got := make(chan string, 1)
	go func() {
		defer b.Close()
		c := NewConn(b, ClientSide, testLimit)
		_ = send(c, AppendGreeting(nil, (&ServerOptions{TLS: config}).greeting()))
		_, _ = c.ReadPacket()
		if err := c.startServerTLS(config); err != nil {
			got <- err.Error()
			return
		}
		_, _ = c.ReadPacket()
		_ = send(c, []byte("\xfemysql_clear_password\x00"))
		p, _ := c.ReadPacket()
		got <- string(p)
		_ = send(c, AppendOK(nil, 0, &OK{}, false))
		_, _ = c.ReadPacket() // until the other side has closed
	}()
	opt := requiredTLS(t, ClientOptions{User: "u", Password: "secret"})
	if _, err := Connect(NewConn(a, NodeSide, testLimit), opt); err != nil {
		t.Fatal(err)
	}
	if p := <-got; p != "secret\x00" {
		t.Errorf("the node got %q", p)
	}
}

// A character set whose letters are wider than a byte cannot be a client's; an
// unknown one is nobody's mistake. MySQL 9.7 and MariaDB 10.11 do the same.
func TestClientCharset(t *testing.T) {
	s := serve(t, "tcp", ServerOptions{}, users(map[string]Credential{"u": {}}))
	for id, charset := range map[uint8]string{35: "ucs2", 54: "utf16", 56: "utf16le", 60: "utf32"} {
		_, _, err := s.dial(t, ClientOptions{User: "u", Collation: id})
		wantError(t, err, 1231, "Variable 'character_set_client' can't be set to the value of '"+charset+"'")
	}
	for _, id := range []uint8{1, 8, 28, 33, 45, 63, 127, 255} {
		if _, _, err := s.dial(t, ClientOptions{User: "u", Collation: id}); err != nil {
			t.Errorf("id %d: %v", id, err)
		}
	}
	// mysqld takes the low byte of what some drivers send in two.
	c := s.raw(t)
	p := AppendHandshakeResponse(nil, &HandshakeResponse{Capabilities: nodeCapabilities, User: "u", AuthPlugin: c.g.AuthPlugin, Collation: 303 & 0xff})
	p[9] = 303 >> 8
	c.send(p)
	c.wantOK()
}

// B155: COM_CHANGE_USER starts the exchange over, for every stored form; a wrong
// password is 1045.
func TestChangeUser(t *testing.T) {
	s := serve(t, "tcp", ServerOptions{RSA: NewRSAKey(), Cache: NewAuthCache()}, users(map[string]Credential{
		"first": {Password: "secret"}, "native": {Hash: nativeSecret}, "plain": {Password: "secret"}, "crypt": {Hash: cryptSecret}, "empty": {}}))
	change := func(t *testing.T, user, plugin, password string) (err error) {
		t.Helper()
		c, _, err := s.dial(t, ClientOptions{User: "first", Password: "secret", Schema: "a"})
		if err != nil {
			t.Fatal(err)
		}
		// The response stands for a wrong salt's: it is never looked at.
		p := append([]byte(user), 0, 3, 'x', 'y', 'z')
		p = append(append(p, "db2"...), 0, 0x2f, 0x01)
		p = append(append(p, plugin...), 0)
		p = appendAttributes(p, map[string]string{"k": "v"})
		if err := c.WriteCommand(gomysql.COM_CHANGE_USER, p); err != nil {
			t.Fatal(err)
		}
		if err := c.Flush(); err != nil {
			t.Fatal(err)
		}
		x := proof{c: c, password: password, private: false}
		if _, err := x.finish(); err != nil {
			return err
		}
		quit(t, c)
		return nil
	}
	for _, user := range []string{"native", "plain", "crypt", "crypt", "empty"} {
		password := "secret"
		if user == "empty" {
			password = ""
		}
		for _, plugin := range []string{gomysql.AUTH_CACHING_SHA2_PASSWORD, gomysql.AUTH_NATIVE_PASSWORD} {
			if err := change(t, user, plugin, password); err != nil {
				t.Fatalf("%s by %s: %v", user, plugin, err)
			}
			got := <-s.done
			if l := got.login; got.err != nil || l.User != user || l.Database != "db2" || l.Collation != 303 || l.Attributes["k"] != "v" ||
				l.Capabilities&gomysql.CLIENT_PLUGIN_AUTH == 0 {
				t.Errorf("%s: %+v, %v", user, got.login, got.err)
			}
		}
	}
	for _, user := range []string{"native", "plain", "crypt", "empty", "nobody"} {
		err := change(t, user, gomysql.AUTH_CACHING_SHA2_PASSWORD, "wrong")
		wantError(t, err, 1045, "Access denied for user '"+user+"'@'127.0.0.1' (using password: YES)")
		wantError(t, (<-s.done).err, 1045, "Access denied for user '"+user+"'@'127.0.0.1' (using password: YES)")
	}
}

// A client without plugins changes its user by the greeting's salt.
func TestChangeUserWithoutPlugins(t *testing.T) {
	s := serve(t, "tcp", ServerOptions{}, users(map[string]Credential{"u": {Password: "secret"}, "v": {Hash: nativeSecret}}))
	c := s.raw(t)
	scramble := gomysql.CalcPassword(c.g.Salt, []byte("secret"))
	c.respond("u", "", scramble, gomysql.CLIENT_PLUGIN_AUTH|gomysql.CLIENT_PLUGIN_AUTH_LENENC_CLIENT_DATA|gomysql.CLIENT_CONNECT_ATTRS)
	c.wantOK()
	p := append([]byte("v\x00\x14"), scramble...)
	p = append(p, "db\x00\x21\x00"...)
	if err := c.WriteCommand(gomysql.COM_CHANGE_USER, p); err != nil {
		t.Fatal(err)
	}
	if err := c.Flush(); err != nil {
		t.Fatal(err)
	}
	c.wantOK()
	if _, ok := parseChangeUser([]byte("v\x00\x14short"), ServerCapabilities); ok {
		t.Error("a response cut off is taken")
	}
}
