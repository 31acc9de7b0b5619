package proxy

import (
	"errors"
	"slices"
	"strings"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"braid/backend"
	"braid/internal/mysql"
	"braid/router"
)

// clientXA is an XA transaction that the client began itself: it lives on one
// shard, on a connection that the session keeps until it is over. Its node
// follows its states; Braid keeps them for what must not reach the node.
type clientXA struct {
	p        place
	state    string // "ACTIVE", "IDLE", "PREPARED"
	readOnly bool
}

// xa runs XA START, END, PREPARE, COMMIT, ROLLBACK and RECOVER of a client's own,
// on the only shard of its database or on the one that the hint names. What is
// Braid's own is never touched by it, and never shown (rule T6).
func (s *Session) xa(l *router.Local, q *router.Query, ps *execution) error {
	verb, _, _ := strings.Cut(strings.TrimSpace(l.Name), " ")
	verb = strings.ToUpper(strings.TrimSpace(verb))
	p, err := s.xaPlace()
	if err != nil {
		return s.failErr(err)
	}
	begins := verb == "START" || verb == "BEGIN"
	switch {
	case verb == "RECOVER":
		return s.xaRecover(&p, q, ps)
	case backend.NamesOwnBranch(l.Name):
		if begins {
			return s.fail(mysql.Errorf(1235, "This version of Braid doesn't yet support 'XA START with the format id of Braid's own transactions'"))
		}
		return s.fail(xaError(gomysql.ER_XAER_NOTA, "XAER_NOTA: Unknown XID"))
	case s.tx != nil && !s.waiting:
		return s.fail(xaError(gomysql.ER_XAER_OUTSIDE, "XAER_OUTSIDE: Some work is done outside global transaction"))
	}
	if s.tx != nil {
		s.rollbackOpen() // only savepoints were set in it
	}
	over, readOnly := false, s.nextAccess == "READ ONLY" || s.nextAccess == "" && s.readOnly
	err = s.onPlace(&p, func(c *backend.Conn, need *backend.Need) error {
		if begins && s.xaOpen == nil {
			if err := s.xaOnce(c, need); err != nil {
				return err
			}
		}
		if err := c.Bring(need); err != nil {
			return err
		}
		_, err := c.Exec(string(q.Text))
		if err == nil {
			over = s.xaWent(c, &p, verb, readOnly)
		}
		return err
	})
	var e *mysql.Error
	if errors.As(err, &e) && (verb == "COMMIT" || verb == "ROLLBACK") && rolledBackXA(e.Code) {
		over = true
	}
	if over && s.xaOpen != nil {
		s.xaOpen = nil
		s.unpin(pinXA)
	}
	if err != nil {
		return s.failErr(err)
	}
	return s.okNothing()
}

// xaError is an error of XA with the SQLSTATE that the servers give.
func xaError(code uint16, message string) *mysql.Error { return mysql.Errorf(code, "%s", message) }

// rolledBackXA tells whether an error says that the branch was rolled back.
func rolledBackXA(code uint16) bool {
	return code == gomysql.ER_XA_RBROLLBACK || code == gomysql.ER_XA_RBTIMEOUT || code == gomysql.ER_XA_RBDEADLOCK
}

// xaPlace is the shard of the client's XA transaction, or that where one would be.
func (s *Session) xaPlace() (place, error) {
	if s.xaOpen != nil {
		return s.xaOpen.p, nil
	}
	db := s.gen.topology.Databases[s.database]
	if db == nil {
		return place{}, mysql.Errorf(1046, "No database selected")
	}
	shard := 0
	switch {
	case s.hints.Shard != "":
		shard = slices.IndexFunc(db.Shards, func(x router.Shard) bool { return x.Name == s.hints.Shard })
		if shard < 0 {
			return place{}, mysql.Errorf(1105, "Database %s has no shard %s", db.Name, s.hints.Shard)
		}
	case len(db.Shards) > 1:
		return place{}, mysql.Errorf(1235, "This version of Braid doesn't yet support 'XA of a client's own over several shards': Braid itself makes transactions over several shards atomic; the hint shard= runs XA on one shard")
	}
	return s.shardPlace(s.database, shard), nil
}

// xaOnce puts a one-shot SET TRANSACTION in front of XA START, which uses it up.
func (s *Session) xaOnce(c *backend.Conn, need *backend.Need) error {
	if err := c.Bring(need); err != nil {
		return err
	}
	var parts []string
	if s.nextLevel != "" {
		parts = append(parts, "ISOLATION LEVEL "+strings.ReplaceAll(s.nextLevel, "-", " "))
	}
	if s.nextAccess != "" {
		parts = append(parts, s.nextAccess)
	}
	s.nextLevel, s.nextAccess = "", ""
	if len(parts) == 0 {
		return nil
	}
	c.Tainted = true // should XA START fail, nobody else is to use it up
	_, err := c.Exec("SET TRANSACTION " + strings.Join(parts, ", "))
	return err
}

// xaWent follows the transaction after a statement that went well on c, and
// tells whether it is over for the session.
func (s *Session) xaWent(c *backend.Conn, p *place, verb string, readOnly bool) (over bool) {
	switch verb {
	case "START", "BEGIN":
		if s.xaOpen == nil {
			s.xaOpen = &clientXA{p: *p, readOnly: readOnly}
			s.pin(c, pinXA)
		}
		s.xaOpen.state = "ACTIVE"
	case "END":
		if s.xaOpen != nil {
			s.xaOpen.state = "IDLE"
		}
	case "PREPARE":
		if s.xaOpen != nil {
			s.xaOpen.state = "PREPARED"
		}
		return !s.mariadb() && s.xaDetaches(c)
	case "COMMIT", "ROLLBACK":
		return true
	}
	return false
}

// xaDetaches tells whether a MySQL server has taken the prepared transaction
// from its connection.
func (s *Session) xaDetaches(c *backend.Conn) bool {
	rows, err := c.Query("SELECT @@xa_detach_on_prepare", 1)
	return err == nil && string(rows[0][0]) == "1"
}

// xaRecover lists what is prepared on the shard's node, without what is Braid's.
func (s *Session) xaRecover(p *place, q *router.Query, ps *execution) error {
	a, err := s.forward(p, q.Text, ps)
	if err != nil {
		return s.failErr(err)
	}
	a.rows = slices.DeleteFunc(a.rows, func(r []nodeValue) bool {
		id, ok := a.number(0, r[0])
		return ok && backend.IsOwnFormat(id)
	})
	return s.writeAnswer(a, p)
}

// inXA refuses what must not be done in an XA transaction of the client's, and
// lets its node run what has to do with savepoints; done tells whether the
// statement was answered.
func (s *Session) inXA(plan *router.Plan, q *router.Query) (done bool, err error) {
	state := s.xaOpen.state
	refused := xaError(gomysql.ER_XAER_RMFAIL, "XAER_RMFAIL: The command cannot be executed when global transaction is in the  "+state+" state")
	unsupported := func(what string) (bool, error) {
		return true, s.fail(mysql.Errorf(1235, "This version of Braid doesn't yet support '%s in an XA transaction'", what))
	}
	switch {
	case plan.DDL != nil && plan.DDL.Temporary:
		return unsupported("temporary tables")
	case plan.ImplicitCommit || plan.DDL != nil:
		return true, s.fail(refused)
	case plan.Load != nil:
		return unsupported("LOAD DATA")
	}
	if plan.Kind != router.KindLocal {
		return false, nil
	}
	switch plan.Local.Op {
	case router.OpBegin, router.OpCommit, router.OpRollback, router.OpLockTables, router.OpCreateDatabase, router.OpDropDatabase:
		return true, s.fail(refused)
	case router.OpUnlockTables:
		return unsupported("UNLOCK TABLES")
	case router.OpSet:
		for _, x := range plan.Local.Sets {
			if x.Name == "autocommit" {
				return unsupported("SET autocommit")
			}
		}
	case router.OpSavepoint, router.OpRollbackTo, router.OpReleaseSavepoint:
		err := s.onPlace(&s.xaOpen.p, func(c *backend.Conn, need *backend.Need) error {
			if err := c.Bring(need); err != nil {
				return err
			}
			_, err := c.Exec(string(q.Text))
			return err
		})
		if err != nil {
			return true, s.failErr(err)
		}
		return true, s.okNothing()
	}
	return false, nil
}

// leavesXA refuses a statement that would work outside the XA transaction: on
// another shard than its own, or on several.
func (s *Session) leavesXA(plan *router.Plan) *mysql.Error {
	if plan.NoTables {
		return nil
	}
	r := &s.route
	if r.Gather == nil && r.Steps == nil && len(r.Unique) == 0 && len(r.Targets) == 1 {
		if s.place(plan, r.Targets[0].Shard).node == s.xaOpen.p.node {
			return nil // on the connection that the session keeps
		}
	}
	return mysql.Errorf(1235, "This version of Braid doesn't yet support 'a statement on other shards than %s in an XA transaction that the client began there'", s.xaOpen.p.shard)
}
