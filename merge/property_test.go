package merge

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"braid/internal/mysql"
)

// kind is a type of column that rows are ordered by: how its values are drawn,
// what is sent for them, and, told without this package's help, their order.
type kind struct {
	name string
	cols []mysql.Column // the value's column and the hidden ones it needs
	key  Key            // columns counted from the value's
	draw func(r *rand.Rand) (order any, send []value)
	cmp  func(a, b any) int
}

func ordered[T cmp.Ordered](a, b any) int { return cmp.Compare(a.(T), b.(T)) }

func temporal(year, month, day, h, m, s, us int) []byte {
	b := binary.LittleEndian.AppendUint16(nil, uint16(year))
	b = append(b, byte(month), byte(day))
	if h|m|s|us != 0 {
		b = append(b, byte(h), byte(m), byte(s))
	}
	if us != 0 {
		b = binary.LittleEndian.AppendUint32(b, uint32(us))
	}
	if year|month|day == 0 && len(b) == 4 {
		b = nil
	}
	return b
}

func clock(us int64) raw {
	sign, abs := "", us
	if us < 0 {
		sign, abs = "-", -us
	}
	s := abs / 1e6
	out := raw{text: fmt.Sprintf("%s%02d:%02d:%02d.%06d", sign, s/3600, s/60%60, s%60, abs%1e6)}
	if us == 0 {
		return out
	}
	out.bin = append(out.bin, byte(len(sign)))
	out.bin = binary.LittleEndian.AppendUint32(out.bin, uint32(s/86400))
	out.bin = append(out.bin, byte(s/3600%24), byte(s/60%60), byte(s%60))
	if abs%1e6 != 0 {
		out.bin = binary.LittleEndian.AppendUint32(out.bin, uint32(abs%1e6))
	}
	return out
}

func kinds() []kind {
	small := func(r *rand.Rand) int64 { return r.Int64N(41) - 20 }
	paddedTo := func(s, pad string, n int) string {
		return s + strings.Repeat(pad, n)[:n-len(s)]
	}
	weights := func(r *rand.Rand, unit int) string {
		letters := []string{"\x00\x09", "\x00\x20", "\x00\x41", "\x00\x42"}
		if unit == 1 {
			letters = []string{"\x09", "\x20", "\x41", "\x42"}
		}
		var b strings.Builder
		for range r.IntN(7) {
			b.WriteString(letters[r.IntN(4)])
		}
		return b.String()
	}
	text := func(name string, pad Padding, unit int) kind {
		return kind{name, []mysql.Column{textCol("v"), bytesCol("w")}, Key{Col: 0, Weight: 1, Pad: pad, NumericCol: -1},
			func(r *rand.Rand) (any, []value) {
				w := weights(r, unit)
				order := w
				if pad.Mode == PadSpace {
					order = paddedTo(w, pad.Space, 30)
				}
				return order, []value{fmt.Sprint(r.IntN(1000)), w}
			}, ordered[string]}
	}
	enum := textCol("v")
	enum.Type, enum.Flags = gomysql.MYSQL_TYPE_STRING, gomysql.ENUM_FLAG
	return []kind{
		{"int", []mysql.Column{col("v", gomysql.MYSQL_TYPE_LONG, 0, 0)}, at(0), func(r *rand.Rand) (any, []value) {
			n := small(r)
			return n, []value{n}
		}, ordered[int64]},
		{"tinyint", []mysql.Column{col("v", gomysql.MYSQL_TYPE_TINY, 0, 0)}, at(0), func(r *rand.Rand) (any, []value) {
			n := small(r) * 6
			return n, []value{n}
		}, ordered[int64]},
		{"bigint", []mysql.Column{intCol("v")}, at(0), func(r *rand.Rand) (any, []value) {
			n := int64(r.Uint64()) >> r.IntN(64)
			return n, []value{n}
		}, ordered[int64]},
		{"bigint unsigned", []mysql.Column{col("v", gomysql.MYSQL_TYPE_LONGLONG, gomysql.UNSIGNED_FLAG, 0)}, at(0), func(r *rand.Rand) (any, []value) {
			n := r.Uint64() >> r.IntN(64)
			return n, []value{n}
		}, ordered[uint64]},
		{"year", []mysql.Column{col("v", gomysql.MYSQL_TYPE_YEAR, gomysql.UNSIGNED_FLAG, 0)}, at(0), func(r *rand.Rand) (any, []value) {
			n := int64(1901 + r.IntN(255))
			return n, []value{n}
		}, ordered[int64]},
		{"decimal", []mysql.Column{decCol("v", 4)}, at(0), func(r *rand.Rand) (any, []value) {
			n := big.NewInt(int64(r.Uint64()) >> r.IntN(64))
			if r.IntN(3) == 0 { // beyond 18 digits
				n.Mul(n, big.NewInt(int64(r.Uint64())>>r.IntN(64)))
			}
			return n, []value{new(big.Rat).SetFrac(n, big.NewInt(10000)).FloatString(4)}
		}, func(a, b any) int { return a.(*big.Int).Cmp(b.(*big.Int)) }},
		{"decimal of 30 decimals", []mysql.Column{decCol("v", 30)}, at(0), func(r *rand.Rand) (any, []value) {
			n := new(big.Int).Mul(big.NewInt(small(r)), new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(r.IntN(40))), nil))
			return n, []value{new(big.Rat).SetFrac(n, new(big.Int).Exp(big.NewInt(10), big.NewInt(30), nil)).FloatString(30)}
		}, func(a, b any) int { return a.(*big.Int).Cmp(b.(*big.Int)) }},
		{"double", []mysql.Column{dblCol("v")}, at(0), func(r *rand.Rand) (any, []value) {
			f := math.Ldexp(float64(small(r)), r.IntN(400)-200)
			if f == 0 && r.IntN(2) == 0 {
				f = math.Copysign(0, -1)
			}
			return f, []value{f}
		}, ordered[float64]},
		{"float by number", []mysql.Column{col("v", gomysql.MYSQL_TYPE_FLOAT, 0, 31), dblCol("n")}, Key{Col: 0, Weight: -1, NumericCol: 1}, func(r *rand.Rand) (any, []value) {
			f := float32(r.IntN(9)) + 1e6
			bin := binary.LittleEndian.AppendUint32(nil, math.Float32bits(f))
			return f, []value{raw{"1e6", bin}, float64(f)}
		}, ordered[float32]},
		{"date", []mysql.Column{col("v", gomysql.MYSQL_TYPE_DATE, 0, 0)}, at(0), func(r *rand.Rand) (any, []value) {
			y, m, d := r.IntN(3)*1009, r.IntN(13), r.IntN(32)
			s := fmt.Sprintf("%04d-%02d-%02d", y, m, d)
			return s, []value{raw{s, temporal(y, m, d, 0, 0, 0, 0)}}
		}, ordered[string]},
		{"datetime(6)", []mysql.Column{col("v", gomysql.MYSQL_TYPE_DATETIME, 0, 6)}, at(0), func(r *rand.Rand) (any, []value) {
			u := time.Unix(r.Int64N(4)*86399, r.Int64N(3)*1e6*r.Int64N(300)).UTC()
			s := u.Format("2006-01-02 15:04:05.000000")
			return s, []value{raw{s, temporal(u.Year(), int(u.Month()), u.Day(), u.Hour(), u.Minute(), u.Second(), u.Nanosecond()/1000)}}
		}, ordered[string]},
		{"time(6)", []mysql.Column{col("v", gomysql.MYSQL_TYPE_TIME, 0, 6)}, at(0), func(r *rand.Rand) (any, []value) {
			us := small(r) * r.Int64N(4) * 37e9 / (1 + r.Int64N(3))
			return us, []value{clock(us)}
		}, ordered[int64]},
		{"bit", []mysql.Column{col("v", gomysql.MYSQL_TYPE_BIT, gomysql.UNSIGNED_FLAG, 0)}, at(0), func(r *rand.Rand) (any, []value) {
			n := uint16(r.IntN(1024))
			return n, []value{string([]byte{byte(n >> 8), byte(n)})}
		}, ordered[uint16]},
		{"enum by number", []mysql.Column{enum, intCol("n")}, Key{Col: 0, Weight: -1, NumericCol: 1}, func(r *rand.Rand) (any, []value) {
			n := r.IntN(3)
			return n, []value{[]string{"small", "large", "medium"}[n], int64(n)}
		}, ordered[int]},
		{"varbinary", []mysql.Column{bytesCol("v")}, at(0), func(r *rand.Rand) (any, []value) {
			b := make([]byte, r.IntN(20))
			for i := range b {
				b[i] = "\x00\x20ab\xff"[r.IntN(5)]
			}
			return string(b), []value{string(b)}
		}, ordered[string]},
		text("text, NO PAD", Padding{Mode: NoPad}, 2),
		text("text, PAD SPACE of two bytes", Padding{PadSpace, "\x00\x20"}, 2),
		text("text, PAD SPACE of one byte", Padding{PadSpace, "\x20"}, 1),
	}
}

// drawn is one row: its number, its value's place in the order (nil: NULL) and what is sent.
type drawn struct {
	id    int64
	order any
	send  []value
}

func (d drawn) row(cols []mysql.Column, isBinary bool) []byte {
	return encode(cols, isBinary, append([]value{d.id}, d.send...)...)
}

// TestMergeIsSortOfWhole: what comes out of sorted parts is what sorting all
// rows gives, for each type, direction, protocol, number of shards and limit;
// ties by input.
func TestMergeIsSortOfWhole(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	for _, k := range kinds() {
		t.Run(k.name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			for range 60 {
				mergeOnce(t, &k, r)
			}
		})
	}
}

func mergeOnce(t *testing.T, k *kind, r *rand.Rand) {
	t.Helper()
	isBinary, descending, sorted := r.IntN(2) == 0, r.IntN(2) == 0, r.IntN(3) == 0
	cols := append([]mysql.Column{intCol("id")}, k.cols...)
	compare := func(a, b drawn) int {
		c := 0
		switch {
		case a.order == nil && b.order == nil:
		case a.order == nil:
			c = -1
		case b.order == nil:
			c = 1
		default:
			c = k.cmp(a.order, b.order)
		}
		if descending {
			c = -c
		}
		return c
	}
	parts := make([][]drawn, 1+r.IntN(9))
	for id := range r.IntN(120) {
		d := drawn{id: int64(id), send: make([]value, len(k.cols))}
		if r.IntN(6) > 0 {
			d.order, d.send = k.draw(r)
		}
		i := r.IntN(len(parts))
		parts[i] = append(parts[i], d)
	}
	var whole []drawn
	in := make([]mysql.Rows, len(parts))
	for i, p := range parts {
		whole = append(whole, p...)
		if !sorted { // else Spec.Sort has all to do
			slices.SortStableFunc(p, compare)
		}
		m := &memRows{cols: cols, binary: isBinary}
		for _, d := range p {
			m.rows = append(m.rows, d.row(cols, isBinary))
		}
		in[i] = m
	}
	slices.SortStableFunc(whole, compare)

	key := k.key
	key.Col, key.Desc = key.Col+1, descending
	if key.Weight >= 0 {
		key.Weight++
	}
	if key.NumericCol >= 0 {
		key.NumericCol++
	}
	spec := Spec{Visible: 2, Order: []Key{key}}
	if sorted {
		spec.Order, spec.Sort = nil, spec.Order
	}
	var lim Limit
	if r.IntN(2) == 0 {
		lim = Limit{Offset: uint64(r.IntN(60)), Count: uint64(r.IntN(60)), Set: true}
		if r.IntN(8) == 0 {
			lim.Count = math.MaxUint64
		}
		whole = whole[min(lim.Offset, uint64(len(whole))):]
		whole = whole[:min(lim.Count, uint64(len(whole)))]
	}
	out, err := Merge(&spec, lim, in, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i, d := range whole {
		row, err := out.Next()
		if err != nil {
			t.Fatalf("row %d of %d: %v", i, len(whole), err)
		}
		d.send = d.send[:1]
		if want := d.row(cols[:2], isBinary); !bytes.Equal(row, want) {
			t.Fatalf("row %d of %d (binary %v, desc %v, sort %v, limit %+v): %x, want %x", i, len(whole), isBinary, descending, sorted, lim, []byte(row), want)
		}
	}
	if row, err := out.Next(); err == nil {
		t.Fatalf("a row too many: %x", []byte(row))
	}
	out.Close()
	wantClosed(t, in)
}
