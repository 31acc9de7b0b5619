package router

import (
	"testing"
)

func TestQualifyFindsTables(t *testing.T) {
	db := &Database{Name: "shop", Tables: map[string]*Table{"a": {Name: "a"}, "b": {Name: "b"}, "order": {Name: "order"}}}
	for _, c := range []struct{ in, want string }{
		{"SELECT a FROM a", "SELECT a FROM `s_1`.a"},
		{"SELECT a.a, b FROM a, b WHERE a.a = b.a ORDER BY a", "SELECT a.a, b FROM `s_1`.a, `s_1`.b WHERE a.a = b.a ORDER BY a"},
		{"select x.v from `a` x left join b as y on (x.a = y.a and y.b in (1,2)), `order` where a in (1)", "select x.v from `s_1`.`a` x left join `s_1`.b as y on (x.a = y.a and y.b in (1,2)), `s_1`.`order` where a in (1)"},
		{"SELECT COALESCE(a, b), EXTRACT(YEAR FROM a) FROM (a JOIN b USING (a, b))", "SELECT COALESCE(a, b), EXTRACT(YEAR FROM a) FROM (`s_1`.a JOIN `s_1`.b USING (a, b))"},
		{"SELECT TRIM(LEADING 'x' FROM b) FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.a = a.a) LIMIT 5 FOR UPDATE", "SELECT TRIM(LEADING 'x' FROM b) FROM `s_1`.a WHERE EXISTS (SELECT 1 FROM `s_1`.b WHERE b.a = a.a) LIMIT 5 FOR UPDATE"},
		{"SELECT 1 FROM (SELECT a FROM b) a JOIN b ON COALESCE(a.a, b.b) = b.a", "SELECT 1 FROM (SELECT a FROM `s_1`.b) a JOIN `s_1`.b ON COALESCE(a.a, b.b) = b.a"},
		{"SELECT DISTINCT SQL_CACHE SQL_BUFFER_RESULT b FROM a", "SELECT DISTINCT   b FROM `s_1`.a"},
		{"SELECT HIGH_PRIORITY a, SQL_NO_CACHE FROM a", "SELECT  a, SQL_NO_CACHE FROM `s_1`.a"},
		{"SELECT 'FROM a' /* FROM b */ FROM shop.a", "SELECT 'FROM a' /* FROM b */ FROM shop.a"},
	} {
		got, err := qualify(nil, c.in, db, "s_1", 0, "utf8mb4")
		if err != nil {
			t.Errorf("%s: %v", c.in, err)
		} else if string(got) != c.want {
			t.Errorf("%s\n got %s\nwant %s", c.in, got, c.want)
		}
	}
	for _, in := range []string{"WITH x AS (SELECT 1) SELECT * FROM x", "SELECT * FROM JSON_TABLE('[]', '$' COLUMNS(a INT PATH '$')) x"} {
		if got, err := qualify(nil, in, db, "s_1", 0, "utf8mb4"); err == nil {
			t.Errorf("%s: not refused: %s", in, got)
		}
	}
}
