package router

import (
	"errors"
	"strings"

	"github.com/pingcap/tidb/pkg/parser"
	"github.com/pingcap/tidb/pkg/parser/ast"
	sqlmode "github.com/pingcap/tidb/pkg/parser/mysql"

	"braid/internal/mysql"
)

// planned is what planning a statement gives, and how it may be cached.
type planned struct {
	plan *Plan
	// pins are the holes whose literals the plan depends on (rule D2).
	pins []int32
	// uncached plans depend on more than digest and pins.
	uncached bool
}

// analyze plans a scanned statement.
func (r *Router) analyze(q *Query) (planned, error) {
	// What a server does not run of the client's text is no part of the statements
	// that Braid reads itself.
	text := plainComments(string(q.Text), r.flavour(q.Database), q.Mode)
	toks := tokenize(text, q.Mode, q.Charset)
	for len(toks) > 0 && toks[len(toks)-1].is(string(q.Text), ';') {
		toks = toks[:len(toks)-1]
	}
	if len(toks) == 0 {
		if strings.Trim(string(q.Text), "; \t\r\n\v\f") != "" {
			return planned{plan: &Plan{Kind: KindLocal, Local: &Local{}}}, nil
		}
		return planned{}, mysql.Errorf(1065, "Query was empty")
	}
	l := localParser{r: r, q: q, text: text, toks: toks}
	if p, ok, err := l.statement(); ok || err != nil {
		if e, _ := err.(*mysql.Error); e != nil && e.Code == 1235 {
			p, err = &Plan{Kind: KindRefuse, Err: e, Verb: toks[0].word(string(q.Text))}, nil
		}
		if p != nil {
			p.Digest = string(q.Digest)
		}
		return planned{plan: p, uncached: len(q.Holes) > 0 || p != nil && p.Local == nil || p != nil && (p.Local.Op == OpExplain || p.Local.Op == OpShow)}, err
	}
	a := analysis{r: r, q: q, flavour: r.flavour(q.Database)}
	p, err := a.run()
	if err != nil {
		var refused *mysql.Error
		if !errors.As(err, &refused) || refused.Code != 1235 {
			return planned{}, err
		}
		p = planned{plan: &Plan{Kind: KindRefuse, Err: refused, Verb: toks[0].word(string(q.Text))}, pins: allHoles(q)}
	}
	p.plan.Digest = string(q.Digest)
	return p, nil
}

func allHoles(q *Query) []int32 {
	pins := make([]int32, len(q.Holes))
	for i := range pins {
		pins[i] = int32(i)
	}
	return pins
}

func (r *Router) flavour(database string) Flavour {
	if db := r.topology.Databases[database]; db != nil {
		return db.Flavour
	}
	if db := r.anyDatabase(database); db != nil {
		return db.Flavour
	}
	return MySQL
}

// analysis plans one statement that is not local.
type analysis struct {
	r       *Router
	q       *Query
	flavour Flavour
}

// run expands, parses and plans: first with no literal pinned, then again with
// those pinned that turn out to matter.
func (a *analysis) run() (planned, error) {
	none := func(int) bool { return false }
	s := newShape(a.q, a.flavour, none)
	stmt, err := a.parse(s)
	pinned := map[int]bool{}
	if err != nil {
		if pinned = a.unexpandable(); pinned == nil {
			return a.unparsed(err)
		}
		s = newShape(a.q, a.flavour, func(h int) bool { return pinned[h] })
		if stmt, err = a.parse(s); err != nil {
			return a.unparsed(err)
		}
	}
	p, err := a.plan(s, stmt)
	if err != nil {
		return p, err
	}
	if sel, ok := stmt.(*ast.SelectStmt); ok {
		body, reads := p.plan.body.(*readBody)
		if reads && p.plan.Kind == KindScatter && body.mayScatter() {
			n := len(pinned)
			for _, h := range a.shown(s, sel) {
				pinned[h] = true
			}
			if len(pinned) > n {
				s = newShape(a.q, a.flavour, func(h int) bool { return pinned[h] })
				if stmt, err = a.parse(s); err != nil {
					return a.unparsed(err)
				}
				if p, err = a.plan(s, stmt); err != nil {
					return p, err
				}
			}
		}
	}
	for h := range a.q.Holes {
		if pinned[h] {
			p.pins = append(p.pins, int32(h))
		}
	}
	return p, nil
}

// unparsed plans what the parser does not understand, or says where that is.
func (a *analysis) unparsed(err error) (planned, error) {
	if p, ok := a.pass(); ok {
		return p, nil
	}
	return planned{}, a.syntaxError(err)
}

// shown are the holes in the select list, GROUP BY and ORDER BY.
func (a *analysis) shown(s *shape, sel *ast.SelectStmt) []int {
	l, ok := layoutOf(s, sel)
	if !ok {
		return nil
	}
	var out []int
	for _, sp := range s.spans {
		if a.q.Literals[a.q.Holes[sp.hole].First].Class == ClassParam {
			continue
		}
		for _, c := range []clause{l.list, l.group, l.order} {
			if c.end > 0 && sp.start >= c.start && sp.end <= c.end {
				out = append(out, sp.hole)
			}
		}
	}
	return out
}

// unexpandable finds the holes whose stand-ins the grammar does not take (type
// lengths, ESCAPE), by trying each alone; nil when the client's own text is
// what does not parse.
func (a *analysis) unexpandable() map[int]bool {
	all := func(int) bool { return true }
	if _, err := a.parse(newShape(a.q, a.flavour, all)); err != nil {
		return nil
	}
	pinned := map[int]bool{}
	const tries = 64
	for h := range a.q.Holes {
		if h >= tries {
			pinned[h] = true
			continue
		}
		s := newShape(a.q, a.flavour, func(i int) bool { return i != h })
		if _, err := a.parse(s); err != nil {
			pinned[h] = true
		}
	}
	return pinned
}

// parse parses a shape's text.
func (a *analysis) parse(s *shape) (ast.StmtNode, error) {
	text := s.shareLocks(s.parsed(), a.flavour)
	stmt, err := a.r.parse(text, a.q.Mode, a.q.Charset)
	if err != nil {
		if known, ok := knownTypes(text, a.q.Mode, a.q.Charset); ok {
			if stmt, again := a.r.parse(known, a.q.Mode, a.q.Charset); again == nil {
				return stmt, nil
			}
		}
	}
	return stmt, err
}

func (r *Router) parse(text string, mode Mode, charset string) (stmt ast.StmtNode, err error) {
	p := r.parsers.Get().(*parser.Parser)
	// The parser is a library that reads untrusted text: should it panic, the
	// statement is refused and the parser not used again.
	defer func() {
		if recover() != nil {
			stmt, err = nil, errors.New("statement not understood")
			return
		}
		r.parsers.Put(p)
	}()
	r.parsed.Add(1)
	var m sqlmode.SQLMode
	for ours, theirs := range map[Mode]sqlmode.SQLMode{
		ModeAnsiQuotes: sqlmode.ModeANSIQuotes, ModeNoBackslashEscapes: sqlmode.ModeNoBackslashEscapes,
		ModePipesAsConcat: sqlmode.ModePipesAsConcat, ModeHighNotPrecedence: sqlmode.ModeHighNotPrecedence,
		ModeIgnoreSpace: sqlmode.ModeIgnoreSpace,
	} {
		if mode&ours != 0 {
			m |= theirs
		}
	}
	p.SetSQLMode(m)
	if charset != "gbk" && charset != "gb18030" {
		charset = ""
	}
	stmts, _, err := p.ParseSQL(text, parser.CharsetConnection(charset), parser.CollationConnection(""))
	if err != nil {
		return nil, err
	}
	if len(stmts) == 0 {
		return nil, mysql.Errorf(1065, "Query was empty")
	}
	if len(stmts) > 1 {
		rest := strings.TrimLeft(text[len(stmts[0].OriginalText()):], " \t\r\n;")
		return nil, &nearError{rest}
	}
	return stmts[0], nil
}

// nearError is a syntax error whose place is known.
type nearError struct{ rest string }

func (e *nearError) Error() string { return "syntax error near " + e.rest }

// syntaxError is error 1064 with the client's own text from the error on.
func (a *analysis) syntaxError(err error) error {
	var typed *mysql.Error
	if errors.As(err, &typed) {
		return typed
	}
	text := string(a.q.Text)
	if toks := tokenize(text, a.q.Mode, a.q.Charset); len(toks) > 0 && toks[0].word(text) == "SELECT" {
		for _, t := range toks {
			if t.depth == 0 && t.word(text) == "INTO" {
				return refuse("this form of SELECT ... INTO")
			}
		}
	}
	plain := plainComments(text, a.flavour, a.q.Mode)
	_, own := a.r.parse(plain, a.q.Mode, a.q.Charset)
	if own != nil {
		err = own
	}
	return syntaxErrorAt(text, errorPlace(plain, err))
}

// errorPlace finds where in the text a parser's error is.
func errorPlace(text string, err error) int {
	var near *nearError
	if errors.As(err, &near) {
		return len(text) - len(near.rest)
	}
	msg := err.Error()
	_, rest, ok := strings.Cut(msg, "near \"")
	if !ok {
		return len(text)
	}
	// The text the parser quotes is the statement's rest, cut at 2048 bytes.
	for n := min(len(rest), len(text)); n > 0; n-- {
		if n == 2048 || strings.HasSuffix(text, rest[:n]) {
			if i := strings.LastIndex(text, rest[:n]); i >= 0 {
				return i
			}
		}
	}
	return len(text)
}

// syntaxErrorAt is MySQL's error 1064 for a text that is wrong from at on.
func syntaxErrorAt(text string, at int) *mysql.Error {
	for at < len(text) && isSpace(text[at]) {
		at++
	}
	near := text[at:]
	line := 1 + strings.Count(text[:at], "\n")
	if len(near) > 80 {
		near = near[:80]
	}
	return mysql.Errorf(1064, "You have an error in your SQL syntax; check the manual that corresponds to your MySQL server version for the right syntax to use near '%s' at line %d", near, line)
}

// SyntaxError is error 1064 for a text that is wrong from at on, in the words of
// a server family.
func SyntaxError(text string, at int, mariadb bool) *mysql.Error {
	e := syntaxErrorAt(text, at)
	if mariadb {
		e.Message = strings.Replace(e.Message, "your MySQL server", "your MariaDB server", 1)
	}
	return e
}

// plan plans a parsed statement.
func (a *analysis) plan(s *shape, stmt ast.StmtNode) (planned, error) {
	f := a.newFound(s)
	p, err := a.planAs(f, stmt)
	if p.plan != nil {
		p.plan.Assigns, p.plan.ReadsOwn, p.plan.Locks = f.assigns, f.readsOwn, f.functions["get_lock"]
		p.plan.Temporary = p.plan.Temporary || f.temporary
		p.plan.Unlocks = f.functions["release_lock"]
		p.plan.UnlocksAll = f.functions["release_all_locks"]
		p.plan.UserLocks = f.locks
		if p.plan.Database != "" {
			p.plan.Qualified = s.qualified(p.plan.Database)
		}
		if p.plan.FirstTable = f.first; f.first == "" && p.plan.DDL != nil && len(p.plan.DDL.Tables) > 0 {
			p.plan.FirstTable = p.plan.DDL.Tables[0]
		}
	}
	return p, err
}

func (a *analysis) newFound(s *shape) *found {
	return &found{
		assigns: s.vars, q: a.q, topology: a.r.topology, shape: s, cte: map[string]bool{},
		inValue: map[ast.Node]ast.ExprNode{}, owner: map[*ast.SelectStmt]*block{},
		functions: map[string]bool{}, aggregates: map[*block][]*ast.AggregateFuncExpr{},
	}
}

func (a *analysis) planAs(f *found, stmt ast.StmtNode) (planned, error) {
	switch n := stmt.(type) {
	case *ast.SelectStmt, *ast.SetOprStmt:
		return a.read(f, n)
	case *ast.InsertStmt:
		p, err := a.insert(f, n)
		if p.plan != nil {
			p.plan.Selects = n.Select != nil
			sel, ok := n.Select.(*ast.SelectStmt)
			p.plan.SelectsNone = ok && sel.From == nil && len(f.aggregates[f.owner[sel]]) == 0 && len(f.windows) == 0
		}
		return p, err
	case *ast.UpdateStmt:
		return a.update(f, n)
	case *ast.DeleteStmt:
		return a.delete(f, n)
	case *ast.DoStmt:
		return a.do(f, n)
	case ast.DDLNode:
		p, err := a.ddl(f, n)
		return committing(n, p, err)
	case *ast.AnalyzeTableStmt:
		return a.maintenance(f, "ANALYZE", n.TableNames)
	case *ast.CallStmt:
		return a.call(n)
	case *ast.LoadDataStmt:
		return planned{}, refuse("LOAD DATA")
	}
	return planned{}, refuse(strings.ToUpper(ast.GetStmtLabel(stmt)))
}

// anyDatabase is the database named, or, when there is none, the first by name.
func (r *Router) anyDatabase(name string) *Database {
	if db := r.topology.Databases[name]; db != nil {
		return db
	}
	var first *Database
	for _, db := range r.topology.Databases {
		if first == nil || db.Name < first.Name {
			first = db
		}
	}
	return first
}
