package proxy

import (
	"cmp"
	"errors"
	"strings"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"braid/backend"
	"braid/router"
)

// ready opens the transaction that autocommit=0 wants, and refuses what a
// transaction that is over refuses (rule T4).
func (s *Session) ready(plan *router.Plan) error {
	if s.tx != nil {
		if s.waiting && !plan.NoTables {
			s.waiting = false
			s.txOpt = s.nextOptions(backend.TxOptions{})
			s.tx.Reconsider(s.txOpt)
			s.txLevel = s.level(s.txOpt)
		}
		return s.usable()
	}
	if !s.autocommit && !plan.NoTables && s.xaOpen == nil {
		s.beginTx(backend.TxOptions{})
	}
	return nil
}

// usable refuses what a lost transaction refuses.
func (s *Session) usable() error {
	switch s.tx.State() {
	case backend.TxActive:
		return nil
	case backend.TxUnknown:
		return &errClose{backend.ErrOutcomeUnknown}
	}
	return s.tx.Refusal()
}

// noteEnd forgets a transaction that a node has ended, as after a deadlock: the
// session goes on without one. A lost one stays until the client ends it (T4).
func (s *Session) noteEnd() {
	if s.tx != nil && !s.ownTx && s.tx.State() == backend.TxEnded {
		s.endTx()
	}
}

// once tells whether a statement outside a transaction must be one of its own
// because of a one-shot SET TRANSACTION.
func (s *Session) once(plan *router.Plan) bool {
	return s.tx == nil && !plan.NoTables && (s.nextLevel != "" || s.nextAccess != "")
}

// alone runs a statement as a transaction of its own: f answers the client, so
// it is given no chance to until the transaction is committed: its answer stays
// in the session until then.
func (s *Session) alone(plan *router.Plan, o backend.TxOptions, f func() error) error {
	level, access, failed := s.nextLevel, s.nextAccess, s.failed
	s.beginTx(o)
	s.txOpt.Spread = plan.Writer && s.severalNodes(plan)
	s.tx.Reconsider(s.txOpt)
	s.ownTx = true
	defer func() { s.ownTx = false }()
	err := f()
	if err == errTaken || s.failed != failed && len(s.warnings) > 0 && beforeEngine(s.warnings[0].code) {
		s.nextLevel, s.nextAccess = level, access
	}
	return err
}

// severalNodes tells whether the bound statement goes to several nodes.
func (s *Session) severalNodes(plan *router.Plan) bool {
	for i := 1; i < len(s.route.Targets); i++ {
		if s.place(plan, s.route.Targets[i].Shard).node != s.place(plan, s.route.Targets[0].Shard).node {
			return true
		}
	}
	return false
}

// beginTx opens a transaction with what the client said for the next one.
func (s *Session) beginTx(o backend.TxOptions) {
	s.txOpt = s.nextOptions(o)
	s.tx = s.srv.tx.Begin(s.txOpt)
	s.txLevel = s.level(s.txOpt)
}

// level is the isolation level of a transaction that begins now.
func (s *Session) level(o backend.TxOptions) string {
	level, _ := s.vars.Get("transaction_isolation")
	return cmp.Or(o.Isolation, unquote(level))
}

// nextOptions completes o by what the client said for the next transaction,
// which is used up by that.
func (s *Session) nextOptions(o backend.TxOptions) backend.TxOptions {
	o.Session, o.FoundRows = s.id, s.caps&gomysql.CLIENT_FOUND_ROWS != 0
	if s.nextLevel != "" {
		o.Isolation = s.nextLevel
	}
	if s.fence || s.hints.ReadFence {
		o.Isolation = "SERIALIZABLE"
	}
	o.Locking = strings.EqualFold(s.level(o), "SERIALIZABLE")
	if !o.ReadOnly && !o.ReadWrite {
		o.ReadOnly, o.ReadWrite = s.nextAccess == "READ ONLY", s.nextAccess == "READ WRITE"
		if s.nextAccess == "" {
			o.ReadOnly = s.readOnly
		}
	}
	if b := s.gen.base[s.database]; b != nil {
		if b.conf.Transaction == "single" {
			o.Mode = backend.TxSingle
		}
		o.Decided = b.conf.CommitOK == "decided"
	}
	o.Spread = s.spread && s.temporaries == nil
	o.Pinned, o.Unpinned, o.Locked = s.pinned, s.lostPin, s.locks()
	s.nextLevel, s.nextAccess = "", ""
	return o
}

// endTx forgets the transaction; s.tx has been committed or rolled back.
func (s *Session) endTx() {
	s.spread = s.tx.Spanned()
	s.tx, s.waiting = nil, false
	s.txOpt = backend.TxOptions{}
	s.unpin(0)
	s.trackEnd()
}

// commitOpen commits the open transaction, if there is one.
func (s *Session) commitOpen() error {
	if s.tx == nil {
		return nil
	}
	ctx, cancel := s.context()
	defer cancel()
	tx := s.tx
	err := tx.Commit(ctx)
	s.endTx()
	if errors.Is(err, backend.ErrOutcomeUnknown) {
		return &errClose{err}
	}
	return err
}

// rollbackOpen rolls the open transaction back, if there is one.
func (s *Session) rollbackOpen() {
	if s.tx == nil {
		return
	}
	ctx, cancel := s.context()
	defer cancel()
	_ = s.tx.Rollback(ctx)
	s.endTx()
}

// settle ends a transaction that was the statement's own (autocommit), before
// the client is told how the statement went.
func (s *Session) settle(failed bool) error {
	if !s.ownTx {
		return nil
	}
	s.ownTx = false
	defer func(spread bool) { s.spread = spread }(s.spread)
	if failed {
		s.rollbackOpen()
		return nil
	}
	return s.commitOpen()
}
