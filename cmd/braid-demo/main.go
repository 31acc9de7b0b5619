// Command braid-demo starts everything that a look at Braid needs: two nodes
// with four shards, Braid in front of them, a sample shop; it then tours the
// shop, showing for each statement where it went. It stays up until it is
// interrupted.
//
// It is a module of its own, because it can run on an embedded engine where no
// MySQL server is installed, and bin/braid must not carry that engine.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"braid/conf"
	"braid/proxy"
)

func main() {
	os.Exit(run(os.Stdout, os.Stderr, os.Args[1:]))
}

// run is the whole command; it answers the exit code.
func run(out, problems io.Writer, args []string) int {
	f := flag.NewFlagSet("braid demo", flag.ContinueOnError)
	f.SetOutput(problems)
	server := f.String("server", "auto", "what the nodes are: auto (what this machine has), mariadb, mysql or embedded")
	once := f.Bool("once", false, "end after the tour")
	f.Usage = func() {
		fmt.Fprint(problems, "Usage: braid demo [flags]\n\nStart four shards on two nodes with a sample shop, and tour it.\n\nFlags:\n")
		f.PrintDefaults()
	}
	if err := f.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		return 2
	}
	if f.NArg() > 0 {
		fmt.Fprintf(problems, "braid demo: unexpected argument %q\n", f.Arg(0))
		return 2
	}
	// Where nobody reads the output any more (a pipe to head), the demo still has
	// to end in order.
	signal.Ignore(syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if err := demo(ctx, out, *server, *once); err != nil {
		if ctx.Err() != nil {
			return 0 // interrupted: whatever failed, failed for that
		}
		fmt.Fprintf(problems, "braid demo: %v\n", err)
		return 1
	}
	return 0
}

// demo runs until ctx ends, or to the tour's end. All that it starts and writes
// is gone when it returns.
func demo(ctx context.Context, out io.Writer, server string, once bool) (err error) {
	began := time.Now()
	// Short, since a socket's path may have about 100 characters only.
	dir, err := os.MkdirTemp("", "braid-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()

	nodes, err := startNodes(ctx, out, server, dir)
	if err != nil {
		return err
	}
	defer nodes.stop()

	path := filepath.Join(dir, "braid.toml")
	ports, err := choosePorts()
	if err != nil {
		return err
	}
	if err := os.WriteFile(path, []byte(configuration(nodes, ports)), 0o600); err != nil {
		return err
	}
	if err := nodes.createSchemas(ctx); err != nil {
		return err
	}
	logFile, err := os.Create(filepath.Join(dir, "braid.log"))
	if err != nil {
		return err
	}
	defer logFile.Close()
	end, err := serve(path, logFile)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()

	s, err := openShop(out, nodes, ports, path)
	if err != nil {
		return err
	}
	defer s.close()
	if err := s.load(ctx); err != nil {
		return fmt.Errorf("loading the shop: %w", err)
	}
	fmt.Fprintf(out, "Up after %.1f seconds.\n", time.Since(began).Seconds())
	if err := s.tour(ctx); err != nil {
		return err
	}
	s.howToConnect()
	if once {
		return nil
	}
	fmt.Fprintln(out, "\nCtrl-C ends it and removes everything.")
	<-ctx.Done()
	return nil
}

// serve starts Braid on a configuration file. end drains and ends it.
func serve(path string, logTo io.Writer) (end func() error, err error) {
	cfg, err := conf.Load(path)
	if err != nil {
		return nil, err
	}
	format := zap.NewProductionEncoderConfig()
	format.EncodeTime = zapcore.RFC3339TimeEncoder
	log := zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(format), zapcore.Lock(zapcore.AddSync(logTo)), zap.InfoLevel))
	srv, err := proxy.New(cfg, log)
	if err != nil {
		return nil, err
	}
	srv.Load = func() (*conf.Config, error) { return conf.Load(path) }
	// Its own context: Braid ends after the clients that the demo opens.
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- srv.Run(ctx) }()
	return func() error {
		cancel()
		return <-done
	}, nil
}
