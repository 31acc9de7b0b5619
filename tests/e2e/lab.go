package e2e

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"testing"

	"braid/tests/servers"
)

// Lab owns the servers of one test package. It is safe for concurrent use.
type Lab struct {
	options servers.Options

	mu struct {
		sync.Mutex
		servers map[string]*servers.Server // by flavour/name
		skipped []string                   // why tests skipped
	}
}

// NewLab makes a lab without servers.
func NewLab() *Lab { return NewLabWith(servers.Options{}) }

// NewLabWith makes a lab whose servers are started with options of their own,
// for one test, which closes it.
func NewLabWith(options servers.Options) *Lab {
	l := &Lab{options: options}
	l.mu.servers = map[string]*servers.Server{}
	return l
}

// Main runs the package's tests, then removes the servers, also when a signal
// ends them, and checks that none is left. It returns the exit code.
func (l *Lab) Main(m *testing.M) int {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		s := <-signals
		fmt.Fprintln(os.Stderr, "stopping the servers on", s)
		l.Close()
		os.Exit(1)
	}()
	code := m.Run()
	if err := l.Close(); err != nil {
		fmt.Fprintln(os.Stderr, "stopping the servers:", err)
		code = 1
	}
	left, err := servers.Leftovers(os.Getpid())
	if err != nil || len(left) > 0 {
		fmt.Fprintln(os.Stderr, "servers left running:", left, err)
		code = 1
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, text := range l.mu.skipped {
		fmt.Fprintln(os.Stderr, "SKIPPED, NOT TESTED:", text)
	}
	return code
}

// Close stops the servers and removes them. Main does it for the package's lab.
func (l *Lab) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []error
	for name, s := range l.mu.servers {
		all = append(all, s.Close())
		delete(l.mu.servers, name)
	}
	return errors.Join(all...)
}

// Server returns the package's server of that flavour and name, starting it
// when there is none yet; it stays for the tests to come. One that a test
// stopped or killed is started again. A flavour that this machine lacks skips the test, loudly.
func (l *Lab) Server(t testing.TB, flavour servers.Flavour, name string) *servers.Server {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	key := string(flavour) + "/" + name
	if s := l.mu.servers[key]; s != nil {
		if s.PID() == 0 {
			if err := s.Restart(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		return s
	}
	s, err := servers.Start(context.WithoutCancel(t.Context()), flavour, l.options)
	if err != nil {
		var missing *servers.Unavailable
		if errors.As(err, &missing) {
			l.mu.skipped = append(l.mu.skipped, t.Name()+": "+err.Error())
			t.Skip("SKIPPED, NOT TESTED: ", err)
		}
		t.Fatal(err)
	}
	l.mu.servers[key] = s
	return s
}

// Open opens schema of s as root, closed at the test's end.
func Open(t testing.TB, s *servers.Server, schema string) *sql.DB {
	t.Helper()
	db, err := s.Open(schema)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// Recreate drops schemas of s and makes them again, empty, with utf8mb4.
func Recreate(t testing.TB, s *servers.Server, schemas ...string) {
	t.Helper()
	db := Open(t, s, "")
	for _, schema := range schemas {
		for _, text := range []string{
			"DROP DATABASE IF EXISTS `" + schema + "`",
			"CREATE DATABASE `" + schema + "` CHARACTER SET utf8mb4",
		} {
			if _, err := db.ExecContext(t.Context(), text); err != nil {
				t.Fatalf("%s: %v", text, err)
			}
		}
	}
}
