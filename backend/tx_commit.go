package backend

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"
	"go.uber.org/zap"

	"braid/internal/mysql"
)

// begin makes a leg ready for a round of commands of Braid's own.
func (l *leg) begin() { l.err, l.refused, l.before = nil, nil, nil }

func (l *leg) queue(text string) {
	if l.err == nil && !l.gone {
		l.err = l.conn.Queue(text)
	}
}

func (l *leg) flush() {
	if l.err == nil && !l.gone {
		l.err = l.conn.Flush()
	}
}

// read reads the answers of everything queued, to the end also past a refusal:
// refused is the last command's, before the first of those in front of it.
func (l *leg) read() {
	if l.gone {
		return
	}
	c := l.conn
	for l.err == nil && c.pending > 0 {
		c.SetSeq(1)
		p, err := c.ReadPacket()
		if err != nil {
			l.err = err
			return
		}
		c.pending--
		if len(p) > 0 && p[0] == 0 {
			continue
		}
		if len(p) == 0 || p[0] != 0xff {
			l.err = mysql.ErrMalformed
			return
		}
		e := mysql.ParseError(p)
		switch {
		case closesConnection(e.Code):
			l.err = e
		case c.pending == 0:
			l.refused = e
		case l.before == nil:
			l.before = e
		}
	}
	if l.err == nil {
		c.queued = 0
	}
}

func (l *leg) failed() bool { return l.err != nil || l.refused != nil || l.before != nil || l.gone }

// interruptible makes reads and writes on the legs fail when ctx ends. The
// returned function ends that; it returns false when ctx has ended before, in
// which case the connections are useless.
func interruptible(ctx context.Context, legs []*leg) (stop func() bool) {
	if ctx.Done() == nil {
		return func() bool { return true }
	}
	conns := make([]*Conn, 0, len(legs))
	for _, l := range legs {
		if !l.gone {
			conns = append(conns, l.conn)
		}
	}
	return context.AfterFunc(ctx, func() {
		for _, c := range conns {
			c.Interrupt()
		}
	})
}

// Rollback is the client's ROLLBACK, also of a lost transaction. It always
// succeeds: a node that does not answer rolls back when it loses the connection.
func (t *Tx) Rollback(ctx context.Context) error {
	if t.state == TxActive {
		t.rollbackLegs()
	}
	t.end(TxEnded)
	return nil
}

// rollbackLegs rolls back every leg and gives the connections back. No leg has
// been told to prepare.
func (t *Tx) rollbackLegs() {
	t.awaitKill(true)
	deadline := time.Now().Add(t.k.patience)
	for _, l := range t.mu.legs {
		if l.gone {
			continue
		}
		l.begin()
		l.conn.SetDeadline(deadline)
		if !l.released {
			t.queueRollback(l)
		}
		l.flush()
	}
	for _, l := range t.mu.legs {
		if !l.gone {
			l.read()
			t.afterRollback(l)
		}
	}
}

func (t *Tx) queueRollback(l *leg) {
	l.untag()
	if l.bqual == "" {
		l.queue("ROLLBACK")
		return
	}
	xid := xidText(t.mu.gtrid, l.bqual)
	l.queue("XA END " + xid)
	l.queue("XA ROLLBACK " + xid)
}

// afterRollback gives back a leg's connection when its rollback was confirmed.
// What the node said to the commands in front does not matter: a branch that
// can only be rolled back refuses XA END.
func (t *Tx) afterRollback(l *leg) {
	if l.err != nil || l.refused != nil {
		t.destroy(l)
		t.k.kill(l.conn)
		return
	}
	l.conn.SetDeadline(time.Time{})
	t.leave(l)
}

// Commit is the client's COMMIT (rules T1, T11, T12). Nil says that it
// happened, on every node. ErrOutcomeUnknown says that nobody knows. Every
// other error is an *mysql.Error for the client, and the transaction was rolled
// back. Whichever it is, the transaction is over.
//
// ctx may interrupt the commit as long as nothing is decided.
func (t *Tx) Commit(ctx context.Context) error {
	switch t.state {
	case TxLost:
		err := t.Refusal()
		t.end(TxEnded)
		return err
	case TxUnknown:
		return ErrOutcomeUnknown
	case TxEnded:
		return nil
	}
	if len(t.mu.legs) == 0 {
		t.end(TxEnded)
		return nil
	}
	t.awaitKill(true)
	var writers int
	var writer *leg
	for _, l := range t.mu.legs {
		if l.gone {
			return t.lose(l.node, errInterrupted)
		}
		if l.wrote.Load() {
			writers++
			writer = l
		}
	}
	switch {
	case writers < 2:
		return t.commitOne(ctx, writer)
	case t.mu.legs[0].bqual != "":
		return t.commitBranched(ctx)
	}
	return t.commitMany(ctx)
}

// queueRelease queues the end of a leg that only read.
func (t *Tx) queueRelease(l *leg) {
	l.untag()
	if l.bqual == "" {
		l.queue("COMMIT")
		return
	}
	t.queueRollback(l)
}

// afterRelease gives back the connection of a leg that only read. Its answers
// were given long ago, so that a failure here is nobody's business.
func (t *Tx) afterRelease(l *leg) {
	if l.err != nil || l.refused != nil {
		t.destroy(l)
		return
	}
	t.leave(l)
}

// commitOne commits a transaction that wrote on one node, or on none when
// writer is nil.
func (t *Tx) commitOne(ctx context.Context, writer *leg) error {
	if writer != nil && writer.conn.tagged {
		if err := writer.conn.Confirm(); err != nil {
			err := t.lose(writer.node, err)
			t.end(TxEnded)
			return err
		}
	}
	if writer != nil && (writer.conn.Buffered() > 0 || !writer.conn.alive()) {
		// The connection is known to be lost before the COMMIT goes out: nothing is
		// committed.
		err := t.lose(writer.node, errors.New("found closed before COMMIT"))
		t.end(TxEnded)
		return err
	}
	stop := interruptible(ctx, t.mu.legs)
	if t.o.Locking && writer != nil {
		// The others' locks must have lasted until now: then the writer may commit.
		if l := t.releaseReaders(); l != nil {
			stop()
			err := t.lose(l.node, errLocksLost)
			t.end(TxEnded)
			return err
		}
	}
	for _, l := range t.mu.legs {
		if l.gone || l.released {
			continue
		}
		l.begin()
		l.untag()
		switch {
		case l != writer:
			t.queueRelease(l)
		case l.bqual == "":
			l.queue("COMMIT")
		default:
			xid := xidText(t.mu.gtrid, l.bqual)
			l.queue("XA END " + xid)
			l.queue("XA COMMIT " + xid + " ONE PHASE")
		}
		l.flush()
	}
	for _, l := range t.mu.legs {
		l.read()
	}
	interrupted := !stop()
	var result error
	state := TxEnded
	if writer == nil && t.o.Locking {
		if l := t.unreleased(nil); l != nil || interrupted {
			result = mysql.Errorf(gomysql.ER_QUERY_INTERRUPTED, "Query execution was interrupted")
			if l != nil {
				result = lostError(l.node)
			}
		}
	}
	if writer != nil {
		if result = t.resultOfOne(writer); result == ErrOutcomeUnknown {
			state = TxUnknown
		}
	}
	for _, l := range t.mu.legs {
		switch {
		case interrupted || l == writer && result != nil:
			t.destroy(l)
		default:
			t.afterRelease(l)
		}
	}
	t.end(state)
	return result
}

// errLocksLost is a leg that only read and was found lost at COMMIT.
var errLocksLost = errors.New("its locks were lost before COMMIT")

// releaseReaders ends the legs that only read, and returns one that was lost
// before, nil when there is none.
func (t *Tx) releaseReaders() *leg {
	for _, l := range t.mu.legs {
		if !l.wrote.Load() {
			l.begin()
			l.untag()
			t.queueRelease(l)
			l.flush()
		}
	}
	for _, l := range t.mu.legs {
		if !l.wrote.Load() {
			l.read()
			l.released = l.err == nil && l.refused == nil
		}
	}
	return t.unreleased(nil)
}

// unreleased returns a leg that only read, other than but, whose end its node has
// not confirmed, nil when there is none.
func (t *Tx) unreleased(but *leg) *leg {
	for _, l := range t.mu.legs {
		if l != but && !l.wrote.Load() && (l.gone || l.err != nil || l.refused != nil) {
			return l
		}
	}
	return nil
}

// resultOfOne judges the answer to a one-phase commit.
func (t *Tx) resultOfOne(l *leg) error {
	switch {
	case l.err != nil:
		t.k.log.Warn("a commit was sent and not answered; its client is disconnected",
			zap.String("node", l.node.name), zap.Error(l.err))
		return ErrOutcomeUnknown
	case l.refused == nil:
		return nil
	case l.bqual == "":
		return l.refused // as the one server would have answered
	case l.before != nil:
		return commitError(l.node, l.before) // XA END failed, so nothing could commit
	case l.refused.Code == gomysql.ER_XAER_NOTA || l.refused.Code == gomysql.ER_XAER_RMERR:
		return ErrOutcomeUnknown
	}
	return commitError(l.node, l.refused)
}

// commitMany commits a transaction that wrote on several nodes: the branches
// are prepared while the decider writes the decision row; the row's COMMIT is
// the commit point; then the branches are committed.
func (t *Tx) commitMany(ctx context.Context) error {
	k, legs := t.k, t.mu.legs
	decider := legs[0]
	var identities []string
	for _, l := range legs[1:] {
		if l.wrote.Load() {
			identities = append(identities, l.conn.identity)
		}
	}
	k.step(stepBeforePrepare)
	started := k.now()
	stop := interruptible(ctx, legs)
	for _, l := range append(slices.Clone(legs[1:]), decider) { // the branches first: they write through to the disk
		l.begin()
		l.untag()
		switch {
		case l == decider:
			l.queue(decisionText(t.mu.gtrid, strings.Join(identities, " "), started.Unix()))
		case l.wrote.Load():
			xid := xidText(t.mu.gtrid, l.bqual)
			l.queue("XA END " + xid)
			l.queue("XA PREPARE " + xid)
			l.prepareSent = true
		default:
			t.queueRelease(l)
		}
		l.flush()
	}
	k.step(stepPreparing)
	for _, l := range legs[1:] {
		l.read()
		k.step(stepBranchPrepared)
	}
	k.step(stepPrepared)
	decider.read()
	if !stop() {
		return t.abort(nil)
	}
	var lost *leg
	if t.o.Locking {
		lost = t.unreleased(decider)
	}
	for _, l := range legs[1:] {
		if !l.wrote.Load() {
			l.released = l.err == nil && l.refused == nil
			t.afterRelease(l)
		}
	}
	if l := t.unprepared(); l != nil {
		return t.abort(l)
	}
	if lost != nil {
		lost.err = errLocksLost
		return t.abort(lost)
	}
	// A commit that was held up for long must not be decided behind the back of
	// a recoverer whose 'rollback' has been deleted already.
	if k.now().Sub(started) > time.Duration(k.recovery.Retention)/4 {
		decider.err = errTooLate
		return t.abort(decider)
	}
	k.step(stepBeforeDecision)
	stop = interruptible(ctx, legs[:1])
	decider.queue("COMMIT")
	decider.flush()
	k.step(stepDeciding)
	decider.read()
	if !stop() && decider.err == nil {
		// Interrupted too late: the answer is there, the connection is not to be
		// trusted with more.
		t.destroy(decider)
	}
	if decider.err != nil || decider.refused != nil {
		t.destroy(decider)
		k.kill(decider.conn)
		switch decision, err := k.resolve(decider.node, t.mu.gtrid); decision {
		case DecidedRollback:
			return t.abort(decider)
		case Undecided:
			k.log.Error("the outcome of a transaction is not known; recovery will finish it and its client is disconnected",
				zap.String("gtrid", t.mu.gtrid), zap.String("node", decider.node.name), zap.Error(err))
			for _, l := range legs {
				t.destroy(l) // so that the branches have no owner
			}
			t.end(TxUnknown)
			return ErrOutcomeUnknown
		}
	}
	k.step(stepDecided)
	t.leave(decider)
	t.apply(legs[1:])
	return nil
}

// apply commits what of the legs is branches that wrote, after the decision, and
// ends the transaction: behind its client's back where commit_ok allows that.
func (t *Tx) apply(legs []*leg) {
	k := t.k
	var branches []*leg
	early := t.o.Decided
	for _, l := range legs {
		if l.wrote.Load() {
			branches = append(branches, l)
			early = early && !l.pinned // the session goes on with its connection
		}
	}
	if !early {
		t.commitBranches(branches)
		t.end(TxEnded)
		return
	}
	for _, l := range branches {
		k.applying(t.branch(l))
	}
	k.appliers.Go(func() { t.commitBranches(branches) })
	t.end(TxEnded)
}

// branch names what a leg that is a branch has on its node.
func (t *Tx) branch(l *leg) branch { return branch{l.node.name, t.mu.gtrid, l.bqual} }

// unprepared returns a leg that keeps the transaction from being decided
// 'commit': one that wrote and is not prepared, or the decider without its row.
func (t *Tx) unprepared() *leg {
	for i, l := range t.mu.legs {
		if (i == 0 || l.wrote.Load()) && l.failed() {
			return l
		}
	}
	return nil
}

// errTooLate is a commit that was held up for so long that it must not be
// decided any more.
var errTooLate = errors.New("held up for too long")

// abort rolls back a transaction whose decision row was not committed, and
// says what the client sees. l is the leg to blame, nil when ctx interrupted.
func (t *Tx) abort(l *leg) error {
	k := t.k
	k.step(stepAborting)
	result := mysql.Errorf(gomysql.ER_LOCK_DEADLOCK, "The commit was interrupted and the transaction was rolled back; try restarting transaction")
	switch {
	case l == nil:
		// Whoever interrupted may be at the connections still: none is used again.
		for _, l := range t.mu.legs {
			l.err = errInterrupted
		}
	case l.err != nil:
		result = lostError(l.node)
	case l.before != nil && !fenced(l.before):
		result = commitError(l.node, l.before)
	case l.before != nil || fenced(l.refused):
		// A recoverer took this Braid for dead and has decided.
		result = mysql.Errorf(gomysql.ER_LOCK_DEADLOCK, "The transaction was rolled back by recovery; try restarting transaction")
	default:
		result = commitError(l.node, l.refused)
	}
	deadline := time.Now().Add(k.patience)
	for _, l := range t.mu.legs {
		if l.gone || l.err != nil || l.released {
			continue
		}
		before, refused := l.before, l.refused
		l.begin()
		l.conn.SetDeadline(deadline)
		if l.prepareSent && before == nil && refused == nil {
			l.queue("XA ROLLBACK " + xidText(t.mu.gtrid, l.bqual))
		} else {
			t.queueRollback(l)
		}
		l.flush()
	}
	for _, l := range t.mu.legs {
		if l.gone || l.released {
			continue
		}
		l.read()
		ok := l.err == nil && l.refused == nil
		t.afterRollback(l)
		if !ok && l.prepareSent {
			k.leave(t.branch(l), DecidedRollback)
		}
	}
	k.finishLeft(t.mu.gtrid)
	t.end(TxEnded)
	return result
}

// fenced tells whether writing a decision row was refused for a fence's sake:
// nothing else of Braid's in a commit is refused so.
func fenced(e *mysql.Error) bool {
	return e.Code == gomysql.ER_DUP_ENTRY || e.Code == gomysql.ER_SUBQUERY_NO_1_ROW
}

// commitBranches commits the prepared branches after the decision, and gives
// their connections back. What cannot be told within the coordinator's patience
// is left to FinishOn and Run. The session may have gone on: of the transaction
// only what does not change is used.
func (t *Tx) commitBranches(branches []*leg) {
	k := t.k
	deadline := time.Now().Add(k.patience)
	for _, l := range branches {
		l.begin()
		l.conn.SetDeadline(deadline)
		l.queue("XA COMMIT " + xidText(t.mu.gtrid, l.bqual))
		l.flush()
		k.step(stepBranchSent)
	}
	left := false
	for _, l := range branches {
		l.read()
		k.step(stepHalfCommitted)
		if !l.gone && l.err == nil && l.refused == nil {
			l.conn.SetDeadline(time.Time{})
			t.leave(l)
		} else {
			left = true
			t.destroy(l)
			k.leave(t.branch(l), DecidedCommit)
		}
		k.applied(t.branch(l))
	}
	if left {
		k.finishLeft(t.mu.gtrid)
	}
	k.step(stepCommitted)
}

// resolve finds out, on a connection of its own, how a transaction whose
// decider did not answer its COMMIT was decided, by fencing it (rule T5).
// Undecided comes with the reason.
func (k *Coordinator) resolve(n *Node, gtrid string) (Decision, error) {
	ctx, cancel := context.WithTimeout(context.Background(), k.patience)
	defer cancel()
	g, _ := parseGlobalID(gtrid)
	for {
		d, err := k.resolveOnce(ctx, n, g, gtrid)
		if err == nil {
			return d, nil
		}
		if pause(ctx) != nil {
			return Undecided, err
		}
	}
}

func (k *Coordinator) resolveOnce(ctx context.Context, n *Node, g globalID, gtrid string) (Decision, error) {
	c, err := k.deciding(ctx, n, g.decider)
	if err != nil {
		return Undecided, err
	}
	defer c.Close()
	return fence(c, gtrid)
}

// deciding opens a connection of Braid's own to a node, which is still to be, or to
// stand for, the server of that identity (rule T10). The caller closes it.
func (k *Coordinator) deciding(ctx context.Context, n *Node, identity string) (*Conn, error) {
	c, err := ownConn(ctx, n, k.patience)
	if err != nil {
		return nil, err
	}
	f, err := lookAtNode(c)
	if err == nil && !f.decides(identity) {
		err = errOtherServer
	}
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

// pause waits a little before another try; an error says that ctx has ended.
func pause(ctx context.Context) error {
	t := time.NewTimer(50 * time.Millisecond)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
