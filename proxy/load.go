package proxy

import (
	"encoding/binary"
	"fmt"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"braid/backend"
	"braid/internal/mysql"
	"braid/router"
)

// loadPacketBytes is the size of the pieces that a file goes to a node in.
const loadPacketBytes = 32 << 10

// loadStream is one shard's part of a LOAD DATA.
type loadStream struct {
	shard int // index into the database's shards
	n     *nodeWrites
	kept  *spool // of a node's further shards: their part waits here for their turn; nil for its first
	live  bool   // the shard is taking its part
	out   []byte // records on their way
	rows  *spool // the number of each record in the file, as the distance from the one before
	count uint64
	last  uint64 // number of the last record
	ok    mysql.OK
	warns []loadWarning
	got   bool // its answer was read
}

// load carries out LOAD DATA LOCAL INFILE. One shard gets the client's file as
// it comes. For several, the file is split as it comes: each node loads one shard
// at a time inside the transaction, and what is for a node's further shards waits
// in a file.
func (s *Session) load(plan *router.Plan, q *router.Query) error {
	if s.caps&gomysql.CLIENT_LOCAL_FILES == 0 {
		if s.mariadb() {
			return s.fail(mysql.Errorf(4166, "The used command is not allowed because the MariaDB server or client has disabled the local infile capability"))
		}
		return s.fail(&mysql.Error{Code: 3948, State: "42000", Message: "Loading local data is disabled; this must be enabled on both the client and server sides"})
	}
	if err := s.ready(plan); err != nil {
		return s.failErr(err)
	}
	x := plan.Load
	if x.Whole {
		shard := 0
		if x.Table.Kind == router.Single {
			shard = x.Table.Shard
		}
		t := &router.Target{Shard: shard, Text: x.Text}
		s.loads = x
		defer func() { s.loads = nil }()
		if s.once(plan) {
			return s.alone(plan, backend.TxOptions{}, func() error { return s.runSingle(plan, t, nil) })
		}
		return s.runSingle(plan, t, nil)
	}
	charset := x.Charset
	if charset == "" {
		got, err := s.ask("SELECT @@character_set_database")
		if err != nil {
			return s.failErr(err)
		}
		charset = got[0].text
	}
	split, err := x.Splitter(charset, q.Mode)
	if err != nil {
		return s.failErr(err)
	}
	if s.tx == nil {
		return s.alone(plan, backend.TxOptions{}, func() error { return s.runLoad(plan, split) })
	}
	return s.runLoad(plan, split)
}

// loading is one LOAD DATA over several shards under way.
type loading struct {
	s       *Session
	plan    *router.Plan
	split   *router.LoadSplitter
	nodes   []nodeWrites
	streams []loadStream // by shard
	failure error        // the first thing that went wrong: the rest of the file is dropped
}

func (s *Session) runLoad(plan *router.Plan, split *router.LoadSplitter) error {
	l := &loading{s: s, plan: plan, split: split, streams: make([]loadStream, len(plan.Load.Database.Shards))}
	defer l.close()
	if answered, err := l.take(); answered || err != nil {
		return err
	}
	asked := false
	for i := range l.streams {
		if st := &l.streams[i]; st.kept == nil && l.failure == nil {
			l.open(st)
		}
	}
	if l.failure == nil {
		asked = true
		if err := l.file(); err != nil { // the client is gone
			for k := range l.nodes {
				s.tx.Abandon(l.nodes[k].c)
			}
			s.dropWrites(l.nodes)
			return err
		}
	}
	for i := range l.streams {
		if st := &l.streams[i]; st.live {
			l.finish(st)
		}
	}
	for i := range l.streams {
		if st := &l.streams[i]; asked && st.kept != nil && st.count > 0 && l.failure == nil {
			l.replay(st)
		}
	}
	s.dropWrites(l.nodes)
	if l.failure != nil {
		return s.writeFailed(plan, l.nodes, l.failure)
	}
	ok, err := l.sum()
	if err != nil {
		return s.failed1(plan, err)
	}
	s.facts.RowCount = int64(ok.AffectedRows)
	s.warned, s.errored = ok.Warnings, 0
	if err := s.settle(false); err != nil {
		return s.failErr(err)
	}
	return s.writeOK(&ok)
}

func (l *loading) close() {
	for i := range l.streams {
		st := &l.streams[i]
		if st.kept != nil {
			_ = st.kept.Close()
		}
		if st.rows != nil {
			_ = st.rows.Close()
		}
	}
}

// take gets a leg on each node. When it fails it answers the client.
func (l *loading) take() (answered bool, err error) {
	s := l.s
	l.nodes = make([]nodeWrites, 0, len(l.streams)) // streams point into it
	for i := range l.streams {
		p := s.place(l.plan, i)
		st := &l.streams[i]
		st.shard, st.rows = i, &spool{}
		for k := range l.nodes {
			if l.nodes[k].p.node == p.node {
				st.n, st.kept = &l.nodes[k], &spool{}
			}
		}
		if st.n == nil {
			l.nodes = append(l.nodes, nodeWrites{p: p})
			st.n = &l.nodes[len(l.nodes)-1]
		}
	}
	conns := make([]*backend.Conn, len(l.nodes))
	for k := range l.nodes {
		n := &l.nodes[k]
		c, err := s.take(l.plan, &n.p)
		if err != nil {
			s.dropWrites(l.nodes)
			return true, s.failed1(l.plan, n.p.shardError(err))
		}
		n.c, conns[k] = c, c
	}
	s.tx.Announce(conns...)
	if s.ownTx {
		return false, nil
	}
	if err := s.tx.Guard(conns...); err != nil {
		s.dropWrites(l.nodes)
		told := s.tx.Failed(l.nodes[0].p.node, l.nodes[0].p.shardError(err))
		s.noteEnd()
		return true, s.failed1(l.plan, told)
	}
	return false, nil
}

// fail notes what went wrong with a stream.
func (l *loading) fail(st *loadStream, err error) {
	if backend.IsLost(err) || isPrefix(err) {
		l.s.tx.Abandon(st.n.c)
	}
	st.live = false
	p := l.s.place(l.plan, st.shard)
	told := l.s.tx.Failed(p.node, p.shardError(err))
	if l.failure == nil {
		l.failure = told
	}
}

// open starts the shard's own LOAD DATA, until the node asks for the file.
func (l *loading) open(st *loadStream) {
	p := l.s.place(l.plan, st.shard)
	need := l.s.need(l.plan, &p)
	need.Write = true
	err := st.n.c.Send(&need, gomysql.COM_QUERY, l.plan.Load.Text)
	if err != nil {
		l.fail(st, err)
		return
	}
	first, err := st.n.c.First()
	switch {
	case err != nil:
		l.fail(st, err)
	case first[0] == 0xff:
		l.fail(st, mysql.ParseError(first))
	case first[0] != 0xfb:
		l.fail(st, fmt.Errorf("LOAD DATA was answered without asking for the file: %w", mysql.ErrMalformed))
	default:
		st.live = true
	}
}

// file asks the client for its file and hands the records out. It reads all of
// it, whatever fails meanwhile; the error is the client's connection's.
func (l *loading) file() error {
	s := l.s
	if err := s.c.WritePacket(append([]byte{0xfb}, l.plan.Load.File...)); err != nil {
		return err
	}
	if err := s.c.Flush(); err != nil {
		return err
	}
	for {
		p, err := s.c.ReadPacket()
		if err != nil {
			return err
		}
		if l.failure == nil {
			l.split.Feed(p)
			l.records()
		}
		if len(p) == 0 {
			return nil
		}
	}
}

// records hands out what is complete.
func (l *loading) records() {
	for l.failure == nil {
		raw, shard, ok, err := l.split.Next()
		if err != nil {
			l.failure = err
			return
		}
		if !ok {
			if limit := l.s.gen.cfg.Proxy.PacketBytesMax; l.split.Held() > limit {
				l.failure = mysql.Errorf(gomysql.ER_NET_PACKET_TOO_LARGE, "Got a packet bigger than 'max_allowed_packet' bytes: row %d of the file", l.split.Rows()+1)
			}
			return
		}
		if shard != router.EveryShard {
			l.record(&l.streams[shard], raw)
			continue
		}
		for i := range l.streams {
			l.record(&l.streams[i], raw)
		}
	}
}

func (l *loading) record(st *loadStream, raw []byte) {
	row := l.split.Rows()
	if _, err := st.rows.Write(binary.AppendUvarint(nil, row-st.last)); err != nil {
		l.failure = err
		return
	}
	st.last = row
	st.count++
	st.out = append(st.out, raw...)
	if len(st.out) >= loadPacketBytes {
		l.push(st)
	}
}

// push sends on the records that were collected.
func (l *loading) push(st *loadStream) {
	if len(st.out) == 0 {
		return
	}
	var err error
	switch {
	case st.live:
		if err = st.n.c.WritePacket(st.out); err == nil {
			err = st.n.c.Flush()
		}
		if err != nil {
			l.fail(st, err)
		}
	case st.kept != nil:
		if _, err = st.kept.Write(st.out); err != nil && l.failure == nil {
			l.failure = err
		}
	}
	st.out = st.out[:0]
}

// finish ends a shard's file and reads its answer.
func (l *loading) finish(st *loadStream) {
	if l.failure == nil {
		l.push(st)
	}
	if !st.live {
		return
	}
	c := st.n.c
	err := c.WritePacket(nil)
	if err == nil {
		err = c.Flush()
	}
	var p []byte
	if err == nil {
		p, err = c.ReadPacket()
	}
	if err == nil && len(p) == 0 {
		err = mysql.ErrMalformed
	}
	if err == nil && p[0] == 0xff {
		err = mysql.ParseError(p)
	}
	if err == nil {
		st.ok, err = mysql.ParseOK(p, false)
	}
	if err == nil && st.ok.Warnings > 0 {
		err = l.warnings(st)
	}
	if err == nil {
		err = l.s.loadVariables(c, l.plan.Load, st.count > 0 && st.last == l.split.Rows())
	}
	if err != nil {
		l.fail(st, err)
		return
	}
	st.live, st.got = false, true
}

// replay loads the part of a node's further shard, which waited.
func (l *loading) replay(st *loadStream) {
	kept := st.kept
	if _, err := kept.Write(st.out); err != nil {
		l.failure = err
		return
	}
	st.out = nil
	l.open(st)
	buf := make([]byte, loadPacketBytes)
	for st.live && l.failure == nil {
		n, err := kept.Read(buf)
		if n > 0 {
			st.out = append(st.out[:0], buf[:n]...)
			l.push(st)
		}
		if err != nil || n == 0 {
			break
		}
	}
	l.finish(st)
}

// loadVariables is for the user variables that fields were read into: c has those
// of its last record. With last, which is the file's last too, they become the
// session's.
func (s *Session) loadVariables(c *backend.Conn, x *router.Load, last bool) error {
	if len(x.Variables) == 0 {
		return nil
	}
	const unknown = "(unknown)" // differs from every value, so that c is told the next time
	known := c.Vars()
	names := make([]string, len(x.Variables))
	for i, name := range x.Variables {
		names[i] = userName(name)
		known = known.With(backend.Var{Name: names[i], Value: unknown})
	}
	c.SetVars(known)
	if !last {
		return nil
	}
	got, err := readUserVariables(c, names)
	if err != nil {
		return err
	}
	s.setVars(s.vars.With(got...))
	return nil
}
