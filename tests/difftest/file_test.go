package difftest

import (
	"os"
	"path/filepath"
	"testing"

	"braid/tests/wire"
)

func TestLoadReadsTheFormat(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("s.setup", "-- table a: sharded by k l, co-located with b\n-- table g: global\n-- setup\nCREATE TABLE a(\n  k INT);\nINSERT INTO a VALUES (1)\n")
	f, err := Load(write("c.txt", `# comment
-- setup from: s.setup
-- cases
SELECT 1;
-- sort-keys: 2, 1
-- params: 1, u2, 'a,b', x'00ff', NULL, 1.5
-- ignore: info, flags
SELECT a
  FROM t -- why
  ORDER BY 1
SELECT 2
`))
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Tables) != 2 || f.Tables[0].Colocated != "b" || len(f.Tables[0].Key) != 2 || f.Tables[1].Kind != "global" {
		t.Errorf("tables %+v", f.Tables)
	}
	if len(f.Setup) != 2 || f.Setup[0] != "CREATE TABLE a(\nk INT)" {
		t.Errorf("setup %q", f.Setup)
	}
	if len(f.Cases) != 3 {
		t.Fatalf("%d cases", len(f.Cases))
	}
	if c := f.Cases[0]; c.Text != "SELECT 1" || c.Line != 4 || c.ordered() != OrderNone {
		t.Errorf("first case %+v", c)
	}
	c := f.Cases[1]
	if c.Text != "SELECT a\nFROM t -- why\nORDER BY 1" || c.Line != 8 || c.ordered() != OrderKeys || len(c.SortKeys) != 2 || !c.ignores("flags") || c.ignores("type") {
		t.Errorf("second case %+v", c)
	}
	want := []wire.Param{wire.Int(1), wire.Uint(2), wire.Text("a,b"), wire.Blob([]byte{0, 0xff}), wire.Null(), wire.Float(1.5)}
	if len(c.Params) != len(want) {
		t.Fatalf("%d parameters", len(c.Params))
	}
	for i, p := range c.Params {
		if p.Type != want[i].Type || p.Unsigned != want[i].Unsigned || p.Null != want[i].Null || string(p.Value) != string(want[i].Value) {
			t.Errorf("parameter %d: %+v, want %+v", i, p, want[i])
		}
	}
	if c := f.Cases[2]; c.Params != nil || c.Order != OrderAuto {
		t.Errorf("annotations stick to the next case: %+v", c)
	}
	for _, bad := range []string{"-- cases\n-- nosuch\nSELECT 1\n", "-- unordered\n", "-- table t: split\n", "-- cases\n-- sort-keys: x\nSELECT 1\n", "-- cases\n-- ignore: rows\nSELECT 1\n", "-- setup from: nosuch\n"} {
		if _, err := Load(write("bad.txt", bad)); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

func TestMarkText(t *testing.T) {
	const before = `# head
-- setup
CREATE TABLE t(
  k INT)
-- cases
-- unsupported
-- text-only
SELECT 1
SELECT 2
  FROM t
-- unsupported
SELECT 3
SELECT 4
-- unsupported: sometimes
SELECT 5
`
	const after = `# head
-- setup
CREATE TABLE t(
  k INT)
-- cases
-- text-only
SELECT 1
-- unsupported
SELECT 2
  FROM t
-- unsupported: sometimes
SELECT 3
SELECT 4
-- unsupported: sometimes
SELECT 5
`
	got := markText(before, map[int]Note{8: {Answered: 2}, 9: {Refused: 4}, 12: {Refused: 1, Answered: 3}, 13: {Answered: 1}})
	if got != after {
		t.Errorf("got:\n%s", got)
	}
}
