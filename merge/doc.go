// Package merge braids the sorted row streams of several shards into one.
//
// Rows stay in wire form (text or binary, both kinds); only the columns that
// order, group or aggregate are looked at. A Spec is data and says everything;
// Merge turns streams and a Spec into one mysql.Rows. Memory is bounded by the
// number of inputs, except for Spec.Sort, whose bytes are limited.
//
// Merge never evaluates SQL expressions, never compares the shown text of a
// column that has a collation (rule M1), and knows no SQL text. Where it could
// not be exact it refuses with error 1235.
package merge
