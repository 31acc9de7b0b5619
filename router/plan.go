package router

import (
	"strings"

	"braid/conf"
	"braid/internal/mysql"
)

// Plan is the immutable answer to "how is this shape of statement run". It is
// shared by all sessions that send the shape. String prints it: the print is
// EXPLAIN's, the admin port's and the golden files'.
type Plan struct {
	Kind   Kind
	Digest string
	// Database is the logical database whose shards the targets count; "" when the
	// statement needs none (KindAny without a database: any node will do).
	Database string
	Err      *mysql.Error // KindRefuse
	Local    *Local       // KindLocal
	Load     *Load        // LOAD DATA LOCAL: run by the proxy without Bind
	Handler  *Handler     // HANDLER: KindSingle
	DDL      *DDL         // KindBroadcast or KindSingle, for statements that change the schema

	Verb string // "SELECT", "INSERT", "UPDATE", ... for metrics and for ROW_COUNT()
	// Rows says that the statement answers with a result set.
	Rows bool
	// Writer says that its leg becomes a writer (rule T12): writes, locking reads, CALL.
	Writer bool
	// NoTables says that it touches no table, so that it opens no transaction
	// under autocommit=0 (B115).
	NoTables bool
	// Derived says that it reads derived tables or common table expressions.
	Derived bool
	// Maintenance says that it is ANALYZE, OPTIMIZE, REPAIR, CHECK, CHECKSUM or
	// FLUSH TABLE, whose answers
	// of several shards are put together.
	Maintenance bool
	// Checksum says that it is CHECKSUM TABLE. Names are the tables that it, or a
	// CHECK or FLUSH TABLE, names, nil for those that are not there.
	Checksum bool
	Names    []*Table
	// Clock says that a write asks for the time, which must then be one for all
	// shards (rule M5).
	Clock bool
	// ImplicitCommit says that MySQL commits the open transaction before it (DDL and others).
	ImplicitCommit bool
	// Temporary says that it concerns temporary tables of the session: it runs on
	// the connection that has them or not at all.
	Temporary bool
	// FoundRows says that SQL_CALC_FOUND_ROWS is in it.
	FoundRows bool
	// Assigns are the user variables that it assigns, in lower case, without @.
	Assigns []string
	// Into are the variables of SELECT ... INTO @a, @b; they are in Assigns too.
	Into []string
	// IntoLast says that the INTO stands behind a FROM, of which MariaDB warns.
	IntoLast bool
	// ReadsOwn says that it reads a session variable which the proxy keeps itself
	// and a connection has only when told: wait_timeout, interactive_timeout,
	// sql_select_limit.
	ReadsOwn bool
	// Locks says that GET_LOCK() is in it, Unlocks that RELEASE_LOCK() is, UnlocksAll
	// that RELEASE_ALL_LOCKS() is, UserLocks that any function of theirs is.
	Locks, Unlocks, UnlocksAll, UserLocks bool
	// GeneratesID says that it is an INSERT or REPLACE whose AUTO_INCREMENT column
	// is left out, so that the insert id in the node's OK is LAST_INSERT_ID()
	// (rule D7); in every other case the proxy asks the node.
	GeneratesID bool
	// SetsID says that it reads with LAST_INSERT_ID(expression) in it, which sets
	// what LAST_INSERT_ID() answers.
	SetsID bool
	// AutoIncrement says that the table written to has an AUTO_INCREMENT column
	// whose ids the node gives.
	AutoIncrement bool
	// IDs is the table of an INSERT whose ids Braid gives, nil for any other
	// statement.
	IDs *Table
	// Ignore and OnDuplicate say that an INSERT has IGNORE, and ON DUPLICATE KEY
	// UPDATE: a row that is there may stay in a new one's place.
	Ignore, OnDuplicate bool

	// Selects says that an INSERT or REPLACE has its rows from a SELECT.
	Selects bool
	// SelectsNone says that this SELECT has no tables, aggregates or windows:
	// MariaDB's FOUND_ROWS() counts none of its rows.
	SelectsNone bool
	// FirstTable is what it calls the table that it names first, "" for none: error
	// 1100 names it.
	FirstTable string

	// Qualified are the columns, as table.column, that it names with the database in
	// front and only so: a shard's text may be without, and its errors then are.
	Qualified map[string]bool

	// System are the tables of information_schema that it reads, as the client
	// spells them.
	// Before Bind, Facts.System has what stands for each.
	System []string

	unique *uniqueWrite // what it writes into unique keys that are locked; nil: nothing

	body planBody // what Bind works on; router's own
}

// Local is a statement the proxy itself carries out on the session.
type Local struct {
	Op   LocalOp
	Name string // database, savepoint, prepared statement; as OpX says

	ReadOnly, ReadWrite, Snapshot bool // OpBegin
	Chain, Release                bool // OpCommit, OpRollback

	Sets []Set // OpSet, in order

	// OpTransaction: SET [SESSION] TRANSACTION. Isolation is "" or
	// "READ-COMMITTED" ...; Access is "", "READ ONLY" or "READ WRITE".
	Session   bool
	Isolation string
	Access    string

	Show Show // OpShow
	Kill Kill // OpKill

	Locks []TableLock // OpLockTables

	From  string   // OpPrepare: the text, or "@var"
	Using []string // OpExecute: user variables' names

	Lenient bool // OpCreateDatabase, OpDropDatabase: IF [NOT] EXISTS

	Fill *Fill // OpFill

	Explain *Plan  // OpExplain: of this statement, bound at execution
	Inner   string // OpExplain: the explained statement's own text
}

// LocalOp names what a Local does.
type LocalOp uint8

const (
	OpNone LocalOp = iota // nothing: the text has only a comment (without one it is error 1065)
	OpBegin
	OpCommit
	OpRollback
	OpSavepoint        // Name
	OpRollbackTo       // Name
	OpReleaseSavepoint // Name
	OpUse              // Name
	OpSet              // Sets
	OpTransaction      // SET TRANSACTION
	OpShow             // Show
	OpKill             // Kill
	OpPrepare          // Name, From
	OpExecute          // Name, Using
	OpDeallocate       // Name
	OpExplain          // Explain, Inner: EXPLAIN of a routed statement
	OpXA               // client's own XA: Name is what stands behind the word
	OpLockTables       // Locks, Name: WAIT n or NOWAIT
	OpUnlockTables
	OpCreateDatabase // Name, which exists; Lenient
	OpDropDatabase   // Name, which does not exist; Lenient
	OpFill           // Fill, Name: CREATE TABLE ... SELECT over several shards
)

// Set is one assignment of a SET statement.
type Set struct {
	Scope SetScope
	Name  string // variable name in lower case, without @; for NAMES: "names", CHARACTER SET: "charset"
	// Text is the value's expression as SQL text, "DEFAULT" included. Literal
	// says that it is a plain literal, a bare word (SET sql_mode=ANSI) or a list of
	// such; only then is a node's answer to it the same for every session.
	Text    string
	Literal bool
	Value   string // Literal: the value without quotes
	Collate string // NAMES ... COLLATE
}

// TableLock is one table of LOCK TABLES.
type TableLock struct {
	Database string // "" for the session's
	Table    string
	Alias    string // "" for none
	Mode     string // "READ", "READ LOCAL", "WRITE" ...
}

// SetScope is which variable a SET means.
type SetScope uint8

const (
	ScopeSession SetScope = iota // SET x, SET SESSION x, SET @@session.x, SET LOCAL x
	ScopeGlobal
	ScopePersist
	ScopeUser // SET @x
	ScopePersistOnly
	ScopeNext // SET @@transaction_isolation / @@tx_isolation: the next transaction only
)

// Show is a SHOW, DESCRIBE or the like that needs the proxy's knowledge.
type Show struct {
	What     string // "databases", "tables", "full tables", "create table", "create database", "columns", "full columns", "index", "table status", "variables", "status", "warnings", "count warnings", "errors", "count errors", "processlist", "full processlist", "grants", ...
	Database string
	Table    string
	Global   bool
	Like     string // the pattern; "" when none
	HasLike  bool
	Where    string // the condition's text; "" when none
	// Text[NameAt:NameEnd] of the query is where it names Database, and
	// Text[FilterAt:] what begins with LIKE or WHERE; both 0: nowhere.
	NameAt, NameEnd int
	FilterAt        int
	Limit           string // SHOW WARNINGS LIMIT: its text
	For             string // SHOW GRANTS FOR: whom, as it is written; "" for the client itself
}

// Kill is KILL [CONNECTION | QUERY] id.
type Kill struct {
	ID    uint64
	Query bool
}

// DDL says what a schema change touches, so that the schema is read again.
type DDL struct {
	Verb   string   // "CREATE TABLE", "DROP TABLE", ...
	Tables []string // logical names, of the plan's database unless qualified
	// NewTable is the table a CREATE TABLE makes, "" otherwise.
	NewTable string
	// Fills says that a CREATE TABLE has a SELECT.
	Fills bool
	// Temporary says that the tables are temporary: no schema is to be read again.
	Temporary bool
	// New is the place of the table that is made, Dropped are those of tables that
	// are no more; single tables that the configuration names are in neither.
	// Renames are the remembered tables that get another name, old and new in turn.
	New     *TablePlace
	Dropped []TablePlace
	Renames []string
	// Undo is the statement that takes the change back where it was made, "" where
	// none does without loss. Its names have no database.
	Undo string
	// Restarts says that the tables' ids begin anew, Raises that they may begin
	// higher.
	Restarts, Raises bool
}

// TablePlace says where a table's rows are.
type TablePlace struct {
	Rule conf.Table
	// Keys are the positions of the sharding key's columns.
	Keys []int
	// Configured says that the configuration has the rule: it is not remembered.
	Configured bool
}

// planBody is the bindable part of a plan; its kinds are in the analysis.
type planBody interface {
	bind(p *Plan, q *Query, r *Route) error
	// describe gives the text for one shard, nil when it is the client's own, and
	// the shards that can prepare it.
	describe() (template, ShardSet)
	explain(b *strings.Builder)
}

// Facts are the session's own answers to functions inside a statement. The
// planner replaces DATABASE(), CONNECTION_ID(), USER() and so on by them.
type Facts struct {
	ConnectionID uint64
	User         string // user@host as the client logged in
	CurrentUser  string
	Version      string
	LastInsertID uint64
	RowCount     int64
	FoundRows    uint64
	// System is by which table expression each table of information_schema is
	// read, by name as in Plan.System.
	System     map[string]string
	Autocommit bool
	ReadFence  bool   // @@braid_read_fence
	Bare       bool   // @@resultset_metadata is NONE
	Warnings   uint16 // @@warning_count
	Errors     uint16 // @@error_count
	// LockOwners tells whose the backend connections are on which user locks are
	// held, so that IS_USED_LOCK() answers in clients' connection ids. Nil: nobody's.
	LockOwners func() []LockOwner
	// Handler finds what the session has open by HANDLER under an alias. Nil: nothing.
	Handler func(alias string) (h OpenHandler, open bool)
}

// LockOwner is a session that may hold user locks, by the ids of its own
// connection and of its backend connection.
type LockOwner struct{ Backend, Session uint64 }

// Opens tells whether a server opens tables for it, those that it makes itself
// for derived ones included. MariaDB then forgets the warnings of the statement before.
func (p *Plan) Opens() bool { return !p.NoTables || p.Derived }
