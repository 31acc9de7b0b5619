package conf

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

// small is the smallest valid configuration; the tests add to it.
const small = `
[[users]]
name = "app"
password = "s3cret"

[[nodes]]
name = "n1"
primary = "10.0.0.1:3306"
user = "braid"
password_env = "N1"

[[nodes]]
name = "n2"
primary = "10.0.0.2:3306"
user = "braid"
password_env = "N2"

[[databases]]
name = "shop"
[[databases.shards]]
name = "s1"
node = "n1"
[[databases.shards]]
name = "s2"
node = "n2"
[[databases.tables]]
name = "orders"
kind = "sharded"
key = ["customer_id"]
`

func mustParse(t *testing.T, text string) *Config {
	t.Helper()
	c, err := Parse("braid.toml", []byte(text))
	if err != nil {
		t.Fatalf("Parse: %v", err)
	}
	return c
}

func TestParseFillsInDefaults(t *testing.T) {
	c := mustParse(t, small)
	if got := c.Proxy.Listen; !reflect.DeepEqual(got, []string{"127.0.0.1:3306"}) {
		t.Errorf("proxy.listen = %q", got)
	}
	if c.Admin.Listen != "" || c.Admin.HTTP != "" {
		t.Errorf("the admin side is on without being asked for: %+v", c.Admin)
	}
	d := c.Databases[0]
	if d.Isolation != "REPEATABLE-READ" || d.Default != "single" || d.Transaction != "atomic" {
		t.Errorf("database: %+v", d)
	}
	if d.Shards[0].Schema != "shop" || d.Shards[0].Slots != "0-8191" || d.Shards[1].Slots != "8192-16383" {
		t.Errorf("shards: %+v", d.Shards)
	}
	if d.Tables[0].Function != "hash" {
		t.Errorf("function = %q, want hash", d.Tables[0].Function)
	}
	if c.Nodes[0].ConnectionsMax != c.Pool.ConnectionsMax {
		t.Errorf("nodes.n1.connections_max = %d", c.Nodes[0].ConnectionsMax)
	}
	if c.Timeouts.Idle != Duration(8*time.Hour) || c.Timeouts.Statement != 0 {
		t.Errorf("timeouts: %+v", c.Timeouts)
	}
}

func TestParseKeepsWrittenZero(t *testing.T) {
	c := mustParse(t, "[pool]\nidle_max = 0\n[timeouts]\ndrain = \"0s\"\n"+small)
	if c.Pool.IdleMax != 0 || c.Timeouts.Drain != 0 {
		t.Errorf("a written 0 became a default: idle_max %d, drain %s", c.Pool.IdleMax, c.Timeouts.Drain)
	}
}

func TestParseNormalisesIsolation(t *testing.T) {
	for _, written := range []string{"read committed", "READ-COMMITTED", "Read_Committed"} {
		c := mustParse(t, strings.Replace(small, `name = "shop"`, `name = "shop"`+"\nisolation = \""+written+`"`, 1))
		if got := c.Databases[0].Isolation; got != "READ-COMMITTED" {
			t.Errorf("%q became %q", written, got)
		}
	}
}

func TestFillDefaultsOfHandBuiltConfig(t *testing.T) {
	c := &Config{
		Nodes: []Node{{Name: "n1", Primary: "127.0.0.1:33061", User: "root"}},
		Databases: []Database{{Name: "shop", Isolation: "serializable", Shards: []Shard{{Name: "s1", Node: "n1"}},
			Tables: []Table{{Name: "t", Kind: "single"}}}},
	}
	c.FillDefaults()
	if err := c.Validate(); err != nil {
		t.Fatalf("Validate: %v", err)
	}
	if c.Databases[0].Tables[0].Shard != "s1" || c.Databases[0].Isolation != "SERIALIZABLE" {
		t.Errorf("%+v", c.Databases[0])
	}
}

func TestLoadResolvesFileNames(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "braid.toml")
	text := strings.Replace(small, `password_env = "N1"`, `password_file = "n1.secret"`, 1)
	if err := os.WriteFile(path, []byte("[log]\nfile = \"braid.log\"\n"+text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if c.File != path || c.Nodes[0].PasswordFile != filepath.Join(folder, "n1.secret") || c.Log.File != filepath.Join(folder, "braid.log") {
		t.Errorf("File %q, password_file %q, log.file %q", c.File, c.Nodes[0].PasswordFile, c.Log.File)
	}
	if _, err := Load(filepath.Join(folder, "missing.toml")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file answers %v", err)
	}
}

// TestStringParsesBack holds that what String prints is the same configuration.
func TestStringParsesBack(t *testing.T) {
	text := strings.Replace(small, `password = "s3cret"`, `password_env = "APP"`, 1) + `
[[databases.tables]]
name = "log \"x\""
kind = "sharded"
key = ["id"]
function = "range"
ranges = [{ less_than = 1000, shard = "s1" }, { shard = "s2" }]
[[databases.tables]]
name = "country"
kind = "sharded"
key = ["code"]
function = "list"
lists = [{ values = ["de", 49], shard = "s1" }]
`
	c := mustParse(t, text)
	again := mustParse(t, c.String())
	if !reflect.DeepEqual(c, again) {
		t.Errorf("printed:\n%s\nread back:\n%s", c, again)
	}
	if got := c.Databases[0].Tables[1].Ranges[0].LessThan; got != "1000" {
		t.Errorf("a number without quotes became %q", got)
	}
	if got := c.Databases[0].Tables[2].Lists[0].Values; !reflect.DeepEqual(got, []string{"de", "49"}) {
		t.Errorf("values = %q", got)
	}
}

func TestSlotOwners(t *testing.T) {
	c := mustParse(t, strings.NewReplacer(
		"name = \"s1\"", "name = \"s1\"\nslots = \"0-99,200-16383\"",
		"name = \"s2\"", "name = \"s2\"\nslots = \"100-199\"").Replace(small))
	owners, err := c.Databases[0].SlotOwners()
	if err != nil {
		t.Fatal(err)
	}
	for slot, want := range map[int]uint16{0: 0, 99: 0, 100: 1, 199: 1, 200: 0, 16383: 0} {
		if owners[slot] != want {
			t.Errorf("slot %d belongs to shard %d, want %d", slot, owners[slot], want)
		}
	}
}

// TestSlotsSpreadEvenly checks for many numbers of shards that each slot has one
// owner and that no shard has two slots more than another.
func TestSlotsSpreadEvenly(t *testing.T) {
	for _, n := range []int{1, 2, 3, 7, 16, 1000, Slots} {
		d := Database{Name: "d", Shards: make([]Shard, n)}
		d.fillSlots()
		owners, err := d.SlotOwners()
		if err != nil {
			t.Fatalf("%d shards: %v", n, err)
		}
		count := make([]int, n)
		for slot, shard := range owners {
			count[shard]++
			if slot > 0 && shard < owners[slot-1] {
				t.Fatalf("%d shards: slot %d goes back to shard %d", n, slot, shard)
			}
		}
		for shard, c := range count {
			if c < Slots/n || c > Slots/n+1 {
				t.Errorf("%d shards: shard %d has %d slots", n, shard, c)
			}
		}
	}
}

func TestDurationText(t *testing.T) {
	for text, want := range map[string]string{"8h": "8h", "90m": "1h30m", "250ms": "250ms", "0s": "0s", "10m": "10m", "3605s": "1h0m5s", "100s": "1m40s"} {
		var d Duration
		if err := d.UnmarshalText([]byte(text)); err != nil || d.String() != want {
			t.Errorf("%q became %q (%v), want %q", text, d, err, want)
		}
		var again Duration
		if err := again.UnmarshalText([]byte(d.String())); err != nil || again != d {
			t.Errorf("%q does not read back", d)
		}
	}
}

func TestParseAddress(t *testing.T) {
	for _, c := range []struct{ text, network, address string }{
		{"127.0.0.1:3306", "tcp", "127.0.0.1:3306"},
		{":0", "tcp", ":0"},
		{"[::1]:3306", "tcp", "[::1]:3306"},
		{"unix:/run/braid.sock", "unix", "/run/braid.sock"},
	} {
		network, address, err := ParseAddress(c.text)
		if err != nil || network != c.network || address != c.address {
			t.Errorf("%q: %q %q %v", c.text, network, address, err)
		}
	}
	for _, text := range []string{"", "db", "db:", "db:mysql", "db:65536", "db:03306", "::1:3306", "unix:run", "unix:/" + strings.Repeat("x", 107)} {
		if _, _, err := ParseAddress(text); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}
