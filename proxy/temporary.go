package proxy

import (
	"errors"
	"strings"

	"braid/backend"
	"braid/internal/mysql"
	"braid/router"
)

// temporaries are the temporary tables of a session, and the router that knows
// them. The session is pinned to the connection that has them.
type temporaries struct {
	tables map[string][]*router.Table // by database
	gen    *generation                // that router was made for
	router *router.Router
}

// router plans the session's statements: the generation's, or one of the
// session's own when temporary tables hide tables of others.
func (s *Session) router() *router.Router {
	t := s.temporaries
	if t == nil {
		return s.gen.router
	}
	if t.gen != s.gen {
		t.gen, t.router = s.gen, s.gen.router.With(t.tables)
	}
	return t.router
}

// temporaryHere checks that a statement that concerns temporary tables was
// bound to where they are, and to nothing else.
func (s *Session) temporaryHere(plan *router.Plan, route *router.Route) error {
	if !plan.Temporary {
		return nil
	}
	if route.Steps != nil || route.Gather != nil || len(route.Targets) != 1 || route.Targets[0].Shard != router.TemporaryShard {
		return temporaryRefused("together with rows of other shards")
	}
	if s.temporaries == nil {
		return nil // the first is being made
	}
	if node := s.place(plan, router.TemporaryShard).node; len(s.temporaries.tables[plan.Database]) > 0 && s.pinned(node) == nil {
		return temporaryRefused("whose shard has moved to another node")
	}
	if plan.Writer && plan.DDL == nil && s.tx != nil && s.txOpt.ReadOnly {
		return temporaryRefused("written in a READ ONLY transaction")
	}
	return nil
}

func temporaryRefused(what string) *mysql.Error {
	return mysql.Errorf(1235, "This version of Braid doesn't yet support 'temporary tables %s'", what)
}

// temporaryDDL carries out a change of temporary tables, and looks at what has
// become of them, whether it failed or not.
func (s *Session) temporaryDDL(plan *router.Plan, q *router.Query, ps *execution) error {
	if err := plan.Bind(q, &s.route); err != nil {
		return s.failErr(err)
	}
	if err := s.temporaryHere(plan, &s.route); err != nil {
		return s.failErr(err)
	}
	run := func() error { return s.runSingle(plan, &s.route.Targets[0], ps) }
	var err error
	switch {
	case plan.ImplicitCommit:
		err = run() // no transaction is open, and none is opened by it
	case s.tx == nil && s.mariadb() && !plan.DDL.Fills:
		err = run() // MariaDB opens none either under autocommit=0
	default:
		if err := s.ready(plan); err != nil {
			return s.failErr(err)
		}
		if s.once(plan) {
			err = s.alone(plan, backend.TxOptions{}, run)
			break
		}
		if s.tx != nil {
			s.txOpt.Spread = false // MySQL has no temporary tables in a branch
			s.tx.Reconsider(s.txOpt)
		}
		err = run()
	}
	if err != nil {
		return err
	}
	p := s.place(plan, router.TemporaryShard)
	c := s.pinned(p.node)
	if c == nil {
		return nil // nothing was made, or all is lost with the connection
	}
	s.hold(c)
	for _, name := range plan.DDL.Tables {
		if err := s.noteTemporary(c, &p, name); err != nil {
			// The client has its answer; it is not left to go on with tables that
			// nobody knows.
			s.drop(c)
			s.scrap(c)
			return nil
		}
	}
	s.drop(c)
	if s.temporaries == nil {
		s.unpin(pinTemporary)
	}
	return nil
}

// noteTemporary asks the node what a name means to the session now.
func (s *Session) noteTemporary(c *backend.Conn, p *place, name string) error {
	db := s.gen.topology.Databases[p.database]
	same := func(t *router.Table) bool {
		return t.Name == name || db.LowerCase && strings.EqualFold(t.Name, name)
	}
	next := &temporaries{tables: map[string][]*router.Table{}}
	if s.temporaries != nil {
		for database, tables := range s.temporaries.tables {
			for _, t := range tables {
				if database != p.database || !same(t) {
					next.tables[database] = append(next.tables[database], t)
				}
			}
		}
	}
	table := ident(p.schema) + "." + ident(name)
	rows, err := c.Query("SHOW CREATE TABLE "+table, 1)
	var e *mysql.Error
	switch {
	case errors.As(err, &e) && !backend.IsLost(err) && !isPrefix(err):
	case err != nil:
		return err
	case len(rows) == 1 && strings.HasPrefix(string(rows[0][1]), "CREATE TEMPORARY TABLE "):
		t, err := describeTemporary(c, table, name)
		if err != nil {
			return err
		}
		next.tables[p.database] = append(next.tables[p.database], t)
	}
	if len(next.tables) == 0 {
		next = nil
	}
	s.temporaries = next
	return nil
}

// describeTemporary reads a temporary table's columns, which are not in
// information_schema.
func describeTemporary(c *backend.Conn, table, name string) (*router.Table, error) {
	rows, err := c.Query("SHOW FULL COLUMNS FROM "+table, tablesMax)
	if err != nil {
		return nil, err
	}
	var columns []router.Column
	broken := ""
	for i, r := range rows {
		for _, b := range r[0] {
			if b >= 0x80 {
				broken = "is temporary and has a column whose name is not ASCII"
			}
		}
		kind := string(r[1])
		data, _, _ := strings.Cut(kind, "(")
		data, _, _ = strings.Cut(data, " ")
		charset, _, _ := strings.Cut(string(r[2]), "_")
		columns = append(columns, router.Column{Name: string(r[0]), DataType: strings.ToLower(data), ColumnType: kind,
			Charset: charset, Collation: string(r[2]), Nullable: string(r[3]) == "YES", Extra: string(r[6]), Position: i + 1})
	}
	return router.TemporaryTable(name, columns, broken), nil
}

// rollbackWarned rolls the open transaction back and returns what the nodes
// warn of: MySQL says so when temporary tables were made or dropped in it.
func (s *Session) rollbackWarned() []warning {
	var legs []*backend.Conn
	for i := range s.pins {
		c := s.pins[i].conn
		if s.pins[i].why != pinLock && !s.mariadb() && s.tx.State() == backend.TxActive && s.tx.On(c.Node()) == c {
			legs = append(legs, c)
			s.pins[i].why |= pinWarnings // also where all its tables are dropped: or it would go back with the transaction
		}
	}
	s.rollbackOpen()
	defer s.unpin(pinWarnings)
	kept := s.warnings
	s.warnings = nil
	for _, c := range legs {
		if !s.isPinned(c) {
			continue
		}
		s.hold(c)
		rows, err := c.Query(showWarnings, warningsMax)
		s.drop(c)
		if err != nil {
			s.scrap(c)
			continue
		}
		s.addWarnings(rows, &place{})
	}
	warned := s.warnings
	s.warnings = kept
	return warned
}
