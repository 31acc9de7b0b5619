package proxy

import (
	"errors"
	"io"
	"strings"

	"braid/internal/mysql"
	"braid/router"
)

// maintenanceRowsMax bounds what one shard says of the tables of an ANALYZE or
// OPTIMIZE TABLE.
const maintenanceRowsMax = 1 << 16

// maintain runs ANALYZE, OPTIMIZE or REPAIR TABLE on every shard, one after the
// other, and answers with what they say: once what all say, and with the shard's
// name what one says alone.
func (s *Session) maintain(plan *router.Plan, ps *execution) error {
	r := &resultSet{}
	type line [4]string
	var order []line
	from := map[line][]string{}
	for i := range s.route.Targets {
		t := &s.route.Targets[i]
		p := s.place(plan, t.Shard)
		columns, rows, err := s.maintainOn(plan, &p, t)
		if err != nil {
			return s.failed1(plan, err)
		}
		r.columns = columns
		for _, row := range rows {
			var l line
			if len(row) != len(l) {
				return s.failed1(plan, mysql.ErrMalformed)
			}
			copy(l[:], row)
			l[0] = p.database + strings.TrimPrefix(l[0], p.schema)
			if from[l] == nil {
				order = append(order, l)
			}
			from[l] = append(from[l], p.shard)
		}
	}
	for _, l := range order {
		if n := len(from[l]); n < len(s.route.Targets) {
			l[3] += " (shard " + strings.Join(from[l], ", ") + ")"
		}
		r.add(l[:]...)
	}
	return s.writeResult(r, ps != nil)
}

// maintainOn runs the statement on one shard and returns its answer.
func (s *Session) maintainOn(plan *router.Plan, p *place, t *router.Target) (columns []mysql.Column, lines [][]string, err error) {
	c, err := s.take(plan, p)
	if err != nil {
		return nil, nil, p.shardError(err)
	}
	need := s.need(plan, p)
	if err := s.sendOnly(c, &need, plan, t, nil); err != nil {
		return nil, nil, s.broken(c, plan, p, err)
	}
	first, err := c.First()
	if err != nil {
		return nil, nil, s.broken(c, plan, p, err)
	}
	if first[0] == 0xff {
		e := mysql.ParseError(first)
		s.drop(c)
		c.Release()
		return nil, nil, p.shardError(e)
	}
	rows, err := c.ReadRows(first, false)
	if err != nil {
		return nil, nil, s.broken(c, plan, p, err)
	}
	for {
		row, err := rows.Next()
		if err == io.EOF {
			break
		}
		if err != nil || len(lines) == maintenanceRowsMax {
			return nil, nil, s.broken(c, plan, p, errors.Join(mysql.ErrMalformed, err))
		}
		var l []string
		for len(row) > 0 {
			v, _, n := mysql.LenEncString(row)
			if n == 0 {
				return nil, nil, s.broken(c, plan, p, mysql.ErrMalformed)
			}
			l, row = append(l, string(v)), row[n:]
		}
		lines = append(lines, l)
	}
	s.done(c, plan, &rows.End)
	return rows.Columns(), lines, nil
}
