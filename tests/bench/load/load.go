// Package load keeps MySQL connections busy with one statement on random keys.
package load

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"braid/tests/bench/lean"
)

// Options is one load. Query's every "{id}" becomes a random key of 1..Keys; in
// a prepared statement it is a BIGINT parameter.
type Options struct {
	Login       lean.Login
	Connections int
	Query       string
	Keys        int
	Prepared    bool
	Warm, For   time.Duration // before measuring, and measured
	Seed        uint64
	// Began and Ended, when not nil, are called as measuring begins and ends.
	Began, Ended func()
}

// Result is what was measured.
type Result struct {
	Queries  int           // that ended while measuring
	Rows     int           // of them
	Elapsed  time.Duration // measured
	P50, P95 time.Duration
}

// QPS is queries per second.
func (r Result) QPS() float64 { return float64(r.Queries) / r.Elapsed.Seconds() }

// worker is one connection.
type worker struct {
	c     *lean.Conn
	o     *Options
	parts []string // of the query, around the keys
	stmt  uint32   // 0: text
	out   []byte
	rng   *rand.Rand
	hist  hist
	n     int
	rows  int
}

func newWorker(o *Options, number int) (*worker, error) {
	c, err := o.Login.Dial()
	if err != nil {
		return nil, err
	}
	w := &worker{c: c, o: o, parts: strings.Split(o.Query, "{id}"), rng: rand.New(rand.NewPCG(o.Seed, uint64(number)))}
	if o.Prepared {
		if w.stmt, err = c.Prepare(strings.Join(w.parts, "?")); err != nil {
			c.Close()
			return nil, fmt.Errorf("prepare: %w", err)
		}
	}
	return w, nil
}

func (w *worker) key() int { return w.rng.IntN(w.o.Keys) + 1 }

// command makes the packet of one execution in w.out.
func (w *worker) command() {
	p := append(w.out[:0], 0, 0, 0, 0)
	if w.stmt != 0 {
		p = append(p, 23)
		p = binary.LittleEndian.AppendUint32(p, w.stmt)
		p = append(p, 0, 1, 0, 0, 0)
		if n := len(w.parts) - 1; n > 0 {
			for range (n + 7) / 8 {
				p = append(p, 0)
			}
			p = append(p, 1)
			for range n {
				p = append(p, 8, 0)
			}
			for range n {
				p = binary.LittleEndian.AppendUint64(p, uint64(w.key()))
			}
		}
	} else {
		p = append(p, 3)
		for i, part := range w.parts {
			if i > 0 {
				p = strconv.AppendInt(p, int64(w.key()), 10)
			}
			p = append(p, part...)
		}
	}
	n := len(p) - 4
	p[0], p[1], p[2] = byte(n), byte(n>>8), byte(n>>16)
	w.out = p
}

func (w *worker) round(measured bool) error {
	w.command()
	began := time.Now()
	if _, err := w.c.Write(w.out); err != nil {
		return err
	}
	r, err := w.c.ReadAnswer()
	if err != nil {
		return err
	}
	if measured {
		w.hist.add(time.Since(began))
		w.n++
		w.rows += r.Rows
	}
	return nil
}

// The phases of a run.
const (
	warming = iota
	measuring
	over
)

// Run connects, warms up, measures and disconnects. The first error of any
// connection ends it.
func Run(ctx context.Context, o Options) (Result, error) {
	var workers []*worker
	defer func() {
		for _, w := range workers {
			w.c.Close()
		}
	}()
	for i := range o.Connections {
		w, err := newWorker(&o, i)
		if err != nil {
			return Result{}, err
		}
		workers = append(workers, w)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var phase atomic.Int32
	var group sync.WaitGroup
	for _, w := range workers {
		group.Go(func() {
			for {
				now := phase.Load()
				if now == over {
					return
				}
				if err := w.round(now == measuring); err != nil {
					cancel(err)
					return
				}
			}
		})
	}
	wait := func(d time.Duration) {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
		}
	}
	wait(o.Warm)
	if o.Began != nil {
		o.Began()
	}
	began := time.Now()
	phase.Store(measuring)
	wait(o.For)
	r := Result{Elapsed: time.Since(began)}
	phase.Store(over)
	if o.Ended != nil {
		o.Ended()
	}
	for _, w := range workers {
		// A server that has stopped answering must not hold us.
		_ = w.c.SetDeadline(time.Now().Add(10 * time.Second))
	}
	group.Wait()
	if err := context.Cause(ctx); err != nil {
		return Result{}, err
	}
	var all hist
	for _, w := range workers {
		r.Queries += w.n
		r.Rows += w.rows
		for i, n := range w.hist {
			all[i] += n
		}
	}
	r.P50, r.P95 = all.quantile(.5), all.quantile(.95)
	return r, nil
}

// Once runs the statement once on a connection of its own, behind the statements
// before, and tells the rows, the time to the first of them and to the end.
func Once(login lean.Login, query string, before ...string) (rows int, first, total time.Duration, err error) {
	w, err := newWorker(&Options{Login: login, Query: query, Keys: 1}, 0)
	if err != nil {
		return 0, 0, 0, err
	}
	defer w.c.Close()
	for _, text := range before {
		_, err := w.c.Write(lean.AppendPacket(nil, 0, append([]byte{3}, text...)))
		if err == nil {
			_, err = w.c.ReadAnswer()
		}
		if err != nil {
			return 0, 0, 0, fmt.Errorf("%s: %w", text, err)
		}
	}
	w.command()
	began := time.Now()
	if _, err := w.c.Write(w.out); err != nil {
		return 0, 0, 0, err
	}
	r, err := w.c.ReadAnswer()
	if err != nil {
		return 0, 0, 0, err
	}
	return r.Rows, r.FirstRow.Sub(began), time.Since(began), nil
}

// Idle opens n connections that each run the statement once and then stay.
// Close ends them all.
func Idle(login lean.Login, n int, query string) (closeAll func(), err error) {
	var conns []*lean.Conn
	closeAll = func() {
		for _, c := range conns {
			c.Close()
		}
	}
	o := &Options{Login: login, Query: query, Keys: 1000}
	for i := range n {
		w, err := newWorker(o, i)
		if err == nil {
			conns = append(conns, w.c)
			err = w.round(false)
		}
		if err != nil {
			closeAll()
			return nil, err
		}
	}
	return closeAll, nil
}
