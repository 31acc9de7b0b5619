package router

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"
	"github.com/pingcap/tidb/pkg/parser/ast"

	"braid/internal/mysql"
)

// UniqueKey is a unique key without the sharding key, of a table with
// unique_check = "lock": its values are locked and looked for on all shards.
// It is immutable.
type UniqueKey struct {
	Name    string
	Columns []int // indexes into the table's Columns

	parts []keyColumn
}

// UniqueValue is a value that a statement writes into a UniqueKey.
type UniqueValue struct {
	Key *UniqueKey
	// Slot is that of the value among UniqueSlots: values that are equal have one.
	Slot int
	// Match is the condition that a row holds the value.
	Match string

	joined  string   // equal for equal values
	spelled []string // by column: text as the statement has it in utf8mb4; "" where that does not matter
}

// Shown is the value as error 1062 shows it, where row is a row's that is equal,
// of columns that were read as text in utf8mb4.
func (v *UniqueValue) Shown(t *Table, row []Value) string {
	parts := make([]string, len(row))
	for i := range row {
		c := &t.Columns[v.Key.Columns[i]]
		switch row[i].Kind {
		case ValueInt:
			parts[i] = strconv.FormatInt(row[i].Int, 10)
		case ValueUint:
			parts[i] = strconv.FormatUint(row[i].Uint, 10)
		default:
			parts[i] = string(row[i].Bytes)
		}
		switch v.Key.parts[i].kind {
		case keyText:
			if parts[i] = cmp.Or(v.spelled[i], parts[i]); c.DataType == "char" {
				parts[i] = strings.TrimRight(parts[i], " ")
			}
		case keyBinary:
			parts[i] = escaped(parts[i], c.DataType == "binary")
		}
	}
	return strings.Join(parts, "-")
}

// escaped is a binary string as the servers' errors show it.
func escaped(s string, fixed bool) string {
	if fixed {
		s = strings.TrimRight(s, "\x00")
	}
	var b strings.Builder
	for i := range len(s) {
		if s[i] >= 0x20 && s[i] < 0x7f {
			b.WriteByte(s[i])
		} else {
			fmt.Fprintf(&b, "\\x%02X", s[i])
		}
	}
	return b.String()
}

// Same tells whether two values of one statement are equal.
func (v *UniqueValue) Same(o *UniqueValue) bool { return v.Key == o.Key && v.joined == o.joined }

// UniqueSlots is how many locks the values of all unique keys share.
const UniqueSlots = 1 << 16

const lockedKeys = ` (unique_check = "lock")`

// lockKeys notes the unique keys of a table whose values are to be locked.
func (b *builder) lockKeys(t *Table, info TableInfo) {
	for _, k := range info.indexes {
		var columns []string
		for _, c := range k.columns {
			if c >= 0 {
				columns = append(columns, t.Columns[c].Name)
			}
		}
		if !k.unique || uniqueProblem(k.name, columns, names(t.Rule.Columns)) == "" {
			continue
		}
		key := UniqueKey{Name: k.name, Columns: k.columns}
		why := ""
		for _, c := range k.columns {
			if c < 0 {
				why = "it holds the beginning of a column, or an expression"
				break
			}
			col := &t.Columns[c]
			part, err := newKeyColumn(col, b.db.Flavour)
			switch {
			case err != nil:
				why = strings.ReplaceAll(err.Error(), "be a sharding key", "be in it")
			case strings.Contains(strings.ToLower(col.Extra), "on update"):
				why = "the node changes its column " + col.Name
			case slices.ContainsFunc(info.foreign, func(f foreignKey) bool {
				return slices.ContainsFunc(f.columns, func(n string) bool { return strings.EqualFold(n, col.Name) })
			}):
				why = "a foreign key may change its column " + col.Name
			}
			key.parts = append(key.parts, part)
		}
		b.locks = true
		if why != "" {
			t.Unlockable = fmt.Sprintf("the unique key %s cannot be locked over shards: %s", k.name, why)
			t.Unchecked = append(t.Unchecked, t.Unlockable)
			continue
		}
		t.Locked = append(t.Locked, key)
	}
}

// lockable refuses a statement that writes values of a table whose unique keys
// Braid locks, where it would not know of all of them.
func (t *Table) lockable(verb string) *mysql.Error {
	switch {
	case t.Unlockable != "":
		return refuse(verb + " of " + t.Name + ": " + t.Unlockable)
	case len(t.Locked) > 0 && t.Triggers:
		return refuse(verb + " of " + t.Name + ", which has triggers and locked unique keys" + lockedKeys)
	}
	return nil
}

// lockableInsert refuses forms of INSERT that may meet a row of another shard.
func (t *Table) lockableInsert(f *found, stmt *ast.InsertStmt) *mysql.Error {
	if err := t.lockable("INSERT"); err != nil || len(t.Locked) == 0 {
		return err
	}
	form := ""
	switch {
	case stmt.IsReplace:
		form = "REPLACE"
	case stmt.IgnoreErr:
		form = "INSERT IGNORE"
	case len(stmt.OnDuplicate) > 0:
		form = "INSERT ... ON DUPLICATE KEY UPDATE"
	case hasReturning(f.shape):
		form = "INSERT ... RETURNING"
	default:
		return nil
	}
	return refuse(form + " into " + t.Name + ", where the row of an equal unique key may be on another shard" + lockedKeys)
}

// lockedColumns are the columns of the keys that are locked, each once.
func (t *Table) lockedColumns() []int {
	var out []int
	for i := range t.Locked {
		for _, c := range t.Locked[i].Columns {
			if !slices.Contains(out, c) {
				out = append(out, c)
			}
		}
	}
	return out
}

// uniqueWrite is what a plan writes into unique keys that are locked.
type uniqueWrite struct {
	db     *Database
	table  *Table
	insert *insertBody     // INSERT: the rows' operands are in it
	set    map[int]operand // UPDATE: by column
	keys   []*UniqueKey    // UPDATE: those that are written
}

// UniqueTable is the table with Route.Unique's keys.
func (p *Plan) UniqueTable() *Table { return p.unique.table }

// uniqueUpdate tells what an UPDATE writes into locked unique keys; nil when
// nothing. It refuses what is not known before the rows are read.
func (a *analysis) uniqueUpdate(f *found, b *block, stmt *ast.UpdateStmt, w *change) (*uniqueWrite, *mysql.Error) {
	for _, x := range w.writes {
		t := x.ref.table
		if err := t.lockable("UPDATE"); err != nil {
			return nil, err
		}
		u := &uniqueWrite{db: f.db, table: t, set: map[int]operand{}}
		for i := range t.Locked {
			k := &t.Locked[i]
			if !slices.ContainsFunc(k.Columns, func(c int) bool { return slices.Contains(x.set, c) }) {
				continue
			}
			for _, c := range k.Columns {
				if !slices.Contains(x.set, c) {
					return nil, refuse("UPDATE of a part of the unique key " + t.Name + "." + k.Name + lockedKeys)
				}
			}
			u.keys = append(u.keys, k)
		}
		if u.keys == nil {
			continue
		}
		if len(f.refs) != 1 || w.bounded || w.ignore || len(f.assigns) > 0 || f.setsID {
			return nil, refuse("UPDATE of the unique key " + t.Name + "." + u.keys[0].Name + " with other tables, LIMIT, IGNORE or variables" + lockedKeys)
		}
		for _, s := range stmt.List {
			c := f.resolve(b, s.Column)
			if c.ref == nil || !slices.ContainsFunc(u.keys, func(k *UniqueKey) bool { return slices.Contains(k.Columns, c.col) }) {
				continue
			}
			o, ok := f.operand(s.Expr, true)
			if !ok {
				return nil, refuse("an expression as the new value of the unique key column " + t.Name + "." + t.Columns[c.col].Name + lockedKeys)
			}
			u.set[c.col] = o
		}
		return u, nil
	}
	return nil, nil
}

// bind puts the values that an execution writes into the route.
func (u *uniqueWrite) bind(q *Query, r *Route) error {
	if q.Prepared && len(q.Params) == 0 && len(q.Literals) > 0 && slices.ContainsFunc(q.Literals, func(l Literal) bool { return l.Class == ClassParam }) {
		return nil // preparing: no values yet
	}
	ctx := q.KeyContext()
	if u.insert == nil {
		ctx.Strict = true // NULL for a NOT NULL column: see value
		for _, k := range u.keys {
			vals := make([]Value, len(k.Columns))
			for i, c := range k.Columns {
				o := u.set[c]
				v, ok := value(q, &o, 0)
				if !ok || v.Kind == ValueNull && !u.table.Columns[c].Nullable {
					return u.unknown(k, c)
				}
				vals[i] = v
			}
			if err := u.value(q, r, k, vals, ctx); err != nil {
				return err
			}
		}
		return nil
	}
	n, folded := u.insert.number(q)
	if n == 1 {
		ctx.Strict = true // as in insertBody.bind
	}
	for i := range n {
		if q.Row > 0 && i != q.Row-1 {
			continue
		}
		row, fold, first := u.insert.row(i, folded)
		for j := range u.table.Locked {
			k := &u.table.Locked[j]
			vals := make([]Value, len(k.Columns))
			for at, c := range k.Columns {
				o := row.unique[c]
				v, ok := u.insert.value(q, &o, row, i, fold, first)
				if !ok {
					return u.unknown(k, c)
				}
				vals[at] = v
			}
			if err := u.value(q, r, k, vals, ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

func (u *uniqueWrite) unknown(k *UniqueKey, col int) error {
	return refuse("this value for the column " + u.table.Name + "." + u.table.Columns[col].Name + " of the unique key " + k.Name + lockedKeys)
}

// value adds the value of a key, unless it is NULL somewhere: NULLs do not meet.
func (u *uniqueWrite) value(q *Query, r *Route, k *UniqueKey, vals []Value, ctx KeyContext) error {
	var key []byte
	var match []string
	spelled := make([]string, len(k.parts))
	for i := range k.parts {
		c := &k.parts[i]
		at := len(key)
		var null bool
		var err error
		if key, null, err = c.assign(append(key, 0, 0), &vals[i], &ctx); err != nil {
			return u.unknown(k, k.Columns[i])
		}
		if null {
			return nil
		}
		m, ok := c.match(&u.table.Columns[k.Columns[i]], &vals[i], key[at+2:], &ctx)
		if !ok {
			return u.unknown(k, k.Columns[i])
		}
		match = append(match, m)
		if c.kind == keyText && vals[i].Kind == ValueString && (isASCII(vals[i].Bytes) || vals[i].Charset == "utf8mb4") {
			spelled[i] = string(vals[i].Bytes)
		}
		key = sealPart(key, at, c.tag(), false)
	}
	joined := string(key)
	slot := xxhash.Sum64String(u.db.Name + "\x00" + u.table.Name + "\x00" + k.Name + "\x00" + joined)
	for i := range k.parts {
		if k.parts[i].kind == keyBinary && !k.parts[i].fixed {
			joined += match[i] // whose trailing zero bytes count
		}
	}
	r.Unique = append(r.Unique, UniqueValue{Key: k, Slot: int(slot % UniqueSlots), Match: "(" + strings.Join(match, " AND ") + ")", joined: joined, spelled: spelled})
	return nil
}

// match is the condition that the column holds what is stored for v, whose
// canonical bytes are given: a comparison by the column's own type and collation.
// Text that is cut when it is stored meets no row. ok is false for values that
// it cannot tell of.
func (c *keyColumn) match(col *Column, v *Value, canonical []byte, ctx *KeyContext) (text string, ok bool) {
	name := quoteIdent(col.Name)
	switch c.kind {
	case keyInteger, keyDecimal:
		return name + "=" + string(canonical), true
	case keyDate, keyDatetime:
		return name + "='" + string(canonical) + "'", true
	}
	asText := *v
	switch v.Kind {
	case ValueString:
		if v.Charset == "" || !isASCII(v.Bytes) && ctx.Connection != "" && ctx.Connection != v.Charset {
			return "", false
		}
	case ValueInt, ValueUint:
		digits, _ := appendValue(nil, *v)
		asText = Value{Kind: ValueString, Charset: "utf8mb4", Bytes: digits}
	case ValueHexX, ValueHex0, ValueBit:
		if c.kind == keyText {
			return "", false
		}
		asText = Value{Kind: ValueString, Bytes: v.Bytes}
	default:
		return "", false
	}
	if c.kind == keyBinary {
		asText.Charset, asText.Bytes = "binary", slices.Clone(asText.Bytes)
		for c.fixed && len(asText.Bytes) < c.length {
			asText.Bytes = append(asText.Bytes, 0)
		}
	}
	lit, ok := appendValue(nil, asText)
	if !ok {
		return "", false
	}
	if c.kind == keyBinary {
		return name + "=" + string(lit), true
	}
	return name + "=CONVERT(" + string(lit) + " USING " + col.Charset + ") COLLATE " + col.Collation, true
}
