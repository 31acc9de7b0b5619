package proxy

import (
	"fmt"
	"io"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"braid/backend"
	"braid/internal/mysql"
	"braid/router"
)

// nodeAnswer is a node's whole answer to a statement with a small result,
// decoded as far as the borders of its values, so that names in it can be put
// right before it is passed on.
type nodeAnswer struct {
	columns  []mysql.Column
	rows     [][]nodeValue
	binary   bool // values are in the binary protocol's form
	warnings uint16
	listed   [][][]byte // rows of SHOW WARNINGS
}

// nodeValue is one value: its bytes without a length in front, nil for NULL.
type nodeValue []byte

// answerRowsMax bounds the rows of an answer that is read whole.
const answerRowsMax = 1 << 20

// forward lets a node run a statement that is the client's own, or was made of
// it, in the session's context but outside its transaction, and returns the
// whole answer. ps is set for an execution of a prepared statement, whose
// answer is in the binary protocol.
func (s *Session) forward(p *place, text []byte, ps *execution) (*nodeAnswer, error) {
	return s.forwardTarget(p, &router.Target{Text: text}, ps)
}

// forwardTarget is forward for a target that a plan made.
func (s *Session) forwardTarget(p *place, t *router.Target, ps *execution) (*nodeAnswer, error) {
	var a *nodeAnswer
	err := s.onPlace(p, func(c *backend.Conn, need *backend.Need) (err error) {
		a, err = s.collect(c, need, t, ps)
		return err
	})
	if err != nil {
		return nil, err
	}
	for i := range a.columns {
		if a.columns[i].Schema == p.schema {
			a.columns[i].Schema = p.database
		}
	}
	return a, nil
}

// collect runs a statement on c and reads the answer whole.
func (s *Session) collect(c *backend.Conn, need *backend.Need, t *router.Target, ps *execution) (*nodeAnswer, error) {
	switch {
	case ps == nil:
		if err := c.Send(need, gomysql.COM_QUERY, t.Text); err != nil {
			return nil, err
		}
	case ps.named:
		if err := s.sendNamed(c, need, t, ps); err != nil {
			return nil, err
		}
	default:
		st, err := c.Prepare(need, t.Text)
		if err != nil {
			return nil, err
		}
		if err := c.SendExecute(need, st, ps.args(t, len(st.Params))); err != nil {
			return nil, err
		}
	}
	first, err := c.First()
	if err != nil {
		return nil, err
	}
	a := &nodeAnswer{binary: ps.binary()}
	switch first[0] {
	case 0xff:
		return nil, mysql.ParseError(first)
	case 0:
		ok, err := mysql.ParseOK(first, false)
		if err != nil {
			return nil, err
		}
		a.warnings = ok.Warnings
	default:
		rows, err := c.ReadRows(first, a.binary)
		if err != nil {
			return nil, err
		}
		a.columns = rows.Columns()
		bytesLeft := s.gen.cfg.Proxy.SortBytesMax
		for {
			row, err := rows.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				return nil, err
			}
			if bytesLeft -= len(row); bytesLeft < 0 || len(a.rows) == answerRowsMax {
				return nil, fmt.Errorf("the answer to %.60q is too large: %w", t.Text, mysql.ErrMalformed)
			}
			values, err := splitRow(a.columns, row, a.binary)
			if err != nil {
				return nil, err
			}
			a.rows = append(a.rows, values)
		}
		a.warnings = rows.End.Warnings
	}
	if a.warnings > 0 {
		a.listed, err = c.Query(showWarnings, warningsMax)
	}
	return a, err
}

// splitRow copies the values out of a row.
func splitRow(cols []mysql.Column, row mysql.Row, binary bool) ([]nodeValue, error) {
	values := make([]nodeValue, len(cols))
	p := append([]byte(nil), row...)
	if !binary {
		for i := range values {
			v, null, n := mysql.LenEncString(p)
			if n <= 0 {
				return nil, mysql.ErrMalformed
			}
			if p = p[n:]; !null {
				values[i] = v[:len(v):len(v)]
			}
		}
		return values, nil
	}
	head := 1 + (len(cols)+9)/8
	if len(p) < head {
		return nil, mysql.ErrMalformed
	}
	nulls := p[1:head]
	p = p[head:]
	for i := range values {
		if nulls[(i+2)/8]&(1<<((i+2)%8)) != 0 {
			continue
		}
		size, lead, err := paramSize(cols[i].Type, p)
		if err != nil || size > len(p) {
			return nil, mysql.ErrMalformed
		}
		values[i] = p[lead:size:size]
		p = p[size:]
	}
	return values, nil
}

// appendRow is the inverse of splitRow.
func appendRow(dst []byte, cols []mysql.Column, values []nodeValue, binary bool) []byte {
	if !binary {
		for _, v := range values {
			if v == nil {
				dst = append(dst, 0xfb)
			} else {
				dst = mysql.AppendLenEncString(dst, v)
			}
		}
		return dst
	}
	dst = append(dst, 0)
	bitmap := len(dst)
	dst = append(dst, make([]byte, (len(values)+9)/8)...)
	for i, v := range values {
		switch {
		case v == nil:
			dst[bitmap+(i+2)/8] |= 1 << ((i + 2) % 8)
		case fixedSize(cols[i].Type):
			dst = append(dst, v...)
		case temporal(cols[i].Type):
			dst = append(append(dst, byte(len(v))), v...)
		default:
			dst = mysql.AppendLenEncString(dst, v)
		}
	}
	return dst
}

func fixedSize(typ byte) bool {
	switch typ {
	case gomysql.MYSQL_TYPE_TINY, gomysql.MYSQL_TYPE_SHORT, gomysql.MYSQL_TYPE_YEAR, gomysql.MYSQL_TYPE_LONG, gomysql.MYSQL_TYPE_INT24,
		gomysql.MYSQL_TYPE_FLOAT, gomysql.MYSQL_TYPE_LONGLONG, gomysql.MYSQL_TYPE_DOUBLE:
		return true
	}
	return false
}

func temporal(typ byte) bool {
	switch typ {
	case gomysql.MYSQL_TYPE_DATE, gomysql.MYSQL_TYPE_DATETIME, gomysql.MYSQL_TYPE_TIMESTAMP, gomysql.MYSQL_TYPE_TIME:
		return true
	}
	return false
}

// column returns the index of a column by name, -1 when there is none.
func (a *nodeAnswer) column(name string) int {
	for i := range a.columns {
		if a.columns[i].Name == name {
			return i
		}
	}
	return -1
}

// writeAnswer passes an answer on as the session's own statement's.
func (s *Session) writeAnswer(a *nodeAnswer, p *place) error {
	s.warnings, s.warned, s.errored = s.warnings[:0], a.warnings, 0
	s.addWarnings(a.listed, p)
	s.facts.RowCount, s.facts.FoundRows = -1, uint64(len(a.rows))
	if a.columns == nil {
		s.facts.RowCount = 0
		return s.writeOK(&mysql.OK{Warnings: a.warnings})
	}
	if err := s.writeColumns(a.columns, 0); err != nil {
		return err
	}
	var buf []byte
	for _, r := range a.rows {
		buf = appendRow(buf[:0], a.columns, r, a.binary)
		if err := s.c.WritePacket(buf); err != nil {
			return err
		}
	}
	return s.writeEnd(0, a.warnings)
}

// home is the place where statements run that any shard can answer: the first
// shard of the session's database, or of any.
func (s *Session) home() (place, error) {
	b := s.gen.anyBase(s.database)
	if b == nil {
		return place{}, mysql.Errorf(1105, "no node can be used: every database's schema is unread; see the log")
	}
	p := place{node: b.nodes[0], shard: b.conf.Shards[0].Name}
	if s.gen.topology.Databases[s.database] != nil {
		p = s.shardPlace(s.database, 0)
	} else if s.database != "" {
		p.schema, p.database = s.database, s.database // information_schema
	}
	return p, nil
}

// shardPlace is a shard of a database.
func (s *Session) shardPlace(database string, shard int) place {
	sh := &s.gen.topology.Databases[database].Shards[shard]
	return place{node: s.gen.base[database].nodes[shard], schema: sh.Schema, database: database, shard: sh.Name}
}

// onPlace gives f a pool connection at p, or the one that the session is pinned
// to, and what brings it to the session's context.
func (s *Session) onPlace(p *place, f func(*backend.Conn, *backend.Need) error) error {
	ctx, cancel := s.context()
	defer cancel()
	c := s.pinned(p.node)
	if c == nil {
		var err error
		if c, err = p.node.Get(ctx, s.caps&gomysql.CLIENT_FOUND_ROWS != 0, p.schema, s.vars); err != nil {
			return p.shardError(err)
		}
	}
	s.hold(c)
	leg := s.tx != nil && s.tx.On(p.node) == c
	need := backend.Need{Schema: p.schema, Vars: s.vars, Autocommit: !leg && s.autocommit}
	err := f(c, &need)
	if !leg && s.xaOpen == nil && !s.autocommit && !backend.IsLost(err) && !isPrefix(err) {
		// Without autocommit MySQL keeps the metadata locks of what it was asked of
		// a schema, which would keep others from changing it.
		need.Autocommit = true
		if e := c.Bring(&need); e != nil {
			err = e
		}
	}
	stopped := s.drop(c)
	if err != nil && (backend.IsLost(err) || isPrefix(err)) || stopped != nil {
		s.scrap(c)
	} else {
		s.giveBack(c)
	}
	if stopped != nil {
		return stopped
	}
	if err != nil {
		return p.shardError(err)
	}
	return nil
}
