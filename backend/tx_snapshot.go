package backend

import (
	"context"
	"sync"
)

// OpenAll opens legs on all nodes at once and waits until the nodes have
// confirmed them. START TRANSACTION WITH CONSISTENT SNAPSHOT needs it: its read
// views are to be taken when the client says so, as nearly at one moment as can
// be, and not with the first statement on each node.
//
// A transaction that must stay on one node (TxSingle) is left as it is: nobody
// knows the node yet. An error goes through Failed already.
func (t *Tx) OpenAll(ctx context.Context, nodes []*Node, vars *Vars) error {
	if t.o.Mode == TxSingle && len(nodes) > 1 {
		return nil
	}
	conns := make([]*Conn, len(nodes))
	for i, n := range nodes {
		c, err := t.Leg(ctx, n, "", vars)
		if err != nil {
			return t.Failed(n, err)
		}
		conns[i] = c
	}
	stop := interruptible(ctx, t.mu.legs)
	errs := make([]error, len(nodes))
	var wg sync.WaitGroup
	for i, c := range conns {
		wg.Go(func() { errs[i] = c.Confirm() })
	}
	wg.Wait()
	if !stop() {
		return t.lose(nodes[0], errInterrupted)
	}
	for i, err := range errs {
		if err != nil {
			return t.Failed(nodes[i], err)
		}
	}
	return nil
}
