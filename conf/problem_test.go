package conf

import (
	"errors"
	"strings"
	"testing"
)

// broken lists configurations made from small by replacing one text (or, with an
// empty old, by appending), and what Parse must say of each: whole lines.
var broken = []struct {
	name, old, new string
	want           []string
}{
	{"unknown key", `primary = "10.0.0.2:3306"`, `prmary = "10.0.0.2:3306"`, []string{
		`t:12:1: nodes.n2.primary: is missing; name the primary's address, as "10.0.0.1:3306"`,
		`t:14:1: nodes.n2.prmary: unknown key; did you mean "primary"?`}},
	{"unknown key, nothing near", `name = "shop"`, "name = \"shop\"\ncolour = 1", []string{
		`t:20:1: databases.shop.colour: unknown key; the keys here are name, default, isolation, transaction, commit_ok, shards, tables`}},
	{"unknown section", "", "[tiemouts]\nidle = \"1s\"", []string{
		`t:30:1: tiemouts: unknown key; did you mean "timeouts"?`}},
	{"key in other case", `user = "braid"`, `User = "braid"`, []string{
		`t:6:1: nodes.n1.user: is missing; name the MySQL account that Braid logs in with`,
		`t:9:1: nodes.n1.User: unknown key; did you mean "user"?`}},
	{"number as text", "", "[proxy]\nconnections_max = \"9\"", []string{
		`t:31:1: proxy.connections_max: must be a whole number, found text; write it without quotes and without a unit`}},
	{"text as number", `password = "s3cret"`, `password = 12345`, []string{
		`t:2:1: users.app: has no password; set one of password_env, password_file, password_hash, password`,
		`t:4:1: users.app.password: must be text, found a whole number; put it in quotes`}},
	{"duration without unit", "", "[timeouts]\nidle = 5\nconnect = \"5 s\"", []string{
		`t:31:1: timeouts.idle: is not a duration; write a number with its unit in quotes: "250ms", "5s", "10m", "8h"`,
		`t:32:1: timeouts.connect: is not a duration; write a number with its unit in quotes: "250ms", "5s", "10m", "8h"`}},
	{"list as text", `key = ["customer_id"]`, `key = "customer_id"`, []string{
		`t:29:1: databases.shop.tables.orders.key: must be a list, found text; put it in brackets: [ ... ]`}},
	{"one bracket", "[[users]]", "[users]", []string{
		`t:2:1: users: must be a list, found a table; write its header with two brackets: [[ ... ]]`}},
	{"syntax", `node = "n1"`, `node = n1`, []string{
		`t:22:8: expected value but found "n" instead; see https://toml.io for the format`}},

	{"no listener", "", "[proxy]\nlisten = []", []string{
		`t:31:1: proxy.listen: is empty; name at least one address, as "127.0.0.1:3306"`}},
	{"listener twice", "", "[proxy]\nlisten = [\"127.0.0.1:3306\",\n  \"localhost:3306\"]", []string{
		`t:32:3: proxy.listen[1]: localhost:3306 is listed already; remove one of the two`}},
	{"bad listener", "", "[proxy]\nlisten = [\"3306\"]", []string{
		`t:31:11: proxy.listen[0]: "3306": is not an address; write "host:port" or "unix:/path"`}},
	{"version", "", "[proxy]\nversion = \"eight\"", []string{
		`t:31:1: proxy.version: "eight" does not look like a server version; write it as MySQL does: "8.4.0" or "8.4.0-braid", 60 characters at most`}},
	{"numbers out of range", "", "[proxy]\nplans_max = 0\npacket_bytes_max = 1073741825", []string{
		`t:31:1: proxy.plans_max: 0 is out of range; choose 1 to 10000000`,
		`t:32:1: proxy.packet_bytes_max: 1073741825 is out of range; choose 1024 to 1073741824`}},
	{"admin reachable", "", "[admin]\nhttp = \"0.0.0.0:9100\"\nlisten = \":6032\"\nusers = [{ name = \"ops\", password = \"x\" }]", []string{
		`t:31:1: admin.http: 0.0.0.0:9100 can be reached from other machines; listen on 127.0.0.1 or a unix: socket, or set admin.allow_remote = true`,
		`t:32:1: admin.listen: :6032 can be reached from other machines; listen on 127.0.0.1 or a unix: socket, or set admin.allow_remote = true`}},
	{"admin port taken", "", "[admin]\nhttp = \"127.0.0.1:3306\"", []string{
		`t:31:1: admin.http: 127.0.0.1:3306 is taken by another listener of this configuration; choose another port`}},
	{"admin without users", "", "[admin]\nlisten = \"127.0.0.1:6032\"", []string{
		`t:31:1: admin.listen: the admin port is on, but nobody may log in to it; add [[admin.users]]`}},
	{"admin user with databases", "", "[[admin.users]]\nname = \"ops\"\npassword = \"x\"\ndatabases = [\"shop\"]", []string{
		`t:33:1: admin.users.ops.databases: an admin user has no databases; remove the key`}},
	{"log words", "", "[log]\nlevel = \"warning\"\nformat = \"xml\"", []string{
		`t:31:1: log.level: "warning" is not known here; did you mean "warn"?`,
		`t:32:1: log.format: "xml" is not known here; write "json" or "console"`}},

	{"user without password", `password = "s3cret"`, ``, []string{
		`t:2:1: users.app: has no password; set one of password_env, password_file, password_hash, password`}},
	{"user with empty password", `password = "s3cret"`, `password = ""`, []string{
		`t:2:1: users.app: has no password; set one of password_env, password_file, password_hash, password`}},
	{"two passwords", `password = "s3cret"`, "password = \"s3cret\"\npassword_env = \"X\"", []string{
		`t:5:1: users.app.password_env: password is set as well; keep one of password, password_env`}},
	{"no hash", `password = "s3cret"`, `password_hash = "s3cret"`, []string{
		`t:4:1: users.app.password_hash: is neither a mysql_native_password nor a caching_sha2_password hash; copy it from SHOW CREATE USER with print_identified_with_as_hex = ON, or use password_file`}},
	{"user twice", "", "[[users]]\nname = \"app\"\npassword = \"x\"", []string{
		`t:31:1: users.app.name: there is a user "app" already; give each user a name of its own`}},
	{"user's database", `password = "s3cret"`, "password = \"s3cret\"\ndatabases = [\"shop\", \"shpo\", \"shop\"]", []string{
		`t:5:22: users.app.databases[1]: there is no database "shpo"; did you mean "shop"?`,
		`t:5:30: users.app.databases[2]: "shop" is listed already; remove one of the two`}},

	{"T6: two nodes at one address", `10.0.0.2:3306`, `10.0.0.1:3306`, []string{
		`t:14:1: nodes.n2.primary: 10.0.0.1:3306 is nodes.n1's primary too; give each of them a server of its own`}},
	{"T6: replica is a primary", `primary = "10.0.0.2:3306"`, "primary = \"10.0.0.2:3306\"\nreplicas = [\"10.0.0.3:3306\", \"10.0.0.1:3306\"]", []string{
		`t:15:1: nodes.n2.replicas: reading from replicas is not built yet; remove the key: all statements go to the primary`,
		`t:15:30: nodes.n2.replicas[1]: 10.0.0.1:3306 is nodes.n1's primary too; give each of them a server of its own`}},
	{"node is Braid", `10.0.0.2:3306`, `localhost:3306`, []string{
		`t:14:1: nodes.n2.primary: localhost:3306 is where Braid itself listens (proxy.listen); name the MySQL server's address, or let Braid listen elsewhere`}},
	{"node without port", `10.0.0.2:3306`, `10.0.0.2`, []string{
		`t:14:1: nodes.n2.primary: "10.0.0.2": is not an address; write "host:port" or "unix:/path"`}},
	{"node name", `name = "n2"`, `name = "knoten 2"`, []string{
		`t:13:1: nodes.knoten 2.name: "knoten 2" cannot stand in a transaction's name; use 1 to 32 letters, digits, '-' and '_'`,
		`t:25:1: databases.shop.shards.s2.node: there is no node "n2"; did you mean "n1"?`}},
	{"node's hash", `password_env = "N2"`, `password_hash = "*94BDCEBE19083CE2A1F959FD02F964C7AF4CFC29"`, []string{
		`t:16:1: nodes.n2.password_hash: Braid cannot log in with a hash; use password_env or password_file`}},

	{"system schema", `name = "shop"`, `name = "MySQL"`, []string{
		`t:19:1: databases.MySQL.name: "MySQL" is a schema that each server keeps for itself; choose another name`}},
	{"isolation", `name = "shop"`, "name = \"shop\"\nisolation = \"repeatable\"\ntransaction = \"atomc\"\ndefault = \"x\"", []string{
		`t:20:1: databases.shop.isolation: "REPEATABLE" is not known here; write "READ-UNCOMMITTED", "READ-COMMITTED", "REPEATABLE-READ" or "SERIALIZABLE"`,
		`t:21:1: databases.shop.transaction: "atomc" is not known here; did you mean "atomic"?`,
		`t:22:1: databases.shop.default: "x" is not known here; write "single" or "hash"`}},
	{"shard's node", `node = "n2"`, `node = "m7"`, []string{
		`t:25:1: databases.shop.shards.s2.node: there is no node "m7"; write "n1" or "n2"`}},
	{"shards share a schema", `node = "n2"`, `node = "n1"`, []string{
		`t:23:1: databases.shop.shards.s2.schema: schema "shop" on node "n1" is databases.shop.shards.s1 already; give each shard a schema of its own, or its own node`}},
	{"table kind", `kind = "sharded"`, `kind = "shared"`, []string{
		`t:28:1: databases.shop.tables.orders.kind: "shared" is not known here; did you mean "sharded"?`}},
	{"table without kind", `kind = "sharded"`, ``, []string{
		`t:26:1: databases.shop.tables.orders.kind: is missing; write "sharded", "global" or "single"`}},
	{"global with key", `kind = "sharded"`, `kind = "global"`, []string{
		`t:29:1: databases.shop.tables.orders.key: is for a sharded table only; remove it, or change the table's kind`}},
	{"sharded without key", `key = ["customer_id"]`, ``, []string{
		`t:26:1: databases.shop.tables.orders.key: is missing; name the columns whose values choose the shard`}},
	{"sharded with shard", `key = ["customer_id"]`, "key = [\"customer_id\"]\nshard = \"s1\"", []string{
		`t:30:1: databases.shop.tables.orders.shard: is for a single table only; remove it, or change the table's kind`}},
	{"key column twice", `key = ["customer_id"]`, `key = ["a", "A", ""]`, []string{
		`t:29:13: databases.shop.tables.orders.key[1]: column "A" is listed already; remove one of the two`,
		`t:29:18: databases.shop.tables.orders.key[2]: is empty; name a column`}},
	{"mod takes one column", `key = ["customer_id"]`, "key = [\"a\", \"b\"]\nfunction = \"mod\"", []string{
		`t:29:1: databases.shop.tables.orders.key: function "mod" takes one column; name one, or use function = "hash"`}},
	{"function", `key = ["customer_id"]`, "key = [\"a\"]\nfunction = \"hsah\"", []string{
		`t:30:1: databases.shop.tables.orders.function: "hsah" is not known here; did you mean "hash"?`}},
	{"ranges of hash", `key = ["customer_id"]`, "key = [\"a\"]\nranges = [{ shard = \"s1\" }]", []string{
		`t:30:1: databases.shop.tables.orders.ranges: is for function = "range" only; remove it, or change the table's kind`}},
	{"range without ranges", `key = ["customer_id"]`, "key = [\"a\"]\nfunction = \"range\"", []string{
		`t:26:1: databases.shop.tables.orders.ranges: is missing; add [[databases.tables.ranges]] with less_than and shard`}},
	{"ranges descend", `key = ["customer_id"]`, "key = [\"a\"]\nfunction = \"range\"\nranges = [\n  { less_than = 20, shard = \"s1\" },\n  { less_than = 10, shard = \"s3\" },\n  { shard = \"s1\" },\n  { less_than = 40, shard = \"s2\" }]", []string{
		`t:33:5: databases.shop.tables.orders.ranges[1].less_than: "10" does not come after "20"; order the parts by less_than, ascending, each bound once`,
		`t:33:21: databases.shop.tables.orders.ranges[1].shard: there is no shard "s3"; did you mean "s1"?`,
		`t:34:3: databases.shop.tables.orders.ranges[2].less_than: is missing; only the last part may be without it`}},
	{"list key twice", `key = ["customer_id"]`, "key = [\"a\"]\nfunction = \"list\"\nlists = [{ values = [1, 2], shard = \"s1\" }, { values = [3, \"2\"], shard = \"s2\" }]", []string{
		`t:31:60: databases.shop.tables.orders.lists[1].values[1]: "2" is listed already, at databases.shop.tables.orders.lists[0].values[1]; list each key once`}},
	{"colocated with nothing", "", "[[databases.tables]]\nname = \"items\"\nkind = \"sharded\"\nkey = [\"order_id\"]\ncolocated = \"order\"", []string{
		`t:34:1: databases.shop.tables.items.colocated: there is no sharded table "order"; did you mean "orders"?`}},
	{"colocated with other key", "", "[[databases.tables]]\nname = \"items\"\nkind = \"sharded\"\nkey = [\"a\", \"b\"]\ncolocated = \"orders\"\nfunction = \"hash\"", []string{
		`t:33:1: databases.shop.tables.items.key: 2 columns, while the key of "orders" has 1; name the columns of this table that hold that table's key, in its order`,
		`t:35:1: databases.shop.tables.items.function: is for the table it is co-located with only; remove it, or change the table's kind`}},
	{"colocated with global", "", "[[databases.tables]]\nname = \"items\"\nkind = \"sharded\"\nkey = [\"a\"]\ncolocated = \"g\"\n[[databases.tables]]\nname = \"g\"\nkind = \"global\"", []string{
		`t:34:1: databases.shop.tables.items.colocated: table "g" is not sharded; name a sharded table`}},
	{"colocated with itself", `key = ["customer_id"]`, "key = [\"customer_id\"]\ncolocated = \"orders\"", []string{
		`t:30:1: databases.shop.tables.orders.colocated: a table cannot be co-located with itself; name another one, or give it a function`}},
	{"colocated in a circle", `key = ["customer_id"]`, "key = [\"customer_id\"]\ncolocated = \"b\"\n[[databases.tables]]\nname = \"b\"\nkind = \"sharded\"\nkey = [\"x\"]\ncolocated = \"orders\"", []string{
		`t:30:1: databases.shop.tables.orders.colocated: the tables orders -> b -> orders are co-located in a circle; give one of them a function of its own`,
		`t:35:1: databases.shop.tables.b.colocated: the tables b -> orders -> b are co-located in a circle; give one of them a function of its own`}},
	{"sequence", `key = ["customer_id"]`, "key = [\"customer_id\"]\nsequence = \"blocks\"", []string{
		`t:30:1: databases.shop.tables.orders.sequence: "blocks" is not known here; did you mean "block"?`}},
	{"single's shard", "", "[[databases.tables]]\nname = \"x\"\nkind = \"single\"\nshard = \"s9\"", []string{
		`t:33:1: databases.shop.tables.x.shard: there is no shard "s9"; did you mean "s1"?`}},
	{"timeouts", "", "[timeouts]\nidle = \"0s\"\nconnect = \"-1s\"\nstatement = \"1us\"", []string{
		`t:31:1: timeouts.idle: 0s is out of range; choose 1s to 8760h`,
		`t:32:1: timeouts.connect: -1s is out of range; choose 10ms to 10m`,
		`t:33:1: timeouts.statement: 1µs is out of range; choose 1ms to 8760h`}},
	{"T7: grace against retention", "", "[recovery]\ngrace = \"1h\"\nretention = \"2h\"", []string{
		`t:31:1: recovery.grace: 1h is more than a quarter of recovery.retention, 2h; branches older than half the retention are never decided: shorten grace or lengthen retention`}},
}

func TestParseReportsProblems(t *testing.T) {
	for _, c := range broken {
		t.Run(c.name, func(t *testing.T) {
			text := small + c.new
			if c.old != "" {
				text = strings.Replace(small, c.old, c.new, 1)
			}
			_, err := Parse("t", []byte(text))
			var problems Problems
			if !errors.As(err, &problems) {
				t.Fatalf("Parse answers %v", err)
			}
			if got, want := problems.Error(), strings.Join(c.want, "\n"); got != want {
				t.Errorf("got:\n%s\nwant:\n%s", got, want)
			}
		})
	}
}

func TestSlotProblems(t *testing.T) {
	for _, c := range []struct{ name, s1, s2, want string }{
		{"overlap", "0-8191", "8190-16383", `t:27:1: databases.shop.shards.s2.slots: slots 8190-8191 belong to shard "s1" already; give each slot to one shard`},
		{"gap", "0-99,101-8191", "8192-16382", `t:20:1: databases.shop.shards: slots 100,16383 belong to no shard; give each of the slots 0-16383 to one shard`},
		{"twice", "0-8191,5", "8192-16383", `t:23:1: databases.shop.shards.s1.slots: slots 5 stand here twice; give each slot to one shard`},
		{"backwards", "8191-0", "8192-16383", `t:23:1: databases.shop.shards.s1.slots: the range 8191-0 runs backwards; write slots as "0-4095" or "0-99,200-299"`},
		{"beyond", "0-8191", "8192-16384", `t:27:1: databases.shop.shards.s2.slots: slot 16384 does not exist, the last one is 16383; write slots as "0-4095" or "0-99,200-299"`},
		{"words", "0-8191", "rest", `t:27:1: databases.shop.shards.s2.slots: "rest" is not a slot or a range of slots; write slots as "0-4095" or "0-99,200-299"`},
		{"sign", "0-8191", "8192-+16383", `t:27:1: databases.shop.shards.s2.slots: "8192-+16383" is not a slot or a range of slots; write slots as "0-4095" or "0-99,200-299"`},
		{"one without", "0-8191", "", `t:27:1: databases.shop.shards.s2.slots: is missing while other shards of the database name theirs; name the slots of every shard ("none" for a shard without), or of none to spread them evenly`},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := strings.NewReplacer(
				`node = "n1"`, "node = \"n1\"\nslots = \""+c.s1+`"`,
				`node = "n2"`, "node = \"n2\"\nslots = \""+c.s2+`"`).Replace(small)
			_, err := Parse("t", []byte(text))
			if err == nil || err.Error() != c.want {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
		})
	}
	text := strings.NewReplacer(
		`node = "n1"`, "node = \"n1\"\nslots = \"0-16383\"",
		`node = "n2"`, "node = \"n2\"\nslots = \"none\"").Replace(small)
	mustParse(t, text)
}

// TestMissingEverything holds that an empty text says what is needed.
func TestMissingEverything(t *testing.T) {
	_, err := Parse("t", nil)
	want := "t:1:1: nodes: there is no node; add [[nodes]] with name, primary, user and a password\n" +
		"t:1:1: databases: there is no database; add [[databases]] with name and shards"
	if err == nil || err.Error() != want {
		t.Errorf("got:\n%v\nwant:\n%s", err, want)
	}
}

func TestValidateWithoutText(t *testing.T) {
	c := mustParse(t, small)
	c.Databases[0].Shards[1].Node = "n3"
	want := `databases.shop.shards.s2.node: there is no node "n3"; did you mean "n1"?`
	if err := c.Validate(); err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

func TestEditDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "abc", 3}, {"abc", "abc", 0}, {"prmary", "primary", 1}, {"kitten", "sitting", 3}, {"shpo", "shop", 1}, {"ab", "", 2}} {
		if got := editDistance(c.a, c.b); got != c.want {
			t.Errorf("%q to %q: %d, want %d", c.a, c.b, got, c.want)
		}
	}
}
