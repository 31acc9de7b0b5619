package router

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// loadOf plans a LOAD DATA into table a, whose key k is its first column.
func loadOf(t testing.TB, tail string) *Load {
	t.Helper()
	r := New(testTopology(t), Options{})
	q := &Query{Text: []byte("LOAD DATA LOCAL INFILE 'f' INTO TABLE a" + tail), Database: "shop", Charset: "utf8mb4", Facts: &Facts{}}
	p, err := r.Plan(q)
	if err != nil {
		t.Fatal(err)
	}
	if p.Load == nil {
		t.Fatalf("%s: %v", q.Text, p.Err)
	}
	return p.Load
}

// splitAll feeds file in pieces and returns what came out.
func splitAll(t testing.TB, x *Load, file []byte, piece int) string {
	t.Helper()
	s, err := x.Splitter("utf8mb4", 0)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	take := func() {
		for {
			raw, shard, ok, err := s.Next()
			if !ok {
				return
			}
			fmt.Fprintf(&out, "%d %q %v\n", shard, raw, err)
		}
	}
	for at := 0; at < len(file); at += piece {
		s.Feed(file[at:min(at+piece, len(file))])
		take()
	}
	s.Feed(nil)
	take()
	return out.String()
}

var loadTails = []string{
	"",
	" FIELDS TERMINATED BY ',' OPTIONALLY ENCLOSED BY '\"' LINES TERMINATED BY '\\r\\n' IGNORE 1 LINES",
	" FIELDS TERMINATED BY '<>' ESCAPED BY '' LINES STARTING BY 'ab' TERMINATED BY 'ba'",
	" FIELDS TERMINATED BY ',' ENCLOSED BY '\"' ESCAPED BY '\"'",
	" FIELDS TERMINATED BY ';' LINES TERMINATED BY ';' IGNORE 2 ROWS (k,v)",
}

// FuzzLoadSplit: records do not depend on the pieces the file came in, and are
// the file, in order, without gap.
func FuzzLoadSplit(f *testing.F) {
	var loads []*Load
	for _, tail := range loadTails {
		loads = append(loads, loadOf(f, tail))
	}
	for i := range loadTails {
		f.Add([]byte("1\ta\tb\n2\tc\t\\N\n\\"), uint8(i), uint8(1))
		f.Add([]byte("k,v\r\n1,\"a\"\"b\r\n,\"\r\n2,\"x\"y\r\n3"), uint8(i), uint8(3))
		f.Add([]byte("zzab1<>2<>3ba ab4<>5ba<>ab"), uint8(i), uint8(2))
		f.Add([]byte("1;2;3;4;5;;\";\"\"\";"), uint8(i), uint8(1))
	}
	f.Fuzz(func(t *testing.T, file []byte, tail, piece uint8) {
		x := loads[int(tail)%len(loads)]
		whole := splitAll(t, x, file, len(file)+1)
		if got := splitAll(t, x, file, int(piece)%16+1); got != whole {
			t.Fatalf("in pieces:\n%swhole:\n%s", got, whole)
		}
		s, err := x.Splitter("utf8mb4", 0)
		if err != nil {
			t.Fatal(err)
		}
		s.Feed(file)
		s.Feed(nil)
		var joined []byte
		for {
			raw, _, ok, _ := s.Next()
			if !ok {
				break
			}
			joined = append(joined, raw...)
		}
		if !bytes.Contains(file, joined) {
			t.Fatalf("records %q are no piece of the file", joined)
		}
	})
}

func TestLoadText(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"LOAD DATA LOCAL INFILE 'f' INTO TABLE shop.a IGNORE 3 LINES (k, v)", "LOAD DATA LOCAL INFILE 'f' INTO TABLE a  (k, v)"},
		{"LOAD DATA LOW_PRIORITY LOCAL INFILE 'f' REPLACE INTO TABLE `shop` . `a` PARTITION (p0) CHARACTER SET latin1 COLUMNS TERMINATED BY ',' SET v=1",
			"LOAD DATA LOW_PRIORITY LOCAL INFILE 'f' REPLACE INTO TABLE  `a` PARTITION (p0) CHARACTER SET latin1 COLUMNS TERMINATED BY ',' SET v=1"},
	} {
		r := New(testTopology(t), Options{})
		p, err := r.Plan(&Query{Text: []byte(test.text), Database: "shop", Charset: "utf8mb4", Facts: &Facts{}})
		if err != nil || p.Load == nil {
			t.Errorf("%s: %v, %+v", test.text, err, p)
			continue
		}
		if got := string(p.Load.Text); got != test.want {
			t.Errorf("%s\ngives %q\nwant  %q", test.text, got, test.want)
		}
	}
}
