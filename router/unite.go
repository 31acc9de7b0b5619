package router

import "braid/internal/mysql"

// Unite makes one text of several targets whose shards are on one node, for a
// connection that can run only one statement at a time (rule T18).
func (r *Route) Unite(p *Plan, targets []int) (*Target, error) {
	return nil, mysql.Errorf(1235, "This version of Braid doesn't yet support 'ordered rows of several shards on one node inside a transaction'")
}
