package proxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"braid/backend"
	"braid/internal/mysql"
	"braid/router"
)

// evaluation is the client's expressions over merged groups (decision 0010): the
// groups are rows of a temporary table on a scratch connection, and the rows are
// what the statement over them gives. It implements mysql.Rows; whoever has it
// closes it, also after an error.
type evaluation struct {
	*backend.Rows
	s *Session
	p place // of the scratch connection
	c *backend.Conn
	// The merged groups, not yet sent: INSERTs of about batchBytesMax each.
	inserts [][]byte
	bytes   int
}

// evaluate reads the merged groups to their end and keeps them: the connections
// that give them are free before the scratch connection is asked for, so that
// sessions do not wait for one another's.
func (s *Session) evaluate(plan *router.Plan, groups mysql.Rows) (*evaluation, error) {
	e := &evaluation{s: s, p: s.place(plan, 0)}
	if s.locks() {
		return nil, mysql.Errorf(1235, "This version of Braid doesn't yet support 'expressions over aggregates of several shards under LOCK TABLES'")
	}
	t, err := mergedTable(groups.Columns(), groups.Binary())
	if err != nil {
		return nil, err
	}
	if err := s.computedSums(groups.Columns()); err != nil {
		return nil, err
	}
	var batch []byte
	for {
		row, err := groups.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		if batch == nil {
			batch = append(batch, "INSERT INTO "+router.MergedTable+" VALUES ("...)
		} else {
			batch = append(batch, ",("...)
		}
		begin := len(batch)
		if groups.Binary() {
			batch, err = appendBinaryValues(batch, t, groups.Columns(), row)
		} else {
			batch, err = appendTextValues(batch, t, row)
		}
		if err != nil {
			return nil, err
		}
		if zeroDate(batch[begin:]) {
			// COALESCE() of one is NULL where the session's sql_mode has NO_ZERO_DATE.
			return nil, mysql.Errorf(1235, "This version of Braid doesn't yet support 'expressions over zero dates of several shards'")
		}
		batch = append(batch, ')')
		if len(batch) >= batchBytesMax {
			if err := e.keep(batch); err != nil {
				return nil, err
			}
			batch = nil
		}
	}
	return e, e.keep(batch)
}

// zeroDate tells whether values, as literals, may have a date among them whose year,
// month or day is zero. Texts are in hexadecimal, and so are none of these.
func zeroDate(values []byte) bool {
	return bytes.Contains(values, []byte("-00")) || bytes.Contains(values, []byte("'0000-"))
}

// computedSums refuses sums whose quotients may have other digits than the
// client's own text would give.
func (s *Session) computedSums(columns []mysql.Column) error {
	for _, i := range s.route.Evaluate.Computed {
		if c := &columns[i]; c.Type == gomysql.MYSQL_TYPE_NEWDECIMAL && c.Decimals > router.SumDigits {
			return mysql.Errorf(1235, "This version of Braid doesn't yet support 'quotients of computed values of several shards'")
		}
	}
	return nil
}

// keep takes a batch of groups over.
func (e *evaluation) keep(batch []byte) error {
	if batch == nil {
		return nil
	}
	e.inserts = append(e.inserts, batch)
	e.bytes += len(batch)
	if most := e.s.gen.cfg.Proxy.SortBytesMax; most > 0 && e.bytes > most {
		return mysql.Errorf(gomysql.ER_OUT_OF_SORTMEMORY, "Out of memory for the groups of several shards (proxy.sort_bytes_max = %d); narrow the statement, or raise the limit", most)
	}
	return nil
}

// mergedTable describes merged groups as a table to copy, for the writing of their
// values. An error says that a column's values are less than what they are sent as.
func mergedTable(columns []mysql.Column, binary bool) (*router.GatherTable, error) {
	t := &router.GatherTable{Table: &router.Table{Columns: make([]router.Column, len(columns))}, Columns: make([]int, len(columns))}
	for i := range columns {
		c := &columns[i]
		t.Columns[i] = i
		typ := ""
		switch c.Type {
		case gomysql.MYSQL_TYPE_TINY, gomysql.MYSQL_TYPE_SHORT, gomysql.MYSQL_TYPE_INT24, gomysql.MYSQL_TYPE_LONG, gomysql.MYSQL_TYPE_LONGLONG:
			typ = "bigint"
		case gomysql.MYSQL_TYPE_YEAR:
			typ = "year"
		case gomysql.MYSQL_TYPE_NEWDECIMAL:
			typ = "decimal"
		case gomysql.MYSQL_TYPE_DOUBLE:
			if binary || c.Decimals == decimalsAll {
				typ = "double"
			}
		case gomysql.MYSQL_TYPE_DATE, gomysql.MYSQL_TYPE_NEWDATE:
			typ = "date"
		case gomysql.MYSQL_TYPE_DATETIME:
			typ = "datetime"
		case gomysql.MYSQL_TYPE_TIME:
			typ = "time"
		case gomysql.MYSQL_TYPE_BIT:
			typ = "bit"
		case gomysql.MYSQL_TYPE_VAR_STRING, gomysql.MYSQL_TYPE_STRING, gomysql.MYSQL_TYPE_VARCHAR, gomysql.MYSQL_TYPE_NULL,
			gomysql.MYSQL_TYPE_BLOB, gomysql.MYSQL_TYPE_TINY_BLOB, gomysql.MYSQL_TYPE_MEDIUM_BLOB, gomysql.MYSQL_TYPE_LONG_BLOB:
			typ = "varbinary"
		}
		if typ == "" {
			return nil, mysql.Errorf(1235, "This version of Braid doesn't yet support 'expressions over groups of several shards by values of this type'")
		}
		t.Table.Columns[i].DataType = typ
	}
	return t, nil
}

// decimalsAll is what a DOUBLE says that is shown with all its digits.
const decimalsAll = 31

// open makes the table of the groups, as a server makes it of the text that a
// shard got, and begins the statement over them. The columns of the client's answer
// are returned.
func (e *evaluation) open(plan *router.Plan, ps *execution, shard *router.Target) ([]mysql.Column, error) {
	s := e.s
	ctx, cancel := s.context()
	defer cancel()
	var err error
	if e.c, err = e.p.node.Get(ctx, s.caps&gomysql.CLIENT_FOUND_ROWS != 0, "", nil); err != nil {
		return nil, e.p.shardError(err)
	}
	s.hold(e.c)
	e.c.Tainted = true // its temporary tables are nobody else's
	columns, err := e.columns(ctx, plan, ps)
	if err != nil {
		return nil, e.told(err)
	}
	need := backend.Need{Schema: e.p.schema, Vars: s.vars, Autocommit: true, Write: true}
	if err := e.fill(plan, ps, shard, &need); err != nil {
		return nil, e.told(err)
	}
	need.Vars = e.limited()
	over := s.route.Evaluate
	e.Rows, err = e.send(plan, ps, &need, &router.Target{Text: over.Text, Params: over.Params})
	return columns, e.told(err)
}

// fill makes the table and puts the groups into it.
func (e *evaluation) fill(plan *router.Plan, ps *execution, shard *router.Target, need *backend.Need) error {
	if err := e.s.readyScratch(e.c, e.p.node); err != nil {
		return err
	}
	create := router.Target{Text: fmt.Appendf(nil, "CREATE TEMPORARY TABLE %s %s LIMIT 0", router.MergedTable, shard.Text), Params: shard.Params}
	if err := e.s.sendOnly(e.c, need, plan, &create, ps); err != nil {
		return err
	}
	first, err := e.c.First()
	if err != nil {
		return err
	}
	if first[0] == 0xff {
		return mysql.ParseError(first)
	}
	if e.s.route.Evaluate.Digits {
		rows, err := e.c.Query("SELECT @@div_precision_increment", 1)
		if err != nil {
			return err
		}
		if string(rows[0][0]) != "4" {
			return mysql.Errorf(1235, "quotients under another div_precision_increment than 4")
		}
	}
	if err := e.c.Bring(&backend.Need{Schema: e.p.schema, Vars: groupVars(), Autocommit: true, Write: true}); err != nil {
		return err
	}
	for _, insert := range e.inserts {
		if _, err := e.c.Exec(string(insert)); err != nil {
			return err
		}
	}
	e.inserts = nil
	return nil
}

// groupVars are the settings under which groups go into their table: strictly, so
// that a value that a column does not hold whole is an error.
func groupVars() *backend.Vars {
	return loadVars().With(backend.Var{Name: "sql_mode", Value: "'STRICT_ALL_TABLES,NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES'"})
}

// limited are the session's variables, with its own sql_select_limit, which counts
// the client's rows.
func (e *evaluation) limited() *backend.Vars {
	limit, set := e.s.own.Get("sql_select_limit")
	if !e.s.selectLimitSet || !set {
		return e.s.vars
	}
	return e.s.vars.With(backend.Var{Name: "sql_select_limit", Value: limit})
}

// send sends a text to the scratch connection and reads the beginning of its answer.
func (e *evaluation) send(plan *router.Plan, ps *execution, need *backend.Need, t *router.Target) (*backend.Rows, error) {
	if err := e.s.sendOnly(e.c, need, plan, t, ps); err != nil {
		return nil, err
	}
	first, err := e.c.First()
	if err != nil {
		return nil, err
	}
	if first[0] == 0xff {
		return nil, mysql.ParseError(first)
	}
	return e.c.ReadRows(first, ps.binary())
}

// columns finds out the columns of the client's answer: those that its text gives
// over empty copies of its tables. A shard that only prepares the text describes
// them otherwise: whether a server groups in a temporary table shows.
func (e *evaluation) columns(ctx context.Context, plan *router.Plan, ps *execution) ([]mysql.Column, error) {
	s := e.s
	key, kept := s.columnsKey(plan, answeredText), !s.route.Evaluate.Varies
	if kept {
		if columns := s.gen.columns.of(key); columns != nil {
			return columns, nil
		}
	}
	var route router.Route
	plan.BindGather(&s.query, &route)
	g := s.copying(plan, ps, route.Gather)
	g.scratch = e.c
	for i := range g.g.Tables {
		g.g.Tables[i].Shards = router.NoShards(len(g.db.Shards))
	}
	if err := g.copyTables(ctx); err != nil {
		return nil, err
	}
	need := backend.Need{Schema: scratchSchema, Vars: s.vars, Autocommit: true}
	rows, err := e.send(plan, ps, &need, g.target())
	if err != nil {
		return nil, err
	}
	if err := rows.Drain(); err != nil {
		return nil, err
	}
	columns := make([]mysql.Column, 0, len(rows.Columns()))
	for i := range rows.Columns() {
		c, err := mysql.ParseColumn(s.renameSchema(mysql.AppendColumn(nil, &rows.Columns()[i]), &g.p))
		if err != nil {
			return nil, err
		}
		columns = append(columns, c)
	}
	if kept {
		s.gen.columns.keep(key, columns)
	}
	return columns, nil
}

// Next implements mysql.Rows.
func (e *evaluation) Next() (mysql.Row, error) {
	row, err := e.Rows.Next()
	if err != nil && err != io.EOF {
		err = e.told(err)
	}
	return row, err
}

// told is what an error on the scratch connection means. Most are about a text
// that the client did not write, or say nothing of what the client's own would
// give: then its rows can be brought together.
func (e *evaluation) told(err error) error {
	var own *mysql.Error
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &own) || isPrefix(err):
		return e.p.shardError(err)
	}
	switch own.Code {
	case gomysql.ER_QUERY_INTERRUPTED, 1969, 3024: // stopped, or out of time
		return own
	}
	return mysql.Errorf(1235, "This version of Braid doesn't yet support 'this expression over aggregates of several shards' (%s)", own.Message)
}

// end takes over what the statement warned of, when its rows have been read.
func (e *evaluation) end() error {
	if e.End.Warnings == 0 {
		return nil
	}
	rows, err := e.c.Query(showWarnings, warningsMax)
	if err != nil {
		return e.p.shardError(err)
	}
	e.s.warned += e.End.Warnings - uint16(e.s.addWarnings(rows, &e.p))
	return nil
}

// Close implements mysql.Rows: the scratch connection, and the table with it, are gone.
func (e *evaluation) Close() error {
	if e.c != nil {
		e.s.drop(e.c)
		e.c.Destroy()
		e.c = nil
	}
	return nil
}
