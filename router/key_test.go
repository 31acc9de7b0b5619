package router

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"
)

// column makes a column from a type as SHOW CREATE TABLE would print it.
func column(columnType, charset, collation string) Column {
	dataType := columnType
	for i := range columnType {
		if c := columnType[i]; c == '(' || c == ' ' {
			dataType = columnType[:i]
			break
		}
	}
	return Column{Name: "k", DataType: dataType, ColumnType: columnType, Charset: charset, Collation: collation, Nullable: true}
}

func keyOf(t *testing.T, c Column, fl Flavour) *keyColumn {
	t.Helper()
	k, err := newKeyColumn(&c, fl)
	if err != nil {
		t.Fatal(err)
	}
	return &k
}

// valueOf decodes a literal as it stands in a statement, with an optional minus.
func valueOf(t testing.TB, q *Query, text string) Value {
	t.Helper()
	if text == "NULL" {
		return Value{}
	}
	neg := text[0] == '-'
	if neg {
		text = text[1:]
	}
	s := Query{Text: []byte(text), Charset: q.Charset, Mode: q.Mode}
	if err := s.Scan(); err != nil || len(s.Literals) != 1 {
		t.Fatalf("%q is not one literal: %v", text, err)
	}
	v, err := q.Value(s.Literals[0].Class, s.LiteralBytes(0))
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	if neg {
		var ok bool
		if v, ok = q.Negate(v); !ok {
			t.Fatalf("-%q is no number", text)
		}
	}
	return v
}

func TestKeyAssignAndCompare(t *testing.T) {
	intc, tiny, ubig := column("int(11)", "", ""), column("tinyint(4)", "", ""), column("bigint(20) unsigned", "", "")
	dec := column("decimal(10,2)", "", "")
	gen := column("varchar(20)", "utf8mb4", "utf8mb4_general_ci")
	latin := column("varchar(20)", "latin1", "latin1_bin")
	bin, fixed := column("varbinary(20)", "", ""), column("binary(4)", "", "")
	date, dt, dt3 := column("date", "", ""), column("datetime", "", ""), column("datetime(3)", "", "")
	const all, none, refused = "ALL", "NONE", "REFUSED"
	for _, c := range []struct {
		col             Column
		literal         string
		mysql           string // canonical bytes by Assign
		compare         string
		maria, cmpMaria string // where they differ from MySQL's
	}{
		{intc, "42", "42", "42", "", ""},
		{intc, "-42", "-42", "-42", "", ""},
		{intc, "'42'", "42", "42", "", ""},
		{intc, "' 42 '", "42", "42", "", ""},
		{intc, "'42abc'", "42", "42", "", ""},
		{intc, "'4.2e1'", "42", "42", "", ""},
		{intc, "''", "0", "0", "", ""},
		{intc, "'abc'", "0", "0", "", ""},
		{intc, "42.0", "42", "42", "", ""},
		{intc, "42.5", "43", none, "", ""},
		{intc, "-42.5", "-43", none, "", ""},
		{intc, "'42.5'", "43", all, "", ""},
		{intc, "42e0", "42", "42", "", ""},
		{intc, "42.5e0", "42", none, "", ""},
		{intc, "43.5e0", "44", none, "", ""},
		{intc, "1e300", refused, all, "", ""},
		{intc, "x'2A'", "42", "42", "0", "0"},
		{intc, "x'31'", "49", "49", "1", "1"},
		{intc, "0x2A", "42", "42", "", ""},
		{intc, "b'101010'", "42", "42", "", ""},
		{intc, "0x112233445566778899", refused, all, "", ""},
		{intc, "3000000000", "2147483647", none, "", ""},
		{intc, "-3000000000", "-2147483648", none, "", ""},
		{intc, "99999999999999999999999", "2147483647", none, "", ""},
		{intc, "'99999999999999999999999'", "2147483647", all, "", ""},
		{intc, "-0", "0", "0", "", ""},
		{intc, "-0.0", "0", "0", "", ""},
		{tiny, "300", "127", none, "", ""},
		{ubig, "18446744073709551615", "18446744073709551615", "18446744073709551615", "", ""},
		{ubig, "'9007199254740993'", "9007199254740993", "9007199254740993", "", ""},
		{ubig, "'9007199254740993x'", "9007199254740993", all, "", ""},
		{ubig, "9007199254740993e0", refused, all, "", ""},
		{ubig, "-1", "0", none, "", ""},
		{ubig, "'1.49999999999999999999'", refused, all, "", ""},
		{dec, "1.5", "1.5", "1.5", "", ""},
		{dec, "1.50", "1.5", "1.5", "", ""},
		{dec, "'1.5'", "1.5", "1.5", "", ""},
		{dec, "1.5e0", refused, "1.5", "", ""},
		{dec, "2e1", "20", "20", "", ""},
		{dec, "1.005", "1.01", none, "", ""},
		{dec, "-1.005", "-1.01", none, "", ""},
		{dec, "99999999.999", "99999999.99", none, "", ""},
		{dec, "7", "7", "7", "", ""},
		{dec, "0.004", "0", none, "", ""},
		{gen, "'Bob'", "\x00B\x00O\x00B", "\x00B\x00O\x00B", "", ""},
		{gen, "'bòB  '", "\x00B\x00O\x00B", "\x00B\x00O\x00B", "", ""},
		{gen, "42", "\x004\x002", all, "", ""},
		{gen, "4.20", "\x004\x00.\x002\x000", all, "", ""},
		{gen, ".5", "\x000\x00.\x005", all, "", ""},
		{gen, "x'626F62'", "\x00B\x00O\x00B", "\x00B\x00O\x00B", "", ""},
		{gen, "x'FF'", refused, all, "", ""},
		{gen, "'12345678901234567890123'", string(wide("12345678901234567890")), string(wide("12345678901234567890123")), "", ""},
		{latin, "'é€'", "\xe9\x80", "\xe9\x80", "", ""},
		{latin, "'ж'", refused, all, "", ""},
		{latin, "x'E9'", "\xe9", "\xe9", "", ""},
		{latin, "N'a'", "a", "a", "", ""},
		{bin, "'aB '", "aB ", "aB ", "", ""},
		{bin, "x'6100'", "a", "a", "", ""},
		{fixed, "'a'", "a", "a", "", ""},
		{fixed, "'abcdef'", "abcd", "abcdef", "", ""},
		{date, "'2020-01-02'", "2020-01-02", "2020-01-02", "", ""},
		{date, "'2020-1-2'", "2020-01-02", "2020-01-02", "", ""},
		{date, "'20200102'", "2020-01-02", "2020-01-02", "", ""},
		{date, "20200102", "2020-01-02", "2020-01-02", "", ""},
		{date, "'2020/01/02'", "2020-01-02", "2020-01-02", "", ""},
		{date, "'70-01-02'", "1970-01-02", "1970-01-02", "", ""},
		{date, "'2020-01-02 10:00:00'", "2020-01-02", all, "", ""},
		{date, "'2020-02-30'", refused, all, "", ""},
		{date, "'2020-02'", refused, all, "", ""},
		{date, "'0000-00-00'", "0000-00-00", "0000-00-00", "", ""},
		{dt, "'2020-01-02'", "2020-01-02 00:00:00", "2020-01-02 00:00:00", "", ""},
		{dt, "'2020-01-02T3:04:05'", "2020-01-02 03:04:05", "2020-01-02 03:04:05", "", ""},
		{dt, "'2020-01-02 03:04:05.5'", refused, all, "", ""},
		{dt, "20200102030405", "2020-01-02 03:04:05", "2020-01-02 03:04:05", "", ""},
		{dt3, "'2020-01-02 03:04:05.500'", "2020-01-02 03:04:05.5", "2020-01-02 03:04:05.5", "", ""},
		{dt3, "'2020-01-02 03:04:05.5001'", refused, all, "", ""},
		{intc, "NULL", "", none, "", ""},
		{gen, "NULL", "", none, "", ""},
	} {
		for _, fl := range []Flavour{MySQL, MariaDB} {
			t.Run(fmt.Sprintf("%s/%s/%s", c.col.ColumnType, c.literal, fl), func(t *testing.T) {
				k := keyOf(t, c.col, fl)
				q := Query{Charset: "utf8mb4"}
				v := valueOf(t, &q, c.literal)
				wantAssign, wantCompare := c.mysql, c.compare
				if fl == MariaDB && c.maria != "" {
					wantAssign, wantCompare = c.maria, c.cmpMaria
				}
				got, _, err := k.assign(nil, &v, &KeyContext{})
				switch {
				case errors.Is(err, ErrNotDecidable):
					got = []byte(refused)
				case err != nil:
					t.Fatal(err)
				}
				if string(got) != wantAssign {
					t.Errorf("assign gives %q, want %q", got, wantAssign)
				}
				got, m := k.compare(nil, &v, &KeyContext{})
				if s := [...]string{all, string(got), none}[m]; s != wantCompare {
					t.Errorf("compare gives %q, want %q", s, wantCompare)
				}
			})
		}
	}
}

// wide is ASCII text as utf8mb4_general_ci weighs it.
func wide(s string) []byte {
	var b []byte
	for i := range len(s) {
		b = append(b, 0, s[i])
	}
	return b
}

func TestKeyNull(t *testing.T) {
	q := Query{}
	for _, c := range []struct {
		name          string
		change        func(*Column)
		ctx           KeyContext
		value         string
		decided, null bool
	}{
		{"nullable", func(c *Column) {}, KeyContext{}, "NULL", true, true},
		{"not null, strict", func(c *Column) { c.Nullable = false }, KeyContext{Strict: true}, "NULL", true, true},
		{"not null, not strict", func(c *Column) { c.Nullable = false }, KeyContext{}, "NULL", false, false},
		{"auto_increment", func(c *Column) { c.Extra = "auto_increment" }, KeyContext{Strict: true}, "NULL", false, false},
		{"auto_increment, zero", func(c *Column) { c.Extra = "auto_increment" }, KeyContext{}, "'0'", false, false},
		{"auto_increment, zero kept", func(c *Column) { c.Extra = "auto_increment" }, KeyContext{NoAutoValueOnZero: true}, "0", true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			col := column("int", "", "")
			c.change(&col)
			v := valueOf(t, &q, c.value)
			_, null, err := keyOf(t, col, MySQL).assign(nil, &v, &c.ctx)
			if (err == nil) != c.decided || null != c.null {
				t.Errorf("null %v, error %v", null, err)
			}
		})
	}
}

func TestKeyMixedLists(t *testing.T) {
	q := Query{Charset: "utf8mb4"}
	mixed := KeyContext{Mixed: true}
	for _, c := range []struct {
		col     Column
		literal string
		want    match
	}{
		{column("bigint", "", ""), "5", matchOne},
		{column("bigint", "", ""), "'5'", matchOne},
		{column("bigint", "", ""), "9007199254740993", matchAll},
		{column("bigint", "", ""), "1.5", matchAll},
		{column("varchar(9)", "ascii", "ascii_bin"), "'a'", matchAll},
		{column("date", "", ""), "'2020-01-01'", matchAll},
		{column("decimal(30,2)", "", ""), "5", matchAll},
		{column("decimal(10,2)", "", ""), "5", matchOne},
	} {
		v := valueOf(t, &q, c.literal)
		if _, m := keyOf(t, c.col, MySQL).compare(nil, &v, &mixed); m != c.want {
			t.Errorf("%s against %s: %d, want %d", c.col.ColumnType, c.literal, m, c.want)
		}
	}
}

func TestKeyCharsets(t *testing.T) {
	col := column("varchar(20)", "utf8mb4", "utf8mb4_bin")
	for _, c := range []struct {
		client, connection, bytes, want string
	}{
		{"utf8mb4", "", "é", "é"},
		{"utf8mb4", "utf8mb4", "é", "é"},
		{"latin1", "", "\xe9\x80", "é€"},
		{"latin1", "utf8mb4", "\xe9", "é"},
		{"utf8mb4", "latin1", "é", ""},
		{"utf8mb4", "latin1", "e", "e"},
		{"gbk", "", "\x81\x40", ""},
		{"gbk", "", "a", "a"},
		{"swe7", "", "a", ""},
		{"utf8mb3", "", "\xf0\x9f\x98\x80", ""},
		{"utf8mb4", "", "\xf0\x9f\x98\x80", "\xf0\x9f\x98\x80"},
		{"utf8mb4", "", "\xff", ""},
		{"binary", "", "é", "é"},
		{"binary", "", "\xff", ""},
	} {
		v := Value{Kind: ValueString, Bytes: []byte(c.bytes), Charset: c.client}
		got, _, err := keyOf(t, col, MySQL).assign(nil, &v, &KeyContext{Connection: c.connection})
		if err != nil {
			got = nil
		}
		if string(got) != c.want {
			t.Errorf("%q in %s over %q is %q, want %q", c.bytes, c.client, c.connection, got, c.want)
		}
	}
}

func TestCheckKeyColumn(t *testing.T) {
	for _, c := range []Column{
		column("timestamp", "", ""), column("float", "", ""), column("double", "", ""), column("json", "", ""),
		column("text", "utf8mb4", "utf8mb4_bin"), column("blob", "", ""), column("enum('a')", "utf8mb4", "utf8mb4_bin"),
		column("set('a')", "utf8mb4", "utf8mb4_bin"), column("bit(1)", "", ""), column("year", "", ""), column("time", "", ""),
		column("varchar(5)", "utf8mb4", "utf8mb4_german2_ci"), column("varchar(5)", "gbk", "gbk_chinese_ci"),
		{Name: "k", DataType: "int", ColumnType: "int", Extra: "VIRTUAL GENERATED"},
	} {
		if err := CheckKeyColumn(&c, MySQL); err == nil {
			t.Errorf("%s %s %s is taken for a key", c.ColumnType, c.Collation, c.Extra)
		}
	}
	c := column("varchar(5)", "utf8mb4", "utf8mb4_0900_ai_ci")
	if err := CheckKeyColumn(&c, MySQL); err != nil {
		t.Error(err)
	}
	if err := CheckKeyColumn(&c, MariaDB); err == nil {
		t.Error("MariaDB has no utf8mb4_0900_ai_ci")
	}
	c = column("datetime", "", "")
	c.Extra = "DEFAULT_GENERATED"
	if err := CheckKeyColumn(&c, MySQL); err != nil {
		t.Error(err)
	}
}

// hashRule spreads the slots evenly over shards.
func hashRule(t testing.TB, shards int, columns ...Column) *Rule {
	t.Helper()
	r := &Rule{Function: FunctionHash, Columns: columns, Shards: shards, SlotShard: make([]uint16, Slots)}
	for s := range r.SlotShard {
		r.SlotShard[s] = uint16(s * shards / Slots)
	}
	if err := r.Compile(); err != nil {
		t.Fatal(err)
	}
	return r
}

func ruleOf(t testing.TB, r *Rule) *Rule {
	t.Helper()
	if err := r.Compile(); err != nil {
		t.Fatal(err)
	}
	return r
}

// TestKeyVectors holds the vectors of docs/sharding-function.md: they can never
// change (rule K3).
func TestKeyVectors(t *testing.T) {
	text := column("varchar(300)", "utf8mb4", "utf8mb4_bin")
	ci := column("varchar(20)", "utf8mb4", "utf8mb4_general_ci")
	ai := column("varchar(20)", "utf8mb4", "utf8mb4_0900_ai_ci")
	long := "'" + string(bytes.Repeat([]byte("x"), 200)) + "'"
	for _, c := range []struct {
		columns []Column
		values  []string
		joined  string // the joined key in hexadecimal
		slot    int
	}{
		{[]Column{column("int", "", "")}, []string{"0"}, "6e0130", 11878},
		{[]Column{column("int", "", "")}, []string{"1"}, "6e0131", 2702},
		{[]Column{column("bigint", "", "")}, []string{"-1"}, "6e022d31", 11567},
		{[]Column{column("bigint unsigned", "", "")}, []string{"18446744073709551615"}, "6e143138343436373434303733373039353531363135", 2334},
		{[]Column{column("int", "", "")}, []string{"NULL"}, "4e00", 13854},
		{[]Column{column("decimal(10,2)", "", "")}, []string{"1.50"}, "6e03312e35", 5884},
		{[]Column{text}, []string{"''"}, "7300", 8653},
		{[]Column{text}, []string{"'Braid'"}, "73054272616964", 8799},
		{[]Column{text}, []string{long}, "73c801" + strings.Repeat("78", 200), 15349},
		{[]Column{ci}, []string{"'Braid'"}, "730a00420052004100490044", 10727},
		{[]Column{ci}, []string{"'bràid '"}, "730a00420052004100490044", 10727},
		{[]Column{ai}, []string{"'Braid'"}, "730a1c601e331c471d321c8f", 1438},
		{[]Column{column("varbinary(9)", "", "")}, []string{"x'00FF'"}, "620200ff", 11182},
		{[]Column{column("date", "", "")}, []string{"'2020-01-31'"}, "640a323032302d30312d3331", 1039},
		{[]Column{column("datetime(6)", "", "")}, []string{"'2020-01-31 12:00:00.250000'"}, "7416323032302d30312d33312031323a30303a30302e3235", 8443},
		{[]Column{column("int", "", ""), text}, []string{"7", "'a'"}, "6e0137730161", 14414},
	} {
		q := Query{Charset: "utf8mb4"}
		r := hashRule(t, 1024, c.columns...)
		for s := range r.SlotShard {
			r.SlotShard[s] = uint16(s % 1024)
		}
		high := hashRule(t, 16, c.columns...)
		for s := range high.SlotShard {
			high.SlotShard[s] = uint16(s / 1024)
		}
		var vals []Value
		for _, v := range c.values {
			vals = append(vals, valueOf(t, &q, v))
		}
		low, err := r.Assign(vals, KeyContext{})
		if err != nil {
			t.Fatal(err)
		}
		up, err := high.Assign(vals, KeyContext{})
		if err != nil {
			t.Fatal(err)
		}
		if got := up*1024 + low; got != c.slot {
			t.Errorf("%s %.40q: slot %d, want %d", c.columns[0].ColumnType, c.values, got, c.slot)
		}
		joined, err := hex.DecodeString(c.joined)
		if err != nil {
			t.Fatal(err)
		}
		if got := Slot(joined); got != c.slot {
			t.Errorf("%s: slot %d, want %d", c.joined, got, c.slot)
		}
	}
}

func TestKeySpread(t *testing.T) {
	r := hashRule(t, 4, column("int", "", ""))
	var n [4]int
	for i := range 10000 {
		s, err := r.Assign([]Value{IntValue(int64(i))}, KeyContext{})
		if err != nil {
			t.Fatal(err)
		}
		n[s]++
	}
	for s, c := range n {
		if c < 2300 || c > 2700 {
			t.Errorf("shard %d has %d of 10000 keys", s, c)
		}
	}
}

func TestKeyMod(t *testing.T) {
	r := ruleOf(t, &Rule{Function: FunctionMod, Columns: []Column{column("bigint", "", "")}, Shards: 3})
	for v, want := range map[int64]int{0: 0, 1: 1, 5: 2, -1: 2, -3: 0, -9223372036854775808: 1, 9223372036854775807: 1} {
		if got, err := r.Assign([]Value{IntValue(v)}, KeyContext{}); err != nil || got != want {
			t.Errorf("%d is on shard %d, want %d (%v)", v, got, want, err)
		}
		if got, ok := r.Compare([]Value{IntValue(v)}, KeyContext{}).Single(); !ok || got != want {
			t.Errorf("= %d looks on shard %d, want %d", v, got, want)
		}
	}
	bad := Rule{Function: FunctionMod, Columns: []Column{column("varchar(9)", "ascii", "ascii_bin")}, Shards: 3}
	if bad.Compile() == nil {
		t.Error("mod takes a text key")
	}
}

func set(n int, shards ...int) ShardSet {
	s := NoShards(n)
	for _, i := range shards {
		s = s.Or(OneShard(n, i))
	}
	return s
}

func same(a, b ShardSet) bool {
	return a.Len() == b.Len() && a.And(b).Len() == a.Len() && a.Shards() == b.Shards()
}

func TestKeyRange(t *testing.T) {
	r := ruleOf(t, &Rule{Function: FunctionRange, Columns: []Column{column("int", "", "")}, Shards: 4, Ranges: []Range{
		{LessThan: "-10", Shard: 3}, {LessThan: "100", Shard: 0}, {LessThan: "1000", Shard: 1}, {Unbounded: true, Shard: 2},
	}})
	q := Query{Charset: "utf8mb4"}
	for v, want := range map[string]int{"-11": 3, "-10": 0, "99": 0, "100": 1, "999.4": 1, "999.5": 2, "'5'": 0, "NULL": 3} {
		if got, err := r.Assign([]Value{valueOf(t, &q, v)}, KeyContext{}); err != nil || got != want {
			t.Errorf("%s is on shard %d, want %d (%v)", v, got, want, err)
		}
	}
	for _, c := range []struct {
		op   RangeOp
		v    string
		want ShardSet
	}{
		{RangeLess, "50", set(4, 3, 0)}, {RangeLessEqual, "-20", set(4, 3)}, {RangeGreater, "50", set(4, 0, 1, 2)},
		{RangeGreaterEqual, "1000", set(4, 2)}, {RangeGreater, "99.5", set(4, 0, 1, 2)}, {RangeGreater, "'2'", set(4, 0, 1, 2)},
		{RangeGreater, "'2x'", AllShards(4)}, {RangeLess, "NULL", NoShards(4)}, {RangeGreater, "1e3", set(4, 2)},
		{RangeGreater, "99999999999999999999", set(4, 2)},
	} {
		if got := r.CompareRange(c.op, valueOf(t, &q, c.v), KeyContext{}); !same(got, c.want) {
			t.Errorf("op %d %s: %v, want %v", c.op, c.v, got, c.want)
		}
	}
	// B057: reversed bounds are empty only where the ranges tell; one shard more is right.
	five, one := valueOf(t, &q, "5"), valueOf(t, &q, "1")
	if got := r.CompareRange(RangeGreaterEqual, five, KeyContext{}).And(r.CompareRange(RangeLessEqual, one, KeyContext{})); got.Len() > 1 {
		t.Errorf("BETWEEN 5 AND 1 goes to %d shards", got.Len())
	}
	bounded := ruleOf(t, &Rule{Function: FunctionRange, Columns: []Column{column("date", "", "")}, Shards: 2, Ranges: []Range{
		{LessThan: "2020-01-01", Shard: 0}, {LessThan: "2021-01-01", Shard: 1},
	}})
	if s, err := bounded.Assign([]Value{valueOf(t, &q, "'2020-1-1'")}, KeyContext{}); err != nil || s != 1 {
		t.Errorf("2020-1-1 is on shard %d (%v)", s, err)
	}
	if _, err := bounded.Assign([]Value{valueOf(t, &q, "'2021-01-01'")}, KeyContext{}); err == nil {
		t.Error("a date above all ranges is taken")
	}
	if got := bounded.Compare([]Value{valueOf(t, &q, "'2021-01-01'")}, KeyContext{}); !got.None() {
		t.Error("a date above all ranges is looked for")
	}
	if got := bounded.CompareRange(RangeLess, valueOf(t, &q, "'2019-06-01 10:00:00'"), KeyContext{}); !same(got, set(2, 0)) {
		t.Errorf("< 2019-06-01 10:00:00 goes to %v", got)
	}
	for name, bad := range map[string]Rule{
		"descending":     {Function: FunctionRange, Columns: []Column{column("int", "", "")}, Shards: 1, Ranges: []Range{{LessThan: "9"}, {LessThan: "10"}, {LessThan: "10"}}},
		"not a number":   {Function: FunctionRange, Columns: []Column{column("int", "", "")}, Shards: 1, Ranges: []Range{{LessThan: "9x"}}},
		"collation":      {Function: FunctionRange, Columns: []Column{column("char(9)", "ascii", "ascii_general_ci")}, Shards: 1, Ranges: []Range{{LessThan: "a"}}},
		"no pad":         {Function: FunctionRange, Columns: []Column{column("char(9)", "utf8mb4", "utf8mb4_0900_bin")}, Shards: 1, Ranges: []Range{{LessThan: "a"}}},
		"unbounded":      {Function: FunctionRange, Columns: []Column{column("int", "", "")}, Shards: 1, Ranges: []Range{{Unbounded: true}, {LessThan: "9"}}},
		"no such shard":  {Function: FunctionRange, Columns: []Column{column("int", "", "")}, Shards: 1, Ranges: []Range{{Unbounded: true, Shard: 1}}},
		"slots":          {Function: FunctionHash, Columns: []Column{column("int", "", "")}, Shards: 1},
		"two columns":    {Function: FunctionList, Columns: []Column{column("int", "", ""), column("int", "", "")}, Shards: 1},
		"listed twice":   {Function: FunctionList, Columns: []Column{column("int", "", "")}, Shards: 2, List: map[string]int{"1": 0, "01": 1}},
		"listed nothing": {Function: FunctionList, Columns: []Column{column("date", "", "")}, Shards: 1, List: map[string]int{"yesterday": 0}},
	} {
		if bad.Compile() == nil {
			t.Errorf("%s: the rule is taken", name)
		}
	}
}

func TestKeyList(t *testing.T) {
	r := ruleOf(t, &Rule{Function: FunctionList, Columns: []Column{column("char(2)", "ascii", "ascii_bin")}, Shards: 2, List: map[string]int{"de": 0, "at": 0, "fr": 1}})
	q := Query{Charset: "utf8mb4"}
	for v, want := range map[string]int{"'de'": 0, "'fr '": 1, "x'6174'": 0} {
		if got, err := r.Assign([]Value{valueOf(t, &q, v)}, KeyContext{}); err != nil || got != want {
			t.Errorf("%s is on shard %d, want %d (%v)", v, got, want, err)
		}
	}
	for _, v := range []string{"'DE'", "NULL"} {
		if _, err := r.Assign([]Value{valueOf(t, &q, v)}, KeyContext{}); err == nil {
			t.Errorf("%s belongs to no part, but is taken", v)
		}
	}
}

func TestShardSet(t *testing.T) {
	for _, n := range []int{1, 2, 63, 64, 65, 128, 129, 1024} {
		all, none := AllShards(n), NoShards(n)
		if all.Len() != n || !all.All() || all.None() != false || none.Len() != 0 || !none.None() || none.All() || none.First() != -1 {
			t.Errorf("%d shards: all has %d, none %d", n, all.Len(), none.Len())
		}
		for _, i := range []int{0, n / 2, n - 1} {
			one := OneShard(n, i)
			if got, ok := one.Single(); !ok || got != i || !one.Has(i) || !all.Has(i) || none.Has(i) {
				t.Errorf("%d of %d: %v", i, n, one)
			}
			if !same(one.And(all), one) || !same(one.Or(all), all) || !one.And(none).None() || !same(one.Or(none), one) {
				t.Errorf("%d of %d: combining gives something else", i, n)
			}
		}
		next := 0
		for i := range all.Each() {
			if i != next {
				t.Fatalf("%d shards: %d follows %d", n, i, next-1)
			}
			next++
		}
		if next != n {
			t.Errorf("%d shards: %d iterated", n, next)
		}
		if n > 1 {
			two := set(n, 0, n-1)
			if two.Len() != 2 || two.And(OneShard(n, n-1)).First() != n-1 {
				t.Errorf("%d shards: first and last are %v", n, two)
			}
		}
	}
}

func TestParamDecode(t *testing.T) {
	for _, c := range []struct {
		name string
		p    Param
		want Value
	}{
		{"tiny", Param{Type: gomysql.MYSQL_TYPE_TINY, Value: []byte{0xff}}, IntValue(-1)},
		{"unsigned tiny", Param{Type: gomysql.MYSQL_TYPE_TINY, Unsigned: true, Value: []byte{0xff}}, IntValue(255)},
		{"short", Param{Type: gomysql.MYSQL_TYPE_SHORT, Value: []byte{0xfe, 0xff}}, IntValue(-2)},
		{"long", Param{Type: gomysql.MYSQL_TYPE_LONG, Unsigned: true, Value: []byte{0xff, 0xff, 0xff, 0xff}}, IntValue(4294967295)},
		{"longlong", Param{Type: gomysql.MYSQL_TYPE_LONGLONG, Unsigned: true, Value: bytes.Repeat([]byte{0xff}, 8)}, Value{Kind: ValueUint, Uint: 1<<64 - 1}},
		{"float", Param{Type: gomysql.MYSQL_TYPE_FLOAT, Value: []byte{0, 0, 0xc0, 0x3f}}, Value{Kind: ValueFloat, Float: 1.5}},
		{"double", Param{Type: gomysql.MYSQL_TYPE_DOUBLE, Value: []byte{0, 0, 0, 0, 0, 0, 0xf8, 0x3f}}, Value{Kind: ValueFloat, Float: 1.5}},
		{"decimal", Param{Type: gomysql.MYSQL_TYPE_NEWDECIMAL, Value: []byte("-1.50")}, Value{Kind: ValueDecimal, Bytes: []byte("-1.50")}},
		{"string", Param{Type: gomysql.MYSQL_TYPE_VAR_STRING, Value: []byte("a'\\")}, Value{Kind: ValueString, Bytes: []byte("a'\\"), Charset: "latin1"}},
		{"blob", Param{Type: gomysql.MYSQL_TYPE_BLOB, Value: []byte("a")}, Value{Kind: ValueString, Bytes: []byte("a"), Charset: "binary"}},
		{"null", Param{Type: gomysql.MYSQL_TYPE_LONG, Null: true}, Value{}},
		{"null type", Param{Type: gomysql.MYSQL_TYPE_NULL}, Value{}},
		{"date", Param{Type: gomysql.MYSQL_TYPE_DATE, Value: []byte{0xe4, 7, 1, 31}}, Value{Kind: ValueDate, Time: DateTime{Year: 2020, Month: 1, Day: 31}}},
		{"datetime", Param{Type: gomysql.MYSQL_TYPE_DATETIME, Value: []byte{0xe4, 7, 1, 31, 1, 2, 3, 1, 0, 0, 0}}, Value{Kind: ValueDatetime, Time: DateTime{2020, 1, 31, 1, 2, 3, 1}}},
		{"too short", Param{Type: gomysql.MYSQL_TYPE_DOUBLE, Value: []byte{1}}, Value{Kind: ValueUnknown}},
		{"bad decimal", Param{Type: gomysql.MYSQL_TYPE_NEWDECIMAL, Value: []byte("1.2.3")}, Value{Kind: ValueUnknown}},
	} {
		if got := c.p.Decode("latin1"); fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestValueOfLiterals(t *testing.T) {
	for _, c := range []struct {
		literal, want string
		mode          Mode
		charset       string
	}{
		{`'plain'`, "plain", 0, ""},
		{`'d''q'`, "d'q", 0, ""},
		{`"d""q'"`, `d"q'`, 0, ""},
		{`'\0\n\t\r\b\Z\\\'\"\a\%\_'`, "\x00\n\t\r\b\x1a\\'\"a\\%\\_", 0, ""},
		{`'a\n'`, `a\n`, ModeNoBackslashEscapes, ""},
		{`'a' "b" /* c */ 'd'`, "abd", 0, ""},
		{"'\x95\x5c''\x95\x5c\\n'", "\x95\x5c'\x95\x5c\n", 0, "gbk"},
		{"'\x95\x5c'", "\x95\x5c", 0, "gbk"},
		{`N'x'`, "x", 0, ""},
		{`x'4a4B'`, "JK", 0, ""},
		{`0x41B`, "\x04\x1b", 0, ""},
		{`b'100000101000010'`, "AB", 0, ""},
		{`0b1`, "\x01", 0, ""},
		{`x''`, "", 0, ""},
	} {
		q := Query{Mode: c.mode, Charset: c.charset}
		if got := valueOf(t, &q, c.literal); string(got.Bytes) != c.want {
			t.Errorf("%s is %q, want %q", c.literal, got.Bytes, c.want)
		}
	}
}

func TestNegate(t *testing.T) {
	q := Query{}
	for literal, want := range map[string]string{
		"-5": "-5", "-9223372036854775808": "-9223372036854775808", "-18446744073709551615": "-18446744073709551615", "-1.5": "-1.5",
	} {
		v := valueOf(t, &q, literal)
		c, err := newKeyColumn(&Column{Name: "k", DataType: "decimal", ColumnType: "decimal(30,5)"}, MySQL)
		if err != nil {
			t.Fatal(err)
		}
		if got, _, err := c.assign(nil, &v, &KeyContext{}); err != nil || string(got) != want {
			t.Errorf("%s is %s (%v)", literal, got, err)
		}
	}
	if _, ok := q.Negate(Value{Kind: ValueString}); ok {
		t.Error("-'1' is a number of another kind")
	}
}

func TestNextStatement(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       []string
	}{
		{"two", "SELECT 1; SELECT 2", []string{"SELECT 1", " SELECT 2"}},
		{"final semicolon", "SELECT 1;", []string{"SELECT 1"}},
		{"empty ones", "; ;SELECT 1", []string{"", " ", "SELECT 1"}},
		{"in text", `SELECT ';', ";", '\';' ; SELECT 2`, []string{`SELECT ';', ";", '\';' `, " SELECT 2"}},
		{"in names and variables", "SELECT `;`, @';', @`;`;SELECT 2", []string{"SELECT `;`, @';', @`;`", "SELECT 2"}},
		{"in comments", "SELECT 1 /* ; */; SELECT \"a;b\" -- ;\n; # ;\nSELECT 3", []string{"SELECT 1 /* ; */", " SELECT \"a;b\" -- ;\n", " # ;\nSELECT 3"}},
		{"not a comment", "SELECT 5--1;SELECT 2", []string{"SELECT 5--1", "SELECT 2"}},
		{"procedure", "CREATE DEFINER=`a`@`b` PROCEDURE p() BEGIN SELECT 1; SELECT 2; END; SELECT 3", []string{"CREATE DEFINER=`a`@`b` PROCEDURE p() BEGIN SELECT 1; SELECT 2; END; SELECT 3"}},
		{"trigger", "CREATE TRIGGER t BEFORE INSERT ON x FOR EACH ROW SET NEW.a=1; SELECT 3", []string{"CREATE TRIGGER t BEFORE INSERT ON x FOR EACH ROW SET NEW.a=1; SELECT 3"}},
		{"table with a column named event", "CREATE TABLE t (event INT); SELECT 3", []string{"CREATE TABLE t (event INT)", " SELECT 3"}},
		{"begin", "BEGIN; SELECT 3", []string{"BEGIN", " SELECT 3"}},
		{"compound", "BEGIN NOT ATOMIC SELECT 1; SELECT 2; END", []string{"BEGIN NOT ATOMIC SELECT 1; SELECT 2; END"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			for rest := []byte(c.text); len(rest) > 0; {
				var s []byte
				s, rest = NextStatement(rest, 0, "utf8mb4")
				got = append(got, string(s))
			}
			if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", c.want) {
				t.Errorf("got %q\nwant %q", got, c.want)
			}
		})
	}
}

func TestKeysAllocateNothing(t *testing.T) {
	q := Query{Charset: "utf8mb4"}
	for _, c := range []struct {
		col     Column
		literal string
	}{
		{column("bigint", "", ""), "42"},
		{column("bigint", "", ""), "'42'"},
		{column("varchar(50)", "utf8mb4", "utf8mb4_general_ci"), "'some name'"},
		{column("date", "", ""), "'2020-01-02'"},
	} {
		r := hashRule(t, 16, c.col)
		vals := []Value{valueOf(t, &q, c.literal)}
		if n := testing.AllocsPerRun(100, func() {
			if _, err := r.Assign(vals, KeyContext{}); err != nil {
				t.Fatal(err)
			}
			if _, ok := r.Compare(vals, KeyContext{}).Single(); !ok {
				t.Fatal("not one shard")
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations", c.literal, n)
		}
	}
}

func BenchmarkKey(b *testing.B) {
	q := Query{Charset: "utf8mb4"}
	for _, c := range []struct {
		name    string
		col     Column
		literal string
	}{
		{"int", column("bigint", "", ""), "50123"},
		{"uuid", column("char(36)", "ascii", "ascii_bin"), "'6ccd780c-baba-1026-9564-5b8c656024db'"},
		{"uuid_ci", column("char(36)", "utf8mb4", "utf8mb4_0900_ai_ci"), "'6ccd780c-baba-1026-9564-5b8c656024db'"},
	} {
		r := hashRule(b, 16, c.col)
		vals := []Value{valueOf(b, &q, c.literal)}
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, ok := r.Compare(vals, KeyContext{}).Single(); !ok {
					b.Fatal("not one shard")
				}
			}
		})
	}
}
