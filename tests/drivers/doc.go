// Package drivers tests Braid with the drivers and command line clients that
// programs use: go-sql-driver's own test suite, and one script of real work
// (script.md) that each driver of the matrix carries out on four shards.
package drivers
