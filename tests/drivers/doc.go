// Package drivers tests Braid with the drivers and command line clients that
// programs use: go-sql-driver's own test suite, and a matrix of drivers that each
// do the same work over four shards.
//
// The work (in work/, a program for each driver's language) is: types there and
// back with NULLs, unsigned numbers, decimals, times, bytes, bits and enums;
// prepared statements; a transaction that is rolled back and one that commits;
// batches; a row of megabytes; streamed rows; metadata; errors by number and
// SQLSTATE; several statements in one text; another login on the connection; a
// new connection. Each program prints what it saw.
package drivers
