package servers

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	if mode := os.Getenv("BRAID_SERVERS_CHILD"); mode != "" {
		child(mode)
	}
	code := m.Run()
	left, err := Leftovers(os.Getpid())
	if err != nil || len(left) > 0 {
		fmt.Fprintln(os.Stderr, "servers left running:", left, err)
		code = 1
	}
	os.Exit(code)
}

// child is this binary as a process that starts a server and then ends badly.
func child(mode string) {
	s, err := Start(context.Background(), Flavour(os.Getenv("BRAID_SERVERS_FLAVOUR")), Options{})
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	fmt.Println("pid", s.PID())
	if mode == "panic" {
		bufio.NewReader(os.Stdin).ReadByte()
		panic("as asked")
	}
	select {} // until a signal comes
}

// each runs f with both flavours, skipping one that this machine lacks.
func each(t *testing.T, f func(t *testing.T, flavour Flavour)) {
	for _, flavour := range []Flavour{MariaDB, MySQL} {
		t.Run(string(flavour), func(t *testing.T) {
			if _, err := find(flavour); err != nil {
				skip(t, err)
			}
			f(t, flavour)
		})
	}
}

func skip(t *testing.T, err error) {
	var missing *Unavailable
	if errors.As(err, &missing) {
		t.Skip("SKIPPED, NOT TESTED: ", err)
	}
	t.Fatal(err)
}

func begin(t *testing.T, flavour Flavour) (*Server, *sql.DB) {
	t.Helper()
	s, err := Start(t.Context(), flavour, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	db, err := sql.Open("mysql", s.DSN(""))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return s, db
}

func TestDriverLogsIn(t *testing.T) {
	each(t, func(t *testing.T, flavour Flavour) {
		s, db := begin(t, flavour)
		var user, version string
		var port int
		if err := db.QueryRow("SELECT CURRENT_USER(), VERSION(), @@port").Scan(&user, &version, &port); err != nil {
			t.Fatal(err)
		}
		if user != User+"@%" {
			t.Errorf("current user %q", user)
		}
		if strings.Contains(version, "MariaDB") != (flavour == MariaDB) {
			t.Errorf("version %q for %s", version, flavour)
		}
		if s.Addr() != "127.0.0.1:"+strconv.Itoa(port) {
			t.Errorf("address %s, port %d", s.Addr(), port)
		}
		var anonymous int
		if err := db.QueryRow("SELECT COUNT(*) FROM mysql.user WHERE User = ''").Scan(&anonymous); err != nil || anonymous != 0 {
			t.Errorf("%d anonymous users, error %v", anonymous, err)
		}
	})
}

func TestAcknowledgedRowsSurviveKill9(t *testing.T) {
	each(t, func(t *testing.T, flavour Flavour) {
		s, db := begin(t, flavour)
		for _, text := range []string{"CREATE DATABASE d", "CREATE TABLE d.t(k INT PRIMARY KEY)"} {
			if _, err := db.Exec(text); err != nil {
				t.Fatal(err)
			}
		}
		for k := range 200 {
			if _, err := db.Exec("INSERT INTO d.t VALUES (?)", k); err != nil {
				t.Fatal(err)
			}
		}
		addr := s.Addr()
		s.Kill9()
		if err := s.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		if s.Addr() != addr {
			t.Errorf("address changed from %s to %s", addr, s.Addr())
		}
		var n int
		if err := db.QueryRow("SELECT COUNT(*) FROM d.t").Scan(&n); err != nil || n != 200 {
			t.Errorf("%d of 200 rows after kill -9, error %v", n, err)
		}
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestPauseHoldsAnswersBack(t *testing.T) {
	each(t, func(t *testing.T, flavour Flavour) {
		s, db := begin(t, flavour)
		if err := db.Ping(); err != nil {
			t.Fatal(err)
		}
		if err := s.Pause(); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		var one int
		if err := db.QueryRowContext(ctx, "SELECT 1").Scan(&one); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a paused server answered: %v", err)
		}
		if err := s.Continue(); err != nil {
			t.Fatal(err)
		}
		if err := db.QueryRow("SELECT 1").Scan(&one); err != nil {
			t.Error(err)
		}
	})
}

// TestServerDiesWithItsTest ends a process that owns a server in three bad ways
// and waits for the server to be gone, and for its folder to be swept.
func TestServerDiesWithItsTest(t *testing.T) {
	each(t, func(t *testing.T, flavour Flavour) {
		for _, mode := range []string{"panic", "interrupt", "kill -9"} {
			t.Run(mode, func(t *testing.T) {
				cmd := exec.Command(os.Args[0])
				cmd.Env = append(os.Environ(), "BRAID_SERVERS_CHILD="+mode, "BRAID_SERVERS_FLAVOUR="+string(flavour))
				stdin, err := cmd.StdinPipe()
				if err != nil {
					t.Fatal(err)
				}
				stdout, err := cmd.StdoutPipe()
				if err != nil {
					t.Fatal(err)
				}
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				var word string
				var pid int
				if _, err := fmt.Fscan(stdout, &word, &pid); err != nil || word != "pid" {
					t.Fatalf("the child said %q: %v", word, err)
				}
				if !alive(pid) {
					t.Fatal("the server does not run")
				}
				switch mode {
				case "panic":
					stdin.Write([]byte("x"))
				case "interrupt":
					err = cmd.Process.Signal(os.Interrupt)
				case "kill -9":
					err = cmd.Process.Kill()
				}
				if err != nil {
					t.Fatal(err)
				}
				if err := cmd.Wait(); err == nil {
					t.Error("the child ended well")
				}
				tick := time.NewTicker(10 * time.Millisecond)
				defer tick.Stop()
				deadline := time.After(20 * time.Second)
				for alive(pid) {
					select {
					case <-tick.C:
					case <-deadline:
						syscall.Kill(pid, syscall.SIGKILL)
						t.Fatal("the server outlived its test")
					}
				}
			})
		}
	})
}

// alive tells whether pid is a process that still runs; one that nobody has
// waited for yet is not.
func alive(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	return !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X")
}
