package conf

import (
	"fmt"
	"math/big"
	"slices"
	"strings"
)

// systemSchemas cannot be sharded: each node has its own. The last one is
// Braid's own, for decisions and sequences.
func systemSchemas() []string {
	return []string{"mysql", "information_schema", "performance_schema", "sys", "braid"}
}

func (c *Config) checkDatabases(k *checker, list place) {
	if len(c.Databases) == 0 {
		k.add(list, "there is no database", "add [[databases]] with name and shards")
	}
	nodes := make([]string, len(c.Nodes))
	for i, n := range c.Nodes {
		nodes[i] = n.Name
	}
	seen := map[string]bool{}
	schemas := map[[2]string]string{}
	for i := range c.Databases {
		d := &c.Databases[i]
		at := list.item(i, d.Name)
		if k.unique(at, "database", d.Name, seen) {
			k.schemaName(at.key("name"), d.Name)
		}
		k.word(at.key("default"), d.Default, "single", "hash")
		k.word(at.key("isolation"), d.Isolation, "READ-UNCOMMITTED", "READ-COMMITTED", "REPEATABLE-READ", "SERIALIZABLE")
		k.word(at.key("transaction"), d.Transaction, "atomic", "single")
		k.word(at.key("commit_ok"), d.CommitOK, "applied", "decided")
		d.checkShards(k, at, nodes, schemas)
		d.checkTables(k, at)
	}
}

// schemaName checks what is to be a schema on a node.
func (k *checker) schemaName(at place, name string) {
	switch {
	case slices.Contains(systemSchemas(), strings.ToLower(name)):
		k.add(at, fmt.Sprintf("%q is a schema that each server keeps for itself", name), "choose another name")
	case len([]rune(name)) > 64:
		k.add(at, "is longer than MySQL's 64 characters", "shorten it")
	case strings.TrimRight(name, " ") != name || strings.ContainsRune(name, 0):
		k.add(at, fmt.Sprintf("%q is no name MySQL allows", name), "remove the blank at its end")
	}
}

// checkShards checks the shards of one database; schemas collects the physical
// schemas of all databases: (node, schema) -> the shard that has it.
func (d *Database) checkShards(k *checker, database place, nodes []string, schemas map[[2]string]string) {
	list := database.key("shards")
	if len(d.Shards) == 0 {
		k.add(list, "there is no shard", "add [[databases.shards]] with name and node")
		return
	}
	if len(d.Shards) > Slots {
		k.add(list, fmt.Sprintf("%d shards are more than there are slots", len(d.Shards)), fmt.Sprintf("use %d at most", Slots))
		return
	}
	seen := map[string]bool{}
	for i, s := range d.Shards {
		at := list.item(i, s.Name)
		k.unique(at, "shard of this database", s.Name, seen)
		if s.Node == "" {
			k.add(at.key("node"), "is missing", "name the node that holds the shard")
			continue
		}
		if !k.reference(at.key("node"), "node", s.Node, nodes) || s.Schema == "" {
			continue
		}
		if s.Schema != d.Name {
			k.schemaName(at.key("schema"), s.Schema)
		}
		// Two shards in one schema would hold the same rows twice. Case is ignored,
		// as a server with lower_case_table_names does.
		physical := [2]string{s.Node, strings.ToLower(s.Schema)}
		if other, ok := schemas[physical]; ok {
			k.add(at.key("schema"), fmt.Sprintf("schema %q on node %q is %s already", s.Schema, s.Node, other),
				"give each shard a schema of its own, or its own node")
		}
		schemas[physical] = at.label
	}
	_, problems := d.slotOwners(database)
	k.problems = append(k.problems, problems...)
}

func (d *Database) checkTables(k *checker, database place) {
	list := database.key("tables")
	seen := map[string]bool{}
	for i := range d.Tables {
		t := &d.Tables[i]
		at := list.item(i, t.Name)
		if k.unique(at, "table of this database", t.Name, seen) && len([]rune(t.Name)) > 64 {
			k.add(at.key("name"), "is longer than MySQL's 64 characters", "shorten it")
		}
		switch t.Kind {
		case "sharded":
			d.checkSharded(k, at, t)
		case "global":
			k.onlyFor(at, "a sharded table", t.shardingKeys())
			k.onlyFor(at, "a single table", map[string]bool{"shard": t.Shard != ""})
			k.onlyFor(at, "a sharded table", map[string]bool{"unique_check": t.UniqueCheck != ""})
		case "single":
			k.onlyFor(at, "a sharded table", t.shardingKeys())
			k.onlyFor(at, "a sharded or global table", map[string]bool{"sequence": t.Sequence != ""})
			k.onlyFor(at, "a sharded table", map[string]bool{"unique_check": t.UniqueCheck != ""})
			if t.Shard != "" {
				d.shardReference(k, at.key("shard"), t.Shard)
			}
		case "":
			k.add(at.key("kind"), "is missing", `write "sharded", "global" or "single"`)
		default:
			k.word(at.key("kind"), t.Kind, "sharded", "global", "single")
		}
		if t.Sequence != "" {
			k.word(at.key("sequence"), t.Sequence, "block", "snowflake")
		}
		if t.UniqueCheck != "" {
			k.word(at.key("unique_check"), t.UniqueCheck, "none", "lock")
		}
	}
}

// shardingKeys says which of the keys that only a sharded table has are set.
func (t *Table) shardingKeys() map[string]bool {
	return map[string]bool{
		"key": len(t.Key) > 0, "function": t.Function != "", "colocated": t.Colocated != "",
		"ranges": len(t.Ranges) > 0, "lists": len(t.Lists) > 0,
	}
}

// onlyFor adds a problem for each key that is set where only owner may set it.
func (k *checker) onlyFor(at place, owner string, set map[string]bool) {
	for _, key := range []string{"key", "function", "colocated", "ranges", "lists", "shard", "sequence", "unique_check"} {
		if set[key] {
			k.add(at.key(key), "is for "+owner+" only", "remove it, or change the table's kind")
		}
	}
}

func (d *Database) shardReference(k *checker, at place, name string) {
	names := make([]string, len(d.Shards))
	for i, s := range d.Shards {
		names[i] = s.Name
	}
	k.reference(at, "shard", name, names)
}

func (d *Database) checkSharded(k *checker, at place, t *Table) {
	if t.Shard != "" {
		k.add(at.key("shard"), "is for a single table only", "remove it, or change the table's kind")
	}
	if len(t.Key) == 0 {
		k.add(at.key("key"), "is missing", "name the columns whose values choose the shard")
	}
	for i, column := range t.Key {
		here := at.key("key").item(i, "")
		if column == "" {
			k.add(here, "is empty", "name a column")
		} else if slices.ContainsFunc(t.Key[:i], func(other string) bool { return strings.EqualFold(other, column) }) {
			k.add(here, fmt.Sprintf("column %q is listed already", column), "remove one of the two")
		}
	}
	if t.Colocated != "" {
		d.checkColocated(k, at, t)
		return
	}
	set := map[string]bool{}
	switch t.Function {
	case "range":
		d.checkRanges(k, at, t)
	case "list":
		d.checkLists(k, at, t)
	case "hash", "mod":
	default:
		k.word(at.key("function"), t.Function, "hash", "mod", "range", "list")
		return
	}
	if t.Function != "hash" && len(t.Key) > 1 {
		k.add(at.key("key"), fmt.Sprintf("function %q takes one column", t.Function), `name one, or use function = "hash"`)
	}
	set["ranges"] = t.Function != "range" && len(t.Ranges) > 0
	k.onlyFor(at, `function = "range"`, set)
	set = map[string]bool{"lists": t.Function != "list" && len(t.Lists) > 0}
	k.onlyFor(at, `function = "list"`, set)
}

// checkColocated follows the chain of tables to the one that has the rule.
func (d *Database) checkColocated(k *checker, at place, t *Table) {
	set := t.shardingKeys()
	set["key"], set["colocated"] = false, false
	k.onlyFor(at, "the table it is co-located with", set)

	here := at.key("colocated")
	var names []string
	tables := map[string]*Table{}
	for i := range d.Tables {
		if d.Tables[i].Kind == "sharded" && d.Tables[i].Name != t.Name {
			names = append(names, d.Tables[i].Name)
		}
		tables[d.Tables[i].Name] = &d.Tables[i]
	}
	switch next := tables[t.Colocated]; {
	case t.Colocated == t.Name:
		k.add(here, "a table cannot be co-located with itself", "name another one, or give it a function")
		return
	case next != nil && next.Kind != "sharded":
		k.add(here, fmt.Sprintf("table %q is not sharded", t.Colocated), "name a sharded table")
		return
	case next == nil:
		k.reference(here, "sharded table", t.Colocated, names)
		return
	case len(next.Key) != len(t.Key) && len(next.Key) > 0 && len(t.Key) > 0:
		k.add(at.key("key"), fmt.Sprintf("%d columns, while the key of %q has %d", len(t.Key), t.Colocated, len(next.Key)),
			"name the columns of this table that hold that table's key, in its order")
	}
	chain := []string{t.Name}
	for name := t.Colocated; ; {
		if slices.Contains(chain, name) {
			k.add(here, fmt.Sprintf("the tables %s are co-located in a circle", strings.Join(append(chain, name), " -> ")),
				"give one of them a function of its own")
			return
		}
		chain = append(chain, name)
		next := tables[name]
		if next == nil || next.Colocated == "" {
			return // reported where that table is checked, or the end of the chain
		}
		name = next.Colocated
	}
}

// checkRanges checks that the parts ascend. The column's type is the node's to
// know; here a descent is one under every reading: as numbers and as text.
func (d *Database) checkRanges(k *checker, at place, t *Table) {
	if len(t.Ranges) == 0 {
		k.add(at.key("ranges"), "is missing", "add [[databases.tables.ranges]] with less_than and shard")
	}
	for i, part := range t.Ranges {
		here := at.key("ranges").item(i, "")
		d.shardReference(k, here.key("shard"), part.Shard)
		if part.LessThan == "" {
			if i < len(t.Ranges)-1 {
				k.add(here.key("less_than"), "is missing", "only the last part may be without it")
			}
			continue
		}
		if i > 0 && t.Ranges[i-1].LessThan != "" && !canAscend(t.Ranges[i-1].LessThan, part.LessThan) {
			k.add(here.key("less_than"), fmt.Sprintf("%q does not come after %q", part.LessThan, t.Ranges[i-1].LessThan),
				"order the parts by less_than, ascending, each bound once")
		}
	}
}

func canAscend(a, b string) bool {
	x, y := number(a), number(b)
	if x != nil && y != nil {
		return x.Cmp(y) < 0 || a < b && x.Cmp(y) != 0
	}
	return a < b || strings.ToLower(a) < strings.ToLower(b)
}

// number is the exact value of a plain decimal number, or nil.
func number(s string) *big.Rat {
	digits := strings.TrimLeft(s, "+-")
	if len(s)-len(digits) > 1 || len(s) > 100 || digits == "" || strings.Trim(digits, "0123456789.") != "" {
		return nil
	}
	r, ok := new(big.Rat).SetString(s)
	if !ok {
		return nil
	}
	return r
}

func (d *Database) checkLists(k *checker, at place, t *Table) {
	if len(t.Lists) == 0 {
		k.add(at.key("lists"), "is missing", "add [[databases.tables.lists]] with values and shard")
	}
	seen := map[string]place{}
	for i, part := range t.Lists {
		here := at.key("lists").item(i, "")
		d.shardReference(k, here.key("shard"), part.Shard)
		if len(part.Values) == 0 {
			k.add(here.key("values"), "is missing", "list the keys of this shard")
		}
		for j, value := range part.Values {
			at := here.key("values").item(j, "")
			if other, ok := seen[value]; ok {
				k.add(at, fmt.Sprintf("%q is listed already, at %s", value, other.label), "list each key once")
				continue
			}
			seen[value] = at
		}
	}
}
