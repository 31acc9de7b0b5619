package router

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"braid/internal/mysql"
)

// Load is LOAD DATA LOCAL INFILE: the proxy takes the client's file, splits it
// into records and hands each to the shards that hold its row, which load it
// themselves, with the statement's own options. It is immutable.
type Load struct {
	File     string // as the client is asked for it
	Database *Database
	Table    *Table
	// Text is what each shard runs: the client's text, with the table's name
	// unqualified and, unless whole, without IGNORE n LINES, which the proxy does.
	Text []byte
	// Whole says that one shard gets the file as it is.
	Whole   bool
	Format  LoadFormat
	Skip    uint64 // IGNORE n LINES
	Charset string // of the file; "": the database's
	// Variables are the user variables that fields are read into, lower case.
	Variables []string

	keys []int // for each key column: its index among the fields
	auto int   // the AUTO_INCREMENT column's field, -1 when it does not matter
}

// planLoad plans a LOAD statement, whose first word was read.
func (r *Router) planLoad(q *Query, toks []token) (*Plan, error) {
	l := loadParser{q: q, text: string(q.Text), toks: toks, i: 1}
	x := &Load{auto: -1}
	x.Format = LoadFormat{FieldEnd: []byte("\t"), Escape: '\\', Escapes: true, LineEnd: []byte("\n")}
	if !l.take("DATA") {
		return nil, refuse("LOAD " + l.word())
	}
	if !l.take("LOW_PRIORITY") {
		l.take("CONCURRENT")
	}
	if !l.take("LOCAL") {
		return nil, refuse("LOAD DATA without LOCAL: the server's files are not the nodes'")
	}
	if err := l.head(r, x); err != nil {
		return nil, err
	}
	if x.Table != nil && (len(x.Table.Locked) > 0 || x.Table.Unlockable != "") {
		return nil, refuse("LOAD DATA into " + x.Table.Name + ", which has unique keys that are locked" + lockedKeys)
	}
	if err := l.format(x); err != nil {
		return nil, err
	}
	if err := l.fields(x); err != nil {
		return nil, err
	}
	x.Text = l.cut()
	p := &Plan{Kind: KindWrite, Database: x.Database.Name, Verb: "LOAD", Writer: true, Load: x, AutoIncrement: x.Table.AutoIncrement >= 0}
	if x.Whole {
		p.Kind = KindSingle
	}
	return p, nil
}

// loadParser reads the words of LOAD DATA. drop are the pieces of the text that
// shards do not get.
type loadParser struct {
	q       *Query
	text    string
	toks    []token
	i       int
	drop    [][2]int
	ignored [2]int // IGNORE n LINES, where it stands
	names   []loadField
	sets    []string
	escaped bool // ESCAPED BY was given
}

// loadField is one of the places a field is read into.
type loadField struct {
	name     string
	variable bool
}

func (l *loadParser) word() string {
	if l.i >= len(l.toks) {
		return ""
	}
	return l.toks[l.i].word(l.text)
}

func (l *loadParser) take(w string) bool {
	if l.word() != w {
		return false
	}
	l.i++
	return true
}

func (l *loadParser) punct(c byte) bool {
	if l.i >= len(l.toks) || !l.toks[l.i].is(l.text, c) {
		return false
	}
	l.i++
	return true
}

func (l *loadParser) wrong() error {
	at := len(l.text)
	if l.i < len(l.toks) {
		at = l.toks[l.i].start
	}
	return syntaxErrorAt(l.text, at)
}

// str is a string literal's bytes.
func (l *loadParser) str() ([]byte, error) {
	if l.i >= len(l.toks) {
		return nil, l.wrong()
	}
	t := l.toks[l.i]
	text := l.text[t.start:t.end]
	class := ClassString
	switch {
	case t.kind == tokString && strings.IndexByte("xX", text[0]) >= 0:
		class = ClassHexX
	case t.kind == tokString && strings.IndexByte("bB", text[0]) >= 0, t.kind == tokNumber && strings.HasPrefix(text, "0b"):
		class = ClassBit
	case t.kind == tokString && strings.IndexByte("nN", text[0]) >= 0:
		return nil, l.wrong()
	case t.kind == tokNumber && strings.HasPrefix(text, "0x"):
		class = ClassHex0
	case t.kind != tokString:
		return nil, l.wrong()
	}
	v, err := l.q.Value(class, []byte(text))
	if err != nil {
		return nil, l.wrong()
	}
	l.i++
	return append([]byte{}, v.Bytes...), nil
}

// name is an identifier.
func (l *loadParser) name() (string, error) {
	if l.i >= len(l.toks) || !l.toks[l.i].ident() {
		return "", l.wrong()
	}
	l.i++
	return l.toks[l.i-1].name(l.text), nil
}

// head reads INFILE 'x' [REPLACE | IGNORE] INTO TABLE t [PARTITION (...)] and
// finds the table.
func (l *loadParser) head(r *Router, x *Load) error {
	if !l.take("INFILE") {
		return l.wrong()
	}
	file, err := l.str()
	if err != nil {
		return err
	}
	x.File = string(file)
	if !l.take("REPLACE") {
		l.take("IGNORE")
	}
	if !l.take("INTO") || !l.take("TABLE") {
		return l.wrong()
	}
	start := l.i
	table, err := l.name()
	if err != nil {
		return err
	}
	database := l.q.Database
	if l.punct('.') {
		database = table
		l.drop = append(l.drop, [2]int{l.toks[start].start, l.toks[l.i-1].end})
		if table, err = l.name(); err != nil {
			return err
		}
	}
	if database == "" {
		return mysql.Errorf(1046, "No database selected")
	}
	x.Database = r.topology.Databases[database]
	if x.Database == nil {
		if SystemSchema(database) {
			return refuse("LOAD DATA into " + database)
		}
		return mysql.Errorf(1049, "Unknown database '%s'", database)
	}
	if x.Table = x.Database.Table(table); x.Table == nil {
		return mysql.Errorf(1146, "Table '%s.%s' doesn't exist", database, table)
	}
	if x.Table.Temporary {
		return refuse("LOAD DATA into a temporary table")
	}
	if x.Table.Broken != "" {
		return mysql.Errorf(1105, "Table '%s.%s' cannot be used: it %s", database, table, x.Table.Broken)
	}
	x.Whole = len(x.Database.Shards) == 1 || x.Table.Kind == Single
	if l.take("PARTITION") {
		if !l.punct('(') {
			return l.wrong()
		}
		for !l.punct(')') {
			if l.i++; l.i >= len(l.toks) {
				return l.wrong()
			}
		}
	}
	return nil
}

// format reads CHARACTER SET, FIELDS, LINES and IGNORE n LINES.
func (l *loadParser) format(x *Load) error {
	if l.take("CHARACTER") || l.take("CHARSET") {
		l.take("SET")
		if l.i >= len(l.toks) {
			return l.wrong()
		}
		if l.toks[l.i].kind == tokString {
			s, err := l.str()
			if err != nil {
				return err
			}
			x.Charset = strings.ToLower(string(s))
		} else {
			s, err := l.name()
			if err != nil {
				return err
			}
			x.Charset = strings.ToLower(s)
		}
	}
	if l.take("FIELDS") || l.take("COLUMNS") {
		if err := l.fieldOptions(&x.Format); err != nil {
			return err
		}
	}
	if l.take("LINES") {
		for any := false; ; any = true {
			var into *[]byte
			switch {
			case l.take("STARTING"):
				into = &x.Format.LineStart
			case l.take("TERMINATED"):
				into = &x.Format.LineEnd
			case !any:
				return l.wrong()
			}
			if into == nil {
				break
			}
			if err := l.by(into); err != nil {
				return err
			}
		}
	}
	if start := l.i; l.take("IGNORE") {
		if l.i >= len(l.toks) || l.toks[l.i].kind != tokNumber {
			return l.wrong()
		}
		n, err := strconv.ParseUint(l.text[l.toks[l.i].start:l.toks[l.i].end], 10, 64)
		if err != nil {
			return l.wrong()
		}
		l.i++
		if !l.take("LINES") && !l.take("ROWS") {
			return l.wrong()
		}
		x.Skip = n
		l.ignored = [2]int{l.toks[start].start, l.toks[l.i-1].end}
		if !x.Whole {
			l.drop = append(l.drop, l.ignored)
		}
	}
	return nil
}

func (l *loadParser) fieldOptions(f *LoadFormat) error {
	for any := false; ; any = true {
		var into []byte
		switch {
		case l.take("TERMINATED"):
			if err := l.by(&f.FieldEnd); err != nil {
				return err
			}
		case l.word() == "OPTIONALLY" || l.word() == "ENCLOSED":
			l.take("OPTIONALLY")
			if !l.take("ENCLOSED") {
				return l.wrong()
			}
			if err := l.by(&into); err != nil {
				return err
			}
			if len(into) > 1 {
				return mysql.Errorf(1083, "Field separator argument is not what is expected; check the manual")
			}
			if f.Encloses = len(into) == 1; f.Encloses {
				f.Enclosed = into[0]
			}
		case l.take("ESCAPED"):
			if err := l.by(&into); err != nil {
				return err
			}
			if len(into) > 1 {
				return mysql.Errorf(1083, "Field separator argument is not what is expected; check the manual")
			}
			l.escaped = true
			if f.Escapes = len(into) == 1; f.Escapes {
				f.Escape = into[0]
			}
		case !any:
			return l.wrong()
		default:
			return nil
		}
	}
}

func (l *loadParser) by(into *[]byte) (err error) {
	if !l.take("BY") {
		return l.wrong()
	}
	*into, err = l.str()
	return err
}

// fields reads the list of columns and variables, and SET.
func (l *loadParser) fields(x *Load) error {
	if l.punct('(') {
		for !l.punct(')') {
			if len(l.names) > 0 && !l.punct(',') {
				return l.wrong()
			}
			f := loadField{variable: l.punct('@')}
			var err error
			if f.variable && l.i < len(l.toks) && l.toks[l.i].kind == tokString {
				var s []byte
				s, err = l.str()
				f.name = string(s)
			} else {
				f.name, err = l.name()
				for err == nil && l.punct('.') {
					f.name, err = l.name()
				}
			}
			if err != nil {
				return err
			}
			if f.variable {
				x.Variables = append(x.Variables, strings.ToLower(f.name))
			}
			l.names = append(l.names, f)
		}
	}
	if l.take("SET") {
		if err := l.assignments(); err != nil {
			return err
		}
	}
	if l.i < len(l.toks) {
		return l.wrong()
	}
	if x.Whole {
		return nil
	}
	return l.place(x)
}

// assignments reads SET a=1, b=@v+2: the columns' names matter, the rest is the
// shards'.
func (l *loadParser) assignments() error {
	depth := -1
	for start := true; l.i < len(l.toks); {
		t := l.toks[l.i]
		if depth < 0 {
			depth = t.depth
		}
		switch {
		case start:
			name, err := l.name()
			for err == nil && l.punct('.') {
				name, err = l.name()
			}
			if err != nil {
				return err
			}
			l.sets = append(l.sets, strings.ToLower(name))
			start = false
			continue
		case t.is(l.text, ',') && t.depth == depth:
			start = true
		case t.word(l.text) == "SELECT":
			return refuse("LOAD DATA with a subquery")
		}
		l.i++
	}
	return nil
}

// place finds the fields of the key, and refuses what cannot be split.
func (l *loadParser) place(x *Load) error {
	t := x.Table
	names := l.names
	if names == nil {
		for i := range t.Columns {
			if strings.Contains(strings.ToUpper(t.Columns[i].Extra), "GENERATED") || strings.Contains(strings.ToUpper(t.Columns[i].Extra), "INVISIBLE") {
				return refuse("LOAD DATA without a list of columns into a table with generated or invisible ones, over several shards")
			}
			names = append(names, loadField{name: t.Columns[i].Name})
		}
	}
	x.Format.Fields = len(names)
	if l.q.Mode&ModeNoBackslashEscapes != 0 && !l.escaped {
		return refuse("LOAD DATA without ESCAPED BY under NO_BACKSLASH_ESCAPES, over several shards")
	}
	if err := x.Format.check(); err != nil {
		return err
	}
	find := func(column string) int {
		at := -1
		for i, f := range names {
			if !f.variable && strings.EqualFold(f.name, column) {
				at = i
			}
		}
		return at
	}
	set := func(column string) bool {
		for _, s := range l.sets {
			if strings.EqualFold(s, column) {
				return true
			}
		}
		return false
	}
	if t.AutoIncrement >= 0 {
		name := t.Columns[t.AutoIncrement].Name
		if x.auto = find(name); x.auto < 0 || set(name) {
			return refuse("LOAD DATA that leaves an AUTO_INCREMENT column to the nodes, over several shards")
		}
	}
	if t.Kind == Global {
		return nil
	}
	for _, k := range t.Rule.Keys {
		name := t.Columns[k].Name
		at := find(name)
		if at < 0 || set(name) {
			return refuse("LOAD DATA that computes the sharding key " + t.Name + "." + name)
		}
		x.keys = append(x.keys, at)
	}
	return nil
}

// cut is the text without the dropped pieces.
func (l *loadParser) cut() []byte {
	var b []byte
	at := 0
	for _, d := range l.drop {
		b = append(b, l.text[at:d[0]]...)
		at = d[1]
	}
	return append(b, l.text[at:]...)
}

// Splitter makes what splits one execution's file, which is in that charset.
func (x *Load) Splitter(charset string, mode Mode) (*LoadSplitter, error) {
	if multibyteCharset(charset) || strings.HasPrefix(charset, "utf16") || charset == "utf32" || charset == "ucs2" {
		return nil, refuse("LOAD DATA of a file in " + charset + " over several shards")
	}
	s := &LoadSplitter{load: x, charset: charset, skip: x.Skip}
	s.ctx.NoAutoValueOnZero = mode&ModeNoAutoValueOnZero != 0
	s.want = append(s.want, x.keys...)
	if x.auto >= 0 {
		s.want = append(s.want, x.auto)
	}
	s.values = make([]loadValue, len(s.want))
	return s, nil
}

// shard finds the shard of the record just read, whose number is row.
func (s *LoadSplitter) shard(row uint64) (int, error) {
	x := s.load
	if x.auto >= 0 {
		v := &s.values[len(x.keys)]
		if v.missing || v.null || len(v.text) == 0 || string(v.text) == "0" {
			return 0, refuse(fmt.Sprintf("LOAD DATA that leaves an AUTO_INCREMENT value to the nodes (row %d), over several shards", row))
		}
	}
	if x.Table.Kind == Global {
		return EveryShard, nil
	}
	var vals [keyColumnsMax]Value
	for i := range x.keys {
		v := &s.values[i]
		switch {
		case v.missing:
			return 0, refuse(fmt.Sprintf("LOAD DATA of a row without the sharding key %s.%s (row %d)", x.Table.Name, x.Table.Rule.Columns[i].Name, row))
		case v.null:
			vals[i] = Value{Kind: ValueNull}
		default:
			vals[i] = Value{Kind: ValueString, Bytes: v.text, Charset: s.charset}
		}
	}
	shard, err := x.Table.Rule.Assign(vals[:len(x.keys)], s.ctx)
	if errors.Is(err, ErrNotDecidable) {
		err = refuse(fmt.Sprintf("LOAD DATA: %v (row %d)", err, row))
	}
	return shard, err
}
