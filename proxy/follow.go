package proxy

import (
	"context"
	"errors"
	"sync"
	"time"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"
	"go.uber.org/zap"

	"braid/backend"
	"braid/internal/mysql"
	"braid/router"
)

const (
	// followInterval is how often a Braid asks whether another has changed a schema.
	followInterval = time.Second
	// followTimeout bounds one such question.
	followTimeout = 3 * time.Second
)

// follower notices the schema changes that other Braids make, by the version
// that each of them raises. It keeps one connection for each database of several
// shards. It is safe for concurrent use.
type follower struct {
	mu struct {
		sync.Mutex
		watched map[string]*watched // by database
	}
}

// watched is one database's schema as the follower sees it.
type watched struct {
	mu struct {
		sync.Mutex
		c *backend.Conn // nil: none is open
	}
}

func newFollower() *follower {
	f := &follower{}
	f.mu.watched = map[string]*watched{}
	return f
}

func (f *follower) of(db string) *watched {
	f.mu.Lock()
	defer f.mu.Unlock()
	w := f.mu.watched[db]
	if w == nil {
		w = &watched{}
		f.mu.watched[db] = w
	}
	return w
}

// close closes the connections.
func (f *follower) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, w := range f.mu.watched {
		w.mu.Lock()
		w.drop()
		w.mu.Unlock()
	}
}

// drop closes the connection; w.mu is held.
func (w *watched) drop() {
	if w.mu.c != nil {
		_ = w.mu.c.Close()
		w.mu.c = nil
	}
}

// version asks the node for the version of a database's schema.
func (w *watched) version(ctx context.Context, node *backend.Node, db string) (uint64, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mu.c != nil && w.mu.c.Node() != node {
		w.drop()
	}
	for again := w.mu.c != nil; ; again = false {
		if w.mu.c == nil {
			c, err := node.Own(ctx, followTimeout)
			if err != nil {
				return 0, err
			}
			w.mu.c = c
		}
		w.mu.c.SetDeadline(time.Now().Add(followTimeout))
		v, err := schemaVersion(w.mu.c, db)
		if err == nil {
			return v, nil
		}
		w.drop()
		if !again {
			return 0, err
		}
	}
}

// changed tells whether a database's schema is another than g has.
func (f *follower) changed(ctx context.Context, g *generation, db string) (bool, error) {
	base := g.base[db]
	if base == nil || len(base.nodes) < 2 {
		return false, nil
	}
	v, err := f.of(db).version(ctx, base.nodes[0], db)
	return err == nil && v != g.versions[db], err
}

// followSchemas reads the schemas again when another Braid has changed one,
// until ctx ends.
func (s *Server) followSchemas(ctx context.Context) {
	defer s.follower.close()
	t := time.NewTicker(followInterval)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		g := s.gen.Load()
		var wg sync.WaitGroup
		for db := range g.base {
			wg.Go(func() {
				if changed, err := s.follower.changed(ctx, g, db); err == nil && changed && ctx.Err() == nil {
					if err := s.catchUp(ctx, db); err != nil {
						s.log.Warn("reading a schema that another Braid has changed", zap.String("database", db), zap.Error(err))
					}
				}
			})
		}
		wg.Wait()
	}
}

// catchUp reads the schemas again, unless that has happened meanwhile.
func (s *Server) catchUp(ctx context.Context, db string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*schemaTimeout)
	defer cancel()
	s.change.Lock() // before looking: of many sessions that miss a table, one reads
	defer s.change.Unlock()
	if changed, err := s.follower.changed(ctx, s.gen.Load(), db); err != nil || !changed {
		return err
	}
	return s.refresh(ctx)
}

// plan plans a statement. Where it names what the schema does not have, another
// Braid may have made it just now.
func (s *Session) plan(q *router.Query) (*router.Plan, error) {
	plan, err := s.router().Plan(q)
	db := q.Database
	if plan != nil && plan.Database != "" {
		db = plan.Database
	}
	if !unknownName(plan, err) || !s.renew(db) {
		return plan, err
	}
	return s.router().Plan(q)
}

// unknownName tells whether a statement was not planned because of a name.
func unknownName(plan *router.Plan, err error) bool {
	var e *mysql.Error
	if !errors.As(err, &e) && plan != nil && plan.Kind == router.KindRefuse {
		e = plan.Err
	}
	if e == nil {
		return false
	}
	switch e.Code {
	case gomysql.ER_NO_SUCH_TABLE, gomysql.ER_BAD_TABLE_ERROR, gomysql.ER_BAD_FIELD_ERROR, gomysql.ER_KEY_COLUMN_DOES_NOT_EXITS,
		gomysql.ER_WRONG_VALUE_COUNT_ON_ROW, gomysql.ER_UNKNOWN_ERROR: // the last: a table that cannot be used
		return true
	}
	return false
}

// renew makes the session see what another Braid has changed in a database's
// schema; it is false when there is nothing new.
func (s *Session) renew(db string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), followTimeout)
	defer cancel()
	if changed, err := s.srv.follower.changed(ctx, s.gen, db); err != nil || !changed {
		return false
	}
	if s.srv.catchUp(ctx, db) != nil {
		return false
	}
	return s.follow()
}

// follow takes the session to the newest generation, unless its transaction
// began with other nodes or settings. It tells whether the session had another.
func (s *Session) follow() bool {
	g := s.srv.gen.Load()
	if g == s.gen || (s.tx != nil || s.xaOpen != nil) && (g.cluster != s.gen.cluster || g.cfg != s.gen.cfg) {
		return false
	}
	s.gen = g
	return true
}
