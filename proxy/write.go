package proxy

import (
	"fmt"
	"sort"
	"strings"
	"time"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"braid/backend"
	"braid/internal/mysql"
	"braid/router"
)

// nodeWrites are the targets of one node, which share its leg.
type nodeWrites struct {
	p       place
	c       *backend.Conn
	targets []int
}

// runWrite runs a write on several shards inside the open transaction: nodes
// in parallel (of a global table, the first one before the others), the shards of
// one node one after the other. When it fails anywhere it is undone everywhere
// (rule T13), and the client gets the error of the earliest target; an INSERT is
// then run row by row, for the error of the earliest row. was is what it failed
// with before that, nil the first time.
func (s *Session) runWrite(plan *router.Plan, q *router.Query, ps *execution, was error) error {
	var nodes []nodeWrites
	targets := s.route.Targets
	for i := range targets {
		p := s.place(plan, targets[i].Shard)
		found := false
		for k := range nodes {
			if nodes[k].p.node == p.node {
				nodes[k].targets, found = append(nodes[k].targets, i), true
			}
		}
		if !found {
			nodes = append(nodes, nodeWrites{p: p, targets: []int{i}})
		}
	}
	for k := range nodes {
		c, err := s.take(plan, &nodes[k].p)
		if err != nil {
			s.dropWrites(nodes)
			return s.failed1(plan, nodes[k].p.shardError(err))
		}
		nodes[k].c = c
	}
	conns := make([]*backend.Conn, len(nodes))
	for k := range nodes {
		conns[k] = nodes[k].c
	}
	s.tx.Announce(conns...)
	if !s.ownTx {
		if err := s.tx.Guard(conns...); err != nil {
			s.dropWrites(nodes)
			told := s.tx.Failed(nodes[0].p.node, nodes[0].p.shardError(err))
			s.noteEnd()
			return s.failed1(plan, told)
		}
	}
	for k := range nodes {
		sort.SliceStable(nodes[k].targets, func(i, j int) bool {
			return targets[nodes[k].targets[i]].First < targets[nodes[k].targets[j]].First
		})
	}
	vars := s.vars
	if _, set := vars.Get("timestamp"); plan.Clock && !set {
		now := time.Now()
		vars = vars.With(backend.Var{Name: "timestamp", Value: fmt.Sprintf("%d.%06d", now.Unix(), now.Nanosecond()/1000)})
	}
	s.warnings = s.warnings[:0]
	sum := writeSum{verb: plan.Verb, onDuplicate: plan.OnDuplicate}
	var back returned
	var failure error
	for _, round := range writeRounds(nodes, plan.Kind == router.KindBroadcast, was != nil) {
		failures := make(map[int]writeFailure) // by target
		for _, w := range round {
			n, i := w.n, w.target
			n.p = s.place(plan, targets[i].Shard)
			need := s.need(plan, &n.p)
			need.Write, need.Vars = true, vars
			if err := s.sendOnly(n.c, &need, plan, &targets[i], ps); err != nil {
				failures[i] = writeFailure{n, err}
				s.tx.Abandon(n.c)
			}
		}
		for _, w := range round {
			n, i := w.n, w.target
			if _, unsent := failures[i]; unsent {
				continue
			}
			if err := s.readWrite(n, &sum, &back, &targets[i], plan); err != nil {
				failures[i] = writeFailure{n, err}
				if backend.IsLost(err) || isPrefix(err) {
					s.tx.Abandon(n.c)
				}
			}
		}
		if len(failures) > 0 {
			failure = s.judge(failures)
			break
		}
	}
	ok := sum.ok(plan)
	if failure == nil && plan.IDs != nil {
		failure = s.givenOver(plan, nodes, &sum, &ok)
	}
	s.dropWrites(nodes)
	if failure != nil && was == nil && s.mayGoByRow(plan, failure) {
		return s.writeByRow(plan, q, ps, nodes, failure)
	}
	if failure != nil {
		if was != nil && s.mode&router.ModeStrict == 0 && isCode(failure, gomysql.ER_BAD_NULL_ERROR) {
			failure = was // which it is of a single row only, whatever the sql_mode
		}
		return s.writeFailed(plan, nodes, failure)
	}
	s.wrote(plan, &ok)
	s.warned, s.errored = ok.Warnings, 0
	if plan.GeneratesID && ok.InsertID != 0 {
		s.facts.LastInsertID = ok.InsertID
	}
	if plan.Rows {
		s.facts.RowCount = -1
	}
	if err := s.settle(false); err != nil {
		return s.failErr(err)
	}
	if plan.Rows {
		return s.writeReturned(&back, ok.Warnings)
	}
	return s.writeOK(&ok)
}

// givenOver notes the insert id of an INSERT on several shards whose ids Braid
// gave. Its error is as runWrite's failure.
func (s *Session) givenOver(plan *router.Plan, nodes []nodeWrites, sum *writeSum, ok *mysql.OK) error {
	var legs []insertLeg
	for k := range nodes {
		for _, i := range nodes[k].targets {
			legs = append(legs, insertLeg{nodes[k].c, s.place(plan, s.route.Targets[i].Shard)})
		}
	}
	first, err := s.insertedFirst(plan, sum.rows, sum.info.duplicates, ok, legs)
	if err != nil {
		return s.tx.Failed(nodes[0].p.node, nodes[0].p.shardError(err))
	}
	if first != 0 {
		ok.InsertID, s.facts.LastInsertID = first, first
	}
	return nil
}

// writeFailure is what went wrong with one target.
type writeFailure struct {
	n   *nodeWrites
	err error
}

// judge tells the transaction of all that went wrong in a round, and returns
// what the client is told: the earliest target's error, unless another one
// ended the transaction.
func (s *Session) judge(failures map[int]writeFailure) error {
	at := make([]int, 0, len(failures))
	for i := range failures {
		at = append(at, i)
	}
	sort.Slice(at, func(i, j int) bool {
		x, y := &s.route.Targets[at[i]], &s.route.Targets[at[j]]
		return x.First < y.First || x.First == y.First && at[i] < at[j]
	})
	var told, ended error
	for _, i := range at {
		f := failures[i]
		active := !s.tx.Over()
		e := s.tx.Failed(f.n.p.node, f.n.p.shardError(f.err))
		if told == nil {
			told = e
		}
		if active && s.tx.Over() && ended == nil {
			ended = e
		}
	}
	if ended != nil {
		return ended
	}
	return told
}

func (s *Session) dropWrites(nodes []nodeWrites) {
	for k := range nodes {
		if nodes[k].c != nil {
			s.drop(nodes[k].c)
		}
	}
}

// writeFailed undoes a failed write on all its nodes and answers with the error.
func (s *Session) writeFailed(plan *router.Plan, nodes []nodeWrites, failure error) error {
	if !s.ownTx && !s.tx.Over() {
		if err := s.undoWrite(nodes); err != nil {
			failure = err
		}
	}
	s.noteEnd()
	return s.failed1(plan, failure)
}

// readWrite reads one target's answer and adds it up, and its rows to back.
func (s *Session) readWrite(n *nodeWrites, sum *writeSum, back *returned, t *router.Target, plan *router.Plan) error {
	first, err := n.c.First()
	if err != nil {
		return err
	}
	switch first[0] {
	case 0xff:
		e := mysql.ParseError(first)
		e.Message = s.renumber(e.Message, t)
		return e
	case 0:
	default:
		if first, err = s.readReturned(n.c, first, &n.p, back, t, plan); err != nil {
			return err
		}
	}
	ok, err := mysql.ParseOK(first, false)
	if err != nil {
		return err
	}
	if ok.Warnings > 0 {
		rows, err := n.c.Query(showWarnings, warningsMax)
		if err != nil {
			return err
		}
		if plan.Kind != router.KindBroadcast || !sum.any {
			before := len(s.warnings)
			p := s.place(plan, t.Shard)
			ok.Warnings -= uint16(min(s.addWarnings(rows, &p), int(ok.Warnings)))
			for i := before; i < len(s.warnings); i++ {
				s.warnings[i].message = s.renumber(s.warnings[i].message, t)
			}
		}
	}
	sum.add(&ok, t, plan.Kind == router.KindBroadcast)
	return nil
}

// writeSum adds up the OKs of a write's shards into the one that a single
// server would have given.
type writeSum struct {
	verb string
	// onDuplicate: a row that was there and was changed counts as a duplicate.
	onDuplicate bool
	affected    uint64
	warnings    uint64
	insertID    uint64
	last        int // which row of the INSERT the insert id is of
	rows        int // of an INSERT, over all targets
	info        infoSum
	any         bool
}

// add counts one shard's answer. A copy of a global table counts once. The
// insert id of rows with ids of their own is the last row's, as on one server.
func (w *writeSum) add(ok *mysql.OK, t *router.Target, copies bool) {
	rows := t.Rows
	if copies && w.any {
		return
	}
	w.any = true
	w.affected += ok.AffectedRows
	w.warnings += uint64(ok.Warnings)
	if ok.InsertID != 0 && (w.insertID == 0 || t.Last > w.last) {
		w.insertID, w.last = ok.InsertID, t.Last
	}
	w.rows += rows
	if ok.Info != "" {
		w.info.add(ok.Info)
		return
	}
	if rows == 1 {
		// A one-row INSERT has no info; as part of a longer one its duplicate counts.
		switch {
		case w.verb == "REPLACE":
			w.info.duplicates += max(ok.AffectedRows, 1) - 1 // rows that had to go
		case w.verb == "INSERT" && !w.onDuplicate && ok.AffectedRows != 1,
			w.onDuplicate && ok.AffectedRows > 1:
			w.info.duplicates++
		}
	}
}

func (w *writeSum) ok(plan *router.Plan) mysql.OK {
	o := mysql.OK{AffectedRows: w.affected, Warnings: uint16(min(w.warnings, 65535)), InsertID: w.insertID}
	switch {
	case w.rows > 1:
		o.Info = fmt.Sprintf("Records: %d  Duplicates: %d  Warnings: %d", w.rows, w.info.duplicates, w.warnings)
	case w.info.matched:
		o.Info = fmt.Sprintf("Rows matched: %d  Changed: %d  Warnings: %d", w.info.first, w.info.second, w.warnings)
	case w.info.seen:
		o.Info = fmt.Sprintf("Records: %d  Duplicates: %d  Warnings: %d", w.info.first, w.info.duplicates, w.warnings)
	}
	return o
}

// infoSum adds up the info texts of OK packets.
type infoSum struct {
	seen, matched bool
	first, second uint64 // records, or rows matched and changed
	duplicates    uint64
}

func (f *infoSum) add(info string) {
	f.seen = true
	var a, b, c uint64
	if info == "" {
		return
	}
	if n, _ := fmt.Sscanf(info, "Rows matched: %d  Changed: %d  Warnings: %d", &a, &b, &c); n == 3 {
		f.matched = true
		f.first += a
		f.second += b
		return
	}
	if strings.HasPrefix(info, "Records:") {
		if n, _ := fmt.Sscanf(info, "Records: %d  Duplicates: %d  Warnings: %d", &a, &b, &c); n == 3 {
			f.first += a
			f.duplicates += b
		}
	}
}
