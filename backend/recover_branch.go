package backend

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"
	"go.uber.org/zap"

	"braid/internal/mysql"
)

// branch names one prepared XA branch of Braid's.
type branch struct {
	node  string // the node's name in the configuration
	gtrid string
	bqual string
}

func (b branch) xid() string { return xidText(b.gtrid, b.bqual) }

// preparedMax bounds one node's list of prepared branches.
const preparedMax = 1 << 20

// listPrepared lists the prepared branches of Braid's cluster on the node that
// c leads to. Those of others, also of another Braid cluster, are left out: they
// are never touched (rule T6).
func listPrepared(c *Conn, cluster string) (map[branch]globalID, error) {
	rows, err := c.Query("XA RECOVER", preparedMax)
	if err != nil {
		return nil, fmt.Errorf("node %s: listing prepared transactions: %w", c.node.name, err)
	}
	list := map[branch]globalID{}
	for _, r := range rows {
		if len(r) != 4 || string(r[0]) != strconv.Itoa(formatID) {
			continue
		}
		n, err := strconv.Atoi(string(r[1]))
		if err != nil || n > len(r[3]) {
			continue
		}
		b := branch{c.node.name, string(r[3][:n]), string(r[3][n:])}
		g, ok := parseGlobalID(b.gtrid)
		if !ok || g.cluster != cluster {
			continue
		}
		if _, _, ok := parseBranchID(b.bqual); !ok {
			continue
		}
		list[b] = g
	}
	return list, nil
}

// finishBranches ends the wanted branches of c's node as decided, and returns
// those that could not be ended within ctx. A branch counts as ended when the
// node no longer lists it, whatever it answered (rule T8). An error is one of
// the connection; nothing is known of the branches then.
func (k *Coordinator) finishBranches(ctx context.Context, c *Conn, wanted map[branch]Decision) (left map[branch]Decision, err error) {
	for try := 0; ; try++ {
		owned := false
		for b, d := range wanted {
			c.SetDeadline(time.Now().Add(ownTimeout(c.node)))
			verb := "XA ROLLBACK "
			if d == DecidedCommit {
				verb = "XA COMMIT "
			}
			_, err := c.Exec(verb + b.xid())
			var e *mysql.Error
			switch {
			case err == nil:
			case !errors.As(err, &e) || closesConnection(e.Code):
				return wanted, fmt.Errorf("node %s: %s: %w", c.node.name, verb+b.xid(), err)
			case e.Code == gomysql.ER_XAER_NOTA:
				owned = true // or gone: the list tells
			default:
				k.log.Warn("a prepared transaction cannot be ended yet", zap.String("node", c.node.name),
					zap.String("gtrid", b.gtrid), zap.String("decision", string(d)), zap.Error(err))
			}
		}
		listed, err := listPrepared(c, k.clusterID())
		if err != nil {
			return wanted, err
		}
		left = map[branch]Decision{}
		for b, d := range wanted {
			if _, ok := listed[b]; ok {
				left[b] = d
				continue
			}
			k.step(stepRecoverFinished)
		}
		if len(left) == 0 || !owned {
			return left, nil
		}
		for b := range left {
			// Somebody else may just be ending it: that is given a moment first.
			if try == 0 {
				break
			}
			if err := k.killOwner(c, b); err != nil {
				return left, err
			}
		}
		if pause(ctx) != nil {
			return left, nil
		}
		wanted = left
	}
}

// killOwner ends the connection that a branch belongs to, which the node will
// not let anybody else end while that connection lives. One that is busy is
// ending the branch itself.
func (k *Coordinator) killOwner(c *Conn, b branch) error {
	_, id, ok := parseBranchID(b.bqual)
	if !ok {
		return nil
	}
	rows, err := c.Query(fmt.Sprintf("SELECT COMMAND FROM information_schema.PROCESSLIST WHERE ID=%d AND USER=SUBSTRING_INDEX(USER(),'@',1)", id), 1)
	if err != nil {
		return fmt.Errorf("node %s: looking for the owner of a prepared transaction: %w", c.node.name, err)
	}
	if len(rows) == 0 || string(rows[0][0]) != "Sleep" {
		return nil
	}
	k.log.Warn("ending the idle connection that owns a branch of an interrupted transaction", zap.String("node", c.node.name),
		zap.String("gtrid", b.gtrid), zap.Uint64("connection", id))
	_, err = c.Exec(fmt.Sprintf("KILL CONNECTION %d", id))
	var e *mysql.Error
	if errors.As(err, &e) && e.Code == gomysql.ER_NO_SUCH_THREAD {
		return nil
	}
	return err
}

// leave notes a branch that this Braid has decided and could not finish.
func (k *Coordinator) leave(b branch, d Decision) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, there := k.mu.left[b]; !there && d == DecidedCommit {
		k.unfinished.Add(1)
	}
	k.mu.left[b] = d
}

func (k *Coordinator) finished(b branch) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if d, there := k.mu.left[b]; there {
		delete(k.mu.left, b)
		if d == DecidedCommit {
			k.unfinished.Add(-1)
		}
	}
}

// leftOn returns the unfinished branches that pick chooses, by node name.
func (k *Coordinator) leftOn(pick func(branch, Decision) bool) map[string]map[branch]Decision {
	k.mu.Lock()
	defer k.mu.Unlock()
	var by map[string]map[branch]Decision
	for b, d := range k.mu.left {
		if !pick(b, d) {
			continue
		}
		if by == nil {
			by = map[string]map[branch]Decision{}
		}
		if by[b.node] == nil {
			by[b.node] = map[branch]Decision{}
		}
		by[b.node][b] = d
	}
	return by
}

// finishLeft tries to finish what a transaction has left, for as long as the
// coordinator's patience lasts.
func (k *Coordinator) finishLeft(gtrid string) {
	ctx, cancel := context.WithTimeout(context.Background(), k.patience)
	defer cancel()
	for name, branches := range k.leftOn(func(b branch, _ Decision) bool { return b.gtrid == gtrid }) {
		if err := k.finishOnNode(ctx, name, branches); err != nil {
			k.log.Warn("a decided transaction is unfinished on a node; it is tried again",
				zap.String("node", name), zap.String("gtrid", gtrid), zap.Error(err))
		}
	}
}

// finishOnNode ends branches on a node over a connection of its own, trying
// again until ctx ends.
func (k *Coordinator) finishOnNode(ctx context.Context, name string, branches map[branch]Decision) error {
	n := k.cluster().Node(name)
	if n == nil {
		return fmt.Errorf("node %s is not configured any more", name)
	}
	for {
		err := func() error {
			c, err := ownConn(ctx, n, ownTimeout(n))
			if err != nil {
				return err
			}
			defer c.Close()
			left, err := k.finishBranches(ctx, c, branches)
			if err != nil {
				return err
			}
			for b := range branches {
				if _, ok := left[b]; !ok {
					k.finished(b)
				}
			}
			if branches = left; len(left) > 0 {
				return fmt.Errorf("node %s: %d prepared transactions cannot be ended yet", name, len(left))
			}
			return nil
		}()
		if err == nil || pause(ctx) != nil {
			return err
		}
	}
}

// Unfinished tells whether FinishOn may have something to do on some node.
func (k *Coordinator) Unfinished() bool { return k.unfinished.Load() != 0 }

// FinishOn commits on a node what this Braid has told clients is committed and
// has not finished there, or waits for whoever is doing so (rule T11). Whoever is
// about to read or write on the node calls it first; it is free unless something
// is unfinished. Leg calls it.
func (k *Coordinator) FinishOn(ctx context.Context, n *Node) error {
	if k.unfinished.Load() == 0 {
		return nil
	}
	for _, applied := range k.applyingOn(n.name) {
		select {
		case <-applied:
		case <-ctx.Done():
			return unfinishedError(n, ctx.Err())
		}
	}
	left := k.leftOn(func(b branch, d Decision) bool { return b.node == n.name && d == DecidedCommit })
	if len(left) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, k.patience)
	defer cancel()
	if err := k.finishOnNode(ctx, n.name, left[n.name]); err != nil {
		return unfinishedError(n, err)
	}
	return nil
}

// unfinishedError is what a client sees that came to a node where a committed
// transaction is not finished.
func unfinishedError(n *Node, err error) *mysql.Error {
	return mysql.Errorf(gomysql.ER_LOCK_WAIT_TIMEOUT,
		"Lock wait timeout exceeded; a committed transaction is not finished on node %s yet (%v); try restarting transaction", n.name, err)
}

// applying notes a branch that is committed behind its client's OK.
func (k *Coordinator) applying(b branch) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.mu.applying[b] = make(chan struct{})
	k.unfinished.Add(1)
}

// applied lets go on who waits for a branch, if anybody may: it is committed, or left.
func (k *Coordinator) applied(b branch) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if over, there := k.mu.applying[b]; there {
		close(over)
		delete(k.mu.applying, b)
		k.unfinished.Add(-1)
	}
}

// applyingOn returns what is closed when the branches that are being committed on
// a node now are so.
func (k *Coordinator) applyingOn(node string) (waits []<-chan struct{}) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for b, applied := range k.mu.applying {
		if b.node == node {
			waits = append(waits, applied)
		}
	}
	return waits
}

// Applied waits until no commit is applied any more that was begun before: a
// Braid that ends calls it when its sessions are gone. It takes as long as the
// coordinator's patience at most, twice.
func (k *Coordinator) Applied() { k.appliers.Wait() }

// retryLeft tries once more to finish everything that was left.
func (k *Coordinator) retryLeft(ctx context.Context) {
	for name, branches := range k.leftOn(func(branch, Decision) bool { return true }) {
		if k.cluster().Node(name) == nil {
			for b := range branches {
				k.log.Error("a decided transaction is unfinished on a node that is not configured any more",
					zap.String("node", name), zap.String("gtrid", b.gtrid), zap.String("decision", string(branches[b])))
				k.finished(b)
			}
			continue
		}
		once, cancel := context.WithTimeout(ctx, 2*time.Second)
		if err := k.finishOnNode(once, name, branches); err != nil {
			k.log.Warn("decided transactions are unfinished on a node", zap.String("node", name), zap.Int("branches", len(branches)), zap.Error(err))
		}
		cancel()
	}
}
