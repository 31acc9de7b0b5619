// Package metadata compares, end to end and on both flavours, what Braid says of
// schemas, tables, the session and itself with what one plain server says.
package metadata
