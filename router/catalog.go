package router

import (
	"fmt"
	"slices"
	"sort"
	"strings"

	"braid/conf"
)

// TableInfo is one table or view as a node's information_schema describes it.
type TableInfo struct {
	Name string
	View bool
	// Definition is a view's SELECT, as the node prints it; "" when it may not be read.
	Definition string
	// Collation is collation_connection of the session that made a view.
	Collation string
	Columns   []Column // in order of position

	indexes []index
	foreign []foreignKey
	// Snapshots says that its engine reads from the snapshot of a transaction.
	Snapshots bool
	// Triggers says that the table has some.
	Triggers bool
	// TriggerNames are their names.
	TriggerNames []string
}

type index struct {
	name    string
	unique  bool
	columns []int // -1: a part that is no column
}

// AddIndex adds column col (an index into Columns, -1 for an expression or the
// beginning of a column) to the index of that name. An index's parts come in
// their order.
func (t *TableInfo) AddIndex(name string, unique bool, col int) {
	if n := len(t.indexes); n > 0 && t.indexes[n-1].name == name {
		t.indexes[n-1].columns = append(t.indexes[n-1].columns, col)
		return
	}
	t.indexes = append(t.indexes, index{name, unique, []int{col}})
}

// ShardTables are the tables of one shard.
type ShardTables []TableInfo

// RuleError is a configuration that does not fit the tables of the nodes.
type RuleError struct {
	Database, Table string
	Reason          string
}

func (e *RuleError) Error() string {
	return fmt.Sprintf("database %s, table %s: %s", e.Database, e.Table, e.Reason)
}

// BuildTables fills in db's Tables, Placements and Default from its
// configuration and from what its shards hold (in the order of db.Shards, which
// is filled in, as are Flavour and LowerCase). The configuration is a valid
// one, defaults filled in. A table that does not fit its configuration is
// Broken, and the others can be used; a *RuleError is a configuration that can
// be right for no table.
func BuildTables(db *Database, d *conf.Database, shards []ShardTables) error {
	b := builder{db: db, conf: d, infos: map[string]TableInfo{}, on: map[string][]int{}}
	db.Tables, db.Placements, db.Default = map[string]*Table{}, map[string]Placement{}, d.Default
	db.Rules = map[string]conf.Table{}
	for i, tables := range shards {
		for _, t := range tables {
			name := db.fold(t.Name)
			if _, ok := b.infos[name]; !ok {
				b.infos[name] = t
			}
			b.on[name] = append(b.on[name], i)
		}
	}
	for i := range d.Tables {
		if err := b.place(&d.Tables[i]); err != nil {
			return err
		}
	}
	for i := range db.Remembered {
		b.remembered(&db.Remembered[i])
	}
	names := make([]string, 0, len(b.infos))
	for name := range b.infos {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		if err := b.table(name, map[string]bool{}); err != nil {
			b.broken(name, err)
		}
	}
	for _, name := range names {
		b.check(db.Tables[name], b.infos[name])
		b.link(name)
	}
	for _, t := range db.Tables {
		if t.View && t.Kind == Sharded && b.locks {
			t.Unlockable = "it is a view, and may be of a table whose unique keys are locked"
		}
	}
	return nil
}

// link notes which tables foreign keys and triggers hang on.
func (b *builder) link(name string) {
	info := b.infos[name]
	b.db.Tables[name].Triggers, b.db.Tables[name].TriggerNames = info.Triggers, info.TriggerNames
	if info.Triggers || len(info.foreign) > 0 {
		b.db.Tables[name].Linked = true
	}
	for _, k := range info.foreign {
		if t := b.db.Table(k.table); t != nil {
			t.Linked = true
		}
	}
}

// broken enters a table that does not fit its configuration.
func (b *builder) broken(name string, err error) {
	info, reason := b.infos[name], err.Error()
	if e, ok := err.(*RuleError); ok {
		reason = e.Reason
	}
	t := newTable(info)
	t.Kind, t.Broken = b.db.Placements[name].Kind, reason
	if _, listed := b.db.Placements[name]; !listed {
		t.Kind, t.Shard = Single, b.on[name][0]
	}
	b.db.Tables[name] = t
}

// builder is the state of one BuildTables.
type builder struct {
	db    *Database
	conf  *conf.Database
	infos map[string]TableInfo
	on    map[string][]int // the shards that have the table
	owner []uint16
	locks bool // a table has unique keys that are locked
}

// fold is a table's name as Tables is keyed.
func (d *Database) fold(name string) string {
	if d.LowerCase {
		return strings.ToLower(name)
	}
	return name
}

func (b *builder) fail(table, format string, args ...any) error {
	return &RuleError{b.db.Name, table, fmt.Sprintf(format, args...)}
}

func (b *builder) shard(name string) int {
	for i, s := range b.db.Shards {
		if s.Name == name {
			return i
		}
	}
	return -1
}

// place notes where a rule puts a table.
func (b *builder) place(t *conf.Table) error {
	p, err := b.db.placement(t)
	name := b.db.fold(t.Name)
	b.db.Placements[name], b.db.Rules[name] = p, *t
	if err != nil {
		return err
	}
	return nil
}

// remembered notes where a table was put that the configuration does not name.
// A rule that fits no more concerns that table only.
func (b *builder) remembered(t *conf.Table) {
	name := b.db.fold(t.Name)
	if _, configured := b.db.Placements[name]; configured {
		return
	}
	err := b.place(t)
	p := b.db.Placements[name]
	p.Remembered = true
	if err != nil {
		p.Unfit = err.(*RuleError).Reason
	}
	b.db.Placements[name] = p
}

// table builds one table. busy holds the tables whose building waits for it.
func (b *builder) table(name string, busy map[string]bool) error {
	if b.db.Tables[name] != nil {
		return nil
	}
	info := b.infos[name]
	t := newTable(info)
	p, listed := b.db.Placements[name]
	rule := b.db.Rules[name]
	c := &rule
	if p.Unfit != "" {
		return b.fail(t.Name, "was made by a rule that does not fit any more: %s", p.Unfit)
	}
	if !listed {
		p, c = b.unlisted(t, b.on[name])
		if t.View && len(b.db.Shards) > 1 {
			var err error
			if p, err = b.view(info, b.on[name], busy); err != nil {
				return err
			}
		}
	}
	t.Kind, t.Shard = p.Kind, p.Shard
	if t.Kind != Single && len(b.on[name]) != len(b.db.Shards) {
		return b.fail(t.Name, "is missing on shard %s", b.missing(name))
	}
	if t.Kind == Single && !slices.Contains(b.on[name], t.Shard) {
		return b.fail(t.Name, "is configured on shard %s, but its rows are on shard %s", b.db.Shards[t.Shard].Name, b.db.Shards[b.on[name][0]].Name)
	}
	if t.Kind == Sharded {
		if err := b.rule(t, c, busy); err != nil {
			return err
		}
	}
	if err := t.sequenced(p.Sequence, len(b.db.Shards)); err != nil {
		return b.fail(t.Name, "%v", err)
	}
	b.db.Tables[name] = t
	return nil
}

// newTable is a table as a node describes it, wherever its rows are.
func newTable(info TableInfo) *Table {
	t := &Table{Name: info.Name, View: info.View, Definition: info.Definition, Collation: info.Collation, Snapshots: info.Snapshots, Columns: info.Columns, AutoIncrement: -1, byName: map[string]int{}}
	for i := range t.Columns {
		t.byName[strings.ToLower(t.Columns[i].Name)] = i
		if hasWord(strings.ToLower(t.Columns[i].Extra), "auto_increment") {
			t.AutoIncrement = i
		}
	}
	for _, k := range info.indexes {
		whole := k.columns
		if i := slices.Index(whole, -1); i >= 0 {
			whole = whole[:i]
		}
		if len(whole) > 0 {
			t.Indexes = append(t.Indexes, whole)
		}
		switch {
		case !k.unique || len(whole) < len(k.columns):
		case strings.EqualFold(k.name, "PRIMARY"):
			t.Primary = k.columns
		default:
			t.Uniques = append(t.Uniques, k.columns)
		}
	}
	return t
}

// sequenced says where a table on several shards gets its ids from.
func (t *Table) sequenced(want string, shards int) error {
	if t.AutoIncrement < 0 || t.Kind == Single || shards < 2 {
		return nil
	}
	c := &t.Columns[t.AutoIncrement]
	if want == "" {
		want = "block"
	}
	if want == "snowflake" && c.DataType != "bigint" {
		return fmt.Errorf("has sequence \"snowflake\", whose ids need a BIGINT, but %s is %s", c.Name, c.ColumnType)
	}
	t.Sequence = want
	return nil
}

func (b *builder) missing(name string) string {
	for i, s := range b.db.Shards {
		if !slices.Contains(b.on[name], i) {
			return s.Name
		}
	}
	return ""
}

// unlisted places a table that the configuration does not name: by the
// database's default, where it is.
func (b *builder) unlisted(t *Table, on []int) (Placement, *conf.Table) {
	key := -1
	switch {
	case len(t.Primary) > 0:
		key = t.Primary[0]
	case len(t.Uniques) > 0:
		key = t.Uniques[0][0]
	}
	if b.conf.Default != "hash" || key < 0 || t.View || len(on) < len(b.db.Shards) || !t.allHold(key) {
		return Placement{Kind: Single, Shard: on[0]}, nil
	}
	return Placement{Kind: Sharded}, &conf.Table{Name: t.Name, Kind: "sharded", Key: []string{t.Columns[key].Name}}
}

// allHold tells whether every unique key holds a column.
func (t *Table) allHold(col int) bool {
	if len(t.Primary) > 0 && !slices.Contains(t.Primary, col) {
		return false
	}
	return !slices.ContainsFunc(t.Uniques, func(k []int) bool { return !slices.Contains(k, col) })
}

// rule builds a sharded table's rule.
func (b *builder) rule(t *Table, c *conf.Table, busy map[string]bool) error {
	r := &Rule{Shards: len(b.db.Shards), Flavour: b.db.Flavour}
	for _, k := range c.Key {
		i := t.column(strings.ToLower(k))
		if i < 0 {
			return b.fail(t.Name, "has no column %q for its sharding key", k)
		}
		r.Keys = append(r.Keys, i)
		r.Columns = append(r.Columns, t.Columns[i])
	}
	if len(r.Keys) == 0 {
		return b.fail(t.Name, "needs a sharding key")
	}
	if c.Colocated != "" {
		other, err := b.leader(t, c, busy)
		if err != nil {
			return err
		}
		r.Group, r.Function, r.SlotShard, r.Ranges, r.List = other.Group, other.Function, other.SlotShard, other.Ranges, other.List
		if err := b.sameTypes(t, c, r, other); err != nil {
			return err
		}
	} else if err := b.function(t, c, r); err != nil {
		return err
	}
	if err := r.Compile(); err != nil {
		return b.fail(t.Name, "%v", err)
	}
	t.Rule = r
	return nil
}

// leader is the rule of the table that another is co-located with.
func (b *builder) leader(t *Table, c *conf.Table, busy map[string]bool) (*Rule, error) {
	name := b.db.fold(c.Colocated)
	busy[b.db.fold(t.Name)] = true
	if busy[name] {
		return nil, b.fail(t.Name, "is co-located with itself by way of %s", c.Colocated)
	}
	if _, ok := b.infos[name]; !ok {
		return nil, b.fail(t.Name, "is co-located with %s, which the shards do not have", c.Colocated)
	}
	if err := b.table(name, busy); err != nil {
		return nil, err
	}
	other := b.db.Tables[name]
	if other.Broken != "" {
		return nil, b.fail(t.Name, "is co-located with %s, which %s", c.Colocated, other.Broken)
	}
	if other.Rule == nil {
		return nil, b.fail(t.Name, "is co-located with %s, which is not sharded", c.Colocated)
	}
	return other.Rule, nil
}

// sameTypes checks that co-located keys have one type and collation (rule K2).
func (b *builder) sameTypes(t *Table, c *conf.Table, r, other *Rule) error {
	if len(r.Keys) != len(other.Keys) {
		return b.fail(t.Name, "has a sharding key of %d columns, %s one of %d", len(r.Keys), c.Colocated, len(other.Keys))
	}
	for i := range r.Columns {
		x, y := &r.Columns[i], &other.Columns[i]
		if x.DataType != y.DataType || x.Collation != y.Collation || x.Unsigned() != y.Unsigned() {
			return b.fail(t.Name, "column %s is %s %s, but %s of the co-located %s is %s %s: they must be of one type and collation",
				x.Name, x.ColumnType, x.Collation, y.Name, c.Colocated, y.ColumnType, y.Collation)
		}
	}
	return nil
}

// function fills in how the key chooses the shard.
func (b *builder) function(t *Table, c *conf.Table, r *Rule) error {
	r.Group = t.Name
	switch c.Function {
	case "", "hash":
		r.Function = FunctionHash
		if b.owner == nil {
			owner, err := b.conf.SlotOwners()
			if err != nil {
				return b.fail(t.Name, "%v", err)
			}
			b.owner = owner
		}
		r.SlotShard = b.owner
		// The slot follows from the key's value alone: tables whose keys are of
		// one type and collation are co-located without being told.
		r.Group = "hash"
		for i := range r.Columns {
			k := &r.Columns[i]
			r.Group += "|" + k.DataType + " " + k.Collation
			if k.Unsigned() {
				r.Group += " unsigned"
			}
		}
	case "mod":
		r.Function = FunctionMod
	case "range":
		r.Function = FunctionRange
		for _, p := range c.Ranges {
			shard := b.shard(p.Shard)
			if shard < 0 {
				return b.fail(t.Name, "there is no shard %q", p.Shard)
			}
			r.Ranges = append(r.Ranges, Range{LessThan: p.LessThan, Unbounded: p.LessThan == "", Shard: shard})
		}
	case "list":
		r.Function, r.List = FunctionList, map[string]int{}
		for _, p := range c.Lists {
			shard := b.shard(p.Shard)
			if shard < 0 {
				return b.fail(t.Name, "there is no shard %q", p.Shard)
			}
			for _, v := range p.Values {
				r.List[v] = shard
			}
		}
	default:
		return b.fail(t.Name, "unknown sharding function %q", c.Function)
	}
	return nil
}
