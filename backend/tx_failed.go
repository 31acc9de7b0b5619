package backend

import (
	"context"
	"errors"
	"fmt"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"
	"go.uber.org/zap"

	"braid/internal/mysql"
)

// Error numbers that go-mysql has no name for.
const (
	errConnectionKilled   = 1927 // MariaDB's ER_CONNECTION_KILLED
	errClientTimeout      = 4031 // MySQL's ER_CLIENT_INTERACTION_TIMEOUT
	errXATemporaryTable   = 4091 // MySQL's ER_XA_TEMP_TABLE
	errBeforeCommitFailed = 3101 // MySQL's ER_TRANSACTION_ROLLBACK_DURING_COMMIT
)

// closesConnection tells whether a server that says this closes the connection.
func closesConnection(code uint16) bool {
	switch code {
	case gomysql.ER_SERVER_SHUTDOWN, errConnectionKilled, errClientTimeout,
		gomysql.ER_NET_PACKET_TOO_LARGE, gomysql.ER_NET_READ_ERROR_FROM_PIPE, gomysql.ER_NET_FCNTL_ERROR,
		gomysql.ER_NET_PACKETS_OUT_OF_ORDER, gomysql.ER_NET_UNCOMPRESS_ERROR, gomysql.ER_NET_READ_ERROR,
		gomysql.ER_NET_READ_INTERRUPTED, gomysql.ER_NET_ERROR_ON_WRITE, gomysql.ER_NET_WRITE_INTERRUPTED:
		return true
	}
	return false
}

// endsTransaction tells whether a statement's error means that its server has
// rolled back the whole transaction, or can do nothing else with it (rule T3).
func (k *Coordinator) endsTransaction(n *Node, code uint16) bool {
	switch code {
	case gomysql.ER_LOCK_DEADLOCK, gomysql.ER_LOCK_TABLE_FULL, errBeforeCommitFailed:
		return true
	case gomysql.ER_CHECKREAD: // innodb_snapshot_isolation
		return n.MariaDB()
	case gomysql.ER_LOCK_WAIT_TIMEOUT:
		f := k.facts(n)
		return f != nil && f.rollbackOnTimeout
	}
	return isXAEnd(code)
}

// isXAEnd tells whether an error says that a branch can only be rolled back.
func isXAEnd(code uint16) bool {
	switch code {
	case gomysql.ER_XA_RBROLLBACK, gomysql.ER_XA_RBTIMEOUT, gomysql.ER_XA_RBDEADLOCK, gomysql.ER_XAER_RMFAIL:
		return true
	}
	return false
}

// deadlock is what a client sees of an XA error, which it did not ask for.
func deadlock() *mysql.Error {
	return mysql.Errorf(gomysql.ER_LOCK_DEADLOCK, "Deadlock found when trying to get lock; try restarting transaction")
}

// lostError is what a client sees of a transaction one of whose legs was lost.
func lostError(n *Node) *mysql.Error {
	return mysql.Errorf(gomysql.ER_LOCK_DEADLOCK,
		"The connection to node %s was lost and the transaction was rolled back; try restarting transaction", n.name)
}

// Failed takes an error that a leg's statement gave: the node's own, an
// *ErrPrefix, or a lost connection, also one that Leg returned. It returns what
// the client sees; State tells whether the transaction goes on. When it does
// not, every leg has been rolled back already (rules T3, T4).
func (t *Tx) Failed(n *Node, err error) *mysql.Error {
	var prefix *ErrPrefix
	var e *mysql.Error
	var unreachable *Unreachable
	hasError := errors.As(err, &e)
	switch {
	case t.state != TxActive:
		if hasError {
			return e
		}
		return t.Refusal()
	case t.stopped(err):
		t.rollbackLegs()
		t.end(TxEnded)
		return deadlock()
	case errors.As(err, &unreachable):
		return mysql.Errorf(gomysql.ER_CONNECT_TO_FOREIGN_DATA_SOURCE, "Unable to connect to foreign data source: %v", err)
	case errors.As(err, &prefix) || !hasError || closesConnection(e.Code):
		if l := t.leg(n); l == nil {
			// The leg was not opened: nothing was sent on it.
			if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
				return mysql.Errorf(gomysql.ER_QUERY_INTERRUPTED, "Query execution was interrupted")
			}
			return mysql.Errorf(gomysql.ER_CONNECT_TO_FOREIGN_DATA_SOURCE, "Unable to connect to foreign data source: %v", err)
		}
		return t.lose(n, err)
	case t.k.endsTransaction(n, e.Code):
		t.rollbackLegs()
		t.end(TxEnded)
		if isXAEnd(e.Code) {
			return deadlock()
		}
		return e
	case e.Code == errXATemporaryTable && t.mu.legs[0].node == n:
		// Begun anew it will not be a branch: Spanned says no.
		t.rollbackLegs()
		t.end(TxEnded)
		t.spanned = false
		return mysql.Errorf(gomysql.ER_LOCK_DEADLOCK, "The transaction began as one over several nodes, where temporary tables cannot be; try restarting transaction")
	case e.Code == errXATemporaryTable:
		return mysql.Errorf(gomysql.ER_NOT_SUPPORTED_YET,
			"This version of Braid doesn't yet support 'temporary tables on node %s, which is not the first node of a transaction over several'", n.name)
	}
	return e
}

// lose ends the transaction for the loss of its leg on n.
func (t *Tx) lose(n *Node, err error) *mysql.Error {
	t.k.log.Warn("lost a leg; the transaction is rolled back", zap.String("node", n.name), zap.Error(err))
	if l := t.leg(n); l != nil && !l.gone {
		t.destroy(l)
		// Its statement may be running still.
		t.k.kill(l.conn)
	}
	t.rollbackLegs()
	t.refusal = lostError(n)
	t.end(TxLost)
	return t.refusal
}

// commitError is what a client sees when its COMMIT ended in a rollback for
// the sake of a node's error.
func commitError(n *Node, e *mysql.Error) *mysql.Error {
	switch {
	case e.Code == gomysql.ER_LOCK_DEADLOCK || e.Code == errBeforeCommitFailed:
		return e
	case isXAEnd(e.Code) || e.Code == gomysql.ER_XAER_NOTA:
		return deadlock()
	}
	return mysql.Errorf(gomysql.ER_ERROR_DURING_COMMIT, "Got error %d - '%s' during COMMIT on node %s; the transaction was rolled back",
		e.Code, e.Message, n.name)
}

// errInterrupted is a commit whose client or server gave up before it was
// decided.
var errInterrupted = fmt.Errorf("interrupted: %w", context.Canceled)
