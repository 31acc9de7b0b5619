package proxy

import (
	"encoding/binary"
	"errors"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"braid/backend"
	"braid/internal/mysql"
	"braid/router"
)

// prepared is a statement that the client prepared. It belongs to its session.
type prepared struct {
	id     uint32
	text   []byte
	params int
	// columns is the number of columns that the client was last told of.
	columns int
	// keepsWarnings says that it shows the warnings of the statement in front of
	// it, and so is not to clear them.
	keepsWarnings bool
	// types are the parameter types of the last execution that sent them: two
	// bytes each.
	types []byte
	long  [][]byte // COM_STMT_SEND_LONG_DATA, by parameter; nil: none
	// tooLong says that long data was dropped because there was too much of it.
	tooLong bool
	cursor  *cursor // nil: none is open
}

// execution is one COM_STMT_EXECUTE: the parameters in the client's own bytes.
type execution struct {
	ps   *prepared
	raw  []byte // flags .. values as the client sent them; nil when they must be made anew
	vals []router.Param
	buf  []byte
	// using are the user variables of a SQL EXECUTE, as SQL text, one for each
	// parameter; named says that it is one, so that answers are in the text protocol.
	named bool
	using []string
}

// binary tells whether the answers of an execution, nil for a statement sent as
// text, are in the binary protocol.
func (ex *execution) binary() bool { return ex != nil && !ex.named }

// stmtID returns the statement id at the start of a command's payload.
func stmtID(payload []byte) uint32 {
	if len(payload) < 4 {
		return 0
	}
	return binary.LittleEndian.Uint32(payload)
}

// unknownStmt is the error for a statement that is not there, in the words of
// the flavour.
func (s *Session) unknownStmt(id uint32, command string) *mysql.Error {
	if !s.mariadb() {
		command = "mysql_stmt_precheck"
	}
	return mysql.Errorf(1243, "Unknown prepared statement handler (%d) given to %s", id, command)
}

// takePrepared counts one statement more that clients have prepared. All of this
// Braid's together are bounded by max_prepared_stmt_count, as a server's are.
func (s *Session) takePrepared() error {
	limit := int64(preparedDefault)
	if b := s.gen.anyBase(s.database); b != nil {
		limit = b.defaults.preparedMax
	}
	if s.srv.prepared.Add(1) > limit {
		s.srv.prepared.Add(-1)
		return mysql.Errorf(gomysql.ER_MAX_PREPARED_STMT_COUNT_REACHED, "Can't create more than max_prepared_stmt_count statements (current value: %d)", limit)
	}
	return nil
}

// preparedDefault is the bound while no node has told its own.
const preparedDefault = 16382

// comPrepare answers COM_STMT_PREPARE. The statement is planned here, and a
// node is asked to prepare the client's text, for the metadata.
func (s *Session) comPrepare(textBytes []byte) error {
	s.latest = nil
	s.srv.stats.statements.Add(1)
	if err := s.takePrepared(); err != nil {
		return s.failErr(err)
	}
	ps := &prepared{text: append([]byte(nil), textBytes...)}
	d, err := s.describe(ps)
	if err != nil {
		s.srv.prepared.Add(-1)
		return s.failErr(err)
	}
	ps.params, ps.columns = len(d.params), len(d.columns)
	s.stmtNext++
	ps.id = s.stmtNext
	if s.stmts == nil {
		s.stmts = map[uint32]*prepared{}
	}
	s.stmts[ps.id], s.latest = ps, ps
	head := []byte{0}
	head = binary.LittleEndian.AppendUint32(head, ps.id)
	head = binary.LittleEndian.AppendUint16(head, uint16(len(d.columns)))
	head = binary.LittleEndian.AppendUint16(head, uint16(len(d.params)))
	head = append(head, 0)
	head = s.defined(binary.LittleEndian.AppendUint16(head, uint16(len(d.warnings))))
	if err := s.c.WritePacket(head); err != nil {
		return err
	}
	var def []byte
	for _, group := range [][]mysql.Column{d.params, d.columns} {
		if len(group) == 0 {
			continue
		}
		if s.bare {
			group = nil
		}
		for i := range group {
			def = mysql.AppendColumn(def[:0], &group[i])
			if err := s.c.WritePacket(def); err != nil {
				return err
			}
		}
		if err := s.writeColumnsEnd(0); err != nil {
			return err
		}
	}
	if !ps.keepsWarnings {
		s.newWarnings(d.warnings, d.tables)
	}
	return nil
}

// described is what is announced of a prepared statement.
type described struct {
	params, columns []mysql.Column
	warnings        []warning // that its text gave
	tables          bool      // it uses tables
}

// describe finds out what to announce of a statement.
func (s *Session) describe(ps *prepared) (*described, error) {
	q := &s.query
	q.Text, q.Prepared, q.Params = ps.text, true, nil
	s.fillQuery(q)
	plan, err := s.plan(q)
	if err != nil {
		var e *mysql.Error
		if errors.As(err, &e) && e.Code == gomysql.ER_PARSE_ERROR {
			err = s.askSyntax(q, e)
		}
		return nil, err
	}
	switch plan.Kind {
	case router.KindRefuse:
		if !plan.ImplicitCommit {
			return nil, plan.Err
		}
		// What is wrong with a schema change, servers find out when it is executed.
		p, err := s.home()
		if err != nil {
			return nil, err
		}
		return s.describeOn(&p, q.Text)
	case router.KindLocal:
		ps.keepsWarnings = plan.Local.Op == router.OpShow && showsWarnings(&plan.Local.Show)
		return s.describeLocal(plan, q)
	}
	if plan.Load != nil {
		return nil, mysql.Errorf(1295, "This command is not supported in the prepared statement protocol yet")
	}
	text, shards := plan.Describe(q)
	if len(plan.System) > 0 {
		text = q.Text
	}
	if plan.Temporary {
		shards = router.OneShard(router.TemporaryShard+1, router.TemporaryShard)
	}
	d, err := s.describeAny(plan, shards, text)
	var e *mysql.Error
	if plan.Temporary && errors.As(err, &e) && e.Code == gomysql.ER_NO_SUCH_TABLE {
		err = temporaryRefused("together with rows of other shards")
	}
	if err != nil {
		return nil, err
	}
	d.tables = plan.Opens()
	return d, nil
}

// describeLocal describes a statement that Braid carries out itself. Whether
// it can be prepared at all, and what is then announced, differs between
// servers, so a node is asked.
func (s *Session) describeLocal(plan *router.Plan, q *router.Query) (*described, error) {
	if plan.Local.Op == router.OpExplain {
		return &described{columns: s.explainColumns()}, nil
	}
	if x := plan.Local.Fill; x != nil {
		p := s.place(plan, x.Shard)
		return s.describeOn(&p, []byte(x.Text))
	}
	p, err := s.home()
	if err != nil {
		return nil, err
	}
	if plan.Local.Op != router.OpShow {
		return s.describeOn(&p, q.Text)
	}
	f, err := s.showOn(&plan.Local.Show, q)
	if err != nil {
		return nil, err
	}
	d, err := s.describeOn(&f.place, f.text)
	if err == nil {
		f.rename(d.columns)
	}
	return d, err
}

// describeOn lets a node prepare a text.
func (s *Session) describeOn(p *place, text []byte) (*described, error) {
	ctx, cancel := s.context()
	defer cancel()
	for again := false; ; again = true {
		c := s.pinned(p.node)
		pinned := c != nil
		if !pinned {
			var err error
			if c, err = p.node.Get(ctx, s.caps&gomysql.CLIENT_FOUND_ROWS != 0, p.schema, s.vars); err != nil {
				return nil, p.shardError(err)
			}
		}
		s.hold(c)
		leg := s.tx != nil && s.tx.On(p.node) == c
		// Without autocommit the connection would keep metadata locks. That of an XA
		// transaction is not brought to it: servers refuse that.
		stays := leg || pinned && s.xaOpen != nil && !s.autocommit
		need := backend.Need{Schema: p.schema, Vars: s.vars, Autocommit: !stays}
		st, err := c.Prepare(&need, text)
		if err == nil && st.Schema != 0 && (st.Schema != s.gen.number || s.temporaries != nil || st.Warnings > 0) {
			// Prepared before the last change of the schema: the node would do so
			// again when it is executed, but its columns are wanted now. And what it
			// warns of, it tells only now.
			if err = c.Forget(st); err == nil {
				st, err = c.Prepare(&need, text)
			}
		}
		if err == nil {
			st.Schema = s.gen.number
		}
		d := &described{}
		if err == nil && st.Warnings > 0 {
			var rows [][][]byte
			if rows, err = c.Query(showWarnings, warningsMax); err == nil {
				d.warnings = p.warnings(nil, rows)
			}
		}
		s.drop(c)
		var e *mysql.Error
		switch {
		case err == nil:
			d.params, d.columns = append(d.params, st.Params...), append(d.columns, st.Columns...)
			for i := range d.columns {
				if d.columns[i].Schema == p.schema {
					d.columns[i].Schema = p.database
				}
			}
			s.giveBack(c)
			return d, nil
		case errors.As(err, &e) && !isPrefix(err):
			s.giveBack(c)
			return nil, p.logical(e)
		}
		s.scrap(c)
		if pinned {
			return nil, pinLostError(p.shardError(err))
		}
		if again || !backend.IsLost(err) {
			return nil, p.shardError(err)
		}
	}
}

// latestID is, on MariaDB, the statement prepared last: clients send an execution
// behind a PREPARE before they know its id.
const latestID = 1<<32 - 1

// stmt is the prepared statement of that id, nil when there is none.
func (s *Session) stmt(id uint32) *prepared {
	if id == latestID && s.mariadb() {
		return s.latest
	}
	return s.stmts[id]
}

// comExecute answers COM_STMT_EXECUTE.
func (s *Session) comExecute(payload []byte) error {
	s.srv.stats.statements.Add(1)
	id := stmtID(payload)
	ps := s.stmt(id)
	if ps == nil && len(payload) >= 9 {
		return s.fail(s.unknownStmt(id, "mysqld_stmt_execute"))
	}
	if len(payload) < 9 {
		return s.fail(mysql.Errorf(gomysql.ER_MALFORMED_PACKET, "Malformed communication packet"))
	}
	s.note(ps.text)
	ex := &s.exec
	ex.ps, ex.raw, ex.named = ps, payload[4:], false
	ps.closeCursor()
	flags := payload[4]
	if err := ex.parse(s.caps&gomysql.CLIENT_QUERY_ATTRIBUTES != 0); err != nil {
		ps.forgetLong()
		if !s.mariadb() {
			return s.fail(mysql.Errorf(gomysql.ER_MALFORMED_PACKET, "Malformed communication packet."))
		}
		return s.fail(mysql.Errorf(1210, "Incorrect arguments to mysqld_stmt_execute"))
	}
	if ps.tooLong {
		ps.forgetLong()
		return s.fail(mysql.Errorf(1105, "Parameter of prepared statement which is set through mysql_send_long_data() is longer than 'max_allowed_packet' bytes"))
	}
	q := &s.query
	q.Text, q.Prepared, q.Params = ps.text, true, ex.vals
	s.fillQuery(q)
	plan, err := s.plan(q)
	if err != nil {
		return s.planFailed(q, err)
	}
	s.executing = ps
	if flags&gomysql.CURSOR_TYPE_READ_ONLY != 0 && len(plan.Into) > 0 {
		ps.forgetLong()
		return s.fail(mysql.Errorf(gomysql.ER_SP_BAD_CURSOR_SELECT, "Cursor SELECT must not have INTO"))
	}
	if flags&gomysql.CURSOR_TYPE_READ_ONLY != 0 && plan.Rows && plan.Kind != router.KindLocal && plan.Kind != router.KindRefuse {
		err = s.openCursor(plan, q, ex)
	} else {
		err = s.execute(plan, q, ex)
	}
	s.executing, s.columnsChanged = nil, false
	ps.forgetLong()
	return err
}

// announced notes how many columns a result has that the client is now told of:
// an execution says so when they are not as many as they were. (Of some statements,
// CALL among them, none are announced by PREPARE.)
func (s *Session) announced(n int) {
	if ps := s.executing; ps != nil && ps.columns > 0 && ps.columns != n {
		ps.columns, s.columnsChanged = n, true
	}
}

// paramSize returns how many bytes of p a parameter of a type takes, and how
// many of them are its length prefix.
func paramSize(typ byte, p []byte) (size, head int, err error) {
	switch typ {
	case gomysql.MYSQL_TYPE_TINY:
		return 1, 0, nil
	case gomysql.MYSQL_TYPE_SHORT, gomysql.MYSQL_TYPE_YEAR:
		return 2, 0, nil
	case gomysql.MYSQL_TYPE_LONG, gomysql.MYSQL_TYPE_INT24, gomysql.MYSQL_TYPE_FLOAT:
		return 4, 0, nil
	case gomysql.MYSQL_TYPE_LONGLONG, gomysql.MYSQL_TYPE_DOUBLE:
		return 8, 0, nil
	case gomysql.MYSQL_TYPE_DATE, gomysql.MYSQL_TYPE_DATETIME, gomysql.MYSQL_TYPE_TIMESTAMP, gomysql.MYSQL_TYPE_TIME:
		if len(p) == 0 {
			return 0, 0, mysql.ErrMalformed
		}
		return 1 + int(p[0]), 1, nil
	}
	v, null, n := mysql.LenEncInt(p)
	if n == 0 || null || v > uint64(len(p)) {
		return 0, 0, mysql.ErrMalformed
	}
	return n + int(v), n, nil
}

// args returns the payload behind the statement id for target t, whose
// statement takes n parameters. It is valid until the next call.
func (ex *execution) args(t *router.Target, n int) []byte {
	if t.Params == nil && ex.raw != nil {
		ex.raw[0] = 0 // no cursor: all rows come at once
		return ex.raw
	}
	b := append(ex.buf[:0], 0, 1, 0, 0, 0)
	if n == 0 {
		ex.buf = b
		return b
	}
	nulls := len(b)
	b = append(b, make([]byte, (n+7)/8)...)
	b = append(b, 1)
	value := func(i int) (v router.Param) {
		ref := router.ParamRef{Index: i}
		if t.Params != nil {
			ref = t.Params[i]
		}
		if ref.Index < 0 {
			return router.Param{Type: gomysql.MYSQL_TYPE_LONGLONG, Unsigned: true, Value: binary.LittleEndian.AppendUint64(nil, ref.Value)}
		}
		return ex.vals[ref.Index]
	}
	for i := range n {
		v := value(i)
		unsigned := byte(0)
		if v.Unsigned {
			unsigned = 0x80
		}
		b = append(b, v.Type, unsigned)
		if v.Null {
			b[nulls+i/8] |= 1 << (i % 8)
		}
	}
	for i := range n {
		v := value(i)
		if v.Null {
			continue
		}
		switch v.Type {
		case gomysql.MYSQL_TYPE_TINY, gomysql.MYSQL_TYPE_SHORT, gomysql.MYSQL_TYPE_YEAR, gomysql.MYSQL_TYPE_LONG, gomysql.MYSQL_TYPE_INT24,
			gomysql.MYSQL_TYPE_FLOAT, gomysql.MYSQL_TYPE_LONGLONG, gomysql.MYSQL_TYPE_DOUBLE:
			b = append(b, v.Value...)
		case gomysql.MYSQL_TYPE_DATE, gomysql.MYSQL_TYPE_DATETIME, gomysql.MYSQL_TYPE_TIMESTAMP, gomysql.MYSQL_TYPE_TIME:
			b = append(append(b, byte(len(v.Value))), v.Value...)
		default:
			b = mysql.AppendLenEncString(b, v.Value)
		}
	}
	ex.buf = b
	return b
}

func (s *Session) comClose(payload []byte) {
	if ps := s.stmt(stmtID(payload)); ps != nil {
		ps.closeCursor()
		delete(s.stmts, ps.id)
		s.srv.prepared.Add(-1)
		if s.latest == ps {
			s.latest = nil
		}
	}
}

// forgetLong drops the values that COM_STMT_SEND_LONG_DATA brought.
func (ps *prepared) forgetLong() { ps.long, ps.tooLong = nil, false }

// closeStatements closes all prepared statements of the client.
func (s *Session) closeStatements() {
	for _, ps := range s.stmts {
		ps.closeCursor()
	}
	s.srv.prepared.Add(-int64(len(s.stmts) + len(s.named)))
	s.stmts, s.named, s.latest = nil, nil, nil
}

func (s *Session) comReset(payload []byte) error {
	ps := s.stmt(stmtID(payload))
	if ps == nil {
		return s.fail(s.unknownStmt(stmtID(payload), "mysqld_stmt_reset"))
	}
	ps.forgetLong()
	ps.closeCursor()
	return s.writeOK(&mysql.OK{})
}

// comLongData collects a parameter's value; it has no answer, and what is
// wrong with it shows at the execution.
func (s *Session) comLongData(payload []byte) {
	ps := s.stmt(stmtID(payload))
	if ps == nil || len(payload) < 6 {
		return
	}
	i := int(payload[4]) | int(payload[5])<<8
	if i >= ps.params {
		return
	}
	if ps.long == nil {
		ps.long = make([][]byte, ps.params)
	}
	if ps.long[i] == nil {
		ps.long[i] = []byte{}
	}
	if len(ps.long[i])+len(payload)-6 > s.gen.cfg.Proxy.PacketBytesMax {
		ps.tooLong = true
		return
	}
	ps.long[i] = append(ps.long[i], payload[6:]...)
}
