package main

import (
	"context"
	"fmt"
	"slices"
)

const pointSelect = "SELECT c FROM sbtest1 WHERE id={id}"

// points measures point selects: goals 1, 3, 4, 6, 7 and 8.
func points(ctx context.Context, s *site, set *settings) error {
	direct := s.direct()
	haproxy, err := s.haproxy()
	if err != nil {
		return err
	}
	plain, err := s.startBraid("braid", []string{s.plain})
	if err != nil {
		return err
	}
	sharded, err := s.startBraid("braid sharded", s.shards)
	if err != nil {
		return err
	}
	targets := []*target{direct, haproxy, plain, sharded}
	if set.floor {
		floor, err := s.floor()
		if err != nil {
			return err
		}
		targets = append(targets, floor)
	}
	var cells []*cell
	find := map[string]*cell{}
	for _, n := range set.conns {
		for _, prepared := range []bool{false, true} {
			form := "text"
			if prepared {
				form = "prepared"
			}
			c := &cell{name: fmt.Sprintf("%s %d", form, n), query: pointSelect, conns: n, prepared: prepared, targets: targets}
			cells = append(cells, c)
			find[c.name] = c
		}
	}
	all, err := measure(ctx, set, cells)
	if err != nil {
		return err
	}
	printCells(cells, all, haproxy)
	if text, prepared := all[find["text 16"]], all[find["prepared 16"]]; text != nil {
		set.out.add(goal{pointGoal, "point select, text, 16 connections, CPU", text.paired(plain, haproxy, cpuOf), 1.8, 1.5, " x haproxy"})
		set.out.add(goal{"3", "the same, user CPU", text.paired(plain, haproxy, userOf), 3.5, 2.5, " x haproxy"})
		set.out.add(goal{"4", "prepared point select, 16 connections, CPU", prepared.paired(plain, haproxy, cpuOf), 1.8, 1.5, " x haproxy"})
		set.out.add(goal{"4", "the same", pairedAcross(prepared[plain], text[plain], cpuOf), 1.8, 1, " x own text"})
		set.out.add(goal{"6", "point select on the sharding key, text, 16 connections, CPU", text.paired(sharded, plain, cpuOf), 1.15, 1.05, " x own unsharded"})
	}
	if s := all[find["text 1"]]; s != nil {
		added := func(t *target) float64 { return s.median(t, p50Of) - s.median(direct, p50Of) }
		set.out.add(goal{"7", "latency added to a point select, text, 1 connection", added(plain) / added(haproxy), 1.5, 1.2, " x haproxy's"})
	}
	if slices.Contains(set.conns, 64) {
		set.out.add(goal{"8", "point select, text, 64 connections, p95", all[find["text 64"]].paired(plain, haproxy, p95Of), 1.3, 1.1, " x haproxy"})
	}
	return nil
}
