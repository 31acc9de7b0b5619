// Package mysql is the MySQL client/server protocol as Braid needs it: packets
// framed over a reused buffer, the handshake of both sides, and the values that
// travel in packets: Column, Row, Rows, OK, Error.
//
// It is a leaf: it imports nothing of Braid's. It does not interpret SQL, and
// it does not decode a row beyond the columns somebody asks for.
//
// Protocol facts are from the MySQL Source Code Documentation, "Client/Server
// Protocol", and MariaDB's "Client/Server Protocol" pages where they differ.
package mysql
