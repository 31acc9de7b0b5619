package router

import (
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"

	"braid/internal/mysql"
)

// source is a set of co-located references to sharded tables, or a single
// table: where its rows are that a statement needs.
type source struct {
	name  string
	rule  *Rule // nil: a single table
	shard int   // of a single table
	cond  cond
	refs  []*ref
}

// sources groups the statement's references by co-location and finds what the
// conditions say of each group. Global tables and what inherits are left out.
func (f *found) sources() []source {
	f.linkAll()
	f.inherit()
	var out []source
	done := map[*ref]bool{}
	for _, r := range f.refs {
		if done[r] || r.inherits {
			continue
		}
		done[r] = true
		switch r.table.Kind {
		case Single:
			out = append(out, source{name: r.table.Name, shard: r.table.Shard, refs: []*ref{r}})
			continue
		case Global:
			continue
		}
		peers := []*ref{r}
		for i := 0; i < len(peers); i++ {
			for _, o := range r.block.refs {
				if o.table.Kind == Sharded && !done[o] && r.block.sameKeys(peers[i], o) {
					done[o] = true
					peers = append(peers, o)
				}
			}
		}
		out = append(out, source{name: r.table.Name, rule: r.table.Rule, cond: f.condition(r, peers), refs: peers})
	}
	return out
}

// inherit marks the references of subqueries whose keys are those of a row
// around them.
func (f *found) inherit() {
	for again := true; again; {
		again = false
		for _, r := range f.refs {
			if r.inherits || r.table.Kind != Sharded {
				continue
			}
			for _, o := range f.refs {
				outer := o.block != r.block && encloses(o.block, r.block)
				if o.table.Kind == Sharded && (outer || o.block == r.block && o.inherits) && r.block.sameKeys(o, r) {
					r.inherits = true
					again = true
				}
			}
		}
	}
}

func encloses(outer, inner *block) bool {
	for b := inner.parent; b != nil; b = b.parent {
		if b == outer {
			return true
		}
	}
	return false
}

// acrossShards checks that the statement's rows can be worked on shard by
// shard: one group of co-located tables in the outermost block, and no outer
// join that would give one row per shard.
func (f *found) acrossShards(sources []source) *mysql.Error {
	if len(sources) > 1 {
		for _, s := range sources {
			if len(f.blocks) > 0 && s.refs[0].block != f.blocks[0] {
				return refuse("subqueries, derived tables and unions over tables of several shards")
			}
		}
		return refuse("joins of tables that are not on the same shard")
	}
	top := sources[0].refs[0].block
	if top.parent != nil || top != f.blocks[0] {
		return refuse("subqueries, derived tables and unions over tables of several shards")
	}
	for _, j := range top.joins {
		inner, preserved := false, false
		for _, r := range sources[0].refs {
			inner = inner || contains(j.inner, r)
			preserved = preserved || contains(j.preserved, r)
		}
		if inner && !preserved {
			return refuse("outer joins that keep rows of a table which is not sharded, over several shards")
		}
	}
	return nil
}

// read plans a SELECT, a union or a WITH.
func (a *analysis) read(f *found, stmt ast.StmtNode) (planned, error) {
	stmt.Accept(f)
	if f.err != nil {
		return planned{}, f.err
	}
	p := &Plan{Kind: KindScatter, Verb: "SELECT", Rows: true, Writer: f.locking}
	sel, plain := stmt.(*ast.SelectStmt)
	p.FoundRows = calculatesFoundRows(stmt)
	if plain && sel.SelectIntoOpt != nil || len(f.shape.vars) > 0 {
		p.Rows, p.Into, p.IntoLast = false, f.shape.vars, f.shape.intoLast()
	}
	p.SetsID = f.setsID
	body := &readBody{}
	if len(f.refs) == 0 {
		return a.noTables(f, p, body)
	}
	if f.system != "" {
		return planned{}, refuse("tables of " + f.system + " together with others")
	}
	if f.locks && len(f.db.Shards) > 1 {
		return planned{}, refuse("GET_LOCK() and its like together with tables")
	}
	body.db = f.db
	base, err := f.baseEdits()
	if err != nil {
		return planned{}, err
	}
	if len(base) > 0 {
		body.single = f.shape.slice(0, len(f.shape.text), base)
	}
	body.sources = f.sources()
	p.body = body
	p.Database = f.db.Name
	if len(body.sources) == 0 {
		p.Kind = KindSingle
		return planned{plan: p}, nil
	}
	if oneShard(body.sources) {
		p.Kind = KindSingle
		return planned{plan: p}, nil
	}
	body.several = f.acrossShards(body.sources)
	if body.several == nil && f.setsID {
		body.several = refuse("LAST_INSERT_ID(expression) over several shards")
	}
	if body.several == nil && !plain {
		body.several = refuse("unions over several shards")
	}
	if body.several == nil {
		body.scatter, body.several = newScatter(f, sel, body.sources[0].refs[0], base)
	}
	if body.several == nil && plain && skipsUpToLimit(sel) {
		body.scatter, body.several = nil, refuse("SKIP LOCKED with LIMIT over several shards")
		return planned{plan: p}, nil
	}
	if body.several == nil {
		var why *mysql.Error
		if body.otherwise, why = newGather(f, body.sources, stmt); why != nil && body.scatter.over != nil {
			body.scatter, body.several = nil, why // what the columns are, only a gather tells
			return planned{plan: p}, nil
		}
		if plainColumns(f, sel) {
			body.list = f.splitList(&body.sources[0], body.scatter.text)
		}
	}
	if body.several != nil {
		var why *mysql.Error
		if body.gather, why = newGather(f, body.sources, stmt); why != nil {
			body.several = why
		}
	}
	return planned{plan: p}, nil
}

// calculatesFoundRows tells whether SQL_CALC_FOUND_ROWS is in a SELECT, or in the
// first one of a union, where it counts the union's rows.
func calculatesFoundRows(stmt ast.Node) bool {
	switch n := stmt.(type) {
	case *ast.SelectStmt:
		return n.SelectStmtOpts != nil && n.CalcFoundRows
	case *ast.SetOprStmt:
		return calculatesFoundRows(n.SelectList.Selects[0])
	case *ast.SetOprSelectList:
		return calculatesFoundRows(n.Selects[0])
	}
	return false
}

// plainColumns tells whether a SELECT gives columns of one table as they are.
// Only then may shards get lists of different lengths: the plan that a server
// makes of a list, one row by its key for one value, decides types and flags of
// everything else.
func plainColumns(f *found, sel *ast.SelectStmt) bool {
	if len(f.refs) != 1 || len(f.blocks) != 1 || f.blocks[0].derived > 0 || sel.GroupBy != nil || sel.Distinct {
		return false
	}
	for _, field := range sel.Fields.Fields {
		if _, ok := field.Expr.(*ast.ColumnNameExpr); !ok && field.WildCard == nil {
			return false
		}
	}
	if sel.OrderBy != nil {
		for _, by := range sel.OrderBy.Items {
			switch by.Expr.(type) {
			case *ast.ColumnNameExpr, *ast.PositionExpr:
			default:
				return false
			}
		}
	}
	return true
}

// oneShard tells whether all sources are single tables on one shard.
func oneShard(sources []source) bool {
	for _, s := range sources {
		if s.rule != nil || s.shard != sources[0].shard {
			return false
		}
	}
	return true
}

// noTables plans a SELECT that reads no table of a database.
func (a *analysis) noTables(f *found, p *Plan, body *readBody) (planned, error) {
	db := a.r.anyDatabase(a.q.Database)
	if db == nil {
		return planned{}, mysql.Errorf(1046, "No database selected")
	}
	f.db = db
	base, err := f.baseEdits()
	if err != nil {
		return planned{}, err
	}
	if f.system != "" {
		edits, tables, err := f.systemEdits()
		if err != nil {
			return planned{}, err
		}
		base = sortEdits(append(base, edits...))
		p.System = tables
		body.sources = []source{{name: f.system}}
	}
	if len(base) > 0 {
		body.single = f.shape.slice(0, len(f.shape.text), base)
	}
	body.db = db
	p.Database = db.Name
	p.Kind, p.NoTables, p.body = KindAny, f.system == "", body
	for _, b := range f.blocks {
		p.Derived = p.Derived || b.derived > 0
	}
	if f.locks {
		// A lock excludes others only when all ask the same node.
		body.db = a.r.anyDatabase("")
		body.sources = []source{{name: "locks"}}
		p.Kind, p.Database = KindSingle, body.db.Name
	}
	return planned{plan: p}, nil
}

// do plans DO: without tables it runs anywhere.
func (a *analysis) do(f *found, stmt *ast.DoStmt) (planned, error) {
	stmt.Accept(f)
	if f.err != nil {
		return planned{}, f.err
	}
	if len(f.refs) > 0 {
		return planned{}, refuse("DO with tables")
	}
	return a.noTables(f, &Plan{Verb: "DO"}, &readBody{})
}

// call plans CALL: a procedure runs where a single shard has it.
func (a *analysis) call(stmt *ast.CallStmt) (planned, error) {
	db := a.r.topology.Databases[a.q.Database]
	if name := stmt.Procedure.Schema.O; name != "" {
		db = a.r.topology.Databases[name]
	}
	if db == nil {
		return planned{}, mysql.Errorf(1046, "No database selected")
	}
	body := &readBody{db: db}
	p := &Plan{Kind: KindSingle, Verb: "CALL", Rows: true, Writer: true, Database: db.Name, body: body}
	if len(db.Shards) > 1 {
		if stmt.Procedure.Schema.O != "" && !db.SamePhysical {
			return planned{}, refuse("CALL with a database's name, where the shards' schemas have other names")
		}
		// Which shard is known only with the hints, when it is bound.
		body.sources = []source{{name: "of the procedure"}, {name: "of the procedure", shard: 1}}
		body.several = refuse("CALL in a database of several shards without the hint shard")
	}
	return planned{plan: p}, nil
}

// functions whose answer is the session's, not the shard's.
func factOf(word string) (fact, bool) {
	switch word {
	case "DATABASE", "SCHEMA":
		return factDatabase, true
	case "CONNECTION_ID":
		return factConnectionID, true
	case "USER", "SESSION_USER", "SYSTEM_USER":
		return factUser, true
	case "CURRENT_USER":
		return factCurrentUser, true
	case "VERSION":
		return factVersion, true
	case "LAST_INSERT_ID":
		return factLastInsertID, true
	case "ROW_COUNT":
		return factRowCount, true
	case "FOUND_ROWS":
		return factFoundRows, true
	}
	return 0, false
}

// baseEdits are the edits that every text of the statement needs, also the one
// for a single shard: the session's facts in the place of functions, and no
// database in front of tables where shards have schemas of other names.
func (f *found) baseEdits() ([]edit, *mysql.Error) {
	edits := f.factEdits()
	if !f.db.SamePhysical {
		more, err := f.qualifierEdits()
		if err != nil {
			return nil, err
		}
		edits = append(edits, more...)
	}
	if len(edits) == 0 {
		return nil, nil
	}
	f.bare = sortEdits(edits)
	return sortEdits(append(append([]edit{}, f.bare...), f.nameEdits(f.bare)...)), nil
}

func (f *found) factEdits() []edit {
	var edits []edit
	s := f.shape
	put := func(k fact, start, end int) {
		if k == factDatabase && !f.elsewhere && f.db.SamePhysical && f.q.Database == f.db.Name {
			return
		}
		if k == factReadFence { // what no node knows cannot stay
			edits = append(edits, edit{start, end, template{{kind: segFact, n: int(k)}}})
			return
		}
		// The function itself stays as the branch that is never taken: the expression
		// has its type, length and collation on either server (rule D10).
		t := append(template{}.add("IF(1,"), segment{kind: segFact, n: int(k)})
		edits = append(edits, edit{start, end, t.add("," + s.text[start:end] + ")")})
	}
	for i, t := range s.toks {
		if i > 0 && (s.toks[i-1].is(s.text, '.') || s.toks[i-1].is(s.text, '@')) {
			continue
		}
		if t.is(s.text, '@') && i+2 < len(s.toks) && s.toks[i+1].is(s.text, '@') {
			f.variableFact(i, put)
			continue
		}
		if t.word(s.text) == "IS_USED_LOCK" && f.functions["is_used_lock"] {
			edits = append(edits, f.lockOwnerEdits(i)...)
			continue
		}
		k, ok := factOf(t.word(s.text))
		if !ok {
			continue
		}
		if i+2 < len(s.toks) && s.toks[i+1].is(s.text, '(') && s.toks[i+2].is(s.text, ')') {
			if f.functions[strings.ToLower(t.word(s.text))] {
				put(k, t.start, s.toks[i+2].end)
			}
		} else if k == factCurrentUser && f.functions["current_user"] {
			put(k, t.start, t.end)
		}
	}
	return edits
}

// lockOwnerEdits make IS_USED_LOCK(), token i, answer in the ids of clients'
// connections: the node tells a backend connection's.
func (f *found) lockOwnerEdits(i int) []edit {
	s := f.shape
	if i+1 >= len(s.toks) || !s.toks[i+1].is(s.text, '(') {
		return nil
	}
	end := i + 2
	for end < len(s.toks) && (s.toks[end].depth != s.toks[i+1].depth || !s.toks[end].is(s.text, ')')) {
		end++
	}
	if end == len(s.toks) {
		return nil
	}
	call := s.plain(s.toks[i].start, s.toks[end].end)
	t := append(wrap("IF(1,CASE ", call, ""), segment{kind: segFact, n: int(factLockOwner)})
	t = append(append(t.add(" ELSE "), call...).add(" END,"), call...).add(")")
	return []edit{{s.toks[i].start, s.toks[end].end, t}}
}

// variableFact looks at a system variable whose @@ is token i.
func (f *found) variableFact(i int, put func(k fact, start, end int)) {
	s, j, global := f.shape, i+2, false
	if w := s.toks[j].word(s.text); (w == "SESSION" || w == "LOCAL" || w == "GLOBAL") && j+2 < len(s.toks) && s.toks[j+1].is(s.text, '.') {
		global = w == "GLOBAL"
		j += 2
	}
	k, ok := map[string]fact{"VERSION": factVersion, "LAST_INSERT_ID": factLastInsertID, "IDENTITY": factLastInsertID, "PSEUDO_THREAD_ID": factConnectionID,
		"WARNING_COUNT": factWarningCount, "ERROR_COUNT": factErrorCount}[s.toks[j].word(s.text)]
	if s.toks[j].word(s.text) == "AUTOCOMMIT" && len(f.refs) > 0 {
		k, ok = factAutocommit, !global // a leg's connection has it off (rule T2)
	}
	if s.toks[j].word(s.text) == "BRAID_READ_FENCE" {
		k, ok = factReadFence, !global // a session's, and no node knows it
	}
	if s.toks[j].word(s.text) == "RESULTSET_METADATA" {
		k, ok = factMetadata, !global // a node's answers always have it
	}
	if ok {
		put(k, s.toks[i].start, s.toks[j].end)
	}
}

// qualifierEdits drop the database in front of tables and columns.
func (f *found) qualifierEdits() ([]edit, *mysql.Error) {
	var edits []edit
	s := f.shape
	same := func(a, b string) bool { return a == b || f.db.LowerCase && strings.EqualFold(a, b) }
	for i := 0; i+2 < len(s.toks); i++ {
		t := s.toks[i]
		if !t.ident() || !s.toks[i+1].is(s.text, '.') || !same(t.name(s.text), f.db.Name) {
			continue
		}
		if i > 0 && (s.toks[i-1].is(s.text, '.') || s.toks[i-1].is(s.text, '@')) {
			continue
		}
		if i+3 >= len(s.toks) || !s.toks[i+3].is(s.text, '.') {
			for _, r := range f.refs {
				if strings.EqualFold(r.name, t.name(s.text)) {
					return nil, refuse("a table or alias of the database's own name")
				}
			}
			column := s.text[s.toks[i+2].start:s.toks[i+2].end]
			if column != "*" {
				column = s.toks[i+2].name(s.text)
			}
			if f.qualified[strings.ToLower(t.name(s.text)+"."+column)] && f.db.Table(column) == nil {
				continue // a column of a table that there is not: the node says so
			}
		}
		edits = append(edits, edit{t.start, s.toks[i+2].start, nil})
	}
	return edits, nil
}

// qualified are the columns of Plan.Qualified.
func (s *shape) qualified(database string) map[string]bool {
	var out, bare map[string]bool
	put := func(in map[string]bool, t, c token) map[string]bool {
		if in == nil {
			in = map[string]bool{}
		}
		in[t.name(s.text)+"."+c.name(s.text)] = true
		return in
	}
	name := func(i int) bool { return i < len(s.toks) && s.toks[i].ident() }
	point := func(i int) bool { return i < len(s.toks) && s.toks[i].is(s.text, '.') }
	for i := 0; i < len(s.toks); i++ {
		if !name(i) || !point(i+1) || !name(i+2) {
			continue
		}
		switch three := point(i+3) && name(i+4); {
		case three && s.toks[i].name(s.text) == database:
			out = put(out, s.toks[i+2], s.toks[i+4])
			i += 4
		case three:
			i += 4
		default:
			bare = put(bare, s.toks[i], s.toks[i+2])
			i += 2
		}
	}
	for c := range bare {
		delete(out, c)
	}
	return out
}

// lastToken is the end of the last token before a place in the text.
func (s *shape) lastToken(before int) int {
	end := before
	for _, t := range s.toks {
		if t.end > before {
			break
		}
		end = t.end
	}
	return end
}

// nameEdits give the select list's items that change the name they had (rule D3).
func (f *found) nameEdits(edits []edit) []edit {
	const nameMax = 255
	var out []edit
	for sel := range f.owner {
		if sel.Fields == nil {
			continue
		}
		for _, field := range sel.Fields.Fields {
			if field.WildCard != nil || field.AsName.L != "" {
				continue
			}
			if _, ok := field.Expr.(*ast.ColumnNameExpr); ok {
				continue
			}
			// A comment behind it is no part of the name.
			start, end := field.Offset, f.shape.lastToken(field.Offset+len(field.OriginalText()))
			changed := false
			for _, e := range edits {
				changed = changed || e.start >= start && e.end <= end
			}
			if changed && end-start <= nameMax {
				out = append(out, edit{end, end, wrap(" AS ", quoteName(f.shape.plain(start, end)), "")})
			}
		}
	}
	return out
}
