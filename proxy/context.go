package proxy

import (
	"errors"
	"strings"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"braid/backend"
	"braid/internal/mysql"
	"braid/router"
)

// charsetInfo is what results of Braid's own are encoded in.
type charsetInfo struct {
	resultsID  uint16 // collation id
	resultsMax uint8  // bytes of a character
}

// begin makes the session a fresh one of the user who logged in.
func (s *Session) begin(login *mysql.Login) {
	s.loggedIn = login
	s.interactive.Store(login.Capabilities&gomysql.CLIENT_INTERACTIVE != 0)
	s.user, s.host = login.User, login.Host
	s.mu.Lock()
	s.mu.user, s.mu.host = login.User, login.Host
	s.mu.Unlock()
	s.fresh(login.Collation)
}

// fresh gives the session the values it starts with (also after
// COM_RESET_CONNECTION): what the handshake said of character sets, and for the
// rest what the configuration and the first node say.
func (s *Session) fresh(collation uint16) {
	s.autocommit, s.readOnly, s.isolationSet = true, false, false
	s.nextLevel, s.nextAccess, s.fence, s.bare = "", "", false, false
	s.setOwn(nil)
	s.warnings, s.warned, s.errored = nil, 0, 0
	s.facts = router.Facts{ConnectionID: s.id, User: s.user + "@" + s.host, CurrentUser: s.user + "@%", Version: s.version(), LockOwners: s.srv.lockOwners, Handler: s.openHandler}
	s.closeStatements()
	colls := s.collations()
	c, ok := colls.ByID(collation)
	if !ok {
		cs, _ := colls.Charset("utf8mb4")
		c, _ = colls.ByID(cs.Collation)
	}
	vars := []backend.Var{names(c)}
	isolation := "REPEATABLE-READ"
	if b := s.gen.anyBase(s.database); b != nil {
		isolation = b.isolation
		mode := b.defaults.sqlMode
		if s.caps&gomysql.CLIENT_IGNORE_SPACE != 0 && !strings.Contains(mode, "IGNORE_SPACE") {
			mode = strings.TrimPrefix(mode+",IGNORE_SPACE", ",")
		}
		vars = append(vars,
			backend.Var{Name: "sql_mode", Value: quote(mode)},
			backend.Var{Name: "time_zone", Value: quote(b.defaults.timeZone)})
	}
	vars = append(vars, backend.Var{Name: "transaction_isolation", Value: quote(isolation)})
	s.setVars(backend.NewVars(vars...))
}

// collations are those of the nodes' flavour.
func (s *Session) collations() mysql.Collations {
	if s.mariadb() {
		return mysql.MariaDBCollations()
	}
	return mysql.MySQLCollations()
}

// defaultCollation is that of a session of which nothing else is said: what the
// server's global variables say.
func (s *Session) defaultCollation() mysql.Collation {
	colls := s.collations()
	cs, _ := colls.Charset("utf8mb4")
	def, _ := colls.ByID(cs.Collation)
	b := s.gen.anyBase(s.database)
	if b == nil {
		return def
	}
	if c, ok := colls.ByName(b.defaults.collation); ok && c.Charset == b.defaults.clientSet {
		return c
	}
	if cs, ok := colls.Charset(b.defaults.clientSet); ok {
		def, _ = colls.ByID(cs.Collation)
	}
	return def
}

// mariadb tells whether the session's database is on MariaDB nodes.
func (s *Session) mariadb() bool {
	b := s.gen.anyBase(s.database)
	return b != nil && b.nodes[0].MariaDB()
}

// setVars makes v what the session has set, and derives from it what the
// router and Braid's own results need to know.
func (s *Session) setVars(v *backend.Vars) {
	if s.tx != nil && s.txOpt.Isolation == "" {
		if level, _ := v.Get("transaction_isolation"); unquote(level) != s.txLevel {
			s.txLevel = ""
		}
	}
	s.vars, s.reading, s.limited = v, nil, nil
	mode, _ := v.Get("sql_mode")
	s.mode = parseMode(unquote(mode))
	colls := s.collations()
	all, _ := v.Get(backend.Names)
	_, name, _ := strings.Cut(all, " COLLATE ")
	coll, ok := colls.ByName(unquote(name))
	if !ok {
		coll, _ = colls.ByID(45)
	}
	s.charset, s.connection = coll.Charset, coll.Charset
	s.chars = charsetInfo{resultsID: coll.ID, resultsMax: coll.BytesMax}
	if client, ok := v.Get("character_set_client"); ok {
		s.charset = strings.ToLower(unquote(client))
	}
	if connection, ok := v.Get("character_set_connection"); ok {
		s.connection = strings.ToLower(unquote(connection))
	}
	if results, ok := v.Get("character_set_results"); ok {
		if cs, ok := colls.Charset(unquote(results)); ok {
			s.chars = charsetInfo{resultsID: cs.Collation, resultsMax: cs.BytesMax}
		}
	}
	ro, _ := v.Get("transaction_read_only")
	s.readOnly = ro == "1" || strings.EqualFold(unquote(ro), "ON")
}

// names is what SET NAMES with that collation sets.
func names(c mysql.Collation) backend.Var {
	return backend.Var{Name: backend.Names, Value: quote(c.Charset) + " COLLATE " + quote(c.Name)}
}

// unquote is the inverse of quote.
func unquote(lit string) string {
	if len(lit) >= 2 && lit[0] == '\'' {
		return strings.ReplaceAll(lit[1:len(lit)-1], "''", "'")
	}
	return lit
}

// parseMode picks out of an sql_mode what the router's reading of text depends on.
func parseMode(mode string) router.Mode {
	var m router.Mode
	for _, w := range strings.Split(strings.ToUpper(mode), ",") {
		switch strings.TrimSpace(w) {
		case "ANSI_QUOTES":
			m |= router.ModeAnsiQuotes
		case "NO_BACKSLASH_ESCAPES":
			m |= router.ModeNoBackslashEscapes
		case "PIPES_AS_CONCAT":
			m |= router.ModePipesAsConcat
		case "HIGH_NOT_PRECEDENCE":
			m |= router.ModeHighNotPrecedence
		case "IGNORE_SPACE":
			m |= router.ModeIgnoreSpace
		case "STRICT_TRANS_TABLES", "STRICT_ALL_TABLES":
			m |= router.ModeStrict
		case "NO_AUTO_VALUE_ON_ZERO":
			m |= router.ModeNoAutoValueOnZero
		}
	}
	return m
}

// use makes db the session's database.
func (s *Session) use(db string) *mysql.Error {
	if db == "" {
		return mysql.Errorf(1046, "No database selected")
	}
	if e := s.gen.checkDatabase(s.user, s.host, db); e != nil {
		return e
	}
	s.database = db
	if b := s.gen.base[db]; b != nil && !s.isolationSet && s.tx == nil {
		if iso := quote(b.isolation); !sameVar(s.vars, "transaction_isolation", iso) {
			s.setVars(s.vars.With(backend.Var{Name: "transaction_isolation", Value: iso}))
		}
	}
	return nil
}

func sameVar(v *backend.Vars, name, value string) bool {
	have, ok := v.Get(name)
	return ok && have == value
}

// ask runs a query on a connection that is like the session and returns its
// one row.
func (s *Session) ask(query string) ([]cell, error) {
	var out []cell
	err := s.onNode(func(c *backend.Conn) error {
		rows, err := c.Query(query, 1)
		if err != nil {
			return err
		}
		for _, v := range rows[0] {
			out = append(out, cell{string(v), v != nil})
		}
		return nil
	})
	return out, err
}

// onShard gives f the connection that a statement of plan at p gets, in the
// session's context: a leg where a transaction is open.
func (s *Session) onShard(plan *router.Plan, p *place, f func(*backend.Conn) error) error {
	if err := s.ready(plan); err != nil {
		return err
	}
	c, err := s.take(plan, p)
	if err != nil {
		return p.shardError(err)
	}
	need := s.need(plan, p)
	if err = c.Bring(&need); err == nil {
		err = f(c)
	}
	var e *mysql.Error
	switch {
	case err == nil:
		s.done(c, plan, &mysql.OK{})
		return nil
	case errors.As(err, &e) && !backend.IsLost(err) && !isPrefix(err):
		return s.refused(c, plan, p, p.logical(e))
	}
	return s.broken(c, plan, p, err)
}

// onNode gives f a connection to the first shard's node in the session's
// context, outside any transaction unless the session is pinned to it.
func (s *Session) onNode(f func(*backend.Conn) error) error {
	p, err := s.home()
	if err != nil {
		return err
	}
	return s.onPlace(&p, func(c *backend.Conn, need *backend.Need) error {
		if err := c.Bring(need); err != nil {
			return err
		}
		return f(c)
	})
}
