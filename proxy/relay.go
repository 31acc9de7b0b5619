package proxy

import (
	"errors"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"braid/backend"
	"braid/internal/mysql"
	"braid/router"
)

// relayed is what an answer passed on to the client said.
type relayed struct {
	ok   mysql.OK     // the last packet, as the node sent it
	err  *mysql.Error // the node's error, which was not yet passed on
	rows uint64
	set  bool // it was a result set
	// program says, before, that it is the answer to a CALL.
	program bool
}

// relay passes a node's answer to the client undecoded, but for the names in
// column definitions and for the last packet, which it rebuilds (rule D6). The
// answer's first packet was read. The returned error is of a connection; the
// node's own error is in the result, for the caller to pass on.
func (s *Session) relay(c *backend.Conn, first []byte, p *place, plan *router.Plan) (relayed, error) {
	r := relayed{program: plan.Verb == "CALL"}
	for {
		again, err := s.relayOne(c, first, p, &r)
		if err != nil || !again {
			return r, err
		}
		if first, err = c.ReadPacket(); err != nil {
			return r, err
		}
	}
}

// passFile passes a LOCAL file on that the client's statement, which is no other
// than LOAD DATA LOCAL, made the node ask for.
func (s *Session) passFile(c *backend.Conn) error {
	if s.loads == nil {
		return mysql.ErrMalformed // a node does not ask by itself
	}
	if err := s.c.WritePacket(append([]byte{0xfb}, s.loads.File...)); err != nil {
		return err
	}
	if err := s.c.Flush(); err != nil {
		return err
	}
	var failed error
	for {
		p, err := s.c.ReadPacket()
		if err != nil {
			return err
		}
		if failed == nil { // the client sends all of it, whatever happens
			if failed = c.WritePacket(p); failed == nil {
				failed = c.Flush()
			}
		}
		if len(p) == 0 {
			return failed
		}
	}
}

// relayOne passes one result on; again says that another follows.
func (s *Session) relayOne(c *backend.Conn, first []byte, p *place, r *relayed) (again bool, err error) {
	if len(first) == 0 {
		return false, mysql.ErrMalformed
	}
	r.set = false
	switch first[0] {
	case 0:
		if r.ok, err = mysql.ParseOK(first, false); err != nil {
			return false, err
		}
		if r.ok.Status&gomysql.SERVER_MORE_RESULTS_EXISTS != 0 {
			more := s.more
			s.more = true
			err = s.writeOK(&r.ok)
			s.more = more
			return true, err
		}
		return false, nil
	case 0xff:
		r.err = p.logical(mysql.ParseError(first))
		return false, nil
	case 0xfb:
		return true, s.passFile(c)
	}
	n, _, k := mysql.LenEncInt(first)
	if k == 0 {
		return false, mysql.ErrMalformed
	}
	r.set, r.rows = true, 0
	s.announced(int(n))
	if err = s.columnCount(n); err != nil {
		return false, err
	}
	for range n {
		def, err := c.ReadPacket()
		if err != nil {
			return false, err
		}
		if s.bare {
			continue
		}
		if p.schema != p.database {
			def = s.renameSchema(def, p)
		}
		if err := s.c.WritePacket(def); err != nil {
			return false, err
		}
	}
	var end []byte
	var rows uint64
	if r.program {
		if end, err = s.programColumnsEnd(c, r); err != nil {
			return false, err
		}
	} else if err = s.writeColumnsEnd(0); err != nil {
		return false, err
	}
	if end != nil {
		// The rows were passed on already.
	} else if s.gen.cfg.Proxy.RelayOff {
		end, rows, err = s.copyRows(c)
	} else {
		end, rows, err = c.ForwardRows(s.c)
	}
	r.rows += rows
	s.srv.stats.relayRows.Add(r.rows)
	if err != nil {
		return false, err
	}
	if end[0] == 0xff {
		r.err = p.logical(mysql.ParseError(end))
		return false, nil
	}
	if r.ok, err = mysql.ParseOK(end, false); err != nil {
		return false, err
	}
	if r.ok.Status&gomysql.SERVER_MORE_RESULTS_EXISTS != 0 {
		more := s.more
		s.more = true
		err = s.writeEnd(r.ok.Status, r.ok.Warnings)
		s.more = more
		return true, err
	}
	return false, nil
}

// programColumnsEnd is what stands between columns and rows in a result of a
// stored program. It says that another result follows, if only the OK of the
// CALL, and whether the rows are OUT parameters, which a node tells only behind
// them. They are one row, so two packets are read ahead; the result's end is
// returned if it was among them.
func (s *Session) programColumnsEnd(c *backend.Conn, r *relayed) (end []byte, err error) {
	more := s.more
	s.more = true
	defer func() { s.more = more }()
	if s.deprecateEOF() {
		return nil, nil
	}
	row, err := c.ReadPacket()
	if err != nil || endsRows(row) {
		return row, errors.Join(err, s.writeColumnsEnd(0))
	}
	row = append([]byte(nil), row...)
	next, err := c.ReadPacket()
	if err != nil {
		return nil, err
	}
	var status uint16
	if endsRows(next) && next[0] == 0xfe {
		ok, err := mysql.ParseOK(next, false)
		if err != nil {
			return nil, err
		}
		status = ok.Status & gomysql.SERVER_PS_OUT_PARAMS
	}
	if err := s.writeColumnsEnd(status); err != nil {
		return nil, err
	}
	if err := s.c.WritePacket(row); err != nil {
		return nil, err
	}
	r.rows = 1
	if endsRows(next) {
		return next, nil
	}
	r.rows++
	return nil, s.c.WritePacket(next)
}

// endsRows tells whether a packet ends the rows of a result.
func endsRows(p []byte) bool {
	return len(p) > 0 && (p[0] == 0xff || p[0] == 0xfe && len(p) < mysql.PacketMax)
}

// copyRows is what ForwardRows does, packet by packet: the slow way that tests
// compare with.
func (s *Session) copyRows(c *backend.Conn) (end []byte, rows uint64, err error) {
	for {
		p, err := c.ReadPacket()
		if err != nil {
			return nil, rows, err
		}
		if endsRows(p) {
			return p, rows, nil
		}
		if err := s.c.WritePacket(p); err != nil {
			return nil, rows, err
		}
		rows++
	}
}

// renameSchema replaces the physical schema in a column definition by the
// database's name, and of a gathered statement a copy's name by its table's and
// what a derived table shows by what the view in its place does. The result is
// valid until the next call.
func (s *Session) renameSchema(def []byte, p *place) []byte {
	// catalog "def", then the schema, the table and the original table
	if len(def) < 5 || def[0] != 3 {
		return def
	}
	schema, _, n := mysql.LenEncString(def[4:])
	if n == 0 {
		return def
	}
	rest := def[4+n:]
	derived := len(schema) == 0 && p.schema == scratchSchema
	if !derived && string(schema) != p.schema {
		return def
	}
	if p.schema != scratchSchema {
		s.def = append(mysql.AppendLenEncString(append(s.def[:0], def[:4]...), p.database), rest...)
		return s.def
	}
	table, _, n := mysql.LenEncString(rest)
	original, _, m := mysql.LenEncString(rest[max(n, 0):])
	if n == 0 || m == 0 {
		return def
	}
	database, renamed := p.database, router.CopiedName(string(original))
	switch view, ok := p.views[string(table)]; {
	case !ok && derived:
		database = ""
	case ok && (!derived || view.Held):
		renamed = view.Name // the rows were in a table of the server's own
	}
	s.def = mysql.AppendLenEncString(append(s.def[:0], def[:4]...), database)
	s.def = mysql.AppendLenEncString(mysql.AppendLenEncString(s.def, table), renamed)
	rest = rest[n+m:]
	s.def = append(s.def, rest...)
	return s.def
}
