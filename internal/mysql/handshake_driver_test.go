package mysql

import (
	"context"
	"database/sql"
	"net"
	"net/netip"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	driver "github.com/go-sql-driver/mysql"
)

// TestDriverLogins has go-sql-driver log in by every plugin, over TLS and not,
// compressed and not.
func TestDriverLogins(t *testing.T) {
	files := newCerts(t)
	for _, greeting := range []string{"caching_sha2_password", "mysql_native_password"} {
		opt := ServerOptions{AuthPlugin: greeting, TLS: files.server(t), RSA: NewRSAKey(), Cache: NewAuthCache(), Compress: true}
		s := serve(t, "tcp", opt, users(map[string]Credential{
			"plain": {Password: "secret"}, "native": {Hash: nativeSecret}, "crypt": {Hash: cryptSecret}, "empty": {}}))
		for _, user := range []string{"plain", "native", "crypt", "empty", "nobody"} {
			for _, params := range []string{"", "tls=skip-verify", "compress=true", "tls=skip-verify&compress=true"} {
				t.Run(greeting+"/"+user+"/"+params, func(t *testing.T) {
					password := ":secret"
					if user == "empty" {
						password = ""
					}
					db, err := sql.Open("mysql", user+password+"@tcp("+s.Addr().String()+")/shop?"+params)
					if err != nil {
						t.Fatal(err)
					}
					err = db.PingContext(context.Background())
					if err == nil {
						_, err = db.Exec("DO '" + noise(t, 300_000) + "'")
					}
					if err := db.Close(); err != nil {
						t.Error(err)
					}
					if user == "nobody" {
						if e, ok := err.(*driver.MySQLError); !ok || e.Number != 1045 {
							t.Errorf("error is %v, not 1045", err)
						}
						return
					}
					if err != nil {
						t.Fatal(err)
					}
					got := <-s.done
					if got.err != nil || got.login.User != user || got.login.Database != "shop" || got.login.TLS != strings.Contains(params, "tls") ||
						got.login.Attributes["_client_name"] != "Go-MySQL-Driver" ||
						(got.login.Compression == CompressZlib) != strings.Contains(params, "compress") {
						t.Errorf("login is %+v, %v", got.login, got.err)
					}
				})
				for len(s.done) > 0 {
					<-s.done
				}
			}
		}
	}
}

// TestCommandLineLogins has the mariadb client, which is libmysqlclient's kin,
// log in.
func TestCommandLineLogins(t *testing.T) {
	cli, err := exec.LookPath("mariadb")
	if err != nil {
		t.Skip("no mariadb client on this machine")
	}
	files := newCerts(t)
	lookup := users(map[string]Credential{"plain": {Password: "secret"}, "native": {Hash: nativeSecret}, "crypt": {Hash: cryptSecret}})
	run := func(s *testServer, user, password string, flags ...string) (string, error) {
		args := []string{"--no-defaults", "-u" + user, "-p" + password, "-e", "DO 1"}
		if addr, ok := s.Addr().(*net.TCPAddr); ok {
			args = append(args, "--protocol=tcp", "-h127.0.0.1", "-P", strconv.Itoa(addr.Port))
		} else {
			args = append(args, "-S", s.Addr().String())
		}
		out, err := exec.Command(cli, append(append(args, flags...), "shop")...).CombinedOutput()
		return string(out), err
	}
	for _, greeting := range []string{"caching_sha2_password", "mysql_native_password"} {
		for _, transport := range []string{"tcp", "tls", "unix"} {
			opt := ServerOptions{AuthPlugin: greeting, RSA: NewRSAKey(), Cache: NewAuthCache(), Compress: true}
			network := transport
			if transport == "tls" { // the client takes it when it is offered
				network, opt.TLS = "tcp", files.server(t)
			}
			s := serve(t, network, opt, lookup)
			// libmariadb takes "TLS if it is offered" for TLS and sends its password
			// in clear where none is; mysqld and Braid refuse that.
			fixed := []string{"--skip-ssl"}
			if transport == "tls" {
				fixed = nil
			}
			for _, user := range []string{"plain", "native", "crypt"} {
				for _, flags := range []string{"", "--compress", "--default-auth=mysql_native_password", "--default-auth=caching_sha2_password"} {
					t.Run(strings.Join([]string{greeting, transport, user, flags}, "/"), func(t *testing.T) {
						if out, err := run(s, user, "secret", append(strings.Fields(flags), fixed...)...); err != nil {
							t.Fatalf("%v: %s", err, out)
						}
						got := <-s.done
						if l := got.login; got.err != nil || l.User != user || l.Database != "shop" || l.TLS != (transport == "tls") ||
							(l.Compression == CompressZlib) != (flags == "--compress") {
							t.Errorf("login is %+v, %v", l, got.err)
						}
					})
				}
			}
			t.Run(greeting+"/"+transport+"/wrong", func(t *testing.T) {
				out, err := run(s, "plain", "wrong")
				if err == nil || !strings.Contains(out, "ERROR 1045 (28000): Access denied for user 'plain'@'") {
					t.Errorf("%v: %s", err, out)
				}
			})
		}
	}
}

// TestDriverBehindProxy has a driver log in behind a PROXY header: the user's
// host is the one the header names.
func TestDriverBehindProxy(t *testing.T) {
	var seen net.Addr
	s := serve(t, "tcp", ServerOptions{}, func(_ string, remote net.Addr) (Credential, bool) {
		seen = remote
		return Credential{}, true
	}, func(nc net.Conn) (net.Conn, error) {
		return AcceptProxy(nc, []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")})
	})
	config, err := driver.ParseDSN("u@tcp(" + s.Addr().String() + ")/")
	if err != nil {
		t.Fatal(err)
	}
	config.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		nc, err := new(net.Dialer).DialContext(ctx, network, addr)
		if err == nil {
			_, err = nc.Write([]byte("PROXY TCP4 203.0.113.7 192.0.2.1 50000 3306\r\n"))
		}
		return nc, err
	}
	connector, err := driver.NewConnector(config)
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(connector)
	if err := db.Ping(); err != nil {
		t.Fatal(err)
	}
	db.Close()
	if got := <-s.done; got.err != nil || got.login.Host != "203.0.113.7" || seen.String() != "203.0.113.7:50000" {
		t.Errorf("login is %+v, %v; looked up for %v", got.login, got.err, seen)
	}
}
