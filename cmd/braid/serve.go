package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"

	"go.uber.org/zap"

	"braid/conf"
	"braid/proxy"
)

func serve(t terminal, c command, args []string) int {
	f := c.flags()
	path := configFlag(f)
	if _, code, ok := c.parse(t, f, args, 0); !ok {
		return code
	}
	// A reload finds the file wherever the process stands by then.
	absolute, err := filepath.Abs(*path)
	if err != nil {
		return c.fail(t, err)
	}
	cfg, ok := load(t, absolute)
	if !ok {
		return exitUsage
	}
	log, done, err := newLogger(cfg.Log, t.err)
	if err != nil {
		return c.fail(t, err)
	}
	defer done()

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // from the second signal on, the system's own: the process ends
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)

	log.Info("starting", zap.String("version", versionText()), zap.String("configuration", absolute), zap.Int("pid", os.Getpid()))
	srv, err := proxy.New(cfg, log)
	if err != nil {
		return c.fail(t, err)
	}
	srv.Load = func() (*conf.Config, error) { return conf.Load(absolute) }
	var reloading sync.WaitGroup
	reloading.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-hangup:
				reload(srv, absolute, log)
			}
		}
	})
	err = srv.Run(ctx)
	stop() // Run may end by itself, and the reloading ends with ctx
	reloading.Wait()
	if err != nil {
		return c.fail(t, err)
	}
	log.Info("stopped")
	return exitOK
}

// reload makes the file's present contents the configuration; whatever is wrong
// with them is logged and changes nothing.
func reload(srv *proxy.Server, path string, log *zap.Logger) {
	cfg, err := conf.Load(path)
	var problems conf.Problems
	if errors.As(err, &problems) {
		for _, p := range problems {
			log.Error("the configuration was not reloaded", zap.String("problem", p.Error()))
		}
		return
	}
	if err != nil {
		log.Error("the configuration was not reloaded", zap.Error(err))
		return
	}
	changes, err := srv.Reload(cfg)
	if err != nil {
		log.Error("the configuration was not reloaded", zap.Error(err))
		return
	}
	for _, ch := range changes {
		if ch.Effect == conf.EffectRestart {
			log.Warn("changed, from the next start on", zap.Stringer("change", ch))
			continue
		}
		log.Info("changed", zap.Stringer("change", ch))
	}
}
