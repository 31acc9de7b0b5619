package router

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"braid/conf"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// testTopology is built from testdata/plans/schema.txt: database "shop" with
// four shards whose schemas have its name, and "split" with the same tables
// whose shards' schemas have names of their own.
func testTopology(t testing.TB) *Topology {
	t.Helper()
	text, err := os.ReadFile("testdata/plans/schema.txt")
	if err != nil {
		t.Fatal(err)
	}
	top := &Topology{Databases: map[string]*Database{}}
	for _, name := range []string{"shop", "split"} {
		d := &conf.Database{Name: name, Default: "single"}
		db := &Database{Name: name, Flavour: MySQL, SamePhysical: name == "shop"}
		var tables []TableInfo
		for n := range 4 {
			s := conf.Shard{Name: fmt.Sprintf("s%d", n), Node: fmt.Sprintf("n%d", n), Slots: fmt.Sprintf("%d-%d", n*4096, n*4096+4095)}
			d.Shards = append(d.Shards, s)
			schema := name
			if name == "split" {
				schema = fmt.Sprintf("split_%d", n)
			}
			db.Shards = append(db.Shards, Shard{Name: s.Name, Node: s.Node, Schema: schema})
		}
		for _, line := range strings.Split(string(text), "\n") {
			if line == "" || line[0] == '#' {
				continue
			}
			head, cols, _ := strings.Cut(line, " | ")
			words := strings.Fields(head)
			c := conf.Table{Name: words[0], Kind: words[1]}
			switch c.Kind {
			case "sharded":
				c.Key = strings.Split(words[2], ",")
				if len(words) > 3 {
					c.Function = words[3]
					c.Ranges = []conf.RangePart{{LessThan: "10", Shard: "s0"}, {LessThan: "20", Shard: "s1"}, {Shard: "s2"}}
				}
			case "single":
				c.Shard = words[2]
			}
			d.Tables = append(d.Tables, c)
			tables = append(tables, testTable(words[0], cols))
		}
		shards := make([]ShardTables, 4)
		for i := range shards {
			shards[i] = tables
		}
		if err := BuildTables(db, d, shards); err != nil {
			t.Fatal(err)
		}
		top.Databases[name] = db
	}
	return top
}

func testTable(name, cols string) TableInfo {
	info := TableInfo{Name: name}
	for i, c := range strings.Split(cols, ", ") {
		words := strings.Fields(c)
		col := Column{Name: strings.TrimSuffix(words[0], "*"), ColumnType: words[1], Position: i + 1}
		col.DataType, _, _ = strings.Cut(words[1], "(")
		for _, w := range words[2:] {
			switch w {
			case "null":
				col.Nullable = true
			case "auto":
				col.Extra = "auto_increment"
			default:
				col.Collation = w
				col.Charset, _, _ = strings.Cut(w, "_")
			}
		}
		info.Columns = append(info.Columns, col)
		if strings.HasSuffix(words[0], "*") {
			info.AddIndex("PRIMARY", true, i)
		}
	}
	return info
}

func testQuery(text string) *Query {
	return &Query{Text: []byte(text), Database: "shop", Charset: "utf8mb4", Facts: &Facts{
		ConnectionID: 42, User: "app@10.0.0.1", CurrentUser: "app@%", Version: "9.7.0", LastInsertID: 7, RowCount: -1, FoundRows: 3,
	}}
}

// describe prints a statement's plan and where its own values lead.
func describe(r *Router, q *Query) string {
	p, err := r.Plan(q)
	if err != nil {
		return fmt.Sprintf("%v\n", err)
	}
	var b strings.Builder
	b.WriteString(p.String())
	if p.Local != nil {
		return b.String()
	}
	var route Route
	if needs, err := p.Needs(q); err != nil {
		fmt.Fprintf(&b, "-> %v\n", err)
		return b.String()
	} else if needs != nil {
		b.WriteString(makeForTest(q, needs))
	}
	if err := p.Bind(q, &route); err != nil {
		fmt.Fprintf(&b, "-> %v\n", err)
		return b.String()
	}
	if s := route.Steps; s != nil {
		fmt.Fprintf(&b, "-> read: %s\n   write: %s{rows}%s\n", s.Select, s.Head, s.Tail)
		return b.String()
	}
	db := r.topology.Databases[p.Database]
	var names []string
	texts := map[string]bool{}
	for _, t := range route.Targets {
		names = append(names, db.Shards[t.Shard].Name)
		if !t.Same {
			texts[string(t.Text)] = true
		}
	}
	any := ""
	if route.Any {
		any = " (any)"
	}
	same := ""
	if len(texts) == 0 {
		same = " same text"
	}
	if route.Gather != nil {
		fmt.Fprintf(&b, "-> gather %s\n", route.Gather)
		return b.String()
	}
	fmt.Fprintf(&b, "-> %s%s%s\n", strings.Join(names, " "), any, same)
	last := ""
	for _, t := range route.Targets {
		if s := string(t.Text); !t.Same && s != last {
			fmt.Fprintf(&b, "   %s: %s\n", db.Shards[t.Shard].Name, s)
			last = s
		}
		if q.Prepared && t.Params != nil {
			fmt.Fprintf(&b, "   params %v\n", t.Params)
		}
	}
	if route.Limit.Set {
		fmt.Fprintf(&b, "   limit %d offset %d\n", route.Limit.Count, route.Limit.Offset)
	}
	return b.String()
}

// makeForTest gives ids from 101 on, and makes every expression 102.
func makeForTest(q *Query, n *Needs) string {
	q.Made = &Made{}
	next := uint64(101)
	for _, id := range n.IDs {
		if id == 0 {
			q.Made.IDs = append(q.Made.IDs, next)
			q.Made.First = max(q.Made.First, 101)
			next++
			continue
		}
		q.Made.IDs = append(q.Made.IDs, 0)
		if id != NoID && id >= next {
			next = id + 1
		}
	}
	text := ""
	for _, t := range n.Texts {
		text += "   make " + t + "\n"
		q.Made.Values = append(q.Made.Values, IntValue(102))
		q.Made.Texts = append(q.Made.Texts, "102")
	}
	return text
}

// TestGolden holds the plans of testdata/plans. A case is a statement, of one
// or more lines, a line "--", and its plan up to an empty line. A statement
// may begin with "@db=NAME", "@mode=ansi" or "@prepared" lines.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/plans/*.sql.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no golden files", err)
	}
	top := testTopology(t)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var out strings.Builder
			n := 0
			for _, c := range strings.Split(strings.TrimSpace(string(text)), "\n\n") {
				head, want, _ := strings.Cut(c, "\n--\n")
				if strings.HasPrefix(head, "#") && want == "" {
					out.WriteString(head + "\n\n")
					continue
				}
				got := strings.TrimSuffix(describe(New(top, Options{}), goldenQuery(head)), "\n")
				if !*update && got != strings.TrimSuffix(want, "\n") {
					t.Errorf("%s\n--- want\n%s\n--- got\n%s", head, want, got)
				}
				out.WriteString(head + "\n--\n" + got + "\n\n")
				n++
			}
			if *update {
				if err := os.WriteFile(file, []byte(strings.TrimSpace(out.String())+"\n"), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			t.Logf("%d cases", n)
		})
	}
}

func goldenQuery(head string) *Query {
	q := testQuery("")
	for strings.HasPrefix(head, "@") {
		line, rest, _ := strings.Cut(head, "\n")
		name, value, _ := strings.Cut(line[1:], "=")
		switch name {
		case "db":
			q.Database = value
		case "mode":
			q.Mode = ModeAnsiQuotes
		case "prepared":
			q.Prepared = true
			for _, v := range strings.Fields(value) {
				var n int64
				if _, err := fmt.Sscan(v, &n); err != nil {
					q.Params = append(q.Params, Param{Null: true})
					continue
				}
				b := make([]byte, 8)
				for i := range b {
					b[i] = byte(n >> (8 * i))
				}
				q.Params = append(q.Params, Param{Type: 8, Value: b})
			}
		}
		head = rest
	}
	q.Text = []byte(head)
	return q
}
