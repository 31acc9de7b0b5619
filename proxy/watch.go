package proxy

import (
	"context"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

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
	switch {
	case s.stalled(now):
		s.srv.log.Info("a client stalled in mid-command; its connection is cut", zap.Uint64("connection", s.id))
		s.leave(true)
	case began.IsZero():
		s.expire(now, s.idleTimeout())
	case !deadline.IsZero() && now.After(deadline) && waiting:
		s.stop(mysql.Errorf(3024, "Query execution was interrupted, maximum statement execution time exceeded"), false)
	case now.Sub(began) > time.Second && waiting && s.clientLeft():
		s.stop(mysql.Errorf(1317, "Query execution was interrupted"), true)
	}
}

// stalled tells whether the client has not moved on for too long: it takes
// nothing of its answer, which holds its shards back, or it stopped in the middle
// of a packet.
func (s *Session) stalled(now time.Time) bool {
	s.mu.Lock()
	c := s.mu.conn
	s.mu.Unlock()
	if c == nil {
		return false
	}
	turn, busy := c.Turn()
	if !busy || turn != s.seen.turn {
		s.seen.turn, s.seen.at = turn, now
		return false
	}
	return now.Sub(s.seen.at) > time.Duration(s.srv.gen.Load().cfg.Timeouts.Stalled)
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
		// Not a peek: what a client sent before it left (COM_QUIT, TLS's farewell)
		// lies in front of the end.
		fds := []unix.PollFd{{Fd: int32(fd), Events: pollPeerClosed}}
		n, err := unix.Poll(fds, 0)
		left = err == nil && n > 0 && fds[0].Revents&(pollPeerClosed|unix.POLLHUP|unix.POLLERR) != 0
	})
	return err != nil || left
}

// pollPeerClosed is Linux's POLLRDHUP: the peer has closed its side.
const pollPeerClosed = 0x2000

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
		if session {
			s.cut()
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
			if err := c.Node().Kill(ctx, c.ID()); err != nil {
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
