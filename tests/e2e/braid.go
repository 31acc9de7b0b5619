package e2e

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"braid/conf"
	"braid/proxy"
	"braid/tests/servers"
	"braid/tests/wire"
)

// Topology says what Braid stands over: Shards shards dealt out in turn to
// Nodes servers of one flavour.
type Topology struct {
	Flavour  servers.Flavour
	Nodes    int    // 0: 1
	Shards   int    // 0: as many as nodes
	Database string // "": shop
	Default  string // for tables not listed: "", "single" or "hash"
	Tables   []conf.Table
	// ShortcutsOff runs without the relay and without the plan cache: answers must be the same.
	ShortcutsOff bool
	// Change may change the configuration before it is validated; nil: nothing.
	Change func(*conf.Config)
	// Load is what RELOAD CONFIG on the admin port reads; nil: there is no file.
	Load func() (*conf.Config, error)
}

func (top Topology) String() string {
	top = top.filled()
	text := fmt.Sprintf("%s-%dx%d", top.Flavour, top.Shards, top.Nodes)
	if top.ShortcutsOff {
		text += "-plain"
	}
	return text
}

func (top Topology) filled() Topology {
	top.Nodes = max(top.Nodes, 1)
	if top.Shards == 0 {
		top.Shards = top.Nodes
	}
	if top.Database == "" {
		top.Database = "shop"
	}
	return top
}

// Braid is a proxy that runs in this process, over servers of a lab.
type Braid struct {
	Addr     string
	Config   *conf.Config
	Nodes    []*servers.Server
	Server   *proxy.Server
	topology Topology
	stop     func()
	log      *logBuffer
}

// StartBraid creates the shards' schemas, empty, on the lab's servers "node0",
// "node1", ..., and starts Braid over them; it stops at the test's end, and its
// warnings are shown when the test failed. Users are servers.User with
// servers.Password.
//
// With one shard per node the schemas have the database's own name, otherwise
// they are shop_0, shop_1, ... over all nodes.
func (l *Lab) StartBraid(t testing.TB, top Topology) *Braid {
	t.Helper()
	top = top.filled()
	b := &Braid{topology: top, log: &logBuffer{}}
	for i := range top.Nodes {
		b.Nodes = append(b.Nodes, l.Server(t, top.Flavour, "node"+strconv.Itoa(i)))
	}
	b.Config = top.config(b.Nodes)
	if top.Change != nil {
		top.Change(b.Config)
	}
	if err := b.Config.Validate(); err != nil {
		t.Fatalf("configuration of %s: %v", top, err)
	}
	for i, node := range b.Nodes {
		schemas := []string{}
		for _, shard := range b.Config.Databases[0].Shards {
			if shard.Node == nodeName(i) {
				schemas = append(schemas, shard.Schema)
			}
		}
		dropAll(t, node)
		Recreate(t, node, schemas...)
	}
	b.start(t)
	t.Cleanup(func() {
		b.Stop()
		if t.Failed() {
			if text := b.log.String(); text != "" {
				t.Logf("Braid's warnings:\n%s", text)
			}
		}
	})
	return b
}

// dropAll drops what earlier tests made on a node, Braid's own schema too.
func dropAll(t testing.TB, node *servers.Server) {
	t.Helper()
	db := Open(t, node, "")
	rows, err := db.QueryContext(t.Context(), "SELECT SCHEMA_NAME FROM information_schema.SCHEMATA WHERE SCHEMA_NAME NOT IN ('mysql','sys','information_schema','performance_schema')")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var names []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if _, err := db.ExecContext(t.Context(), "DROP DATABASE `"+name+"`"); err != nil {
			t.Fatal(err)
		}
	}
}

func nodeName(i int) string { return "n" + strconv.Itoa(i) }

func (top Topology) config(nodes []*servers.Server) *conf.Config {
	secret := conf.Secret{Password: servers.Password}
	c := &conf.Config{
		Proxy: conf.Proxy{Listen: []string{"127.0.0.1:0"}, RelayOff: top.ShortcutsOff, PlanCacheOff: top.ShortcutsOff},
		Users: []conf.User{{Name: servers.User, Secret: secret}},
		Timeouts: conf.Timeouts{
			Drain: conf.Duration(2 * time.Second),
		},
	}
	for i, node := range nodes {
		c.Nodes = append(c.Nodes, conf.Node{Name: nodeName(i), Primary: node.Addr(), User: servers.User, Secret: secret})
	}
	d := conf.Database{Name: top.Database, Default: top.Default, Tables: slices.Clone(top.Tables)}
	for i := range top.Shards {
		schema := top.Database
		if top.Shards > top.Nodes {
			schema += "_" + strconv.Itoa(i)
		}
		d.Shards = append(d.Shards, conf.Shard{Name: "s" + strconv.Itoa(i), Node: nodeName(i % top.Nodes), Schema: schema})
	}
	c.Databases = []conf.Database{d}
	c.FillDefaults()
	return c
}

// start starts the proxy and waits until it listens.
func (b *Braid) start(t testing.TB) {
	t.Helper()
	encoder := zapcore.NewConsoleEncoder(zap.NewDevelopmentEncoderConfig())
	logger := zap.New(zapcore.NewCore(encoder, zapcore.AddSync(b.log), zap.WarnLevel))
	server, err := proxy.New(b.Config, logger)
	if err != nil {
		t.Fatalf("starting Braid: %v\n%s", err, b.log)
	}
	server.Load = b.topology.Load
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- server.Run(ctx) }()
	b.Server, b.Addr = server, server.Addr().String()
	b.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Braid ended with: %v", err)
		}
	})
}

// Stop drains and ends the proxy; the nodes stay. It may be called early and more than once.
func (b *Braid) Stop() { b.stop() }

// Another starts a second Braid over the same nodes and schemas, as they are; it
// stops at the test's end.
func (b *Braid) Another(t testing.TB) *Braid {
	t.Helper()
	o := &Braid{Config: b.Config, Nodes: b.Nodes, topology: b.topology, log: b.log}
	o.start(t)
	t.Cleanup(o.Stop)
	return o
}

// Restart ends the proxy and starts it again with its configuration, on another port.
func (b *Braid) Restart(t testing.TB) {
	t.Helper()
	b.Stop()
	b.start(t)
}

// DriverConfig is go-sql-driver's configuration for the database, to be completed by the caller.
func (b *Braid) DriverConfig() *mysql.Config {
	c := mysql.NewConfig()
	c.User, c.Passwd, c.Net, c.Addr, c.DBName = servers.User, servers.Password, "tcp", b.Addr, b.topology.Database
	return c
}

// DSN is the data source name of the database.
func (b *Braid) DSN() string { return b.DriverConfig().FormatDSN() }

// Open opens the database through Braid, closed at the test's end.
func (b *Braid) Open(t testing.TB) *sql.DB {
	t.Helper()
	db, err := sql.Open("mysql", b.DSN())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// Wire is how wire.Connect reaches the database.
func (b *Braid) Wire() wire.Options {
	return wire.Options{Addr: b.Addr, User: servers.User, Password: servers.Password, Database: b.topology.Database}
}

// Flavour is the nodes' flavour.
func (b *Braid) Flavour() servers.Flavour { return b.topology.Flavour }

// Shards lists where each shard's schema is, in the shards' order.
func (b *Braid) Shards() []Place {
	var places []Place
	for _, shard := range b.Config.Databases[0].Shards {
		i, _ := strconv.Atoi(strings.TrimPrefix(shard.Node, "n"))
		places = append(places, Place{Shard: shard.Name, Node: b.Nodes[i], Schema: shard.Schema})
	}
	return places
}

// Place is one shard's physical schema, for looks behind the proxy.
type Place struct {
	Shard  string
	Node   *servers.Server
	Schema string
}

// logBuffer collects a log. It is safe for concurrent use.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
