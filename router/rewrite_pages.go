package router

import (
	"strconv"
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/opcode"

	"braid/merge"
)

// HeadRows is how many rows of a node are asked for first where its shards are
// read by one text (Route.ByPages): the node reads as many of each shard before
// the first one comes.
const HeadRows = 100

// Page is which rows of a united text's answer are wanted. The zero value is all.
type Page struct{ Offset, Count uint64 }

// paged is a scattered read as it is where the shards of a node are read by
// united texts, page by page. Rows have columns behind the scatter's own, so that
// no two are equal in the order: only then is the n-th row the same in
// every text. The last one is the number of the shard.
type paged struct {
	text template
	spec merge.Spec
	// ties is the first column that tells equal rows apart; desc is their direction.
	ties, columns int
	desc          bool
	// weightMax bounds the bytes that a sort has to look at to order the rows as an
	// index does.
	weightMax int
}

// pages plans the paged form of a scatter whose other edits are given; nil when
// pages would not be the statement's rows, or no index has their order, so that the
// first page would cost a node as much as all of them.
func (x *scatterer) pages(limit limitClause, edits []edit) *paged {
	f := x.f
	if len(x.sorted) == 0 || len(x.spec.Sort) > 0 || f.locking || len(f.refs) != 1 || len(f.blocks) != 1 || x.sel.CalcFoundRows || x.s.into[1] > 0 ||
		len(f.functions) > 0 || len(f.windows) > 0 || len(f.assigns) > 0 {
		return nil
	}
	r := f.refs[0]
	p := &paged{desc: x.sorted[0].desc}
	var columns []int
	for i := range x.sorted {
		it := &x.sorted[i]
		if it.col.ref != r || it.desc != p.desc || !p.orders(&r.table.Columns[it.col.col], x.f.db.Flavour, true) {
			return nil
		}
		columns = append(columns, it.col.col)
	}
	rest, ok := x.indexed(r, columns)
	if !r.table.Snapshots || !ok {
		return nil
	}
	hidden := append([]template(nil), x.hidden...)
	p.ties = x.visible + len(hidden)
	if len(x.spec.Group) == 0 { // groups are different of themselves
		if len(r.table.Primary) == 0 {
			return nil
		}
		var by template
		for _, c := range append(rest, r.table.Primary...) {
			if containsInt(columns, c) {
				continue
			}
			if !p.orders(&r.table.Columns[c], x.f.db.Flavour, false) {
				return nil
			}
			columns = append(columns, c)
			text := columnText(place{r, c})
			hidden = append(hidden, text)
			by = append(by.add(", "), text...)
			if p.desc {
				by = by.add(" DESC")
			}
		}
		if len(by) > 0 {
			edits = append(edits, edit{x.l.order.end, x.l.order.end, by})
		}
	}
	hidden = append(hidden, template{{kind: segPart}})
	p.columns = x.visible + len(hidden)
	edits = append(edits, x.hiddenEdit(hidden))
	if limit.set {
		edits = append(edits, edit{x.l.limit.start, x.l.limit.end, template{{kind: segPage}}})
	} else {
		edits = append(edits, edit{x.l.limit.at, x.l.limit.at, template{{kind: segPage}}})
	}
	p.text = x.s.slice(0, len(x.s.text), sortEdits(append(append([]edit{}, x.base...), edits...)))
	p.spec = x.spec
	p.spec.Visible, p.spec.Hidden = x.visible, hiddenName(0)
	return p
}

// indexed tells whether some index of the table has rows in the order of the
// columns, where those that WHERE gives a value are passed over. rest are the
// columns of the index behind them.
func (x *scatterer) indexed(r *ref, columns []int) (rest []int, ok bool) {
	given := map[int]bool{}
	for _, set := range x.b.sets {
		for _, e := range set.conj {
			eq, ok := e.(*ast.BinaryOperationExpr)
			if !ok || eq.Op != opcode.EQ {
				continue
			}
			if c := x.f.columnOf(x.b, eq.L); c.ref == r {
				_, ok := x.f.operand(eq.R, false)
				given[c.col] = given[c.col] || ok
			}
		}
	}
	for _, index := range r.table.Indexes {
		n := 0
		for _, c := range index {
			switch {
			case n < len(columns) && c == columns[n]:
				n++
			case given[c]:
			case n < len(columns):
				n = -1
			default:
				rest = append(rest, c)
			}
			if n < 0 {
				break
			}
		}
		if n == len(columns) {
			return rest, true
		}
		rest = nil
	}
	return nil, false
}

// orders tells whether a sort by a column of a united text orders rows as an
// index of a shard does, and counts the bytes it looks at. key says that the
// merge sorts by it too, and so by a number where the column is none.
func (p *paged) orders(c *Column, flavour Flavour, key bool) bool {
	switch kindOf(c) {
	case kindNumber:
		return true
	case kindFloat, kindTimestamp:
		return key
	case kindMember:
		return key && c.DataType != "set" // a double does not tell 64 members apart
	case kindBinary:
		p.weightMax = max(p.weightMax, lengthOf(c)+64)
		return lengthOf(c) > 0
	case kindText:
		switch {
		case flavour == MySQL && strings.Contains(c.Collation, "_0900_"):
			return true // no sort cuts them
		case strings.HasSuffix(c.Collation, "_bin"), strings.HasSuffix(c.Collation, "_general_ci"):
			p.weightMax = max(p.weightMax, 8*lengthOf(c)+64)
			return lengthOf(c) > 0
		}
	}
	return false
}

// lengthOf is the length in the type of a string column, 0 when there is none.
func lengthOf(c *Column) int {
	_, rest, _ := strings.Cut(c.ColumnType, "(")
	digits, _, _ := strings.Cut(rest, ")")
	n, _ := strconv.Atoi(digits)
	return n
}

func containsInt(list []int, n int) bool {
	for _, x := range list {
		if x == n {
			return true
		}
	}
	return false
}

// ByPages makes the route one whose shards of one node can be read by united
// texts in two pages: the first HeadRows rows, so that the first of them comes
// soon, and the rest. It is for a transaction that reads every text from one
// snapshot; sortLength is the nodes' max_sort_length. False: the route stays as
// it is, because pages would not be exact, or of no use.
func (r *Route) ByPages(db *Database, q *Query, sortLength int) bool {
	p := r.pages
	if p == nil || p.weightMax > sortLength {
		return false
	}
	if most, ok := r.shardRows(); ok && most <= HeadRows {
		return false
	}
	r.paged, r.Merge = true, &p.spec
	for i := range r.Targets {
		r.Targets[i] = p.bind(db, q, i, r.Targets[i].Shard, Page{}, r)
	}
	return true
}

// Paged tells whether ByPages made the route one of pages.
func (r *Route) Paged() bool { return r.paged }

// shardRows is how many rows of a shard, or of a node's shards together before
// groups are combined, can be wanted; ok is false when all of them can.
func (r *Route) shardRows() (n uint64, ok bool) {
	if n = r.Limit.Offset + r.Limit.Count; n < r.Limit.Count {
		n = 1<<64 - 1
	}
	return n, r.Limit.Set
}

// bind writes the text of target i.
func (p *paged) bind(db *Database, q *Query, i, shard int, page Page, of *Route) Target {
	var r Route
	w := writer{q: q, r: &r, db: db, part: i}
	w.most, w.bounded = of.shardRows()
	if page.Count > 0 && page.Offset == 0 {
		w.most, w.bounded = page.Count, true
	}
	w.template(p.text)
	return Target{Shard: shard, Text: r.buf, Params: w.params()}
}
