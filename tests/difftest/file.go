package difftest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"braid/conf"
	"braid/tests/servers"
	"braid/tests/wire"
)

// database is the one that all cases use.
const database = "shop"

// File is one file of cases:
//
//	# a comment
//	-- setup from: shop.setup
//	-- table a: sharded by k
//	-- table b: sharded by a_k, co-located with a
//	-- table c: global
//	-- table d: single
//	-- setup
//	CREATE TABLE a(k INT PRIMARY KEY)
//	-- cases
//	SELECT k FROM a ORDER BY k
//	-- sort-keys: 2
//	SELECT k, v FROM a
//	  ORDER BY v
//
// A statement is one line; lines that begin with blanks continue it. A ; at its
// end is left out. A line that begins with "-- " in front of a statement is an
// annotation of that statement alone:
//
//	unordered          rows in any order (the default for a SELECT without ORDER BY)
//	ordered            rows in this order although there is no ORDER BY
//	sort-keys: 1,2     rows in any order among those that are equal in these columns
//	columns-only       columns and number of rows, not the values
//	error-number-only  not the text of an error
//	ignore: info,...   without these: info warnings status affected insert-id
//	                   length flags type charset decimals schema origin prepare
//	plans              columns also as the server shows them under another plan
//	mysql-only, mariadb-only
//	unsupported        Braid over several shards refuses it with 1235
//	unsupported: sometimes   over some topologies, or as text or as prepared only
//	text-only          not as prepared statement
//	params: 1, 'x'     as prepared statement only, with these: integers, u1 unsigned,
//	                   1.5 doubles, 'text', x'00' bytes, NULL
//	on: b              on a further connection of that name (the first is a)
//	reconnect          all connections are closed first
//	reset              COM_RESET_CONNECTION on the connection first
//	change-user        COM_CHANGE_USER first, to the same user and database
//	charset: 28        with reconnect or change-user: the collation of the handshake
//
// After "-- cases: text-only" all cases are text-only: what a statement does to
// a transaction must not happen twice.
type File struct {
	Name   string
	Tables []conf.Table
	Setup  []string
	Cases  []Case
}

// Case is one statement with its annotations.
type Case struct {
	Line int
	Text string

	Order       Order
	SortKeys    []int // columns from 1; Order is OrderKeys
	ColumnsOnly bool
	NumberOnly  bool
	Ignore      []string
	Only        servers.Flavour // "": both
	Unsupported Support
	TextOnly    bool
	Params      []wire.Param // not nil: prepared only
	On          string
	Reconnect   bool
	Reset       bool
	ChangeUser  bool
	Charset     byte // 0: utf8mb4_general_ci
	// Plans are texts of the same statement that let a server plan it otherwise.
	Plans []string
	// Twin, when not nil, asks for the same rows in other words. It is asked where
	// one of the plain server's known bugs may change Text's rows: when its answer
	// has other rows than Text's, Braid's have to be its.
	Twin *Case
}

// Support is whether a case is answered over several shards.
type Support uint8

const (
	Answered Support = iota
	RefusedSometimes
	Refused
)

// Order is how far the order of rows counts.
type Order uint8

const (
	OrderAuto Order = iota
	OrderAll
	OrderNone
	OrderKeys
)

// ordered resolves OrderAuto: only a query without ORDER BY may answer in any order.
func (c *Case) ordered() Order {
	if c.Order != OrderAuto {
		return c.Order
	}
	lower := strings.ToLower(c.Text)
	query := slices.ContainsFunc([]string{"select", "with", "(", "values", "table", "/*"}, func(word string) bool {
		return strings.HasPrefix(strings.TrimSpace(lower), word)
	})
	if query && !strings.Contains(lower, "order by") {
		return OrderNone
	}
	return OrderAll
}

func (c *Case) ignores(what string) bool { return slices.Contains(c.Ignore, what) }

var ignorable = []string{"info", "warnings", "status", "affected", "insert-id", "length", "flags", "type", "charset", "decimals", "schema", "origin", "prepare"}

// Load reads a case file; "setup from" names files of the same folder.
func Load(path string) (*File, error) {
	f := &File{Name: strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))}
	if err := f.read(path); err != nil {
		return nil, err
	}
	return f, nil
}

func (f *File) read(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	lines := strings.Split(string(text), "\n")
	inCases, textOnly := false, false
	var next Case
	for n := 0; n < len(lines); n++ {
		line := lines[n]
		fail := func(format string, args ...any) error {
			return fmt.Errorf("%s:%d: %s", filepath.Base(path), n+1, fmt.Sprintf(format, args...))
		}
		switch {
		case strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#"):
			continue
		case strings.HasPrefix(line, "-- "):
			word, rest, _ := strings.Cut(strings.TrimPrefix(line, "-- "), ":")
			rest = strings.TrimSpace(rest)
			switch {
			case word == "setup":
			case word == "cases":
				inCases = true
				textOnly = rest == "text-only"
				next.TextOnly = textOnly
			case word == "setup from":
				if err := f.read(filepath.Join(filepath.Dir(path), rest)); err != nil {
					return err
				}
			case strings.HasPrefix(word, "table "):
				table, err := parseTable(strings.TrimPrefix(word, "table "), rest)
				if err != nil {
					return fail("%v", err)
				}
				f.Tables = append(f.Tables, table)
			default:
				if !inCases {
					return fail("annotation %q in front of the cases", word)
				}
				if err := next.annotate(word, rest); err != nil {
					return fail("%v", err)
				}
			}
			continue
		}
		first := n + 1
		for n+1 < len(lines) && lines[n+1] != "" && (lines[n+1][0] == ' ' || lines[n+1][0] == '\t') {
			n++
			line += "\n" + strings.TrimSpace(lines[n])
		}
		line = strings.TrimSuffix(strings.TrimSpace(line), ";")
		if !inCases {
			f.Setup = append(f.Setup, line)
			continue
		}
		next.Line, next.Text = first, line
		if next.Plans != nil {
			next.Plans = nil
			for _, modifier := range planModifiers() {
				next.Plans = append(next.Plans, strings.Replace(line, "SELECT ", "SELECT "+modifier, 1))
			}
		}
		f.Cases = append(f.Cases, next)
		next = Case{TextOnly: textOnly}
	}
	return nil
}

// parseTable reads "sharded by k [, co-located with t] [, by range|mod|list ...]", "global" or "single".
func parseTable(name, text string) (conf.Table, error) {
	t := conf.Table{Name: name}
	switch text {
	case "global", "single":
		t.Kind = text
		return t, nil
	}
	t.Kind = "sharded"
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		if key, ok := strings.CutPrefix(part, "sharded by "); ok {
			t.Key = strings.Fields(key)
		} else if other, ok := strings.CutPrefix(part, "co-located with "); ok {
			t.Colocated = other
		} else if function, ok := strings.CutPrefix(part, "function "); ok {
			t.Function = function
		} else {
			return t, fmt.Errorf("table %s: what is %q?", name, part)
		}
	}
	if len(t.Key) == 0 {
		return t, fmt.Errorf("table %s has no key", name)
	}
	return t, nil
}

func (c *Case) annotate(word, rest string) error {
	switch word {
	case "unordered":
		c.Order = OrderNone
	case "ordered":
		c.Order = OrderAll
	case "sort-keys":
		c.Order = OrderKeys
		for text := range strings.SplitSeq(rest, ",") {
			n, err := strconv.Atoi(strings.TrimSpace(text))
			if err != nil || n < 1 {
				return fmt.Errorf("sort key %q", text)
			}
			c.SortKeys = append(c.SortKeys, n)
		}
	case "columns-only":
		c.ColumnsOnly = true
	case "error-number-only":
		c.NumberOnly = true
	case "ignore":
		for text := range strings.SplitSeq(rest, ",") {
			what := strings.TrimSpace(text)
			if !slices.Contains(ignorable, what) {
				return fmt.Errorf("cannot ignore %q", what)
			}
			c.Ignore = append(c.Ignore, what)
		}
	case "plans":
		c.Plans = []string{} // of the text, which comes
	case "mysql-only":
		c.Only = servers.MySQL
	case "mariadb-only":
		c.Only = servers.MariaDB
	case "unsupported":
		switch rest {
		case "":
			c.Unsupported = Refused
		case "sometimes":
			c.Unsupported = RefusedSometimes
		default:
			return fmt.Errorf("unsupported: %q?", rest)
		}
	case "text-only":
		c.TextOnly = true
	case "params":
		params, err := parseParams(rest)
		if err != nil {
			return err
		}
		c.Params = params
	case "on":
		c.On = rest
	case "reconnect":
		c.Reconnect = true
	case "reset":
		c.Reset = true
	case "change-user":
		c.ChangeUser = true
	case "charset":
		n, err := strconv.ParseUint(rest, 10, 8)
		if err != nil {
			return fmt.Errorf("charset: %w", err)
		}
		c.Charset = byte(n)
	default:
		return fmt.Errorf("no such annotation: %q", word)
	}
	return nil
}

// parseParams reads a comma-separated list of parameters. Commas inside quotes do not separate.
func parseParams(text string) ([]wire.Param, error) {
	params := []wire.Param{}
	for len(text) > 0 {
		end := len(text)
		quoted := false
		for i := range len(text) {
			if text[i] == '\'' {
				quoted = !quoted
			}
			if text[i] == ',' && !quoted {
				end = i
				break
			}
		}
		word := strings.TrimSpace(text[:end])
		text = text[min(end+1, len(text)):]
		p, err := parseParam(word)
		if err != nil {
			return nil, err
		}
		params = append(params, p)
	}
	return params, nil
}

func parseParam(word string) (wire.Param, error) {
	quoted := func(prefix string) (string, bool) {
		if len(word) >= len(prefix)+2 && strings.HasPrefix(word, prefix+"'") && strings.HasSuffix(word, "'") {
			return word[len(prefix)+1 : len(word)-1], true
		}
		return "", false
	}
	if word == "NULL" {
		return wire.Null(), nil
	}
	if s, ok := quoted("x"); ok {
		var b []byte
		if _, err := fmt.Sscanf(s, "%x", &b); err != nil && s != "" {
			return wire.Param{}, fmt.Errorf("parameter %s: %w", word, err)
		}
		return wire.Blob(b), nil
	}
	if s, ok := quoted(""); ok {
		return wire.Text(s), nil
	}
	if rest, ok := strings.CutPrefix(word, "u"); ok {
		v, err := strconv.ParseUint(rest, 10, 64)
		return wire.Uint(v), err
	}
	if v, err := strconv.ParseInt(word, 10, 64); err == nil {
		return wire.Int(v), nil
	}
	v, err := strconv.ParseFloat(word, 64)
	if err != nil {
		return wire.Param{}, fmt.Errorf("parameter %q", word)
	}
	return wire.Float(v), nil
}
