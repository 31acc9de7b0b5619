package main

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// notInstalled says that this machine has no server of a kind.
type notInstalled struct{ kind, why string }

func (e *notInstalled) Error() string { return fmt.Sprintf("no %s server here: %s", e.kind, e.why) }

const (
	nodeUser     = "braid"
	nodePassword = "braid" // for servers that listen in a folder of this user's only
	startTimeout = time.Minute
)

// look finds a program on PATH, or where servers are kept that are not on a
// user's PATH.
func look(names ...string) string {
	folders := append(filepath.SplitList(os.Getenv("PATH")), "/usr/sbin", "/usr/local/sbin", "/usr/local/bin", "/usr/libexec", "/opt/homebrew/bin")
	for _, name := range names {
		for _, folder := range folders {
			if path, err := exec.LookPath(filepath.Join(folder, name)); err == nil && filepath.IsAbs(path) {
				return path
			}
		}
	}
	return ""
}

// install is one kind of server as found on this machine.
type install struct {
	mariadb     bool
	server      string // path
	initializer string // path of mariadb-install-db
	version     string
}

func find(ctx context.Context, kind string) (*install, error) {
	in := &install{mariadb: kind == "mariadb"}
	names := []string{"mysqld"}
	if in.mariadb {
		names = []string{"mariadbd", "mysqld"}
	}
	if in.server = look(names...); in.server == "" {
		return nil, &notInstalled{kind, names[0] + " is not on PATH"}
	}
	text, err := exec.CommandContext(ctx, in.server, "--no-defaults", "--version").Output()
	if err != nil {
		return nil, fmt.Errorf("%s --version: %w", in.server, err)
	}
	// "mysqld  Ver 9.7.0 for Linux on x86_64", "mariadbd  Ver 10.11.11-MariaDB-... for debian-linux-gnu"
	if strings.Contains(string(text), "MariaDB") != in.mariadb {
		return nil, &notInstalled{kind, in.server + " is of the other family"}
	}
	if _, rest, ok := strings.Cut(string(text), "Ver "); ok {
		in.version, _, _ = strings.Cut(rest, " ")
		in.version, _, _ = strings.Cut(in.version, "-")
	}
	if in.mariadb {
		if in.initializer = look("mariadb-install-db", "mysql_install_db"); in.initializer == "" {
			return nil, &notInstalled{kind, "mariadb-install-db is not on PATH"}
		}
	}
	return in, nil
}

// startReal starts two servers with their data in dir. They listen on sockets
// there and on no port, so nobody but this user reaches them.
func startReal(ctx context.Context, out io.Writer, kind, dir string) (*nodes, error) {
	in, err := find(ctx, kind)
	if err != nil {
		return nil, err
	}
	family := "MySQL"
	if in.mariadb {
		family = "MariaDB"
	}
	n := &nodes{what: family + " " + in.version}
	fmt.Fprintf(out, "Starting two %s servers (%s)\n", n.what, in.server)
	type started struct {
		node node
		stop func() error
		err  error
	}
	results := make([]chan started, 2)
	for i := range results {
		results[i] = make(chan started, 1)
		go func() {
			name := fmt.Sprintf("n%d", i+1)
			node, stop, err := in.start(ctx, name, filepath.Join(dir, name))
			results[i] <- started{node, stop, err}
		}()
	}
	for _, result := range results {
		r := <-result
		if r.err != nil {
			err = errors.Join(err, r.err)
			continue
		}
		n.list, n.stops = append(n.list, r.node), append(n.stops, r.stop)
	}
	if err != nil {
		n.stop()
		return nil, err
	}
	return n, nil
}

// start makes a data directory and starts a server on it.
func (in *install) start(ctx context.Context, name, dir string) (n node, stop func() error, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return n, nil, err
	}
	data, socket, logPath := filepath.Join(dir, "data"), filepath.Join(dir, "s"), filepath.Join(dir, "log")
	common := []string{"--no-defaults", "--datadir=" + data, "--tmpdir=" + dir}
	if os.Getuid() == 0 {
		common = append(common, "--user=root")
	}
	var initialize *exec.Cmd
	if in.mariadb {
		initialize = exec.CommandContext(ctx, in.initializer, append(common, "--auth-root-authentication-method=normal", "--skip-test-db", "--innodb-log-file-size=16M")...)
	} else {
		initialize = exec.CommandContext(ctx, in.server, append(common, "--initialize-insecure", "--innodb-redo-log-capacity=16M")...)
	}
	if text, err := initialize.CombinedOutput(); err != nil {
		return n, nil, fmt.Errorf("%s: %w: %s", initialize.Path, err, bytes.TrimSpace(text))
	}
	args := append(common, "--socket="+socket, "--pid-file="+filepath.Join(dir, "pid"), "--skip-networking", "--skip-log-bin", "--server-id="+strconv.Itoa(os.Getpid()),
		"--innodb-buffer-pool-size=64M", "--innodb-flush-log-at-trx-commit=2", "--max-connections=300")
	if in.mariadb {
		args = append(args, "--innodb-log-file-size=16M")
	} else {
		args = append(args, "--mysqlx=OFF", "--secure-file-priv=NULL", "--innodb-redo-log-capacity=16M")
	}
	logFile, err := os.Create(logPath)
	if err != nil {
		return n, nil, err
	}
	defer logFile.Close()
	cmd := exec.Command(in.server, args...)
	cmd.Stdout, cmd.Stderr = logFile, logFile
	ended, err := startChild(cmd)
	if err != nil {
		return n, nil, fmt.Errorf("%s: %w", in.server, err)
	}
	stop = func() error {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(20 * time.Second):
			_ = cmd.Process.Kill()
			<-ended
		}
		return nil
	}
	n = node{name: name, address: "unix:" + socket, user: nodeUser, password: nodePassword}
	if err := n.await(ctx, ended); err != nil {
		_ = stop()
		text, _ := os.ReadFile(logPath)
		return n, nil, fmt.Errorf("%w; its log ends:\n%s", err, text[max(0, len(text)-1500):])
	}
	n.isolations = n.innodbIsolations
	return n, stop, nil
}

// await returns when the server answers, with Braid's account made.
func (n *node) await(ctx context.Context, ended <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	db, err := openDriver(n.address, "root", "", "")
	if err != nil {
		return err
	}
	defer db.Close()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := db.PingContext(ctx)
		if err == nil {
			break
		}
		select {
		case <-ended:
			return fmt.Errorf("node %s ended while it started", n.name)
		case <-ctx.Done():
			return fmt.Errorf("node %s does not answer: %w", n.name, err)
		case <-tick.C:
		}
	}
	for _, text := range []string{
		"CREATE USER '" + n.user + "'@'localhost' IDENTIFIED BY '" + n.password + "'",
		"GRANT ALL PRIVILEGES ON *.* TO '" + n.user + "'@'localhost'",
	} {
		if _, err := db.ExecContext(ctx, text); err != nil {
			return fmt.Errorf("node %s: %s: %w", n.name, text, err)
		}
	}
	return nil
}

// innodbIsolations asks InnoDB.
func (n *node) innodbIsolations(ctx context.Context) (levels []string, err error) {
	db, err := n.open("")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return column(ctx, db, "SELECT trx_isolation_level FROM information_schema.INNODB_TRX ORDER BY trx_started")
}

// column reads a result of one column.
func column(ctx context.Context, db interface {
	QueryContext(context.Context, string, ...any) (*sql.Rows, error)
}, query string) (values []string, err error) {
	rows, err := db.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var v string
		if err := rows.Scan(&v); err != nil {
			return nil, err
		}
		values = append(values, v)
	}
	return values, rows.Err()
}
