package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/go-sql-driver/mysql"

	"braid/conf"
)

// node is one server that holds shards.
type node struct {
	name           string
	address        string // as the configuration has it: "unix:/path" or "host:port"
	user, password string
	// isolations returns the isolation level of each transaction that is open there now.
	isolations func(ctx context.Context) ([]string, error)
}

// nodes are the servers of one demo.
type nodes struct {
	what string // "MariaDB 10.11.11"
	list []node
	// embedded engines lack XA, and with it transactions over several nodes, and
	// WEIGHT_STRING, by which text of several shards is sorted.
	embedded bool
	stops    []func() error
}

func (n *nodes) stop() {
	for _, stop := range n.stops {
		_ = stop()
	}
}

// startNodes starts two nodes of the wished kind in dir, or of the first kind
// that this machine has.
func startNodes(ctx context.Context, out io.Writer, kind, dir string) (*nodes, error) {
	switch kind {
	case "mariadb", "mysql":
		return startReal(ctx, out, kind, dir)
	case "embedded":
		return startEmbedded(out)
	case "auto":
	default:
		return nil, fmt.Errorf("there is no server %q; choose auto, mariadb, mysql or embedded", kind)
	}
	for _, kind := range []string{"mariadb", "mysql"} {
		n, err := startReal(ctx, out, kind, filepath.Join(dir, kind))
		var none *notInstalled
		switch {
		case err == nil:
			return n, nil
		case ctx.Err() != nil:
			return nil, err
		case !errors.As(err, &none):
			fmt.Fprintf(out, "%s is installed, but does not start: %v\n", kind, err)
		}
	}
	return startEmbedded(out)
}

// createSchemas makes the shards' schemas, which Braid expects to be there.
func (n *nodes) createSchemas(ctx context.Context) error {
	for i := range shards {
		db, err := n.list[i%len(n.list)].open("")
		if err != nil {
			return err
		}
		_, err = db.ExecContext(ctx, "CREATE DATABASE "+schemaOf(i)+" CHARACTER SET utf8mb4")
		if err = errors.Join(err, db.Close()); err != nil {
			return fmt.Errorf("schema %s: %w", schemaOf(i), err)
		}
	}
	return nil
}

// open opens a schema of the node, behind Braid's back.
func (n *node) open(schema string) (*sql.DB, error) {
	return openDriver(n.address, n.user, n.password, schema)
}

// openDriver opens a MySQL server at an address as the configuration has it.
func openDriver(address, user, password, schema string) (*sql.DB, error) {
	c := mysql.NewConfig()
	c.User, c.Passwd, c.DBName, c.Logger = user, password, schema, &mysql.NopLogger{}
	network, at, err := conf.ParseAddress(address)
	if err != nil {
		return nil, err
	}
	c.Net, c.Addr = network, at
	connector, err := mysql.NewConnector(c)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(connector), nil
}
