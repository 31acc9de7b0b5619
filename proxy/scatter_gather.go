package proxy

import (
	"errors"
	"slices"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"braid/internal/mysql"
	"braid/router"
)

// errGather is a scattered read that failed before its client was told anything,
// in a way in which a gathered one would not.
var errGather = errors.New("the shards' answers cannot be merged: the statement may be gathered")

// scatterOrGather runs a read on several shards. What their answers show to be
// no case for a merge is begun again as a gather: a sort by text in a collation
// that only a server knows, more rows than a sort may hold, and an expression
// that fails on a row which one server would not have looked at, since its page
// ended before.
func (s *Session) scatterOrGather(plan *router.Plan, q *router.Query, ps *execution) error {
	s.gathers = plan.MayGather(q)
	err := s.runScatter(plan, ps)
	s.gathers = false
	if err != errGather {
		return err
	}
	plan.BindGather(q, &s.route)
	s.srv.stats.gathered.Add(1)
	return s.runGather(plan, ps)
}

// heldBytesMax is how much of a page is kept back until it is whole.
const heldBytesMax = 64 << 10

// firstRows reads what is kept back until the client's answer begins: the first
// row, or of a page, as LIMIT makes it, as much as heldBytesMax. For a page's
// sake a shard sends rows that are not on it, and one of them may fail in an
// expression; so may one over merged groups, whose error names what the client
// did not write. The rows are copies; io.EOF says that they are all.
func (s *Session) firstRows(out mysql.Rows) ([]mysql.Row, error) {
	var rows []mysql.Row
	for held := 0; held < heldBytesMax; {
		row, err := out.Next()
		if err != nil {
			return rows, err
		}
		rows = append(rows, slices.Clone(row))
		held += len(row)
		if !s.gathers || !s.route.Limit.Set && s.route.Evaluate == nil {
			break
		}
	}
	return rows, nil
}

// ownError is the error that the client's own text gives, where a shard's may be
// about the text that Braid made of it: a rewritten one can be no good where the
// client's is, or quote what the client never wrote.
func (s *Session) ownError(at *part, plan *router.Plan, err error) error {
	var e *mysql.Error
	if !s.gathers || at == nil || !errors.As(err, &e) || isPrefix(err) {
		return err
	}
	switch e.Code {
	case gomysql.ER_PARSE_ERROR, gomysql.ER_NON_UNIQ_ERROR, gomysql.ER_BAD_FIELD_ERROR, gomysql.ER_WRONG_FIELD_WITH_GROUP, gomysql.ER_MIX_OF_GROUP_FUNC_AND_FIELDS, errOrderNotSelected:
	default:
		return err
	}
	text, _ := plan.Describe(&s.query)
	_, own := s.columnsOf(at, plan, ownText, text)
	if e.Code == gomysql.ER_PARSE_ERROR {
		// A text with a ? is wrong syntax unless it is prepared.
		var parse *mysql.Error
		if errors.As(own, &parse) && parse.Code == e.Code {
			return own
		}
		return err
	}
	if own == nil {
		return mysql.Errorf(gomysql.ER_NOT_SUPPORTED_YET, "This version of Braid doesn't yet support this statement over several shards (%s)", e.Message)
	}
	return own
}

// errOrderNotSelected is MySQL's error for ORDER BY something that SELECT
// DISTINCT does not have.
const errOrderNotSelected = 3065

// gatherable tells whether a scattered read's error says nothing of what a
// gathered one would answer: Braid's own refusal, or an expression's failure.
func gatherable(err error) bool {
	var e *mysql.Error
	if !errors.As(err, &e) {
		return false
	}
	switch e.Code {
	case gomysql.ER_NOT_SUPPORTED_YET, gomysql.ER_OUT_OF_SORTMEMORY,
		gomysql.ER_DATA_OUT_OF_RANGE, gomysql.ER_SUBQUERY_NO_1_ROW, gomysql.ER_TRUNCATED_WRONG_VALUE, gomysql.ER_WRONG_VALUE_FOR_TYPE:
		return true
	}
	// JSON and regular expressions over a row's value.
	return e.Code >= 3140 && e.Code <= 3158 || e.Code >= 3685 && e.Code <= 3699 || e.Code == 1139
}
