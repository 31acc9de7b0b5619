package proxy

import (
	"sort"
	"strings"
	"time"

	"braid/internal/mysql"
	"braid/router"
)

// show answers the SHOW statements that need the proxy's knowledge; all others
// are routed as they are.
func (s *Session) show(sh *router.Show, q *router.Query, bin bool) error {
	switch sh.What {
	case "databases":
		return s.showDatabases(sh, bin)
	case "tables", "full tables":
		return s.showTables(sh, bin)
	case "warnings", "errors":
		return s.showWarnings(sh, bin)
	case "count warnings", "count errors":
		name, n := "@@session.warning_count", int(s.warned)
		if sh.What == "count errors" {
			name, n = "@@session.error_count", int(s.errored)
		}
		return s.writeResultOnly(&resultSet{columns: []mysql.Column{numberColumn(name, 21)}, rows: [][]cell{{number(int64(n))}}}, bin)
	case "processlist", "full processlist":
		return s.showProcesses(sh.What == "full processlist", bin)
	case "create database":
		return s.showCreateDatabase(sh, bin)
	case "grants":
		r := &resultSet{columns: []mysql.Column{s.textColumn("Grants for "+s.facts.CurrentUser, 1024)}}
		u := s.gen.users[s.user]
		if len(u.Databases) == 0 {
			r.rows = append(r.rows, []cell{text("GRANT ALL PRIVILEGES ON *.* TO `" + s.user + "`@`%`")})
		} else {
			r.rows = append(r.rows, []cell{text("GRANT USAGE ON *.* TO `" + s.user + "`@`%`")})
			for _, d := range u.Databases {
				r.rows = append(r.rows, []cell{text("GRANT ALL PRIVILEGES ON `" + d + "`.* TO `" + s.user + "`@`%`")})
			}
		}
		return s.writeResult(r, bin)
	}
	return s.fail(mysql.Errorf(1235, "This version of Braid doesn't yet support 'SHOW %s'", strings.ToUpper(sh.What)))
}

func (s *Session) showDatabases(sh *router.Show, bin bool) error {
	if sh.Where != "" {
		return s.fail(mysql.Errorf(1235, "This version of Braid doesn't yet support 'SHOW DATABASES WHERE'"))
	}
	names := []string{"information_schema"}
	for name := range s.gen.topology.Databases {
		if s.gen.checkDatabase(s.user, s.host, name) == nil {
			names = append(names, name)
		}
	}
	sort.Strings(names)
	title := "Database"
	if sh.HasLike {
		title += " (" + sh.Like + ")"
	}
	r := &resultSet{columns: []mysql.Column{s.textColumn(title, 64)}}
	for _, n := range names {
		if !sh.HasLike || like(n, sh.Like) {
			r.rows = append(r.rows, []cell{text(n)})
		}
	}
	return s.writeResult(r, bin)
}

func (s *Session) showTables(sh *router.Show, bin bool) error {
	name := sh.Database
	if name == "" {
		name = s.database
	}
	if name == "" {
		return s.fail(mysql.Errorf(1046, "No database selected"))
	}
	if e := s.gen.checkDatabase(s.user, s.host, name); e != nil {
		return s.fail(e)
	}
	if sh.Where != "" {
		return s.fail(mysql.Errorf(1235, "This version of Braid doesn't yet support 'SHOW TABLES WHERE'"))
	}
	db := s.gen.topology.Databases[name]
	if db == nil {
		return s.fail(mysql.Errorf(1235, "This version of Braid doesn't yet support 'SHOW TABLES FROM %s'", name))
	}
	title := "Tables_in_" + name
	if sh.HasLike {
		title += " (" + sh.Like + ")"
	}
	r := &resultSet{columns: []mysql.Column{s.textColumn(title, 64)}}
	full := sh.What == "full tables"
	if full {
		r.columns = append(r.columns, s.textColumn("Table_type", 11))
	}
	var tables []string
	for t := range db.Tables {
		tables = append(tables, t)
	}
	sort.Strings(tables)
	for _, t := range tables {
		if sh.HasLike && !like(db.Tables[t].Name, sh.Like) {
			continue
		}
		row := []cell{text(db.Tables[t].Name)}
		if full {
			kind := "BASE TABLE"
			if db.Tables[t].View {
				kind = "VIEW"
			}
			row = append(row, text(kind))
		}
		r.rows = append(r.rows, row)
	}
	return s.writeResult(r, bin)
}

// showWarnings answers from what the session remembers of its last statement.
func (s *Session) showWarnings(sh *router.Show, bin bool) error {
	r := &resultSet{columns: []mysql.Column{s.textColumn("Level", 7), numberColumn("Code", 4), s.textColumn("Message", 512)}}
	skip, take := uint64(0), ^uint64(0)
	if sh.Limit != "" {
		a, b, two := strings.Cut(sh.Limit, ",")
		take = parseUint([]byte(strings.TrimSpace(a)))
		if two {
			skip, take = take, parseUint([]byte(strings.TrimSpace(b)))
		}
	}
	for _, w := range s.warnings {
		if sh.What == "errors" && w.level != "Error" {
			continue
		}
		if skip > 0 {
			skip--
			continue
		}
		if take == 0 {
			break
		}
		take--
		r.rows = append(r.rows, []cell{text(w.level), number(int64(w.code)), text(w.message)})
	}
	return s.writeResultOnly(r, bin)
}

func (s *Session) showProcesses(full, bin bool) error {
	r := &resultSet{columns: []mysql.Column{numberColumn("Id", 21), s.textColumn("User", 32), s.textColumn("Host", 261), s.textColumn("db", 64),
		s.textColumn("Command", 16), numberColumn("Time", 7), s.textColumn("State", 64), s.textColumn("Info", 1024)}}
	for _, x := range s.srv.Sessions() {
		in := x.Describe()
		if in.User != s.user {
			continue
		}
		command, info := "Sleep", cell{}
		if in.Running {
			command, info = "Query", text(in.Text)
			if !full && len(in.Text) > 100 {
				info = text(in.Text[:100])
			}
		}
		r.rows = append(r.rows, []cell{count(in.ID), text(in.User), text(in.Host), nullable(in.Database), text(command), number(int64(in.For / time.Second)), text(""), info})
	}
	sort.Slice(r.rows, func(i, j int) bool {
		return parseUint([]byte(r.rows[i][0].text)) < parseUint([]byte(r.rows[j][0].text))
	})
	return s.writeResult(r, bin)
}

func (s *Session) showCreateDatabase(sh *router.Show, bin bool) error {
	if e := s.gen.checkDatabase(s.user, s.host, sh.Database); e != nil {
		return s.fail(e)
	}
	db := s.gen.topology.Databases[sh.Database]
	if db == nil {
		return s.fail(mysql.Errorf(1235, "This version of Braid doesn't yet support 'SHOW CREATE DATABASE %s'", sh.Database))
	}
	got, err := s.ask("SHOW CREATE DATABASE `" + strings.ReplaceAll(db.Shards[0].Schema, "`", "``") + "`")
	if err != nil {
		return s.failErr(err)
	}
	create := strings.Replace(got[1].text, "`"+db.Shards[0].Schema+"`", "`"+db.Name+"`", 1)
	return s.writeResult(&resultSet{columns: []mysql.Column{s.textColumn("Database", 64), s.textColumn("Create Database", 1024)},
		rows: [][]cell{{text(db.Name), text(create)}}}, bin)
}

// SessionInfo is what SHOW PROCESSLIST and the admin port tell of a session.
type SessionInfo struct {
	ID            uint64
	User, Host    string
	Database      string
	Running       bool
	InTransaction bool
	For           time.Duration // in its present state
	Text          string
	Connections   int // backend connections at work for it
}

// Describe tells what the session is doing.
func (s *Session) Describe() SessionInfo {
	s.mu.Lock()
	defer s.mu.Unlock()
	in := SessionInfo{ID: s.id, User: s.mu.user, Host: s.mu.host, Database: s.mu.db, InTransaction: s.mu.inTx, Connections: len(s.mu.active)}
	if s.mu.began.IsZero() {
		in.For = time.Since(s.mu.since)
	} else {
		in.Running, in.For, in.Text = true, time.Since(s.mu.began), string(s.mu.textBuf)
	}
	return in
}

// like is SQL's LIKE with the escape character \, without regard to case, as
// SHOW ... LIKE compares.
func like(s, pattern string) bool {
	return likeRunes([]rune(strings.ToLower(s)), []rune(strings.ToLower(pattern)))
}

func likeRunes(s, p []rune) bool {
	for len(p) > 0 {
		switch p[0] {
		case '%':
			for len(p) > 0 && p[0] == '%' {
				p = p[1:]
			}
			for i := 0; i <= len(s); i++ {
				if likeRunes(s[i:], p) {
					return true
				}
			}
			return false
		case '_':
			if len(s) == 0 {
				return false
			}
		default:
			if p[0] == '\\' && len(p) > 1 {
				p = p[1:]
			}
			if len(s) == 0 || s[0] != p[0] {
				return false
			}
		}
		s, p = s[1:], p[1:]
	}
	return len(s) == 0
}
