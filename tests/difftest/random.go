package difftest

import (
	"strings"

	"braid/tests/servers"
	"braid/tests/wire"
)

// A generator of random SELECTs over the tables of random.setup. A statement is
// kept as its clauses, so that one that fails can be made shorter.

// randomSelect is one SELECT in pieces, with what goes before and behind it.
type randomSelect struct {
	with     string
	modifier string // behind SELECT, such as SQL_BUFFER_RESULT
	distinct bool
	items    []string
	from     string
	joins    []string
	where    []string // joined by AND
	group    []string
	rollup   bool
	having   string
	sets     []randomSet // UNION and the like with further SELECTs
	order    []string    // in the end a total order, when the rows' order is compared
	limit    string
	total    bool // order is total
	counted  bool // which of several equal texts is shown is open: only the rows' number counts
	params   bool // literals are parameters where they can be
	single   bool // one shard can answer
	// disguised, when not 0, is the seed of another way to write the text.
	disguised uint64

	// before are statements of the session before it, after those that undo them.
	// within says that it is one of a transaction, which is run once.
	before, after []string
	within        bool
}

// randomSet is a further operand of a set operation.
type randomSet struct {
	operator string
	q        *randomSelect
}

// Around a literal that may become a parameter.
const (
	literalBegin = "\x01"
	literalEnd   = "\x02"
)

// literal marks a literal.
func literal(text string) string { return literalBegin + text + literalEnd }

// marked is the statement's text with its literals marked.
func (q *randomSelect) marked() string {
	var b strings.Builder
	b.WriteString(q.with)
	q.body(&b)
	for _, s := range q.sets {
		b.WriteString(" " + s.operator + " ")
		if s.q.limit != "" {
			b.WriteString("(" + s.q.marked() + ")")
			continue
		}
		s.q.body(&b)
	}
	if len(q.order) > 0 {
		b.WriteString(" ORDER BY " + strings.Join(q.order, ", "))
	}
	if q.limit != "" {
		b.WriteString(" LIMIT " + q.limit)
	}
	if q.disguised != 0 {
		return disguise(b.String(), q.disguised)
	}
	return b.String()
}

// body writes the SELECT up to HAVING.
func (q *randomSelect) body(b *strings.Builder) {
	b.WriteString("SELECT " + q.modifier)
	if q.distinct {
		b.WriteString("DISTINCT ")
	}
	b.WriteString(strings.Join(q.items, ", ") + " FROM " + q.from + strings.Join(q.joins, ""))
	if len(q.where) > 0 {
		b.WriteString(" WHERE " + strings.Join(q.where, " AND "))
	}
	if len(q.group) > 0 {
		b.WriteString(" GROUP BY " + strings.Join(q.group, ", "))
	}
	if q.rollup {
		b.WriteString(" WITH ROLLUP")
	}
	if q.having != "" {
		b.WriteString(" HAVING " + q.having)
	}
}

var plainLiterals = strings.NewReplacer(literalBegin, "", literalEnd, "")

func (q *randomSelect) String() string {
	text := plainLiterals.Replace(q.marked())
	for i := len(q.before) - 1; i >= 0; i-- {
		text = q.before[i] + "; " + text
	}
	if q.params {
		text += " -- with parameters"
	}
	return text
}

// prepared is a marked text with parameters, and their values.
func prepared(marked string) (string, []wire.Param) {
	text := ""
	params := []wire.Param{}
	rest := marked
	for {
		before, behind, ok := strings.Cut(rest, literalBegin)
		text += before
		if !ok {
			return text, params
		}
		var value string
		value, rest, _ = strings.Cut(behind, literalEnd)
		if p, err := parseParam(value); err == nil {
			text, params = text+"?", append(params, p)
		} else {
			text += value
		}
	}
}

// asCases is the statement as cases: rows count as a list only where they have
// a certain order.
func (q *randomSelect) asCases(line int, flavour servers.Flavour) []Case {
	var out []Case
	around := func(texts []string) {
		for _, text := range texts {
			out = append(out, Case{Line: line, Text: text, TextOnly: true, Unsupported: RefusedSometimes, Ignore: []string{"warnings"}})
		}
	}
	around(q.before)
	c := q.asCase(q.marked())
	c.Line, c.Ignore, c.Unsupported, c.Order, c.ColumnsOnly = line, []string{"warnings"}, RefusedSometimes, OrderNone, q.counted
	c.TextOnly = q.within && !q.params
	if q.total {
		c.Order = OrderAll
	}
	for _, modifier := range planModifiers() {
		other := *q
		other.modifier = modifier
		c.Plans = append(c.Plans, other.asCase(other.marked()).Text)
	}
	if q.limit != "" || len(q.before) > 0 { // no row, and no plan, for LIMIT 0 or sql_select_limit=0
		other := *q
		other.limit = "1000000"
		c.Plans = append(c.Plans, other.asCase(other.marked()).Text)
	}
	if marked := q.twin(); marked != "" {
		twin := q.asCase(marked)
		c.Twin = &twin
	}
	out = append(out, c)
	around(q.after)
	return out
}

// asCase is a case of the text, with parameters when the statement has them.
func (q *randomSelect) asCase(marked string) Case {
	c := Case{Text: plainLiterals.Replace(marked)}
	if q.params {
		if c.Text, c.Params = prepared(marked); len(c.Params) == 0 {
			c.Params = nil
		}
	}
	return c
}

// shorter lists the statements that lack one piece of q.
func (q *randomSelect) shorter() []*randomSelect {
	var out []*randomSelect
	without := func(list []string, i int) []string {
		return append(append([]string{}, list[:i]...), list[i+1:]...)
	}
	with := func(change func(c *randomSelect)) {
		c := *q
		change(&c)
		out = append(out, &c)
	}
	if len(q.before) > 0 {
		with(func(c *randomSelect) { c.before, c.after, c.within = nil, nil, false })
	}
	for i := range q.before {
		if len(q.before) > 1 && i > 0 {
			with(func(c *randomSelect) { c.before = without(q.before, i) })
		}
	}
	if q.params {
		with(func(c *randomSelect) { c.params = false })
	}
	if q.disguised != 0 {
		with(func(c *randomSelect) { c.disguised = 0 })
	}
	for i := range q.sets {
		with(func(c *randomSelect) { c.sets = append(append([]randomSet{}, q.sets[:i]...), q.sets[i+1:]...) })
		for _, s := range q.sets[i].q.shorter() {
			with(func(c *randomSelect) {
				c.sets = append([]randomSet{}, q.sets...)
				c.sets[i].q = s
			})
		}
	}
	for i := range q.joins {
		with(func(c *randomSelect) { c.joins = without(q.joins, i) })
	}
	for i := range q.where {
		with(func(c *randomSelect) { c.where = without(q.where, i) })
	}
	if q.rollup {
		with(func(c *randomSelect) { c.rollup = false })
	}
	if len(q.group) > 1 {
		for i := range q.group {
			with(func(c *randomSelect) { c.group = without(q.group, i) })
		}
	}
	if q.having != "" {
		with(func(c *randomSelect) { c.having = "" })
	}
	if q.limit != "" {
		with(func(c *randomSelect) { c.limit = "" })
	}
	if len(q.order) > 0 && q.limit == "" {
		with(func(c *randomSelect) { c.order, c.total = nil, false })
	}
	if q.distinct && q.limit == "" {
		with(func(c *randomSelect) { c.distinct = false })
	}
	if len(q.items) > 1 && len(q.sets) == 0 {
		for i := range q.items {
			with(func(c *randomSelect) { c.items = without(q.items, i) })
		}
	}
	return out
}
