package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"braid/conf"
)

// TestMain lets the test binary be braid itself: with BRAID_TEST_MAIN set it runs
// main, so that the tests see the real process, its exit code and its signals.
func TestMain(m *testing.M) {
	if os.Getenv("BRAID_TEST_MAIN") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

func braid(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// A process that should have ended, but serves, must not hold up the tests.
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Env = append(os.Environ(), "BRAID_TEST_MAIN=1", "GORACE=atexit_sleep_ms=0") // with -race, a process else sleeps a second before it ends
	return cmd
}

// outcome runs a command to its end.
func outcome(t *testing.T, cmd *exec.Cmd) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// configuration has one node, at a port where nothing listens.
func configuration(listen string) string {
	return fmt.Sprintf(`[proxy]
listen = [%q]

[[users]]
name = "app"
password = "s3cret"

[[nodes]]
name = "n1"
primary = "127.0.0.1:1"
user = "braid"

[[databases]]
name = "shop"
shards = [{ name = "s1", node = "n1" }]
`, listen)
}

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "braid.toml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestCommands(t *testing.T) {
	good := write(t, configuration("127.0.0.1:0"))
	bad := write(t, strings.Replace(configuration("127.0.0.1:0"), "primary", "prmary", 1))
	for _, c := range []struct {
		name        string
		args        []string
		code        int
		out, errors []string // substrings; none: nothing is written there
	}{
		{"no command", nil, 2, nil, []string{"Usage: braid COMMAND"}},
		{"help", []string{"--help"}, 0, []string{"Usage: braid COMMAND", "serve", "check", "explain", "version"}, nil},
		{"help of a command", []string{"help", "check"}, 0, []string{"Usage: braid check [flags]"}, nil},
		{"help of no command", []string{"help", "chekc"}, 2, nil, []string{`there is no command "chekc"`}},
		{"unknown command", []string{"start"}, 2, nil, []string{`there is no command "start"`, "Usage: braid COMMAND"}},
		{"unknown flag", []string{"check", "--cofnig", "x"}, 2, nil, []string{"braid check: flag provided but not defined: -cofnig", "braid check --help"}},
		{"argument too many", []string{"check", good}, 2, nil, []string{"braid check: unexpected argument"}},
		{"version", []string{"version"}, 0, []string{"braid ", "go1."}, nil},
		{"version flag", []string{"--version"}, 0, []string{"braid "}, nil},
		{"version takes nothing", []string{"version", "x"}, 2, nil, []string{`unexpected argument "x"`}},
		{"check", []string{"check", "--config", good}, 0, []string{good + ": valid: 1 node, 1 database over 1 shard, 0 table rules, 1 user\n"}, nil},
		{"check with one dash", []string{"check", "-config=" + good}, 0, []string{"valid"}, nil},
		{"check prints no password", []string{"check", "--config", good, "--print"}, 0, []string{`slots = "0-16383"`, `password = "(hidden)"`}, nil},
		{"check finds problems", []string{"check", "--config", bad}, 2, nil, []string{
			bad + `:8:1: nodes.n1.primary: is missing; name the primary's address, as "10.0.0.1:3306"` + "\n",
			bad + `:10:1: nodes.n1.prmary: unknown key; did you mean "primary"?` + "\n"}},
		{"check without file", []string{"check", "--config", good + ".none"}, 2, nil, []string{"no such file"}},
		{"check live", []string{"check", "--live", "--config", good}, 1, []string{"valid", "error", "n1"}, nil},
		{"serve with problems", []string{"serve", "--config", bad}, 2, nil, []string{`did you mean "primary"?`}},
		{"demo that is not built", []string{"demo", "--once"}, 1, nil, []string{"braid-demo is neither beside braid nor on PATH; make demo builds it"}},
		{"demo's flags", []string{"demo", "--twice"}, 2, nil, []string{"flag provided but not defined: -twice"}},
		{"explain without statement", []string{"explain", "--config", good}, 2, nil, []string{"braid explain: the statement is missing"}},
		{"explain with problems", []string{"explain", "--config", bad, "SELECT 1"}, 2, nil, []string{`did you mean "primary"?`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, out, errs := outcome(t, braid(t, c.args...))
			if code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			for _, stream := range []struct {
				name, got string
				want      []string
			}{{"standard output", out, c.out}, {"standard error", errs, c.errors}} {
				if len(stream.want) == 0 && stream.got != "" {
					t.Errorf("%s has %q, want nothing", stream.name, stream.got)
				}
				for _, want := range stream.want {
					if !strings.Contains(stream.got, want) {
						t.Errorf("%s has %q, want %q", stream.name, stream.got, want)
					}
				}
				if strings.Contains(stream.got, "s3cret") {
					t.Errorf("%s shows a password", stream.name)
				}
			}
		})
	}
}

// TestHelp holds that each command explains each of its flags.
func TestHelp(t *testing.T) {
	want := map[string]string{
		"serve": `Usage: braid serve [flags]

Serve clients until SIGINT or SIGTERM.
SIGHUP reads the configuration again. The first SIGINT or SIGTERM lets open transactions
finish, for timeouts.drain at most; a second one ends Braid at once.

Flags:
  --config file     the configuration, a TOML file (default braid.toml)
`,
		"check": `Usage: braid check [flags]

Say what is wrong with a configuration.
Problems go to standard error, each with its line and column. With --live the nodes are
asked too: whether they answer, their versions, privileges and settings.

Flags:
  --config file     the configuration, a TOML file (default braid.toml)
  --live            ask the nodes too
  --print           print the configuration, defaults filled in, passwords hidden
`,
		"explain": `Usage: braid explain [flags] STATEMENT

Show how a statement would be run, and on which shards.
The statement is not run. "-" reads it from standard input.

Flags:
  --config file     the configuration, a TOML file (default braid.toml)
  --database name   the current database, by name (default the only one)
`,
		"demo": `Usage: braid demo [flags]

Start a sample shop over four shards, and tour it.
It needs nothing but braid-demo, which "make demo" builds. It stays up until Ctrl-C.

Flags:
  --once            end after the tour
  --server name     the nodes: auto (what this machine has), mariadb, mysql or embedded, by name (default auto)
`,
		"version": `Usage: braid version

Say which version this is.
`,
	}
	for _, c := range commands() {
		code, out, errs := outcome(t, braid(t, c.name, "--help"))
		if code != 0 || errs != "" || out != want[c.name] {
			t.Errorf("braid %s --help: exit code %d, standard error %q, standard output:\n%s", c.name, code, errs, out)
		}
	}
}

// serving is a running `braid serve`.
type serving struct {
	cmd   *exec.Cmd
	lines *bufio.Scanner
}

func startServing(t *testing.T, path string) *serving {
	t.Helper()
	s := &serving{cmd: braid(t, "serve", "--config", path)}
	pipe, err := s.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.lines = bufio.NewScanner(pipe)
	return s
}

// waitFor reads the log up to a line with the text.
func (s *serving) waitFor(t *testing.T, text string) {
	t.Helper()
	var seen []string
	for s.lines.Scan() {
		if strings.Contains(s.lines.Text(), text) {
			return
		}
		seen = append(seen, s.lines.Text())
	}
	t.Fatalf("the log ended without %q:\n%s", text, strings.Join(seen, "\n"))
}

func (s *serving) signal(t *testing.T, sig os.Signal) {
	t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
}

// TestServeReloadsAndDrains runs Braid in front of a node that is down.
func TestServeReloadsAndDrains(t *testing.T) {
	text := configuration("127.0.0.1:0")
	path := write(t, text)
	s := startServing(t, path)
	s.waitFor(t, `"serving"`)

	if err := os.WriteFile(path, []byte(text+"[timeouts]\nidle = \"1h\"\n[log]\nlevel = \"debug\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.signal(t, syscall.SIGHUP)
	s.waitFor(t, "log.level: info -> debug")
	s.waitFor(t, "timeouts.idle: 8h -> 1h")

	if err := os.WriteFile(path, []byte("[timeuts]\n"+text), 0o600); err != nil {
		t.Fatal(err)
	}
	s.signal(t, syscall.SIGHUP)
	s.waitFor(t, `did you mean \"timeouts\"?`)

	s.signal(t, syscall.SIGTERM)
	s.waitFor(t, `"stopped"`)
	if err := s.cmd.Wait(); err != nil {
		t.Errorf("after SIGTERM: %v", err)
	}
}

func TestServeFailsWhereAnotherListens(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	code, _, errs := outcome(t, braid(t, "serve", "--config", write(t, configuration(l.Addr().String()))))
	if code != 1 || !strings.Contains(errs, "braid serve: ") || !strings.Contains(errs, "address already in use") {
		t.Errorf("exit code %d, standard error:\n%s", code, errs)
	}
}

func TestServeLogsToFile(t *testing.T) {
	text := configuration("127.0.0.1:0") + "[log]\nfile = \"braid.log\"\nformat = \"console\"\n"
	path := write(t, text)
	cfg, err := conf.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	log, done, err := newLogger(cfg.Log, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	log.Debug("not this")
	log.Info("this")
	done()
	got, err := os.ReadFile(filepath.Join(filepath.Dir(path), "braid.log"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(got), "INFO\tthis\n") || strings.Contains(string(got), "not this") {
		t.Errorf("the log file has %q", got)
	}
}
