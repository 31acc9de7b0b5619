package proxy

import (
	"slices"

	"braid/backend"
	"braid/internal/mysql"
	"braid/router"
)

// afterwards notes what the session remembers of a statement that went well,
// asking the connection while it is still ours (rule D7).
func (s *Session) afterwards(c *backend.Conn, plan *router.Plan, p *place, r *relayed) error {
	s.newWarnings(nil, plan.Opens() || plan.Handler != nil || r.ok.Warnings > 0)
	switch {
	case !r.set:
		s.wrote(plan, &r.ok)
	case plan.Verb == "INSERT", plan.Verb == "REPLACE", plan.Verb == "DELETE", plan.Handler != nil:
		s.facts.RowCount = -1
	default:
		s.facts.RowCount, s.facts.FoundRows = -1, r.rows
	}
	if r.ok.Warnings > 0 {
		rows, err := c.Query(showWarnings, warningsMax)
		if err != nil {
			return err
		}
		s.addWarnings(rows, p)
		s.warned = r.ok.Warnings
	}
	if plan.Load != nil {
		if err := s.loadVariables(c, plan.Load, true); err != nil {
			return err
		}
	}
	if plan.FoundRows {
		rows, err := c.Query(foundRows, 1)
		if err != nil {
			return err
		}
		s.facts.FoundRows = parseUint(rows[0][0])
	}
	if plan.SetsID {
		rows, err := c.Query("SELECT LAST_INSERT_ID() LIMIT 1", 1)
		if err != nil {
			return err
		}
		s.facts.LastInsertID = parseUint(rows[0][0])
	}
	if r.ok.InsertID != 0 && (plan.IDs == nil || plan.AutoIncrement) {
		if plan.GeneratesID {
			s.facts.LastInsertID = r.ok.InsertID
		} else {
			rows, err := c.Query("SELECT LAST_INSERT_ID() LIMIT 1", 1)
			if err != nil {
				return err
			}
			if id := parseUint(rows[0][0]); id != 0 {
				s.facts.LastInsertID = id
			}
		}
	}
	return nil
}

// wrote notes the rows of a statement without an answer of rows. FOUND_ROWS()
// stays what it was, with RETURNING too, except behind SELECT ... INTO,
// INSERT ... SELECT and, on MySQL, UPDATE and DO.
func (s *Session) wrote(plan *router.Plan, ok *mysql.OK) {
	s.facts.RowCount = int64(ok.AffectedRows)
	switch {
	case len(plan.Into) > 0:
		s.facts.FoundRows = ok.AffectedRows
	case plan.SelectsNone && s.mariadb():
		s.facts.FoundRows = 0
	case plan.Selects:
		var info infoSum
		info.add(ok.Info)
		s.facts.FoundRows = info.first
	case plan.Verb == "DO" && !s.mariadb():
		s.facts.FoundRows = 1
	case plan.Verb == "UPDATE" && !s.mariadb():
		var info infoSum
		if info.add(ok.Info); info.matched {
			s.facts.FoundRows = info.first
		}
	}
}

// keepAssigned takes over the user variables that a statement assigned, while
// its connection is still ours.
func (s *Session) keepAssigned(c *backend.Conn, plan *router.Plan) error {
	if len(plan.Assigns) == 0 {
		return nil
	}
	names := make([]string, len(plan.Assigns))
	for i, v := range plan.Assigns {
		names[i] = userName(v)
	}
	c.Tainted = c.Tainted || !s.isPinned(c)
	got, err := readUserVariables(c, names)
	if err != nil {
		return err
	}
	has := c.Vars().With(got...)
	s.setVars(s.vars.With(got...))
	if has.Equal(s.vars) {
		has = s.vars
	}
	c.SetVars(has)
	c.Tainted = s.isPinned(c)
	return nil
}

// addWarnings takes rows of a SHOW WARNINGS at p over. How many were left out is
// returned.
func (s *Session) addWarnings(rows [][][]byte, p *place) (left int) {
	n := len(s.warnings)
	s.warnings = p.warnings(s.warnings, rows)
	return len(rows) - (len(s.warnings) - n)
}

// warnings appends rows of a SHOW WARNINGS at p to list. What the servers say of
// the text itself each shard says: it is taken once.
func (p *place) warnings(list []warning, rows [][][]byte) []warning {
	for _, r := range rows {
		if len(r) < 3 {
			continue
		}
		code := uint16(parseUint(r[1]))
		w := warning{string(r[0]), code, logicalText(code, string(r[2]), p.schema, p.database)}
		if !ofText(code) || !slices.Contains(list, w) {
			list = append(list, w)
		}
	}
	return list
}
