package difftest

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// A generator of random SELECTs over the tables of shop.setup. A statement is
// kept as its clauses, so that one that fails can be made shorter.

// randomTable is a table as the generator knows it.
type randomTable struct {
	name    string
	key     []string // together unique
	numbers []string
	texts   []string // with a collation
	times   []string
	others  []string            // shown and compared with NULL only
	values  map[string][]string // literals to compare a column with
}

func randomTables() map[string]*randomTable {
	return map[string]*randomTable{
		"customers": {
			name: "customers", key: []string{"id"}, numbers: []string{"id", "credit", "active", "score"}, texts: []string{"name", "city", "country"},
			times: []string{"born", "seen"}, others: []string{"tier", "tags"},
			values: map[string][]string{
				"id": {"7", "8", "'7'", "7.0", "0", "-5", "215", "1e2", "999"}, "credit": {"0", "12.4", "'87.05'", "-5.1"}, "active": {"0", "1", "TRUE"}, "score": {"0", "-2.25", "1e10"},
				"name": {"'bob'", "'BOB'", "'jorg'", "'a'", "'dora '"}, "city": {"'Berlin'", "'berlin'", "'Oslo'"}, "country": {"'DE'", "'de'", "'XX'"},
				"born": {"'2011-11-11'", "DATE'1990-04-15'", "20000229"}, "seen": {"'2024-01-01'", "'2024-03-31 02:30:00.123456'"},
			},
		},
		"orders": {
			name: "orders", key: []string{"customer_id", "no"}, numbers: []string{"customer_id", "no", "amount", "qty"}, texts: []string{"status"}, times: []string{"placed"},
			values: map[string][]string{
				"customer_id": {"7", "4", "'40'", "0", "999"}, "no": {"1", "2", "10"}, "amount": {"10.5", "0", "99.999"}, "qty": {"1", "3", "65535"},
				"status": {"'paid'", "'PAID'", "'open'", "'nosuch'"}, "placed": {"'2024-03-01'", "'2023-07-04 12:34:56'"},
			},
		},
		"people": {
			name: "people", key: []string{"login"}, numbers: []string{"age"}, texts: []string{"login", "mail"},
			values: map[string][]string{"login": {"'alice'", "'ALICE'", "'bob'", "42", "'42'", "'x y'"}, "age": {"20", "255", "41"}, "mail": {"'shared@x.test'", "'Shared@x.test'"}},
		},
		"events": {
			name: "events", key: []string{"seq"}, numbers: []string{"seq", "delta"}, texts: []string{"kind"}, times: []string{"took"}, others: []string{"weight"},
			values: map[string][]string{"seq": {"0", "1000", "18446744073709551615", "'256'", "1003"}, "delta": {"0", "2", "-1"}, "kind": {"'buy'", "'BUY'", "'view '"}, "took": {"'00:00:00.001'", "'838:59:59'"}},
		},
	}
}

// randomSelect is one SELECT in pieces.
type randomSelect struct {
	distinct bool
	items    []string
	from     string
	where    []string // joined by AND
	group    []string
	having   string
	order    []string // in the end a total order, when the rows' order is compared
	limit    string
	total    bool // order is total
	counted  bool // which of several equal texts is shown is open: only the rows' number counts
}

func (q *randomSelect) String() string {
	var b strings.Builder
	b.WriteString("SELECT ")
	if q.distinct {
		b.WriteString("DISTINCT ")
	}
	b.WriteString(strings.Join(q.items, ", ") + " FROM " + q.from)
	for _, clause := range []struct {
		word, between string
		items         []string
	}{{" WHERE ", " AND ", q.where}, {" GROUP BY ", ", ", q.group}} {
		if len(clause.items) > 0 {
			b.WriteString(clause.word + strings.Join(clause.items, clause.between))
		}
	}
	if q.having != "" {
		b.WriteString(" HAVING " + q.having)
	}
	if len(q.order) > 0 {
		b.WriteString(" ORDER BY " + strings.Join(q.order, ", "))
	}
	if q.limit != "" {
		b.WriteString(" LIMIT " + q.limit)
	}
	return b.String()
}

// asCase is the statement as a case: rows count as a list only where they have a
// certain order. What a server's plan shows of itself in flags and original
// names is left out, since a sort in a temporary table changes them.
func (q *randomSelect) asCase(line int) Case {
	c := Case{Line: line, Text: q.String(), Ignore: []string{"flags", "names", "warnings"}, Unsupported: RefusedSometimes, Order: OrderNone, ColumnsOnly: q.counted}
	if q.total {
		c.Order = OrderAll
	}
	if len(q.group) > 0 {
		c.Ignore = append(c.Ignore, "length") // of a DOUBLE, by a temporary table
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
	for i := range q.where {
		with(func(c *randomSelect) { c.where = without(q.where, i) })
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
	if len(q.order) == 0 && len(q.group) == 0 && len(q.items) > 1 {
		for i := range q.items {
			with(func(c *randomSelect) { c.items = without(q.items, i) })
		}
	}
	return out
}

// random makes statements from one seed.
type random struct {
	*rand.Rand
	tables map[string]*randomTable
}

func newRandom(seed uint64) *random {
	return &random{rand.New(rand.NewPCG(seed, 0)), randomTables()}
}

func (r *random) one(of ...string) string { return of[r.IntN(len(of))] }
func (r *random) in(n int) bool           { return r.IntN(n) == 0 }

// column picks a column; its text is qualified when alias is set.
func (r *random) column(t *randomTable, alias string, of ...[]string) string {
	var all []string
	for _, list := range of {
		all = append(all, list...)
	}
	if len(all) == 0 {
		all = t.key
	}
	return qualified(alias, r.one(all...))
}

func qualified(alias, name string) string {
	if alias != "" {
		return alias + "." + name
	}
	return name
}

// condition is a condition on one table's columns.
func (r *random) condition(t *randomTable, alias string) string {
	names := make([]string, 0, len(t.values))
	for _, list := range [][]string{t.key, t.numbers, t.texts, t.times} {
		for _, n := range list {
			if t.values[n] != nil {
				names = append(names, n)
			}
		}
	}
	n := r.one(names...)
	if r.in(3) {
		n = t.key[0]
	}
	c, v := qualified(alias, n), func() string { return r.one(t.values[n]...) }
	switch r.IntN(12) {
	case 0, 1, 2:
		return c + " = " + v()
	case 3:
		return v() + " = " + c
	case 4:
		return c + " " + r.one("<", "<=", ">", ">=", "<>") + " " + v()
	case 5, 6:
		return c + " IN (" + v() + ", " + v() + ", " + v() + ")"
	case 7:
		return c + " BETWEEN " + v() + " AND " + v()
	case 8:
		return c + r.one(" IS NULL", " IS NOT NULL")
	case 9:
		return "(" + r.condition(t, alias) + " OR " + r.condition(t, alias) + ")"
	case 10:
		return "NOT (" + r.condition(t, alias) + ")"
	}
	return c + " <=> " + v()
}

// expression is a value made of a table's columns.
func (r *random) expression(t *randomTable, alias string) string {
	switch r.IntN(9) {
	case 0:
		// Nothing that can overflow: a shard may meet a row that the page leaves out.
		return r.column(t, alias, t.numbers) + r.one(" + 0", " / 2", " % 3", " * 1.5")
	case 1:
		return "IFNULL(" + r.column(t, alias, t.numbers) + ", 0)"
	case 2:
		return "UPPER(" + r.column(t, alias, t.texts) + ")"
	case 3:
		return r.column(t, alias, t.numbers, t.texts, t.times) + " IS NULL"
	case 4:
		return "LENGTH(" + r.column(t, alias, t.texts) + ")"
	case 5:
		return "CASE WHEN " + r.condition(t, alias) + " THEN 1 ELSE 0 END"
	}
	return r.column(t, alias, t.numbers, t.texts, t.times)
}

// aggregate is an aggregate whose answer does not depend on the rows' order.
func (r *random) aggregate(t *randomTable, alias string) string {
	exact := func() string {
		for {
			if c := r.column(t, "", t.numbers); c != "score" {
				return qualified(alias, c)
			}
		}
	}
	switch r.IntN(14) {
	case 0, 1, 2:
		return "COUNT(*)"
	case 3:
		return "COUNT(" + r.column(t, alias, t.numbers, t.texts, t.times) + ")"
	case 4:
		return "COUNT(DISTINCT " + r.column(t, alias, t.numbers, t.texts, t.times) + ")"
	case 5, 6:
		return "SUM(" + exact() + ")"
	case 7:
		return "AVG(" + exact() + ")"
	case 8, 9:
		return r.one("MIN", "MAX") + "(" + r.column(t, alias, t.numbers, t.times) + ")"
	case 10:
		return r.one("BIT_AND", "BIT_OR", "BIT_XOR") + "(" + r.column(t, alias, t.key[:1]) + ")"
	case 11:
		return "SUM(DISTINCT " + exact() + ")"
	case 12:
		return "COUNT(*) + 1"
	}
	return "SUM(" + exact() + ") / COUNT(*)"
}

// statement makes one SELECT.
func (r *random) statement() *randomSelect {
	t := r.tables[r.one("customers", "orders", "people", "events", "customers", "orders")]
	q := &randomSelect{from: t.name}
	alias := ""
	key := t.key
	if r.in(4) && (t.name == "customers" || t.name == "orders") {
		alias, q.from = "c", "customers c "+r.one("JOIN", "LEFT JOIN")+" orders o ON o.customer_id = c.id"
		t = r.tables["customers"]
		key = []string{"id", "o.no"}
		if r.in(3) {
			q.from, key = "customers c LEFT JOIN countries l ON l.code = c.country", []string{"id"}
		}
	}
	for range r.IntN(3) {
		q.where = append(q.where, r.condition(t, alias))
	}
	switch r.IntN(5) {
	case 0:
		q.items = []string{r.aggregate(t, alias), r.aggregate(t, alias)}[:1+r.IntN(2)]
		q.total = true
	case 1:
		r.grouped(q, t, alias)
	case 2:
		q.distinct = true
		q.items = []string{r.column(t, alias, t.numbers, t.times), r.expression(t, alias)}[:1+r.IntN(2)]
		q.counted = foldedText(q.items)
		if !q.counted {
			r.orderByItems(q)
		}
	default:
		r.plain(q, t, alias, key)
	}
	return q
}

// foldedText tells whether one of the items may be text of which equal values
// look different: which of them is shown, a server may choose.
func foldedText(items []string) bool {
	for _, i := range items {
		for _, name := range []string{"name", "status", "kind", "login", "country"} {
			if strings.Contains(i, name) && !strings.Contains(i, "LENGTH") && !strings.Contains(i, "CASE") {
				return true
			}
		}
	}
	return false
}

func (r *random) plain(q *randomSelect, t *randomTable, alias string, key []string) {
	for range 1 + r.IntN(3) {
		q.items = append(q.items, r.expression(t, alias))
	}
	if len(t.others) > 0 && r.in(4) {
		q.items = append(q.items, r.column(t, alias, t.others))
	}
	if r.in(6) && alias == "" {
		q.items = []string{"*"}
	}
	if r.in(3) {
		return
	}
	for range r.IntN(3) {
		q.order = append(q.order, r.expression(t, alias)+r.one("", " DESC", " ASC"))
	}
	for _, k := range key {
		if !strings.Contains(k, ".") {
			k = qualified(alias, k)
		}
		q.order = append(q.order, k+r.one("", " DESC"))
	}
	q.total = true
	r.limits(q)
}

func (r *random) grouped(q *randomSelect, t *randomTable, alias string) {
	g := r.column(t, alias, t.numbers, t.times, t.key)
	if r.in(3) {
		g = r.column(t, alias, t.texts)
	}
	q.group = []string{g}
	q.items = []string{r.aggregate(t, alias), r.aggregate(t, alias)}[:1+r.IntN(2)]
	if !foldedText(q.group) {
		q.items = append([]string{g}, q.items...)
	}
	if r.in(3) {
		q.having = r.one("COUNT(*) > 1", g+" IS NOT NULL", "SUM("+r.column(t, alias, t.key[:1])+") > 10", "MAX("+r.column(t, alias, t.numbers)+") IS NOT NULL")
	}
	if r.in(2) {
		return
	}
	if r.in(3) {
		q.order = append(q.order, "COUNT(*)"+r.one("", " DESC"))
	}
	q.order = append(q.order, g+r.one("", " DESC"))
	q.total = true
	r.limits(q)
}

func (r *random) orderByItems(q *randomSelect) {
	if r.in(2) {
		return
	}
	for i := range q.items {
		q.order = append(q.order, fmt.Sprint(i+1)+r.one("", " DESC"))
	}
	q.total = true
	r.limits(q)
}

func (r *random) limits(q *randomSelect) {
	if r.in(2) {
		q.limit = r.one("3", "1", "10", "2 OFFSET 2", "1, 4", "0", "5 OFFSET 100", "3, 18446744073709551615")
	}
}
