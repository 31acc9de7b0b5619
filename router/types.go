package router

import (
	"braid/merge"
)

// Class is what kind of literal stands in a hole of a digest. It is part of
// the digest (rule D1).
type Class byte

const (
	ClassInt    Class = 'i' // 42
	ClassDec    Class = 'd' // 4.2
	ClassFloat  Class = 'f' // 4.2e0
	ClassString Class = 's' // 'x', "x" without ANSI_QUOTES, adjacent strings as one
	ClassHexX   Class = 'x' // x'2A'
	ClassHex0   Class = 'h' // 0x2A
	ClassBit    Class = 'b' // b'101', 0b101
	ClassNation Class = 'n' // N'x'
	ClassParam  Class = '?' // a prepared statement's parameter
)

// Literal is one literal in a statement's text: Text[Start:End], quotes and
// prefixes included.
type Literal struct {
	Class      Class
	Start, End int32
}

// Hole is a place of a digest: one literal, or a folded list of literals of
// one class (an IN list), written with commas. Query.HoleBytes gives its text.
type Hole struct {
	First, N int32 // Literals[First:First+N]
}

// RowsFold is a folded VALUES list: two or more rows of the same shape. Row r's
// literals are Literals[First+r*PerRow : First+(r+1)*PerRow]; only the first row
// stands in the digest, where its holes are FirstHole ... FirstHole+PerRow-1.
// Query.RowBytes gives a row's text. PerRow is never 0.
type RowsFold struct {
	Start               int32 // of the first row's "(" in the text
	First, PerRow, Rows int32
	FirstHole           int32
	SepStart, SepEnd    int32 // text between the first two rows (a comma and blanks); SepStart is the first row's end
}

// Mode is the part of sql_mode (and of the session) that changes how text is read.
type Mode uint8

const (
	ModeAnsiQuotes Mode = 1 << iota
	ModeNoBackslashEscapes
	ModePipesAsConcat
	ModeHighNotPrecedence
	ModeIgnoreSpace
	// ModeStrict: STRICT_TRANS_TABLES or STRICT_ALL_TABLES. It does not change how
	// text is read, but whether a node refuses a key's value.
	ModeStrict
	ModeNoAutoValueOnZero // 0 in an AUTO_INCREMENT column is stored
)

// Query is one statement as the client sent it, with what its meaning depends
// on. It belongs to one session, which reuses it; nothing keeps a reference.
type Query struct {
	Text     []byte
	Database string // the session's current database; "" when none
	Mode     Mode
	Charset  string // character_set_client, lower case
	// Connection is character_set_connection, lower case; "" when it is Charset.
	Connection string
	// Prepared says that ? is a parameter. Params are the values of one
	// execution (len 0 while preparing).
	Prepared bool
	Params   []Param
	Facts    *Facts // read by Bind; never nil
	Hints    Hints  // of Text: ReadHints
	// KeyStays says that an UPDATE is known to leave its rows on their shards,
	// although it sets a sharding key. Its plan is not cached.
	KeyStays bool
	// ByRow makes each row of an INSERT on several shards a target of its own, in
	// the statement's order.
	ByRow bool
	// Selects writes a row of an INSERT that is alone in its target as INSERT ...
	// SELECT, which converts a NULL for a NOT NULL column where sql_mode is not strict, as
	// an INSERT of several rows does and one of a single row does not.
	Selects bool
	// Row, counted from 1, binds that row of an INSERT alone, as with ByRow; 0: all.
	Row int
	// Made is what Plan.Needs asked for; nil when it asked for nothing. It is of
	// one execution.
	Made *Made

	// Filled by Scan; valid until the next Scan.
	Digest   []byte
	Hash     uint64
	Literals []Literal
	Holes    []Hole
	Rows     RowsFold // Rows.Rows == 0: no folded VALUES list

	scratch []byte
}

// Param is a prepared statement's parameter as one execution gives it.
type Param struct {
	Type     byte // go-mysql's MYSQL_TYPE_*
	Unsigned bool
	Null     bool
	// Value is the parameter's value in binary-protocol form, without the
	// length prefix for strings: little-endian integers and floats, the
	// length-less fields for dates and times, the bytes for the rest.
	Value []byte
}

// Kind is what kind of plan runs a statement (architecture: "Plan kinds").
type Kind uint8

const (
	// KindLocal: the proxy answers from session and schema (Plan.Local).
	KindLocal Kind = iota
	// KindAny: no table of the database is touched; any one shard answers.
	KindAny
	// KindSingle: whatever the values, one shard (a single or global table).
	KindSingle
	// KindScatter: a read; the values decide whether one shard or several.
	KindScatter
	// KindWrite: UPDATE, DELETE, or a one-statement-per-shard INSERT; the values decide.
	KindWrite
	// KindBroadcast: to every shard of the database: DDL, writes to global tables.
	KindBroadcast
	// KindRefuse: Plan.Err is the answer.
	KindRefuse
)

func (k Kind) String() string {
	return [...]string{"local", "any", "single", "scatter", "write", "broadcast", "refuse"}[k]
}

// Target is one shard and the text it gets.
type Target struct {
	Shard int    // index into Database.Shards
	Text  []byte // the statement for the shard; aliases Query.Text when nothing had to change
	// Params says which parameters a prepared statement's text takes, in order;
	// nil: all, as the client sent them.
	Params []ParamRef
	// Same says that Text is the client's own, byte for byte.
	Same bool
	// Rows is the number of rows of an INSERT or REPLACE with VALUES into a sharded
	// table; 0 otherwise. First and Last are the places of its first and its last
	// row among the statement's.
	Rows, First, Last int
}

// ParamRef is a parameter of a target's text: the client's parameter Index, or,
// when Index is -1, the unsigned number Value (a computed LIMIT).
type ParamRef struct {
	Index int
	Value uint64
}

// Route is a plan bound to one execution's values. It belongs to one session,
// which reuses it; the texts live until the next Bind into it.
type Route struct {
	Targets []Target
	// Merge is how the targets' rows are combined; nil when there is one target,
	// or when there are no rows.
	Merge *merge.Spec
	Limit merge.Limit // applied by the merge
	// Described says that the targets' texts are so unlike the client's that the
	// definitions of their columns are others: those of the text that Plan.Describe
	// gives are the answer's.
	Described bool
	// Evaluate is set when the merged rows are groups over which a server evaluates the
	// client's expressions; nil: the merged rows are the client's.
	Evaluate *Evaluate
	// Gather is set, and Targets is empty, when rows of several shards have to meet.
	Gather *Gather
	// Any says that every shard would answer alike, so that Targets[0].Shard is
	// only a proposal: a transaction may prefer a shard it has a leg on.
	Any bool
	// Steps is set, and Targets is empty, when a write has to read first.
	Steps *Steps
	// FirstID is the first id that Braid gave to a row of an INSERT; 0: none.
	FirstID uint64
	// Unique are the values that the statement writes into unique keys whose values
	// are locked.
	Unique []UniqueValue

	pages *paged // how shards of one node can be read in pages; nil: they cannot
	paged bool   // they are

	buf    []byte
	params []ParamRef
	places []int32
	owners []ShardSet // of each literal of an IN list that is split
}
