package router

import (
	"fmt"
	"slices"
	"strings"
)

// foreignKey is a foreign key as information_schema describes it.
type foreignKey struct {
	name, table       string // table is "" for a table of another schema
	columns, referred []string
}

// AddForeign adds a column to the foreign key of that name. refTable is "" when
// the key refers to another schema. Key parts come in their order.
func (t *TableInfo) AddForeign(name, column, refTable, refColumn string) {
	n := len(t.foreign)
	if n == 0 || t.foreign[n-1].name != name {
		t.foreign = append(t.foreign, foreignKey{name: name, table: refTable})
		n++
	}
	k := &t.foreign[n-1]
	k.columns, k.referred = append(k.columns, column), append(k.referred, refColumn)
}

// check notes the constraints of a table that its shards cannot enforce.
func (b *builder) check(t *Table, info TableInfo) {
	if t == nil || t.Broken != "" || len(b.db.Shards) < 2 {
		return
	}
	check := b.db.Placements[b.db.fold(t.Name)].UniqueCheck
	if t.Kind == Sharded && check == "lock" && !t.View {
		b.lockKeys(t, info)
	}
	if t.Kind == Sharded && check == "" {
		key := names(t.Rule.Columns)
		for _, k := range info.indexes {
			if !k.unique {
				continue
			}
			var columns []string
			for _, c := range k.columns {
				if c >= 0 {
					columns = append(columns, t.Columns[c].Name)
				}
			}
			if why := uniqueProblem(k.name, columns, key); why != "" {
				t.Unchecked = append(t.Unchecked, why)
			}
		}
	}
	for _, k := range info.foreign {
		if why := b.db.foreignProblem(tableSite(t), k); why != "" {
			t.Unchecked = append(t.Unchecked, why)
		}
	}
}

func names(columns []Column) []string {
	out := make([]string, len(columns))
	for i := range columns {
		out[i] = columns[i].Name
	}
	return out
}

// uniqueProblem says why a unique key cannot be enforced over shards: columns
// are those that are in it whole. It is "" when it can.
func uniqueProblem(name string, columns, key []string) string {
	for _, k := range key {
		if !slices.ContainsFunc(columns, func(c string) bool { return strings.EqualFold(c, k) }) {
			return fmt.Sprintf("unique key %s without the sharding key column %s: a shard cannot see the rows of the others; add %s to the key, shard by another column, or set unique_check for the table", name, k, k)
		}
	}
	return ""
}

// site is where a table's rows are, as far as foreign keys ask.
type site struct {
	name      string
	kind      TableKind
	shard     int
	key       []string // Sharded
	group     string   // Sharded: tables of one group with equal keys share a shard; "" unknown
	colocated string
	hashed    bool
}

func tableSite(t *Table) site {
	s := site{name: t.Name, kind: t.Kind, shard: t.Shard}
	if t.Rule != nil {
		s.key, s.group, s.hashed = names(t.Rule.Columns), t.Rule.Group, t.Rule.Function == FunctionHash
	}
	return s
}

// site finds where a table is, or will be made; known is false when nothing says so.
func (d *Database) site(name string) (s site, known bool) {
	if t := d.Table(name); t != nil {
		s = tableSite(t)
		s.colocated = d.Placements[d.fold(name)].Colocated
		return s, t.Broken == ""
	}
	p, ok := d.Placements[d.fold(name)]
	return placementSite(name, p), ok
}

func placementSite(name string, p Placement) site {
	return site{name: name, kind: p.Kind, shard: p.Shard, key: p.Key, colocated: p.Colocated,
		hashed: p.Kind == Sharded && (p.Function == "" || p.Function == "hash") && p.Colocated == ""}
}

// foreignProblem says why a foreign key cannot be enforced: the rows it refers
// to must be on the shard of the row that refers. It is "" when it can.
func (d *Database) foreignProblem(child site, k foreignKey) string {
	what := "foreign key " + k.name
	if k.name == "" {
		what = "foreign key"
	}
	if k.table == "" {
		return what + " to a table of another schema"
	}
	parent, known := d.site(k.table)
	if d.fold(k.table) == d.fold(child.name) {
		parent, known = child, true
	}
	switch {
	case known && parent.kind == Global:
		return ""
	case known && child.kind == Single && parent.kind == Single && child.shard == parent.shard:
		return ""
	case !known && child.kind == Single && child.shard == 0 && d.Default != "hash":
		return "" // it will be made on the first shard too
	case known && child.kind == Sharded && parent.kind == Sharded:
		if d.samePlace(child, parent, k) {
			return ""
		}
		return fmt.Sprintf("%s to %s, whose rows are on other shards: it must hold both tables' sharding keys, in the same places, and the tables must be co-located", what, k.table)
	}
	return fmt.Sprintf("%s to %s, whose rows are on other shards: only a global table, or a co-located one by its sharding key, can be referred to", what, k.table)
}

// samePlace tells whether rows that a foreign key connects are on one shard.
func (d *Database) samePlace(child, parent site, k foreignKey) bool {
	if len(child.key) == 0 || len(child.key) != len(parent.key) {
		return false
	}
	for i, column := range child.key {
		at := slices.IndexFunc(k.columns, func(c string) bool { return strings.EqualFold(c, column) })
		if at < 0 || at >= len(k.referred) || !strings.EqualFold(k.referred[at], parent.key[i]) {
			return false
		}
	}
	switch {
	case d.fold(child.name) == d.fold(parent.name), child.group != "" && child.group == parent.group:
		return true
	case child.hashed && parent.hashed:
		return true // the nodes ask for equal types, and equal types share slots
	}
	return child.colocated != "" && (d.fold(child.colocated) == d.fold(parent.name) || d.fold(child.colocated) == d.fold(parent.colocated)) ||
		parent.colocated != "" && d.fold(parent.colocated) == d.fold(child.name)
}

// Problems are the tables of the database that cannot be used, or have
// constraints that their shards cannot enforce: reasons by table.
func (d *Database) Problems() (broken map[string]string, unchecked map[string][]string) {
	broken, unchecked = map[string]string{}, map[string][]string{}
	for _, t := range d.Tables {
		if t.Broken != "" {
			broken[t.Name] = t.Broken
		}
		if len(t.Unchecked) > 0 {
			unchecked[t.Name] = t.Unchecked
		}
	}
	return broken, unchecked
}
