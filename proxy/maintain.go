package proxy

import (
	"errors"
	"io"
	"math"
	"strings"

	"braid/backend"
	"braid/internal/mysql"
	"braid/router"
)

// maintenanceRowsMax bounds what one shard says of the tables of an ANALYZE or
// OPTIMIZE TABLE.
const maintenanceRowsMax = 1 << 16

// maintain runs ANALYZE, OPTIMIZE, REPAIR or CHECK TABLE on every shard, one after
// the other, and answers with what they say: once what all say, and with the
// shard's name what one says alone. CHECK also compares the copies of global tables.
func (s *Session) maintain(plan *router.Plan, ps *execution) error {
	switch {
	case !plan.Rows:
		return s.flushTables(plan)
	case plan.Checksum:
		return s.checksum(plan, ps)
	}
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
			for k := range row {
				l[k] = row[k].text
			}
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
	if plan.Verb == "CHECK" {
		if err := s.checkCopies(plan, r); err != nil {
			return s.failed1(plan, err)
		}
	}
	return s.writeResult(r, ps != nil)
}

// checkCopies adds to the answer of a CHECK TABLE the global tables whose copies
// are not alike.
func (s *Session) checkCopies(plan *router.Plan, r *resultSet) error {
	ctx, cancel := s.context()
	defer cancel()
	for _, t := range plan.Names {
		if t == nil || t.Kind != router.Global || t.View || t.Broken != "" {
			continue
		}
		differ, err := s.gen.copiesDiffer(ctx, s.gen.topology.Databases[plan.Database], t, s.using)
		if err != nil {
			return err
		}
		if differ != "" {
			r.add(plan.Database+"."+t.Name, "check", "error", differ)
		}
	}
	return nil
}

// using runs f on a connection outside the pool, which what stops the session's
// statement reaches meanwhile.
func (s *Session) using(c *backend.Conn, f func() error) error {
	s.hold(c)
	err := f()
	if stopped := s.drop(c); stopped != nil {
		return stopped
	}
	return err
}

// flushTables runs FLUSH TABLES on every shard.
func (s *Session) flushTables(plan *router.Plan) error {
	s.warnings = s.warnings[:0]
	for i := range s.route.Targets {
		p := s.place(plan, s.route.Targets[i].Shard)
		if _, _, err := s.ddlOn(plan, &p, &s.route.Targets[i]); err != nil {
			return s.failErr(err)
		}
	}
	return s.okNothing()
}

// checksum answers CHECKSUM TABLE. A table's checksum is the sum of its rows', so
// that of a sharded one is the sum of the shards'.
func (s *Session) checksum(plan *router.Plan, ps *execution) error {
	r := &resultSet{}
	for i := range s.route.Targets {
		t := &s.route.Targets[i]
		p := s.place(plan, t.Shard)
		columns, rows, err := s.maintainOn(plan, &p, t)
		if err == nil && len(rows) != len(plan.Names) {
			err = mysql.ErrMalformed
		}
		if err != nil {
			return s.failed1(plan, err)
		}
		for k, row := range rows {
			if len(row) != 2 {
				return s.failed1(plan, mysql.ErrMalformed)
			}
			row[0] = text(p.database + strings.TrimPrefix(row[0].text, p.schema))
			switch {
			case i == 0:
				r.rows = append(r.rows, row)
			case plan.Names[k] != nil && plan.Names[k].Kind == router.Sharded && row[1].set && r.rows[k][1].set:
				a, b := parseUint([]byte(r.rows[k][1].text)), parseUint([]byte(row[1].text))
				r.rows[k][1] = count((a + b) & math.MaxUint32)
			case plan.Names[k] != nil && plan.Names[k].Kind == router.Sharded:
				r.rows[k][1] = cell{}
			}
		}
		r.columns = columns
	}
	return s.writeResult(r, ps != nil)
}

// maintainOn runs the statement on one shard and returns its answer.
func (s *Session) maintainOn(plan *router.Plan, p *place, t *router.Target) (columns []mysql.Column, lines [][]cell, err error) {
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
		var l []cell
		for len(row) > 0 {
			v, null, n := mysql.LenEncString(row)
			if n == 0 {
				return nil, nil, s.broken(c, plan, p, mysql.ErrMalformed)
			}
			l, row = append(l, cell{string(v), !null}), row[n:]
		}
		lines = append(lines, l)
	}
	s.done(c, plan, &rows.End)
	return rows.Columns(), lines, nil
}
