package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
	"strings"
	"sync"

	"go.uber.org/zap"

	"braid/conf"
	"braid/proxy"
	"braid/tests/bench/nullserver"
)

// nullMain serves null servers, each "addr/rows/base/stride", until killed.
func nullMain(specs []string) error {
	var group sync.WaitGroup
	for i, spec := range specs {
		var o nullserver.Options
		addr, rest, _ := strings.Cut(spec, "/")
		if _, err := fmt.Sscanf(rest, "%d/%d/%d", &o.Rows, &o.Base, &o.Stride); err != nil {
			return fmt.Errorf("%q: want addr/rows/base/stride: %w", spec, err)
		}
		o.Number = i + 1
		s, err := nullserver.Listen(addr, o)
		if err != nil {
			return err
		}
		group.Go(s.Serve)
	}
	group.Wait()
	return nil
}

// watchedMain serves Braid in this process and answers requests, one line each:
// "mallocs" with the heap allocations so far, "profile FILE" and "stop" around a
// CPU profile, "heap FILE" for a profile of the allocations so far.
func watchedMain(path string) error {
	cfg, err := conf.Load(path)
	if err != nil {
		return err
	}
	s, err := proxy.New(cfg, zap.NewNop())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	var profile *os.File
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		switch request, argument, _ := strings.Cut(in.Text(), " "); request {
		case "mallocs":
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			fmt.Println(m.Mallocs)
		case "profile":
			if profile, err = os.Create(argument); err != nil {
				return err
			}
			if err := pprof.StartCPUProfile(profile); err != nil {
				return err
			}
			fmt.Println("started")
		case "stop":
			pprof.StopCPUProfile()
			if err := profile.Close(); err != nil {
				return err
			}
			fmt.Println("stopped")
		case "heap":
			if err := writeAllocations(argument); err != nil {
				return err
			}
			fmt.Println("written")
		default:
			return fmt.Errorf("no such request: %q", in.Text())
		}
	}
	cancel()
	return <-ended
}

func writeAllocations(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := pprof.Lookup("allocs").WriteTo(f, 0); err != nil {
		return err
	}
	return f.Close()
}
