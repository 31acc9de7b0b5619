package main

import (
	"os/exec"
	"runtime"
	"syscall"
)

// startChild starts cmd in a group of its own, so that Ctrl-C reaches the demo
// alone, which then stops its servers in order. The kernel kills the child when
// the demo dies otherwise: that signal belongs to the thread that forked, which
// a goroutine therefore holds until the child has ended. ended is closed then.
func startChild(cmd *exec.Cmd) (ended <-chan struct{}, err error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	done, started := make(chan struct{}), make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if err := cmd.Start(); err != nil {
			started <- err
			return
		}
		started <- nil
		_ = cmd.Wait()
		close(done)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return done, nil
}
