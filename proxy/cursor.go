package proxy

import (
	"encoding/binary"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"braid/internal/mysql"
	"braid/router"
)

// cursor is an open server-side cursor of a prepared statement. As MySQL's it is
// a copy: the whole result was read when it was opened, so that nothing that
// happens meanwhile changes it, and no node waits for the client.
type cursor struct {
	rows *mysql.Conn // over a spool: the packets of the rows and of their end
}

func (c *cursor) close() { _ = c.rows.Close() }

// closeCursor ends the statement's cursor, if it has one.
func (ps *prepared) closeCursor() {
	if ps.cursor != nil {
		ps.cursor.close()
		ps.cursor = nil
	}
}

// cursorRowMax bounds one row of a cursor: what a packet may hold at all.
const cursorRowMax = 1<<30 + 1<<20

// openCursor carries out an execution with its answer kept back, and tells the
// client that a cursor is open, or what went wrong.
func (s *Session) openCursor(plan *router.Plan, q *router.Query, ex *execution) error {
	client := s.c
	kept := mysql.NewConn(&spool{}, mysql.ClientSide, cursorRowMax)
	s.c, s.told = kept, nil
	err := s.execute(plan, q, ex)
	if err == nil {
		err = kept.Flush()
	}
	s.c = client
	told := s.told
	s.told = nil
	if err == nil && told == nil {
		if err = s.announceCursor(ex.ps, kept); err == nil {
			return nil
		}
	}
	_ = kept.Close()
	if err != nil {
		return err
	}
	return s.writeError(told)
}

// announceCursor passes the columns of a kept answer on; its rows become the
// statement's cursor.
func (s *Session) announceCursor(ps *prepared, kept *mysql.Conn) error {
	kept.ResetSeq()
	head, err := kept.ReadPacket()
	if err != nil {
		return err
	}
	n, _, k := mysql.LenEncInt(head)
	if k == 0 || n == 0 {
		return mysql.ErrMalformed
	}
	if err := s.c.WritePacket(head); err != nil {
		return err
	}
	if s.bare {
		n = 0 // they were left out when it was written
	}
	for range n {
		def, err := kept.ReadPacket()
		if err != nil {
			return err
		}
		if err := s.c.WritePacket(def); err != nil {
			return err
		}
	}
	if !s.deprecateEOF() {
		if _, err := kept.ReadPacket(); err != nil {
			return err
		}
	}
	ps.cursor = &cursor{rows: kept}
	return s.end(s.status(0)|gomysql.SERVER_STATUS_CURSOR_EXISTS, s.warned)
}

// comFetch answers COM_STMT_FETCH: so many rows of a cursor.
func (s *Session) comFetch(payload []byte) error {
	id := stmtID(payload)
	ps := s.stmt(id)
	if ps == nil && (len(payload) >= 8 || s.mariadb()) {
		return s.fail(s.unknownStmt(id, "mysqld_stmt_fetch"))
	}
	if len(payload) < 8 {
		return s.fail(mysql.Errorf(gomysql.ER_MALFORMED_PACKET, "Malformed communication packet"))
	}
	if ps.cursor == nil {
		return s.fail(mysql.Errorf(1421, "The statement (%d) has no open cursor.", id))
	}
	status := s.status(0) | gomysql.SERVER_STATUS_CURSOR_EXISTS
	for n := binary.LittleEndian.Uint32(payload[4:]); n > 0; n-- {
		row, err := ps.cursor.rows.ReadPacket()
		if err != nil {
			return err
		}
		if len(row) == 0 {
			return mysql.ErrMalformed
		}
		if row[0] == 0xfe && len(row) < mysql.PacketMax {
			ps.closeCursor()
			status = s.status(0) | gomysql.SERVER_STATUS_LAST_ROW_SEND
			break
		}
		if err := s.c.WritePacket(row); err != nil {
			return err
		}
	}
	s.warnings, s.warned, s.errored = s.warnings[:0], 0, 0
	return s.end(status, 0)
}
