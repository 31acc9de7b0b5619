package session

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"braid/conf"
	"braid/tests/e2e"
	"braid/tests/servers"
	"braid/tests/wire"
)

// An idle backend connection has one goroutine at most, and a client that left
// none.
func TestIdleConnectionsHaveNoGoroutines(t *testing.T) {
	each(t, func(t *testing.T, flavour servers.Flavour) {
		b := shop(t, flavour, 1, 1, func(c *conf.Config) {
			pool(c, 40, c.Pool.WaitTimeout)
			c.Pool.IdleMax = 40
		})
		node := e2e.Open(t, b.Nodes[0], "")
		connections := func() (n int) {
			if err := node.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE DB='shop'").Scan(&n); err != nil {
				t.Fatal(err)
			}
			return n
		}
		must(t, connect(t, b), "SELECT COUNT(*) FROM i")
		before, open := runtime.NumGoroutine(), connections()
		const clients = 30
		var held []*wire.Conn
		for range clients {
			c := connect(t, b)
			must(t, c, "BEGIN")
			must(t, c, "SELECT x FROM i WHERE k=1")
			held = append(held, c)
		}
		for _, c := range held {
			must(t, c, "COMMIT")
			c.Close()
		}
		more := connections() - open
		if more < clients-5 {
			t.Fatalf("%d more connections are open", more)
		}
		grown := 0
		for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); {
			if grown = runtime.NumGoroutine() - before; grown <= more {
				return
			}
			runtime.Gosched()
		}
		t.Errorf("%d more goroutines for %d idle connections", grown, more)
	})
}

// What one client set on a connection the next that gets it does not have
// (B088), nor does it write under it.
func TestNextClientBeginsAnew(t *testing.T) {
	each(t, func(t *testing.T, flavour servers.Flavour) {
		b := shop(t, flavour, 2, 4, func(c *conf.Config) { pool(c, 1, c.Pool.WaitTimeout) })
		must(t, connect(t, b), "CREATE TABLE td(k INT PRIMARY KEY, d DATE)")
		const state = "SELECT @@sql_mode, @@time_zone, @@foreign_key_checks, FROM_UNIXTIME(0), @u, @@lock_wait_timeout FROM i"
		fresh := must(t, connect(t, b), state)
		for n := range 5 {
			a := connect(t, b)
			must(t, a, "SET sql_mode='', time_zone='+09:00', foreign_key_checks=0, @u=1, lock_wait_timeout=7")
			must(t, a, fmt.Sprintf("REPLACE INTO td VALUES (%d,'2024-02-31')", n)) // on every pool's connection in turn
			if got := must(t, a, state); got == fresh {
				t.Fatal("the settings are nowhere")
			}
			a.Close()
			next := connect(t, b)
			if got := must(t, next, state); got != fresh {
				t.Errorf("the next client has %s, not %s", got, fresh)
			}
			if _, err := run(next, fmt.Sprintf("INSERT INTO td VALUES (%d,'2024-02-31')", 100+n)); !isCode(err, 1292) {
				t.Errorf("a date that is none: %v", err)
			}
			next.Close()
		}
	})
}
