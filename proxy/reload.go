package proxy

import (
	"context"
	"fmt"
	"strings"

	"go.uber.org/zap"

	"braid/conf"
)

// Reload validates cfg against the nodes and makes it the current
// configuration; statements and transactions under way keep the one they began
// with. When it fails nothing has changed. Listeners keep their addresses until
// a restart.
//
// Braid moves no rows, so a change after which the rows of a table that exists
// would be looked for elsewhere than they are is an error.
func (s *Server) Reload(cfg *conf.Config) ([]conf.Change, error) {
	s.change.Lock()
	defer s.change.Unlock()
	old := s.gen.Load()
	changes := conf.Diff(old.cfg, cfg)
	g, err := buildGeneration(context.Background(), cfg, old, old.number+1, s.log)
	if err == nil {
		err = g.follows(old, changes)
	}
	if err != nil {
		if g != nil {
			g.cluster.Retire(old.cluster)
		}
		return nil, err
	}
	s.gen.Store(g)
	s.sets.clear()
	old.cluster.Retire(g.cluster)
	ctx, cancel := context.WithTimeout(context.Background(), schemaTimeout)
	defer cancel()
	if err := s.tx.Prepare(ctx); err != nil {
		s.log.Error("preparing the nodes for transactions", zap.Error(err))
	}
	s.log.Info("configuration reloaded", zap.Uint64("generation", g.number), zap.Int("changes", len(changes)))
	return changes, nil
}

// moveAdvice is what an operator does who means a change of placement.
const moveAdvice = "Braid moves no rows: keep its placement, or stop Braid, move the rows, and start it with the new configuration"

// follows tells why g cannot take over from old while Braid serves: a database
// that could be used and no longer can, or rows that would be looked for
// elsewhere. Of a database whose tables old could not read, every change of
// placement is one: nobody knows which tables it would concern.
func (g *generation) follows(old *generation, changes []conf.Change) error {
	for db, why := range g.unread {
		if old.unread[db] == nil {
			return fmt.Errorf("database %s: %w", db, why)
		}
	}
	for name, db := range old.topology.Databases {
		next := g.topology.Databases[name]
		if next == nil {
			continue // no longer served
		}
		if moved := db.Moved(next); moved != nil {
			return fmt.Errorf("%w; %s", moved, moveAdvice)
		}
	}
	for name := range old.unread {
		for _, c := range changes {
			if c.Effect == conf.EffectPlacement && strings.HasPrefix(c.Path, "databases."+name+".") {
				return fmt.Errorf("%v: the tables of database %s could not be read so far, so this may concern rows that exist; %s", c, name, moveAdvice)
			}
		}
	}
	return nil
}
