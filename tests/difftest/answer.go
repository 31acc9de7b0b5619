package difftest

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"braid/tests/wire"
)

// answer is all that one side said to one statement.
type answer struct {
	announced []wire.Column // by PREPARE
	params    int
	prepared  bool
	results   []wire.Result
	err       *wire.Error
}

// ask runs c on a connection. An error is a broken connection.
func ask(conn *wire.Conn, c *Case, prepared bool) (*answer, error) {
	a := &answer{prepared: prepared}
	var err error
	if prepared {
		var s *wire.Statement
		if s, err = conn.Prepare(c.Text); err == nil {
			a.announced, a.params = s.Columns, s.Params
			a.results, err = s.Execute(c.Params...)
			if closed := s.Close(); closed != nil && err == nil {
				err = closed
			}
		}
	} else {
		a.results, err = conn.Query(c.Text)
	}
	if err != nil && !errors.As(err, &a.err) {
		return nil, err
	}
	return a, nil
}

// refused tells whether the answer is "not supported".
func (a *answer) refused() bool { return a.err != nil && a.err.Code == gomysql.ER_NOT_SUPPORTED_YET }

// failure is the error that ended the answer, before the columns or behind
// them; nil when there is none.
func (a *answer) failure() *wire.Error {
	if a.err != nil || len(a.results) == 0 {
		return a.err
	}
	return a.results[len(a.results)-1].Err
}

// statusIgnored are flags about how the server found the rows, not about the rows.
const statusIgnored = gomysql.SERVER_STATUS_NO_GOOD_INDEX_USED | gomysql.SERVER_STATUS_NO_INDEX_USED |
	gomysql.SERVER_QUERY_WAS_SLOW | gomysql.SERVER_STATUS_METADATA_CHANGED

// compare lists what differs between Braid's answer and the plain server's.
func compare(c *Case, braid, plain *answer) []string {
	var d []string
	differ := func(format string, args ...any) { d = append(d, fmt.Sprintf(format, args...)) }
	// Whether an error comes in the place of the columns or behind them depends on
	// the plan of a server, which may sort first: that is nobody's promise either.
	if (braid.err == nil) != (plain.err == nil) {
		if b, p := braid.failure(), plain.failure(); b != nil && p != nil {
			if text := compareErrors(c, b, p); text != "" {
				differ("%s", text)
			}
			return d
		}
	}
	if text := compareErrors(c, braid.err, plain.err); text != "" {
		differ("%s", text)
	}
	if plain.prepared && plain.err == nil && braid.err == nil {
		if braid.params != plain.params {
			differ("PREPARE: %d parameters, plain %d", braid.params, plain.params)
		}
		if !c.ignores("prepare") {
			for _, text := range compareColumns(c, braid.announced, plain.announced) {
				differ("PREPARE: %s", text)
			}
		}
	}
	if len(braid.results) != len(plain.results) {
		if braid.err == nil && plain.err == nil {
			differ("%d results, plain %d", len(braid.results), len(plain.results))
		}
		return d
	}
	for i := range plain.results {
		b, p := &braid.results[i], &plain.results[i]
		if (b.Columns == nil) != (p.Columns == nil) {
			differ("rows or none: Braid %v, plain %v", b.Columns != nil, p.Columns != nil)
			continue
		}
		d = append(d, compareColumns(c, b.Columns, p.Columns)...)
		if text := compareErrors(c, b.Err, p.Err); text != "" {
			differ("%s", text)
		}
		if b.Err != nil && p.Err != nil {
			continue // how many rows came before the error is nobody's promise
		}
		if text := compareRows(c, b, p); text != "" {
			differ("%s", text)
		}
		if b.Err == nil && p.Err == nil {
			d = append(d, compareOK(c, b.OK, p.OK)...)
		}
	}
	return d
}

func compareErrors(c *Case, braid, plain *wire.Error) string {
	switch {
	case braid == nil && plain == nil:
		return ""
	case braid == nil:
		return fmt.Sprintf("no error, plain: %v", plain)
	case plain == nil:
		return fmt.Sprintf("%v, plain: no error", braid)
	case braid.Code != plain.Code || braid.State != plain.State || !c.NumberOnly && braid.Message != plain.Message:
		return fmt.Sprintf("%v, plain: %v", braid, plain)
	}
	return ""
}

func compareColumns(c *Case, braid, plain []wire.Column) []string {
	if len(braid) != len(plain) {
		return []string{fmt.Sprintf("%d columns, plain %d", len(braid), len(plain))}
	}
	var d []string
	for i := range plain {
		b, p := braid[i], plain[i]
		field := func(name, class string, x, y any) {
			if x != y && !c.ignores(class) {
				d = append(d, fmt.Sprintf("column %d (%s): %s %v, plain %v", i+1, p.Name, name, x, y))
			}
		}
		field("name", "name", b.Name, p.Name)
		field("original name", "origin", b.OrgName, p.OrgName)
		field("table", "origin", b.Table, p.Table)
		field("original table", "origin", b.OrgTable, p.OrgTable)
		field("schema", "schema", b.Schema, p.Schema)
		field("catalog", "schema", b.Catalog, p.Catalog)
		field("type", "type", b.Type, p.Type)
		field("length", "length", b.Length, p.Length)
		field("charset", "charset", b.Charset, p.Charset)
		field("flags", "flags", fmt.Sprintf("%#x", b.Flags), fmt.Sprintf("%#x", p.Flags))
		field("decimals", "decimals", b.Decimals, p.Decimals)
	}
	return d
}

func compareOK(c *Case, braid, plain wire.OK) []string {
	var d []string
	field := func(name string, x, y any) {
		if x != y && !c.ignores(name) {
			d = append(d, fmt.Sprintf("%s %v, plain %v", name, x, y))
		}
	}
	field("affected", braid.AffectedRows, plain.AffectedRows)
	field("insert-id", braid.InsertID, plain.InsertID)
	field("warnings", braid.Warnings, plain.Warnings)
	field("info", braid.Info, plain.Info)
	if x, y := braid.Status&^statusIgnored, plain.Status&^statusIgnored; x != y && !c.ignores("status") {
		d = append(d, fmt.Sprintf("status %#04x, plain %#04x", x, y))
	}
	return d
}

func compareRows(c *Case, braid, plain *wire.Result) string {
	if len(braid.Rows) != len(plain.Rows) {
		return fmt.Sprintf("%d rows, plain %d%s", len(braid.Rows), len(plain.Rows), firstRows(braid, plain))
	}
	if c.ColumnsOnly {
		return ""
	}
	order := c.ordered()
	if order == OrderAll {
		for i := range plain.Rows {
			if !slices.EqualFunc(braid.Rows[i], plain.Rows[i], sameCell) {
				return fmt.Sprintf("row %d: %s, plain %s", i+1, showRow(braid.Rows[i], braid.Binary), showRow(plain.Rows[i], plain.Binary))
			}
		}
		return ""
	}
	if order == OrderKeys {
		for i := range plain.Rows {
			for _, key := range c.SortKeys {
				if key > len(plain.Rows[i]) || key > len(braid.Rows[i]) {
					return fmt.Sprintf("there is no column %d to sort by", key)
				}
				if !sameCell(braid.Rows[i][key-1], plain.Rows[i][key-1]) {
					return fmt.Sprintf("row %d, sort key %d: %s, plain %s", i+1, key, showRow(braid.Rows[i], braid.Binary), showRow(plain.Rows[i], plain.Binary))
				}
			}
		}
	}
	b, p := sortedRows(braid), sortedRows(plain)
	for i := range p {
		if b[i] != p[i] {
			return fmt.Sprintf("as sets, first difference: %s, plain %s", b[i], p[i])
		}
	}
	return ""
}

func sameCell(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }

func sortedRows(r *wire.Result) []string {
	rows := make([]string, len(r.Rows))
	for i, row := range r.Rows {
		rows[i] = showRow(row, r.Binary)
	}
	slices.Sort(rows)
	return rows
}

// showRow prints a row so that different rows print differently.
func showRow(row [][]byte, binary bool) string {
	var b strings.Builder
	b.WriteByte('(')
	for i, cell := range row {
		if i > 0 {
			b.WriteString(", ")
		}
		switch {
		case cell == nil:
			b.WriteString("NULL")
		case binary:
			fmt.Fprintf(&b, "%x", cell)
			if len(cell) > 0 && printable(cell) {
				fmt.Fprintf(&b, "=%q", cell)
			}
		default:
			fmt.Fprintf(&b, "%q", cell)
		}
	}
	b.WriteByte(')')
	return b.String()
}

func printable(cell []byte) bool {
	for _, c := range cell {
		if c < 0x20 {
			return false
		}
	}
	return true
}

func firstRows(braid, plain *wire.Result) string {
	show := func(r *wire.Result) string {
		var b strings.Builder
		for i, row := range r.Rows {
			if i == 6 {
				b.WriteString("...")
				break
			}
			b.WriteString(showRow(row, r.Binary))
		}
		return b.String()
	}
	return ": " + show(braid) + ", plain " + show(plain)
}
