package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"braid/tests/bench/lean"
	"braid/tests/bench/load"
)

// relayRows measures a large result of one shard: goal 10.
func relayRows(ctx context.Context, s *site, set *settings) error {
	haproxy, err := s.haproxy()
	if err != nil {
		return err
	}
	braid, err := s.startBraid("braid", []string{s.plain})
	if err != nil {
		return err
	}
	c := &cell{name: "rows", query: "SELECT id,c FROM sbtest1 LIMIT 10000", conns: 2, perRow: true, targets: []*target{haproxy, braid}}
	all, err := measure(ctx, set, []*cell{c})
	if err != nil {
		return err
	}
	printCells([]*cell{c}, all, haproxy)
	set.out.add(goal{"10", "10,000 rows of one shard, CPU per row", all[c].paired(braid, haproxy, cpuOf), 2, 1.4, " x haproxy"})
	return nil
}

// offsets measures pages far behind the start: goals 15 and 16.
func offsets(ctx context.Context, s *site, set *settings) error {
	plain, err := s.startBraid("braid", []string{s.plain})
	if err != nil {
		return err
	}
	sharded, err := s.startBraid("braid sharded", s.shards)
	if err != nil {
		return err
	}
	const page = "SELECT c FROM sbtest1 ORDER BY id LIMIT 90000, 10"
	one := &cell{name: "point select", query: pointSelect, conns: 4, targets: []*target{plain}}
	single := &cell{name: "page on one shard", query: page, conns: 4, targets: []*target{plain}}
	many := &cell{name: "page over 4 shards", query: "SELECT id,c FROM sbtest1 ORDER BY id LIMIT 90000, 10", conns: 1, targets: []*target{sharded}}
	cells := []*cell{one, single, many}
	all, err := measure(ctx, set, cells)
	if err != nil {
		return err
	}
	printCells(cells, all, nil)
	set.out.add(goal{"16", "OFFSET on one shard, CPU", pairedAcross(all[single][plain], all[one][plain], cpuOf), 2, 1.2, " x own point select"})
	const skipped = 90_000
	// The best peer measured needed 830 ns a row: 0.15 and 0.08 of that.
	set.out.add(goal{"15", "OFFSET over shards, CPU per skipped row", all[many].median(sharded, cpuOf) * 1e3 / skipped, 124, 66, " ns"})
	return nil
}

// topN measures the first rows of four shards: goal 9, for which the best peer
// spends about eight of haproxy's point selects.
func topN(ctx context.Context, s *site, set *settings) error {
	haproxy, err := s.haproxy()
	if err != nil {
		return err
	}
	sharded, err := s.startBraid("braid sharded", s.shards)
	if err != nil {
		return err
	}
	point := &cell{name: "point select", query: pointSelect, conns: 8, targets: []*target{haproxy, sharded}}
	top := &cell{name: "top 10", query: "SELECT id,c FROM sbtest1 ORDER BY id LIMIT 10", conns: 8, targets: []*target{sharded}}
	cells := []*cell{point, top}
	all, err := measure(ctx, set, cells)
	if err != nil {
		return err
	}
	printCells(cells, all, haproxy)
	set.out.add(goal{"9", "top 10 of 4 shards, CPU", pairedAcross(all[top][sharded], all[point][haproxy], cpuOf), 6, 4.4, " haproxy point selects"})
	return nil
}

const stream = "SELECT id,k,c FROM sbtest1 ORDER BY id"

// streams measures whole sorted results over four shards, each time with a
// fresh Braid: goals 11 to 14.
func streams(ctx context.Context, s *site, set *settings) error {
	const memoryMust, memoryAim = shardCount*0.25 + 4, shardCount*0.0625 + 2 // MiB
	for _, size := range []struct {
		rows  int
		nodes []string
	}{{smallRows, s.small}, {bigRows, s.shards}} {
		var perRow, firstShare, growth []float64
		for range min(3, set.repeats) {
			b, err := s.startBraid("braid sharded", size.nodes)
			if err != nil {
				return err
			}
			cpu, share, grown, err := streamOnce(b, size.rows)
			b.child.stop()
			if err != nil {
				return err
			}
			perRow, firstShare, growth = append(perRow, cpu), append(firstShare, share), append(growth, grown)
			fmt.Printf("%d rows: %.0f ns CPU a row, first row after %.1f%% of the time, peak memory grew by %.2f MiB\n", size.rows, cpu, share, grown)
		}
		name := fmt.Sprintf("ORDER BY of %d rows of 4 shards, ", size.rows)
		// The best peers measured needed 2100 and 1400 ns a row.
		set.out.add(goal{"11", name + "CPU per row", median(perRow), 308, 168, " ns"})
		set.out.add(goal{"12", name + "time to the first row", median(firstShare), 15, 8, "% of all"})
		set.out.add(goal{"13", name + "growth of peak memory", median(growth), memoryMust, memoryAim, " MiB"})
	}
	b, err := s.startBraid("braid sharded", s.shards)
	if err != nil {
		return err
	}
	grown, err := stalled(ctx, b)
	if err != nil {
		return err
	}
	set.out.add(goal{"14", "the same with a client that stops reading, growth of peak memory", grown, memoryMust, memoryAim, " MiB"})
	return nil
}

// streamOnce runs the stream of want rows: CPU nanoseconds a row, percent of the
// time until the first row, MiB that the peak of memory grew.
func streamOnce(b *target, want int) (perRow, firstShare, grown float64, err error) {
	if _, err := warm(b); err != nil {
		return 0, 0, 0, err
	}
	before, err1 := b.child.cpu()
	rss, err2 := b.child.memory("VmRSS")
	if err := errors.Join(err1, err2, b.child.resetPeak()); err != nil {
		return 0, 0, 0, err
	}
	// CPU is counted in ticks: a short stream runs several times.
	times := bigRows / want
	var shares []float64
	for range times {
		rows, first, total, err := load.Once(b.login(), stream)
		if err != nil {
			return 0, 0, 0, err
		}
		if rows != want {
			return 0, 0, 0, fmt.Errorf("%d rows, want %d", rows, want)
		}
		shares = append(shares, 100*float64(first)/float64(total))
	}
	after, err1 := b.child.cpu()
	peak, err2 := b.child.memory("VmHWM")
	if err := errors.Join(err1, err2); err != nil {
		return 0, 0, 0, err
	}
	return float64(after.sub(before).total()) / float64(want*times), median(shares), float64(peak-rss) / 1024, nil
}

// warm runs one small statement over all shards, so that the plan's and the
// connections' first use is not counted.
func warm(b *target) (int, error) {
	rows, _, _, err := load.Once(b.login(), "SELECT id,k,c FROM sbtest1 ORDER BY id LIMIT 10")
	return rows, err
}

// stalled starts the stream and does not read it: MiB that the peak of memory
// grew in three seconds.
func stalled(ctx context.Context, b *target) (grown float64, err error) {
	if _, err := warm(b); err != nil {
		return 0, err
	}
	c, err := b.login().Dial()
	if err != nil {
		return 0, err
	}
	defer c.Close()
	if tcp, ok := c.Conn.(*net.TCPConn); ok {
		if err := tcp.SetReadBuffer(64 << 10); err != nil {
			return 0, err
		}
	}
	rss, err := b.child.memory("VmRSS")
	if err := errors.Join(err, b.child.resetPeak()); err != nil {
		return 0, err
	}
	if _, err := c.Write(lean.AppendPacket(nil, 0, []byte("\x03"+stream))); err != nil {
		return 0, err
	}
	if _, _, err := c.ReadPacket(); err != nil { // it has begun
		return 0, err
	}
	pause(ctx, 3*time.Second)
	peak, err := b.child.memory("VmHWM")
	return float64(peak-rss) / 1024, err
}

// pause lets time pass, which is what is measured over.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
