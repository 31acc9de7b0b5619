package transaction

import (
	"database/sql"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"braid/conf"
	"braid/tests/e2e"
	"braid/tests/servers"
	"braid/tests/wire"
)

var lab = e2e.NewLab()

func TestMain(m *testing.M) { os.Exit(lab.Main(m)) }

// rowsMax is how many rows table acc has: (0,0), (1,0), ...
const rowsMax = 64

// world is a Braid over four shards on two nodes, with table acc(id, v) sharded
// by id.
type world struct {
	braid *e2e.Braid
	node  []*sql.DB // the nodes, behind Braid's back
	at    [][]int   // ids by node
	shard [][]int   // ids by shard
}

// each runs f on both flavours.
func each(t *testing.T, f func(t *testing.T, w *world)) { eachWith(t, nil, f) }

// eachWith is each with a changed configuration.
func eachWith(t *testing.T, change func(*conf.Config), f func(t *testing.T, w *world)) {
	t.Helper()
	for _, flavour := range []servers.Flavour{servers.MariaDB, servers.MySQL} {
		t.Run(string(flavour), func(t *testing.T) { f(t, newWorld(t, flavour, change)) })
	}
}

func newWorld(t *testing.T, flavour servers.Flavour, change func(*conf.Config)) *world {
	t.Helper()
	w := &world{braid: lab.StartBraid(t, e2e.Topology{Flavour: flavour, Nodes: 2, Shards: 4, Change: change,
		Tables: []conf.Table{{Name: "acc", Kind: "sharded", Key: []string{"id"}}}})}
	c := w.client(t)
	c.ok("CREATE TABLE acc(id INT PRIMARY KEY, v INT NOT NULL)")
	for id := range rowsMax {
		c.ok(fmt.Sprintf("INSERT INTO acc VALUES (%d,0)", id)) // one by one: also where a transaction stays on one node
	}
	for _, n := range w.braid.Nodes {
		w.node = append(w.node, e2e.Open(t, n, ""))
	}
	w.at, w.shard = make([][]int, 2), make([][]int, 4)
	for i, place := range w.braid.Shards() {
		for _, id := range numbers(t, w.node[i%2], "SELECT id FROM "+place.Schema+".acc ORDER BY id") {
			w.shard[i] = append(w.shard[i], id)
			w.at[i%2] = append(w.at[i%2], id)
		}
	}
	return w
}

// numbers reads one number a row behind Braid's back.
func numbers(t *testing.T, db *sql.DB, text string) (out []int) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	defer rows.Close()
	for rows.Next() {
		var n int
		if err := rows.Scan(&n); err != nil {
			t.Fatal(err)
		}
		out = append(out, n)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

// client is one connection through Braid.
type client struct {
	t *testing.T
	*wire.Conn
}

func (w *world) client(t *testing.T) *client { return connect(t, w.braid) }

func connect(t *testing.T, b *e2e.Braid) *client {
	t.Helper()
	o := b.Wire()
	o.Timeout = 40 * time.Second // below innodb_lock_wait_timeout
	c, err := wire.Connect(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Abort() })
	return &client{t, c}
}

// ok runs statements that must go well and returns the last one's rows as text.
func (c *client) ok(texts ...string) (rows [][]string) {
	c.t.Helper()
	for _, text := range texts {
		results, err := c.Query(text)
		if err == nil && results[0].Err != nil {
			err = results[0].Err
		}
		if err != nil {
			c.t.Fatalf("%s: %v", text, err)
		}
		rows = nil
		for _, r := range results[0].Rows {
			var row []string
			for _, v := range r {
				row = append(row, string(v))
			}
			rows = append(rows, row)
		}
	}
	return rows
}

// one runs a query and returns its only value.
func (c *client) one(text string) string {
	c.t.Helper()
	rows := c.ok(text)
	if len(rows) != 1 || len(rows[0]) != 1 {
		c.t.Fatalf("%s: %v", text, rows)
	}
	return rows[0][0]
}

// code runs a statement and returns its error number, 0 for none; 2013 says that
// the connection broke.
func (c *client) code(text string) int {
	results, err := c.Query(text)
	if err == nil && len(results) > 0 && results[0].Err != nil {
		err = results[0].Err
	}
	var e *wire.Error
	switch {
	case err == nil:
		return 0
	case errors.As(err, &e):
		return int(e.Code)
	}
	return 2013
}

// inTransaction tells what the status flags of a harmless statement say.
func (c *client) inTransaction() bool {
	c.t.Helper()
	results, err := c.Query("DO 1")
	if err != nil {
		c.t.Fatal(err)
	}
	return results[0].OK.Status&1 != 0
}

// later runs a statement and delivers its error number.
func (c *client) later(text string) <-chan int {
	done := make(chan int, 1)
	go func() { done <- c.code(text) }()
	return done
}

// until polls for something, up to half a minute.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(170 * time.Millisecond) // InnoDB's tables are a copy, made anew when nobody has looked for 100 ms
	defer tick.Stop()
	deadline := time.After(30 * time.Second)
	for !done() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("not within half a minute: ", what)
		}
	}
}

// waiting waits until n connections of Braid's wait for a lock on its nodes.
func (w *world) waiting(t *testing.T, n int) {
	t.Helper()
	until(t, fmt.Sprintf("%d lock waits", n), func() bool {
		found := 0
		for _, db := range w.node {
			found += len(numbers(t, db, "SELECT trx_mysql_thread_id FROM information_schema.INNODB_TRX WHERE trx_state='LOCK WAIT'"))
		}
		return found >= n
	})
}

func update(id, v int) string { return fmt.Sprintf("UPDATE acc SET v=v+%d WHERE id=%d", v, id) }

func singleMode(c *conf.Config) { c.Databases[0].Transaction = "single" }
