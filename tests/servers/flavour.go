package servers

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Flavour is a server family.
type Flavour string

const (
	MariaDB Flavour = "mariadb"
	MySQL   Flavour = "mysql"
)

// Unavailable says that this machine has no server of a flavour, and why. Tests
// skip on it, with its text.
type Unavailable struct {
	Flavour Flavour
	Reason  string
}

func (e *Unavailable) Error() string {
	return fmt.Sprintf("%s server not available: %s", e.Flavour, e.Reason)
}

// install is one flavour as found on this machine.
type install struct {
	flavour Flavour
	mysqld  string // path of the server; inside chroot when that is set
	initdb  string // MariaDB: path of mariadb-install-db
	chroot  string // "" when the server runs on the machine itself
	data    string // folder of the templates and the instances, as this process sees it
}

// cacheDir is the folder that keeps what is slow to make: BRAID_CACHE, or
// /var/cache/braid, or, where that cannot be written, the user's cache.
func cacheDir() (string, error) {
	if dir := os.Getenv("BRAID_CACHE"); dir != "" {
		return dir, os.MkdirAll(dir, 0o755)
	}
	const dir = "/var/cache/braid"
	if err := os.MkdirAll(filepath.Join(dir, "servers"), 0o755); err == nil {
		return dir, nil
	}
	user, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	own := filepath.Join(user, "braid")
	return own, os.MkdirAll(own, 0o755)
}

// find looks for a flavour on this machine; what is missing is an *Unavailable.
func find(f Flavour) (*install, error) {
	cache, err := cacheDir()
	if err != nil {
		return nil, err
	}
	switch f {
	case MariaDB:
		in := &install{flavour: f, data: filepath.Join(cache, "servers")}
		if in.mysqld = look("mariadbd"); in.mysqld == "" {
			return nil, &Unavailable{f, "mariadbd is not installed (scripts/deps.sh, or: apt-get install --no-install-recommends mariadb-server)"}
		}
		if in.initdb = look("mariadb-install-db"); in.initdb == "" {
			return nil, &Unavailable{f, "mariadb-install-db is not installed (scripts/deps.sh)"}
		}
		return in, os.MkdirAll(in.data, 0o755)
	case MySQL:
		in := &install{flavour: f, mysqld: "/usr/sbin/mysqld", chroot: filepath.Join(cache, "mysql9")}
		in.data = filepath.Join(in.chroot, "data")
		if _, err := os.Stat(filepath.Join(in.chroot, ".braid-ready")); err != nil {
			reason := "there is no " + in.chroot + " (scripts/mysql9.sh builds it)"
			if text, err := os.ReadFile(filepath.Join(cache, "mysql9.reason")); err == nil {
				reason += ": " + strings.TrimSpace(string(text))
			}
			return nil, &Unavailable{f, reason}
		}
		if os.Getuid() != 0 {
			return nil, &Unavailable{f, "needs root, since it runs in a chroot"}
		}
		return in, os.MkdirAll(in.data, 0o755)
	}
	return nil, fmt.Errorf("no such server flavour: %q", f)
}

// look is exec.LookPath that also knows the sbin folders.
func look(name string) string {
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	for _, dir := range []string{"/usr/sbin", "/usr/local/sbin", "/usr/bin"} {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path
		}
	}
	return ""
}

// inside is a path of this process as the server sees it.
func (in *install) inside(path string) string {
	return strings.TrimPrefix(path, in.chroot)
}

// version names the server's build, for the template's name.
func (in *install) version() (string, error) {
	cmd := in.command("--no-defaults", "--version")
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s --version: %w", in.mysqld, err)
	}
	// "mariadbd  Ver 10.11.11-MariaDB-0+deb12u1 for debian-linux-gnu ...", "/usr/sbin/mysqld  Ver 9.7.0-1 for Linux ..."
	fields := strings.Fields(string(out))
	for i, word := range fields {
		if word == "Ver" && i+1 < len(fields) {
			return strings.Map(func(r rune) rune {
				if r == '/' || r == ':' {
					return '_'
				}
				return r
			}, fields[i+1]), nil
		}
	}
	return "", errors.New("no version in: " + strings.TrimSpace(string(out)))
}
