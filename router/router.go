package router

import (
	"strings"
	"sync"
	"sync/atomic"

	"github.com/pingcap/tidb/pkg/parser"
)

// Router turns statements into plans for one topology. It belongs to one
// generation; a new topology gets a new Router, and with it an empty plan
// cache. Safe for concurrent use.
type Router struct {
	topology *Topology
	cache    *planCache // nil: every statement is planned anew
	parsers  *sync.Pool // of *parser.Parser; shared with the routers made by With
	parsed   atomic.Int64
}

// Options are what a Router may be told.
type Options struct {
	PlansMax     int  // plans kept; 0: 5000
	PlanCacheOff bool // testing: plan each statement anew
}

// digestMax bounds the digests that are cached, in bytes: longer statements are
// bulk loads whose shapes hardly come again.
const digestMax = 64 << 10

// New makes a router for a topology, which must not be changed afterwards.
func New(t *Topology, opt Options) *Router {
	const plansMax = 5000
	r := &Router{topology: t, parsers: &sync.Pool{New: func() any { return parser.New() }}}
	if !opt.PlanCacheOff {
		if opt.PlansMax <= 0 {
			opt.PlansMax = plansMax
		}
		r.cache = newPlanCache(opt.PlansMax)
	}
	return r
}

// Topology is what the router was made for.
func (r *Router) Topology() *Topology { return r.topology }

// Plan scans the statement and gives its plan: from the cache, or made now. The
// plan may be bound any number of times to queries of the same text shape.
//
// The error is always a *mysql.Error: wrong syntax, unknown names. What is not
// supported is a plan of KindRefuse, or one whose Bind answers with the error
// when its values need several shards.
func (r *Router) Plan(q *Query) (*Plan, error) {
	if err := q.Scan(); err != nil {
		return nil, err
	}
	if r.cache != nil && !q.KeyStays {
		if p := r.cache.get(q); p != nil {
			return p, nil
		}
	}
	p, err := r.analyze(q)
	if err != nil {
		return nil, err
	}
	if r.cache != nil && !q.KeyStays && !p.uncached && len(q.Digest) <= digestMax {
		r.cache.put(q, p)
	}
	return p.plan, nil
}

// PlanInfo is a cached plan as the admin port shows it.
type PlanInfo struct {
	Database string
	Digest   string // readable: literals as ?
	Plan     string
	Hits     int64
}

// Plans lists the cached plans.
func (r *Router) Plans() []PlanInfo {
	if r.cache == nil {
		return nil
	}
	return r.cache.list()
}

func hasWord(s, w string) bool {
	for _, f := range strings.Fields(s) {
		if f == w {
			return true
		}
	}
	return false
}
