// Package proxy is the side of Braid that talks to clients, and the place where
// plans are carried out.
//
// Its types: Server (listeners, the current generation, all sessions), Session
// (one client: its connection, its context, its transaction, its prepared
// statements; driven by one goroutine), generation (one immutable snapshot of
// configuration, nodes, schema and plans). SQL is understood in package router,
// rows are combined in package merge, nodes are spoken to by package backend.
package proxy
