package servers

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/go-sql-driver/mysql"
)

// Options changes how a server is started. The zero value is a small, fast one
// for tests: no binary log, innodb_flush_log_at_trx_commit=2, which loses
// nothing when the process is killed.
type Options struct {
	Args      []string // further options of mysqld; they come last and win
	BinaryLog bool     // with --log-bin, row format
}

// Server is one running mysqld. Its methods may be called from any goroutine,
// but one at a time.
type Server struct {
	flavour Flavour
	in      *install
	options Options
	dir     string   // the instance's folder; the data directory while the template is made
	data    string   // its data directory
	held    *os.File // the lock that marks dir as in use; nil for the template
	port    int
	process *process // nil while it is down
}

// startTimeout bounds one start, on a machine that is busy with others.
const startTimeout = 2 * time.Minute

// Start starts a server with fresh data and returns when it answers. The
// caller must Close it. Where this machine has no such server the error is an
// *Unavailable.
func Start(ctx context.Context, flavour Flavour, options Options) (*Server, error) {
	in, err := find(flavour)
	if err != nil {
		return nil, err
	}
	template, err := in.template(ctx)
	if err != nil {
		return nil, err
	}
	dir, held, err := in.instance(template)
	if err != nil {
		return nil, err
	}
	s := &Server{flavour: flavour, in: in, options: options, dir: dir, data: filepath.Join(dir, "data"), held: held}
	for attempt := 1; ; attempt++ {
		err = s.launch(ctx)
		if err == nil {
			return s, nil
		}
		// Somebody else may have taken the port between our look and the server's.
		if attempt == 3 || !strings.Contains(s.Log(), "Can't start server: Bind on TCP/IP port") {
			s.Close()
			return nil, err
		}
		s.port = 0
	}
}

// launch starts the process on s.port, or on a free one when that is 0.
func (s *Server) launch(ctx context.Context) error {
	if s.port == 0 {
		port, err := freePort()
		if err != nil {
			return err
		}
		s.port = port
	}
	cmd := s.in.command(s.arguments()...)
	logFile, err := os.OpenFile(s.logPath(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer logFile.Close()
	cmd.Stdout, cmd.Stderr = logFile, logFile
	p, err := start(cmd)
	if err != nil {
		return fmt.Errorf("starting %s: %w", s.in.mysqld, err)
	}
	s.process = p
	if err := s.await(ctx, p); err != nil {
		s.Kill9()
		return fmt.Errorf("%w; its log ends:\n%s", err, lastLines(s.Log(), 15))
	}
	return nil
}

func (s *Server) arguments() []string {
	data := s.in.inside(s.data)
	args := []string{
		"--no-defaults",
		"--datadir=" + data,
		"--tmpdir=" + data,
		"--port=" + strconv.Itoa(s.port),
		"--bind-address=127.0.0.1",
		"--socket=" + filepath.Join(data, "mysqld.sock"),
		"--pid-file=" + filepath.Join(data, "mysqld.pid"),
		"--server-id=" + strconv.Itoa(s.port),
		"--skip-name-resolve",
		"--local-infile=1",
		"--secure-file-priv=",
		"--max-allowed-packet=64M",
		"--performance-schema=ON",
		"--innodb-flush-log-at-trx-commit=2",
		"--innodb-doublewrite=0", // guards against torn pages at power loss, not at kill -9
		"--innodb-buffer-pool-size=64M",
		"--max-connections=500",
		"--back-log=500",
	}
	if os.Getuid() == 0 {
		args = append(args, "--user=root")
	}
	if s.flavour == MariaDB {
		args = append(args, "--innodb-log-file-size=16M", "--aria-log-file-size=8M", "--thread-handling=one-thread-per-connection")
	} else {
		args = append(args, "--mysqlx=OFF", "--innodb-redo-log-capacity=16M", "--log-error-verbosity=2")
	}
	if s.options.BinaryLog {
		args = append(args, "--log-bin=binlog", "--binlog-format=ROW", "--sync-binlog=0")
	} else {
		args = append(args, "--skip-log-bin")
	}
	return append(args, s.options.Args...)
}

// await returns when the server answers, or why it never will. It asks at the
// socket; only a server that has its port opens that.
func (s *Server) await(ctx context.Context, p *process) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	db, err := s.Open("")
	if err != nil {
		return err
	}
	defer db.Close()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if err := db.PingContext(ctx); err == nil {
			return nil
		}
		select {
		case <-p.done:
			return fmt.Errorf("the %s server ended while starting: %v", s.flavour, p.err)
		case <-ctx.Done():
			return fmt.Errorf("the %s server does not answer: %w", s.flavour, ctx.Err())
		case <-tick.C:
		}
	}
}

// Flavour tells which family the server is of.
func (s *Server) Flavour() Flavour { return s.flavour }

// Addr is the server's "127.0.0.1:port". It stays the same over a Restart.
func (s *Server) Addr() string { return "127.0.0.1:" + strconv.Itoa(s.port) }

// Socket is the path of the server's unix socket.
func (s *Server) Socket() string { return filepath.Join(s.data, "mysqld.sock") }

// DataDir is the path of the server's data directory.
func (s *Server) DataDir() string { return s.data }

// PID is the server's process id, 0 while it is down.
func (s *Server) PID() int {
	if s.process == nil {
		return 0
	}
	return s.process.pid
}

// Log is what the server has written to its error log.
func (s *Server) Log() string {
	text, _ := os.ReadFile(s.logPath())
	return string(text)
}

func (s *Server) logPath() string { return filepath.Join(s.data, "error.log") }

// Config is go-sql-driver's configuration for User over TCP, to be completed by the caller.
func (s *Server) Config(schema string) *mysql.Config {
	c := mysql.NewConfig()
	c.User, c.Passwd, c.Net, c.Addr, c.DBName = User, Password, "tcp", s.Addr(), schema
	return c
}

// DSN is go-sql-driver's data source name for User over TCP; schema may be empty.
func (s *Server) DSN(schema string) string { return s.Config(schema).FormatDSN() }

// RootDSN is the data source name for root at the unix socket.
func (s *Server) RootDSN(schema string) string {
	c := mysql.NewConfig()
	c.User, c.Net, c.Addr, c.DBName = "root", "unix", s.Socket(), schema
	c.Logger = &mysql.NopLogger{} // awaiting the start means failing a few times
	return c.FormatDSN()
}

// Open opens a handle as root at the unix socket, for the test's own looks
// behind the proxy. The caller closes it.
func (s *Server) Open(schema string) (*sql.DB, error) {
	c, err := mysql.ParseDSN(s.RootDSN(schema))
	if err != nil {
		return nil, err
	}
	c.Logger = &mysql.NopLogger{}
	connector, err := mysql.NewConnector(c)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(connector), nil
}

// SetGlobal sets a global variable; value is an expression as SQL text.
func (s *Server) SetGlobal(ctx context.Context, name, value string) error {
	db, err := s.Open("")
	if err != nil {
		return err
	}
	defer db.Close()
	_, err = db.ExecContext(ctx, "SET GLOBAL "+name+" = "+value)
	return err
}

// Stop shuts the server down cleanly; its data stay, so that Restart finds
// them. A server that does not end within a minute is killed, which is an error.
func (s *Server) Stop() error {
	p := s.process
	if p == nil {
		return nil
	}
	s.process = nil
	if err := p.signal(syscall.SIGCONT); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	if err := p.signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-p.done:
		return nil
	case <-time.After(time.Minute):
		p.signal(syscall.SIGKILL)
		<-p.done
		return fmt.Errorf("the %s server did not stop within a minute and was killed", s.flavour)
	}
}

// Kill9 ends the server at once, as a power cut of the process would.
func (s *Server) Kill9() {
	p := s.process
	if p == nil {
		return
	}
	s.process = nil
	p.signal(syscall.SIGKILL)
	<-p.done
}

// Restart starts the server again with its data and on its port, stopping it
// first when it runs.
func (s *Server) Restart(ctx context.Context) error {
	if err := s.Stop(); err != nil {
		return err
	}
	return s.launch(ctx)
}

// Pause freezes the server: connections stay open, nothing is answered.
func (s *Server) Pause() error {
	if err := s.signal(syscall.SIGSTOP); err != nil {
		return err
	}
	return s.process.stopped()
}

// Continue ends a Pause.
func (s *Server) Continue() error { return s.signal(syscall.SIGCONT) }

func (s *Server) signal(sig syscall.Signal) error {
	if s.process == nil {
		return os.ErrProcessDone
	}
	return s.process.signal(sig)
}

// Close kills the server and removes its data. It may be called after Stop or
// Kill9, and more than once.
func (s *Server) Close() error {
	s.Kill9()
	if s.held == nil {
		return nil
	}
	err := os.RemoveAll(s.dir)
	s.held.Close()
	s.held = nil
	return err
}

// freePort asks the kernel for a port nobody listens on.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
