package proxy

import "sync/atomic"

// stats are the server's counters since its start.
type stats struct {
	logins     atomic.Uint64
	denied     atomic.Uint64
	refused    atomic.Uint64
	statements atomic.Uint64
	single     atomic.Uint64
	scattered  atomic.Uint64
	gathered   atomic.Uint64
	errors     atomic.Uint64
	relayRows  atomic.Uint64
	mergeRows  atomic.Uint64
	killed     atomic.Uint64
	retried    atomic.Uint64
}

// counter is one of the stats by name, as SHOW STATS and /metrics have it.
type counter struct {
	name  string
	help  string
	value *atomic.Uint64
}

func (s *stats) list() []counter {
	return []counter{
		{"logins", "clients that logged in", &s.logins},
		{"logins_denied", "logins that failed", &s.denied},
		{"clients_refused", "clients sent away because of proxy.connections_max or a shutdown", &s.refused},
		{"statements", "statements received", &s.statements},
		{"statements_single", "statements that one shard answered", &s.single},
		{"statements_scattered", "statements that several shards answered", &s.scattered},
		{"statements_gathered", "statements whose rows were brought together on one node", &s.gathered},
		{"statement_errors", "statements answered with an error", &s.errors},
		{"rows_relayed", "rows passed on undecoded", &s.relayRows},
		{"rows_merged", "rows that came out of a merge", &s.mergeRows},
		{"kills", "statements stopped by KILL", &s.killed},
		{"reads_retried", "reads sent again after a pooled connection had died unnoticed", &s.retried},
	}
}
