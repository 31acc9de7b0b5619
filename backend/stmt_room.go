package backend

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"braid/internal/mysql"
)

// A node bounds the statements prepared on all of its connections together
// (max_prepared_stmt_count). Those that Braid keeps are a cache, so no client may
// be refused a statement because of them:
//
//   - Up to half of what the node allows, a connection may keep as many as the
//     pool's statements_max. Beyond it, only its even share of the other half. So the
//     connections of one Braid never reach the bound, whoever holds them.
//   - Where others fill the node nevertheless, it refuses with error 1461. Then what
//     the connection itself keeps is closed, then what idle connections keep, longest
//     idle first, and the statement is prepared again. Connections in use keep less from
//     their next statement on, which is waited for.

// stmtRoom counts the prepared statements of a node's connections. It is safe
// for concurrent use.
type stmtRoom struct {
	// max is the node's max_prepared_stmt_count as last seen.
	max atomic.Int64
	// open are the statements kept on all connections.
	open atomic.Int64
	// refused is how often the node had no room, since the start.
	refused atomic.Uint64
	// making is held by the one that closes the statements of idle connections.
	making sync.Mutex
}

// stmtRoomDefault is max_prepared_stmt_count where nobody has set it.
const stmtRoomDefault = 16382

// roomTries is how often room is made for one statement at once: others may take it.
// roomPatience bounds the tries behind that, for which connections in use are to
// close some of theirs.
const (
	roomTries    = 4
	roomPatience = 2 * time.Second
)

// roomTimeout bounds the wait for one idle connection's answer.
const roomTimeout = time.Second

// SetStatementsMax notes the node's max_prepared_stmt_count.
func (n *Node) SetStatementsMax(count int64) { n.stmts.max.Store(count) }

// isFull notes that the node has refused a statement: what there is now is all that
// it allows this Braid, until its max_prepared_stmt_count is read again.
func (n *Node) isFull() {
	n.stmts.refused.Add(1)
	all := n.stmts.open.Load() + int64(n.pool.ConnectionsMax)
	for {
		most := n.stmts.max.Load()
		if most <= all || n.stmts.max.CompareAndSwap(most, all) {
			return
		}
	}
}

// stmtsMax is how many statements a connection may keep now.
func (n *Node) stmtsMax() int {
	// SQL's PREPARE takes one place on a connection beside those counted.
	half := max(0, n.stmts.max.Load()-int64(n.pool.ConnectionsMax)) / 2
	if n.stmts.open.Load() < half {
		return n.pool.StatementsMax
	}
	return min(n.pool.StatementsMax, int(half)/n.pool.ConnectionsMax)
}

// noRoom tells whether a node refused a statement because it has too many.
func noRoom(err error) bool {
	var e *mysql.Error
	return errors.As(err, &e) && e.Code == gomysql.ER_MAX_PREPARED_STMT_COUNT_REACHED
}

// makeRoom closes the statements of the half of the idle connections that have
// been idle the longest.
func (n *Node) makeRoom() {
	n.stmts.making.Lock() // who waited finds the room that was made meanwhile
	defer n.stmts.making.Unlock()
	n.mu.Lock()
	k := (len(n.mu.idle) + 1) / 2
	taken := append([]*Conn(nil), n.mu.idle[:k]...)
	rest := copy(n.mu.idle, n.mu.idle[k:])
	clear(n.mu.idle[rest:])
	n.mu.idle = n.mu.idle[:rest]
	n.mu.Unlock()
	for _, c := range taken {
		if c.closeStmts() != nil {
			c.Destroy()
			continue
		}
		c.Release()
	}
}

// closeStmts closes all statements of an idle connection and waits until the
// node has done so. An error means that the connection must be destroyed.
func (c *Conn) closeStmts() error {
	c.SetDeadline(time.Now().Add(roomTimeout))
	defer c.SetDeadline(time.Time{})
	if err := c.forgetStmts(); err != nil {
		return err
	}
	if err := c.WriteCommand(gomysql.COM_PING, nil); err != nil {
		return err
	}
	c.mainSeq = c.Seq()
	if err := c.Flush(); err != nil {
		return err
	}
	_, err := c.First()
	return err
}

// forgetStmts closes all statements of a connection with its next write.
func (c *Conn) forgetStmts() error {
	for c.stmts.order.Len() > 0 {
		if err := c.closeStmt(c.stmts.order.Back()); err != nil {
			return err
		}
	}
	return nil
}

// lostStmts notes that the node has closed all statements of a connection.
func (c *Conn) lostStmts() {
	c.node.stmts.open.Add(-int64(c.stmts.order.Len()))
	c.stmts = stmtCache{}
}
