package main

import (
	"fmt"
	"net"
	"strings"
)

const (
	database      = "shop"
	user          = "shop"
	userPassword  = "shop"
	admin         = "ops"
	adminPassword = "ops"
	shards        = 4
)

// ports are the addresses that Braid listens on.
type ports struct{ clients, admin, http string }

// choosePorts takes the ports that the manual's examples use, or others where
// those are taken.
func choosePorts() (ports, error) {
	var p ports
	for _, c := range []struct {
		to   *string
		port int
	}{{&p.clients, 3307}, {&p.admin, 6032}, {&p.http, 9104}} {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", c.port))
		if err != nil {
			if l, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
				return p, err
			}
		}
		*c.to = l.Addr().String()
		if err := l.Close(); err != nil {
			return p, err
		}
	}
	return p, nil
}

// schemaOf is the schema of a shard, numbered from 0.
func schemaOf(shard int) string { return fmt.Sprintf("%s_%d", database, shard) }

// configuration is the text of braid.toml.
func configuration(n *nodes, p ports) string {
	var b strings.Builder
	fmt.Fprintf(&b, `# Edit this file, then RELOAD CONFIG on the admin port.
[proxy]
listen = [%q]

[admin]
listen = %q
http = %q
users = [{ name = %q, password = %q }]

[timeouts]
drain = "1s"

[[users]]
name = %q
password = %q
`, p.clients, p.admin, p.http, admin, adminPassword, user, userPassword)
	for _, node := range n.list {
		fmt.Fprintf(&b, "\n[[nodes]]\nname = %q\nprimary = %q\nuser = %q\npassword = %q\n", node.name, node.address, node.user, node.password)
	}
	fmt.Fprintf(&b, "\n[[databases]]\nname = %q\nisolation = \"READ-COMMITTED\"\nshards = [\n", database)
	for i := range shards {
		fmt.Fprintf(&b, "  { name = \"s%d\", node = %q, schema = %q },\n", i, n.list[i%len(n.list)].name, schemaOf(i))
	}
	b.WriteString(`]

# Equal customers are on one shard, with all that is theirs.
[[databases.tables]]
name = "customers"
kind = "sharded"
key = ["id"]

[[databases.tables]]
name = "orders"
kind = "sharded"
key = ["customer_id"]
colocated = "customers"

[[databases.tables]]
name = "order_lines"
kind = "sharded"
key = ["customer_id"]
colocated = "customers"

# Every shard has all of them.
[[databases.tables]]
name = "countries"
kind = "global"
`)
	return b.String()
}

// moreTables is what the tour adds to the configuration.
const moreTables = `
[[databases.tables]]
name = "reviews"
kind = "sharded"
key = ["customer_id"]
colocated = "customers"
`
