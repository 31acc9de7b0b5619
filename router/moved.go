package router

import (
	"fmt"
	"sort"
	"strings"
)

// Moved compares where two snapshots of one database look for rows. It returns
// the first table, in the order of the names, that both have and whose rows next
// would look for on other shards than d keeps them on; nil when there is none.
// New tables, more ranges behind the last bound and more list values move
// nothing; views have no rows. A table that can be used with d and could not be
// with next counts too; one that could not be used with d does not.
func (d *Database) Moved(next *Database) *RuleError {
	names := make([]string, 0, len(d.Tables))
	for name := range d.Tables {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		old, new := d.Tables[name], next.Tables[name]
		if new == nil || old.View || new.View || old.Broken != "" {
			continue
		}
		if new.Broken != "" {
			return &RuleError{d.Name, old.Name, "it could not be used any more: it " + new.Broken}
		}
		if why := moved(d, next, old, new); why != "" {
			return &RuleError{d.Name, old.Name, why}
		}
	}
	return nil
}

// place is a shard's physical place, by which shards of two snapshots compare.
func (d *Database) place(shard int) string {
	s := &d.Shards[shard]
	return s.Node + "." + s.Schema
}

// moved says how the place of one table's rows differs; "" when it does not.
func moved(d, next *Database, old, new *Table) string {
	if old.Kind != new.Kind {
		return fmt.Sprintf("it is %v, and would be %v", old.Kind, new.Kind)
	}
	switch old.Kind {
	case Single:
		if a, b := d.place(old.Shard), next.place(new.Shard); a != b {
			return fmt.Sprintf("its rows are in %s, and would be looked for in %s", a, b)
		}
	case Global:
		has := map[string]bool{}
		for i := range d.Shards {
			has[d.place(i)] = true
		}
		for i := range next.Shards {
			if !has[next.place(i)] {
				return fmt.Sprintf("it is global, and shard %s, which is new, may lack its rows", next.Shards[i].Name)
			}
		}
	case Sharded:
		if a, b := keyNames(old), keyNames(new); a != b {
			return fmt.Sprintf("its sharding key is %s, and would be %s", a, b)
		}
		if old.Rule.Function != new.Rule.Function {
			return fmt.Sprintf("its function is %v, and would be %v", old.Rule.Function, new.Rule.Function)
		}
		return movedRule(d, next, old.Rule, new.Rule)
	}
	return ""
}

// keyNames are the columns of a table's sharding key.
func keyNames(t *Table) string {
	names := make([]string, len(t.Rule.Columns))
	for i := range t.Rule.Columns {
		names[i] = strings.ToLower(t.Rule.Columns[i].Name)
	}
	return strings.Join(names, ", ")
}

// movedRule compares two rules of one function over one key.
func movedRule(d, next *Database, old, new *Rule) string {
	switch old.Function {
	case FunctionHash:
		for slot := range old.SlotShard {
			if a, b := d.place(int(old.SlotShard[slot])), next.place(int(new.SlotShard[slot])); a != b {
				return fmt.Sprintf("the rows of slot %d are in %s, and would be looked for in %s", slot, a, b)
			}
		}
	case FunctionMod:
		if old.Shards != new.Shards {
			return fmt.Sprintf("its rows are spread over %d shards by mod, and would be looked for on %d", old.Shards, new.Shards)
		}
		for i := range old.Shards {
			if a, b := d.place(i), next.place(i); a != b {
				return fmt.Sprintf("the rows of remainder %d are in %s, and would be looked for in %s", i, a, b)
			}
		}
	case FunctionRange:
		for i, r := range old.Ranges {
			if i >= len(new.Ranges) || new.Ranges[i].LessThan != r.LessThan || new.Ranges[i].Unbounded != r.Unbounded ||
				next.place(new.Ranges[i].Shard) != d.place(r.Shard) {
				return fmt.Sprintf("its range %d (%s) changes", i+1, rangeText(d, r))
			}
		}
	case FunctionList:
		values := make([]string, 0, len(old.List))
		for value := range old.List {
			values = append(values, value)
		}
		sort.Strings(values)
		for _, value := range values {
			shard, listed := new.List[value]
			if !listed || next.place(shard) != d.place(old.List[value]) {
				return fmt.Sprintf("the rows of key %q are in %s, and would not be looked for there", value, d.place(old.List[value]))
			}
		}
	}
	return ""
}

func rangeText(d *Database, r Range) string {
	if r.Unbounded {
		return "the rest in " + d.place(r.Shard)
	}
	return "below " + r.LessThan + " in " + d.place(r.Shard)
}
