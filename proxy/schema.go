package proxy

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"sync"

	"braid/backend"
	"braid/conf"
	"braid/router"
)

// tablesMax bounds the rows read from information_schema for one node.
const tablesMax = 1 << 20

// nodesAtOnce bounds the nodes of a database that are read side by side.
const nodesAtOnce = 16

// readDatabase reads one database's tables: columns and keys from the first
// shard, the names of the tables from all of them, since single tables may live
// on any. A table that is made or dropped meanwhile, by whatever Braid, would be
// seen on some shards only and without its rule, so it is read again until the
// rules are afterwards what they were before.
func (g *generation) readDatabase(ctx context.Context, d *conf.Database) (_ *router.Database, _ *databaseBase, version uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, schemaTimeout)
	defer cancel()
	first, err := g.cluster.Node(d.Shards[0].Node).Own(ctx, schemaTimeout)
	if err != nil {
		return nil, nil, 0, fmt.Errorf("shard %s: %w", d.Shards[0].Name, err)
	}
	defer first.Close()
	if len(d.Shards) == 1 {
		db, base, shards, err := g.readShards(ctx, d, first)
		if err == nil {
			err = router.BuildTables(db, d, shards)
		}
		return db, base, 0, err
	}
	version, rules, err := readRemembered(first, d.Name)
	for err == nil {
		var db *router.Database
		var base *databaseBase
		var shards []router.ShardTables
		if db, base, shards, err = g.readShards(ctx, d, first); err != nil {
			return nil, nil, 0, err
		}
		before, known := version, rules
		if version, rules, err = readRemembered(first, d.Name); err == nil && version == before && reflect.DeepEqual(rules, known) {
			db.Remembered = rules
			return db, base, version, router.BuildTables(db, d, shards)
		}
	}
	return nil, nil, 0, fmt.Errorf("shard %s: %w", d.Shards[0].Name, err)
}

// readShards reads what the shards of a database hold, the nodes side by side and
// each on one connection. first is a connection to the node of the first shard.
func (g *generation) readShards(ctx context.Context, d *conf.Database, first *backend.Conn) (*router.Database, *databaseBase, []router.ShardTables, error) {
	db := &router.Database{Name: d.Name, Tables: map[string]*router.Table{}, SamePhysical: true}
	base := &databaseBase{conf: d, isolation: d.Isolation}
	schemas := map[*backend.Node][]string{}
	for _, s := range d.Shards {
		schema := s.Schema
		if schema == "" {
			schema = d.Name
		}
		node := g.cluster.Node(s.Node)
		base.nodes = append(base.nodes, node)
		db.Shards = append(db.Shards, router.Shard{Name: s.Name, Node: s.Node, Schema: schema})
		db.SamePhysical = db.SamePhysical && schema == d.Name
		schemas[node] = append(schemas[node], schema)
	}
	read := readNodes(ctx, schemas, first)
	var shards []router.ShardTables
	for i, s := range d.Shards {
		r := read[base.nodes[i]]
		tables, found := r.schemas[db.Shards[i].Schema]
		if r.err == nil && !found {
			r.err = fmt.Errorf("node %s has no schema %s: create it there, or correct the shard's schema", s.Node, db.Shards[i].Schema)
		}
		if r.err != nil {
			return nil, nil, nil, fmt.Errorf("shard %s: %w", s.Name, r.err)
		}
		flavour := router.MySQL
		if base.nodes[i].MariaDB() {
			flavour = router.MariaDB
		}
		if i == 0 {
			db.Flavour, db.LowerCase, base.defaults = flavour, r.lower, r.defaults
		} else if db.Flavour != flavour {
			return nil, nil, nil, fmt.Errorf("shard %s is on a %v node and shard %s on a %v one: the nodes of one database must be of one family", d.Shards[0].Name, db.Flavour, s.Name, flavour)
		}
		shards = append(shards, tables)
	}
	return db, base, shards, nil
}

// readNodes reads the given schemas of each node.
func readNodes(ctx context.Context, schemas map[*backend.Node][]string, first *backend.Conn) map[*backend.Node]nodeSchemas {
	var mu sync.Mutex
	read := map[*backend.Node]nodeSchemas{}
	var wg sync.WaitGroup
	turn := make(chan struct{}, nodesAtOnce)
	for node, names := range schemas {
		turn <- struct{}{}
		wg.Go(func() {
			defer func() { <-turn }()
			var r nodeSchemas
			if node == first.Node() {
				r = readNode(first, names)
			} else if c, err := node.Own(ctx, schemaTimeout); err != nil {
				r.err = err
			} else {
				r = readNode(c, names)
				_ = c.Close()
			}
			mu.Lock()
			defer mu.Unlock()
			read[node] = r
		})
	}
	wg.Wait()
	return read
}

// readRemembered reads what the first shard's node keeps of a database's schema.
func readRemembered(c *backend.Conn, db string) (version uint64, rules []conf.Table, err error) {
	if version, err = schemaVersion(c, db); err == nil {
		rules, err = rememberedRules(c, db)
	}
	return version, rules, err
}

// quote makes an SQL string literal that means the same under every sql_mode:
// it must not contain a backslash.
func quote(s string) string {
	return "'" + strings.ReplaceAll(s, "'", "''") + "'"
}
