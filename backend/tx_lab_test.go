package backend

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"braid/conf"
	"braid/internal/mysql"
	"braid/tests/servers"
)

// labNodes is how many servers a lab has: a decider and two branches.
const labNodes = 3

// lab is three servers of one flavour, each with a table app.t (id, v), and
// what looks at them behind Braid's back.
type lab struct {
	flavour servers.Flavour
	servers []*servers.Server
	root    []*sql.DB
	spread  bool // transactions begin with a branch
}

// eachLab runs the tests on servers of both flavours, skipping what this
// machine lacks.
func eachLab(t *testing.T, tests []labTest) {
	for _, flavour := range []servers.Flavour{servers.MariaDB, servers.MySQL} {
		t.Run(string(flavour), func(t *testing.T) {
			l := startLab(t, flavour)
			for _, test := range tests {
				t.Run(test.name, func(t *testing.T) {
					l.clean(t)
					l.spread = test.spread
					test.f(t, l)
				})
			}
		})
	}
}

type labTest struct {
	name   string
	f      func(*testing.T, *lab)
	spread bool
}

// bothWays is every test twice: with an ordinary first leg, and with branches only.
func bothWays(tests []labTest) (both []labTest) {
	for _, test := range tests {
		both = append(both, test)
		test.name, test.spread = test.name+", every leg a branch", true
		both = append(both, test)
	}
	return both
}

func startLab(t *testing.T, flavour servers.Flavour) *lab {
	l := &lab{flavour: flavour}
	for range labNodes {
		s, err := servers.Start(t.Context(), flavour, servers.Options{})
		var missing *servers.Unavailable
		if errors.As(err, &missing) {
			t.Skip("SKIPPED, NOT TESTED: ", err)
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		db, err := s.Open("")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		l.servers, l.root = append(l.servers, s), append(l.root, db)
	}
	for i := range l.root {
		l.exec(t, i, "CREATE DATABASE app")
		l.exec(t, i, "CREATE TABLE app.t (id INT PRIMARY KEY, v INT) ENGINE=InnoDB")
	}
	return l
}

// clean brings the servers to where every test begins: rows 1..5 with v 100, and
// nothing prepared or decided.
func (l *lab) clean(t *testing.T) {
	for i, db := range l.root {
		// A test that failed may have left transactions open.
		rows, err := db.Query("SELECT ID FROM information_schema.PROCESSLIST WHERE USER='" + servers.User + "'")
		if err != nil {
			t.Fatal(err)
		}
		for rows.Next() {
			var id uint64
			if err := rows.Scan(&id); err != nil {
				t.Fatal(err)
			}
			_, _ = db.Exec("KILL " + itoa(id)) // it may be gone by itself
		}
		_ = rows.Close()
		until(t, "prepared transactions to be rolled back", func() bool {
			left := l.prepared(t, i)
			for _, x := range left {
				_, _ = db.Exec("XA ROLLBACK " + x) // its owner may have to die first
			}
			return len(left) == 0
		})
		l.exec(t, i, "TRUNCATE app.t")
		l.exec(t, i, "INSERT INTO app.t VALUES (1,100),(2,100),(3,100),(4,100),(5,100)")
		_, _ = db.Exec("DELETE FROM braid.decision") // may not be there yet
	}
}

func (l *lab) exec(t *testing.T, i int, text string) {
	t.Helper()
	if _, err := l.root[i].Exec(text); err != nil {
		t.Fatalf("server %d: %s: %v", i, text, err)
	}
}

// value reads one number behind Braid's back; -1 is NULL or no row.
func (l *lab) value(t *testing.T, i int, query string) int {
	t.Helper()
	var v sql.NullInt64
	err := l.root[i].QueryRow(query).Scan(&v)
	if errors.Is(err, sql.ErrNoRows) || err == nil && !v.Valid {
		return -1
	}
	if err != nil {
		t.Fatalf("server %d: %s: %v", i, query, err)
	}
	return int(v.Int64)
}

// v is the value of row id, waiting for whoever holds it.
func (l *lab) v(t *testing.T, i, id int) int {
	t.Helper()
	return l.value(t, i, fmt.Sprintf("SELECT v FROM app.t WHERE id=%d FOR UPDATE", id))
}

// prepared lists a server's prepared branches as XA statements take them.
func (l *lab) prepared(t *testing.T, i int) (xids []string) {
	t.Helper()
	rows, err := l.root[i].Query("XA RECOVER")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var format, glen, blen int
		var data string
		if err := rows.Scan(&format, &glen, &blen, &data); err != nil {
			t.Fatal(err)
		}
		xids = append(xids, fmt.Sprintf("'%s','%s',%d", data[:glen], data[glen:], format))
	}
	return xids
}

func (l *lab) preparedAnywhere(t *testing.T) (n int) {
	for i := range l.root {
		n += len(l.prepared(t, i))
	}
	return n
}

func (l *lab) decisions(t *testing.T) (n int) {
	for i := range l.root {
		n += l.value(t, i, "SELECT COUNT(*) FROM braid.decision")
	}
	return n
}

// config is a configuration of the servers at the given addresses.
func labConfig(addrs ...string) *conf.Config {
	cfg := &conf.Config{}
	for i, a := range addrs {
		cfg.Nodes = append(cfg.Nodes, conf.Node{Name: fmt.Sprintf("n%d", i), Primary: a, User: servers.User,
			Secret: conf.Secret{Password: servers.Password}})
	}
	cfg.FillDefaults()
	return cfg
}

func (l *lab) addrs() (out []string) {
	for _, s := range l.servers {
		out = append(out, s.Addr())
	}
	return out
}

// braid is one Braid's transactions.
type braid struct {
	*Coordinator
	nodes  []*Node
	spread bool
}

// Begin is the Coordinator's, in the way that is tested.
func (b *braid) Begin(o TxOptions) *Tx {
	o.Spread = b.spread
	return b.Coordinator.Begin(o)
}

// newBraid makes a prepared coordinator with nodes of its own.
func newBraid(addrs ...string) (*braid, error) {
	cfg := labConfig(addrs...)
	c, err := NewCluster(cfg, nil, zap.NewNop())
	if err != nil {
		return nil, err
	}
	k, err := NewCoordinator(cfg.Recovery, func() *Cluster { return c }, zap.NewNop())
	if err != nil {
		return nil, err
	}
	return &braid{Coordinator: k, nodes: c.Nodes()}, k.Prepare(context.Background())
}

func (l *lab) braid(t *testing.T) *braid {
	t.Helper()
	b, err := newBraid(l.addrs()...)
	if err != nil {
		t.Fatal(err)
	}
	b.spread = l.spread
	t.Cleanup(func() { b.cluster().Retire(nil) })
	return b
}

// legExec runs a statement on a node in the transaction, as the proxy would.
func legExec(t *testing.T, tx *Tx, n *Node, text string) error {
	t.Helper()
	c, err := tx.Leg(t.Context(), n, "app", nil)
	if err != nil {
		return err
	}
	if !strings.HasPrefix(text, "SELECT") || strings.Contains(text, " FOR ") {
		tx.Wrote(n)
		tx.Announce(c)
	}
	_, err = c.Query(text, 100)
	return err
}

func mustExec(t *testing.T, tx *Tx, n *Node, text string) {
	t.Helper()
	if err := legExec(t, tx, n, text); err != nil {
		t.Fatalf("node %s: %s: %v", n.name, text, err)
	}
}

// add is the text of a transfer's part.
func add(id, amount int) string {
	return fmt.Sprintf("UPDATE app.t SET v=v+(%d) WHERE id=%d", amount, id)
}

// transfer begins a transaction that has written on the nodes.
func transfer(t *testing.T, b *braid, nodes ...int) *Tx {
	t.Helper()
	tx := b.Begin(TxOptions{})
	for _, n := range nodes {
		mustExec(t, tx, b.nodes[n], add(1, 10))
	}
	return tx
}

// wantRows checks row 1 on every server.
func (l *lab) wantRows(t *testing.T, want ...int) {
	t.Helper()
	for i, w := range want {
		if got := l.v(t, i, 1); got != w {
			t.Errorf("server %d: v is %d, want %d", i, got, w)
		}
	}
}

func wantCode(t *testing.T, err error, code uint16) {
	t.Helper()
	var e *mysql.Error
	if !errors.As(err, &e) || e.Code != code {
		t.Fatalf("got %v, want error %d", err, code)
	}
}

func wantState(t *testing.T, tx *Tx, want TxState) {
	t.Helper()
	if tx.State() != want {
		t.Fatalf("state is %d, want %d", tx.State(), want)
	}
}

// until waits for something that a server does in its own time.
func until(t *testing.T, what string, f func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for !f() {
		if pause(ctx) != nil {
			t.Fatal("waited in vain for: ", what)
		}
	}
}

// recoverAll runs recovery until nothing is prepared.
func (b *braid) recoverAll(t *testing.T, l *lab) (committed, rolledBack int) {
	t.Helper()
	until(t, "recovery to finish", func() bool {
		r, err := b.RecoverNow(t.Context(), RecoverOptions{Unseen: true})
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Failed) > 0 {
			t.Fatal(r.Failed)
		}
		committed += r.Committed
		rolledBack += r.RolledBack
		return l.preparedAnywhere(t) == 0
	})
	return committed, rolledBack
}

// pause freezes a server, and returns when all its threads stand still.
func (l *lab) pause(t *testing.T, i int) {
	t.Helper()
	if err := l.servers[i].Pause(); err != nil {
		t.Fatal(err)
	}
	tasks := "/proc/" + strconv.Itoa(l.servers[i].PID()) + "/task/*/stat"
	until(t, "the server to stop", func() bool {
		files, _ := filepath.Glob(tasks)
		for _, f := range files {
			b, err := os.ReadFile(f)
			if err == nil && !strings.Contains(string(b), ") T ") {
				return false
			}
		}
		return len(files) > 0
	})
}

func itoa(id uint64) string { return strconv.FormatUint(id, 10) }
