package router

import (
	"fmt"
	"strings"

	"braid/merge"
)

// String prints the plan: one line that says its kind, then what it depends on
// and the texts, with {n} for the literals of hole n.
func (p *Plan) String() string {
	var b strings.Builder
	b.WriteString(p.Kind.String())
	if p.Verb != "" {
		b.WriteString(" " + p.Verb)
	}
	for _, flag := range []struct {
		name string
		on   bool
	}{{"rows", p.Rows}, {"writer", p.Writer}, {"no-tables", p.NoTables}, {"implicit-commit", p.ImplicitCommit}, {"found-rows", p.FoundRows}, {"generates-id", p.GeneratesID}} {
		if flag.on {
			b.WriteString(" " + flag.name)
		}
	}
	for _, v := range p.Assigns {
		b.WriteString(" assigns @" + v)
	}
	b.WriteByte('\n')
	if p.Err != nil {
		fmt.Fprintf(&b, "  error %d: %s\n", p.Err.Code, p.Err.Message)
	}
	if p.Local != nil {
		p.Local.explain(&b)
	}
	if p.DDL != nil {
		fmt.Fprintf(&b, "  ddl: %s %s\n", p.DDL.Verb, strings.Join(p.DDL.Tables, ", "))
	}
	if p.Load != nil {
		fmt.Fprintf(&b, "  load: %s, key in fields %v, whole %v: %s\n", p.Load.Table.Name, p.Load.keys, p.Load.Whole, p.Load.Text)
	}
	if p.body != nil {
		p.body.explain(&b)
	}
	return b.String()
}

func (b *readBody) explain(s *strings.Builder) {
	for i := range b.sources {
		src := &b.sources[i]
		if src.rule == nil {
			fmt.Fprintf(s, "  table %s: shard %s\n", src.name, b.db.Shards[src.shard].Name)
			continue
		}
		fmt.Fprintf(s, "  table %s", src.name)
		for _, r := range src.refs[1:] {
			s.WriteString(", " + r.table.Name)
		}
		s.WriteString(": ")
		explainCond(s, src.cond)
		s.WriteByte('\n')
	}
	if b.all {
		s.WriteString("  all shards\n")
	}
	if b.single != nil {
		s.WriteString("  single: " + b.single.String() + "\n")
	}
	if b.list != nil {
		s.WriteString("  split: " + b.list.rule.Columns[0].Name + " IN")
		for i, o := range b.list.list {
			s.WriteString([]string{" ", ","}[min(i, 1)] + o.String())
		}
		s.WriteByte('\n')
	}
	if b.gather != nil {
		b.gather.explain(s)
	} else if b.several != nil {
		fmt.Fprintf(s, "  several: error %d: %s\n", b.several.Code, b.several.Message)
	}
	if b.scatter != nil {
		b.scatter.explain(s)
	}
}

func (c *scatter) explain(s *strings.Builder) {
	if c.plain {
		s.WriteString("  several: same text\n")
	} else {
		s.WriteString("  several: " + c.text.String() + "\n")
	}
	if c.over != nil {
		s.WriteString("  over merged groups: " + c.over.String() + "\n")
	}
	if c.described {
		s.WriteString("  columns: of the client's text\n")
	}
	if c.spec.Visible > 0 {
		fmt.Fprintf(s, "  visible: %d\n", c.spec.Visible)
	}
	explainKeys(s, "order", c.spec.Order)
	explainKeys(s, "group", c.spec.Group)
	for _, a := range c.spec.Aggs {
		fmt.Fprintf(s, "  aggregate: %s of %d", aggNames[a.Kind], a.Col)
		switch a.Kind {
		case merge.AggAvg:
			fmt.Fprintf(s, " sum %d count %d", a.SumCol, a.CountCol)
		case merge.AggSumDistinct, merge.AggAvgDistinct:
			fmt.Fprintf(s, " sum %d", a.SumCol)
		}
		if a.Weight >= 0 {
			fmt.Fprintf(s, " weight %d %s", a.Weight, padNames[a.Pad.Mode])
		}
		s.WriteByte('\n')
		explainKeys(s, "distinct", a.Distinct)
	}
	explainKeys(s, "sort", c.spec.Sort)
	if c.limit.set {
		s.WriteString("  limit: {" + fmt.Sprint(c.limit.count) + "}")
		if c.limit.offset >= 0 {
			s.WriteString(" offset {" + fmt.Sprint(c.limit.offset) + "}")
		}
		s.WriteByte('\n')
	}
}

var aggNames = map[merge.AggKind]string{
	merge.AggCount: "count", merge.AggSum: "sum", merge.AggMin: "min", merge.AggMax: "max", merge.AggAvg: "avg",
	merge.AggBitAnd: "bit_and", merge.AggBitOr: "bit_or", merge.AggBitXor: "bit_xor",
	merge.AggCountDistinct: "count distinct", merge.AggSumDistinct: "sum distinct", merge.AggAvgDistinct: "avg distinct",
}

var padNames = map[merge.PadMode]string{merge.PadUnknown: "unless text", merge.NoPad: "no pad", merge.PadSpace: "pad space"}

func explainKeys(s *strings.Builder, name string, keys []merge.Key) {
	if len(keys) == 0 {
		return
	}
	s.WriteString("  " + name + ":")
	for i, k := range keys {
		if i > 0 {
			s.WriteByte(',')
		}
		fmt.Fprintf(s, " %d", k.Col)
		if k.NumericCol >= 0 {
			fmt.Fprintf(s, " number %d", k.NumericCol)
		}
		if k.Weight >= 0 {
			fmt.Fprintf(s, " weight %d %s", k.Weight, padNames[k.Pad.Mode])
		}
		if k.Desc {
			s.WriteString(" desc")
		}
	}
	s.WriteByte('\n')
}

func (l *Local) explain(s *strings.Builder) {
	fmt.Fprintf(s, "  %s", opNames[l.Op])
	if l.Name != "" {
		s.WriteString(" " + l.Name)
	}
	for _, flag := range []struct {
		name string
		on   bool
	}{{"read-only", l.ReadOnly}, {"read-write", l.ReadWrite}, {"snapshot", l.Snapshot}, {"chain", l.Chain}, {"release", l.Release}, {"session", l.Session}, {"if", l.Lenient}} {
		if flag.on {
			s.WriteString(" " + flag.name)
		}
	}
	for _, t := range []string{l.Isolation, l.Access} {
		if t != "" {
			s.WriteString(" " + t)
		}
	}
	if l.From != "" {
		s.WriteString(" from " + l.From)
	}
	if len(l.Using) > 0 {
		s.WriteString(" using " + strings.Join(l.Using, ", "))
	}
	if l.Op == OpShow {
		h := &l.Show
		fmt.Fprintf(s, " %s", h.What)
		for _, f := range []struct{ name, value string }{{"database", h.Database}, {"table", h.Table}, {"where", h.Where}, {"limit", h.Limit}} {
			if f.value != "" {
				s.WriteString(" " + f.name + "=" + f.value)
			}
		}
		if h.HasLike {
			fmt.Fprintf(s, " like=%q", h.Like)
		}
		if h.Global {
			s.WriteString(" global")
		}
	}
	if l.Op == OpKill {
		fmt.Fprintf(s, " %d", l.Kill.ID)
		if l.Kill.Query {
			s.WriteString(" query")
		}
	}
	s.WriteByte('\n')
	for _, x := range l.Sets {
		fmt.Fprintf(s, "    %s %s = %s", scopeNames[x.Scope], x.Name, x.Text)
		if x.Literal {
			fmt.Fprintf(s, " literal %q", x.Value)
		}
		if x.Collate != "" {
			s.WriteString(" collate " + x.Collate)
		}
		s.WriteByte('\n')
	}
	if l.Explain != nil {
		for _, line := range strings.Split(strings.TrimSuffix(l.Explain.String(), "\n"), "\n") {
			s.WriteString("    " + line + "\n")
		}
	}
}

var opNames = [...]string{
	OpNone: "nothing", OpBegin: "begin", OpCommit: "commit", OpRollback: "rollback", OpSavepoint: "savepoint",
	OpRollbackTo: "rollback to", OpReleaseSavepoint: "release savepoint", OpUse: "use", OpSet: "set",
	OpTransaction: "set transaction", OpShow: "show", OpKill: "kill", OpPrepare: "prepare", OpExecute: "execute",
	OpDeallocate: "deallocate", OpExplain: "explain", OpXA: "xa", OpLockTables: "lock tables", OpUnlockTables: "unlock tables",
	OpCreateDatabase: "create database that exists", OpDropDatabase: "drop database that does not exist",
	OpFill: "create table, then insert select",
}

var scopeNames = [...]string{ScopeSession: "session", ScopeGlobal: "global", ScopePersist: "persist", ScopePersistOnly: "persist only", ScopeUser: "user", ScopeNext: "next"}
