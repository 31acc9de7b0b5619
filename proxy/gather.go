package proxy

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"braid/backend"
	"braid/internal/mysql"
	"braid/router"
)

// scratchSchema is where the copies live, on any node: a schema that exists on
// every node of a cluster, and whose tables no client names.
const scratchSchema = "braid"

// batchBytesMax is about how long an INSERT into a copy grows.
const batchBytesMax = 512 << 10

// gathering is one statement whose rows have to meet (architecture: "Gather").
// The rows are read in the session's transaction, or in one of their own, and
// stream into temporary tables of a scratch connection, which then runs the
// statement.
type gathering struct {
	s       *Session
	plan    *router.Plan
	ps      *execution
	g       *router.Gather
	db      *router.Database
	p       place // of the scratch connection
	scratch *backend.Conn
	rows    int64
	bytes   int64
	batch   []byte
	pending int // rows in batch
}

// gathering is the bound statement's, before anything is done.
func (s *Session) gathering(plan *router.Plan, ps *execution) gathering {
	return s.copying(plan, ps, s.route.Gather)
}

// copying is the making of what a statement's route gathers.
func (s *Session) copying(plan *router.Plan, ps *execution, what *router.Gather) gathering {
	g := gathering{s: s, plan: plan, ps: ps, g: what, db: s.gen.topology.Databases[plan.Database]}
	g.p = s.place(plan, 0)
	g.p.schema, g.p.database, g.p.views = scratchSchema, plan.Database, g.g.Views
	return g
}

// connect takes the scratch connection.
func (g *gathering) connect(ctx context.Context) error {
	if g.s.locks() {
		return mysql.Errorf(1235, "This version of Braid doesn't yet support 'a statement whose rows have to be brought together, under LOCK TABLES'")
	}
	c, err := g.p.node.Get(ctx, g.s.caps&gomysql.CLIENT_FOUND_ROWS != 0, "", nil)
	if err != nil {
		return g.p.shardError(err)
	}
	g.s.hold(c)
	c.Tainted = true // its temporary tables are nobody else's
	g.scratch = c
	return nil
}

// runGather runs a statement by gathering its rows.
func (s *Session) runGather(plan *router.Plan, ps *execution) error {
	own := s.gathering(plan, ps)
	g := &own
	if want := g.g.Collation; want != "" && want != s.collation() {
		return s.failed1(plan, mysql.Errorf(1235, "This version of Braid doesn't yet support 'views with texts where the rows of several shards have to meet, under another collation_connection than they were made (%s)'", want))
	}
	if s.tx == nil {
		s.beginTx(backend.TxOptions{ReadOnly: true, Isolation: "REPEATABLE-READ"})
		s.ownTx = true
		defer func() { s.ownTx = false }()
	}
	ctx, cancel := s.context()
	defer cancel()
	if err := g.connect(ctx); err != nil {
		return s.failed1(plan, err)
	}
	c := g.scratch
	if err := g.copyTables(ctx); err != nil {
		s.drop(c)
		c.Destroy()
		return s.failed1(plan, g.told(err))
	}
	// The copies are made: the rows' own transaction is over, and the scratch
	// connection answers as a shard would.
	if err := s.settle(false); err != nil {
		s.drop(c)
		c.Destroy()
		return s.failErr(err)
	}
	return g.answer()
}

// errLeg is an error of a leg whose transaction has heard of it.
type errLeg struct{ err error }

func (e *errLeg) Error() string { return e.err.Error() }
func (e *errLeg) Unwrap() error { return e.err }

// told is what the client is told of an error while copying.
func (g *gathering) told(err error) error {
	var le *errLeg
	if errors.As(err, &le) {
		return le.err
	}
	return g.p.shardError(err)
}

// loadVars are the settings under which copies are made: values go in as they
// are in the originals, whatever the session's settings (rule G3).
func loadVars() *backend.Vars {
	return backend.NewVars(
		backend.Var{Name: backend.Names, Value: "'utf8mb4' COLLATE 'utf8mb4_bin'"},
		backend.Var{Name: "sql_mode", Value: "'NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES'"},
		backend.Var{Name: "time_zone", Value: "'+00:00'"},
		backend.Var{Name: "foreign_key_checks", Value: "0"})
}

// readVars are the session's settings for the reading of rows.
func (g *gathering) readVars() *backend.Vars {
	return g.s.vars.With(
		backend.Var{Name: "character_set_results", Value: "NULL"},
		backend.Var{Name: "time_zone", Value: "'+00:00'"},
		backend.Var{Name: "sql_select_limit", Value: "18446744073709551615"})
}

// copyTables makes the copies.
func (g *gathering) copyTables(ctx context.Context) error {
	c := g.scratch
	if err := g.s.readyScratch(c, g.p.node); err != nil {
		return err
	}
	if err := c.Bring(&backend.Need{Schema: scratchSchema, Vars: loadVars(), Autocommit: true, Write: true}); err != nil {
		return err
	}
	for i := range g.g.Tables {
		t := &g.g.Tables[i]
		if err := g.create(ctx, t); err != nil {
			return err
		}
		for shard := range t.Shards.Each() {
			if t.Table.Kind == router.Global && t.Write == nil {
				shard = g.s.anyShard(g.plan, shard)
			}
			if err := g.read(ctx, t, shard); err != nil {
				return err
			}
		}
		if err := g.flush(t); err != nil {
			return err
		}
		for n := 1; n < t.Copies; n++ {
			if err := g.copyAgain(t, n); err != nil {
				return err
			}
		}
	}
	return nil
}

// readyScratch makes a connection ready for temporary tables in the schema of copies.
func (s *Session) readyScratch(c *backend.Conn, n *backend.Node) error {
	if _, known := s.gen.scratch.Load(n); !known {
		if _, err := c.Exec("CREATE SCHEMA IF NOT EXISTS " + scratchSchema); err != nil {
			return fmt.Errorf("the schema for copies cannot be made: %w", err)
		}
		s.gen.scratch.Store(n, true)
	}
	// MariaDB's MIXED format would log the copies; without the privilege they are logged.
	if _, err := c.Exec("SET SESSION sql_log_bin=0"); err != nil && backend.IsLost(err) {
		return err
	}
	return nil
}

// create makes a table's empty copy, with the columns and keys of the original,
// so that the answer's metadata is the original's.
func (g *gathering) create(ctx context.Context, t *router.GatherTable) error {
	home := 0
	if t.Table.Kind == router.Single {
		home = t.Table.Shard
	}
	p := g.s.place(g.plan, home)
	create := "CREATE TEMPORARY TABLE " + ident(t.Table.Name) + " LIKE " + ident(p.schema) + "." + ident(t.Table.Name)
	if p.node != g.p.node {
		var err error
		if create, err = g.definition(ctx, &p, t); err != nil {
			return err
		}
	}
	if _, err := g.scratch.Exec(create); err != nil || t.Write == nil {
		return err
	}
	_, err := g.scratch.Exec("ALTER TABLE " + ident(t.Table.Name) + " ADD COLUMN " + rowColumn + " BIGINT UNSIGNED INVISIBLE, ADD KEY (" + rowColumn + ")")
	return err
}

// definition is the CREATE of a copy of a table that is on another node than
// the scratch connection: the original's, without foreign keys.
func (g *gathering) definition(ctx context.Context, p *place, t *router.GatherTable) (string, error) {
	c, err := p.node.Own(ctx, schemaTimeout)
	if err != nil {
		return "", err
	}
	defer c.Close()
	rows, err := c.Query("SHOW CREATE TABLE "+ident(p.schema)+"."+ident(t.Table.Name), 1)
	if err != nil {
		return "", err
	}
	body, ok := strings.CutPrefix(string(rows[0][1]), "CREATE TABLE ")
	if !ok {
		return "", fmt.Errorf("table %s: its definition is not a table's", t.Table.Name)
	}
	lines := strings.Split(body, "\n")
	kept := lines[:0]
	for _, l := range lines {
		if strings.HasPrefix(strings.TrimSpace(l), "CONSTRAINT ") && strings.Contains(l, " FOREIGN KEY ") {
			continue
		}
		kept = append(kept, l)
	}
	if n := len(kept); n > 1 {
		kept[n-2] = strings.TrimSuffix(kept[n-2], ",")
	}
	return "CREATE TEMPORARY TABLE " + strings.Join(kept, "\n"), nil
}

func ident(s string) string { return "`" + strings.ReplaceAll(s, "`", "``") + "`" }

// read streams one shard's rows of a table into its copy.
func (g *gathering) read(ctx context.Context, t *router.GatherTable, shard int) error {
	s := g.s
	p := s.place(g.plan, shard)
	c, err := s.tx.Leg(ctx, p.node, p.schema, s.vars)
	if err != nil {
		return &errLeg{p.shardError(err)}
	}
	s.hold(c)
	defer s.drop(c)
	if t.Locking != "" {
		s.tx.Wrote(p.node)
	}
	err = g.readOn(c, t, &p)
	if err == nil {
		return nil
	}
	var ce *errCopy
	if errors.As(err, &ce) {
		// The leg is in order, but in mid-answer: what is left is not wanted.
		s.tx.Abandon(c)
		_ = s.tx.Failed(p.node, &mysql.SocketError{Side: mysql.NodeSide, Op: "read", Err: ce.err})
		s.noteEnd()
		return ce.err
	}
	var e *mysql.Error
	if !errors.As(err, &e) || isPrefix(err) {
		s.tx.Abandon(c)
	}
	told := s.tx.Failed(p.node, p.shardError(err))
	s.noteEnd()
	return &errLeg{told}
}

// errCopy is an error of the copy's side while rows are being read.
type errCopy struct{ err error }

func (e *errCopy) Error() string { return e.err.Error() }
func (e *errCopy) Unwrap() error { return e.err }

// readOn reads the rows on a leg.
func (g *gathering) readOn(c *backend.Conn, t *router.GatherTable, p *place) error {
	need := backend.Need{Schema: p.schema, Vars: g.readVars(), Autocommit: false}
	var b strings.Builder
	b.WriteString("SELECT ")
	for i, col := range t.Columns {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(ident(t.Table.Columns[col].Name))
		if t.Table.Columns[col].DataType == "float" {
			b.WriteString("+0e0") // a FLOAT is shown with fewer digits than it has
		}
	}
	b.WriteString(" FROM " + ident(t.Table.Name))
	if len(t.Where) > 0 {
		b.WriteString(" WHERE ")
		b.Write(t.Where)
	}
	b.WriteString(t.Locking)
	bin := len(t.Params) > 0
	target := router.Target{Text: []byte(b.String()), Params: t.Params}
	if bin {
		st, err := c.Prepare(&need, target.Text)
		if err != nil {
			return err
		}
		if err := c.SendExecute(&need, st, g.ps.args(&target, len(st.Params))); err != nil {
			return err
		}
	} else if err := c.Send(&need, gomysql.COM_QUERY, target.Text); err != nil {
		return err
	}
	return eachRow(c, bin, func(cols []mysql.Column, row mysql.Row) error {
		if err := g.add(t, cols, row, bin); err != nil {
			return &errCopy{err}
		}
		return nil
	})
}

// eachRow hands f the rows of the answer that c gives next.
func eachRow(c *backend.Conn, binary bool, f func([]mysql.Column, mysql.Row) error) error {
	first, err := c.First()
	if err != nil {
		return err
	}
	if first[0] == 0xff {
		return mysql.ParseError(first)
	}
	rows, err := c.ReadRows(first, binary)
	if err != nil {
		return err
	}
	for {
		row, err := rows.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if err := f(rows.Columns(), row); err != nil {
			return err
		}
	}
}

// add puts a row into the batch for the copy.
func (g *gathering) add(t *router.GatherTable, cols []mysql.Column, row mysql.Row, bin bool) error {
	cfg := &g.s.gen.cfg.Proxy
	g.rows++
	g.bytes += int64(len(row))
	if g.rows > int64(cfg.GatherRowsMax) || g.bytes > int64(cfg.GatherBytesMax) {
		return mysql.Errorf(1104, "The statement needs rows of several shards to meet, and they are more than proxy.gather_rows_max = %d or proxy.gather_bytes_max = %d; narrow it, or raise the limit", cfg.GatherRowsMax, cfg.GatherBytesMax)
	}
	b := g.batch
	if g.pending == 0 {
		b = append(b[:0], "INSERT INTO "...)
		b = append(append(b, ident(t.Table.Name)...), " ("...)
		for i, col := range t.Columns {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(b, ident(t.Table.Columns[col].Name)...)
		}
		if t.Write != nil {
			b = append(b, ","+rowColumn...)
		}
		b = append(b, ") VALUES ("...)
	} else {
		b = append(b, ",("...)
	}
	var err error
	if bin {
		b, err = appendBinaryValues(b, t, cols, row)
	} else {
		b, err = appendTextValues(b, t, row)
	}
	if err != nil {
		return err
	}
	if t.Write != nil {
		b = strconv.AppendInt(append(b, ','), g.rows, 10)
	}
	g.batch = append(b, ')')
	g.pending++
	if len(g.batch) >= batchBytesMax {
		return g.flush(t)
	}
	return nil
}

// flush sends the batch.
func (g *gathering) flush(t *router.GatherTable) error {
	if g.pending == 0 {
		return nil
	}
	g.pending = 0
	_, err := g.scratch.Exec(string(g.batch))
	var e *mysql.Error
	if errors.As(err, &e) && e.Code == gomysql.ER_DUP_ENTRY {
		return mysql.Errorf(1235, "This version of Braid doesn't yet support 'meeting rows of table %s, whose shards hold one unique key twice' (%s)", t.Table.Name, e.Message)
	}
	return err
}

// copyAgain makes a further copy of a table out of its first one.
func (g *gathering) copyAgain(t *router.GatherTable, n int) error {
	name := ident(router.CopyName(t.Table, n))
	if _, err := g.scratch.Exec("CREATE TEMPORARY TABLE " + name + " LIKE " + ident(t.Table.Name)); err != nil {
		return err
	}
	var cols []string
	for _, c := range t.Columns {
		cols = append(cols, ident(t.Table.Columns[c].Name))
	}
	if t.Write != nil {
		cols = append(cols, rowColumn)
	}
	list := strings.Join(cols, ",")
	_, err := g.scratch.Exec("INSERT INTO " + name + " (" + list + ") SELECT " + list + " FROM " + ident(t.Table.Name))
	return err
}

// appendTextValues appends a text row's values as literals.
func appendTextValues(b []byte, t *router.GatherTable, row mysql.Row) ([]byte, error) {
	p := []byte(row)
	for i, col := range t.Columns {
		if i > 0 {
			b = append(b, ',')
		}
		v, null, n := mysql.LenEncString(p)
		if n == 0 {
			return b, mysql.ErrMalformed
		}
		p = p[n:]
		if null {
			b = append(b, "NULL"...)
		} else {
			b = appendLiteral(b, &t.Table.Columns[col], v)
		}
	}
	return b, nil
}

// appendLiteral appends a column's value, in text form and in the column's own
// character set, as a literal that puts the same value into a copy of the column.
func appendLiteral(b []byte, c *router.Column, v []byte) []byte {
	switch c.DataType {
	case "float", "double":
		b = append(b, v...)
		if string(v) == "-0" {
			b = append(b, "e0"...) // -0 is an integer, and has no sign
		}
		return b
	case "tinyint", "smallint", "mediumint", "int", "bigint", "decimal", "year":
		return append(b, v...)
	case "date", "datetime", "timestamp", "time", "uuid", "inet4", "inet6":
		return append(append(append(b, '\''), v...), '\'')
	case "json":
		if len(v) > 0 {
			b = append(b, "CONVERT(x'"...)
			b = hex.AppendEncode(b, v)
			return append(b, "' USING utf8mb4)"...)
		}
	}
	b = append(b, "x'"...)
	b = hex.AppendEncode(b, v)
	return append(b, '\'')
}

// appendBinaryValues appends a binary row's values as literals.
func appendBinaryValues(b []byte, t *router.GatherTable, cols []mysql.Column, row mysql.Row) ([]byte, error) {
	nulls := (len(cols) + 9) / 8
	if len(row) < 1+nulls {
		return b, mysql.ErrMalformed
	}
	bitmap, p := row[1:1+nulls], []byte(row[1+nulls:])
	for i, col := range t.Columns {
		if i > 0 {
			b = append(b, ',')
		}
		if bitmap[(i+2)/8]&(1<<((i+2)%8)) != 0 {
			b = append(b, "NULL"...)
			continue
		}
		size, head, err := paramSize(cols[i].Type, p)
		if err != nil || size > len(p) {
			return b, mysql.ErrMalformed
		}
		v := p[head:size]
		p = p[size:]
		if b, err = appendBinaryLiteral(b, &t.Table.Columns[col], &cols[i], v); err != nil {
			return b, err
		}
	}
	return b, nil
}

// appendBinaryLiteral appends a value in binary-protocol form as a literal.
func appendBinaryLiteral(b []byte, c *router.Column, col *mysql.Column, v []byte) ([]byte, error) {
	unsigned := col.Flags&gomysql.UNSIGNED_FLAG != 0
	integer := func(signed int64, u uint64) []byte {
		if unsigned {
			return strconv.AppendUint(b, u, 10)
		}
		return strconv.AppendInt(b, signed, 10)
	}
	switch col.Type {
	case gomysql.MYSQL_TYPE_TINY:
		return integer(int64(int8(v[0])), uint64(v[0])), nil
	case gomysql.MYSQL_TYPE_SHORT, gomysql.MYSQL_TYPE_YEAR:
		u := binary.LittleEndian.Uint16(v)
		return integer(int64(int16(u)), uint64(u)), nil
	case gomysql.MYSQL_TYPE_LONG, gomysql.MYSQL_TYPE_INT24:
		u := binary.LittleEndian.Uint32(v)
		return integer(int64(int32(u)), uint64(u)), nil
	case gomysql.MYSQL_TYPE_LONGLONG:
		u := binary.LittleEndian.Uint64(v)
		return integer(int64(u), u), nil
	case gomysql.MYSQL_TYPE_DOUBLE:
		return appendDouble(b, v), nil
	case gomysql.MYSQL_TYPE_DATE, gomysql.MYSQL_TYPE_DATETIME, gomysql.MYSQL_TYPE_TIMESTAMP, gomysql.MYSQL_TYPE_TIME:
		return appendTemporal(b, col.Type, v)
	}
	return appendLiteral(b, c, v), nil
}

// target is the statement over the copies as a target.
func (g *gathering) target() *router.Target {
	return &router.Target{Text: g.g.Text, Params: g.g.Params}
}
