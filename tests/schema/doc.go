// Package schema tests, end to end and on both flavours, what changes the schema
// and what hangs on it: constraints over shards, generated ids, tables that no
// configuration names, half-done changes.
package schema
