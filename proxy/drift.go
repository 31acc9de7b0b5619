package proxy

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"braid/backend"
	"braid/router"
)

// drift is an object of a database that is not the same on the shards where it
// should be.
type drift struct {
	database, object, shard, difference string
}

// driftOf compares a database's objects between its shards: tables and views that
// are on all of them, triggers, stored programs and events. What only one shard
// is to have is looked for on the others.
func (g *generation) driftOf(ctx context.Context, db *router.Database) ([]drift, error) {
	if len(db.Shards) < 2 {
		return nil, nil
	}
	found := make([]map[string]string, len(db.Shards)) // by object, "TABLE t"
	errs := make([]error, len(db.Shards))
	var wg sync.WaitGroup
	for i := range db.Shards {
		wg.Go(func() {
			if found[i], errs[i] = objectsOf(ctx, g.base[db.Name].nodes[i], db.Shards[i].Schema); errs[i] != nil {
				errs[i] = fmt.Errorf("shard %s: %w", db.Shards[i].Name, errs[i])
			}
		})
	}
	wg.Wait()
	var names []string
	for i := range found {
		if errs[i] != nil {
			return nil, errs[i]
		}
		for name := range found[i] {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var out []drift
	for _, name := range slices.Compact(names) {
		kind, table, _ := strings.Cut(name, " ")
		label := strings.ToLower(kind) + " " + table
		if t := db.Table(table); t != nil && t.Kind == router.Single && t.Broken == "" && (kind == "TABLE" || kind == "VIEW") {
			for i := range found {
				if _, has := found[i][name]; has && i != t.Shard {
					out = append(out, drift{db.Name, label, db.Shards[i].Name, "is there too, but only shard " + db.Shards[t.Shard].Name + " is asked for it"})
				}
			}
			continue
		}
		first := slices.IndexFunc(found, func(m map[string]string) bool { return m[name] != "" })
		onSingle := kind == "TRIGGER" && singleTrigger(db, found, name)
		for i := range found {
			switch text := found[i][name]; {
			case text == "" && !onSingle:
				out = append(out, drift{db.Name, label, db.Shards[i].Name, "is missing; shard " + db.Shards[first].Name + " has it"})
			case text != "" && text != found[first][name]:
				a, b := firstDifference(text, found[first][name])
				out = append(out, drift{db.Name, label, db.Shards[i].Name, fmt.Sprintf("has %q, shard %s has %q", a, db.Shards[first].Name, b)})
			}
		}
	}
	return out, nil
}

// singleTrigger tells whether a trigger is a single table's: the trigger's text
// names its table behind ON.
func singleTrigger(db *router.Database, found []map[string]string, name string) bool {
	for _, m := range found {
		_, rest, ok := strings.Cut(m[name], " ON ")
		if !ok {
			continue
		}
		table, _, _ := strings.Cut(rest, " FOR EACH ROW")
		if t := db.Table(strings.Trim(strings.TrimSpace(table), "`")); t != nil && t.Kind == router.Single {
			return true
		}
	}
	return false
}

// objectsOf reads the definitions of all that a schema has, by kind and name.
func objectsOf(ctx context.Context, node *backend.Node, schema string) (map[string]string, error) {
	c, err := node.Own(ctx, 4*schemaTimeout)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	lit := quote(schema)
	rows, err := c.Query("SELECT IF(TABLE_TYPE LIKE '%VIEW','VIEW','TABLE'), TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA="+lit+
		" UNION ALL SELECT ROUTINE_TYPE, ROUTINE_NAME FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA="+lit+
		" UNION ALL SELECT 'TRIGGER', TRIGGER_NAME FROM information_schema.TRIGGERS WHERE TRIGGER_SCHEMA="+lit+
		" UNION ALL SELECT 'EVENT', EVENT_NAME FROM information_schema.EVENTS WHERE EVENT_SCHEMA="+lit, tablesMax)
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, r := range rows {
		kind, name := string(r[0]), string(r[1])
		if out[kind+" "+name], err = definition(c, schema, kind, name); err != nil {
			return nil, err
		}
	}
	return out, nil
}
