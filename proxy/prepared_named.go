package proxy

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"strconv"
	"strings"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"braid/backend"
	"braid/internal/mysql"
	"braid/router"
)

// userVariable is a user variable's name as SQL text.
func userVariable(name string) string { return "@`" + strings.ReplaceAll(name, "`", "``") + "`" }

// prepareNamed is PREPARE name FROM 'text' or @variable.
func (s *Session) prepareNamed(l *router.Local) error {
	text := l.From
	if name, ok := strings.CutPrefix(l.From, "@"); ok {
		got, err := s.ask("SELECT " + userVariable(name))
		if err != nil {
			return s.failErr(err)
		}
		if text = got[0].text; !got[0].set {
			text = "NULL"
		}
	}
	s.forgetNamed(l.Name)
	if err := s.takePrepared(); err != nil {
		return s.failErr(err)
	}
	ps := &prepared{text: []byte(text)}
	d, err := s.describe(ps)
	if err != nil {
		s.srv.prepared.Add(-1)
		return s.failErr(err)
	}
	ps.params = len(d.params)
	if s.named == nil {
		s.named = map[string]*prepared{}
	}
	s.named[strings.ToLower(l.Name)] = ps
	s.trackChange()
	s.newWarnings(d.warnings, d.tables)
	s.facts.RowCount = 0
	return s.writeOK(&mysql.OK{Info: "Statement prepared", Warnings: uint16(len(d.warnings))})
}

// executeNamed is EXECUTE name USING @a, @b. The values of the variables decide
// where it goes; there it is prepared and executed by SQL too, so that names and
// types are the server's own. What Braid carries out itself gets the values as
// literals.
func (s *Session) executeNamed(l *router.Local) error {
	ps := s.named[strings.ToLower(l.Name)]
	if ps == nil {
		return s.fail(mysql.Errorf(1243, "Unknown prepared statement handler (%s) given to EXECUTE", l.Name))
	}
	if len(l.Using) != ps.params {
		return s.fail(mysql.Errorf(gomysql.ER_WRONG_ARGUMENTS, "Incorrect arguments to EXECUTE"))
	}
	ex := &s.exec
	ex.ps, ex.raw, ex.named, ex.using = ps, nil, true, ex.using[:0]
	for _, name := range l.Using {
		ex.using = append(ex.using, userVariable(strings.ToLower(name)))
	}
	var err error
	if ex.vals, err = s.variableParams(ex.using); err != nil {
		return s.failErr(err)
	}
	q := &s.query
	q.Text, q.Prepared, q.Params = ps.text, true, ex.vals
	s.fillQuery(q)
	plan, err := s.plan(q)
	if err != nil {
		return s.planFailed(q, err)
	}
	if plan.Kind != router.KindLocal && (plan.DDL == nil || plan.DDL.Temporary) {
		return s.execute(plan, q, ex)
	}
	if plan.Local != nil && (plan.Local.Op == router.OpPrepare || plan.Local.Op == router.OpExecute || plan.Local.Op == router.OpDeallocate) {
		return s.fail(mysql.Errorf(gomysql.ER_UNSUPPORTED_PS, "This command is not supported in the prepared statement protocol yet"))
	}
	values := make([]string, len(l.Using))
	for i, name := range l.Using {
		v, ok := s.vars.Get("@" + strings.ToLower(name))
		if !ok {
			v = "NULL"
		}
		values[i] = v
	}
	text, err := router.Substitute(ps.text, s.mode, s.charset, values)
	if err != nil {
		return s.failErr(err)
	}
	return s.statement(text)
}

// variableParams asks a node for the types and values of user variables, as
// parameters of a prepared statement.
func (s *Session) variableParams(names []string) ([]router.Param, error) {
	if len(names) == 0 {
		return nil, nil
	}
	p, err := s.home()
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	for i, name := range names {
		if i == 0 {
			b.WriteString("SELECT ")
		} else {
			b.WriteString(",")
		}
		fmt.Fprintf(&b, "%[1]s,HEX(%[1]s),HEX(CONVERT(%[1]s USING %[2]s))", name, s.charset)
	}
	a, err := s.forward(&p, []byte(b.String()), nil)
	if err != nil {
		return nil, err
	}
	if len(a.rows) != 1 || len(a.columns) != 3*len(names) {
		return nil, mysql.ErrMalformed
	}
	params := make([]router.Param, len(names))
	for i := range names {
		if params[i], err = variableParam(&a.columns[3*i], a.rows[0][3*i:3*i+3]); err != nil {
			return nil, err
		}
	}
	return params, nil
}

// variableParam makes a parameter of a user variable: its value as text, its
// bytes in hexadecimal, and those in the client's character set.
func variableParam(c *mysql.Column, v []nodeValue) (router.Param, error) {
	p := router.Param{Type: c.Type, Unsigned: c.Flags&gomysql.UNSIGNED_FLAG != 0, Null: v[0] == nil}
	if p.Null {
		return p, nil
	}
	shown := string(v[0])
	var err error
	switch c.Type {
	case gomysql.MYSQL_TYPE_LONGLONG, gomysql.MYSQL_TYPE_LONG:
		p.Type = gomysql.MYSQL_TYPE_LONGLONG
		var n uint64
		if strings.HasPrefix(shown, "-") {
			var signed int64
			signed, err = strconv.ParseInt(shown, 10, 64)
			n = uint64(signed)
		} else {
			n, err = strconv.ParseUint(shown, 10, 64)
		}
		p.Value = binary.LittleEndian.AppendUint64(nil, n)
	case gomysql.MYSQL_TYPE_DOUBLE:
		var x float64
		x, err = strconv.ParseFloat(shown, 64)
		p.Value = binary.LittleEndian.AppendUint64(nil, math.Float64bits(x))
	case gomysql.MYSQL_TYPE_NEWDECIMAL:
		p.Value = []byte(shown)
	default:
		digits := v[2]
		p.Type = gomysql.MYSQL_TYPE_VAR_STRING
		if c.Charset == 63 {
			p.Type, digits = gomysql.MYSQL_TYPE_BLOB, v[1]
		}
		p.Value, err = hex.DecodeString(string(digits))
	}
	return p, err
}

// namedPrefix begins the names that Braid uses on a node's connection.
const namedPrefix = "braid_"

// sendNamed sends an execution by SQL. The text travels in a user variable,
// byte by byte; the client's variables are on the connection as the session has
// them.
func (s *Session) sendNamed(c *backend.Conn, need *backend.Need, t *router.Target, ps *execution) error {
	if err := c.Bring(need); err != nil {
		return err
	}
	set := fmt.Appendf(nil, "SET @%stext=CONVERT(x'%x' USING %s)", namedPrefix, t.Text, s.charset)
	var using []string
	for i, ref := range t.Params {
		if ref.Index >= 0 {
			using = append(using, ps.using[ref.Index])
			continue
		}
		name := "@" + namedPrefix + strconv.Itoa(i)
		set = fmt.Appendf(set, ",%s=%d", name, ref.Value)
		using = append(using, name)
	}
	if t.Params == nil {
		using = ps.using
	}
	if err := c.Queue(string(set)); err != nil {
		return err
	}
	if err := c.Queue("PREPARE " + namedPrefix + "p FROM @" + namedPrefix + "text"); err != nil {
		return err
	}
	text := "EXECUTE " + namedPrefix + "p"
	if len(using) > 0 {
		text += " USING " + strings.Join(using, ",")
	}
	return c.Send(need, gomysql.COM_QUERY, []byte(text))
}

func (s *Session) deallocate(l *router.Local) error {
	if s.named[strings.ToLower(l.Name)] == nil {
		return s.fail(mysql.Errorf(1243, "Unknown prepared statement handler (%s) given to DEALLOCATE PREPARE", l.Name))
	}
	s.forgetNamed(l.Name)
	s.trackChange()
	return s.okNothing()
}

// forgetNamed drops the statement of that name, if there is one.
func (s *Session) forgetNamed(name string) {
	name = strings.ToLower(name)
	if s.named[name] != nil {
		delete(s.named, name)
		s.srv.prepared.Add(-1)
	}
}
