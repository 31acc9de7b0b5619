package difftest

import (
	"encoding/binary"
	"slices"
	"strings"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"braid/tests/wire"
)

// How a server describes a column that is no table's own depends on the plan it
// took: of a value that it had in a temporary table it shows that table's column,
// with other flags, width and original name. Which plan it takes depends on how
// many rows it sees, and a shard sees fewer. What a case's other plans show is
// therefore asked of the plain server itself.

// planModifiers stand behind SELECT and let a server plan it otherwise.
func planModifiers() []string {
	return []string{"SQL_BUFFER_RESULT ", "SQL_BIG_RESULT ", "SQL_SMALL_RESULT "}
}

// asPlanned are Braid's answer and the plain server's without what a plan decides.
// The latter has each property of a column as in Braid's that the server shows
// itself so, for the statement under another plan (Case.Plans) or announced by
// PREPARE.
func asPlanned(conn *wire.Conn, c *Case, braid, plain *answer, prepared bool) (*answer, *answer, error) {
	shown := [][]wire.Column{plain.announced}
	if !prepared {
		if s, err := conn.Prepare(c.Text); err == nil {
			shown[0] = s.Columns
			if err := s.Close(); err != nil {
				return nil, nil, err
			}
		}
	}
	for _, text := range c.Plans {
		a, err := ask(conn, &Case{Text: text, Params: c.Params}, prepared)
		if err != nil {
			return nil, nil, err
		}
		for i := range a.results {
			shown = append(shown, a.results[i].Columns)
		}
	}
	b, p := *braid, *plain
	b.results, p.results = slices.Clone(braid.results), slices.Clone(plain.results)
	for i := range min(len(b.results), len(p.results)) {
		if len(b.results[i].Columns) == len(p.results[i].Columns) {
			replan(&p.results[i], b.results[i].Columns, shown)
			spellDecimals(&b.results[i])
			spellDecimals(&p.results[i])
		}
	}
	return &b, &p, nil
}

// spellDecimals gives every DECIMAL of an expression all its column's decimals. A
// server shows CASE WHEN x THEN 1.50 ELSE 0 END as 0, and as 0.00 when it had it
// in a temporary table.
func spellDecimals(r *wire.Result) {
	for i := range r.Columns {
		c := &r.Columns[i]
		if c.Type != gomysql.MYSQL_TYPE_NEWDECIMAL || c.OrgTable != "" {
			continue
		}
		rows := make([][][]byte, len(r.Rows))
		for k, row := range r.Rows {
			rows[k] = slices.Clone(row)
			if cell := string(row[i]); row[i] != nil {
				whole, decimals, _ := strings.Cut(cell, ".")
				if n := int(c.Decimals) - len(decimals); n > 0 {
					rows[k][i] = []byte(whole + "." + decimals + strings.Repeat("0", n))
				}
			}
		}
		r.Rows = rows
	}
}

// replan gives the result's columns those of want's properties that are in shown.
// Where a server groups or sorts, it notes for itself in flags by what, which
// counts for nothing.
func replan(r *wire.Result, want []wire.Column, shown [][]wire.Column) {
	columns := slices.Clone(r.Columns)
	for i := range columns {
		c, w := &columns[i], &want[i]
		if c.OrgTable == "" && w.OrgTable == "" && (w.OrgName == "" || w.OrgName == w.Name) && (c.OrgName == "" || c.OrgName == c.Name) {
			c.OrgName = w.OrgName // an expression's, of itself or as a temporary table's column
		}
		internal := uint16(gomysql.GROUP_FLAG)
		if (c.Flags|w.Flags)&(gomysql.PRI_KEY_FLAG|gomysql.UNIQUE_KEY_FLAG|multipleKeyFlag) == 0 {
			internal |= gomysql.PART_KEY_FLAG // of a temporary table's key
		}
		if c.OrgTable == "" && w.OrgTable == "" {
			if n := intBytes(w.Type); c.Type != w.Type && n > 0 && intBytes(c.Type) > 0 {
				if r.Binary {
					r.Rows = resized(r.Rows, i, c, n)
				}
				c.Type = w.Type // an INT or YEAR may be a BIGINT or INT in a temporary table
			}
			if !isText(c.Type) {
				internal |= gomysql.BINARY_FLAG // of a number's expression, not of a temporary table's column
			}
		}
		c.Flags ^= (c.Flags ^ w.Flags) & internal
		for _, s := range shown {
			if len(s) != len(columns) {
				continue
			}
			o := &s[i]
			if o.Schema == w.Schema && o.Table == w.Table && o.OrgTable == w.OrgTable && o.OrgName == w.OrgName {
				c.Schema, c.Table, c.OrgTable, c.OrgName = o.Schema, o.Table, o.OrgTable, o.OrgName
			}
			if o.Type == w.Type && isText(o.Type) && isText(c.Type) {
				c.Type = o.Type
			}
			if o.Length == w.Length {
				c.Length = o.Length
			}
			if o.Decimals == w.Decimals {
				c.Decimals = o.Decimals
			}
			differ := c.Flags ^ w.Flags
			c.Flags ^= differ &^ (o.Flags ^ w.Flags)
		}
	}
	r.Columns = columns
}

func isText(typ byte) bool {
	switch typ {
	case gomysql.MYSQL_TYPE_VAR_STRING, gomysql.MYSQL_TYPE_STRING, gomysql.MYSQL_TYPE_VARCHAR, gomysql.MYSQL_TYPE_BLOB, gomysql.MYSQL_TYPE_LONG_BLOB, gomysql.MYSQL_TYPE_MEDIUM_BLOB:
		return true
	}
	return false
}

// multipleKeyFlag is a column's that is the first in a key that is not unique.
const multipleKeyFlag = 8

// intBytes is how many bytes an integer type has in the binary protocol, 0 for
// another type.
func intBytes(typ byte) int {
	switch typ {
	case gomysql.MYSQL_TYPE_TINY:
		return 1
	case gomysql.MYSQL_TYPE_SHORT, gomysql.MYSQL_TYPE_YEAR:
		return 2
	case gomysql.MYSQL_TYPE_INT24, gomysql.MYSQL_TYPE_LONG:
		return 4
	case gomysql.MYSQL_TYPE_LONGLONG:
		return 8
	}
	return 0
}

// resized are binary rows with the integer column i, which is described by c,
// in n bytes. A value that does not fit changes, and so is seen as wrong.
func resized(rows [][][]byte, i int, c *wire.Column, n int) [][][]byte {
	out := make([][][]byte, len(rows))
	for k, row := range rows {
		out[k] = slices.Clone(row)
		cell := row[i]
		if len(cell) == 0 {
			continue
		}
		fill := byte(0)
		if c.Flags&gomysql.UNSIGNED_FLAG == 0 && cell[len(cell)-1] >= 0x80 {
			fill = 0xff
		}
		wide := [8]byte{fill, fill, fill, fill, fill, fill, fill, fill}
		copy(wide[:], cell)
		out[k][i] = binary.LittleEndian.AppendUint64(nil, binary.LittleEndian.Uint64(wide[:]))[:n]
	}
	return out
}
