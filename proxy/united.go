package proxy

import (
	"slices"
	"sync"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"braid/backend"
	"braid/internal/mysql"
	"braid/router"
)

// columnsMemory keeps the columns of scattered texts, as one shard describes
// them. Where the texts of several shards are united into one (rule T18), the
// answer's own column definitions lack the tables' names and flags. Safe for
// concurrent use; belongs to a generation.
type columnsMemory struct {
	mu struct {
		sync.Mutex
		columns map[columnsKey][]mysql.Column
	}
}

// columnsKey is what the columns of a plan's scattered text depend on: its
// select list's literals are part of the plan.
type columnsKey struct {
	plan      *router.Plan
	of        textOf
	names     string // the session's character sets
	increment string // the session's div_precision_increment
}

// textOf is which of a plan's texts columns are of.
type textOf uint8

const (
	scatteredText textOf = iota // what one shard gets
	ownText                     // the client's own
	answeredText                // the client's own, answered and not only prepared
	pagedText                   // what one shard gets where a node's shards are read in pages
)

// columnsMax is how many are kept; when there are more, the memory starts anew.
const columnsMax = 1024

// united is one statement in the place of several targets on one node.
type united struct {
	mysql.Rows
	columns []mysql.Column
}

// Columns implements mysql.Rows.
func (u *united) Columns() []mysql.Column { return u.columns }

// unite makes the one text for a part's targets, or those of its pages, and finds
// out its columns from the part's connection.
func (s *Session) unite(pt *part, plan *router.Plan) error {
	db := s.gen.topology.Databases[plan.Database]
	of, pages := scatteredText, []router.Page{{}}
	if s.route.Paged() {
		of, pages = pagedText, []router.Page{{Count: router.HeadRows}, {Offset: router.HeadRows}}
	}
	pt.texts = pt.texts[:0]
	for _, page := range pages {
		t, err := s.route.Unite(db, &s.query, pt.targets, page)
		if err != nil {
			return err
		}
		pt.texts = append(pt.texts, t)
	}
	var err error
	pt.columns, err = s.columnsOf(pt, plan, of, s.route.Targets[pt.targets[0]].Text)
	return err
}

// inPages has shards that share a connection read in pages, where that gives the
// client its first row sooner: the node sorts a united text's rows before it sends
// one, but only as many as the text wants. Both pages are of one snapshot: the
// transaction's, at REPEATABLE READ.
func (s *Session) inPages(plan *router.Plan, parts []part) {
	shared := false
	for i := range parts {
		shared = shared || len(parts[i].targets) > 1
	}
	if !shared || s.tx == nil || plan.NoTables || plan.FoundRows || s.txLevel != "REPEATABLE-READ" {
		return
	}
	if _, set := s.vars.Get("max_sort_length"); set {
		return
	}
	s.route.ByPages(s.gen.topology.Databases[plan.Database], &s.query, s.gen.base[plan.Database].defaults.sortLength)
}

// columnsOf gives the columns of a text of the plan, as the part's connection
// describes them when it prepares it. Nothing may be under way on it.
func (s *Session) columnsOf(pt *part, plan *router.Plan, of textOf, text []byte) ([]mysql.Column, error) {
	key := s.columnsKey(plan, of)
	m := &s.gen.columns
	columns := m.of(key)
	if columns != nil {
		return columns, nil
	}
	need := s.need(plan, &pt.p)
	st, err := pt.c.Prepare(&need, text)
	if err != nil {
		return nil, err
	}
	columns = st.Columns
	if err := pt.c.Forget(st); err != nil {
		return nil, err
	}
	m.keep(key, columns)
	return columns, nil
}

// columnsKey is the key of a text of the plan.
func (s *Session) columnsKey(plan *router.Plan, of textOf) columnsKey {
	names, _ := s.vars.Get(backend.Names)
	increment, _ := s.vars.Get("div_precision_increment")
	return columnsKey{plan, of, names, increment}
}

// of gives the columns that are kept, nil when there are none.
func (m *columnsMemory) of(key columnsKey) []mysql.Column {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mu.columns[key]
}

func (m *columnsMemory) keep(key columnsKey, columns []mysql.Column) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mu.columns == nil || len(m.mu.columns) >= columnsMax {
		m.mu.columns = map[columnsKey][]mysql.Column{}
	}
	m.mu.columns[key] = columns
}

// ownColumns gives the columns of the client's own text, where those of the
// scattered one are others; nil where they are not.
func (s *Session) ownColumns(pt *part, plan *router.Plan) ([]mysql.Column, error) {
	if !s.route.Described {
		return nil, nil
	}
	text, _ := plan.Describe(&s.query)
	return s.columnsOf(pt, plan, ownText, text)
}

// announce gives the columns that the client is told of: own, where it is set,
// else the merge's. Values are sent as the merge has them, so what tells their
// form must be the same.
func announce(merged, own []mysql.Column, binary bool) ([]mysql.Column, error) {
	if own == nil {
		return slices.Clone(merged), nil
	}
	if len(own) != len(merged) {
		return nil, mysql.Errorf(1105, "the columns of the result changed while it was asked for; is a schema change under way?")
	}
	for i := range own {
		m, o := &merged[i], &own[i]
		if binary && wireForm(m.Type) != wireForm(o.Type) || !binary && formOf(m) != formOf(o) {
			return nil, mysql.Errorf(1235, "This version of Braid doesn't yet support 'column %s over several shards: its values have another form there'", o.Name)
		}
	}
	return slices.Clone(own), nil
}

// sameDecimals checks that columns of the DECIMALs of an answer show as many
// decimals as is announced: also binary rows have them as text.
func sameDecimals(answer, announced []mysql.Column) error {
	for i := range min(len(answer), len(announced)) {
		a, b := &answer[i], &announced[i]
		if a.Type == gomysql.MYSQL_TYPE_NEWDECIMAL && (b.Type != a.Type || b.Decimals != a.Decimals) {
			return mysql.Errorf(1235, "This version of Braid doesn't yet support 'column %s over several shards: its values have other decimals there'", b.Name)
		}
	}
	return nil
}

// textForm is what tells how a column's values look in a text row.
type textForm struct {
	form, decimals byte
	zerofill       bool
}

func formOf(c *mysql.Column) textForm {
	f := textForm{form: wireForm(c.Type), decimals: c.Decimals, zerofill: c.Flags&gomysql.ZEROFILL_FLAG != 0}
	switch f.form {
	case gomysql.MYSQL_TYPE_TINY, gomysql.MYSQL_TYPE_SHORT, gomysql.MYSQL_TYPE_LONG, gomysql.MYSQL_TYPE_LONGLONG:
		f.form, f.decimals = gomysql.MYSQL_TYPE_LONGLONG, 0
	case gomysql.MYSQL_TYPE_STRING:
		if c.Type != gomysql.MYSQL_TYPE_NEWDECIMAL {
			f.decimals = 0
		}
	}
	return f
}

// describeUnited gives a united answer the columns that a single shard's has.
// The types on the wire must be the same where rows are binary.
//
// Where a column's type hangs on a parameter, columns, which were found out
// without a value for it, may say NULL: the answer itself knows better.
func describeUnited(st mysql.Rows, columns []mysql.Column, binary bool) (mysql.Rows, error) {
	got := st.Columns()
	if len(got) != len(columns) {
		return nil, mysql.Errorf(1105, "the columns of the result changed while it was asked for; is a schema change under way?")
	}
	columns = slices.Clone(columns)
	for i := range got {
		if c := &columns[i]; c.Type == gomysql.MYSQL_TYPE_NULL && got[i].Type != gomysql.MYSQL_TYPE_NULL {
			c.Type, c.Length, c.Charset, c.Decimals, c.Flags = got[i].Type, got[i].Length, got[i].Charset, got[i].Decimals, got[i].Flags
			if wireForm(c.Type) == gomysql.MYSQL_TYPE_STRING && c.Type != gomysql.MYSQL_TYPE_NEWDECIMAL {
				c.Decimals = 39 // as MariaDB says of strings that are no columns; the united answer's are
			}
		}
		if binary && wireForm(got[i].Type) != wireForm(columns[i].Type) {
			return nil, mysql.Errorf(1235, "This version of Braid doesn't yet support 'column %s of several shards on one node inside a transaction, in the binary protocol'", columns[i].Name)
		}
	}
	return &united{st, columns}, nil
}

// wireForm tells apart the forms that values have in a binary row.
func wireForm(typ byte) byte {
	switch typ {
	case gomysql.MYSQL_TYPE_TINY, gomysql.MYSQL_TYPE_LONGLONG, gomysql.MYSQL_TYPE_FLOAT, gomysql.MYSQL_TYPE_DOUBLE:
		return typ
	case gomysql.MYSQL_TYPE_SHORT, gomysql.MYSQL_TYPE_YEAR:
		return gomysql.MYSQL_TYPE_SHORT
	case gomysql.MYSQL_TYPE_LONG, gomysql.MYSQL_TYPE_INT24:
		return gomysql.MYSQL_TYPE_LONG
	case gomysql.MYSQL_TYPE_DATE, gomysql.MYSQL_TYPE_NEWDATE, gomysql.MYSQL_TYPE_DATETIME, gomysql.MYSQL_TYPE_TIMESTAMP:
		return gomysql.MYSQL_TYPE_DATETIME
	case gomysql.MYSQL_TYPE_TIME:
		return gomysql.MYSQL_TYPE_TIME
	}
	return gomysql.MYSQL_TYPE_STRING
}
