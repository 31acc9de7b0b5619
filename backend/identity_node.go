package backend

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"
	"go.uber.org/zap"

	"braid/internal/mysql"
)

// nodeFacts is what a node says of itself, as rule T6 needs it.
type nodeFacts struct {
	identity string // of the server that answers there now

	// The row of braid.node; cluster is empty when there is none.
	cluster      string
	recorded     string   // the identity the row was made with, or settled on
	predecessors []string // servers whose decisions an operator has said are all here

	rollbackOnTimeout bool // innodb_rollback_on_timeout: error 1205 ends the whole transaction
	performanceSchema bool // it is on, so that other Braids can read connections' user variables
}

// moved tells that another server answers than the one the row was made by: a
// failover that is not settled yet (rule T10).
func (f *nodeFacts) moved() bool { return f.recorded != f.identity }

// decides tells whether the decisions of the server of that identity can be
// read, and made, here.
func (f *nodeFacts) decides(identity string) bool {
	if identity == f.identity {
		return true
	}
	if f.moved() {
		return false
	}
	for _, p := range f.predecessors {
		if p == identity {
			return true
		}
	}
	return false
}

// ownSession makes a connection of Braid's own independent of the server's
// global settings; short waits, since recovery comes again.
func ownSession(c *Conn) error {
	isolation := WireName("transaction_isolation", c.node.MariaDB())
	_, err := c.Exec("SET SESSION autocommit=1,innodb_lock_wait_timeout=2,lock_wait_timeout=5,sql_mode='',sql_safe_updates=0,time_zone='+00:00'," +
		isolation + "='READ-COMMITTED'")
	return err
}

// ownConn opens a connection of Braid's own with ownSession done. The caller
// closes it with Close.
func ownConn(ctx context.Context, n *Node, timeout time.Duration) (*Conn, error) {
	c, err := n.Own(ctx, timeout)
	if err != nil {
		return nil, err
	}
	if err := ownSession(c); err != nil {
		_ = c.Close()
		return nil, fmt.Errorf("node %s: %w", n.name, err)
	}
	return c, nil
}

func isMissing(err error) bool {
	var e *mysql.Error
	return errors.As(err, &e) && (e.Code == gomysql.ER_NO_SUCH_TABLE || e.Code == gomysql.ER_BAD_DB_ERROR)
}

// ensureTables makes schema braid and its tables where they are missing. It
// issues no DDL where they are there.
func ensureTables(c *Conn) error {
	for _, probe := range []string{"SELECT id,cluster,identity,predecessors FROM braid.node LIMIT 0",
		"SELECT gtrid,decision,branches,created FROM braid.decision LIMIT 0"} {
		_, err := c.Query(probe, 1)
		if err == nil {
			continue
		}
		if !isMissing(err) {
			return fmt.Errorf("node %s: %w", c.node.name, err)
		}
		for _, text := range ownTables {
			if _, err := c.Exec(text); err != nil {
				return fmt.Errorf("node %s: making schema braid: %w", c.node.name, err)
			}
		}
	}
	return nil
}

// identityQuery asks who a server is. On MySQL every server has a UUID of its
// own; MariaDB's is the one in braid.node.
func identityQuery(mariadb bool) string {
	if mariadb {
		return "SELECT identity,CONNECTION_ID() FROM braid.node WHERE id=1 LIMIT 1"
	}
	return "SELECT @@server_uuid,CONNECTION_ID() LIMIT 1" // against the session's sql_select_limit
}

// parseIdentity reads identityQuery's answer; identity is empty when the node
// has none yet.
func parseIdentity(rows [][][]byte, mariadb bool) (identity string, connection uint64, err error) {
	if len(rows) == 0 || len(rows[0]) != 2 {
		return "", 0, nil
	}
	identity = string(rows[0][0])
	if !mariadb {
		if identity, err = identityOfUUID(identity); err != nil {
			return "", 0, err
		}
	}
	_, err = fmt.Sscan(string(rows[0][1]), &connection)
	return identity, connection, err
}

// lookAtNode reads a node's facts. Tables must be there.
func lookAtNode(c *Conn) (*nodeFacts, error) {
	wrap := func(err error) error { return fmt.Errorf("node %s: reading its identity: %w", c.node.name, err) }
	mariadb := c.node.MariaDB()
	rows, err := c.Query(identityQuery(mariadb), 1)
	if err != nil {
		return nil, wrap(err)
	}
	f := &nodeFacts{}
	if f.identity, _, err = parseIdentity(rows, mariadb); err != nil {
		return nil, wrap(err)
	}
	if rows, err = c.Query("SELECT @@global.innodb_rollback_on_timeout,@@global.performance_schema", 1); err != nil {
		return nil, wrap(err)
	}
	if len(rows) == 1 {
		f.rollbackOnTimeout, f.performanceSchema = string(rows[0][0]) == "1", string(rows[0][1]) == "1"
	}
	if rows, err = c.Query("SELECT cluster,identity,predecessors FROM braid.node WHERE id=1", 1); err != nil {
		return nil, wrap(err)
	}
	if len(rows) == 1 {
		f.cluster, f.recorded = string(rows[0][0]), string(rows[0][1])
		f.predecessors = strings.Fields(string(rows[0][2]))
		if !isID(f.cluster, clusterChars) || !isID(f.recorded, identityChars) {
			return nil, wrap(fmt.Errorf("braid.node holds cluster %q, identity %q", f.cluster, f.recorded))
		}
	}
	return f, nil
}

// enroll writes a node's row of braid.node unless another Braid was first, and
// returns the facts that hold then.
func enroll(c *Conn, f *nodeFacts, cluster string) (*nodeFacts, error) {
	identity := f.identity
	if identity == "" {
		identity = randomID(16)
	}
	_, err := c.Exec("INSERT INTO braid.node (id,cluster,identity) VALUES (1,'" + cluster + "','" + identity + "')")
	var e *mysql.Error
	if err != nil && !(errors.As(err, &e) && e.Code == gomysql.ER_DUP_ENTRY) {
		return nil, fmt.Errorf("node %s: writing braid.node: %w", c.node.name, err)
	}
	return lookAtNode(c)
}

// visit connects to a node, makes what is missing there and reads its facts.
// The connection stays open for enroll; the caller closes it.
func (k *Coordinator) visit(ctx context.Context, n *Node) (*Conn, *nodeFacts, error) {
	c, err := ownConn(ctx, n, ownTimeout(n))
	if err != nil {
		return nil, nil, err
	}
	err = ensureTables(c)
	var f *nodeFacts
	if err == nil {
		f, err = lookAtNode(c)
	}
	if err != nil {
		_ = c.Close()
		return nil, nil, err
	}
	return c, f, nil
}

// ownTimeout bounds a visit of Braid's own to a node.
func ownTimeout(n *Node) time.Duration {
	return max(10*time.Second, 2*time.Duration(n.timeouts.Connect))
}

// join makes the node one of the cluster: it agrees on the cluster id, or makes
// one (only on the first node by name, so that two Braids at fresh nodes agree),
// and refuses a server that is two configured nodes. k.prepare is held.
func (k *Coordinator) join(c *Conn, f *nodeFacts) error {
	n := c.node
	cluster := k.clusterID()
	if f.cluster == "" {
		if cluster == "" {
			if first := k.cluster().names[0]; first != n.name {
				return fmt.Errorf("node %s: the cluster id is made on node %s, which was not reached yet", n.name, first)
			}
			cluster = randomID(8)
		}
		var err error
		if f, err = enroll(c, f, cluster); err != nil {
			return err
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.mu.cluster == "" {
		k.mu.cluster = f.cluster
	}
	if k.mu.cluster != f.cluster {
		return &Conflict{fmt.Sprintf("node %s belongs to cluster %s, the others to cluster %s (column cluster of braid.node): it was used with other nodes before",
			n.name, f.cluster, k.mu.cluster)}
	}
	for _, o := range k.cluster().Nodes() {
		if of := k.mu.nodes[o]; o != n && of != nil && of.identity == f.identity {
			return &Conflict{fmt.Sprintf("nodes %s and %s are one server, or one is a copy or replica of the other (identity %s): a transaction could not have a leg with each",
				o.name, n.name, f.identity)}
		}
	}
	if f.moved() {
		k.log.Warn("another server answers than before; recovery decides nothing there until the failover is settled",
			zap.String("node", n.name), zap.String("recorded", f.recorded), zap.String("identity", f.identity))
	}
	k.mu.nodes[n] = f
	delete(k.mu.refused, n)
	return nil
}

// Conflict is a configuration of nodes that cannot be: Braid must not start
// with it, and no transaction over several nodes may begin.
type Conflict struct{ Text string }

func (e *Conflict) Error() string { return e.Text }

func (k *Coordinator) clusterID() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.mu.cluster
}

// facts returns what is known of a node, nil before it was prepared.
func (k *Coordinator) facts(n *Node) *nodeFacts {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.mu.nodes[n]
}

// forget makes the next use of a node look at it again.
func (k *Coordinator) forget(n *Node) {
	k.mu.Lock()
	delete(k.mu.nodes, n)
	k.mu.Unlock()
}

// prepared returns a node's facts, preparing it when that was not done yet.
func (k *Coordinator) prepared(ctx context.Context, n *Node) (*nodeFacts, error) {
	if f := k.facts(n); f != nil {
		return f, nil
	}
	k.prepare.Lock()
	defer k.prepare.Unlock()
	k.mu.Lock()
	f, r := k.mu.nodes[n], k.mu.refused[n]
	k.mu.Unlock()
	if f != nil {
		return f, nil
	}
	if r.err != nil && time.Now().Before(r.until) {
		return nil, r.err
	}
	c, f, err := k.visit(ctx, n)
	if err == nil {
		err = k.join(c, f)
		_ = c.Close()
	}
	if err != nil {
		k.mu.Lock()
		k.mu.refused[n] = refusal{err, time.Now().Add(prepareAgainAfter)}
		k.mu.Unlock()
		return nil, err
	}
	return k.facts(n), nil
}

// prepareAgainAfter is how long a node that could not be prepared is not asked
// again, so that transactions on it alone do not each pay for the attempt.
const prepareAgainAfter = 2 * time.Second

// refusal is why a node could not be prepared, and until when that holds.
type refusal struct {
	err   error
	until time.Time
}

// Prepare makes the nodes ready for transactions over several of them: schema
// braid with its tables, one cluster id, an identity each. A node that cannot
// be reached, or that refuses, is only logged: it is prepared before its first
// leg. The error is a *Conflict, with which Braid must not start.
func (k *Coordinator) Prepare(ctx context.Context) error {
	k.prepare.Lock()
	defer k.prepare.Unlock()
	nodes := k.cluster().Nodes()
	if len(nodes) < 2 {
		return nil // nothing of Braid's is needed on a node that is alone
	}
	type visited struct {
		c   *Conn
		f   *nodeFacts
		err error
	}
	found := make([]visited, len(nodes))
	var wg sync.WaitGroup
	for i, n := range nodes {
		wg.Go(func() { found[i].c, found[i].f, found[i].err = k.visit(ctx, n) })
	}
	wg.Wait()
	defer func() {
		for _, v := range found {
			if v.c != nil {
				_ = v.c.Close()
			}
		}
	}()
	// Nodes that know the cluster id come first, so that the others learn it.
	for _, enrolled := range []bool{true, false} {
		for i, v := range found {
			if v.err != nil || (v.f.cluster != "") != enrolled {
				continue
			}
			err := k.join(v.c, v.f)
			var conflict *Conflict
			if errors.As(err, &conflict) {
				return err
			}
			found[i].err = err
		}
	}
	for i, v := range found {
		if v.err != nil {
			k.log.Warn("node is not ready for transactions over several nodes; it is tried again when one needs it",
				zap.String("node", nodes[i].name), zap.Error(v.err))
		}
	}
	return nil
}

// Settle says that a node's present server has every decision that the server
// before it acknowledged (rule T10): recovery then goes on there. For an
// operator, after a failover.
func (k *Coordinator) Settle(ctx context.Context, n *Node) error {
	k.prepare.Lock()
	defer k.prepare.Unlock()
	c, f, err := k.visit(ctx, n)
	if err != nil {
		return err
	}
	defer c.Close()
	if f.cluster != "" && f.moved() {
		_, err := c.Exec("UPDATE braid.node SET predecessors=TRIM(CONCAT(predecessors,' ',identity)),identity='" + f.identity +
			"' WHERE id=1 AND identity='" + f.recorded + "'")
		if err != nil {
			return fmt.Errorf("node %s: settling the failover: %w", n.name, err)
		}
		if f, err = lookAtNode(c); err != nil {
			return err
		}
	}
	return k.join(c, f)
}

// identify makes sure that the server at the other end of a pooled connection
// is the one its node was prepared as, and bounds how long the server keeps the
// connection when Braid is gone (rule T8). It costs one round trip in a
// connection's life. It leaves autocommit off, and the end of its own
// transaction queued.
//
// After an error the connection must be destroyed.
func (k *Coordinator) identify(ctx context.Context, c *Conn, f *nodeFacts) error {
	mariadb := c.node.MariaDB()
	if err := c.Queue(fmt.Sprintf("SET SESSION wait_timeout=%d,autocommit=0", legWaitSeconds(c.node))); err != nil {
		return err
	}
	c.autocommit = autocommitOff
	rows, err := c.Query(identityQuery(mariadb), 1)
	if err != nil {
		return err
	}
	identity, id, err := parseIdentity(rows, mariadb)
	if err != nil {
		return err
	}
	if identity != f.identity {
		// The address leads to another server since: look at it anew.
		k.forget(c.node)
		if f, err = k.prepared(ctx, c.node); err != nil {
			return err
		}
		if identity != f.identity {
			return fmt.Errorf("node %s: two servers answer at %s", c.node.name, c.node.conf.Primary)
		}
	}
	c.identity, c.id = identity, id
	return c.Queue("ROLLBACK")
}

// legWaitSeconds is the wait_timeout of connections that carry transactions: a
// client may idle in one for as long as timeouts.idle says, an orphan not longer.
func legWaitSeconds(n *Node) int {
	idle := time.Duration(max(n.timeouts.Idle, n.timeouts.Interactive))
	if idle <= 0 {
		idle = 8 * time.Hour
	}
	return int((idle+time.Minute)/time.Second) + 1
}
