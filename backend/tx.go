package backend

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"
	"go.uber.org/zap"

	"braid/conf"
	"braid/internal/mysql"
)

// patience is how long Braid itself waits for a node when a transaction is
// decided, or lost, and the client waits for the news.
const patience = 10 * time.Second

// Coordinator begins the transactions of one Braid and finishes the interrupted
// ones of every Braid of the cluster. One per server, made by NewCoordinator.
// Safe for concurrent use. The protocol is in docs/transactions.md.
type Coordinator struct {
	recovery conf.Recovery
	cluster  func() *Cluster
	log      *zap.Logger

	// Fixed before the first use; tests set them.
	now       func() time.Time
	patience  time.Duration
	failpoint func(step string) // nil: none

	prepare sync.Mutex // one Prepare at a time

	passing   sync.Mutex        // one pass of recovery at a time; guards purgeFrom
	purgeFrom map[string]string // where the next look for old decisions begins, by node and gtrid prefix

	unfinished atomic.Int64   // branches that are to be committed: those of left and of applying
	appliers   sync.WaitGroup // commits that are applied behind their answer

	mu struct {
		sync.Mutex
		cluster  string                   // the cluster id, "" until it is known
		nodes    map[*Node]*nodeFacts     // prepared nodes
		refused  map[*Node]refusal        // nodes that could not be prepared just now
		open     map[*Tx]struct{}         // transactions that have a leg
		left     map[branch]Decision      // decided here, to be finished
		applying map[branch]chan struct{} // being committed behind the client's OK; closed when that is over
		seen     map[branch]time.Time     // prepared branches by when a pass first saw them
	}
}

// NewCoordinator makes a coordinator over the nodes that cluster returns at any
// time. It connects to nothing; Prepare does. The error is a malformed
// BRAID_FAILPOINT.
func NewCoordinator(cfg conf.Recovery, cluster func() *Cluster, log *zap.Logger) (*Coordinator, error) {
	hook, err := failpointFrom(os.Getenv(failpointVariable), killSelf)
	if err != nil {
		return nil, err
	}
	if cfg.Retention <= 0 {
		cfg.Retention = conf.Duration(48 * time.Hour)
	}
	k := &Coordinator{recovery: cfg, cluster: cluster, log: log, now: time.Now, patience: patience, failpoint: hook}
	k.purgeFrom = map[string]string{}
	k.mu.nodes = map[*Node]*nodeFacts{}
	k.mu.refused = map[*Node]refusal{}
	k.mu.open = map[*Tx]struct{}{}
	k.mu.left = map[branch]Decision{}
	k.mu.applying = map[branch]chan struct{}{}
	k.mu.seen = map[branch]time.Time{}
	return k, nil
}

// TxMode says whether a transaction may span nodes.
type TxMode uint8

const (
	// TxAtomic transactions span nodes and stay whole.
	TxAtomic TxMode = iota
	// TxSingle transactions stay on the node of their first statement.
	TxSingle
)

// TxOptions is how a transaction begins.
type TxOptions struct {
	Session   uint64 // the session's id, for Open
	FoundRows bool   // the client's CLIENT_FOUND_ROWS
	Mode      TxMode

	// What START TRANSACTION or a SET TRANSACTION before it asked for.
	ReadOnly, ReadWrite bool
	Snapshot            bool

	// Since, when not zero, counts as the time the transaction began: a statement
	// that is tried again after a deadlock is not the youngest for ever.
	Since time.Time

	// Locked says that the session holds LOCK TABLES on its pinned connections. The
	// transaction then stays on one node, since servers begin no branch under it
	// (1400), and begins without START TRANSACTION, which would end it.
	Locked bool

	Isolation string // "READ-COMMITTED", ...; "" none

	// Locking says that its plain reads lock (SERIALIZABLE): what it has read holds
	// together only as long as no leg is lost, so that Commit fails when one was.
	Locking bool

	// Decided has Commit return as soon as a commit over several nodes is decided;
	// its branches are committed behind that, and FinishOn waits for them (rule T11).
	Decided bool

	// Spread says that the transaction will probably write on several nodes. Its
	// first leg is a branch then, too, where it can be, and its COMMIT over several
	// nodes one round trip shorter; on one node it costs XA END beside the COMMIT.
	Spread bool

	// Pinned returns the connection that the session is pinned to on a node, nil
	// when there is none; the leg then uses it and leaves it to the session at
	// the end. Unpinned is told when it had to be destroyed. Both may be nil.
	Pinned   func(*Node) *Conn
	Unpinned func(*Conn)
}

// TxState is where a transaction stands.
type TxState uint8

const (
	// TxActive takes statements.
	TxActive TxState = iota
	// TxEnded is over, committed or rolled back; the next statement begins anew,
	// as after MySQL's error 1213.
	TxEnded
	// TxLost was rolled back because a leg was lost. Every statement but
	// ROLLBACK, COMMIT and those that begin a transaction is refused (rule T4).
	TxLost
	// TxUnknown ended with a COMMIT that was not answered: the client's
	// connection is to be closed with error 2013.
	TxUnknown
)

// ErrOutcomeUnknown is a commit of which nobody can tell whether it happened.
// The client's connection must be closed: any error would claim something.
var ErrOutcomeUnknown = errors.New("the outcome of the commit is not known")

// Tx is one transaction of one session. It belongs to the session's goroutine.
//
// A node has at most one leg. The connections that Leg returns are the
// transaction's: they are used with Need.Autocommit false, and neither released
// nor destroyed by the caller. Before Undo, Failed, Commit and Rollback every
// leg's answer must have been read to its end, except those that Abandon was
// called for.
type Tx struct {
	k *Coordinator
	o TxOptions

	state      TxState
	refusal    *mysql.Error // TxLost: what statements get
	savepoints []string     // the client's live ones, oldest first
	spanned    bool

	statements atomic.Int64 // begun so far
	since      atomic.Int64 // when the one under way began, in Unix nanoseconds; 0: none is

	mu struct { // legs, gtrid and began are written by the session's goroutine only, which reads without it
		sync.Mutex
		legs    []*leg
		gtrid   string        // "" until there is a branch
		began   time.Time     // when Begin was called
		ending  bool          // Commit or Rollback has begun: nobody stops its statements any more
		victim  bool          // the deadlock detector has stopped a statement
		killing chan struct{} // closed when it has done so; nil: it has not begun to
	}
}

// leg is a transaction's part on one node.
type leg struct {
	node   *Node
	conn   *Conn
	bqual  string // "" for an ordinary transaction, which only the first leg may be
	wrote  atomic.Bool
	pinned bool
	gone   bool // its connection was destroyed

	// The participants that a branch's decision row was last told to name, "" when
	// that was undone.
	row string

	// During commit and rollback.
	prepareSent bool
	released    bool         // it only read, and its node has confirmed its end
	err         error        // the connection failed
	refused     *mysql.Error // the node refused the last command
	before      *mysql.Error // the node refused one in front of it
}

// Begin starts a transaction. It opens nothing; legs open with Leg.
func (k *Coordinator) Begin(o TxOptions) *Tx {
	t := &Tx{k: k, o: o}
	if t.mu.began = o.Since; o.Since.IsZero() {
		t.mu.began = k.now()
	}
	return t
}

// Reconsider changes how a transaction began that has no leg yet.
func (t *Tx) Reconsider(o TxOptions) {
	if len(t.mu.legs) == 0 {
		t.o = o
	}
}

// State tells where the transaction stands.
func (t *Tx) State() TxState { return t.state }

// Spanned tells of a transaction that has ended whether it wrote on several nodes.
func (t *Tx) Spanned() bool { return t.spanned }

// Over tells whether the transaction takes no more statements.
func (t *Tx) Over() bool { return t.state != TxActive }

// Refusal is the error for a statement in a transaction that is not active.
func (t *Tx) Refusal() *mysql.Error {
	if t.refusal != nil {
		return t.refusal
	}
	return mysql.Errorf(gomysql.ER_LOCK_DEADLOCK, "The transaction is over; try restarting transaction")
}

// Opened tells whether the transaction has a leg anywhere.
func (t *Tx) Opened() bool { return len(t.mu.legs) > 0 }

// On returns the leg's connection to a node for a statement, nil when there is none.
func (t *Tx) On(n *Node) *Conn {
	t.running()
	if l := t.leg(n); l != nil && !l.gone {
		return l.conn
	}
	return nil
}

// AppendConns appends the connections of the transaction's legs to dst.
func (t *Tx) AppendConns(dst []*Conn) []*Conn {
	for _, l := range t.mu.legs {
		if !l.gone {
			dst = append(dst, l.conn)
		}
	}
	return dst
}

func (t *Tx) leg(n *Node) *leg {
	for _, l := range t.mu.legs {
		if l.node == n || l.node.name == n.name {
			return l
		}
	}
	return nil
}

func (t *Tx) legOf(c *Conn) *leg {
	for _, l := range t.mu.legs {
		if l.conn == c {
			return l
		}
	}
	return nil
}

// isolations are the levels that may stand in a SET TRANSACTION.
var isolations = [...]string{"READ-UNCOMMITTED", "READ-COMMITTED", "REPEATABLE-READ", "SERIALIZABLE"}

// oneShot is the SET TRANSACTION that goes in front of a leg, "" for none.
func (o *TxOptions) oneShot() (string, error) {
	var parts []string
	if o.Isolation != "" {
		level := ""
		for _, i := range isolations {
			if i == o.Isolation {
				level = strings.ReplaceAll(i, "-", " ")
			}
		}
		if level == "" {
			return "", mysql.Errorf(gomysql.ER_WRONG_VALUE_FOR_VAR, "Variable 'transaction_isolation' can't be set to the value of '%s'", o.Isolation)
		}
		parts = append(parts, "ISOLATION LEVEL "+level)
	}
	switch {
	case o.ReadOnly:
		parts = append(parts, "READ ONLY")
	case o.ReadWrite:
		parts = append(parts, "READ WRITE")
	}
	if len(parts) == 0 {
		return "", nil
	}
	return "SET TRANSACTION " + strings.Join(parts, ","), nil
}

// Leg returns the transaction's connection to a node, opening the leg when it
// is the first statement there. What a new leg needs in front of its first
// statement is queued, not sent. schema only guides the choice of connection:
// Need tells it with each statement.
//
// An error leaves the transaction as it was, and nothing was sent: an
// *Unreachable, a full pool, or an *mysql.Error that refuses.
func (t *Tx) Leg(ctx context.Context, n *Node, schema string, vars *Vars) (*Conn, error) {
	if t.state != TxActive {
		return nil, t.Refusal()
	}
	t.running()
	if err := t.k.FinishOn(ctx, n); err != nil {
		return nil, err
	}
	if l := t.leg(n); l != nil {
		if l.gone {
			return nil, t.lose(n, errAbandoned)
		}
		return l.conn, nil
	}
	if t.o.Mode == TxSingle && len(t.mu.legs) > 0 {
		return nil, mysql.Errorf(gomysql.ER_NOT_SUPPORTED_YET,
			"This version of Braid doesn't yet support 'a statement on node %s in a transaction that began on node %s, where the database has transaction = \"single\"'",
			n.name, t.mu.legs[0].node.name)
	}
	if t.o.Locked && len(t.mu.legs) > 0 {
		return nil, mysql.Errorf(gomysql.ER_NOT_SUPPORTED_YET,
			"This version of Braid doesn't yet support 'a transaction over nodes %s and %s under LOCK TABLES'", t.mu.legs[0].node.name, n.name)
	}
	if len(t.mu.legs) == legsMax {
		return nil, mysql.Errorf(gomysql.ER_NOT_SUPPORTED_YET, "This version of Braid doesn't yet support 'a transaction over more than %d nodes'", legsMax)
	}
	l := &leg{node: n}
	if t.o.Pinned != nil {
		if c := t.o.Pinned(n); c != nil {
			l.conn, l.pinned = c, true
		}
	}
	if l.conn == nil {
		c, err := n.Get(ctx, t.o.FoundRows, schema, vars)
		if err != nil {
			return nil, err
		}
		l.conn = c
	}
	gtrid, err := t.open(ctx, l, vars)
	if err != nil {
		t.destroy(l)
		var e *mysql.Error
		if errors.As(err, &e) {
			return nil, err
		}
		return nil, fmt.Errorf("node %s: beginning a transaction: %w", n.name, err)
	}
	t.mu.Lock()
	t.mu.legs = append(t.mu.legs, l)
	t.mu.gtrid = gtrid
	t.mu.Unlock()
	if len(t.mu.legs) == 2 {
		if err := t.tag(t.mu.legs[0]); err != nil {
			return nil, t.lose(t.mu.legs[0].node, err)
		}
	}
	if len(t.mu.legs) > 1 {
		if err := t.tag(l); err != nil {
			return nil, t.lose(n, err)
		}
	}
	if len(t.mu.legs) == 1 {
		t.k.mu.Lock()
		t.k.mu.open[t] = struct{}{}
		t.k.mu.Unlock()
	}
	return l.conn, nil
}

// open queues what begins the leg l, and returns the transaction's gtrid, "" as
// long as there is one leg only.
func (t *Tx) open(ctx context.Context, l *leg, vars *Vars) (gtrid string, err error) {
	c := l.conn
	first := len(t.mu.legs) == 0
	if c.identity == "" && len(t.k.cluster().names) > 1 && !t.o.Locked {
		// A node that cannot have branches may still have transactions of its own.
		facts, err := t.k.prepared(ctx, l.node)
		switch {
		case err == nil && l.pinned && l.node.MariaDB():
			c.identity = facts.identity // it may hold LOCK TABLES, under which braid.node cannot be read
		case err == nil:
			if err := t.k.identify(ctx, c, facts); err != nil {
				return "", err
			}
		case !first:
			return "", t.notReady(l.node, err)
		}
	}
	gtrid = t.mu.gtrid
	branched := !first || t.o.Spread && t.o.Mode == TxAtomic && !t.o.ReadOnly && !t.o.Snapshot && !t.o.Locked && !l.pinned && c.identity != ""
	if branched && gtrid == "" {
		decider := l
		if !first {
			decider = t.mu.legs[0]
		}
		if decider.conn.identity == "" {
			_, err := t.k.prepared(ctx, decider.node)
			return "", t.notReady(decider.node, err)
		}
		gtrid = newGlobalID(t.k.clusterID(), decider.conn.identity, t.k.now()).String()
	}
	// autocommit goes alone: a SET of several can fail for another's sake, and
	// the write behind it would commit by itself (rule T2).
	explicit := c.autocommit != autocommitOff
	if explicit {
		if err := c.Queue("SET autocommit=0"); err != nil {
			return "", err
		}
		c.autocommit = autocommitOff
		if l.pinned {
			// START TRANSACTION would end the session's LOCK TABLES.
			explicit = false
			if err := c.Confirm(); err != nil {
				return "", err
			}
		}
	}
	if err := c.bring(&Need{Vars: vars}); err != nil {
		return "", err
	}
	oneShot, err := t.o.oneShot()
	if err != nil {
		return "", err
	}
	if oneShot != "" {
		explicit = !t.o.Locked // so that no statement but the transaction's own can use it up
		if err := c.Queue(oneShot); err != nil {
			return "", err
		}
	}
	switch {
	case branched:
		l.bqual = branchID(c.identity, c.id)
		if err := c.Queue("XA START " + xidText(gtrid, l.bqual)); err != nil {
			return "", err
		}
		if t.o.Snapshot {
			// A branch cannot be begun WITH CONSISTENT SNAPSHOT (rule T14). A read
			// opens the view; DO with a subquery would not, it locks instead.
			if err := c.Queue("SELECT id FROM braid.node LIMIT 1 INTO @braid_snapshot"); err != nil {
				return "", err
			}
		}
	case t.o.Snapshot:
		if err := c.Queue("START TRANSACTION WITH CONSISTENT SNAPSHOT"); err != nil {
			return "", err
		}
	case explicit:
		if err := c.Queue("START TRANSACTION"); err != nil {
			return "", err
		}
	}
	for _, s := range t.savepoints {
		if err := c.Queue("SAVEPOINT " + quoteName(s)); err != nil {
			return "", err
		}
	}
	return gtrid, nil
}

// Pin says that the session keeps a leg's connection from now on: the
// transaction's end leaves it to the session. Of any other connection it says
// nothing.
func (t *Tx) Pin(c *Conn) {
	if l := t.legOf(c); l != nil {
		l.pinned = true
	}
}

// notReady is the refusal of a transaction over several nodes one of which
// cannot take part.
func (t *Tx) notReady(n *Node, err error) error {
	var u *Unreachable
	if err != nil && (errors.As(err, &u) || IsLost(err)) {
		return err
	}
	why := "begin the transaction again"
	if err != nil {
		why = err.Error()
	}
	return mysql.Errorf(gomysql.ER_NOT_SUPPORTED_YET,
		"This version of Braid doesn't yet support 'a transaction over several nodes while node %s is not ready for it: %s'", n.name, why)
}

// Wrote says that the statement about to be sent to a node may write or lock
// there (rule T12). In a READ ONLY transaction nothing can: what its node
// refuses must not make it one that has to be decided.
func (t *Tx) Wrote(n *Node) {
	if l := t.leg(n); l != nil && !t.o.ReadOnly {
		l.wrote.Store(true)
	}
}

// Abandon gives up a leg whose answer was not read to its end: its connection
// is destroyed and killed on its node. The transaction cannot go on without it:
// Failed is to be called next.
func (t *Tx) Abandon(c *Conn) {
	if l := t.legOf(c); l != nil && !l.gone {
		t.destroy(l)
		t.k.kill(c)
	}
}

// errAbandoned is the use of a leg after Abandon.
var errAbandoned = errors.New("the leg was given up")

// kill ends a connection on its node, so that the node rolls back what it was
// doing there now and not when it next looks at its socket.
func (k *Coordinator) kill(c *Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), k.patience)
	defer cancel()
	if err := c.node.end(ctx, c); err != nil {
		k.log.Warn("a connection that was given up could not be killed; its node ends it when it notices",
			zap.String("node", c.node.name), zap.Uint64("connection", c.id), zap.Error(err))
	}
}

// destroy ends a leg's connection.
func (t *Tx) destroy(l *leg) {
	if l.gone {
		return
	}
	l.gone = true
	l.conn.Destroy()
	if l.pinned && t.o.Unpinned != nil {
		t.o.Unpinned(l.conn)
	}
}

// leave gives a leg's connection, on which no transaction is open, back.
func (t *Tx) leave(l *leg) {
	if l.gone || l.pinned {
		return
	}
	l.gone = true
	l.conn.Release()
}

// end takes the transaction off the coordinator's list. No leg is left open.
func (t *Tx) end(s TxState) {
	t.state = s
	t.savepoints = nil
	if len(t.mu.legs) == 0 {
		return
	}
	writers := 0
	for _, l := range t.mu.legs {
		if l.wrote.Load() {
			writers++
		}
	}
	t.spanned = writers > 1
	t.mu.Lock()
	t.mu.legs = nil
	t.mu.Unlock()
	t.k.mu.Lock()
	delete(t.k.mu.open, t)
	t.k.mu.Unlock()
}
