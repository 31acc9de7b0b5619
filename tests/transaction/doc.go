// Package transaction tests what a client sees of transactions over several
// shards: rules T1-T19 through the whole proxy, packet counts on nodes, and the
// bank test, in which nodes and Braid are killed while money moves. What one
// server answers statement by statement is in tests/difftest; the protocol's own
// tests are in backend.
package transaction
