package main

import (
	"context"
	"fmt"
	"io"
	"os/signal"
	"syscall"

	"braid/proxy"
)

func explain(t terminal, c command, args []string) int {
	f := c.flags()
	path := configFlag(f)
	database := f.String("database", "", "the current database, by `name` (default the only one)")
	rest, code, ok := c.parse(t, f, args, 1)
	if !ok {
		return code
	}
	if len(rest) == 0 {
		return c.usage(t, "the statement is missing")
	}
	statement := rest[0]
	if statement == "-" {
		text, err := io.ReadAll(t.in)
		if err != nil {
			return c.fail(t, err)
		}
		statement = string(text)
	}
	cfg, ok := load(t, *path)
	if !ok {
		return exitUsage
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	plan, err := proxy.Explain(ctx, cfg, *database, statement)
	fmt.Fprint(t.out, plan) // also what was found before an error
	if err != nil {
		return c.fail(t, err)
	}
	return exitOK
}
