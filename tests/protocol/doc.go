// Package protocol tests how clients talk to Braid and Braid to its nodes: TLS,
// compression, PROXY headers, cursors, LOCAL files, large packets, and clients
// that misbehave. Whatever a plain server can show as well is compared with one.
package protocol
