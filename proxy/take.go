package proxy

import (
	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"braid/backend"
	"braid/internal/mysql"
	"braid/router"
)

// Where a statement runs, and the connections that it takes there and gives back.

// place is where target t of a plan runs.
func (s *Session) place(plan *router.Plan, shard int) place {
	if plan.Database == "" {
		b := s.gen.anyBase("")
		if b == nil {
			return place{}
		}
		return place{node: b.nodes[0]}
	}
	sh := &s.gen.topology.Databases[plan.Database].Shards[shard]
	return place{node: s.gen.base[plan.Database].nodes[shard], schema: sh.Schema, database: plan.Database, shard: sh.Name, qualified: plan.Qualified}
}

// need is what a statement of plan wants its connection to be like at p.
func (s *Session) need(plan *router.Plan, p *place) backend.Need {
	leg := s.tx != nil && (!plan.NoTables || s.tx.On(p.node) != nil && s.tx.On(p.node) == s.pinned(p.node))
	return backend.Need{Schema: p.schema, Vars: s.varsFor(plan), Autocommit: !leg && s.autocommit, Write: plan.Writer || s.tx != nil && !plan.Rows}
}

// take gets the connection for a statement at p: the transaction's leg, or one
// of the pool. Where the statement goes to several, who takes them all announces
// that they write (Tx.Announce).
func (s *Session) take(plan *router.Plan, p *place) (*backend.Conn, error) {
	if p.node == nil {
		return nil, mysql.Errorf(1105, "no node can be used: every database's schema is unread; see the log")
	}
	if err := s.lockedHere(plan, p); err != nil {
		return nil, err
	}
	if why := keeps(plan); why != 0 && s.tx != nil && s.tx.State() == backend.TxActive && s.pinned(p.node) == nil {
		if c := s.tx.On(p.node); c != nil {
			s.pin(c, why) // or there would be another connection to keep to this node
		}
	}
	foundRows := s.caps&gomysql.CLIENT_FOUND_ROWS != 0
	inTx := s.tx != nil && !plan.NoTables
	finished := plan.NoTables || !s.srv.tx.Unfinished()
	var c *backend.Conn
	if inTx {
		if s.tx.State() == backend.TxActive && finished {
			c = s.tx.On(p.node)
		}
	} else if finished {
		if c = s.pinned(p.node); c == nil {
			c = p.node.Idle(foundRows, p.schema, s.vars)
		}
	}
	if c == nil {
		var err error
		if c, err = s.takeNew(plan, p, inTx, foundRows); err != nil {
			return nil, err
		}
	}
	if inTx && plan.Writer {
		s.tx.Wrote(p.node)
		if len(s.route.Targets) == 1 {
			s.tx.Announce(c)
		}
	}
	s.hold(c)
	return c, nil
}

// takeNew is take where no connection is at hand: it may open one, and wait.
func (s *Session) takeNew(plan *router.Plan, p *place, inTx, foundRows bool) (*backend.Conn, error) {
	ctx, cancel := s.context()
	defer cancel()
	if inTx {
		c, err := s.tx.Leg(ctx, p.node, p.schema, s.vars)
		if err != nil {
			e := s.tx.Failed(p.node, err)
			s.noteEnd()
			return nil, e
		}
		return c, nil
	}
	// What this Braid's clients were told is committed is to be seen (rule T11).
	if !plan.NoTables {
		if err := s.srv.tx.FinishOn(ctx, p.node); err != nil {
			return nil, err
		}
	}
	if c := s.pinned(p.node); c != nil {
		return c, nil
	}
	return p.node.Get(ctx, foundRows, p.schema, s.vars)
}

// broken gives up a connection whose answer cannot be read to its end, or that
// said something unexpected, and returns what the client is told.
func (s *Session) broken(c *backend.Conn, plan *router.Plan, p *place, err error) error {
	stopped := s.drop(c)
	if s.tx != nil && !plan.NoTables {
		e := s.tx.Failed(p.node, p.shardError(err))
		s.noteEnd()
		if s.tx != nil && s.tx.State() == backend.TxUnknown {
			return &errClose{err}
		}
		if stopped != nil {
			return stopped
		}
		return e
	}
	pinned := s.isPinned(c)
	s.scrap(c)
	if stopped != nil {
		return stopped
	}
	if pinned {
		return pinLostError(p.shardError(err))
	}
	return p.shardError(err)
}

// done gives a pool connection back after its answer was read to the end; a
// leg stays with its transaction. ok is the answer's last packet.
func (s *Session) done(c *backend.Conn, plan *router.Plan, ok *mysql.OK) {
	stopped := s.drop(c)
	if s.tx != nil && !plan.NoTables || s.isPinned(c) {
		return
	}
	if stopped != nil || ok.Status&gomysql.SERVER_STATUS_IN_TRANS != 0 {
		// A KILL may still be in the air, or a transaction was opened that nobody
		// here knows of.
		s.scrap(c)
		return
	}
	s.giveBack(c)
}
