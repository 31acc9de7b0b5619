package difftest

import (
	"fmt"
	"regexp"
	"strings"
)

// Bugs of MariaDB 10.11 and MySQL 9 that random statements meet: the plain server's
// rows are wrong then, as it says itself when it is asked in other words (Case.Twin).

// twin is a marked text that asks for the same rows as the statement, "" when no
// known bug can touch it.
func (q *randomSelect) twin() string {
	plain := *q
	plain.disguised = 0
	q = &plain
	text := q.twinGroups()
	if text == "" {
		text = q.marked()
	}
	if text = twinFractions(text); text == q.marked() {
		return ""
	}
	return text
}

// twinGroups has the statement in a derived table, and sorts outside. MariaDB
// loses the group of NULL, or mixes it with another, where an aggregate has
// DISTINCT and ORDER BY sorts groups by an expression: SELECT SUM(DISTINCT v) FROM
// t GROUP BY v + 0 ORDER BY v + 0 DESC has no row for the rows whose v is NULL, and
// has it without the ORDER BY. MySQL shows a group twice, where derived tables that
// group are joined.
func (q *randomSelect) twinGroups() string {
	if len(q.group) == 0 || len(q.order) == 0 || q.rollup || q.distinct || len(q.sets) > 0 || !strings.Contains(q.marked(), "(DISTINCT ") {
		return ""
	}
	inner := *q
	inner.with, inner.items, inner.order, inner.limit = "", nil, nil, ""
	var shown, order []string
	for i, item := range q.items {
		shown = append(shown, fmt.Sprintf("x.c%d", i))
		inner.items = append(inner.items, fmt.Sprintf("%s AS c%d", item, i))
	}
	for i, o := range q.order {
		by, desc := strings.CutSuffix(strings.TrimSuffix(o, " ASC"), " DESC")
		if strings.Trim(by, "0123456789") == "" {
			return ""
		}
		inner.items = append(inner.items, fmt.Sprintf("%s AS o%d", by, i))
		o = fmt.Sprintf("x.o%d", i)
		if desc {
			o += " DESC"
		}
		order = append(order, o)
	}
	outer := randomSelect{with: q.with, items: shown, from: "(" + inner.marked() + ") x", order: order, limit: q.limit}
	return outer.marked()
}

// twinFractions has a sum in the place of each column that a fraction is equal
// to. Joined with an equality of two integer columns, MariaDB finds 10 where the
// column is to be 9.5; MySQL finds 2 for a parameter of 1.5 in a subquery.
func twinFractions(marked string) string {
	column, value := `([\w.]+)`, literalBegin+`(-?[0-9]+\.[0-9]+)`+literalEnd
	marked = regexp.MustCompile(column+` (=|<=>) `+value).ReplaceAllString(marked, "$1 + 0 $2 "+literal("$3"))
	return regexp.MustCompile(value+` = `+column).ReplaceAllString(marked, literal("$1")+" = $2 + 0")
}
