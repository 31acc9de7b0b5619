package proxy

import (
	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"braid/internal/mysql"
	"braid/router"
)

// local carries out a statement that needs no shard. ps is set when it is an
// execution of a prepared statement.
func (s *Session) local(plan *router.Plan, q *router.Query, ps *execution) error {
	l := plan.Local
	bin := ps != nil
	switch l.Op {
	case router.OpNone:
		return s.okNothing()
	case router.OpBegin:
		return s.beginStatementTx(l)
	case router.OpCommit, router.OpRollback:
		return s.finish(l)
	case router.OpSavepoint, router.OpRollbackTo, router.OpReleaseSavepoint:
		return s.savepoint(l)
	case router.OpUse:
		if e := s.use(l.Name); e != nil {
			return s.fail(e)
		}
		s.trackUse()
		return s.okNothing()
	case router.OpSet:
		sets, err := s.bindSets(l.Sets, ps)
		var warned uint16
		if err == nil {
			warned, err = s.set(sets)
		}
		if err != nil {
			return s.failErr(err)
		}
		if err := s.trackSet(l.Sets); err != nil {
			return s.failErr(err)
		}
		s.facts.RowCount = 0
		return s.writeOK(&mysql.OK{Warnings: warned})
	case router.OpTransaction:
		return s.setTransaction(l)
	case router.OpShow:
		return s.show(&l.Show, q, ps)
	case router.OpKill:
		return s.kill(l.Kill)
	case router.OpPrepare:
		return s.prepareNamed(l)
	case router.OpExecute:
		return s.executeNamed(l)
	case router.OpDeallocate:
		return s.deallocate(l)
	case router.OpExplain:
		return s.explain(plan, q, bin)
	case router.OpLockTables:
		return s.lockTables(l)
	case router.OpUnlockTables:
		return s.unlockTables()
	case router.OpCreateDatabase, router.OpDropDatabase:
		return s.databaseDDL(l)
	case router.OpXA:
		return s.xa(l, q, ps)
	case router.OpFill:
		return s.fill(plan)
	}
	return s.fail(mysql.Errorf(1235, "This version of Braid doesn't yet support '%s'", plan.Verb))
}

// okNothing answers a statement that changed no row.
func (s *Session) okNothing() error {
	s.newWarnings(nil, false)
	s.facts.RowCount = 0
	return s.writeOK(&mysql.OK{})
}

// newWarnings makes w what SHOW WARNINGS tells. MariaDB goes on telling of an
// earlier statement while those that follow use no tables and warn of nothing.
func (s *Session) newWarnings(w []warning, tables bool) {
	if len(w) > 0 || tables || !s.mariadb() {
		s.warnings, s.warned, s.errored = append(s.warnings[:0], w...), uint16(len(w)), 0
	}
}

// kill is KILL [QUERY] of one of this Braid's connections.
func (s *Session) kill(k router.Kill) error {
	victim := s.srv.Session(k.ID)
	if victim == nil {
		return s.fail(mysql.Errorf(1094, "Unknown thread id: %d", k.ID))
	}
	victim.mu.Lock()
	foreign := victim.mu.user != s.user
	victim.mu.Unlock()
	if foreign {
		return s.fail(mysql.Errorf(1095, "You are not owner of thread %d", k.ID))
	}
	if victim == s {
		if k.Query {
			return s.fail(mysql.Errorf(1317, "Query execution was interrupted"))
		}
		if err := s.fail(mysql.Errorf(1317, "Query execution was interrupted")); err != nil {
			return err
		}
		_ = s.c.Flush()
		return errQuit
	}
	victim.stop(mysql.Errorf(1317, "Query execution was interrupted"), !k.Query)
	s.srv.stats.killed.Add(1)
	return s.okNothing()
}

// explainColumns are the columns of EXPLAIN.
func (s *Session) explainColumns() []mysql.Column {
	return []mysql.Column{s.textColumn("plan", 16), s.textColumn("shard", 64), s.textColumn("node", 64), s.textColumn("statement", 65535)}
}

// explain answers EXPLAIN of a routed statement: where it goes, with which
// text, and how the rows are put together.
func (s *Session) explain(plan *router.Plan, q *router.Query, bin bool) error {
	text1 := plan.Local.Inner
	inner := &router.Query{Text: []byte(text1)}
	s.fillQuery(inner)
	p, err := s.plan(inner)
	if err != nil {
		return s.failErr(err)
	}
	r := &resultSet{columns: s.explainColumns()}
	if p.Kind == router.KindLocal || p.Kind == router.KindRefuse {
		msg := ""
		if p.Err != nil {
			msg = p.Err.Message
		}
		r.rows = append(r.rows, []cell{text(p.Kind.String()), {}, {}, nullable(msg)})
		return s.writeResult(r, bin)
	}
	var route router.Route
	if err := p.Bind(inner, &route); err != nil {
		return s.failErr(err)
	}
	for i := range route.Targets {
		t := &route.Targets[i]
		pl := s.place(p, t.Shard)
		kind := p.Kind.String()
		if len(route.Targets) == 1 && kind == "scatter" {
			kind = "single"
		}
		r.rows = append(r.rows, []cell{text(kind), text(pl.shard), text(pl.node.Name()), text(string(t.Text))})
	}
	if route.Gather != nil {
		r.rows = append(r.rows, []cell{text("gather"), {}, {}, text(route.Gather.String())}, []cell{text("then"), {}, {}, text(string(route.Gather.Text))})
	}
	if route.Merge != nil {
		r.rows = append(r.rows, []cell{text("merge"), {}, {}, text(route.Merge.Describe(route.Limit))})
	}
	if route.Evaluate != nil {
		r.rows = append(r.rows, []cell{text("then"), {}, {}, text(string(route.Evaluate.Text))})
	}
	return s.writeResult(r, bin)
}

// databaseDDL answers CREATE DATABASE of one that exists and DROP DATABASE of one
// that does not.
func (s *Session) databaseDDL(l *router.Local) error {
	if err := s.commitOpen(); err != nil {
		return s.failErr(err)
	}
	if e := s.gen.checkDatabase(s.user, s.host, l.Name); e != nil && e.Code != gomysql.ER_BAD_DB_ERROR {
		return s.fail(e)
	}
	made := l.Op == router.OpCreateDatabase
	e := mysql.Errorf(gomysql.ER_DB_DROP_EXISTS, "Can't drop database '%s'; database doesn't exist", l.Name)
	if made {
		e = mysql.Errorf(gomysql.ER_DB_CREATE_EXISTS, "Can't create database '%s'; database exists", l.Name)
	}
	if !l.Lenient {
		return s.fail(e)
	}
	ok := mysql.OK{Warnings: 1}
	if !made {
		ok.Status = gomysql.SERVER_STATUS_DB_DROPPED
	} else if !s.mariadb() {
		ok.AffectedRows = 1
	}
	s.warnings, s.warned, s.errored = append(s.warnings[:0], warning{"Note", e.Code, e.Message}), 1, 0
	s.facts.RowCount = int64(ok.AffectedRows)
	return s.writeOK(&ok)
}
