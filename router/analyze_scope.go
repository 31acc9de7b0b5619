package router

import (
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/opcode"

	"braid/internal/mysql"
)

// ref is one reference of a statement to a table.
type ref struct {
	table *Table
	name  string // what columns are qualified with
	block *block
	// inherits says that only rows on the outer row's own shard can matter, by
	// an equality of the whole sharding keys.
	inherits bool
}

// block is one SELECT (or the whole UPDATE, DELETE) with its own FROM.
type block struct {
	parent  *block
	refs    []*ref
	derived int // references to derived tables and common table expressions
	sets    []condSet
	same    map[place]place // union-find of columns that are equal where rows count
	// outerScatter says that an outer join preserves rows of a table that is
	// not sharded, or not by this key, against a sharded one.
	joins []joinCheck
	using int // columns that USING or NATURAL make one of
}

// place is a column of a ref.
type place struct {
	ref *ref
	col int
}

// condSet is a list of conditions that hold together.
type condSet struct {
	conj []ast.ExprNode
	// narrows are the refs whose rows do not matter where a condition fails;
	// nil: all of the block's.
	narrows []*ref
}

// joinCheck is an outer join: a sharded table on the inner side asks for one on the preserved side.
type joinCheck struct{ preserved, inner []*ref }

// found collects what a statement's tree holds.
type found struct {
	q        *Query
	topology *Topology
	db       *Database // of the statement's tables; nil while there is none
	shape    *shape
	blocks   []*block
	refs     []*ref
	cte      map[string]bool
	first    string                     // what the statement calls the table that it names first
	system   string                     // a schema such as information_schema that is read
	inValue  map[ast.Node]ast.ExprNode  // the subquery of a top-level IN -> what is looked for
	owner    map[*ast.SelectStmt]*block // the block of each SELECT
	stack    []*block
	err      error

	assigns    []string // user variables that are assigned, in lower case
	readsOwn   bool     // a session variable is read that Braid keeps itself
	unstable   string   // a function whose answer differs from call to call and shard to shard
	windows    []*ast.WindowFuncExpr
	functions  map[string]bool
	aggregates map[*block][]*ast.AggregateFuncExpr
	foreign    bool // a subquery's aggregate is one of a query around it
	locking    bool
	defaults   bool // DEFAULT as a value, or DEFAULT(column)
	temporary  bool // a temporary table is named
	locks      bool // GET_LOCK and its like
	setsID     bool // LAST_INSERT_ID(expression)
	// qualified are the columns, "*" for all, that are written behind one name and no
	// database's: table.column in lower case.
	qualified map[string]bool
	elsewhere bool   // the text is for a connection in another schema
	bare      []edit // the base edits without names for select items
}

// Enter implements ast.Visitor.
func (f *found) Enter(n ast.Node) (ast.Node, bool) {
	if f.err != nil {
		return n, true
	}
	switch n := n.(type) {
	case *ast.WithClause:
		f.names(n)
	case *ast.SelectStmt:
		if n.SelectIntoOpt != nil && f.err == nil {
			f.err = refuse("SELECT ... INTO OUTFILE: the file would lie on a node") // never on a node, however few
		}
		f.names(n.With)
		for _, x := range n.Fields.Fields {
			if x.WildCard != nil {
				f.qualifies(x.WildCard.Schema.L, x.WildCard.Table.L, "*")
			}
		}
		b := f.push()
		f.owner[n] = b
		if n.From != nil {
			f.from(b, n.From.TableRefs, nil)
		}
		if n.Where != nil {
			b.sets = append(b.sets, condSet{conj: conjuncts(n.Where, nil)})
		}
		f.lookups(b, n)
		if n.LockInfo != nil && n.LockInfo.LockType != ast.SelectLockNone {
			f.locking = true
		}
	case *ast.SetOprStmt:
		f.names(n.With)
	case *ast.SetOprSelectList:
		f.names(n.With)
	case *ast.VariableExpr:
		switch {
		case !n.IsSystem && n.Value != nil:
			f.assign(strings.ToLower(n.Name))
		case n.IsSystem && !n.IsGlobal && ownVariable(strings.ToLower(n.Name)):
			f.readsOwn = true
		}
	case *ast.FuncCallExpr:
		name := n.FnName.L
		f.functions[name] = true
		if unstable(name) {
			f.unstable = strings.ToUpper(name) + "()"
		}
		switch name {
		case "get_lock", "release_lock", "release_all_locks", "is_free_lock", "is_used_lock":
			f.locks = true
		case "last_insert_id":
			f.setsID = f.setsID || len(n.Args) > 0
		}
		if n.Schema.L != "" {
			f.unstable = "stored function"
		}
	case *ast.ColumnName:
		f.qualifies(n.Schema.L, n.Table.L, n.Name.L)
	case *ast.DefaultExpr:
		f.defaults = true
	case *ast.AggregateFuncExpr:
		if len(f.stack) > 0 {
			b := f.stack[len(f.stack)-1]
			f.aggregates[b] = append(f.aggregates[b], n)
			f.foreign = f.foreign || f.aggregatesOuter(b, n)
		}
	case *ast.WindowFuncExpr:
		f.windows = append(f.windows, n)
	}
	return n, false
}

// qualifies notes what a column is written behind.
func (f *found) qualifies(database, table, column string) {
	if database != "" || table == "" {
		return
	}
	if f.qualified == nil {
		f.qualified = map[string]bool{}
	}
	f.qualified[table+"."+column] = true
}

// Leave implements ast.Visitor.
func (f *found) Leave(n ast.Node) (ast.Node, bool) {
	if _, ok := n.(*ast.SelectStmt); ok && f.err == nil {
		f.stack = f.stack[:len(f.stack)-1]
	}
	return n, f.err == nil
}

// assign notes that a user variable is assigned.
func (f *found) assign(name string) {
	for _, v := range f.assigns {
		if v == name {
			return
		}
	}
	f.assigns = append(f.assigns[:len(f.assigns):len(f.assigns)], name)
}

// ownVariable tells whether a session variable is one that the proxy keeps
// itself, so that a shard's connection has it only when told.
func ownVariable(name string) bool {
	switch name {
	case "wait_timeout", "interactive_timeout", "sql_select_limit":
		return true
	}
	return false
}

func (f *found) names(w *ast.WithClause) {
	if w == nil {
		return
	}
	for _, c := range w.CTEs {
		f.cte[c.Name.L] = true
	}
}

func (f *found) push() *block {
	b := &block{same: map[place]place{}}
	if len(f.stack) > 0 {
		b.parent = f.stack[len(f.stack)-1]
	}
	f.blocks = append(f.blocks, b)
	f.stack = append(f.stack, b)
	return b
}

// from collects the tables of a join tree. inner is the set of refs that the
// tree's conditions narrow when it is null-extended by a join around it; nil
// when it is not.
func (f *found) from(b *block, n ast.ResultSetNode, inner *condSet) []*ref {
	switch n := n.(type) {
	case *ast.Join:
		return f.join(b, n, inner)
	case *ast.TableSource:
		t, ok := n.Source.(*ast.TableName)
		if !ok {
			if j, ok := n.Source.(*ast.Join); ok {
				return f.join(b, j, inner)
			}
			b.derived++
			return nil
		}
		name := n.AsName.O
		if name == "" {
			name = t.Name.O
		}
		return f.table(b, t, name)
	case *ast.TableName:
		return f.table(b, n, n.Name.O)
	case nil:
		return nil
	}
	b.derived++
	return nil
}

// table adds a reference to a table.
func (f *found) table(b *block, t *ast.TableName, alias string) []*ref {
	if t.Schema.L == "" && f.cte[t.Name.L] {
		b.derived++
		if db := f.topology.Databases[f.q.Database]; db == nil || db.Table(t.Name.O) == nil {
			return nil
		}
	}
	if t.Schema.L == "" && t.Name.L == "dual" {
		return nil
	}
	if f.first == "" {
		f.first = alias
	}
	table, err := f.lookup(t)
	if err != nil {
		f.err = err
		return nil
	}
	if table == nil { // a system schema's
		b.derived++
		return nil
	}
	r := &ref{table: table, name: alias, block: b}
	b.refs = append(b.refs, r)
	f.refs = append(f.refs, r)
	return []*ref{r}
}

// lookup finds a table that can be used in the topology. It is nil for a system
// schema's.
func (f *found) lookup(t *ast.TableName) (*Table, error) {
	table, err := f.find(t)
	if err == nil && table != nil && table.Broken != "" {
		return nil, mysql.Errorf(1105, "Table '%s.%s' cannot be used: it %s", f.db.Name, table.Name, table.Broken)
	}
	return table, err
}

// find finds a table in the topology, whether it can be used or not. It is nil
// for a system schema's.
func (f *found) find(t *ast.TableName) (*Table, error) {
	name := t.Schema.O
	if name == "" {
		name = f.q.Database
	}
	if name == "" {
		return nil, mysql.Errorf(1046, "No database selected")
	}
	db := f.topology.Databases[name]
	if db == nil {
		if SystemSchema(name) {
			if f.system != "" && !strings.EqualFold(f.system, name) {
				return nil, refuse("tables of " + f.system + " together with those of " + name)
			}
			f.system = name
			return nil, nil
		}
		for _, any := range f.topology.Databases {
			if any.Flavour == MariaDB {
				return nil, mysql.Errorf(1146, "Table '%s.%s' doesn't exist", name, t.Name.O)
			}
		}
		return nil, mysql.Errorf(1049, "Unknown database '%s'", name)
	}
	if f.db != nil && f.db != db {
		return nil, refuse("tables of two databases in one statement")
	}
	f.db = db
	if f.first == "" {
		f.first = t.Name.O
	}
	table := db.Table(t.Name.O)
	if table == nil {
		return nil, mysql.Errorf(1146, "Table '%s.%s' doesn't exist", name, t.Name.O)
	}
	f.temporary = f.temporary || table.Temporary
	return table, nil
}

// Table finds a table by the name a statement uses; nil when there is none.
func (d *Database) Table(name string) *Table {
	if d.LowerCase {
		name = strings.ToLower(name)
	}
	return d.Tables[name]
}

// SystemSchema tells whether a name is that of a schema of the servers' own.
func SystemSchema(name string) bool {
	switch strings.ToLower(name) {
	case "information_schema", "performance_schema", "mysql", "sys":
		return true
	}
	return false
}

// join collects a join's tables and its conditions.
func (f *found) join(b *block, j *ast.Join, inner *condSet) []*ref {
	if j.Right == nil {
		return f.from(b, j.Left, inner)
	}
	leftSet, rightSet := inner, inner
	outer := &condSet{}
	switch j.Tp {
	case ast.LeftJoin:
		rightSet = outer
	case ast.RightJoin:
		leftSet = outer
	}
	left := f.from(b, j.Left, leftSet)
	right := f.from(b, j.Right, rightSet)
	all := append(append([]*ref{}, left...), right...)
	set := condSet{}
	nullable := []*ref(nil)
	switch j.Tp {
	case ast.LeftJoin:
		nullable = right
		b.joins = append(b.joins, joinCheck{left, right})
	case ast.RightJoin:
		nullable = left
		b.joins = append(b.joins, joinCheck{right, left})
	}
	if j.Tp == ast.LeftJoin || j.Tp == ast.RightJoin {
		set.narrows = append([]*ref{}, nullable...)
	} else if inner != nil {
		set.narrows = all
	}
	if j.On != nil {
		set.conj = conjuncts(j.On.Expr, nil)
	}
	for _, u := range j.Using {
		b.using++
		b.link(findColumn(left, u.Name.L), findColumn(right, u.Name.L))
	}
	if j.NaturalJoin {
		b.using += f.natural(b, left, right)
	}
	if len(set.conj) > 0 {
		if set.narrows == nil || len(set.narrows) > 0 {
			b.sets = append(b.sets, set)
		}
	}
	return all
}

// natural links the columns that two sides have in common and counts them.
func (f *found) natural(b *block, left, right []*ref) int {
	n := 0
	for _, r := range right {
		for i := range r.table.Columns {
			if c := findColumn(left, strings.ToLower(r.table.Columns[i].Name)); c.ref != nil {
				b.link(c, place{r, i})
				n++
			}
		}
	}
	return n
}

// findColumn finds the first of the refs that has the column.
func findColumn(refs []*ref, name string) place {
	for _, r := range refs {
		if i := r.table.column(name); i >= 0 {
			return place{r, i}
		}
	}
	return place{}
}

// column finds a column by its name in lower case, -1 when there is none.
func (t *Table) column(lower string) int {
	if i, ok := t.byName[lower]; ok {
		return i
	}
	return -1
}

// conjuncts splits a condition at its top-level ANDs.
func conjuncts(e ast.ExprNode, to []ast.ExprNode) []ast.ExprNode {
	switch x := e.(type) {
	case *ast.ParenthesesExpr:
		return conjuncts(x.Expr, to)
	case *ast.BinaryOperationExpr:
		if x.Op == opcode.LogicAnd {
			return conjuncts(x.R, conjuncts(x.L, to))
		}
	}
	return append(to, e)
}

// lookups remembers the subqueries of the block's top-level INs.
func (f *found) lookups(b *block, n *ast.SelectStmt) {
	if n.Where == nil {
		return
	}
	for _, e := range conjuncts(n.Where, nil) {
		f.lookupIn(e)
	}
}

func (f *found) lookupIn(e ast.ExprNode) {
	in, ok := e.(*ast.PatternInExpr)
	if !ok || in.Not || in.Sel == nil {
		return
	}
	if sub, ok := in.Sel.(*ast.SubqueryExpr); ok {
		if sel, ok := sub.Query.(*ast.SelectStmt); ok {
			f.inValue[sel] = in.Expr
		}
	}
}

// resolve finds the column that a name means in a block or in one around it.
func (f *found) resolve(b *block, c *ast.ColumnName) place {
	for ; b != nil; b = b.parent {
		hit := place{}
		for _, r := range b.refs {
			if c.Table.L != "" && !strings.EqualFold(r.name, c.Table.O) {
				continue
			}
			if i := r.table.column(c.Name.L); i >= 0 {
				if hit.ref != nil {
					return hit // one of USING's, or the server says that it is ambiguous
				}
				hit = place{r, i}
			} else if c.Table.L != "" {
				return place{}
			}
		}
		if hit.ref != nil || b.derived > 0 {
			return hit
		}
	}
	return place{}
}

// columnOf is the column that an expression is, when it is nothing else.
func (f *found) columnOf(b *block, e ast.ExprNode) place {
	switch x := e.(type) {
	case *ast.ParenthesesExpr:
		return f.columnOf(b, x.Expr)
	case *ast.ColumnNameExpr:
		return f.resolve(b, x.Name)
	}
	return place{}
}

// aggregatesOuter tells whether an aggregate written in b is one of a block
// around it, because all columns in it are that block's.
func (f *found) aggregatesOuter(b *block, a *ast.AggregateFuncExpr) bool {
	outer, own := false, false
	a.Accept(walk(func(n ast.Node) bool {
		if c, ok := n.(*ast.ColumnNameExpr); ok {
			if p := f.resolve(b, c.Name); p.ref == nil || p.ref.block == b {
				own = true
			} else {
				outer = true
			}
		}
		return true
	}))
	return outer && !own
}

// nullExtends tells whether an outer join of the block can make a row of NULLs
// of the ref's.
func (b *block) nullExtends(r *ref) bool {
	for _, j := range b.joins {
		if contains(j.inner, r) {
			return true
		}
	}
	return false
}

// root is the representative of the columns that are equal to c.
func (b *block) root(c place) place {
	for {
		p, ok := b.same[c]
		if !ok || p == c {
			return c
		}
		c = p
	}
}

// link says that two columns are equal where rows count. Only columns of one
// type and collation are linked: equality is not transitive over different ones.
func (b *block) link(x, y place) {
	if x.ref == nil || y.ref == nil {
		return
	}
	cx, cy := &x.ref.table.Columns[x.col], &y.ref.table.Columns[y.col]
	if cx.DataType != cy.DataType || cx.Collation != cy.Collation || cx.Unsigned() != cy.Unsigned() {
		return
	}
	if rx, ry := b.root(x), b.root(y); rx != ry {
		b.same[ry] = rx
	}
}

// neverNull tells whether the column is never NULL where rows of b count: not of
// its own, and not because a join null-extends its table.
func (b *block) neverNull(c place) bool {
	return c.ref != nil && !c.ref.table.Columns[c.col].Nullable && !b.nullExtends(c.ref)
}

// linkAll reads the equalities of columns off every block's conditions.
func (f *found) linkAll() {
	for _, b := range f.blocks {
		for _, set := range b.sets {
			for _, e := range set.conj {
				eq, ok := e.(*ast.BinaryOperationExpr)
				if !ok || eq.Op != opcode.EQ && eq.Op != opcode.NullEQ {
					continue
				}
				x, y := f.columnOf(b, eq.L), f.columnOf(b, eq.R)
				if eq.Op == opcode.NullEQ && (set.narrows != nil || !b.neverNull(x) || !b.neverNull(y)) {
					continue
				}
				// The ON of an outer join says nothing of two columns of its preserved side.
				if set.narrows == nil || contains(set.narrows, x.ref) || contains(set.narrows, y.ref) {
					b.link(x, y)
				}
			}
		}
	}
	for n, value := range f.inValue {
		sel := n.(*ast.SelectStmt)
		b := f.owner[sel]
		if b == nil || b.parent == nil || len(f.aggregates[b]) > 0 || sel.GroupBy != nil || sel.Limit != nil || sel.Having != nil || len(sel.Fields.Fields) != 1 {
			continue
		}
		if e := sel.Fields.Fields[0].Expr; e != nil {
			b.link(f.columnOf(b.parent, value), f.columnOf(b, e))
		}
	}
}

func contains(refs []*ref, r *ref) bool {
	for _, x := range refs {
		if x == r {
			return true
		}
	}
	return false
}

// sameKeys tells whether the whole sharding keys of two refs are equal where rows of b count.
func (b *block) sameKeys(x, y *ref) bool {
	if x.table.Rule == nil || y.table.Rule == nil || x.table.Rule.Group != y.table.Rule.Group ||
		len(x.table.Rule.Keys) != len(y.table.Rule.Keys) {
		return false
	}
	for i := range x.table.Rule.Keys {
		if b.root(place{x, x.table.Rule.Keys[i]}) != b.root(place{y, y.table.Rule.Keys[i]}) {
			return false
		}
	}
	return true
}

// refuse is the error for what Braid does not support over several shards.
func refuse(what string) *mysql.Error {
	return mysql.Errorf(1235, "This version of Braid doesn't yet support '%s'", what)
}
