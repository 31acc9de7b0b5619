package admin

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"braid/conf"
	"braid/tests/e2e"
	"braid/tests/servers"
)

// file is the configuration file of a Braid whose nodes are known only after it
// has started.
type file struct {
	path string
	text string
}

// startWithFile starts Braid; what it runs with is then in the file.
func startWithFile(t *testing.T, flavour servers.Flavour, changes ...func(*conf.Config)) (*e2e.Braid, *file) {
	t.Helper()
	f := &file{path: filepath.Join(t.TempDir(), "braid.toml")}
	b := start(t, flavour, func() (*conf.Config, error) { return conf.Load(f.path) }, changes...)
	var text strings.Builder
	fmt.Fprintf(&text, "[proxy]\nlisten = [%q]\n[admin]\nlisten = %q\nhttp = %q\n[[admin.users]]\nname = %q\npassword = %q\n[timeouts]\ndrain = \"2s\"\n",
		b.Config.Proxy.Listen[0], b.Config.Admin.Listen, b.Config.Admin.HTTP, operator, operatorPassword)
	fmt.Fprintf(&text, "[[users]]\nname = %q\npassword = %q\n", servers.User, servers.Password)
	for _, n := range b.Config.Nodes {
		fmt.Fprintf(&text, "[[nodes]]\nname = %q\nprimary = %q\nuser = %q\npassword = %q\n", n.Name, n.Primary, n.User, n.Password)
	}
	text.WriteString("[[databases]]\nname = \"shop\"\n")
	for _, s := range b.Config.Databases[0].Shards {
		fmt.Fprintf(&text, "[[databases.shards]]\nname = %q\nnode = %q\nschema = %q\n", s.Name, s.Node, s.Schema)
	}
	text.WriteString("[[databases.tables]]\nname = \"t\"\nkind = \"sharded\"\nkey = [\"k\"]\n[[databases.tables]]\nname = \"g\"\nkind = \"global\"\n")
	f.write(t, text.String())
	return b, f
}

func (f *file) write(t *testing.T, text string) {
	t.Helper()
	f.text = text
	if err := os.WriteFile(f.path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// replace changes a text of the file that is there.
func (f *file) replace(t *testing.T, old, new string) {
	t.Helper()
	if !strings.Contains(f.text, old) {
		t.Fatalf("the file has no %q", old)
	}
	f.write(t, strings.Replace(f.text, old, new, 1))
}

// TestReload adds a table as an operator does, under an open transaction.
func TestReload(t *testing.T) {
	for _, flavour := range flavours {
		t.Run(string(flavour), func(t *testing.T) {
			b, f := startWithFile(t, flavour)
			db, ops := b.Open(t), open(t, b, operator, operatorPassword)
			if columns, rows := ask(t, ops, "RELOAD CONFIG"); len(rows) != 0 || !slices.Equal(columns, []string{"change", "effect"}) {
				t.Fatalf("a reload of the same: %q %q", columns, rows)
			}
			exec(t, db, "CREATE TABLE t(k INT PRIMARY KEY, v INT)")
			tx, err := db.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			exec(t, tx, "INSERT INTO t VALUES (1,1),(2,2),(3,3),(4,4)")

			f.write(t, f.text+"[[databases.tables]]\nname = \"more\"\nkind = \"sharded\"\nkey = [\"id\"]\n[pool]\nidle_max = 7\n[log]\nlevel = \"warn\"\n")
			f.replace(t, "drain = \"2s\"", "drain = \"3s\"")
			_, rows := ask(t, ops, "reload config")
			want := [][]string{
				{"log.level: info -> warn", "restart"},
				{"pool.idle_max: 32 -> 7", "live"},
				{"timeouts.drain: 2s -> 3s", "live"},
				{"databases.shop.tables: + more", "placement"},
			}
			if !slices.EqualFunc(rows, want, slices.Equal) {
				t.Errorf("RELOAD CONFIG: %q", rows)
			}
			exec(t, tx, "INSERT INTO t VALUES (5,5),(6,6),(7,7),(8,8)")
			if err := tx.Commit(); err != nil {
				t.Errorf("a transaction over the reload: %v", err)
			}
			exec(t, db, "CREATE TABLE more(id INT PRIMARY KEY)", "INSERT INTO more VALUES (1),(2),(3),(4),(5),(6),(7),(8)")
			for table, want := range map[string]int{"t": 8, "more": 8} {
				sum, used := 0, 0
				for _, place := range b.Shards() {
					var n int
					if err := e2e.Open(t, place.Node, place.Schema).QueryRowContext(t.Context(), "SELECT COUNT(*) FROM "+table).Scan(&n); err != nil {
						t.Fatal(place.Shard, err)
					}
					if sum += n; n > 0 {
						used++
					}
				}
				if sum != want || used < 2 {
					t.Errorf("%s: %d rows on %d shards", table, sum, used)
				}
			}
		})
	}
}

// TestReloadRefuses holds that a configuration that cannot be leaves everything
// as it was, and says why.
func TestReloadRefuses(t *testing.T) {
	for _, flavour := range flavours {
		t.Run(string(flavour), func(t *testing.T) {
			b, f := startWithFile(t, flavour)
			db, ops := b.Open(t), open(t, b, operator, operatorPassword)
			exec(t, db, "CREATE TABLE t(k INT PRIMARY KEY, v INT)", "CREATE TABLE g(k INT PRIMARY KEY)", "CREATE TABLE plain(k INT PRIMARY KEY)",
				"INSERT INTO t VALUES (1,1),(2,2),(3,3),(4,4),(5,5)")
			good := f.text
			_, before := ask(t, ops, "SHOW CONFIG")
			for _, c := range []struct {
				name, old, new string
				want           []string
			}{
				{"unknown key", "[timeouts]", "[tiemouts]", []string{`braid.toml:9:1: tiemouts: unknown key; did you mean "timeouts"?`}},
				{"syntax", "[timeouts]", "[timeouts", []string{"braid.toml:9:"}},
				{"no such schema", `schema = "shop_3"`, `schema = "shop_9"`, []string{"has no schema shop_9"}},
				{"node's password", "user = \"braid\"\npassword = \"" + servers.Password, "user = \"braid\"\npassword = \"wrong", []string{"refused the login"}},
				{"unknown password", "password = \"" + servers.Password, "password_env = \"BRAID_TEST_NO_SUCH_VARIABLE", []string{"BRAID_TEST_NO_SUCH_VARIABLE"}},
				{"key", `key = ["k"]`, `key = ["v"]`, []string{"table t: its sharding key is k, and would be v", "Braid moves no rows"}},
				{"column", `key = ["k"]`, `key = ["nope"]`, []string{`table t: it could not be used any more: it has no column "nope"`}},
				{"kind", "kind = \"global\"", "kind = \"single\"", []string{"table g: it is global, and would be single"}},
				{"a table that exists", "[[databases.tables]]\nname = \"g\"", "[[databases.tables]]\nname = \"plain\"\nkind = \"global\"\n[[databases.tables]]\nname = \"g\"", []string{"table plain"}},
				{"slots", "[[databases.shards]]\nname = \"s0\"", "[[databases.shards]]\nname = \"s9\"\nnode = \"n0\"\nschema = \"shop_9\"\n[[databases.shards]]\nname = \"s0\"", []string{"shop_9"}},
			} {
				f.write(t, good)
				f.replace(t, c.old, c.new)
				_, _, err := try(t, ops, "RELOAD CONFIG")
				wantCode(t, err, 1105, "nothing was changed: ")
				for _, text := range c.want {
					wantCode(t, err, 1105, text)
				}
				_, after := ask(t, ops, "SHOW CONFIG")
				if !slices.EqualFunc(before, after, slices.Equal) {
					t.Errorf("%s: SHOW CONFIG has changed: %q", c.name, after)
				}
				var n int
				if err := db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM t WHERE k IN (1,2,3,4,5)").Scan(&n); err != nil || n != 5 {
					t.Errorf("%s: afterwards %d rows, %v", c.name, n, err)
				}
			}
			if err := os.Remove(f.path); err != nil {
				t.Fatal(err)
			}
			_, _, err := try(t, ops, "RELOAD CONFIG")
			wantCode(t, err, 1105, "no such file")
		})
	}
}

// TestReloadWithoutFile holds what a Braid without a file answers.
func TestReloadWithoutFile(t *testing.T) {
	_, _, err := try(t, open(t, start(t, servers.MariaDB, nil), operator, operatorPassword), "RELOAD CONFIG")
	wantCode(t, err, 1105, "started without a configuration file")
}

// TestReloadSchema makes a table behind Braid's back.
func TestReloadSchema(t *testing.T) {
	for _, flavour := range flavours {
		t.Run(string(flavour), func(t *testing.T) {
			b := start(t, flavour, nil)
			db, ops := b.Open(t), open(t, b, operator, operatorPassword)
			for _, place := range b.Shards() {
				exec(t, e2e.Open(t, place.Node, place.Schema), "CREATE TABLE t(k INT PRIMARY KEY)")
			}
			ask(t, ops, "RELOAD SCHEMA")
			if _, rows := ask(t, ops, "SHOW TABLES"); !contains(rows, "shop", "t", "sharded", "k") {
				t.Errorf("SHOW TABLES: %q", rows)
			}
			exec(t, db, "INSERT INTO t VALUES (1),(2),(3)")
		})
	}
}
