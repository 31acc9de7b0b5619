package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"braid/tests/bench/load"
)

// idleMemory measures what 1000 idle clients hold: goal 19.
func idleMemory(ctx context.Context, s *site, set *settings) error {
	const clients = 1000
	haproxy, err := s.haproxy()
	if err != nil {
		return err
	}
	braid, err := s.startBraid("braid", []string{s.plain})
	if err != nil {
		return err
	}
	for _, t := range []*target{haproxy, braid} {
		if _, _, _, err := load.Once(t.login(), pointSelect); err != nil {
			return err
		}
		before, err := t.child.memory("VmRSS")
		if err != nil {
			return err
		}
		end, err := load.Idle(t.login(), clients, pointSelect)
		if err != nil {
			return err
		}
		pause(ctx, 2*time.Second)
		after, err := t.child.memory("VmRSS")
		end()
		if err != nil {
			return err
		}
		each := float64(after-before) / clients
		fmt.Printf("%s: %.1f KiB a client (%d to %d KiB)\n", t.name, each, before, after)
		if t == braid {
			set.out.add(goal{"19", "memory of an idle client, 1000 clients after one query", each, 12, 8, " KiB"})
		}
	}
	return nil
}

// allocations measures heap allocations of point selects in Braid's process:
// goal 21. With settings.profile it also takes profiles of
// CPU and allocations.
func allocations(ctx context.Context, s *site, set *settings) error {
	w, err := s.startWatched([]string{s.plain})
	if err != nil {
		return err
	}
	for _, prepared := range []bool{false, true} {
		form := "text"
		if prepared {
			form = "prepared"
		}
		var counts [2]float64
		var errs [2]error
		count := func(i int) func() {
			return func() {
				var text string
				if text, errs[i] = w.call("mallocs"); errs[i] == nil {
					counts[i], errs[i] = strconv.ParseFloat(text, 64)
				}
			}
		}
		r, err := load.Run(ctx, load.Options{Login: w.login(), Connections: 4, Query: pointSelect, Keys: plainRows, Prepared: prepared,
			Warm: set.warm, For: set.span, Seed: set.seed, Began: count(0), Ended: count(1)})
		if err != nil {
			return err
		}
		for _, err := range errs {
			if err != nil {
				return err
			}
		}
		each := (counts[1] - counts[0]) / float64(r.Queries)
		fmt.Printf("%s: %.2f allocations a query\n", form, each)
		set.out.add(goal{"21", form + " point select, heap allocations", each, 4, 1, ""})
	}
	if set.profile == "" {
		return nil
	}
	if _, err := w.call("profile " + set.profile); err != nil {
		return err
	}
	_, err = load.Run(ctx, load.Options{Login: w.login(), Connections: 16, Query: pointSelect, Keys: plainRows, For: 8 * time.Second, Seed: set.seed})
	if err != nil {
		return err
	}
	if _, err := w.call("stop"); err != nil {
		return err
	}
	_, err = w.call("heap " + set.profile + ".allocs")
	return err
}
