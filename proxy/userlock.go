package proxy

import (
	"slices"
	"strings"

	"braid/backend"
	"braid/router"
)

// userLocks are the user locks that a session may hold: those that it asked for
// since it last held none.
type userLocks struct {
	names []string
	// unknown says that some have names that are not known.
	unknown bool
}

// userLocksMax is how many names are remembered.
const userLocksMax = 64

// noteLocks pins the session to the connection on which a statement has called
// GET_LOCK(), whether it went well or not.
func (s *Session) noteLocks(c *backend.Conn, ps *execution) {
	s.pin(c, pinLock)
	text, params := s.query.Text, []router.Param(nil)
	if ps != nil {
		text, params = ps.ps.text, ps.vals
	}
	names, ok := router.LockNames(string(text), s.mode, s.charset, params)
	l := &s.userLocks
	if l.unknown = l.unknown || !ok; l.unknown {
		l.names = nil // only RELEASE_ALL_LOCKS() tells that none is held
		return
	}
	for _, n := range names {
		if !slices.Contains(l.names, n) {
			l.names = append(l.names, n)
		}
	}
	l.unknown = l.unknown || len(l.names) > userLocksMax
}

// locksFree tells whether the session, which is pinned to c for its user locks,
// holds none any more after a statement of plan.
func (s *Session) locksFree(c *backend.Conn, plan *router.Plan) (bool, error) {
	if plan.UnlocksAll && !plan.Locks {
		return true, nil
	}
	l := &s.userLocks
	if len(l.names) == 0 || l.unknown {
		return false, nil
	}
	held := make([]string, len(l.names))
	for i, n := range l.names {
		held[i] = "IS_USED_LOCK('" + n + "')<=>CONNECTION_ID()"
	}
	rows, err := c.Query("SELECT "+strings.Join(held, " OR ")+" LIMIT 1", 1)
	if err != nil {
		return false, err
	}
	return len(rows) == 1 && string(rows[0][0]) == "0", nil
}
