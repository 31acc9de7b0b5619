package proxy

import (
	"strings"

	"braid/backend"
	"braid/internal/mysql"
	"braid/router"
)

// fill carries out CREATE TABLE ... SELECT over several shards: a node tells the
// columns of the table, which is made like any other and then filled by INSERT ...
// SELECT. Where that fails the table is dropped again.
func (s *Session) fill(plan *router.Plan) error {
	x := plan.Local.Fill
	if s.locks() {
		return s.fail(mysql.Errorf(1235, "This version of Braid doesn't yet support 'CREATE TABLE ... SELECT over several shards under LOCK TABLES'"))
	}
	if err := s.commitOpen(); err != nil {
		return s.failErr(err)
	}
	name := ident(plan.Database) + "." + ident(x.Table)
	if x.Exists {
		lenient := ""
		if x.IfNotExists {
			lenient = "IF NOT EXISTS "
		}
		a, err := s.carryOut("CREATE TABLE "+lenient+name+" (x INT)", s.vars)
		if err != nil {
			return s.failErr(err)
		}
		return s.writeOK(&a.ok)
	}
	definition, columns, err := s.filledColumns(plan)
	if err != nil {
		return s.failErr(err)
	}
	if _, err := s.carryOut("CREATE TABLE "+name+definition+x.Hints, s.vars); err != nil {
		return s.failErr(err)
	}
	a, err := s.carryOut(x.Verb+" INTO "+name+" ("+identList(columns)+") "+x.Select, s.vars)
	if err == nil {
		err = s.commitOpen() // without autocommit it is open still
	}
	if err != nil {
		s.rollbackOpen()
		return s.failErr(s.unfill(name, err))
	}
	return s.writeOK(&a.ok)
}

// unfill drops the table that could not be filled because of cause, and returns
// what the client is told.
func (s *Session) unfill(name string, cause error) error {
	s.mu.Lock()
	s.mu.stopped = nil // what stopped the INSERT is not to stop this
	s.mu.Unlock()
	warnings, warned, errored := s.warnings, s.warned, s.errored
	if _, err := s.carryOut("DROP TABLE "+name, s.vars); err != nil {
		e := s.clientError(cause)
		return &mysql.Error{Code: e.Code, State: e.State, Message: e.Message + " (the table stays, empty: dropping it failed: " + err.Error() + ")"}
	}
	s.warnings, s.warned, s.errored = warnings, warned, errored
	return cause
}

// filledColumns asks a node for the new table's definition, which is what stands
// behind its name in CREATE TABLE, and for the names of the columns that the
// SELECT fills.
func (s *Session) filledColumns(plan *router.Plan) (definition string, columns []string, err error) {
	x := plan.Local.Fill
	for _, engine := range []string{"default_storage_engine", "default_tmp_storage_engine", "storage_engine"} {
		if _, set := s.vars.Get(engine); set {
			return "", nil, mysql.Errorf(1235, "This version of Braid doesn't yet support 'CREATE TABLE ... SELECT over several shards under SET %s'", engine)
		}
	}
	read := func(c *backend.Conn, need *backend.Need) error {
		rows, err := c.Query("SHOW CREATE TABLE "+ident(x.Table), 1)
		if err != nil {
			return err
		}
		_, rest, ok := strings.Cut(string(rows[0][1]), " (\n")
		if !ok {
			return mysql.ErrMalformed
		}
		definition = " (" + rest
		st, err := c.Prepare(need, []byte(x.Empty))
		if err != nil {
			return err
		}
		for i := range st.Columns {
			columns = append(columns, st.Columns[i].Name)
		}
		return c.Forget(st)
	}
	p := s.place(plan, x.Shard)
	err = s.onPlace(&p, func(c *backend.Conn, need *backend.Need) error {
		need.Autocommit = true
		if err := c.Bring(need); err != nil {
			return err
		}
		if _, err := c.Exec(x.Trial); err != nil {
			return err
		}
		c.Tainted = true // until the temporary table is gone
		err := read(c, need)
		if backend.IsLost(err) {
			return err
		}
		if _, e := c.Exec("DROP TEMPORARY TABLE " + ident(x.Table)); e != nil {
			return e
		}
		c.Tainted = false
		return err
	})
	if err == nil && !portable(definition) && !s.plainNames() {
		err = mysql.Errorf(1235, "This version of Braid doesn't yet support 'CREATE TABLE ... SELECT over several shards with names or texts that the client's character set has no words for'")
	}
	return definition, columns, err
}

// portable tells whether a text is the same in all character sets.
func portable(text string) bool {
	for i := range len(text) {
		if text[i] >= 0x80 {
			return false
		}
	}
	return true
}

// plainNames tells whether what nodes answer is in the character set in which
// statements are read.
func (s *Session) plainNames() bool {
	_, results := s.vars.Get("character_set_results")
	return !results && (s.charset == "utf8mb4" || s.charset == "utf8mb3")
}
