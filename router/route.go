package router

import (
	"math"
	"strconv"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"braid/internal/mysql"
	"braid/merge"
)

// Bind finds the targets of one execution and their texts. r's memory is
// reused: what it held before is gone. A refused plan's error is returned.
func (p *Plan) Bind(q *Query, r *Route) error {
	r.Targets, r.buf, r.params = r.Targets[:0], r.buf[:0], r.params[:0]
	r.Merge, r.Limit, r.Any, r.Described = nil, merge.Limit{}, false, false
	r.Gather, r.Steps, r.FirstID, r.Unique, r.Evaluate = nil, nil, 0, nil, nil
	r.pages, r.paged = nil, false
	if p.Err != nil {
		return p.Err
	}
	if p.body == nil {
		return nil
	}
	if q.Hints.Shard != "" || q.Hints.Scatter {
		if _, ok := p.body.(*readBody); !ok {
			return refuse("the hint shard or scatter on " + p.Verb)
		}
	}
	if err := p.body.bind(p, q, r); err != nil || p.unique == nil {
		return err
	}
	return p.unique.bind(q, r)
}

// Describe gives a text whose columns and parameters are those that the client
// sees, and the shards of which each can prepare it. The text lives as the query's,
// or on its own. It is for plans that are not local and not refused.
func (p *Plan) Describe(q *Query) (text []byte, shards ShardSet) {
	if p.body == nil {
		return q.Text, OneShard(1, 0)
	}
	t, shards := p.body.describe()
	if t == nil {
		return q.Text, shards
	}
	var r Route
	w := writer{q: q, r: &r}
	w.template(t)
	return r.buf, shards
}

func (b *readBody) describe() (template, ShardSet) {
	n := len(b.db.Shards)
	for _, s := range b.sources {
		if s.rule == nil {
			return b.single, OneShard(n, s.shard)
		}
	}
	return b.single, AllShards(n)
}

// readBody runs one text wherever the conditions say: SELECT, UPDATE, DELETE,
// and whatever goes to one shard or to all alike.
type readBody struct {
	db      *Database
	sources []source
	single  template // the text for one shard; nil: the client's own
	scatter *scatter // SELECT: the text for several
	write   bool     // the same text does for several shards
	steps   *stepsPlan
	moves   bool // steps even on one shard
	all     bool // to every shard, whatever the values
	// several is the answer when several shards are needed; nil when they may be.
	several *mysql.Error
	gather  *gatherPlan // how several shards' rows meet where they have to; nil: they need not, or cannot
	// otherwise is how a scatter's statement is gathered when the shards' rows, once
	// they are there, cannot be merged; nil: it cannot.
	otherwise *gatherPlan
	list      *listSplit // the IN list of which each of several shards gets its part; nil: there is none
}

// mayScatter tells whether the values may name several shards and whether the
// literals shown could then matter: the text for several is planned, or was
// refused for a reason that may lie in them.
func (b *readBody) mayScatter() bool {
	return b.scatter != nil || b.several != nil && len(b.sources) == 1
}

func (b *readBody) bind(p *Plan, q *Query, r *Route) error {
	n := len(b.db.Shards)
	hinted, chosen, err := q.Hints.hinted(b.db)
	switch {
	case err != nil:
		return err
	case chosen && b.all:
		return refuse("the hint shard or scatter where a global table is written")
	case b.all:
		return b.same(q, r, AllShards(n))
	}
	set := NoShards(n)
	sharded := false
	for i := range b.sources {
		s := &b.sources[i]
		sharded = sharded || s.rule != nil
		switch {
		case s.rule == nil:
			set = set.Or(OneShard(n, s.shard))
		case s.cond == nil:
			set = AllShards(n)
		default:
			set = set.Or(evaluate(s.cond, q, n))
		}
	}
	if set.None() {
		r.Any = true
		set = OneShard(n, int(q.Facts.ConnectionID%uint64(n)))
	}
	if chosen && (sharded || q.Hints.Shard != "") {
		set = hinted
	}
	if chosen && b.moves {
		return refuse("a hint for a write that moves rows between shards")
	}
	if _, one := set.Single(); one && !b.moves {
		return b.same(q, r, set)
	}
	if b.steps != nil {
		return b.steps.bind(q, r, b.db)
	}
	if b.gather != nil {
		b.gather.bind(q, r)
		if b.gather.ask {
			r.Gather.Ask = b.text(q)
		}
		return nil
	}
	if b.several != nil {
		return b.several
	}
	if b.list == nil || chosen {
		return b.whole(q, r, set)
	}
	w := writer{q: q, r: r, db: b.db}
	if b.scatter != nil {
		if w.limit, err = b.scatter.limit.bind(q); err != nil {
			return err
		}
	}
	if !b.list.split(q, r, w, set) {
		return b.whole(q, r, set)
	}
	b.merged(r, w.limit)
	return nil
}

// MayGather tells whether a scattered read can be gathered too.
func (p *Plan) MayGather(q *Query) bool {
	b, ok := p.body.(*readBody)
	return ok && b.otherwise != nil && q.Hints.Shard == "" && !q.Hints.Scatter
}

// BindGather makes a route that gathers out of one that scatters, for a read
// that MayGather and whose shards' answers cannot be merged after all.
func (p *Plan) BindGather(q *Query, r *Route) {
	r.Targets, r.Merge, r.Limit, r.Described, r.Evaluate = r.Targets[:0], nil, merge.Limit{}, false, nil
	p.body.(*readBody).otherwise.bind(q, r)
}

// merged says how the rows of several shards are combined.
func (b *readBody) merged(r *Route, limit merge.Limit) {
	if b.scatter != nil {
		r.Merge, r.Limit, r.Described = &b.scatter.spec, limit, b.scatter.described
	}
}

// whole sends one text to the several shards of the set.
func (b *readBody) whole(q *Query, r *Route, set ShardSet) error {
	if b.scatter == nil || b.scatter.plain {
		if err := b.same(q, r, set); err != nil || b.scatter == nil {
			return err
		}
		b.merged(r, merge.Limit{})
		r.pages = b.scatter.pages
		return nil
	}
	limit, err := b.scatter.limit.bind(q)
	if err != nil {
		return err
	}
	b.merged(r, limit)
	r.pages = b.scatter.pages
	w := writer{q: q, r: r, db: b.db, limit: limit}
	w.template(b.scatter.text)
	b.targets(r, set, w.params())
	if b.scatter.over != nil {
		over := writer{q: q, r: &Route{}, db: b.db}
		over.template(b.scatter.over)
		r.Evaluate = &Evaluate{Text: over.r.buf, Params: over.params(), Computed: b.scatter.computed, Digits: b.scatter.digits, Varies: b.scatter.varies}
	}
	return nil
}

// same sends one text to every shard of the set.
func (b *readBody) same(q *Query, r *Route, set ShardSet) error {
	if b.single == nil {
		for i := range set.Each() {
			r.Targets = append(r.Targets, Target{Shard: i, Text: q.Text, Same: true})
		}
		return nil
	}
	w := writer{q: q, r: r, db: b.db}
	w.template(b.single)
	b.targets(r, set, w.params())
	return nil
}

// text is the text for a single shard, which lives as the query's or on its own.
func (b *readBody) text(q *Query) []byte {
	if b.single == nil {
		return q.Text
	}
	w := writer{q: q, r: &Route{}, db: b.db}
	w.template(b.single)
	return w.r.buf
}

// targets gives every shard of the set the text in r's memory.
func (b *readBody) targets(r *Route, set ShardSet, params []ParamRef) {
	for i := range set.Each() {
		r.Targets = append(r.Targets, Target{Shard: i, Text: r.buf, Params: params})
	}
}

// bind reads a LIMIT's numbers.
func (l limitClause) bind(q *Query) (merge.Limit, error) {
	if !l.set {
		return merge.Limit{}, nil
	}
	out := merge.Limit{Set: true}
	var err error
	if out.Count, err = limitNumber(q, l.count); err != nil {
		return out, err
	}
	if l.offset >= 0 {
		out.Offset, err = limitNumber(q, l.offset)
	}
	return out, err
}

// limitNumber reads one number of a LIMIT. A parameter without a value, as
// while preparing, is 0.
func limitNumber(q *Query, hole int) (uint64, error) {
	lit := int(q.Holes[hole].First)
	if q.Literals[lit].Class != ClassParam {
		n, err := strconv.ParseUint(string(q.LiteralBytes(lit)), 10, 64)
		if err != nil {
			return 0, syntaxErrorAt(string(q.Text), int(q.Literals[lit].Start))
		}
		return n, nil
	}
	i := paramIndex(q, lit)
	if i >= len(q.Params) {
		return 0, nil
	}
	v := q.Params[i].Decode(q.Charset)
	switch {
	case v.Kind == ValueInt && v.Int >= 0:
		return uint64(v.Int), nil
	case v.Kind == ValueUint:
		return v.Uint, nil
	case v.Kind == ValueString:
		if n, err := strconv.ParseUint(string(v.Bytes), 10, 64); err == nil {
			return n, nil
		}
	}
	return 0, mysql.Errorf(gomysql.ER_WRONG_ARGUMENTS, "Incorrect arguments to mysqld_stmt_execute")
}

// paramIndex is which parameter literal lit is.
func paramIndex(q *Query, lit int) int {
	if len(q.Params) == len(q.Literals) {
		return lit // no other literals
	}
	n := 0
	for i := range lit {
		if q.Literals[i].Class == ClassParam {
			n++
		}
	}
	return n
}

// writer fills templates into a route's memory.
type writer struct {
	q     *Query
	r     *Route
	db    *Database
	limit merge.Limit
	// most is a paged text's LIMIT, where it is bounded; part is its number among the targets'.
	most    uint64
	bounded bool
	part    int
	row     int // of a folded VALUES list
	at      int // the row of the INSERT under way
	first   int // its first value in Made.Values
	// list is the IN list of which the shard gets its part; nil: none. own is a
	// parameter of that part: listSplit.own.
	list       *listSplit
	shard, own int
	// inline writes parameters as literals; failed says that one could not be.
	inline, failed bool
}

// params are the parameters of the texts written; nil for a text without.
func (w *writer) params() []ParamRef {
	if !w.q.Prepared {
		return nil
	}
	if w.r.params == nil {
		w.r.params = make([]ParamRef, 0, 4)
	}
	return w.r.params
}

func (w *writer) template(t template) {
	for i := range t {
		s := &t[i]
		switch s.kind {
		case segText:
			w.r.buf = append(w.r.buf, s.text...)
		case segHole:
			w.hole(s.n)
		case segName:
			w.name(s.n)
		case segLimit:
			w.limitNumber(s.n)
		case segPage:
			if w.bounded {
				w.r.buf = strconv.AppendUint(append(w.r.buf, " LIMIT "...), w.most, 10)
			}
		case segPart:
			w.r.buf = strconv.AppendInt(w.r.buf, int64(w.part), 10)
		case segSystem:
			w.r.buf = append(w.r.buf, w.q.Facts.System[s.text]...)
		case segRows:
			for w.row = range int(w.q.Rows.Rows) {
				if w.row > 0 {
					w.r.buf = append(w.r.buf, ',')
				}
				w.template(s.alt)
			}
			w.row = 0
		case segFact:
			w.fact(fact(s.n))
		case segID:
			w.id(s.alt)
		case segComputed:
			w.r.buf = append(w.r.buf, w.q.Made.Texts[w.first+s.n]...)
		}
	}
}

// hole writes the client's literals of a hole.
func (w *writer) hole(h int) {
	q := w.q
	o := q.Holes[h]
	if w.inline {
		w.literals(h)
		return
	}
	if w.list != nil && w.ownValues(h) {
		return
	}
	if w.row > 0 {
		lit := int(o.First) + w.row*int(q.Rows.PerRow)
		w.r.buf = append(w.r.buf, q.LiteralBytes(lit)...)
		if q.Literals[lit].Class == ClassParam {
			w.r.params = append(w.r.params, ParamRef{Index: paramIndex(q, lit)})
		}
		return
	}
	w.r.buf = append(w.r.buf, q.HoleBytes(h)...)
	for i := o.First; i < o.First+o.N; i++ {
		if q.Literals[i].Class == ClassParam {
			w.r.params = append(w.r.params, ParamRef{Index: paramIndex(q, int(i))})
		}
	}
}

// literals writes a hole of one row with parameters as literals.
func (w *writer) literals(h int) {
	q := w.q
	o := q.Holes[h]
	first := int(o.First) + w.row*int(q.Rows.PerRow)
	for i := first; i < first+int(o.N); i++ {
		if i > first {
			w.r.buf = append(w.r.buf, ',')
		}
		if q.Literals[i].Class != ClassParam {
			w.r.buf = append(w.r.buf, q.LiteralBytes(i)...)
			continue
		}
		v, ok := literal(q, i)
		if ok {
			w.r.buf, ok = appendValue(w.r.buf, v)
		}
		w.failed = w.failed || !ok
	}
}

// id writes the id made for the row under way, or the row's own. As a parameter
// the text stays the same for every id.
func (w *writer) id(own template) {
	id := w.q.Made.IDs[w.at]
	switch {
	case id == 0:
		w.template(own)
	case w.q.Prepared:
		w.r.buf = append(w.r.buf, '?')
		w.r.params = append(w.r.params, ParamRef{Index: -1, Value: id})
	default:
		w.r.buf = strconv.AppendUint(w.r.buf, id, 10)
	}
}

// name writes a hole's literals inside of a quoted identifier.
func (w *writer) name(h int) {
	for _, c := range w.q.HoleBytes(h) {
		if c == '`' {
			w.r.buf = append(w.r.buf, '`')
		}
		w.r.buf = append(w.r.buf, c)
	}
}

// limitNumber writes the rows a shard has to send: count and offset together,
// never a wrapped number. A parameter stays one, so that the text stays the same.
func (w *writer) limitNumber(hole int) {
	n := w.limit.Count + w.limit.Offset
	if n < w.limit.Count {
		n = math.MaxUint64
	}
	if w.q.Literals[w.q.Holes[hole].First].Class == ClassParam {
		w.r.buf = append(w.r.buf, '?')
		w.r.params = append(w.r.params, ParamRef{Index: -1, Value: n})
		return
	}
	w.r.buf = strconv.AppendUint(w.r.buf, n, 10)
}

// fact writes a session's fact as a literal.
func (w *writer) fact(k fact) {
	f := w.q.Facts
	switch k {
	case factDatabase:
		if w.q.Database == "" {
			w.r.buf = append(w.r.buf, "NULL"...)
			return
		}
		w.string(w.q.Database)
	case factConnectionID:
		w.unsigned(f.ConnectionID)
	case factUser:
		w.string(f.User)
	case factCurrentUser:
		w.string(f.CurrentUser)
	case factVersion:
		w.string(f.Version)
	case factLastInsertID:
		w.unsigned(f.LastInsertID)
	case factRowCount:
		w.r.buf = strconv.AppendInt(w.r.buf, f.RowCount, 10)
	case factFoundRows:
		w.r.buf = strconv.AppendUint(w.r.buf, f.FoundRows, 10)
	case factWarningCount:
		w.unsigned(uint64(f.Warnings))
	case factErrorCount:
		w.unsigned(uint64(f.Errors))
	case factAutocommit:
		w.bit(f.Autocommit)
	case factReadFence:
		w.bit(f.ReadFence)
	case factMetadata:
		if f.Bare {
			w.string("NONE")
		} else {
			w.string("FULL")
		}
	case factLockOwner:
		w.r.buf = append(w.r.buf, " WHEN 0 THEN "...)
		w.lockOwner(0)
		if f.LockOwners != nil {
			for _, o := range f.LockOwners() {
				w.r.buf = strconv.AppendUint(append(w.r.buf, " WHEN "...), o.Backend, 10)
				w.r.buf = append(w.r.buf, " THEN "...)
				w.lockOwner(o.Session)
			}
		}
	}
}

// bit writes a variable that is on or off.
func (w *writer) bit(on bool) {
	if on {
		w.r.buf = append(w.r.buf, '1')
	} else {
		w.r.buf = append(w.r.buf, '0')
	}
}

// lockOwner writes a connection id with the type that IS_USED_LOCK() has.
func (w *writer) lockOwner(id uint64) {
	if w.db != nil && w.db.Flavour == MariaDB {
		w.r.buf = strconv.AppendUint(w.r.buf, id, 10)
		return
	}
	w.unsigned(id)
}

func (w *writer) unsigned(n uint64) {
	w.r.buf = append(w.r.buf, "CAST("...)
	w.r.buf = strconv.AppendUint(w.r.buf, n, 10)
	w.r.buf = append(w.r.buf, " AS UNSIGNED)"...)
}

// string writes text as the servers' own functions give it: in utf8mb3. What is
// not a plain literal in every character set and sql_mode is written in
// hexadecimal (which MySQL warns of: the character set's name is an old one).
func (w *writer) string(s string) {
	plain := true
	for i := range len(s) {
		plain = plain && s[i] >= ' ' && s[i] <= '~' && s[i] != '\'' && s[i] != '\\'
	}
	if plain {
		w.r.buf = append(append(append(w.r.buf, '\''), s...), '\'')
		return
	}
	const digits = "0123456789abcdef"
	w.r.buf = append(w.r.buf, "_utf8mb3 x'"...)
	for i := range len(s) {
		w.r.buf = append(w.r.buf, digits[s[i]>>4], digits[s[i]&15])
	}
	w.r.buf = append(w.r.buf, '\'')
}
