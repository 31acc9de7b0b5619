package router

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"

	"braid/internal/mysql"
)

// Gather is a statement whose rows have to meet on one server: the rows of each
// table that are to be read, and the statement that then runs over the copies
// (architecture: "Gather"; rules G1-G4). It belongs to a Route and lives as long.
type Gather struct {
	Tables []GatherTable
	Text   []byte     // the statement over the copies
	Params []ParamRef // of Text, for a prepared statement
	// Writes says that the statement is an UPDATE or DELETE: some Tables are
	// written. Ask is then, where it is not nil, a text of it that a shard can
	// prepare: a shard refuses what a single server would, and copies would not
	// (a table that is written and read in a subquery, on MySQL).
	Writes bool
	Ask    []byte
	// Views are the views that stand in Text as derived tables, by what the
	// outermost FROM calls them, where the server describes a derived table's
	// columns otherwise than a view's.
	Views map[string]GatherView
	// Collation is the collation_connection under which texts in views' definitions
	// are what they are in the views; "": under any.
	Collation string
}

// String says in words what is gathered, as EXPLAIN prints it.
func (g *Gather) String() string {
	var b strings.Builder
	for i := range g.Tables {
		t := &g.Tables[i]
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%s from %d of %d shards", t.Table.Name, t.Shards.Len(), t.Shards.Shards())
		if len(t.Where) > 0 {
			fmt.Fprintf(&b, " where %s", t.Where)
		}
		b.WriteString(t.Locking)
		if w := t.Write; w != nil {
			b.WriteString(", written by " + strings.Join(names(t.Table.columns(w.Key)), ", "))
		}
	}
	return b.String()
}

// GatherTable is one table to copy.
type GatherTable struct {
	Table *Table
	// Columns are those that the statement can use: indexes into Table.Columns.
	// Columns that a server computes itself (generated ones) are never in it.
	Columns []int
	// Copies is how many copies the statement needs, each under a name of its
	// own: CopyName(Table, 0) is the table's own.
	Copies int
	// Shards hold the rows; Where is a condition for them, "" for all rows. Params
	// are its parameters, for a prepared statement.
	Shards ShardSet
	Where  []byte
	Params []ParamRef
	// Locking is the clause with which the rows are read, "" for none; Write says
	// how the table is written, nil: it is only read.
	Locking string
	Write   *GatherWrite
}

// CopyName is the name of a table's n-th copy.
func CopyName(t *Table, n int) string {
	if n == 0 {
		return t.Name
	}
	return copyPrefix + strconv.Itoa(n) + "_" + t.Name
}

// CopiedName is the name of the table whose copy has the name.
func CopiedName(name string) string {
	rest, ok := strings.CutPrefix(name, copyPrefix)
	if !ok {
		return name
	}
	if _, table, ok := strings.Cut(rest, "_"); ok {
		return table
	}
	return name
}

// copyPrefix begins the names of second and further copies.
const copyPrefix = "braid_copy_"

// gatherPlan is how a SELECT is gathered.
type gatherPlan struct {
	db     *Database
	text   template
	tables []gatherSource
	ask    bool // of a write: a shard has to be asked first
	views  map[string]GatherView
	// collation is Gather.Collation.
	collation string
}

// gatherSource is one table of a gatherPlan.
type gatherSource struct {
	table   *Table
	columns []int
	copies  int
	conds   []cond // any of them may hold; nil: all shards
	all     bool
	where   []pushedCond
	locking string
	write   *GatherWrite
}

// How rows are read of which a write depends.
const (
	lockShare  = " LOCK IN SHARE MODE"
	lockUpdate = " FOR UPDATE"
)

// newGather plans a SELECT as a gather. An error says why it cannot be one.
func newGather(f *found, sources []source, stmt ast.StmtNode) (*gatherPlan, *mysql.Error) {
	switch {
	case f.locking:
		return nil, refuse("FOR UPDATE or FOR SHARE where the rows of several shards have to meet")
	case len(f.shape.vars) > 0:
		return nil, refuse("SELECT ... INTO where the rows of several shards have to meet")
	case f.unstable == "stored function":
		return nil, refuse("stored functions where the rows of several shards have to meet")
	case f.locks:
		return nil, refuse("GET_LOCK() and its like together with tables")
	case f.system != "":
		return nil, refuse("tables of " + f.system + " together with others")
	}
	if sel, ok := stmt.(*ast.SelectStmt); ok && sel.SelectIntoOpt != nil {
		return nil, refuse("SELECT ... INTO over several shards")
	}
	g := &gatherPlan{db: f.db, views: map[string]GatherView{}}
	names, every := usedNames(stmt)
	refs := map[*Table][]*ref{}
	var tables []*Table
	for _, r := range f.refs {
		read := []*Table{r.table}
		if r.table.View {
			var err *mysql.Error
			if read, err = f.viewTables(g, r.table, names); err != nil {
				return nil, err
			}
			if f.db.Flavour == MySQL && r.block == f.blocks[0] {
				g.views[r.name] = GatherView{Name: r.table.Name, Held: holdsRows(r.table)}
			}
		}
		if f.cte[strings.ToLower(r.table.Name)] {
			return nil, refuse("a common table expression that has a table's name, where the rows of several shards have to meet")
		}
		for _, t := range read {
			if refs[t] == nil {
				tables = append(tables, t)
			}
			refs[t] = append(refs[t], r)
		}
	}
	for _, t := range tables {
		s := gatherSource{table: t, copies: 1, columns: copiedColumns(t, names, every)}
		if len(f.assigns) > 0 {
			s.all = true // which rows are looked at, and how often, shows (rule G1)
		} else {
			f.gatherConds(&s, refs[t], sources)
			if len(refs[t]) == 1 && refs[t][0].table == t {
				s.where = f.pushed(refs[t][0])
			}
		}
		g.tables = append(g.tables, s)
	}
	text, err := f.gatherText(g)
	if err != nil {
		return nil, err
	}
	g.text = text
	return g, nil
}

// usedNames are the lower-case names of all columns that a statement names;
// every is true when it can use any.
func usedNames(stmt ast.StmtNode) (names map[string]bool, every bool) {
	names = map[string]bool{}
	stmt.Accept(walk(func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ColumnName:
			names[n.Name.L] = true
		case *ast.SelectField:
			every = every || n.WildCard != nil
		case *ast.Join:
			every = every || n.NaturalJoin
			for _, u := range n.Using {
				names[u.Name.L] = true
			}
		case *ast.MatchAgainst:
			every = true
		}
		return true
	}))
	return names, every
}

// copiedColumns are the columns of a table to copy: those the statement can use,
// and those of unique keys, which the copy has too.
func copiedColumns(t *Table, names map[string]bool, every bool) []int {
	unique := map[int]bool{}
	for _, key := range append([][]int{t.Primary}, t.Uniques...) {
		for _, c := range key {
			every = every || c < 0 // an expression
			unique[c] = true
		}
	}
	for i := range t.Columns {
		every = every || generated(&t.Columns[i])
	}
	var out []int
	for i := range t.Columns {
		if c := &t.Columns[i]; !generated(c) && (every || unique[i] || names[strings.ToLower(c.Name)]) {
			out = append(out, i)
		}
	}
	if len(out) == 0 { // COUNT(*) of a table without keys: any column does
		for i := range t.Columns {
			if !generated(&t.Columns[i]) {
				return []int{i}
			}
		}
	}
	return out
}

// generated tells whether a server computes the column itself.
func generated(c *Column) bool {
	e := strings.ToUpper(c.Extra)
	return strings.Contains(e, "GENERATED") && !strings.Contains(e, "DEFAULT_GENERATED") || hasWord(e, "VIRTUAL") || hasWord(e, "PERSISTENT")
}

// gatherConds finds the shards of a table's rows: those of any of its references,
// of views too.
func (f *found) gatherConds(s *gatherSource, refs []*ref, sources []source) {
	if s.table.Kind != Sharded {
		return
	}
	for _, r := range refs {
		var of *source
		for i := range sources {
			if contains(sources[i].refs, r) {
				of = &sources[i]
			}
		}
		for i := range sources {
			for _, o := range sources[i].refs {
				if of == nil && r.inherits && r.block.sameKeys(o, r) {
					of = &sources[i] // rows on other shards than the outer row's do not matter
				}
			}
		}
		if of == nil || of.cond == nil {
			s.all = true
			return
		}
		s.conds = append(s.conds, of.cond)
	}
}

// gatherText is the statement over the copies: without databases in front of
// tables, with the session's facts, with views' definitions in their place, and,
// where one temporary table cannot be opened twice in a statement (MySQL, error
// 1137), with a copy for every reference.
func (f *found) gatherText(g *gatherPlan) (template, *mysql.Error) {
	f.elsewhere = true
	edits := f.factEdits()
	f.elsewhere = false
	more, err := f.qualifierEdits()
	if err != nil {
		return nil, err
	}
	edits = append(edits, more...)
	if f.db.Flavour == MySQL || f.readsViews() {
		copies, err := f.copyEdits(g, edits)
		if err != nil {
			return nil, err
		}
		edits = append(edits, copies...)
	}
	before := f.bare
	f.bare = sortEdits(edits)
	all := sortEdits(append(append([]edit{}, f.bare...), f.nameEdits(f.bare)...))
	f.bare = before
	return f.shape.slice(0, len(f.shape.text), all), nil
}

// readsViews tells whether the statement names a view.
func (f *found) readsViews() bool {
	return slices.ContainsFunc(f.refs, func(r *ref) bool { return r.table.View })
}

// copyEdits write the references to tables as the copies need it; base are the
// other edits of the text.
func (f *found) copyEdits(g *gatherPlan, base []edit) ([]edit, *mysql.Error) {
	toks, tables, named, err := f.copyTokens()
	if err != nil {
		return nil, err
	}
	c := copyNames{f: f, toks: toks, tables: tables, seen: map[*Table]int{}, apart: f.db.Flavour == MySQL}
	out, err := c.tableEdits(0, len(f.shape.text))
	if err != nil || !c.apart {
		return out, err
	}
	if f.unstable == "" && len(f.assigns) == 0 {
		c.base, c.named, c.ctes, c.used = base, named, cteTexts(f.shape.text, toks), map[string]int{}
		more, err := c.cteEdits(0, len(f.shape.text))
		if err != nil {
			return nil, err
		}
		out = append(out, more...)
	}
	for i := range g.tables {
		g.tables[i].copies = max(1, c.seen[g.tables[i].table])
	}
	return out, nil
}

// copyTokens are the statement's tokens without databases in front of names, and
// which of them are the references to tables, and those to common table
// expressions, in the order of the text.
func (f *found) copyTokens() (toks []token, tables, named []int, err *mysql.Error) {
	s := f.shape
	dropped, err := f.qualifierEdits()
	if err != nil {
		return nil, nil, nil, err
	}
	toks = make([]token, 0, len(s.toks))
	for _, t := range s.toks {
		inside := false
		for _, e := range dropped {
			inside = inside || t.start >= e.start && t.end <= e.end
		}
		if !inside {
			toks = append(toks, t)
		}
	}
	using := deleteUsing(s.text, toks)
	if tables, named, err = fromTokens(s.text, toks[using:], f.db, f.cte); err != nil {
		return nil, nil, nil, err
	}
	for i := range tables {
		tables[i] += using
	}
	for i := range named {
		named[i] += using
	}
	if len(tables) != len(f.refs) {
		return nil, nil, nil, refuse("this form of FROM where the rows of several shards have to meet")
	}
	return toks, tables, named, nil
}

// deleteUsing is where the USING of a DELETE FROM t, u USING ... is, before which
// names are no references; 0 when it has none.
func deleteUsing(text string, toks []token) int {
	i := 0
	for i < len(toks) && (toks[i].depth > 0 || toks[i].word(text) != "DELETE") {
		i++
	}
	for i < len(toks) && toks[i].word(text) != "FROM" {
		i++
	}
	for i++; i+1 < len(toks) && toks[i].ident(); i++ {
		for i++; i+1 < len(toks) && (toks[i].is(text, '.') || toks[i].is(text, '*') || i > 0 && toks[i-1].is(text, '.') && toks[i].ident()); i++ {
		}
		if toks[i].word(text) == "USING" && toks[i].depth == 0 {
			return i
		}
		if !toks[i].is(text, ',') {
			break
		}
	}
	return 0
}

// aliasFollows tells whether the token behind a table's name is, or announces,
// its alias.
func aliasFollows(t token, text string) bool {
	if t.kind == tokQuoted {
		return true
	}
	if t.kind != tokWord {
		return false
	}
	switch t.word(text) {
	case "JOIN", "INNER", "LEFT", "RIGHT", "CROSS", "NATURAL", "STRAIGHT_JOIN", "ON", "USING", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT",
		"UNION", "EXCEPT", "INTERSECT", "FOR", "LOCK", "WINDOW", "PARTITION", "USE", "IGNORE", "FORCE", "PROCEDURE", "TABLESAMPLE", "OFFSET", "FETCH", "INTO", "SET":
		return false
	}
	return true
}

// bind finds the rows to read and writes the texts.
func (g *gatherPlan) bind(q *Query, r *Route) {
	n := len(g.db.Shards)
	out := &Gather{Views: g.views, Collation: g.collation}
	write := func(t template) ([]byte, []ParamRef) {
		w := writer{q: q, r: r, db: g.db}
		r.buf, r.params = nil, nil
		w.template(t)
		return r.buf, w.params()
	}
	for i := range g.tables {
		s := &g.tables[i]
		t := GatherTable{Table: s.table, Columns: s.columns, Copies: s.copies, Locking: s.locking, Write: s.write}
		out.Writes = out.Writes || s.write != nil
		switch {
		case s.table.Kind == Single:
			t.Shards = OneShard(n, s.table.Shard)
		case s.table.Kind == Global:
			t.Shards = OneShard(n, 0)
		case s.all || len(s.conds) == 0:
			t.Shards = AllShards(n)
		default:
			t.Shards = NoShards(n)
			for _, c := range s.conds {
				t.Shards = t.Shards.Or(evaluate(c, q, n))
			}
		}
		if where := bindPushed(s.where, q); len(where) > 0 {
			t.Where, t.Params = write(where)
		}
		out.Tables = append(out.Tables, t)
	}
	out.Text, out.Params = write(g.text)
	r.Gather = out
}

func (g *gatherPlan) explain(s *strings.Builder) {
	for i := range g.tables {
		t := &g.tables[i]
		fmt.Fprintf(s, "  gather %s", t.table.Name)
		var cols []string
		for _, c := range t.columns {
			cols = append(cols, t.table.Columns[c].Name)
		}
		fmt.Fprintf(s, " (%s)", strings.Join(cols, ", "))
		for i, c := range t.where {
			s.WriteString([]string{" where ", " AND "}[min(i, 1)] + c.text.String())
		}
		if t.copies > 1 {
			fmt.Fprintf(s, ", %d copies", t.copies)
		}
		s.WriteString(t.locking)
		if w := t.write; w != nil {
			fmt.Fprintf(s, ", write by (%s)", strings.Join(names(t.table.columns(w.Key)), ", "))
			switch {
			case w.Set == nil:
				s.WriteString(" delete")
			case w.Moves:
				s.WriteString(" move")
			default:
				fmt.Fprintf(s, " set (%s)", strings.Join(names(t.table.columns(w.Set)), ", "))
			}
		}
		if len(t.conds) > 0 && !t.all {
			for _, c := range t.conds {
				s.WriteString(", shards ")
				explainCond(s, c)
			}
		}
		s.WriteByte('\n')
	}
	s.WriteString("  then: " + g.text.String() + "\n")
}
