package merge

import (
	"errors"
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"braid/internal/mysql"
)

func unsignedCol(name string) mysql.Column {
	return col(name, gomysql.MYSQL_TYPE_LONGLONG, gomysql.UNSIGNED_FLAG, 0)
}

// merged1 merges and reads all; a failure of Merge itself is returned too.
func merged1(t *testing.T, spec *Spec, lim Limit, in []mysql.Rows) ([]string, error) {
	t.Helper()
	out, err := Merge(spec, lim, in, Options{})
	if err != nil {
		return nil, err
	}
	got, err := all(out)
	wantClosed(t, in)
	return got, err
}

// TestAggregates combines one value of each shard, with and without a group.
func TestAggregates(t *testing.T) {
	enumText := textCol("m")
	for _, c := range []struct {
		name string
		cols []mysql.Column // the shown one first
		agg  Agg
		rows [][]value // one from each shard
		want string
	}{
		{"count", []mysql.Column{intCol("c")}, Agg{Kind: AggCount}, [][]value{{3}, {0}, {4}}, "7"},
		{"sum of decimal", []mysql.Column{decCol("c", 2)}, Agg{Kind: AggSum}, [][]value{{"75.05"}, {nil}, {"-0.10"}}, "74.95"},
		{"sum below one", []mysql.Column{decCol("c", 2)}, Agg{Kind: AggSum}, [][]value{{"0.05"}, {"-0.10"}}, "-0.05"},
		{"sum to zero", []mysql.Column{decCol("c", 2)}, Agg{Kind: AggSum}, [][]value{{"0.10"}, {"-0.10"}}, "0.00"},
		{"sum of nothing", []mysql.Column{decCol("c", 2)}, Agg{Kind: AggSum}, [][]value{{nil}, {nil}}, "NULL"},
		{"sum of bigint unsigned (B010)", []mysql.Column{decCol("c", 0)}, Agg{Kind: AggSum}, [][]value{{"36893488147419103230"}, {"9223372036854775813"}}, "46116860184273879043"},
		{"sum over int64", []mysql.Column{decCol("c", 0)}, Agg{Kind: AggSum}, [][]value{{"999999999999999999"}, {"999999999999999999"}, {"9223372036854775807"}, {"-1"}}, "11223372036854775804"},
		{"sum beyond 38 digits", []mysql.Column{decCol("c", 10)}, Agg{Kind: AggSum},
			[][]value{{"12345678901234567890123456789012345678901234567890.0000000001"}, {"0.0000000009"}}, "12345678901234567890123456789012345678901234567890.0000000010"},
		{"sum of double", []mysql.Column{dblCol("c")}, Agg{Kind: AggSum}, [][]value{{0.1}, {0.2}, {nil}}, "0.30000000000000004"},
		{"max of decimal (B001)", []mysql.Column{decCol("c", 2)}, Agg{Kind: AggMax, Weight: -1}, [][]value{{"63.95"}, {"87.05"}, {"9.99"}}, "87.05"},
		{"min of decimal (B001)", []mysql.Column{decCol("c", 2)}, Agg{Kind: AggMin, Weight: -1}, [][]value{{"12.40"}, {"0.01"}, {nil}}, "0.01"},
		{"max of nothing", []mysql.Column{intCol("c")}, Agg{Kind: AggMax, Weight: -1}, [][]value{{nil}, {nil}}, "NULL"},
		{"max of bigint unsigned (B010)", []mysql.Column{unsignedCol("c")}, Agg{Kind: AggMax, Weight: -1}, [][]value{{uint64(5)}, {uint64(1<<63 + 1)}, {uint64(1 << 63)}}, "9223372036854775809"},
		{"min of negative numbers", []mysql.Column{intCol("c")}, Agg{Kind: AggMin, Weight: -1}, [][]value{{-5}, {3}, {-50}}, "-50"},
		{"max of text by weight", []mysql.Column{textCol("c"), bytesCol("w")}, Agg{Kind: AggMax, Weight: 1, Pad: Padding{PadSpace, "\x20"}}, [][]value{{"b", "B"}, {"C", "C"}, {"a", "A"}}, "C,C"},
		{"max of text with spaces", []mysql.Column{textCol("c"), bytesCol("w")}, Agg{Kind: AggMax, Weight: 1, Pad: Padding{PadSpace, "\x20"}}, [][]value{{"a\t", "A\t"}, {"a", "A"}, {nil, nil}}, "a,A"},
		{"min of enum by text (B006)", []mysql.Column{enumText, bytesCol("w")}, Agg{Kind: AggMin, Weight: 1, Pad: Padding{Mode: NoPad}}, [][]value{{"small", "SMALL"}, {"large", "LARGE"}, {"medium", "MEDIUM"}}, "large,LARGE"},
		{"max of bytes", []mysql.Column{bytesCol("c")}, Agg{Kind: AggMax, Weight: -1}, [][]value{{"a"}, {"a\x00"}, {""}}, "a\x00"},
		{"max of bit", []mysql.Column{col("c", gomysql.MYSQL_TYPE_BIT, 0, 0)}, Agg{Kind: AggMax, Weight: -1}, [][]value{{"\x00A"}, {"\x01!"}}, "\x01!"},
		{"bit and", []mysql.Column{unsignedCol("c")}, Agg{Kind: AggBitAnd}, [][]value{{uint64(1<<64 - 1)}, {uint64(6)}, {uint64(3)}}, "2"},
		{"bit and of nothing (B015)", []mysql.Column{unsignedCol("c")}, Agg{Kind: AggBitAnd}, [][]value{{uint64(1<<64 - 1)}, {uint64(1<<64 - 1)}}, "18446744073709551615"},
		{"bit or", []mysql.Column{unsignedCol("c")}, Agg{Kind: AggBitOr}, [][]value{{uint64(1)}, {uint64(1 << 63)}}, "9223372036854775809"},
		{"bit xor", []mysql.Column{unsignedCol("c")}, Agg{Kind: AggBitXor}, [][]value{{uint64(5)}, {uint64(3)}, {uint64(5)}}, "3"},
		{"avg (B001)", []mysql.Column{decCol("a", 6), decCol("s", 2), intCol("n")}, Agg{Kind: AggAvg, SumCol: 1, CountCol: 2}, [][]value{{"38.175000", "76.35", 2}, {"43.530000", "87.06", 2}}, "40.852500,76.35,2"},
		{"avg of bigint unsigned (B010)", []mysql.Column{decCol("a", 4), decCol("s", 0), intCol("n")}, Agg{Kind: AggAvg, SumCol: 1, CountCol: 2}, [][]value{{"0.0000", "36893488147419103230", 2}, {"0.0000", "9223372036854775813", 2}}, "11529215046068469760.7500,36893488147419103230,2"},
		{"avg rounds half away from zero", []mysql.Column{decCol("a", 4), decCol("s", 0), intCol("n")}, Agg{Kind: AggAvg, SumCol: 1, CountCol: 2}, [][]value{{nil, "-1", 30000}, {nil, "-2", 30000}}, "-0.0001,-1,30000"},
		{"avg cuts after nine decimals", []mysql.Column{decCol("a", 9), decCol("s", 5), intCol("n")}, Agg{Kind: AggAvg, SumCol: 1, CountCol: 2}, [][]value{{nil, "0.00002", 1}, {nil, "0.00000", 2}}, "0.000006666,0.00002,1"},
		{"avg beyond 64 bits", []mysql.Column{decCol("a", 4), decCol("s", 0), intCol("n")}, Agg{Kind: AggAvg, SumCol: 1, CountCol: 2}, [][]value{{nil, "999999999999999999", 1}, {nil, "1", 2}}, "333333333333333333.3333,999999999999999999,1"},
		{"avg of nothing", []mysql.Column{decCol("a", 4), decCol("s", 0), intCol("n")}, Agg{Kind: AggAvg, SumCol: 1, CountCol: 2}, [][]value{{nil, nil, 0}, {nil, nil, 0}}, "NULL,NULL,0"},
		{"avg with one shard empty", []mysql.Column{decCol("a", 4), decCol("s", 0), intCol("n")}, Agg{Kind: AggAvg, SumCol: 1, CountCol: 2}, [][]value{{nil, nil, 0}, {"0.6667", "2", 3}}, "0.6667,NULL,0"},
		{"avg of double", []mysql.Column{dblCol("a"), dblCol("s"), intCol("n")}, Agg{Kind: AggAvg, SumCol: 1, CountCol: 2}, [][]value{{1.0, 1.0, 1}, {0.5, 1.0, 2}}, "0.6666666666666666,1,1"},
		{"row of one shard passes", []mysql.Column{decCol("a", 4), decCol("s", 0), intCol("n")}, Agg{Kind: AggAvg, SumCol: 1, CountCol: 2}, [][]value{{"0.6667", "2", 3}}, "0.6667,2,3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			protocols(t, func(t *testing.T, isBinary bool) {
				parts := make([][][]value, len(c.rows))
				for i, vals := range c.rows {
					parts[i] = [][]value{vals}
				}
				spec := &Spec{Aggregate: true, Aggs: []Agg{c.agg}}
				got, err := merged1(t, spec, Limit{}, shardsOf(c.cols, isBinary, parts...))
				if err != nil || len(got) != 1 || got[0] != c.want {
					t.Errorf("%q (%v), want %q", got, err, c.want)
				}
				// The same as one group among others, by a key behind.
				cols := append(slices.Clone(c.cols), intCol("g"))
				for i, vals := range c.rows {
					parts[i] = [][]value{append(slices.Clone(vals), 7)}
				}
				spec.Order, spec.Group = []Key{desc(len(c.cols))}, []Key{at(len(c.cols))}
				got, err = merged1(t, spec, Limit{}, shardsOf(cols, isBinary, parts...))
				if err != nil || len(got) != 1 || got[0] != c.want+",7" {
					t.Errorf("as a group: %q (%v), want %q", got, err, c.want)
				}
			})
		})
	}
}

func TestAggregatesRefused(t *testing.T) {
	fixed := col("c", gomysql.MYSQL_TYPE_DOUBLE, 0, 2)
	for _, c := range []struct {
		name string
		cols []mysql.Column
		agg  Agg
		code uint16
	}{
		{"max of text without weight", []mysql.Column{textCol("c")}, Agg{Kind: AggMax, Weight: -1}, 1235},
		{"max of json", []mysql.Column{col("c", gomysql.MYSQL_TYPE_JSON, 0, 0)}, Agg{Kind: AggMax, Weight: -1}, 1235},
		{"sum of double(10,2) shown rounded", []mysql.Column{fixed}, Agg{Kind: AggSum}, 1235},
		{"sum of text", []mysql.Column{textCol("c")}, Agg{Kind: AggSum}, 1235},
		{"bit and of bytes", []mysql.Column{bytesCol("c")}, Agg{Kind: AggBitAnd}, 1235},
		{"avg whose count is a decimal", []mysql.Column{decCol("c", 4), decCol("s", 0)}, Agg{Kind: AggAvg, SumCol: 1, CountCol: 1}, 1105},
		{"avg of double as decimal", []mysql.Column{decCol("c", 4), dblCol("s"), intCol("n")}, Agg{Kind: AggAvg, SumCol: 1, CountCol: 2}, 1105},
		{"a column that is not there", []mysql.Column{intCol("c")}, Agg{Kind: AggSum, Col: 3}, 1105},
		{"distinct without keys", []mysql.Column{intCol("c")}, Agg{Kind: AggCountDistinct}, 1105},
		{"distinct by another key than the order's", []mysql.Column{intCol("c"), intCol("x")}, Agg{Kind: AggCountDistinct, Distinct: []Key{at(1)}}, 1105},
	} {
		in := shardsOf(c.cols, false, nil, nil)
		_, err := Merge(&Spec{Order: []Key{at(0)}, Aggregate: true, Aggs: []Agg{c.agg}}, Limit{}, in, Options{})
		if c.cols[0].Charset != 63 || c.cols[0].Type == gomysql.MYSQL_TYPE_JSON { // no key of its own
			_, err = Merge(&Spec{Aggregate: true, Aggs: []Agg{c.agg}}, Limit{}, shardsOf(c.cols, false, nil, nil), Options{})
		}
		var e *mysql.Error
		if !errors.As(err, &e) || e.Code != c.code {
			t.Errorf("%s: %v, want %d", c.name, err, c.code)
		}
		wantClosed(t, in)
	}
}

func TestAggregateOutOfRange(t *testing.T) {
	nines := strings.Repeat("9", 65)
	for name, c := range map[string]struct {
		col mysql.Column
		v   value
	}{
		"decimal": {decCol("c", 0), nines},
		"double":  {dblCol("c"), 1.7e308},
		"bigint":  {intCol("c"), int64(1 << 62)},
	} {
		protocols(t, func(t *testing.T, isBinary bool) {
			part := [][]value{{c.v}}
			_, err := merged1(t, &Spec{Aggregate: true, Aggs: []Agg{{Kind: AggSum}}}, Limit{}, shardsOf([]mysql.Column{c.col}, isBinary, part, part, part))
			var e *mysql.Error
			if !errors.As(err, &e) || e.Code != 1690 {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
}

// TestDistinctAggregates is B018 and B019: SELECT g, COUNT(DISTINCT v),
// SUM(DISTINCT v), AVG(DISTINCT v), COUNT(*) ... GROUP BY g; the shards group by g, v.
func TestDistinctAggregates(t *testing.T) {
	protocols(t, func(t *testing.T, isBinary bool) {
		cols := []mysql.Column{bytesCol("g"), intCol("cd"), decCol("sd", 0), decCol("ad", 4), intCol("n"), intCol("v")}
		row := func(g value, v int, n int) []value {
			return []value{g, 1, fmt.Sprint(v), fmt.Sprintf("%d.0000", v), n, v}
		}
		none := func(g value, n int) []value { return []value{g, 0, nil, nil, n, nil} }
		spec := &Spec{Visible: 5, Order: []Key{at(0), desc(5)}, Group: []Key{at(0)}, Aggregate: true, Aggs: []Agg{
			{Kind: AggCountDistinct, Col: 1, Distinct: []Key{at(5)}},
			{Kind: AggSumDistinct, Col: 2, SumCol: 2, Distinct: []Key{at(5)}},
			{Kind: AggAvgDistinct, Col: 3, SumCol: 5, Distinct: []Key{at(5)}},
			{Kind: AggCount, Col: 4},
		}}
		got, err := merged1(t, spec, Limit{}, shardsOf(cols, isBinary,
			[][]value{none(nil, 1), row("x", 4, 1), row("x", 2, 1), none("x", 2)},
			[][]value{row(nil, 5, 1), row("x", 4, 3), row("x", 1, 1), none("x", 1), row("y", 2, 1), none("z", 1)},
			[][]value{row("y", 2, 2)}))
		want := []string{"NULL,1,5,5.0000,2", "x,3,7,2.3333,9", "y,1,2,2.0000,3", "z,0,NULL,NULL,1"}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q (%v), want %q", got, err, want)
		}
	})
}

// TestCountDistinctOfTwo: a row with a NULL among the counted columns does not count.
func TestCountDistinctOfTwo(t *testing.T) {
	cols := []mysql.Column{intCol("cd"), intCol("a"), intCol("b")}
	spec := &Spec{Visible: 1, Order: []Key{at(1), at(2)}, Aggregate: true, Aggs: []Agg{
		{Kind: AggCountDistinct, Col: 0, Distinct: []Key{at(2), at(1)}}}}
	got, err := merged1(t, spec, Limit{}, shardsOf(cols, false,
		[][]value{{0, nil, 1}, {0, 1, nil}, {1, 1, 1}, {1, 1, 2}},
		[][]value{{0, nil, nil}, {0, 1, nil}, {1, 1, 2}, {1, 2, 1}}))
	if want := []string{"3"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%q (%v), want %q", got, err, want)
	}
}

func TestDistinctRows(t *testing.T) {
	protocols(t, func(t *testing.T, isBinary bool) {
		// B012 under PAD SPACE: 'a', 'a ', 'A' are one.
		cols := []mysql.Column{textCol("c"), bytesCol("w")}
		key := Key{Col: 0, Weight: 1, NumericCol: -1, Pad: PaddingOf("latin1_swedish_ci")}
		spec := &Spec{Visible: 1, Order: []Key{key}, Group: []Key{key}}
		got, err := merged1(t, spec, Limit{}, shardsOf(cols, isBinary,
			[][]value{{nil, nil}, {"a ", "A "}, {"b", "B"}},
			[][]value{{nil, nil}, {"a\t", "A\t"}, {"A", "A"}, {"a  ", "A  "}, {"c", "C"}}))
		want := []string{"NULL", "a\t", "a ", "b", "c"}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q (%v), want %q", got, err, want)
		}
	})
}

// TestDistinctNumbers: -0 and 0 are one (B036); a DECIMAL among the keys is told apart
// beyond 18 digits, also when the group's first value is the short one.
func TestDistinctNumbers(t *testing.T) {
	cols := []mysql.Column{dblCol("d")}
	spec := &Spec{Order: []Key{at(0)}, Group: []Key{at(0)}}
	got, err := merged1(t, spec, Limit{}, shardsOf(cols, false, [][]value{{"-0"}, {1.0}}, [][]value{{"0"}}))
	if want := []string{"-0", "1"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%q (%v), want %q", got, err, want)
	}
	cols = []mysql.Column{decCol("d", 12)}
	got, err = merged1(t, spec, Limit{}, shardsOf(cols, false,
		[][]value{{"1.000000000000"}, {"1.000000000001"}, {"12345678901234567890.000000000000"}},
		[][]value{{"1.000000000000"}, {"1.000000000002"}, {"12345678901234567890.000000000000"}, {"12345678901234567890.000000000001"}}))
	want := []string{"1.000000000000", "1.000000000001", "1.000000000002", "12345678901234567890.000000000000", "12345678901234567890.000000000001"}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%q (%v), want %q", got, err, want)
	}
}

func TestGroupOfNoRows(t *testing.T) {
	cols := []mysql.Column{intCol("g"), intCol("n")}
	spec := &Spec{Order: []Key{at(0)}, Group: []Key{at(0)}, Aggregate: true, Aggs: []Agg{{Kind: AggCount, Col: 1}}}
	if got, err := merged1(t, spec, Limit{}, shardsOf(cols, false, nil, nil)); err != nil || len(got) != 0 {
		t.Errorf("%q (%v)", got, err)
	}
}

// TestGroupIsGroupOfWhole: groups merged from parts are the groups of all rows,
// then sorted by their count with a limit (B003).
func TestGroupIsGroupOfWhole(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 2))
	cols := []mysql.Column{intCol("g"), intCol("n"), decCol("s", 2), decCol("a", 6), intCol("lo")}
	type group struct {
		g, n, lo int64
		s        int64
	}
	two := func(n int64) string { return big.NewRat(n, 100).FloatString(2) }
	vals := func(p *group) []value {
		return []value{p.g, p.n, two(p.s), big.NewRat(p.s, 100*p.n).FloatString(6), p.lo}
	}
	for range 100 {
		isBinary := r.IntN(2) == 0
		groups := int64(1 + r.IntN(30))
		parts := make([]map[int64]*group, 1+r.IntN(6))
		whole := map[int64]*group{}
		for i := range parts {
			parts[i] = map[int64]*group{}
			for range r.IntN(100) {
				g, v := r.Int64N(groups), r.Int64N(1e6)-5e5
				for _, m := range []map[int64]*group{parts[i], whole} {
					p := m[g]
					if p == nil {
						p = &group{g: g, lo: v}
						m[g] = p
					}
					p.n++
					p.s += v
					p.lo = min(p.lo, v)
				}
			}
		}
		var sent [][][]value
		for _, m := range parts {
			var rows [][]value
			for g := range groups {
				if m[g] != nil {
					rows = append(rows, vals(m[g]))
				}
			}
			sent = append(sent, rows)
		}
		var list []*group
		for g := range groups {
			if whole[g] != nil {
				list = append(list, whole[g])
			}
		}
		spec := &Spec{Order: []Key{at(0)}, Group: []Key{at(0)}, Aggregate: true, Aggs: []Agg{
			{Kind: AggCount, Col: 1}, {Kind: AggSum, Col: 2}, {Kind: AggAvg, Col: 3, SumCol: 2, CountCol: 1}, {Kind: AggMin, Col: 4, Weight: -1}}}
		var lim Limit
		if r.IntN(2) == 0 {
			spec.Sort = []Key{desc(1)}
			slices.SortStableFunc(list, func(a, b *group) int { return int(b.n - a.n) })
			lim = Limit{Offset: uint64(r.IntN(5)), Count: uint64(r.IntN(10)), Set: true}
			list = list[min(int(lim.Offset), len(list)):]
			list = list[:min(int(lim.Count), len(list))]
		}
		got, err := merged1(t, spec, lim, shardsOf(cols, isBinary, sent...))
		if err != nil || len(got) != len(list) {
			t.Fatalf("%d groups, want %d (%v)", len(got), len(list), err)
		}
		for i, p := range list {
			if want := show(cols, isBinary, encode(cols, isBinary, vals(p)...)); got[i] != want {
				t.Fatalf("group %d: %s, want %s", i, got[i], want)
			}
		}
	}
}
