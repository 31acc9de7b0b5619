package proxy

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"braid/backend"
	"braid/internal/mysql"
	"braid/router"
)

// ddl carries out a schema change on every shard it concerns, and reads the
// schema again. Where the database has several shards, other Braids are kept from
// changing the same tables meanwhile, and told afterwards.
func (s *Session) ddl(plan *router.Plan, q *router.Query) error {
	if s.locks() && (plan.DDL.Restarts || plan.DDL.Raises) && len(s.idSources(plan)) > 0 {
		// The sequence would be looked up on connections that wait for the locks.
		return s.failErr(mysql.Errorf(1235, "This version of Braid doesn't yet support 'TRUNCATE TABLE, or another start of AUTO_INCREMENT, under LOCK TABLES'"))
	}
	if len(s.gen.topology.Databases[plan.Database].Shards) == 1 {
		return s.changeAlone(plan, q)
	}
	ch, plan, err := s.openChange(plan, q)
	if ch != nil {
		defer func() { s.drop(ch.c); ch.end() }()
	}
	if err != nil {
		return s.failErr(err)
	}
	if plan.DDL == nil || plan.Kind == router.KindRefuse {
		return s.execute(plan, q, nil) // the schema is another since
	}
	before := s.idSources(plan)
	if err := plan.Bind(q, &s.route); err != nil {
		return s.failErr(err)
	}
	ctx, cancel := s.context()
	defer cancel()
	if err := ch.begin(ctx, plan.DDL, q.Text, s.changeWork(plan)); err != nil {
		return s.failErr(mysql.Errorf(1105, "nothing was changed: writing to schema braid: %v", err))
	}
	sum, err := s.changeShards(plan, ch)
	if err == nil {
		if err = ch.commit(plan.DDL); err != nil {
			err = mysql.Errorf(1105, "the schema was changed, but other Braids are not told of it: %v", err)
		}
	}
	if refresh := s.refreshSchema(); err == nil {
		err = refresh
	}
	if err == nil {
		err = s.fits(plan, ch)
	}
	return s.changed(plan, before, sum, err)
}

// changeAlone is ddl in a database of one shard, which alone says what is so.
func (s *Session) changeAlone(plan *router.Plan, q *router.Query) error {
	if err := plan.Bind(q, &s.route); err != nil {
		return s.failErr(err)
	}
	before := s.idSources(plan)
	s.warnings = s.warnings[:0]
	p := s.place(plan, 0)
	sum, _, err := s.ddlOn(plan, &p, &s.route.Targets[0])
	if err == nil {
		err = s.refreshSchema()
	}
	return s.changed(plan, before, sum, err)
}

// changed answers for a schema change.
func (s *Session) changed(plan *router.Plan, before []*idSource, sum mysql.OK, err error) error {
	if err == nil {
		err = s.moveSequences(plan.DDL, before, s.idSources(plan))
	}
	if err != nil {
		return s.failErr(err)
	}
	s.warned, s.errored = uint16(len(s.warnings)), 0
	s.facts.RowCount = int64(sum.AffectedRows)
	return s.writeOK(&sum)
}

// openChange takes the locks for a change. When another Braid has changed the
// schema since it was read, it is read again and the statement planned anew.
func (s *Session) openChange(plan *router.Plan, q *router.Query) (*schemaChange, *router.Plan, error) {
	ctx, cancel := s.context()
	defer cancel()
	wait, _ := s.boundedLocks().Get("lock_wait_timeout")
	if _, err := strconv.ParseUint(wait, 10, 31); err != nil {
		wait = ddlLockWait
	}
	ch, err := openChange(ctx, s.gen.base[plan.Database].nodes[0], plan.Database, plan.DDL.Tables, wait, s.hold)
	if err != nil || ch.version == s.gen.versions[plan.Database] {
		return ch, plan, err
	}
	if err := s.srv.Refresh(ctx); err != nil {
		return ch, plan, err
	}
	if s.gen = s.srv.gen.Load(); s.gen.versions[plan.Database] < ch.version {
		return ch, plan, mysql.Errorf(1105, "nothing was changed: another Braid has changed the schema, which cannot be read now")
	}
	plan, err = s.router().Plan(q)
	return ch, plan, err
}

// changeWork is what another has to know to go on with the change that s.route
// is bound to.
func (s *Session) changeWork(plan *router.Plan) *changeWork {
	w := &changeWork{Plan: plan.DDL}
	s.boundedLocks().Each(func(v backend.Var) { w.Vars = append(w.Vars, v) })
	one := true
	for i := range s.route.Targets {
		t := &s.route.Targets[i]
		w.Shards = append(w.Shards, s.place(plan, t.Shard).shard)
		w.Texts = append(w.Texts, bytes.Clone(t.Text))
		one = one && bytes.Equal(t.Text, w.Texts[0])
	}
	if one && len(w.Texts) > 0 {
		w.Texts = w.Texts[:1]
	}
	return w
}

// changeShards changes shard after shard. When one refuses, the change is taken
// back on those before it where that loses nothing, so that the client gets what
// one server would have answered; otherwise it is left to be finished.
func (s *Session) changeShards(plan *router.Plan, ch *schemaChange) (sum mysql.OK, err error) {
	s.warnings = s.warnings[:0]
	for i := range s.route.Targets {
		t := &s.route.Targets[i]
		p := s.place(plan, t.Shard)
		ok, refused, err := s.ddlOn(plan, &p, t)
		for n := 0; refused && isDeadlock(err) && n < deadlocksMax; n++ {
			// MySQL's own: several schema changes and who reads the schema met among its locks.
			ok, refused, err = s.ddlOn(plan, &p, t)
		}
		if err == nil {
			if i == 0 {
				sum = ok
			}
			err = ch.progress(p.shard)
		}
		if err == nil {
			continue
		}
		if refused && (i == 0 || plan.DDL.Undo != "" && s.undo(plan, s.route.Targets[:i]) == nil) {
			if e := ch.revoke(); e != nil {
				return sum, mysql.Errorf(1105, "nothing was changed, but schema braid still says so: %v", e)
			}
			return sum, err
		}
		return sum, s.unfinished(ch, &p, err)
	}
	return sum, nil
}

// unfinished says which shards are changed and which are not.
func (s *Session) unfinished(ch *schemaChange, p *place, err error) error {
	e := s.clientError(err)
	if ch.id == 0 {
		_ = ch.failed(e.Message) // other Braids look, whatever has become of it
		return err
	}
	done := "no shard"
	if len(ch.done) > 0 {
		done = strings.Join(ch.done, ", ")
	}
	text := fmt.Sprintf("%s (failed on shard %s; done on %s; RESUME DDL %s.%d on the admin port goes on with it)", e.Message, p.shard, done, ch.database, ch.id)
	if err := ch.failed("shard " + p.shard + ": " + e.Message); err != nil {
		text += "; writing that down failed too: " + err.Error()
	}
	return &mysql.Error{Code: e.Code, State: e.State, Message: text}
}

// undo takes a change back on the shards where it was made.
func (s *Session) undo(plan *router.Plan, made []router.Target) error {
	kept := s.warnings
	defer func() { s.warnings = kept }()
	for i := range made {
		p := s.place(plan, made[i].Shard)
		if _, _, err := s.ddlOn(plan, &p, &router.Target{Shard: made[i].Shard, Text: []byte(plan.DDL.Undo)}); err != nil {
			return err
		}
	}
	return nil
}

// fits takes a new table that no configuration names away again if it cannot be used by its rule, such as
// one whose sharding key is of a type that keys cannot have.
func (s *Session) fits(plan *router.Plan, ch *schemaChange) error {
	d := plan.DDL
	if d.New == nil || d.New.Configured || d.Undo == "" {
		return nil
	}
	t := s.gen.topology.Databases[plan.Database].Table(d.NewTable)
	if t == nil || t.Broken == "" {
		return nil
	}
	if err := s.undo(plan, s.route.Targets); err != nil {
		return err
	}
	ch.id = 0
	if err := ch.revoke(); err != nil {
		return err
	}
	if err := s.refreshSchema(); err != nil {
		return err
	}
	return mysql.Errorf(1235, "This version of Braid doesn't yet support 'this table: it %s'", t.Broken)
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

// ddlOn changes one shard. refused says that the error is the node's answer, so
// that it has changed nothing.
func (s *Session) ddlOn(plan *router.Plan, p *place, t *router.Target) (ok mysql.OK, refused bool, err error) {
	c, err := s.take(plan, p)
	if err != nil {
		return ok, true, p.shardError(err)
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
		return ok, isPrefix(err), s.broken(c, plan, p, err)
	}
	if first[0] == 0xff {
		e := logical(mysql.ParseError(first), p.schema, p.database)
		s.drop(c)
		s.giveBack(c)
		return ok, true, e
	}
	ok, err = mysql.ParseOK(first, false)
	if first[0] != 0 || err != nil {
		return ok, false, s.broken(c, plan, p, mysql.ErrMalformed)
	}
	if ok.Warnings > 0 && len(s.warnings) == 0 {
		rows, err := c.Query(showWarnings, warningsMax)
		if err != nil {
			return ok, false, s.broken(c, plan, p, err)
		}
		s.addWarnings(rows, p)
	}
	s.done(c, plan, &ok)
	return ok, false, nil
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
