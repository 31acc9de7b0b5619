package router

import (
	"errors"
	"fmt"
	"slices"

	"braid/internal/mysql"

	"github.com/cespare/xxhash/v2"
)

// ErrNotDecidable says that Braid does not know for certain what a node would
// store for a value, and so not which shard the row belongs to. The planner
// answers the client with error 1235.
var ErrNotDecidable = errors.New("the sharding key's value cannot be converted exactly as the server would")

// KeyContext is what the conversion of a key's value depends on besides the
// column and the value.
type KeyContext struct {
	// Connection is character_set_connection; "" when it is the client's.
	Connection string
	// Strict says that a value that does not fit is refused by the node: sql_mode
	// has STRICT_TRANS_TABLES or STRICT_ALL_TABLES and the statement no IGNORE.
	Strict bool
	// NoAutoValueOnZero is the sql_mode: 0 in an AUTO_INCREMENT column is stored.
	NoAutoValueOnZero bool
	// Mixed says that the value stands in an IN list of values of several kinds,
	// which the server may compare as floating-point numbers.
	Mixed bool
	// Rows says that the value stands in a list of rows, (a,b) IN ((1,2), ...).
	Rows bool
}

// KeyContext is the context of q's session. A statement with IGNORE clears Strict;
// a list of several kinds of values sets Mixed.
func (q *Query) KeyContext() KeyContext {
	return KeyContext{
		Connection:        q.Connection,
		Strict:            q.Mode&ModeStrict != 0,
		NoAutoValueOnZero: q.Mode&ModeNoAutoValueOnZero != 0,
	}
}

// keyProgram is a Rule made ready for use.
type keyProgram struct {
	columns []keyColumn
	bounds  [][]byte // FunctionRange: canonical LessThan of each range but an unbounded last one
	list    map[string]int
}

// Compile checks the rule and makes it ready for Assign, Compare and
// CompareRange. Whoever builds a Rule calls it once, before the rule is shared;
// afterwards the rule is immutable.
func (r *Rule) Compile() error {
	p := &keyProgram{}
	if len(r.Columns) == 0 || r.Shards < 1 {
		return errors.New("a sharding rule needs a key column and a shard")
	}
	for i := range r.Columns {
		c, err := newKeyColumn(&r.Columns[i], r.Flavour)
		if err != nil {
			return err
		}
		p.columns = append(p.columns, c)
	}
	var err error
	switch r.Function {
	case FunctionHash:
		err = r.checkSlots()
	case FunctionMod:
		if len(p.columns) != 1 || p.columns[0].kind != keyInteger {
			err = errors.New(`sharding function "mod" needs one integer key column`)
		}
	case FunctionRange:
		err = r.compileRanges(p)
	case FunctionList:
		err = r.compileList(p)
	default:
		err = fmt.Errorf("unknown sharding function %d", r.Function)
	}
	if err != nil {
		return err
	}
	r.program = p
	return nil
}

func (r *Rule) checkSlots() error {
	if len(r.SlotShard) != Slots {
		return fmt.Errorf("a hash rule needs a shard for each of %d slots, not for %d", Slots, len(r.SlotShard))
	}
	for slot, s := range r.SlotShard {
		if int(s) >= r.Shards {
			return fmt.Errorf("slot %d belongs to shard number %d of %d", slot, s, r.Shards)
		}
	}
	return nil
}

// Assign returns the one shard of a row whose key columns are given vals, one
// for each of r.Columns in order. It follows the server's conversion by
// assignment as if sql_mode were not strict: where a strict node refuses the
// value, it refuses it on that shard like on any other.
//
// Errors: ErrNotDecidable (wrapped, with the column's name); *mysql.Error 1526
// for a key that belongs to no range or list part.
func (r *Rule) Assign(vals []Value, ctx KeyContext) (shard int, err error) {
	p := r.program
	if p == nil || len(vals) != len(p.columns) {
		return 0, errors.New("sharding rule: Compile was not called, or a wrong number of key values")
	}
	var memory [128]byte
	key := memory[:0]
	for i := range p.columns {
		c := &p.columns[i]
		at := len(key)
		var null bool
		if key, null, err = c.assign(append(key, 0, 0), &vals[i], &ctx); err != nil {
			return 0, err
		}
		key = sealPart(key, at, c.tag(), null)
	}
	return r.shardOf(key)
}

// Compare returns the shards that can hold a row whose key columns compare equal
// to vals: the server's = between each column and that kind of literal. The set
// is empty when no row can (k = NULL, an integer beyond the column's range), and
// full when it cannot be told.
func (r *Rule) Compare(vals []Value, ctx KeyContext) ShardSet {
	p := r.program
	if p == nil || len(vals) != len(p.columns) {
		return AllShards(r.Shards)
	}
	var memory [128]byte
	key := memory[:0]
	all := false
	for i := range p.columns {
		c := &p.columns[i]
		at := len(key)
		var m match
		switch key, m = c.compare(append(key, 0, 0), &vals[i], &ctx); m {
		case matchNone:
			return NoShards(r.Shards)
		case matchAll:
			all = true
		}
		key = sealPart(key, at, c.tag(), false)
	}
	if all {
		return AllShards(r.Shards)
	}
	shard, err := r.shardOf(key)
	if err != nil {
		return NoShards(r.Shards) // a key that no row can have
	}
	return OneShard(r.Shards, shard)
}

// The joined key is for each column: a tag, the length of its canonical bytes,
// and these bytes. Two bytes are kept free for tag and length while the bytes
// are made; a longer length moves them.

// sealPart fills in tag and length of the part that begins at key[at].
func sealPart(key []byte, at int, tag byte, null bool) []byte {
	if null {
		tag = 'N'
	}
	n := len(key) - at - 2
	key[at] = tag
	if n < 0x80 {
		key[at+1] = byte(n)
		return key
	}
	var length []byte
	for u := uint(n); ; u >>= 7 {
		if u < 0x80 {
			length = append(length, byte(u))
			break
		}
		length = append(length, byte(u)|0x80)
	}
	return slices.Replace(key, at+1, at+2, length...)
}

// tag is the mark of the column's kind in the joined key.
func (c *keyColumn) tag() byte {
	switch c.kind {
	case keyInteger, keyDecimal:
		return 'n'
	case keyBinary:
		return 'b'
	case keyDate:
		return 'd'
	case keyDatetime:
		return 't'
	}
	return 's'
}

// Slot is the slot of a joined key.
func Slot(key []byte) int { return int(xxhash.Sum64(key) % Slots) }

// shardOf returns the shard of a joined key.
func (r *Rule) shardOf(key []byte) (int, error) {
	if r.Function == FunctionHash {
		return int(r.SlotShard[Slot(key)]), nil
	}
	value, null := onlyPart(key)
	switch r.Function {
	case FunctionMod:
		if null {
			return 0, nil
		}
		return modShard(value, r.Shards), nil
	case FunctionRange:
		if null {
			return r.Ranges[0].Shard, nil
		}
		if i := r.rangeOf(value); i < len(r.Ranges) {
			return r.Ranges[i].Shard, nil
		}
	case FunctionList:
		if s, ok := r.program.list[string(value)]; ok && !null {
			return s, nil
		}
	}
	shown := "NULL"
	if !null {
		shown = string(value)
	}
	return 0, mysql.Errorf(1526, "Table has no partition for value %s", shown)
}

// onlyPart returns the canonical bytes of a key of one column.
func onlyPart(key []byte) (value []byte, null bool) {
	i := 1
	for key[i]&0x80 != 0 {
		i++
	}
	return key[i+1:], key[0] == 'N'
}

// modShard is the non-negative remainder of a canonical integer.
func modShard(number []byte, shards int) int {
	neg := number[0] == '-'
	if neg {
		number = number[1:]
	}
	rest := uint64(0)
	for _, c := range number {
		rest = (rest*10 + uint64(c-'0')) % uint64(shards)
	}
	if neg && rest != 0 {
		rest = uint64(shards) - rest
	}
	return int(rest)
}
