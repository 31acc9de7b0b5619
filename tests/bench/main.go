// Command bench measures what Braid costs beside haproxy (TCP mode, one thread)
// on null servers, where the proxy is the bottleneck, and prints the figures
// against the goals.
//
//	go build -o bin/bench ./tests/bench && bin/bench -braid bin/braid
//
// Only ratios within one run mean anything on a machine with other work: every
// repeat measures all proxies one after the other in a new order, and the ratio
// to haproxy is the median of the repeats' own ratios. CPU is user and system
// time of the proxy's process.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

// settings is what a run measures.
type settings struct {
	braid   string
	repeats int
	warm    time.Duration
	span    time.Duration // of one measurement
	conns   []int
	seed    uint64
	floor   bool
	profile string
	out     *report
}

// parts are the benchmarks in the order they run.
func parts() []part {
	return []part{
		{"points", "point selects: text and prepared, on one node and by the sharding key over four", points},
		{"relay", "a result of 10,000 rows of one shard", relayRows},
		{"offset", "LIMIT 90000,10 on one shard and over four", offsets},
		{"topn", "ORDER BY id LIMIT 10 over four shards", topN},
		{"stream", "ORDER BY and GROUP BY of 100,000 and 1,000,000 rows over four shards, also in a transaction; a client that stops reading", streams},
		{"idle", "memory of 1000 idle clients", idleMemory},
		{"allocs", "heap allocations of a point select", allocations},
	}
}

type part struct {
	name, what string
	run        func(context.Context, *site, *settings) error
}

func main() {
	var err error
	switch args := os.Args[1:]; {
	case len(args) > 1 && args[0] == "null":
		err = nullMain(args[1:])
	case len(args) == 3 && args[0] == "relay":
		err = serveRelay(args[1], args[2])
	case len(args) == 2 && args[0] == "watched":
		err = watchedMain(args[1])
	default:
		err = bench()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func bench() error {
	set := &settings{out: &report{}}
	all := parts()
	var names []string
	for _, p := range all {
		names = append(names, p.name)
	}
	flag.StringVar(&set.braid, "braid", "bin/braid", "Braid's binary")
	flag.IntVar(&set.repeats, "repeats", 7, "repeats of each measurement")
	flag.DurationVar(&set.span, "for", 1500*time.Millisecond, "length of one measurement")
	flag.DurationVar(&set.warm, "warm", 300*time.Millisecond, "warm-up before it")
	flag.Uint64Var(&set.seed, "seed", uint64(time.Now().UnixNano()), "of the order and the keys")
	flag.BoolVar(&set.floor, "floor", false, "measure a bare Go relay too")
	flag.StringVar(&set.profile, "profile", "", "write a CPU profile of text point selects to this file, and one of allocations to FILE.allocs (part allocs)")
	only := flag.String("only", strings.Join(names, ","), "the parts to run")
	conns := flag.String("conns", "1,16", "connections of point selects; 64 is for goal 8")
	gate := flag.Bool("gate", false, "fail when a point select costs more than -ratio times haproxy's")
	ratio := flag.Float64("ratio", 2.2, "the gate")
	flag.Parse()
	for _, text := range strings.Split(*conns, ",") {
		var n int
		if _, err := fmt.Sscan(text, &n); err != nil || n < 1 {
			return fmt.Errorf("-conns %s: not a list of numbers", *conns)
		}
		set.conns = append(set.conns, n)
	}
	wanted := strings.Split(*only, ",")
	for _, w := range wanted {
		if !slices.Contains(names, w) {
			return fmt.Errorf("-only %s: the parts are %s", w, strings.Join(names, ", "))
		}
	}
	if _, err := os.Stat(set.braid); err != nil {
		return fmt.Errorf("-braid: %w (make build)", err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	fmt.Printf("seed %d, %d repeats of %v\n", set.seed, set.repeats, set.span)
	var failed []error
	for _, p := range all {
		if !slices.Contains(wanted, p.name) {
			continue
		}
		fmt.Printf("\n## %s: %s\n\n", p.name, p.what)
		if err := runPart(ctx, p, set); err != nil {
			err = fmt.Errorf("%s: %w", p.name, err)
			fmt.Println(err)
			failed = append(failed, err)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	set.out.print()
	if *gate {
		failed = append(failed, set.out.gate(*ratio))
	}
	return errors.Join(failed...)
}

// runPart runs a part with servers and proxies of its own.
func runPart(ctx context.Context, p part, set *settings) error {
	s, err := newSite(set.braid)
	if err != nil {
		return err
	}
	defer s.close()
	return p.run(ctx, s, set)
}
