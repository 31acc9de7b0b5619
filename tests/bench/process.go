package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// child is a process of ours that dies with us.
type child struct {
	name string
	pid  int
	done chan struct{} // closed when it has ended
	err  error         // how; read after done
	log  string        // file with its output
}

// startChild starts a program with its output in a file of dir. The kernel
// kills it when we end in whatever way; that signal belongs to the thread that
// forked, so a goroutine holds the thread until the child has ended.
func startChild(dir, name string, cmd *exec.Cmd) (*child, error) {
	c := &child{name: name, done: make(chan struct{}), log: dir + "/" + name + ".log"}
	out, err := os.OpenFile(c.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	if cmd.Stdout == nil {
		cmd.Stdout = out
	}
	cmd.Stderr = out
	// A group of its own: an interrupt at the terminal is for us alone.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer out.Close()
		err := cmd.Start()
		if err == nil {
			c.pid = cmd.Process.Pid
		}
		started <- err
		if err == nil {
			c.err = cmd.Wait()
			close(c.done)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	return c, nil
}

// stop kills the process and waits for its end.
func (c *child) stop() {
	select {
	case <-c.done:
	default:
		_ = syscall.Kill(c.pid, syscall.SIGKILL)
		<-c.done
	}
}

// await calls ready until it succeeds, the process ends or 20 seconds are over.
func (c *child) await(ready func() error) error {
	deadline := time.After(20 * time.Second)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ready()
		if err == nil {
			return nil
		}
		select {
		case <-c.done:
			return fmt.Errorf("%s ended: %v; its output:\n%s", c.name, c.err, c.output())
		case <-deadline:
			return fmt.Errorf("%s does not answer: %w; its output:\n%s", c.name, err, c.output())
		case <-tick.C:
		}
	}
}

func (c *child) output() []byte {
	text, _ := os.ReadFile(c.log)
	return text[max(0, len(text)-4000):]
}

// cpuTime is what a process has used.
type cpuTime struct{ user, system time.Duration }

func (t cpuTime) sub(o cpuTime) cpuTime { return cpuTime{t.user - o.user, t.system - o.system} }
func (t cpuTime) total() time.Duration  { return t.user + t.system }

// cpu reads utime and stime of the process, which the kernel counts in ticks of
// 10 ms.
func (c *child) cpu() (t cpuTime, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", c.pid))
	if err != nil {
		return t, err
	}
	// The name, in parentheses, may hold anything; utime and stime are the 12th
	// and 13th field behind it.
	f := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(f) < 13 {
		return t, fmt.Errorf("/proc/%d/stat: %d fields", c.pid, len(f))
	}
	const tick = time.Second / 100
	for i, to := range []*time.Duration{&t.user, &t.system} {
		n, err := strconv.ParseInt(string(f[11+i]), 10, 64)
		if err != nil {
			return t, err
		}
		*to = time.Duration(n) * tick
	}
	return t, nil
}

// memory reads one of the process's memory figures ("VmRSS", "VmHWM"), in KiB.
func (c *child) memory(key string) (int, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == key+":" {
			return strconv.Atoi(f[1])
		}
	}
	return 0, fmt.Errorf("/proc/%d/status has no %s", c.pid, key)
}

// resetPeak makes VmHWM begin anew at the present VmRSS.
func (c *child) resetPeak() error {
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", c.pid), []byte("5"), 0)
}
