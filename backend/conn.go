package backend

import (
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"braid/internal/mysql"
)

// prefixBytesMax is how much may be in flight in front of a statement before
// its answers are read (rule D9), in bytes.
const prefixBytesMax = 8 << 10

// idleCheckAfter is how long a connection may have been idle before it is
// looked at for having died meanwhile: less than the shortest wait_timeout that
// a session may have set on it.
const idleCheckAfter = 500 * time.Millisecond

// Need is what a statement wants its connection to be like.
type Need struct {
	Schema     string // the physical schema; "" when it does not matter
	Vars       *Vars
	Autocommit bool
	// Write says that the statement must not run when anything in front of it
	// failed: a change of schema is confirmed before it is sent (rule D8).
	Write bool
}

// Conn is one connection to a node together with what it was last told. It
// belongs to one goroutine at a time; Interrupt and Kill may come from others.
//
// A statement goes Queue* Send, then First and the rest of the answer. Release
// gives the connection back to its pool and may be called only when the
// answer was read to its end and no transaction is open; in every other case
// Destroy it.
type Conn struct {
	*mysql.Conn
	node *Node
	id   uint64 // the node's connection id

	foundRows  bool // CLIENT_FOUND_ROWS, fixed by the handshake
	vars       *Vars
	schema     string
	autocommit autocommit

	identity string // the server's, once the connection carried a transaction
	tagged   bool   // @braid_gtrid is set, of a transaction that may be over

	pending int // answers of queued commands not read yet
	queued  int // bytes of them
	mainSeq byte
	scratch []byte
	stmts   stmtCache

	lastUsed time.Time
	born     time.Time
	broken   bool // the detector's own: it is to be closed
	// Tainted says that the connection holds state that Vars does not tell
	// (temporary tables, locks): it is reset before anybody else gets it.
	Tainted bool
}

type autocommit uint8

const (
	autocommitUnknown autocommit = iota
	autocommitOff
	autocommitOn
)

// Node returns the node the connection leads to.
func (c *Conn) Node() *Node { return c.node }

// ID returns the connection's id on its node.
func (c *Conn) ID() uint64 { return c.id }

// Schema returns the schema the connection is known to be in.
func (c *Conn) Schema() string { return c.schema }

// Vars returns the variables that the connection is known to have.
func (c *Conn) Vars() *Vars { return c.vars }

// SetVars notes that the connection's variables are now v, after a statement
// that set them itself.
func (c *Conn) SetVars(v *Vars) { c.vars = v }

// ErrPrefix wraps a node's refusal of something Braid sent in front of a
// statement. The connection must be destroyed.
type ErrPrefix struct {
	Node string
	Err  *mysql.Error
}

func (e *ErrPrefix) Error() string {
	return fmt.Sprintf("node %s: setting up the connection: %v", e.Node, e.Err)
}

func (e *ErrPrefix) Unwrap() error { return e.Err }

// Queue puts a statement of Braid's own in front of the next one, in the same
// write. Its answer must be an OK and is read by First.
func (c *Conn) Queue(text string) error {
	if err := c.WriteCommand(gomysql.COM_QUERY, []byte(text)); err != nil {
		return err
	}
	return c.queue(len(text))
}

func (c *Conn) queue(bytes int) error {
	c.pending++
	if c.queued += bytes; c.queued > prefixBytesMax {
		return c.Confirm()
	}
	return nil
}

// Confirm sends what is queued and reads the answers.
func (c *Conn) Confirm() error {
	if c.pending == 0 {
		return nil
	}
	if err := c.Flush(); err != nil {
		return err
	}
	return c.readPending()
}

func (c *Conn) readPending() error {
	for c.pending > 0 {
		c.SetSeq(1)
		p, err := c.ReadPacket()
		if err != nil {
			return err
		}
		c.pending--
		if len(p) == 0 || p[0] != 0 {
			if len(p) > 0 && p[0] == 0xff {
				return &ErrPrefix{c.node.name, mysql.ParseError(p)}
			}
			return &ErrPrefix{c.node.name, mysql.Errorf(gomysql.ER_MALFORMED_PACKET, "unexpected answer")}
		}
	}
	c.queued = 0
	return nil
}

// bring queues what brings the connection to need.
func (c *Conn) bring(need *Need) error {
	want := autocommitOff
	if need.Autocommit {
		want = autocommitOn
	}
	if c.vars != need.Vars || c.autocommit != want {
		b := c.scratch[:0]
		if c.vars != need.Vars {
			b = appendDiff(b, c.vars, need.Vars, c.node.MariaDB())
		}
		if c.autocommit != want {
			if len(b) == 0 {
				b = append(b, "SET "...)
			} else {
				b = append(b, ',')
			}
			b = append(b, "autocommit="...)
			b = append(b, '0'+byte(want-autocommitOff))
		}
		c.vars, c.autocommit = need.Vars, want
		c.scratch = b[:0]
		if len(b) > 0 {
			if err := c.WriteCommand(gomysql.COM_QUERY, b); err != nil {
				return err
			}
			if err := c.queue(len(b)); err != nil {
				return err
			}
		}
	}
	if need.Schema != "" && need.Schema != c.schema {
		if err := c.WriteCommand(gomysql.COM_INIT_DB, []byte(need.Schema)); err != nil {
			return err
		}
		if err := c.queue(len(need.Schema)); err != nil {
			return err
		}
		if need.Write {
			if err := c.Confirm(); err != nil {
				return err
			}
		}
		c.schema = need.Schema
	}
	return nil
}

// cleanse queues what takes from a connection that comes from the pool what the
// next session must not find there: a COM_RESET_CONNECTION when it has user
// variables that vars lacks, and the mark of the transaction that it was a leg of.
func (c *Conn) cleanse(vars *Vars) error {
	if c.vars != vars && vars.strays(c.vars) {
		return c.queueReset()
	}
	return c.untag()
}

// untag queues that the connection belongs to no transaction over several nodes.
func (c *Conn) untag() error {
	if !c.tagged {
		return nil
	}
	c.tagged = false
	return c.Queue("SET @" + gtridVariable + "=NULL")
}

// queueReset makes the connection as a fresh one in its schema.
func (c *Conn) queueReset() error {
	if err := c.WriteCommand(gomysql.COM_RESET_CONNECTION, nil); err != nil {
		return err
	}
	c.vars, c.autocommit = nil, autocommitUnknown
	c.lostStmts()
	c.identity = "" // its low wait_timeout (rule T8) is gone too
	if c.node.MariaDB() {
		c.schema = "" // character_set_database is not the schema's any more
	}
	c.tagged = false
	return c.queue(1)
}

// Reset makes the connection as a fresh one: what the node holds for it
// (temporary tables, locks, variables, an open transaction) is gone when it
// returns. An error means that the connection must be destroyed.
func (c *Conn) Reset() error {
	if err := c.queueReset(); err != nil {
		return err
	}
	c.Tainted = false
	return c.Confirm()
}

// Bring brings the connection to need and waits until the node has confirmed it.
func (c *Conn) Bring(need *Need) error {
	if err := c.bring(need); err != nil {
		return err
	}
	return c.Confirm()
}

// Send brings the connection to need and sends a command behind it, all in one
// write.
func (c *Conn) Send(need *Need, cmd byte, payload []byte) error {
	if err := c.bring(need); err != nil {
		return err
	}
	if err := c.WriteCommand(cmd, payload); err != nil {
		return err
	}
	c.mainSeq = c.Seq()
	return c.Flush()
}

// First reads the answers of what was queued and returns the first packet of
// the answer proper, valid until the next read.
func (c *Conn) First() ([]byte, error) {
	if c.pending > 0 {
		if err := c.readPending(); err != nil {
			return nil, err
		}
	}
	c.SetSeq(c.mainSeq)
	return c.ReadPacket()
}

// Exec runs a statement of Braid's own that gives no rows. The answer was
// read whole when it returns; an *mysql.Error leaves the connection usable.
func (c *Conn) Exec(text string) (mysql.OK, error) {
	_, _, ok, err := c.run(text, 0)
	return ok, err
}

// Query runs a statement of Braid's own and returns its rows as text, NULL as
// nil. More than rowsMax rows are an error.
func (c *Conn) Query(text string, rowsMax int) ([][][]byte, error) {
	_, rows, _, err := c.run(text, rowsMax)
	return rows, err
}

// QueryColumns is Query that tells the columns' definitions too.
func (c *Conn) QueryColumns(text string, rowsMax int) ([]mysql.Column, [][][]byte, error) {
	columns, rows, _, err := c.run(text, rowsMax)
	return columns, rows, err
}

func (c *Conn) run(text string, rowsMax int) ([]mysql.Column, [][][]byte, mysql.OK, error) {
	if err := c.WriteCommand(gomysql.COM_QUERY, []byte(text)); err != nil {
		return nil, nil, mysql.OK{}, err
	}
	c.mainSeq = c.Seq()
	if err := c.Flush(); err != nil {
		return nil, nil, mysql.OK{}, err
	}
	first, err := c.First()
	if err != nil {
		return nil, nil, mysql.OK{}, err
	}
	switch first[0] {
	case 0:
		ok, err := mysql.ParseOK(first, false)
		return nil, nil, ok, err
	case 0xff:
		return nil, nil, mysql.OK{}, mysql.ParseError(first)
	}
	n, _, k := mysql.LenEncInt(first)
	if k == 0 {
		return nil, nil, mysql.OK{}, mysql.ErrMalformed
	}
	columns := make([]mysql.Column, 0, min(n, 4096))
	for range n {
		p, err := c.ReadPacket()
		if err != nil {
			return nil, nil, mysql.OK{}, err
		}
		col, err := mysql.ParseColumn(p)
		if err != nil {
			return nil, nil, mysql.OK{}, err
		}
		columns = append(columns, col)
	}
	var rows [][][]byte
	for {
		p, err := c.ReadPacket()
		if err != nil {
			return nil, nil, mysql.OK{}, err
		}
		if p[0] == 0xff {
			return nil, nil, mysql.OK{}, mysql.ParseError(p)
		}
		if p[0] == 0xfe && len(p) < mysql.PacketMax {
			ok, err := mysql.ParseOK(p, false)
			return columns, rows, ok, err
		}
		if len(rows) == rowsMax {
			return nil, nil, mysql.OK{}, fmt.Errorf("node %s: more than %d rows from %q", c.node.name, rowsMax, text)
		}
		row := make([][]byte, 0, n)
		for len(p) > 0 {
			s, null, k := mysql.LenEncString(p)
			if k == 0 {
				return nil, nil, mysql.OK{}, mysql.ErrMalformed
			}
			if null {
				row = append(row, nil)
			} else {
				row = append(row, append([]byte{}, s...))
			}
			p = p[k:]
		}
		rows = append(rows, row)
	}
}

// SetDeadline bounds everything on the connection until it is set again; the
// zero time takes the bound away.
func (c *Conn) SetDeadline(t time.Time) { _ = c.NetConn().SetDeadline(t) }

// alive tells whether an idle connection is still open with nothing to read.
func (c *Conn) alive() bool {
	sc := mysql.Socket(c.NetConn())
	if sc == nil {
		return true
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return false
	}
	alive := false
	err = raw.Read(func(fd uintptr) bool {
		var b [1]byte
		n, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		alive = n <= 0 && (errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EWOULDBLOCK))
		return true
	})
	return err == nil && alive
}

// IsLost tells whether an error means that the connection itself is gone, so
// that nothing is known of what the node did last.
func IsLost(err error) bool {
	var se *mysql.SocketError
	var ne net.Error
	return errors.As(err, &se) || errors.As(err, &ne) || errors.Is(err, mysql.ErrMalformed)
}
