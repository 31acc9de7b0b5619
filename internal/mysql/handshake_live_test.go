package mysql

import (
	"database/sql"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"
	driver "github.com/go-sql-driver/mysql"
)

// live is a real server that these tests may make users on. Its DSN is an
// administrator's, over TCP, e.g. "root@tcp(127.0.0.1:3306)/".
type live struct {
	addr string
	db   *sql.DB
}

func liveServer(t *testing.T, env string) *live {
	t.Helper()
	dsn := os.Getenv(env)
	if dsn == "" {
		t.Skipf("%s is not set: no server to log in to", env)
	}
	config, err := driver.ParseDSN(dsn)
	if err != nil {
		t.Fatalf("%s: %v", env, err)
	}
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return &live{config.Addr, db}
}

// user makes a user for the test's time.
func (l *live) user(t *testing.T, name, identified string) {
	t.Helper()
	l.exec(t, fmt.Sprintf("DROP USER IF EXISTS %s", name))
	l.exec(t, fmt.Sprintf("CREATE USER %s %s", name, identified))
	t.Cleanup(func() { l.exec(t, fmt.Sprintf("DROP USER IF EXISTS %s", name)) })
}

func (l *live) exec(t *testing.T, q string) {
	t.Helper()
	if _, err := l.db.Exec(q); err != nil {
		t.Fatalf("%s: %v", q, err)
	}
}

func (l *live) connect(t *testing.T, opt ClientOptions) (*Conn, *ServerInfo, error) {
	t.Helper()
	nc, err := net.Dial("tcp", l.addr)
	if err != nil {
		t.Fatal(err)
	}
	nc.SetDeadline(time.Now().Add(30 * time.Second))
	t.Cleanup(func() { nc.Close() })
	c := NewConn(nc, NodeSide, testLimit)
	info, err := Connect(c, opt)
	return c, info, err
}

// ask runs a query of one row and column.
func ask(t *testing.T, c *Conn, query string) string {
	t.Helper()
	p, err := command(c, gomysql.COM_QUERY, query)
	if err != nil {
		t.Fatal(err)
	}
	if len(p) != 1 || p[0] != 1 {
		t.Fatalf("answer of %.60s is %.200q, not one column", query, p)
	}
	var row string
	for i := range 3 { // column, row, OK: CLIENT_DEPRECATE_EOF is in force
		p, err := readAny(c)
		if err != nil {
			t.Fatal(err)
		}
		if i == 1 {
			s, null, n := LenEncString(p)
			if n != len(p) || null {
				t.Fatalf("row is %.60q", p)
			}
			row = string(s)
		}
	}
	return row
}

func requiredTLS(t *testing.T, opt ClientOptions) ClientOptions {
	t.Helper()
	var err error
	opt.TLSMode = TLSRequired
	if opt.TLS, err = ClientTLS(TLSRequired, "", TLSFiles{}); err != nil {
		t.Fatal(err)
	}
	return opt
}

func TestConnectMariaDB(t *testing.T) {
	l := liveServer(t, "BRAID_TEST_MARIADB_DSN")
	l.user(t, "braid_native", "IDENTIFIED VIA mysql_native_password USING PASSWORD('secret')")
	l.user(t, "braid_empty", "IDENTIFIED BY ''")
	opt := ClientOptions{User: "braid_native", Password: "secret", Schema: "information_schema", FoundRows: true}
	c, info, err := l.connect(t, opt)
	if err != nil {
		t.Fatal(err)
	}
	if !info.MariaDB || !strings.HasPrefix(info.Version, "1") || info.ConnectionID == 0 ||
		info.Status&gomysql.SERVER_STATUS_AUTOCOMMIT == 0 || info.Capabilities&gomysql.CLIENT_FOUND_ROWS == 0 ||
		info.Capabilities&(gomysql.CLIENT_MULTI_STATEMENTS|gomysql.CLIENT_SESSION_TRACK) != 0 ||
		info.Capabilities&gomysql.CLIENT_DEPRECATE_EOF == 0 {
		t.Errorf("server info is %+v", info)
	}
	if got := ask(t, c, "SELECT CONCAT_WS(' ', SUBSTRING_INDEX(USER(), '@', 1), DATABASE(), @@collation_connection)"); got != "braid_native information_schema utf8mb4_general_ci" {
		t.Errorf("logged in as %s", got)
	}
	quit(t, c)
	if _, _, err = l.connect(t, ClientOptions{User: "braid_empty"}); err != nil {
		t.Errorf("empty password: %v", err)
	}
	opt.Password = "wrong"
	_, _, err = l.connect(t, opt)
	wantCode(t, err, 1045)
	opt.Password, opt.Schema = "secret", "no such schema"
	_, _, err = l.connect(t, opt)
	wantCode(t, err, 1044, 1049)

	t.Run("ed25519", func(t *testing.T) {
		if _, err := l.db.Exec("INSTALL SONAME 'auth_ed25519'"); err != nil && !strings.Contains(err.Error(), "already") {
			t.Skipf("the server has no ed25519: %v", err)
		}
		l.user(t, "braid_ed", "IDENTIFIED VIA ed25519 USING PASSWORD('secret')")
		_, _, err := l.connect(t, ClientOptions{User: "braid_ed", Password: "secret"})
		wantError(t, err, 2059, "Authentication plugin 'client_ed25519' cannot be loaded: not supported")
	})
	t.Run("compression", func(t *testing.T) { l.compression(t, "braid_native") })
}

func TestConnectMySQL(t *testing.T) {
	l := liveServer(t, "BRAID_TEST_MYSQL_DSN")
	l.user(t, "braid_sha2", "IDENTIFIED WITH caching_sha2_password BY 'secret'")
	l.user(t, "braid_empty", "IDENTIFIED BY ''")
	opt := ClientOptions{User: "braid_sha2", Password: "secret", Schema: "information_schema"}
	for _, tls := range []bool{false, true} {
		t.Run(fmt.Sprintf("tls=%t", tls), func(t *testing.T) {
			opt := opt
			if tls {
				opt = requiredTLS(t, opt)
			}
			l.exec(t, "FLUSH PRIVILEGES") // empties the server's cache: the first login is a full one
			for range 2 {
				c, info, err := l.connect(t, opt)
				if err != nil {
					t.Fatal(err)
				}
				if info.MariaDB || info.TLS != tls || info.Status&gomysql.SERVER_STATUS_AUTOCOMMIT == 0 {
					t.Errorf("server info is %+v", info)
				}
				if got := ask(t, c, "SELECT CONCAT_WS(' ', SUBSTRING_INDEX(USER(), '@', 1), DATABASE(), @@collation_connection)"); got != "braid_sha2 information_schema utf8mb4_general_ci" {
					t.Errorf("logged in as %s", got)
				}
				quit(t, c)
			}
			wrong := opt
			wrong.Password = "wrong"
			_, _, err := l.connect(t, wrong)
			wantCode(t, err, 1045)
			empty := opt
			empty.User, empty.Password = "braid_empty", ""
			if _, _, err := l.connect(t, empty); err != nil {
				t.Errorf("empty password: %v", err)
			}
		})
	}
	t.Run("no such schema", func(t *testing.T) {
		opt := opt
		opt.Schema = "no such schema"
		_, _, err := l.connect(t, opt)
		wantCode(t, err, 1044, 1049)
	})
	t.Run("stored hashes", l.storedHashes)
	t.Run("compression", func(t *testing.T) { l.compression(t, "braid_sha2") })
}

// storedHashes logs in to Braid's side by what MySQL stored.
func (l *live) storedHashes(t *testing.T) {
	for _, password := range []string{"a", "secret", "påsswörd ' with \x01", strings.Repeat("long", 40)} {
		l.user(t, "braid_stored", "IDENTIFIED WITH caching_sha2_password BY '"+strings.ReplaceAll(password, "'", "''")+"'")
		var hash string
		if err := l.db.QueryRow("SELECT CONCAT('0x', HEX(authentication_string)) FROM mysql.user WHERE user = 'braid_stored'").Scan(&hash); err != nil {
			t.Fatal(err)
		}
		c := Credential{Hash: hash}
		s, err := c.secret()
		if err != nil {
			t.Fatal(err)
		}
		if !s.matchPassword(password) || s.matchPassword(password+"x") {
			t.Errorf("%q is not told from its neighbours by %s", password, hash)
		}
	}
}

// B153: frames of both algorithms, small, large, and many to a packet.
func (l *live) compression(t *testing.T, user string) {
	for name, algorithm := range map[string]Compression{"zlib": CompressZlib, "zstd": CompressZstd} {
		t.Run(name, func(t *testing.T) {
			c, info, err := l.connect(t, ClientOptions{User: user, Password: "secret", Compression: algorithm})
			if err != nil {
				t.Fatal(err)
			}
			frames, ok := c.NetConn().(*CompressedConn)
			if !ok {
				if algorithm == CompressZstd && info.MariaDB {
					return // it offers none, so none is spoken
				}
				t.Fatalf("capabilities %#x: the connection is not compressed", info.Capabilities)
			}
			if got := ask(t, c, "SELECT 1"); got != "1" {
				t.Errorf("SELECT 1 is %s", got)
			}
			if got := ask(t, c, "SELECT REPEAT('x', 3000000)"); got != strings.Repeat("x", 3_000_000) {
				t.Errorf("%d bytes came", len(got))
			}
			// A statement of several frames that do not compress, and its echo.
			noise := noise(t, 700_000)
			text := "SELECT '" + noise + "'"
			frames.ResetSeq()
			if err := c.WriteCommand(gomysql.COM_QUERY, []byte(text)); err != nil {
				t.Fatal(err)
			}
			if err := c.Flush(); err != nil {
				t.Fatal(err)
			}
			sent := frames.Seq()
			if sent < 4 {
				t.Errorf("%d frames were sent", sent)
			}
			if err := c.fill(4); err != nil {
				t.Fatal(err)
			}
			if _, seq := c.header(); seq != sent {
				t.Errorf("the answer to 1 packet in %d frames has the sequence id %d", sent, seq)
			}
			for i := range 4 {
				p, err := readAny(c)
				if err != nil {
					t.Fatal(err)
				}
				if s, _, n := LenEncString(p); i == 2 && (n != len(p) || string(s) != noise) {
					t.Errorf("the echo is %d bytes long and not what was sent", len(s))
				}
			}
			quit(t, c)
		})
	}
}

func wantCode(t *testing.T, err error, codes ...uint16) {
	t.Helper()
	e, _ := err.(*Error)
	for _, code := range codes {
		if e != nil && e.Code == code {
			return
		}
	}
	t.Errorf("error is %v, want %d", err, codes)
}
