package proxy

import (
	"braid/backend"
	"braid/router"
)

// bindSets gives a prepared SET the values of its parameters: a node computes
// what has any, and the outcome stands in as a literal.
func (s *Session) bindSets(sets []router.Set, ps *execution) ([]router.Set, error) {
	if ps == nil || len(ps.vals) == 0 {
		return sets, nil
	}
	bound := append([]router.Set(nil), sets...)
	vals := ps.vals
	for i := range bound {
		x := &bound[i]
		n := min(router.Parameters(x.Text, s.mode, s.charset), len(vals))
		if n == 0 {
			continue
		}
		v, err := s.evaluateWith(x.Text, vals[:n])
		if err != nil {
			return nil, err
		}
		vals = vals[n:]
		x.Text, x.Value, x.Literal = "NULL", "", true
		if v.set {
			x.Text = v.text
			if x.Literal = numeric([]byte(v.text)); x.Literal {
				x.Value = v.text
			}
		}
	}
	return bound, nil
}

// evaluateWith lets a node compute an expression with parameters, and returns a
// literal of the same type, NULL as the zero cell.
func (s *Session) evaluateWith(expression string, vals []router.Param) (cell, error) {
	p, err := s.home()
	if err != nil {
		return cell{}, err
	}
	var out cell
	err = s.onPlace(&p, func(c *backend.Conn, need *backend.Need) error {
		ex := execution{ps: &prepared{params: len(vals)}, vals: vals}
		if _, err := s.collect(c, need, &router.Target{Text: []byte("SET @braid_value=" + expression)}, &ex); err != nil {
			return err
		}
		c.Tainted = true
		got, err := readUserVariables(c, []string{"@braid_value"})
		if err != nil {
			return err
		}
		if got[0].Value != "NULL" {
			out = text(got[0].Value)
		}
		c.SetVars(s.vars.With(got...))
		c.Tainted = s.isPinned(c)
		return nil
	})
	return out, err
}
