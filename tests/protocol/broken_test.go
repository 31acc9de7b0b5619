package protocol

import (
	"fmt"
	"strings"
	"testing"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"braid/internal/mysql"
	"braid/tests/e2e"
	"braid/tests/servers"
	"braid/tests/wire"
)

const (
	brokenRows   = 8000 // of which a client takes some before a shard fails
	brokenBefore = 1000
)

// ask sends a command without reading its answer.
func ask(t *testing.T, c *mysql.Conn, command byte, payload []byte) {
	t.Helper()
	if err := c.WriteCommand(command, payload); err != nil {
		t.Fatal(err)
	}
	if err := c.Flush(); err != nil {
		t.Fatal(err)
	}
}

// packet reads one packet.
func packet(t *testing.T, c *mysql.Conn) []byte {
	t.Helper()
	p, err := c.ReadPacket()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestAShardIsLostAmidRows: a shard is killed after the client took a thousand
// rows, which come as text or binary, sorted or not. An error is the last packet
// of the result, the connection goes on, and no node goes on sending (B159).
func TestAShardIsLostAmidRows(t *testing.T) {
	for _, flavour := range flavours {
		b := braid(t, flavour, nil)
		c := connect(t, b.Wire())
		query(t, c, "CREATE TABLE t(k INT PRIMARY KEY)")
		query(t, c, "INSERT INTO t VALUES (0)"+manyKeys(brokenRows))
		for _, way := range []string{"KILL QUERY", "KILL", "server"} {
			for _, prepared := range []bool{false, true} {
				for _, order := range []string{"", " ORDER BY k"} {
					t.Run(fmt.Sprintf("%s/%s/prepared=%v%s", flavour, way, prepared, order), func(t *testing.T) {
						text := "SELECT k, REPEAT('x',20000) FROM t" + order
						victim, _, err := login(t, dial(t, b.Addr), mysql.ClientOptions{Schema: "shop"})
						if err != nil {
							t.Fatal(err)
						}
						if prepared {
							ask(t, victim, gomysql.COM_STMT_PREPARE, []byte(text))
							id := append([]byte(nil), packet(t, victim)[1:5]...)
							packet(t, victim)
							packet(t, victim)
							ask(t, victim, gomysql.COM_STMT_EXECUTE, append(id, 0, 1, 0, 0, 0))
						} else {
							ask(t, victim, gomysql.COM_QUERY, []byte(text))
						}
						for range 3 + brokenBefore { // the columns and their number first
							if p := packet(t, victim); p[0] == 0xff {
								t.Fatal(mysql.ParseError(p))
							}
						}
						end := endNode(t, b.Nodes[1], way, "REPEAT('x',20000)")
						switch got := read(t, victim); {
						case got == 0:
							t.Error("the result ends as if it were whole")
						case way == "KILL QUERY" && got != gomysql.ER_QUERY_INTERRUPTED:
							t.Errorf("told %d", got)
						}
						ask(t, victim, gomysql.COM_QUERY, []byte("SELECT 1"))
						if p := packet(t, victim); len(p) != 1 || p[0] != 1 {
							t.Fatalf("afterwards: %x", p)
						}
						packet(t, victim)
						if p := packet(t, victim); string(p) != "\x011" {
							t.Errorf("SELECT 1 answers %q", p)
						}
						packet(t, victim)
						end()
						until(t, "no node goes on", func() bool { return running(t, b, "REPEAT('x',20000)") == 0 })
						until(t, "the table is there", func() bool {
							r, err := c.Query("SELECT COUNT(*) FROM t")
							return err == nil && r[0].Err == nil && string(r[0].Rows[0][0]) == fmt.Sprint(brokenRows)
						})
						victim.Close()
					})
				}
			}
		}
		b.Stop()
	}
}

// TestReadsOfAnyShardWithANodeDown: what every shard can answer is answered while a
// node is down, whichever shard's turn it would be; and what is for the shards of
// the other node can be prepared there.
func TestReadsOfAnyShardWithANodeDown(t *testing.T) {
	b := braid(t, servers.MariaDB, nil)
	c := connect(t, b.Wire())
	query(t, c, "CREATE TABLE g(k INT PRIMARY KEY)")
	query(t, c, "INSERT INTO g VALUES (1),(2)")
	query(t, c, "CREATE TABLE t(k INT PRIMARY KEY)")
	query(t, c, "INSERT INTO t VALUES (1),(2),(3),(4),(5),(6),(7),(8),(9),(10),(11),(12)")
	for i, node := range b.Nodes {
		var clients []*wire.Conn
		for range len(b.Shards()) { // connection ids choose the shard
			clients = append(clients, connect(t, b.Wire()))
		}
		node.Kill9()
		for n, c := range clients {
			for text, want := range map[string]string{"SELECT 1+1": "2", "SELECT COUNT(*) FROM g": "2", "SELECT DATABASE()": "shop"} {
				what := fmt.Sprintf("node %d, client %d, %s", i, n, text)
				r, err := c.Query(text)
				if err != nil || r[0].Err != nil || string(r[0].Rows[0][0]) != want {
					t.Errorf("%s: %v %v", what, r, err)
				}
				s, err := c.Prepare(text)
				if err != nil {
					t.Errorf("%s prepared: %v", what, err)
					continue
				}
				if r, err := s.Execute(); err != nil || r[0].Err != nil || len(r[0].Rows) != 1 {
					t.Errorf("%s prepared: %v %v", what, r, err)
				}
			}
		}
		s, err := clients[0].Prepare("SELECT k FROM t WHERE k=?")
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for k := int64(1); k <= 12; k++ {
			if r, err := s.Execute(wire.Int(k)); err == nil && r[0].Err == nil {
				found += len(r[0].Rows)
			} else if code(err) != 1105 {
				t.Errorf("node %d, k=%d: %v", i, k, err)
			}
		}
		if found == 0 || found == 12 {
			t.Errorf("node %d: %d of 12 rows were found by key", i, found)
		}
		if err := node.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// manyKeys is the rows 1..n-1 of an INSERT, behind another.
func manyKeys(n int) string {
	var b strings.Builder
	for k := 1; k < n; k++ {
		fmt.Fprintf(&b, ",(%d)", k)
	}
	return b.String()
}

// endNode kills a node, or what runs there with that text. What it returns makes
// the node serve again.
func endNode(t *testing.T, node *servers.Server, way, text string) func() {
	t.Helper()
	if way == "server" {
		node.Kill9()
		return func() {
			if err := node.Restart(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	db := e2e.Open(t, node, "")
	rows, err := db.QueryContext(t.Context(), "SELECT ID FROM information_schema.PROCESSLIST WHERE ID<>CONNECTION_ID() AND INFO LIKE ?", "%"+text+"%")
	if err != nil {
		t.Fatal(err)
	}
	var ids []int
	for rows.Next() {
		var id int
		if err := rows.Scan(&id); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	if err := rows.Err(); err != nil || len(ids) == 0 {
		t.Fatalf("nothing runs on the node: %v", err)
	}
	for i, id := range ids {
		// With one lost, Braid may have ended the others by itself.
		if _, err := db.ExecContext(t.Context(), fmt.Sprint(way, " ", id)); err != nil && (i == 0 || code(err) != 1094) {
			t.Fatal(err)
		}
	}
	return func() {}
}
