package protocol

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"braid/conf"
	"braid/internal/mysql"
	"braid/tests/e2e"
	"braid/tests/servers"
	"braid/tests/wire"
)

// small makes the limits such that a test meets them soon.
func small(c *conf.Config) {
	c.Timeouts.Handshake = conf.Duration(500 * time.Millisecond)
	c.Timeouts.Stalled = conf.Duration(500 * time.Millisecond)
	c.Proxy.PacketBytesMax = 8 << 20
	c.Proxy.ConnectionsMax = 40
}

// lastWord reads a connection to its end; the error that came before it, if any.
func lastWord(t *testing.T, nc net.Conn) *mysql.Error {
	t.Helper()
	_ = nc.SetDeadline(time.Now().Add(30 * time.Second))
	all, err := io.ReadAll(nc)
	var ne net.Error
	if errors.As(err, &ne) && ne.Timeout() {
		t.Fatal("the connection was not closed")
	}
	for len(all) >= 4 {
		n := int(all[0]) | int(all[1])<<8 | int(all[2])<<16
		if len(all) < 4+n {
			return nil
		}
		if n > 0 && all[4] == 0xff {
			return mysql.ParseError(all[4 : 4+n])
		}
		all = all[4+n:]
	}
	return nil
}

// loggedIn is the bare connection of a client that has logged in.
func loggedIn(t *testing.T, addr string) net.Conn {
	t.Helper()
	nc := dial(t, addr)
	if _, _, err := login(t, nc, mysql.ClientOptions{Schema: "shop"}); err != nil {
		t.Fatal(err)
	}
	_ = nc.SetDeadline(time.Now().Add(time.Minute))
	return nc
}

// TestHostileClients lets clients misbehave in every way while a good one works
// on; what each of them is told is what mysqld tells.
func TestHostileClients(t *testing.T) {
	b := braid(t, servers.MariaDB, small)
	good := connect(t, b.Wire())
	query(t, good, "CREATE TABLE t(k INT PRIMARY KEY, s LONGTEXT)")
	query(t, good, "INSERT INTO t VALUES (1,'a'),(2,'b'),(3,'c'),(4,'d')")
	write := func(nc net.Conn, p ...byte) {
		t.Helper()
		if _, err := nc.Write(p); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		name string
		want uint16 // the error it is told; 0: none, the connection is closed
		do   func(t *testing.T) net.Conn
	}{
		{"says nothing", 0, func(t *testing.T) net.Conn { return dial(t, b.Addr) }},
		{"stops within its login", 0, func(t *testing.T) net.Conn {
			nc := dial(t, b.Addr)
			write(nc, 100, 0, 0, 1, 0, 0)
			return nc
		}},
		{"sends letters", 0, func(t *testing.T) net.Conn {
			nc := dial(t, b.Addr)
			write(nc, []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n")...)
			return nc
		}},
		{"announces 16 MB before its login", 0, func(t *testing.T) net.Conn {
			nc := dial(t, b.Addr)
			write(nc, 0xff, 0xff, 0xff, 1)
			return nc
		}},
		{"begins with TLS", 0, func(t *testing.T) net.Conn {
			nc := dial(t, b.Addr)
			go tls.Client(nc, &tls.Config{InsecureSkipVerify: true}).Handshake() //nolint:errcheck // it cannot succeed
			return nc
		}},
		{"announces more than max_allowed_packet", 1153, func(t *testing.T) net.Conn {
			nc := loggedIn(t, b.Addr)
			write(nc, 0xff, 0xff, 0xff, 0, gomysql.COM_QUERY)
			return nc
		}},
		{"stops within a statement", 0, func(t *testing.T) net.Conn {
			nc := loggedIn(t, b.Addr)
			write(nc, 100, 0, 0, 0, gomysql.COM_QUERY, 'S')
			return nc
		}},
		{"stops within a header", 0, func(t *testing.T) net.Conn {
			nc := loggedIn(t, b.Addr)
			write(nc, 100)
			return nc
		}},
		{"counts wrong", 1156, func(t *testing.T) net.Conn {
			nc := loggedIn(t, b.Addr)
			write(nc, 1, 0, 0, 7, gomysql.COM_PING)
			return nc
		}},
		{"sends an empty packet", 0, func(t *testing.T) net.Conn {
			nc := loggedIn(t, b.Addr)
			write(nc, 0, 0, 0, 0)
			return nc
		}},
		{"takes none of its answer", 0, func(t *testing.T) net.Conn {
			nc := loggedIn(t, b.Addr)
			text := "SELECT k,REPEAT('x',8000000) FROM t"
			write(nc, append([]byte{byte(len(text) + 1), 0, 0, 0, gomysql.COM_QUERY}, text...)...)
			until(t, "the client is cut", func() bool { return len(b.Server.Sessions()) == 1 })
			return nc
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			nc := test.do(t)
			if got := value(t, good, "SELECT COUNT(*) FROM t"); got != "4" {
				t.Errorf("the good client counts %s", got)
			}
			e := lastWord(t, nc)
			if test.want == 0 && e != nil && e.Code != 1043 && e.Code != 1158 || test.want != 0 && (e == nil || e.Code != test.want) {
				t.Errorf("told %v, want error %d", e, test.want)
			}
			until(t, "the session is gone", func() bool { return len(b.Server.Sessions()) == 1 })
			if got := value(t, good, "SELECT COUNT(*) FROM t"); got != "4" {
				t.Errorf("the good client counts %s", got)
			}
		})
	}
}

// TestFloodOfConnections: beyond the limit 1040 in place of the greeting (B155);
// clients that come and go without a word leave nothing behind (B156).
func TestFloodOfConnections(t *testing.T) {
	b := braid(t, servers.MariaDB, small)
	good := connect(t, b.Wire())
	value(t, good, "SELECT 1")
	before := runtime.NumGoroutine()
	var held []net.Conn
	for range b.Config.Proxy.ConnectionsMax - 1 {
		held = append(held, dial(t, b.Addr))
	}
	until(t, "all are let in", func() bool { return len(b.Server.Sessions()) == b.Config.Proxy.ConnectionsMax })
	for range 50 {
		nc := dial(t, b.Addr)
		if e := lastWord(t, nc); e == nil || e.Code != 1040 {
			t.Fatalf("beyond the limit: %v", e)
		}
		nc.Close()
	}
	value(t, good, "SELECT 1")
	for _, nc := range held {
		nc.Close()
	}
	until(t, "they are gone", func() bool { return len(b.Server.Sessions()) == 1 })
	value(t, connect(t, b.Wire()), "SELECT 1")
	for range 300 {
		dial(t, b.Addr).Close()
	}
	until(t, "no goroutine is left", func() bool { return runtime.NumGoroutine() <= before+5 })
}

// running is how many statements with that text run on the nodes.
func running(t *testing.T, b *e2e.Braid, text string) int {
	t.Helper()
	n := 0
	for _, node := range b.Nodes {
		var one int
		err := e2e.Open(t, node, "").QueryRowContext(t.Context(),
			"SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE ID<>CONNECTION_ID() AND INFO LIKE ?", "%"+text+"%").Scan(&one)
		if err != nil {
			t.Fatal(err)
		}
		n += one
	}
	return n
}

// TestStatementsOfLostClientsEnd: a client that leaves in mid-statement, a KILL
// and a KILL QUERY end the statement on every shard.
func TestStatementsOfLostClientsEnd(t *testing.T) {
	a := e2e.NewAuthority(t)
	a.Issue(t, "braid", 2)
	for _, flavour := range flavours {
		b := braid(t, flavour, func(c *conf.Config) {
			c.Proxy.TLS, c.Proxy.TLSCertificate, c.Proxy.TLSKey = "optional", a.File("braid.pem"), a.File("braid.key")
		})
		c := connect(t, b.Wire())
		query(t, c, "CREATE TABLE t(k INT PRIMARY KEY)")
		query(t, c, "INSERT INTO t VALUES (1),(2),(3),(4),(5),(6),(7),(8)")
		const text = "SELECT k, SLEEP(600) FROM t"
		for _, way := range []string{"closes", "closes after COM_QUIT", "closes TLS", "KILL QUERY", "KILL", "COM_PROCESS_KILL"} {
			for _, begin := range []string{"", "BEGIN"} {
				t.Run(string(flavour)+"/"+way+"/"+begin, func(t *testing.T) {
					nc := dial(t, b.Addr)
					opt := mysql.ClientOptions{Schema: "shop", TLSMode: mysql.TLSDisabled}
					if way == "closes TLS" {
						opt.TLSMode, opt.TLS = mysql.TLSRequired, &tls.Config{RootCAs: a.Pool(), ServerName: "127.0.0.1"}
					}
					victim, info, err := login(t, nc, opt)
					if err != nil {
						t.Fatal(err)
					}
					send := func(text string) {
						t.Helper()
						if err := victim.WriteCommand(gomysql.COM_QUERY, []byte(text)); err != nil {
							t.Fatal(err)
						}
						if err := victim.Flush(); err != nil {
							t.Fatal(err)
						}
					}
					if begin != "" {
						send(begin)
						if _, err := victim.ReadPacket(); err != nil {
							t.Fatal(err)
						}
					}
					send(text)
					until(t, "it runs on both nodes", func() bool { return running(t, b, "SLEEP(600)") >= 2 })
					switch way {
					case "closes", "closes TLS":
						victim.Close()
					case "closes after COM_QUIT":
						nc.Write([]byte{1, 0, 0, 0, gomysql.COM_QUIT})
						nc.Close()
					case "COM_PROCESS_KILL":
						id := info.ConnectionID
						if _, err := c.Command(gomysql.COM_PROCESS_KILL, []byte{byte(id), byte(id >> 8), byte(id >> 16), byte(id >> 24)}); err != nil {
							t.Fatal(err)
						}
					default:
						query(t, c, fmt.Sprint(way, " ", info.ConnectionID))
					}
					until(t, "no node runs it", func() bool { return running(t, b, "SLEEP(600)") == 0 })
					if way == "KILL QUERY" {
						got := read(t, victim)
						if got != 1317 {
							t.Errorf("the victim is told %d", got)
						}
						send("SELECT COUNT(*) FROM t")
						if p, err := victim.ReadPacket(); err != nil || p[0] != 1 {
							t.Errorf("afterwards: %x %v", p, err)
						}
						victim.Close()
					}
					until(t, "the session is gone", func() bool { return len(b.Server.Sessions()) == 1 })
					if got := value(t, c, "SELECT COUNT(*) FROM t"); got != "8" {
						t.Errorf("counted %s", got)
					}
				})
			}
		}
	}
}

// read reads an answer to its end and returns the error in it, or 0.
func read(t *testing.T, c *mysql.Conn) int {
	t.Helper()
	for {
		p, err := c.ReadPacket()
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case p[0] == 0xff:
			return int(mysql.ParseError(p).Code)
		case p[0] == 0xfe && len(p) < 100:
			return 0
		}
	}
}

// TestIdleClients compares with a plain server what an idle client is told when
// its wait_timeout is over, and when it is killed, and that what it had open is
// rolled back.
func TestIdleClients(t *testing.T) {
	for _, flavour := range flavours {
		b := braid(t, flavour, func(c *conf.Config) { c.Timeouts.Interactive = conf.Duration(time.Second) })
		for _, way := range []string{"wait_timeout", "interactive", "KILL"} {
			t.Run(string(flavour)+"/"+way, func(t *testing.T) {
				var told [2]int
				for i, o := range []wire.Options{plain(t, flavour), b.Wire()} {
					watch := connect(t, o)
					query(t, watch, "DROP TABLE IF EXISTS t")
					query(t, watch, "CREATE TABLE t(k INT PRIMARY KEY)")
					if way == "interactive" {
						o.Flags |= gomysql.CLIENT_INTERACTIVE
						if i == 0 {
							query(t, watch, "SET GLOBAL interactive_timeout=1")
							defer query(t, watch, "SET GLOBAL interactive_timeout=28800")
						}
					}
					idle := connect(t, o)
					if way == "wait_timeout" {
						query(t, idle, "SET wait_timeout=1")
					}
					query(t, idle, "BEGIN")
					query(t, idle, "INSERT INTO t VALUES (1)")
					if way == "KILL" {
						query(t, watch, fmt.Sprint("KILL ", idle.ID))
					}
					id := fmt.Sprint(idle.ID)
					until(t, "it is gone", func() bool {
						for _, row := range query(t, watch, "SHOW PROCESSLIST")[0].Rows {
							if string(row[0]) == id {
								return false
							}
						}
						return true
					})
					_, err := idle.Query("SELECT 1")
					told[i] = code(err)
					query(t, watch, "INSERT INTO t VALUES (1)") // rolled back, and unlocked
				}
				if told[0] != told[1] {
					t.Errorf("told %d, plain %d", told[1], told[0])
				}
			})
		}
	}
}

// TestProxyHeaders: a client behind a listed network has its own address; from
// elsewhere a header is no login.
func TestProxyHeaders(t *testing.T) {
	v2 := append([]byte("\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c"), 10, 1, 2, 3, 10, 0, 0, 1, 0x30, 0x39, 0x0c, 0xea)
	for _, test := range []struct {
		name, header, want string
	}{
		{"version 1", "PROXY TCP4 10.1.2.3 10.0.0.1 12345 3306\r\n", "10.1.2.3"},
		{"version 1 over IPv6", "PROXY TCP6 2001:db8::7 2001:db8::1 12345 3306\r\n", "2001:db8::7"},
		{"version 2", string(v2), "10.1.2.3"},
		{"a check of the balancer's own", "PROXY UNKNOWN\r\n", "127.0.0.1"},
		{"no header", "", ""},
		{"a wrong one", "PROXY TCP4 300.1.2.3 10.0.0.1 1 2\r\n", ""},
	} {
		for _, listed := range []bool{true, false} {
			t.Run(fmt.Sprint(test.name, "/", listed), func(t *testing.T) {
				b := lab.StartBraid(t, e2e.Topology{Flavour: servers.MariaDB, Change: func(c *conf.Config) {
					small(c)
					c.Proxy.ProxyNetworks = []string{"192.0.2.0/24"}
					if listed {
						c.Proxy.ProxyNetworks = append(c.Proxy.ProxyNetworks, "127.0.0.0/8")
					}
				}})
				nc := dial(t, b.Addr)
				if _, err := io.WriteString(nc, test.header); err != nil {
					t.Fatal(err)
				}
				c, _, err := login(t, nc, mysql.ClientOptions{})
				good := listed && test.want != "" || !listed && test.header == ""
				if (err == nil) != good {
					t.Fatalf("login: %v", err)
				}
				if !good {
					return
				}
				if err := c.WriteCommand(gomysql.COM_QUERY, []byte("SELECT USER()")); err != nil {
					t.Fatal(err)
				}
				if err := c.Flush(); err != nil {
					t.Fatal(err)
				}
				var row string
				for range 3 {
					p, err := c.ReadPacket()
					if err != nil {
						t.Fatal(err)
					}
					row = string(p)
				}
				want := test.want
				if !listed {
					want = "127.0.0.1"
				}
				if !strings.HasSuffix(row, "@"+want) {
					t.Errorf("USER() is %q", row)
				}
			})
		}
	}
}

// TestUnixSocket: a client there is local and private.
func TestUnixSocket(t *testing.T) {
	path := t.TempDir() + "/braid.sock"
	a := e2e.NewAuthority(t)
	a.Issue(t, "braid", 2)
	b := lab.StartBraid(t, e2e.Topology{Flavour: servers.MariaDB, Change: func(c *conf.Config) {
		c.Proxy.Listen = append(c.Proxy.Listen, "unix:"+path)
		c.Proxy.TLS, c.Proxy.TLSCertificate, c.Proxy.TLSKey = "required", a.File("braid.pem"), a.File("braid.key")
	}})
	o := b.Wire()
	if _, err := wire.Connect(t.Context(), o); code(err) != 3159 {
		t.Errorf("over TCP without TLS: %v", err)
	}
	o.Addr = path
	if got := value(t, connect(t, o), "SELECT USER()"); got != servers.User+"@localhost" {
		t.Errorf("USER() is %q", got)
	}
}
