package proxy

import (
	"strings"
	"time"

	"braid/backend"
	"braid/internal/mysql"
	"braid/router"
)

// pinReason is what a node holds for a session that cannot be brought to
// another connection. Reasons add up.
type pinReason uint8

const (
	pinLock      pinReason = 1 << iota // GET_LOCK()
	pinTables                          // LOCK TABLES
	pinTemporary                       // temporary tables
	pinProgram                         // what a stored program may have left: variables, temporary tables
	pinXA                              // an XA transaction of the client's own
	pinWarnings                        // what it warns of behind ROLLBACK is not read yet
	pinHandler                         // tables that HANDLER has open
)

func (r pinReason) String() string {
	var out []string
	for bit, name := range []string{"user locks", "locked tables", "temporary tables", "a stored program ran", "an XA transaction", "warnings", "open handlers"} {
		if r&(1<<bit) != 0 {
			out = append(out, name)
		}
	}
	return strings.Join(out, ", ")
}

// pin is a backend connection that the session keeps. There is at most one for
// each node, and a transaction's leg on that node is it.
type pin struct {
	conn *backend.Conn
	why  pinReason
	// stale says that it was pinned for temporary tables: statements prepared there
	// may know columns of tables that are gone, so that nobody gets it again.
	stale bool
}

// keeps is why the connection of a statement that uses no tables is one to keep
// to its node, whatever comes of it; 0: it is not.
func keeps(plan *router.Plan) pinReason {
	switch {
	case plan.Locks:
		return pinLock
	case plan.Handler != nil && plan.Handler.Verb == router.HandlerOpen:
		return pinHandler
	}
	return 0
}

// pinned returns the connection that the session keeps to a node, nil for none.
func (s *Session) pinned(n *backend.Node) *backend.Conn {
	for i := range s.pins {
		if s.pins[i].conn.Node() == n {
			return s.pins[i].conn
		}
	}
	return nil
}

func (s *Session) isPinned(c *backend.Conn) bool {
	for i := range s.pins {
		if s.pins[i].conn == c {
			return true
		}
	}
	return false
}

// pin makes the session keep a connection that is at work for it.
func (s *Session) pin(c *backend.Conn, why pinReason) {
	for i := range s.pins {
		if s.pins[i].conn == c {
			s.pins[i].why |= why
			s.pins[i].stale = s.pins[i].stale || why&pinTemporary != 0
			s.notePins()
			return
		}
	}
	c.Tainted = true
	s.pins = append(s.pins, pin{c, why, why&pinTemporary != 0})
	if s.tx != nil {
		s.tx.Pin(c)
	}
	s.notePins()
}

// unpin says that a reason is gone on all connections. Those without another
// go back to their pools; a transaction's legs do so when it ends, with unpin(0).
func (s *Session) unpin(why pinReason) {
	if len(s.pins) == 0 {
		return
	}
	if why&pinLock != 0 {
		s.userLocks = userLocks{}
	}
	keep := s.pins[:0]
	for _, p := range s.pins {
		p.why &^= why
		if p.why != 0 || s.tx != nil && s.tx.On(p.conn.Node()) == p.conn {
			keep = append(keep, p)
			continue
		}
		p.conn.Tainted = p.stale
		p.conn.Release()
	}
	clear(s.pins[len(keep):])
	s.pins = keep
	s.notePins()
}

// unpinAll resets all that the nodes hold for the session. No transaction is open.
func (s *Session) unpinAll() {
	for _, p := range s.pins {
		if p.why&pinXA != 0 { // a node ends or keeps it as when its client leaves
			p.conn.Destroy()
			continue
		}
		p.conn.SetDeadline(time.Now().Add(resetTimeout))
		if err := p.conn.Reset(); err != nil {
			p.conn.Destroy()
			continue
		}
		p.conn.SetDeadline(time.Time{})
		p.conn.Release()
	}
	s.pins, s.temporaries, s.userLocks, s.xaOpen, s.handlers = nil, nil, userLocks{}, nil, nil
	s.notePins()
}

// resetTimeout bounds the reset of one connection.
const resetTimeout = 5 * time.Second

// lostPin forgets a pinned connection that is no more: what its node held for
// the session is gone, so the client is told and its connection closed.
func (s *Session) lostPin(c *backend.Conn) {
	for i := range s.pins {
		if s.pins[i].conn == c {
			s.pins = append(s.pins[:i], s.pins[i+1:]...)
			s.doomed = true
			s.notePins()
			return
		}
	}
}

// notePins shows the pins to SHOW SESSIONS.
func (s *Session) notePins() {
	var out []string
	lock := uint64(0)
	for i := range s.pins {
		if s.pins[i].why&pinLock != 0 {
			lock = s.pins[i].conn.ID()
		}
		why := s.pins[i].why.String()
		if why == "" {
			why = "until the transaction ends"
		}
		out = append(out, s.pins[i].conn.Node().Name()+": "+why)
	}
	s.mu.Lock()
	s.mu.pins, s.mu.lockConn = strings.Join(out, "; "), lock
	s.mu.pinned = s.mu.pinned[:0:0]
	for i := range s.pins {
		s.mu.pinned = append(s.mu.pinned, s.pins[i].conn)
	}
	s.mu.Unlock()
}

// giveBack ends a statement's use of a connection that is in order: it goes
// back to its pool, or stays when the session is pinned to it.
func (s *Session) giveBack(c *backend.Conn) {
	if s.reading != nil && c.Vars() == s.reading {
		// Braid's own variables, such as wait_timeout, were there for this statement only.
		if err := c.Bring(&backend.Need{Vars: s.vars, Autocommit: s.autocommit}); err != nil {
			s.scrap(c)
			return
		}
	}
	if !s.isPinned(c) {
		c.Release()
	}
}

// scrap closes a connection that is not in order.
func (s *Session) scrap(c *backend.Conn) {
	if s.tx != nil && s.tx.On(c.Node()) == c {
		s.tx.Abandon(c)
		return
	}
	s.lostPin(c)
	c.Destroy()
}

// pinLostError is what a client is told before its connection is closed.
func pinLostError(err error) *mysql.Error {
	return mysql.Errorf(2013, "Lost connection to a node that held temporary tables, locks or handlers of this session: %v", err)
}

// lockOwners are the sessions that keep connections for their user locks.
func (s *Server) lockOwners() []router.LockOwner {
	var out []router.LockOwner
	for _, x := range s.Sessions() {
		x.mu.Lock()
		if id := x.mu.lockConn; id != 0 {
			out = append(out, router.LockOwner{Backend: id, Session: x.id})
		}
		x.mu.Unlock()
	}
	return out
}
