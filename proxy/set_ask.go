package proxy

import (
	"errors"
	"strings"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"braid/backend"
	"braid/internal/mysql"
	"braid/router"
)

// The part of SET that a node has to be asked for: values that only it can tell.

// askFor adds an assignment to what a node is asked. left is its left side.
func (j *setJob) askFor(name, left string, x *router.Set) error {
	text := x.Text
	if !x.Literal {
		e, err := j.s.expression(text)
		if err != nil {
			return err
		}
		text = e.text
		if e.plan != nil {
			if j.plan != nil && (j.at.node != e.at.node || j.at.schema != e.at.schema) {
				return mysql.Errorf(1235, "This version of Braid doesn't yet support 'SET of values from several shards'")
			}
			j.plan, j.at = e.plan, e.at
		}
		for _, v := range e.assigns {
			j.asked = append(j.asked, asked{name: v})
		}
	}
	j.pieces = append(j.pieces, left+"="+text)
	a := asked{name: name}
	if name[0] != '@' {
		a.key = j.key(x)
	}
	j.asked = append(j.asked, a)
	return nil
}

// expression is a value in SET that is no literal.
type expression struct {
	text    string
	assigns []string     // user variables that it assigns itself, "@a"
	plan    *router.Plan // when it reads tables
	at      place        // then: where they are
}

// expression finds what a node is to be sent for a value: the router replaces
// what is the session's own, and knows on which shard the tables are.
func (s *Session) expression(text string) (expression, error) {
	const head, tail = "SELECT (", ") AS `braid_value`"
	q := &router.Query{Text: []byte(head + text + tail)}
	s.fillQuery(q)
	plan, err := s.router().Plan(q)
	if err != nil {
		return expression{}, err
	}
	if plan.Kind == router.KindRefuse {
		return expression{}, plan.Err
	}
	if plan.UserLocks {
		return expression{}, mysql.Errorf(1235, "This version of Braid doesn't yet support 'GET_LOCK() and its like in SET': SELECT ... INTO does it")
	}
	var route router.Route
	if err := plan.Bind(q, &route); err != nil {
		return expression{}, err
	}
	if err := s.temporaryHere(plan, &route); err != nil {
		return expression{}, err
	}
	if len(route.Targets) != 1 {
		return expression{}, mysql.Errorf(1235, "This version of Braid doesn't yet support 'SET of a value from several shards'")
	}
	out := string(route.Targets[0].Text)
	if !strings.HasPrefix(out, head) || !strings.HasSuffix(out, tail) {
		return expression{}, mysql.Errorf(1235, "This version of Braid doesn't yet support 'SET of this expression'")
	}
	e := expression{text: "(" + out[len(head):len(out)-len(tail)] + ")"}
	for _, v := range plan.Assigns {
		e.assigns = append(e.assigns, userName(v))
	}
	if !plan.NoTables {
		e.plan, e.at = plan, s.place(plan, route.Targets[0].Shard)
	}
	return e, nil
}

// ask lets a node carry the assignments out and reads the values back.
func (j *setJob) ask() error {
	work := func(c *backend.Conn) error {
		c.Tainted = true // its variables are no longer those it was given
		ok, err := c.Exec("SET " + strings.Join(j.pieces, ","))
		var e *mysql.Error
		if errors.As(err, &e) && !isPrefix(err) && !backend.IsLost(err) {
			return j.notSet(c, e)
		}
		if err != nil {
			return err
		}
		if ok.Warnings > 0 {
			rows, err := c.Query(showWarnings, warningsMax)
			if err != nil {
				return err
			}
			for _, r := range rows {
				j.warnings = append(j.warnings, warning{string(r[0]), uint16(parseUint(r[1])), string(r[2])})
			}
		}
		return j.readBack(c, ok.Warnings == 0)
	}
	if j.plan != nil {
		return j.s.onShard(j.plan, &j.at, work)
	}
	return j.s.onNode(work)
}

// notSet keeps what a SET that was refused leaves behind: a user variable that
// was not there before has a type now, and an expression may have assigned others.
func (j *setJob) notSet(c *backend.Conn, refused *mysql.Error) error {
	var users []string
	for _, a := range j.asked {
		if a.name[0] == '@' && a.name != autocommitAsked {
			users = append(users, a.name)
		}
	}
	got, err := readUserVariables(c, users)
	if err != nil {
		return err
	}
	c.SetVars(j.s.vars.With(got...))
	c.Tainted = j.s.isPinned(c)
	if len(got) > 0 {
		j.s.setVars(c.Vars())
	}
	return refused
}

// pairOf are the two variables of which each follows the other, nil for a name
// that is neither.
func pairOf(name string) []string {
	switch name {
	case "character_set_connection", "collation_connection":
		return []string{"character_set_connection", "collation_connection"}
	case "character_set_server", "collation_server":
		return []string{"character_set_server", "collation_server"}
	}
	return nil
}

// readBack reads what the variables asked for have become. sure says that
// their literals may be remembered.
func (j *setJob) readBack(c *backend.Conn, sure bool) error {
	var users, systems []string
	for _, a := range j.asked {
		switch {
		case a.name[0] == '@':
			users = append(users, a.name)
		default:
			systems = append(systems, a.name)
			systems = append(systems, pairOf(a.name)...)
		}
	}
	got, err := readUserVariables(c, users)
	if err != nil {
		return err
	}
	read, err := readVariables(c, systems, j.s.mariadb())
	if err != nil {
		return err
	}
	has := j.vars.With(got...) // what the connection has
	for _, v := range read {
		if v.Name != "last_insert_id" && v.Name != "identity" {
			has = has.With(v)
		}
	}
	for _, v := range got {
		if v.Name == autocommitAsked {
			on, ok := isOn(unquote(v.Value))
			if !ok {
				return mysql.Errorf(1231, "Variable 'autocommit' can't be set to the value of '%s'", v.Value)
			}
			j.autocommit = on
			continue
		}
		j.vars = j.vars.With(v)
	}
	for _, v := range read {
		if err := j.assign(v.Name, v.Value); err != nil {
			return err
		}
	}
	if sure {
		for _, a := range j.asked {
			if a.key == (setKey{}) || pairOf(a.name) != nil {
				continue
			}
			for _, v := range read {
				if v.Name == a.name {
					j.s.srv.sets.put(a.key, v.Value)
				}
			}
		}
	}
	c.SetVars(has)
	c.Tainted = j.s.isPinned(c)
	return nil
}

// readVariables reads session variables, named as Vars does, as SQL literals.
func readVariables(c *backend.Conn, names []string, mariadb bool) ([]backend.Var, error) {
	if len(names) == 0 {
		return nil, nil
	}
	list := make([]string, len(names))
	for i, n := range names {
		list[i] = "@@SESSION." + backend.WireName(n, mariadb)
	}
	columns, rows, err := c.QueryColumns("SELECT "+strings.Join(list, ",")+" LIMIT 1", 1)
	if err != nil {
		return nil, err
	}
	if len(rows) != 1 || len(rows[0]) != len(names) {
		return nil, mysql.ErrMalformed
	}
	out := make([]backend.Var, len(names))
	for i, v := range rows[0] {
		out[i] = backend.Var{Name: names[i], Value: systemLiteral(&columns[i], v)}
	}
	return out, nil
}

// systemLiteral is the SQL text of a system variable's value.
func systemLiteral(col *mysql.Column, value []byte) string {
	v := string(value)
	switch {
	case value == nil:
		return "NULL"
	case numeric(value) && (col.Type < gomysql.MYSQL_TYPE_VARCHAR || col.Type == gomysql.MYSQL_TYPE_NEWDECIMAL):
		return v
	case strings.ContainsRune(v, '\\'):
		return "CONVERT(x'" + hexText(v) + "' USING utf8mb4)"
	}
	return quote(v)
}

func hexText(s string) string {
	const digits = "0123456789ABCDEF"
	b := make([]byte, 0, 2*len(s))
	for i := range len(s) {
		b = append(b, digits[s[i]>>4], digits[s[i]&15])
	}
	return string(b)
}
