package merge

import (
	"fmt"
	"strconv"
	"strings"
)

// Spec says how rows of several shards become the client's. It is immutable
// once built and may be shared by any number of Merge calls.
//
// Each input delivers rows of the same columns: Visible ones that the client
// sees, in order, then hidden ones that only the merge reads and drops.
type Spec struct {
	Visible int // number of leading columns the client sees; 0 means all
	// Hidden is the name of the first hidden column. Where another stands in its
	// place a * has become other columns than were planned for: error 1105. "": not checked.
	Hidden string

	// Order is the order each input is sorted by, and the order in which rows
	// come out of the k-way merge. Empty: inputs are read one after the other,
	// in input order. Ties go by input number.
	Order []Key

	// Group: rows equal by these keys become one row. Every input is sorted so
	// that equal rows of the merged stream are adjacent: Group is a permutation
	// of Order's first len(Group) keys (Desc aside). Aggregate with an empty
	// Group: all rows of all inputs become one row; the shards each send their
	// own row in that case, also when they have no rows, so there is always one.
	Group     []Key
	Aggregate bool // combine the rows of a group by Aggs (false with Group set: DISTINCT, the first row stands for the group)
	// Aggs says how columns are combined; a column not named keeps the value of
	// the group's first row in merge order. A group of one row passes unchanged.
	Aggs []Agg

	// Sort is applied to the combined rows where the wanted order is not the
	// stream's (ORDER BY COUNT(*)): top-n in memory when there is a limit, else
	// a full sort within the limit of bytes. Ties keep the stream's order. The
	// keys may be hidden columns, and columns of Aggs.
	Sort []Key
}

// Key is one sort or group key. NULL comes first ascending, last descending.
//
// What is compared is, in this order of preference, the column NumericCol, the
// column Weight, the column Col. Col alone will do for integers, DECIMAL,
// DOUBLE, YEAR, BIT, DATE, TIME, DATETIME and binary strings. Merge answers
// 1235 where it would not be exact: text without Weight; ENUM, SET, TIMESTAMP,
// and in text rows FLOAT and computed DOUBLE(M,D), without NumericCol; JSON, geometry.
type Key struct {
	Col int // the column that holds the value, counted from 0 over visible and hidden ones
	// Weight is the column that holds WEIGHT_STRING(value), or -1. It is used
	// instead of Col when Col's type has a collation other than binary; when it
	// is -1 such a Col is an error (1235), never compared by bytes.
	Weight int
	// Pad says how the collation of a value with a Weight treats the end of the
	// shorter one; its zero value makes the key an error (1235). PaddingOf knows
	// the collations.
	Pad  Padding
	Desc bool
	// NumericCol holds an exact number that sorts as the value does, or -1:
	// value+0 for ENUM, SET, BIT; value+0e0 for FLOAT and DOUBLE(M,D) (M1);
	// UNIX_TIMESTAMP(value) for a TIMESTAMP column, whose shown text repeats an
	// hour when summer time ends.
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
	// is the result. The Distinct keys follow the Group keys in Order, in any
	// order among themselves.
	AggCountDistinct
	// AggSumDistinct and AggAvgDistinct add x once for each different value: Col
	// holds SUM(DISTINCT x) or AVG(DISTINCT x), SumCol SUM(DISTINCT x) (or x
	// itself where it is an integer, DECIMAL or DOUBLE) of a row that the shards
	// grouped by x too.
	AggSumDistinct
	AggAvgDistinct
)

// Agg combines one column. Merge answers 1235 for SUM and AVG of DOUBLE(M,D) in
// text rows, whose partial sums come rounded, and for bit aggregates of binary strings.
type Agg struct {
	Kind     AggKind
	Col      int
	SumCol   int     // AggAvg, AggSumDistinct, AggAvgDistinct
	CountCol int     // AggAvg
	Weight   int     // AggMin, AggMax: column with WEIGHT_STRING(Col), or -1
	Pad      Padding // of Weight, as in Key
	Distinct []Key   // the Distinct aggregates
}

// Limit is LIMIT count OFFSET offset, known when a statement is bound to its values.
type Limit struct {
	Offset uint64
	Count  uint64 // meaningful when Set
	Set    bool
}

// Describe says in words what a merge by s and lim does, as EXPLAIN prints it.
func (s *Spec) Describe(lim Limit) string {
	var b strings.Builder
	keys := func(list []Key) {
		for i, k := range list {
			if i > 0 {
				b.WriteString(", ")
			}
			b.WriteString(strconv.Itoa(k.Col + 1))
			if k.Desc {
				b.WriteString(" DESC")
			}
		}
	}
	if len(s.Order) > 0 {
		b.WriteString("merge by column ")
		keys(s.Order)
	} else {
		b.WriteString("one shard after the other")
	}
	if len(s.Group) > 0 {
		b.WriteString("; group by column ")
		keys(s.Group)
	}
	if s.Aggregate {
		b.WriteString("; combine aggregates")
	}
	if len(s.Sort) > 0 {
		b.WriteString("; sort by column ")
		keys(s.Sort)
	}
	if lim.Set {
		fmt.Fprintf(&b, "; skip %d, give %d", lim.Offset, lim.Count)
	}
	return b.String()
}
