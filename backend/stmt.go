package backend

import (
	"bytes"
	"container/list"
	"context"
	"encoding/binary"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"braid/internal/mysql"
)

// Stmt is a statement prepared on one connection.
type Stmt struct {
	ID      uint32
	Params  []mysql.Column
	Columns []mysql.Column
	// Warnings is how many warnings the server had of the text.
	Warnings uint16
	// Schema is the caller's note of the schema's version that Columns are of;
	// 0: none was made.
	Schema uint64
	key    stmtKey
	types  []byte // of its parameters when it was executed, two bytes each; nil: it was not
}

// stmtCache keeps the statements prepared on a connection, least recently used
// last.
type stmtCache struct {
	byText map[stmtKey]*list.Element
	order  list.List // of *Stmt
}

// stmtKey is what a prepared statement belongs to: a server reads the text
// with the sql_mode and the character sets it is prepared under, and announces
// the types that its variables then have.
type stmtKey struct{ schema, vars, text string }

// stmtVars is the vars of a text's key.
func (c *Conn) stmtVars(text []byte) string {
	if bytes.IndexByte(text, '@') >= 0 {
		return c.vars.text()
	}
	return c.vars.settings()
}

// Prepared returns the statement of that text prepared in the connection's
// present context, or nil.
func (c *Conn) Prepared(text []byte) *Stmt {
	e := c.stmts.byText[stmtKey{c.schema, c.stmtVars(text), string(text)}]
	if e == nil {
		return nil
	}
	c.stmts.order.MoveToFront(e)
	return e.Value.(*Stmt)
}

// Prepare brings the connection to need and prepares text there, or finds it
// prepared. At most the pool's statements_max stay prepared on a connection,
// fewer where the node would have too many (see stmtRoom). An *mysql.Error leaves
// the connection usable.
func (c *Conn) Prepare(need *Need, text []byte) (*Stmt, error) {
	if err := c.bring(need); err != nil {
		return nil, err
	}
	if s := c.Prepared(text); s != nil {
		return s, nil
	}
	for n := c.node.stmtsMax(); c.stmts.order.Len() >= n && c.stmts.order.Len() > 0; {
		if err := c.closeStmt(c.stmts.order.Back()); err != nil {
			return nil, err
		}
	}
	s, err := c.prepare(text)
	if !noRoom(err) {
		return s, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), roomPatience)
	defer cancel()
	for try := 0; noRoom(err) && (try < roomTries || pause(ctx) == nil); try++ {
		c.node.isFull()
		if c.stmts.order.Len() > 0 {
			if err := c.forgetStmts(); err != nil {
				return nil, err
			}
		} else {
			c.node.makeRoom()
		}
		s, err = c.prepare(text)
	}
	return s, err
}

// prepare lets the node prepare text, and keeps the statement.
func (c *Conn) prepare(text []byte) (*Stmt, error) {
	if err := c.WriteCommand(gomysql.COM_STMT_PREPARE, text); err != nil {
		return nil, err
	}
	c.mainSeq = c.Seq()
	if err := c.Flush(); err != nil {
		return nil, err
	}
	p, err := c.First()
	if err != nil {
		return nil, err
	}
	if p[0] == 0xff {
		return nil, mysql.ParseError(p)
	}
	if len(p) < 12 || p[0] != 0 {
		return nil, mysql.ErrMalformed
	}
	s := &Stmt{ID: binary.LittleEndian.Uint32(p[1:]), Warnings: binary.LittleEndian.Uint16(p[10:]), key: stmtKey{c.schema, c.stmtVars(text), string(text)}}
	columns, params := int(binary.LittleEndian.Uint16(p[5:])), int(binary.LittleEndian.Uint16(p[7:]))
	read := func(n int) ([]mysql.Column, error) {
		cols := make([]mysql.Column, n)
		for i := range cols {
			p, err := c.ReadPacket()
			if err != nil {
				return nil, err
			}
			if cols[i], err = mysql.ParseColumn(p); err != nil {
				return nil, err
			}
		}
		return cols, nil
	}
	if s.Params, err = read(params); err != nil {
		return nil, err
	}
	if s.Columns, err = read(columns); err != nil {
		return nil, err
	}
	if c.stmts.byText == nil {
		c.stmts.byText = map[stmtKey]*list.Element{}
	}
	c.stmts.byText[s.key] = c.stmts.order.PushFront(s)
	c.node.stmts.open.Add(1)
	return s, nil
}

// Forget closes one prepared statement.
func (c *Conn) Forget(s *Stmt) error {
	if e := c.stmts.byText[s.key]; e != nil {
		return c.closeStmt(e)
	}
	return nil
}

// closeStmt has no answer; it goes out with the next write.
func (c *Conn) closeStmt(e *list.Element) error {
	s := e.Value.(*Stmt)
	delete(c.stmts.byText, s.key)
	c.stmts.order.Remove(e)
	c.node.stmts.open.Add(-1)
	var id [4]byte
	binary.LittleEndian.PutUint32(id[:], s.ID)
	return c.WriteCommand(gomysql.COM_STMT_CLOSE, id[:])
}

// SendExecute sends COM_STMT_EXECUTE of a statement prepared on this
// connection. args is the payload behind the statement id: flags, iteration
// count, NULL bitmap, types and values. Where the statement was executed with
// parameters of other types, by whatever client, the text is prepared again: a
// server goes on computing with the types that it once had (10 * 2 is a DOUBLE
// after 10 * 1.5).
func (c *Conn) SendExecute(need *Need, s *Stmt, args []byte) error {
	if !s.take(args) {
		if err := c.Forget(s); err != nil {
			return err
		}
		again, err := c.Prepare(need, []byte(s.key.text))
		if err != nil {
			return err
		}
		again.Schema = s.Schema
		again.take(args)
		s = again
	}
	b := binary.LittleEndian.AppendUint32(c.scratch[:0], s.ID)
	b = append(b, args...)
	c.scratch = b[:0]
	return c.Send(need, gomysql.COM_STMT_EXECUTE, b)
}

// take notes the types of an execution's parameters. False: it was executed with
// others before. NULL has any type.
func (s *Stmt) take(args []byte) bool {
	n := len(s.Params)
	at := 5 + (n+7)/8
	if n == 0 || len(args) < at+1+2*n || args[at] != 1 {
		return true
	}
	types := args[at+1 : at+1+2*n]
	if s.types == nil {
		s.types = bytes.Clone(types)
		return true
	}
	for i := 0; i < len(types); i += 2 {
		was, is := s.types[i:i+2], types[i:i+2]
		switch {
		case is[0] == gomysql.MYSQL_TYPE_NULL:
		case was[0] == gomysql.MYSQL_TYPE_NULL:
			copy(was, is)
		case !bytes.Equal(was, is):
			return false
		}
	}
	return true
}
