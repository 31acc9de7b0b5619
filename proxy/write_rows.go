package proxy

import (
	"errors"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"braid/backend"
	"braid/internal/mysql"
	"braid/router"
)

// nodeTarget is a target with its node's connection.
type nodeTarget struct {
	n      *nodeWrites
	target int
}

// writeRounds says which targets are sent at once: one on each node, or, byRow,
// each by itself in the order of rows. Copies of a row are locked in one order:
// the first node's before any other's, so that two writers of one row meet there
// and not in a circle (rule T15).
func writeRounds(nodes []nodeWrites, copies, byRow bool) (rounds [][]nodeTarget) {
	for k := range nodes {
		for at, i := range nodes[k].targets {
			switch {
			case byRow:
				at = i
			case copies && k > 0:
				at++
			}
			for at >= len(rounds) {
				rounds = append(rounds, nil)
			}
			rounds[at] = append(rounds[at], nodeTarget{&nodes[k], i})
		}
	}
	return rounds
}

// mayGoByRow tells whether a failed write is an INSERT of which another row
// would have failed first, were they written in their order, and which can be
// begun again.
func (s *Session) mayGoByRow(plan *router.Plan, failure error) bool {
	var e *mysql.Error
	if !errors.As(failure, &e) || plan.Kind != router.KindWrite || s.route.Targets[0].Rows == 0 || s.tx.Over() || s.isStopped() || s.isTaken(plan, failure) {
		return false
	}
	switch e.Code {
	case gomysql.ER_LOCK_WAIT_TIMEOUT, gomysql.ER_QUERY_INTERRUPTED, gomysql.ER_CONNECT_TO_FOREIGN_DATA_SOURCE:
		return false
	}
	return true
}

// writeByRow undoes an INSERT that failed and runs it again row by row, as one
// server goes through its rows: the error is the earliest row's. But where a shard
// refused a NULL that one server would convert among several rows, it is first run
// again so that the shard converts it.
func (s *Session) writeByRow(plan *router.Plan, q *router.Query, ps *execution, nodes []nodeWrites, failure error) error {
	if s.ownTx {
		o := s.txOpt
		s.rollbackOpen()
		s.txOpt = o
		s.tx = s.srv.tx.Begin(o)
	} else if err := s.undoWrite(nodes); err != nil {
		s.noteEnd()
		return s.failed1(plan, err)
	}
	lenient := s.mode&router.ModeStrict == 0
	if lenient && !q.Selects && isCode(failure, gomysql.ER_BAD_NULL_ERROR) {
		q.Selects = true
		defer func() { q.Selects = false }()
		if err := plan.Bind(q, &s.route); err != nil {
			return s.failed1(plan, err)
		}
		return s.runWrite(plan, q, ps, nil)
	}
	outer := q.Selects
	q.ByRow, q.Selects = true, lenient
	err := plan.Bind(q, &s.route)
	q.ByRow, q.Selects = false, outer
	if err != nil {
		return s.failed1(plan, err)
	}
	return s.runWrite(plan, q, ps, failure)
}

// undoWrite rolls a failed write back on the legs of its nodes.
func (s *Session) undoWrite(nodes []nodeWrites) error {
	conns := make([]*backend.Conn, len(nodes))
	for k := range nodes {
		conns[k] = nodes[k].c
	}
	ctx, cancel := s.context()
	defer cancel()
	return s.tx.Undo(ctx, conns...)
}

func isCode(err error, code uint16) bool {
	var e *mysql.Error
	return errors.As(err, &e) && e.Code == code
}
