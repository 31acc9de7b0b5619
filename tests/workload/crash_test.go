package workload

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"braid/tests/e2e"
	"braid/tests/servers"
)

const (
	accounts     = 40
	firstBalance = 1000
	crashClients = 4
)

const crashTables = `
[[databases.tables]]
name = "account"
kind = "sharded"
key = ["id"]
[[databases.tables]]
name = "ledger"
kind = "sharded"
key = ["account"]
colocated = "account"
`

// failpoints are the steps of the commit protocol at which Braid can be made to
// kill itself; "" is a kill from outside at a moment of its own.
var failpoints = []string{
	"", "commit.before-prepare", "commit.preparing", "commit.branch-prepared", "commit.prepared", "commit.before-decision", "commit.deciding",
	"commit.decided", "commit.branch-commit-sent", "commit.half-committed", "commit.committed",
}

// recoveryFailpoints are steps of the recovery after a crash.
var recoveryFailpoints = []string{"", "recover.fenced", "recover.branch-finished"}

// bank is the state of a crash test: what clients did and were told.
type bank struct {
	nodes []*servers.Server
	braid *program
	at    [][]int // account ids by node
	torn  int     // crashes that left prepared branches behind

	mu struct {
		sync.Mutex
		next         int          // transfer id
		acknowledged map[int]bool // transfers whose COMMIT was answered with OK
		refused      map[int]bool // transfers that ended with an error of the server's before or at COMMIT
	}
}

// TestCrash kills Braid in the middle of commits over two nodes, again and
// again: after restart and recovery every transfer is there on both nodes or on
// none, every acknowledged one is there, none that was rolled back is, the sums
// are exact, and no branch is left.
func TestCrash(t *testing.T) {
	rounds := size(10, 50)
	for _, flavour := range flavours {
		t.Run(string(flavour), func(t *testing.T) {
			seed := uint64(time.Now().UnixNano())
			t.Logf("seed %d", seed)
			rng := rand.New(rand.NewPCG(seed, 0))
			b := newBank(t, flavour)
			// All steps come up in long; in test a part of them, another each time.
			first := rng.IntN(len(failpoints))
			for round := range rounds {
				step, after := failpoints[(first+round)%len(failpoints)], 5+rng.IntN(40)
				recovering := recoveryFailpoints[round%len(recoveryFailpoints)]
				b.crash(t, rng, step, after)
				if branches(t, b.nodes[0])+branches(t, b.nodes[1]) > 0 {
					b.torn++
				}
				if recovering != "" {
					b.crashRecovery(t, recovering)
				}
				b.braid.start(t, "")
				b.awaitRecovery(t)
				b.verify(t)
				b.braid.kill()
				if t.Failed() {
					t.Fatalf("in round %d: step %q, then %q", round, step, recovering)
				}
			}
			t.Logf("%d crashes, %d of which left prepared branches: %d transfers acknowledged, %d refused, of %d", rounds, b.torn, len(b.mu.acknowledged), len(b.mu.refused), b.mu.next)
			if b.torn < rounds/5 {
				t.Errorf("only %d of %d crashes were in the middle of a commit", b.torn, rounds)
			}
			if len(b.mu.acknowledged) < rounds {
				t.Errorf("only %d transfers were acknowledged: too little went on", len(b.mu.acknowledged))
			}
		})
	}
}

func openDriver(t *testing.T, c *mysql.Config) *sql.DB {
	t.Helper()
	connector, err := mysql.NewConnector(c)
	if err != nil {
		t.Fatal(err)
	}
	return sql.OpenDB(connector)
}

// newBank makes the tables through Braid and finds out where the accounts are.
func newBank(t *testing.T, flavour servers.Flavour) *bank {
	t.Helper()
	b := &bank{}
	b.mu.acknowledged, b.mu.refused = map[int]bool{}, map[int]bool{}
	for _, name := range []string{"node0", "node1"} {
		s := lab.Server(t, flavour, name)
		e2e.Recreate(t, s, "shop", "braid")
		b.nodes = append(b.nodes, s)
	}
	b.braid = newProgram(t, []string{b.nodes[0].Addr(), b.nodes[1].Addr()}, 1, crashTables)
	b.braid.start(t, "")
	db := b.open(t, false)
	defer db.Close()
	texts := []string{"CREATE TABLE account(id INT PRIMARY KEY, balance BIGINT NOT NULL)",
		"CREATE TABLE ledger(transfer INT NOT NULL, account INT NOT NULL, amount BIGINT NOT NULL, PRIMARY KEY(transfer, account))"}
	for id := range accounts {
		texts = append(texts, fmt.Sprintf("INSERT INTO account VALUES (%d,%d)", id, firstBalance))
	}
	for _, text := range texts {
		if _, err := db.ExecContext(t.Context(), text); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
	b.braid.kill()
	for _, n := range b.nodes {
		var ids []int
		for _, r := range query(t, n, "SELECT id, 0 FROM shop.account ORDER BY id") {
			ids = append(ids, r[0])
		}
		if len(ids) == 0 {
			t.Fatal("a node has no account")
		}
		b.at = append(b.at, ids)
	}
	return b
}

// open opens the database through Braid; prepared says whether statements with
// parameters are prepared.
func (b *bank) open(t *testing.T, prepared bool) *sql.DB {
	t.Helper()
	c := mysql.NewConfig()
	c.User, c.Passwd, c.Net, c.Addr, c.DBName = servers.User, servers.Password, "tcp", b.braid.addr, "shop"
	c.InterpolateParams, c.Logger = !prepared, &mysql.NopLogger{}
	return openDriver(t, c)
}

// query reads two numbers a row behind Braid's back.
func query(t *testing.T, s *servers.Server, text string) (out [][2]int) {
	t.Helper()
	rows, err := e2e.Open(t, s, "").QueryContext(t.Context(), text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	defer rows.Close()
	for rows.Next() {
		var r [2]int
		if err := rows.Scan(&r[0], &r[1]); err != nil {
			t.Fatal(err)
		}
		out = append(out, r)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

// crash runs clients against Braid until it is dead: killed by itself when step
// is reached for the after-th time, or from outside after that many transfers.
func (b *bank) crash(t *testing.T, rng *rand.Rand, step string, after int) {
	t.Helper()
	failpoint := ""
	if step != "" {
		failpoint = fmt.Sprintf("%s:%d", step, after)
	}
	b.braid.start(t, failpoint)
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	transfers := make(chan struct{}, 1000)
	var clients sync.WaitGroup
	for i := range crashClients {
		db := b.open(t, i%2 == 1)
		own := rand.New(rand.NewPCG(rng.Uint64(), rng.Uint64()))
		clients.Go(func() {
			defer db.Close()
			b.client(ctx, t, db, own, transfers)
		})
	}
	if step == "" {
		for range after {
			select {
			case <-transfers:
			case <-b.braid.done:
			case <-ctx.Done():
			}
		}
		b.braid.kill()
	}
	select {
	case <-b.braid.done:
	case <-ctx.Done():
		t.Errorf("step %s was not reached %d times", step, after)
		b.braid.kill()
	}
	cancel()
	clients.Wait()
}

// client makes transfers until Braid is dead. Each acknowledged one is told to
// transfers, as far as there is room.
func (b *bank) client(ctx context.Context, t *testing.T, db *sql.DB, rng *rand.Rand, transfers chan<- struct{}) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return // dead already
	}
	defer conn.Close()
	for {
		id := b.begin()
		err := b.transfer(ctx, conn, rng, id)
		var refused *mysql.MySQLError
		switch {
		case err == nil:
			b.mu.Lock()
			b.mu.acknowledged[id] = true
			b.mu.Unlock()
			select {
			case transfers <- struct{}{}:
			default:
			}
		case errors.As(err, &refused):
			b.mu.Lock()
			b.mu.refused[id] = true
			b.mu.Unlock()
			// Other clients lock the same rows: these two are the server's right.
			if refused.Number != 1213 && refused.Number != 1205 {
				t.Errorf("transfer %d: %v", id, err)
				return
			}
			if _, err := conn.ExecContext(ctx, "ROLLBACK"); err != nil {
				return
			}
		default:
			return // the connection broke: Braid was killed
		}
	}
}

func (b *bank) begin() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.next++
	return b.mu.next
}

// transfer moves an amount between an account of each node.
func (b *bank) transfer(ctx context.Context, conn *sql.Conn, rng *rand.Rand, id int) error {
	x, y := b.at[0][rng.IntN(len(b.at[0]))], b.at[1][rng.IntN(len(b.at[1]))]
	amount := rng.IntN(50) + 1
	if rng.IntN(2) == 0 {
		amount = -amount
	}
	// In the order of ids, so that no two transfers wait for each other; either
	// node is the first, which keeps the decision, about as often.
	if x > y {
		x, y = y, x
	}
	type step struct {
		text string
		args []any
	}
	var steps []step
	if rng.IntN(2) == 0 {
		// After a transaction on one node the next one begins as if it stayed on one,
		// after one on two with branches only: both ways to commit.
		steps = []step{{"BEGIN", nil}, {"UPDATE account SET balance=balance WHERE id=?", []any{x}}, {"COMMIT", nil}}
	}
	steps = append(steps, []step{
		{"BEGIN", nil},
		{"UPDATE account SET balance=balance-? WHERE id=?", []any{amount, x}},
		{"INSERT INTO ledger VALUES (?,?,?)", []any{id, x, -amount}},
		{"UPDATE account SET balance=balance+? WHERE id=?", []any{amount, y}},
		{"INSERT INTO ledger VALUES (?,?,?)", []any{id, y, amount}},
		{"COMMIT", nil},
	}...)
	for _, s := range steps {
		if _, err := conn.ExecContext(ctx, s.text, s.args...); err != nil {
			return err
		}
	}
	return nil
}

// crashRecovery starts Braid so that it kills itself in recovery, and waits for
// that, or for the end of recovery when there was nothing for it to do.
func (b *bank) crashRecovery(t *testing.T, step string) {
	t.Helper()
	b.braid.start(t, step)
	b.awaitRecovery(t)
	b.braid.kill()
}

// awaitRecovery waits until no branch is left on any node, or Braid is dead.
func (b *bank) awaitRecovery(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		left := 0
		for _, n := range b.nodes {
			left += branches(t, n)
		}
		if left == 0 {
			return
		}
		select {
		case <-tick.C:
		case <-b.braid.done:
			return
		case <-ctx.Done():
			t.Fatalf("%d branches are left after a minute", left)
		}
	}
}

// branches counts the prepared branches on a node.
func branches(t *testing.T, s *servers.Server) (n int) {
	t.Helper()
	db, err := s.Open("")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.QueryContext(t.Context(), "XA RECOVER")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		n++
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return n
}

// verify compares what is on the nodes with what clients were told.
func (b *bank) verify(t *testing.T) {
	t.Helper()
	balance, sums := 0, map[int]int{} // by account
	transfers := map[int][]int{}      // amounts
	for _, n := range b.nodes {
		for _, r := range query(t, n, "SELECT account, SUM(amount) FROM shop.ledger GROUP BY account") {
			sums[r[0]] = r[1]
		}
		for _, r := range query(t, n, "SELECT transfer, amount FROM shop.ledger") {
			transfers[r[0]] = append(transfers[r[0]], r[1])
		}
	}
	for _, n := range b.nodes {
		for _, r := range query(t, n, "SELECT id, balance FROM shop.account") {
			balance += r[1]
			if want := firstBalance + sums[r[0]]; r[1] != want {
				t.Errorf("account %d has %d, by the ledger %d", r[0], r[1], want)
			}
		}
	}
	if want := accounts * firstBalance; balance != want {
		t.Errorf("all accounts have %d, want %d", balance, want)
	}
	for _, id := range slices.Sorted(maps.Keys(transfers)) {
		if a := transfers[id]; len(a) != 2 || a[0]+a[1] != 0 {
			t.Errorf("transfer %d is not whole: %v", id, a)
		}
		if b.mu.refused[id] {
			t.Errorf("transfer %d is there, though its client was told it failed", id)
		}
	}
	for id := range b.mu.acknowledged {
		if transfers[id] == nil {
			t.Errorf("transfer %d was acknowledged and is not there", id)
		}
	}
}
