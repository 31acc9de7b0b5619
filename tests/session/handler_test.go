package session

import (
	"errors"
	"strings"
	"testing"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"braid/conf"
	"braid/tests/e2e"
	"braid/tests/servers"
	"braid/tests/wire"
)

// handlers is a Braid over four shards on two nodes with few connections, a
// single table on each node and a sharded one.
func handlers(t *testing.T, flavour servers.Flavour) *e2e.Braid {
	t.Helper()
	b := shop(t, flavour, 2, 4, func(c *conf.Config) {
		pool(c, 3, c.Pool.WaitTimeout)
		c.Databases[0].Tables = append(c.Databases[0].Tables,
			conf.Table{Name: "one", Kind: "single", Shard: c.Databases[0].Shards[0].Name},
			conf.Table{Name: "other", Kind: "single", Shard: c.Databases[0].Shards[3].Name})
	})
	c := connect(t, b)
	for _, table := range []string{"one", "other"} {
		must(t, c, "CREATE TABLE "+table+"(k INT PRIMARY KEY, note VARCHAR(9))")
		must(t, c, "INSERT INTO "+table+" VALUES (1,'"+table+"'),(2,'b'),(3,'c')")
	}
	return b
}

// An open handler stays where it was opened, whatever else runs on a small pool,
// and SHOW SESSIONS tells of it for exactly as long as it is open.
func TestHandlerPins(t *testing.T) {
	each(t, func(t *testing.T, flavour servers.Flavour) {
		b := handlers(t, flavour)
		a, others := connect(t, b), connect(t, b)
		pins := func(when string, want int) {
			t.Helper()
			if got := sessionPins(b, a, t); strings.Count(got, "open handlers") != want {
				t.Errorf("%s: pinned %q, want %d for open handlers", when, got, want)
			}
		}
		read := func(text, want string) {
			t.Helper()
			for range 3 {
				must(t, others, "SELECT COUNT(*) FROM i")
			}
			if got := must(t, a, text); got != want {
				t.Errorf("%s: %q, want %q", text, got, want)
			}
		}
		refused := func(c *wire.Conn, text string, code uint16) {
			t.Helper()
			if got, err := run(c, text); !isCode(err, code) {
				t.Errorf("%s: %q, %v; want error %d", text, got, err, code)
			}
		}
		for _, end := range []string{"HANDLER h CLOSE", "DROP TABLE one", "ALTER TABLE one COMMENT 'x'", "TRUNCATE TABLE one", "ANALYZE TABLE one"} {
			must(t, a, "HANDLER one OPEN AS h")
			pins(end, 1)
			refused(others, "HANDLER h READ FIRST", 1109)
			must(t, a, end)
			pins("after "+end, 0)
			refused(a, "HANDLER h READ FIRST", 1109)
			must(t, a, "CREATE TABLE IF NOT EXISTS one(k INT PRIMARY KEY, note VARCHAR(9))")
		}
		must(t, a, "INSERT INTO one VALUES (1,'one'),(2,'b'),(3,'c')")

		// An alias is one for the whole session, on whatever node.
		must(t, a, "HANDLER one OPEN AS h")
		refused(a, "HANDLER other OPEN AS H", 1066)
		must(t, a, "ANALYZE TABLE one") // servers close it then
		must(t, a, "HANDLER other OPEN AS h")
		read("HANDLER h READ `PRIMARY` = (1)", "1,other")
		must(t, a, "HANDLER one OPEN")
		pins("on two nodes", 2)
		read("HANDLER one READ `PRIMARY` FIRST", "1,one")
		read("HANDLER one READ `PRIMARY` NEXT", "2,b")
		must(t, a, "HANDLER h CLOSE")
		pins("on one node", 1)
		read("HANDLER one READ `PRIMARY` NEXT", "3,c")

		// A transaction over both nodes, begun before or after.
		must(t, a, "BEGIN")
		must(t, a, "UPDATE i SET x=x+1")
		must(t, a, "UPDATE one SET note='tx' WHERE k=2")
		must(t, a, "HANDLER other OPEN")
		read("HANDLER one READ `PRIMARY` = (2)", "2,tx")
		must(t, a, "UPDATE other SET note='tx' WHERE k=3")
		read("HANDLER other READ `PRIMARY` LAST", "3,tx")
		must(t, a, "ROLLBACK")
		pins("after a rollback", 2)
		read("HANDLER other READ `PRIMARY` LAST", "3,c")
		must(t, a, "BEGIN")
		must(t, a, "UPDATE i SET x=x+1")
		must(t, a, "HANDLER other CLOSE")
		must(t, a, "HANDLER one CLOSE")
		must(t, a, "COMMIT")
		pins("after a commit", 0)

		for _, command := range []byte{gomysql.COM_RESET_CONNECTION, 0} {
			must(t, a, "HANDLER one OPEN")
			must(t, a, "HANDLER other OPEN")
			if command == 0 {
				a.Abort()
				a = connect(t, b)
			} else if _, err := a.Command(command, nil); err != nil {
				t.Fatal(err)
			}
			pins("anew", 0)
			refused(a, "HANDLER one READ FIRST", 1109)
		}
		// Nothing is left that would keep anyone from the tables.
		must(t, others, "ALTER TABLE one COMMENT 'free'")
		must(t, others, "DROP TABLE other")
	})
}

// With the hint shard a sharded table's rows of that shard are read; without, it
// is refused, and pins nothing.
func TestHandlerOfOneShard(t *testing.T) {
	each(t, func(t *testing.T, flavour servers.Flavour) {
		b := handlers(t, flavour)
		a := connect(t, b)
		if _, err := run(a, "HANDLER i OPEN"); !isCode(err, 1235) {
			t.Errorf("of four shards: %v", err)
		}
		if got := sessionPins(b, a, t); got != "" {
			t.Errorf("pinned: %s", got)
		}
		rows := 0
		for _, p := range b.Shards() {
			hint := "/*braid shard=" + p.Shard + " */ "
			must(t, a, hint+"HANDLER i OPEN")
			want := must(t, a, hint+"SELECT k FROM i ORDER BY k")
			got := strings.Fields(strings.ReplaceAll(must(t, a, "HANDLER i READ `PRIMARY` FIRST LIMIT 100"), ";", " "))
			rows += len(got)
			if want == "" || len(got) == 0 {
				t.Errorf("shard %s: %q, want the rows of %q", p.Shard, got, want)
			}
			must(t, a, "HANDLER i CLOSE")
		}
		if rows != 40 {
			t.Errorf("%d rows over all shards, want 40", rows)
		}
	})
}

// When the connection that has a handler is lost, the client is told and closed:
// it is never left to read from the beginning again.
func TestHandlerLost(t *testing.T) {
	each(t, func(t *testing.T, flavour servers.Flavour) {
		b := handlers(t, flavour)
		a := connect(t, b)
		must(t, a, "HANDLER one OPEN")
		node := e2e.Open(t, b.Nodes[0], "")
		var ids []string
		rows, err := node.QueryContext(t.Context(), "SELECT ID FROM information_schema.PROCESSLIST WHERE DB IS NOT NULL AND COMMAND='Sleep' AND ID<>CONNECTION_ID()")
		if err != nil {
			t.Fatal(err)
		}
		for rows.Next() {
			var id string
			if err := rows.Scan(&id); err != nil {
				t.Fatal(err)
			}
			ids = append(ids, id)
		}
		for _, id := range ids {
			if _, err := node.ExecContext(t.Context(), "KILL "+id); err != nil && !strings.Contains(err.Error(), "1094") {
				t.Fatal(err)
			}
		}
		if got, err := run(a, "HANDLER one READ FIRST"); !isCode(err, 2013) {
			t.Errorf("%q, %v; want error 2013", got, err)
		}
		if _, err := run(a, "HANDLER one OPEN"); err == nil || errors.As(err, new(*wire.Error)) {
			t.Errorf("the session still answers: %v", err)
		}
	})
}
