package router

import (
	"hash/maphash"
	"strings"
	"sync"
	"sync/atomic"
)

// planCache keeps plans by what they depend on: database, digest, the modes
// that change how text is read, and the pinned literals (rule D2). It is split
// into parts with a lock each; a full part gives up plans by the clock rule:
// the hand passes over those that were used since it last came by.
type planCache struct {
	seed  maphash.Seed
	parts [cacheParts]cachePart
}

const (
	cacheParts = 16
	// plansPerDigest bounds the plans that differ in pinned literals only: they
	// are gone through one by one.
	plansPerDigest = 32
)

type cachePart struct {
	mu   sync.RWMutex
	max  int
	keys map[uint64]*cacheKey // by hash; chained by next
	ring []*cacheEntry
	hand int
}

// cacheKey is all plans of one digest.
type cacheKey struct {
	hash     uint64
	database string
	digest   string
	mode     Mode
	charset  string
	prepared bool
	pins     []int32 // the holes whose literals tell the plans apart
	plans    []*cacheEntry
	next     *cacheKey
}

// cacheEntry is one plan.
type cacheEntry struct {
	key  *cacheKey
	pins []string // the pinned literals' bytes, as key.pins
	plan *Plan
	used atomic.Bool
	hits atomic.Int64
}

func newPlanCache(plansMax int) *planCache {
	c := &planCache{seed: maphash.MakeSeed()}
	for i := range c.parts {
		c.parts[i].max = max(1, plansMax/cacheParts)
		c.parts[i].keys = make(map[uint64]*cacheKey)
	}
	return c
}

// hash mixes the digest's hash with the rest of what a plan depends on.
func (c *planCache) hash(q *Query) uint64 {
	h := q.Hash ^ uint64(q.Mode)*0x9e3779b97f4a7c15
	if q.Prepared {
		h = ^h
	}
	return h ^ maphash.String(c.seed, q.Database)
}

func (k *cacheKey) matches(q *Query) bool {
	return k.digest == string(q.Digest) && k.database == q.Database && k.mode == q.Mode &&
		k.prepared == q.Prepared && k.charset == q.Charset
}

func (e *cacheEntry) matches(q *Query) bool {
	for i, h := range e.key.pins {
		if e.pins[i] != string(q.HoleBytes(int(h))) {
			return false
		}
	}
	return true
}

// get finds the plan of a scanned query, nil when there is none. It allocates nothing.
func (c *planCache) get(q *Query) *Plan {
	h := c.hash(q)
	p := &c.parts[h%cacheParts]
	p.mu.RLock()
	defer p.mu.RUnlock()
	for k := p.keys[h]; k != nil; k = k.next {
		if !k.matches(q) {
			continue
		}
		for _, e := range k.plans {
			if e.matches(q) {
				if !e.used.Load() {
					e.used.Store(true)
				}
				e.hits.Add(1)
				return e.plan
			}
		}
	}
	return nil
}

// put stores a plan made for the query.
func (c *planCache) put(q *Query, made planned) {
	h := c.hash(q)
	p := &c.parts[h%cacheParts]
	p.mu.Lock()
	defer p.mu.Unlock()
	k := p.keys[h]
	for k != nil && !(k.matches(q) && samePins(k.pins, made.pins)) {
		k = k.next
	}
	if k == nil {
		k = &cacheKey{
			hash: h, database: q.Database, digest: string(q.Digest), mode: q.Mode,
			charset: q.Charset, prepared: q.Prepared, pins: made.pins, next: p.keys[h],
		}
		p.keys[h] = k
	}
	for _, e := range k.plans {
		if e.matches(q) {
			return // another session was faster
		}
	}
	e := &cacheEntry{key: k, plan: made.plan}
	for _, hole := range made.pins {
		e.pins = append(e.pins, string(q.HoleBytes(int(hole))))
	}
	if len(k.plans) >= plansPerDigest {
		k.plans = append(k.plans[:0:0], k.plans[1:]...) // its place in the ring goes when the hand comes by
	}
	k.plans = append(k.plans, e)
	if len(p.ring) < p.max {
		p.ring = append(p.ring, e)
		return
	}
	for p.ring[p.hand].used.Swap(false) {
		p.hand = (p.hand + 1) % len(p.ring)
	}
	p.remove(p.ring[p.hand])
	p.ring[p.hand] = e
	p.hand = (p.hand + 1) % len(p.ring)
}

func samePins(a, b []int32) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// remove takes an entry out of its key, and the key out of the map with its last.
func (p *cachePart) remove(e *cacheEntry) {
	k := e.key
	for i := range k.plans {
		if k.plans[i] == e {
			k.plans = append(k.plans[:i:i], k.plans[i+1:]...)
			break
		}
	}
	if len(k.plans) > 0 {
		return
	}
	if p.keys[k.hash] == k {
		if k.next == nil {
			delete(p.keys, k.hash)
		} else {
			p.keys[k.hash] = k.next
		}
		return
	}
	for at := p.keys[k.hash]; at != nil; at = at.next {
		if at.next == k {
			at.next = k.next
			return
		}
	}
}

// list describes all plans.
func (c *planCache) list() []PlanInfo {
	var out []PlanInfo
	for i := range c.parts {
		p := &c.parts[i]
		p.mu.RLock()
		for _, e := range p.ring {
			out = append(out, PlanInfo{Database: e.key.database, Digest: readableDigest(e.key.digest), Plan: e.plan.String(), Hits: e.hits.Load()})
		}
		p.mu.RUnlock()
	}
	return out
}

// readableDigest writes a digest's marks as ? and as lists.
func readableDigest(d string) string {
	var b strings.Builder
	for i := 0; i < len(d); i++ {
		switch d[i] {
		case digestLiteral:
			b.WriteByte('?')
			i++
		case digestList:
			b.WriteString("?, ...")
			i++
		case digestRows:
			b.WriteString(", ...")
		case digestEscape:
			if i++; i < len(d) {
				b.WriteByte(d[i] &^ 0x40)
			}
		default:
			b.WriteByte(d[i])
		}
	}
	return b.String()
}
