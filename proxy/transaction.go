package proxy

import (
	"slices"

	"braid/backend"
	"braid/internal/mysql"
	"braid/router"
)

// beginStatementTx is BEGIN and START TRANSACTION.
func (s *Session) beginStatementTx(l *router.Local) error {
	if err := s.endLocks(); err != nil {
		return s.failErr(err)
	}
	s.beginTx(backend.TxOptions{ReadOnly: l.ReadOnly, ReadWrite: l.ReadWrite, Snapshot: l.Snapshot})
	if l.Snapshot {
		if b := s.gen.base[s.database]; b != nil {
			ctx, cancel := s.context()
			err := s.tx.OpenAll(ctx, distinct(b.nodes), s.vars)
			cancel()
			if err != nil {
				s.rollbackOpen()
				return s.failErr(err)
			}
		}
	}
	s.trackBegin(l.Snapshot)
	return s.okNothing()
}

// distinct lists the nodes of shards, each once.
func distinct(shards []*backend.Node) []*backend.Node {
	var nodes []*backend.Node
	for _, n := range shards {
		if !slices.Contains(nodes, n) {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// finish is COMMIT and ROLLBACK with AND CHAIN and RELEASE.
func (s *Session) finish(l *router.Local) error {
	opt := s.txOpt
	var err error
	var warned []warning
	if s.tx != nil {
		if l.Op == router.OpCommit {
			err = s.commitOpen()
		} else {
			warned = s.rollbackWarned()
		}
	}
	if err != nil {
		return s.failErr(err)
	}
	if l.Chain {
		if err := s.unlock(); err != nil {
			return s.failErr(err)
		}
		s.beginTx(backend.TxOptions{ReadOnly: opt.ReadOnly, ReadWrite: opt.ReadWrite, Isolation: opt.Isolation})
		s.trackBegin(false)
	} else {
		s.nextLevel, s.nextAccess = "", "" // a COMMIT of nothing uses them up, too
	}
	s.newWarnings(warned, false)
	s.facts.RowCount = 0
	if err := s.writeOK(&mysql.OK{Warnings: uint16(len(warned))}); err != nil {
		return err
	}
	if l.Release {
		_ = s.c.Flush()
		return errQuit
	}
	return nil
}

// savepoint is SAVEPOINT, ROLLBACK TO and RELEASE SAVEPOINT.
func (s *Session) savepoint(l *router.Local) error {
	if s.tx == nil {
		switch {
		case l.Op != router.OpSavepoint:
			return s.fail(mysql.Errorf(1305, "SAVEPOINT %s does not exist", l.Name))
		case s.autocommit:
			return s.okNothing() // it would end with its own statement
		}
		s.beginTx(backend.TxOptions{})
		s.waiting = true
	}
	if err := s.usable(); err != nil {
		return s.failErr(err)
	}
	ctx, cancel := s.context()
	defer cancel()
	var err error
	switch l.Op {
	case router.OpSavepoint:
		err = s.tx.Savepoint(ctx, l.Name)
	case router.OpRollbackTo:
		err = s.tx.RollbackTo(ctx, l.Name)
	default:
		err = s.tx.Release(ctx, l.Name)
	}
	if err != nil {
		s.noteEnd()
		return s.failErr(err)
	}
	return s.okNothing()
}

// fixed is the error of whoever sets what the next transaction is like while one
// is open; nil when none is.
func (s *Session) fixed() *mysql.Error {
	if s.tx != nil && !s.waiting || s.xaOpen != nil {
		return mysql.Errorf(1568, "Transaction characteristics can't be changed while a transaction is in progress")
	}
	return nil
}

// setTransaction is SET [SESSION] TRANSACTION.
func (s *Session) setTransaction(l *router.Local) error {
	if !l.Session {
		if e := s.fixed(); e != nil {
			return s.fail(e)
		}
		if l.Isolation != "" {
			s.nextLevel = l.Isolation
		}
		if l.Access != "" {
			s.nextAccess = l.Access
		}
		return s.okNothing()
	}
	v := s.vars
	if l.Isolation != "" {
		v = v.With(backend.Var{Name: "transaction_isolation", Value: quote(l.Isolation)})
		s.isolationSet = true
	}
	if l.Access != "" {
		ro := "0"
		if l.Access == "READ ONLY" {
			ro = "1"
		}
		v = v.With(backend.Var{Name: "transaction_read_only", Value: ro})
	}
	s.setVars(v)
	return s.okNothing()
}
