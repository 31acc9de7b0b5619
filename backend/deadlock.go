package backend

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"
	"go.uber.org/zap"

	"braid/internal/mysql"
)

const (
	// A statement that has been under way for deadlockAfter makes the detector
	// look at the nodes; it looks every deadlockInterval, and a cycle counts when
	// it is seen twice: well within a second in all.
	deadlockAfter    = 300 * time.Millisecond
	deadlockInterval = 200 * time.Millisecond
	// deadlockJitter is added at random: MariaDB's lock tables are a copy that is
	// made anew only when nobody has looked for 100 ms, so that lookers in step
	// would see an old one for ever.
	deadlockJitter = 100 * time.Millisecond
	// deadlockRest is how many intervals the detector rests after a look at
	// which nobody waited for a lock: what takes so long is only slow.
	deadlockRest = 4
	// waitsMax bounds one node's list of lock waits.
	waitsMax = 100_000
)

// gtridVariable is the user variable by which a leg's connection tells other
// Braids, through performance_schema, whose it is.
const gtridVariable = "braid_gtrid"

// DetectDeadlocks ends deadlocks over several nodes until ctx ends (rule T15):
// each node sees a part of such a cycle only, and would let it wait for
// innodb_lock_wait_timeout. It costs nothing as long as no statement of a
// transaction over several nodes takes long.
func (k *Coordinator) DetectDeadlocks(ctx context.Context) {
	tick := time.NewTimer(deadlockInterval)
	defer tick.Stop()
	d := &detector{k: k, conns: map[*Node]*Conn{}}
	defer d.close()
	rest := 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		tick.Reset(deadlockInterval + rand.N(deadlockJitter))
		switch {
		case !d.suspicious():
			rest = 0
			d.close()
			d.before = nil
		case rest > 0:
			rest--
		case !d.look(ctx):
			rest = deadlockRest
		}
	}
}

// detector is the state between two looks. It belongs to one goroutine.
type detector struct {
	k      *Coordinator
	conns  map[*Node]*Conn
	before map[string]time.Time // the cycles of the look before, with when they were first seen
}

func (d *detector) close() {
	for n, c := range d.conns {
		_ = c.Close()
		delete(d.conns, n)
	}
}

// suspicious tells whether a statement of a transaction over several nodes has
// been under way for so long that it may be waiting in a circle.
func (d *detector) suspicious() bool {
	limit := time.Now().Add(-deadlockAfter).UnixNano()
	for _, t := range d.k.openTxs() {
		since := t.since.Load()
		if since == 0 || since > limit {
			continue
		}
		t.mu.Lock()
		spans := len(t.mu.legs) > 1 && !t.mu.ending
		t.mu.Unlock()
		if spans {
			return true
		}
	}
	return false
}

// look reads who waits for whom on every node, and stops the youngest
// transaction of each cycle that the look before has seen as well. It returns
// whether anybody waits.
func (d *detector) look(ctx context.Context) bool {
	nodes := d.k.cluster().Nodes()
	found := make([][]lockWait, len(nodes))
	var wg sync.WaitGroup
	for i, n := range nodes {
		c := d.conn(ctx, n)
		if c == nil {
			continue
		}
		wg.Go(func() {
			c.SetDeadline(time.Now().Add(2 * time.Second))
			waits, err := readLockWaits(c)
			if err != nil {
				d.k.log.Warn("reading lock waits failed; deadlocks over this node end by innodb_lock_wait_timeout",
					zap.String("node", n.name), zap.Error(err))
				c.broken = true
			}
			found[i] = waits
		})
	}
	wg.Wait()
	for n, c := range d.conns {
		if c.broken {
			_ = c.Close()
			delete(d.conns, n)
		}
	}
	var waits []lockWait
	for _, w := range found {
		waits = append(waits, w...)
	}
	own := d.parties()
	g := newWaitGraph(waits, own)
	seen := map[string]time.Time{}
	for _, cycle := range g.deadlocks() {
		signature := cycle.signature()
		first, again := d.before[signature]
		if !again {
			seen[signature] = time.Now()
			continue
		}
		seen[signature] = first
		v := cycle.victim()
		if v.tx == nil && time.Since(first) > strangerPatience {
			v = cycle.youngestOwn()
		}
		if v.tx != nil && v.tx.stop(v.since) {
			d.k.log.Info("broke a deadlock over several nodes", zap.Strings("cycle", cycle.names()), zap.String("victim", v.key))
			delete(seen, signature)
		}
	}
	d.before = seen
	return len(waits) > 0
}

// conn returns the detector's connection to a node, nil when there is none.
func (d *detector) conn(ctx context.Context, n *Node) *Conn {
	if c := d.conns[n]; c != nil {
		return c
	}
	c, err := ownConn(ctx, n, 2*time.Second)
	if err != nil {
		return nil
	}
	d.conns[n] = c
	return c
}

// parties lists this Braid's open transactions by their connections.
func (d *detector) parties() map[connKey]party {
	own := map[connKey]party{}
	for _, t := range d.k.openTxs() {
		t.mu.Lock()
		p := party{key: t.mu.gtrid, tx: t, since: t.since.Load(), began: t.mu.began}
		if p.key == "" {
			p.key = fmt.Sprintf("session %d", t.o.Session)
		}
		for _, l := range t.mu.legs {
			own[connKey{l.node.name, l.conn.id}] = p
		}
		t.mu.Unlock()
	}
	return own
}

// connKey is a connection on a node.
type connKey struct {
	node string
	id   uint64
}

// lockWait is one connection of a node waiting for a lock of another one.
type lockWait struct {
	waiter, blocker           connKey
	waiterGTRID, blockerGTRID string // as other Braids' connections tell
}

// readLockWaits reads who waits for whom on c's node.
func readLockWaits(c *Conn) ([]lockWait, error) {
	text := "SELECT r.PROCESSLIST_ID,b.PROCESSLIST_ID,rv.VARIABLE_VALUE,bv.VARIABLE_VALUE" +
		" FROM performance_schema.data_lock_waits w" +
		" JOIN performance_schema.threads r ON r.THREAD_ID=w.REQUESTING_THREAD_ID" +
		" JOIN performance_schema.threads b ON b.THREAD_ID=w.BLOCKING_THREAD_ID" +
		" LEFT JOIN performance_schema.user_variables_by_thread rv ON rv.THREAD_ID=r.THREAD_ID AND rv.VARIABLE_NAME='" + gtridVariable + "'" +
		" LEFT JOIN performance_schema.user_variables_by_thread bv ON bv.THREAD_ID=b.THREAD_ID AND bv.VARIABLE_NAME='" + gtridVariable + "'"
	if c.node.MariaDB() {
		text = "SELECT r.trx_mysql_thread_id,b.trx_mysql_thread_id,rv.VARIABLE_VALUE,bv.VARIABLE_VALUE" +
			" FROM information_schema.INNODB_LOCK_WAITS w" +
			" JOIN information_schema.INNODB_TRX r ON r.trx_id=w.requesting_trx_id" +
			" JOIN information_schema.INNODB_TRX b ON b.trx_id=w.blocking_trx_id" +
			" LEFT JOIN performance_schema.threads rt ON rt.PROCESSLIST_ID=r.trx_mysql_thread_id" +
			" LEFT JOIN performance_schema.user_variables_by_thread rv ON rv.THREAD_ID=rt.THREAD_ID AND rv.VARIABLE_NAME='" + gtridVariable + "'" +
			" LEFT JOIN performance_schema.threads bt ON bt.PROCESSLIST_ID=b.trx_mysql_thread_id" +
			" LEFT JOIN performance_schema.user_variables_by_thread bv ON bv.THREAD_ID=bt.THREAD_ID AND bv.VARIABLE_NAME='" + gtridVariable + "'"
	}
	rows, err := c.Query(text, waitsMax)
	if err != nil {
		return nil, err
	}
	waits := make([]lockWait, 0, len(rows))
	for _, r := range rows {
		w := lockWait{waiterGTRID: string(r[2]), blockerGTRID: string(r[3])}
		w.waiter.node, w.blocker.node = c.node.name, c.node.name
		w.waiter.id, _ = strconv.ParseUint(string(r[0]), 10, 64)
		w.blocker.id, _ = strconv.ParseUint(string(r[1]), 10, 64)
		if w.waiter.id != 0 && w.blocker.id != 0 { // 0: a prepared branch without an owner
			waits = append(waits, w)
		}
	}
	return waits, nil
}

// party is a transaction in the graph: one of this Braid's, another Braid's
// (known by its gtrid), or a connection of which nothing is known.
type party struct {
	key   string
	tx    *Tx       // nil: not this Braid's
	since int64     // tx: of its statement under way
	began time.Time // tx: of the transaction
}

// waitGraph is who waits for whom, over all nodes.
type waitGraph struct {
	parties map[string]party
	waits   map[string][]string // waiter -> blockers
}

func newWaitGraph(waits []lockWait, own map[connKey]party) *waitGraph {
	g := &waitGraph{parties: map[string]party{}, waits: map[string][]string{}}
	name := func(c connKey, gtrid string) string {
		p, ok := own[c]
		switch {
		case ok:
		case gtrid != "":
			if _, known := g.parties[gtrid]; known {
				return gtrid
			}
			p = party{key: gtrid}
		default:
			p = party{key: fmt.Sprintf("connection %d of node %s", c.id, c.node)}
		}
		g.parties[p.key] = p
		return p.key
	}
	for _, w := range waits {
		a, b := name(w.waiter, w.waiterGTRID), name(w.blocker, w.blockerGTRID)
		if a != b && !slices.Contains(g.waits[a], b) {
			g.waits[a] = append(g.waits[a], b)
		}
	}
	for _, blockers := range g.waits {
		slices.Sort(blockers)
	}
	return g
}

// lockCycle is one cycle: each party waits for the next, the last for the first.
type lockCycle []party

// deadlocks finds cycles until none is left when the victim of each is gone.
func (g *waitGraph) deadlocks() []lockCycle {
	var all []lockCycle
	for {
		cycle := g.cycle()
		if cycle == nil {
			return all
		}
		all = append(all, cycle)
		delete(g.waits, cycle.victim().key)
	}
}

// cycle finds one cycle, nil when there is none.
func (g *waitGraph) cycle() lockCycle {
	const (
		fresh = iota
		onPath
		done
	)
	state := map[string]int{}
	var path []string
	var visit func(string) lockCycle
	visit = func(key string) lockCycle {
		state[key] = onPath
		path = append(path, key)
		for _, next := range g.waits[key] {
			switch state[next] {
			case onPath:
				var c lockCycle
				for _, k := range path[slices.Index(path, next):] {
					c = append(c, g.parties[k])
				}
				return c
			case fresh:
				if c := visit(next); c != nil {
					return c
				}
			}
		}
		path = path[:len(path)-1]
		state[key] = done
		return nil
	}
	starts := make([]string, 0, len(g.waits))
	for key := range g.waits {
		starts = append(starts, key)
	}
	slices.Sort(starts)
	for _, key := range starts {
		if state[key] == fresh {
			if c := visit(key); c != nil {
				return c
			}
		}
	}
	return nil
}

// victim is the youngest transaction. Where another Braid has a part in the
// cycle the gtrids tell, so that both Braids choose the same; a connection of
// which nothing is known is never chosen while there is another.
func (d lockCycle) victim() party {
	foreign := slices.ContainsFunc(d, func(p party) bool { return p.tx == nil })
	return slices.MaxFunc(d, func(a, b party) int {
		ga, oka := parseGlobalID(a.key)
		gb, okb := parseGlobalID(b.key)
		switch {
		case oka != okb && oka:
			return 1
		case oka != okb:
			return -1
		case !foreign:
			if c := a.began.Compare(b.began); c != 0 {
				return c
			}
		case oka:
			if c := ga.began.Compare(gb.began); c != 0 {
				return c
			}
			return strings.Compare(ga.random, gb.random)
		}
		return strings.Compare(a.key, b.key)
	})
}

// strangerPatience is how long a cycle may last whose victim is another Braid's. A
// Braid that is gone stops nobody, and a server notices that its client is gone only
// when the wait is over.
const strangerPatience = 2 * time.Second

// youngestOwn is the youngest of this Braid's transactions in the cycle; its tx is
// nil where there is none.
func (d lockCycle) youngestOwn() party {
	var own lockCycle
	for _, p := range d {
		if p.tx != nil {
			own = append(own, p)
		}
	}
	if len(own) == 0 {
		return party{}
	}
	return own.victim()
}

func (d lockCycle) names() []string {
	names := make([]string, len(d))
	for i, p := range d {
		names[i] = p.key
	}
	return names
}

// signature tells a cycle from others, and from one of the same transactions
// with later statements.
func (d lockCycle) signature() string {
	parts := make([]string, len(d))
	for i, p := range d {
		parts[i] = p.key + "@" + strconv.FormatInt(p.since, 10)
	}
	slices.Sort(parts)
	return strings.Join(parts, " ")
}

// running notes that a statement of the transaction is under way. A KILL QUERY
// for the statement before has done its work when it returns.
func (t *Tx) running() {
	if t.since.Load() != 0 {
		return
	}
	t.since.Store(t.k.now().UnixNano())
	t.statements.Add(1)
	t.awaitKill(false)
}

// Idle says that the transaction's statement has been answered.
func (t *Tx) Idle() { t.since.Store(0) }

// awaitKill waits until no KILL QUERY is on its way to a leg; ending says that
// none may be sent any more either.
func (t *Tx) awaitKill(ending bool) {
	t.mu.Lock()
	if ending {
		t.mu.ending = true
	}
	killing := t.mu.killing
	t.mu.Unlock()
	if killing == nil {
		return
	}
	<-killing
	if !ending {
		t.mu.Lock()
		t.mu.victim, t.mu.killing = false, nil
		t.mu.Unlock()
	}
}

// stop ends the statement that began at since, as the victim of a deadlock. It
// returns false when the statement is over, or the transaction is ending: past
// XA END nothing is stopped any more. A victim that is still there is stopped
// again: the kill may have been lost with its connection.
func (t *Tx) stop(since int64) bool {
	t.mu.Lock()
	if t.mu.ending || since == 0 || t.since.Load() != since {
		t.mu.Unlock()
		return false
	}
	done := make(chan struct{})
	t.mu.victim, t.mu.killing = true, done
	type at struct {
		n  *Node
		id uint64
	}
	legs := make([]at, 0, len(t.mu.legs))
	for _, l := range t.mu.legs {
		legs = append(legs, at{l.node, l.conn.id})
	}
	t.mu.Unlock()
	defer close(done)
	ctx, cancel := context.WithTimeout(context.Background(), t.k.patience)
	defer cancel()
	for _, l := range legs {
		if err := l.n.Kill(ctx, l.id); err != nil {
			t.k.log.Warn("the victim of a deadlock could not be stopped on a node", zap.String("node", l.n.name), zap.Error(err))
		}
	}
	return true
}

// stopped tells whether an error is what became of the victim of a deadlock.
func (t *Tx) stopped(err error) bool {
	var e *mysql.Error
	if !errors.As(err, &e) || e.Code != gomysql.ER_QUERY_INTERRUPTED {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.mu.victim
}

// tag makes the leg's connection tell other Braids whose it is, where they can
// see it (rule T15). It is sent at once, and answered with the next statement.
func (t *Tx) tag(l *leg) error {
	f := t.k.facts(l.node)
	if f == nil || !f.performanceSchema {
		return nil
	}
	unsent := l.conn.Pending() > 0 && len(t.savepoints) == 0 // what begins it goes with its statement
	if err := l.conn.Queue("SET @" + gtridVariable + "='" + t.mu.gtrid + "'"); err != nil {
		return err
	}
	l.conn.tagged = true
	if l == t.mu.legs[0] && !unsent {
		return l.conn.Flush() // its next statement may be long in coming
	}
	return nil
}

// untag queues, in front of the transaction's end, that the mark is taken off a
// connection that the session keeps. Others lose it when they are next taken
// from the pool, where it costs no COMMIT anything.
func (l *leg) untag() {
	if l.pinned && l.err == nil && !l.gone {
		l.err = l.conn.untag()
	}
}
