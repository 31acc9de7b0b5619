package proxy

import (
	"net"
	"testing"
	"time"

	"braid/conf"
)

// A session is looked at before its goroutine has run for the first time.
func TestWatcherLeavesNewSessionsAlone(t *testing.T) {
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	cfg := &conf.Config{}
	cfg.FillDefaults()
	srv := &Server{}
	srv.gen.Store(&generation{cfg: cfg})
	s := newSession(srv, a)
	s.look(time.Now())
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.killed {
		t.Fatal("a session that has just begun was ended as idle")
	}
}
