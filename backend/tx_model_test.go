package backend

import (
	"fmt"
	"testing"
)

// This file checks the commit protocol itself, without servers: every
// interleaving of one coordinator, three nodes and two recoverers, with the
// coordinator crashing, connections breaking, and recoverers starting over at
// any point. Node 0 is the decider, nodes 1 and 2 hold branches.

type rowState uint8

const (
	rowNone rowState = iota
	rowUncommitted
	rowCommit
	rowRollback
)

type branchState uint8

const (
	branchActive branchState = iota
	branchPrepared
	branchCommitted
	branchRolledBack
)

type coordinatorState uint8

const (
	cPreparing  coordinatorState = iota // PREPAREs and the INSERT are on their way
	cDeciding                           // COMMIT sent to the decider
	cResolving                          // the decider was lost while deciding
	cCommitting                         // decided; COMMITs on their way
	cAborting                           // ROLLBACKs on their way
	cDoneCommit                         // the client was told OK
	cDoneAbort                          // the client was told of a rollback
	cUnknown                            // the client was disconnected
	cCrashed
)

// modelState is everything at one moment. answers of the decider's INSERT and
// of the PREPAREs are what the coordinator has read.
type modelState struct {
	row      rowState
	first    branchState // the decider's own work: active, committed or rolled back
	branches [2]branchState

	c         coordinatorState
	inserted  int8 // the INSERT: 0 on its way, 1 OK, 2 refused
	prepared  [2]bool
	open      [3]bool // the coordinator's connections
	dangling  [3]bool // broken, with a command that the node may still run
	recoverer [2]Decision
	purged    bool // a decision row was deleted
	told      bool // commit_ok = "decided": the client has its OK
	missed    bool // a session of this Braid has read a node behind that, and not seen the change
}

// mutation is a protocol with one rule left out, or, where it is but decided,
// the protocol itself with commit_ok = "decided".
type mutation struct {
	decided bool // OK when decided; sessions that come to a node wait for its branch (T11)

	noFence       bool // a recoverer takes a missing row for 'rollback' and writes none
	busyDecides   bool // a recoverer takes a lock wait timeout for 'rollback'
	commitUnread  bool // COMMIT is sent without waiting for the INSERT's answer (T1)
	earlyDecision bool // COMMIT is sent before all branches have answered
	earlyPurge    bool // rows are deleted while a branch is listed (T9)
	tellsDeciding bool // OK is given before the decision's COMMIT is answered (T11)
	noWait        bool // sessions do not wait for the branches behind the OK (T11)
}

func (s modelState) next(m mutation) (out []modelState) {
	add := func(f func(*modelState)) {
		n := s
		f(&n)
		out = append(out, n)
	}
	alive := s.c != cCrashed
	// The coordinator crashes: all its connections break.
	if alive {
		add(func(n *modelState) {
			for i := range n.open {
				n.close(i)
			}
			n.c = cCrashed
		})
	}
	switch s.c {
	case cPreparing:
		for i := range s.branches {
			if s.open[i+1] && s.branches[i] == branchActive && !s.prepared[i] {
				add(func(n *modelState) { n.branches[i] = branchPrepared; n.prepared[i] = true })
			}
			if s.open[i+1] {
				add(func(n *modelState) { n.close(i + 1) })
			}
		}
		if s.open[0] && s.inserted == 0 {
			switch s.row {
			case rowNone:
				add(func(n *modelState) { n.row = rowUncommitted; n.inserted = 1 })
			case rowRollback, rowCommit:
				add(func(n *modelState) { n.inserted = 2 })
			}
		}
		if s.open[0] {
			add(func(n *modelState) { n.close(0) })
		}
		allPrepared := s.prepared[0] && s.prepared[1] || m.earlyDecision
		insertKnown := s.inserted == 1 || m.commitUnread && s.inserted != 0
		if s.open[0] && insertKnown && allPrepared {
			add(func(n *modelState) { n.c = cDeciding })
		}
		// Any failure aborts.
		if !s.open[0] || s.inserted == 2 && !m.commitUnread || !s.open[1] || !s.open[2] {
			add(func(n *modelState) { n.c = cAborting; n.close(0) })
		}
	case cDeciding:
		if m.tellsDeciding && !s.told {
			add(func(n *modelState) { n.told = true })
		}
		if s.open[0] {
			committed := func(n *modelState) {
				n.first = branchCommitted
				if n.row == rowUncommitted {
					n.row = rowCommit
				}
			}
			add(func(n *modelState) { committed(n); n.c = cCommitting })
			add(func(n *modelState) { n.close(0); n.c = cResolving })
		}
	case cResolving:
		switch s.row {
		case rowNone:
			add(func(n *modelState) { n.row = rowRollback; n.c = cAborting })
		case rowRollback:
			add(func(n *modelState) { n.c = cAborting })
		case rowCommit:
			add(func(n *modelState) { n.c = cCommitting })
		}
		add(func(n *modelState) {
			n.c = cUnknown
			for i := range n.open {
				n.close(i)
			}
		})
	case cCommitting, cAborting:
		if m.decided && s.c == cCommitting && !s.told {
			add(func(n *modelState) { n.told = true })
		}
		done := true
		for i, b := range s.branches {
			if b != branchActive && b != branchPrepared {
				continue
			}
			if s.dangling[i+1] {
				continue // not listed: it counts as finished, and recovery sees it later
			}
			done = false
			add(func(n *modelState) {
				if s.c == cCommitting {
					if b == branchPrepared {
						n.branches[i] = branchCommitted
					}
				} else {
					n.branches[i] = branchRolledBack
				}
			})
		}
		if done {
			add(func(n *modelState) {
				if s.c == cCommitting {
					n.c = cDoneCommit
				} else {
					n.c = cDoneAbort
				}
				n.open = [3]bool{}
			})
		}
	}
	if s.told && alive {
		// A session of this Braid reads on a branch's node: it has waited.
		for _, b := range s.branches {
			if b == branchCommitted || m.noWait || s.c != cCommitting {
				add(func(n *modelState) { n.missed = n.missed || b != branchCommitted })
			}
		}
	}
	// A node runs, or drops, what a broken connection has left in its socket.
	for i, d := range s.dangling {
		if !d {
			continue
		}
		if i > 0 {
			add(func(n *modelState) { n.dangling[i] = false; n.branches[i-1] = branchPrepared })
			add(func(n *modelState) { n.dangling[i] = false; n.branches[i-1] = branchRolledBack })
			continue
		}
		add(func(n *modelState) { n.dangling[0] = false; n.first = branchCommitted; n.row = rowCommit })
		add(func(n *modelState) { n.dangling[0] = false; n.first = branchRolledBack; n.row = rowNone })
	}
	anyPrepared := s.branches[0] == branchPrepared || s.branches[1] == branchPrepared
	for r, d := range s.recoverer {
		if d != Undecided {
			add(func(n *modelState) { n.recoverer[r] = Undecided }) // starts over, or crashed
			for i, b := range s.branches {
				if b == branchPrepared {
					add(func(n *modelState) {
						if n.branches[i] = branchRolledBack; d == DecidedCommit {
							n.branches[i] = branchCommitted
						}
					})
				}
			}
			continue
		}
		if !anyPrepared {
			continue // it acts on what it has seen prepared
		}
		switch s.row {
		case rowCommit:
			add(func(n *modelState) { n.recoverer[r] = DecidedCommit })
		case rowRollback:
			add(func(n *modelState) { n.recoverer[r] = DecidedRollback })
		case rowNone:
			add(func(n *modelState) {
				n.recoverer[r] = DecidedRollback
				if !m.noFence {
					n.row = rowRollback
				}
			})
		case rowUncommitted:
			if m.busyDecides || m.noFence {
				add(func(n *modelState) { n.recoverer[r] = DecidedRollback })
			}
		}
	}
	// Long after the coordinator's end, decisions go (T9).
	over := s.c == cCrashed || s.c == cDoneCommit || s.c == cDoneAbort || s.c == cUnknown
	if over && (!anyPrepared || m.earlyPurge) && (s.row == rowCommit || s.row == rowRollback) {
		add(func(n *modelState) { n.row = rowNone; n.purged = true })
	}
	return out
}

// close breaks one of the coordinator's connections: its node rolls back what
// is neither prepared nor committed, unless it finds a PREPARE, or the
// decider's COMMIT, in its socket first.
func (s *modelState) close(i int) {
	if !s.open[i] {
		return
	}
	s.open[i] = false
	switch {
	case i > 0:
		s.dangling[i] = s.branches[i-1] == branchActive
	case s.first != branchActive:
	case s.c == cDeciding:
		s.dangling[0] = s.row == rowUncommitted
		if !s.dangling[0] {
			s.first = branchRolledBack
		}
	default:
		s.first = branchRolledBack
		if s.row == rowUncommitted {
			s.row = rowNone
		}
	}
}

// wrong says what is wrong with a state, "" when nothing is.
func (s *modelState) wrong() string {
	for i, b := range s.branches {
		if b == branchCommitted && s.first == branchRolledBack || b == branchRolledBack && s.first == branchCommitted {
			return fmt.Sprintf("branch %d and the decider ended differently", i+1)
		}
		if s.c == cDoneCommit && b != branchCommitted {
			return "the client was told OK before all is committed"
		}
		if s.c == cDoneAbort && b == branchCommitted {
			return "the client was told of a rollback of what is committed"
		}
	}
	if s.told && (s.first == branchRolledBack || s.c == cDoneAbort) {
		return "the client was told OK of what is rolled back"
	}
	if s.missed {
		return "a session of this Braid misses what a client was told is committed"
	}
	if s.branches[0] == branchCommitted && s.branches[1] == branchRolledBack || s.branches[1] == branchCommitted && s.branches[0] == branchRolledBack {
		return "half a transaction"
	}
	if s.c == cDoneAbort && s.first == branchCommitted {
		return "the client was told of a rollback of what is committed"
	}
	return ""
}

// model is a protocol whose states can be walked through: the first one, those
// that may follow one, what is wrong with one ("" nothing), and whether one leaves
// something to be done.
type model[S comparable] struct {
	start  S
	next   func(S) []S
	wrong  func(S) string
	undone func(S) bool
}

func (m mutation) model() model[modelState] {
	return model[modelState]{
		start: modelState{open: [3]bool{true, true, true}},
		next:  func(s modelState) []modelState { return s.next(m) },
		wrong: func(s modelState) string { return s.wrong() },
		undone: func(s modelState) bool {
			done := s.first != branchActive
			for _, b := range s.branches {
				done = done && (b == branchCommitted || b == branchRolledBack)
			}
			return !done
		},
	}
}

// explore visits every state that can be reached, and returns their number and the
// first dead end with unfinished work. It stops at the first wrong state, and
// describes it.
func (m model[S]) explore() (states int, wrong, stuck string) {
	seen := map[S]bool{m.start: true}
	for queue := []S{m.start}; len(queue) > 0; queue = queue[1:] {
		s := queue[0]
		if w := m.wrong(s); w != "" {
			return len(seen), fmt.Sprintf("%s: %+v", w, s), stuck
		}
		next := m.next(s)
		if len(next) == 0 && stuck == "" && m.undone(s) {
			stuck = fmt.Sprintf("%+v", s)
		}
		for _, n := range next {
			if !seen[n] {
				seen[n] = true
				queue = append(queue, n)
			}
		}
	}
	return len(seen), wrong, stuck
}

// canFinish looks for a reachable state from which not everything can be brought
// to an end any more, "" when there is none.
func (m model[S]) canFinish() string {
	back := map[S][]S{}
	seen := map[S]bool{m.start: true}
	for queue := []S{m.start}; len(queue) > 0; queue = queue[1:] {
		for _, n := range m.next(queue[0]) {
			back[n] = append(back[n], queue[0])
			if !seen[n] {
				seen[n] = true
				queue = append(queue, n)
			}
		}
	}
	good := map[S]bool{}
	var queue []S
	for s := range seen {
		if !m.undone(s) {
			good[s] = true
			queue = append(queue, s)
		}
	}
	for ; len(queue) > 0; queue = queue[1:] {
		for _, p := range back[queue[0]] {
			if !good[p] {
				good[p] = true
				queue = append(queue, p)
			}
		}
	}
	for s := range seen {
		if !good[s] {
			return fmt.Sprintf("%+v", s)
		}
	}
	return ""
}

// check fails unless the protocol does nothing wrong and never gets stuck.
func (m model[S]) check(t *testing.T) {
	states, wrong, stuck := m.explore()
	t.Logf("%d states", states)
	if states < 500 {
		t.Errorf("only %d states: the model does not move", states)
	}
	if wrong != "" {
		t.Errorf("the protocol can go wrong: %s", wrong)
	}
	if stuck != "" {
		t.Errorf("the protocol can get stuck: %s", stuck)
	}
	if s := m.canFinish(); s != "" {
		t.Errorf("cannot be finished: %s", s)
	}
}

func TestProtocolModel(t *testing.T) {
	for name, m := range map[string]mutation{"applied": {}, "decided": {decided: true}} {
		t.Run(name, func(t *testing.T) {
			m.model().check(t)
		})
	}
}

// The model must be able to see what each rule is for.
func TestProtocolModelCatchesMutations(t *testing.T) {
	for name, m := range map[string]mutation{
		"T5: no fence":                           {noFence: true},
		"T5: a lock wait timeout decides":        {busyDecides: true},
		"T1: COMMIT without the INSERT's answer": {commitUnread: true},
		"decision before all are prepared":       {earlyDecision: true},
		"T9: decisions deleted too early":        {earlyPurge: true},
		"T5: no fence, OK when decided":          {noFence: true, decided: true},
		"T11: OK before it is decided":           {tellsDeciding: true},
		"T11: nobody waits behind the OK":        {noWait: true, decided: true},
	} {
		t.Run(name, func(t *testing.T) {
			if _, wrong, _ := m.model().explore(); wrong == "" {
				t.Error("not caught")
			} else {
				t.Log(wrong)
			}
		})
	}
}
