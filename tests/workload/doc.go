// Package workload runs known workloads and crash tests through Braid: sysbench,
// TPC-C (go-tpc) with its own consistency checks, and kill -9 of Braid in the
// middle of cross-node commits. They are small unless -long is given:
//
//	go test ./tests/workload -v -timeout 2h -long
package workload
