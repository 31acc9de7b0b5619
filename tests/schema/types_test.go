package schema

import (
	"database/sql"
	"strings"
	"testing"

	"braid/tests/e2e"
	"braid/tests/servers"
)

// TestB034TypesThatTheParserDoesNotKnow: tables with such columns are made on the
// shards as on one server, and their rows are as there.
func TestB034TypesThatTheParserDoesNotKnow(t *testing.T) {
	flavours(t, nil, func(t *testing.T, b *e2e.Braid) {
		server := lab.Server(t, b.Flavour(), "plain")
		e2e.Recreate(t, server, "shop")
		db, plain := b.Open(t), e2e.Open(t, server, "shop")
		both := func(text string) {
			t.Helper()
			exec(t, db, text)
			exec(t, plain, text)
		}
		both("CREATE TABLE geo(k INT PRIMARY KEY, p POINT, j JSON) /*braid key=k*/")
		both("INSERT INTO geo VALUES (1,ST_GeomFromText('POINT(1 2)'),'{\"a\":1}'),(2,NULL,'[1]'),(3,ST_GeomFromText('POINT(1 2)'),NULL),(4,ST_GeomFromText('POINT(3 4)'),'[]')")
		located := "GEOMETRY NOT NULL SRID 4326"
		if b.Flavour() == servers.MariaDB {
			located = "GEOMETRY REF_SYSTEM_ID=4326 NOT NULL"
			both("CREATE TABLE special(k INT, u UUID, i INET6, n INET4, PRIMARY KEY(k)) /*braid key=k*/")
			both("INSERT INTO special VALUES (1,'123e4567-e89b-12d3-a456-426655440000','::1','10.0.0.1'),(2,NULL,'fe80::2',NULL),(3,'00000000-0000-0000-0000-000000000001',NULL,'1.2.3.4')")
		}
		both("CREATE TABLE area(id INT, point INT, g " + located + ", l LINESTRING, PRIMARY KEY(id), SPATIAL INDEX around (g)) /*braid key=id*/")
		both("ALTER TABLE area ADD COLUMN polygon POLYGON AFTER point, ADD c MULTIPOINT")
		both("ALTER TABLE geo ADD COLUMN q POINT DEFAULT NULL")
		both("UPDATE geo SET q = p WHERE k < 3")
		both("INSERT INTO area(id, point, g) VALUES (1, 5, ST_GeomFromText('POINT(1 1)', 4326)), (2, 6, ST_GeomFromText('LINESTRING(0 0, 1 1)', 4326))")
		queries := []string{
			"SELECT k,p,ST_AsText(p),j FROM geo ORDER BY k", "SHOW COLUMNS FROM geo", "SHOW CREATE TABLE geo", "SHOW COLUMNS FROM area", "SHOW CREATE TABLE area",
			"SELECT COUNT(*) FROM (SELECT DISTINCT p FROM geo) d", "SELECT DISTINCT ST_AsText(p) FROM geo ORDER BY 1", "SELECT k, HEX(q) FROM geo WHERE k = 1",
			"SELECT COUNT(DISTINCT ST_AsText(p)) FROM geo", "SELECT id, ST_AsText(g), point FROM area ORDER BY id", "SELECT a.k, b.k FROM geo a JOIN geo b ON ST_Equals(a.p, b.p) ORDER BY 1, 2",
		}
		if b.Flavour() == servers.MariaDB {
			queries = append(queries, "SELECT * FROM special ORDER BY k", "SELECT u, i FROM special WHERE k = 1", "SELECT k FROM special WHERE i = '::1'", "SELECT COUNT(*), COUNT(u) FROM special")
		}
		answer := func(d *sql.DB, text string) string { return strings.Join(lines(t, d, text), "\n") }
		for _, text := range queries {
			if have, want := answer(db, text), answer(plain, text); have != want {
				t.Errorf("%s:\n%q\na server says\n%q", text, have, want)
			}
		}
		if got := len(lines(t, db, "SELECT DISTINCT p FROM geo")); got != 3 {
			t.Errorf("SELECT DISTINCT p: %d rows", got)
		}
		if rows := spread(t, b, "geo"); tables(rows) != 4 {
			t.Errorf("geo is on %v", rows)
		}
		refused(t, db, 1235, "sharding key", "CREATE TABLE x(k INT, p POINT) /*braid key=p*/")
		unknown := uint16(1064)
		if b.Flavour() == servers.MariaDB {
			unknown = 4161
		}
		refused(t, db, unknown, "POINTLESS", "CREATE TABLE x(k INT, p POINTLESS) /*braid key=k*/")
	})
}
