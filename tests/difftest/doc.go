// Package difftest runs the same statements on Braid and on one plain server
// that holds all the rows, and compares everything a client can see: rows with
// their order, every field of the column definitions, affected rows, insert id,
// warnings, status flags, info, and error number, SQLSTATE and message. Each
// statement runs as text and as prepared statement.
//
// The statements are in cases/*.txt; File tells the format. The types are File,
// Case, Run (the two sides) and Tally. The tests run them over
// several topologies; TestInstallation runs them on two servers of yours:
//
//	go test ./tests/difftest -run TestInstallation -braid DSN -plain DSN
//
// An answer is the same, WRONG, or unsupported (Braid said 1235). A statement
// that Braid refuses must be marked in its file, so that support only grows.
package difftest
