package servers

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// User and Password log in over TCP on every server of this package, with all
// privileges. MySQL 9 knows only caching_sha2_password, MariaDB uses
// mysql_native_password.
const (
	User     = "braid"
	Password = "braid-test-pw"
)

// templateVersion changes whenever template makes something else.
const templateVersion = "1"

// template returns a data directory with the system tables and the users,
// making it when this machine has none yet. Processes that come meanwhile wait.
func (in *install) template(ctx context.Context) (string, error) {
	version, err := in.version()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(in.data, "template-"+templateVersion+"-"+version)
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	unlock, err := lock(dir + ".lock")
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	build := dir + ".build"
	if err := os.RemoveAll(build); err != nil {
		return "", err
	}
	if err := in.initialize(ctx, build); err != nil {
		return "", fmt.Errorf("making a %s data directory: %w", in.flavour, err)
	}
	return dir, os.Rename(build, dir)
}

func (in *install) initialize(ctx context.Context, dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	var cmd *exec.Cmd
	if in.flavour == MariaDB {
		args := []string{"--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db", "--datadir=" + dir,
			"--innodb-log-file-size=16M"}
		if os.Getuid() == 0 {
			args = append(args, "--user=root")
		}
		cmd = exec.CommandContext(ctx, in.initdb, args...)
	} else {
		cmd = in.command("--no-defaults", "--user=root", "--initialize-insecure", "--datadir="+in.inside(dir),
			"--innodb-redo-log-capacity=16M", "--log-error-verbosity=1")
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, bytes.TrimSpace(out))
	}
	s := &Server{flavour: in.flavour, in: in, dir: dir, data: dir}
	if err := s.launch(ctx); err != nil {
		return err
	}
	if err := s.createUser(ctx); err != nil {
		s.Kill9()
		return err
	}
	if err := s.Stop(); err != nil {
		return err
	}
	// The identity is made anew by each copy at its first start.
	for _, name := range []string{"auto.cnf", "error.log", "mysqld.sock", "mysqld.sock.lock"} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !os.IsNotExist(err) {
			return err
		}
	}
	return nil
}

func (s *Server) createUser(ctx context.Context) error {
	db, err := s.Open("")
	if err != nil {
		return err
	}
	defer db.Close()
	for _, text := range []string{
		// Anonymous users would shadow the others.
		"DELETE FROM mysql.global_priv WHERE User=''",
		"FLUSH PRIVILEGES",
		"CREATE USER '" + User + "'@'%' IDENTIFIED BY '" + Password + "'",
		"GRANT ALL PRIVILEGES ON *.* TO '" + User + "'@'%' WITH GRANT OPTION",
	} {
		if s.flavour == MySQL && strings.HasPrefix(text, "DELETE") {
			continue // MySQL makes none
		}
		if _, err := db.ExecContext(ctx, text); err != nil {
			return fmt.Errorf("%s: %w", text, err)
		}
	}
	return nil
}

// lock takes an exclusive lock on path, which is made when missing, waiting for
// whoever holds it. The kernel gives it back when this process ends.
func lock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		f.Close()
		return nil, err
	}
	return func() { f.Close() }, nil
}

// instance makes the folder of one server from the template, with a lock that
// marks it as in use, and removes the folders of servers that died with the
// process that owned them. The lock is held until the returned file is closed.
func (in *install) instance(template string) (dir string, held *os.File, err error) {
	in.sweep()
	dir, err = os.MkdirTemp(in.data, "run-")
	if err != nil {
		return "", nil, err
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return "", nil, err
	}
	// Locked before it has the name that sweep looks for.
	fresh := filepath.Join(dir, "lock.new")
	held, err = os.OpenFile(fresh, os.O_CREATE|os.O_RDWR, 0o644)
	if err == nil {
		err = syscall.Flock(int(held.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	}
	if err == nil {
		err = os.Rename(fresh, filepath.Join(dir, "lock"))
	}
	if err == nil {
		var out []byte
		out, err = exec.Command("cp", "-a", "--reflink=auto", "--sparse=always", template, filepath.Join(dir, "data")).CombinedOutput()
		if err != nil {
			err = fmt.Errorf("copying %s: %w: %s", template, err, bytes.TrimSpace(out))
		}
	}
	if err != nil {
		if held != nil {
			held.Close()
		}
		os.RemoveAll(dir)
		return "", nil, err
	}
	return dir, held, nil
}

// sweep removes instances whose owner is gone. One that is being made just now
// has no lock file yet and is left alone.
func (in *install) sweep() {
	dirs, _ := filepath.Glob(filepath.Join(in.data, "run-*"))
	for _, dir := range dirs {
		f, err := os.Open(filepath.Join(dir, "lock"))
		if err != nil {
			continue
		}
		if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			os.RemoveAll(dir)
		}
		f.Close()
	}
}
