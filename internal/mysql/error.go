package mysql

import (
	"fmt"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"
)

// Error is a MySQL error: the only kind a client ever sees.
type Error struct {
	Code    uint16 // 1064, ...
	State   string // SQLSTATE, five characters
	Message string
}

func (e *Error) Error() string {
	return fmt.Sprintf("ERROR %d (%s): %s", e.Code, e.State, e.Message)
}

// Errorf makes an Error of a code of MySQL's with the SQLSTATE that belongs to it.
func Errorf(code uint16, format string, args ...any) *Error {
	state, ok := gomysql.MySQLState[code]
	if !ok {
		switch code {
		case 3020:
			state = "2201E"
		case 3155:
			state = "22003"
		case 3156:
			state = "22018"
		default:
			state = "HY000"
		}
	}
	return &Error{Code: code, State: state, Message: fmt.Sprintf(format, args...)}
}

// ParseError decodes an ERR packet's payload (its first byte is 0xFF).
func ParseError(p []byte) *Error {
	if len(p) < 3 {
		return &Error{Code: gomysql.ER_MALFORMED_PACKET, State: "HY000", Message: "Malformed packet"}
	}
	e := &Error{Code: uint16(p[1]) | uint16(p[2])<<8, State: "HY000"}
	p = p[3:]
	if len(p) >= 6 && p[0] == '#' {
		e.State = string(p[1:6])
		p = p[6:]
	}
	e.Message = string(p)
	return e
}

// AppendError appends e as an ERR packet's payload.
func AppendError(dst []byte, e *Error) []byte {
	dst = append(dst, 0xff, byte(e.Code), byte(e.Code>>8), '#')
	state := e.State
	if len(state) != 5 {
		state = "HY000"
	}
	return append(append(dst, state...), e.Message...)
}
