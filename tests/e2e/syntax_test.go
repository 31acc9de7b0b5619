package e2e

import (
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"braid/conf"
	"braid/tests/servers"
)

// passing are statements that the servers of a flavour accept and Braid's parser
// does not, with what they answer over t(k, v) with (1,10) and (2,20).
func passing(flavour servers.Flavour) [][2]string {
	list := [][2]string{
		{"SELECT t.k, j.a FROM t, JSON_TABLE('[7,8]', '$[*]' COLUMNS(a INT PATH '$')) AS j WHERE t.k = 1 ORDER BY j.a", "1 7;1 8;"},
	}
	if flavour == servers.MySQL {
		return append(list,
			[2]string{"SELECT t.k, d.m FROM t, LATERAL (SELECT t.v * 2 AS m) AS d ORDER BY t.k", "1 20;2 40;"},
			[2]string{"UPDATE t, LATERAL (SELECT t.v * 2 AS m) AS d SET t.v = d.m", ""})
	}
	return append(list,
		[2]string{"DELETE FROM t WHERE k = 1 RETURNING k, (SELECT 7)", "1 7;"},
		[2]string{"REPLACE INTO t VALUES (2, 5) RETURNING v + (SELECT 1)", "6;"})
}

func answerOf(t *testing.T, rows *sql.Rows) string {
	t.Helper()
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for rows.Next() {
		values, to := make([]string, len(names)), make([]any, len(names))
		for i := range values {
			to[i] = &values[i]
		}
		if err := rows.Scan(to...); err != nil {
			t.Fatal(err)
		}
		b.WriteString(strings.Join(values, " ") + ";")
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestSyntaxPassesToOneShard: what only the node understands runs there, in a
// transaction as alone, and is part of the transaction; over several shards it
// is refused, in Braid's name.
func TestSyntaxPassesToOneShard(t *testing.T) {
	eachFlavour(t, func(t *testing.T, flavour servers.Flavour) {
		for _, shards := range []int{1, 2} {
			t.Run(fmt.Sprint(shards), func(t *testing.T) {
				b := lab.StartBraid(t, Topology{Flavour: flavour, Shards: shards, Nodes: 1, Tables: []conf.Table{{Name: "t", Kind: "sharded", Key: []string{"k"}}}})
				db := b.Open(t)
				for _, text := range []string{"CREATE TABLE t(k INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1,10),(2,20)"} {
					if _, err := db.ExecContext(t.Context(), text); err != nil {
						t.Fatal(err)
					}
				}
				for _, c := range passing(flavour) {
					tx, err := db.BeginTx(t.Context(), nil)
					if err != nil {
						t.Fatal(err)
					}
					rows, err := tx.QueryContext(t.Context(), c[0])
					var e *mysql.MySQLError
					switch {
					case shards > 1 && (!errors.As(err, &e) || e.Number != 1235):
						t.Errorf("%s over several shards: %v, want error 1235", c[0], err)
					case shards > 1:
					case err != nil:
						t.Errorf("%s: %v", c[0], err)
					default:
						if got := answerOf(t, rows); got != c[1] {
							t.Errorf("%s: %q, want %q", c[0], got, c[1])
						}
					}
					if err := tx.Rollback(); err != nil {
						t.Fatal(err)
					}
					rows, err = db.QueryContext(t.Context(), "SELECT k, v FROM t ORDER BY k")
					if err != nil {
						t.Fatal(err)
					}
					if got := answerOf(t, rows); got != "1 10;2 20;" {
						t.Fatalf("%s: after the rollback there is %q", c[0], got)
					}
				}
				// What needs the session or another schema is not passed through.
				for _, text := range []string{
					"SELECT DATABASE(), j.a FROM JSON_TABLE('[1]', '$[*]' COLUMNS(a INT PATH '$')) AS j",
					"SELECT j.a INTO @x FROM JSON_TABLE('[1]', '$[*]' COLUMNS(a INT PATH '$')) AS j",
					"SELECT u.user FROM mysql.user u, JSON_TABLE('[1]', '$[*]' COLUMNS(a INT PATH '$')) AS j",
				} {
					_, err := db.QueryContext(t.Context(), text)
					var e *mysql.MySQLError
					if !errors.As(err, &e) || e.Number != 1235 {
						t.Errorf("%s: %v, want error 1235", text, err)
					}
				}
			})
		}
	})
}
