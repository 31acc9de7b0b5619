package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-sql-driver/mysql"
)

// shop is the sample: a Braid with its rows, and the connections that the demo
// keeps to it.
type shop struct {
	out   io.Writer
	nodes *nodes
	ports ports
	path  string // of braid.toml

	clients *sql.DB // as a client of Braid
	admin   *sql.DB // as an operator

	buyer int // a customer with many orders
}

func openShop(out io.Writer, n *nodes, p ports, path string) (*shop, error) {
	s := &shop{out: out, nodes: n, ports: p, path: path, buyer: buyer()}
	open := func(user, password, address, database string) (*sql.DB, error) {
		c := mysql.NewConfig()
		c.User, c.Passwd, c.Net, c.Addr, c.DBName = user, password, "tcp", address, database
		c.Logger, c.InterpolateParams = &mysql.NopLogger{}, true
		connector, err := mysql.NewConnector(c)
		if err != nil {
			return nil, err
		}
		return sql.OpenDB(connector), nil
	}
	var err error
	if s.clients, err = open(user, userPassword, p.clients, database); err != nil {
		return nil, err
	}
	if s.admin, err = open(admin, adminPassword, p.admin, ""); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *shop) close() {
	_ = s.clients.Close()
	_ = s.admin.Close()
}

const (
	customersMax = 2000
	seed         = 7 // the shop is the same each time
)

// tables are made through Braid, which makes each on every shard. The key
// columns stand first in each primary key, since only the key finds a shard.
var tables = []string{
	"CREATE TABLE countries (code CHAR(2) PRIMARY KEY, name VARCHAR(40) NOT NULL)",
	"CREATE TABLE customers (id INT PRIMARY KEY, name VARCHAR(60) NOT NULL, country CHAR(2) NOT NULL, points INT NOT NULL)",
	"CREATE TABLE orders (customer_id INT, id INT, placed DATETIME NOT NULL, total DECIMAL(10,2) NOT NULL, PRIMARY KEY (customer_id, id))",
	"CREATE TABLE order_lines (customer_id INT, order_id INT, line INT, product INT NOT NULL, quantity INT NOT NULL, price DECIMAL(8,2) NOT NULL, PRIMARY KEY (customer_id, order_id, line))",
}

var countries = [][2]string{{"AT", "Austria"}, {"CH", "Switzerland"}, {"DE", "Germany"}, {"FR", "France"}, {"IT", "Italy"}, {"PL", "Poland"}, {"PT", "Portugal"}, {"SE", "Sweden"}}

// load makes the tables and fills them.
func (s *shop) load(ctx context.Context) error {
	for _, text := range tables {
		if _, err := s.clients.ExecContext(ctx, text); err != nil {
			return fmt.Errorf("%s: %w", text, err)
		}
	}
	if err := s.loadCountries(ctx); err != nil {
		return err
	}
	batches, err := s.customers(ctx)
	if err != nil {
		return err
	}
	bar := newProgress(s.out, "Loading the shop", customersMax)
	work := make(chan []int)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var workers sync.WaitGroup
	var rows atomic.Int64
	loaders := 4
	if s.nodes.embedded {
		loaders = 1 // of two transactions that end together it keeps the later one's rows only
	}
	for range loaders {
		workers.Go(func() {
			for ids := range work {
				texts, n := customerRows(ids)
				for _, text := range texts {
					if _, err := s.clients.ExecContext(ctx, text); err != nil {
						cancel(fmt.Errorf("%s: %w", cut(text), err))
						return
					}
				}
				rows.Add(int64(n))
				bar.add(len(ids))
			}
		})
	}
	for _, ids := range batches {
		select {
		case work <- ids:
			continue
		case <-ctx.Done():
		}
		break
	}
	close(work)
	workers.Wait()
	if err := context.Cause(ctx); err != nil {
		return err
	}
	bar.done(fmt.Sprintf("%d rows", rows.Load()+int64(len(countries))))
	return nil
}

// customers are the customers' numbers as they are loaded, some at a time. One
// statement may bring rows of several shards: Braid deals them out, in one
// transaction over the nodes. An embedded node cannot take part in such, so
// there each batch is of one shard, which EXPLAIN tells.
func (s *shop) customers(ctx context.Context) (batches [][]int, err error) {
	open := map[string][]int{}
	for id := 1; id <= customersMax; id++ {
		shard := ""
		if s.nodes.embedded {
			if shard, _, err = s.placeOf(ctx, id); err != nil {
				return nil, err
			}
		}
		if open[shard] = append(open[shard], id); len(open[shard]) == 100 {
			batches, open[shard] = append(batches, open[shard]), nil
		}
	}
	for _, rest := range open {
		if len(rest) > 0 {
			batches = append(batches, rest)
		}
	}
	return batches, nil
}

// placeOf tells where a customer is.
func (s *shop) placeOf(ctx context.Context, id int) (shard, node string, err error) {
	row := s.clients.QueryRowContext(ctx, fmt.Sprintf("EXPLAIN SELECT points FROM customers WHERE id = %d", id))
	err = row.Scan(new(string), &shard, &node, new(string))
	return shard, node, err
}

// loadCountries fills the global table. An embedded node cannot take part in
// the transaction that a write to every shard is: there each shard gets its
// copy directly.
func (s *shop) loadCountries(ctx context.Context) error {
	var values []string
	for _, c := range countries {
		values = append(values, fmt.Sprintf("('%s','%s')", c[0], c[1]))
	}
	text := "INSERT INTO countries VALUES " + strings.Join(values, ",")
	if !s.nodes.embedded {
		_, err := s.clients.ExecContext(ctx, text)
		return err
	}
	for i := range shards {
		db, err := s.nodes.list[i%len(s.nodes.list)].open(schemaOf(i))
		if err != nil {
			return err
		}
		_, err = db.ExecContext(ctx, text)
		if err = errors.Join(err, db.Close()); err != nil {
			return err
		}
	}
	return nil
}

// ordersMax is how many orders a customer may have.
const ordersMax = 6

// buyer is the customer whose orders the tour looks at: the first with most.
func buyer() int {
	id := 1
	for 1+rand.New(rand.NewPCG(seed, uint64(id))).IntN(ordersMax) < ordersMax {
		id++
	}
	return id
}

// customerRows are the INSERTs of some customers with their orders, and how
// many rows they make.
func customerRows(ids []int) (texts []string, rows int) {
	given := []string{"Ada", "Bo", "Cleo", "Dan", "Eva", "Finn", "Gus", "Hana", "Ida", "Jan", "Kim", "Lou", "Mia", "Noa", "Otto", "Pia"}
	family := []string{"Adler", "Berg", "Costa", "Duval", "Egli", "Ferrari", "Gruber", "Huber", "Ilic", "Jonas", "Keller", "Lopez", "Moser", "Nowak", "Olsen", "Peters"}
	var customers, orders, lines []string
	for _, id := range ids {
		random := rand.New(rand.NewPCG(seed, uint64(id)))
		bought := 1 + random.IntN(ordersMax)
		customers = append(customers, fmt.Sprintf("(%d,'%s %s','%s',%d)", id, given[random.IntN(len(given))], family[random.IntN(len(family))],
			countries[random.IntN(len(countries))][0], 100+random.IntN(900)))
		for order := range bought {
			cents := 0
			for line := range 1 + random.IntN(4) {
				quantity, price := 1+random.IntN(5), 199+random.IntN(9800)
				cents += quantity * price
				lines = append(lines, fmt.Sprintf("(%d,%d,%d,%d,%d,%d.%02d)", id, order+1, line+1, 1+random.IntN(500), quantity, price/100, price%100))
			}
			placed := time.Date(2026, 1, 1, 8, 0, 0, 0, time.UTC).Add(time.Duration(random.IntN(180*24*60)) * time.Minute)
			orders = append(orders, fmt.Sprintf("(%d,%d,'%s',%d.%02d)", id, order+1, placed.Format(time.DateTime), cents/100, cents%100))
		}
	}
	for _, t := range []struct {
		table string
		rows  []string
	}{{"customers", customers}, {"orders", orders}, {"order_lines", lines}} {
		texts = append(texts, "INSERT INTO "+t.table+" VALUES "+strings.Join(t.rows, ","))
		rows += len(t.rows)
	}
	return texts, rows
}

// progress is a bar that fills; where the output is no terminal it shows its
// end only. Safe for concurrent use.
type progress struct {
	out      io.Writer
	what     string
	total    int
	terminal bool

	mu   sync.Mutex
	made int
}

func newProgress(out io.Writer, what string, total int) *progress {
	p := &progress{out: out, what: what, total: total}
	if f, ok := out.(*os.File); ok {
		info, err := f.Stat()
		p.terminal = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	return p
}

func (p *progress) add(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.made += n
	if p.terminal {
		fmt.Fprintf(p.out, "\r%s %s", p.what, p.bar())
	}
}

func (p *progress) bar() string {
	const width = 30
	full := min(p.made*width/p.total, width)
	return "[" + strings.Repeat("#", full) + strings.Repeat(".", width-full) + "]"
}

func (p *progress) done(result string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	start := ""
	if p.terminal {
		start = "\r"
	}
	fmt.Fprintf(p.out, "%s%s %s %s\n", start, p.what, p.bar(), result)
}
