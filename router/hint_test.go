package router

import (
	"reflect"
	"testing"
	"time"
)

func TestReadHints(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       Hints
	}{
		{"none", "SELECT 1 /* braid shard=s1 */", Hints{}},
		{"in front", "/*braid shard=s2*/ SELECT 1", Hints{Shard: "s2"}},
		{"spaced", "/*braid  shard=s2 */SELECT 1", Hints{Shard: "s2"}},
		{"several", "SELECT /*braid scatter timeout=500ms*/ 1 /*braid primary isolation=read-committed*/", Hints{Scatter: true, Timeout: 500 * time.Millisecond, Primary: true, Isolation: "READ-COMMITTED"}},
		{"behind the fence", "SELECT 1 /*braid read_fence*/ /*braid read_fence=1*/", Hints{ReadFence: true, Unknown: []string{"read_fence=1"}}},
		{"in a string", "SELECT '/*braid shard=s2*/'", Hints{}},
		{"in a name", "SELECT 1 AS `/*braid scatter*/`", Hints{}},
		{"behind a string", "SELECT '/*braid scatter*/' /*braid shard=s1*/", Hints{Shard: "s1"}},
		{"unknown", "/*braid shards=s1 timeout=soon isolation=best shard= scatter=1*/ SELECT 1", Hints{Unknown: []string{"shards=s1", "timeout=soon", "isolation=best", "shard=", "scatter=1"}}},
		{"another comment", "/*braided scatter*/ SELECT 1", Hints{}},
		{"not closed", "SELECT 1 /*braid scatter", Hints{}},
	} {
		if got := ReadHints([]byte(c.text), 0, "utf8mb4"); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

func TestHintsChooseShards(t *testing.T) {
	r := New(testTopology(t), Options{})
	for _, c := range []struct {
		text    string
		targets int
		failing string
	}{
		{"SELECT * FROM a WHERE k = 1 /*braid shard=s3*/", 1, ""},
		{"/*braid shard=s3*/ SELECT COUNT(*) FROM a", 1, ""},
		{"/*braid scatter*/ SELECT * FROM a WHERE k = 1", 4, ""},
		{"/*braid shard=s1*/ UPDATE a SET v = 1", 1, ""},
		{"/*braid shard=s9*/ SELECT * FROM a", 0, "ERROR 1105 (HY000): Database shop has no shard s9"},
		{"/*braid shard=s1*/ INSERT INTO a VALUES (1,'x',1)", 0, "ERROR 1235 (42000): This version of Braid doesn't yet support 'the hint shard or scatter on INSERT'"},
		{"/*braid shard=s1*/ UPDATE rf SET v = 1", 0, "ERROR 1235 (42000): This version of Braid doesn't yet support 'the hint shard or scatter where a global table is written'"},
	} {
		q := testQuery(c.text)
		q.Hints = ReadHints(q.Text, q.Mode, q.Charset)
		p, err := r.Plan(q)
		var route Route
		if err == nil {
			err = p.Bind(q, &route)
		}
		got := ""
		if err != nil {
			got = err.Error()
		}
		if got != c.failing || len(route.Targets) != c.targets {
			t.Errorf("%s: %d targets, error %q; want %d, %q", c.text, len(route.Targets), got, c.targets, c.failing)
		}
	}
}
