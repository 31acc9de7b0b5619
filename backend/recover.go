package backend

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"strings"
	"time"

	"go.uber.org/zap"
)

// InDoubt is a prepared branch of some Braid of this cluster, as SHOW XA shows it.
type InDoubt struct {
	Node     string
	GTRID    string
	BQual    string
	Began    time.Time
	Decider  string    // the nodes that decide, separated by commas; "" when none does now
	Decision Decision  // what they say so far; Undecided is nothing
	Seen     time.Time // when recovery first saw it; zero: not yet
	Reason   string    // why recovery leaves it alone; "" when it will not
}

// RecoverOptions says how far a recovery by hand goes. The zero value does what
// the loop does.
type RecoverOptions struct {
	// Unseen decides also branches that were not seen prepared for the grace
	// period. A transaction that is just being committed elsewhere is rolled
	// back then.
	Unseen bool
	// Old decides also branches older than half the retention, whose decision
	// may have been deleted: an operator has looked.
	Old bool
}

// RecoverReport is what one pass of recovery did.
type RecoverReport struct {
	Scanned    []string         // nodes
	Failed     map[string]error // nodes that could not be scanned
	Committed  int              // branches
	RolledBack int              // branches
	Left       []InDoubt        // branches that stay prepared
	Purged     int              // decision rows deleted
}

// errOtherServer is a decider whose server is not the one that took the
// decision (rule T10).
var errOtherServer = errors.New("another server than the decider answers there; recovery waits until the failover is settled")

// Run finishes interrupted transactions until ctx ends: every interval it looks
// at all nodes.
func (k *Coordinator) Run(ctx context.Context) {
	interval := time.Duration(k.recovery.Interval)
	if interval <= 0 {
		interval = 10 * time.Second
	}
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		k.retryLeft(ctx)
		r, err := k.RecoverNow(ctx, RecoverOptions{})
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			k.log.Warn("recovery failed; it is tried again", zap.Error(err))
		case r.Committed+r.RolledBack > 0:
			k.log.Info("recovery finished interrupted transactions", zap.Int("committed", r.Committed), zap.Int("rolled_back", r.RolledBack))
		}
	}
}

// station is one node during a pass.
type station struct {
	n          *Node
	c          *Conn
	f          *nodeFacts
	listed     map[branch]globalID
	prepared   map[string]bool // the gtrids of listed
	purgeable  []string        // gtrids of decision rows that may go when nobody lists them
	purgeNodes []string        // the branches column of each
}

// stations connects to all nodes that can be reached. The caller closes them.
func (k *Coordinator) stations(ctx context.Context) (all []*station, failed map[string]error) {
	failed = map[string]error{}
	for _, n := range k.cluster().Nodes() {
		s, err := k.station(ctx, n)
		if err != nil {
			failed[n.name] = err
			continue
		}
		all = append(all, s)
	}
	return all, failed
}

func (k *Coordinator) station(ctx context.Context, n *Node) (*station, error) {
	known, err := k.prepared(ctx, n)
	if err != nil {
		return nil, err
	}
	c, err := ownConn(ctx, n, ownTimeout(n))
	if err != nil {
		return nil, err
	}
	f, err := lookAtNode(c)
	if err == nil && f.identity != known.identity {
		k.forget(n)
		f, err = k.prepared(ctx, n)
	}
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	return &station{n: n, c: c, f: f}, nil
}

func closeAll(all []*station) {
	for _, s := range all {
		_ = s.c.Close()
	}
}

// scan lists the prepared branches of every station; those that fail leave the
// list.
func (k *Coordinator) scan(all []*station, failed map[string]error) []*station {
	var ok []*station
	for _, s := range all {
		s.c.SetDeadline(time.Now().Add(ownTimeout(s.n)))
		var err error
		if s.listed, err = listPrepared(s.c, k.clusterID()); err != nil {
			failed[s.n.name] = err
			_ = s.c.Close()
			continue
		}
		s.prepared = make(map[string]bool, len(s.listed))
		for b := range s.listed {
			s.prepared[b.gtrid] = true
		}
		ok = append(ok, s)
	}
	return ok
}

// deciderOf finds the station that holds the decisions of a server, nil when
// none does now.
func deciderOf(all []*station, identity string) *station {
	for _, s := range all {
		if s.f.decides(identity) {
			return s
		}
	}
	return nil
}

// InDoubt lists the prepared branches of this cluster on all nodes that can be
// reached, and changes nothing. failed says which nodes could not.
func (k *Coordinator) InDoubt(ctx context.Context) (list []InDoubt, failed map[string]error) {
	all, failed := k.stations(ctx)
	all = k.scan(all, failed)
	defer closeAll(all)
	for _, s := range all {
		for b, g := range s.listed {
			list = append(list, k.describe(all, b, g))
		}
	}
	sortInDoubt(list)
	return list, failed
}

func sortInDoubt(list []InDoubt) {
	sort.Slice(list, func(i, j int) bool {
		if list[i].GTRID != list[j].GTRID {
			return list[i].GTRID < list[j].GTRID
		}
		return list[i].Node < list[j].Node
	})
}

func (k *Coordinator) describe(all []*station, b branch, g globalID) InDoubt {
	d := InDoubt{Node: b.node, GTRID: b.gtrid, BQual: b.bqual, Began: g.began}
	k.mu.Lock()
	d.Seen = k.mu.seen[b]
	k.mu.Unlock()
	d.Reason = k.reason(b, g, RecoverOptions{})
	deciders, missing, err := k.deciders(all, b, g)
	if err == nil {
		err = missing
	}
	if d.Reason == "" && err != nil {
		d.Reason = err.Error()
	}
	var names []string
	prepared := missing == nil
	for _, s := range deciders {
		names = append(names, s.n.name)
		prepared = prepared && s.prepared[b.gtrid]
		s.c.SetDeadline(time.Now().Add(ownTimeout(s.n)))
		if decision, err := readDecision(s.c, b.gtrid); err == nil && decision != Undecided {
			d.Decision = decision
		}
	}
	if prepared && len(deciders) > 0 && d.Decision == Undecided {
		d.Decision = DecidedCommit // they all are
	}
	d.Decider = strings.Join(names, ",")
	return d
}

// errNoDecider is a server that decides and that no node's address leads to.
var errNoDecider = errors.New("a node that decides it cannot be reached, or another server answers there (a failover that is not settled)")

// errJustEnded is a branch that was rolled back after it was listed. Its own row
// would have told who decides.
var errJustEnded = errors.New("just being ended")

// decider is a server that decides a transaction, and its branch there, whose bqual
// names no connection where it is an ordinary first leg.
type decider struct {
	*station
	branch branch
}

// deciders finds who decides the transaction of a listed branch: the server of
// its first leg, or, where all legs are branches, all that take part. missing says
// that some cannot be found.
func (k *Coordinator) deciders(all []*station, b branch, g globalID) (list []decider, missing, err error) {
	for _, s := range all {
		if s.n.name != b.node {
			continue
		}
		s.c.SetDeadline(time.Now().Add(ownTimeout(s.n)))
		names, err := participants(s.c, b.gtrid, g)
		if err != nil {
			return nil, nil, err
		}
		for _, name := range names {
			identity, _, _ := strings.Cut(name, ".")
			switch d := deciderOf(all, identity); {
			case d == nil:
				missing = errNoDecider
			case name == identity && d.prepared[b.gtrid]:
				// An ordinary first leg is never prepared: the branch had a row, which has
				// gone with it since it was listed.
				return nil, nil, errJustEnded
			default:
				list = append(list, decider{d, branch{d.n.name, b.gtrid, name}})
			}
		}
	}
	return list, missing, nil
}

// reason says why recovery does not look for a branch's decision, "" when it does
// (rule T7).
func (k *Coordinator) reason(b branch, g globalID, o RecoverOptions) string {
	if k.isOpen(b.gtrid) {
		return "being committed by this Braid"
	}
	now := k.now()
	if half := time.Duration(k.recovery.Retention) / 2; !o.Old && now.Sub(g.began) > half {
		return fmt.Sprintf("older than half the retention (%v): for an operator to look at", half)
	}
	k.mu.Lock()
	first, seen := k.mu.seen[b]
	k.mu.Unlock()
	if !o.Unseen && (!seen || now.Sub(first) < time.Duration(k.recovery.Grace)) {
		return "not yet seen prepared for the grace period"
	}
	return ""
}

// RecoverNow does one pass of recovery over all nodes that can be reached: it
// decides and finishes what was seen prepared for long enough (rules T5-T8), and
// deletes decisions that nobody can need any more (T9). Passes do not overlap.
func (k *Coordinator) RecoverNow(ctx context.Context, o RecoverOptions) (*RecoverReport, error) {
	k.passing.Lock()
	defer k.passing.Unlock()
	if len(k.cluster().names) < 2 {
		return &RecoverReport{}, nil
	}
	all, failed := k.stations(ctx)
	r := &RecoverReport{Failed: failed}
	defer func() { closeAll(all) }()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	// The rows that may go are read before the scan, so that every branch that
	// could need one is seen by it.
	if len(failed) == 0 {
		var servers []string
		for _, s := range all {
			servers = append(append(servers, s.f.identity), s.f.predecessors...)
		}
		for _, s := range all {
			if err := k.readPurgeable(s, servers); err != nil {
				k.log.Warn("reading old decisions failed", zap.String("node", s.n.name), zap.Error(err))
			}
		}
	}
	all = k.scan(all, failed)
	for _, s := range all {
		r.Scanned = append(r.Scanned, s.n.name)
	}

	wanted := map[*station]map[branch]Decision{}
	decided := map[string]Decision{}
	why := map[string]string{}
	for _, s := range all {
		for b, g := range s.listed {
			reason := k.reason(b, g, o)
			d := Undecided
			if reason == "" {
				if d, reason = decided[b.gtrid], why[b.gtrid]; d == Undecided && reason == "" {
					d, reason = k.decide(all, b, g)
					decided[b.gtrid], why[b.gtrid] = d, reason
				}
			}
			if d == Undecided {
				i := k.describe(all, b, g)
				i.Reason = reason
				r.Left = append(r.Left, i)
				continue
			}
			if wanted[s] == nil {
				wanted[s] = map[branch]Decision{}
			}
			wanted[s][b] = d
		}
	}
	k.remember(all)
	for s, branches := range wanted {
		k.finishAt(ctx, s, branches, all, r)
	}
	if len(failed) == 0 {
		r.Purged = k.purge(all)
	}
	sortInDoubt(r.Left)
	return r, ctx.Err()
}

// decide finds out how a listed branch's transaction ends: it is committed when
// all who decide have it prepared, which an ordinary first leg never has; any
// other of them is fenced, and says (rules T5, T10). Undecided comes with the
// reason.
func (k *Coordinator) decide(all []*station, b branch, g globalID) (Decision, string) {
	deciders, why, err := k.deciders(all, b, g)
	if err != nil {
		return Undecided, err.Error()
	}
	for _, s := range deciders {
		if s.prepared[b.gtrid] {
			continue
		}
		s.c.SetDeadline(time.Now().Add(ownTimeout(s.n)))
		d, err := fence(s.c, b.gtrid)
		if err != nil {
			why = err // another may say
			if errors.Is(err, errFenceBusy) {
				// Its owner may hang, or its machine be gone: a later pass sees.
				if err := k.killOwner(s.c, s.branch); err != nil {
					why = err
				}
			}
			continue
		}
		k.step(stepRecoverFenced)
		return d, ""
	}
	if why != nil {
		return Undecided, why.Error()
	}
	k.step(stepRecoverFenced)
	return DecidedCommit, ""
}

// finishAt ends decided branches on one node and counts them in r.
func (k *Coordinator) finishAt(ctx context.Context, s *station, branches map[branch]Decision, all []*station, r *RecoverReport) {
	once, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	left, err := k.finishBranches(once, s.c, branches)
	reason := "its owner is still connected, or the node refuses"
	if err != nil {
		reason = err.Error()
	}
	for b, d := range branches {
		if _, still := left[b]; still {
			i := k.describe(all, b, s.listed[b])
			i.Decision, i.Reason = d, reason
			r.Left = append(r.Left, i)
			continue
		}
		k.finished(b)
		if d == DecidedCommit {
			r.Committed++
		} else {
			r.RolledBack++
		}
	}
}

// remember notes which branches this pass has seen, and forgets those that are
// gone from the nodes it has scanned.
func (k *Coordinator) remember(all []*station) {
	now := k.now()
	k.mu.Lock()
	defer k.mu.Unlock()
	scanned := map[string]*station{}
	for _, s := range all {
		scanned[s.n.name] = s
		for b := range s.listed {
			if _, ok := k.mu.seen[b]; !ok {
				k.mu.seen[b] = now
			}
		}
	}
	for b := range k.mu.seen {
		s := scanned[b.node]
		if s == nil {
			continue
		}
		if _, ok := s.listed[b]; !ok {
			delete(k.mu.seen, b)
		}
	}
	// Nodes of older configurations.
	current := map[*Node]bool{}
	for _, n := range k.cluster().Nodes() {
		current[n] = true
	}
	for n := range k.mu.nodes {
		if !current[n] {
			delete(k.mu.nodes, n)
		}
	}
	for n := range k.mu.refused {
		if !current[n] {
			delete(k.mu.refused, n)
		}
	}
}

// Bounds of the deletion of old decisions in one pass.
const (
	purgeRowsMax  = 20_000 // looked at, per node
	purgeBatchMax = 500    // deleted by one statement
)

// readPurgeable reads the decisions of a node that are older than the retention
// by the node's own clock, of transactions that began on any of the servers. It
// goes through the primary key, from where the pass before stopped.
func (k *Coordinator) readPurgeable(s *station, servers []string) error {
	if s.f.moved() {
		return nil
	}
	retention := int64(time.Duration(k.recovery.Retention) / time.Second)
	budget := purgeRowsMax
	for _, identity := range servers {
		prefix := k.clusterID() + "." + identity + "."
		place := s.n.name + "." + prefix
		from, upTo := k.purgeFrom[place], prefix+secondsText(k.now().Add(-time.Duration(k.recovery.Retention)))
		if from == "" {
			from = prefix
		}
		s.c.SetDeadline(time.Now().Add(ownTimeout(s.n)))
		rows, err := s.c.Query(fmt.Sprintf("SELECT gtrid,branches FROM braid.decision WHERE gtrid>'%s' AND gtrid<'%s' AND created<UNIX_TIMESTAMP()-%d ORDER BY gtrid LIMIT %d",
			from, upTo, retention, budget), budget)
		if err != nil {
			return err
		}
		for _, r := range rows {
			s.purgeable = append(s.purgeable, string(r[0]))
			s.purgeNodes = append(s.purgeNodes, string(r[1]))
		}
		if len(rows) == budget {
			k.purgeFrom[place] = string(rows[len(rows)-1][0])
			return nil
		}
		delete(k.purgeFrom, place)
		budget -= len(rows)
	}
	return nil
}

// purge deletes the decisions that were read before every node was scanned, and
// that no node has a branch of (rule T9). It returns their number.
func (k *Coordinator) purge(all []*station) int {
	listed := map[string]bool{}
	servers := map[string]bool{}
	for _, s := range all {
		for b := range s.listed {
			listed[b.gtrid] = true
		}
		servers[s.f.identity] = true
		if !s.f.moved() {
			for _, p := range s.f.predecessors {
				servers[p] = true
			}
		}
	}
	total := 0
	for _, s := range all {
		var batch []string
		flush := func() bool {
			if len(batch) == 0 {
				return true
			}
			s.c.SetDeadline(time.Now().Add(ownTimeout(s.n)))
			ok, err := s.c.Exec("DELETE FROM braid.decision WHERE gtrid IN ('" + strings.Join(batch, "','") + "')")
			if err != nil {
				k.log.Warn("deleting old decisions failed", zap.String("node", s.n.name), zap.Error(err))
				return false
			}
			total += int(ok.AffectedRows)
			batch = batch[:0]
			return true
		}
		for i, gtrid := range s.purgeable {
			if listed[gtrid] || !allIn(strings.Fields(s.purgeNodes[i]), servers) {
				continue
			}
			if batch = append(batch, gtrid); len(batch) == purgeBatchMax && !flush() {
				break
			}
		}
		flush()
	}
	return total
}

// allIn tells whether the nodes that a decision row names are all in the set of
// identities.
func allIn(list []string, set map[string]bool) bool {
	for _, x := range list {
		if identity, _, _ := strings.Cut(x, "."); !set[identity] {
			return false
		}
	}
	return true
}
