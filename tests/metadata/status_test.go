package metadata

import (
	"strconv"
	"testing"

	"braid/tests/servers"
	"braid/tests/wire"
)

// What SHOW STATUS tells of the server as a whole is of Braid and its clients, not
// of a node and the connections that Braid has to it.
func TestStatusOfTheServer(t *testing.T) {
	each(t, func(t *testing.T, s *sides) {
		for _, scope := range []string{"", "GLOBAL ", "SESSION "} {
			for _, of := range []struct {
				name string
				side *wire.Conn
				o    wire.Options
			}{
				{"Braid", s.braid, s.b.Wire()},
				{"one server", s.plain, wire.Options{Addr: s.plainServer.Addr(), User: servers.User, Password: servers.Password, Database: "shop"}},
			} {
				value := func(name string) int {
					t.Helper()
					r, err := of.side.Query("SHOW " + scope + "STATUS LIKE '" + name + "'")
					if err != nil || len(r[0].Rows) != 1 {
						t.Fatalf("%s: SHOW %sSTATUS LIKE '%s': %v, %v", of.name, scope, name, r, err)
					}
					n, err := strconv.Atoi(string(r[0].Rows[0][1]))
					if err != nil {
						t.Fatal(err)
					}
					return n
				}
				connected, prepared := value("Threads_connected"), value("Prepared_stmt_count")
				for i := range 3 {
					c := connect(t, of.o)
					if got := value("Threads_connected"); got != connected+i+1 {
						t.Errorf("%s, scope %q: Threads_connected is %d with %d more clients than when it was %d", of.name, scope, got, i+1, connected)
					}
					if _, err := c.Prepare("SELECT COUNT(*) FROM a"); err != nil {
						t.Fatal(err)
					}
					if got := value("Prepared_stmt_count"); got != prepared+i+1 {
						t.Errorf("%s, scope %q: Prepared_stmt_count is %d with %d more statements than when it was %d", of.name, scope, got, i+1, prepared)
					}
				}
				if got := value("Threads_running"); got < 1 || got > connected+3 {
					t.Errorf("%s, scope %q: Threads_running is %d", of.name, scope, got)
				}
				if value("Uptime") < value("Uptime_since_flush_status") {
					t.Errorf("%s, scope %q: Uptime is less than that since FLUSH STATUS", of.name, scope)
				}
			}
		}
	})
}
