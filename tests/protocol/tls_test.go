package protocol

import (
	"context"
	"crypto/tls"
	"database/sql"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	driver "github.com/go-sql-driver/mysql"

	"braid/conf"
	"braid/internal/mysql"
	"braid/tests/e2e"
	"braid/tests/servers"
	"braid/tests/wire"
)

// login connects Braid's own client side, which speaks all there is.
func login(t *testing.T, nc net.Conn, opt mysql.ClientOptions) (*mysql.Conn, *mysql.ServerInfo, error) {
	t.Helper()
	_ = nc.SetDeadline(time.Now().Add(time.Minute))
	t.Cleanup(func() { nc.Close() })
	opt.User, opt.Password = servers.User, servers.Password
	c := mysql.NewConn(nc, mysql.NodeSide, 64<<20)
	info, err := mysql.Connect(c, opt)
	return c, info, err
}

func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	return nc
}

// code is a MySQL error's number, 0 for none, -1 for an error that is not one.
func code(err error) int {
	var a *mysql.Error
	var b *driver.MySQLError
	var c *wire.Error
	switch {
	case err == nil:
		return 0
	case errors.As(err, &a):
		return int(a.Code)
	case errors.As(err, &b):
		return int(b.Number)
	case errors.As(err, &c):
		return int(c.Code)
	}
	return -1
}

func TestClientsOverTLS(t *testing.T) {
	a := e2e.NewAuthority(t)
	a.Issue(t, "braid", 2)
	for _, mode := range []string{"off", "optional", "required"} {
		t.Run(mode, func(t *testing.T) {
			b := braid(t, servers.MariaDB, func(c *conf.Config) {
				c.Proxy.TLS = mode
				if mode != "off" {
					c.Proxy.TLSCertificate, c.Proxy.TLSKey = a.File("braid.pem"), a.File("braid.key")
				}
			})
			_, _, err := login(t, dial(t, b.Addr), mysql.ClientOptions{TLSMode: mysql.TLSDisabled})
			if want := map[string]int{"off": 0, "optional": 0, "required": 3159}[mode]; code(err) != want {
				t.Errorf("without TLS: %v, want error %d", err, want)
			}
			config := &tls.Config{RootCAs: a.Pool(), ServerName: "127.0.0.1"}
			_, info, err := login(t, dial(t, b.Addr), mysql.ClientOptions{TLSMode: mysql.TLSVerifyIdentity, TLS: config})
			if want := map[string]int{"off": 2026, "optional": 0, "required": 0}[mode]; code(err) != want {
				t.Errorf("with TLS: %v, want error %d", err, want)
			}
			if err == nil && !info.TLS {
				t.Error("the connection is not over TLS")
			}
			if mode == "off" {
				return
			}
			// A driver, with enough rows to need many TLS records.
			d := b.DriverConfig()
			d.TLS = config
			connector, err := driver.NewConnector(d)
			if err != nil {
				t.Fatal(err)
			}
			db := sql.OpenDB(connector)
			defer db.Close()
			manyRows(t, db)
		})
	}
}

// manyRows writes rows to all shards and reads them back by both protocols.
func manyRows(t *testing.T, db *sql.DB) {
	t.Helper()
	ctx := t.Context()
	exec := func(text string, args ...any) {
		t.Helper()
		if _, err := db.ExecContext(ctx, text, args...); err != nil {
			t.Fatalf("%.100s: %v", text, err)
		}
	}
	exec("DROP TABLE IF EXISTS t")
	exec("CREATE TABLE t(k INT PRIMARY KEY, s MEDIUMTEXT)")
	const rows, bytes = 400, 2000
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	for k := range rows {
		if _, err := tx.ExecContext(ctx, "INSERT INTO t VALUES (?,?)", k, strings.Repeat(string(rune('a'+k%26)), bytes)); err != nil {
			t.Fatal(err)
		}
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	exec("INSERT INTO t VALUES (?,?)", rows, strings.Repeat("z", 3<<20))
	for _, args := range [][]any{nil, {-1}} {
		text := "SELECT k,s FROM t ORDER BY k"
		if args != nil {
			text = "SELECT k,s FROM t WHERE k>? ORDER BY k"
		}
		got, err := db.QueryContext(ctx, text, args...)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for got.Next() {
			var k int
			var s string
			if err := got.Scan(&k, &s); err != nil {
				t.Fatal(err)
			}
			want := bytes
			if n == rows {
				want = 3 << 20
			}
			if k != n || len(s) != want || k < rows && s != strings.Repeat(string(rune('a'+k%26)), bytes) {
				t.Fatalf("row %d: k=%d, %d bytes", n, k, len(s))
			}
			n++
		}
		if err := got.Err(); err != nil {
			t.Fatal(err)
		}
		if n != rows+1 {
			t.Errorf("%d rows", n)
		}
	}
}

func TestReloadTakesRenewedCertificate(t *testing.T) {
	a := e2e.NewAuthority(t)
	a.Issue(t, "braid", 2)
	b := braid(t, servers.MariaDB, func(c *conf.Config) {
		c.Proxy.TLS, c.Proxy.TLSCertificate, c.Proxy.TLSKey = "optional", a.File("braid.pem"), a.File("braid.key")
	})
	serial := func() int64 {
		t.Helper()
		c, _, err := login(t, dial(t, b.Addr), mysql.ClientOptions{TLSMode: mysql.TLSRequired, TLS: &tls.Config{RootCAs: a.Pool(), ServerName: "127.0.0.1"}})
		if err != nil {
			t.Fatal(err)
		}
		return c.NetConn().(*tls.Conn).ConnectionState().PeerCertificates[0].SerialNumber.Int64()
	}
	if got := serial(); got != 2 {
		t.Fatalf("certificate %d", got)
	}
	a.Issue(t, "braid", 3)
	if got := serial(); got != 2 {
		t.Errorf("certificate %d before a reload", got)
	}
	again := *b.Config
	if _, err := b.Server.Reload(&again); err != nil {
		t.Fatal(err)
	}
	if got := serial(); got != 3 {
		t.Errorf("certificate %d after the reload", got)
	}
	// A certificate that cannot be read changes nothing.
	broken := again
	broken.Proxy.TLSKey = a.File("ca.pem")
	if _, err := b.Server.Reload(&broken); err == nil {
		t.Error("a reload with a key that is none succeeded")
	}
	if got := serial(); got != 3 {
		t.Errorf("certificate %d after the failed reload", got)
	}
}

// TestNodesOverTLS runs each mode against a server of each flavour, and asks the
// server whether it was TLS.
func TestNodesOverTLS(t *testing.T) {
	a := e2e.NewAuthority(t)
	a.Issue(t, "node", 2)
	maria, err := servers.Start(context.WithoutCancel(t.Context()), servers.MariaDB, servers.Options{Args: []string{
		"--ssl-cert=" + a.File("node.pem"), "--ssl-key=" + a.File("node.key"), "--ssl-ca=" + a.File("ca.pem")}})
	if err != nil {
		t.Skip("SKIPPED, NOT TESTED: ", err)
	}
	defer maria.Close()
	other := e2e.NewAuthority(t)
	for _, flavour := range flavours {
		node, ca := maria, a.File("ca.pem")
		if flavour == servers.MySQL {
			node = lab.Server(t, servers.MySQL, "node0")
			ca = node.DataDir() + "/ca.pem" // which it made itself, to no host's name
		}
		for _, test := range []struct {
			mode, ca string
			tls      bool
			fails    map[servers.Flavour]bool
		}{
			{"disabled", "", false, nil},
			{"preferred", "", true, nil},
			{"required", "", true, nil},
			{"verify-ca", ca, true, nil},
			{"verify-identity", ca, true, map[servers.Flavour]bool{servers.MySQL: true}},
			{"verify-ca", other.File("ca.pem"), true, map[servers.Flavour]bool{servers.MySQL: true, servers.MariaDB: true}},
		} {
			t.Run(string(flavour)+"/"+test.mode+"/"+map[bool]string{true: "good", false: "bad"}[!test.fails[flavour]], func(t *testing.T) {
				e2e.Recreate(t, node, "shop")
				root := e2e.Open(t, node, "")
				for _, text := range []string{"DROP USER IF EXISTS secure", "CREATE USER secure IDENTIFIED BY 'pw' REQUIRE SSL", "GRANT ALL ON *.* TO secure"} {
					if _, err := root.ExecContext(t.Context(), text); err != nil {
						t.Fatalf("%s: %v", text, err)
					}
				}
				b := lab.StartBraid(t, e2e.Topology{Flavour: flavour, Tables: tables(), Change: func(c *conf.Config) {
					n := &c.Nodes[0]
					n.Primary, n.User, n.Password = node.Addr(), "secure", "pw"
					n.TLS, n.TLSCA = test.mode, test.ca
				}})
				_, err := b.Open(t).ExecContext(t.Context(), "SELECT 1 FROM DUAL")
				if good := err == nil; good != (test.tls && !test.fails[flavour]) {
					t.Errorf("an account that requires TLS: %v", err)
				}
				if err == nil {
					manyRows(t, b.Open(t))
				}
			})
		}
	}
}
