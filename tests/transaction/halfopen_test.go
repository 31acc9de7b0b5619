package transaction

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
)

// B120: a client whose host is gone without a word. Its locks go when it has been
// idle for wait_timeout, on every node, and its changes with them.
func TestB120SilentClient(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		x, y := w.at[0][0], w.at[1][0]
		gone, other := w.client(t), w.client(t)
		gone.ok("SET SESSION wait_timeout = 2", "BEGIN", update(x, 1), fmt.Sprintf("SELECT v FROM acc WHERE id=%d FOR UPDATE", y))
		other.ok(update(y, 5), update(x, 5)) // both wait for it
		if code := gone.code(update(x, 1)); code == 0 {
			t.Error("the silent client goes on")
		}
		for _, id := range []int{x, y} {
			if got := other.one(fmt.Sprintf("SELECT v FROM acc WHERE id=%d", id)); got != "5" {
				t.Errorf("id %d: %s", id, got)
			}
		}
	})
}

// B120: where wait_timeout is long, the kernel asks whether a silent client is
// there still: the socket of each has its keep-alive timer running.
func TestB120KeepAlive(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		c, err := net.Dial("tcp", w.braid.Wire().Addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := bufio.NewReader(c).ReadByte(); err != nil { // the greeting: it was accepted
			t.Fatal(err)
		}
		hex := func(a net.Addr) string { return fmt.Sprintf("0100007F:%04X", a.(*net.TCPAddr).Port) }
		if _, err := os.Stat("/proc/net/tcp"); err != nil {
			t.Skip("SKIPPED, NOT TESTED: ", err)
		}
		until(t, "a keep-alive timer runs on Braid's socket", func() bool {
			text, err := os.ReadFile("/proc/net/tcp")
			if err != nil {
				t.Fatal(err)
			}
			for _, line := range strings.Split(string(text), "\n") {
				// sl local remote state tx:rx timer:when ...
				f := strings.Fields(line)
				if len(f) > 5 && f[1] == hex(c.RemoteAddr()) && f[2] == hex(c.LocalAddr()) {
					return strings.HasPrefix(f[5], "02:")
				}
			}
			return false
		})
	})
}
