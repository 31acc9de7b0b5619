//go:build unix

package merge

import (
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"braid/internal/mysql"
)

const benchRows = 25000 // of each shard

// stream is an input over rows laid one behind the other, as they lie in a
// connection's buffer.
type stream struct {
	cols []mysql.Column
	p    []byte
	ends []int32
	n    int
}

func (s *stream) Columns() []mysql.Column { return s.cols }
func (s *stream) Binary() bool            { return false }
func (s *stream) Close() error            { return nil }

func (s *stream) add(vals ...value) {
	s.p = append(s.p, encode(s.cols, false, vals...)...)
	s.ends = append(s.ends, int32(len(s.p)))
}

func (s *stream) Next() (mysql.Row, error) {
	if s.n == len(s.ends) {
		return nil, io.EOF
	}
	from := int32(0)
	if s.n > 0 {
		from = s.ends[s.n-1]
	}
	row := s.p[from:s.ends[s.n]]
	s.n++
	return row, nil
}

// drain reads all rows and writes them one behind the other, as a connection does.
func drain(b *testing.B, buf []byte, spec *Spec, lim Limit, in []mysql.Rows) (rows int) {
	for _, r := range in {
		r.(*stream).n = 0
	}
	out, err := Merge(spec, lim, in, Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer out.Close()
	for {
		row, err := out.Next()
		if err == io.EOF {
			return rows
		}
		if err != nil {
			b.Fatal(err)
		}
		rows++
		if len(buf)+4+len(row) > cap(buf) {
			buf = buf[:0]
		}
		buf = append(append(buf, byte(len(row)), byte(len(row)>>8), byte(len(row)>>16), byte(rows)), row...)
	}
}

// cpu is the processor time of this process in nanoseconds.
func cpu() int64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return u.Utime.Nano() + u.Stime.Nano()
}

// perRow reports the processor time since start for each row: other load on
// the machine disturbs it less than it does ns/op.
func perRow(b *testing.B, start int64, rows int) {
	b.ReportMetric(float64(cpu()-start)/float64(rows), "cpu-ns/row")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkMerge has the rows of the lab's mergebench: a key, 119 and 59 bytes.
func BenchmarkMerge(b *testing.B) {
	c, pad := strings.Repeat("c", 119), strings.Repeat("p", 59)
	buf := make([]byte, 0, 32<<10)
	for _, n := range []int{1, 4, 16, 64} {
		for _, kind := range []string{"int", "bytes", "text"} {
			cols := []mysql.Column{intCol("k"), bytesCol("c"), bytesCol("pad")}
			key := at(0)
			switch kind {
			case "bytes":
				cols[0] = bytesCol("k")
			case "text":
				cols[0] = textCol("k")
				cols = append(cols, bytesCol("w"))
				key.Weight, key.Pad = 3, PaddingOf("latin1_swedish_ci")
			}
			in := make([]mysql.Rows, n)
			for i := range in {
				in[i] = &stream{cols: cols}
			}
			for i := range n * benchRows {
				vals := []value{i, c, pad}
				if kind != "int" {
					vals[0] = fmt.Sprintf("customer-%012d", i)
				}
				if kind == "text" {
					vals = append(vals, vals[0])
				}
				in[i%n].(*stream).add(vals...)
			}
			spec := &Spec{Visible: 3, Order: []Key{key}}
			for _, skip := range []bool{false, true} {
				b.Run(fmt.Sprintf("shards=%d/%s/skip=%v", n, kind, skip), func(b *testing.B) {
					b.ReportAllocs()
					runtime.GC()
					start := cpu()
					lim := Limit{Set: skip, Offset: uint64(n * benchRows), Count: 1}
					if !skip {
						lim.Offset = 0
					}
					for b.Loop() {
						drain(b, buf, spec, lim, in)
					}
					perRow(b, start, b.N*n*benchRows)
				})
			}
		}
	}
}

// BenchmarkGroup merges partial COUNT and SUM of groups over 4 shards; ns are
// for one partial row.
func BenchmarkGroup(b *testing.B) {
	buf := make([]byte, 0, 32<<10)
	cols := []mysql.Column{intCol("g"), intCol("n"), decCol("s", 2), decCol("a", 6)}
	for _, groups := range []int{100, 100000} {
		in := make([]mysql.Rows, 4)
		for i := range in {
			s := &stream{cols: cols}
			for g := range groups {
				s.add(g, 250, "177572.86", "710.291440")
			}
			in[i] = s
		}
		for _, avg := range []bool{false, true} {
			spec := &Spec{Visible: 3, Order: []Key{at(0)}, Group: []Key{at(0)}, Aggregate: true,
				Aggs: []Agg{{Kind: AggCount, Col: 1}, {Kind: AggSum, Col: 2}}}
			if avg {
				spec.Visible = 4
				spec.Aggs = append(spec.Aggs, Agg{Kind: AggAvg, Col: 3, SumCol: 2, CountCol: 1})
			}
			b.Run(fmt.Sprintf("groups=%d/avg=%v", groups, avg), func(b *testing.B) {
				b.ReportAllocs()
				runtime.GC()
				start := cpu()
				for b.Loop() {
					drain(b, buf, spec, Limit{}, in)
				}
				perRow(b, start, b.N*4*groups)
			})
		}
	}
}

// BenchmarkSort sorts 100000 rows of 4 shards, whole and for a LIMIT 10.
func BenchmarkSort(b *testing.B) {
	buf := make([]byte, 0, 32<<10)
	cols := []mysql.Column{intCol("a"), bytesCol("pad")}
	r := rand.New(rand.NewPCG(1, 2))
	in := make([]mysql.Rows, 4)
	for i := range in {
		s := &stream{cols: cols}
		for range benchRows {
			s.add(strconv.Itoa(r.IntN(1e9)), strings.Repeat("p", 50))
		}
		in[i] = s
	}
	for name, lim := range map[string]Limit{"all": {}, "limit=10": {Count: 10, Set: true}} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			runtime.GC()
			start := cpu()
			for b.Loop() {
				drain(b, buf, &Spec{Sort: []Key{desc(0)}}, lim, slices.Clone(in))
			}
			perRow(b, start, b.N*4*benchRows)
		})
	}
}
