package proxy

import (
	"slices"
	"strconv"
	"strings"

	"braid/backend"
	"braid/internal/mysql"
	"braid/router"
)

// setJob is one SET statement under way. All values are found first, as the
// servers do, and then all are kept: an assignment that is refused leaves the
// session as it was.
type setJob struct {
	s *Session

	// What the session becomes.
	vars, own             *backend.Vars
	isolationSet          bool
	nextLevel, nextAccess string
	lastInsertID          uint64
	autocommit, bare      bool
	warnings              []warning

	// What a node is asked: the assignments that it carries out in one SET
	// statement of their order, on a connection that is like the session.
	pieces []string
	asked  []asked
	plan   *router.Plan // of the assignment that reads tables; nil: any connection does
	at     place
}

// asked is one variable whose value is read back from the node.
type asked struct {
	name string // user variables begin with "@"
	key  setKey // of a literal, to be remembered; the zero key: not
}

// autocommitAsked is the user variable in which a node leaves the value of
// autocommit that is no literal.
const autocommitAsked = "@braid_autocommit"

// set carries out SET: all of it, or, when one assignment is refused, nothing.
// It returns how many warnings there are.
func (s *Session) set(sets []router.Set) (warned uint16, err error) {
	if s.gen.cfg.Proxy.SetGlobal == "broadcast" && slices.ContainsFunc(sets, isGlobal) {
		return s.setGlobal(sets)
	}
	fence := s.fence
	defer func() {
		if err != nil {
			s.fence = fence
		}
	}()
	j := setJob{s: s, vars: s.vars, own: s.own, isolationSet: s.isolationSet, nextLevel: s.nextLevel, nextAccess: s.nextAccess,
		lastInsertID: s.facts.LastInsertID, autocommit: s.autocommit, bare: s.bare}
	known := true
	for i := range sets {
		known = known && j.known(&sets[i])
	}
	for i := range sets {
		if err := j.add(&sets[i], known); err != nil {
			return 0, err
		}
	}
	if len(j.pieces) > 0 {
		if err := j.ask(); err != nil {
			return 0, err
		}
	}
	s.setOwn(j.own)
	s.setVars(j.vars)
	s.isolationSet, s.nextLevel, s.nextAccess, s.facts.LastInsertID = j.isolationSet, j.nextLevel, j.nextAccess, j.lastInsertID
	s.bare = j.bare
	s.newWarnings(j.warnings, false)
	if j.autocommit && !s.autocommit {
		// Switching it on commits what is open.
		if err := s.commitOpen(); err != nil {
			return 0, err
		}
	}
	s.autocommit = j.autocommit
	return uint16(len(j.warnings)), nil
}

// known tells whether an assignment's value can be told without a node: all of
// a statement's can, or the node is asked for all.
func (j *setJob) known(x *router.Set) bool {
	switch {
	case x.Scope == router.ScopeUser:
		_, ok := j.userValue(x)
		return ok
	case x.Scope != router.ScopeSession:
		return true
	case x.Name == "names", x.Name == "charset":
		// MySQL warns of utf8 and utf8mb3.
		return j.s.mariadb() || !strings.HasPrefix(strings.ToLower(x.Value), "utf8") || strings.EqualFold(x.Value, "utf8mb4")
	}
	switch x.Name {
	case "autocommit":
		_, ok := boolean(x)
		return ok
	case "transaction_isolation", "tx_isolation":
		return isDefault(x)
	case fenceVariable:
		return true
	case metadataVariable:
		return !j.s.mariadb()
	}
	if treat(x.Name) == ignored {
		return true
	}
	_, ok := j.s.srv.sets.get(j.key(x))
	return ok
}

func isDefault(x *router.Set) bool { return strings.EqualFold(x.Text, "DEFAULT") }

// key is under which a literal's value is remembered.
func (j *setJob) key(x *router.Set) setKey {
	if !x.Literal || isDefault(x) {
		return setKey{}
	}
	return setKey{canonicalName(x.Name), x.Text, j.s.mariadb(), j.s.charset}
}

// userValue is the literal of a user variable that needs no node.
func (j *setJob) userValue(x *router.Set) (string, bool) {
	if !x.Literal {
		return "", false
	}
	_, set := j.s.vars.Get(userName(x.Name))
	text := []byte(x.Text)
	switch {
	case numeric(text) && len(text) < 18:
		return x.Text, true
	case strings.EqualFold(x.Text, "NULL"):
		return "NULL", !set // else it keeps its type
	case x.Text[0] == '\'' && strings.IndexByte(x.Text, '\\') < 0:
		return j.s.plainString(x.Value)
	}
	return "", false
}

// add takes one assignment. known says that no node is asked for any.
func (j *setJob) add(x *router.Set, known bool) error {
	s := j.s
	if e := refuseTracking(x); e != nil {
		return e
	}
	switch x.Scope {
	case router.ScopeGlobal, router.ScopePersist, router.ScopePersistOnly:
		if _, err := s.ask("SELECT @@global." + quoteIdentifier(x.Name)); err != nil {
			return err // there is none
		}
		return mysql.Errorf(1227, "Access denied; Braid does not change global variables of the nodes: set %s in their configuration", x.Name)
	case router.ScopeNext:
		return j.addNext(x)
	case router.ScopeUser:
		if known {
			v, _ := j.userValue(x)
			j.vars = j.vars.With(backend.Var{Name: userName(x.Name), Value: v})
			return nil
		}
		return j.askFor(userName(x.Name), writtenName(x.Name), x)
	}
	switch x.Name {
	case "names":
		return j.addNames(x, known)
	case "charset":
		return j.addCharset(x, known)
	case fenceVariable:
		return s.setFence(x)
	case metadataVariable:
		if !s.mariadb() {
			return j.addMetadata(x)
		}
	case "autocommit":
		if on, ok := boolean(x); ok {
			j.autocommit = on
			return nil
		}
		if x.Literal {
			return mysql.Errorf(1231, "Variable 'autocommit' can't be set to the value of '%s'", x.Value)
		}
		return j.askFor(autocommitAsked, writtenName(autocommitAsked), x)
	case "transaction_isolation", "tx_isolation", "transaction_read_only", "tx_read_only":
		if strings.HasPrefix(x.Name, "tx_") != s.mariadb() {
			return mysql.Errorf(1193, "Unknown system variable '%s'", x.Name)
		}
		if strings.HasSuffix(x.Name, "isolation") {
			j.isolationSet = !isDefault(x)
			if isDefault(x) { // the configuration's, not a node's
				j.vars = j.vars.With(backend.Var{Name: "transaction_isolation", Value: quote(s.defaultIsolation())})
				return nil
			}
		}
	}
	t := treat(x.Name)
	if err := refuseVariable(t, x.Name, isDefault(x)); err != nil {
		return err
	}
	switch {
	case t == unsupported:
		return nil // DEFAULT is what it has
	case t == ignored:
		j.warnings = append(j.warnings, warning{"Warning", 1235, "This version of Braid doesn't yet support 'SET " + x.Name + "'; it has no effect"})
		return nil
	case known:
		v, _ := s.srv.sets.get(j.key(x))
		return j.assign(canonicalName(x.Name), v)
	}
	return j.askFor(canonicalName(x.Name), "SESSION "+x.Name, x)
}

// addNext is SET @@transaction_isolation and SET @@transaction_read_only: for
// the next transaction.
func (j *setJob) addNext(x *router.Set) error {
	s := j.s
	if strings.HasPrefix(x.Name, "tx_") != s.mariadb() {
		return mysql.Errorf(1193, "Unknown system variable '%s'", x.Name)
	}
	if e := s.fixed(); e != nil {
		return e
	}
	value := strings.ToUpper(x.Value)
	if strings.HasSuffix(x.Name, "isolation") {
		if n, err := strconv.Atoi(value); err == nil && n >= 0 && n < len(isolationLevels) {
			value = isolationLevels[n]
		}
		if isDefault(x) {
			value = s.defaultIsolation()
		}
		if !x.Literal || !isolationLevel(value) {
			return mysql.Errorf(1231, "Variable '%s' can't be set to the value of '%s'", x.Name, x.Value)
		}
		j.nextLevel = value
		return nil
	}
	on, ok := boolean(x)
	if !ok {
		return mysql.Errorf(1231, "Variable '%s' can't be set to the value of '%s'", x.Name, x.Value)
	}
	j.nextAccess = "READ WRITE"
	if on && !isDefault(x) {
		j.nextAccess = "READ ONLY"
	}
	return nil
}

// isolationLevels in the order of their numbers.
var isolationLevels = [...]string{"READ-UNCOMMITTED", "READ-COMMITTED", "REPEATABLE-READ", "SERIALIZABLE"}

func isolationLevel(l string) bool {
	for _, x := range isolationLevels {
		if x == l {
			return true
		}
	}
	return false
}

// defaultIsolation is the isolation level that sessions of the database begin with.
func (s *Session) defaultIsolation() string {
	if b := s.gen.anyBase(s.database); b != nil {
		return b.isolation
	}
	return "REPEATABLE-READ"
}

// boolean reads a literal that switches something on or off.
func boolean(x *router.Set) (on, ok bool) {
	if !x.Literal {
		return false, false
	}
	if isDefault(x) {
		return true, true
	}
	return isOn(x.Value)
}

func isOn(value string) (on, ok bool) {
	switch strings.ToUpper(value) {
	case "1", "ON", "TRUE":
		return true, true
	case "0", "OFF", "FALSE":
		return false, true
	}
	return false, false
}

// addNames is SET NAMES.
func (j *setJob) addNames(x *router.Set, known bool) error {
	coll, err := j.collation(x)
	if err != nil {
		return err
	}
	j.vars = j.vars.Without(fourCharacterSets()...).With(names(coll))
	if !known {
		piece := "NAMES " + quote(coll.Charset)
		switch {
		case x.Collate != "":
			piece = "NAMES " + quote(x.Value) + " COLLATE " + quote(x.Collate)
		case !isDefault(x):
			piece = "NAMES " + quote(x.Value)
		}
		j.pieces = append(j.pieces, piece)
	}
	return nil
}

// fourCharacterSets are the variables that SET NAMES sets.
func fourCharacterSets() []string {
	return []string{"character_set_client", "character_set_connection", "character_set_results", "collation_connection"}
}

// collation finds the collation that SET NAMES and SET CHARACTER SET name.
func (j *setJob) collation(x *router.Set) (mysql.Collation, error) {
	colls := j.s.collations()
	name := x.Value
	if isDefault(x) && x.Collate == "" {
		return j.s.defaultCollation(), nil
	}
	if isDefault(x) {
		name = j.s.defaultCollation().Charset
	}
	cs, ok := colls.Charset(name)
	if !ok {
		return mysql.Collation{}, mysql.Errorf(1115, "Unknown character set: '%s'", name)
	}
	switch cs.Name {
	case "ucs2", "utf16", "utf16le", "utf32":
		return mysql.Collation{}, mysql.Errorf(1231, "Variable 'character_set_client' can't be set to the value of '%s'", cs.Name)
	}
	coll, _ := colls.ByID(cs.Collation)
	if x.Collate != "" {
		if coll, ok = colls.ByName(x.Collate); !ok {
			return coll, mysql.Errorf(1273, "Unknown collation: '%s'", x.Collate)
		}
		if coll.Charset != cs.Name {
			return coll, mysql.Errorf(1253, "COLLATION '%s' is not valid for CHARACTER SET '%s'", coll.Name, cs.Name)
		}
	}
	return coll, nil
}

// addCharset is SET CHARACTER SET: the connection's character set becomes the database's.
func (j *setJob) addCharset(x *router.Set, known bool) error {
	coll, err := j.collation(x)
	if err != nil {
		return err
	}
	got, err := j.s.ask("SELECT @@character_set_database, @@collation_database LIMIT 1")
	if err != nil {
		return err
	}
	j.vars = j.vars.Without(fourCharacterSets()...).With(names(coll),
		backend.Var{Name: "character_set_connection", Value: quote(got[0].text)}, backend.Var{Name: "collation_connection", Value: quote(got[1].text)})
	if !known {
		j.pieces = append(j.pieces, "CHARACTER SET "+quote(coll.Charset))
	}
	return nil
}

// assign keeps a system variable's new value.
func (j *setJob) assign(name, value string) error {
	if err := refuseValue(name, value); err != nil {
		return err
	}
	switch {
	case name == "last_insert_id" || name == "identity":
		j.lastInsertID = parseUint([]byte(value))
	case treat(name) == keptByBraid:
		j.own = j.own.With(backend.Var{Name: name, Value: value})
	default:
		j.vars = j.vars.With(backend.Var{Name: name, Value: value})
	}
	return nil
}
