package proxy

import (
	"errors"
	"fmt"
	"strings"

	"braid/backend"
	"braid/internal/mysql"
	"braid/router"
)

// ddl carries out a schema change on every shard it concerns, and reads the
// schema again.
func (s *Session) ddl(plan *router.Plan, q *router.Query) error {
	if err := plan.Bind(q, &s.route); err != nil {
		return s.failErr(err)
	}
	before := s.idSources(plan)
	var done []string
	var sum mysql.OK
	s.warnings = s.warnings[:0]
	for i := range s.route.Targets {
		t := &s.route.Targets[i]
		p := s.place(plan, t.Shard)
		ok, err := s.ddlOn(plan, &p, t)
		if err != nil {
			if len(done) > 0 {
				s.refreshSchema()
				e := s.clientError(err)
				err = &mysql.Error{Code: e.Code, State: e.State, Message: fmt.Sprintf("%s (failed on shard %s after it was done on: %s; finish or undo it there)", e.Message, p.shard, strings.Join(done, ", "))}
			}
			return s.failErr(err)
		}
		if i == 0 {
			sum = ok
		}
		done = append(done, p.shard)
	}
	if err := s.refreshSchema(); err != nil {
		return s.failErr(err)
	}
	if err := s.moveSequences(plan.DDL, before, s.idSources(plan)); err != nil {
		return s.failErr(err)
	}
	s.warned, s.errored = uint16(len(s.warnings)), 0
	s.facts.RowCount, s.facts.FoundRows = int64(sum.AffectedRows), 0
	return s.writeOK(&sum)
}

// idSources are the sequences of the tables that a schema change names, as they
// are in the session's generation.
func (s *Session) idSources(plan *router.Plan) []*idSource {
	db, base := s.gen.topology.Databases[plan.Database], s.gen.base[plan.Database]
	if db == nil || base == nil {
		return nil
	}
	var out []*idSource
	for _, name := range plan.DDL.Tables {
		if t := db.Table(name); t != nil && t.Sequence == "block" {
			out = append(out, &idSource{database: plan.Database, table: t, base: base, shards: db.Shards})
		}
	}
	return out
}

// moveSequences lets ids begin anew, or higher, as the change says.
func (s *Session) moveSequences(d *router.DDL, before, after []*idSource) error {
	ctx, cancel := s.context()
	defer cancel()
	var failed error
	if d.Restarts {
		for _, src := range before {
			s.srv.sequences.restart(ctx, src.key())
			failed = errors.Join(failed, src.forget(ctx, s.srv.sequences.owner))
		}
	}
	if d.Raises {
		for _, src := range after {
			s.srv.sequences.restart(ctx, src.key())
			failed = errors.Join(failed, src.raise(ctx, s.srv.sequences.owner, d.NewTable == ""))
		}
	}
	if failed != nil {
		return mysql.Errorf(1105, "the schema was changed, but the sequence of ids could not be moved: %v", failed)
	}
	return nil
}

func (s *Session) ddlOn(plan *router.Plan, p *place, t *router.Target) (mysql.OK, error) {
	c, err := s.take(plan, p)
	if err != nil {
		return mysql.OK{}, p.shardError(err)
	}
	need := s.need(plan, p)
	need.Write = true
	if len(s.route.Targets) > 1 {
		need.Vars = s.boundedLocks()
	}
	err = s.sendOnly(c, &need, plan, t, nil)
	var first []byte
	if err == nil {
		first, err = c.First()
	}
	if err != nil {
		return mysql.OK{}, s.broken(c, plan, p, err)
	}
	if first[0] == 0xff {
		e := logical(mysql.ParseError(first), p.schema, p.database)
		s.drop(c)
		s.giveBack(c)
		return mysql.OK{}, e
	}
	ok, err := mysql.ParseOK(first, false)
	if first[0] != 0 || err != nil {
		return mysql.OK{}, s.broken(c, plan, p, mysql.ErrMalformed)
	}
	if ok.Warnings > 0 && len(s.warnings) == 0 {
		rows, err := c.Query(showWarnings, warningsMax)
		if err != nil {
			return mysql.OK{}, s.broken(c, plan, p, err)
		}
		s.addWarnings(rows, p)
	}
	s.done(c, plan, &ok)
	return ok, nil
}

// ddlLockWait is how long a schema change on several shards waits for a table's
// metadata lock on each, in seconds, unless the client has said otherwise.
const ddlLockWait = "60"

// boundedLocks are the session's variables with an end to the waiting for
// metadata locks (rule T17). Servers wait for a year; a schema change that holds
// the table on one shard and waits on another, for a transaction that waits on
// the first, would be a deadlock that no server sees.
func (s *Session) boundedLocks() *backend.Vars {
	if _, set := s.vars.Get("lock_wait_timeout"); set {
		return s.vars
	}
	return s.vars.With(backend.Var{Name: "lock_wait_timeout", Value: ddlLockWait})
}

// refreshSchema makes the next statement see the schema as it now is.
func (s *Session) refreshSchema() error {
	ctx, cancel := s.context()
	defer cancel()
	if err := s.srv.Refresh(ctx); err != nil {
		return mysql.Errorf(1105, "the schema was changed, but reading it again failed: %v", err)
	}
	s.gen = s.srv.gen.Load()
	return nil
}
