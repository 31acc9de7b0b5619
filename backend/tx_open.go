package backend

import "time"

// TxInfo is a look at an open transaction.
type TxInfo struct {
	GTRID      string // "" while it is on one node only
	Session    uint64 // the session's id
	Began      time.Time
	Nodes      []string  // in the order of its legs; the first is the decider
	Writers    []string  // those of them that it may have written on
	Statements int       // begun so far
	State      string    // "idle", "running", "ending"
	Since      time.Time // of a running statement: when it began
}

// Open lists the transactions that have a leg, in no order.
func (k *Coordinator) Open() []TxInfo {
	open := k.openTxs()
	list := make([]TxInfo, 0, len(open))
	for _, t := range open {
		if i := t.info(); len(i.Nodes) > 0 {
			list = append(list, i)
		}
	}
	return list
}

// openTxs are the transactions that have a leg.
func (k *Coordinator) openTxs() []*Tx {
	k.mu.Lock()
	defer k.mu.Unlock()
	open := make([]*Tx, 0, len(k.mu.open))
	for t := range k.mu.open {
		open = append(open, t)
	}
	return open
}

func (t *Tx) info() TxInfo {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := TxInfo{GTRID: t.mu.gtrid, Session: t.o.Session, Began: t.mu.began, Statements: int(t.statements.Load()), State: "idle"}
	if ns := t.since.Load(); ns != 0 {
		i.State, i.Since = "running", time.Unix(0, ns)
	}
	if t.mu.ending {
		i.State = "ending"
	}
	for _, l := range t.mu.legs {
		i.Nodes = append(i.Nodes, l.node.name)
		if l.wrote.Load() {
			i.Writers = append(i.Writers, l.node.name)
		}
	}
	return i
}

// isOpen tells whether a gtrid is that of a transaction of this Braid that is
// under way.
func (k *Coordinator) isOpen(gtrid string) bool {
	for _, t := range k.openTxs() {
		t.mu.Lock()
		same := t.mu.gtrid == gtrid
		t.mu.Unlock()
		if same {
			return true
		}
	}
	return false
}
