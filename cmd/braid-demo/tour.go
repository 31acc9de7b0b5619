package main

import (
	"context"
	"database/sql"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
)

// stop is one stop of the tour.
type stop struct {
	title string
	text  string
	// lacks says what an embedded node lacks for it; "" when nothing.
	lacks string
	visit func(s *shop, ctx context.Context) error
}

// stops is the whole tour.
func stops() []stop {
	return []stop{
		{"One customer's orders: a LIMIT with OFFSET stays in one shard",
			"All rows of a customer are on one shard, so the statement goes there as it is,\nand the shard skips and limits by itself.", "",
			statement("SELECT id, placed, total FROM orders WHERE customer_id = {buyer} ORDER BY placed DESC LIMIT 2 OFFSET 1")},
		{"A join of co-located tables, and of a global one",
			"Orders and their lines are sharded by the customer too, and every shard has all\ncountries: nothing has to be joined across shards.", "",
			statement("SELECT c.name, k.name AS country, o.id, SUM(l.quantity) AS items FROM customers c JOIN countries k ON k.code = c.country " +
				"JOIN orders o ON o.customer_id = c.id JOIN order_lines l ON l.customer_id = o.customer_id AND l.order_id = o.id " +
				"WHERE c.id = {buyer} GROUP BY c.name, k.name, o.id ORDER BY o.id LIMIT 3")},
		{"The same question of everybody: a merged ORDER BY",
			"Each shard sorts its own rows and sends no more than offset and limit together;\nBraid merges the streams and skips the offset once.", "",
			statement("SELECT customer_id, id, total FROM orders ORDER BY total DESC, customer_id LIMIT 3 OFFSET 2")},
		{"Text merges by the weights of its collation",
			"The shards send each name's weight in a hidden column, so that the order is the\nserver's own.", "WEIGHT_STRING()",
			statement("SELECT name, id FROM customers ORDER BY name, id LIMIT 3")},
		{"COUNT(DISTINCT) over all shards",
			"Never a sum of counts: the shards send their distinct values in order, and Braid\ncounts each value once.", "",
			statement("SELECT COUNT(*) AS sold, COUNT(DISTINCT product) AS products, MAX(price) AS dearest FROM order_lines")},
		{"GROUP BY over all shards",
			"Shards group, Braid combines the groups. An average travels as its sum and count.", "exact SUM() and AVG()",
			statement("SELECT quantity, SUM(quantity * price) AS turnover, AVG(price) AS price FROM order_lines GROUP BY quantity ORDER BY quantity")},
		{"Rows of several shards have to meet: gather",
			"No shard knows the highest score of all. Braid copies the columns that the\nstatement uses to one node, and lets that server answer the statement itself.", "temporary tables",
			statement("SELECT c.id, c.name, c.points FROM customers c WHERE c.points = (SELECT MAX(points) FROM customers) ORDER BY c.id")},
		{"An isolation level, carried to the shards",
			"The configuration says READ-COMMITTED for everybody; a session asks for another\nlevel, and each node is told in front of the transaction's first statement there.", "", isolationLevel},
		{"A transaction over two nodes",
			"Points move from one customer to another, on different nodes. Both legs commit or\nneither does: the second is an XA branch, and a row on the first node decides.", "XA transactions", transaction},
		{"A table more, while Braid runs",
			"The table is added to braid.toml, and the file is read again: no client notices.", "", reload},
		{"Why did a statement go where it went?",
			"The admin port shows the cached plans. \"k = {0}\" means that the first literal\nchooses the shard.", "", plans},
	}
}

// tour visits every stop that the nodes allow.
func (s *shop) tour(ctx context.Context) error {
	for i, x := range stops() {
		fmt.Fprintf(s.out, "\n%d. %s\n", i+1, x.title)
		if s.nodes.embedded && x.lacks != "" {
			fmt.Fprintf(s.out, "\nLeft out: the embedded engine has no %s. With a MySQL or MariaDB server on PATH it is shown.\n", x.lacks)
			continue
		}
		fmt.Fprintf(s.out, "\n%s\n", x.text)
		if err := x.visit(s, ctx); err != nil {
			return fmt.Errorf("%s: %w", x.title, err)
		}
	}
	return nil
}

// run shows a statement and its rows.
func (s *shop) run(ctx context.Context, db querier, prompt, query string) error {
	fmt.Fprintf(s.out, "\n%s> %s;\n", prompt, query)
	return show(ctx, s.out, db, query)
}

// statement shows a query's rows and its EXPLAIN; {buyer} is a customer.
func statement(query string) func(*shop, context.Context) error {
	return func(s *shop, ctx context.Context) error {
		query := strings.ReplaceAll(query, "{buyer}", strconv.Itoa(s.buyer))
		fmt.Fprintf(s.out, "\nshop> %s;\n", query)
		if err := show(ctx, s.out, s.clients, query); err != nil {
			return err
		}
		return s.explain(ctx, s.clients, query)
	}
}

func (s *shop) explain(ctx context.Context, db querier, query string) error {
	fmt.Fprintln(s.out, "its EXPLAIN:")
	return show(ctx, s.out, db, "EXPLAIN "+query)
}

// do runs statements without rows.
func (s *shop) do(ctx context.Context, db interface {
	ExecContext(context.Context, string, ...any) (sql.Result, error)
}, texts ...string) error {
	for _, text := range texts {
		fmt.Fprintf(s.out, "\nshop> %s;\n", text)
		r, err := db.ExecContext(ctx, text)
		if err != nil {
			return fmt.Errorf("%s: %w", text, err)
		}
		n, err := r.RowsAffected()
		if err != nil {
			return err
		}
		fmt.Fprintf(s.out, "OK, %d rows affected\n", n)
	}
	return nil
}

// neighbours finds two customers on different nodes, by EXPLAIN.
func (s *shop) neighbours(ctx context.Context) (here, there int, err error) {
	first := ""
	for id := 1; id <= 60; id++ {
		_, node, err := s.placeOf(ctx, id)
		if err != nil {
			return 0, 0, err
		}
		switch {
		case first == "":
			here, first = id, node
		case node != first:
			return here, id, nil
		}
	}
	return 0, 0, fmt.Errorf("60 customers are all on node %s", first)
}

func isolationLevel(s *shop, ctx context.Context) error {
	conn, err := s.clients.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	here, there, err := s.neighbours(ctx)
	if err != nil {
		return err
	}
	one := func(id int) string { return fmt.Sprintf("SELECT points FROM customers WHERE id = %d FOR UPDATE", id) }
	if err := s.do(ctx, conn, "SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE", "BEGIN"); err != nil {
		return err
	}
	// A second leg is an XA branch, which an embedded node has not.
	asked := s.nodes.list[:1]
	ids := []int{here, there}
	if s.nodes.embedded {
		ids = ids[:1]
	} else {
		asked = s.nodes.list
	}
	for _, id := range ids {
		if err := s.run(ctx, conn, "shop", one(id)); err != nil {
			return err
		}
	}
	fmt.Fprintln(s.out, "\nWhat the nodes themselves say of their open transactions:")
	lines := [][]string{{"node", "isolation"}}
	for _, n := range s.nodes.list {
		levels, err := n.isolations(ctx)
		if err != nil {
			return err
		}
		for _, level := range levels {
			lines = append(lines, []string{n.name, level})
		}
	}
	if len(lines)-1 < len(asked) {
		return fmt.Errorf("%d nodes have a transaction, want %d", len(lines)-1, len(asked))
	}
	for _, line := range lines[1:] {
		if !strings.Contains(line[1], "SERIALIZABLE") {
			return fmt.Errorf("node %s runs the transaction at %s", line[0], line[1])
		}
	}
	printTable(s.out, lines)
	return s.do(ctx, conn, "ROLLBACK", "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
}

func transaction(s *shop, ctx context.Context) error {
	conn, err := s.clients.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	here, there, err := s.neighbours(ctx)
	if err != nil {
		return err
	}
	both := fmt.Sprintf("SELECT id, points FROM customers WHERE id IN (%d, %d) ORDER BY id", here, there)
	if err := s.run(ctx, conn, "shop", both); err != nil {
		return err
	}
	if err := s.explain(ctx, conn, both); err != nil {
		return err
	}
	if err := s.do(ctx, conn, "BEGIN",
		fmt.Sprintf("UPDATE customers SET points = points - 50 WHERE id = %d", here),
		fmt.Sprintf("UPDATE customers SET points = points + 50 WHERE id = %d", there)); err != nil {
		return err
	}
	if err := s.run(ctx, s.admin, "admin", "SHOW TRANSACTIONS"); err != nil {
		return err
	}
	if err := s.do(ctx, conn, "COMMIT"); err != nil {
		return err
	}
	return s.run(ctx, conn, "shop", both)
}

func reload(s *shop, ctx context.Context) error {
	text, err := os.ReadFile(s.path)
	if err != nil {
		return err
	}
	if err := os.WriteFile(s.path, append(text, moreTables...), 0o600); err != nil {
		return err
	}
	fmt.Fprintf(s.out, "\n$ cat >> %s%s", s.path, moreTables)
	if err := s.run(ctx, s.admin, "admin", "RELOAD CONFIG"); err != nil {
		return err
	}
	if err := s.do(ctx, s.clients, "CREATE TABLE reviews (customer_id INT, order_id INT, stars INT NOT NULL, PRIMARY KEY (customer_id, order_id))",
		fmt.Sprintf("INSERT INTO reviews VALUES (%d, 1, 5)", s.buyer)); err != nil {
		return err
	}
	return statement("SELECT o.id, o.total, r.stars FROM orders o JOIN reviews r ON r.customer_id = o.customer_id AND r.order_id = o.id WHERE o.customer_id = {buyer}")(s, ctx)
}

func plans(s *shop, ctx context.Context) error {
	// One shape of statement, three executions: one plan, two hits.
	const shape = "SELECT name FROM customers WHERE id = "
	for _, id := range []string{"7", "8", "9"} {
		if err := s.clients.QueryRowContext(ctx, shape+id).Scan(new(string)); err != nil {
			return err
		}
	}
	fmt.Fprintf(s.out, "\nadmin> SHOW PLANS;   (one of them)\n")
	rows, err := s.admin.QueryContext(ctx, "SHOW PLANS")
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var db, digest, plan, hits string
		if err := rows.Scan(&db, &digest, &plan, &hits); err != nil {
			return err
		}
		if strings.HasPrefix(digest, shape) {
			for _, line := range [][2]string{{"database", db}, {"statement", digest}, {"plan", strings.ReplaceAll(plan, "\n", "\n           ")}, {"hits", hits}} {
				fmt.Fprintf(s.out, "%9s: %s\n", line[0], line[1])
			}
			return rows.Err()
		}
	}
	return fmt.Errorf("SHOW PLANS has no plan of %s?", shape)
}

// howToConnect says where everything is.
func (s *shop) howToConnect() {
	host, port, _ := net.SplitHostPort(s.ports.clients)
	_, adminPort, _ := net.SplitHostPort(s.ports.admin)
	fmt.Fprintf(s.out, `
Connect to the shop:    mysql -h %s -P %s -u %s -p%s %s
The admin port:         mysql -h %s -P %s -u %s -p%s    (HELP lists its commands)
Metrics and health:     http://%s/metrics  /healthz  /readyz
The configuration:      %s
`, host, port, user, userPassword, database, host, adminPort, admin, adminPassword, s.ports.http, s.path)
	for _, n := range s.nodes.list {
		if socket, ok := strings.CutPrefix(n.address, "unix:"); ok {
			fmt.Fprintf(s.out, "Node %s directly:       mysql -S %s -u %s -p%s\n", n.name, socket, n.user, n.password)
		} else {
			host, port, _ := net.SplitHostPort(n.address)
			fmt.Fprintf(s.out, "Node %s directly:       mysql -h %s -P %s -u %s\n", n.name, host, port, n.user)
		}
	}
}
