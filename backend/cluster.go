package backend

import (
	"context"
	"fmt"
	"os"
	"reflect"
	"sort"
	"time"

	"go.uber.org/zap"

	"braid/conf"
)

// Cluster is the nodes of one generation. It is immutable; nodes that did not
// change are shared with the generation before.
type Cluster struct {
	nodes map[string]*Node
	names []string
}

// NewCluster makes the nodes of cfg, taking over from before (which may be
// nil) those whose configuration is the same. It opens no connection.
func NewCluster(cfg *conf.Config, before *Cluster, log *zap.Logger) (*Cluster, error) {
	c := &Cluster{nodes: map[string]*Node{}}
	for _, nc := range cfg.Nodes {
		password, err := nc.Secret.Resolve(os.LookupEnv, os.ReadFile)
		if err != nil {
			return nil, fmt.Errorf("node %s: %w", nc.Name, err)
		}
		how, err := newTransport(&nc)
		if err != nil {
			return nil, fmt.Errorf("node %s: %w", nc.Name, err)
		}
		n := newNode(nc, password, how, cfg, log)
		if before != nil {
			if o := before.nodes[nc.Name]; o != nil && o.password == n.password && o.pool == n.pool &&
				o.timeouts == n.timeouts && o.packet == n.packet && o.transport.stamp == n.transport.stamp && reflect.DeepEqual(o.conf, n.conf) {
				n = o
			}
		}
		c.nodes[nc.Name] = n
		c.names = append(c.names, nc.Name)
	}
	sort.Strings(c.names)
	return c, nil
}

// Node returns a node by name, nil when there is none.
func (c *Cluster) Node(name string) *Node { return c.nodes[name] }

// Nodes returns all nodes in the order of their names.
func (c *Cluster) Nodes() []*Node {
	out := make([]*Node, len(c.names))
	for i, n := range c.names {
		out[i] = c.nodes[n]
	}
	return out
}

// Retire closes the pools of the nodes that next does not share.
func (c *Cluster) Retire(next *Cluster) {
	for name, n := range c.nodes {
		if next == nil || next.nodes[name] != n {
			n.retire()
		}
	}
}

// Tend closes connections that were idle for too long, until ctx ends.
func Tend(ctx context.Context, current func() *Cluster) {
	t := time.NewTicker(time.Second)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-t.C:
			for _, n := range current().Nodes() {
				n.reap(now)
			}
		}
	}
}
