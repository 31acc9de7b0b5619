package router

// StepsKind is what a write does with the rows that it reads first.
type StepsKind uint8

const (
	// StepsInsert writes the rows read as new rows: INSERT ... SELECT.
	StepsInsert StepsKind = iota
	// StepsPick writes the rows whose primary keys were read: UPDATE and DELETE
	// with LIMIT.
	StepsPick
	// StepsMove is StepsPick of an UPDATE of a sharding key: rows that belong to
	// another shard afterwards are deleted and inserted.
	StepsMove
)

// Steps is a write over several shards that first reads and then writes, in one
// transaction. All texts are statements, or parts of them, in the client's
// terms, without parameters.
type Steps struct {
	Kind   StepsKind
	Table  *Table
	Select string // what to read
	// Head and Tail stand before and behind what was read: "INSERT INTO t (a) VALUES "
	// and "ON DUPLICATE KEY UPDATE ...", or "UPDATE t SET a=1 WHERE ".
	Head, Tail string
	// Key are the columns of the primary key, which the first columns of Select
	// are. (StepsPick, StepsMove)
	Key []string
	// StepsMove: the columns behind the key in Select, with their new values; and
	// whether several rows may move at once.
	Columns []string
	Several bool
	// Conditional says that the server only warns of values that its conditions
	// and order convert, although sql_mode is strict: MariaDB, of a DELETE and of an
	// UPDATE that searches its rows before it changes the first, as it does for an
	// order and where it finds them by a range of the key that it changes. For
	// StepsMove, Rows
	// then reads the same rows as Select without computing their new values.
	Conditional bool
	Rows        string
	rule        *Rule
	ctx         KeyContext
}

// Shard tells where a row with these values of the sharding key belongs, in the
// order of the rule's columns.
func (s *Steps) Shard(vals []Value) (int, error) { return s.rule.Assign(vals, s.ctx) }

// KeyColumns are the names of the sharding key's columns.
func (s *Steps) KeyColumns() []string { return names(s.rule.Columns) }

// Strict tells whether what a SELECT warns of is an error where its rows are
// written.
func (s *Steps) Strict() bool { return s.ctx.Strict }

// stepsPlan is a Steps before it is bound.
type stepsPlan struct {
	kind             StepsKind
	table            *Table
	read, head, tail template
	key, columns     []string
	rows             template // Steps.Rows, where conditional
	several, ignore  bool
	conditional      bool
}

func (p *stepsPlan) bind(q *Query, r *Route, db *Database) error {
	s := &Steps{Kind: p.kind, Table: p.table, Key: p.key, Columns: p.columns, Several: p.several, Conditional: p.conditional, rule: p.table.Rule, ctx: q.KeyContext()}
	if p.ignore {
		s.ctx.Strict = false
	}
	for _, part := range []struct {
		from template
		to   *string
	}{{p.read, &s.Select}, {p.head, &s.Head}, {p.tail, &s.Tail}, {p.rows, &s.Rows}} {
		w := writer{q: q, r: &Route{}, db: db, inline: true}
		w.template(part.from)
		if w.failed {
			return refuse("a parameter of this type in a write that moves rows between shards")
		}
		*part.to = string(w.r.buf)
	}
	r.Steps = s
	return nil
}
