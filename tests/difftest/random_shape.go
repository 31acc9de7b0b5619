package difftest

import (
	"fmt"
	"strings"
)

// statement makes one SELECT, now and then within a session of its own kind.
func (r *random) statement() *randomSelect {
	q := r.query()
	if r.in(16) {
		q.single = false
		r.spoil(q)
	}
	if r.in(6) {
		q.disguised = r.Uint64() | 1
	}
	if r.in(4) {
		q.params = true
	}
	switch {
	case r.in(12):
		r.settings(q)
	case r.in(14):
		r.transaction(q)
	}
	return q
}

func (r *random) query() *randomSelect {
	switch r.IntN(15) {
	case 13, 14:
		return r.oneShard()
	case 0:
		return r.setOperation()
	case 1:
		return r.derived(false)
	case 2:
		return r.derived(true)
	}
	q, s := r.from(2)
	return r.shape(q, s)
}

// shape is a SELECT from a scope.
func (r *random) shape(q *randomSelect, s scope) *randomSelect {
	for range r.IntN(3) {
		q.where = append(q.where, r.condition(s))
	}
	switch r.IntN(9) {
	case 0:
		q.items = []string{r.aggregate(s), r.aggregate(s), r.aggregate(s)}[:1+r.IntN(3)]
		q.total = true
		if r.in(5) {
			q.having = r.aggregate(s) + r.one(" > 2", " IS NOT NULL", " <> 5")
		}
		if r.in(6) {
			q.limit = r.one("0", "1", "1 OFFSET 1", "5")
		}
	case 1, 2:
		r.grouped(q, s)
	case 3:
		q.distinct = true
		q.items = []string{r.exact(s), r.exact(s), r.exact(s)}[:1+r.IntN(3)]
		if c := r.column(s, folded); c != "" && r.in(4) {
			q.items, q.counted = append(q.items, c), true
			break
		}
		r.orderByItems(q)
	case 4:
		r.windowed(q, s)
	default:
		r.plain(q, s)
	}
	return q
}

// from makes a FROM of up to one table and n joined ones.
func (r *random) from(n int) (*randomSelect, scope) {
	t := r.tables[r.IntN(len(r.tables))]
	if r.in(2) {
		t = r.table(r.one("customers", "orders"))
	}
	q := &randomSelect{from: t.name}
	s := scope{{"", t}}
	if r.in(5) {
		q.from = database + "." + t.name
		s[0].alias = r.one("", t.name, database+"."+t.name)
	}
	if r.in(2) {
		a := r.alias("t")
		q.from, s = t.name+" "+a, scope{{a, t}}
		for range r.IntN(n + 1) {
			s = r.join(q, s)
		}
	}
	return q, s
}

// join joins a further table.
func (r *random) join(q *randomSelect, s scope) scope {
	left := s[r.IntN(len(s))]
	if len(left.joins) == 0 {
		return s
	}
	j := left.joins[r.IntN(len(left.joins))]
	right := scoped{r.alias("t"), r.table(j.table)}
	on := fmt.Sprintf(j.on, left.alias, right.alias)
	all := append(s[:len(s):len(s)], right)
	if r.in(4) {
		on += " AND " + r.condition(scope{right})
	} else if r.in(8) {
		on += " AND " + r.condition(scope{left})
	}
	kind := r.one(" JOIN ", " JOIN ", " LEFT JOIN ", " LEFT JOIN ", " RIGHT JOIN ", " STRAIGHT_JOIN ", ", ")
	if kind == ", " {
		if len(q.joins) > 0 {
			kind = " CROSS JOIN "
		}
		q.where = append(q.where, on)
		q.joins = append(q.joins, kind+right.name+" "+right.alias)
		return all
	}
	q.joins = append(q.joins, kind+right.name+" "+right.alias+" ON "+on)
	return all
}

func (r *random) plain(q *randomSelect, s scope) {
	for range 1 + r.IntN(3) {
		q.items = append(q.items, r.expression(s))
	}
	if r.in(8) {
		q.items = []string{"*"}
	}
	if r.in(3) {
		return
	}
	for range r.IntN(3) {
		q.order = append(q.order, r.expression(s)+r.one("", " DESC", " ASC"))
	}
	r.totalOrder(q, s)
}

// totalOrder ends an ORDER BY so that it fixes the rows' order.
func (r *random) totalOrder(q *randomSelect, s scope) {
	for _, k := range s.key() {
		q.order = append(q.order, k+r.one("", " DESC"))
	}
	q.total = true
	r.limits(q)
}

func (r *random) limits(q *randomSelect) {
	if r.in(2) {
		q.limit = r.one("3", "1", "10", "2 OFFSET 2", "1, 4", "0", "5 OFFSET 100", "3, 18446744073709551615", "2 OFFSET 18446744073709551615")
	}
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

// aggregate is an aggregate whose answer does not depend on the rows' order.
func (r *random) aggregate(s scope) string {
	c := r.column(s, numbers)
	if c == "" || r.in(6) {
		c = r.number(s)
	}
	if strings.Contains(c, "SELECT") {
		return "COUNT(*)"
	}
	switch r.IntN(18) {
	case 0, 1, 2:
		return "COUNT(*)"
	case 3:
		return "COUNT(" + r.column(s, numbers, sharp, folded, times) + ")"
	case 4:
		return "COUNT(DISTINCT " + r.column(s, numbers, sharp, folded, times) + ")"
	case 5, 6:
		return "SUM(" + c + ")"
	case 7:
		return "AVG(" + c + ")"
	case 8, 9, 10:
		if t := r.column(s, times, numbers, sharp); t != "" {
			return r.one("MIN", "MAX") + "(" + t + ")"
		}
	case 11:
		return r.one("BIT_AND", "BIT_OR", "BIT_XOR") + "(" + c + ")"
	case 12:
		return r.one("SUM", "COUNT", "AVG", "MAX") + "(DISTINCT " + c + ")"
	case 13:
		return "COUNT(*) + 1"
	case 14:
		return "COUNT(DISTINCT " + c + ", " + r.column(s, numbers, sharp, folded, times) + ")"
	case 15:
		return "SUM(CASE WHEN " + r.condition(s) + " THEN 1 ELSE 0 END)"
	case 16:
		return "GROUP_CONCAT(" + r.one("", "DISTINCT ") + c + " ORDER BY " + c + r.one("", " DESC") + r.one("", " SEPARATOR '|'") + ")"
	}
	return "SUM(" + c + ") / COUNT(*)"
}

// plainAggregate is one without conditions and subqueries inside.
func (r *random) plainAggregate(s scope) string {
	for {
		if a := r.aggregate(s); !strings.Contains(a, "SELECT") {
			return a
		}
	}
}

func (r *random) grouped(q *randomSelect, s scope) {
	for range 1 + r.IntN(2) {
		g := r.exact(s)
		if c := r.column(s, folded); c != "" && r.in(4) {
			g = c
		}
		if strings.Contains(g, "SELECT") || strings.Contains(g, literalBegin) {
			g = r.column(s, numbers, times, sharp, folded)
		}
		q.group = append(q.group, g)
	}
	shown := true
	for _, g := range q.group {
		shown = shown && !r.isFolded(s, g)
	}
	if shown {
		q.items = append(q.items, q.group...)
	}
	for range 1 + r.IntN(2) {
		q.items = append(q.items, r.aggregate(s))
	}
	if r.in(3) {
		q.having = r.one("COUNT(*) > 1", q.group[0]+" IS NOT NULL", r.plainAggregate(s)+" > 3", r.plainAggregate(s)+" IS NOT NULL")
	}
	if r.in(6) {
		q.rollup = true
		q.total = false
		return
	}
	if r.in(2) {
		return
	}
	if r.in(3) {
		q.order = append(q.order, r.one("COUNT(*)", r.plainAggregate(s))+r.one("", " DESC"))
	}
	for _, g := range q.group {
		q.order = append(q.order, g+r.one("", " DESC"))
	}
	q.total = true
	r.limits(q)
}

// isFolded tells whether an expression names a text of which equal ones may look different.
func (r *random) isFolded(s scope, e string) bool {
	for _, t := range s {
		for _, name := range t.folded {
			if strings.Contains(e, t.column(name)) && !strings.Contains(e, "LENGTH") && !strings.Contains(e, "CASE") && !strings.Contains(e, "IF(") && !strings.HasSuffix(e, "IS NULL") {
				return true
			}
		}
	}
	return false
}

// windowed makes window functions, each over a total order.
func (r *random) windowed(q *randomSelect, s scope) {
	q.items = append(q.items, s.key()...)
	order := strings.Join(s.key(), ", ")
	for range 1 + r.IntN(2) {
		partition := ""
		switch r.IntN(4) {
		case 0:
			partition = "PARTITION BY " + r.column(s, numbers, folded, sharp, times)
		case 1, 2:
			partition = "PARTITION BY " + s.key()[0]
		}
		c := r.column(s, numbers)
		if c == "" {
			c = "1"
		}
		switch r.IntN(7) {
		case 0:
			q.items = append(q.items, "ROW_NUMBER() OVER ("+partition+" ORDER BY "+order+r.one("", " DESC")+")")
		case 1:
			q.items = append(q.items, r.one("RANK", "DENSE_RANK", "CUME_DIST")+"() OVER ("+partition+" ORDER BY "+c+")")
		case 2:
			q.items = append(q.items, r.one("LAG", "LEAD")+"("+c+") OVER ("+partition+" ORDER BY "+order+")")
		case 3:
			q.items = append(q.items, "SUM("+c+") OVER ("+partition+" ORDER BY "+order+" ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)")
		case 4:
			q.items = append(q.items, r.one("FIRST_VALUE", "LAST_VALUE")+"("+c+") OVER ("+partition+" ORDER BY "+order+")")
		case 5:
			q.items = append(q.items, "COUNT(*) OVER ("+partition+" ORDER BY "+c+" DESC)")
		case 6:
			q.items = append(q.items, r.one("SUM", "MAX", "COUNT", "AVG")+"("+c+") OVER ("+partition+")")
		}
	}
	if r.in(2) {
		r.totalOrder(q, s)
	}
}

// scalar is a subquery of one value.
func (r *random) scalar(s scope) string {
	r.depth++
	defer func() { r.depth-- }()
	outer := s[r.IntN(len(s))]
	q, inner, on := r.related(outer)
	q.where = append(q.where, on...)
	if r.in(2) {
		q.where = append(q.where, r.condition(inner))
	}
	if r.in(4) {
		c := r.column(inner, numbers)
		if c == "" {
			c = "1"
		}
		q.items = []string{c}
		r.totalOrder(q, inner)
		q.limit = "1"
		return "(" + q.marked() + ")"
	}
	q.items = []string{r.one("COUNT(*)", "MAX("+r.number(inner)+")", "MIN("+inner.key()[0]+") IS NULL")}
	return "(" + q.marked() + ")"
}

// related is a SELECT from a table that is joined with the outer one, or from
// any one; on are the conditions that correlate the two.
func (r *random) related(outer scoped) (q *randomSelect, inner scope, on []string) {
	if len(outer.joins) > 0 && outer.alias != "" && !r.in(4) {
		j := outer.joins[r.IntN(len(outer.joins))]
		a := r.alias("u")
		on = []string{fmt.Sprintf(j.on, outer.alias, a)}
		return &randomSelect{from: j.table + " " + a}, scope{{a, r.table(j.table)}}, on
	}
	t := r.tables[r.IntN(len(r.tables))]
	a := r.alias("u")
	return &randomSelect{from: t.name + " " + a}, scope{{a, t}}, nil
}

// subquery is a condition with a subquery.
func (r *random) subquery(s scope, outer scoped) string {
	r.depth++
	defer func() { r.depth-- }()
	q, inner, on := r.related(outer)
	if r.in(2) {
		q.where = append(q.where, r.condition(inner))
	}
	c := r.column(scope{outer}, numbers)
	d := r.column(inner, numbers)
	if k := r.IntN(5); k == 0 || c == "" || d == "" {
		q.where = append(q.where, on...)
		q.items = []string{"1"}
		return r.one("EXISTS (", "NOT EXISTS (") + q.marked() + ")"
	} else if k == 1 {
		q.where = append(q.where, on...)
		return c + r.one(" = ", " > ", " <= ") + r.scalar(s)
	}
	q.items = []string{d}
	switch r.IntN(6) {
	case 0:
		q.where = append(q.where, on...)
	case 1:
		q.items = []string{"MAX(" + d + ")"}
		if r.in(2) {
			q.group = []string{r.column(inner, numbers)}
		}
	case 2:
		q.distinct = true
	case 3: // along the way by which the tables are joined, as far as that is an equality
		if len(on) == 1 && !strings.Contains(on[0], " AND ") {
			r, l, _ := strings.Cut(on[0], " = ")
			c, q.items = l, []string{r}
		}
	case 4:
		return c + r.one(" > ALL (", " <= ANY (", " = ANY (", " <> ALL (") + q.marked() + ")"
	}
	return c + r.one(" IN (", " IN (", " NOT IN (") + q.marked() + ")"
}

// inner is a SELECT of exact values with names of their own, and the derived
// table that it makes.
func (r *random) inner(name string) (*randomSelect, *randomTable) {
	r.depth++
	defer func() { r.depth-- }()
	q, s := r.from(1)
	if r.in(2) {
		q.where = append(q.where, r.condition(s))
	}
	t := &randomTable{name: name}
	add := func(e string, list *[]string) {
		c := fmt.Sprintf("c%d", len(q.items)+1)
		q.items = append(q.items, e+" AS "+c)
		t.key = append(t.key, c)
		*list = append(*list, c)
	}
	switch r.IntN(4) {
	case 0: // grouped
		g := r.column(s, numbers, sharp)
		if g == "" {
			g = s.key()[0]
		}
		q.group = []string{g}
		add("COUNT(*)", &t.numbers)
		if !r.isFolded(s, g) {
			add("MAX("+g+")", &t.sharp)
		}
	case 1:
		q.distinct = true
		add(r.number(s), &t.numbers)
		add(r.exact(s), &t.sharp)
	default:
		for _, k := range s[0].randomTable.key {
			if !r.isFolded(s, s[0].column(k)) {
				add(s[0].column(k), &t.numbers)
			}
		}
		add(r.number(s), &t.numbers)
		add(r.exact(s), &t.sharp)
		if r.in(4) {
			r.totalOrder(q, s)
		}
	}
	t.values = map[string][]string{"c1": {"7", "0", "1", "'8'", "NULL"}}
	return q, t
}

// derived is a SELECT from a derived table or a common table expression, alone
// or joined with another.
func (r *random) derived(cte bool) *randomSelect {
	name := r.alias("d")
	sub, t := r.inner(name)
	q := &randomSelect{}
	s := scope{{name, t}}
	if cte {
		q.with = "WITH " + name + " AS (" + sub.marked() + ") "
		q.from = name
	} else {
		q.from = "(" + sub.marked() + ") " + name
	}
	if r.in(3) {
		o := r.tables[r.IntN(len(r.tables))]
		if len(o.numbers) > 0 {
			right := scoped{r.alias("t"), o}
			on := right.column(r.one(o.numbers...)) + " = " + name + ".c1"
			q.joins = append(q.joins, r.one(" JOIN ", " LEFT JOIN ", " RIGHT JOIN ")+o.name+" "+right.alias+" ON "+on)
			s = append(s, right)
		}
	} else if cte && r.in(4) {
		right := scoped{r.alias("e"), t}
		q.joins = append(q.joins, " JOIN "+name+" "+right.alias+" ON "+right.column("c1")+" = "+name+".c1")
		s = append(s, right)
	}
	return r.shape(q, s)
}

// setOperation is a UNION, INTERSECT or EXCEPT of SELECTs of exact values.
func (r *random) setOperation() *randomSelect {
	n := 1 + r.IntN(2)
	operand := func() *randomSelect {
		q, s := r.from(1)
		if r.in(2) {
			q.where = append(q.where, r.condition(s))
		}
		for range n {
			c := r.column(s, numbers)
			if c == "" {
				c = "LENGTH(" + r.column(s, folded, sharp) + ")"
			}
			q.items = append(q.items, c)
		}
		if r.in(6) {
			q.distinct = true
		}
		return q
	}
	q := operand()
	for range 1 + r.IntN(2) {
		o := operand()
		if r.in(5) {
			for i := range o.items {
				o.order = append(o.order, fmt.Sprint(i+1))
			}
			o.limit = r.one("3", "1", "2, 2")
		}
		q.sets = append(q.sets, randomSet{r.one("UNION", "UNION ALL", "UNION", "INTERSECT", "EXCEPT"), o})
	}
	r.orderByItems(q)
	return q
}

// spoil makes a statement wrong, so that it has to end in the server's own error.
func (r *random) spoil(q *randomSelect) {
	wrong := r.one("nosuch", "nosuch(1)", "(SELECT id, name FROM customers)", "SUM(COUNT(*))", "t1.nosuch", "ABS(1, 2)", "(1, 2) + 1", "id", "t1.*")
	switch r.IntN(6) {
	case 0:
		q.where = append(q.where, wrong+" = 1")
	case 1:
		if len(q.sets) == 0 {
			q.items = append(q.items, wrong)
		}
	case 2:
		q.order, q.total = append(q.order, r.one(wrong, "99")), false
	case 3:
		q.having = wrong + " > 0"
	case 4:
		q.group = append(q.group, r.one(wrong, "99", "COUNT(*)"))
	case 5:
		if len(q.joins) > 0 {
			q.joins[len(q.joins)-1] += r.one(" AND "+wrong, " USING (nosuch)", " JOIN nosuch ON 1")
		} else {
			q.joins = []string{" JOIN nosuch n ON n.id = 1"}
		}
	}
	q.limit = ""
}

// settings puts session variables around a statement.
func (r *random) settings(q *randomSelect) {
	v := r.one(
		"time_zone='+05:30'", "sql_mode=''", "sql_mode='ANSI'", "sql_mode='PIPES_AS_CONCAT,ONLY_FULL_GROUP_BY'", "sql_mode='NO_BACKSLASH_ESCAPES'", "sql_mode='TRADITIONAL'",
		"collation_connection='utf8mb4_bin'", "collation_connection='utf8mb4_unicode_ci'", "div_precision_increment=9", "div_precision_increment=0", "group_concat_max_len=16",
		"sql_select_limit=2", "sql_select_limit=0", "max_sort_length=1024")
	name, _, _ := strings.Cut(v, "=")
	q.before = []string{"SET SESSION " + v}
	q.after = []string{"SET SESSION " + name + "=DEFAULT"}
	if name == "sql_select_limit" && !q.total {
		q.counted = true
	}
	if name == "collation_connection" {
		q.after = []string{"SET NAMES utf8mb4"}
	}
}

// transaction puts writes in front of a statement, in one transaction with it.
func (r *random) transaction(q *randomSelect) {
	q.before = []string{r.one("BEGIN", "START TRANSACTION")}
	for range 1 + r.IntN(2) {
		q.before = append(q.before, r.one(
			"INSERT INTO customers (id, name, city, credit) VALUES (9001, 'New', 'Oslo', 5), (9002, 'newer', NULL, NULL)",
			"UPDATE customers SET credit = credit + 1, city = 'Rome' WHERE id IN (7, 8, 10)",
			"UPDATE customers SET active = 1 - active WHERE credit > 50",
			"DELETE FROM orders WHERE no > 2", "DELETE FROM orders WHERE customer_id = 7",
			"UPDATE orders SET qty = 9 WHERE status = 'open'",
			"INSERT INTO turns VALUES (77, 7, NULL), (78, 8, '2024-01-31')", "DELETE FROM people WHERE age < 30", "UPDATE events SET delta = 5 WHERE seq > 1050",
			"UPDATE countries SET vat = 1 WHERE code = 'DE'", "DELETE FROM spans WHERE k < 10", "UPDATE pairs SET v = 1 WHERE a = 7"))
	}
	q.after = []string{"ROLLBACK"}
	q.within = true
}
