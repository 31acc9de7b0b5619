package proxy

import (
	"errors"
	"io"

	"braid/internal/mysql"
	"braid/merge"
	"braid/router"
)

// chain is the rows of a part's texts, one text after the other; each is sent
// when the one before has ended.
type chain struct {
	s       *Session
	pt      *part
	plan    *router.Plan
	ps      *execution
	columns []mysql.Column
	rows    mysql.Rows // of the text under way, under columns
	at      int        // index into pt.texts
	// head is how many rows the first text gives when there are more, which the
	// next one gives; 0: the texts have nothing to do with each other.
	head  uint64
	given uint64 // rows
	err   error
}

func (ch *chain) Columns() []mysql.Column { return ch.columns }
func (ch *chain) Binary() bool            { return ch.ps.binary() }
func (ch *chain) Close() error            { return nil }

func (ch *chain) Next() (mysql.Row, error) {
	if ch.err != nil {
		return nil, ch.err
	}
	for {
		row, err := ch.rows.Next()
		if err != io.EOF {
			ch.given++
			ch.err = err
			return row, err
		}
		ch.at++
		if ch.at == len(ch.pt.texts) || ch.given < ch.head {
			ch.err = io.EOF
			return nil, io.EOF
		}
		if ch.err = ch.next(); ch.err != nil {
			var changed *merge.ColumnsError // the connection is in order
			ch.pt.failed = !errors.As(ch.err, &changed)
			return nil, ch.err
		}
	}
}

func (ch *chain) next() error {
	t := ch.pt.texts[ch.at]
	before := ch.pt.p.shard
	if ch.head == 0 { // else the next text reads the same rows again, and warns of the same
		if err := ch.s.keepWarnings(ch.pt, ch.plan); err != nil {
			return err
		}
		ch.pt.p = ch.s.place(ch.plan, t.Shard)
	}
	need := ch.s.partNeed(ch.plan, &ch.pt.p)
	if err := ch.s.sendOnly(ch.pt.c, &need, ch.plan, t, ch.ps); err != nil {
		return err
	}
	st, err := ch.s.openStream(ch.pt)
	if err != nil {
		return err
	}
	if ch.ps.binary() {
		st.SetBinary()
	}
	ch.pt.stream, ch.rows = st, merge.Widen(ch.columns, st)
	return merge.SameColumns(ch.columns, ch.rows.Columns(), before, ch.pt.p.shard)
}
