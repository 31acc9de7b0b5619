package proxy

import (
	"bytes"
	"cmp"
	"errors"
	"strconv"
	"strings"
	"time"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"braid/backend"
	"braid/internal/mysql"
	"braid/merge"
	"braid/router"
)

// comQuery answers COM_QUERY, statement by statement when the client may send
// several (rule D4: they never travel together to a node).
func (s *Session) comQuery(text []byte) error {
	text = bytes.TrimRight(text, "; \t\n\v\f\r") // as mysqld does before it looks for statements
	if s.caps&gomysql.CLIENT_MULTI_STATEMENTS == 0 || bytes.IndexByte(text, ';') < 0 {
		return s.statement(text)
	}
	rest := text
	for {
		var one []byte
		one, rest = router.NextStatement(rest, s.mode, s.charset)
		if len(rest) > 0 && len(bytes.TrimSpace(one)) == 0 {
			// Between statements an empty one is wrong syntax; the last may be a comment.
			return s.fail(router.SyntaxError(";"+string(rest), 0, s.mariadb()))
		}
		s.more = len(rest) > 0
		s.behind = text[len(text)-len(rest):]
		failed := s.failed
		err := s.statement(one)
		s.behind = nil
		if err != nil {
			return err
		}
		if len(rest) == 0 || s.failed != failed {
			return nil
		}
	}
}

// nearMax is how much of a text an error about its syntax quotes.
const nearMax = 80

// quoteBehind makes an error about the syntax of one of several statements quote
// what follows the statement, as servers do, which parse it in place.
func quoteBehind(e *mysql.Error, behind []byte) *mysql.Error {
	at := strings.LastIndex(e.Message, "' at line ")
	start := strings.Index(e.Message, " near '")
	if e.Code != gomysql.ER_PARSE_ERROR || len(behind) == 0 || at < 0 || start < 0 {
		return e
	}
	start += len(" near '")
	near := e.Message[start:at]
	if room := nearMax - len(near) - 1; room >= 0 {
		near += ";" + string(behind[:min(len(behind), room)])
	}
	return &mysql.Error{Code: e.Code, State: e.State, Message: e.Message[:start] + near + e.Message[at:]}
}

// statement answers one statement in text form.
func (s *Session) statement(text []byte) error {
	s.srv.stats.statements.Add(1)
	s.note(text)
	q := &s.query
	q.Text, q.Prepared, q.Params = text, false, nil
	s.fillQuery(q)
	plan, err := s.plan(q)
	if err != nil {
		return s.planFailed(q, err)
	}
	return s.execute(plan, q, nil)
}

// fillQuery puts what a statement's meaning depends on into q.
func (s *Session) fillQuery(q *router.Query) {
	q.Made = nil
	q.Hints = router.ReadHints(q.Text, s.mode, s.charset)
	s.hints = q.Hints
	s.hintDeadline()
	s.facts.Warnings, s.facts.Errors, s.facts.Autocommit, s.facts.ReadFence, s.facts.Bare = s.warned, s.errored, s.autocommit, s.fence, s.bare
	q.Database, q.Mode, q.Charset, q.Connection, q.Facts = s.database, s.mode, s.charset, s.connection, &s.facts
}

// note keeps the beginning of the statement for SHOW PROCESSLIST.
func (s *Session) note(text []byte) {
	if len(text) > processTextMax {
		text = text[:processTextMax]
	}
	s.mu.Lock()
	s.mu.textBuf = append(s.mu.textBuf[:0], text...)
	s.mu.Unlock()
}

// processTextMax is how much of a running statement SHOW PROCESSLIST can show.
const processTextMax = 1024

// execute carries out a plan for q; ps is set when q is an execution of a
// prepared statement, whose answers are in the binary protocol.
func (s *Session) execute(plan *router.Plan, q *router.Query, ps *execution) error {
	if s.xaOpen != nil {
		if done, err := s.inXA(plan, q); done {
			return err
		}
	}
	switch plan.Kind {
	case router.KindRefuse:
		if plan.ImplicitCommit {
			if err := s.commitOpen(); err != nil {
				return s.failErr(err)
			}
		}
		return s.planFailed(q, plan.Err)
	case router.KindLocal:
		if plan.Local.Op == router.OpBegin {
			s.nextLevel = cmp.Or(s.hints.Isolation, s.nextLevel) // an open transaction is committed first
		}
		return s.local(plan, q, ps)
	}
	if plan.Opens() && s.mariadb() {
		// They are forgotten when the tables are opened, before the statement can count them.
		s.facts.Warnings, s.facts.Errors = 0, 0
	}
	if len(plan.System) > 0 {
		return s.readSystem(plan, q, ps)
	}
	if plan.ImplicitCommit {
		if err := s.commitOpen(); err != nil {
			return s.failErr(err)
		}
	}
	if len(s.handlers) > 0 && (plan.DDL != nil || plan.Maintenance) {
		defer s.askHandlers() // servers close those of the tables that it names
	}
	if plan.DDL != nil && s.locks() {
		defer s.askLocks()
	}
	if plan.Handler != nil {
		return s.handler(plan, q)
	}
	if plan.DDL != nil && plan.DDL.Temporary {
		return s.temporaryDDL(plan, q, ps)
	}
	if plan.DDL != nil {
		return s.ddl(plan, q)
	}
	if plan.Load != nil {
		return s.load(plan, q)
	}
	if plan.IDs != nil {
		return s.insert(plan, q, ps)
	}
	return s.runPlan(plan, q, ps)
}

// runPlan binds a plan that has to do with nodes' tables, and carries it out.
func (s *Session) runPlan(plan *router.Plan, q *router.Query, ps *execution) error {
	if err := s.makeValues(plan, q); err != nil {
		return s.failErr(err)
	}
	if err := plan.Bind(q, &s.route); err != nil {
		return s.failErr(err)
	}
	if s.xaOpen != nil {
		if e := s.leavesXA(plan); e != nil {
			return s.fail(e)
		}
	}
	if err := s.checkTaken(plan); err == errTaken {
		return err
	} else if err != nil {
		return s.failErr(err)
	}
	if err := s.temporaryHere(plan, &s.route); err != nil {
		return s.failErr(err)
	}
	if !plan.NoTables {
		s.hintIsolation()
	}
	if plan.Maintenance && (len(s.route.Targets) > 1 || !plan.Rows || plan.Checksum || s.place(plan, s.route.Targets[0].Shard).schema != plan.Database) {
		return s.maintain(plan, ps)
	}
	if err := s.ready(plan); err != nil {
		return s.failErr(err)
	}
	if len(s.route.Unique) > 0 {
		return s.runUnique(plan, q, ps)
	}
	return s.runBound(plan, q, ps)
}

// runBound carries out the route of a plan that was bound.
func (s *Session) runBound(plan *router.Plan, q *router.Query, ps *execution) error {
	if s.route.Steps != nil {
		return s.runSteps(plan, ps)
	}
	if s.route.Gather != nil {
		s.srv.stats.gathered.Add(1)
		if s.route.Gather.Writes {
			return s.runGatherWrite(plan, ps)
		}
		return s.runGather(plan, ps)
	}
	if len(s.route.Targets) == 1 {
		s.srv.stats.single.Add(1)
		if s.route.Any && !plan.NoTables {
			s.route.Targets[0].Shard = s.anyShard(plan, s.route.Targets[0].Shard)
		}
		if s.once(plan) {
			return s.alone(plan, backend.TxOptions{}, func() error { return s.runSingle(plan, &s.route.Targets[0], ps) })
		}
		return s.runSingle(plan, &s.route.Targets[0], ps)
	}
	s.srv.stats.scattered.Add(1)
	switch {
	case s.route.Merge != nil:
		if err := s.onTheWhole(plan); err != nil {
			return s.failErr(err)
		}
		if (s.fence || s.hints.ReadFence) && s.tx == nil && !plan.Writer {
			return s.fenced(plan, q, ps)
		}
		if s.once(plan) || plan.Writer && s.tx == nil {
			return s.alone(plan, backend.TxOptions{}, func() error { return s.scatterOrGather(plan, q, ps) })
		}
		return s.scatterOrGather(plan, q, ps)
	default:
		if s.tx == nil {
			return s.alone(plan, backend.TxOptions{}, func() error { return s.runWrite(plan, q, ps, nil) })
		}
		return s.runWrite(plan, q, ps, nil)
	}
}

// onTheWhole applies the session's bounds to a read of several shards as a
// whole: the shards are not told sql_select_limit (rule D11), and a time limit
// that each of them keeps for itself counts from the beginning.
func (s *Session) onTheWhole(plan *router.Plan) error {
	if plan.ReadsOwn && s.selectLimitSet {
		return mysql.Errorf(1235, "This version of Braid doesn't yet support 'sql_select_limit together with its own kind of variables over several shards'")
	}
	if s.selectLimitSet && plan.Rows && !s.route.Limit.Set && s.route.Evaluate == nil {
		s.route.Limit = merge.Limit{Set: true, Count: s.selectLimit}
	}
	for _, v := range []struct {
		name string
		unit time.Duration
	}{{"max_execution_time", time.Millisecond}, {"max_statement_time", time.Second}} {
		text, ok := s.vars.Get(v.name)
		if n, err := strconv.ParseFloat(text, 64); ok && err == nil && n > 0 {
			s.mu.Lock()
			if at := s.mu.began.Add(time.Duration(n * float64(v.unit))); s.mu.deadline.IsZero() || at.Before(s.mu.deadline) {
				s.mu.deadline = at
			}
			s.mu.Unlock()
		}
	}
	return nil
}

// beforeEngine tells whether a statement with this error was refused before it
// came to the storage engine: it has not used up a one-shot SET TRANSACTION.
func beforeEngine(code uint16) bool {
	switch code {
	case gomysql.ER_CANT_EXECUTE_IN_READ_ONLY_TRANSACTION, gomysql.ER_BAD_FIELD_ERROR, gomysql.ER_NO_SUCH_TABLE:
		return true
	}
	return false
}

// runSingle runs a statement that one shard answers: its answer is relayed.
func (s *Session) runSingle(plan *router.Plan, t *router.Target, ps *execution) error {
	p := s.place(plan, t.Shard)
	again := false
	var down []*backend.Node
	for {
		c, err := s.take(plan, &p)
		if err != nil {
			down = append(down, p.node)
			if s.elsewhere(plan, t, down, err) {
				p = s.place(plan, t.Shard)
				continue
			}
			return s.failed1(plan, p.shardError(err))
		}
		first, err := s.send(c, plan, &p, t, ps)
		if err != nil {
			var e *mysql.Error
			if errors.As(err, &e) && !backend.IsLost(err) && !isPrefix(err) {
				return s.answerError(c, plan, &p, e) // the PREPARE was refused
			}
			if !again && backend.IsLost(err) && s.retryable(plan) && !s.isPinned(c) {
				// The pool's connection had died unnoticed; nothing of this
				// session depends on it, and a read may be asked twice.
				s.drop(c)
				s.scrap(c)
				s.srv.stats.retried.Add(1)
				again = true
				continue
			}
			return s.lost(c, plan, &p, err)
		}
		r, err := s.relay(c, first, &p, plan)
		if err != nil {
			return s.lost(c, plan, &p, err)
		}
		if plan.Verb == "CALL" {
			s.pin(c, pinProgram) // also after an error: what it did before stays
		}
		if plan.Locks {
			s.noteLocks(c, ps)
		}
		if plan.Handler != nil {
			s.noteHandler(c, plan.Handler, t.Shard, r.err)
		}
		if r.err != nil {
			return s.answerError(c, plan, &p, r.err)
		}
		err = s.afterwards(c, plan, &p, &r)
		if err == nil {
			err = s.given(plan, c, &p, t, &r.ok)
		}
		if err == nil {
			err = s.keepAssigned(c, plan)
		}
		if err != nil {
			return s.lost(c, plan, &p, err)
		}
		if plan.Locks || plan.Unlocks || plan.UnlocksAll {
			free, err := s.locksFree(c, plan)
			if err != nil {
				return s.lost(c, plan, &p, err)
			}
			if free {
				defer s.unpin(pinLock)
			}
		}
		if plan.DDL != nil && plan.DDL.Temporary && plan.DDL.NewTable != "" {
			s.pin(c, pinTemporary)
		}
		s.done(c, plan, &r.ok)
		if err := s.settle(false); err != nil {
			return s.failErr(err)
		}
		if r.set {
			return s.writeEnd(r.ok.Status, r.ok.Warnings)
		}
		return s.writeOK(&r.ok)
	}
}

func isPrefix(err error) bool {
	var pe *backend.ErrPrefix
	return errors.As(err, &pe)
}

// retryable tells whether a statement may be sent again after its connection
// was lost: a read outside a transaction.
func (s *Session) retryable(plan *router.Plan) bool {
	if s.tx != nil && !plan.NoTables || plan.Writer || !plan.Rows {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.stopped == nil && !s.mu.killed
}

// lost answers after a connection failed in mid-statement.
func (s *Session) lost(c *backend.Conn, plan *router.Plan, p *place, err error) error {
	inTx := s.tx != nil && !plan.NoTables
	told := s.broken(c, plan, p, err)
	var se *mysql.SocketError
	if errors.As(err, &se) && se.Side == mysql.ClientSide {
		return err
	}
	var e *mysql.Error
	if !inTx && plan.Writer && backend.IsLost(err) && !errors.As(told, &e) {
		return &errClose{told} // nobody knows whether the write was done
	}
	return s.failed1(plan, told)
}

// failed1 ends the statement's own transaction and answers with err.
func (s *Session) failed1(plan *router.Plan, err error) error {
	if e := s.settle(true); e != nil {
		return s.failErr(e)
	}
	if s.again && isDeadlock(err) {
		return errAgain
	}
	if s.isTaken(plan, err) {
		s.diagnosed = false
		return errTaken
	}
	return s.failErr(err)
}

// answerError answers with the error a node gave; the connection is in order.
func (s *Session) answerError(c *backend.Conn, plan *router.Plan, p *place, e *mysql.Error) error {
	// What it assigned before it failed stays assigned.
	if err := s.keepAssigned(c, plan); err != nil {
		return s.lost(c, plan, p, err)
	}
	// What the statement warned of before it failed stays in SHOW WARNINGS.
	rows, err := c.Query(showWarnings, warningsMax)
	if err != nil {
		return s.lost(c, plan, p, err)
	}
	s.warnings = s.warnings[:0]
	s.addWarnings(rows, p)
	s.diagnosed = len(rows) > 1
	return s.failed1(plan, s.refused(c, plan, p, e))
}

// refused ends the use of a connection, which is in order, after the node
// answered with an error, and returns what the client is told.
func (s *Session) refused(c *backend.Conn, plan *router.Plan, p *place, e *mysql.Error) error {
	stopped := s.drop(c)
	if s.tx != nil && !plan.NoTables {
		e = s.tx.Failed(p.node, e)
		s.noteEnd()
	} else if stopped != nil {
		s.scrap(c)
	} else {
		s.giveBack(c)
	}
	if stopped != nil {
		e = stopped
	}
	return e
}

// send sends a target's text (or its prepared form) and returns the answer's
// first packet.
func (s *Session) send(c *backend.Conn, plan *router.Plan, p *place, t *router.Target, ps *execution) ([]byte, error) {
	need := s.need(plan, p)
	if err := s.sendOnly(c, &need, plan, t, ps); err != nil {
		return nil, err
	}
	return c.First()
}

func (s *Session) sendOnly(c *backend.Conn, need *backend.Need, plan *router.Plan, t *router.Target, ps *execution) error {
	if plan.AutoIncrement && !plan.GeneratesID || plan.SetsID {
		// Whether the statement sets LAST_INSERT_ID() can then be seen behind it.
		if err := c.Queue("SET last_insert_id=" + strconv.FormatUint(s.facts.LastInsertID, 10)); err != nil {
			return err
		}
	}
	if ps == nil {
		return c.Send(need, gomysql.COM_QUERY, t.Text)
	}
	if ps.named {
		return s.sendNamed(c, need, t, ps)
	}
	st, err := c.Prepare(need, t.Text)
	if err != nil {
		return err
	}
	if st.Schema == 0 {
		st.Schema = s.gen.number
	}
	return c.SendExecute(need, st, ps.args(t, len(st.Params)))
}

// showWarnings asks for the warnings of the statement before. The LIMIT keeps
// the session's sql_select_limit out.
const (
	showWarnings = "SHOW WARNINGS LIMIT 65536"
	warningsMax  = 1 << 16
)

// ofText tells whether a warning comes from reading a statement's text, and not
// from its rows: deprecated syntax, character sets and the like.
func ofText(code uint16) bool {
	switch code {
	case 1052, 1287, 1681, 3719, 3720, 3778, 3090:
		return true
	}
	return false
}

func parseUint(b []byte) uint64 {
	var v uint64
	for _, d := range b {
		if d < '0' || d > '9' {
			return v
		}
		v = v*10 + uint64(d-'0')
	}
	return v
}
