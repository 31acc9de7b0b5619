//go:build !linux

package main

import (
	"os/exec"
	"syscall"
)

// startChild starts cmd in a group of its own, so that Ctrl-C reaches the demo
// alone, which then stops its servers in order. ended is closed when the child
// has ended.
func startChild(cmd *exec.Cmd) (ended <-chan struct{}, err error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	done := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(done)
	}()
	return done, nil
}
