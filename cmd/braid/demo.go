package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// demoProgram is a program of its own: it carries an embedded engine, which
// weighs several times as much as braid does.
const demoProgram = "braid-demo"

// demo becomes braid-demo, which stands beside braid or on PATH.
func demo(t terminal, c command, args []string) int {
	f := c.flags()
	f.String("server", "auto", "the nodes: auto (what this machine has), mariadb, mysql or embedded, by `name`")
	f.Bool("once", false, "end after the tour")
	if _, code, ok := c.parse(t, f, args, 0); !ok {
		return code
	}
	path := ""
	if self, err := os.Executable(); err == nil {
		path = filepath.Join(filepath.Dir(self), demoProgram)
	}
	if _, err := os.Stat(path); err != nil {
		if path, err = exec.LookPath(demoProgram); err != nil {
			return c.fail(t, fmt.Errorf("%s is neither beside braid nor on PATH; make demo builds it", demoProgram))
		}
	}
	return c.fail(t, syscall.Exec(path, append([]string{demoProgram}, args...), os.Environ()))
}
