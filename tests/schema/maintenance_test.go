package schema

import (
	"database/sql"
	"strings"
	"testing"

	"braid/conf"
	"braid/proxy"
	"braid/tests/e2e"
)

// lines reads an answer as lines of fields joined by " | ", NULL as NULL.
func lines(t *testing.T, db *sql.DB, text string) []string {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for rows.Next() {
		values, to := make([]sql.NullString, len(names)), make([]any, len(names))
		for i := range values {
			to[i] = &values[i]
		}
		if err := rows.Scan(to...); err != nil {
			t.Fatal(err)
		}
		var line []string
		for _, v := range values {
			if !v.Valid {
				v.String = "NULL"
			}
			line = append(line, v.String)
		}
		out = append(out, strings.Join(line, " | "))
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestTableMaintenance: CHECK, CHECKSUM, ANALYZE, OPTIMIZE and FLUSH TABLES of
// tables on several shards answer as one server does.
func TestTableMaintenance(t *testing.T) {
	tables := []conf.Table{{Name: "t", Kind: "sharded", Key: []string{"k"}}, {Name: "g", Kind: "global"}, {Name: "one", Kind: "single", Shard: "s3"}}
	flavours(t, tables, func(t *testing.T, b *e2e.Braid) {
		server := lab.Server(t, b.Flavour(), "plain")
		e2e.Recreate(t, server, "shop")
		db, plain := b.Open(t), e2e.Open(t, server, "shop")
		for _, d := range []*sql.DB{db, plain} {
			for _, text := range []string{
				"CREATE TABLE t(k INT PRIMARY KEY, v VARCHAR(20), d DECIMAL(9,2))", "CREATE TABLE g(k INT PRIMARY KEY, v DOUBLE)", "CREATE TABLE one(k INT PRIMARY KEY)",
				"INSERT INTO t VALUES (1,'a',1.5),(2,NULL,2),(3,'ü',NULL),(4,'',4),(5,'x',5),(6,'y',-6),(7,'z',7),(8,'long enough',8)",
				"INSERT INTO g VALUES (1,1.25),(2,NULL)", "INSERT INTO one VALUES (1),(2)",
			} {
				exec(t, d, text)
			}
		}
		for _, text := range []string{
			"CHECKSUM TABLE t", "CHECKSUM TABLE t, g EXTENDED", "CHECKSUM TABLE one", "CHECKSUM TABLE g", "CHECKSUM TABLE shop_t", "CHECKSUM TABLE t QUICK",
			"CHECK TABLE t", "CHECK TABLE t, g QUICK", "CHECK TABLE one EXTENDED", "ANALYZE TABLE t, g", "ANALYZE TABLE one", "OPTIMIZE TABLE g",
		} {
			have, want := strings.Join(lines(t, db, text), "\n"), strings.Join(lines(t, plain, text), "\n")
			if have != want {
				t.Errorf("%s:\n%s\na server says\n%s", text, have, want)
			}
		}
		exec(t, db, "FLUSH TABLES")
		exec(t, db, "FLUSH LOCAL TABLES t, g")
		refused(t, db, 1235, "FLUSH TABLES ... WITH", "FLUSH TABLES WITH READ LOCK")

		// A copy of a global table that was written behind Braid's back is found.
		findings := func() (out string) {
			t.Helper()
			all, err := proxy.CheckLive(t.Context(), b.Config)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range all {
				if f.Level == "error" || strings.Contains(f.What, "table g") {
					out += f.What + "\n"
				}
			}
			return out
		}
		if text := findings(); text != "" {
			t.Errorf("braid check --live: %s", text)
		}
		place := b.Shards()[2]
		exec(t, e2e.Open(t, place.Node, place.Schema), "UPDATE g SET v = 1.26 WHERE k = 1")
		for _, text := range []string{strings.Join(lines(t, db, "CHECK TABLE t, g"), "\n"), findings()} {
			if !strings.Contains(text, "The copies of the global table differ: shard s0 has 2 rows with checksum ") {
				t.Errorf("copies that differ: %s", text)
			}
		}
		exec(t, e2e.Open(t, place.Node, place.Schema), "UPDATE g SET v = 1.25 WHERE k = 1")
		exec(t, e2e.Open(t, place.Node, place.Schema), "ALTER TABLE g ADD KEY (v)")
		if text := findings(); !strings.Contains(text, "shard s2, table g: has ") {
			t.Errorf("a shard that differs: %s", text)
		}
	})
}
