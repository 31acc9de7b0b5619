package proxy

import (
	"strings"

	"braid/internal/mysql"
	"braid/router"
)

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
	if s.tx != nil && !s.waiting {
		return mysql.Errorf(1568, "Transaction characteristics can't be changed while a transaction is in progress")
	}
	s.fence = on && !strings.EqualFold(x.Text, "DEFAULT")
	return nil
}
