package servers

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

// command is a run of the flavour's server, ready to start.
func (in *install) command(args ...string) *exec.Cmd {
	cmd := exec.Command(in.mysqld, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	if in.chroot != "" {
		cmd.SysProcAttr.Chroot = in.chroot
		cmd.Dir = "/"
	}
	return cmd
}

// process is a child that dies with this one.
type process struct {
	pid  int
	done chan struct{} // closed when it has ended
	err  error         // how it ended; read after done
}

// start starts cmd so that the kernel kills it when this process ends in any
// way. The parent-death signal belongs to the thread that forked, so a
// goroutine holds that thread until the child has ended.
func start(cmd *exec.Cmd) (*process, error) {
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	// A group of its own: an interrupt at the terminal reaches the test alone,
	// which then stops its servers in order.
	cmd.SysProcAttr.Setpgid = true
	p := &process{done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if err := cmd.Start(); err != nil {
			started <- err
			return
		}
		p.pid = cmd.Process.Pid
		started <- nil
		p.err = cmd.Wait()
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// signal sends sig unless the process has ended.
func (p *process) signal(sig syscall.Signal) error {
	select {
	case <-p.done:
		return os.ErrProcessDone
	default:
		return syscall.Kill(p.pid, sig)
	}
}

// stopped waits until every thread of the process has stopped: the signal is
// sent before they have.
func (p *process) stopped() error {
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); runtime.Gosched() {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", p.pid))
		if err != nil {
			return err
		}
		running := len(threads) == 0
		for _, t := range threads {
			stat, err := os.ReadFile(t)
			if err != nil {
				continue // the thread has ended
			}
			// pid (name) state ...; the name may hold anything
			if i := bytes.LastIndexByte(stat, ')'); i < 0 || i+2 >= len(stat) || stat[i+2] != 'T' {
				running = true
			}
		}
		if !running {
			return nil
		}
	}
	return fmt.Errorf("process %d does not stop", p.pid)
}
