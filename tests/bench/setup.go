package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"braid/tests/bench/lean"
	"braid/tests/bench/nullserver"
)

// login of everything: the null server lets anybody in, Braid knows this one.
const userName, password = "sb", "sb"

// target is a way to the null servers whose cost is measured.
type target struct {
	name  string
	addr  string
	child *child // nil for the way without a proxy
}

func (t *target) login() lean.Login {
	return lean.Login{Addr: t.addr, User: userName, Password: password, Database: nullserver.Schema}
}

func (t *target) ready() error {
	c, err := t.login().Dial()
	if err != nil {
		return err
	}
	return c.Close()
}

// site is where a benchmark runs: the null servers and a folder. Proxies are
// started as a benchmark needs them; close ends all.
type site struct {
	dir    string
	braid  string   // the binary
	plain  string   // address of the null server that is one node alone
	shards []string // of four nodes: a million rows
	small  []string // of four nodes: 100,000 rows
	open   []*child
}

const shardCount = 4

// Rows that the null servers have.
const (
	plainRows = 100_000
	bigRows   = 1_000_000
	smallRows = 100_000
)

func newSite(braid string) (*site, error) {
	dir, err := os.MkdirTemp("", "braid-bench-")
	if err != nil {
		return nil, err
	}
	s := &site{dir: dir, braid: braid}
	var specs []string
	add := func(rows, base, stride int) (string, error) {
		addr, err := freeAddr()
		specs = append(specs, fmt.Sprintf("%s/%d/%d/%d", addr, rows, base, stride))
		return addr, err
	}
	var all []error
	s.plain, err = add(plainRows, 1, 1)
	all = append(all, err)
	for i := range shardCount {
		addr, err := add(bigRows/shardCount, i+1, shardCount)
		s.shards, all = append(s.shards, addr), append(all, err)
		addr, err = add(smallRows/shardCount, i+1, shardCount)
		s.small, all = append(s.small, addr), append(all, err)
	}
	if err := errors.Join(all...); err != nil {
		return nil, err
	}
	c, err := s.self("null", append([]string{"null"}, specs...)...)
	if err != nil {
		return nil, err
	}
	last := target{addr: s.small[shardCount-1]}
	if err := c.await(last.ready); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *site) close() {
	for _, c := range s.open {
		c.stop()
	}
	os.RemoveAll(s.dir)
}

// start starts a process that close will end.
func (s *site) start(name string, cmd *exec.Cmd) (*child, error) {
	c, err := startChild(s.dir, name, cmd)
	if err == nil {
		s.open = append(s.open, c)
	}
	return c, err
}

// self starts this program in another role.
func (s *site) self(name string, args ...string) (*child, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return s.start(name, exec.Command(exe, args...))
}

// direct is the plain null server itself.
func (s *site) direct() *target { return &target{name: "direct", addr: s.plain} }

// haproxy starts haproxy in TCP mode with one thread in front of the plain
// server.
func (s *site) haproxy() (*target, error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	path := filepath.Join(s.dir, "haproxy.cfg")
	err = os.WriteFile(path, fmt.Appendf(nil, `global
    nbthread 1
    maxconn 4000
defaults
    mode tcp
    timeout connect 5s
    timeout client 10m
    timeout server 10m
listen mysql
    bind %s
    server null %s
`, addr, s.plain), 0o644)
	if err != nil {
		return nil, err
	}
	program, err := exec.LookPath("haproxy")
	if err != nil {
		program = "/usr/sbin/haproxy"
	}
	c, err := s.start("haproxy", exec.Command(program, "-db", "-f", path))
	if err != nil {
		return nil, err
	}
	t := &target{name: "haproxy", addr: addr, child: c}
	return t, c.await(t.ready)
}

// floor starts the bare Go relay in front of the plain server.
func (s *site) floor() (*target, error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	c, err := s.self("floor", "relay", addr, s.plain)
	if err != nil {
		return nil, err
	}
	t := &target{name: "go relay", addr: addr, child: c}
	return t, c.await(t.ready)
}

// configuration writes a configuration of Braid with a shard on each of nodes:
// the table lies whole on one, or is sharded by id over several. A node that is
// named more than once has that many shards.
func (s *site) configuration(name, addr string, nodes []string) (path string, err error) {
	var b strings.Builder
	fmt.Fprintf(&b, "[proxy]\nlisten = [%q]\n[log]\nlevel = \"warn\"\nformat = \"console\"\n", addr)
	fmt.Fprintf(&b, "[[users]]\nname = %q\npassword = %q\n", userName, password)
	for i, n := range nodes {
		if slices.Index(nodes, n) == i {
			fmt.Fprintf(&b, "[[nodes]]\nname = \"n%d\"\nprimary = %q\nuser = \"braid\"\npassword = \"braid\"\n", i, n)
		}
	}
	fmt.Fprintf(&b, "[[databases]]\nname = %q\nshards = [", nullserver.Schema)
	for i, n := range nodes {
		first := slices.Index(nodes, n)
		schema := nullserver.Schema
		if first != i {
			schema = fmt.Sprintf("%s_%d", nullserver.Schema, i)
		}
		fmt.Fprintf(&b, "{ name = \"s%d\", node = \"n%d\", schema = %q },", i, first, schema)
	}
	b.WriteString("]\n")
	if len(nodes) > 1 {
		fmt.Fprintf(&b, "[[databases.tables]]\nname = %q\nkind = \"sharded\"\nkey = [\"id\"]\n", nullserver.Table)
	}
	path = filepath.Join(s.dir, name+".toml")
	return path, os.WriteFile(path, []byte(b.String()), 0o644)
}

// startBraid starts the binary over the nodes.
func (s *site) startBraid(name string, nodes []string) (*target, error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	path, err := s.configuration(strings.ReplaceAll(name, " ", "-"), addr, nodes)
	if err != nil {
		return nil, err
	}
	c, err := s.start(strings.ReplaceAll(name, " ", "-"), exec.Command(s.braid, "serve", "--config", path))
	if err != nil {
		return nil, err
	}
	t := &target{name: name, addr: addr, child: c}
	return t, c.await(t.ready)
}

// watched is a Braid inside a process of this program, which can be asked for
// what a binary does not tell.
type watched struct {
	target
	ask    io.WriteCloser
	answer *bufio.Scanner
}

// startWatched starts one over the nodes.
func (s *site) startWatched(nodes []string) (*watched, error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	path, err := s.configuration("watched", addr, nodes)
	if err != nil {
		return nil, err
	}
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(exe, "watched", path)
	ask, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Stdout = w
	c, err := s.start("watched", cmd)
	w.Close()
	if err != nil {
		r.Close()
		return nil, err
	}
	x := &watched{target: target{name: "braid", addr: addr, child: c}, ask: ask, answer: bufio.NewScanner(r)}
	return x, c.await(x.ready)
}

// call sends one request of watchedMain's and returns its answer.
func (x *watched) call(request string) (string, error) {
	if _, err := fmt.Fprintln(x.ask, request); err != nil {
		return "", err
	}
	if !x.answer.Scan() {
		return "", fmt.Errorf("%s: no answer; its output:\n%s", request, x.child.output())
	}
	return x.answer.Text(), nil
}

// freeAddr asks the kernel for a port nobody listens on.
func freeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}
