package proxy

import (
	"fmt"
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
	s.nextLevel, s.nextAccess, s.fence = "", "", false
	s.warnings, s.warned, s.errored = nil, 0, 0
	s.facts = router.Facts{ConnectionID: s.id, User: s.user + "@" + s.host, CurrentUser: s.user + "@%", Version: s.version(), RowCount: 0}
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

// mariadb tells whether the session's database is on MariaDB nodes.
func (s *Session) mariadb() bool {
	b := s.gen.anyBase(s.database)
	return b != nil && b.nodes[0].MariaDB()
}

// setVars makes v what the session has set, and derives from it what the
// router and Braid's own results need to know.
func (s *Session) setVars(v *backend.Vars) {
	s.vars = v
	mode, _ := v.Get("sql_mode")
	s.mode = parseMode(unquote(mode))
	colls := s.collations()
	all, _ := v.Get(backend.Names)
	_, name, _ := strings.Cut(all, " COLLATE ")
	coll, ok := colls.ByName(unquote(name))
	if !ok {
		coll, _ = colls.ByID(45)
	}
	s.charset = coll.Charset
	s.chars = charsetInfo{resultsID: coll.ID, resultsMax: coll.BytesMax}
	if client, ok := v.Get("character_set_client"); ok {
		s.charset = strings.ToLower(unquote(client))
	}
	if results, ok := v.Get("character_set_results"); ok {
		if cs, ok := colls.Charset(unquote(results)); ok {
			s.chars = charsetInfo{resultsID: cs.Collation, resultsMax: cs.BytesMax}
		}
	}
	wait, _ := v.Get("wait_timeout")
	s.idleSet.Store(int64(parseUint([]byte(wait))))
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

// parseMode picks out of an sql_mode what changes how text is read.
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

// set carries out SET: all of it, or, when one assignment is refused, nothing.
func (s *Session) set(sets []router.Set) error {
	vars, isolationSet, nextLevel, fence := s.vars, s.isolationSet, s.nextLevel, s.fence
	for i := range sets {
		if err := s.setOne(&sets[i]); err != nil {
			s.setVars(vars)
			s.isolationSet, s.nextLevel, s.fence = isolationSet, nextLevel, fence
			return err
		}
	}
	for i := range sets {
		if sets[i].Scope == router.ScopeSession && sets[i].Name == "autocommit" {
			if err := s.setAutocommit(&sets[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *Session) setOne(x *router.Set) error {
	if e := refuseTracking(x); e != nil {
		return e
	}
	switch x.Scope {
	case router.ScopeGlobal, router.ScopePersist:
		if _, err := s.ask("SELECT @@global." + quoteIdentifier(x.Name)); err != nil {
			return err // there is none
		}
		return mysql.Errorf(1227, "Access denied; Braid does not change global variables of the nodes: set %s in their configuration", x.Name)
	case router.ScopeNext:
		if s.tx != nil {
			return mysql.Errorf(1568, "Transaction characteristics can't be changed while a transaction is in progress")
		}
		level := strings.ToUpper(x.Value)
		if !x.Literal || !isolationLevel(level) {
			return mysql.Errorf(1231, "Variable '%s' can't be set to the value of '%s'", x.Name, x.Value)
		}
		s.nextLevel = level
		return nil
	case router.ScopeUser:
		return s.setUser(x)
	}
	switch x.Name {
	case "names", "charset":
		return s.setNames(x)
	case "braid_read_fence":
		return s.setFence(x)
	case "autocommit":
		if _, ok := boolean(x); !ok {
			return mysql.Errorf(1231, "Variable 'autocommit' can't be set to the value of '%s'", x.Value)
		}
		return nil
	case "transaction_isolation", "tx_isolation":
		if (x.Name == "tx_isolation") != s.mariadb() {
			return mysql.Errorf(1193, "Unknown system variable '%s'", x.Name)
		}
		s.isolationSet = true
	case "tx_read_only", "transaction_read_only":
		if (x.Name == "tx_read_only") != s.mariadb() {
			return mysql.Errorf(1193, "Unknown system variable '%s'", x.Name)
		}
	case "last_insert_id", "identity":
		v, err := s.evaluate(x)
		if err != nil {
			return err
		}
		s.facts.LastInsertID = parseUint([]byte(v.text))
		return nil
	}
	return s.setVariable(x)
}

func isolationLevel(l string) bool {
	switch l {
	case "READ-UNCOMMITTED", "READ-COMMITTED", "REPEATABLE-READ", "SERIALIZABLE":
		return true
	}
	return false
}

func boolean(x *router.Set) (on, ok bool) {
	switch strings.ToUpper(x.Value) {
	case "1", "ON", "TRUE":
		return true, true
	case "0", "OFF", "FALSE":
		return false, true
	}
	if strings.EqualFold(x.Text, "DEFAULT") {
		return true, true
	}
	return false, false
}

// setAutocommit follows MySQL: switching it on commits what is open.
func (s *Session) setAutocommit(x *router.Set) error {
	on, _ := boolean(x)
	if on && !s.autocommit {
		if err := s.commitOpen(); err != nil {
			return err
		}
	}
	s.autocommit = on
	return nil
}

// setNames is SET NAMES and SET CHARACTER SET.
func (s *Session) setNames(x *router.Set) error {
	colls := s.collations()
	name := x.Value
	if strings.EqualFold(x.Text, "DEFAULT") {
		name = "utf8mb4"
	}
	cs, ok := colls.Charset(name)
	if !ok {
		return mysql.Errorf(1115, "Unknown character set: '%s'", name)
	}
	switch cs.Name {
	case "ucs2", "utf16", "utf16le", "utf32":
		return mysql.Errorf(1231, "Variable 'character_set_client' can't be set to the value of '%s'", cs.Name)
	}
	coll, _ := colls.ByID(cs.Collation)
	if x.Collate != "" {
		if coll, ok = colls.ByName(x.Collate); !ok {
			return mysql.Errorf(1273, "Unknown collation: '%s'", x.Collate)
		}
		if coll.Charset != cs.Name {
			return mysql.Errorf(1253, "COLLATION '%s' is not valid for CHARACTER SET '%s'", coll.Name, cs.Name)
		}
	}
	four := []string{"character_set_client", "character_set_connection", "character_set_results", "collation_connection"}
	if x.Name == "names" {
		s.setVars(s.vars.Without(four...).With(names(coll)))
		return nil
	}
	// SET CHARACTER SET: the connection's character set becomes the database's.
	got, err := s.ask("SELECT @@character_set_database, @@collation_database")
	if err != nil {
		return err
	}
	s.setVars(s.vars.Without(four...).With(names(coll),
		backend.Var{Name: "character_set_connection", Value: quote(got[0].text)}, backend.Var{Name: "collation_connection", Value: quote(got[1].text)}))
	return nil
}

// setVariable lets a node judge the value, and keeps what the node made of it.
// What a node made of a literal is remembered for all sessions.
func (s *Session) setVariable(x *router.Set) error {
	name := canonicalName(x.Name)
	key := setKey{name, x.Text, s.mariadb(), s.charset}
	if x.Literal {
		if v, ok := s.srv.sets.get(key); ok {
			s.setVars(s.vars.With(backend.Var{Name: name, Value: v}))
			return nil
		}
	}
	value, err := s.tryOnNode(x)
	if err != nil {
		return err
	}
	if x.Literal && !strings.EqualFold(x.Text, "DEFAULT") {
		s.srv.sets.put(key, value)
	}
	next := s.vars.With(backend.Var{Name: name, Value: value})
	if name == "character_set_connection" || name == "collation_connection" {
		// Each of the two follows the other.
		got, err := s.followers(x)
		if err != nil {
			return err
		}
		next = next.With(backend.Var{Name: "character_set_connection", Value: quote(got[0].text)}, backend.Var{Name: "collation_connection", Value: quote(got[1].text)})
	}
	s.setVars(next)
	return nil
}

// followers asks what both connection character set variables are after x.
func (s *Session) followers(x *router.Set) ([]cell, error) {
	var out []cell
	err := s.onNode(func(c *backend.Conn) error {
		if _, err := c.Exec("SET SESSION " + x.Name + "=" + x.Text); err != nil {
			return err
		}
		c.Tainted = true
		rows, err := c.Query("SELECT @@character_set_connection, @@collation_connection", 1)
		if err == nil {
			out = []cell{text(string(rows[0][0])), text(string(rows[0][1]))}
		}
		return err
	})
	return out, err
}

// tryOnNode carries the assignment out on a connection that is like the
// session, and returns the SQL text of the value it then has.
func (s *Session) tryOnNode(x *router.Set) (string, error) {
	var value string
	err := s.onNode(func(c *backend.Conn) error {
		c.Tainted = true // its variables are no longer those it was given
		name := x.Name
		if _, err := c.Exec("SET SESSION " + name + "=" + x.Text); err != nil {
			return err
		}
		rows, err := c.Query("SELECT @@SESSION."+name, 1)
		if err != nil {
			return err
		}
		v := rows[0][0]
		switch {
		case v == nil:
			value = "NULL"
		case numeric(v):
			value = string(v)
		case strings.ContainsRune(string(v), '\\'):
			return mysql.Errorf(1235, "This version of Braid doesn't yet support a backslash in the value of %s", name)
		default:
			value = quote(string(v))
		}
		c.SetVars(s.vars.With(backend.Var{Name: canonicalName(name), Value: value}))
		c.Tainted = false
		return nil
	})
	return value, err
}

// canonicalName is MySQL's name of a variable that MariaDB calls differently.
func canonicalName(name string) string {
	switch name {
	case "tx_isolation":
		return "transaction_isolation"
	case "tx_read_only":
		return "transaction_read_only"
	}
	return name
}

// numeric tells whether v is a number as system variables show them.
func numeric(v []byte) bool {
	if len(v) == 0 {
		return false
	}
	dot := false
	for i, b := range v {
		switch {
		case b >= '0' && b <= '9':
		case b == '-' && i == 0 && len(v) > 1:
		case b == '.' && !dot && i > 0:
			dot = true
		default:
			return false
		}
	}
	return true
}

// setUser is SET @x = expression.
func (s *Session) setUser(x *router.Set) error {
	name := "@" + strings.ToLower(x.Name)
	if x.Literal {
		if v := []byte(x.Text); numeric(v) && len(v) < 18 {
			s.setVars(s.vars.With(backend.Var{Name: name, Value: x.Text}))
			return nil
		}
		if strings.EqualFold(x.Text, "NULL") || strings.EqualFold(x.Text, "DEFAULT") {
			s.setVars(s.vars.Without(name))
			return nil
		}
	}
	v, err := s.evaluate(x)
	if err != nil {
		return err
	}
	if !v.set {
		s.setVars(s.vars.Without(name))
		return nil
	}
	s.setVars(s.vars.With(backend.Var{Name: name, Value: v.text}))
	return nil
}

// evaluate lets a node compute an expression, and returns a literal of the
// same type, NULL as the zero cell.
func (s *Session) evaluate(x *router.Set) (cell, error) {
	var out cell
	err := s.onNode(func(c *backend.Conn) error {
		c.Tainted = true
		if _, err := c.Exec("SET @braid_value=" + x.Text); err != nil {
			return err
		}
		lit, err := readUserVariable(c, "@braid_value")
		if err != nil {
			return err
		}
		out = lit
		value := "NULL"
		if lit.set {
			value = lit.text
		}
		c.SetVars(s.vars.With(backend.Var{Name: "@braid_value", Value: value}))
		c.Tainted = false
		return nil
	})
	return out, err
}

// readUserVariable returns a literal that gives a user variable the type,
// value and collation it has on c.
func readUserVariable(c *backend.Conn, name string) (cell, error) {
	rows, err := c.Query(fmt.Sprintf("SELECT %[1]s IS NULL, HEX(%[1]s), CHARSET(%[1]s), COLLATION(%[1]s), %[1]s", name), 1)
	if err != nil {
		return cell{}, err
	}
	r := rows[0]
	if string(r[0]) == "1" {
		return cell{}, nil
	}
	// A user variable is an integer, a decimal, a double or a string; only for the
	// last is the character set something else than binary (or the string is binary).
	if cs := string(r[2]); cs != "binary" {
		return text(fmt.Sprintf("CONVERT(x'%s' USING %s) COLLATE %s", r[1], cs, r[3])), nil
	}
	if v := r[4]; numeric(v) || isDouble(v) {
		return text(string(v)), nil
	}
	return text("x'" + string(r[1]) + "'"), nil
}

func isDouble(v []byte) bool {
	seen := false
	for i, b := range v {
		switch {
		case b >= '0' && b <= '9':
			seen = true
		case (b == '-' || b == '+') && (i == 0 || v[i-1] == 'e'):
		case b == '.' || b == 'e' && seen:
		default:
			return false
		}
	}
	return seen
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

// onNode gives f a pool connection in the session's context, outside any
// transaction.
func (s *Session) onNode(f func(*backend.Conn) error) error {
	b := s.gen.anyBase(s.database)
	if b == nil {
		return mysql.Errorf(1105, "no node can be used: every database's schema is unread; see the log")
	}
	p := place{node: b.nodes[0], shard: b.conf.Shards[0].Name}
	if db := s.gen.topology.Databases[s.database]; db != nil {
		p.schema, p.database, p.shard = db.Shards[0].Schema, s.database, db.Shards[0].Name
	}
	ctx, cancel := s.context()
	defer cancel()
	c, err := p.node.Get(ctx, s.caps&2 != 0, p.schema, s.vars)
	if err != nil {
		return p.shardError(err)
	}
	s.hold(c)
	err = c.Bring(&backend.Need{Schema: p.schema, Vars: s.vars, Autocommit: true})
	if err == nil {
		err = f(c)
	}
	stopped := s.drop(c)
	if err != nil && (backend.IsLost(err) || isPrefix(err)) {
		c.Destroy()
	} else {
		c.Release()
	}
	if stopped != nil {
		return stopped
	}
	if err != nil {
		return p.shardError(err)
	}
	return nil
}
