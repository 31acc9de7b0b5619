package workload

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"braid/tests/e2e"
	"braid/tests/servers"
	"braid/tests/wire"
)

const (
	idleClients    = 5000
	idlePool       = 32 // backend connections
	idleEachKiBMax = 16
)

// Thousands of clients that idle, each with a setting of its own, share a few
// backend connections, hold little memory, and are all still what they were.
func TestIdleClients(t *testing.T) {
	node := lab.Server(t, servers.MariaDB, "node0")
	e2e.Recreate(t, node, "shop")
	p := newProgram(t, []string{node.Addr()}, 1, fmt.Sprintf("[pool]\nconnections_max = %d\n", idlePool))
	p.start(t, "")
	o := wire.Options{Addr: p.addr, User: servers.User, Password: servers.Password, Database: "shop"}
	visit := func(c *wire.Conn, text string) string {
		t.Helper()
		r, err := c.Query(text)
		if err != nil {
			t.Fatal(err)
		}
		if len(r[0].Rows) == 0 {
			return ""
		}
		return string(r[0].Rows[0][0])
	}
	var clients []*wire.Conn
	defer func() {
		for _, c := range clients {
			c.Abort()
		}
	}()
	join := func(n int) {
		for range n {
			c, err := wire.Connect(t.Context(), o)
			if err != nil {
				t.Fatalf("client %d: %v", len(clients), err)
			}
			clients = append(clients, c)
			visit(c, fmt.Sprintf("SET @me=%d, time_zone='+%02d:00'", len(clients), len(clients)%12))
			visit(c, "SELECT 1")
		}
	}
	join(100)
	before := residentKiB(t, p.pid)
	join(idleClients - len(clients))
	after := residentKiB(t, p.pid)
	each := float64(after-before) / (idleClients - 100)
	t.Logf("%d clients: %.1f KiB each (%d to %d KiB)", idleClients, each, before, after)
	if each > idleEachKiBMax {
		t.Errorf("an idle client holds %.1f KiB, more than %d", each, idleEachKiBMax)
	}
	for i := 0; i < len(clients); i += 97 {
		want := fmt.Sprintf("%d/+%02d:00", i+1, (i+1)%12)
		if got := visit(clients[i], "SELECT CONCAT(@me,'/',@@time_zone)"); got != want {
			t.Errorf("client %d is %s, want %s", i, got, want)
		}
	}
	var threads int
	db := e2e.Open(t, node, "")
	if err := db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE USER=?", servers.User).Scan(&threads); err != nil {
		t.Fatal(err)
	}
	if threads > idlePool+2 { // and those of Braid's own work
		t.Errorf("%d connections to the node, the pool has %d", threads, idlePool)
	}
}

// residentKiB is a process's resident memory.
func residentKiB(t *testing.T, pid int) int {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(b), "VmRSS:")
	fields := strings.Fields(rest)
	if !ok || len(fields) == 0 {
		t.Fatalf("no VmRSS in %s", b)
	}
	n, err := strconv.Atoi(fields[0])
	if err != nil {
		t.Fatal(err)
	}
	return n
}
