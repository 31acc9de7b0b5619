package backend

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"
	"go.uber.org/zap"

	"braid/conf"
	"braid/internal/mysql"
)

// Node is one MySQL server and the pool of Braid's connections to it. Safe for
// concurrent use.
type Node struct {
	name     string
	conf     conf.Node
	password string
	transport
	pool     conf.Pool
	timeouts conf.Timeouts
	packet   int
	log      *zap.Logger

	info atomic.Pointer[mysql.ServerInfo] // of the last connection made

	opened, killed, failed atomic.Uint64
	stmts                  stmtRoom

	mu struct {
		sync.Mutex
		idle    []*Conn // most recently used last
		open    int     // idle, in use and being opened
		waiters []*waiter
		retired bool
	}
}

// waiter is a session that waits for a connection. ready gets the go-ahead to
// look again.
type waiter struct {
	ready chan struct{}
}

func newNode(n conf.Node, password string, how transport, cfg *conf.Config, log *zap.Logger) *Node {
	pool := cfg.Pool
	if n.ConnectionsMax > 0 {
		pool.ConnectionsMax = n.ConnectionsMax
	}
	node := &Node{name: n.Name, conf: n, password: password, transport: how, pool: pool, timeouts: cfg.Timeouts,
		packet: max(cfg.Proxy.PacketBytesMax, 64<<20), log: log.With(zap.String("node", n.Name))}
	node.stmts.max.Store(stmtRoomDefault)
	return node
}

// Name returns the node's name in the configuration.
func (n *Node) Name() string { return n.name }

// Address returns the primary's address in the configuration.
func (n *Node) Address() string { return n.conf.Primary }

// Info returns what the node said of itself at the last connection, or nil
// when there was none yet.
func (n *Node) Info() *mysql.ServerInfo { return n.info.Load() }

// MariaDB tells whether the node is a MariaDB server; false until the first
// connection.
func (n *Node) MariaDB() bool {
	i := n.info.Load()
	return i != nil && i.MariaDB
}

func network(addr string) (string, string) {
	if path, ok := strings.CutPrefix(addr, "unix:"); ok {
		return "unix", path
	}
	return "tcp", addr
}

// dial opens a connection outside the pool's count.
func (n *Node) dial(ctx context.Context, foundRows bool) (*Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(n.timeouts.Connect))
	defer cancel()
	nw, addr := network(n.conf.Primary)
	d := net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 4}}
	nc, err := d.DialContext(ctx, nw, addr)
	if err != nil {
		n.failed.Add(1)
		return nil, n.unreachable(err)
	}
	deadline, _ := ctx.Deadline()
	_ = nc.SetDeadline(deadline)
	c := &Conn{Conn: mysql.NewConn(nc, mysql.NodeSide, n.packet), node: n, foundRows: foundRows, born: time.Now()}
	info, err := mysql.Connect(c.Conn, mysql.ClientOptions{User: n.conf.User, Password: n.password, FoundRows: foundRows, LocalFiles: true,
		TLSMode: n.mode, TLS: n.config, Compression: n.compression})
	if err != nil {
		_ = nc.Close()
		n.failed.Add(1)
		if e, ok := err.(*mysql.Error); ok {
			return nil, fmt.Errorf("node %s (%s) refused the login of %q: %w", n.name, n.conf.Primary, n.conf.User, e)
		}
		return nil, n.unreachable(err)
	}
	_ = nc.SetDeadline(time.Time{})
	c.id = info.ConnectionID
	n.info.Store(info)
	n.opened.Add(1)
	return c, nil
}

// unreachable is the error of a node that cannot be connected to.
func (n *Node) unreachable(err error) error {
	return &Unreachable{Node: n.name, Addr: n.conf.Primary, Err: err}
}

// Unreachable is a node that cannot be connected to. Nothing was sent to it.
type Unreachable struct {
	Node, Addr string
	Err        error
}

func (e *Unreachable) Error() string {
	return fmt.Sprintf("node %s at %s cannot be reached: %v", e.Node, e.Addr, e.Err)
}

func (e *Unreachable) Unwrap() error { return e.Err }

// Get takes a connection from the pool, preferring one that is already as the
// statement needs it, or opens one, or waits until ctx or the pool's
// wait_timeout ends. The connection is the caller's until Release or Destroy.
func (n *Node) Get(ctx context.Context, foundRows bool, schema string, vars *Vars) (*Conn, error) {
	var w *waiter
	var timer *time.Timer
	for {
		n.mu.Lock()
		if c := n.pick(foundRows, schema, vars, w != nil); c != nil {
			n.mu.Unlock()
			if time.Since(c.lastUsed) > idleCheckAfter && !c.alive() || c.cleanse(vars) != nil {
				c.Destroy()
				continue
			}
			return c, nil
		}
		// A waiter that was called has its turn; a newcomer does not overtake.
		if n.mu.open < n.pool.ConnectionsMax && (w != nil || len(n.mu.waiters) == 0) {
			n.mu.open++
			n.mu.Unlock()
			c, err := n.dial(ctx, foundRows)
			if err != nil {
				n.gone()
				return nil, err
			}
			return c, nil
		}
		w = &waiter{ready: make(chan struct{}, 1)}
		n.mu.waiters = append(n.mu.waiters, w)
		n.mu.Unlock()
		if timer == nil {
			timer = time.NewTimer(time.Duration(n.pool.WaitTimeout))
			defer timer.Stop()
		}
		select {
		case <-w.ready:
		case <-ctx.Done():
			n.giveUp(w)
			return nil, ctx.Err()
		case <-timer.C:
			n.giveUp(w)
			return nil, mysql.Errorf(gomysql.ER_CON_COUNT_ERROR,
				"Too many connections: all %d of node %s's pool are in use and none came free in %v (pool.connections_max, pool.wait_timeout)",
				n.pool.ConnectionsMax, n.name, time.Duration(n.pool.WaitTimeout))
		}
	}
}

// Idle takes an idle connection from the pool, nil when there is none or when
// sessions wait for one.
func (n *Node) Idle(foundRows bool, schema string, vars *Vars) *Conn {
	for {
		n.mu.Lock()
		c := n.pick(foundRows, schema, vars, false)
		n.mu.Unlock()
		if c == nil || (time.Since(c.lastUsed) <= idleCheckAfter || c.alive()) && c.cleanse(vars) == nil {
			return c
		}
		c.Destroy()
	}
}

// TryGet takes a connection from the pool when one is idle, or opens one when
// the pool has room and nobody waits; nil otherwise. It never waits for another
// session.
func (n *Node) TryGet(ctx context.Context, foundRows bool, schema string, vars *Vars) *Conn {
	if c := n.Idle(foundRows, schema, vars); c != nil {
		return c
	}
	n.mu.Lock()
	full := n.mu.open >= n.pool.ConnectionsMax || len(n.mu.waiters) > 0
	if !full {
		n.mu.open++
	}
	n.mu.Unlock()
	if full {
		return nil
	}
	c, err := n.dial(ctx, foundRows)
	if err != nil {
		n.gone()
		return nil
	}
	return c
}

// pick takes the best idle connection; n.mu is held. called says that the
// caller has waited and was called.
func (n *Node) pick(foundRows bool, schema string, vars *Vars, called bool) *Conn {
	if len(n.mu.idle) == 0 || len(n.mu.waiters) > 0 && !called {
		return nil
	}
	best, score := -1, -1
	for i := len(n.mu.idle) - 1; i >= 0 && i >= len(n.mu.idle)-32; i-- {
		c := n.mu.idle[i]
		if c.foundRows != foundRows {
			continue
		}
		s := 0
		if c.schema == schema {
			s += 2
		}
		if c.vars == vars {
			s++
		}
		if s > score {
			best, score = i, s
			if s == 3 {
				break
			}
		}
	}
	if best < 0 {
		// Only connections of another handshake: make room for one that fits.
		if n.mu.open < n.pool.ConnectionsMax {
			return nil
		}
		for i, c := range n.mu.idle {
			if c.foundRows != foundRows {
				n.mu.idle = append(n.mu.idle[:i], n.mu.idle[i+1:]...)
				n.mu.open--
				c.lostStmts()
				go c.Close() // never blocks for long; the lock is held
				break
			}
		}
		return nil
	}
	c := n.mu.idle[best]
	last := len(n.mu.idle) - 1
	copy(n.mu.idle[best:], n.mu.idle[best+1:])
	n.mu.idle[last] = nil
	n.mu.idle = n.mu.idle[:last]
	return c
}

// wake calls the first waiter; n.mu is held.
func (n *Node) wake() {
	if len(n.mu.waiters) > 0 {
		w := n.mu.waiters[0]
		n.mu.waiters = n.mu.waiters[1:]
		w.ready <- struct{}{}
	}
}

// giveUp takes w out of the queue, or passes its call on.
func (n *Node) giveUp(w *waiter) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for i, x := range n.mu.waiters {
		if x == w {
			n.mu.waiters = append(n.mu.waiters[:i], n.mu.waiters[i+1:]...)
			return
		}
	}
	n.wake()
}

// gone counts a connection that is no more.
func (n *Node) gone() {
	n.mu.Lock()
	n.mu.open--
	n.wake()
	n.mu.Unlock()
}

// Release gives the connection back to its pool. The answer of its last
// command was read to the end, and no transaction is open on it.
func (c *Conn) Release() {
	n := c.node
	if c.pending > 0 || c.Buffered() > 0 || c.Tainted {
		c.Destroy()
		return
	}
	c.Conn.Idle()
	if cap(c.scratch) > 4<<10 {
		c.scratch = nil
	}
	c.lastUsed = time.Now()
	n.mu.Lock()
	if n.mu.retired || n.mu.open > n.pool.ConnectionsMax {
		n.mu.Unlock()
		c.Destroy()
		return
	}
	n.mu.idle = append(n.mu.idle, c)
	n.wake()
	n.mu.Unlock()
}

// Destroy closes the connection; the node rolls back what was open on it.
func (c *Conn) Destroy() {
	c.lostStmts()
	_ = c.Conn.Close()
	c.node.gone()
}

// reap closes connections idle for too long, or beyond the number kept.
func (n *Node) reap(now time.Time) {
	var out []*Conn
	n.mu.Lock()
	keep := n.mu.idle[:0]
	for i, c := range n.mu.idle {
		tooOld := n.pool.IdleTimeout > 0 && now.Sub(c.lastUsed) > time.Duration(n.pool.IdleTimeout)
		tooMany := len(n.mu.idle)-i > n.pool.IdleMax && now.Sub(c.lastUsed) > 5*time.Second
		if tooOld || tooMany || n.mu.retired {
			out = append(out, c)
		} else {
			keep = append(keep, c)
		}
	}
	for i := len(keep); i < len(n.mu.idle); i++ {
		n.mu.idle[i] = nil
	}
	n.mu.idle = keep
	n.mu.Unlock()
	for _, c := range out {
		c.Destroy()
	}
}

// retire closes the idle connections; those in use are closed when they come back.
func (n *Node) retire() {
	n.mu.Lock()
	n.mu.retired = true
	n.mu.Unlock()
	n.reap(time.Now())
}

// PoolStats is a look at a node's pool.
type PoolStats struct {
	Open, Idle, Waiting int
	Opened, Failed      uint64 // since the start
	Max                 int
	// Statements are kept prepared on the connections; NoRoom is how often, since
	// the start, the node refused one because it had too many.
	Statements int64
	NoRoom     uint64
}

// Stats returns the pool's present figures.
func (n *Node) Stats() PoolStats {
	n.mu.Lock()
	defer n.mu.Unlock()
	return PoolStats{Open: n.mu.open, Idle: len(n.mu.idle), Waiting: len(n.mu.waiters),
		Opened: n.opened.Load(), Failed: n.failed.Load(), Max: n.pool.ConnectionsMax,
		Statements: n.stmts.open.Load(), NoRoom: n.stmts.refused.Load()}
}

// Own opens a connection outside the pool, for work of Braid's own that must
// not wait for clients: schema reading, recovery, KILL. The caller closes it
// with Close. Everything on it is bounded by the deadline it comes with.
func (n *Node) Own(ctx context.Context, timeout time.Duration) (*Conn, error) {
	c, err := n.dial(ctx, false)
	if err != nil {
		return nil, err
	}
	c.SetDeadline(time.Now().Add(timeout))
	return c, nil
}

// Kill ends the statement that a connection of this node is running.
func (n *Node) Kill(ctx context.Context, id uint64) error {
	c, err := n.Own(ctx, time.Duration(n.timeouts.Connect))
	if err != nil {
		return err
	}
	defer c.Close()
	n.killed.Add(1)
	return c.kill("QUERY", id)
}

// end ends a connection of this node that this side has given up, with what it is
// doing there.
func (n *Node) end(ctx context.Context, lost *Conn) error {
	c, err := n.Own(ctx, time.Duration(n.timeouts.Connect))
	if err != nil {
		return err
	}
	defer c.Close()
	n.killed.Add(1)
	return c.end(lost)
}

// restartSlack is how far the age of a server may be told wrongly: Uptime counts
// whole seconds.
const restartSlack = 2 * time.Second

// end ends a connection to the same node over c. One that is older than the server
// died with the server before, and its id may be anybody's by now.
func (c *Conn) end(lost *Conn) error {
	rows, err := c.Query("SHOW GLOBAL STATUS LIKE 'Uptime'", 1)
	if err != nil {
		return err
	}
	if len(rows) == 1 && len(rows[0]) == 2 {
		seconds, err := strconv.ParseInt(string(rows[0][1]), 10, 64)
		if err == nil && time.Since(lost.born) > time.Duration(seconds)*time.Second+restartSlack {
			return nil
		}
	}
	return c.kill("CONNECTION", lost.id)
}

func (c *Conn) kill(what string, id uint64) error {
	_, err := c.Exec(fmt.Sprintf("KILL %s %d", what, id))
	if e, ok := err.(*mysql.Error); ok && e.Code == gomysql.ER_NO_SUCH_THREAD {
		return nil
	}
	return err
}
