package backend

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"
	"go.uber.org/zap"

	"braid/internal/mysql"
)

// This file commits a transaction all of whose legs are branches (TxOptions.Spread).
// Each branch that wrote puts a decision row of its own into its node and is
// prepared, all of them at once; from the moment when all are prepared the
// transaction is committed. The rows tell whoever recovers which nodes take part,
// and are what a fence is put up with on each (rule T5).

// votesAll is how many statements vote sends.
const votesAll = 3

// vote queues the decision row, XA END and XA PREPARE as one text: a node stops
// at its first refusal, so that no branch is prepared without its row (rule T1).
// Only this text may hold several statements.
func (l *leg) vote(gtrid string, participants []string, created int64) {
	l.votes, l.against = 0, nil
	if l.err != nil || l.gone {
		return
	}
	xid := xidText(gtrid, l.bqual)
	text := decisionText(gtrid, participants, created) + ";XA END " + xid + ";XA PREPARE " + xid
	l.voting, l.prepareSent = true, true
	for _, command := range []struct {
		cmd     byte
		payload []byte
	}{
		{gomysql.COM_SET_OPTION, []byte{0, 0}}, // MYSQL_OPTION_MULTI_STATEMENTS_ON
		{gomysql.COM_QUERY, []byte(text)},
		{gomysql.COM_SET_OPTION, []byte{1, 0}},
	} {
		if l.err = l.conn.WriteCommand(command.cmd, command.payload); l.err != nil {
			return
		}
		l.conn.pending++
		l.conn.queued += len(command.payload)
	}
}

// ballot is what is known of a branch after vote.
type ballot uint8

const (
	ballotLost     ballot = iota // nobody knows yet: it may be prepared, now or later
	ballotPrepared               // it is, until somebody ends it
	ballotRefused                // it is not, and will never be
)

func (l *leg) ballot() ballot {
	switch e := l.against; {
	case l.votes == votesAll:
		return ballotPrepared
	case e == nil:
		return ballotLost
	case l.votes < votesAll-1, isXAEnd(e.Code), e.Code == gomysql.ER_LOCK_DEADLOCK:
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
	var voters []*leg
	var participants []string
	for _, l := range t.mu.legs {
		if l.wrote.Load() {
			voters = append(voters, l)
			participants = append(participants, l.conn.identity)
		}
	}
	k.step(stepBeforePrepare)
	started := k.now()
	stop := interruptible(ctx, t.mu.legs)
	for _, l := range t.mu.legs {
		if l.released {
			continue
		}
		l.begin()
		l.untag()
		if l.wrote.Load() {
			l.vote(t.mu.gtrid, participants, started.Unix())
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
	for _, l := range voters {
		if l.err == nil && interrupted {
			// Whoever interrupted may be at the connections still: none is used again.
			l.err = errInterrupted
		}
		if l.err == nil && l.refused != nil {
			l.err = l.refused // it would take several statements in one text from now on
		}
	}
	switch decision, l := t.count(voters, started); decision {
	case DecidedRollback:
		return t.abort(l)
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
			if l.err == nil {
				l.before, l.refused = nil, l.against
			}
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
			l.err = l.against
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
	c, err := ownConn(ctx, l.node, k.patience)
	if err != nil {
		return Undecided, err
	}
	defer c.Close()
	f, err := lookAtNode(c)
	if err != nil {
		return Undecided, err
	}
	if !f.decides(l.conn.identity) {
		return Undecided, errOtherServer
	}
	// What the lost connection has begun there is not to go on.
	var e *mysql.Error
	if _, err := c.Exec("KILL CONNECTION " + strconv.FormatUint(l.conn.id, 10)); err != nil && (!errors.As(err, &e) || e.Code != gomysql.ER_NO_SUCH_THREAD) {
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

// participants reads which nodes decide the transaction of a branch that is
// prepared on c's node, as identities. They stand in the branch's own decision row,
// which nobody else sees before it is committed. A branch that has none is one
// beside an ordinary first leg, whose server decides.
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
