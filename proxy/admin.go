package proxy

import (
	"context"
	"errors"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"
	"go.uber.org/zap"

	"braid/conf"
	"braid/internal/mysql"
)

// admin is the operator's port: MySQL protocol, users of its own, a handful of
// commands.
type admin struct {
	srv *Server
}

// adminCommand is one command of the admin port. Words are upper case; a word
// in angle brackets is an argument.
type adminCommand struct {
	words string
	help  string
	run   func(a *admin, args []string, s *adminSession) (*resultSet, error)
}

// adminCommands is the whole admin language; docs/admin.md is held against it.
func adminCommands() []adminCommand {
	return []adminCommand{
		{"SHOW SHARDS", "each database's shards: node, schema, slots", (*admin).showShards},
		{"SHOW NODES", "each node: address, server version, reachable or not", (*admin).showNodes},
		{"SHOW POOLS", "each node's connections: open, idle, waiting, limit", (*admin).showPools},
		{"SHOW TABLES", "each table: where its rows live, and by which key", (*admin).showTables},
		{"SHOW SESSIONS", "each client: what it runs, since when, in a transaction or not; which backend connections it keeps, and why", (*admin).showSessions},
		{"SHOW PLANS", "cached plans: statement, plan, hits", (*admin).showPlans},
		{"SHOW TRANSACTIONS", "open transactions: age, legs, writers, whose, how many statements so far, what they do", (*admin).showTransactions},
		{"SHOW XA", "prepared branches on the nodes, with the decision where there is one", (*admin).showXA},
		{"SHOW DDL", "schema changes that are under way, or that failed on some shards", (*admin).showDDL},
		{"SHOW DRIFT", "what is not the same on all shards: tables, views, triggers, stored programs", (*admin).showDrift},
		{"SHOW CONFIG", "the configuration in force, secrets masked", (*admin).showConfig},
		{"SHOW STATS", "counters since the start", (*admin).showStats},
		{"KILL <id>", "end a client's connection", (*admin).kill},
		{"KILL QUERY <id>", "end a client's statement", (*admin).killQuery},
		{"RELOAD CONFIG", "read the configuration file again; answers with what changed", (*admin).reload},
		{"RELOAD SCHEMA", "read the tables from the nodes again", (*admin).reloadSchema},
		{"RESUME DDL <change>", "go on with a schema change that failed on some shards; answers with what became of it", (*admin).resumeDDL},
		{"RECOVER XA", "finish interrupted transactions now", (*admin).recoverXA},
		{"HELP", "this list", (*admin).help},
	}
}

// adminSession is one operator's connection.
type adminSession struct {
	client
	id uint32
}

// serveAdmin answers one operator until he leaves.
func (a *admin) serve(ctx context.Context, nc net.Conn) {
	defer func() { _ = nc.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = nc.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	g := a.srv.gen.Load()
	s := &adminSession{id: uint32(a.srv.ids.Add(1))}
	s.c = mysql.NewConn(nc, mysql.ClientSide, 1<<20)
	cs, _ := mysql.MySQLCollations().Charset("utf8mb4")
	s.chars = charsetInfo{resultsID: cs.Collation, resultsMax: cs.BytesMax}
	_ = nc.SetDeadline(time.Now().Add(time.Duration(g.cfg.Timeouts.Handshake)))
	login, err := mysql.AcceptHandshake(s.c, mysql.ServerOptions{Version: "8.0.0-braid-admin", ConnectionID: s.id, Cache: a.srv.auth, RSA: a.srv.rsa},
		func(user string, _ net.Addr) (mysql.Credential, bool) { return a.credential(g.cfg, user) })
	if err != nil {
		return
	}
	a.srv.log.Info("operator logged in", zap.String("user", login.User), zap.String("from", nc.RemoteAddr().String()))
	s.caps = login.Capabilities
	if s.ok(&mysql.OK{Status: gomysql.SERVER_STATUS_AUTOCOMMIT}) != nil || s.c.Flush() != nil {
		return
	}
	_ = nc.SetDeadline(time.Time{})
	if ctx.Err() != nil {
		return
	}
	for {
		if s.c.WaitCommand() != nil {
			return
		}
		s.c.ResetSeq()
		p, err := s.c.ReadPacket()
		if err != nil || len(p) == 0 || p[0] == gomysql.COM_QUIT {
			return
		}
		if a.answer(s, p[0], string(p[1:])) != nil || s.c.Flush() != nil {
			return
		}
	}
}

// credential finds an admin user; those without a resolvable secret cannot log in.
func (a *admin) credential(cfg *conf.Config, user string) (mysql.Credential, bool) {
	for _, u := range cfg.Admin.Users {
		if u.Name != user {
			continue
		}
		if u.PasswordHash != "" {
			return mysql.Credential{Hash: u.PasswordHash}, true
		}
		pw, err := u.Secret.Resolve(os.LookupEnv, os.ReadFile)
		if err != nil {
			a.srv.log.Error("admin user's password", zap.String("user", user), zap.Error(err))
			return mysql.Credential{}, false
		}
		return mysql.Credential{Password: pw}, true
	}
	return mysql.Credential{}, false
}

// answer carries out one command.
func (a *admin) answer(s *adminSession, cmd byte, line string) error {
	const status = gomysql.SERVER_STATUS_AUTOCOMMIT
	switch cmd {
	case gomysql.COM_PING, gomysql.COM_INIT_DB, gomysql.COM_RESET_CONNECTION:
		return s.ok(&mysql.OK{Status: status})
	case gomysql.COM_QUERY:
	default:
		return s.writeError(mysql.Errorf(gomysql.ER_UNKNOWN_COM_ERROR, "Unknown command"))
	}
	r, err := a.run(s, line)
	if err != nil {
		var e *mysql.Error
		if !errors.As(err, &e) {
			e = mysql.Errorf(1105, "%v", err)
		}
		return s.writeError(e)
	}
	if r == nil {
		return s.ok(&mysql.OK{Status: status})
	}
	if err := s.columns(r.columns, status); err != nil {
		return err
	}
	if err := s.rows(r, false); err != nil {
		return err
	}
	return s.end(status, 0)
}

// run finds the command of a line. What clients send by themselves when they
// connect (SET NAMES, SELECT @@version_comment) is answered too.
func (a *admin) run(s *adminSession, line string) (*resultSet, error) {
	line = strings.TrimRight(strings.TrimSpace(line), "; \t\n")
	words := strings.Fields(line)
	for _, c := range adminCommands() {
		want := strings.Fields(c.words)
		if len(want) != len(words) {
			continue
		}
		var args []string
		match := true
		for i, w := range want {
			if w[0] == '<' {
				args = append(args, words[i])
			} else if !strings.EqualFold(w, words[i]) {
				match = false
				break
			}
		}
		if match {
			return c.run(a, args, s)
		}
	}
	switch upper := strings.ToUpper(line); {
	case strings.HasPrefix(upper, "SET "):
		return nil, nil
	case strings.HasPrefix(upper, "SELECT @@"), strings.HasPrefix(upper, "SELECT $$"):
		name := strings.Fields(line)[1]
		return &resultSet{columns: []mysql.Column{s.textColumn(name, 64)}, rows: [][]cell{{text("Braid admin")}}}, nil
	}
	return nil, mysql.Errorf(1064, "unknown admin command %q: HELP lists them", line)
}

// table makes a result of text columns named by a comma-separated list.
func (s *adminSession) table(names string) *resultSet {
	r := &resultSet{}
	for _, n := range strings.Split(names, ",") {
		r.columns = append(r.columns, s.textColumn(n, 1024))
	}
	return r
}

func (r *resultSet) add(values ...string) {
	row := make([]cell, len(values))
	for i, v := range values {
		row[i] = text(v)
	}
	r.rows = append(r.rows, row)
}

func (a *admin) help(_ []string, s *adminSession) (*resultSet, error) {
	r := s.table("command,meaning")
	for _, c := range adminCommands() {
		r.add(c.words, c.help)
	}
	return r, nil
}

func (a *admin) kill(args []string, _ *adminSession) (*resultSet, error) {
	return nil, a.stop(args[0], true)
}

func (a *admin) killQuery(args []string, _ *adminSession) (*resultSet, error) {
	return nil, a.stop(args[0], false)
}

func (a *admin) stop(id string, session bool) error {
	n, err := strconv.ParseUint(id, 10, 64)
	if err != nil {
		return mysql.Errorf(1064, "KILL wants a session's id, as SHOW SESSIONS lists them, not %q", id)
	}
	victim := a.srv.Session(n)
	if victim == nil {
		return mysql.Errorf(1094, "Unknown thread id: %d", n)
	}
	victim.stop(mysql.Errorf(1317, "Query execution was interrupted"), session)
	return nil
}

func (a *admin) reload(_ []string, s *adminSession) (*resultSet, error) {
	if a.srv.Load == nil {
		return nil, errors.New("this Braid was started without a configuration file")
	}
	cfg, err := a.srv.Load()
	if err != nil {
		return nil, mysql.Errorf(1105, "nothing was changed: %v", err)
	}
	changes, err := a.srv.Reload(cfg)
	if err != nil {
		return nil, mysql.Errorf(1105, "nothing was changed: %v", err)
	}
	r := s.table("change,effect")
	for _, c := range changes {
		r.add(c.String(), c.Effect.String())
	}
	return r, nil
}

func (a *admin) reloadSchema([]string, *adminSession) (*resultSet, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*schemaTimeout)
	defer cancel()
	return nil, a.srv.Refresh(ctx)
}
