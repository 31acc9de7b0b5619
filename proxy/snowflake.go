package proxy

import (
	"context"
	"sync"

	"github.com/bwmarrin/snowflake"

	"braid/internal/mysql"
	"braid/router"
)

// flake makes the snowflake ids of one database's tables: 41 bits of
// milliseconds, 10 bits of this Braid's number, 12 bits that count.
type flake struct {
	mu   sync.Mutex
	node *snowflake.Node // nil until the number is known
}

// flakeTable is the sequence that Braids take their numbers from. No table has
// an empty name.
const flakeTable = ""

// flakeRun is how many ids of one millisecond there are: as many rows can have
// consecutive ids.
const flakeRun = 4096

// giveFlakes makes ids that are consecutive within the statement.
func (q *sequences) giveFlakes(ctx context.Context, src *idSource, rows []uint64) (ids []uint64, first uint64, err error) {
	n := 0
	for _, own := range rows {
		if own == 0 {
			n++
		}
	}
	ids = make([]uint64, len(rows))
	if n == 0 {
		return ids, 0, nil
	}
	if n > flakeRun {
		return nil, 0, mysql.Errorf(1235, "This version of Braid doesn't yet support 'more than %d rows with generated snowflake ids in one INSERT'", flakeRun)
	}
	q.mu.Lock()
	f := q.mu.flakes[src.database]
	if f == nil {
		f = &flake{}
		q.mu.flakes[src.database] = f
	}
	q.mu.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.node == nil {
		if f.node, err = q.newFlake(ctx, src); err != nil {
			return nil, 0, err
		}
	}
	id := uint64(f.node.Generate().Int64())
	for run := 1; run < n; run++ {
		next := uint64(f.node.Generate().Int64())
		if next != id+uint64(run) {
			id, run = next, 0 // another millisecond began
		}
	}
	first = id
	for i, own := range rows {
		if own == 0 {
			ids[i] = id
			id++
		}
	}
	return ids, first, nil
}

// newFlake takes a number for this process: no other of the last 1024 that
// started has it.
func (q *sequences) newFlake(ctx context.Context, src *idSource) (*snowflake.Node, error) {
	numbers := *src
	numbers.table = &router.Table{Name: flakeTable}
	numbers.shards = nil // the numbers begin with 1, whatever tables hold
	b, err := numbers.fetch(ctx, q.owner, 1, 0)
	if err != nil {
		return nil, err
	}
	return snowflake.NewNode(int64(b.next % 1024))
}
