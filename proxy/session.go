package proxy

import (
	"context"
	"errors"
	"net"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"
	"go.uber.org/zap"

	"braid/backend"
	"braid/internal/mysql"
	"braid/router"
)

// Session is one client. One goroutine drives it: it reads a command, carries
// it out on the nodes, writes the answer. Fields under mu are also looked at by
// others.
type Session struct {
	srv *Server
	id  uint64

	client
	user string
	host string

	// What the client has set.
	database     string
	vars         *backend.Vars
	own          *backend.Vars // variables that Braid keeps itself; see variables.go
	reading      *backend.Vars // vars and own; nil: to be made
	limited      *backend.Vars // vars and sql_select_limit; nil: to be made
	mode         router.Mode
	charset      string // character_set_client
	connection   string // character_set_connection
	autocommit   bool
	readOnly     bool // session transaction_read_only
	isolationSet bool // the client chose the isolation level itself
	loggedIn     *mysql.Login
	hints        router.Hints // of the statement under way
	nextLevel    string       // one-shot SET TRANSACTION
	nextAccess   string
	fence        bool      // braid_read_fence (rule T16)
	xaOpen       *clientXA // the client's own XA transaction; nil: none
	// selectLimit is sql_select_limit in rows, where the client has set one.
	selectLimit    uint64
	selectLimitSet bool

	gen   *generation // of the statement, or of the transaction, under way
	tx    *backend.Tx // nil: none open
	txOpt backend.TxOptions
	// txLevel is the isolation level of tx; "" when it is not certain, because the
	// session's was set after tx began and a leg may begin with that.
	txLevel string
	// spread says that the client's last transaction wrote on several nodes: the next
	// probably will, too (TxOptions.Spread).
	spread bool

	facts    router.Facts
	warnings []warning
	warned   uint16 // warning count of the last statement
	errored  uint16 // error count of the last statement
	// diagnosed says that warnings has what a node said of the statement that now
	// fails, its error among it.
	diagnosed bool

	pins        []pin
	userLocks   userLocks
	temporaries *temporaries // nil: the session has no temporary tables
	handlers    []handler    // what it has open by HANDLER
	found       uint64       // FOUND_ROWS() of the shards read so far
	doomed      bool         // what a node held for the session was lost: its client is closed

	query router.Query
	exec  execution
	route router.Route

	stmts    map[uint32]*prepared
	named    map[string]*prepared // PREPARE name FROM
	stmtNext uint32

	def    []byte       // scratch of renameSchema
	told   *mysql.Error // the last error that the client was told
	failed uint64       // statements answered with an error
	loads  *router.Load // the LOAD DATA LOCAL under way on one shard; nil: none
	behind []byte       // the statements behind the one under way, of the same command
	latest *prepared    // the last COM_STMT_PREPARE's; nil when it failed
	// executing is the statement whose COM_STMT_EXECUTE is being answered;
	// columnsChanged says that its columns are not as many as before.
	executing      *prepared
	columnsChanged bool
	// trackedTx says that the client was told of a transaction that it began.
	trackedTx  bool
	gathers    bool // nothing of the answer is written: what cannot be merged may be gathered
	newIDs     bool // an INSERT may be tried again with other ids than it was given
	again      bool // nothing of the answer is written: after a deadlock the statement may be tried again
	ownTx      bool // the open transaction is the statement's own (autocommit)
	stepsDepth int  // how many writes in steps are under way, one inside of the other
	// waiting says that the transaction is there for its savepoints only: under
	// autocommit=0 it begins, for all to see, with the first table that is used.
	waiting bool
	more    bool // another result follows in this command (multi-statements)

	idleSet     atomic.Int64 // wait_timeout that the client has set, in seconds; 0: none
	interactive atomic.Bool

	seen struct { // the watcher's own
		turn uint64
		at   time.Time
	}

	mu struct {
		sync.Mutex
		began      time.Time // of the statement under way; zero when idle
		textBuf    []byte    // its beginning, for SHOW PROCESSLIST
		active     []*backend.Conn
		killed     bool         // KILL: the session ends
		expired    bool         // wait_timeout: the session ends
		stopped    *mysql.Error // why the statement is being stopped
		deadline   time.Time
		inTx       bool
		lockConn   uint64 // id of the backend connection that holds user locks; 0: none
		pins       string // what SHOW SESSIONS tells of the pins
		pinned     []*backend.Conn
		legs       []*backend.Conn // of the open transaction, after the last statement
		db         string
		user, host string
		since      time.Time // the last statement ended, or the session began
		socket     net.Conn
		conn       *mysql.Conn   // nil before the handshake; for its Turn only
		serial     uint64        // counts statements
		killDone   chan struct{} // closed when the nodes were told to stop the statement; nil: they are not being told
	}
}

// warning is one row of SHOW WARNINGS.
type warning struct {
	level   string
	code    uint16
	message string
}

var errQuit = errors.New("client quit")

// newSession makes the session of a client that has just come. The watcher may
// look at it from now on.
func newSession(srv *Server, nc net.Conn) *Session {
	s := &Session{srv: srv, id: srv.ids.Add(1)}
	s.mu.since, s.mu.socket = time.Now(), nc
	return s
}

// run serves the client until it leaves.
func (s *Session) run(nc net.Conn) {
	defer func() {
		if r := recover(); r != nil {
			s.srv.log.Error("bug: session panicked; its client is closed", zap.Uint64("connection", s.id), zap.Any("panic", r), zap.ByteString("stack", debug.Stack()))
		}
		s.close(nc)
	}()
	s.gen = s.srv.gen.Load()
	_ = nc.SetDeadline(time.Now().Add(time.Duration(s.gen.cfg.Timeouts.Handshake)))
	behind, err := mysql.AcceptProxy(nc, s.gen.edge.networks)
	if err != nil {
		s.srv.log.Info("no PROXY header", zap.Error(err))
		return
	}
	nc = behind
	s.c = mysql.NewConn(nc, mysql.ClientSide, s.gen.cfg.Proxy.PacketBytesMax)
	s.mu.Lock()
	s.mu.conn = s.c
	s.mu.Unlock()
	if err := s.login(nc); err != nil {
		return
	}
	for {
		err := s.command()
		if err == nil {
			continue
		}
		if !errors.Is(err, errQuit) {
			s.srv.log.Debug("session ended", zap.Uint64("connection", s.id), zap.Error(err))
		}
		return
	}
}

// end rolls back what is open and lets everything go.
func (s *Session) close(nc net.Conn) {
	if s.tx != nil {
		ctx, cancel := s.context()
		_ = s.tx.Rollback(ctx)
		cancel()
		s.tx = nil
	}
	s.mu.Lock()
	active := s.mu.active
	s.mu.active = nil
	s.mu.Unlock()
	for _, c := range active {
		s.scrap(c)
	}
	s.closeStatements()
	for _, p := range s.pins {
		p.conn.Destroy()
	}
	s.pins = nil
	if s.c != nil {
		_ = s.c.Close()
	} else {
		_ = nc.Close()
	}
}

// context is for waiting on behalf of a statement: bounded by its timeout.
func (s *Session) context() (context.Context, context.CancelFunc) {
	d := time.Duration(s.gen.cfg.Timeouts.Statement)
	if h := s.hints.Timeout; h > 0 && (d == 0 || h < d) {
		d = h
	}
	if d > 0 {
		return context.WithTimeout(context.Background(), d)
	}
	return context.WithTimeout(context.Background(), 24*time.Hour)
}

// login does the handshake and says OK, or why not.
func (s *Session) login(nc net.Conn) error {
	login, err := mysql.AcceptHandshake(s.c, s.serverOptions(), s.credential)
	if err != nil {
		s.srv.stats.denied.Add(1)
		var e *mysql.Error
		if errors.As(err, &e) {
			s.srv.log.Info("login refused", zap.String("from", nc.RemoteAddr().String()), zap.Uint16("code", e.Code))
		}
		return err
	}
	s.srv.stats.logins.Add(1)
	s.caps = login.Capabilities
	s.begin(login)
	if login.Database != "" {
		if e := s.use(login.Database); e != nil {
			_ = s.writeError(e)
			_ = s.c.Flush()
			return e
		}
	}
	if login.Database != "" {
		s.trackUse()
	}
	if err := s.writeOK(&mysql.OK{}); err != nil {
		return err
	}
	if err := s.c.Flush(); err != nil {
		return err
	}
	if login.Compression != mysql.CompressNone {
		if err := s.c.StartCompression(login.Compression, login.ZstdLevel); err != nil {
			return err
		}
	}
	return nc.SetDeadline(time.Time{})
}

// credential looks a user up for the handshake.
func (s *Session) credential(user string, remote net.Addr) (mysql.Credential, bool) {
	c, ok := s.gen.secrets[user]
	return mysql.Credential{Password: c.password, Hash: c.hash}, ok
}

// version is what the server says it is.
func (s *Session) version() string {
	if v := s.gen.cfg.Proxy.Version; v != "" {
		return v
	}
	if b := s.gen.anyBase(""); b != nil {
		return b.defaults.version
	}
	return "8.0.0-braid"
}

// command reads and answers one command. An error ends the session.
func (s *Session) command() error {
	if err := s.c.WaitCommand(); err != nil {
		s.farewell()
		return err
	}
	s.c.ResetSeq()
	p, err := s.c.ReadPacket()
	if err != nil {
		switch {
		case errors.Is(err, mysql.ErrPacketTooLarge):
			s.lastWords(mysql.Errorf(gomysql.ER_NET_PACKET_TOO_LARGE, "Got a packet bigger than 'max_allowed_packet' bytes"))
		case errors.Is(err, mysql.ErrSequence):
			s.lastWords(mysql.Errorf(gomysql.ER_NET_PACKETS_OUT_OF_ORDER, "Got packets out of order"))
		}
		return err
	}
	if len(p) == 0 {
		return mysql.ErrMalformed
	}
	s.follow()
	s.more = false
	if !s.beginStatement() {
		_ = s.writeError(mysql.Errorf(1053, "Server shutdown in progress"))
		_ = s.c.Flush()
		return errQuit
	}
	err = s.dispatch(p[0], p[1:])
	s.endStatement()
	if err != nil {
		return err
	}
	if s.ended() {
		_ = s.c.Flush()
		return errQuit
	}
	if err := s.c.Flush(); err != nil || !s.doomed {
		return err
	}
	s.srv.log.Info("session closed: a node lost what it held for it", zap.Uint64("connection", s.id))
	return errQuit
}

// ended tells whether the session was killed while its statement ran.
func (s *Session) ended() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.killed
}

// farewell tells an idle client why its connection is closed, where servers do.
func (s *Session) farewell() {
	s.mu.Lock()
	expired, killed := s.mu.expired, s.mu.killed
	s.mu.Unlock()
	switch {
	case expired && !s.mariadb():
		s.lastWords(mysql.Errorf(4031, "The client was disconnected by the server because of inactivity. See wait_timeout and interactive_timeout for configuring this behavior."))
	case killed && !expired && s.mariadb():
		s.lastWords(&mysql.Error{Code: 1927, State: "70100", Message: "Connection was killed"})
	}
}

// lastWords tells the client, out of turn, why its connection is closed.
func (s *Session) lastWords(e *mysql.Error) {
	_ = s.c.NetConn().SetDeadline(time.Now().Add(time.Second))
	s.c.ResetSeq()
	_ = s.writeError(e)
	_ = s.c.Flush()
}

// dispatch answers one command; payload is valid until the client is read again.
func (s *Session) dispatch(cmd byte, payload []byte) error {
	switch cmd {
	case gomysql.COM_QUERY:
		if s.caps&gomysql.CLIENT_QUERY_ATTRIBUTES != 0 {
			text, err := queryText(payload)
			if err != nil {
				return s.fail(mysql.Errorf(gomysql.ER_MALFORMED_PACKET, "Malformed communication packet"))
			}
			payload = text
		}
		return s.comQuery(payload)
	case gomysql.COM_STMT_EXECUTE:
		return s.comExecute(payload)
	case gomysql.COM_STMT_PREPARE:
		return s.comPrepare(payload)
	case gomysql.COM_STMT_CLOSE:
		s.comClose(payload)
		return nil
	case gomysql.COM_STMT_RESET:
		return s.comReset(payload)
	case gomysql.COM_STMT_SEND_LONG_DATA:
		s.comLongData(payload)
		return nil
	case gomysql.COM_STMT_FETCH:
		return s.comFetch(payload)
	case gomysql.COM_PING:
		return s.writeOK(&mysql.OK{Warnings: s.stillWarned()})
	case gomysql.COM_INIT_DB:
		if e := s.use(string(payload)); e != nil {
			return s.writeError(e)
		}
		s.trackUse()
		return s.writeOK(&mysql.OK{})
	case gomysql.COM_QUIT:
		return errQuit
	case gomysql.COM_FIELD_LIST:
		return s.comFieldList(payload)
	case gomysql.COM_STATISTICS:
		return s.comStatistics()
	case gomysql.COM_RESET_CONNECTION:
		return s.comResetConnection()
	case gomysql.COM_CHANGE_USER:
		return s.comChangeUser(payload)
	case gomysql.COM_SET_OPTION:
		return s.comSetOption(payload)
	case gomysql.COM_PROCESS_KILL:
		if len(payload) < 4 {
			return mysql.ErrMalformed
		}
		id := uint64(payload[0]) | uint64(payload[1])<<8 | uint64(payload[2])<<16 | uint64(payload[3])<<24
		return s.kill(router.Kill{ID: id})
	case gomysql.COM_DEBUG:
		return s.writeError(mysql.Errorf(1227, "Access denied; you need (at least one of) the SUPER privilege(s) for this operation"))
	default:
		return s.writeError(mysql.Errorf(gomysql.ER_UNKNOWN_COM_ERROR, "Unknown command"))
	}
}

// beginStatement notes that a command is under way; false when the session is
// to leave instead.
func (s *Session) beginStatement() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.killed {
		return false
	}
	s.mu.began = time.Now()
	s.mu.stopped, s.mu.killDone = nil, nil
	s.mu.serial++
	s.mu.deadline = time.Time{}
	if d := time.Duration(s.gen.cfg.Timeouts.Statement); d > 0 {
		s.mu.deadline = s.mu.began.Add(d)
	}
	return true
}

func (s *Session) endStatement() {
	s.mu.Lock()
	s.mu.began, s.mu.since = time.Time{}, time.Now()
	if s.tx != nil {
		s.tx.Idle()
	}
	s.mu.inTx = s.tx != nil
	clear(s.mu.legs)
	s.mu.legs = s.mu.legs[:0]
	if s.tx != nil {
		s.mu.legs = s.tx.AppendConns(s.mu.legs)
	}
	s.mu.db = s.database
	s.mu.textBuf = s.mu.textBuf[:0]
	s.mu.Unlock()
}

// hold notes that a backend connection works for this session, so that KILL,
// timeouts and a client that leaves reach it.
func (s *Session) hold(c *backend.Conn) {
	s.mu.Lock()
	s.mu.active = append(s.mu.active, c)
	s.mu.Unlock()
}

// drop is the end of hold. It returns why the statement was stopped meanwhile, or nil.
func (s *Session) drop(c *backend.Conn) *mysql.Error {
	s.mu.Lock()
	if done := s.mu.killDone; done != nil {
		// A KILL on its way must not hit whoever has the connection next.
		s.mu.Unlock()
		<-done
		s.mu.Lock()
	}
	defer s.mu.Unlock()
	for i, x := range s.mu.active {
		if x == c {
			last := len(s.mu.active) - 1
			s.mu.active[i] = s.mu.active[last]
			s.mu.active[last] = nil
			s.mu.active = s.mu.active[:last]
			break
		}
	}
	return s.mu.stopped
}

// leave makes the session end: at once with force, otherwise when it is
// between statements and has no transaction open.
func (s *Session) leave(force bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if force || s.mu.began.IsZero() && !s.mu.inTx {
		s.mu.killed = true
		s.cut()
		for _, c := range s.mu.active {
			c.Interrupt()
		}
	}
}

// cut makes the reads and writes of the client's connection fail; s.mu is held.
func (s *Session) cut() { _ = s.mu.socket.SetDeadline(time.Unix(1, 0)) }

// idleTimeout is how long the client may be silent: what it has set as its
// wait_timeout, or what the configuration says.
func (s *Session) idleTimeout() time.Duration {
	if d := s.idleSet.Load(); d > 0 {
		return time.Duration(d) * time.Second
	}
	t := &s.srv.gen.Load().cfg.Timeouts
	if s.interactive.Load() {
		return time.Duration(t.Interactive)
	}
	return time.Duration(t.Idle)
}

// expire ends the session when it has been idle for longer than allowed, also in
// a transaction, which is rolled back.
func (s *Session) expire(now time.Time, idle time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.began.IsZero() && now.Sub(s.mu.since) > idle && !s.mu.killed {
		s.mu.killed, s.mu.expired = true, true
		s.cut()
	}
}

// clientSocket is the client's socket, when it can be looked at.
func (s *Session) clientSocket() (syscall.Conn, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sc, ok := s.mu.socket.(syscall.Conn)
	return sc, ok
}
