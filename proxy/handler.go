package proxy

import (
	"errors"
	"slices"
	"strings"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"braid/backend"
	"braid/internal/mysql"
	"braid/router"
)

// handler is a table that the session has open by HANDLER, on a connection that
// it is pinned to. Servers close handlers by themselves, as when the table is
// altered: that one is in the list says only that it may be open.
type handler struct {
	router.OpenHandler
	conn *backend.Conn
}

// openHandler finds a handler of the session by its alias.
func (s *Session) openHandler(alias string) (router.OpenHandler, bool) {
	if i := s.handlerIndex(alias); i >= 0 {
		return s.handlers[i].OpenHandler, true
	}
	return router.OpenHandler{}, false
}

// handlerIndex is where an alias is in s.handlers, -1 for nowhere.
func (s *Session) handlerIndex(alias string) int {
	return slices.IndexFunc(s.handlers, func(h handler) bool { return strings.EqualFold(h.Alias, alias) })
}

// handler carries out a HANDLER statement.
func (s *Session) handler(plan *router.Plan, q *router.Query) error {
	h := plan.Handler
	if s.locks() {
		return s.fail(mysql.Errorf(gomysql.ER_LOCK_OR_ACTIVE_TRANSACTION, "Can't execute the given command because you have active locked tables or an active transaction"))
	}
	switch {
	case h.Verb != router.HandlerOpen:
		q.Hints.Shard, q.Hints.Scatter = "", false // it is open where it is open
		if !h.Known {
			break
		}
		if c := s.handlers[s.handlerIndex(h.Alias)].conn; s.pinned(s.place(plan, h.Shard).node) != c {
			return s.fail(mysql.Errorf(1235, "This version of Braid doesn't yet support 'HANDLER of a table whose shard has moved to another node'"))
		}
	case s.handlerIndex(h.Alias) >= 0:
		if s.askHandlers(); s.handlerIndex(h.Alias) >= 0 {
			return s.fail(mysql.Errorf(gomysql.ER_NONUNIQ_TABLE, "Not unique table/alias: '%s'", h.Alias))
		}
	}
	err := s.runPlan(plan, q, nil)
	s.freeHandlers()
	return err
}

// noteHandler remembers what a HANDLER statement that ran on c has opened or
// closed; e is the error that it was answered with, nil for none.
func (s *Session) noteHandler(c *backend.Conn, h *router.Handler, shard int, e *mysql.Error) {
	switch {
	case h.Verb == router.HandlerOpen && e == nil:
		opened := h.OpenHandler
		opened.Shard = shard
		s.handlers = append(s.handlers, handler{opened, c})
		s.pin(c, pinHandler)
	case h.Known && (h.Verb == router.HandlerClose && e == nil || e != nil && e.Code == gomysql.ER_UNKNOWN_TABLE):
		s.forgetHandler(h.Alias)
	}
}

func (s *Session) forgetHandler(alias string) {
	s.handlers = slices.DeleteFunc(s.handlers, func(h handler) bool { return strings.EqualFold(h.Alias, alias) })
}

// freeHandlers unpins the connections on which no handler is open any more.
func (s *Session) freeHandlers() {
	freed := false
	for i := range s.pins {
		p := &s.pins[i]
		if p.why&pinHandler != 0 && !slices.ContainsFunc(s.handlers, func(h handler) bool { return h.conn == p.conn }) {
			p.why &^= pinHandler
			freed = true
		}
	}
	if freed {
		s.unpin(0)
	}
}

// noIndex is a name that no index has: none ends with a space.
const noIndex = "braid "

// askHandlers forgets the handlers that their nodes have closed. A READ by an
// index that there is not tells, and moves nothing.
func (s *Session) askHandlers() {
	for _, h := range slices.Clone(s.handlers) {
		if !s.isPinned(h.conn) {
			continue // lost: the client is being closed
		}
		s.hold(h.conn)
		_, err := h.conn.Query("HANDLER "+ident(h.Alias)+" READ "+ident(noIndex)+" FIRST", 1)
		s.drop(h.conn)
		var e *mysql.Error
		switch {
		case !errors.As(err, &e) || backend.IsLost(err) || isPrefix(err):
			s.scrap(h.conn)
		case e.Code == gomysql.ER_UNKNOWN_TABLE:
			s.forgetHandler(h.Alias)
		}
	}
	s.freeHandlers()
}
