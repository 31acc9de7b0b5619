package schema

import (
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"braid/conf"
	"braid/tests/e2e"
)

var (
	writesMax  = flag.Int("writes", 1000, "statements of TestRandomWrites on each flavour")
	writesSeed = flag.Uint64("writes-seed", 1, "seed of TestRandomWrites; 0: a new one, which is printed")
)

// writeGenerator makes writes whose outcome one server and many shards must
// agree in: where an order matters it is fixed by the statement.
type writeGenerator struct{ r *rand.Rand }

func (g *writeGenerator) pick(list ...string) string { return list[g.r.IntN(len(list))] }

func (g *writeGenerator) key() string { return fmt.Sprint(g.r.IntN(40) - 3) }

func (g *writeGenerator) number() string {
	return g.pick("NULL", "0", "1", "-7", "2.5", "'12'", "x'2A'", "1+1", fmt.Sprint(g.r.IntN(1000)))
}

func (g *writeGenerator) word() string {
	return g.pick("'a'", "'A'", "'b '", "'ü'", "NULL", "''", "'long word'", "CONCAT('x','y')", "UPPER('q')")
}

// keyValue is a sharding key as clients spell it.
func (g *writeGenerator) keyValue() string {
	k := g.key()
	return g.pick(k, k, k, "'"+k+"'", k+".4", "ABS("+k+")", k+"+0", "CAST("+k+" AS CHAR)")
}

func (g *writeGenerator) rows(row func() string) string {
	n := 1 + g.r.IntN(5)
	out := make([]string, n)
	for i := range out {
		out[i] = "(" + row() + ")"
	}
	return strings.Join(out, ",")
}

func (g *writeGenerator) where() string {
	return g.pick("k="+g.key(), "k IN ("+g.key()+","+g.key()+","+g.key()+")", "k>"+g.key(), "v="+g.number(), "v IS NULL",
		"s="+g.pick("'a'", "'b'", "'xy'"), "k BETWEEN 5 AND 15", "k="+g.key()+" OR v>500", "1=0", "k="+g.key()+" AND v>3")
}

// statement is a write and the table it changes.
func (g *writeGenerator) statement() (text, table string) {
	t := g.pick("a", "a", "b", "gl")
	three := func() string { return g.keyValue() + "," + g.number() + "," + g.word() }
	if t == "gl" {
		three = func() string { return g.key() + "," + g.number() + "," + g.word() }
	}
	switch g.r.IntN(16) {
	case 0, 1, 2:
		return "INSERT INTO " + t + "(k,v,s) VALUES (" + three() + ")", t
	case 3:
		return "INSERT IGNORE INTO " + t + "(k,v,s) VALUES " + g.rows(three), t
	case 4:
		return "REPLACE INTO " + t + "(k,v,s) VALUES " + g.rows(three), t
	case 5:
		return "INSERT INTO " + t + "(k,v,s) VALUES " + g.rows(three) + " ON DUPLICATE KEY UPDATE v=COALESCE(v,0)+1", t
	case 6:
		return "UPDATE " + t + " SET v=" + g.number() + " WHERE " + g.where(), t
	case 7:
		return "UPDATE " + t + " SET v=COALESCE(v,0)*2 % 1000, s=" + g.word() + " WHERE " + g.where(), t
	case 8:
		return "DELETE FROM " + t + " WHERE " + g.where(), t
	case 9:
		t = g.pick("a", "b")
		return "UPDATE " + t + " SET v=" + g.number() + " ORDER BY " + g.pick("k", "k DESC", "v, k", "s DESC, k") + fmt.Sprintf(" LIMIT %d", g.r.IntN(6)), t
	case 10:
		t = g.pick("a", "b")
		return "DELETE FROM " + t + " WHERE " + g.where() + " ORDER BY " + g.pick("k", "v DESC, k") + fmt.Sprintf(" LIMIT %d", g.r.IntN(4)), t
	case 11:
		t = g.pick("a", "b")
		return "UPDATE " + t + " SET k=" + g.keyValue() + g.pick("", ", v=1", ", s='moved'") + " WHERE k=" + g.key(), t
	case 12:
		t = g.pick("a", "b")
		return "UPDATE " + t + " SET k=k+1 WHERE k=" + g.key(), t
	case 13:
		from := g.pick("a", "b", "gl")
		return g.pick("INSERT IGNORE", "REPLACE") + " INTO " + t + "(k,v,s) SELECT k+" + g.pick("0", "1", "20") + ",v,s FROM " + from + " WHERE " + g.where() + " ORDER BY k", t
	case 14:
		return "INSERT INTO " + t + " SET k=" + g.key() + ", s=" + g.word(), t
	}
	return "DELETE FROM a WHERE k IN (SELECT k FROM gl WHERE v > 100)", "a"
}

// TestRandomWrites compares a long sequence of writes with one plain server:
// what each statement says, and what its table then holds.
func TestRandomWrites(t *testing.T) {
	seed := *writesSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("-writes-seed %d", seed)
	tables := []conf.Table{
		{Name: "a", Kind: "sharded", Key: []string{"k"}},
		{Name: "b", Kind: "sharded", Key: []string{"k"}},
		{Name: "gl", Kind: "global"},
	}
	flavours(t, tables, func(t *testing.T, b *e2e.Braid) {
		g := &writeGenerator{rand.New(rand.NewPCG(seed, 1))}
		server := lab.Server(t, b.Flavour(), "plain")
		e2e.Recreate(t, server, "shop")
		db, plain := pooled(b.Open(t)), pooled(e2e.Open(t, server, "shop"))
		for _, name := range []string{"a", "b", "gl"} {
			text := "CREATE TABLE " + name + "(k INT PRIMARY KEY, v INT, s VARCHAR(20)) DEFAULT CHARSET utf8mb4 COLLATE utf8mb4_general_ci"
			exec(t, db, text)
			exec(t, plain, text)
		}
		refused, failures := 0, 0
		for n := range *writesMax {
			text, table := g.statement()
			inTx := g.r.IntN(5) == 0
			got, err1 := said(t, db, text, inTx)
			if err1 == 1235 {
				refused++
				continue
			}
			want, err2 := said(t, plain, text, inTx)
			if got != want || err1 != err2 {
				t.Errorf("statement %d: %s\n  braid: %s (%d)\n  plain: %s (%d)", n, text, got, err1, want, err2)
				failures++
			}
			rows1, rows2 := contents(t, db, table), contents(t, plain, table)
			if rows1 != rows2 {
				t.Fatalf("statement %d: %s\n  braid holds %s\n  plain holds %s", n, text, rows1, rows2)
			}
			if failures > 5 {
				t.FailNow()
			}
		}
		t.Logf("%d statements, %d of them refused", *writesMax, refused)
		if refused > *writesMax/4 {
			t.Errorf("%d of %d statements were refused", refused, *writesMax)
		}
	})
}

// contents is a table's rows as text.
func contents(t *testing.T, db *sql.DB, table string) string {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), "SELECT k, v, HEX(s) FROM "+table+" ORDER BY k")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var b strings.Builder
	for rows.Next() {
		var k, v, s sql.NullString
		if err := rows.Scan(&k, &v, &s); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s=%s=%s ", k.String, v.String, s.String)
	}
	if rows.Err() != nil {
		t.Fatal(rows.Err())
	}
	return b.String()
}

// said runs a write, in a transaction of several statements or by itself, and
// returns what the server said of it.
func said(t *testing.T, db *sql.DB, text string, inTx bool) (string, uint16) {
	t.Helper()
	run := db.ExecContext
	if inTx {
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := tx.Commit(); err != nil {
				t.Fatal(err)
			}
		}()
		if _, err := tx.ExecContext(t.Context(), "UPDATE gl SET v=v WHERE k=0"); err != nil {
			t.Fatal(err)
		}
		run = tx.ExecContext
	}
	r, err := run(t.Context(), text)
	var e *mysql.MySQLError
	if errors.As(err, &e) {
		return "", e.Number
	}
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	n, _ := r.RowsAffected()
	return fmt.Sprintf("affected %d", n), 0
}
