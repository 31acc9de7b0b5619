package workload

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"braid/tests/servers"
)

// program is a Braid that runs as a process of its own, to be killed.
type program struct {
	binary, config string
	addr           string
	log            string // file
	done           chan struct{}
	pid            int
	err            error // how it ended; read after done
}

// buildBraid builds the binary into a folder of the test's.
func buildBraid(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "braid")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", path, "braid/cmd/braid").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return path
}

// newProgram prepares a Braid over the nodes at addrs, with tables as TOML
// lines. With several shards per node their schemas are shop_0, shop_1, ...,
// dealt out in turn, else shop. Recovery is as fast as the configuration allows.
func newProgram(t *testing.T, addrs []string, perNode int, tables string) *program {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &program{binary: buildBraid(t), addr: l.Addr().String()}
	l.Close()
	var b strings.Builder
	fmt.Fprintf(&b, "[proxy]\nlisten = [%q]\n[log]\nlevel = \"info\"\nformat = \"console\"\n[recovery]\ninterval = \"100ms\"\ngrace = \"1s\"\n", p.addr)
	fmt.Fprintf(&b, "[[users]]\nname = %q\npassword = %q\n", servers.User, servers.Password)
	var shards []string
	for i, addr := range addrs {
		fmt.Fprintf(&b, "[[nodes]]\nname = \"n%d\"\nprimary = %q\nuser = %q\npassword = %q\n", i, addr, servers.User, servers.Password)
	}
	for i := range len(addrs) * perNode {
		schema := "shop"
		if perNode > 1 {
			schema = fmt.Sprintf("shop_%d", i)
		}
		shards = append(shards, fmt.Sprintf("{ name = \"s%d\", node = \"n%d\", schema = %q }", i, i%len(addrs), schema))
	}
	fmt.Fprintf(&b, "[[databases]]\nname = \"shop\"\nshards = [%s]\n%s", strings.Join(shards, ", "), tables)
	dir := t.TempDir()
	p.config, p.log = filepath.Join(dir, "braid.toml"), filepath.Join(dir, "braid.log")
	if err := os.WriteFile(p.config, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if p.pid != 0 {
			p.kill()
		}
		if t.Failed() {
			t.Logf("Braid's log ends:\n%s", p.logTail())
		}
	})
	return p
}

// start starts the process and returns when it serves, or has ended again.
// failpoint is what BRAID_FAILPOINT is set to.
func (p *program) start(t *testing.T, failpoint string) {
	t.Helper()
	out, err := os.OpenFile(p.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(out, "--- started with failpoint %q\n", failpoint)
	cmd := exec.Command(p.binary, "serve", "--config", p.config)
	cmd.Env = append(os.Environ(), "BRAID_FAILPOINT="+failpoint)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	started := make(chan error, 1)
	done := make(chan struct{})
	go func() {
		// The parent-death signal belongs to the thread that forked.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer out.Close()
		err := cmd.Start()
		if err == nil {
			p.pid = cmd.Process.Pid
		}
		started <- err
		if err == nil {
			p.err = cmd.Wait()
			close(done)
		}
	}()
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	p.done = done
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	c := mysql.NewConfig()
	c.User, c.Passwd, c.Net, c.Addr, c.DBName, c.Logger = servers.User, servers.Password, "tcp", p.addr, "shop", &mysql.NopLogger{}
	db := openDriver(t, c)
	defer db.Close()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		err := db.PingContext(ctx)
		if err == nil {
			return
		}
		select {
		case <-p.done:
			if failpoint == "" {
				t.Fatalf("Braid ended: %v\n%s", p.err, p.logTail())
			}
			return
		case <-ctx.Done():
			t.Fatalf("Braid does not answer: %v\n%s", err, p.logTail())
		case <-tick.C:
		}
	}
}

// kill ends the process with SIGKILL, if it still runs.
func (p *program) kill() {
	select {
	case <-p.done:
	default:
		_ = syscall.Kill(p.pid, syscall.SIGKILL)
		<-p.done
	}
}

func (p *program) logTail() string {
	text, _ := os.ReadFile(p.log)
	return tail(string(text))
}
