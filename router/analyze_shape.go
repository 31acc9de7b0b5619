package router

import (
	"encoding/binary"
	"fmt"
	"sort"
	"strconv"
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"
	driver "github.com/pingcap/tidb/pkg/parser/test_driver"
)

// span is where a hole's stand-in is in a shape's text.
type span struct{ hole, start, end int }

// shape is a statement's text in which each hole that is not pinned has a
// stand-in: a literal of the same class whose value tells the hole's number.
// Parsed, it shows which hole each literal of the tree is; cut to pieces, it
// gives templates that are the client's text byte for byte.
type shape struct {
	text   string
	into   [2]int   // SELECT ... INTO @a, @b: where that clause is; the parser does not know it
	vars   []string // its variables, in lower case
	hidden [2]int   // a clause that the parser does not know, and that nothing needs it for
	spans  []span   // ascending
	toks   []token
	base   uint64 // hole h has the number base+h
	holes  int
	row    [2]int // where the first row of a folded VALUES list is, with its parentheses
}

// newShape expands a scanned statement. Pinned holes keep the client's literals.
func newShape(q *Query, f Flavour, pinned func(hole int) bool) *shape {
	text := plainComments(string(q.Text), f, q.Mode)
	s := &shape{base: unusedNumber(text), holes: len(q.Holes)}
	cutStart, cutEnd := -1, -1
	if q.Rows.Rows > 1 {
		cutStart = int(q.Rows.SepStart)
		cutEnd = rowsEnd(text, q, cutStart)
	}
	var b strings.Builder
	at := 0
	copyTo := func(end int) {
		if cutStart >= 0 && at <= cutStart && end >= cutEnd {
			b.WriteString(text[at:cutStart])
			at = cutEnd
		}
		b.WriteString(text[at:end])
		at = end
	}
	for h, hole := range q.Holes {
		if hole.N == 0 {
			continue
		}
		first, last := q.Literals[hole.First], q.Literals[hole.First+hole.N-1]
		if pinned(h) && first.Class != ClassParam { // a parameter has no value to pin
			continue
		}
		copyTo(int(first.Start))
		start := b.Len()
		b.WriteString(s.standIn(h, first.Class))
		s.spans = append(s.spans, span{h, start, b.Len()})
		at = int(last.End)
	}
	copyTo(len(text))
	s.text = b.String()
	s.toks = tokenize(s.text, q.Mode, q.Charset)
	s.findInto(q)
	s.hide(f)
	if cutStart >= 0 {
		s.row = firstRow(s)
	}
	return s
}

// rowsEnd finds the end of the last row of a folded VALUES list whose first row ends at start.
func rowsEnd(text string, q *Query, start int) int {
	rows := int(q.Rows.Rows) - 1
	for _, t := range tokenize(text[start:], q.Mode, q.Charset) {
		if t.depth == 0 && t.is(text[start:], ')') {
			if rows--; rows == 0 {
				return start + t.end
			}
		}
	}
	return len(text)
}

// firstRow finds the first parenthesised row behind VALUES.
func firstRow(s *shape) [2]int {
	behind := false
	start := 0
	for i, t := range s.toks {
		if t.depth != 0 {
			continue
		}
		if w := t.word(s.text); (w == "VALUES" || w == "VALUE") && i > 0 {
			behind = true
		} else if behind && t.is(s.text, '(') {
			start = t.start
		} else if behind && t.is(s.text, ')') {
			return [2]int{start, t.end}
		}
	}
	return [2]int{}
}

// unusedNumber picks a number of twelve digits whose first six do not occur in text.
func unusedNumber(text string) uint64 {
	for n := uint64(739100); ; n++ {
		if !strings.Contains(text, strconv.FormatUint(n, 10)) {
			return n * 1_000_000
		}
	}
}

func (s *shape) standIn(hole int, c Class) string {
	n := s.base + uint64(hole)
	switch c {
	case ClassDec:
		return fmt.Sprintf("%d.5", n)
	case ClassFloat:
		return fmt.Sprintf("%d.5e0", n)
	case ClassString:
		return fmt.Sprintf("'braid:%d'", n)
	case ClassNation:
		return fmt.Sprintf("N'braid:%d'", n)
	case ClassHexX:
		return fmt.Sprintf("x'%016x'", n)
	case ClassHex0:
		return fmt.Sprintf("0x%016x", n)
	case ClassBit:
		return fmt.Sprintf("b'%064b'", n)
	case ClassParam:
		return "?"
	}
	return strconv.FormatUint(n, 10)
}

// hole tells which hole a literal of the tree is: -1 when it is none (pinned, TRUE, NULL).
func (s *shape) hole(e ast.ExprNode) int {
	if p, ok := e.(*driver.ParamMarkerExpr); ok {
		i := sort.Search(len(s.spans), func(i int) bool { return s.spans[i].start >= p.Offset })
		if i < len(s.spans) && s.spans[i].start == p.Offset {
			return s.spans[i].hole
		}
		return -1
	}
	v, ok := e.(*driver.ValueExpr)
	if !ok {
		return -1
	}
	var n uint64
	var err error
	switch v.Kind() {
	case driver.KindInt64, driver.KindUint64:
		n = v.GetUint64()
	case driver.KindFloat64:
		n = uint64(v.GetFloat64())
	case driver.KindMysqlDecimal:
		whole, _, _ := strings.Cut(v.GetMysqlDecimal().String(), ".")
		n, err = strconv.ParseUint(whole, 10, 64)
	case driver.KindString, driver.KindBytes:
		text, found := strings.CutPrefix(v.GetString(), "braid:")
		if !found {
			return -1
		}
		n, err = strconv.ParseUint(text, 10, 64)
	case driver.KindBinaryLiteral:
		b := v.GetBinaryLiteral()
		if len(b) != 8 {
			return -1
		}
		n = binary.BigEndian.Uint64(b)
	default:
		return -1
	}
	if err != nil || n < s.base || n >= s.base+uint64(s.holes) {
		return -1
	}
	return int(n - s.base)
}

// introduced tells whether a character set introducer (_latin1'x') stands
// before the hole, so that its bytes are not in the client's character set.
func (s *shape) introduced(hole int) bool {
	at := sort.Search(len(s.spans), func(i int) bool { return s.spans[i].hole >= hole })
	if at == len(s.spans) || s.spans[at].hole != hole {
		return false
	}
	before := strings.TrimRight(s.text[:s.spans[at].start], " \t\r\n")
	i := len(before)
	for i > 0 && isWord(before[i-1]) {
		i--
	}
	return i < len(before) && before[i] == '_'
}

// plainComments blanks what a server of the flavour does not run of executable
// comments, and the marks around what it does run; places stay.
func plainComments(text string, f Flavour, mode Mode) string {
	if !strings.Contains(text, "/*!") && !strings.Contains(text, "/*M!") && !strings.Contains(text, "/*T!") {
		return text
	}
	b := []byte(text)
	blank := func(from, to int) {
		for ; from < to && from < len(b); from++ {
			if b[from] != '\n' {
				b[from] = ' '
			}
		}
	}
	var quote byte
	for i := 0; i < len(b); i++ {
		c := b[i]
		if quote != 0 {
			if c == '\\' && quote != '`' && mode&ModeNoBackslashEscapes == 0 && (quote != '"' || mode&ModeAnsiQuotes == 0) {
				i++
			} else if c == quote {
				quote = 0
			}
			continue
		}
		if c == '\'' || c == '"' || c == '`' {
			quote = c
			continue
		}
		if c == '#' || c == '-' && i+1 < len(b) && b[i+1] == '-' && (i+2 == len(b) || b[i+2] <= ' ') {
			for i < len(b) && b[i] != '\n' {
				i++
			}
			continue
		}
		if c != '/' || i+2 >= len(b) || b[i+1] != '*' {
			continue
		}
		end := len(b)
		if n := strings.Index(text[i+2:], "*/"); n >= 0 {
			end = i + 2 + n + 2
		}
		n := executableComment(text[i:])
		switch {
		case strings.HasPrefix(text[i:], "/*T!"), n > 0 && !commentRuns(text[i:i+n], f):
			blank(i, end)
		case n > 0:
			blank(i, i+n)
			blank(end-2, end)
		}
		i = end - 1
	}
	return string(b)
}

// commentRuns tells whether a server of the flavour runs the code of a comment
// with this opening. MySQL runs versions up to its own; MariaDB also leaves
// out those of MySQL 5.7 and later.
func commentRuns(opening string, f Flavour) bool {
	digits := strings.TrimLeft(opening, "/*!M")
	version, _ := strconv.Atoi(digits)
	maria := strings.HasPrefix(opening, "/*M!")
	if f == MariaDB {
		return version < 50700 || version >= 100000 && version <= 101199
	}
	return !maria && version <= 90700
}
