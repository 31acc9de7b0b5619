package router

import (
	"fmt"
	"strings"
	"testing"

	"braid/conf"
)

// built is a database of three shards, s0 and s2 on node n0, s1 on n1, after
// change, with the tables that the shards hold.
func built(t *testing.T, change func(*conf.Database)) *Database {
	t.Helper()
	d := conf.Database{Name: "shop", Default: "single"}
	for i := range 3 {
		d.Shards = append(d.Shards, conf.Shard{Name: fmt.Sprintf("s%d", i), Node: fmt.Sprintf("n%d", i%2), Schema: fmt.Sprintf("shop_%d", i)})
	}
	d.Tables = []conf.Table{
		{Name: "h", Kind: "sharded", Key: []string{"a"}},
		{Name: "m", Kind: "sharded", Key: []string{"a"}, Function: "mod"},
		{Name: "r", Kind: "sharded", Key: []string{"a"}, Function: "range", Ranges: []conf.RangePart{{LessThan: "10", Shard: "s0"}, {LessThan: "20", Shard: "s1"}}},
		{Name: "l", Kind: "sharded", Key: []string{"a"}, Function: "list", Lists: []conf.ListPart{{Values: []string{"1", "2"}, Shard: "s0"}}},
		{Name: "g", Kind: "global"},
		{Name: "one", Kind: "single", Shard: "s1"},
	}
	change(&d)
	cfg := conf.Config{Databases: []conf.Database{d}}
	cfg.FillDefaults()
	d = cfg.Databases[0]
	db := &Database{Name: d.Name}
	var shards []ShardTables
	for i, s := range d.Shards {
		db.Shards = append(db.Shards, Shard{Name: s.Name, Node: s.Node, Schema: s.Schema})
		var tables ShardTables
		for _, name := range []string{"g", "h", "l", "m", "one", "plain", "r", "r2"} {
			if i > 0 && name == "plain" {
				continue // not listed: the first shard alone has it
			}
			info := TableInfo{Name: name}
			for _, c := range []string{"a", "b"} {
				info.Columns = append(info.Columns, Column{Name: c, DataType: "int", ColumnType: "int"})
			}
			info.AddIndex("PRIMARY", true, 0)
			tables = append(tables, info)
		}
		shards = append(shards, tables)
	}
	if err := BuildTables(db, &d, shards); err != nil {
		t.Fatal(err)
	}
	return db
}

func TestMoved(t *testing.T) {
	table := func(d *conf.Database, name string) *conf.Table {
		for i := range d.Tables {
			if d.Tables[i].Name == name {
				return &d.Tables[i]
			}
		}
		t.Fatal(name)
		return nil
	}
	remove := func(d *conf.Database, name string) {
		for i := range d.Tables {
			if d.Tables[i].Name == name {
				d.Tables = append(d.Tables[:i:i], d.Tables[i+1:]...)
				return
			}
		}
	}
	more := conf.Shard{Name: "s3", Node: "n1", Schema: "shop_3"}
	for _, c := range []struct {
		name   string
		change func(*conf.Database)
		want   string // "": nothing moves
	}{
		{"nothing", func(*conf.Database) {}, ""},
		{"order of tables", func(d *conf.Database) { d.Tables[0], d.Tables[1] = d.Tables[1], d.Tables[0] }, ""},
		{"isolation", func(d *conf.Database) { d.Isolation = "SERIALIZABLE" }, ""},
		{"slots written out", func(d *conf.Database) {
			d.Shards[0].Slots, d.Shards[1].Slots, d.Shards[2].Slots = "0-5460", "5461-10921", "10922-16383"
		}, ""},
		{"a shard is renamed", func(d *conf.Database) { d.Shards[2].Name = "z" }, ""},
		{"shard without slots, rules removed", func(d *conf.Database) {
			remove(d, "g")
			remove(d, "m")
			d.Shards[0].Slots, d.Shards[1].Slots, d.Shards[2].Slots = "0-5460", "5461-10921", "10922-16383"
			more := more
			more.Slots = "none"
			d.Shards = append(d.Shards, more)
		}, "table g: it is global, and would be single"},
		{"another range behind", func(d *conf.Database) {
			r := table(d, "r")
			r.Ranges = append(r.Ranges, conf.RangePart{LessThan: "30", Shard: "s2"})
		}, ""},
		{"another list value", func(d *conf.Database) {
			l := table(d, "l")
			l.Lists = append(l.Lists, conf.ListPart{Values: []string{"3"}, Shard: "s2"})
		}, ""},

		{"slots", func(d *conf.Database) {
			d.Shards[0].Slots, d.Shards[1].Slots, d.Shards[2].Slots = "0-5459", "5460-10921", "10922-16383"
		}, "table h: the rows of slot 5460 are in n0.shop_0, and would be looked for in n1.shop_1"},
		{"order of shards", func(d *conf.Database) { d.Shards[0], d.Shards[1] = d.Shards[1], d.Shards[0] }, "table h: the rows of slot 0"},
		{"a shard more", func(d *conf.Database) { d.Shards = append(d.Shards, more) }, "table g: it is global, and shard s3, which is new, may lack its rows"},
		{"schema", func(d *conf.Database) { d.Shards[2].Schema = "shop_9" }, "table g: it is global, and shard s2"},
		{"key", func(d *conf.Database) { table(d, "h").Key = []string{"b"} }, "table h: its sharding key is a, and would be b"},
		{"key of two columns", func(d *conf.Database) { table(d, "h").Key = []string{"a", "b"} }, "table h: its sharding key is a, and would be a, b"},
		{"function", func(d *conf.Database) { table(d, "h").Function = "mod" }, "table h: its function is hash, and would be mod"},
		{"key that is no column", func(d *conf.Database) { table(d, "h").Key = []string{"c"} }, `table h: it could not be used any more: it has no column "c"`},
		{"kind", func(d *conf.Database) { *table(d, "h") = conf.Table{Name: "h", Kind: "global"} }, "table h: it is sharded, and would be global"},
		{"rule of one that was not listed", func(d *conf.Database) {
			d.Tables = append(d.Tables, conf.Table{Name: "r2", Kind: "sharded", Key: []string{"a"}})
		}, "table r2: it is single, and would be sharded"},
		{"rule removed", func(d *conf.Database) { remove(d, "h") }, "table h: it is sharded, and would be single"},
		{"default", func(d *conf.Database) { d.Default = "hash" }, "table r2: it is single, and would be sharded"},
		{"single's shard", func(d *conf.Database) { table(d, "one").Shard = "s2" }, "table one: its rows are in n1.shop_1, and would be looked for in n0.shop_2"},
		{"range's bound", func(d *conf.Database) { table(d, "r").Ranges[1].LessThan = "21" }, "table r: its range 2 (below 20 in n1.shop_1) changes"},
		{"range's shard", func(d *conf.Database) { table(d, "r").Ranges[0].Shard = "s2" }, "table r: its range 1 (below 10 in n0.shop_0) changes"},
		{"range split", func(d *conf.Database) {
			r := table(d, "r")
			r.Ranges = []conf.RangePart{{LessThan: "5", Shard: "s0"}, {LessThan: "10", Shard: "s0"}, {LessThan: "20", Shard: "s1"}}
		}, "table r: its range 1"},
		{"range removed", func(d *conf.Database) { table(d, "r").Ranges = table(d, "r").Ranges[:1] }, "table r: its range 2"},
		{"list value moved", func(d *conf.Database) { table(d, "l").Lists[0].Shard = "s1" }, `table l: the rows of key "1" are in n0.shop_0`},
		{"list value removed", func(d *conf.Database) { table(d, "l").Lists[0].Values = []string{"1"} }, `table l: the rows of key "2" are in n0.shop_0`},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := built(t, func(*conf.Database) {}).Moved(built(t, c.change))
			switch {
			case c.want == "" && err != nil:
				t.Errorf("got %v, but nothing moves", err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// TestMovedByMod holds that remainders keep their shards.
func TestMovedByMod(t *testing.T) {
	only := func(change func(*conf.Database)) *Database {
		return built(t, func(d *conf.Database) {
			d.Tables = []conf.Table{{Name: "m", Kind: "sharded", Key: []string{"a"}, Function: "mod"}}
			change(d)
		})
	}
	old := only(func(*conf.Database) {})
	if err := old.Moved(only(func(d *conf.Database) {
		d.Shards = append(d.Shards, conf.Shard{Name: "s3", Node: "n1", Schema: "shop_3"})
	})); err == nil {
		t.Error("a shard more moves the remainders")
	}
	if err := old.Moved(only(func(d *conf.Database) { d.Shards[0], d.Shards[1] = d.Shards[1], d.Shards[0] })); err == nil {
		t.Error("another order of shards moves the remainders")
	}
	if err := old.Moved(only(func(d *conf.Database) { d.Shards[0].Name = "first" })); err != nil {
		t.Error(err)
	}
}
