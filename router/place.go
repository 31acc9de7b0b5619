package router

import (
	"slices"
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"

	"braid/conf"
	"braid/internal/mysql"
)

// newPlace is the rule of a table that a CREATE TABLE makes. What says it first
// is followed: the configuration, the statement's hints, the table it is LIKE,
// the database's default. remember says that it was not the configuration.
func (a *analysis) newPlace(f *found, db *Database, n *ast.CreateTableStmt) (rule conf.Table, remember bool, err error) {
	name := n.Table.Name.O
	place, listed := db.Placements[db.fold(name)]
	hint := a.q.Hints.Place
	if listed && !place.Remembered {
		rule = db.Rules[db.fold(name)]
		if hint != nil && (hint.Kind != rule.Kind || !slices.EqualFunc(hint.Key, rule.Key, strings.EqualFold)) {
			return rule, false, refuse("a hint that puts " + name + " elsewhere than the configuration does")
		}
		return rule, false, nil
	}
	switch {
	case hint != nil:
		rule, err = a.hintedPlace(db, *hint)
	case a.q.Hints.Shard != "":
		rule = conf.Table{Kind: "single"}
	case n.ReferTable != nil:
		rule, err = f.placeLike(db, n.ReferTable)
	default:
		rule = defaultPlace(db, n)
	}
	rule.Name = name
	if rule.Kind == "single" && a.q.Hints.Shard != "" {
		rule.Shard = a.q.Hints.Shard
	}
	return rule, true, err
}

// hintedPlace is the rule that a statement's hints give.
func (a *analysis) hintedPlace(db *Database, hint conf.Table) (conf.Table, error) {
	if hint.Kind == "" {
		return hint, refuse("a hint that says how a new table is sharded, and not by which key: key=column, global or single")
	}
	if hint.Kind != "sharded" && (hint.Function != "" || hint.Colocated != "" || hint.UniqueCheck != "") {
		return hint, refuse("the hints function, colocated and unique_check without the hint key")
	}
	if hint.Kind != "single" && a.q.Hints.Shard != "" {
		return hint, refuse("the hint shard for a table that is on every shard")
	}
	if hint.Colocated == "" {
		return hint, nil
	}
	leader := db.Table(hint.Colocated)
	switch {
	case hint.Function != "":
		return hint, refuse("the hints function and colocated together")
	case leader == nil:
		return hint, mysql.Errorf(1146, "Table '%s.%s' doesn't exist", db.Name, hint.Colocated)
	case leader.Rule == nil || len(leader.Rule.Keys) != len(hint.Key):
		return hint, refuse("a table that is co-located with " + leader.Name + ", which is not sharded by as many columns")
	}
	return hint, nil
}

// placeLike is the rule for a table made LIKE another: its rows are where equal
// rows of the other are.
func (f *found) placeLike(db *Database, like *ast.TableName) (conf.Table, error) {
	t, err := f.lookup(like)
	if err != nil || t == nil {
		return conf.Table{Kind: "single"}, err
	}
	rule := db.Rules[db.fold(t.Name)]
	if rule.Kind == "" { // neither configured nor remembered
		rule.Kind = t.Kind.String()
		switch t.Kind {
		case Sharded:
			rule.Key = names(t.Rule.Columns)
		case Single:
			rule.Shard = db.Shards[t.Shard].Name
		}
	}
	if rule.Function != "" && rule.Function != "hash" && rule.Colocated == "" {
		// Two tables by one range or list are co-located only where one says so.
		rule.Colocated, rule.Function, rule.Ranges, rule.Lists = t.Name, "", nil, nil
	}
	return rule, nil
}

// defaultPlace is where a new table goes that nothing but the database's default
// places: sharded by its first key, unless it has a unique key without that
// column, which needs all rows on one shard.
func defaultPlace(db *Database, n *ast.CreateTableStmt) conf.Table {
	single := conf.Table{Kind: "single", Shard: db.Shards[0].Name}
	key := createKey(n)
	if db.Default != "hash" || key == "" {
		return single
	}
	_, columns := uniqueKeys(n.Cols, n.Constraints)
	for _, c := range columns {
		if !slices.ContainsFunc(c, func(x string) bool { return strings.EqualFold(x, key) }) {
			return single
		}
	}
	return conf.Table{Kind: "sharded", Key: []string{key}}
}

// placement is a rule in the form of Placements.
func (d *Database) placement(t *conf.Table) (Placement, *RuleError) {
	p := Placement{Key: t.Key, Function: t.Function, Colocated: t.Colocated, UniqueCheck: t.UniqueCheck, Sequence: t.Sequence}
	fail := func(reason string) (Placement, *RuleError) { return p, &RuleError{d.Name, t.Name, reason} }
	switch t.Kind {
	case "sharded":
		p.Kind = Sharded
	case "global":
		p.Kind = Global
	case "single":
		p.Kind = Single
		if t.Shard != "" {
			p.Shard = slices.IndexFunc(d.Shards, func(s Shard) bool { return s.Name == t.Shard })
			if p.Shard < 0 {
				return fail("there is no shard \"" + t.Shard + "\"")
			}
		}
	default:
		return fail("unknown kind \"" + t.Kind + "\"")
	}
	return p, nil
}

// createFilled plans CREATE TABLE ... SELECT. Where one shard has all that is read,
// and is where the new table goes, beside what it is made of, the statement goes
// there as it is; else the table is made and then filled.
func (a *analysis) createFilled(f *found, n *ast.CreateTableStmt) (planned, error) {
	db, name := f.db, n.Table.Name.O
	n.Select.Accept(f)
	switch {
	case f.err != nil:
		return planned{}, f.err
	case f.db != db:
		return planned{}, refuse("tables of two databases in one statement")
	case f.system != "":
		return planned{}, refuse("CREATE TABLE ... SELECT from " + f.system)
	case f.temporary || f.locks || len(f.assigns) > 0:
		return planned{}, refuse("CREATE TABLE ... SELECT of temporary tables, locks, or user variables that it sets")
	}
	shard, several := -1, len(f.factEdits()) > 0
	for _, r := range f.refs {
		switch {
		case len(db.Shards) == 1, r.table.Kind == Global:
		case r.table.Kind == Sharded:
			several = true
		case shard >= 0 && shard != r.table.Shard:
			return planned{}, refuse("CREATE TABLE ... SELECT from single tables of several shards: CREATE TABLE first, then INSERT ... SELECT")
		default:
			shard = r.table.Shard
		}
	}
	if several {
		return a.fill(f, n, shard)
	}
	d := &DDL{Verb: "CREATE TABLE", NewTable: name, Tables: []string{name}, Fills: true}
	if len(db.Shards) == 1 {
		return a.ddlPlan(f, d, 0)
	}
	if t := db.Table(name); t != nil {
		if t.Kind != Single || shard >= 0 && t.Shard != shard {
			return a.fill(f, n, shard)
		}
		return a.ddlPlan(f, d, t.Shard)
	}
	rule, remember, err := a.newPlace(f, db, n)
	if err != nil {
		return planned{}, err
	}
	if remember && shard >= 0 && a.q.Hints.Shard == "" {
		rule.Shard = db.Shards[shard].Name
	}
	place, unfit := db.placement(&rule)
	switch {
	case unfit != nil:
		return planned{}, mysql.Errorf(1105, "%v", unfit)
	case place.Kind != Single || shard >= 0 && place.Shard != shard:
		return a.fill(f, n, shard)
	}
	if remember {
		d.New = &TablePlace{Rule: rule}
	}
	d.Undo = "DROP TABLE " + quoteIdent(name)
	return a.ddlPlan(f, d, place.Shard)
}
