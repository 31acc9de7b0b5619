package servers

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Leftovers lists the mysqld processes that descend from this package's data
// folders and whose parent is the given process (0: any), one line each. A test
// binary calls it last, to show that it left nothing behind.
func Leftovers(parent int) ([]string, error) {
	entries, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, err
	}
	var found []string
	for _, entry := range entries {
		pid, _ := strconv.Atoi(filepath.Base(entry))
		text, err := os.ReadFile(filepath.Join(entry, "cmdline"))
		if err != nil {
			continue // it has ended meanwhile
		}
		args := strings.Split(string(text), "\x00")
		if base := filepath.Base(args[0]); base != "mysqld" && base != "mariadbd" {
			continue
		}
		if !ours(args) || parent != 0 && parentOf(pid) != parent {
			continue
		}
		found = append(found, fmt.Sprintf("%d %s", pid, strings.Join(args, " ")))
	}
	return found, nil
}

func ours(args []string) bool {
	for _, arg := range args {
		if dir, ok := strings.CutPrefix(arg, "--datadir="); ok {
			return strings.HasPrefix(filepath.Base(filepath.Dir(dir)), "run-") ||
				strings.HasPrefix(filepath.Base(dir), "template-")
		}
	}
	return false
}

// parentOf is a process's parent, 0 when it is gone.
func parentOf(pid int) int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	// "pid (comm) state ppid ...": comm may hold blanks and parentheses.
	_, rest, ok := strings.Cut(string(text), ") ")
	if !ok {
		return 0
	}
	fields := strings.Fields(rest)
	if len(fields) < 2 {
		return 0
	}
	ppid, _ := strconv.Atoi(fields[1])
	return ppid
}
