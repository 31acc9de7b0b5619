package main

import (
	"context"
	"fmt"
	"io"
	"os/signal"
	"strings"
	"syscall"

	"braid/conf"
	"braid/proxy"
)

func check(t terminal, c command, args []string) int {
	f := c.flags()
	path := configFlag(f)
	live := f.Bool("live", false, "ask the nodes too")
	show := f.Bool("print", false, "print the configuration, defaults filled in, passwords hidden")
	if _, code, ok := c.parse(t, f, args, 0); !ok {
		return code
	}
	cfg, ok := load(t, *path)
	if !ok {
		return exitUsage
	}
	if *show {
		fmt.Fprint(t.out, cfg)
		return exitOK
	}
	fmt.Fprintf(t.out, "%s: valid: %s\n", *path, contents(cfg))
	if !*live {
		return exitOK
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	findings, err := proxy.CheckLive(ctx, cfg)
	if err != nil {
		return c.fail(t, err)
	}
	return report(t.out, findings)
}

// report prints what was found on the nodes; an error among it fails the check.
func report(w io.Writer, findings []proxy.Finding) int {
	code := exitOK
	for _, f := range findings {
		text := f.What
		if f.Fix != "" {
			text += "; " + f.Fix
		}
		fmt.Fprintln(w, strings.TrimSpace(fmt.Sprintf("%-6s%-10s%s", f.Level, f.Node, text)))
		if f.Level == "error" {
			code = exitFailure
		}
	}
	return code
}

// contents counts what the configuration has.
func contents(cfg *conf.Config) string {
	shards, tables := 0, 0
	for _, d := range cfg.Databases {
		shards += len(d.Shards)
		tables += len(d.Tables)
	}
	count := func(n int, one, many string) string {
		if n == 1 {
			return "1 " + one
		}
		return fmt.Sprintf("%d %s", n, many)
	}
	return fmt.Sprintf("%s, %s over %s, %s, %s", count(len(cfg.Nodes), "node", "nodes"), count(len(cfg.Databases), "database", "databases"),
		count(shards, "shard", "shards"), count(tables, "table rule", "table rules"), count(len(cfg.Users), "user", "users"))
}
