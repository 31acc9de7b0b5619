package router

import "braid/conf"

// Flavour is which server family the nodes of a database are (rule K4: one).
type Flavour uint8

const (
	MySQL Flavour = iota
	MariaDB
)

func (f Flavour) String() string { return [...]string{"MySQL", "MariaDB"}[f] }

// Topology is everything the router knows: immutable, part of one generation.
type Topology struct {
	Databases map[string]*Database // by name, as configured (names are case-sensitive)
}

// Database is one logical database: its shards and its tables.
type Database struct {
	Name    string
	Flavour Flavour
	Shards  []Shard
	Tables  map[string]*Table // by name as the node has it
	// LowerCase says that the nodes compare table names without regard to case
	// (lower_case_table_names != 0); Tables is then keyed by lower case.
	LowerCase bool
	// Default is where tables go that the configuration does not list: "single" or "hash".
	Default string
	// Placements are the configured tables, by name as in Tables, whether they exist or not.
	Placements map[string]Placement
	// Remembered are the tables that were made through Braid and that the
	// configuration need not name, with the rules that they were made by. Those
	// that it does name are as it says.
	Remembered []conf.Table
	// Rules are the rules of all tables in Placements, by the same names.
	Rules map[string]conf.Table
	// SamePhysical says that every shard's schema has the database's own name,
	// so that qualified names need no rewriting.
	SamePhysical bool
}

// Placement is where the configuration puts a table.
type Placement struct {
	Kind  TableKind
	Shard int      // Single
	Key   []string // Sharded

	Function    string // Sharded: "hash", "mod", "range" or "list"; "" where Colocated says it
	Colocated   string // Sharded: the table whose rule it has
	UniqueCheck string // what unique keys without the sharding key are: "none" accepted, "lock" locked
	Sequence    string // "block", "snowflake" or "" (what fits)

	// Remembered says that no configuration names the table; Unfit why its rule
	// cannot be followed any more.
	Remembered bool
	Unfit      string
}

// Shard is a shard as the router needs it: names only.
type Shard struct {
	Name   string
	Node   string
	Schema string // the physical schema on the node
}

// TableKind is where a table's rows are.
type TableKind uint8

const (
	Sharded TableKind = iota
	Global            // a full copy on every shard
	Single            // all rows on one shard
)

func (k TableKind) String() string { return [...]string{"sharded", "global", "single"}[k] }

// Table is one table (or view) and where its rows are.
type Table struct {
	Name    string
	Kind    TableKind
	Rule    *Rule // Sharded
	Shard   int   // Single: index into Database.Shards
	Columns []Column
	Primary []int   // indexes into Columns; nil when none
	Uniques [][]int // every other unique key
	// Indexes are the columns of every index, the primary key's and the unique
	// ones' too, as far as they are whole columns.
	Indexes [][]int
	View    bool
	// Definition is a view's SELECT, as the node prints it; "" when it may not be read.
	Definition string
	// Collation is collation_connection of the session that made the view, which its
	// texts have.
	Collation string
	// Snapshots says that its engine reads from the snapshot of a transaction.
	Snapshots bool
	// Temporary says that it is the session's own, on one connection.
	Temporary bool
	// AutoIncrement is the index of the AUTO_INCREMENT column, or -1.
	AutoIncrement int
	// Sequence is where the ids of a table on several shards come from:
	// "block", "snowflake", or "" where the node itself counts.
	Sequence string
	// Broken says why no statement may use the table ("is missing on shard s2"),
	// except to change the schema; "" when all is well.
	Broken string
	// Linked says that the table has foreign keys, is referred to by one, or has
	// triggers: its rows cannot be taken out and put in again unnoticed.
	Linked bool
	// Triggers says that it has triggers.
	Triggers bool
	// TriggerNames are their names.
	TriggerNames []string
	// Unchecked are the constraints that no shard can enforce for the whole
	// table, each with the reason.
	Unchecked []string
	// Locked are the unique keys whose values are locked and looked for on all
	// shards; Unlockable says why no statement may write values into the table: of one
	// of them they cannot be.
	Locked     []UniqueKey
	Unlockable string
	byName     map[string]int // lower-cased column name -> index
}

// Column is a column as information_schema.COLUMNS describes it.
type Column struct {
	Name       string
	DataType   string // "int", "varchar", "decimal", ... lower case
	ColumnType string // "int(10) unsigned", "enum('a','b')"
	Charset    string // "" for no character set
	Collation  string
	Nullable   bool
	Default    *string
	Extra      string // "auto_increment", "VIRTUAL GENERATED", ...
	Position   int
}

// Unsigned tells whether the column is an unsigned number.
func (c *Column) Unsigned() bool { return hasWord(c.ColumnType, "unsigned") }

// Rule is how a sharding key's value chooses the shard. Tables that are
// co-located share one Rule value (and have their own Keys). Whoever builds one
// calls Compile before using or sharing it.
type Rule struct {
	Group    string // tables with the same Group and equal key values share a shard
	Function Function
	Keys     []int    // key columns: indexes into the table's Columns
	Columns  []Column // the key columns themselves
	Shards   int      // number of shards
	// SlotShard maps each of the 16384 slots to a shard (FunctionHash).
	SlotShard []uint16
	Ranges    []Range        // FunctionRange, ascending
	List      map[string]int // FunctionList: key as the operator wrote it -> shard
	Flavour   Flavour

	program *keyProgram // made by Compile
}

// Function is a sharding function.
type Function uint8

const (
	FunctionHash Function = iota
	FunctionMod
	FunctionRange
	FunctionList
)

func (f Function) String() string { return [...]string{"hash", "mod", "range", "list"}[f] }

// Range gives keys below LessThan to Shard; Unbounded: every key from here on.
type Range struct {
	LessThan  string
	Unbounded bool
	Shard     int
}

// Slots is the number of hash slots. It can never change (rule K3).
const Slots = 16384
