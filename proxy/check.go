package proxy

import (
	"context"
	"fmt"
	"strings"

	"go.uber.org/zap"

	"braid/backend"
	"braid/conf"
	"braid/router"
)

// Finding is one thing CheckLive looked at.
type Finding struct {
	Level string // "ok", "warn" or "error"
	Node  string
	What  string
	Fix   string // what to do; "" when there is nothing to do
}

// CheckLive looks at the nodes of a configuration as Braid would use them:
// reachability, versions, privileges, schemas, tables, sharding keys (rule T19).
// It changes nothing. The error is of the check itself.
func CheckLive(ctx context.Context, cfg *conf.Config) ([]Finding, error) {
	cluster, err := backend.NewCluster(cfg, nil, zap.NewNop())
	if err != nil {
		return nil, err
	}
	defer cluster.Retire(nil)
	var out []Finding
	add := func(level, node, fix, format string, args ...any) {
		out = append(out, Finding{level, node, fmt.Sprintf(format, args...), fix})
	}
	identity := map[string]string{}
	for _, n := range cluster.Nodes() {
		c, err := n.Own(ctx, schemaTimeout)
		if err != nil {
			add("error", n.Name(), "start the server, or correct nodes.primary, user and password", "%v", err)
			continue
		}
		checkNode(c, n, identity, add)
		_ = c.Close()
	}
	g := &generation{cfg: cfg, cluster: cluster, base: map[string]*databaseBase{}, unread: map[string]error{}}
	if err := g.readSchemas(ctx); err != nil {
		add("error", "", "correct the table's entry in the configuration, or the table", "%v", err)
		return out, nil
	}
	for i := range cfg.Databases {
		name := cfg.Databases[i].Name
		if err := g.unread[name]; err != nil {
			add("error", "", "create the shard's schema, or correct the configuration", "database %s: %v", name, err)
			continue
		}
		db := g.topology.Databases[name]
		counts := map[router.TableKind]int{}
		for _, t := range db.Tables {
			counts[t.Kind]++
		}
		broken, unchecked := db.Problems()
		for table, why := range broken {
			add("error", "", "correct the table's entry in the configuration, or the table", "database %s, table %s %s", name, table, why)
		}
		for table, all := range unchecked {
			for _, why := range all {
				add("error", "", "", "database %s, table %s: %s", name, table, why)
			}
		}
		for _, t := range db.Tables {
			if t.Kind != router.Global || t.View || t.Broken != "" || len(db.Shards) < 2 {
				continue
			}
			if differ, err := g.copiesDiffer(ctx, db, t, func(_ *backend.Conn, f func() error) error { return f() }); err != nil {
				add("error", "", "", "database %s, table %s: its copies cannot be compared: %v", name, t.Name, err)
			} else if differ != "" {
				add("error", "", "make the copies alike by hand", "database %s, table %s: %s", name, t.Name, differ)
			}
		}
		drifts, err := g.driftOf(ctx, db)
		if err != nil {
			add("error", "", "", "database %s: its shards cannot be compared: %v", name, err)
		}
		for _, d := range drifts {
			add("warn", "", "make the shards alike: SHOW DRIFT on the admin port lists what differs", "database %s, shard %s, %s: %s", name, d.shard, d.object, d.difference)
		}
		add("ok", "", "", "database %s: %d shards, %d sharded, %d global and %d single tables", name, len(db.Shards), counts[router.Sharded], counts[router.Global], counts[router.Single])
	}
	return out, nil
}

// Explain returns where a statement would go under cfg, with which text, and
// how the rows would be put together. It reads the schemas from the nodes.
func Explain(ctx context.Context, cfg *conf.Config, database, stmt string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*schemaTimeout)
	defer cancel()
	g, err := buildGeneration(ctx, cfg, nil, 1, zap.NewNop())
	if err != nil {
		return "", err
	}
	defer g.cluster.Retire(nil)
	if database == "" && len(cfg.Databases) == 1 {
		database = cfg.Databases[0].Name
	}
	if err := g.unread[database]; err != nil {
		return "", err
	}
	facts := router.Facts{Version: "8.0.0", User: "explain@localhost", CurrentUser: "explain@%"}
	q := &router.Query{Text: []byte(stmt), Database: database, Charset: "utf8mb4", Facts: &facts}
	if b := g.base[database]; b != nil {
		q.Mode = parseMode(b.defaults.sqlMode)
	}
	plan, err := g.router.Plan(q)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString(plan.String())
	switch plan.Kind {
	case router.KindRefuse:
		return b.String(), plan.Err
	case router.KindLocal:
		return b.String(), nil
	}
	var r router.Route
	if err := plan.Bind(q, &r); err != nil {
		return b.String(), err
	}
	for _, t := range r.Targets {
		if plan.Database == "" {
			fmt.Fprintf(&b, "any node: %s\n", t.Text)
			continue
		}
		sh := g.topology.Databases[plan.Database].Shards[t.Shard]
		fmt.Fprintf(&b, "shard %s (node %s, schema %s): %s\n", sh.Name, sh.Node, sh.Schema, t.Text)
	}
	if r.Gather != nil {
		fmt.Fprintf(&b, "gather: %s\nthen: %s\n", r.Gather, r.Gather.Text)
	}
	if r.Merge != nil {
		fmt.Fprintf(&b, "merge: %s\n", r.Merge.Describe(r.Limit))
	}
	if r.Evaluate != nil {
		fmt.Fprintf(&b, "then: %s\n", r.Evaluate.Text)
	}
	return b.String(), nil
}
