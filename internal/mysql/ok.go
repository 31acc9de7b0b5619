package mysql

import gomysql "github.com/go-mysql-org/go-mysql/mysql"

// OK is an OK packet, or the OK that ends a result set (header 0xFE) under
// CLIENT_DEPRECATE_EOF.
type OK struct {
	AffectedRows uint64
	InsertID     uint64
	Status       uint16 // SERVER_STATUS_*
	Warnings     uint16
	Info         string // "Records: 3  Duplicates: 0  Warnings: 0"
	Track        []byte // session-track data, already encoded; nil when none
}

// ParseOK decodes the payload of an OK packet, whose first byte is 0x00 or
// 0xFE. track says whether CLIENT_SESSION_TRACK is in force on the connection.
func ParseOK(p []byte, track bool) (OK, error) {
	var ok OK
	if len(p) < 1 {
		return ok, ErrMalformed
	}
	p = p[1:]
	var n int
	if ok.AffectedRows, _, n = LenEncInt(p); n == 0 {
		return ok, ErrMalformed
	}
	p = p[n:]
	if ok.InsertID, _, n = LenEncInt(p); n == 0 {
		return ok, ErrMalformed
	}
	p = p[n:]
	if len(p) < 4 {
		return ok, ErrMalformed
	}
	ok.Status = uint16(p[0]) | uint16(p[1])<<8
	ok.Warnings = uint16(p[2]) | uint16(p[3])<<8
	p = p[4:]
	if len(p) == 0 {
		return ok, nil
	}
	if !track {
		// MySQL and MariaDB send the info length-encoded whenever there is one.
		if s, _, n := LenEncString(p); n == len(p) {
			ok.Info = string(s)
		} else {
			ok.Info = string(p)
		}
		return ok, nil
	}
	s, _, n := LenEncString(p)
	if n == 0 {
		return ok, ErrMalformed
	}
	ok.Info = string(s)
	p = p[n:]
	if ok.Status&gomysql.SERVER_SESSION_STATE_CHANGED != 0 && len(p) > 0 {
		if s, _, n := LenEncString(p); n > 0 {
			ok.Track = append([]byte(nil), s...)
		}
	}
	return ok, nil
}

// AppendOK appends ok as a payload with the given header byte (0x00, or 0xFE
// for the end of a result set). track says whether the receiving client has
// CLIENT_SESSION_TRACK; without it the state-changed flag is never set.
func AppendOK(dst []byte, header byte, ok *OK, track bool) []byte {
	status := ok.Status
	if !track || len(ok.Track) == 0 {
		status &^= gomysql.SERVER_SESSION_STATE_CHANGED
	} else {
		status |= gomysql.SERVER_SESSION_STATE_CHANGED
	}
	dst = append(dst, header)
	dst = AppendLenEncInt(dst, ok.AffectedRows)
	dst = AppendLenEncInt(dst, ok.InsertID)
	dst = append(dst, byte(status), byte(status>>8), byte(ok.Warnings), byte(ok.Warnings>>8))
	if ok.Info != "" || track && status&gomysql.SERVER_SESSION_STATE_CHANGED != 0 {
		dst = AppendLenEncString(dst, ok.Info)
	}
	if track && status&gomysql.SERVER_SESSION_STATE_CHANGED != 0 {
		dst = AppendLenEncString(dst, ok.Track)
	}
	return dst
}

// AppendEOF appends an EOF packet's payload.
func AppendEOF(dst []byte, status, warnings uint16) []byte {
	return append(dst, 0xfe, byte(warnings), byte(warnings>>8), byte(status), byte(status>>8))
}
