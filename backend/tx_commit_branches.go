package backend

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"
	"go.uber.org/zap"
)

// This file commits a transaction all of whose legs are branches (TxOptions.Spread).
// Each branch that wrote has a decision row of its own, which names all of them;
// then all are prepared at once, and from the moment when all are prepared the
// transaction is committed. The rows tell whoever recovers who takes part, and are
// what a fence is put up with on each node (rule T5).

// Announce queues the decision rows of a transaction that is about to write on
// several nodes, so that its COMMIT need not: in front of what is sent next on the
// connections in hand, at once on others. It is called before a statement that
// writes is sent, when its legs are all open. What it does not do, the COMMIT does.
// A leg where that fails is given up, since what was queued before the row may have
// failed there: its next use finds it lost.
func (t *Tx) Announce(inHand ...*Conn) {
	if len(t.mu.legs) < 2 || t.mu.legs[0].bqual == "" || t.state != TxActive {
		return
	}
	voters, list := t.voters()
	if len(voters) < 2 {
		return
	}
	for _, l := range voters {
		if l.gone || l.row == list {
			continue
		}
		err := l.conn.Queue(t.rowText(list))
		if err == nil && !slices.Contains(inHand, l.conn) {
			err = l.conn.Flush()
		}
		if l.row = list; err != nil {
			t.k.log.Warn("announcing that a transaction writes failed", zap.String("node", l.node.name), zap.Error(err))
			t.Abandon(l.conn)
		}
	}
}

// voters are the legs that wrote, and their branches as a decision row names them.
func (t *Tx) voters() (voters []*leg, list string) {
	var bquals []string
	for _, l := range t.mu.legs {
		if l.wrote.Load() {
			voters = append(voters, l)
			bquals = append(bquals, l.bqual)
		}
	}
	return voters, strings.Join(bquals, " ")
}

// rowText writes a branch's decision row, or writes it anew. A fence in its place is
// an error. A plain INSERT would under foreign_key_checks=0 and unique_checks=0 make
// MariaDB lock the whole table, as long as that is empty, until the transaction ends.
func (t *Tx) rowText(list string) string {
	return decisionText(t.mu.gtrid, list, t.k.now().Unix()) +
		" ON DUPLICATE KEY UPDATE branches=IF(decision='" + string(DecidedCommit) + "','" + list + "',(SELECT 1 UNION SELECT 2))"
}

// unannounce says that the leg has been wound back, maybe to before its row.
func (l *leg) unannounce() { l.row = "" }

// announceAll has every voter's row named all voters, confirmed by its node
// (rule T1). It returns a leg that failed, nil when there is none. It costs a round
// trip only where Announce has left something to do.
func (t *Tx) announceAll(voters []*leg, list string) *leg {
	for _, l := range voters {
		l.begin()
		if l.row != list {
			l.queue(t.rowText(list))
			l.row = list
		}
		l.flush()
	}
	for _, l := range voters {
		l.read()
	}
	for _, l := range voters {
		if l.failed() {
			return l
		}
	}
	return nil
}

// ballot is what is known of a branch that was told to prepare.
type ballot uint8

const (
	ballotLost     ballot = iota // nobody knows yet: it may be prepared, now or later
	ballotPrepared               // it is, until somebody ends it
	ballotRefused                // it is not, and will never be
)

func (l *leg) ballot() ballot {
	switch e := l.refused; {
	case l.err != nil:
		return ballotLost
	case e == nil:
		return ballotPrepared
	case l.before != nil, isXAEnd(e.Code), e.Code == gomysql.ER_LOCK_DEADLOCK, e.Code == errBeforeCommitFailed:
		return ballotRefused
	}
	return ballotLost
}

// commitBranched commits a transaction that wrote on several nodes and all of
// whose legs are branches.
func (t *Tx) commitBranched(ctx context.Context) error {
	k := t.k
	if t.o.Locking {
		// Once all are prepared nothing can be taken back: the locks of what was only
		// read must have lasted until before.
		stop := interruptible(ctx, t.mu.legs)
		lost := t.releaseReaders()
		interrupted := !stop()
		t.leaveReaders(interrupted)
		switch {
		case interrupted:
			return t.abort(nil)
		case lost != nil:
			lost.err = errLocksLost
			return t.abort(lost)
		}
	}
	voters, list := t.voters()
	k.step(stepBeforePrepare)
	started := k.now()
	stop := interruptible(ctx, t.mu.legs)
	if l := t.announceAll(voters, list); l != nil {
		if !stop() {
			l = nil
		}
		return t.abort(l)
	}
	for _, l := range t.mu.legs {
		if l.released {
			continue
		}
		l.begin()
		l.untag()
		if l.wrote.Load() {
			xid := xidText(t.mu.gtrid, l.bqual)
			l.queue("XA END " + xid)
			l.queue("XA PREPARE " + xid)
			l.prepareSent = true
		} else {
			t.queueRelease(l)
		}
		l.flush()
	}
	k.step(stepPreparing)
	for _, l := range voters {
		l.read()
		k.step(stepBranchPrepared)
	}
	k.step(stepPrepared)
	for _, l := range t.mu.legs {
		if !l.wrote.Load() && !l.released {
			l.read()
		}
	}
	interrupted := !stop()
	t.leaveReaders(interrupted)
	decision, blame := t.count(voters, started)
	if interrupted {
		// Whoever interrupted may be at the connections still: none is used again.
		blame = nil
		for _, l := range voters {
			l.err = errInterrupted
		}
	}
	switch decision {
	case DecidedRollback:
		return t.abort(blame)
	case Undecided:
		k.log.Error("the outcome of a transaction is not known; recovery will finish it and its client is disconnected",
			zap.String("gtrid", t.mu.gtrid))
		for _, l := range t.mu.legs {
			t.destroy(l) // so that the branches have no owner
		}
		t.end(TxUnknown)
		return ErrOutcomeUnknown
	}
	k.step(stepDecided)
	for _, l := range voters {
		if l.err != nil {
			t.destroy(l) // its branch is finished on another connection
		}
	}
	t.apply(voters)
	return nil
}

// leaveReaders gives back the connections of the legs that only read and were
// told to end.
func (t *Tx) leaveReaders(interrupted bool) {
	for _, l := range t.mu.legs {
		if l.wrote.Load() || l.released && l.gone {
			continue
		}
		if l.released = true; interrupted {
			t.destroy(l)
		} else {
			t.afterRelease(l)
		}
	}
}

// count tells how the votes have decided. Of a rollback it returns the leg to
// blame.
func (t *Tx) count(voters []*leg, started time.Time) (Decision, *leg) {
	k := t.k
	var lost []*leg
	for _, l := range voters {
		switch l.ballot() {
		case ballotRefused:
			return DecidedRollback, l
		case ballotLost:
			lost = append(lost, l)
		}
	}
	// What was answered so late may be over, and the rows that tell be deleted.
	if k.now().Sub(started) > time.Duration(k.recovery.Retention)/4 {
		return Undecided, nil
	}
	if len(lost) == 0 {
		return DecidedCommit, nil
	}
	for _, l := range lost {
		if l.err == nil {
			l.err = l.refused
		}
		t.destroy(l)
	}
	d, err := k.resolveBranches(lost, t.mu.gtrid)
	switch {
	case d == DecidedRollback:
		for _, l := range lost {
			k.leave(t.branch(l), DecidedRollback) // it may be prepared
		}
	case err != nil:
		k.log.Warn("a transaction could not be decided", zap.String("gtrid", t.mu.gtrid), zap.Error(err))
	}
	return d, lost[0]
}

// resolveBranches finds out, on connections of its own, how a transaction was
// decided of whose branches all but the lost ones are known to be prepared: it is
// committed when these are, too, and otherwise one of them is fenced. Undecided
// comes with the reason.
func (k *Coordinator) resolveBranches(lost []*leg, gtrid string) (Decision, error) {
	ctx, cancel := context.WithTimeout(context.Background(), k.patience)
	defer cancel()
	for _, l := range lost {
		for {
			d, err := k.resolveBranch(ctx, l, gtrid)
			if err == nil && d != Undecided {
				return d, nil
			}
			if err == nil {
				break // prepared
			}
			if pause(ctx) != nil {
				return Undecided, err
			}
		}
	}
	return DecidedCommit, nil
}

// resolveBranch looks at one lost branch: Undecided without an error says that it
// is prepared.
func (k *Coordinator) resolveBranch(ctx context.Context, l *leg, gtrid string) (Decision, error) {
	c, err := k.deciding(ctx, l.node, l.conn.identity)
	if err != nil {
		return Undecided, err
	}
	defer c.Close()
	// What the lost connection has begun there is not to go on.
	if err := c.end(l.conn); err != nil {
		return Undecided, err
	}
	listed, err := listPrepared(c, k.clusterID())
	if err != nil {
		return Undecided, err
	}
	if _, prepared := listed[branch{l.node.name, gtrid, l.bqual}]; prepared {
		return Undecided, nil
	}
	return fence(c, gtrid)
}

// participants reads who decides the transaction of a branch that is prepared on
// c's node: bquals, from the branch's own decision row, which nobody else sees
// before it is committed. A branch that has none is one beside an ordinary first
// leg, whose server decides: its identity.
func participants(c *Conn, gtrid string, g globalID) ([]string, error) {
	if _, err := c.Exec("SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED"); err != nil {
		return nil, fmt.Errorf("node %s: %w", c.node.name, err)
	}
	rows, err := c.Query("SELECT branches FROM braid.decision WHERE gtrid='"+gtrid+"'", 1)
	if err != nil {
		return nil, fmt.Errorf("node %s: reading who takes part in %s: %w", c.node.name, gtrid, err)
	}
	if len(rows) == 1 {
		if list := strings.Fields(string(rows[0][0])); len(list) > 0 {
			return list, nil
		}
	}
	return []string{g.decider}, nil
}
