package proxy

import (
	"errors"
	"strings"

	"braid/backend"
	"braid/internal/mysql"
	"braid/router"
)

func isGlobal(x router.Set) bool {
	switch x.Scope {
	case router.ScopeGlobal, router.ScopePersist, router.ScopePersistOnly:
		return true
	}
	return false
}

// setGlobal carries SET GLOBAL and SET PERSIST out on every node, in the order of
// their names (proxy.set_global). What the first refuses is done on none.
func (s *Session) setGlobal(sets []router.Set) (warned uint16, err error) {
	var pieces []string
	for i := range sets {
		piece, err := s.globalPiece(&sets[i])
		if err != nil {
			return 0, err
		}
		pieces = append(pieces, piece)
	}
	text := "SET " + strings.Join(pieces, ",")
	var warnings []warning
	var done []string
	for i, n := range s.gen.cluster.Nodes() {
		p := place{node: n, shard: "of node " + n.Name()}
		err := s.onPlace(&p, func(c *backend.Conn, need *backend.Need) error {
			if err := c.Bring(need); err != nil {
				return err
			}
			ok, err := c.Exec(text)
			if err != nil || ok.Warnings == 0 || i > 0 {
				return err
			}
			rows, err := c.Query(showWarnings, warningsMax)
			for _, r := range rows {
				warnings = append(warnings, warning{string(r[0]), uint16(parseUint(r[1])), string(r[2])})
			}
			return err
		})
		if err != nil {
			return 0, notEverywhere(err, n, done)
		}
		done = append(done, n.Name())
	}
	ctx, cancel := s.context()
	defer cancel()
	if err := s.srv.Refresh(ctx); err != nil { // new sessions begin with what was set
		return 0, mysql.Errorf(1105, "the variables were set, but reading the nodes again failed: %v", err)
	}
	s.newWarnings(warnings, false)
	return uint16(len(warnings)), nil
}

// globalPiece is one assignment as the nodes get it.
func (s *Session) globalPiece(x *router.Set) (string, error) {
	if !isGlobal(*x) {
		return "", mysql.Errorf(1235, "This version of Braid doesn't yet support 'SET of global variables together with others'")
	}
	switch canonicalName(x.Name) {
	case "transaction_isolation":
		return "", mysql.Errorf(1235, "This version of Braid doesn't yet support 'SET GLOBAL %s: databases.isolation in Braid's configuration decides'", x.Name)
	case "transaction_read_only", "autocommit":
		return "", mysql.Errorf(1235, "This version of Braid doesn't yet support 'SET GLOBAL %s'", x.Name)
	case "wait_timeout", "interactive_timeout":
		return "", mysql.Errorf(1235, "This version of Braid doesn't yet support 'SET GLOBAL %s: timeouts in Braid's configuration decide'", x.Name)
	}
	text := x.Text
	if !x.Literal {
		e, err := s.expression(text)
		if err != nil {
			return "", err
		}
		if e.plan != nil || len(e.assigns) > 0 {
			return "", mysql.Errorf(1235, "This version of Braid doesn't yet support 'SET GLOBAL of a value that reads tables or assigns variables'")
		}
		text = e.text
	}
	scope := map[router.SetScope]string{router.ScopeGlobal: "GLOBAL ", router.ScopePersist: "PERSIST ", router.ScopePersistOnly: "PERSIST_ONLY "}[x.Scope]
	parts := strings.Split(x.Name, ".")
	for i := range parts {
		parts[i] = quoteIdentifier(parts[i])
	}
	return scope + strings.Join(parts, ".") + "=" + text, nil
}

// notEverywhere says on which nodes a SET GLOBAL was done before one failed.
func notEverywhere(err error, n *backend.Node, done []string) error {
	var e *mysql.Error
	if !errors.As(err, &e) {
		e = mysql.Errorf(1105, "%v", err)
	}
	if len(done) == 0 {
		return e
	}
	return &mysql.Error{Code: e.Code, State: e.State, Message: e.Message + " (failed on node " + n.Name() + " after it was done on: " + strings.Join(done, ", ") + ")"}
}
