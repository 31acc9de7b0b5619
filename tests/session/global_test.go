package session

import (
	"strings"
	"testing"

	"braid/conf"
	"braid/tests/e2e"
	"braid/tests/servers"
)

// SET GLOBAL is refused, or, where the configuration says so, done on every node;
// a value that is wrong is set on none, and a node that fails is named.
func TestSetGlobal(t *testing.T) {
	each(t, func(t *testing.T, flavour servers.Flavour) {
		relays := map[string]*e2e.Relay{}
		b := shop(t, flavour, 2, 4, func(c *conf.Config) {
			for i := range c.Nodes {
				relays[c.Nodes[i].Name] = e2e.StartRelay(t, c.Nodes[i].Primary)
				c.Nodes[i].Primary = relays[c.Nodes[i].Name].Addr
			}
		})
		const name = "div_precision_increment"
		var before []string
		on := func() []string {
			var values []string
			for _, n := range b.Nodes {
				var v string
				if err := e2e.Open(t, n, "").QueryRowContext(t.Context(), "SELECT @@global."+name).Scan(&v); err != nil {
					t.Fatal(err)
				}
				values = append(values, v)
			}
			return values
		}
		before = on()
		for _, n := range b.Nodes {
			defer n.SetGlobal(t.Context(), name, before[0])
		}
		expect := func(when string, want ...string) {
			t.Helper()
			if got := on(); strings.Join(got, ",") != strings.Join(want, ",") {
				t.Errorf("%s: %s, want %s", when, got, want)
			}
		}
		if _, err := run(connect(t, b), "SET GLOBAL "+name+" = 9"); !isCode(err, 1227) {
			t.Errorf("refused: %v", err)
		}
		expect("refused", before...)
		b.Config.Proxy.SetGlobal = "broadcast"
		b.Restart(t)
		c := connect(t, b)
		must(t, c, "SET GLOBAL "+name+" = 9")
		expect("a number", "9", "9")
		if got := must(t, c, "SELECT @@global."+name+", @@"+name); got != "9,"+before[0] {
			t.Errorf("the session that set it sees %s", got)
		}
		must(t, c, "SET @v = 3")
		must(t, c, "SET @@global."+name+" = @v + 4, GLOBAL group_concat_max_len = @@global.group_concat_max_len")
		expect("an expression", "7", "7")
		for _, c2 := range []struct {
			text string
			code uint16
		}{
			{"SET GLOBAL " + name + " = 'x'", 1232}, {"SET GLOBAL nosuch = 1", 1193}, {"SET GLOBAL port = 1", 1238},
			{"SET GLOBAL " + name + " = 5, @u = 1", 1235}, {"SET GLOBAL wait_timeout = 5", 1235},
			{"SET GLOBAL " + strings.TrimPrefix(isolation(flavour), "@@") + " = 'SERIALIZABLE'", 1235},
			{"SET GLOBAL " + name + " = (SELECT COUNT(*) FROM i WHERE k=1)", 1235},
		} {
			if _, err := run(c, c2.text); !isCode(err, c2.code) {
				t.Errorf("%s: %v", c2.text, err)
			}
		}
		expect("refused by the first node", "7", "7")
		if flavour == servers.MySQL {
			must(t, c, "SET PERSIST "+name+" = 6")
			expect("persisted", "6", "6")
			must(t, c, "SET PERSIST_ONLY "+name+" = 5")
			expect("persisted only", "6", "6")
			for _, n := range b.Nodes {
				if _, err := e2e.Open(t, n, "").ExecContext(t.Context(), "RESET PERSIST"); err != nil {
					t.Fatal(err)
				}
			}
		}
		must(t, c, "SET GLOBAL sql_mode = 'ANSI_QUOTES'")
		if got := must(t, connect(t, b), "SELECT @@sql_mode"); got != "ANSI_QUOTES" {
			t.Errorf("a new session begins with %q", got)
		}
		must(t, c, "SET GLOBAL sql_mode = DEFAULT")
		relays["n1"].Close()
		if _, err := run(c, "SET GLOBAL "+name+" = 8"); err == nil || !strings.Contains(err.Error(), "node n1 after it was done on: n0") {
			t.Errorf("a node that is away: %v", err)
		}
		expect("a node is away", "8", on()[1])
	})
}
