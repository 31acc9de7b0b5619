package router

import (
	"iter"
	"math/bits"
)

// ShardSet is a set of shards of one database, by index. Sets over up to 64
// shards live in the value itself; larger ones allocate. A ShardSet is a value:
// no method changes its receiver or shares memory that another would change.
// Sets combined with each other are of the same database.
type ShardSet struct {
	shards int // of the database: the size of the full set
	low    uint64
	high   []uint64 // shards 64 and up; nil or ceil(shards/64)-1 words
}

// NoShards is the empty set over n shards.
func NoShards(n int) ShardSet { return ShardSet{shards: n} }

// AllShards is the full set over n shards.
func AllShards(n int) ShardSet {
	s := ShardSet{shards: n}
	if n >= 64 {
		s.low = ^uint64(0)
	} else {
		s.low = 1<<n - 1
		return s
	}
	if n > 64 {
		s.high = make([]uint64, (n-1)/64)
		for i := range s.high {
			s.high[i] = ^uint64(0)
		}
		if r := n % 64; r != 0 {
			s.high[len(s.high)-1] = 1<<r - 1
		}
	}
	return s
}

// OneShard is the set of shard i over n shards.
func OneShard(n, i int) ShardSet {
	s := ShardSet{shards: n}
	if i < 64 {
		s.low = 1 << i
	} else {
		s.high = make([]uint64, (n-1)/64)
		s.high[i/64-1] = 1 << (i % 64)
	}
	return s
}

// Shards is the number of shards of the database.
func (s ShardSet) Shards() int { return s.shards }

// Len is the number of shards in the set.
func (s ShardSet) Len() int {
	n := bits.OnesCount64(s.low)
	for _, w := range s.high {
		n += bits.OnesCount64(w)
	}
	return n
}

// None tells whether the set is empty.
func (s ShardSet) None() bool { return s.Len() == 0 }

// All tells whether the set is full.
func (s ShardSet) All() bool { return s.Len() == s.shards }

// Has tells whether shard i is in the set.
func (s ShardSet) Has(i int) bool {
	if i < 64 {
		return s.low>>i&1 != 0
	}
	return i/64 <= len(s.high) && s.high[i/64-1]>>(i%64)&1 != 0
}

// Single returns the only shard of the set; ok is false when there are none or
// several.
func (s ShardSet) Single() (i int, ok bool) {
	if s.Len() != 1 {
		return 0, false
	}
	return s.First(), true
}

// First returns the lowest shard of the set, -1 when it is empty.
func (s ShardSet) First() int {
	if s.low != 0 {
		return bits.TrailingZeros64(s.low)
	}
	for i, w := range s.high {
		if w != 0 {
			return 64*(i+1) + bits.TrailingZeros64(w)
		}
	}
	return -1
}

// And is the set of shards in both.
func (s ShardSet) And(t ShardSet) ShardSet {
	s.low &= t.low
	if s.high == nil || t.high == nil {
		s.high = nil
		return s
	}
	high := make([]uint64, len(s.high))
	for i := range high {
		high[i] = s.high[i] & t.high[i]
	}
	s.high = high
	return s
}

// Or is the set of shards in either.
func (s ShardSet) Or(t ShardSet) ShardSet {
	s.low |= t.low
	switch {
	case t.high == nil:
	case s.high == nil:
		s.high = t.high
	default:
		high := make([]uint64, len(s.high))
		for i := range high {
			high[i] = s.high[i] | t.high[i]
		}
		s.high = high
	}
	return s
}

// Each iterates over the set in ascending order.
func (s ShardSet) Each() iter.Seq[int] {
	return func(yield func(int) bool) {
		for w := s.low; w != 0; w &= w - 1 {
			if !yield(bits.TrailingZeros64(w)) {
				return
			}
		}
		for i, w := range s.high {
			for ; w != 0; w &= w - 1 {
				if !yield(64*(i+1) + bits.TrailingZeros64(w)) {
					return
				}
			}
		}
	}
}
