// Package admin tests the operator's two ports, end to end.
package admin

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"braid/conf"
	"braid/tests/e2e"
	"braid/tests/servers"
)

var lab = e2e.NewLab()

func TestMain(m *testing.M) { os.Exit(lab.Main(m)) }

var flavours = []servers.Flavour{servers.MariaDB, servers.MySQL}

const (
	operator         = "ops"
	operatorPassword = "ops-test-pw"
)

// start starts Braid with both operator ports, four shards on two nodes; load
// is what RELOAD CONFIG reads, and changes are made to its configuration.
func start(t *testing.T, flavour servers.Flavour, load func() (*conf.Config, error), changes ...func(*conf.Config)) *e2e.Braid {
	t.Helper()
	return lab.StartBraid(t, e2e.Topology{Flavour: flavour, Nodes: 2, Shards: 4, Load: load,
		Tables: []conf.Table{{Name: "t", Kind: "sharded", Key: []string{"k"}}, {Name: "g", Kind: "global"}},
		Change: func(c *conf.Config) {
			c.Admin.Listen, c.Admin.HTTP = "127.0.0.1:0", "127.0.0.1:0"
			c.Admin.Users = []conf.User{{Name: operator, Secret: conf.Secret{Password: operatorPassword}}}
			for _, change := range changes {
				change(c)
			}
		}})
}

// open logs in to the admin port.
func open(t *testing.T, b *e2e.Braid, user, password string) *sql.DB {
	t.Helper()
	c := mysql.NewConfig()
	c.User, c.Passwd, c.Net, c.Addr, c.Logger = user, password, "tcp", b.Server.AdminAddr().String(), &mysql.NopLogger{}
	db, err := sql.Open("mysql", c.FormatDSN())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// ask runs an admin command and returns its columns and rows.
func ask(t *testing.T, db *sql.DB, command string) (columns []string, rows [][]string) {
	t.Helper()
	columns, rows, err := try(t, db, command)
	if err != nil {
		t.Fatalf("%s: %v", command, err)
	}
	return columns, rows
}

func try(t *testing.T, db *sql.DB, command string) (columns []string, rows [][]string, err error) {
	t.Helper()
	answer, err := db.QueryContext(t.Context(), command)
	if err != nil {
		return nil, nil, err
	}
	defer answer.Close()
	if columns, err = answer.Columns(); err != nil {
		t.Fatal(err)
	}
	for answer.Next() {
		row := make([]string, len(columns))
		to := make([]any, len(row))
		for i := range row {
			to[i] = &row[i]
		}
		if err := answer.Scan(to...); err != nil {
			t.Fatal(err)
		}
		rows = append(rows, row)
	}
	return columns, rows, answer.Err()
}

// exec runs statements.
func exec(t *testing.T, db interface {
	ExecContext(context.Context, string, ...any) (sql.Result, error)
}, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if _, err := db.ExecContext(t.Context(), text); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
}

// wantCode checks an error's number and text.
func wantCode(t *testing.T, err error, code uint16, text string) {
	t.Helper()
	var e *mysql.MySQLError
	if !errors.As(err, &e) || e.Number != code || !strings.Contains(e.Message, text) {
		t.Errorf("got %v, want error %d with %q", err, code, text)
	}
}

// eventually asks until ok, or fails at a deadline.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-ctx.Done():
			t.Fatalf("it did not come to pass that %s", what)
		case <-tick.C:
		}
	}
}

func contains(rows [][]string, words ...string) bool {
	return slices.ContainsFunc(rows, func(row []string) bool {
		line := strings.Join(row, "\x00")
		return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(line, w) })
	})
}

// manual reads a table of docs/admin.md, by the name of its first column: the
// first cell without its backquotes -> the others.
func manual(t *testing.T, first string) map[string][]string {
	t.Helper()
	text, err := os.ReadFile("../../docs/admin.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(text), "\n| "+first+" |")
	if !ok {
		t.Fatalf("docs/admin.md has no table of %ss", first)
	}
	found := map[string][]string{}
	for line := range strings.Lines(rest) {
		if line == "\n" {
			break
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.Trim(strings.TrimSpace(cells[i]), "`")
		}
		if len(cells) == 3 && !strings.HasPrefix(cells[0], "-") {
			found[cells[0]] = cells[1:]
		}
	}
	delete(found, "")
	return found
}

// TestManualOfCommands holds the table of docs/admin.md against HELP and
// against the columns of every answer.
func TestManualOfCommands(t *testing.T) {
	db := open(t, start(t, servers.MariaDB, nil), operator, operatorPassword)
	documented := manual(t, "command")
	delete(documented, "columns of the answer")
	_, help := ask(t, db, "HELP")
	for _, row := range help {
		entry := documented[row[0]]
		delete(documented, row[0])
		if entry == nil || entry[1] != row[1] {
			t.Errorf("docs/admin.md says of %s %q, HELP says %q", row[0], entry, row[1])
			continue
		}
		if strings.Contains(row[0], "<") || strings.HasPrefix(row[0], "RELOAD") {
			continue // tested with an argument, and with a file, below
		}
		columns, _ := ask(t, db, row[0])
		if got := strings.Join(columns, ", "); got != entry[0] {
			t.Errorf("%s has columns %s, docs/admin.md says %s", row[0], got, entry[0])
		}
	}
	if len(help) < 10 || len(documented) > 0 {
		t.Errorf("%d commands in HELP; docs/admin.md has %q besides", len(help), slices.Collect(maps.Keys(documented)))
	}
}

func TestShow(t *testing.T) {
	for _, flavour := range flavours {
		t.Run(string(flavour), func(t *testing.T) {
			b := start(t, flavour, nil)
			db, ops := b.Open(t), open(t, b, operator, operatorPassword)
			exec(t, db, "CREATE TABLE t(k INT PRIMARY KEY, v INT)", "CREATE TABLE g(k INT PRIMARY KEY)", "INSERT INTO t VALUES (1,1),(2,2),(3,3),(4,4),(5,5),(6,6),(7,7),(8,8)")
			for k := range 3 {
				exec(t, db, "SELECT v FROM t WHERE k="+strconv.Itoa(k))
			}
			exec(t, db, "SELECT v FROM t ORDER BY v LIMIT 2")

			_, rows := ask(t, ops, "show shards;")
			if len(rows) != 4 || !contains(rows, "shop", "s2", "n0", "shop_2", "8192-12287", "ok") {
				t.Errorf("SHOW SHARDS: %q", rows)
			}
			_, rows = ask(t, ops, "SHOW NODES")
			if len(rows) != 2 || !contains(rows, "n1", b.Nodes[1].Addr(), "up") || rows[0][2] == "" {
				t.Errorf("SHOW NODES: %q", rows)
			}
			_, rows = ask(t, ops, "SHOW POOLS")
			if opened, err := strconv.Atoi(rows[0][6]); len(rows) != 2 || rows[0][5] != "128" || err != nil || opened == 0 {
				t.Errorf("SHOW POOLS: %q", rows)
			}
			_, rows = ask(t, ops, "SHOW TABLES")
			if !slices.EqualFunc(rows, [][]string{{"shop", "g", "global", "", "", "all", ""}, {"shop", "t", "sharded", "k", "hash", "all", ""}}, slices.Equal) {
				t.Errorf("SHOW TABLES: %q", rows)
			}
			_, rows = ask(t, ops, "SHOW PLANS")
			// Hits of the cache: the first of the three made the plan.
			if !contains(rows, "SELECT v FROM t WHERE k=?", "table t: k = {0}", "\x002") || !contains(rows, "ORDER BY v LIMIT ?", "table t: all", "order: 0") {
				t.Errorf("SHOW PLANS: %q", rows)
			}
			_, rows = ask(t, ops, "SHOW CONFIG")
			text := fmt.Sprint(rows)
			if !strings.Contains(text, `password = "(hidden)"`) || !strings.Contains(text, b.Nodes[0].Addr()) {
				t.Errorf("SHOW CONFIG: %s", text)
			}
			for _, secret := range []string{servers.Password, operatorPassword} {
				if strings.Contains(text, secret) {
					t.Error("SHOW CONFIG shows a password")
				}
			}
			stats := map[string]int{}
			_, rows = ask(t, ops, "SHOW STATS")
			for _, row := range rows {
				stats[row[0]], _ = strconv.Atoi(row[1])
			}
			if stats["logins"] < 1 || stats["statements_single"] < 3 || stats["statements_scattered"] < 1 || stats["sessions"] < 1 || stats["generation"] < 1 {
				t.Errorf("SHOW STATS: %v", stats)
			}
		})
	}
}

// TestShowTransactions looks at one that is open over both nodes, and at a
// branch that an interrupted one left behind.
func TestShowTransactions(t *testing.T) {
	for _, flavour := range flavours {
		t.Run(string(flavour), func(t *testing.T) {
			b := start(t, flavour, nil)
			db, ops := b.Open(t), open(t, b, operator, operatorPassword)
			exec(t, db, "CREATE TABLE t(k INT PRIMARY KEY, v INT)")
			tx, err := db.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			exec(t, tx, "INSERT INTO t VALUES (1,1),(2,2),(3,3),(4,4),(5,5),(6,6),(7,7),(8,8)")
			_, rows := ask(t, ops, "SHOW TRANSACTIONS")
			writers := ""
			if len(rows) == 1 {
				names := strings.Split(rows[0][3], ",")
				slices.Sort(names)
				writers = strings.Join(names, ",")
			}
			if writers != "n0,n1" || rows[0][0] == "" || rows[0][1] == "" {
				t.Errorf("SHOW TRANSACTIONS: %q", rows)
			}
			_, rows = ask(t, ops, "SHOW SESSIONS")
			if !contains(rows, servers.User, "shop", "idle", "open") {
				t.Errorf("SHOW SESSIONS: %q", rows)
			}
			if err := tx.Rollback(); err != nil {
				t.Fatal(err)
			}
			if _, rows = ask(t, ops, "SHOW TRANSACTIONS"); len(rows) != 0 {
				t.Errorf("SHOW TRANSACTIONS after ROLLBACK: %q", rows)
			}

			node := e2e.Open(t, b.Nodes[1], "")
			var gtrid, bqual string
			err = node.QueryRowContext(t.Context(), fmt.Sprintf("SELECT CONCAT_WS('.',cluster,identity,'%08x','0123456789abc'), CONCAT(identity,'.1') FROM braid.node", time.Now().Unix())).Scan(&gtrid, &bqual)
			if err != nil {
				t.Fatal(err)
			}
			conn, err := node.Conn(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			xid := fmt.Sprintf("'%s','%s',%d", gtrid, bqual, 0x42524149)
			exec(t, conn, "XA START "+xid, "INSERT INTO shop_1.t VALUES (99,99)", "XA END "+xid, "XA PREPARE "+xid)
			_, rows = ask(t, ops, "SHOW XA")
			if len(rows) != 1 || !contains(rows, "n1", gtrid, bqual) {
				t.Errorf("SHOW XA: %q", rows)
			}
			exec(t, conn, "XA ROLLBACK "+xid)
			if _, rows = ask(t, ops, "SHOW XA"); len(rows) != 0 {
				t.Errorf("SHOW XA after the branch's end: %q", rows)
			}
		})
	}
}

// TestKill ends statements and connections of clients that run one.
func TestKill(t *testing.T) {
	for _, flavour := range flavours {
		t.Run(string(flavour), func(t *testing.T) {
			b := start(t, flavour, nil)
			ops := open(t, b, operator, operatorPassword)
			for _, c := range []struct {
				command string
				stays   bool
			}{{"KILL QUERY ", true}, {"KILL ", false}} {
				client, err := b.Open(t).Conn(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				defer client.Close()
				var id string
				if err := client.QueryRowContext(t.Context(), "SELECT CONNECTION_ID()").Scan(&id); err != nil {
					t.Fatal(err)
				}
				done := make(chan error, 1)
				go func() {
					_, err := client.ExecContext(t.Context(), "DO SLEEP(120)")
					done <- err
				}()
				eventually(t, "the client runs its statement", func() bool {
					_, rows := ask(t, ops, "SHOW SESSIONS")
					return slices.ContainsFunc(rows, func(r []string) bool { return r[0] == id && r[4] == "running" && strings.Contains(r[9], "SLEEP") })
				})
				ask(t, ops, c.command+id)
				select {
				case err = <-done:
				case <-time.After(60 * time.Second):
					t.Fatalf("%s%s did not end the statement", c.command, id)
				}
				var one int
				after := client.QueryRowContext(t.Context(), "SELECT 1").Scan(&one)
				if c.stays != (after == nil) {
					t.Errorf("after %s: the statement answered %v, the next one %v", c.command, err, after)
				}
			}
			_, _, err := try(t, ops, "KILL 4000000000")
			wantCode(t, err, 1094, "Unknown thread id: 4000000000")
			_, _, err = try(t, ops, "KILL QUERY me")
			wantCode(t, err, 1064, `not "me"`)
		})
	}
}

// TestLogin holds that each port has its own users.
func TestLogin(t *testing.T) {
	b := start(t, servers.MariaDB, nil)
	wantCode(t, open(t, b, servers.User, servers.Password).PingContext(t.Context()), 1045, "Access denied")
	wantCode(t, open(t, b, operator, "wrong").PingContext(t.Context()), 1045, "Access denied")
	c := b.DriverConfig()
	c.User, c.Passwd, c.Logger = operator, operatorPassword, &mysql.NopLogger{}
	db, err := sql.Open("mysql", c.FormatDSN())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	wantCode(t, db.PingContext(t.Context()), 1045, "Access denied")
}

// TestClientsOwnStatements holds that what clients send by themselves is
// answered, and that anything else is not taken for a command.
func TestClientsOwnStatements(t *testing.T) {
	ops := open(t, start(t, servers.MariaDB, nil), operator, operatorPassword)
	for _, text := range []string{"SET NAMES utf8mb4", "select @@version_comment limit 1", "  show   stats ; "} {
		ask(t, ops, text)
	}
	for _, text := range []string{"SHOW", "SHOW PLAN", "SHOW PLANS NOW", "SELECT 1", "RELOAD", "KILL"} {
		_, _, err := try(t, ops, text)
		wantCode(t, err, 1064, "HELP lists them")
	}
}

var address = regexp.MustCompile(`^127\.0\.0\.1:\d+$`)

// TestPortsAreOffUnlessNamed holds that nothing listens that was not asked for.
func TestPortsAreOffUnlessNamed(t *testing.T) {
	b := lab.StartBraid(t, e2e.Topology{Flavour: servers.MariaDB})
	if b.Server.AdminAddr() != net.Addr(nil) || b.Server.HTTPAddr() != net.Addr(nil) {
		t.Errorf("admin port %v, HTTP port %v", b.Server.AdminAddr(), b.Server.HTTPAddr())
	}
	if !address.MatchString(b.Addr) {
		t.Errorf("Braid is at %s", b.Addr)
	}
}
