package conf

import (
	"strings"
	"testing"
)

func TestDiff(t *testing.T) {
	table := func(name string) string {
		return "\n[[databases.tables]]\nname = \"" + name + "\"\nkind = \"global\"\n"
	}
	for _, c := range []struct {
		name   string
		change func(*Config)
		want   string // "" for no change
	}{
		{"nothing", func(*Config) {}, ""},
		{"address", func(c *Config) { c.Nodes[1].Primary = "10.0.0.9:3306" },
			"live nodes.n2.primary: 10.0.0.2:3306 -> 10.0.0.9:3306"},
		{"replica", func(c *Config) { c.Nodes[0].Replicas = []string{"a:1", "b:1"} },
			"live nodes.n1.replicas: (none) -> a:1, b:1"},
		{"empty list", func(c *Config) { c.Nodes[0].Replicas = []string{} }, ""},
		{"listener", func(c *Config) { c.Proxy.Listen = append(c.Proxy.Listen, "unix:/b") },
			"restart proxy.listen: 127.0.0.1:3306 -> 127.0.0.1:3306, unix:/b"},
		{"log", func(c *Config) { c.Log.Level = "debug" }, "restart log.level: info -> debug"},
		{"timeout", func(c *Config) { c.Timeouts.Statement = Duration(5e9) }, "live timeouts.statement: 0s -> 5s"},
		{"switch", func(c *Config) { c.Proxy.RelayOff = true }, "live proxy.relay_off: false -> true"},
		{"password", func(c *Config) { c.Users[0].Password = "other" }, "live users.app.password: changed"},
		{"kind of password", func(c *Config) { c.Users[0].Secret = Secret{PasswordEnv: "X"} },
			"live users.app.password: (hidden) -> (none)\nlive users.app.password_env: (none) -> X"},
		{"user", func(c *Config) { c.Users = []User{{Name: "web"}} }, "live users: - app\nlive users: + web"},
		{"admin user", func(c *Config) { c.Admin.Users = []User{{Name: "ops"}} }, "live admin.users: + ops"},
		{"order of nodes", func(c *Config) { c.Nodes[0], c.Nodes[1] = c.Nodes[1], c.Nodes[0] }, ""},
		{"isolation", func(c *Config) { c.Databases[0].Isolation = "SERIALIZABLE" },
			"live databases.shop.isolation: REPEATABLE-READ -> SERIALIZABLE"},
		{"order of shards", func(c *Config) { s := c.Databases[0].Shards; s[0], s[1] = s[1], s[0] },
			"placement databases.shop.shards: s1, s2 -> s2, s1"},
		{"slots", func(c *Config) { c.Databases[0].Shards[0].Slots = "0-9" },
			"placement databases.shop.shards.s1.slots: 0-8191 -> 0-9"},
		{"key", func(c *Config) { c.Databases[0].Tables[0].Key = []string{"a", "b"} },
			"placement databases.shop.tables.orders.key: customer_id -> a, b"},
		{"ranges", func(c *Config) {
			c.Databases[0].Tables[0].Ranges = []RangePart{{LessThan: "10", Shard: "s1"}, {Shard: "s2"}}
		}, "placement databases.shop.tables.orders.ranges: (none) -> < 10: s1, rest: s2"},
		{"sequence", func(c *Config) { c.Databases[0].Tables[0].Sequence = "block" },
			"live databases.shop.tables.orders.sequence: (none) -> block"},
		{"table", func(c *Config) {
			c.Databases[0].Tables = mustParse(t, small+table("country")).Databases[0].Tables
		}, "placement databases.shop.tables: + country"},
		{"database", func(c *Config) { c.Databases = nil }, "live databases: - shop"},
	} {
		t.Run(c.name, func(t *testing.T) {
			old, changed := mustParse(t, small), mustParse(t, small)
			c.change(changed)
			var got []string
			for _, ch := range Diff(old, changed) {
				got = append(got, ch.Effect.String()+" "+ch.String())
			}
			if strings.Join(got, "\n") != c.want {
				t.Errorf("got:\n%s\nwant:\n%s", strings.Join(got, "\n"), c.want)
			}
		})
	}
}

// TestDiffTellsListsApart holds that two lists that print alike still differ.
func TestDiffTellsListsApart(t *testing.T) {
	old, changed := mustParse(t, small), mustParse(t, small)
	old.Databases[0].Tables[0].Lists = []ListPart{{Values: []string{"a b"}, Shard: "s1"}}
	changed.Databases[0].Tables[0].Lists = []ListPart{{Values: []string{"a", "b"}, Shard: "s1"}}
	want := `databases.shop.tables.orders.lists: ["a b"]: s1 -> ["a" "b"]: s1`
	if got := Diff(old, changed); len(got) != 1 || got[0].String() != want {
		t.Errorf("got %v, want %s", got, want)
	}
}
