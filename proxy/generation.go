package proxy

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"braid/backend"
	"braid/conf"
	"braid/internal/mysql"
	"braid/router"
)

// generation is one immutable snapshot: configuration, nodes, schema, plans. A
// statement, and a transaction, keeps the one it began with.
type generation struct {
	number   uint64
	cfg      *conf.Config
	edge     edge
	cluster  *backend.Cluster
	topology *router.Topology
	router   *router.Router
	users    map[string]conf.User
	secrets  map[string]credential
	base     map[string]*databaseBase
	columns  columnsMemory
	scratch  sync.Map // *backend.Node -> true: the node has the schema for copies
	// unread are the databases whose schema could not be read, with the reason:
	// their statements are refused with it until a later generation has it.
	unread map[string]error
	// versions are how often each schema had been changed through Braid when it
	// was read; databases of one shard have none.
	versions map[string]uint64
}

// credential is what a user proves himself with; at most one is set.
type credential struct {
	password string
	hash     string
}

// databaseBase is what sessions of a database begin with.
type databaseBase struct {
	conf      *conf.Database
	nodes     []*backend.Node // of the shards, by shard index
	isolation string
	defaults  nodeDefaults
}

// nodeDefaults are the settings of the database's first node that every
// session starts from, on all nodes alike.
type nodeDefaults struct {
	version  string
	sqlMode  string
	timeZone string
	// systemZone is what the time zone SYSTEM is on the node.
	systemZone string
	sortLength int // max_sort_length, bytes
	// clientSet is the global character_set_client, collation its default one as
	// the global collation_connection says where that fits.
	clientSet, collation string
	errorsMax            int   // max_error_count
	preparedMax          int64 // max_prepared_stmt_count
}

// buildGeneration makes the snapshot after before (which may be nil). A
// database whose nodes cannot be reached does not stop the others.
func buildGeneration(ctx context.Context, cfg *conf.Config, before *generation, number uint64, log *zap.Logger) (*generation, error) {
	var old *backend.Cluster
	if before != nil {
		old = before.cluster
	}
	edge, err := newEdge(&cfg.Proxy)
	if err != nil {
		return nil, err
	}
	cluster, err := backend.NewCluster(cfg, old, log)
	if err != nil {
		return nil, err
	}
	g := &generation{number: number, cfg: cfg, edge: edge, cluster: cluster, users: map[string]conf.User{}, secrets: map[string]credential{},
		base: map[string]*databaseBase{}, unread: map[string]error{}}
	for _, u := range cfg.Users {
		c := credential{hash: u.PasswordHash}
		if c.hash == "" {
			if c.password, err = u.Secret.Resolve(os.LookupEnv, os.ReadFile); err != nil {
				return nil, fmt.Errorf("user %s: %w", u.Name, err)
			}
		}
		g.users[u.Name], g.secrets[u.Name] = u, c
	}
	if err := g.readSchemas(ctx); err != nil {
		return nil, err
	}
	g.logUnread(log)
	g.logProblems(before, log)
	return g, nil
}

// logProblems tells the operator what is wrong with tables, once for each.
func (g *generation) logProblems(before *generation, log *zap.Logger) {
	for name, db := range g.topology.Databases {
		oldBroken, oldUnchecked := map[string]string{}, map[string][]string{}
		if before != nil && before.topology.Databases[name] != nil {
			oldBroken, oldUnchecked = before.topology.Databases[name].Problems()
		}
		broken, unchecked := db.Problems()
		for table, why := range broken {
			if oldBroken[table] != why {
				log.Error("table cannot be used", zap.String("database", name), zap.String("table", table), zap.String("reason", why))
			}
		}
		for table, all := range unchecked {
			for _, why := range all {
				if !slices.Contains(oldUnchecked[table], why) {
					log.Error("a constraint is not enforced over the shards", zap.String("database", name), zap.String("table", table), zap.String("reason", why))
				}
			}
		}
	}
}

// withSchema is the generation that follows g when only the schema changed.
func (g *generation) withSchema(ctx context.Context, number uint64, log *zap.Logger) (*generation, error) {
	n := &generation{number: number, cfg: g.cfg, edge: g.edge, cluster: g.cluster, users: g.users, secrets: g.secrets,
		base: map[string]*databaseBase{}, unread: map[string]error{}}
	if err := n.readSchemas(ctx); err != nil {
		return nil, err
	}
	n.keep(g, log)
	n.logUnread(log)
	n.logProblems(g, log)
	return n, nil
}

// keep takes over from old, as they were, the databases that could not be read
// now: a node that is down must not stop the others. Their version is the old
// one, so that they are read again.
func (g *generation) keep(old *generation, log *zap.Logger) {
	for name, err := range g.unread {
		if db := old.topology.Databases[name]; db != nil {
			g.topology.Databases[name], g.base[name], g.versions[name] = db, old.base[name], old.versions[name]
			delete(g.unread, name)
			log.Warn("a schema could not be read again; it is used as it was", zap.String("database", name), zap.Error(err))
		}
	}
}

func (g *generation) logUnread(log *zap.Logger) {
	for name, err := range g.unread {
		log.Error("database is not usable: its schema could not be read", zap.String("database", name), zap.Error(err))
	}
}

// readSchemas reads every database's tables from its shards and builds the router.
func (g *generation) readSchemas(ctx context.Context) error {
	g.topology = &router.Topology{Databases: map[string]*router.Database{}}
	g.versions = map[string]uint64{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	var invalid error
	for i := range g.cfg.Databases {
		d := &g.cfg.Databases[i]
		wg.Add(1)
		go func() {
			defer wg.Done()
			db, base, version, err := g.readDatabase(ctx, d)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				if _, ok := err.(*router.RuleError); ok {
					if invalid == nil {
						invalid = err
					}
					return
				}
				g.unread[d.Name] = err
				return
			}
			g.topology.Databases[d.Name] = db
			g.base[d.Name] = base
			g.versions[d.Name] = version
		}()
	}
	wg.Wait()
	if invalid != nil {
		return invalid
	}
	g.router = router.New(g.topology, router.Options{PlansMax: g.cfg.Proxy.PlansMax, PlanCacheOff: g.cfg.Proxy.PlanCacheOff})
	return nil
}

// schemaTimeout bounds the reading of one database's schema.
const schemaTimeout = 30 * time.Second

// anyBase returns the base of db, or of any database when db is "".
func (g *generation) anyBase(db string) *databaseBase {
	if b := g.base[db]; b != nil {
		return b
	}
	for i := range g.cfg.Databases {
		if b := g.base[g.cfg.Databases[i].Name]; b != nil {
			return b
		}
	}
	return nil
}

// checkDatabase tells whether a user may use a database, in MySQL's errors.
func (g *generation) checkDatabase(user, host, db string) *mysql.Error {
	u, ok := g.users[user]
	allowed := ok && len(u.Databases) == 0
	for _, d := range u.Databases {
		allowed = allowed || d == db
	}
	if db == "information_schema" {
		return nil
	}
	if err := g.unread[db]; err != nil && allowed {
		return mysql.Errorf(1105, "database %s is not usable: %v", db, err)
	}
	if g.topology.Databases[db] == nil {
		return mysql.Errorf(1049, "Unknown database '%s'", db)
	}
	if !allowed {
		return mysql.Errorf(1044, "Access denied for user '%s'@'%s' to database '%s'", user, host, db)
	}
	return nil
}
