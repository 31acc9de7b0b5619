package proxy

import (
	"slices"
	"strings"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"braid/backend"
	"braid/internal/mysql"
	"braid/router"
)

// Session tracking (B158): what a client with CLIENT_SESSION_TRACK is told in OK
// packets of the session's own state. Nodes are never asked to track: their
// state is not the session's. What changed is collected while a statement runs
// and goes out with its OK; an error forgets it.

// Kinds of session-track data.
const (
	trackVariable = 0
	trackSchema   = 1
	trackChanged  = 2
	trackState    = 5
)

// trackedByDefault is session_track_system_variables where no session has set it.
const trackedByDefault = "time_zone,autocommit,character_set_client,character_set_results,character_set_connection"

// tracks tells whether the client wants session-track data.
func (cl *client) tracks() bool { return cl.caps&gomysql.CLIENT_SESSION_TRACK != 0 }

// trackData appends one piece of session-track data for the next OK.
func (cl *client) trackData(kind byte, data []byte) {
	cl.track = mysql.AppendLenEncString(append(cl.track, kind), data)
}

// takeTrack returns what is to go out with an OK now, valid until the next statement.
func (cl *client) takeTrack() []byte {
	t := cl.track
	cl.track = cl.track[:0]
	return t
}

// trackUse notes that the session's database was set.
func (s *Session) trackUse() {
	if !s.tracks() {
		return
	}
	if on, ok := s.vars.Get("session_track_schema"); !ok || on != "0" {
		s.trackData(trackSchema, mysql.AppendLenEncString(nil, s.database))
	}
	s.trackChange()
}

// trackChange notes that something of the session changed, for clients that want
// to know that only.
func (s *Session) trackChange() {
	if on, ok := s.vars.Get("session_track_state_change"); s.tracks() && ok && on == "1" {
		s.trackData(trackChanged, []byte{'1'})
	}
}

// trackBegin and trackEnd note that a transaction was begun and ended by a
// statement for it. MySQL 9 says so even with session_track_transaction_info=OFF.
func (s *Session) trackBegin(snapshot bool) {
	state := "T_______"
	if snapshot {
		state = "T_R_____"
	}
	if s.tracks() && !s.mariadb() {
		s.trackData(trackState, mysql.AppendLenEncString(nil, state))
		s.trackedTx = true
	}
}

func (s *Session) trackEnd() {
	if s.trackedTx {
		s.trackedTx = false
		s.trackData(trackState, mysql.AppendLenEncString(nil, "________"))
	}
}

// trackSet notes the variables that a SET has set, as far as they are tracked.
func (s *Session) trackSet(sets []router.Set) error {
	if !s.tracks() {
		return nil
	}
	list := trackedByDefault
	if v, ok := s.vars.Get("session_track_system_variables"); ok {
		list = unquote(v)
	}
	tracked := strings.Split(list, ",")
	for i := range tracked {
		tracked[i] = strings.ToLower(strings.TrimSpace(tracked[i]))
	}
	var names []string
	for i := range sets {
		x := &sets[i]
		switch {
		case x.Scope != router.ScopeSession:
		case x.Name == "names" || x.Name == "charset":
			names = append(names, "character_set_client", "character_set_connection", "character_set_results")
		default:
			names = append(names, x.Name)
		}
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if !slices.Contains(tracked, name) && !slices.Contains(tracked, "*") {
			continue
		}
		value, err := s.shownVariable(name)
		if err != nil {
			return err
		}
		s.trackData(trackVariable, mysql.AppendLenEncString(mysql.AppendLenEncString(nil, name), value))
	}
	// MySQL does not count the variable that asks for it.
	if s.mariadb() || len(sets) > 1 || sets[0].Name != "session_track_state_change" {
		s.trackChange()
	}
	return nil
}

// shownVariable is a session variable's value as SHOW VARIABLES has it.
func (s *Session) shownVariable(name string) (string, error) {
	switch name {
	case "autocommit":
		if s.autocommit {
			return "ON", nil
		}
		return "OFF", nil
	case "character_set_client", "character_set_connection", "character_set_results":
		if v, ok := s.vars.Get(name); ok {
			if v == "NULL" {
				return "", nil
			}
			return strings.ToLower(unquote(v)), nil
		}
		all, _ := s.vars.Get(backend.Names)
		charset, _, _ := strings.Cut(all, " COLLATE ")
		return unquote(charset), nil
	case "time_zone", "sql_mode":
		if v, ok := s.vars.Get(name); ok {
			return unquote(v), nil
		}
	}
	got, err := s.ask("SHOW SESSION VARIABLES LIKE " + quote(name))
	if err != nil {
		return "", err
	}
	return got[1].text, nil
}

// refuseTracking refuses what Braid cannot track: a transaction's state lies on
// several nodes, and GTIDs are a node's own.
func refuseTracking(x *router.Set) *mysql.Error {
	switch x.Name {
	case "session_track_transaction_info", "session_track_gtids":
		if !strings.EqualFold(x.Value, "OFF") && x.Value != "0" && !strings.EqualFold(x.Text, "DEFAULT") {
			return mysql.Errorf(1235, "This version of Braid doesn't yet support '%s'", x.Name)
		}
	}
	return nil
}
