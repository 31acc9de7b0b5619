package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"

	sqle "github.com/dolthub/go-mysql-server"
	"github.com/dolthub/go-mysql-server/memory"
	"github.com/dolthub/go-mysql-server/server"
	"github.com/dolthub/go-mysql-server/sql"
	vitess "github.com/dolthub/vitess/go/mysql"
	"github.com/sirupsen/logrus"
)

// startEmbedded starts two nodes in this process: an engine that keeps its rows
// in memory and needs nothing installed.
func startEmbedded(out io.Writer) (*nodes, error) {
	logrus.SetOutput(io.Discard) // the engine logs each connection
	n := &nodes{what: "the embedded engine go-mysql-server", embedded: true}
	fmt.Fprintf(out, "No MySQL or MariaDB server is used: two nodes of %s, in this process\n(for a look only: of transactions that end together it keeps the last one's rows)\n", n.what)
	for i := range 2 {
		node, stop, err := startEngine(fmt.Sprintf("n%d", i+1))
		if err != nil {
			n.stop()
			return nil, err
		}
		n.list, n.stops = append(n.list, node), append(n.stops, stop)
	}
	return n, nil
}

func startEngine(name string) (n node, stop func() error, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return n, nil, err
	}
	provider := memory.NewDBProvider()
	engine := sqle.NewDefault(provider)
	var clients *server.SessionManager
	keep := func(e *sqle.Engine, m *server.SessionManager, h vitess.Handler) (*sqle.Engine, *server.SessionManager, vitess.Handler) {
		clients = m
		return e, m, h
	}
	s, err := server.NewServer(server.Config{Protocol: "tcp", Address: l.Addr().String(), Listener: l, Options: []server.Option{keep}}, engine, sql.NewContext, memory.NewSessionBuilder(provider), nil)
	if err != nil {
		return n, nil, errors.Join(err, l.Close())
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = s.Start() // returns when the listener is closed
	}()
	stop = func() error {
		err := s.Close()
		<-ended
		return err
	}
	return node{name: name, address: l.Addr().String(), user: "root", isolations: func(ctx context.Context) ([]string, error) { return isolations(ctx, clients) }}, stop, nil
}

// isolations returns the level of each session that is in a transaction.
func isolations(ctx context.Context, clients *server.SessionManager) (levels []string, err error) {
	err = clients.Iter(func(s sql.Session) (stop bool, err error) {
		if s.GetTransaction() == nil {
			return false, nil
		}
		level, err := s.GetSessionVariable(sql.NewContext(ctx, sql.WithSession(s)), "transaction_isolation")
		levels = append(levels, fmt.Sprint(level))
		return err != nil, err
	})
	return levels, err
}
