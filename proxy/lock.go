package proxy

import (
	"errors"
	"slices"
	"strings"
	"time"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"braid/backend"
	"braid/internal/mysql"
	"braid/router"
)

// LOCK TABLES is carried out by the nodes: each that has one of the tables locks
// them on a connection that the session keeps, and the session's statements run
// there. What is not locked the nodes refuse themselves (1099, 1100).

// nodeLocks is what one node is to lock.
type nodeLocks struct {
	p       place    // of the first of the tables' shards there
	schemas []string // of all of them
	list    []string
}

// locks tells whether the session holds LOCK TABLES.
func (s *Session) locks() bool {
	return slices.ContainsFunc(s.pins, func(p pin) bool { return p.why&pinTables != 0 })
}

// lockedHere refuses a statement that uses tables at p while others are locked,
// but none there: its node would not know to refuse it.
func (s *Session) lockedHere(plan *router.Plan, p *place) error {
	if len(s.pins) == 0 || plan.NoTables || !s.locks() {
		return nil
	}
	for i := range s.pins {
		if s.pins[i].conn.Node() == p.node && s.pins[i].why&pinTables != 0 {
			return nil
		}
	}
	if plan.Temporary {
		return temporaryRefused("while tables of other nodes are locked")
	}
	return mysql.Errorf(1100, "Table '%s' was not locked with LOCK TABLES", plan.FirstTable)
}

// lockTables is LOCK TABLES.
func (s *Session) lockTables(l *router.Local) error {
	if err := s.endLocks(); err != nil { // also when what follows fails
		return s.failErr(err)
	}
	nodes, err := s.locksByNode(l)
	if err != nil {
		return s.failErr(err)
	}
	for i := range nodes {
		vars := s.vars
		if len(nodes) > 1 {
			// Who waits here holds what others wait for elsewhere, which no server sees.
			vars = s.boundedLocks()
		}
		if err := s.lockOn(&nodes[i], vars, l.Name); err != nil {
			return s.failErr(errors.Join(err, s.unlock()))
		}
	}
	if !s.autocommit {
		s.beginTx(backend.TxOptions{}) // servers begin one there
	}
	return s.okNothing()
}

// locksByNode sorts the tables by the nodes that have them. Nodes come in the
// order of their names, so that no two sessions that lock wait for each other.
func (s *Session) locksByNode(l *router.Local) ([]nodeLocks, error) {
	var nodes []nodeLocks
	topology := s.router().Topology()
	for i := range l.Locks {
		x := &l.Locks[i]
		name := x.Database
		if name == "" {
			name = s.database
		}
		if name == "" {
			return nil, mysql.Errorf(1046, "No database selected")
		}
		db := topology.Databases[name]
		if db == nil {
			if router.SystemSchema(name) {
				return nil, mysql.Errorf(1235, "This version of Braid doesn't yet support 'LOCK TABLES of %s'", name)
			}
			if s.mariadb() {
				return nil, mysql.Errorf(1146, "Table '%s.%s' doesn't exist", name, x.Table)
			}
			return nil, mysql.Errorf(1049, "Unknown database '%s'", name)
		}
		t := db.Table(x.Table)
		if t == nil {
			return nil, mysql.Errorf(1146, "Table '%s.%s' doesn't exist", name, x.Table)
		}
		if err := s.primeFor(name, t, x.Mode); err != nil {
			return nil, err
		}
		for shard := range db.Shards {
			if t.Kind == router.Single && shard != t.Shard {
				continue
			}
			p := s.shardPlace(name, shard)
			k := slices.IndexFunc(nodes, func(n nodeLocks) bool { return n.p.node == p.node })
			if k < 0 {
				k = len(nodes)
				nodes = append(nodes, nodeLocks{p: p})
			}
			text := ident(p.schema) + "." + ident(t.Name)
			if x.Alias != "" {
				text += " AS " + ident(x.Alias)
			}
			nodes[k].list = append(nodes[k].list, text+" "+x.Mode)
			nodes[k].schemas = append(nodes[k].schemas, p.schema)
		}
	}
	slices.SortFunc(nodes, func(a, b nodeLocks) int { return strings.Compare(a.p.node.Name(), b.p.node.Name()) })
	return nodes, nil
}

// primeFor readies the ids of a table that is about to be locked: whoever looks
// for the first free one reads the table on connections of Braid's own.
func (s *Session) primeFor(database string, t *router.Table, mode string) error {
	if t.Sequence != "block" || strings.HasPrefix(mode, "READ") {
		return nil
	}
	return s.srv.sequences.prime(s.context, s.idSource(database, t))
}

// lockOn locks the tables of one node, and pins the session to it.
func (s *Session) lockOn(n *nodeLocks, vars *backend.Vars, wait string) error {
	ctx, cancel := s.context()
	err := s.srv.tx.FinishOn(ctx, n.p.node) // rule T11
	cancel()
	if err != nil {
		return n.p.shardError(err)
	}
	err = s.onPlace(&n.p, func(c *backend.Conn, need *backend.Need) error {
		need.Vars, need.Write = vars, true
		if err := c.Bring(need); err != nil {
			return err
		}
		if _, err := c.Exec(strings.TrimSpace("LOCK TABLES " + strings.Join(n.list, ",") + " " + wait)); err != nil {
			return err
		}
		s.pin(c, pinTables)
		return nil
	})
	var e *mysql.Error
	if errors.As(err, &e) {
		for _, schema := range n.schemas {
			e = logical(e, schema, n.p.database)
		}
		return e
	}
	return err
}

// askLocks ends LOCK TABLES on the nodes that have ended it themselves, as they do
// when the last of the tables locked there is dropped. What asks
// them is a statement that servers refuse in any case, but under LOCK TABLES with
// an error of its own.
func (s *Session) askLocks() {
	nobody := "braid"
	for s.handlerIndex(nobody) >= 0 {
		nobody += "_"
	}
	freed := false
	for _, p := range slices.Clone(s.pins) {
		if p.why&pinTables == 0 {
			continue
		}
		s.hold(p.conn)
		_, err := p.conn.Query("HANDLER "+nobody+" CLOSE", 1)
		s.drop(p.conn)
		var e *mysql.Error
		switch {
		case !errors.As(err, &e) || backend.IsLost(err) || isPrefix(err):
			s.scrap(p.conn)
		case e.Code == gomysql.ER_UNKNOWN_TABLE: // under LOCK TABLES it is 1192
			for i := range s.pins {
				if s.pins[i].conn == p.conn {
					s.pins[i].why &^= pinTables
					freed = true
				}
			}
		}
	}
	if freed {
		s.unpin(0)
	}
}

// unlockTables is UNLOCK TABLES, which commits only when there are locks.
func (s *Session) unlockTables() error {
	if s.locks() {
		if err := s.endLocks(); err != nil {
			return s.failErr(err)
		}
	}
	return s.okNothing()
}

// endLocks commits the open transaction and ends LOCK TABLES, as far as there
// are any.
func (s *Session) endLocks() error {
	err := s.commitOpen()
	return errors.Join(err, s.unlock())
}

// unlock ends LOCK TABLES, if there are any; no transaction is open. A connection
// that fails is closed, which ends its locks too.
func (s *Session) unlock() error {
	if !s.locks() {
		return nil
	}
	var failed error
	for _, p := range slices.Clone(s.pins) {
		if p.why&pinTables == 0 {
			continue
		}
		s.hold(p.conn)
		p.conn.SetDeadline(time.Now().Add(resetTimeout))
		_, err := p.conn.Exec("UNLOCK TABLES")
		p.conn.SetDeadline(time.Time{})
		s.drop(p.conn)
		if err == nil {
			continue
		}
		if p.why != pinTables { // other things are lost with it
			failed = pinLostError(err)
			s.scrap(p.conn)
			continue
		}
		s.pins = slices.DeleteFunc(s.pins, func(x pin) bool { return x.conn == p.conn })
		p.conn.Destroy()
	}
	s.unpin(pinTables)
	return failed
}
