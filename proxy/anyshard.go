package proxy

import (
	"errors"
	"slices"

	"braid/backend"
	"braid/internal/mysql"
	"braid/router"
)

// anyShard is where rows are read that every shard has: on a node that the
// transaction has been to already, else on the given shard.
func (s *Session) anyShard(plan *router.Plan, shard int) int {
	if s.tx == nil || s.tx.Over() {
		return shard
	}
	nodes := s.gen.base[plan.Database].nodes
	if s.tx.On(nodes[shard]) != nil {
		return shard
	}
	for i, n := range nodes {
		if s.tx.On(n) != nil {
			return i
		}
	}
	return shard
}

// elsewhere moves a read that every shard can answer to one whose node is not
// among those that are down; it is false when there is none.
func (s *Session) elsewhere(plan *router.Plan, t *router.Target, down []*backend.Node, err error) bool {
	var u *backend.Unreachable
	base := s.gen.base[plan.Database]
	if base == nil || !s.route.Any || !s.retryable(plan) || !errors.As(err, &u) {
		return false
	}
	i := slices.IndexFunc(base.nodes, func(n *backend.Node) bool { return !slices.Contains(down, n) })
	if i < 0 {
		return false
	}
	t.Shard = i
	return true
}

// describeAny lets the first of the shards whose node can be reached prepare a text.
func (s *Session) describeAny(plan *router.Plan, shards router.ShardSet, text []byte) (d *described, err error) {
	var down []*backend.Node
	for shard := range shards.Each() {
		p := s.place(plan, shard)
		if p.node == nil {
			return nil, mysql.Errorf(1105, "no node can be used: every database's schema is unread; see the log")
		}
		if slices.Contains(down, p.node) {
			continue
		}
		var u *backend.Unreachable
		if d, err = s.describeOn(&p, text); !errors.As(err, &u) {
			return d, err
		}
		down = append(down, p.node)
	}
	return nil, err
}
