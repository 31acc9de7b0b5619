package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"braid/backend"
	"braid/conf"
	"braid/internal/mysql"
)

// Server is one running Braid. Make it with New; it is safe for concurrent use.
type Server struct {
	log   *zap.Logger
	gen   atomic.Pointer[generation]
	tx    *backend.Coordinator
	auth  *mysql.AuthCache
	rsa   *mysql.RSAKey
	ids   atomic.Uint64
	stats stats
	// prepared counts the statements that clients have prepared.
	prepared atomic.Int64
	sets     setMemory
	start    time.Time

	// Load reads the configuration file again, for RELOAD CONFIG on the admin
	// port; nil: there is none. Set it before Run.
	Load func() (*conf.Config, error)

	listeners []net.Listener
	admin     net.Listener // nil: off
	http      net.Listener // nil: off

	sequences *sequences
	follower  *follower

	change sync.Mutex // one reload or schema change at a time

	mu struct {
		sync.Mutex
		sessions map[uint64]*Session
		draining bool
	}
	sessions sync.WaitGroup
}

// New makes a server for cfg, which was validated: it opens the listeners, so
// that Addr is known, reads the schemas, and prepares the nodes for
// transactions. Nodes that are down do not stop it.
func New(cfg *conf.Config, log *zap.Logger) (*Server, error) {
	s := &Server{log: log, start: time.Now(), auth: mysql.NewAuthCache(), rsa: &mysql.RSAKey{}}
	s.mu.sessions = map[uint64]*Session{}
	s.sequences, s.follower = newSequences(log), newFollower()
	g, err := buildGeneration(context.Background(), cfg, nil, 1, log)
	if err != nil {
		return nil, err
	}
	s.gen.Store(g)
	if s.tx, err = backend.NewCoordinator(cfg.Recovery, func() *backend.Cluster { return s.gen.Load().cluster }, log); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), schemaTimeout)
	defer cancel()
	if err := s.tx.Prepare(ctx); err != nil {
		g.cluster.Retire(nil)
		return nil, err
	}
	if err := s.open(cfg); err != nil {
		s.closeListeners()
		g.cluster.Retire(nil)
		return nil, err
	}
	return s, nil
}

// open opens the listeners.
func (s *Server) open(cfg *conf.Config) (err error) {
	for _, addr := range cfg.Proxy.Listen {
		l, err := listen(addr)
		if err != nil {
			return err
		}
		s.listeners = append(s.listeners, l)
	}
	if cfg.Admin.Listen != "" {
		if s.admin, err = listen(cfg.Admin.Listen); err != nil {
			return err
		}
	}
	if cfg.Admin.HTTP != "" {
		if s.http, err = listen(cfg.Admin.HTTP); err != nil {
			return err
		}
	}
	return nil
}

func (s *Server) closeListeners() {
	for _, l := range append([]net.Listener{s.admin, s.http}, s.listeners...) {
		if l != nil {
			_ = l.Close()
		}
	}
}

// AdminAddr returns the address of the admin port, nil when it is off.
func (s *Server) AdminAddr() net.Addr {
	if s.admin == nil {
		return nil
	}
	return s.admin.Addr()
}

// HTTPAddr returns the address of the HTTP port, nil when it is off.
func (s *Server) HTTPAddr() net.Addr {
	if s.http == nil {
		return nil
	}
	return s.http.Addr()
}

func listen(addr string) (net.Listener, error) {
	if path, ok := strings.CutPrefix(addr, "unix:"); ok {
		if c, err := net.DialTimeout("unix", path, time.Second); err == nil {
			_ = c.Close()
			return nil, fmt.Errorf("listen on %s: another process serves it", addr)
		}
		_ = os.Remove(path) // left by a process that is gone
		l, err := net.Listen("unix", path)
		if err == nil {
			// As mysqld's: who may reach it is said by the folder's permissions.
			err = os.Chmod(path, 0o777)
		}
		return l, err
	}
	return net.Listen("tcp", addr)
}

// Addr returns the address of the first listener.
func (s *Server) Addr() net.Addr { return s.listeners[0].Addr() }

// Run serves until ctx ends, then drains: no new clients, idle ones are sent
// away, open transactions may finish until timeouts.drain.
func (s *Server) Run(ctx context.Context) error {
	inner, stop := context.WithCancel(context.Background())
	defer stop()
	var work sync.WaitGroup
	background := func(f func(context.Context)) {
		work.Add(1)
		go func() { defer work.Done(); f(inner) }()
	}
	background(func(ctx context.Context) { backend.Tend(ctx, func() *backend.Cluster { return s.gen.Load().cluster }) })
	background(s.tx.Run)
	background(s.tx.DetectDeadlocks)
	background(s.watch)
	background(s.followSchemas)
	failed := make(chan error, len(s.listeners)+2)
	if s.admin != nil {
		background(func(ctx context.Context) {
			if err := s.acceptAdmin(ctx); err != nil {
				failed <- err
			}
		})
	}
	if s.http != nil {
		background(func(ctx context.Context) {
			if err := s.serveHTTP(ctx); err != nil {
				failed <- err
			}
		})
	}
	for _, l := range s.listeners {
		work.Add(1)
		go func() {
			defer work.Done()
			if err := accept(inner, l, s.log, s.serve); err != nil {
				failed <- err
			}
		}()
	}
	s.log.Info("serving", zap.String("address", s.Addr().String()), zap.Int("databases", len(s.gen.Load().topology.Databases)))
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	s.drain()
	s.tx.Applied()
	stop()
	s.closeListeners()
	work.Wait()
	s.sequences.close()
	s.gen.Load().cluster.Retire(nil)
	return err
}

// adminsMax bounds the operators connected at once.
const adminsMax = 32

// acceptAdmin serves operators until the listener is closed, and waits for them.
func (s *Server) acceptAdmin(ctx context.Context) error {
	a := &admin{srv: s}
	var work sync.WaitGroup
	defer work.Wait()
	places := make(chan struct{}, adminsMax)
	return accept(ctx, s.admin, s.log, func(nc net.Conn) {
		select {
		case places <- struct{}{}:
		default:
			_ = nc.Close()
			return
		}
		work.Add(1)
		go func() {
			defer func() { <-places; work.Done() }()
			a.serve(ctx, nc)
		}()
	})
}

// accept hands clients to serve until the listener is closed.
func accept(ctx context.Context, l net.Listener, log *zap.Logger, serve func(net.Conn)) error {
	for {
		nc, err := l.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) || ctx.Err() != nil {
				return nil
			}
			log.Warn("accept", zap.Error(err))
			select { // out of file descriptors, most likely: let some go
			case <-time.After(50 * time.Millisecond):
			case <-ctx.Done():
			}
			continue
		}
		if tc, ok := nc.(*net.TCPConn); ok {
			_ = tc.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: 60 * time.Second, Interval: 15 * time.Second, Count: 4})
		}
		serve(nc)
	}
}

// serve starts a session, or refuses it.
func (s *Server) serve(nc net.Conn) {
	sess := newSession(s, nc)
	s.mu.Lock()
	full := len(s.mu.sessions) >= s.gen.Load().cfg.Proxy.ConnectionsMax
	draining := s.mu.draining
	if !full && !draining {
		s.mu.sessions[sess.id] = sess
		s.sessions.Add(1)
	}
	s.mu.Unlock()
	if full || draining {
		s.stats.refused.Add(1)
		e := mysql.Errorf(1040, "Too many connections")
		if draining {
			e = mysql.Errorf(1053, "Server shutdown in progress")
		}
		_ = nc.SetDeadline(time.Now().Add(time.Second))
		c := mysql.NewConn(nc, mysql.ClientSide, 1<<16)
		_ = c.WritePacket(mysql.AppendError(nil, e))
		_ = c.Flush()
		_ = nc.Close()
		return
	}
	go func() {
		defer func() {
			s.mu.Lock()
			delete(s.mu.sessions, sess.id)
			s.mu.Unlock()
			s.sessions.Done()
		}()
		sess.run(nc)
	}()
}

// drain sends idle sessions away and waits for those in a transaction.
func (s *Server) drain() {
	s.mu.Lock()
	s.mu.draining = true
	s.mu.Unlock()
	for _, l := range s.listeners {
		_ = l.Close()
	}
	deadline := time.Now().Add(time.Duration(s.gen.Load().cfg.Timeouts.Drain))
	done := make(chan struct{})
	go func() { s.sessions.Wait(); close(done) }()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		force := time.Now().After(deadline)
		for _, sess := range s.Sessions() {
			sess.leave(force)
		}
		select {
		case <-done:
			return
		case <-tick.C:
		}
	}
}

// Sessions returns the sessions there are.
func (s *Server) Sessions() []*Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]*Session, 0, len(s.mu.sessions))
	for _, x := range s.mu.sessions {
		out = append(out, x)
	}
	return out
}

// Session returns a session by its connection id, nil when there is none.
func (s *Server) Session(id uint64) *Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.sessions[id]
}

// Refresh reads the schemas again, after a statement that changed one or on
// the operator's word.
func (s *Server) Refresh(ctx context.Context) error {
	s.change.Lock()
	defer s.change.Unlock()
	return s.refresh(ctx)
}

// refresh is Refresh while s.change is held.
func (s *Server) refresh(ctx context.Context) error {
	old := s.gen.Load()
	g, err := old.withSchema(ctx, old.number+1, s.log)
	if err != nil {
		return err
	}
	s.gen.Store(g)
	return nil
}
