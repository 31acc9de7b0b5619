package workload

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"braid/tests/e2e"
	"braid/tests/servers"
	"braid/tests/wire"
)

var bankMinutes = flag.Float64("minutes", 0, "TestBank: how long money moves and things are killed, per flavour; 0: one minute, three with -long")

const (
	bankNodes    = 2
	bankPerNode  = 2 // shards
	bankAccounts = 200
	bankClients  = 8
)

// TestBank moves money between random accounts over four shards, while nodes
// and Braid are killed, and connections cut, at random and at each step of the
// commit protocol. A reader behind the read fence must see the exact sum every
// time. In the end, with everything back, the sum is exact, no branch is left
// prepared, every transfer whose COMMIT was answered OK is there, every one that
// failed is not, and those of which nobody knew are there wholly or not at all.
// Half of the time COMMIT is answered when it is applied, half when it is decided.
// A second Braid, which nobody kills, serves two of the clients and recovers what
// the first leaves behind, beside the first one's own recovery (B117).
func TestBank(t *testing.T) {
	duration := size(time.Minute, 3*time.Minute)
	if *bankMinutes > 0 {
		duration = time.Duration(*bankMinutes * float64(time.Minute))
	}
	transfers, kills, violations := 0, 0, 0
	for _, flavour := range flavours {
		for _, ok := range []string{"applied", "decided"} {
			t.Run(string(flavour)+"/"+ok, func(t *testing.T) {
				seed := uint64(time.Now().UnixNano())
				t.Logf("seed %d", seed)
				b := newMint(t, flavour, ok)
				b.run(t, rand.New(rand.NewPCG(seed, 0)), duration/2)
				b.settle(t)
				b.audit(t)
				b.mu.Lock()
				defer b.mu.Unlock()
				t.Logf("%d transfers acknowledged, %d failed, %d of which nobody knew, %d exact sums, %d reads to be retried (%v); killed and cut: %v; %d times calm, for %v at most",
					b.count(acknowledged), b.count(failed), b.count(unknown), b.mu.sums, b.mu.retries, b.mu.why, b.mu.done, b.calms, b.calmMax.Round(time.Millisecond))
				if b.count(acknowledged) < 20 || b.mu.sums < sumsMin || b.calms == 0 {
					t.Error("too little went on")
				}
				transfers, violations = transfers+b.count(acknowledged), violations+b.mu.violations
				for _, n := range b.mu.done {
					kills += n
				}
			})
		}
	}
	fmt.Printf("bank: %d transfers, %d kills, %d violations\n", transfers, kills, violations)
}

// outcome is what a client was told of a transfer.
type outcome uint8

const (
	unknown      outcome = iota // nothing, after COMMIT was sent
	acknowledged                // OK
	failed                      // an error, or its connection broke before COMMIT was sent
)

// mint is the state of a bank test. Other fields than mu are the test's own
// goroutine's, except braid.addr, which does not change.
type mint struct {
	nodes  []*servers.Server
	relays []*e2e.Relay
	braid  *program
	second *program

	calms   int
	calmMax time.Duration // the longest that the reader needed

	mu struct {
		sync.Mutex
		told       map[int]outcome // by transfer
		next       int
		sums       int
		retries    int
		why        map[string]int // of retries
		violations int
		done       map[string]int // what was killed and cut, how often
	}
}

func (b *mint) count(o outcome) (n int) {
	for _, x := range b.mu.told {
		if x == o {
			n++
		}
	}
	return n
}

// violated reports what must not be.
func (b *mint) violated(t *testing.T, format string, args ...any) {
	b.mu.Lock()
	b.mu.violations++
	b.mu.Unlock()
	t.Errorf(format, args...)
}

func newMint(t *testing.T, flavour servers.Flavour, commitOK string) *mint {
	t.Helper()
	b := &mint{}
	b.mu.told, b.mu.done, b.mu.why = map[int]outcome{}, map[string]int{}, map[string]int{}
	var addrs []string
	for i := range bankNodes {
		s := lab.Server(t, flavour, "node"+strconv.Itoa(i))
		schemas := []string{"braid", "shop"}
		for k := i; k < bankNodes*bankPerNode; k += bankNodes {
			schemas = append(schemas, fmt.Sprintf("shop_%d", k))
		}
		e2e.Recreate(t, s, schemas...)
		r := e2e.StartRelay(t, s.Addr())
		b.nodes, b.relays, addrs = append(b.nodes, s), append(b.relays, r), append(addrs, r.Addr)
	}
	b.braid = newProgram(t, addrs, bankPerNode, fmt.Sprintf("commit_ok = %q\n", commitOK)+crashTables)
	b.second = newProgram(t, addrs, bankPerNode, fmt.Sprintf("commit_ok = %q\n", commitOK)+crashTables)
	b.braid.start(t, "")
	c, err := connectTo(t.Context(), b.braid)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	texts := []string{"CREATE TABLE account(id INT PRIMARY KEY, balance BIGINT NOT NULL)",
		"CREATE TABLE ledger(transfer INT NOT NULL, account INT NOT NULL, amount BIGINT NOT NULL, PRIMARY KEY(account, transfer))"}
	for id := range bankAccounts {
		texts = append(texts, fmt.Sprintf("INSERT INTO account VALUES (%d,%d)", id, firstBalance))
	}
	for _, text := range texts {
		if _, err := c.Query(text); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
	return b
}

func connectTo(ctx context.Context, p *program) (*wire.Conn, error) {
	return wire.Connect(ctx, wire.Options{Addr: p.addr, User: servers.User, Password: servers.Password, Database: "shop", Timeout: 2 * time.Minute})
}

// run lets clients and the reader work while it kills things, for that long.
func (b *mint) run(t *testing.T, rng *rand.Rand, duration time.Duration) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var work sync.WaitGroup
	b.second.start(t, "")
	for i := range bankClients {
		own, braid := rand.New(rand.NewPCG(rng.Uint64(), 1)), b.braid
		if i < 2 {
			braid = b.second
		}
		work.Go(func() { b.client(ctx, t, braid, own) })
	}
	work.Go(func() { b.reader(ctx, t) })
	end := time.After(duration)
	step := rng.IntN(len(failpoints))
	for round, over := 1, false; !over; round++ {
		if round%calmEvery == 0 {
			b.calm(t)
		}
		select {
		case <-end:
			over = true
			continue
		case <-b.braid.done: // at its failpoint
			b.did("Braid at a step")
		case <-time.After(time.Duration(300+rng.IntN(3000)) * time.Millisecond):
			switch n := rng.IntN(bankNodes); rng.IntN(5) {
			case 0, 1:
				b.nodes[n].Kill9()
				b.did("node")
				if err := b.nodes[n].Restart(t.Context()); err != nil {
					t.Fatal(err)
				}
			case 2, 3:
				b.relays[n].Cut()
				b.did("connections of a node")
			case 4:
				b.braid.kill()
				b.did("Braid")
			}
		}
		if b.dead() {
			step++
			failpoint := failpoints[step%len(failpoints)]
			if failpoint != "" {
				failpoint = fmt.Sprintf("%s:%d", failpoint, 1+rng.IntN(30))
			} else {
				failpoint = recoveryFailpoints[rng.IntN(len(recoveryFailpoints))]
			}
			b.braid.start(t, failpoint)
		}
	}
	b.calm(t)
	cancel()
	// A client may sit in a statement: without Braid none does.
	b.braid.kill()
	b.second.kill()
	work.Wait()
}

// calmEvery is after how many kills there is a calm.
const calmEvery = 8

// sumsMin is how many exact sums the reader has to see.
const sumsMin = 3

// calm kills nothing until the reader has seen the exact sum once more, and at
// least sumsMin times: what the kills have left in doubt is decided by then, and
// its locks are gone.
func (b *mint) calm(t *testing.T) {
	sums := func() int {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.mu.sums
	}
	began, want := time.Now(), max(sums()+1, sumsMin)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := began.Add(time.Minute); sums() < want; <-tick.C {
		if b.dead() {
			b.braid.start(t, "")
		}
		if time.Now().After(deadline) {
			b.violated(t, "the reader sees nothing for a minute in which nothing is killed")
			return
		}
	}
	b.calms++
	b.calmMax = max(b.calmMax, time.Since(began))
}

func (b *mint) did(what string) {
	b.mu.Lock()
	b.mu.done[what]++
	b.mu.Unlock()
}

func (b *mint) dead() bool {
	select {
	case <-b.braid.done:
		return true
	default:
		return false
	}
}

// expected are the errors that kills and locks give clients the right to: they
// all say that nothing was done.
var expected = []uint16{1213, 1205, 1180, 1429, 1105, 1040, 1053, 1317}

// session runs f on connections through a Braid, a new one whenever f says that
// its own has broken.
func session(ctx context.Context, braid *program, f func(*wire.Conn) error) {
	for ctx.Err() == nil {
		c, err := connectTo(ctx, braid)
		if err != nil {
			// Braid is down, or has just come up.
			pause := time.NewTimer(20 * time.Millisecond)
			select {
			case <-pause.C:
			case <-ctx.Done():
			}
			continue
		}
		for ctx.Err() == nil && err == nil {
			err = f(c)
		}
		c.Abort()
	}
}

// client makes transfers until ctx ends.
func (b *mint) client(ctx context.Context, t *testing.T, braid *program, rng *rand.Rand) {
	session(ctx, braid, func(c *wire.Conn) error {
		b.mu.Lock()
		b.mu.next++
		id := b.mu.next
		b.mu.told[id] = failed
		b.mu.Unlock()
		told, err := b.transfer(c, rng, id)
		b.mu.Lock()
		b.mu.told[id] = told
		b.mu.Unlock()
		var e *wire.Error
		if err == nil || !errors.As(err, &e) {
			return err
		}
		if !slices.Contains(expected, e.Code) {
			b.violated(t, "transfer %d: %v", id, err)
		}
		_, err = c.Query("ROLLBACK")
		if errors.As(err, &e) {
			b.violated(t, "ROLLBACK after transfer %d: %v", id, err)
		}
		return err
	})
}

// transfer moves an amount between two accounts, in any order.
func (b *mint) transfer(c *wire.Conn, rng *rand.Rand, id int) (outcome, error) {
	x, y := rng.IntN(bankAccounts), rng.IntN(bankAccounts-1)
	if y >= x {
		y++
	}
	amount := rng.IntN(50) + 1
	texts := []string{
		"BEGIN",
		fmt.Sprintf("UPDATE account SET balance=balance-%d WHERE id=%d", amount, x),
		fmt.Sprintf("INSERT INTO ledger VALUES (%d,%d,%d)", id, x, -amount),
		fmt.Sprintf("UPDATE account SET balance=balance+%d WHERE id=%d", amount, y),
		fmt.Sprintf("INSERT INTO ledger VALUES (%d,%d,%d)", id, y, amount),
		"COMMIT",
	}
	if rng.IntN(4) == 0 {
		// As two statements that go to several shards at once.
		texts = []string{"BEGIN",
			fmt.Sprintf("UPDATE account SET balance=balance+IF(id=%d,-%d,%d) WHERE id IN (%d,%d)", x, amount, amount, x, y),
			fmt.Sprintf("INSERT INTO ledger VALUES (%d,%d,%d),(%d,%d,%d)", id, x, -amount, id, y, amount), "COMMIT"}
	}
	for i, text := range texts {
		_, err := c.Query(text)
		var e *wire.Error
		switch {
		case err == nil:
		case errors.As(err, &e) || i < len(texts)-1:
			return failed, err
		default:
			return unknown, err
		}
	}
	return acknowledged, nil
}

// reader sums the accounts behind the read fence until ctx ends.
func (b *mint) reader(ctx context.Context, t *testing.T) {
	const want = bankAccounts * firstBalance
	session(ctx, b.braid, func(c *wire.Conn) error {
		pause := time.NewTimer(100 * time.Millisecond)
		select {
		case <-pause.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		if _, err := c.Query("SET braid_read_fence=1"); err != nil {
			return err
		}
		results, err := c.Query("SELECT SUM(balance), COUNT(*) FROM account")
		if err == nil && results[0].Err != nil {
			err = results[0].Err
		}
		var e *wire.Error
		b.mu.Lock()
		defer b.mu.Unlock()
		switch {
		case errors.As(err, &e):
			b.mu.retries++
			b.mu.why[fmt.Sprintf("%d %s", e.Code, e.Message)]++
			return nil
		case err != nil:
			return err
		}
		row := results[0].Rows[0]
		if string(row[0]) != strconv.Itoa(want) || string(row[1]) != strconv.Itoa(bankAccounts) {
			b.mu.violations++
			t.Errorf("the sum is %s over %s accounts, want %d over %d", row[0], row[1], want, bankAccounts)
		}
		b.mu.sums++
		return nil
	})
}

// settle brings everything back and waits until no branch is left.
func (b *mint) settle(t *testing.T) {
	t.Helper()
	for _, n := range b.nodes {
		if n.PID() == 0 {
			if err := n.Restart(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	b.braid.start(t, "")
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(2 * time.Minute)
	for {
		left := 0
		for _, n := range b.nodes {
			left += branches(t, n)
		}
		if left == 0 {
			break
		}
		select {
		case <-tick.C:
		case <-deadline:
			b.violated(t, "%d branches are left prepared after two minutes", left)
			return
		}
	}
	b.braid.kill()
}

// audit compares what is on the shards with what clients were told.
func (b *mint) audit(t *testing.T) {
	t.Helper()
	balance, accounts, sums := 0, 0, map[int]int{} // by account
	transfers := map[int][]int{}                   // amounts
	for k := range bankNodes * bankPerNode {
		n := b.nodes[k%bankNodes]
		for _, r := range query(t, n, fmt.Sprintf("SELECT account, SUM(amount) FROM shop_%d.ledger GROUP BY account", k)) {
			sums[r[0]] = r[1]
		}
		for _, r := range query(t, n, fmt.Sprintf("SELECT transfer, amount FROM shop_%d.ledger", k)) {
			transfers[r[0]] = append(transfers[r[0]], r[1])
		}
	}
	for k := range bankNodes * bankPerNode {
		for _, r := range query(t, b.nodes[k%bankNodes], fmt.Sprintf("SELECT id, balance FROM shop_%d.account", k)) {
			balance += r[1]
			accounts++
			if want := firstBalance + sums[r[0]]; r[1] != want {
				b.violated(t, "account %d has %d, by the ledger %d", r[0], r[1], want)
			}
		}
	}
	if want := bankAccounts * firstBalance; balance != want || accounts != bankAccounts {
		b.violated(t, "%d accounts have %d, want %d have %d", accounts, balance, bankAccounts, want)
	}
	for _, id := range slices.Sorted(maps.Keys(transfers)) {
		if a := transfers[id]; len(a) != 2 || a[0]+a[1] != 0 {
			b.violated(t, "transfer %d is not whole: %v", id, a)
		}
		if b.mu.told[id] == failed {
			b.violated(t, "transfer %d is there, though its client was told it failed", id)
		}
	}
	for id, told := range b.mu.told {
		if told == acknowledged && transfers[id] == nil {
			b.violated(t, "transfer %d was acknowledged and is not there", id)
		}
	}
}
