package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"text/tabwriter"
	"time"

	"braid/tests/bench/load"
)

// cell is one load put on several targets to compare.
type cell struct {
	name     string
	query    string
	conns    int
	prepared bool
	perRow   bool // CPU counts per row instead of per query
	targets  []*target
}

// sample is one measurement: CPU in microseconds per query (or row).
type sample struct {
	cpu, user float64
	qps       float64
	p50, p95  float64 // microseconds
}

// series holds a cell's samples by target, in the order of the repeats.
type series map[*target][]sample

// measureOnce puts the cell's load on t.
func (c *cell) measureOnce(ctx context.Context, t *target, set *settings, seed uint64) (sample, error) {
	var before, after cpuTime
	var errs [2]error
	r, err := load.Run(ctx, load.Options{Login: t.login(), Connections: c.conns, Query: c.query, Keys: plainRows, Prepared: c.prepared,
		Warm: set.warm, For: set.span, Seed: seed,
		Began: func() {
			if t.child != nil {
				before, errs[0] = t.child.cpu()
			}
		},
		Ended: func() {
			if t.child != nil {
				after, errs[1] = t.child.cpu()
			}
		}})
	if err == nil {
		err = errs[0]
	}
	if err == nil {
		err = errs[1]
	}
	if err != nil {
		return sample{}, fmt.Errorf("%s, %s: %w", c.name, t.name, err)
	}
	n := r.Queries
	if c.perRow {
		n = r.Rows
	}
	if n == 0 {
		return sample{}, fmt.Errorf("%s, %s: nothing was answered in %v", c.name, t.name, r.Elapsed)
	}
	used := after.sub(before)
	us := func(d time.Duration) float64 { return float64(d) / 1e3 }
	return sample{cpu: us(used.total()) / float64(n), user: us(used.user) / float64(n), qps: r.QPS(), p50: us(r.P50), p95: us(r.P95)}, nil
}

// measure repeats the cells, in a new order each time.
func measure(ctx context.Context, set *settings, cells []*cell) (map[*cell]series, error) {
	rng := rand.New(rand.NewPCG(set.seed, 0))
	all := map[*cell]series{}
	for _, c := range cells {
		all[c] = series{}
	}
	for range set.repeats {
		order := slices.Clone(cells)
		rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		for _, c := range order {
			targets := slices.Clone(c.targets)
			rng.Shuffle(len(targets), func(i, j int) { targets[i], targets[j] = targets[j], targets[i] })
			for _, t := range targets {
				s, err := c.measureOnce(ctx, t, set, rng.Uint64())
				if err != nil {
					return nil, err
				}
				all[c][t] = append(all[c][t], s)
			}
		}
	}
	return all, nil
}

// Figures of a sample.
func cpuOf(s sample) float64  { return s.cpu }
func userOf(s sample) float64 { return s.user }
func qpsOf(s sample) float64  { return s.qps }
func p50Of(s sample) float64  { return s.p50 }
func p95Of(s sample) float64  { return s.p95 }

func median(v []float64) float64 {
	if len(v) == 0 {
		return math.NaN()
	}
	v = slices.Sorted(slices.Values(v))
	if n := len(v); n%2 == 0 {
		return (v[n/2-1] + v[n/2]) / 2
	}
	return v[len(v)/2]
}

// median is the median of a figure of t.
func (s series) median(t *target, figure func(sample) float64) float64 {
	var v []float64
	for _, x := range s[t] {
		v = append(v, figure(x))
	}
	return median(v)
}

// paired is the median over the repeats of t's figure over base's in the same
// repeat.
func (s series) paired(t, base *target, figure func(sample) float64) float64 {
	return pairedAcross(s[t], s[base], figure)
}

func pairedAcross(of, base []sample, figure func(sample) float64) float64 {
	var v []float64
	for i := range min(len(of), len(base)) {
		if b := figure(base[i]); b > 0 {
			v = append(v, figure(of[i])/b)
		}
	}
	return median(v)
}

// printCells prints the cells' medians, with ratios to base where there is one.
func printCells(cells []*cell, all map[*cell]series, base *target) {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	defer w.Flush()
	name := "proxy"
	if base != nil {
		name = base.name
	}
	fmt.Fprintf(w, "load\ttarget\tCPU us\tuser us\tx %s\tuser x\tQPS\tp50 us\tp95 us\t\n", name)
	number := func(v float64, digits int) string {
		if math.IsNaN(v) {
			return "-"
		}
		return fmt.Sprintf("%.*f", digits, v)
	}
	for _, c := range cells {
		s := all[c]
		digits := 1
		if c.perRow {
			digits = 3
		}
		for _, t := range c.targets {
			cpu, user, ratio, userRatio := math.NaN(), math.NaN(), math.NaN(), math.NaN()
			if t.child != nil {
				cpu, user = s.median(t, cpuOf), s.median(t, userOf)
				if base != nil {
					ratio, userRatio = s.paired(t, base, cpuOf), s.paired(t, base, userOf)
				}
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%.0f\t%.0f\t%.0f\t\n", c.name, t.name, number(cpu, digits), number(user, digits), number(ratio, 2), number(userRatio, 2),
				s.median(t, qpsOf), s.median(t, p50Of), s.median(t, p95Of))
		}
	}
}
