package proxy

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"sync"
	"time"

	"go.uber.org/zap"

	"braid/internal/mysql"
	"braid/router"
)

// sequences gives the ids of AUTO_INCREMENT columns of tables on several shards.
// A sequence is a row of braid.sequence on the node of its database's first
// shard; each Braid takes ids from it in blocks, on a connection of its own that
// commits at once, so ids are never given twice, whoever crashes (rule W1).
// Safe for concurrent use.
type sequences struct {
	owner string // this process, as braid.sequence knows it
	log   *zap.Logger
	done  context.Context
	stop  context.CancelFunc
	work  sync.WaitGroup // prefetches

	mu struct {
		sync.Mutex
		byTable map[sequenceKey]*sequence
		flakes  map[string]*flake // by database
	}
}

// sequenceKey names a sequence: what braid.sequence has as its key.
type sequenceKey struct{ database, table string }

// sequence is what this Braid holds of one sequence.
type sequence struct {
	mu    sync.Mutex // held while a block is fetched that somebody waits for
	block idBlock
	spare *prefetch // fetched ahead, or being fetched; nil: none
	dead  bool      // the table was emptied: look the sequence up again
}

// idBlock is the ids next, next+1, ..., end-1.
type idBlock struct{ next, end uint64 }

// prefetch is a block that is fetched in the background: block and err are there
// when done is closed.
type prefetch struct {
	done  chan struct{}
	block idBlock
	err   error
}

// waiting makes a context that bounds waiting.
type waiting = func() (context.Context, context.CancelFunc)

// sequenceBlock is how many ids are reserved at a time, unless a statement
// needs more.
const sequenceBlock = 1000

func newSequences(log *zap.Logger) *sequences {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand ends the process instead
	q := &sequences{owner: hex.EncodeToString(b[:]), log: log}
	q.done, q.stop = context.WithCancel(context.Background())
	q.mu.byTable, q.mu.flakes = map[sequenceKey]*sequence{}, map[string]*flake{}
	return q
}

// close ends what runs in the background.
func (q *sequences) close() {
	q.stop()
	q.work.Wait()
}

// give makes the ids that an INSERT's rows ask for (router.Needs.IDs). Ids that
// no id of a row's own stands between are consecutive, and an id of a row's own
// moves the sequence past it, as on one server. wait makes the context of a fetch
// that has to be waited for.
func (q *sequences) give(wait waiting, src *idSource, rows []uint64) ([]uint64, uint64, error) {
	if src.table.Sequence == "snowflake" {
		ctx, cancel := wait()
		defer cancel()
		return q.giveFlakes(ctx, src, rows)
	}
	for {
		s := q.lookup(src.key())
		s.mu.Lock()
		if s.dead {
			s.mu.Unlock()
			continue
		}
		ids, first, err := q.fill(wait, s, src, rows)
		s.mu.Unlock()
		return ids, first, err
	}
}

// prime makes the next INSERT find ids: none is to be asked of the table itself,
// which may be locked by then.
func (q *sequences) prime(wait waiting, src *idSource) error {
	s := q.lookup(src.key())
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dead || s.block.next < s.block.end {
		return nil
	}
	return q.more(wait, s, src, 1, 0)
}

func (q *sequences) lookup(key sequenceKey) *sequence {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := q.mu.byTable[key]
	if s == nil {
		s = &sequence{}
		q.mu.byTable[key] = s
	}
	return s
}

// fill goes through the rows in their order, taking ids from the block and
// blocks from the sequence. s.mu is held.
func (q *sequences) fill(wait waiting, s *sequence, src *idSource, rows []uint64) (ids []uint64, first uint64, err error) {
	ids = make([]uint64, len(rows))
	for i := 0; i < len(rows); {
		if own := rows[i]; own != 0 {
			if own != router.NoID && own >= s.block.next {
				if own >= s.block.end {
					if err := q.more(wait, s, src, 1, own+1); err != nil {
						return nil, 0, err
					}
				} else {
					s.block.next = own + 1
				}
			}
			i++
			continue
		}
		run := q.run(s, rows[i:])
		if uint64(run) > s.block.end-s.block.next {
			if err := q.more(wait, s, src, run, 0); err != nil {
				return nil, 0, err
			}
		}
		for range run {
			for rows[i] != 0 {
				i++ // an id of its own that does not matter
			}
			if first == 0 {
				first = s.block.next
			}
			ids[i] = s.block.next
			s.block.next++
			i++
		}
	}
	q.ahead(s, src)
	return ids, first, nil
}

// run is how many ids are asked for before a row's own id stands between.
func (q *sequences) run(s *sequence, rows []uint64) int {
	n := 0
	for _, own := range rows {
		switch {
		case own == 0:
			n++
		case own != router.NoID && own >= s.block.next:
			return n
		}
	}
	return n
}

// more gets a block of n ids or more, none below floor. A block that follows on
// the one at hand joins it.
func (q *sequences) more(wait waiting, s *sequence, src *idSource, n int, floor uint64) error {
	ctx, cancel := wait()
	defer cancel()
	for {
		var b idBlock
		var err error
		if p := s.spare; p != nil {
			s.spare = nil
			select {
			case <-p.done:
			case <-ctx.Done():
				s.spare = p
				return ctx.Err()
			}
			if p.err != nil {
				continue // asked again, for whoever waits now
			}
			b = p.block
		} else if b, err = src.fetch(ctx, q.owner, max(uint64(n), sequenceBlock), floor); err != nil {
			return err
		}
		if b.next == s.block.end && floor <= b.next {
			b.next = s.block.next
		}
		s.block = b
		if floor > s.block.next && floor < s.block.end {
			s.block.next = floor
		}
		if s.block.next >= floor && s.block.end-s.block.next >= uint64(n) {
			return nil
		}
	}
}

// ahead fetches the next block before it is needed, so that no INSERT waits.
func (q *sequences) ahead(s *sequence, src *idSource) {
	if s.spare != nil || s.block.end-s.block.next > sequenceBlock/2 {
		return
	}
	p := &prefetch{done: make(chan struct{})}
	s.spare = p
	q.work.Add(1)
	go func() {
		defer q.work.Done()
		defer close(p.done)
		p.block, p.err = src.fetch(q.done, q.owner, sequenceBlock, 0)
		if p.err != nil && q.done.Err() == nil {
			q.log.Warn("fetching ids ahead failed; it is tried again when they are needed",
				zap.String("database", src.database), zap.String("table", src.table.Name), zap.Error(p.err))
		}
	}()
}

// restart forgets what this Braid holds of a sequence after its table was
// emptied, dropped or given another start.
func (q *sequences) restart(ctx context.Context, key sequenceKey) {
	q.mu.Lock()
	s := q.mu.byTable[key]
	delete(q.mu.byTable, key)
	q.mu.Unlock()
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dead = true
	if s.spare != nil {
		select {
		case <-s.spare.done:
		case <-ctx.Done():
		}
	}
}

// makeValues makes what a plan needs before it can be bound: ids, and the values
// of expressions that choose a shard.
func (s *Session) makeValues(plan *router.Plan, q *router.Query) error {
	q.Made = nil
	needs, err := plan.Needs(q)
	if needs == nil || err != nil {
		return err
	}
	made := &router.Made{}
	if len(needs.Texts) > 0 {
		if made.Values, made.Texts, err = s.compute(plan, needs.Texts); err != nil {
			return err
		}
	}
	if len(needs.IDs) > 0 {
		for _, name := range [...]string{"auto_increment_increment", "auto_increment_offset"} {
			if v, ok := s.vars.Get(name); ok && v != "1" && v != "DEFAULT" {
				return mysql.Errorf(1235, "This version of Braid doesn't yet support '%s = %s for a table on several shards'", name, v)
			}
		}
		src := s.idSource(needs.Database, needs.Table)
		if made.IDs, made.First, err = s.srv.sequences.give(s.context, src, needs.IDs); err != nil {
			var e *mysql.Error
			if errors.As(err, &e) || errors.Is(err, context.DeadlineExceeded) {
				return err
			}
			return mysql.Errorf(1105, "an id for table %s could not be had: %v", needs.Table.Name, err)
		}
	}
	q.Made, s.query.Made = made, made // q may be a statement of Braid's own
	return nil
}

func (s *Session) idSource(database string, table *router.Table) *idSource {
	return &idSource{database: database, table: table, base: s.gen.base[database], shards: s.gen.topology.Databases[database].Shards}
}

// sequenceTimeout bounds the fetching of one block.
const sequenceTimeout = 10 * time.Second
