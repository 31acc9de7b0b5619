package backend

import (
	"cmp"
	"slices"
	"testing"
)

// This file checks the other way to commit, in which every leg is a branch with
// a decision row of its own: the transaction is committed once all branches are
// prepared. One coordinator, three nodes and two recoverers, as in
// tx_model_test.go.

// legState is one node's part. Its row goes into the table within the branch.
type legState struct {
	row    rowState
	branch branchState
	answer legAnswer // what the coordinator has read of it
	open   bool      // the coordinator's connection
	left   bool      // the connection is broken, and what was sent on it may still be run

	sure  bool    // the resolving coordinator has found it prepared
	found [2]bool // so have the recoverers
}

type legAnswer uint8

const (
	legUnanswered legAnswer = iota
	legPrepared
	legRefused
)

type legDecision uint8

const (
	legUndecided legDecision = iota
	legCommit
	legRollback
)

// branchesState is everything at one moment. Neither legs nor recoverers have an
// order: states that differ by it only are one state.
type branchesState struct {
	legs       [3]legState
	recoverers [2]legDecision
	c          coordinatorState
	purged     bool // rows were deleted

	told   bool // commit_ok = "decided": the client has its OK
	missed bool // a session of this Braid has read a node behind that, and not seen the change
}

// branchesMutation is the protocol with one rule left out, or with commit_ok =
// "decided".
type branchesMutation struct {
	decided bool

	noFence      bool // a recoverer takes a missing row for 'rollback' and writes none
	busyDecides  bool // a recoverer takes a lock wait timeout for 'rollback'
	unreadInsert bool // the branch is prepared also when its row was refused (T1)
	abortsLost   bool // the coordinator rolls back for the loss of a leg, without finding out
	earlyOK      bool // it takes the transaction for committed before all have answered
	partial      bool // a recoverer does not know all nodes that take part
	goneIsFirst  bool // a recoverer takes a branch whose row has gone with it for one beside an ordinary first leg
	trustsLate   bool // it trusts answers that are older than decisions are kept
	decidesOld   bool // a recoverer decides branches older than half the retention (T7)
	earlyPurge   bool // rows are deleted while a branch is listed (T9)
	noWait       bool // sessions do not wait for the branches behind the OK (T11)
}

func (m branchesMutation) model() model[branchesState] {
	start := branchesState{}
	for i := range start.legs {
		start.legs[i].open = true
	}
	return model[branchesState]{
		start: start,
		next: func(s branchesState) []branchesState {
			out := s.next(m)
			for i := range out {
				out[i] = out[i].ordered()
			}
			return out
		},
		wrong:  branchesState.wrong,
		undone: branchesState.undone,
	}
}

// key is the leg as a number.
func (l *legState) key() (k int) {
	for i, b := range [...]bool{l.open, l.left, l.sure, l.found[0], l.found[1]} {
		if b {
			k |= 1 << i
		}
	}
	return k | int(l.row)<<5 | int(l.branch)<<7 | int(l.answer)<<9
}

// ordered is the state with its legs and recoverers in an order of their own.
func (s branchesState) ordered() branchesState {
	byKey := func(a, b legState) int { return a.key() - b.key() }
	slices.SortFunc(s.legs[:], byKey)
	o := s
	o.recoverers[0], o.recoverers[1] = s.recoverers[1], s.recoverers[0]
	for i := range o.legs {
		f := &o.legs[i].found
		f[0], f[1] = f[1], f[0]
	}
	slices.SortFunc(o.legs[:], byKey)
	if c := cmp.Or(cmp.Compare(s.recoverers[0], o.recoverers[0]), slices.CompareFunc(s.legs[:], o.legs[:], byKey)); c > 0 {
		return o
	}
	return s
}

// over ends the leg's branch.
func (l *legState) over(committed bool) {
	if committed {
		l.branch, l.row = branchCommitted, rowCommit
		return
	}
	l.branch = branchRolledBack
	if l.row == rowUncommitted {
		l.row = rowNone
	}
}

// cut breaks the coordinator's connection to the leg.
func (l *legState) cut() {
	if l.open {
		l.open = false
		if l.left = l.branch == branchActive && l.answer == legUnanswered; !l.left && l.branch == branchActive {
			l.over(false)
		}
	}
}

func (s branchesState) next(m branchesMutation) (out []branchesState) {
	add := func(f func(*branchesState)) {
		n := s
		f(&n)
		out = append(out, n)
	}
	if s.c != cCrashed {
		add(func(n *branchesState) {
			for i := range n.legs {
				n.legs[i].cut()
			}
			n.c = cCrashed
		})
	}
	for i, l := range s.legs {
		// The node runs what it was sent: the row, then PREPARE. A broken connection's it
		// may also drop, and an answer may be lost.
		if l.branch != branchActive || !l.left && (!l.open || l.answer != legUnanswered || s.c != cPreparing) {
			continue
		}
		prepare := func(answered bool) {
			add(func(n *branchesState) {
				p := &n.legs[i]
				p.branch, p.left = branchPrepared, false
				if p.answer = legUnanswered; answered {
					p.answer = legPrepared
				}
				p.open = answered
			})
		}
		switch {
		case l.row == rowNone:
			add(func(n *branchesState) { n.legs[i].row = rowUncommitted })
		case l.row == rowUncommitted:
			prepare(false)
			if l.open {
				prepare(true)
			}
		case m.unreadInsert:
			prepare(l.open)
		}
		add(func(n *branchesState) { // refused, also by a deadlock; or dropped
			p := &n.legs[i]
			p.left = false
			p.over(false)
			if p.open {
				p.answer = legRefused
			}
		})
		if l.open {
			add(func(n *branchesState) { n.legs[i].cut() })
		}
	}
	out = append(out, s.coordinate(m)...)
	out = append(out, s.recover(m)...)
	// Decisions go (T9): long after the coordinator's end, or while it is held up.
	over := s.c == cPreparing || s.c == cCrashed || s.c == cDoneCommit || s.c == cDoneAbort || s.c == cUnknown
	idle := s.recoverers == [2]legDecision{} // a pass of recovery is over long before
	for _, l := range s.legs {
		idle = idle && !l.found[0] && !l.found[1]
	}
	if over && idle && (!s.anyPrepared() || m.earlyPurge) {
		for i, l := range s.legs {
			if l.row == rowCommit || l.row == rowRollback {
				add(func(n *branchesState) { n.legs[i].row, n.purged = rowNone, true })
			}
		}
	}
	return out
}

// unknown is the coordinator giving up: its client is disconnected.
func (s *branchesState) unknown() {
	s.c = cUnknown
	for i := range s.legs {
		s.legs[i].cut()
	}
}

func (s branchesState) anyPrepared() bool {
	for _, l := range s.legs {
		if l.branch == branchPrepared {
			return true
		}
	}
	return false
}

// coordinate is what the coordinator may do.
func (s branchesState) coordinate(m branchesMutation) (out []branchesState) {
	add := func(f func(*branchesState)) {
		n := s
		f(&n)
		out = append(out, n)
	}
	switch s.c {
	case cPreparing:
		prepared, refused, lost := 0, 0, 0
		for _, l := range s.legs {
			switch {
			case l.answer == legPrepared:
				prepared++
			case l.answer == legRefused:
				refused++
			case !l.open:
				lost++
			}
		}
		switch {
		case prepared > 0 && m.earlyOK || prepared == len(s.legs) && (!s.purged || m.trustsLate):
			add(func(n *branchesState) { n.c = cCommitting })
		case prepared+refused+lost < len(s.legs):
		case refused > 0, m.abortsLost:
			add(func(n *branchesState) { n.c = cAborting })
		case s.purged:
			// Nobody can tell any more: what says so may have been deleted.
			add((*branchesState).unknown)
		default:
			add(func(n *branchesState) {
				n.c = cResolving
				for i, l := range n.legs {
					n.legs[i].sure = l.answer == legPrepared
				}
			})
		}
	case cResolving:
		all := true
		for i, l := range s.legs {
			if l.sure {
				continue
			}
			all = false
			switch {
			case l.branch == branchPrepared:
				add(func(n *branchesState) { n.legs[i].sure = true })
			case l.row == rowNone:
				add(func(n *branchesState) { n.legs[i].row = rowRollback; n.c = cAborting })
			case l.row == rowRollback:
				add(func(n *branchesState) { n.c = cAborting })
			case l.row == rowCommit:
				add(func(n *branchesState) { n.c = cCommitting })
			}
		}
		if all {
			add(func(n *branchesState) { n.c = cCommitting })
		}
		add((*branchesState).unknown)
	case cCommitting, cAborting:
		commit := s.c == cCommitting
		if m.decided && commit && !s.told {
			add(func(n *branchesState) { n.told = true })
		}
		done := true
		for i, l := range s.legs {
			if l.branch == branchPrepared || l.branch == branchActive && l.open {
				done = false
				add(func(n *branchesState) {
					if p := &n.legs[i]; l.branch == branchPrepared || !commit {
						p.over(commit)
					}
				})
			}
			if s.told && commit && (l.branch == branchCommitted || m.noWait) {
				add(func(n *branchesState) { n.missed = n.missed || l.branch != branchCommitted })
			}
		}
		if done {
			add(func(n *branchesState) {
				if n.c = cDoneAbort; commit {
					n.c = cDoneCommit
				}
				for i := range n.legs {
					n.legs[i].cut()
				}
			})
		}
	}
	return out
}

// recover is what the recoverers may do.
func (s branchesState) recover(m branchesMutation) (out []branchesState) {
	add := func(f func(*branchesState)) {
		n := s
		f(&n)
		out = append(out, n)
	}
	if s.purged && !m.decidesOld && !m.earlyPurge {
		return nil // what is prepared now is older than half the retention (T7)
	}
	for r, decision := range s.recoverers {
		found := 0
		for _, l := range s.legs {
			if l.found[r] {
				found++
			}
		}
		if decision != legUndecided || found > 0 {
			add(func(n *branchesState) { // starts over, or crashed
				n.recoverers[r] = legUndecided
				for i := range n.legs {
					n.legs[i].found[r] = false
				}
			})
		}
		if decision != legUndecided {
			for i, l := range s.legs {
				if l.branch == branchPrepared {
					add(func(n *branchesState) { n.legs[i].over(decision == legCommit) })
				}
			}
			continue
		}
		if found == 0 && !s.anyPrepared() {
			continue // it acts on what it has seen prepared
		}
		decide := func(d legDecision) { add(func(n *branchesState) { n.recoverers[r] = d }) }
		if found == len(s.legs) || found == len(s.legs)-1 && m.partial {
			decide(legCommit)
		}
		for i, l := range s.legs {
			switch {
			case l.found[r] && l.branch == branchRolledBack && found > 1 && m.goneIsFirst:
				decide(legCommit) // the others were found where an ordinary first leg would not be
			case l.found[r]:
			case l.branch == branchPrepared:
				add(func(n *branchesState) { n.legs[i].found[r] = true })
			case l.row == rowCommit:
				decide(legCommit)
			case l.row == rowRollback:
				decide(legRollback)
			case l.row == rowNone && !m.noFence:
				add(func(n *branchesState) { n.legs[i].row, n.recoverers[r] = rowRollback, legRollback })
			case l.row == rowNone, m.busyDecides:
				decide(legRollback)
			}
		}
	}
	return out
}

// wrong says what is wrong with a state, "" when nothing is.
func (s branchesState) wrong() string {
	committed, rolledBack := 0, 0
	for _, l := range s.legs {
		switch l.branch {
		case branchCommitted:
			committed++
		case branchRolledBack:
			rolledBack++
		}
	}
	switch {
	case committed > 0 && rolledBack > 0:
		return "half a transaction"
	case s.c == cDoneCommit && committed < len(s.legs):
		return "the client was told OK before all is committed"
	case s.c == cDoneAbort && committed > 0:
		return "the client was told of a rollback of what is committed"
	case s.told && (rolledBack > 0 || s.c == cDoneAbort):
		return "the client was told OK of what is rolled back"
	case s.missed:
		return "a session of this Braid misses what a client was told is committed"
	}
	return ""
}

// undone tells whether there is something to be done, other than by an operator.
func (s branchesState) undone() bool {
	if s.purged {
		return false
	}
	for _, l := range s.legs {
		if l.branch != branchCommitted && l.branch != branchRolledBack {
			return true
		}
	}
	return false
}

func TestProtocolModelOfBranches(t *testing.T) {
	for name, m := range map[string]branchesMutation{"applied": {}, "decided": {decided: true}} {
		t.Run(name, func(t *testing.T) { m.model().check(t) })
	}
}

// The model must be able to see what each rule is for.
func TestProtocolModelOfBranchesCatchesMutations(t *testing.T) {
	for name, m := range map[string]branchesMutation{
		"T5: no fence":                            {noFence: true},
		"T5: a lock wait timeout decides":         {busyDecides: true},
		"T1: PREPARE without the row":             {unreadInsert: true},
		"a lost leg rolls back":                   {abortsLost: true},
		"committed before all are prepared":       {earlyOK: true},
		"recovery does not know all nodes":        {partial: true},
		"a branch's row has gone with it":         {goneIsFirst: true},
		"answers older than decisions are kept":   {trustsLate: true},
		"T7: old branches are decided":            {decidesOld: true},
		"T9: decisions deleted too early":         {earlyPurge: true},
		"T11: nobody waits behind the OK":         {noWait: true, decided: true},
		"T5: no fence, OK when decided":           {noFence: true, decided: true},
		"T1: PREPARE without the row, OK decided": {unreadInsert: true, decided: true},
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
