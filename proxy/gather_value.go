package proxy

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"braid/backend"
	"braid/internal/mysql"
)

// appendDouble appends an eight-byte double as a literal that reads back as the
// same double.
func appendDouble(b, v []byte) []byte {
	b = strconv.AppendFloat(b, math.Float64frombits(binary.LittleEndian.Uint64(v)), 'e', -1, 64)
	return b
}

// appendTemporal appends a date or time in binary-protocol form as a literal.
func appendTemporal(b []byte, typ byte, v []byte) ([]byte, error) {
	if typ == gomysql.MYSQL_TYPE_TIME {
		switch len(v) {
		case 0:
			return append(b, "'00:00:00'"...), nil
		case 8, 12:
		default:
			return b, mysql.ErrMalformed
		}
		sign := ""
		if v[0] == 1 {
			sign = "-"
		}
		hours := binary.LittleEndian.Uint32(v[1:])*24 + uint32(v[5])
		b = fmt.Appendf(b, "'%s%02d:%02d:%02d", sign, hours, v[6], v[7])
		if len(v) == 12 {
			b = fmt.Appendf(b, ".%06d", binary.LittleEndian.Uint32(v[8:]))
		}
		return append(b, '\''), nil
	}
	switch len(v) {
	case 0:
		return append(b, "'0000-00-00'"...), nil
	case 4, 7, 11:
	default:
		return b, mysql.ErrMalformed
	}
	b = fmt.Appendf(b, "'%04d-%02d-%02d", binary.LittleEndian.Uint16(v), v[2], v[3])
	if len(v) > 4 {
		b = fmt.Appendf(b, " %02d:%02d:%02d", v[4], v[5], v[6])
	}
	if len(v) == 11 {
		b = fmt.Appendf(b, ".%06d", binary.LittleEndian.Uint32(v[7:]))
	}
	return append(b, '\''), nil
}

// answer runs the statement over the copies and relays its answer.
func (g *gathering) answer() error {
	s, c, p := g.s, g.scratch, &g.p
	need := backend.Need{Schema: scratchSchema, Vars: s.varsFor(g.plan), Autocommit: true}
	fail := func(err error) error {
		stopped := s.drop(c)
		c.Destroy()
		if stopped != nil {
			return s.fail(stopped)
		}
		var e *mysql.Error
		if errors.As(err, &e) && e.Code == gomysql.ER_CANT_REOPEN_TABLE {
			err = mysql.Errorf(1235, "This version of Braid doesn't yet support 'a common table expression that is used twice, where the rows of several shards have to meet'")
		}
		return s.failErr(p.shardError(err))
	}
	err := s.sendOnly(c, &need, g.plan, g.target(), g.ps)
	var first []byte
	if err == nil {
		first, err = c.First()
	}
	if err != nil {
		return fail(err)
	}
	r, err := s.relay(c, first, p, g.plan)
	if err != nil {
		return fail(err)
	}
	if r.err == nil {
		if err := s.afterwards(c, g.plan, p, &r); err != nil {
			return fail(err)
		}
	}
	if err := s.keepAssigned(c, g.plan); err != nil { // also after an error
		return fail(err)
	}
	if r.err != nil {
		return fail(r.err)
	}
	s.drop(c)
	c.Destroy()
	return s.writeEnd(r.ok.Status, r.ok.Warnings)
}
