package proxy

import (
	"context"
	"errors"
	"syscall"
	"time"

	"go.uber.org/zap"

	"braid/backend"
	"braid/internal/mysql"
)

// killTimeout bounds one KILL on a node.
const killTimeout = 5 * time.Second

// graceAfterKill is how long a stopped statement's node may take to answer
// before the connection to it is cut.
const graceAfterKill = 2 * time.Second

// watch looks at all sessions a few times a second and stops statements whose
// time is up or whose client has left (rule D12): a session's own goroutine
// sits in a read from a node and cannot notice.
func (s *Server) watch(ctx context.Context) {
	t := time.NewTicker(250 * time.Millisecond)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-t.C:
			for _, sess := range s.Sessions() {
				sess.look(now)
			}
		}
	}
}

// look stops the session's statement when it must not go on.
func (s *Session) look(now time.Time) {
	s.mu.Lock()
	began, deadline := s.mu.began, s.mu.deadline
	waiting := len(s.mu.active) > 0 && s.mu.stopped == nil
	s.mu.Unlock()
	idle := time.Duration(s.idleTimeout())
	switch {
	case began.IsZero():
		if idle > 0 && now.Sub(s.idleSince()) > idle {
			s.leave(false)
		}
	case !deadline.IsZero() && now.After(deadline) && waiting:
		s.stop(mysql.Errorf(3024, "Query execution was interrupted, maximum statement execution time exceeded"), false)
	case now.Sub(began) > time.Second && waiting && s.clientLeft():
		s.stop(mysql.Errorf(1317, "Query execution was interrupted"), true)
	}
}

// clientLeft looks whether the client's side of the connection was closed.
func (s *Session) clientLeft() bool {
	sc, ok := s.clientSocket()
	if !ok {
		return false
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return true
	}
	left := false
	err = raw.Control(func(fd uintptr) {
		var b [1]byte
		n, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		left = n == 0 && err == nil || err != nil && !errors.Is(err, syscall.EAGAIN) && !errors.Is(err, syscall.EINTR)
	})
	return err != nil || left
}

// stop ends the statement under way with e: its nodes are told to kill it, and
// when one does not answer to that its connection is cut. With session the
// client's connection ends too.
func (s *Session) stop(e *mysql.Error, session bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if session {
		s.mu.killed = true
	}
	if s.mu.began.IsZero() {
		if session && s.c != nil {
			s.c.Interrupt()
		}
		return
	}
	if s.mu.stopped != nil {
		return
	}
	s.mu.stopped = e
	active := append([]*backend.Conn(nil), s.mu.active...)
	done, serial := make(chan struct{}), s.mu.serial
	s.mu.killDone = done
	go func() { // bounded by killTimeout and graceAfterKill
		ctx, cancel := context.WithTimeout(context.Background(), killTimeout)
		defer cancel()
		for _, c := range active {
			if err := c.Node().Kill(ctx, c.ID(), true); err != nil {
				s.srv.log.Warn("stopping a statement on its node failed; the connection is cut", zap.Uint64("connection", s.id), zap.String("node", c.Node().Name()), zap.Error(err))
				c.Interrupt()
			}
		}
		close(done)
		time.AfterFunc(graceAfterKill, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.mu.serial != serial || s.mu.began.IsZero() {
				return
			}
			for _, c := range s.mu.active {
				c.Interrupt()
			}
		})
	}()
}
