package backend

import (
	"context"
	"errors"
	"strings"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"braid/internal/mysql"
)

// statementSavepoint is the reserved name of the savepoint in front of a
// statement that writes on several legs. A second SAVEPOINT of the name
// replaces the first.
const statementSavepoint = "_braid_statement"

// quoteName quotes an identifier with backticks, which every sql_mode takes.
func quoteName(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }

// Guard queues the implicit savepoint in front of a statement that writes on
// the legs of conns (rule T13). An error means that the connection failed, and
// goes to Failed.
func (t *Tx) Guard(conns ...*Conn) error {
	for _, c := range conns {
		if err := c.Queue("SAVEPOINT " + statementSavepoint); err != nil {
			return err
		}
	}
	return nil
}

// Undo rolls the failed statement that Guard guarded back on the legs of conns.
// Nil says that it is undone everywhere and the transaction is alive. An error
// is what the client sees instead of the statement's: the transaction is over.
func (t *Tx) Undo(ctx context.Context, conns ...*Conn) error {
	if t.state != TxActive {
		return t.Refusal()
	}
	legs := make([]*leg, 0, len(conns))
	for _, c := range conns {
		if l := t.legOf(c); l != nil {
			legs = append(legs, l)
			l.unannounce()
		}
	}
	if l := t.round(ctx, legs, "ROLLBACK TO "+statementSavepoint); l != nil {
		return t.brokenRound(l)
	}
	return nil
}

// round sends one statement on all legs at once and reads all answers. It
// returns the first leg that failed or refused, nil when there is none.
func (t *Tx) round(ctx context.Context, legs []*leg, text string) (failed *leg) {
	stop := interruptible(ctx, legs)
	for _, l := range legs {
		l.begin()
		l.queue(text)
		l.flush()
	}
	for _, l := range legs {
		l.read()
	}
	if !stop() {
		for _, l := range legs {
			l.err = errInterrupted
		}
	}
	for _, l := range legs {
		if l.err != nil || l.refused != nil || l.before != nil {
			return l
		}
	}
	return nil
}

// brokenRound ends the transaction after a round that did not go well on all
// legs: what the legs hold now is not the same everywhere.
func (t *Tx) brokenRound(l *leg) error {
	if l.err != nil {
		return t.lose(l.node, l.err)
	}
	e := l.refused
	if l.before != nil {
		e = l.before
	}
	t.rollbackLegs()
	if closesConnection(e.Code) {
		t.refusal = lostError(l.node)
		t.end(TxLost)
		return t.refusal
	}
	t.end(TxEnded)
	return deadlock()
}

// checkSavepoint refuses names that Braid cannot keep: MySQL compares them
// without regard to case and accents, which Braid knows for ASCII only.
func checkSavepoint(name string) *mysql.Error {
	if strings.EqualFold(name, statementSavepoint) {
		return mysql.Errorf(gomysql.ER_NOT_SUPPORTED_YET, "This version of Braid doesn't yet support 'the savepoint name %s'", name)
	}
	for i := range len(name) {
		if name[i] >= 0x80 {
			return mysql.Errorf(gomysql.ER_NOT_SUPPORTED_YET, "This version of Braid doesn't yet support 'savepoint names outside ASCII'")
		}
	}
	return nil
}

func (t *Tx) savepoint(name string) int {
	for i, s := range t.savepoints {
		if strings.EqualFold(s, name) {
			return i
		}
	}
	return -1
}

// Savepoint is the client's SAVEPOINT. It costs no round trip: legs get it in
// front of their next statement, and late legs in front of their first.
func (t *Tx) Savepoint(ctx context.Context, name string) error {
	if t.state != TxActive {
		return t.Refusal()
	}
	if err := checkSavepoint(name); err != nil {
		return err
	}
	if i := t.savepoint(name); i >= 0 {
		t.savepoints = append(t.savepoints[:i], t.savepoints[i+1:]...)
	}
	t.savepoints = append(t.savepoints, name)
	return t.queueAll("SAVEPOINT " + quoteName(name))
}

// Release is the client's RELEASE SAVEPOINT: error 1305 when there is none. The
// savepoints set after it go with it.
func (t *Tx) Release(ctx context.Context, name string) error {
	i, err := t.find(name)
	if err != nil {
		return err
	}
	t.savepoints = t.savepoints[:i]
	return t.queueAll("RELEASE SAVEPOINT " + quoteName(name))
}

// RollbackTo is the client's ROLLBACK TO SAVEPOINT: error 1305 when there is
// none. Legs that joined later are wound back wholly.
func (t *Tx) RollbackTo(ctx context.Context, name string) error {
	i, err := t.find(name)
	if err != nil {
		return err
	}
	t.savepoints = t.savepoints[:i+1]
	if len(t.mu.legs) == 0 {
		return nil
	}
	for _, l := range t.mu.legs {
		l.unannounce()
	}
	if l := t.round(ctx, t.mu.legs, "ROLLBACK TO "+quoteName(name)); l != nil {
		return t.brokenRound(l)
	}
	return nil
}

func (t *Tx) find(name string) (int, error) {
	if t.state != TxActive {
		return 0, t.Refusal()
	}
	if err := checkSavepoint(name); err != nil {
		return 0, err
	}
	i := t.savepoint(name)
	if i < 0 {
		return 0, mysql.Errorf(gomysql.ER_SP_DOES_NOT_EXIST, "SAVEPOINT %s does not exist", name)
	}
	return i, nil
}

// queueAll queues a statement on every leg.
func (t *Tx) queueAll(text string) error {
	for _, l := range t.mu.legs {
		if err := l.conn.Queue(text); err != nil {
			var prefix *ErrPrefix
			if errors.As(err, &prefix) || IsLost(err) {
				return t.lose(l.node, err)
			}
			return err
		}
	}
	return nil
}
