package router

import (
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"

	"braid/internal/mysql"
)

// update plans an UPDATE.
func (a *analysis) update(f *found, stmt *ast.UpdateStmt) (planned, error) {
	b, err := a.writeBlock(f, stmt, stmt.TableRefs, stmt.Where)
	if err != nil {
		return planned{}, err
	}
	var written []*ref
	var assigned []int
	for _, s := range stmt.List {
		c := f.resolve(b, s.Column)
		if c.ref == nil {
			continue // the server says so
		}
		if !contains(written, c.ref) {
			written = append(written, c.ref)
		}
		assigned = append(assigned, c.col)
		if c.ref.table.Kind == Sharded && len(f.db.Shards) > 1 && !f.q.KeyStays {
			for _, k := range c.ref.table.Rule.Keys {
				if k == c.col {
					if _, err := f.baseEdits(); err != nil {
						return planned{}, err
					}
					return a.move(f, b, stmt)
				}
			}
		}
	}
	if len(written) == 0 {
		written = b.refs
	}
	return a.write(f, b, "UPDATE", written, writeForm{stmt.Limit != nil, stmt.Order != nil, stmt.IgnoreErr}, assigned)
}

// delete plans a DELETE.
func (a *analysis) delete(f *found, stmt *ast.DeleteStmt) (planned, error) {
	b, err := a.writeBlock(f, stmt, stmt.TableRefs, stmt.Where)
	if err != nil {
		return planned{}, err
	}
	written := b.refs
	if stmt.IsMultiTable && stmt.Tables != nil {
		written = nil
		for _, t := range stmt.Tables.Tables {
			for _, r := range b.refs {
				if strings.EqualFold(r.name, t.Name.O) || r.table.Name == t.Name.O && (t.Schema.L != "" || f.db.LowerCase) {
					written = append(written, r)
				}
			}
		}
		if len(written) == 0 {
			return planned{}, refuse("this form of DELETE")
		}
	}
	return a.write(f, b, "DELETE", written, writeForm{stmt.Limit != nil, stmt.Order != nil, stmt.IgnoreErr}, nil)
}

// writeBlock reads the tables and conditions of an UPDATE or DELETE.
func (a *analysis) writeBlock(f *found, stmt ast.Node, tables *ast.TableRefsClause, where ast.ExprNode) (*block, error) {
	if w, ok := stmt.(*ast.UpdateStmt); ok {
		f.names(w.With)
	} else if w, ok := stmt.(*ast.DeleteStmt); ok {
		f.names(w.With)
	}
	b := f.push()
	f.from(b, tables.TableRefs, nil)
	if where != nil {
		set := condSet{conj: conjuncts(where, nil)}
		b.sets = append(b.sets, set)
		for _, e := range set.conj {
			f.lookupIn(e)
		}
	}
	if f.err == nil {
		stmt.Accept(f)
	}
	if f.err != nil {
		return nil, f.err
	}
	if f.db == nil {
		return nil, refuse("writing to " + f.system)
	}
	if f.system != "" {
		return nil, refuse("tables of " + f.system + " together with others")
	}
	return b, nil
}

// writeForm is what an UPDATE or DELETE has: LIMIT, ORDER BY, IGNORE.
type writeForm struct{ bounded, ordered, ignore bool }

// write plans an UPDATE or DELETE of the refs written. ORDER BY without LIMIT is
// each shard's own matter, since what it decides, which row meets a unique key
// first, is. assigned are the columns that are set.
func (a *analysis) write(f *found, b *block, verb string, written []*ref, form writeForm, assigned []int) (planned, error) {
	p := &Plan{Kind: KindWrite, Verb: verb, Writer: true, Database: f.db.Name}
	body := &readBody{db: f.db, write: true}
	p.body = body
	base, err := f.baseEdits()
	if err != nil {
		return planned{}, err
	}
	if len(base) > 0 {
		body.single = f.shape.slice(0, len(f.shape.text), base)
	}
	body.sources = f.sources()
	global := false
	for _, r := range written {
		p.Clock = p.Clock || f.readsClock(r.table)
		global = global || r.table.Kind == Global
	}
	if global {
		if err := a.broadcastable(f, body.sources, len(written) == 1 && !form.bounded); err != nil {
			return planned{}, err
		}
		p.Kind, body.all = KindBroadcast, true
		return planned{plan: p}, nil
	}
	if len(body.sources) == 0 || oneShard(body.sources) {
		p.Kind = KindSingle
		return planned{plan: p}, nil
	}
	switch body.several = f.acrossShards(body.sources); {
	case body.several != nil:
	case f.setsID:
		body.several = refuse("LAST_INSERT_ID(expression) over several shards")
	case len(f.assigns) > 0:
		body.several = refuse("assigning user variables in a statement over several shards")
	case form.bounded:
		body.steps, body.several = a.pick(f, b, verb, form, assigned)
	default:
		body.list = f.splitList(&body.sources[0], body.single)
	}
	return planned{plan: p}, nil
}

// broadcastable tells whether a write of global tables does the same on every shard.
func (a *analysis) broadcastable(f *found, sources []source, simple bool) *mysql.Error {
	switch {
	case len(f.db.Shards) < 2:
		return nil
	case len(sources) > 0:
		return refuse("writing a global table by the rows of tables that are not global")
	case f.unstable != "":
		return refuse("writing a global table with " + f.unstable)
	case f.setsID:
		return refuse("writing a global table with LAST_INSERT_ID(expression)")
	case len(f.assigns) > 0:
		return refuse("writing a global table while assigning user variables")
	case !simple:
		return refuse("writing a global table with ORDER BY, LIMIT or several tables")
	}
	return nil
}
