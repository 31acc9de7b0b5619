package schema

import (
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"braid/conf"
	"braid/tests/e2e"
	"braid/tests/servers"
	"braid/tests/wire"
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
		"s="+g.pick("'a'", "'b'", "'xy'"), "k BETWEEN 5 AND 15", "k="+g.key()+" OR v>500", "1=0", "k="+g.key()+" AND v>3",
		"k IN ("+g.key()+",'"+g.key()+"',"+g.key()+".0) AND v<500", "v='5abc'", "v>'12x'", "k<5 AND s>''", "(k="+g.key()+" OR k="+g.key()+") AND s IS NOT NULL")
}

// statement is a write and the tables that it changes.
func (g *writeGenerator) statement() (text string, tables []string) {
	t := g.pick("a", "a", "b", "gl", "c")
	rest, into := func() string { return g.number() + "," + g.word() }, t+"(k,v,s)"
	if t == "c" {
		rest = func() string {
			return fmt.Sprint(g.r.IntN(3)) + "," + g.pick("NULL", "1", "2", g.number()) + "," + g.word()
		}
		into = "c(k,n,v,s)"
	}
	three := func() string {
		if t == "gl" {
			return g.key() + "," + rest()
		}
		return g.keyValue() + "," + rest()
	}
	changed := []string{t}
	sharded := g.pick("a", "b", "c")
	key := map[string]string{"a": "k", "b": "k", "c": "k, n"}[sharded]
	down := map[string]string{"a": "k DESC", "b": "k DESC", "c": "k DESC, n DESC"}[sharded]
	switch g.r.IntN(23) {
	case 0, 1, 2:
		return "INSERT INTO " + into + " VALUES (" + three() + ")", changed
	case 3:
		return "INSERT IGNORE INTO " + into + " VALUES " + g.rows(three), changed
	case 4:
		return "REPLACE INTO " + into + " VALUES " + g.rows(three), changed
	case 5:
		return "INSERT INTO " + into + " VALUES " + g.rows(three) + " ON DUPLICATE KEY UPDATE " + g.pick("v=COALESCE(v,0)+1", "s=VALUES(s)", "v=VALUES(v), s='both'"), changed
	case 6:
		return "UPDATE " + t + " SET v=" + g.number() + " WHERE " + g.where(), changed
	case 7:
		return "UPDATE " + t + " SET v=COALESCE(v,0)*2 % 1000, s=" + g.word() + " WHERE " + g.where(), changed
	case 8:
		return "DELETE FROM " + t + " WHERE " + g.where(), changed
	case 9:
		set := "v=" + g.number()
		if sharded == "c" {
			set = "s=" + g.word()
		}
		return "UPDATE " + sharded + " SET " + set + g.pick("", " WHERE "+g.where()) + " ORDER BY " + g.pick(key, down, "v, "+key, "s DESC, "+key) + fmt.Sprintf(" LIMIT %d", g.r.IntN(6)), []string{sharded}
	case 10:
		return "DELETE FROM " + sharded + " WHERE " + g.where() + " ORDER BY " + g.pick(key, "v DESC, "+key) + fmt.Sprintf(" LIMIT %d", g.r.IntN(4)), []string{sharded}
	case 11:
		return "UPDATE " + sharded + " SET k=" + g.keyValue() + g.pick("", ", v=1", ", s='moved'") + " WHERE k=" + g.key(), []string{sharded}
	case 12:
		return "UPDATE " + sharded + " SET k=k+1 WHERE k=" + g.key(), []string{sharded}
	case 13:
		t, from := g.pick("a", "b"), g.pick("a", "b", "gl")
		return g.pick("INSERT IGNORE", "REPLACE") + " INTO " + t + "(k,v,s) SELECT k+" + g.pick("0", "1", "20") + ",v,s FROM " + from + " WHERE " + g.where() + " ORDER BY k", []string{t}
	case 14:
		return "INSERT INTO " + g.pick("a", "b", "gl") + " SET k=" + g.key() + ", s=" + g.word(), []string{"a", "b", "gl"}
	case 15:
		return "INSERT INTO " + into + " VALUES " + g.rows(three), changed
	case 16:
		return "UPDATE IGNORE " + t + " SET v=" + g.pick("'7x'", "99999999999", g.number()) + " WHERE " + g.where(), changed
	case 17:
		t := g.pick("a", "b")
		return "INSERT INTO " + t + "(k,v,s) SELECT k,v,s FROM " + g.pick("a", "b", "gl") + " x WHERE x.k>" + g.key() + " ORDER BY k ON DUPLICATE KEY UPDATE " + t + ".s='met'", []string{t}
	case 18:
		return "UPDATE a JOIN b ON a.k=b.k SET a.v=b.v, b.s='joined' WHERE a." + g.pick("v>500", "k>10", "s='a'"), []string{"a", "b"}
	case 19:
		return "DELETE " + g.pick("a", "b", "a, b") + " FROM a JOIN b ON a.k=b.k WHERE b." + g.pick("v>700", "k="+g.key(), "s='joined'"), []string{"a", "b"}
	case 20:
		return "UPDATE " + sharded + " SET k=" + g.key() + " WHERE " + g.pick("v="+g.number(), "s='a'") + " ORDER BY " + key + " LIMIT 1", []string{sharded}
	case 21:
		return "INSERT INTO " + into + " VALUES (" + g.pick("'x'", "NULL", "99999999999", "DEFAULT", "'12x'", "1/0") + "," + rest() + ")", changed
	}
	return "DELETE FROM " + sharded + " WHERE k IN (SELECT k FROM gl WHERE v > 100)", []string{sharded}
}

// writeSide is one of the two servers compared, with its connections.
type writeSide struct {
	db    *sql.DB // to look at tables
	conns []*wire.Conn
}

// randomModes are the sessions that statements come from: under a strict and
// another sql_mode, and counting the rows found.
var randomModes = []struct {
	mode  string
	flags uint32
}{
	{"STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ZERO_DATE", 0},
	{"", 0},
	{"STRICT_TRANS_TABLES", gomysql.CLIENT_FOUND_ROWS},
}

func newWriteSide(t *testing.T, db *sql.DB, addr string) *writeSide {
	t.Helper()
	s := &writeSide{db: pooled(db)}
	for _, m := range randomModes {
		c, err := wire.Connect(t.Context(), wire.Options{Addr: addr, User: servers.User, Password: servers.Password, Database: "shop", Flags: m.flags})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		if _, err := c.Query("SET sql_mode='" + m.mode + "'"); err != nil {
			t.Fatal(err)
		}
		s.conns = append(s.conns, c)
	}
	return s
}

// TestRandomWrites compares a long sequence of writes with one plain server:
// what each statement says, and what its tables then hold.
func TestRandomWrites(t *testing.T) {
	seed := *writesSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("-writes-seed %d", seed)
	tables := []conf.Table{
		{Name: "a", Kind: "sharded", Key: []string{"k"}},
		{Name: "b", Kind: "sharded", Key: []string{"k"}, Colocated: "a"},
		{Name: "c", Kind: "sharded", Key: []string{"k"}},
		{Name: "gl", Kind: "global"},
	}
	flavours(t, tables, func(t *testing.T, b *e2e.Braid) {
		g := &writeGenerator{rand.New(rand.NewPCG(seed, 1))}
		server := lab.Server(t, b.Flavour(), "plain")
		e2e.Recreate(t, server, "shop")
		braid, plain := newWriteSide(t, b.Open(t), b.DriverConfig().Addr), newWriteSide(t, e2e.Open(t, server, "shop"), server.Addr())
		for _, name := range []string{"a", "b", "gl", "c"} {
			text := "CREATE TABLE " + name + "(k INT PRIMARY KEY, v INT, s VARCHAR(20)) DEFAULT CHARSET utf8mb4 COLLATE utf8mb4_general_ci"
			if name == "c" {
				text = "CREATE TABLE c(k INT, n INT, v INT, s VARCHAR(20), PRIMARY KEY(k, n), UNIQUE KEY kv (k, v)) DEFAULT CHARSET utf8mb4 COLLATE utf8mb4_general_ci"
			}
			exec(t, braid.db, text)
			exec(t, plain.db, text)
		}
		refused, failures := 0, 0
		for n := range *writesMax {
			text, changed := g.statement()
			how := writeHow{session: g.r.IntN(len(randomModes)), prepared: g.r.IntN(4) == 0, inTx: g.r.IntN(5) == 0}
			got, code := how.run(t, braid, text)
			if code == 1235 {
				refused++
				continue
			}
			want, _ := how.run(t, plain, text)
			if got != want {
				t.Errorf("statement %d, %+v: %s\n  braid: %s\n  plain: %s", n, how, text, got, want)
				failures++
			}
			for _, table := range changed {
				rows1, rows2 := contents(t, braid.db, table), contents(t, plain.db, table)
				if rows1 != rows2 {
					t.Fatalf("statement %d, %+v: %s\n  braid holds %s\n  plain holds %s", n, how, text, rows1, rows2)
				}
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
	rows, err := db.QueryContext(t.Context(), "SELECT * FROM "+table+" ORDER BY 1, 2")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	values, into := make([]sql.NullString, len(columns)), make([]any, len(columns))
	for i := range values {
		into[i] = &values[i]
	}
	var b strings.Builder
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			t.Fatal(err)
		}
		for _, v := range values {
			if v.Valid {
				fmt.Fprintf(&b, "%q,", v.String)
			} else {
				b.WriteString("NULL,")
			}
		}
		b.WriteByte(' ')
	}
	if rows.Err() != nil {
		t.Fatal(rows.Err())
	}
	return b.String()
}

// writeHow is how a statement is run: from which session, as text or prepared,
// by itself or in a transaction of several statements.
type writeHow struct {
	session        int
	prepared, inTx bool
}

// run runs a write and returns what the server said of it: all of its OK, and
// its warnings, or its error.
func (h writeHow) run(t *testing.T, s *writeSide, text string) (said string, code uint16) {
	t.Helper()
	c := s.conns[h.session]
	must := func(text string) []wire.Result {
		t.Helper()
		r, err := c.Query(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		return r
	}
	if h.inTx {
		must("BEGIN")
		must("UPDATE gl SET v=v WHERE k=0")
		defer must("COMMIT")
	}
	r, err := h.answer(c, text)
	var e *wire.Error
	if errors.As(err, &e) {
		if strings.HasPrefix(text, "INSERT") || strings.HasPrefix(text, "REPLACE") {
			return e.Error(), e.Code
		}
		return fmt.Sprint(e.Code), e.Code // of which row is the server's plan
	}
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	ok := r[0].OK
	ok.Status &^= gomysql.SERVER_STATUS_NO_INDEX_USED | gomysql.SERVER_STATUS_NO_GOOD_INDEX_USED // the server's plan
	// Each shard warns of the constants of its text and counts its own rows.
	info, _, _ := strings.Cut(ok.Info, "  Warnings:")
	if info == "Rows matched: 0  Changed: 0" {
		info = "" // MariaDB leaves it out where it sees beforehand that there is nothing to do
	}
	var warnings []string
	for _, row := range must("SHOW WARNINGS")[0].Rows {
		message, _, _ := strings.Cut(string(row[2]), " at row ")
		warnings = append(warnings, string(row[0])+" "+string(row[1])+" "+message)
	}
	if strings.Contains(text, " LIMIT ") && ok.AffectedRows == 0 {
		warnings, ok.Warnings = nil, 0 // whether constants are converted when no row is looked at is the plan's
	}
	if randomModes[h.session].flags != 0 && strings.Contains(text, "ON DUPLICATE") {
		// A shard that gets one row says no more of it than a 1, new or met as it is.
		info, _, _ = strings.Cut(info, "  Duplicates:")
	}
	slices.Sort(warnings)
	warnings = slices.Compact(warnings)
	return fmt.Sprintf("affected %d, id %d, %q, status %x, any warnings %t %q", ok.AffectedRows, ok.InsertID, info, ok.Status, ok.Warnings > 0, warnings), 0
}

func (h writeHow) answer(c *wire.Conn, text string) ([]wire.Result, error) {
	if !h.prepared {
		return c.Query(text)
	}
	st, err := c.Prepare(text)
	if err != nil {
		return nil, err
	}
	r, err := st.Execute()
	return r, errors.Join(err, st.Close())
}
