package proxy

import (
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
	plan  *router.Plan
	names string // the session's character sets
}

// columnsMax is how many are kept; when there are more, the memory starts anew.
const columnsMax = 1024

// united is one statement in the place of several targets on one node.
type united struct {
	*backend.Rows
	columns []mysql.Column
}

// Columns implements mysql.Rows.
func (u *united) Columns() []mysql.Column { return u.columns }

// unite makes the one text for a part's targets, and finds out its columns from
// the part's connection.
func (s *Session) unite(pt *part, plan *router.Plan) (*router.Target, error) {
	db := s.gen.topology.Databases[plan.Database]
	t, err := s.route.Unite(db, &s.query, pt.targets)
	if err != nil {
		return nil, err
	}
	names, _ := s.vars.Get(backend.Names)
	key := columnsKey{plan, names}
	m := &s.gen.columns
	m.mu.Lock()
	pt.columns = m.mu.columns[key]
	m.mu.Unlock()
	if pt.columns != nil {
		return t, nil
	}
	one := &s.route.Targets[pt.targets[0]]
	need := s.need(plan, &pt.p)
	st, err := pt.c.Prepare(&need, one.Text)
	if err != nil {
		return nil, err
	}
	pt.columns = st.Columns
	if err := pt.c.Forget(st); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mu.columns == nil || len(m.mu.columns) >= columnsMax {
		m.mu.columns = map[columnsKey][]mysql.Column{}
	}
	m.mu.columns[key] = pt.columns
	return t, nil
}

// describeUnited gives a united answer the columns that a single shard's has.
// The types on the wire must be the same where rows are binary.
func describeUnited(st *backend.Rows, columns []mysql.Column, binary bool) (mysql.Rows, error) {
	got := st.Columns()
	if len(got) != len(columns) {
		return nil, mysql.Errorf(1105, "the columns of the result changed while it was asked for; is a schema change under way?")
	}
	for i := range got {
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
