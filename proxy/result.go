package proxy

import (
	"encoding/binary"
	"strconv"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"braid/internal/mysql"
)

// resultSet is a result that Braid makes itself: small, and whole in memory.
// Values are text; integer columns are sent as numbers where the client wants
// the binary protocol.
type resultSet struct {
	columns []mysql.Column
	rows    [][]cell
}

// cell is one value; the zero cell is NULL.
type cell struct {
	text string
	set  bool
}

func text(s string) cell  { return cell{s, true} }
func number(n int64) cell { return cell{strconv.FormatInt(n, 10), true} }
func count(n uint64) cell { return cell{strconv.FormatUint(n, 10), true} }
func nullable(s string) cell {
	if s == "" {
		return cell{}
	}
	return text(s)
}

// textColumn is a VARCHAR column of at most chars characters.
func (cl *client) textColumn(name string, chars int) mysql.Column {
	return mysql.Column{Name: name, Charset: cl.chars.resultsID, Length: uint32(chars * int(cl.chars.resultsMax)), Type: gomysql.MYSQL_TYPE_VAR_STRING, Decimals: 31}
}

// writeResult answers with r in the protocol the client expects.
func (s *Session) writeResult(r *resultSet, bin bool) error {
	s.warnings, s.warned, s.errored = s.warnings[:0], 0, 0
	s.facts.RowCount, s.facts.FoundRows = -1, uint64(len(r.rows))
	return s.writeResultOnly(r, bin)
}

// writeResultOnly is writeResult for the statements that leave the session's
// memory of the statement before as it is (SHOW WARNINGS).
func (s *Session) writeResultOnly(r *resultSet, bin bool) error {
	if err := s.writeColumns(r.columns, 0); err != nil {
		return err
	}
	if err := s.rows(r, bin); err != nil {
		return err
	}
	return s.writeEnd(0, 0)
}

func appendBinaryRow(dst []byte, cols []mysql.Column, row []cell) []byte {
	dst = append(dst, 0)
	bitmap := len(dst)
	dst = append(dst, make([]byte, (len(row)+9)/8)...)
	for i, c := range row {
		if !c.set {
			dst[bitmap+(i+2)/8] |= 1 << ((i + 2) % 8)
			continue
		}
		if cols[i].Type == gomysql.MYSQL_TYPE_LONG {
			n, _ := strconv.ParseUint(c.text, 10, 32)
			dst = binary.LittleEndian.AppendUint32(dst, uint32(n))
			continue
		}
		if cols[i].Type == gomysql.MYSQL_TYPE_LONGLONG {
			n, err := strconv.ParseInt(c.text, 10, 64)
			if err != nil {
				u, _ := strconv.ParseUint(c.text, 10, 64)
				n = int64(u)
			}
			dst = binary.LittleEndian.AppendUint64(dst, uint64(n))
			continue
		}
		dst = mysql.AppendLenEncString(dst, c.text)
	}
	return dst
}
