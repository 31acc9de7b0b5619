package router

import (
	"github.com/pingcap/tidb/pkg/parser"
	"github.com/pingcap/tidb/pkg/parser/ast"
)

// view places a view that the configuration does not name, by the tables it
// reads: all global, or all single on one shard. Any other view has on each shard
// the rows of that shard, and is not to be taken for the whole.
func (b *builder) view(info TableInfo, on []int, busy map[string]bool) (Placement, error) {
	const advice = "name it in the configuration, as sharded by the column that its tables are sharded by, if the rows of all shards together are its rows"
	if busy[b.db.fold(info.Name)] {
		return Placement{}, b.fail(info.Name, "is a view of itself")
	}
	busy[b.db.fold(info.Name)] = true
	defer delete(busy, b.db.fold(info.Name))
	stmts, _, err := parser.New().Parse(info.Definition, "", "")
	if info.Definition == "" || err != nil || len(stmts) != 1 {
		return Placement{}, b.fail(info.Name, "is a view whose definition cannot be read, so nobody can tell where its rows are: %s", advice)
	}
	var names []*ast.TableName
	stmts[0].Accept(walk(func(n ast.Node) bool {
		if t, ok := n.(*ast.TableName); ok {
			names = append(names, t)
		}
		return true
	}))
	p := Placement{Kind: Global}
	for _, n := range names {
		name := b.db.fold(n.Name.O)
		if _, ok := b.infos[name]; !ok || !b.db.ours(n.Schema.O) {
			return Placement{}, b.fail(info.Name, "is a view of %s.%s, which is no table of this database: %s", n.Schema.O, n.Name.O, advice)
		}
		if err := b.table(name, busy); err != nil {
			return Placement{}, b.fail(info.Name, "is a view of table %s, which cannot be used", n.Name.O)
		}
		t := b.db.Tables[name]
		switch {
		case t.Broken != "":
			return Placement{}, b.fail(info.Name, "is a view of table %s, which cannot be used", n.Name.O)
		case t.Kind == Sharded:
			return Placement{}, b.fail(info.Name, "is a view of the sharded table %s: %s", n.Name.O, advice)
		case t.Kind == Single && p.Kind == Single && p.Shard != t.Shard:
			return Placement{}, b.fail(info.Name, "is a view of tables on several shards: %s", advice)
		case t.Kind == Single:
			p = Placement{Kind: Single, Shard: t.Shard}
		}
	}
	if p.Kind == Global && len(on) != len(b.db.Shards) {
		p = Placement{Kind: Single, Shard: on[0]}
	}
	return p, nil
}
