// Package wire is a small MySQL client for tests that shows what drivers hide:
// every field of column definitions, OK and EOF packets, and the raw bytes of
// each cell. It checks sequence ids strictly.
//
// It shares no code with braid/internal/mysql on purpose: a mistake made there
// must not be made twice. It speaks no TLS and no compression.
//
// Protocol facts are from the MySQL Source Code Documentation, "Client/Server
// Protocol".
package wire
