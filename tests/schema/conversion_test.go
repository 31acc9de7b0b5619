package schema

import (
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"braid/conf"
	"braid/tests/e2e"
	"braid/tests/servers"
)

// conversion is a condition that makes the server convert a value: of the text,
// or, with ofRows, of rows, so that which one is named first is the server's own
// matter. folded is a call with constants alone, which MariaDB computes before it
// looks at any row and then never makes an error of; as Braid does not see that,
// UPDATEs in which a row's conversion is an error are left out.
type conversion struct {
	condition      string
	ofRows, folded bool
}

var conversions = []conversion{
	{condition: "v=x'2A'"}, {condition: "v='5abc'"}, {condition: "v='abc'"}, {condition: "v='5abc' AND k>0"}, {condition: "v='5 '"}, {condition: "v=''"},
	{condition: "v>'4x'"}, {condition: "v IN ('5abc',3)"}, {condition: "v BETWEEN '4a' AND '6b'"}, {condition: "k='2abc'"}, {condition: "k>'2abc'"},
	{condition: "v+'1x'>2"}, {condition: "v=1/0"}, {condition: "v/0 IS NULL"}, {condition: "v=CAST('9999999999999999999' AS SIGNED)"},
	{condition: "s=5", ofRows: true}, {condition: "s=0", ofRows: true}, {condition: "CAST(s AS SIGNED)=5", ofRows: true}, {condition: "s AND 1", ofRows: true}, {condition: "s && 1", ofRows: true},
	{condition: "BINARY s='x'"}, {condition: "STR_TO_DATE('x','%Y') IS NULL", folded: true}, {condition: "LOG(0)=1 OR k=1", folded: true},
	{condition: "TIMESTAMPADD(YEAR,9999,'2020-01-01')>1 OR k=2", folded: true}, {condition: "UNHEX('zz')>1 OR k=4"}, {condition: "REPEAT('a',100000000)>'b' OR k=5", folded: true},
}

// conversionWrites are writes with a condition in the place of %s: over shards
// as they are, in steps with LIMIT, and in steps as rows move.
var conversionWrites = []string{
	"DELETE FROM a WHERE %s",
	"DELETE FROM a WHERE %s ORDER BY v DESC, k LIMIT 9",
	"DELETE FROM a WHERE %s LIMIT 9",
	"DELETE IGNORE FROM a WHERE %s ORDER BY k LIMIT 9",
	"UPDATE a SET v=1 WHERE %s",
	"UPDATE a SET v=1 WHERE %s ORDER BY v DESC, k LIMIT 9",
	"UPDATE a SET v=1 WHERE %s ORDER BY k LIMIT 9",
	"UPDATE a SET v=1 WHERE %s LIMIT 9",
	"UPDATE IGNORE a SET v='4x' WHERE %s ORDER BY k LIMIT 9",
	"UPDATE a SET v=v/0 WHERE %s ORDER BY k LIMIT 9",
	"UPDATE a SET k=100 WHERE k=6 AND (%s)",
	"UPDATE a SET k=100 WHERE s='x' AND (%s)",
	"UPDATE a SET k=100, v=s+1 WHERE s='x' AND (%s)",
	"INSERT INTO b SELECT k+1, v, s FROM a WHERE %s",
	"INSERT IGNORE INTO b SELECT k+1, v, s FROM a WHERE %s ORDER BY k",
}

// TestConversions compares writes whose conditions convert values with one plain
// server: under a strict sql_mode some conversions are errors, and which are
// hangs on the server, the statement, and how it finds its rows.
func TestConversions(t *testing.T) {
	tables := []conf.Table{{Name: "a", Kind: "sharded", Key: []string{"k"}}, {Name: "b", Kind: "sharded", Key: []string{"k"}}}
	flavours(t, tables, func(t *testing.T, b *e2e.Braid) {
		server := lab.Server(t, b.Flavour(), "plain")
		e2e.Recreate(t, server, "shop")
		db, plain := pooled(b.Open(t)), pooled(e2e.Open(t, server, "shop"))
		both := func(text string) { t.Helper(); exec(t, db, text); exec(t, plain, text) }
		for _, name := range []string{"a", "b"} {
			both("CREATE TABLE " + name + "(k INT PRIMARY KEY, v INT, s VARCHAR(20)) DEFAULT CHARSET utf8mb4 COLLATE utf8mb4_general_ci")
		}
		for _, mode := range []string{"STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO", ""} {
			both("SET sql_mode='" + mode + "'")
			for _, c := range conversions {
				for _, form := range conversionWrites {
					if c.folded && b.Flavour() == servers.MariaDB && !strings.Contains(form, "ORDER") && !strings.HasPrefix(form, "DELETE") {
						continue
					}
					both("DELETE FROM a")
					both("DELETE FROM b")
					both("INSERT INTO a VALUES (1,0,'5abc'),(2,0,'a'),(3,42,'7'),(4,5,''),(5,NULL,NULL),(6,5,'x'),(7,0,'0'),(8,42,'1')")
					text := fmt.Sprintf(form, c.condition)
					got, want := outcome(t, db, text, c.ofRows), outcome(t, plain, text, c.ofRows)
					for _, name := range []string{"a", "b"} {
						got, want = got+"\n\t"+contents(t, db, name), want+"\n\t"+contents(t, plain, name)
					}
					if got != want {
						t.Errorf("sql_mode %q: %s\n  braid: %s\n  plain: %s", mode, text, got, want)
					}
				}
			}
		}
	})
}

// outcome is what a write said: its error, or the affected rows and the warnings,
// each once and without the numbers of rows, as each shard says and counts its
// own; ofRows without their texts.
func outcome(t *testing.T, db *sql.DB, text string, ofRows bool) string {
	t.Helper()
	r, err := db.ExecContext(t.Context(), text)
	var e *mysql.MySQLError
	if errors.As(err, &e) {
		if ofRows {
			return fmt.Sprintf("error %d (%s)", e.Number, e.SQLState)
		}
		return e.Error()
	}
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	n, _ := r.RowsAffected()
	rows, err := db.QueryContext(t.Context(), "SHOW WARNINGS")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var said []string
	for rows.Next() {
		var level, code, message string
		if err := rows.Scan(&level, &code, &message); err != nil {
			t.Fatal(err)
		}
		w := level + " " + code
		message, _, _ = strings.Cut(message, " at row ")
		if !ofRows {
			w += " " + message
		}
		if !slices.Contains(said, w) {
			said = append(said, w)
		}
	}
	if rows.Err() != nil {
		t.Fatal(rows.Err())
	}
	slices.Sort(said)
	return fmt.Sprintf("affected %d: %s", n, strings.Join(said, "; "))
}
