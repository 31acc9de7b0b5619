package schema

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"braid/conf"
	"braid/proxy"
	"braid/tests/e2e"
	"braid/tests/servers"
)

var lab = e2e.NewLab()

func TestMain(m *testing.M) { os.Exit(lab.Main(m)) }

// flavours runs a test on each flavour, over four shards on two nodes.
func flavours(t *testing.T, tables []conf.Table, test func(t *testing.T, b *e2e.Braid)) {
	t.Helper()
	for _, f := range []servers.Flavour{servers.MariaDB, servers.MySQL} {
		t.Run(string(f), func(t *testing.T) {
			test(t, lab.StartBraid(t, e2e.Topology{Flavour: f, Nodes: 2, Shards: 4, Tables: tables}))
		})
	}
}

func exec(t *testing.T, db *sql.DB, text string) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), text); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

// refused runs a statement that must answer with an error of that number, whose
// text holds why.
func refused(t *testing.T, db *sql.DB, number uint16, why, text string) {
	t.Helper()
	_, err := db.ExecContext(t.Context(), text)
	var e *mysql.MySQLError
	if !errors.As(err, &e) || e.Number != number || !strings.Contains(e.Message, why) {
		t.Errorf("%s: %v, want error %d that says %q", text, err, number, why)
	}
}

// one reads a single value as text.
func one(t *testing.T, db *sql.DB, text string) string {
	t.Helper()
	var v sql.NullString
	if err := db.QueryRowContext(t.Context(), text).Scan(&v); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	if !v.Valid {
		return "NULL"
	}
	return v.String
}

// run serves with a Braid until the function returned is called.
func run(t *testing.T, s *proxy.Server) func() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Braid ended with: %v", err)
		}
	}
}

func TestConstraintsOverShards(t *testing.T) {
	tables := []conf.Table{
		{Name: "users", Kind: "sharded", Key: []string{"id"}},
		{Name: "orders", Kind: "sharded", Key: []string{"uid"}, Colocated: "users"},
		{Name: "loose", Kind: "sharded", Key: []string{"k"}, UniqueCheck: "none"},
		{Name: "c", Kind: "global"},
	}
	flavours(t, tables, func(t *testing.T, b *e2e.Braid) {
		db := b.Open(t)
		const unique = "unique key"
		refused(t, db, 1235, unique, "CREATE TABLE users(id INT PRIMARY KEY, mail VARCHAR(50) UNIQUE)")
		refused(t, db, 1235, unique, "CREATE TABLE users(id INT, n INT, PRIMARY KEY(n))")
		refused(t, db, 1235, unique, "CREATE TABLE users(id INT PRIMARY KEY, n INT, UNIQUE KEY un (n))")
		exec(t, db, "CREATE TABLE users(id INT PRIMARY KEY, n INT, mail VARCHAR(50), boss INT, UNIQUE KEY un (n, id))")
		refused(t, db, 1235, unique, "ALTER TABLE users ADD UNIQUE KEY (n)")
		refused(t, db, 1235, unique, "ALTER TABLE users ADD UNIQUE KEY (id, n), ADD UNIQUE KEY (mail(5))")
		refused(t, db, 1235, unique, "ALTER TABLE users ADD COLUMN x INT UNIQUE")
		refused(t, db, 1235, unique, "CREATE UNIQUE INDEX m ON users(mail)")
		exec(t, db, "CREATE UNIQUE INDEX m ON users(mail, id)")
		exec(t, db, "CREATE TABLE loose(k INT PRIMARY KEY, n INT UNIQUE)")
		exec(t, db, "CREATE TABLE alone(k INT PRIMARY KEY, n INT UNIQUE)")
		exec(t, db, "CREATE TABLE c(code INT PRIMARY KEY, n INT UNIQUE)")

		const foreign = "foreign key"
		refused(t, db, 1235, foreign, "CREATE TABLE orders(uid INT, no INT, c INT, PRIMARY KEY(uid, no), FOREIGN KEY (no) REFERENCES users(id))")
		refused(t, db, 1235, foreign, "ALTER TABLE users ADD FOREIGN KEY (boss) REFERENCES users(id)")
		refused(t, db, 1235, foreign, "CREATE TABLE alone2(k INT PRIMARY KEY, FOREIGN KEY (k) REFERENCES users(id))")
		refused(t, db, 1235, foreign, "ALTER TABLE c ADD FOREIGN KEY (n) REFERENCES users(id)")
		exec(t, db, "CREATE TABLE orders(uid INT, no INT, c INT, PRIMARY KEY(uid, no), FOREIGN KEY (uid) REFERENCES users(id), FOREIGN KEY (c) REFERENCES c(code))")
		exec(t, db, "CREATE TABLE alone2(k INT PRIMARY KEY, c INT, FOREIGN KEY (k) REFERENCES alone(k), FOREIGN KEY (c) REFERENCES c(code))")
		exec(t, db, "INSERT INTO users(id) VALUES (1),(2),(3),(4)")
		exec(t, db, "INSERT INTO c VALUES (7,1)")
		exec(t, db, "INSERT INTO orders VALUES (1,1,7),(2,1,7),(3,1,7),(4,1,NULL)")
		refused(t, db, 1452, foreign, "INSERT INTO orders VALUES (5,1,7)")
		refused(t, db, 1452, foreign, "INSERT INTO orders VALUES (1,2,7),(2,2,8),(3,2,7)")
		refused(t, db, 1451, foreign, "DELETE FROM users WHERE id > 0")
		if got := one(t, db, "SELECT COUNT(*) FROM orders"); got != "4" {
			t.Errorf("%s orders, want 4", got)
		}
	})
}

// TestTableThatDoesNotFit finds tables on the nodes that were not made through
// Braid: those that cannot be used do not stop the others, and can be repaired.
func TestTableThatDoesNotFit(t *testing.T) {
	tables := []conf.Table{
		{Name: "part", Kind: "sharded", Key: []string{"k"}},
		{Name: "child", Kind: "sharded", Key: []string{"k"}, Colocated: "part"},
		{Name: "nokey", Kind: "sharded", Key: []string{"k"}},
		{Name: "uniq", Kind: "sharded", Key: []string{"k"}},
		{Name: "whole", Kind: "sharded", Key: []string{"k"}},
	}
	flavours(t, tables, func(t *testing.T, b *e2e.Braid) {
		for i, place := range b.Shards() {
			node := e2e.Open(t, place.Node, place.Schema)
			if i != 2 {
				exec(t, node, "CREATE TABLE part(k INT PRIMARY KEY)")
			}
			exec(t, node, "CREATE TABLE child(k INT PRIMARY KEY)")
			exec(t, node, "CREATE TABLE nokey(n INT PRIMARY KEY)")
			exec(t, node, "CREATE TABLE uniq(k INT PRIMARY KEY, n INT UNIQUE)")
		}
		b.Restart(t)
		db := b.Open(t)
		exec(t, db, "CREATE TABLE whole(k INT PRIMARY KEY)")
		exec(t, db, "INSERT INTO whole VALUES (1),(2),(3),(4),(5)")
		if got := one(t, db, "SELECT COUNT(*) FROM whole"); got != "5" {
			t.Errorf("%s rows, want 5", got)
		}
		refused(t, db, 1105, "missing on shard s2", "INSERT INTO part VALUES (1)")
		refused(t, db, 1105, "missing on shard s2", "DELETE FROM child")
		refused(t, db, 1105, "sharding key", "UPDATE nokey SET n=1")
		exec(t, db, "INSERT INTO uniq VALUES (1,1)")

		findings, err := proxy.CheckLive(t.Context(), b.Config)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"table part is missing on shard s2", "table uniq: unique key n", "table nokey has no column"} {
			if !slices.ContainsFunc(findings, func(f proxy.Finding) bool { return f.Level == "error" && strings.Contains(f.What, want) }) {
				t.Errorf("braid check --live does not say %q: %+v", want, findings)
			}
		}

		exec(t, db, "CREATE TABLE IF NOT EXISTS part(k INT PRIMARY KEY)")
		exec(t, db, "INSERT INTO part VALUES (1),(2),(3)")
		exec(t, db, "INSERT INTO child VALUES (1),(2),(3)")
		exec(t, db, "DROP TABLE nokey")
		exec(t, db, "CREATE TABLE nokey(k INT PRIMARY KEY)")
		exec(t, db, "INSERT INTO nokey VALUES (1),(2),(3)")
	})
}
