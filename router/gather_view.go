package router

import (
	"slices"
	"strings"

	"github.com/pingcap/tidb/pkg/parser"
	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/opcode"
	driver "github.com/pingcap/tidb/pkg/parser/test_driver"

	"braid/internal/mysql"
)

// viewBody is a view's definition as a statement over copies has it, as a derived
// table: a view does not see the copies, because it names the originals' schema
// (rule G4).
type viewBody struct {
	text   string
	toks   []token         // of text
	tables []int           // which of toks name tables
	names  map[string]bool // the columns that it names, in lower case
	texts  bool            // there are texts whose collation may matter
}

// GatherView is a view that stands in a statement over copies as a derived table.
type GatherView struct {
	Name string
	// Held says that a server works out the view's rows before it goes on.
	Held bool
}

// holdsRows tells whether a server works out a view's rows by themselves, instead
// of making one SELECT of the view's and the statement's.
func holdsRows(view *Table) bool {
	stmts, _, err := parser.New().Parse(view.Definition, "", "")
	if err != nil || len(stmts) != 1 {
		return false
	}
	sel, ok := stmts[0].(*ast.SelectStmt)
	if !ok || sel.Distinct || sel.GroupBy != nil || sel.Having != nil || sel.Limit != nil || sel.From == nil {
		return true
	}
	held := false
	for _, field := range sel.Fields.Fields {
		field.Accept(walk(func(n ast.Node) bool {
			switch n.(type) {
			case *ast.AggregateFuncExpr, *ast.WindowFuncExpr:
				held = true
			case *ast.SubqueryExpr:
				return false
			}
			return true
		}))
	}
	return held
}

// viewBody reads the definition of a view. An error says why the view cannot stand in a
// statement over copies.
func (f *found) viewBody(view *Table) (*viewBody, *mysql.Error) {
	no := func(why string) *mysql.Error {
		return refuse("the view " + view.Name + ", " + why + ", where the rows of several shards have to meet")
	}
	v := &viewBody{text: view.Definition}
	stmts, _, err := parser.New().Parse(v.text, "", "")
	switch {
	case v.text == "" || err != nil || len(stmts) != 1:
		return nil, no("whose definition cannot be read")
	case f.q.Mode&ModeNoBackslashEscapes != 0 && strings.Contains(v.text, `\`):
		return nil, no("whose definition has a backslash, under NO_BACKSLASH_ESCAPES")
	case !strings.HasPrefix(f.q.Charset, "utf8") && strings.ContainsFunc(v.text, func(r rune) bool { return r >= 0x80 }):
		return nil, no("whose definition has characters that the session's character set may write otherwise")
	}
	why, tables := "", 0
	stmts[0].Accept(walk(func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.TableName:
			tables++
			if !f.db.ours(n.Schema.O) {
				why = "which reads another schema"
			}
		case *ast.TableSource:
			if n.AsName.O != "" && f.db.ours(n.AsName.O) {
				why = "which calls a table by its schema's name"
			}
		case *ast.WithClause:
			why = "which has common table expressions"
		case *ast.FuncCallExpr:
			if _, fact := factOf(strings.ToUpper(n.FnName.L)); fact || n.Schema.L != "" {
				why = "which calls " + strings.ToUpper(n.FnName.L) + "()"
			}
		case *ast.VariableExpr:
			why = "which reads variables"
		}
		return true
	}))
	if why != "" {
		return nil, no(why)
	}
	v.names, _ = usedNames(stmts[0])
	v.texts = freeTexts(stmts[0])
	v.unqualify(f.db)
	if !v.nameColumns(view) {
		return nil, no("whose columns cannot be found in its definition")
	}
	var refused *mysql.Error
	if v.tables, refused = tableTokens(v.text, v.toks, f.db, nil); refused != nil || len(v.tables) != tables {
		return nil, no("whose definition has another form of FROM")
	}
	return v, nil
}

// ours tells whether a schema in a view's definition is a shard's own.
func (db *Database) ours(schema string) bool {
	return schema == "" || slices.ContainsFunc(db.Shards, func(s Shard) bool { return s.Schema == schema })
}

// freeTexts tells whether a statement has texts but those that are compared with
// a column, whose collation then counts and not the text's.
func freeTexts(stmt ast.StmtNode) bool {
	bound, free := map[ast.Node]bool{}, false
	compared := func(with ast.ExprNode, what ...ast.ExprNode) {
		if _, ok := with.(*ast.ColumnNameExpr); ok {
			for _, e := range what {
				bound[e] = true
			}
		}
	}
	stmt.Accept(walk(func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BinaryOperationExpr:
			switch n.Op {
			case opcode.EQ, opcode.NE, opcode.LT, opcode.LE, opcode.GT, opcode.GE, opcode.NullEQ:
				compared(n.L, n.R)
				compared(n.R, n.L)
			}
		case *ast.PatternInExpr:
			compared(n.Expr, n.List...)
		case *ast.PatternLikeOrIlikeExpr:
			compared(n.Expr, n.Pattern)
		case *ast.BetweenExpr:
			compared(n.Expr, n.Left, n.Right)
		case *driver.ValueExpr:
			free = free || !bound[n] && (n.Kind() == driver.KindString || n.Kind() == driver.KindBytes)
		}
		return true
	}))
	return free
}

// unqualify takes the shard's schema out of the definition and finds its tokens.
func (v *viewBody) unqualify(db *Database) {
	toks := tokenize(v.text, 0, "utf8mb4")
	var b strings.Builder
	at := 0
	for i := 0; i+2 < len(toks); i++ {
		t := toks[i]
		if t.kind != tokQuoted || !toks[i+1].is(v.text, '.') || i > 0 && toks[i-1].is(v.text, '.') || !db.ours(t.name(v.text)) {
			continue
		}
		b.WriteString(v.text[at:t.start])
		at = toks[i+2].start
	}
	b.WriteString(v.text[at:])
	v.text = b.String()
	v.toks = tokenize(v.text, 0, "utf8mb4")
}

// nameColumns gives the definition's items the names that they have in the view:
// MySQL does not print the names of CREATE VIEW v(a, b) there. It is false where
// they are not all found.
func (v *viewBody) nameColumns(view *Table) bool {
	var b strings.Builder
	at, n := 0, 0
	for i, t := range v.toks {
		if w := t.word(v.text); t.depth == 0 && (w == "FROM" || w == "UNION" || w == "EXCEPT" || w == "INTERSECT") {
			break
		} else if t.depth > 0 || w != "AS" || i+1 == len(v.toks) || v.toks[i+1].kind != tokQuoted {
			continue
		}
		if n < len(view.Columns) {
			b.WriteString(v.text[at:v.toks[i+1].start] + quoteIdent(view.Columns[n].Name))
			at = v.toks[i+1].end
		}
		n++
	}
	v.text = b.String() + v.text[at:]
	v.toks = tokenize(v.text, 0, "utf8mb4")
	return n == len(view.Columns)
}

// viewTables are the tables whose rows a view reads, also by way of other views,
// and the names of columns that their definitions use are added to names. The
// view's rows have to be those of its shards one after the other.
func (f *found) viewTables(g *gatherPlan, view *Table, names map[string]bool) ([]*Table, *mysql.Error) {
	var out []*Table
	var add func(of *Table, depth int) *mysql.Error
	add = func(of *Table, depth int) *mysql.Error {
		v, err := f.viewBody(of)
		if err != nil {
			return err
		}
		if v.texts && g.collation != "" && g.collation != of.Collation {
			return refuse("views made under several collations, where the rows of several shards have to meet")
		} else if v.texts {
			g.collation = of.Collation
		}
		for name := range v.names {
			names[name] = true
		}
		for _, i := range v.tables {
			t := f.db.Table(v.toks[i].name(v.text))
			switch {
			case t.Broken != "" || t.Temporary || depth > viewDepthMax || f.cte[strings.ToLower(t.Name)],
				t.Kind == Sharded && view.Kind != Sharded, t.Kind == Single && (view.Kind != Single || view.Shard != t.Shard):
				return refuse("the view " + view.Name + " of " + t.Name + ", where the rows of several shards have to meet")
			case t.View:
				if err := add(t, depth+1); err != nil {
					return err
				}
			case !slices.Contains(out, t):
				out = append(out, t)
			}
		}
		return nil
	}
	err := add(view, 0)
	return out, err
}

// viewDepthMax is how many views may stand in one another's definitions.
const viewDepthMax = 16

// copyNames gives the references of a statement over copies their names: where
// one temporary table cannot be opened twice (MySQL, error 1137), each reference
// has a copy of its own.
type copyNames struct {
	f             *found
	toks          []token // of the statement
	tables, named []int   // of toks: the references to tables, and to common table expressions
	seen          map[*Table]int
	apart         bool // every reference has a copy of its own
	// For common table expressions: the edits of the text but the copies', and how
	// often each was named.
	base []edit
	ctes []cteText
	used map[string]int
}

// next is what a reference of a table is written as, "" for as it is. named says
// that an alias follows.
func (c *copyNames) next(t *Table, written string, named bool) (string, *mysql.Error) {
	with := ""
	if t.View {
		v, err := c.f.viewBody(t)
		if err != nil {
			return "", err
		}
		body, err := c.expand(v)
		if err != nil {
			return "", err
		}
		with = "(" + body + ")"
	} else {
		n := c.seen[t]
		c.seen[t]++
		if n == 0 || !c.apart {
			return "", nil
		}
		with = quoteIdent(CopyName(t, n))
	}
	if !named {
		with += " AS " + quoteIdent(written)
	}
	return with, nil
}

// expand is a view's definition over copies.
func (c *copyNames) expand(v *viewBody) (string, *mysql.Error) {
	var b strings.Builder
	at := 0
	for _, i := range v.tables {
		t := v.toks[i]
		name := t.name(v.text)
		with, err := c.next(c.f.db.Table(name), name, i+1 < len(v.toks) && aliasFollows(v.toks[i+1], v.text))
		if err != nil {
			return "", err
		}
		if with != "" {
			b.WriteString(v.text[at:t.start] + with)
			at = t.end
		}
	}
	return b.String() + v.text[at:], nil
}
