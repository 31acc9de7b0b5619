package proxy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"braid/backend"
	"braid/internal/mysql"
	"braid/router"
)

// loopback is the stream that a session writes the answer of a statement of its
// own to, instead of its client. It holds bytesMax bytes at most.
type loopback struct {
	bytes.Buffer
	bytesMax int
	over     bool
}

var errLoopbackFull = errors.New("the answer is longer than it may be")

func (l *loopback) Write(p []byte) (int, error) {
	if l.Len()+len(p) > l.bytesMax {
		l.over = true
		return 0, errLoopbackFull
	}
	return l.Buffer.Write(p)
}

func (l *loopback) Close() error                     { return nil }
func (l *loopback) LocalAddr() net.Addr              { return &net.UnixAddr{Name: "loopback"} }
func (l *loopback) RemoteAddr() net.Addr             { return &net.UnixAddr{Name: "loopback"} }
func (l *loopback) SetDeadline(time.Time) error      { return nil }
func (l *loopback) SetReadDeadline(time.Time) error  { return nil }
func (l *loopback) SetWriteDeadline(time.Time) error { return nil }

// answered is a statement's answer: columns and rows, or an OK.
type answered struct {
	columns []mysql.Column
	rows    *mysql.Conn // the rows are read from it with next; nil when there are none
	ok      mysql.OK
}

// carryOut runs a statement in the session, as if the client had sent it, and
// returns its answer. An error of the statement is a *mysql.Error. The session's
// memory of the last statement is the statement's afterwards.
func (s *Session) carryOut(text string, vars *backend.Vars) (*answered, error) {
	return s.carryOutQuery(&router.Query{Text: []byte(text)}, vars)
}

// carryOutQuery is carryOut of a query whose text, and nothing of the session's,
// is filled in.
func (s *Session) carryOutQuery(q *router.Query, vars *backend.Vars) (*answered, error) {
	// On MariaDB a SELECT without tables would keep those of the statement before.
	s.warnings, s.warned, s.errored = nil, 0, 0
	return s.captured(vars, func() error {
		s.fillQuery(q)
		plan, err := s.plan(q)
		if err != nil {
			return err
		}
		return s.execute(plan, q, nil)
	})
}

// captured runs f, which answers the client, and returns the answer in its place.
func (s *Session) captured(vars *backend.Vars, f func() error) (*answered, error) {
	l := &loopback{bytesMax: s.gen.cfg.Proxy.GatherBytesMax}
	client, keptVars, more, made := s.client, s.vars, s.more, s.query.Made
	s.client.c = mysql.NewConn(l, mysql.ClientSide, 1<<30)
	s.client.c.SetSeq(1)
	s.client.caps = s.caps&gomysql.CLIENT_FOUND_ROWS | gomysql.CLIENT_PROTOCOL_41 | gomysql.CLIENT_TRANSACTIONS | gomysql.CLIENT_DEPRECATE_EOF | gomysql.CLIENT_PLUGIN_AUTH
	s.client.track = nil
	s.vars, s.more = vars, false
	err := f()
	if err == nil {
		err = s.client.c.Flush()
	}
	s.client, s.vars, s.more, s.query.Made = client, keptVars, more, made
	if l.over {
		return nil, mysql.Errorf(1105, "a statement may bring together %d bytes at most (proxy.gather_bytes_max)", l.bytesMax)
	}
	if err != nil {
		return nil, err
	}
	a := &answered{rows: mysql.NewConn(l, mysql.NodeSide, 1<<30)}
	a.rows.SetSeq(1)
	p, err := a.rows.ReadPacket()
	if err != nil {
		return nil, err
	}
	switch p[0] {
	case 0xff:
		return nil, mysql.ParseError(p)
	case 0:
		a.rows = nil
		a.ok, err = mysql.ParseOK(p, false)
		return a, err
	}
	n, _, _ := mysql.LenEncInt(p)
	for range n {
		if p, err = a.rows.ReadPacket(); err != nil {
			return nil, err
		}
		c, err := mysql.ParseColumn(p)
		if err != nil {
			return nil, err
		}
		a.columns = append(a.columns, c)
	}
	return a, nil
}

// next is the next row's values, io.EOF behind the last. The values of columns
// that cannot be carried over exactly are errors.
func (a *answered) next(s *Session) ([]router.Value, error) {
	p, err := a.rows.ReadPacket()
	if err != nil {
		return nil, err
	}
	if p[0] == 0xfe && len(p) < mysql.PacketMax {
		a.ok, err = mysql.ParseOK(p, false)
		return nil, errors.Join(err, io.EOF)
	}
	if p[0] == 0xff {
		return nil, mysql.ParseError(p)
	}
	out := make([]router.Value, 0, len(a.columns))
	for i := range a.columns {
		b, null, n := mysql.LenEncString(p)
		if n == 0 {
			return nil, mysql.ErrMalformed
		}
		p = p[n:]
		v := router.Value{Kind: router.ValueNull}
		if !null {
			if v, err = s.carried(&a.columns[i], append([]byte(nil), b...)); err != nil {
				return nil, err
			}
		}
		out = append(out, v)
	}
	return out, nil
}

// carried is the value of a column as it can be written to another shard.
func (s *Session) carried(col *mysql.Column, text []byte) (router.Value, error) {
	utf8 := router.Value{Kind: router.ValueString, Bytes: text, Charset: "utf8mb4"}
	switch col.Type {
	case gomysql.MYSQL_TYPE_FLOAT:
		return router.Value{}, mysql.Errorf(1235, "This version of Braid doesn't yet support 'FLOAT values that go from shard to shard: %s'", col.Name)
	case gomysql.MYSQL_TYPE_TIMESTAMP:
		if !s.plainZone() {
			return router.Value{}, mysql.Errorf(1235, "This version of Braid doesn't yet support 'TIMESTAMP values that go from shard to shard under this time_zone: %s'", col.Name)
		}
		return utf8, nil
	case gomysql.MYSQL_TYPE_TIME, gomysql.MYSQL_TYPE_JSON, gomysql.MYSQL_TYPE_ENUM, gomysql.MYSQL_TYPE_SET:
		return utf8, nil
	case gomysql.MYSQL_TYPE_BIT:
		var u uint64
		for _, b := range text {
			u = u<<8 | uint64(b)
		}
		return router.Value{Kind: router.ValueUint, Uint: u}, nil
	case gomysql.MYSQL_TYPE_GEOMETRY:
		return router.Value{Kind: router.ValueString, Bytes: text, Charset: "binary"}, nil
	}
	return s.computed(col, text)
}

// plainZone tells whether no local time of the session's zone happens twice.
func (s *Session) plainZone() bool {
	zone, _ := s.vars.Get("time_zone")
	zone = unquote(zone)
	if zone == "SYSTEM" {
		if b := s.gen.base[s.database]; b != nil {
			zone = b.defaults.systemZone
		}
	}
	return zone == "UTC" || zone == "GMT" || len(zone) > 0 && (zone[0] == '+' || zone[0] == '-')
}

// stepsSavepoint begins the name of the savepoint that is set before a write in
// steps inside of the open transaction: all its steps are undone together. A step
// may itself be one, so the name has a number.
const stepsSavepoint = "_braid_steps"

// together runs f, whose statements are one to the client: in the open
// transaction, or in one of their own. All of them count, or none.
func (s *Session) together(f func() error) error {
	if s.tx == nil {
		s.beginTx(s.nextOptions(backend.TxOptions{}))
		if err := f(); err != nil {
			s.rollbackOpen()
			return err
		}
		return s.commitOpen()
	}
	if err := s.usable(); err != nil {
		return err
	}
	ctx, cancel := s.context()
	defer cancel()
	s.stepsDepth++
	defer func() { s.stepsDepth-- }()
	savepoint := stepsSavepoint + strconv.Itoa(s.stepsDepth)
	if err := s.tx.Savepoint(ctx, savepoint); err != nil {
		return err
	}
	err := f()
	if s.tx == nil || s.tx.Over() {
		return err // a node ended the transaction
	}
	if err != nil {
		if undo := s.tx.RollbackTo(ctx, savepoint); undo != nil {
			s.noteEnd()
			return undo
		}
	}
	if release := s.tx.Release(ctx, savepoint); release != nil {
		s.noteEnd()
		return fmt.Errorf("after a write in steps: %w", errors.Join(err, release))
	}
	return err
}
