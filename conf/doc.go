// Package conf is what the operator writes: a TOML file read into Config, a
// struct of plain data.
//
// Load reads a file, Parse a text. Both fill in the defaults (defaults.go is the
// table) and check every rule that can be checked without a node (validate*.go),
// and answer with all problems at once, as Problems, each with its line and
// column. Diff compares two configurations for RELOAD CONFIG and says of each
// change what it takes to apply it.
//
// The package refuses what it does not understand: an unknown key, a value of
// another type, a name that leads nowhere. It connects to nothing; whether the
// nodes fit the configuration is for `braid check --live`. A password in it never
// prints: Secret hides itself from fmt, JSON and the loggers built on them.
package conf
