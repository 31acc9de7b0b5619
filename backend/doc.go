// Package backend is the side of Braid that talks to nodes: connections, their
// pools, bringing a connection to a session's context, and transactions over
// several nodes.
//
// Its types: Cluster (the nodes of one generation), Node (one server and its
// pool), Conn (one connection and what it was last told), Vars (what a session
// has set), Tx (one transaction and its legs). It knows no SQL beyond the texts
// it sends itself, and it never decodes a row.
package backend
