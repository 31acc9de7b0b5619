package workload

import (
	"bytes"
	"context"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"braid/tests/e2e"
	"braid/tests/servers"
)

var (
	lab  = e2e.NewLab()
	long = flag.Bool("long", false, "the sizes of make long")
)

func TestMain(m *testing.M) { os.Exit(lab.Main(m)) }

var flavours = []servers.Flavour{servers.MariaDB, servers.MySQL}

// size is small, or big with -long.
func size[T any](small, big T) T {
	if *long {
		return big
	}
	return small
}

// tool runs a program to its end and returns what it wrote. It is killed with
// the test, and when it takes longer than limit.
func tool(t *testing.T, limit time.Duration, program string, args ...string) (output string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // an interrupt at the terminal is the test's to handle
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err = cmd.Run()
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return out.String(), err
}

// look finds a program, or skips the test.
func look(t *testing.T, program, how string) string {
	t.Helper()
	for _, dir := range append(filepath.SplitList(os.Getenv("PATH")), cacheBin()) {
		if path := filepath.Join(dir, program); executable(path) {
			return path
		}
	}
	t.Skipf("SKIPPED, NOT TESTED: %s is not installed (%s)", program, how)
	return ""
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// cacheBin is the folder of programs that the tests install for themselves.
func cacheBin() string {
	dir := os.Getenv("BRAID_CACHE")
	if dir == "" {
		dir = "/var/cache/braid"
	}
	return filepath.Join(dir, "bin")
}

// lines returns the lines of text that hold one of the words.
func lines(text string, words ...string) []string {
	var found []string
	for line := range strings.Lines(text) {
		for _, w := range words {
			if strings.Contains(line, w) {
				found = append(found, strings.TrimSpace(line))
				break
			}
		}
	}
	return found
}

// tail is the end of a long output.
func tail(text string) string { return text[max(0, len(text)-3000):] }
