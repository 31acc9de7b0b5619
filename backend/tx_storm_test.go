package backend

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"braid/internal/mysql"
)

// testStorm runs transfers while a second Braid recovers without any grace,
// taking live commits for dead, and somebody kills connections at random. Every
// transfer writes a row of its own on all nodes: afterwards it is everywhere or
// nowhere, as its client was told.
func testStorm(t *testing.T, l *lab) {
	const workers, transfers = 4, 100
	for i := range l.root {
		l.exec(t, i, "CREATE TABLE IF NOT EXISTS app.log (id INT PRIMARY KEY) ENGINE=InnoDB")
		l.exec(t, i, "TRUNCATE app.log")
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	a, b := l.braid(t), l.braid(t)
	results := make([]error, workers*transfers)
	ctx, stop := context.WithCancel(t.Context())
	var hostile, work sync.WaitGroup
	hostile.Go(func() {
		for ctx.Err() == nil {
			if _, err := b.RecoverNow(ctx, RecoverOptions{Unseen: true}); err != nil && ctx.Err() == nil {
				t.Error(err)
			}
		}
	})
	hostile.Go(func() {
		r := rand.New(rand.NewPCG(seed, 0))
		every := time.NewTicker(4 * time.Millisecond)
		defer every.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-every.C:
			}
			i := r.IntN(labNodes)
			id := l.value(t, i, "SELECT ID FROM information_schema.PROCESSLIST WHERE USER='braid' ORDER BY RAND() LIMIT 1")
			if id > 0 {
				_, _ = l.root[i].Exec(fmt.Sprintf("KILL %d", id)) // it may have gone by itself
			}
		}
	})
	for w := range workers {
		work.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(w)+1))
			for i := range transfers {
				id := w*transfers + i
				results[id] = stormTransfer(ctx, a, r.Perm(labNodes), fmt.Sprintf("INSERT INTO app.log VALUES (%d)", id))
			}
		})
	}
	work.Wait()
	stop()
	hostile.Wait()
	b.recoverAll(t, l)
	a.retryLeft(t.Context())

	ok := 0
	for id, err := range results {
		n := 0
		for i := range l.root {
			n += l.value(t, i, fmt.Sprintf("SELECT COUNT(*) FROM app.log WHERE id=%d FOR UPDATE", id))
		}
		var e *mysql.Error
		switch {
		case n != 0 && n != labNodes:
			t.Errorf("transfer %d is on %d nodes of %d: %v", id, n, labNodes, err)
		case err == nil && n == 0:
			t.Errorf("transfer %d was acknowledged and is nowhere", id)
		case err == nil:
			ok++
		case errors.Is(err, ErrOutcomeUnknown):
		case n > 0:
			t.Errorf("transfer %d is there, its client was told %v", id, err)
		case errors.As(err, &e) && e.Code != gomysql.ER_LOCK_DEADLOCK && e.Code != gomysql.ER_ERROR_DURING_COMMIT &&
			e.Code != gomysql.ER_CONNECT_TO_FOREIGN_DATA_SOURCE:
			t.Errorf("transfer %d: %v", id, err)
		}
	}
	t.Logf("%d of %d transfers went through", ok, len(results))
	if ok == 0 || ok == len(results) {
		t.Error("the storm was none, or too much")
	}
	for _, n := range a.nodes {
		if s := n.Stats(); s.Open != s.Idle {
			t.Errorf("node %s: %+v", n.name, s)
		}
	}
	if open := a.Open(); len(open) != 0 {
		t.Errorf("still open: %+v", open)
	}
}

// stormTransfer runs one statement on all nodes in one transaction, as the proxy
// would, and returns what the client is told.
func stormTransfer(ctx context.Context, b *braid, order []int, text string) error {
	tx := b.Begin(TxOptions{})
	for _, i := range order {
		n := b.nodes[i]
		c, err := tx.Leg(ctx, n, "app", nil)
		if err == nil {
			tx.Wrote(n)
			tx.Announce(c)
			_, err = c.Exec(text)
		}
		if err != nil {
			told := tx.Failed(n, err)
			_ = tx.Rollback(ctx)
			return told
		}
	}
	return tx.Commit(context.WithoutCancel(ctx))
}
