package proxy

import (
	"errors"
	"math/rand/v2"
	"strings"
	"time"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"braid/backend"
	"braid/internal/mysql"
	"braid/router"
)

// fenceVariable is the session variable of the read fence.
const fenceVariable = "braid_read_fence"

// setFence is SET braid_read_fence = 0 | 1 (rule T16).
//
// Behind the fence a read over several shards sees each transaction on all of
// them or on none. Its transaction, which is its own under autocommit, runs
// SERIALIZABLE: there a node makes every SELECT a locking one (FOR SHARE),
// inside UNIONs, subqueries and views too. A shard's rows stay locked until the
// last shard was read, and a transaction that is half committed holds its locks
// on the other half: the read waits for it.
func (s *Session) setFence(x *router.Set) error {
	on, ok := boolean(x)
	if !ok {
		return mysql.Errorf(1231, "Variable 'braid_read_fence' can't be set to the value of '%s'", x.Value)
	}
	if e := s.fixed(); e != nil {
		return e
	}
	s.fence = on && !strings.EqualFold(x.Text, "DEFAULT")
	return nil
}

// fencePatience is how long a fenced read is begun again after deadlocks.
const fencePatience = 10 * time.Second

// fencePause bounds the pause, random, in front of another try.
const fencePause = 20 * time.Millisecond

// errAgain is a statement that ended in a deadlock before its client was told
// anything, and may be tried again.
var errAgain = errors.New("deadlock: the statement may be tried again")

func isDeadlock(err error) bool {
	var e *mysql.Error
	return errors.As(err, &e) && e.Code == gomysql.ER_LOCK_DEADLOCK
}

// fenced runs a read on several shards behind the fence, as a transaction of its
// own. On one server a SELECT under autocommit never ends in a deadlock, so it is
// tried again when it was the victim of one; the older it gets, the less it will be.
func (s *Session) fenced(plan *router.Plan, q *router.Query, ps *execution) error {
	defer func() { s.again = false }()
	began := time.Now()
	for {
		s.again = time.Since(began) < fencePatience && !s.isStopped()
		err := s.alone(plan, backend.TxOptions{Since: began}, func() error { return s.scatterOrGather(plan, q, ps) })
		if err != errAgain {
			return err
		}
		s.srv.stats.retried.Add(1)
		time.Sleep(rand.N(fencePause))
	}
}

// isStopped tells whether KILL, a time-out or a client that left has stopped
// the statement.
func (s *Session) isStopped() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.stopped != nil || s.mu.killed
}
