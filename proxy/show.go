package proxy

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"braid/internal/mysql"
	"braid/router"
)

// show answers SHOW and DESCRIBE. What the session or the configuration knows
// comes from there; the rest is asked of a node that has it, and the names in
// its answer are put right. Columns are always a node's own.
func (s *Session) show(sh *router.Show, q *router.Query, ps *execution) error {
	if showsWarnings(sh) {
		return s.showWarnings(sh, ps != nil)
	}
	if sh.What == "grants" {
		return s.showGrants(sh, ps != nil)
	}
	f, err := s.showOn(sh, q)
	if err != nil {
		return s.failErr(err)
	}
	a, err := s.forward(&f.place, f.text, ps)
	if err == nil {
		err = s.correct(a, f, sh, q, ps)
	}
	if err != nil {
		var e *mysql.Error
		if errors.As(err, &e) {
			err = f.renameError(e)
		}
		return s.failErr(err)
	}
	f.rename(a.columns)
	return s.writeAnswer(a, &f.place)
}

// showsWarnings tells whether a SHOW is about the statement in front of it.
func showsWarnings(sh *router.Show) bool {
	switch sh.What {
	case "warnings", "errors", "count warnings", "count errors":
		return true
	}
	return false
}

// shown is where a SHOW is asked, and with which text.
type shown struct {
	place    place
	text     []byte
	database *router.Database // that it is about; nil: none, or a system schema
	shard    int
}

// showOn finds where a SHOW is to be asked.
func (s *Session) showOn(sh *router.Show, q *router.Query) (*shown, error) {
	home, err := s.home()
	if err != nil {
		return nil, err
	}
	f := &shown{place: home, text: q.Text}
	switch sh.What {
	case "warnings", "errors", "count warnings", "count errors", "grants", "processlist", "full processlist",
		"engines", "storage engines", "character set", "charset", "collation", "plugins", "privileges", "status", "databases":
		return f, nil
	case "variables":
		if router.HasIdentifier(sh.Where, s.mode, s.charset, "value") != "" {
			return nil, unsupportedShow(sh, "with a condition on Value")
		}
		return f, nil
	case "procedure status", "function status", "package status", "package body status":
		return f, s.mapNames(f, sh, q, "Db")
	case "open tables":
		if sh.Database == "" {
			return f, s.mapNames(f, sh, q, "Database")
		}
	case "table status":
		if c := router.HasIdentifier(sh.Where, s.mode, s.charset, "rows", "avg_row_length", "data_length", "max_data_length", "index_length", "data_free",
			"auto_increment", "create_time", "update_time", "check_time", "checksum", "max_index_length"); c != "" {
			return nil, unsupportedShow(sh, "with a condition on "+c)
		}
	case "tables", "full tables", "triggers", "events", "create database", "create table", "create view", "columns", "full columns", "index",
		"create procedure", "create function", "create trigger", "create event":
	default:
		var e *mysql.Error
		if err := s.askSyntax(q, router.SyntaxError(string(q.Text), 0, s.mariadb())); errors.As(err, &e) && e.Code != 1235 {
			return nil, err
		}
		return nil, unsupportedShow(sh, "")
	}
	name := sh.Database
	if name == "" {
		name = s.database
	}
	if name == "" {
		return nil, mysql.Errorf(1046, "No database selected")
	}
	if e := s.gen.checkDatabase(s.user, s.host, name); e != nil {
		if e.Code == gomysql.ER_BAD_DB_ERROR {
			// Servers word it differently; what a node has under that name does not exist.
			if _, err := s.forward(&home, q.Text, nil); err != nil {
				return nil, err
			}
		}
		return nil, e
	}
	db := s.gen.topology.Databases[name]
	if db == nil {
		return f, nil
	}
	f.database = db
	if sh.Table != "" {
		if t := s.router().Topology().Databases[name].Table(sh.Table); t != nil && t.Kind == router.Single {
			f.shard = t.Shard
		}
	}
	f.at(s, sh, q, f.shard)
	return f, nil
}

func unsupportedShow(sh *router.Show, more string) *mysql.Error {
	return mysql.Errorf(1235, "This version of Braid doesn't yet support '%s'", strings.TrimSpace("SHOW "+strings.ToUpper(sh.What)+" "+more))
}

// at makes the text for a shard of the database: with the shard's schema where
// the client named the database.
func (f *shown) at(s *Session, sh *router.Show, q *router.Query, shard int) {
	f.place = s.shardPlace(f.database.Name, shard)
	if f.place.schema == f.place.database {
		return
	}
	text, filter := string(q.Text), ""
	if sh.FilterAt > 0 {
		text, filter = text[:sh.FilterAt], text[sh.FilterAt:]
		filter = router.ReplaceIdentifier(filter, s.mode, s.charset, "Tables_in_"+f.place.database, "`Tables_in_"+f.place.schema+"`")
	}
	if sh.NameEnd > 0 {
		text = text[:sh.NameAt] + "`" + f.place.schema + "`" + text[sh.NameEnd:]
	}
	f.text = []byte(text + filter)
}

// rename puts the database's name into the titles of columns.
func (f *shown) rename(cols []mysql.Column) {
	if f.database == nil || f.place.schema == f.place.database {
		return
	}
	title := func(name string) string {
		if rest, ok := strings.CutPrefix(name, "Tables_in_"+f.place.schema); ok {
			return "Tables_in_" + f.place.database + rest
		}
		return name
	}
	for i := range cols {
		cols[i].Name, cols[i].OrgName = title(cols[i].Name), title(cols[i].OrgName)
	}
}

func (f *shown) renameError(e *mysql.Error) *mysql.Error {
	m := strings.ReplaceAll(e.Message, "Tables_in_"+f.place.schema+"'", "Tables_in_"+f.place.database+"'")
	return &mysql.Error{Code: e.Code, State: e.State, Message: m}
}

// correct makes a node's answer the session's: the rows of all shards, and
// names as the client knows them.
func (s *Session) correct(a *nodeAnswer, f *shown, sh *router.Show, q *router.Query, ps *execution) error {
	switch sh.What {
	case "databases":
		return s.databaseRows(a, sh, q, ps)
	case "variables":
		return s.variableRows(a, sh, q)
	case "status":
		s.statusRows(a, sh)
	case "processlist", "full processlist":
		s.processRows(a, sh.What == "full processlist")
	case "procedure status", "function status", "package status", "package body status":
		s.mapRows(a, "Db")
	case "open tables":
		s.mapRows(a, "Database")
	case "events":
		s.mapRows(a, "Db")
	case "tables", "full tables", "triggers", "table status":
		if f.database != nil {
			return s.tableRows(a, f, sh, q, ps)
		}
	case "create database":
		if f.database != nil && len(a.rows) == 1 && len(a.rows[0]) == 2 {
			r := a.rows[0]
			r[0] = nodeValue(f.database.Name)
			r[1] = nodeValue(strings.Replace(string(r[1]), "`"+f.place.schema+"`", "`"+f.database.Name+"`", 1))
		}
	default:
		if strings.HasPrefix(sh.What, "create ") && f.database != nil && f.place.schema != f.place.database {
			for i := range a.columns {
				if n := a.columns[i].Name; !strings.HasPrefix(n, "Create ") && n != "SQL Original Statement" {
					continue
				}
				for _, r := range a.rows {
					if r[i] != nil {
						r[i] = nodeValue(router.RenameQualifier(string(r[i]), s.mode, f.place.schema, f.place.database))
					}
				}
			}
		}
	}
	return nil
}

// showWarnings answers from what the session remembers of its last statement.
func (s *Session) showWarnings(sh *router.Show, bin bool) error {
	if strings.HasPrefix(sh.What, "count ") {
		name, n := "@@session.warning_count", s.warned
		if sh.What == "count errors" {
			name, n = "@@session.error_count", s.errored
		}
		r := &resultSet{rows: [][]cell{{number(int64(n))}},
			columns: []mysql.Column{{Name: name, Charset: 63, Length: 21, Type: gomysql.MYSQL_TYPE_LONGLONG, Flags: gomysql.BINARY_FLAG | gomysql.UNSIGNED_FLAG}}}
		return s.writeResultOnly(r, bin)
	}
	code := mysql.Column{Name: "Code", Charset: 63, Length: 5, Type: gomysql.MYSQL_TYPE_LONG, Flags: gomysql.BINARY_FLAG | gomysql.UNSIGNED_FLAG | gomysql.NOT_NULL_FLAG}
	r := &resultSet{columns: []mysql.Column{s.textColumn("Level", 7), code, s.textColumn("Message", 512)}}
	for _, i := range []int{0, 2} {
		r.columns[i].Flags = gomysql.NOT_NULL_FLAG
		if s.mariadb() {
			const notFixed = 39 // MariaDB's decimals of a string
			r.columns[i].Decimals, r.columns[1].Length = notFixed, 4
		}
	}
	skip, take := uint64(0), ^uint64(0)
	if sh.Limit != "" {
		a, b, two := strings.Cut(sh.Limit, ",")
		take = parseUint([]byte(strings.TrimSpace(a)))
		if two {
			skip, take = take, parseUint([]byte(strings.TrimSpace(b)))
		}
	}
	for _, w := range s.warnings[:min(len(s.warnings), s.errorsMax())] {
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

// errorsMax is how many warnings the session keeps: its max_error_count. Each
// shard kept as many.
func (s *Session) errorsMax() int {
	if text, ok := s.vars.Get("max_error_count"); ok {
		if n, err := strconv.Atoi(text); err == nil {
			return n
		}
	}
	if b := s.gen.anyBase(s.database); b != nil {
		return b.defaults.errorsMax
	}
	return warningsMax
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
	Connections   int    // backend connections that work for it or that it keeps
	Pinned        string // the connections it keeps and why: "n0: user locks; n1: transaction"
}

// Describe tells what the session is doing.
func (s *Session) Describe() SessionInfo {
	s.mu.Lock()
	defer s.mu.Unlock()
	in := SessionInfo{ID: s.id, User: s.mu.user, Host: s.mu.host, Database: s.mu.db, InTransaction: s.mu.inTx, Pinned: s.mu.pins}
	conns := append(slices.Clone(s.mu.active), s.mu.pinned...)
	for _, c := range s.mu.legs {
		if conns = append(conns, c); slices.Contains(s.mu.pinned, c) {
			continue
		}
		if in.Pinned != "" {
			in.Pinned += "; "
		}
		in.Pinned += c.Node().Name() + ": transaction"
	}
	for i, c := range conns {
		if !slices.Contains(conns[:i], c) {
			in.Connections++
		}
	}
	if s.mu.began.IsZero() {
		in.For = time.Since(s.mu.since)
	} else {
		in.Running, in.For, in.Text = true, time.Since(s.mu.began), string(s.mu.textBuf)
	}
	return in
}
