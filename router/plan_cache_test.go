package router

import (
	"fmt"
	"testing"
)

// TestPlanCacheHitParsesNothing counts parses: a shape is parsed once.
func TestPlanCacheHitParsesNothing(t *testing.T) {
	top := testTopology(t)
	plan := func(r *Router, text string) (*Plan, int64) {
		before := r.parsed.Load()
		p, err := r.Plan(testQuery(text))
		if err != nil {
			t.Fatal(text, err)
		}
		return p, r.parsed.Load() - before
	}
	for _, c := range []struct {
		name, first, second string
		same                bool
	}{
		{"point select", "SELECT * FROM i WHERE k=1", "SELECT * FROM i WHERE k=2", true},
		{"IN lists of any length", "SELECT * FROM i WHERE k IN (1,2)", "SELECT * FROM i WHERE k IN (4,5,6)", true},
		{"VALUES lists of any length", "INSERT INTO i VALUES (1,2),(3,4)", "INSERT INTO i VALUES (5,6),(7,8),(9,10)", true},
		{"limits", "SELECT k FROM a ORDER BY k LIMIT 5", "SELECT k FROM a ORDER BY k LIMIT 6", true},
		{"literal classes", "SELECT * FROM i WHERE k=3", "SELECT * FROM i WHERE k='3'", false},
		{"ordinals", "SELECT k, v FROM a ORDER BY 1", "SELECT k, v FROM a ORDER BY 2", false},
		{"group expressions", "SELECT v%2, COUNT(*) FROM a GROUP BY v%2", "SELECT v%3, COUNT(*) FROM a GROUP BY v%3", false},
		{"blanks in names", "SELECT v+1 FROM a ORDER BY k", "SELECT v + 1 FROM a ORDER BY k", false},
		{"escape characters", "SELECT * FROM s WHERE c LIKE 'a' ESCAPE '|'", "SELECT * FROM s WHERE c LIKE 'b' ESCAPE '!'", false},
		{"patterns beside escape characters", "SELECT x FROM s WHERE c LIKE 'a' ESCAPE '|'", "SELECT x FROM s WHERE c LIKE 'b' ESCAPE '|'", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := New(top, Options{})
			p, parsed := plan(r, c.first)
			if parsed == 0 {
				t.Fatal("the first was not parsed")
			}
			if again, parsed := plan(r, c.first); again != p || parsed != 0 {
				t.Fatalf("the same text again: parsed %d times", parsed)
			}
			q, parsed := plan(r, c.second)
			if (q == p) != c.same || (parsed == 0) != c.same {
				t.Fatalf("second: same plan %v, parsed %d times", q == p, parsed)
			}
		})
	}
}

func TestPlanCacheKeepsApartWhatPlansDependOn(t *testing.T) {
	r := New(testTopology(t), Options{})
	seen := map[*Plan]string{}
	for name, change := range map[string]func(*Query){
		"plain":    func(*Query) {},
		"database": func(q *Query) { q.Database = "split" },
		"mode":     func(q *Query) { q.Mode = ModeNoBackslashEscapes },
		"charset":  func(q *Query) { q.Charset = "latin1" },
		"prepared": func(q *Query) { q.Prepared = true },
	} {
		q := testQuery("SELECT k FROM a WHERE g='x'")
		change(q)
		p, err := r.Plan(q)
		if err != nil {
			t.Fatal(err)
		}
		if other, ok := seen[p]; ok {
			t.Errorf("%s and %s share a plan", name, other)
		}
		seen[p] = name
	}
}

func TestPlanCacheIsBounded(t *testing.T) {
	const plansMax = 64
	r := New(testTopology(t), Options{PlansMax: plansMax})
	for i := range 2000 {
		if _, err := r.Plan(testQuery(fmt.Sprintf("SELECT k AS c%d FROM a WHERE k=1", i))); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Plan(testQuery(fmt.Sprintf("SELECT k+%d FROM a ORDER BY k", i))); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(r.Plans()); n == 0 || n > plansMax {
		t.Fatalf("%d plans kept, at most %d wanted", n, plansMax)
	}
	for i := range r.cache.parts {
		p := &r.cache.parts[i]
		if len(p.keys) > 2*p.max {
			t.Errorf("part %d keeps %d keys for %d plans", i, len(p.keys), p.max)
		}
	}
}

func TestBindAllocatesNothingOnOneShard(t *testing.T) {
	for _, c := range []struct {
		text string
		max  float64
	}{
		{"SELECT * FROM i WHERE k=1", 0},
		{"SELECT * FROM i WHERE k IN (1,1,1,1)", 0},
		{"INSERT INTO i VALUES (1,2)", 0},
		{"UPDATE i SET x=5 WHERE k=1", 0},
		{"SELECT x FROM s WHERE c='abc'", 0},
	} {
		t.Run(c.text, func(t *testing.T) {
			r := New(testTopology(t), Options{})
			q := testQuery(c.text)
			var route Route
			run := func() {
				p, err := r.Plan(q)
				if err == nil {
					err = p.Bind(q, &route)
				}
				if err != nil || len(route.Targets) != 1 {
					t.Fatal(err, len(route.Targets))
				}
			}
			run()
			if n := testing.AllocsPerRun(100, run); n > c.max {
				t.Errorf("%v allocations, at most %v wanted", n, c.max)
			}
		})
	}
}

func BenchmarkPlanBind(b *testing.B) {
	for _, c := range []struct{ name, text string }{
		{"point", "SELECT c FROM users WHERE id=50134"},
		{"in", "SELECT x FROM i WHERE k IN (1,2,3,4,5,6,7,8)"},
		{"insert", "INSERT INTO i (k, x) VALUES (77, 1234)"},
		{"insert8", "INSERT INTO i VALUES (1,1),(2,2),(3,3),(4,4),(5,5),(6,6),(7,7),(8,8)"},
		{"top", "SELECT k, v FROM a ORDER BY v DESC LIMIT 10"},
	} {
		b.Run(c.name, func(b *testing.B) {
			r := New(testTopology(b), Options{})
			q := testQuery(c.text)
			var route Route
			b.ReportAllocs()
			for b.Loop() {
				p, err := r.Plan(q)
				if err != nil {
					b.Fatal(err)
				}
				if err := p.Bind(q, &route); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// FuzzPlan: no text makes the planner panic, and what it plans can be bound
// and printed.
func FuzzPlan(f *testing.F) {
	for _, s := range []string{
		"SELECT k, v+1 AS w FROM a WHERE k IN (1,2) GROUP BY 1 ORDER BY w*2 LIMIT 3, 4",
		"INSERT INTO i VALUES (1,2),(3,4) ON DUPLICATE KEY UPDATE x=VALUES(x)", "SET @@x=1, NAMES utf8", "SHOW FULL TABLES FROM x LIKE 'a'",
		"SELECT COUNT(DISTINCT v) FROM a", "/*!50000 SELECT*/ 1", "SELECT DATABASE() FROM split.i", "EXPLAIN EXPLAIN SELECT 1", "CREATE TABLE x(a INT)",
		"SELECT * FROM users u LEFT JOIN orders o USING(uid) NATURAL JOIN items", "WITH a AS (SELECT 1) SELECT * FROM a", ";", "(", "SELECT '", "KILL", "XA",
	} {
		f.Add([]byte(s), false)
	}
	top := testTopology(f)
	r := New(top, Options{PlansMax: 100})
	f.Fuzz(func(t *testing.T, text []byte, prepared bool) {
		for _, db := range []string{"shop", "split", ""} {
			q := testQuery(string(text))
			q.Database, q.Prepared = db, prepared
			p, err := r.Plan(q)
			if err != nil {
				continue
			}
			_ = p.String()
			var route Route
			_ = p.Bind(q, &route)
		}
	})
}
