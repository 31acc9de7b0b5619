package proxy

import (
	"context"
	"errors"
	"io"
	"sort"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"
	"go.uber.org/zap"

	"braid/backend"
	"braid/internal/mysql"
	"braid/merge"
	"braid/router"
)

// leg of a scattered read: the connection and stream of one target, or of all
// targets on one node when they share a connection.
type part struct {
	p       place
	targets []int            // indexes into route.Targets
	texts   []*router.Target // run on c in this order
	c       *backend.Conn
	rows    mysql.Rows
	stream  *backend.Rows  // the stream under way on c
	sent    bool           // a statement was sent on c
	columns []mysql.Column // of a united text; nil otherwise
	ended   bool           // the answer on c was an error, and so is over
	failed  bool           // the connection, or its node, failed between two targets
}

// over tells whether a part that answered with an error has nothing more to send:
// the error may be Braid's own, about rows that are still coming.
func (pt *part) over() bool {
	return pt.stream == nil || pt.stream.Ended()
}

// runScatter runs a read on several shards and merges their rows as streams.
//
// Outside a transaction each target has a connection of its own as far as the
// pools have them free; connections are taken node by node in the order of
// names, the first one of each node by waiting and further ones only when there
// are any, so that sessions never wait for each other in a circle (B164). Inside
// a transaction a node is one stream (rule T18).
func (s *Session) runScatter(plan *router.Plan, ps *execution) error {
	text := ps == nil
	if len(plan.Into) > 0 && ps != nil {
		if len(ps.vals) > 0 {
			return s.failed1(plan, mysql.Errorf(1235, "This version of Braid doesn't yet support 'a prepared SELECT ... INTO with parameters over several shards'"))
		}
		ps = nil // its rows do not go to the client
	}
	parts, err := s.takeParts(plan)
	if err != nil {
		return s.failed1(plan, err)
	}
	// Shards of one node that are read one after the other add to these on the way.
	s.found, s.warnings, s.warned, s.errored = 0, s.warnings[:0], 0, 0
	s.inPages(plan, parts)
	own, err := s.ownColumns(&parts[0], plan)
	if err != nil {
		return s.scatterFailed(parts, plan, &parts[0], err)
	}
	for i := range parts {
		if err := s.sendPart(&parts[i], plan, ps); err != nil {
			return s.scatterFailed(parts, plan, &parts[i], err)
		}
	}
	inputs := make([]mysql.Rows, 0, len(parts))
	names := make([]string, 0, len(parts))
	for i := range parts {
		if err := s.openPart(&parts[i], plan, ps); err != nil {
			return s.scatterFailed(parts, plan, &parts[i], err)
		}
		inputs = append(inputs, parts[i].rows)
		names = append(names, parts[i].p.shard)
	}
	opt := merge.Options{SortBytesMax: s.gen.cfg.Proxy.SortBytesMax, Names: names}
	if b := s.gen.base[plan.Database]; b != nil {
		opt.PerKeyWeightCut = b.defaults.sortLength
		opt.CutPadOnly = s.gen.topology.Databases[plan.Database].Flavour == router.MySQL
	}
	out, err := merge.Merge(s.route.Merge, s.route.Limit, inputs, opt)
	if err != nil {
		return s.scatterFailed(parts, plan, nil, err)
	}
	defer out.Close()
	places := parts
	var over *evaluation
	if s.route.Evaluate != nil {
		over, err = s.evaluate(plan, out)
		if err != nil {
			return s.scatterFailed(parts, plan, nil, err)
		}
		// The shards have said what they have to say.
		if err := s.finishParts(parts, plan); err != nil {
			return s.failed1(plan, err)
		}
		parts, out = nil, over
		defer over.Close()
		if s.warned > 0 && s.gathers {
			return errGather // a group over several shards warns on each
		}
		if own, err = over.open(plan, ps, &s.route.Targets[0]); err != nil {
			return s.scatterFailed(parts, plan, nil, err)
		}
	}
	cols, err := announce(out.Columns(), own, ps.binary())
	if err == nil && over != nil {
		err = sameDecimals(out.Columns(), own)
	}
	if err != nil {
		return s.scatterFailed(parts, plan, nil, err)
	}
	for i := range cols {
		s.logicalColumn(&cols[i], places, plan)
	}
	var n uint64
	var into []backend.Var
	if len(plan.Into) > 0 {
		if err := intoColumns(cols, plan); err != nil {
			return s.scatterFailed(parts, plan, nil, err)
		}
		if into, n, err = readInto(out, cols, plan); err != nil {
			s.setVars(s.vars.With(into...))
			return s.scatterFailed(parts, plan, nil, err)
		}
	} else {
		// The first rows are waited for: as long as the client has nothing, what
		// fails may be tried again, or in another way.
		var rows []mysql.Row
		if rows, err = s.firstRows(out); err != nil && err != io.EOF {
			return s.scatterFailed(parts, plan, nil, err)
		}
		if over != nil && err == io.EOF && over.End.Warnings > 0 && s.gathers {
			return errGather // how often an expression warns hangs on how a server groups
		}
		s.again, s.gathers = false, false
		if err := s.writeColumns(cols, 0); err != nil {
			s.giveUpParts(parts, plan)
			return err
		}
		for _, row := range rows {
			if err := s.c.WritePacket(row); err != nil {
				s.giveUpParts(parts, plan)
				return err
			}
		}
		n = uint64(len(rows))
	}
	for len(plan.Into) == 0 && err != io.EOF {
		var row mysql.Row
		if row, err = out.Next(); err == io.EOF {
			break
		}
		if err != nil {
			return s.scatterFailed(parts, plan, nil, err)
		}
		if err := s.c.WritePacket(row); err != nil {
			s.giveUpParts(parts, plan)
			return err
		}
		n++
	}
	s.srv.stats.mergeRows.Add(n)
	s.facts.RowCount, s.facts.FoundRows = -1, n
	if over != nil {
		if err := over.end(); err != nil {
			return s.failed1(plan, err)
		}
	}
	if err := s.finishParts(parts, plan); err != nil {
		return s.failed1(plan, err)
	}
	if plan.FoundRows {
		s.facts.FoundRows = s.found
	}
	if err := s.settle(false); err != nil {
		return s.failErr(err)
	}
	if len(plan.Into) > 0 {
		return s.endInto(plan, into, n, text)
	}
	return s.writeEnd(0, s.warned)
}

// logicalColumn puts the database's name for the shard's into a column.
func (s *Session) logicalColumn(c *mysql.Column, parts []part, plan *router.Plan) {
	if c.Schema != "" && c.Schema != plan.Database {
		for i := range parts {
			if c.Schema == parts[i].p.schema {
				c.Schema = plan.Database
				return
			}
		}
	}
}

// takeParts gets the connections for the route's targets.
func (s *Session) takeParts(plan *router.Plan) ([]part, error) {
	targets := s.route.Targets
	parts := make([]part, 0, len(targets))
	order := make([]int, len(targets))
	places := make([]place, len(targets))
	for i := range targets {
		order[i], places[i] = i, s.place(plan, targets[i].Shard)
	}
	sort.SliceStable(order, func(a, b int) bool { return places[order[a]].node.Name() < places[order[b]].node.Name() })
	inTx := s.tx != nil && !plan.NoTables
	for _, i := range order {
		p := &places[i]
		var same *part
		for k := range parts {
			if parts[k].p.node == p.node {
				same = &parts[k]
				break
			}
		}
		if same != nil && (inTx || s.pinned(p.node) != nil) {
			same.targets = append(same.targets, i)
			continue
		}
		var c *backend.Conn
		var err error
		if same != nil {
			ctx, cancel := s.context()
			c = p.node.TryGet(ctx, s.caps&gomysql.CLIENT_FOUND_ROWS != 0, p.schema, s.vars)
			cancel()
			if c == nil {
				same.targets = append(same.targets, i)
				continue
			}
			s.hold(c)
		} else if c, err = s.take(plan, p); err != nil {
			s.giveUpParts(parts, plan)
			return nil, p.shardError(err)
		}
		parts = append(parts, part{p: *p, targets: []int{i}, c: c})
	}
	if inTx && plan.Writer {
		conns := make([]*backend.Conn, len(parts))
		for i := range parts {
			conns[i] = parts[i].c
		}
		s.tx.Announce(conns...)
	}
	// The merge's ties go by input: by the order of shards.
	sort.SliceStable(parts, func(a, b int) bool { return parts[a].targets[0] < parts[b].targets[0] })
	return parts, nil
}

// sendPart sends the statement of a part: the first of its targets, or, where
// the merge needs all of them at once, one text that unites them.
func (s *Session) sendPart(pt *part, plan *router.Plan, ps *execution) error {
	if len(pt.targets) > 1 && len(s.route.Merge.Order) > 0 {
		if plan.FoundRows {
			return mysql.Errorf(1235, "This version of Braid doesn't yet support 'SQL_CALC_FOUND_ROWS with ORDER BY over several shards of one node inside a transaction'")
		}
		if err := s.unite(pt, plan); err != nil {
			return err
		}
		pt.p.shard = "of node " + pt.p.node.Name()
	} else {
		for _, i := range pt.targets {
			pt.texts = append(pt.texts, &s.route.Targets[i])
		}
	}
	need := s.partNeed(plan, &pt.p)
	if err := s.sendOnly(pt.c, &need, plan, pt.texts[0], ps); err != nil {
		return err
	}
	pt.sent = true
	return nil
}

// partNeed is what a target's statement wants its connection to be like. Groups
// over which a server evaluates are read as the copies of a gather are.
func (s *Session) partNeed(plan *router.Plan, p *place) backend.Need {
	need := s.need(plan, p)
	if s.route.Evaluate != nil {
		need.Vars = need.Vars.With(backend.Var{Name: "character_set_results", Value: "NULL"})
	}
	return need
}

// openPart reads the beginning of a part's answer.
func (s *Session) openPart(pt *part, plan *router.Plan, ps *execution) error {
	st, err := s.openStream(pt)
	if err != nil {
		return err
	}
	pt.stream, pt.rows = st, st
	if ps.binary() {
		pt.stream.SetBinary()
	}
	if len(pt.texts) > 1 {
		ch := &chain{s: s, pt: pt, plan: plan, ps: ps, columns: st.Columns(), rows: st}
		if pt.columns != nil {
			ch.head = router.HeadRows
		}
		pt.rows = ch
	}
	if pt.columns != nil {
		pt.rows, err = describeUnited(pt.rows, pt.columns, ps.binary())
	}
	return err
}

func (s *Session) openStream(pt *part) (*backend.Rows, error) {
	first, err := pt.c.First()
	if err != nil {
		return nil, err
	}
	if first[0] == 0xff {
		return nil, mysql.ParseError(first)
	}
	if first[0] == 0 || first[0] == 0xfb {
		return nil, mysql.ErrMalformed
	}
	return pt.c.ReadRows(first, false)
}

// keepWarnings asks a part's connection for the warnings of the stream that
// ended, and for its FOUND_ROWS() where that counts.
func (s *Session) keepWarnings(pt *part, plan *router.Plan) error {
	if pt.stream == nil {
		return nil
	}
	if pt.stream.End.Warnings > 0 {
		rows, err := pt.c.Query(showWarnings, warningsMax)
		if err != nil {
			return err
		}
		s.warned += pt.stream.End.Warnings - uint16(s.addWarnings(rows, &pt.p))
	}
	if !plan.FoundRows {
		return nil
	}
	rows, err := pt.c.Query(foundRows, 1)
	if err != nil {
		return err
	}
	s.found += parseUint(rows[0][0])
	return nil
}

// foundRows asks for FOUND_ROWS() whatever the session's sql_select_limit.
const foundRows = "SELECT FOUND_ROWS() LIMIT 1"

// drainPart reads a part's rows to their end, for the sake of FOUND_ROWS().
func drainPart(pt *part) error {
	for {
		if _, err := pt.rows.Next(); err != nil {
			if err == io.EOF {
				return nil
			}
			return err
		}
	}
}

// drainBytesMax is how much of an answer nobody wants any more is read off a
// connection before it is cheaper to stop the node.
const drainBytesMax = 256 << 10

// finishParts gives the connections back after the merge has all it wants.
func (s *Session) finishParts(parts []part, plan *router.Plan) error {
	var failed error
	for i := range parts {
		pt := &parts[i]
		if failed != nil {
			break
		}
		if pt.stream != nil && plan.FoundRows {
			if err := drainPart(pt); err != nil {
				failed = s.broken(pt.c, plan, &pt.p, err)
				pt.c = nil
				continue
			}
		}
		if pt.stream != nil && !pt.stream.Ended() {
			if err := s.stopStream(pt, plan); err != nil {
				failed = err
				continue
			}
			if pt.c == nil {
				continue
			}
		}
		if err := s.keepWarnings(pt, plan); err != nil {
			failed = s.broken(pt.c, plan, &pt.p, err)
			pt.c = nil
			continue
		}
		var ok mysql.OK
		if pt.stream != nil {
			ok = pt.stream.End
		}
		s.done(pt.c, plan, &ok)
		pt.c = nil
	}
	if failed != nil {
		s.giveUpParts(parts, plan)
	}
	return failed
}

// stopStream ends an answer that is not wanted to its end: a pool's connection
// reads a little on and is otherwise closed, a leg's statement is killed.
func (s *Session) stopStream(pt *part, plan *router.Plan) error {
	ended, err := pt.stream.DrainSome(drainBytesMax)
	if err == nil && ended {
		return nil
	}
	if s.tx != nil && !plan.NoTables || s.isPinned(pt.c) {
		if err == nil {
			ctx, cancel := s.context()
			defer cancel()
			if err = pt.p.node.Kill(ctx, pt.c.ID()); err == nil {
				err = pt.stream.Drain()
			}
		}
		if err == nil {
			return nil
		}
		told := s.broken(pt.c, plan, &pt.p, err)
		pt.c = nil
		return told
	}
	s.drop(pt.c)
	s.scrap(pt.c)
	pt.c, pt.stream = nil, nil
	return nil
}

// giveUpParts ends a scattered read that failed: pool connections are closed
// unless their answer is over; legs are stopped and read to the end of their
// answers, so that the transaction can go on.
func (s *Session) giveUpParts(parts []part, plan *router.Plan) {
	inTx := s.tx != nil && !plan.NoTables
	for i := range parts {
		pt := &parts[i]
		if pt.c == nil {
			continue
		}
		if inTx || s.isPinned(pt.c) {
			s.quietLeg(pt)
		}
		s.drop(pt.c)
		if !inTx {
			if pt.ended || !pt.sent && s.isPinned(pt.c) || pt.stream != nil && pt.stream.Ended() {
				s.giveBack(pt.c)
			} else {
				s.scrap(pt.c)
			}
		}
		pt.c = nil
	}
}

// quietLeg reads a leg's answer to its end, killing the statement when that is
// long. A leg that cannot be read is abandoned: the transaction finds it lost.
func (s *Session) quietLeg(pt *part) {
	if pt.ended || !pt.sent {
		return
	}
	if pt.stream == nil {
		st, err := s.openStream(pt)
		var e *mysql.Error
		if errors.As(err, &e) && !isPrefix(err) {
			pt.ended = true // the answer was an error
			return
		}
		if err != nil {
			s.abandon(pt.c)
			return
		}
		pt.stream = st
	}
	if ended, err := pt.stream.DrainSome(drainBytesMax); err == nil && ended {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), killTimeout)
	defer cancel()
	err := pt.p.node.Kill(ctx, pt.c.ID())
	if err == nil {
		err = pt.stream.Drain()
	}
	if err != nil {
		s.abandon(pt.c)
	}
}

// abandon gives up a leg, or a connection that the session is pinned to, whose
// answer was not read to its end.
func (s *Session) abandon(c *backend.Conn) {
	if s.tx != nil && s.tx.On(c.Node()) == c {
		s.tx.Abandon(c)
	}
}

// scatterFailed answers for a scattered read that failed at one part, or in
// the merge (at nil).
func (s *Session) scatterFailed(parts []part, plan *router.Plan, at *part, err error) error {
	var se *mysql.SocketError
	if errors.As(err, &se) && se.Side == mysql.ClientSide {
		s.giveUpParts(parts, plan)
		return err
	}
	if at == nil {
		// A stream's own end tells which part it was.
		for i := range parts {
			if st := parts[i].stream; parts[i].failed || st != nil && st.Failed() {
				at = &parts[i]
				break
			}
		}
	}
	err = s.ownError(at, plan, err)
	if s.gathers && gatherable(err) && !isPrefix(err) {
		if at != nil {
			at.ended = at.over()
		}
		s.giveUpParts(parts, plan)
		return errGather
	}
	inTx := s.tx != nil && !plan.NoTables
	told := err
	var node *backend.Node
	if at != nil {
		node = at.p.node
		told = at.p.shardError(err)
		var e *mysql.Error
		if errors.As(err, &e) && !isPrefix(err) {
			at.ended = at.over()
		} else if inTx {
			s.tx.Abandon(at.c)
			s.drop(at.c)
			at.c = nil
		} else {
			s.drop(at.c)
			s.scrap(at.c)
			at.c = nil
		}
	}
	s.giveUpParts(parts, plan)
	var changed *merge.ColumnsError
	if errors.As(err, &changed) {
		s.rereadSchema()
	}
	if inTx && node != nil {
		told = s.tx.Failed(node, told)
		s.noteEnd()
	}
	return s.failed1(plan, told)
}

// rereadSchema reads the schema again after an answer that does not fit it. The
// statement has failed already: what goes wrong here is only logged.
func (s *Session) rereadSchema() {
	ctx, cancel := context.WithTimeout(context.Background(), schemaTimeout)
	defer cancel()
	if err := s.srv.Refresh(ctx); err != nil {
		s.srv.log.Warn("reading the schema after a result with unexpected columns", zap.Error(err))
	}
}
