package difftest

import "strings"

// oneShard is a SELECT whose rows are all on one shard, or on none, as its text
// says in some way.
func (r *random) oneShard() *randomSelect {
	keys := []struct {
		table, key string
		values     []string // in spellings of one value
		whole      bool     // the column is of whole numbers
		other      string   // another column, with a value of it
		value      string
	}{
		{"customers", "id", []string{"7", "'7'", "7.0"}, true, "credit", "12.4"},
		{"orders", "customer_id", []string{"7", "'7'"}, true, "no", "2"},
		{"turns", "k", []string{"2", "'2'"}, true, "v", "6"},
		{"spans", "k", []string{"9", "'9'"}, true, "n", "3"},
		{"people", "login", []string{"'alice'", "'ALICE'"}, false, "age", "20"},
		{"events", "seq", []string{"1003", "'1003'"}, true, "delta", "2"},
		{"days", "day", []string{"'2024-02-29'", "'2024-2-29'"}, false, "v", "2"},
		{"marks", "k", []string{"'DE'"}, false, "v", "1"},
		{"blobs", "bk", []string{"'a'"}, false, "v", "2"},
	}
	k := keys[r.IntN(len(keys))]
	value := func() string { return literal(r.one(k.values...)) }
	// is are the ways to say that a column is the key's value.
	is := func(c, other string) string {
		switch n := r.IntN(10); {
		case n == 0:
			return value() + " = " + c
		case n == 1:
			return c + " IN (" + value() + ", " + value() + ")"
		case n == 2 && k.whole:
			return c + " BETWEEN " + literal(k.values[0]) + " AND " + literal(k.values[0])
		case n == 3 && k.whole:
			return c + " >= " + literal(k.values[0]) + " AND " + c + " <= " + literal(k.values[0])
		case n == 4:
			return "(" + c + " = " + value() + " OR " + value() + " = " + c + ")"
		case n == 5:
			return "(" + c + " = " + value() + " AND " + other + " IS NULL OR " + c + " = " + value() + " AND " + other + " = " + literal(k.value) + ")"
		case n == 6:
			return "(" + c + ", " + other + ")" + r.one(" = (", " <=> (") + value() + ", " + literal(k.value) + ")"
		case n == 7 && k.table != "days":
			v := literal(k.values[0]) // as the column is: other rows of the list may change how a text is compared
			return "(" + other + ", " + c + ") IN ((" + literal(k.value) + ", " + v + "), (" + literal(k.value) + ", " + v + "))"
		case n == 8:
			return c + " = " + value() + r.one(" AND NOT ", " AND ") + c + " = " + value() // or a contradiction
		}
		return c + r.one(" = ", " = ", " <=> ") + value()
	}
	of := func(t scoped) string { return is(t.column(k.key), t.column(k.other)) }
	single := func() (*randomSelect, scope) {
		a := r.alias("t")
		s := scope{{a, r.table(k.table)}}
		return &randomSelect{from: k.table + " " + a, where: []string{of(s[0])}}, s
	}
	q, s := single()
	switch r.IntN(7) {
	case 0: // joined on the key with a co-located table
		if k.table != "customers" && k.table != "orders" {
			break
		}
		with := map[string]string{"customers": "orders", "orders": "customers"}[k.table]
		key := map[string]string{"customers": "id", "orders": "customer_id"}
		right := scoped{r.alias("t"), r.table(with)}
		kind, equal := r.one(" JOIN ", " LEFT JOIN ", " STRAIGHT_JOIN "), " = "
		if kind != " LEFT JOIN " {
			equal = r.one(" = ", " <=> ")
		}
		on := s[0].column(k.key) + equal + right.column(key[with])
		if r.in(2) && kind != " LEFT JOIN " {
			q.where = []string{right.column(key[with]) + " = " + value()}
		}
		q.joins = append(q.joins, kind+with+" "+right.alias+" ON "+on)
		s = append(s, right)
	case 1: // a global table beside it
		right := scoped{r.alias("t"), r.table("countries")}
		q.joins = append(q.joins, r.one(" JOIN ", " LEFT JOIN ")+"countries "+right.alias+" ON "+right.column("vat")+" > "+s[0].column(k.other))
		s = append(s, right)
	case 2, 3: // a derived table or a common table expression that keeps the key
		inner, of1 := single()
		name := r.alias("d")
		inner.items = []string{of1[0].column(k.key) + " AS c1", of1[0].column(k.other) + " AS c2"}
		inner.distinct = r.in(3)
		t := &randomTable{name: name, key: []string{"c1", "c2"}, numbers: []string{"c2"}}
		t.numbers = append(t.numbers, map[bool][]string{true: {"c1"}}[k.whole]...)
		outer := &randomSelect{from: "(" + inner.marked() + ") " + name}
		if r.in(2) {
			outer = &randomSelect{with: "WITH " + name + " AS (" + inner.marked() + ") ", from: name}
		}
		q, s = outer, scope{{name, t}}
	case 4: // a set operation on the one shard
		item := func(q *randomSelect, s scope) { q.items = []string{s[0].column(k.other)} }
		item(q, s)
		other, of2 := single()
		item(other, of2)
		q.sets = []randomSet{{r.one("UNION", "UNION ALL", "INTERSECT", "EXCEPT"), other}}
		r.orderByItems(q)
		q.single = true
		return q
	case 5: // a subquery that is correlated on the key
		inner := r.alias("u")
		q.where = append(q.where, r.one("EXISTS", "NOT EXISTS")+" (SELECT 1 FROM "+k.table+" "+inner+" WHERE "+inner+"."+k.key+" = "+s[0].column(k.key)+")")
	}
	r.depth = 2 // no subqueries of other keys
	q = r.shape(q, s)
	r.depth = 0
	q.single = !strings.Contains(q.marked(), "SELECT MAX(")
	return q
}
