package proxy

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"braid/backend"
	"braid/internal/mysql"
)

// comFieldList answers COM_FIELD_LIST, the old way to ask for a table's
// columns, by passing it on to a shard that has the table.
func (s *Session) comFieldList(payload []byte) error {
	name, wild, _ := bytes.Cut(payload, []byte{0})
	if s.database == "" {
		return s.fail(mysql.Errorf(1046, "No database selected"))
	}
	p, err := s.tablePlace(string(name))
	if err != nil {
		return s.failErr(err)
	}
	c := s.pinned(p.node)
	if c == nil {
		ctx, cancel := s.context()
		defer cancel()
		if c, err = p.node.Get(ctx, false, p.schema, s.vars); err != nil {
			return s.failErr(p.shardError(err))
		}
	}
	s.hold(c)
	leg := s.tx != nil && s.tx.On(p.node) == c
	err = c.Send(&backend.Need{Schema: p.schema, Vars: s.vars, Autocommit: !leg && s.autocommit}, gomysql.COM_FIELD_LIST, append(append(append([]byte{}, name...), 0), wild...))
	var first []byte
	if err == nil {
		first, err = c.First()
	}
	for err == nil {
		if first[0] == 0xff {
			e := logical(mysql.ParseError(first), p.schema, p.database)
			s.drop(c)
			s.giveBack(c)
			return s.fail(e)
		}
		if first[0] == 0xfe && len(first) < mysql.PacketMax {
			s.drop(c)
			s.giveBack(c)
			if s.deprecateEOF() {
				return s.writeEnd(0, 0)
			}
			var b [8]byte
			return s.c.WritePacket(mysql.AppendEOF(b[:0], s.status(0), 0))
		}
		if s.bare {
			first, err = c.ReadPacket()
			continue
		}
		if err := s.c.WritePacket(s.renameSchema(first, &p)); err != nil {
			s.drop(c)
			s.scrap(c)
			return err
		}
		first, err = c.ReadPacket()
	}
	s.drop(c)
	s.scrap(c)
	return s.failErr(p.shardError(err))
}

// tablePlace is where a table of the session's database can be asked for.
func (s *Session) tablePlace(name string) (place, error) {
	db := s.gen.topology.Databases[s.database]
	if db == nil { // information_schema
		return s.home()
	}
	if own := s.router().Topology().Databases[s.database].Table(name); own != nil && own.Temporary {
		return place{}, temporaryRefused("in COM_FIELD_LIST")
	}
	t := db.Table(name)
	if t == nil {
		return place{}, mysql.Errorf(1146, "Table '%s.%s' doesn't exist", s.database, name)
	}
	return s.shardPlace(s.database, t.Shard), nil
}

// comStatistics answers COM_STATISTICS with a line of text.
func (s *Session) comStatistics() error {
	up := time.Since(s.srv.start)
	n := s.srv.stats.statements.Load()
	line := fmt.Sprintf("Uptime: %d  Threads: %d  Questions: %d  Slow queries: 0  Opens: 0  Flush tables: 0  Open tables: 0  Queries per second avg: %.3f",
		int(up.Seconds()), len(s.srv.Sessions()), n, float64(n)/max(up.Seconds(), 1))
	return s.c.WritePacket([]byte(line))
}

// comResetConnection makes the session a fresh one of the same user in the
// same database.
func (s *Session) comResetConnection() error {
	s.rollbackOpen()
	s.unpinAll()
	db := s.database
	collation := s.loggedIn.Collation
	if !s.mariadb() {
		collation = s.defaultCollation().ID // not the handshake's
	}
	found := s.facts.FoundRows // servers leave it
	s.fresh(collation)
	s.facts.FoundRows = found
	if db != "" {
		s.database = db
		if e := s.use(db); e != nil {
			return s.fail(e)
		}
	}
	return s.okNothing()
}

// comChangeUser logs another user in on the same connection.
func (s *Session) comChangeUser(payload []byte) error {
	s.rollbackOpen()
	s.unpinAll()
	former, database := s.loggedIn, s.database
	packet := append([]byte{gomysql.COM_CHANGE_USER}, payload...)
	nc := s.c.NetConn()
	_ = nc.SetDeadline(time.Now().Add(time.Duration(s.gen.cfg.Timeouts.Handshake)))
	login, err := mysql.ChangeUser(s.c, s.serverOptions(), s.loggedIn, packet, s.credential)
	if err != nil {
		s.srv.stats.denied.Add(1)
		var e *mysql.Error
		if errors.As(err, &e) {
			return s.unchanged(former, database)
		}
		return err
	}
	_ = nc.SetDeadline(time.Time{})
	s.database = ""
	s.begin(login)
	if login.Database != "" {
		if e := s.use(login.Database); e != nil {
			if err := s.fail(e); err != nil {
				return err
			}
			return s.unchanged(former, database)
		}
	}
	return s.okNothing()
}

// unchanged is what becomes of a session whose COM_CHANGE_USER was answered with
// an error: MySQL closes it, MariaDB keeps it as the former user's, without what
// that had set.
func (s *Session) unchanged(former *mysql.Login, database string) error {
	if err := s.c.Flush(); err != nil {
		return err
	}
	if !s.mariadb() {
		return errQuit
	}
	_ = s.c.NetConn().SetDeadline(time.Time{})
	s.database = ""
	s.begin(former)
	if database == "" {
		return nil
	}
	if e := s.use(database); e != nil {
		return e
	}
	return nil
}

// comSetOption switches multi-statements on and off.
func (s *Session) comSetOption(payload []byte) error {
	if len(payload) < 2 {
		return s.fail(mysql.Errorf(gomysql.ER_UNKNOWN_COM_ERROR, "Unknown command"))
	}
	switch payload[0] {
	case 0:
		s.caps |= gomysql.CLIENT_MULTI_STATEMENTS
	case 1:
		s.caps &^= gomysql.CLIENT_MULTI_STATEMENTS
	default:
		return s.fail(mysql.Errorf(gomysql.ER_UNKNOWN_COM_ERROR, "Unknown command"))
	}
	return s.writeEnd(0, s.stillWarned())
}

// serverOptions is what the handshake tells the client of this server.
func (s *Session) serverOptions() mysql.ServerOptions {
	o := s.gen.edge.options()
	o.Capabilities = mysql.ServerCapabilities | gomysql.CLIENT_IGNORE_SPACE | gomysql.CLIENT_LOCAL_FILES
	if !s.mariadb() {
		o.Capabilities |= gomysql.CLIENT_QUERY_ATTRIBUTES | optionalMetadata
	}
	if b := s.gen.anyBase(""); b != nil {
		if info := b.nodes[0].Info(); info != nil {
			o.Collation = info.Charset
		}
	}
	o.Version, o.ConnectionID, o.Cache, o.RSA = s.version(), uint32(s.id), s.srv.auth, s.srv.rsa
	return o
}

// stillWarned is the count of warnings that a command which is no statement
// ends with: MySQL repeats the last statement's.
func (s *Session) stillWarned() uint16 {
	if s.mariadb() {
		return 0
	}
	return s.warned
}
