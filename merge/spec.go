// Package merge braids the sorted row streams of several shards into one.
//
// Rows stay in wire form (text or binary, both kinds); only the columns that
// order, group or aggregate are looked at. A Spec is data and says everything;
// Merge turns streams and a Spec into one mysql.Rows. Memory is bounded by the
// number of inputs, except for Spec.Sort, whose bytes are limited.
//
// Merge never evaluates SQL expressions, never compares the shown text of a
// column that has a collation (rule M1), and knows no SQL text.
package merge

// Spec says how rows of several shards become the client's. It is immutable
// once built and may be shared by any number of Merge calls.
//
// Each input delivers rows of the same columns: Visible ones that the client
// sees, in order, then hidden ones that only the merge reads and drops.
type Spec struct {
	Visible int // number of leading columns the client sees; 0 means all

	// Order is the order each input is sorted by, and the order in which rows
	// come out of the k-way merge. Empty: inputs are read one after the other,
	// in input order. Ties go by input number.
	Order []Key

	// Group: rows equal by these keys become one row. Every input is sorted so
	// that equal rows of the merged stream are adjacent: Group is a permutation
	// of Order's first len(Group) keys. Aggregate with an empty Group: all rows
	// of all inputs become one row, also when there is none.
	Group     []Key
	Aggregate bool // combine the rows of a group by Aggs (false with Group set: DISTINCT, the first row stands for the group)
	// Aggs says how columns are combined; a column not named keeps the value of
	// the group's first row in merge order.
	Aggs []Agg

	// Sort is applied to the combined rows where the wanted order is not the
	// stream's (ORDER BY COUNT(*)): top-n in memory when there is a limit, else
	// a full sort within the limit of bytes.
	Sort []Key
}

// Key is one sort or group key.
type Key struct {
	Col int // the column that holds the value, counted from 0 over visible and hidden ones
	// Weight is the column that holds WEIGHT_STRING(value), or -1. It is used
	// instead of Col when Col's type has a collation other than binary; when it
	// is -1 such a Col is an error (1235), never compared by bytes.
	Weight int
	Desc   bool
	// NumericCol holds value+0 for ENUM, SET, BIT and FLOAT, or -1 (M1).
	NumericCol int
}

// AggKind is how the values of one column in the rows of a group are combined.
type AggKind uint8

const (
	AggCount AggKind = iota // sum of partial counts, BIGINT
	AggSum                  // sum of partial sums, NULL when all are NULL; the column's own type (DECIMAL or DOUBLE)
	AggMin
	AggMax
	AggAvg // Col holds AVG(x), SumCol SUM(x), CountCol COUNT(x): the result has Col's type and scale
	AggBitAnd
	AggBitOr
	AggBitXor
	// AggCountDistinct: Col holds COUNT(DISTINCT x) of a row that the shards
	// grouped by x too; the number of different non-NULL Distinct keys in the group
	// is the result. The Distinct keys follow the Group keys in Order.
	AggCountDistinct
	// AggSumDistinct and AggAvgDistinct add x (SumCol) once for each different value.
	AggSumDistinct
	AggAvgDistinct
)

// Agg combines one column.
type Agg struct {
	Kind     AggKind
	Col      int
	SumCol   int   // AggAvg, AggSumDistinct, AggAvgDistinct
	CountCol int   // AggAvg
	Weight   int   // AggMin, AggMax: column with WEIGHT_STRING(Col), or -1
	Distinct []Key // the Distinct aggregates
}

// Limit is LIMIT count OFFSET offset, known when a statement is bound to its values.
type Limit struct {
	Offset uint64
	Count  uint64 // meaningful when Set
	Set    bool
}
