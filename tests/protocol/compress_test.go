package protocol

import (
	"fmt"
	"strings"
	"testing"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	driver "github.com/go-sql-driver/mysql"

	"braid/conf"
	"braid/internal/mysql"
	"braid/tests/e2e"
	"braid/tests/servers"
)

// TestCompression runs a driver's work with every compression, on either side
// and on both (B153).
func TestCompression(t *testing.T) {
	for _, flavour := range flavours {
		for _, node := range []string{"none", "zlib", "zstd"} {
			for _, client := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/node %s/client %v", flavour, node, client), func(t *testing.T) {
					b := lab.StartBraid(t, e2e.Topology{Flavour: flavour, Nodes: 2, Shards: 4, Tables: tables(), Change: func(c *conf.Config) {
						for i := range c.Nodes {
							c.Nodes[i].Compression = node
						}
					}})
					d := b.DriverConfig()
					if err := d.Apply(driver.EnableCompression(client)); err != nil {
						t.Fatal(err)
					}
					manyRows(t, open(t, d))
				})
			}
		}
	}
}

// TestClientCompressions logs in with each algorithm and asks for rows whose
// compressed answer takes several frames.
func TestClientCompressions(t *testing.T) {
	for _, offered := range [][]string{{"zlib", "zstd"}, {"zstd"}, {"zlib"}} {
		b := lab.StartBraid(t, e2e.Topology{Flavour: servers.MariaDB, Tables: tables(), Change: func(c *conf.Config) { c.Proxy.Compression = offered }})
		for _, algorithm := range []mysql.Compression{mysql.CompressNone, mysql.CompressZlib, mysql.CompressZstd} {
			c, info, err := login(t, dial(t, b.Addr), mysql.ClientOptions{Compression: algorithm, Schema: "shop"})
			if err != nil {
				t.Fatal(err)
			}
			for _, text := range []string{"SELECT 1", "SELECT REPEAT('x',1000000)", "SELECT 2"} {
				if err := c.WriteCommand(gomysql.COM_QUERY, []byte(text)); err != nil {
					t.Fatal(err)
				}
				if err := c.Flush(); err != nil {
					t.Fatal(err)
				}
				n := 0
				for range 4 {
					p, err := c.ReadPacket()
					if err != nil {
						t.Fatalf("offered %v, asked for %d, %s: %v", offered, algorithm, text, err)
					}
					n += len(p)
				}
				if text != "SELECT 1" && text != "SELECT 2" && n < 1000000 {
					t.Errorf("%d bytes", n)
				}
			}
			compressed := info.Capabilities&(gomysql.CLIENT_COMPRESS|gomysql.CLIENT_ZSTD_COMPRESSION_ALGORITHM) != 0
			want := map[mysql.Compression]string{mysql.CompressZlib: "zlib", mysql.CompressZstd: "zstd"}[algorithm]
			has := false
			for _, o := range offered {
				has = has || o == want
			}
			if compressed != has {
				t.Errorf("offered %v, asked for %d: compressed %v", offered, algorithm, compressed)
			}
		}
		b.Stop()
	}
}

// TestNodesAreReallyCompressed counts the bytes between Braid and its nodes while
// rows go there and come back that shrink well. A MariaDB server has no zstd.
func TestNodesAreReallyCompressed(t *testing.T) {
	const rows, rowBytes = 40, 50_000
	for _, flavour := range flavours {
		for _, node := range []string{"none", "zlib", "zstd"} {
			t.Run(fmt.Sprintf("%s/%s", flavour, node), func(t *testing.T) {
				var relays []*e2e.Relay
				b := braid(t, flavour, func(c *conf.Config) {
					for i := range c.Nodes {
						relays = append(relays, e2e.StartRelay(t, c.Nodes[i].Primary))
						c.Nodes[i].Primary, c.Nodes[i].Compression = relays[i].Addr, node
					}
				})
				db := b.Open(t)
				run := func(text string, args ...any) {
					t.Helper()
					if _, err := db.ExecContext(t.Context(), text, args...); err != nil {
						t.Fatal(err)
					}
				}
				run("CREATE TABLE t(k INT PRIMARY KEY, s MEDIUMTEXT)")
				for _, r := range relays {
					r.Reset()
				}
				for k := range rows {
					run("INSERT INTO t VALUES (?,?)", k, strings.Repeat(string(rune('a'+k%26)), rowBytes))
				}
				got, err := db.QueryContext(t.Context(), "SELECT k,s FROM t ORDER BY k")
				if err != nil {
					t.Fatal(err)
				}
				n := 0
				for ; got.Next(); n++ {
					var k int
					var s string
					if err := got.Scan(&k, &s); err != nil {
						t.Fatal(err)
					}
					if k != n || s != strings.Repeat(string(rune('a'+k%26)), rowBytes) {
						t.Fatalf("row %d: k=%d, %d bytes", n, k, len(s))
					}
				}
				if err := got.Err(); err != nil || n != rows {
					t.Fatalf("%d rows, %v", n, err)
				}
				var in, out int64
				for _, r := range relays {
					traffic := r.Traffic()
					in, out = in+traffic.FromClient.Bytes, out+traffic.ToClient.Bytes
				}
				const whole = rows * rowBytes
				if compressed := node == "zlib" || node == "zstd" && flavour == servers.MySQL; compressed != (in < whole/5) || compressed != (out < whole/5) {
					t.Errorf("%d bytes to the nodes and %d from them, for %d bytes of rows each way", in, out, whole)
				}
			})
		}
	}
}
