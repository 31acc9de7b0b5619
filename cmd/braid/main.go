// Command braid is a sharding SQL proxy for MySQL. Each subcommand reads its
// flags and the configuration and hands both to package proxy.
//
// It exits with 0 when all went well, 1 when something failed, and 2 when it was
// called wrongly or the configuration is not valid.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"braid/conf"
)

const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 2 // usage or configuration
)

// terminal is what a command reads and writes.
type terminal struct {
	in       io.Reader
	out, err io.Writer
}

// command is one subcommand. It answers the exit code.
type command struct {
	name      string
	arguments string // behind the flags, for the help
	summary   string // one line
	details   string // what more the help says
	run       func(t terminal, c command, args []string) int
}

func commands() []command {
	return []command{
		{"serve", "", "serve clients until SIGINT or SIGTERM",
			"SIGHUP reads the configuration again. The first SIGINT or SIGTERM lets open transactions\n" +
				"finish, for timeouts.drain at most; a second one ends Braid at once.", serve},
		{"check", "", "say what is wrong with a configuration",
			"Problems go to standard error, each with its line and column. With --live the nodes are\n" +
				"asked too: whether they answer, their versions, privileges and settings.", check},
		{"explain", "STATEMENT", "show how a statement would be run, and on which shards",
			"The statement is not run. \"-\" reads it from standard input.", explain},
		{"demo", "", "start a sample shop over four shards, and tour it",
			"It needs nothing but braid-demo, which \"make demo\" builds. It stays up until Ctrl-C.", demo},
		{"version", "", "say which version this is", "", printVersion},
	}
}

func main() {
	os.Exit(run(terminal{os.Stdin, os.Stdout, os.Stderr}, os.Args[1:]))
}

func run(t terminal, args []string) int {
	if len(args) == 0 {
		overview(t.err)
		return exitUsage
	}
	name := args[0]
	switch name {
	case "help", "-h", "-help", "--help":
		if len(args) < 2 {
			overview(t.out)
			return exitOK
		}
		name, args = args[1], []string{args[1], "--help"}
	case "-version", "--version":
		name = "version"
	}
	for _, c := range commands() {
		if c.name == name {
			return c.run(t, c, args[1:])
		}
	}
	fmt.Fprintf(t.err, "braid: there is no command %q\n\n", name)
	overview(t.err)
	return exitUsage
}

func overview(w io.Writer) {
	fmt.Fprint(w, "Braid makes many MySQL servers look like one.\n\nUsage: braid COMMAND [flags]\n\n")
	for _, c := range commands() {
		fmt.Fprintf(w, "  %-9s%s\n", c.name, c.summary)
	}
	fmt.Fprint(w, "\nbraid COMMAND --help says more. Exit codes: 0 all went well, 1 something failed,\n2 wrong usage or configuration.\n")
}

// flags makes the command's flag set, whose help goes where the command says.
func (c command) flags() *flag.FlagSet {
	f := flag.NewFlagSet(c.name, flag.ContinueOnError)
	f.SetOutput(io.Discard) // parse prints
	return f
}

// parse reads the flags and answers the arguments, between none and most. Unless
// ok, the command is done, with the exit code.
func (c command) parse(t terminal, f *flag.FlagSet, args []string, most int) (rest []string, code int, ok bool) {
	switch err := f.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		c.help(t.out, f)
		return nil, exitOK, false
	case err != nil:
		return nil, c.usage(t, err.Error()), false
	case f.NArg() > most:
		return nil, c.usage(t, fmt.Sprintf("unexpected argument %q", f.Arg(most))), false
	}
	return f.Args(), exitOK, true
}

// usage reports a wrong call.
func (c command) usage(t terminal, what string) int {
	fmt.Fprintf(t.err, "braid %s: %s\nbraid %s --help says how it is called.\n", c.name, what, c.name)
	return exitUsage
}

func (c command) help(w io.Writer, f *flag.FlagSet) {
	hasFlags := false
	f.VisitAll(func(*flag.Flag) { hasFlags = true })
	call := "braid " + c.name
	if hasFlags {
		call += " [flags]"
	}
	if c.arguments != "" {
		call += " " + c.arguments
	}
	fmt.Fprintf(w, "Usage: %s\n\n%s%s.\n", call, strings.ToUpper(c.summary[:1]), c.summary[1:])
	if c.details != "" {
		fmt.Fprintf(w, "%s\n", c.details)
	}
	if !hasFlags {
		return
	}
	fmt.Fprint(w, "\nFlags:\n")
	f.VisitAll(func(fl *flag.Flag) {
		value, usage := flag.UnquoteUsage(fl)
		fmt.Fprintf(w, "  %-18s%s", strings.TrimSpace("--"+fl.Name+" "+value), usage)
		if fl.DefValue != "" && fl.DefValue != "false" {
			fmt.Fprintf(w, " (default %s)", fl.DefValue)
		}
		fmt.Fprintln(w)
	})
}

// configFlag adds --config.
func configFlag(f *flag.FlagSet) *string {
	return f.String("config", "braid.toml", "the configuration, a TOML `file`")
}

// load reads the configuration; unless ok, the problems were printed.
func load(t terminal, path string) (cfg *conf.Config, ok bool) {
	cfg, err := conf.Load(path)
	if err != nil {
		fmt.Fprintln(t.err, err)
		return nil, false
	}
	return cfg, true
}

// fail reports an error that ends a command.
func (c command) fail(t terminal, err error) int {
	fmt.Fprintf(t.err, "braid %s: %v\n", c.name, err)
	return exitFailure
}
