// Package session tests what a session sets: that every shard sees it, that
// nothing of it leaks to the next session on a backend connection, and what it
// costs.
package session
