package proxy

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"braid/backend"
	"braid/internal/mysql"
	"braid/router"
)

// statusKept are the status flags that a node's answer decides.
const statusKept = gomysql.SERVER_STATUS_NO_GOOD_INDEX_USED | gomysql.SERVER_STATUS_NO_INDEX_USED | gomysql.SERVER_STATUS_DB_DROPPED |
	gomysql.SERVER_QUERY_WAS_SLOW | gomysql.SERVER_PS_OUT_PARAMS

// statusAnsiQuotes is MariaDB's SERVER_STATUS_ANSI_QUOTES.
const statusAnsiQuotes = 0x8000

// status is the session's status flags (rule D6), with what a node said.
func (s *Session) status(fromNode uint16) uint16 {
	st := fromNode & statusKept
	if s.autocommit {
		st |= gomysql.SERVER_STATUS_AUTOCOMMIT
	}
	if s.xaOpen != nil {
		st |= gomysql.SERVER_STATUS_IN_TRANS
		if s.xaOpen.readOnly {
			st |= gomysql.SERVER_STATUS_IN_TRANS_READONLY
		}
	}
	if s.tx != nil && !s.waiting {
		st |= gomysql.SERVER_STATUS_IN_TRANS
		if s.txOpt.ReadOnly {
			st |= gomysql.SERVER_STATUS_IN_TRANS_READONLY
		}
	}
	if s.mode&router.ModeNoBackslashEscapes != 0 {
		st |= gomysql.SERVER_STATUS_NO_BACKSLASH_ESCAPED
	}
	if s.mode&router.ModeAnsiQuotes != 0 && s.mariadb() {
		st |= statusAnsiQuotes
	}
	if s.columnsChanged {
		st |= gomysql.SERVER_STATUS_METADATA_CHANGED
	}
	if s.more {
		st |= gomysql.SERVER_MORE_RESULTS_EXISTS
	}
	return st
}

// writeOK answers a statement without rows. ok.Status is what the node said.
func (s *Session) writeOK(ok *mysql.OK) error {
	o := *ok
	o.Status = s.status(ok.Status)
	o.Warnings += s.hintWarnings()
	return s.ok(&o)
}

// writeEnd ends a result set.
func (s *Session) writeEnd(fromNode, warnings uint16) error {
	return s.end(s.status(fromNode), warnings+s.hintWarnings())
}

// writeColumnsEnd stands between column definitions and rows where the client
// wants it.
func (s *Session) writeColumnsEnd(fromNode uint16) error {
	return s.columnsEnd(s.status(fromNode))
}

// writeColumns announces a result set of these columns.
func (s *Session) writeColumns(cols []mysql.Column, fromNode uint16) error {
	s.announced(len(cols))
	return s.columns(cols, s.status(fromNode))
}

// fail answers a statement with an error and notes what MySQL notes: the error
// is in SHOW WARNINGS, ROW_COUNT() is -1.
func (s *Session) fail(e *mysql.Error) error {
	e = quoteBehind(e, s.behind)
	s.srv.stats.errors.Add(1)
	s.failed++
	if !s.diagnosed {
		s.warnings = append(s.warnings[:0], warning{"Error", e.Code, e.Message})
	}
	s.diagnosed = false
	s.warned, s.errored = uint16(min(len(s.warnings), math.MaxUint16)), 0
	for i := range s.warnings {
		if s.warnings[i].level == "Error" {
			s.errored++
		}
	}
	s.facts.RowCount = -1
	s.more = false
	s.told = e
	if s.c.Torn() {
		return fmt.Errorf("error inside a packet: %w", e)
	}
	return s.writeError(e)
}

// errClose makes the session close its client without an answer, as a server
// that went away would: what the node did is not known (rule T4).
type errClose struct{ err error }

func (e *errClose) Error() string { return "client closed: outcome unknown: " + e.err.Error() }
func (e *errClose) Unwrap() error { return e.err }

// failErr answers with any error; where the client cannot be told the truth its
// connection is closed.
func (s *Session) failErr(err error) error {
	var ce *errClose
	if errors.As(err, &ce) {
		return err
	}
	var se *mysql.SocketError
	if errors.As(err, &se) && se.Side == mysql.ClientSide {
		return err
	}
	return s.fail(s.clientError(err))
}

// clientError is the one place where any error becomes what the client sees.
func (s *Session) clientError(err error) *mysql.Error {
	s.mu.Lock()
	stopped := s.mu.stopped
	s.mu.Unlock()
	if stopped != nil {
		return stopped
	}
	var e *mysql.Error
	if errors.As(err, &e) {
		return e
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return mysql.Errorf(3024, "Query execution was interrupted, maximum statement execution time exceeded (timeouts.statement)")
	}
	return mysql.Errorf(1105, "%v", err)
}

// logical replaces the physical schema's name in a node's error text by the
// database's.
func logical(e *mysql.Error, schema, database string) *mysql.Error {
	message := logicalText(e.Code, e.Message, schema, database)
	if message == e.Message {
		return e
	}
	return &mysql.Error{Code: e.Code, State: e.State, Message: message}
}

// logicalText is logical for the text of an error or warning alone.
func logicalText(code uint16, message, schema, database string) string {
	if schema == database || schema == "" || !strings.Contains(message, schema) {
		return message
	}
	switch code {
	case gomysql.ER_DUP_ENTRY, gomysql.ER_TRUNCATED_WRONG_VALUE, gomysql.ER_TRUNCATED_WRONG_VALUE_FOR_FIELD, gomysql.ER_DUP_ENTRY_WITH_KEY_NAME, gomysql.ER_WRONG_VALUE_FOR_TYPE:
		// It quotes values, which may be like the name; what it names comes last.
		if i := strings.LastIndex(message, "`"+schema+"`.`"); i >= 0 {
			return message[:i] + "`" + database + "`" + message[i+len(schema)+2:]
		}
		return message
	}
	return strings.NewReplacer("'"+schema+".", "'"+database+".", "'"+schema+"'", "'"+database+"'", ","+schema+".", ","+database+".",
		"`"+schema+"`", "`"+database+"`", "\""+schema+"\"", "\""+database+"\"", " "+schema+".", " "+database+".").Replace(message)
}

// place is where a statement runs: a shard of a database, as errors name it.
type place struct {
	node     *backend.Node
	schema   string // physical
	database string // logical
	shard    string
	views    map[string]router.GatherView // of a statement over copies: Gather.Views
	// qualified are the plan's Qualified.
	qualified map[string]bool
}

// logical is an error of the place as a single server would word it.
func (p *place) logical(e *mysql.Error) *mysql.Error {
	const unknown = "Unknown column '"
	if rest, ok := strings.CutPrefix(e.Message, unknown); ok && e.Code == gomysql.ER_BAD_FIELD_ERROR {
		if column, _, _ := strings.Cut(rest, "'"); p.qualified[column] {
			return &mysql.Error{Code: e.Code, State: e.State, Message: unknown + p.database + "." + rest}
		}
	}
	return logical(e, p.schema, p.database)
}

// shardError adds the shard to an error that is not MySQL's own.
func (p *place) shardError(err error) error {
	var e *mysql.Error
	if pe := (*backend.ErrPrefix)(nil); errors.As(err, &pe) {
		return mysql.Errorf(pe.Err.Code, "shard %s (node %s): %s", p.shard, p.node.Name(), p.logical(pe.Err).Message)
	}
	if errors.As(err, &e) {
		return p.logical(e)
	}
	var se *mysql.SocketError
	if errors.As(err, &se) && se.Side == mysql.ClientSide {
		return err
	}
	return fmt.Errorf("shard %s (node %s): %w", p.shard, p.node.Name(), err)
}
