package proxy

import (
	"context"
	"fmt"
	"reflect"
	"sort"
	"strconv"
	"strings"

	"braid/backend"
	"braid/conf"
	"braid/router"
)

// tablesMax bounds the rows read from information_schema for one shard.
const tablesMax = 1 << 20

// readDatabase reads one database's tables: columns and keys from the first
// shard, the names of the tables from all of them, since single tables may live
// on any. A table that is made or dropped meanwhile, by whatever Braid, would be
// seen on some shards only and without its rule, so it is read again until the
// rules are afterwards what they were before.
func (g *generation) readDatabase(ctx context.Context, d *conf.Database) (_ *router.Database, _ *databaseBase, version uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, schemaTimeout)
	defer cancel()
	if len(d.Shards) == 1 {
		db, base, shards, err := g.readShards(ctx, d)
		if err == nil {
			err = router.BuildTables(db, d, shards)
		}
		return db, base, 0, err
	}
	first := g.cluster.Node(d.Shards[0].Node)
	version, rules, err := readRemembered(ctx, first, d.Name)
	for err == nil {
		var db *router.Database
		var base *databaseBase
		var shards []router.ShardTables
		if db, base, shards, err = g.readShards(ctx, d); err != nil {
			return nil, nil, 0, err
		}
		before, known := version, rules
		if version, rules, err = readRemembered(ctx, first, d.Name); err == nil && version == before && reflect.DeepEqual(rules, known) {
			db.Remembered = rules
			return db, base, version, router.BuildTables(db, d, shards)
		}
	}
	return nil, nil, 0, fmt.Errorf("shard %s: %w", d.Shards[0].Name, err)
}

// readShards reads what the shards of a database hold.
func (g *generation) readShards(ctx context.Context, d *conf.Database) (*router.Database, *databaseBase, []router.ShardTables, error) {
	db := &router.Database{Name: d.Name, Tables: map[string]*router.Table{}, SamePhysical: true}
	base := &databaseBase{conf: d, isolation: d.Isolation}
	var shards []router.ShardTables
	for i, s := range d.Shards {
		schema := s.Schema
		if schema == "" {
			schema = d.Name
		}
		node := g.cluster.Node(s.Node)
		base.nodes = append(base.nodes, node)
		db.Shards = append(db.Shards, router.Shard{Name: s.Name, Node: s.Node, Schema: schema})
		db.SamePhysical = db.SamePhysical && schema == d.Name
		tables, defaults, lower, err := readShard(ctx, node, schema)
		if err != nil {
			return nil, nil, nil, fmt.Errorf("shard %s: %w", s.Name, err)
		}
		flavour := router.MySQL
		if node.MariaDB() {
			flavour = router.MariaDB
		}
		if i == 0 {
			db.Flavour, db.LowerCase, base.defaults = flavour, lower, defaults
		} else if db.Flavour != flavour {
			return nil, nil, nil, fmt.Errorf("shard %s is on a %v node and shard %s on a %v one: the nodes of one database must be of one family", d.Shards[0].Name, db.Flavour, s.Name, flavour)
		}
		shards = append(shards, tables)
	}
	return db, base, shards, nil
}

// readRemembered reads what the first shard's node keeps of a database's schema.
func readRemembered(ctx context.Context, node *backend.Node, db string) (version uint64, rules []conf.Table, err error) {
	c, err := node.Own(ctx, schemaTimeout)
	if err != nil {
		return 0, nil, err
	}
	defer c.Close()
	if version, err = schemaVersion(c, db); err == nil {
		rules, err = rememberedRules(c, db)
	}
	return version, rules, err
}

// readShard reads what one shard's schema holds.
func readShard(ctx context.Context, node *backend.Node, schema string) (router.ShardTables, nodeDefaults, bool, error) {
	var def nodeDefaults
	c, err := node.Own(ctx, schemaTimeout)
	if err != nil {
		return nil, def, false, err
	}
	defer c.Close()
	rows, err := c.Query("SELECT @@version, @@global.sql_mode, @@global.time_zone, @@lower_case_table_names, @@system_time_zone, @@max_sort_length, @@global.character_set_client, @@global.collation_connection, @@global.max_error_count, @@global.max_prepared_stmt_count", 1)
	if err != nil {
		return nil, def, false, err
	}
	def = nodeDefaults{version: string(rows[0][0]), sqlMode: string(rows[0][1]), timeZone: string(rows[0][2]), systemZone: string(rows[0][4]), sortLength: int(parseUint(rows[0][5])),
		clientSet: string(rows[0][6]), collation: string(rows[0][7]), errorsMax: int(parseUint(rows[0][8])), preparedMax: int64(parseUint(rows[0][9]))}
	node.SetStatementsMax(def.preparedMax)
	lower := string(rows[0][3]) != "0"
	lit := quote(schema)
	if rows, err = c.Query("SELECT 1 FROM information_schema.SCHEMATA WHERE SCHEMA_NAME="+lit, 1); err != nil {
		return nil, def, false, err
	}
	if len(rows) == 0 {
		return nil, def, false, fmt.Errorf("node %s has no schema %s: create it there, or correct the shard's schema", node.Name(), schema)
	}
	tables := map[string]*router.TableInfo{}
	if rows, err = c.Query("SELECT TABLE_NAME, TABLE_TYPE, ENGINE FROM information_schema.TABLES WHERE TABLE_SCHEMA="+lit, tablesMax); err != nil {
		return nil, def, false, err
	}
	for _, r := range rows {
		tables[string(r[0])] = &router.TableInfo{Name: string(r[0]), View: strings.HasSuffix(string(r[1]), "VIEW"), Snapshots: string(r[2]) == "InnoDB"}
	}
	if rows, err = c.Query("SELECT TABLE_NAME, VIEW_DEFINITION, COLLATION_CONNECTION FROM information_schema.VIEWS WHERE TABLE_SCHEMA="+lit, tablesMax); err != nil {
		return nil, def, false, err
	}
	for _, r := range rows {
		if t := tables[string(r[0])]; t != nil {
			t.Definition, t.Collation = string(r[1]), string(r[2])
		}
	}
	rows, err = c.Query("SELECT TABLE_NAME, COLUMN_NAME, DATA_TYPE, COLUMN_TYPE, CHARACTER_SET_NAME, COLLATION_NAME, IS_NULLABLE, COLUMN_DEFAULT, EXTRA, ORDINAL_POSITION FROM information_schema.COLUMNS WHERE TABLE_SCHEMA="+lit+" ORDER BY TABLE_NAME, ORDINAL_POSITION", tablesMax)
	if err != nil {
		return nil, def, false, err
	}
	for _, r := range rows {
		t := tables[string(r[0])]
		if t == nil {
			continue
		}
		pos, _ := strconv.Atoi(string(r[9]))
		col := router.Column{Name: string(r[1]), DataType: strings.ToLower(string(r[2])), ColumnType: strings.ToLower(string(r[3])),
			Charset: string(r[4]), Collation: string(r[5]), Nullable: string(r[6]) == "YES", Extra: string(r[8]), Position: pos}
		if col.DataType == "enum" || col.DataType == "set" {
			col.ColumnType = string(r[3]) // its members keep their case
		}
		if r[7] != nil {
			s := string(r[7])
			col.Default = &s
		}
		t.Columns = append(t.Columns, col)
	}
	rows, err = c.Query("SELECT TABLE_NAME, INDEX_NAME, CASE WHEN SUB_PART IS NULL THEN COLUMN_NAME END, NON_UNIQUE FROM information_schema.STATISTICS WHERE TABLE_SCHEMA="+lit+" ORDER BY TABLE_NAME, INDEX_NAME, SEQ_IN_INDEX", tablesMax)
	if err != nil {
		return nil, def, false, err
	}
	for _, r := range rows {
		t := tables[string(r[0])]
		if t == nil {
			continue
		}
		col := -1 // a functional key part has no column, and a beginning is not one
		for i := range t.Columns {
			if t.Columns[i].Name == string(r[2]) {
				col = i
			}
		}
		t.AddIndex(string(r[1]), string(r[3]) == "0", col)
	}
	rows, err = c.Query("SELECT TABLE_NAME, CONSTRAINT_NAME, COLUMN_NAME, IF(REFERENCED_TABLE_SCHEMA=TABLE_SCHEMA, REFERENCED_TABLE_NAME, ''), REFERENCED_COLUMN_NAME FROM information_schema.KEY_COLUMN_USAGE WHERE TABLE_SCHEMA="+lit+" AND REFERENCED_TABLE_NAME IS NOT NULL ORDER BY TABLE_NAME, CONSTRAINT_NAME, ORDINAL_POSITION", tablesMax)
	if err != nil {
		return nil, def, false, err
	}
	for _, r := range rows {
		if t := tables[string(r[0])]; t != nil {
			t.AddForeign(string(r[1]), string(r[2]), string(r[3]), string(r[4]))
		}
	}
	if rows, err = c.Query("SELECT EVENT_OBJECT_TABLE, TRIGGER_NAME FROM information_schema.TRIGGERS WHERE EVENT_OBJECT_SCHEMA="+lit, tablesMax); err != nil {
		return nil, def, false, err
	}
	for _, r := range rows {
		if t := tables[string(r[0])]; t != nil {
			t.Triggers, t.TriggerNames = true, append(t.TriggerNames, string(r[1]))
		}
	}
	out := make(router.ShardTables, 0, len(tables))
	for _, t := range tables {
		out = append(out, *t)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Name < out[j].Name })
	return out, def, lower, nil
}

// quote makes an SQL string literal that means the same under every sql_mode:
// it must not contain a backslash.
func quote(s string) string {
	return "'" + strings.ReplaceAll(s, "'", "''") + "'"
}
