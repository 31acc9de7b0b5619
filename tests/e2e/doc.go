// Package e2e is what end-to-end tests stand on: servers shared by the tests of
// one package (Lab), Braid in this process over any number of shards and nodes
// (Topology, Braid), counters of what nodes did (Counters), and a TCP relay
// that counts packets and round trips (Relay).
//
// A test package says
//
//	var lab = e2e.NewLab()
//
//	func TestMain(m *testing.M) { os.Exit(lab.Main(m)) }
//
// and asks the lab for servers; Main stops them and fails when one is left.
package e2e
