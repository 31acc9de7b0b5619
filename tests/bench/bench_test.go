package main

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"net"
	"testing"

	_ "github.com/go-sql-driver/mysql"
	"go.uber.org/zap"

	"braid/conf"
	"braid/proxy"
	"braid/tests/bench/load"
	"braid/tests/bench/nullserver"
)

// startBraid starts Braid in this process over count null servers that have
// rows rows together, with the configuration of the benchmarks. A server has one
// shard, or each of its rows in both of two.
func startBraid(t *testing.T, count, rows int, twice bool) *target {
	t.Helper()
	var nodes []string
	for i := range count {
		n, err := nullserver.Listen("127.0.0.1:0", nullserver.Options{Rows: rows / count, Base: int64(i + 1), Stride: int64(count), Number: i + 1})
		if err != nil {
			t.Fatal(err)
		}
		go n.Serve()
		t.Cleanup(func() { n.Close() })
		nodes = append(nodes, n.Addr())
	}
	if twice {
		nodes = append(nodes, nodes...)
	}
	s := &site{dir: t.TempDir()}
	path, err := s.configuration("test", "127.0.0.1:0", nodes)
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := conf.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	b, err := proxy.New(cfg, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- b.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return &target{name: "braid", addr: b.Addr().String()}
}

// TestBraidServesTheLoads runs what the benchmarks measure and looks at the
// answers, which the benchmarks only count.
func TestBraidServesTheLoads(t *testing.T) {
	for _, nodes := range []int{1, 4} {
		t.Run(fmt.Sprintf("%d nodes", nodes), func(t *testing.T) {
			const rows = 10_000
			b := startBraid(t, nodes, rows, false)
			for _, q := range []struct {
				text  string
				first int
				rows  int
			}{
				{stream, 1, rows},
				{"SELECT id,c FROM sbtest1 ORDER BY id LIMIT 10", 1, 10},
				{"SELECT id,c FROM sbtest1 ORDER BY id LIMIT 9000, 10", 9001, 10},
			} {
				db, err := sql.Open("mysql", fmt.Sprintf("%s:%s@tcp(%s)/sb", userName, password, b.addr))
				if err != nil {
					t.Fatal(err)
				}
				defer db.Close()
				found, err := db.QueryContext(t.Context(), q.text)
				if err != nil {
					t.Fatal(q.text, err)
				}
				columns, err := found.Columns()
				if err != nil {
					t.Fatal(err)
				}
				var id int
				values := []any{&id}
				for range columns[1:] {
					values = append(values, new(string))
				}
				n := 0
				for found.Next() {
					if err := found.Scan(values...); err != nil {
						t.Fatal(q.text, err)
					}
					if id != q.first+n {
						t.Fatalf("%s: row %d has id %d, want %d", q.text, n, id, q.first+n)
					}
					n++
				}
				if err := found.Err(); err != nil || n != q.rows {
					t.Errorf("%s: %d rows, %v", q.text, n, err)
				}
			}
			for _, prepared := range []bool{false, true} {
				r, err := load.Run(t.Context(), load.Options{Login: b.login(), Connections: 2, Query: pointSelect, Keys: 100, Prepared: prepared, For: 1e8})
				if err != nil || r.Queries == 0 || r.Rows != r.Queries {
					t.Errorf("prepared %t: %+v, %v", prepared, r, err)
				}
			}
		})
	}
}

// TestStreamsAreWhole looks at the answers of the streams, of which the
// benchmark only counts the rows.
func TestStreamsAreWhole(t *testing.T) {
	const rows = 8000
	for _, kind := range streamKinds() {
		t.Run(kind.name, func(t *testing.T) {
			count, each := 4, 1
			if kind.shared {
				count, each = 2, 2
			}
			b := startBraid(t, count, rows/each, kind.shared)
			db, err := sql.Open("mysql", fmt.Sprintf("%s:%s@tcp(%s)/sb", userName, password, b.addr))
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			c, err := db.Conn(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			for _, text := range kind.before {
				if _, err := c.ExecContext(t.Context(), text); err != nil {
					t.Fatal(text, err)
				}
			}
			n := 0
			found, err := c.QueryContext(t.Context(), kind.text)
			if err != nil {
				t.Fatal(err)
			}
			defer found.Close()
			columns, err := found.Columns()
			if err != nil {
				t.Fatal(err)
			}
			var id int
			values := []any{&id}
			for range columns[1:] {
				values = append(values, new(string))
			}
			for found.Next() {
				if err := found.Scan(values...); err != nil {
					t.Fatal(err)
				}
				if id != n/each+1 {
					t.Fatalf("row %d has id %d, want %d", n, id, n/each+1)
				}
				n++
			}
			if err := found.Err(); err != nil || n != rows {
				t.Errorf("%d rows, %v", n, err)
			}
		})
	}
}

func TestFollowerFindsTheEnd(t *testing.T) {
	// A column count, a column, EOF, a row that begins as an EOF does but is long, EOF.
	row := append([]byte{12, 0, 0, 4, 0xfe}, make([]byte, 11)...)
	var answer []byte
	for _, p := range [][]byte{{1, 0, 0, 1, 1}, {3, 0, 0, 2, 'a', 'b', 'c'}, {5, 0, 0, 3, 0xfe, 0, 0, 2, 0}, row, {5, 0, 0, 5, 0xfe, 0, 0, 2, 0}} {
		answer = append(answer, p...)
	}
	for size := 1; size <= len(answer); size++ {
		var f follower
		for at := 0; at < len(answer); at += size {
			to := min(at+size, len(answer))
			if end := f.feed(answer[at:to]); end != (to == len(answer)) {
				t.Fatalf("pieces of %d: end %t after %d of %d bytes", size, end, to, len(answer))
			}
		}
	}
}

func TestRelayPassesAnswers(t *testing.T) {
	n, err := nullserver.Listen("127.0.0.1:0", nullserver.Options{Rows: 1000, Base: 1, Stride: 1, Number: 1})
	if err != nil {
		t.Fatal(err)
	}
	go n.Serve()
	defer n.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		if nc, err := l.Accept(); err == nil {
			_ = relaySession(nc, n.Addr())
		}
	}()
	relay := target{addr: l.Addr().String()}
	if rows, _, _, err := load.Once(relay.login(), stream); err != nil || rows != 1000 {
		t.Errorf("%d rows, %v", rows, err)
	}
}

func TestVerdicts(t *testing.T) {
	for _, c := range []struct {
		got  float64
		want string
	}{{1.504, "reached"}, {1.8, "held"}, {1.804, "held"}, {1.81, "MISSED"}, {math.NaN(), "MISSED"}} {
		g := goal{number: pointGoal, got: c.got, must: 1.8, aim: 1.5}
		if v := g.verdict(); v != c.want {
			t.Errorf("%v: %s, want %s", c.got, v, c.want)
		}
		r := report{[]goal{g}}
		if err := r.gate(1.81); (err != nil) != (c.got != c.got) {
			t.Errorf("the gate of 1.81 for %v: %v", c.got, err)
		}
	}
	if err := new(report).gate(2); err == nil {
		t.Error("a gate without a figure passes")
	}
}

func TestMedians(t *testing.T) {
	a, b := &target{}, &target{}
	s := series{a: {{cpu: 2}, {cpu: 9}, {cpu: 4}}, b: {{cpu: 1}, {cpu: 3}, {cpu: 4}}}
	if m := s.median(a, cpuOf); m != 4 {
		t.Errorf("median %v, want 4", m)
	}
	if m := s.paired(a, b, cpuOf); m != 2 { // of 2, 3 and 1
		t.Errorf("paired %v, want 2", m)
	}
	if m := median([]float64{4, 1, 3, 2}); m != 2.5 {
		t.Errorf("median of four %v, want 2.5", m)
	}
	if !math.IsNaN(median(nil)) {
		t.Error("a median of nothing")
	}
}
