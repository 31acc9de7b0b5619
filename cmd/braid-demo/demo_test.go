package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// whole is what the tour prints with servers that lack nothing, apart from what
// differs from run to run.
var whole = []string{
	"Loading the shop [##############################] 26125 rows",
	"| single | s3    | n2   | SELECT id, placed, total FROM orders WHERE customer_id = 5 ORDER BY placed DESC LIMIT 2 OFFSET 1 |",
	"| Ada Olsen | Austria | 1  | 4     |",
	"| scatter | s1    | n2   | SELECT customer_id, id, total FROM orders ORDER BY total DESC, customer_id LIMIT 5 |",
	"merge by column 3 DESC, 1; skip 2, give 3",
	"| 1725        | 2  | 1494.96 |\n| 982         | 2  | 1488.12 |\n| 918         | 2  | 1409.78 |",
	"| Ada Adler | 237 |\n| Ada Adler | 589 |\n| Ada Adler | 694 |",
	"| 17215 | 500      | 99.98   |",
	"| 5        | 906785.30 | 51.317787 |",
	"| 1396 | Noa Duval | 999    |\n| 1662 | Mia Moser | 999    |",
	"| n1   | SERIALIZABLE |\n| n2   | SERIALIZABLE |",
	"| 1  | 532    |\n| 3  | 452    |",
	"| n1,n2 | n1,n2   |",
	"| 1  | 482    |\n| 3  | 502    |",
	"| databases.shop.tables: + reviews | placement |",
	"| 1  | 123.02 | 5     |",
	"statement: SELECT name FROM customers WHERE id = ?\n",
	"     hits: 2\n",
	"The admin port: ",
}

// lacking are the parts of whole that the embedded engine cannot show, and what
// is said instead.
var lacking = map[string]string{
	"| Ada Adler | 237 |\n| Ada Adler | 589 |\n| Ada Adler | 694 |": "Left out: the embedded engine has no WEIGHT_STRING()",
	"| 5        | 906785.30 | 51.317787 |":                          "Left out: the embedded engine has no exact SUM() and AVG()",
	"| 1396 | Noa Duval | 999    |\n| 1662 | Mia Moser | 999    |":  "Left out: the embedded engine has no temporary tables",
	"| n1   | SERIALIZABLE |\n| n2   | SERIALIZABLE |":              "| n1   | SERIALIZABLE |\n+--",
	"| 1  | 532    |\n| 3  | 452    |":                              "Left out: the embedded engine has no XA transactions",
	"| n1,n2 | n1,n2   |":                                           "Left out: the embedded engine has no XA transactions",
	"| 1  | 482    |\n| 3  | 502    |":                              "Left out: the embedded engine has no XA transactions",
}

// TestOnce runs the whole demo on every kind of server that this machine has.
func TestOnce(t *testing.T) {
	for _, kind := range []string{"mariadb", "mysql", "embedded"} {
		t.Run(kind, func(t *testing.T) {
			if kind == "mysql" {
				useCachedMySQL(t)
			}
			if kind != "embedded" {
				_, err := find(t.Context(), kind)
				var none *notInstalled
				if errors.As(err, &none) {
					t.Skip("SKIPPED, NOT TESTED:", err)
				}
			}
			t.Setenv("TMPDIR", shortDir(t))
			var out, problems bytes.Buffer
			if code := run(&out, &problems, []string{"--once", "--server", kind}); code != 0 || problems.Len() > 0 {
				t.Fatalf("exit code %d, %s\n%s", code, &problems, &out)
			}
			for _, want := range whole {
				if instead := lacking[want]; kind == "embedded" && instead != "" {
					want = instead
				}
				if !strings.Contains(out.String(), want) {
					t.Errorf("the tour does not show:\n%s", want)
				}
			}
			if kind != "embedded" {
				for _, part := range printed(t) {
					if !strings.Contains(out.String(), part) {
						t.Errorf("README.md shows what the tour does not:\n%s", part)
					}
				}
			}
			if t.Failed() {
				t.Logf("%s", &out)
			}
			left, err := filepath.Glob(filepath.Join(os.Getenv("TMPDIR"), "*"))
			if err != nil || len(left) > 0 {
				t.Errorf("left behind: %q, %v", left, err)
			}
		})
	}
}

// printed are the parts of the tour that README.md shows.
func printed(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "```text\n")
	block, _, ok := strings.Cut(rest, "```")
	parts := strings.Split(block, "[...]\n")
	if !ok || len(parts) < 3 {
		t.Fatalf("README.md shows %d parts of the tour", len(parts))
	}
	return parts
}

// shortDir is a temporary folder whose path leaves room for a socket's.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "bd-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// useCachedMySQL puts the MySQL 9 that scripts/mysql9.sh installs on PATH, where
// the machine has no other. It runs outside of its chroot by its own loader.
func useCachedMySQL(t *testing.T) {
	t.Helper()
	if _, err := find(t.Context(), "mysql"); err == nil {
		return
	}
	root := os.Getenv("BRAID_CACHE")
	if root == "" {
		root = "/var/cache/braid"
	}
	root = filepath.Join(root, "mysql9")
	if _, err := os.Stat(filepath.Join(root, "usr/sbin/mysqld")); err != nil {
		return
	}
	script := fmt.Sprintf("#!/bin/sh\nfirst=$1; shift\nexec %[1]s/lib64/ld-linux-x86-64.so.2 --library-path %[1]s/usr/lib/x86_64-linux-gnu:%[1]s/usr/lib/mysql/private "+
		"%[1]s/usr/sbin/mysqld $first --basedir=%[1]s/usr --lc-messages-dir=%[1]s/usr/share/mysql \"$@\"\n", root)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "mysqld"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+string(filepath.ListSeparator)+os.Getenv("PATH"))
}

// TestEmbeddedRefuses holds that what the embedded engine lacks is refused in
// MySQL's words rather than half done.
func TestEmbeddedRefuses(t *testing.T) {
	dir := shortDir(t)
	var out bytes.Buffer
	n, err := startEmbedded(&out)
	if err != nil {
		t.Fatal(err)
	}
	defer n.stop()
	if err := n.createSchemas(t.Context()); err != nil {
		t.Fatal(err)
	}
	p, err := choosePorts()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "braid.toml")
	if err := os.WriteFile(path, []byte(configuration(n, p)), 0o600); err != nil {
		t.Fatal(err)
	}
	end, err := serve(path, &out)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := end(); err != nil {
			t.Error(err)
		}
	}()
	s, err := openShop(&out, n, p, path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	for _, text := range tables {
		if _, err := s.clients.ExecContext(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	_, err = s.clients.ExecContext(t.Context(), "INSERT INTO customers VALUES (1,'a','AT',1),(2,'b','AT',1),(3,'c','AT',1),(4,'d','AT',1),(5,'e','AT',1),(6,'f','AT',1),(7,'g','AT',1),(8,'h','AT',1)")
	if err == nil || !strings.Contains(err.Error(), "1235") || !strings.Contains(err.Error(), "a transaction over several nodes while node") {
		t.Errorf("a write on both nodes: %v", err)
	}
	rows, err := column(t.Context(), s.clients, "SELECT id FROM customers")
	if err != nil || len(rows) != 0 {
		t.Errorf("%d rows of a refused write, %v", len(rows), err)
	}
	levels, err := n.list[0].isolations(context.Background())
	if err != nil || len(levels) != 0 {
		t.Errorf("transactions left open at %q, %v", levels, err)
	}
}

func TestUsage(t *testing.T) {
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--help"}, 0, "Usage: braid demo"},
		{[]string{"--twice"}, 2, "not defined: -twice"},
		{[]string{"now"}, 2, `unexpected argument "now"`},
		{[]string{"--server", "oracle"}, 1, "choose auto, mariadb, mysql or embedded"},
	} {
		var out, problems bytes.Buffer
		if code := run(&out, &problems, c.args); code != c.code || !strings.Contains(problems.String(), c.want) {
			t.Errorf("%q: exit code %d, %s", c.args, code, &problems)
		}
	}
}

func TestWrap(t *testing.T) {
	long := strings.Repeat("abcdefghi ", 25)
	for _, c := range []struct {
		text string
		want []string
	}{
		{"", []string{""}},
		{"a\n  b", []string{"a b"}},
		{long, []string{strings.TrimSpace(long[:90]), strings.TrimSpace(long[:90]), strings.TrimSpace(long[:70])}},
	} {
		if got := wrap(c.text); !slices.Equal(got, c.want) {
			t.Errorf("%q became %q", c.text, got)
		}
	}
}
