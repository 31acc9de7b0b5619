package proxy

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"sort"
	"strings"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"braid/backend"
	"braid/internal/mysql"
	"braid/router"
)

// readSystem answers a query of information_schema. A node runs it over derived
// tables in which schemas have their databases' names, each table is listed
// once, and sizes are those of all shards; columns are announced as for the
// client's own text.
func (s *Session) readSystem(plan *router.Plan, q *router.Query, ps *execution) error {
	p := s.shardPlace(plan.Database, 0)
	if name := s.otherCase(q); name != "" {
		return s.fail(mysql.Errorf(1235, "This version of Braid doesn't yet support the database '%s' in other letters in a query of information_schema", name))
	}
	s.facts.System = make(map[string]string, len(plan.System))
	for _, table := range plan.System {
		text, err := s.systemTable(&p, table, q)
		if err != nil {
			return s.failErr(err)
		}
		s.facts.System[table] = text
	}
	if err := plan.Bind(q, &s.route); err != nil {
		return s.failErr(err)
	}
	a, err := s.forwardTarget(&p, &s.route.Targets[0], ps)
	if err != nil {
		return s.failErr(err)
	}
	if err := s.announceOwn(&p, q, ps, a); err != nil {
		return s.failErr(err)
	}
	return s.writeAnswer(a, &p)
}

// otherCase finds a database's name written in other letters: MariaDB looks a
// constant up as it is written where it can and compares without regard to case
// where it cannot, which a derived table does not repeat.
func (s *Session) otherCase(q *router.Query) string {
	if !s.mariadb() {
		return ""
	}
	other := func(value []byte) string {
		for name := range s.gen.topology.Databases {
			if string(value) != name && strings.EqualFold(string(value), name) {
				return name
			}
		}
		return ""
	}
	for i := range q.Literals {
		if v := q.LiteralBytes(i); len(v) > 2 {
			if name := other(v[1 : len(v)-1]); name != "" {
				return name
			}
		}
	}
	for i := range q.Params {
		if name := other(q.Params[i].Value); name != "" {
			return name
		}
	}
	return ""
}

// announceOwn gives an answer the columns of the client's own text, where its
// values have their form. The text is run for them, since a server's columns
// depend on how it runs it; its rows are not the client's.
func (s *Session) announceOwn(p *place, q *router.Query, ps *execution, a *nodeAnswer) error {
	own, err := s.forward(p, q.Text, ps)
	if err != nil || len(own.columns) != len(a.columns) {
		return err
	}
	for i, c := range own.columns {
		before := a.columns[i]
		a.columns[i] = c
		if !a.binary || c.Type == before.Type || !fixedSize(c.Type) && !fixedSize(before.Type) && !temporal(c.Type) && !temporal(before.Type) {
			continue
		}
		for _, r := range a.rows {
			v, ok := shownNumber(&before, r[i])
			if !ok {
				return mysql.Errorf(1235, "This version of Braid doesn't yet support the column %s in this query of information_schema as a prepared statement", c.Name)
			}
			r[i] = a.value(i, v)
		}
	}
	return nil
}

// shownNumber is a number of the binary protocol as text; false for other types.
func shownNumber(c *mysql.Column, v nodeValue) (cell, bool) {
	if v == nil {
		return cell{}, true
	}
	var n uint64
	switch c.Type {
	case gomysql.MYSQL_TYPE_NEWDECIMAL:
		return text(string(v)), true
	case gomysql.MYSQL_TYPE_LONGLONG:
		n = binary.LittleEndian.Uint64(v)
	case gomysql.MYSQL_TYPE_LONG:
		n = uint64(int32(binary.LittleEndian.Uint32(v)))
		if c.Flags&gomysql.UNSIGNED_FLAG != 0 {
			n = uint64(uint32(n))
		}
	default:
		return cell{}, false
	}
	if c.Flags&gomysql.UNSIGNED_FLAG != 0 {
		return count(n), true
	}
	return number(int64(n)), true
}

// systemColumns asks a node for the columns of a table of information_schema.
func (s *Session) systemColumns(p *place, table string) ([]mysql.Column, error) {
	var cols []mysql.Column
	err := s.onPlace(p, func(c *backend.Conn, need *backend.Need) error {
		st, err := c.Prepare(need, []byte("SELECT * FROM information_schema."+quoteIdentifier(table)))
		if err == nil {
			cols = st.Columns
		}
		return err
	})
	return cols, err
}

func quoteIdentifier(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }

// withoutSchemas are tables of information_schema that are the same on every
// node and tell nothing of schemas.
func withoutSchemas(table string) bool {
	switch table {
	case "ENGINES", "CHARACTER_SETS", "COLLATIONS", "COLLATION_CHARACTER_SET_APPLICABILITY", "PLUGINS", "ALL_PLUGINS", "KEYWORDS", "SQL_FUNCTIONS",
		"SYSTEM_VARIABLES", "GLOBAL_VARIABLES", "SESSION_VARIABLES", "ST_UNITS_OF_MEASURE", "ST_SPATIAL_REFERENCE_SYSTEMS", "APPLICABLE_ROLES", "ENABLED_ROLES":
		return true
	}
	return false
}

// systemTable makes the table expression that stands for a table of information_schema.
func (s *Session) systemTable(p *place, table string, q *router.Query) (string, error) {
	cols, err := s.systemColumns(p, table)
	if err != nil {
		return "", err
	}
	first, tableName := "", ""
	var list []string
	names := s.schemas(p)
	for _, name := range s.visible() {
		for _, part := range s.systemParts(name, "TABLE_NAME") {
			if part.place.node == p.node {
				names[part.place.schema] = name
			}
		}
	}
	sums, err := s.systemSums(table, q)
	if err != nil {
		return "", err
	}
	for i := range cols {
		name := cols[i].Name
		upper := strings.ToUpper(name)
		id := quoteIdentifier(name)
		switch {
		case strings.HasSuffix(upper, "_SCHEMA") || upper == "SCHEMA_NAME":
			if first == "" {
				first = id
			}
			id = caseOf(id, names) + " AS " + id
		case sums[upper] != nil:
			id = sumOf(id, sums[upper]) + " AS " + id
		case upper == "TABLE_NAME" || upper == "EVENT_OBJECT_TABLE":
			if tableName == "" {
				tableName = id
			}
		}
		list = append(list, id)
	}
	if first == "" {
		if withoutSchemas(strings.ToUpper(table)) {
			return "information_schema." + quoteIdentifier(table), nil
		}
		return "", mysql.Errorf(1235, "This version of Braid doesn't yet support 'information_schema.%s'", table)
	}
	selects := strings.Join(list, ",")
	var where []string
	elsewhere := ""
	for _, name := range s.visible() {
		for _, part := range s.systemParts(name, tableName) {
			cond := first + "=" + quote(part.place.schema)
			if part.only != "" {
				cond = "(" + cond + " AND " + tableName + part.only + ")"
			}
			if part.place.node == p.node {
				where = append(where, cond)
				continue
			}
			rows, err := s.systemRows(&part.place, fmt.Sprintf("SELECT * FROM information_schema.%s WHERE %s", quoteIdentifier(table), cond))
			if err != nil {
				return "", err
			}
			elsewhere += rows
		}
	}
	where = append(where, first+"='information_schema'")
	return fmt.Sprintf("(SELECT %s FROM information_schema.%s WHERE %s%s)", selects, quoteIdentifier(table), strings.Join(where, " OR "), elsewhere), nil
}

// caseOf maps the values of a column from schemas to databases.
func caseOf(id string, names map[string]string) string {
	var b strings.Builder
	for _, schema := range sortedKeys(names) {
		if name := names[schema]; name != "" && name != schema {
			fmt.Fprintf(&b, " WHEN %s THEN %s", quote(schema), quote(name))
		}
	}
	if b.Len() == 0 {
		return id
	}
	return "CASE " + id + b.String() + " ELSE " + id + " END"
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}

// systemPart is a part of a database's tables: those that one shard's schema
// tells of. only is a condition on the table's name, "" for all of them.
type systemPart struct {
	place place
	only  string
}

// systemParts tells which shard tells of which tables: the first of all but the
// single tables of others. With no tableName only the first counts.
func (s *Session) systemParts(database, tableName string) []systemPart {
	db := s.gen.topology.Databases[database]
	parts := []systemPart{{place: s.shardPlace(database, 0)}}
	if tableName == "" {
		return parts
	}
	singles := map[int][]string{}
	for _, t := range db.Tables {
		if t.Kind == router.Single && t.Shard != 0 {
			singles[t.Shard] = append(singles[t.Shard], quote(t.Name))
		}
	}
	for shard := 1; shard < len(db.Shards); shard++ {
		if list := singles[shard]; len(list) > 0 {
			sort.Strings(list)
			parts = append(parts, systemPart{s.shardPlace(database, shard), " IN (" + strings.Join(list, ",") + ")"})
		}
	}
	return parts
}

// systemRows reads rows of information_schema on another node, and returns them
// as the rest of a UNION.
func (s *Session) systemRows(p *place, query string) (string, error) {
	a, err := s.forward(p, []byte(query), nil)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, r := range a.rows {
		b.WriteString(" UNION ALL SELECT ")
		for i, v := range r {
			if i > 0 {
				b.WriteByte(',')
			}
			upper := strings.ToUpper(a.columns[i].Name)
			switch {
			case v == nil:
				b.WriteString("NULL")
			case (strings.HasSuffix(upper, "_SCHEMA") || upper == "SCHEMA_NAME") && string(v) == p.schema:
				b.WriteString(quote(p.database))
			case a.columns[i].Type == gomysql.MYSQL_TYPE_LONGLONG && a.columns[i].Flags&gomysql.UNSIGNED_FLAG != 0:
				b.WriteString(unsigned(parseUint(v)))
			case fixedSize(a.columns[i].Type) || a.columns[i].Type == gomysql.MYSQL_TYPE_NEWDECIMAL:
				b.Write(v)
			case temporal(a.columns[i].Type):
				b.WriteString(quote(string(v)))
			default:
				b.WriteString("_" + s.charset + " x'" + hex.EncodeToString(v) + "'")
			}
		}
	}
	return b.String(), nil
}

// systemSums sums the sizes of sharded tables over their shards, when the
// statement may show them: by column in upper case, then by schema and table.
func (s *Session) systemSums(table string, q *router.Query) (map[string]map[string]string, error) {
	sizes := []string{"TABLE_ROWS", "DATA_LENGTH", "INDEX_LENGTH", "DATA_FREE"}
	others := []string{"AUTO_INCREMENT", "UPDATE_TIME", "AVG_ROW_LENGTH"}
	if !strings.EqualFold(table, "TABLES") || !router.ShowsColumns(string(q.Text), q.Mode, q.Charset, append(sizes, others...)...) {
		return nil, nil
	}
	sums := map[string]map[string]string{}
	for _, name := range s.visible() {
		db := s.gen.topology.Databases[name]
		var sharded []string
		for _, t := range db.Tables {
			if t.Kind == router.Sharded {
				sharded = append(sharded, quote(t.Name))
			}
		}
		if len(sharded) == 0 || len(db.Shards) == 1 {
			continue
		}
		sort.Strings(sharded)
		first := s.shardPlace(name, 0).schema
		totals := map[string]*tableSize{}
		for shard := range db.Shards {
			p := s.shardPlace(name, shard)
			a, err := s.forward(&p, []byte("SELECT TABLE_NAME,TABLE_ROWS,DATA_LENGTH,INDEX_LENGTH,DATA_FREE,AUTO_INCREMENT,UPDATE_TIME FROM information_schema.TABLES WHERE TABLE_SCHEMA="+
				quote(p.schema)+" AND TABLE_NAME IN ("+strings.Join(sharded, ",")+")"), nil)
			if err != nil {
				return nil, err
			}
			for _, r := range a.rows {
				t := totals[string(r[0])]
				if t == nil {
					t = &tableSize{}
					totals[string(r[0])] = t
				}
				t.add(r)
			}
		}
		for _, table := range sortedKeys(totals) {
			t, key := totals[table], first+"/"+table
			put := func(column, value string) {
				if sums[column] == nil {
					sums[column] = map[string]string{}
				}
				sums[column][key] = value
			}
			for i, column := range sizes {
				put(column, unsigned(t.sizes[i]))
			}
			put("AVG_ROW_LENGTH", unsigned(t.sizes[1]/max(t.sizes[0], 1)))
			if t.autoIncrement > 0 {
				put("AUTO_INCREMENT", unsigned(t.autoIncrement))
			}
			if t.updated != "" {
				put("UPDATE_TIME", "CAST("+quote(t.updated)+" AS DATETIME)")
			}
		}
	}
	return sums, nil
}

// unsigned is a number as a BIGINT UNSIGNED.
func unsigned(n uint64) string { return fmt.Sprintf("CAST(%d AS UNSIGNED)", n) }

// tableSize is what the shards of a sharded table sum to.
type tableSize struct {
	sizes         [4]uint64 // rows, data, index, free: the last three in bytes
	autoIncrement uint64
	updated       string
}

func (t *tableSize) add(r []nodeValue) {
	for i := range t.sizes {
		t.sizes[i] += parseUint(r[1+i])
	}
	t.autoIncrement = max(t.autoIncrement, parseUint(r[5]))
	t.updated = max(t.updated, string(r[6]))
}

// sumOf puts sums in the place of one shard's numbers.
func sumOf(id string, sums map[string]string) string {
	var b strings.Builder
	b.WriteString("CASE CONCAT(TABLE_SCHEMA,'/',TABLE_NAME)")
	for _, key := range sortedKeys(sums) {
		fmt.Fprintf(&b, " WHEN %s THEN %s", quote(key), sums[key])
	}
	return b.String() + " ELSE " + id + " END"
}
