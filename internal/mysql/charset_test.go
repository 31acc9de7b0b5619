package mysql

import (
	"database/sql"
	"strings"
	"testing"
)

func TestCollations(t *testing.T) {
	for name, c := range map[string]Collations{"MySQL": MySQLCollations(), "MariaDB": MariaDBCollations()} {
		for i, want := range c.byID {
			if i > 0 && c.byID[i-1].ID >= want.ID {
				t.Fatalf("%s: id %d behind %d", name, want.ID, c.byID[i-1].ID)
			}
			if got, ok := c.ByID(want.ID); !ok || got != want {
				t.Errorf("%s: id %d is %+v", name, want.ID, got)
			}
			if got, ok := c.ByName(strings.ToUpper(want.Name)); !ok || got != want {
				t.Errorf("%s: %s is %+v", name, want.Name, got)
			}
			cs, ok := c.Charset(want.Charset)
			if !ok || cs.BytesMax != want.BytesMax || cs.Name != want.Charset {
				t.Errorf("%s: the character set of %s is %+v", name, want.Name, cs)
			}
			if want.Default != (cs.Collation == want.ID) {
				t.Errorf("%s: %s is its character set's default: %v", name, want.Name, want.Default)
			}
		}
		for _, bad := range []string{"", "zzz", "utf8mb4_nosuch_ci", "utf8"} {
			if got, ok := c.ByName(bad); ok {
				t.Errorf("%s: %q is %+v", name, bad, got)
			}
		}
		if _, ok := c.ByID(0); ok {
			t.Errorf("%s: id 0 is a collation", name)
		}
		if _, ok := c.ByID(0xffff); ok {
			t.Errorf("%s: id 65535 is a collation", name)
		}
		if _, ok := c.Charset("utf9"); ok {
			t.Errorf("%s: utf9 is a character set", name)
		}
		if cs, ok := c.Charset("UTF8"); !ok || cs.Name != "utf8mb3" || cs.BytesMax != 3 {
			t.Errorf("%s: utf8 is %+v", name, cs)
		}
		if got, ok := c.ByName("utf8_bin"); !ok || got.ID != 83 {
			t.Errorf("%s: utf8_bin is %+v", name, got)
		}
	}
	for _, v := range []struct {
		c    Collations
		want Collation
	}{
		{MySQLCollations(), Collation{255, "utf8mb4_0900_ai_ci", "utf8mb4", 4, false, true}},
		{MySQLCollations(), Collation{45, "utf8mb4_general_ci", "utf8mb4", 4, true, false}},
		{MySQLCollations(), Collation{63, "binary", "binary", 1, false, true}},
		{MariaDBCollations(), Collation{45, "utf8mb4_general_ci", "utf8mb4", 4, true, true}},
		{MariaDBCollations(), Collation{1069, "utf8mb4_general_nopad_ci", "utf8mb4", 4, false, false}},
		{MariaDBCollations(), Collation{2048, "utf8mb3_uca1400_ai_ci", "utf8mb3", 3, true, false}},
	} {
		if got, _ := v.c.ByID(v.want.ID); got != v.want {
			t.Errorf("got %+v, want %+v", got, v.want)
		}
	}
}

// The tables are those of the servers at hand, and so are the two aliases.
func TestCollationsLive(t *testing.T) {
	for env, v := range map[string]struct {
		c     Collations
		query string
	}{
		"BRAID_TEST_MYSQL_DSN":   {MySQLCollations(), "SELECT ID, COLLATION_NAME, CHARACTER_SET_NAME, IS_DEFAULT = 'Yes' FROM information_schema.COLLATIONS"},
		"BRAID_TEST_MARIADB_DSN": {MariaDBCollations(), "SELECT ID, FULL_COLLATION_NAME, CHARACTER_SET_NAME, IS_DEFAULT = 'Yes' FROM information_schema.COLLATION_CHARACTER_SET_APPLICABILITY"},
	} {
		t.Run(env, func(t *testing.T) {
			db := liveServer(t, env).db
			rows, err := db.Query(v.query)
			if err != nil {
				t.Fatal(err)
			}
			defer rows.Close()
			n := 0
			for rows.Next() {
				var want Collation
				if err := rows.Scan(&want.ID, &want.Name, &want.Charset, &want.Default); err != nil {
					t.Fatal(err)
				}
				got, ok := v.c.ByID(want.ID)
				if !ok || got.Name != want.Name || got.Charset != want.Charset || got.Default != want.Default {
					t.Errorf("got %+v, want %+v", got, want)
				}
				n++
			}
			if err := rows.Err(); err != nil {
				t.Fatal(err)
			}
			if n != len(v.c.byID) {
				t.Errorf("the server has %d collations, the table %d", n, len(v.c.byID))
			}
			var got string
			err = db.QueryRow("SELECT COLLATION(_utf8mb3'a' COLLATE utf8_bin)").Scan(&got)
			if err != nil && err != sql.ErrNoRows || got != "utf8mb3_bin" && got != "utf8_bin" {
				t.Errorf("utf8_bin is %s, %v", got, err)
			}
		})
	}
}
