package e2e

import (
	"os"
	"testing"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"braid/conf"
	"braid/tests/servers"
	"braid/tests/wire"
)

var lab = NewLab()

func TestMain(m *testing.M) { os.Exit(lab.Main(m)) }

func TestRelayCounts(t *testing.T) {
	s := lab.Server(t, servers.MariaDB, "node0")
	r := StartRelay(t, s.Addr())
	c, err := wire.Connect(t.Context(), wire.Options{Addr: r.Addr, User: servers.User, Password: servers.Password, Flags: gomysql.CLIENT_DEPRECATE_EOF})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Abort()
	r.Reset()
	const text = "SELECT 1 UNION ALL SELECT 2"
	for range 3 {
		if _, err := c.Query(text); err != nil {
			t.Fatal(err)
		}
	}
	got := r.Traffic()
	// Each answer: column count, one column, two rows, OK.
	if got.RoundTrips != 3 || got.FromClient.Packets != 3 || got.ToClient.Packets != 15 {
		t.Errorf("counted %+v", got)
	}
	if want := int64(3 * (4 + 1 + len(text))); got.FromClient.Bytes != want {
		t.Errorf("%d bytes from the client, want %d", got.FromClient.Bytes, want)
	}
	if commands := r.Commands(); len(commands) != 3 || commands[0] != "\x03"+text {
		t.Errorf("commands %q", commands)
	}
	r.Cut()
	if _, err := c.Query(text); err == nil {
		t.Error("a connection that was cut answered")
	}
}

func TestFramerTakesAnyPieces(t *testing.T) {
	stream := []byte{2, 0, 0, 0, 3, 'x', 0, 0, 0, 0, 1, 0, 0, 1, 9, 1, 0, 0, 0, 14}
	for size := 1; size <= len(stream); size++ {
		var f framer
		packets, commands := 0, []string{}
		for at := 0; at < len(stream); at += size {
			n, c := f.feed(stream[at:min(at+size, len(stream))])
			packets += n
			commands = append(commands, c...)
		}
		if packets != 4 || len(commands) != 3 || commands[0] != "\x03x" || commands[1] != "" || commands[2] != "\x0e" {
			t.Errorf("pieces of %d: %d packets, commands %q", size, packets, commands)
		}
	}
}

func TestCountersSeeRowsSent(t *testing.T) {
	for _, flavour := range []servers.Flavour{servers.MariaDB, servers.MySQL} {
		t.Run(string(flavour), func(t *testing.T) {
			s := lab.Server(t, flavour, "node0")
			c, err := wire.Connect(t.Context(), wire.Options{Addr: s.Addr(), User: servers.User, Password: servers.Password})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			before := Count(t, s)
			for range 2 {
				if _, err := c.Query("SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3"); err != nil {
					t.Fatal(err)
				}
			}
			if got := before.Since(t, "Rows_sent"); got != 6 {
				t.Errorf("Rows_sent grew by %d, want 6", got)
			}
			if got := before.Since(t, "Com_select"); got < 2 {
				t.Errorf("Com_select grew by %d", got)
			}
		})
	}
}

func TestBraidStartsOverShards(t *testing.T) {
	for _, flavour := range []servers.Flavour{servers.MariaDB, servers.MySQL} {
		t.Run(string(flavour), func(t *testing.T) {
			b := lab.StartBraid(t, Topology{Flavour: flavour, Nodes: 2, Shards: 4, Tables: []conf.Table{
				{Name: "t", Kind: "sharded", Key: []string{"k"}},
			}})
			db := b.Open(t)
			for _, text := range []string{"CREATE TABLE t(k INT PRIMARY KEY)", "INSERT INTO t VALUES (1),(2),(3),(4),(5),(6),(7),(8)"} {
				if _, err := db.ExecContext(t.Context(), text); err != nil {
					t.Fatalf("%s: %v", text, err)
				}
			}
			sum, used := 0, 0
			for _, place := range b.Shards() {
				var n int
				if err := Open(t, place.Node, place.Schema).QueryRowContext(t.Context(), "SELECT COUNT(*) FROM t").Scan(&n); err != nil {
					t.Fatal(place.Shard, err)
				}
				sum += n
				if n > 0 {
					used++
				}
			}
			if sum != 8 || used < 2 {
				t.Errorf("%d of 8 rows, on %d shards", sum, used)
			}
		})
	}
}
