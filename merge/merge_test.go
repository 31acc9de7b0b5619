package merge

import (
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"braid/internal/mysql"
)

func TestUnorderedInputsFollowEachOther(t *testing.T) {
	protocols(t, func(t *testing.T, isBinary bool) {
		cols := []mysql.Column{intCol("a")}
		in := shardsOf(cols, isBinary, [][]value{{3}, {1}}, nil, [][]value{{2}})
		out, err := Merge(&Spec{}, Limit{}, in, Options{})
		if err != nil {
			t.Fatal(err)
		}
		got, err := all(out)
		if want := []string{"3", "1", "2"}; err != nil || !slices.Equal(got, want) {
			t.Fatal(got, err)
		}
		wantClosed(t, in)
	})
}

func TestKeyThatCannotBeComparedIsRefused(t *testing.T) {
	enum := textCol("c")
	enum.Flags = gomysql.ENUM_FLAG
	shownAsBinary := textCol("c") // under character_set_results=binary
	shownAsBinary.Charset = 63
	computed := col("c", gomysql.MYSQL_TYPE_DOUBLE, 0, 2)
	computed.OrgName = ""
	weight := bytesCol("w")
	weighed := Key{Col: 0, Weight: 1, NumericCol: -1}
	for _, c := range []struct {
		name string
		cols []mysql.Column
		key  Key
		code uint16
	}{
		{"text without weight", []mysql.Column{textCol("c")}, at(0), 1235},
		{"text shown as binary", []mysql.Column{shownAsBinary}, at(0), 1235},
		{"weight of unknown padding", []mysql.Column{textCol("c"), weight}, weighed, 1235},
		{"enum by text", []mysql.Column{enum}, at(0), 1235},
		{"enum by weight", []mysql.Column{enum, weight}, Key{Col: 0, Weight: 1, NumericCol: -1, Pad: Padding{Mode: NoPad}}, 1235},
		{"float by shown text", []mysql.Column{col("c", gomysql.MYSQL_TYPE_FLOAT, 0, 31)}, at(0), 1235},
		{"computed double(10,2)", []mysql.Column{computed}, at(0), 1235},
		{"timestamp by local time", []mysql.Column{col("c", gomysql.MYSQL_TYPE_TIMESTAMP, 0, 0)}, at(0), 1235},
		{"json", []mysql.Column{col("c", gomysql.MYSQL_TYPE_JSON, 0, 0)}, at(0), 1235},
		{"geometry", []mysql.Column{col("c", gomysql.MYSQL_TYPE_GEOMETRY, 0, 0)}, at(0), 1235},
		{"a type of the future", []mysql.Column{col("c", 242, 0, 0)}, at(0), 1235},
		{"a column that is not there", []mysql.Column{intCol("c")}, at(7), 1105},
		{"a weight that is text", []mysql.Column{textCol("c"), textCol("w")}, Key{Col: 0, Weight: 1, NumericCol: -1, Pad: Padding{Mode: NoPad}}, 1105},
		{"a number that is text", []mysql.Column{enum, textCol("n")}, Key{Col: 0, Weight: -1, NumericCol: 1}, 1105},
	} {
		for use, spec := range map[string]*Spec{
			"order": {Order: []Key{c.key}},
			"sort":  {Sort: []Key{c.key}},
			"group": {Order: []Key{c.key}, Group: []Key{c.key}},
		} {
			in := shardsOf(c.cols, false, nil, nil)
			_, err := Merge(spec, Limit{}, in, Options{})
			var e *mysql.Error
			if !errors.As(err, &e) || e.Code != c.code {
				t.Errorf("%s, %s: %v", c.name, use, err)
			}
			wantClosed(t, in)
		}
	}
}

func TestShardsDisagree(t *testing.T) {
	base := func() mysql.Column { return decCol("c", 2) }
	for _, c := range []struct {
		name   string
		change func(*mysql.Column)
		fails  bool
	}{
		{"same", func(c *mysql.Column) {}, false},
		{"physical schema", func(c *mysql.Column) { c.Schema, c.Table = "shop_2", "t" }, false},
		{"length", func(c *mysql.Column) { c.Length = 99 }, false},
		{"a number's binary flag", func(c *mysql.Column) { c.Flags &^= gomysql.BINARY_FLAG }, false},
		{"name", func(c *mysql.Column) { c.Name = "d" }, true},
		{"type", func(c *mysql.Column) { c.Type = gomysql.MYSQL_TYPE_LONG }, true},
		{"charset", func(c *mysql.Column) { c.Charset = 45 }, true},
		{"unsigned", func(c *mysql.Column) { c.Flags |= gomysql.UNSIGNED_FLAG }, true},
		{"decimals", func(c *mysql.Column) { c.Decimals = 3 }, true},
	} {
		changed := base()
		c.change(&changed)
		in := []mysql.Rows{&memRows{cols: []mysql.Column{base()}}, &memRows{cols: []mysql.Column{changed}}}
		out, err := Merge(&Spec{}, Limit{}, in, Options{Names: []string{"s1", "s2"}})
		if !c.fails {
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
				continue
			}
			out.Close()
		} else {
			var e *mysql.Error
			if !errors.As(err, &e) || e.Code != 1105 || !strings.Contains(e.Message, "s2") {
				t.Errorf("%s: %v", c.name, err)
			}
		}
		wantClosed(t, in)
	}
	in := []mysql.Rows{&memRows{cols: []mysql.Column{base()}}, &memRows{cols: []mysql.Column{base(), base()}}}
	if _, err := Merge(&Spec{}, Limit{}, in, Options{}); err == nil {
		t.Error("one column and two columns were merged")
	}
	in = []mysql.Rows{&memRows{cols: []mysql.Column{base()}}, &memRows{cols: []mysql.Column{base()}, binary: true}}
	if _, err := Merge(&Spec{}, Limit{}, in, Options{}); err == nil {
		t.Error("text and binary rows were merged")
	}
}

func TestInputErrorEndsTheStream(t *testing.T) {
	cols := []mysql.Column{intCol("a")}
	lost := &mysql.Error{Code: 2013, State: "HY000", Message: "Lost connection"}
	for name, spec := range map[string]*Spec{
		"in turn":   {},
		"ordered":   {Order: []Key{at(0)}},
		"distinct":  {Order: []Key{at(0)}, Group: []Key{at(0)}},
		"aggregate": {Aggregate: true, Aggs: []Agg{{Kind: AggSum, Col: 0}}},
		"sorted":    {Sort: []Key{at(0)}},
	} {
		in := shardsOf(cols, false, [][]value{{1}, {3}}, [][]value{{2}, {4}})
		in[1].(*memRows).err = lost
		out, err := Merge(spec, Limit{}, in, Options{})
		if err != nil {
			t.Fatal(err)
		}
		for err == nil {
			_, err = out.Next()
		}
		if err != lost {
			t.Errorf("%s: %v", name, err)
		}
		if _, again := out.Next(); again != lost {
			t.Errorf("%s, asked again: %v", name, again)
		}
		out.Close()
		wantClosed(t, in)
	}
}

func TestMalformedRows(t *testing.T) {
	cols := []mysql.Column{intCol("a"), bytesCol("b"), intCol("h")}
	good := encode(cols, false, 1, "x", 2)
	goodBinary := encode(cols, true, 1, "x", 2)
	for _, isBinary := range []bool{false, true} {
		whole := good
		if isBinary {
			whole = goodBinary
		}
		for n := range len(whole) {
			in := []mysql.Rows{&memRows{cols: cols, binary: isBinary, rows: [][]byte{whole[:n]}}, &memRows{cols: cols, binary: isBinary}}
			out, err := Merge(&Spec{Visible: 2, Order: []Key{at(2)}}, Limit{}, in, Options{Names: []string{"s1", "s2"}})
			if err != nil {
				t.Fatal(err)
			}
			_, err = out.Next()
			var e *mysql.Error
			if !errors.As(err, &e) || e.Code != 1105 || !strings.Contains(e.Message, "s1") {
				t.Errorf("binary %v, %d of %d bytes: %v", isBinary, n, len(whole), err)
			}
		}
	}
	weighed := Key{Col: 0, Weight: 1, NumericCol: -1, Pad: Padding{Mode: NoPad}}
	in := shardsOf([]mysql.Column{textCol("c"), bytesCol("w")}, false, [][]value{{"x", nil}}, nil)
	if out, err := Merge(&Spec{Order: []Key{weighed}}, Limit{}, in, Options{}); err != nil {
		t.Fatal(err)
	} else if _, err = out.Next(); err == nil {
		t.Error("a value without a weight was taken for NULL")
	}
	for _, bad := range []string{"", "-", "x", "1x", "9223372036854775808", "18446744073709551616", "-9223372036854775809"} {
		in := shardsOf(cols[:1], false, [][]value{{raw{text: bad}}}, nil)
		out, err := Merge(&Spec{Order: []Key{at(0)}}, Limit{}, in, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err = out.Next(); err == nil || err == io.EOF {
			t.Errorf("%q was taken for a number", bad)
		}
	}
}

// TestRandomBytes: whatever a shard sends, merging it does not panic and ends.
func TestRandomBytes(t *testing.T) {
	const seed = 4
	r := rand.New(rand.NewPCG(seed, seed))
	for range 3000 {
		isBinary := r.IntN(2) == 0
		cols := []mysql.Column{intCol("a"), decCol("b", 2), dblCol("c"), bytesCol("d"), col("e", gomysql.MYSQL_TYPE_DATETIME, 0, 6), col("f", gomysql.MYSQL_TYPE_TIME, 0, 0)}
		in := make([]mysql.Rows, 3)
		for i := range in {
			m := &memRows{cols: cols, binary: isBinary}
			for range 3 {
				row := encode(cols, isBinary, r.IntN(9), "1.50", 2.5, "abc", raw{"2024-02-03 04:05:06.000007", temporal(2024, 2, 3, 4, 5, 6, 7)}, clock(r.Int64N(1e12)))
				for range 1 + r.IntN(3) {
					row[r.IntN(len(row))] = byte(r.Uint32())
				}
				m.rows = append(m.rows, row[:len(row)-r.IntN(2)])
			}
			in[i] = m
		}
		spec := &Spec{Visible: 1 + r.IntN(6), Order: []Key{at(r.IntN(6)), desc(r.IntN(6))}}
		if r.IntN(2) == 0 {
			spec.Group, spec.Aggregate = spec.Order[:1], true
			spec.Aggs = []Agg{{Kind: AggCount, Col: 0}, {Kind: AggSum, Col: 1}, {Kind: AggMax, Col: 3, Weight: -1}, {Kind: AggMin, Col: 4, Weight: -1}}
		}
		out, err := Merge(spec, Limit{}, in, Options{})
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for ; err == nil; n++ {
			_, err = out.Next()
		}
		var e *mysql.Error
		if n > 10 || err != io.EOF && !errors.As(err, &e) {
			t.Fatalf("%d rows, %v", n, err)
		}
		out.Close()
		wantClosed(t, in)
	}
}

func TestLimitStopsReading(t *testing.T) {
	cols := []mysql.Column{intCol("a")}
	in := shardsOf(cols, false, [][]value{{1}, {3}, {5}, {7}}, [][]value{{2}, {4}, {6}})
	out, err := Merge(&Spec{Order: []Key{at(0)}}, Limit{Offset: 1, Count: 2, Set: true}, in, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"2", "3"} {
		row, err := out.Next()
		if err != nil || show(cols, false, row) != want {
			t.Fatal(want, row, err)
		}
	}
	if _, err := out.Next(); err != io.EOF {
		t.Fatal(err)
	}
	wantClosed(t, in)
	if a, b := in[0].(*memRows).at, in[1].(*memRows).at; a != 2 || b != 2 {
		t.Errorf("read %d and %d rows, 2 and 2 are enough", a, b)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	wantClosed(t, in)
}

func TestHiddenColumnsAreDropped(t *testing.T) {
	protocols(t, func(t *testing.T, isBinary bool) {
		// Visible and hidden NULLs around the bytes of the bitmap.
		for n := 1; n < 20; n++ {
			for hidden := range 12 {
				var cols []mysql.Column
				var vals []value
				for c := range n + hidden {
					cols = append(cols, bytesCol(fmt.Sprint("c", c)))
					v := value(strings.Repeat("x", c*40))
					if c%3 == 0 {
						v = nil
					}
					vals = append(vals, v)
				}
				in := shardsOf(cols, isBinary, [][]value{vals}, nil)
				out, err := Merge(&Spec{Visible: n}, Limit{}, in, Options{})
				if err != nil {
					t.Fatal(err)
				}
				row, err := out.Next()
				if want := encode(cols[:n], isBinary, vals[:n]...); err != nil || string(row) != string(want) || len(out.Columns()) != n {
					t.Fatalf("%d of %d columns: %x (%v), want %x", n, n+hidden, []byte(row), err, want)
				}
			}
		}
	})
}

func TestRowPassesAsItIs(t *testing.T) {
	cols := []mysql.Column{intCol("a"), bytesCol("b")}
	in := shardsOf(cols, false, [][]value{{1, "x"}}, [][]value{{2, "y"}})
	out, _ := Merge(&Spec{Order: []Key{at(0)}}, Limit{}, in, Options{})
	row, err := out.Next()
	if err != nil || &row[0] != &in[0].(*memRows).buf[0] {
		t.Fatal("the row was copied", err)
	}
}

// TestSeveralKeys orders by two keys of which one descends, and shows that ties
// come out by input.
func TestSeveralKeys(t *testing.T) {
	cols := []mysql.Column{intCol("a"), intCol("b"), bytesCol("from")}
	in := shardsOf(cols, false,
		[][]value{{nil, 2, "1"}, {1, 9, "1"}, {1, 3, "1"}, {2, nil, "1"}},
		[][]value{{nil, 2, "2"}, {1, 9, "2"}, {1, nil, "2"}, {2, 1, "2"}})
	out, err := Merge(&Spec{Order: []Key{at(0), desc(1)}}, Limit{}, in, Options{})
	if err != nil {
		t.Fatal(err)
	}
	got, err := all(out)
	want := []string{"NULL,2,1", "NULL,2,2", "1,9,1", "1,9,2", "1,3,1", "1,NULL,2", "2,1,2", "2,NULL,1"}
	if err != nil || !slices.Equal(got, want) {
		t.Fatalf("%q %v", got, err)
	}
}

func TestTimesCompareAsTimes(t *testing.T) {
	cols := []mysql.Column{col("t", gomysql.MYSQL_TYPE_TIME, 0, 0)}
	part := func(times ...string) (rows [][]value) {
		for _, s := range times {
			rows = append(rows, []value{s})
		}
		return rows
	}
	in := shardsOf(cols, false, part("-100:00:00", "-00:00:01", "100:00:00"), part("-10:00:00", "09:00:00", "838:59:59"))
	out, err := Merge(&Spec{Order: []Key{at(0)}}, Limit{}, in, Options{})
	if err != nil {
		t.Fatal(err)
	}
	got, err := all(out)
	want := []string{"-100:00:00", "-10:00:00", "-00:00:01", "09:00:00", "100:00:00", "838:59:59"}
	if err != nil || !slices.Equal(got, want) {
		t.Fatalf("%q %v", got, err)
	}
}

// TestBeyondMaxSortLength: what the shards' sorts do not look at decides nothing.
func TestBeyondMaxSortLength(t *testing.T) {
	long := strings.Repeat("\x00\x41", 200)
	cols := []mysql.Column{textCol("c"), bytesCol("w")}
	key := Key{Col: 0, Weight: 1, NumericCol: -1, Pad: Padding{PadSpace, "\x00\x20"}}
	blob := []mysql.Column{bytesCol("w")}
	for _, c := range []struct {
		name  string
		a, b  string
		blob  bool
		opt   Options
		fails bool
	}{
		{"no cut", long + "a", long + "b", false, Options{}, false},
		{"differ behind", long + "a", long + "b", false, Options{PerKeyWeightCut: 64}, true},
		{"equal", long, long, false, Options{PerKeyWeightCut: 64}, false},
		{"equal but for padding", long, long + "\x00\x20", false, Options{PerKeyWeightCut: 64}, false},
		{"differ in front", "\x00\x42" + long, "\x00\x43" + long, false, Options{PerKeyWeightCut: 64}, false},
		{"a cut within the cached prefix", "\x00\x42\x00\x43", "\x00\x42\x00\x44", false, Options{PerKeyWeightCut: 4}, true},
		{"bytes", long + "a", long + "b", true, Options{PerKeyWeightCut: 64}, true},
		{"bytes near the cut", long[:58] + "a", long[:58] + "b", true, Options{PerKeyWeightCut: 64}, true},
		{"bytes in front of the cut", long[:50] + "a", long[:50] + "b", true, Options{PerKeyWeightCut: 64}, false},
		{"bytes, MySQL", long + "a", long + "b", true, Options{PerKeyWeightCut: 64, CutPadOnly: true}, false},
		{"padded text, MySQL", long + "a", long + "b", false, Options{PerKeyWeightCut: 64, CutPadOnly: true}, true},
	} {
		k, cols, a, b := key, cols, []value{"", c.a}, []value{"", c.b}
		if c.blob {
			k, cols, a, b = at(0), blob, a[1:], b[1:]
		}
		out, err := Merge(&Spec{Order: []Key{k}}, Limit{}, shardsOf(cols, false, [][]value{a}, [][]value{b}), c.opt)
		if err != nil {
			t.Fatal(err)
		}
		_, err = all(out)
		var e *mysql.Error
		if c.fails != (errors.As(err, &e) && e.Code == 1235) || !c.fails && err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestSortMemoryIsLimited(t *testing.T) {
	cols := []mysql.Column{intCol("a"), bytesCol("pad")}
	rows := func() []mysql.Rows {
		r := rand.New(rand.NewPCG(1, 2))
		parts := make([][][]value, 3)
		for range 3000 {
			i := r.IntN(3)
			parts[i] = append(parts[i], []value{r.IntN(1e6), strings.Repeat("p", 100)})
		}
		return shardsOf(cols, false, parts...)
	}
	in := rows()
	out, err := Merge(&Spec{Sort: []Key{at(0)}}, Limit{}, in, Options{SortBytesMax: 100 << 10})
	if err != nil {
		t.Fatal(err)
	}
	_, err = all(out)
	var e *mysql.Error
	if !errors.As(err, &e) || e.Code != 1038 || !strings.Contains(e.Message, "102400") {
		t.Errorf("unlimited sort of 3000 rows: %v", err)
	}
	wantClosed(t, in)

	out, err = Merge(&Spec{Sort: []Key{desc(0)}}, Limit{Offset: 100, Count: 10, Set: true}, rows(), Options{SortBytesMax: 100 << 10})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := all(out); err != nil || len(got) != 10 {
		t.Errorf("top-n in the same memory: %d rows, %v", len(got), err)
	}
}

// TestComparisons: k-1 comparisons to build, then log2(k) rounded up for each row.
func TestComparisons(t *testing.T) {
	cols := []mysql.Column{intCol("a")}
	for k := 1; k <= 100; k++ {
		const perShard = 50
		in := make([]mysql.Rows, k)
		for i := range in {
			m := &memRows{cols: cols}
			for j := range perShard {
				m.rows = append(m.rows, encode(cols, false, j*k+(i*7)%k))
			}
			in[i] = m
		}
		l := newLayout(cols, false, 1)
		keys, err := compileKeys([]Key{at(0)}, l, &Options{})
		if err != nil {
			t.Fatal(err)
		}
		s := newSource(in, l, keys, (&Options{}).name)
		perRow := bits.Len(uint(k - 1))
		for n := 0; ; n++ {
			before := s.comparisons
			_, err := s.next()
			if err == io.EOF {
				if n != k*perShard {
					t.Fatalf("%d shards: %d rows", k, n)
				}
				break
			}
			most := perRow
			if n == 0 {
				most = k - 1
			}
			if got := s.comparisons - before; err != nil || got > most {
				t.Fatalf("%d shards, row %d: %d comparisons, want at most %d (%v)", k, n, got, most, err)
			}
		}
	}
}

// loop is an input that never ends and allocates nothing.
type loop struct {
	memRows
	n, left int
}

func (l *loop) Next() (mysql.Row, error) {
	if l.left == 0 {
		return nil, io.EOF
	}
	l.left--
	l.n = (l.n + 1) % len(l.rows)
	return l.rows[l.n], nil
}

func TestNoAllocationsPerRow(t *testing.T) {
	protocols(t, func(t *testing.T, isBinary bool) {
		cols := []mysql.Column{intCol("id"), decCol("d", 2), dblCol("f"), textCol("c"), bytesCol("w")}
		weight := Key{Col: 3, Weight: 4, NumericCol: -1, Pad: Padding{PadSpace, "\x20"}}
		row := encode(cols, isBinary, 42, "12345678901234567890.12", 0.1, "text", "weight of some length")
		for name, spec := range map[string]*Spec{
			"order":    {Visible: 4, Order: []Key{at(0), at(1), at(2), weight}},
			"distinct": {Visible: 4, Order: []Key{weight}, Group: []Key{weight}},
		} {
			in := make([]mysql.Rows, 4)
			for i := range in {
				in[i] = &loop{memRows: memRows{cols: cols, binary: isBinary, rows: [][]byte{row}}, left: math.MaxInt}
				if name == "distinct" { // which reads on while rows are equal
					other := encode(cols, isBinary, 42, "1.00", 0.1, "text", "weight of another length")
					in[i].(*loop).rows = [][]byte{row, row, other}
				}
			}
			out, err := Merge(spec, Limit{}, in, Options{})
			if err != nil {
				t.Fatal(err)
			}
			read := func() {
				if _, err := out.Next(); err != nil {
					t.Fatal(err)
				}
			}
			for range 10 {
				read()
			}
			if n := testing.AllocsPerRun(1000, read); n != 0 {
				t.Errorf("%s: %v allocations a row", name, n)
			}
		}
	})
}
