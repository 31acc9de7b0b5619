package conf

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// positions says where each key and each list element of a TOML text stands:
// byte offsets by path, such as "nodes[1].replicas[0]". The TOML library tells
// positions of syntax errors only.
type positions map[string]int

// nearest is the offset of the path, or of the closest thing around it: a key
// that is missing is reported where its table begins.
func (at positions) nearest(path string) int {
	for path != "" {
		if offset, ok := at[path]; ok {
			return offset
		}
		cut := strings.LastIndexAny(path, ".[")
		if cut < 0 {
			break
		}
		path = path[:cut]
	}
	return 0
}

// lineColumn turns a byte offset into a line and a column, both from 1, the
// column in characters as editors count.
func lineColumn(text string, offset int) (line, column int) {
	offset = min(max(offset, 0), len(text))
	before := text[:offset]
	start := strings.LastIndexByte(before, '\n') + 1
	return strings.Count(before, "\n") + 1, utf8.RuneCountInString(before[start:]) + 1
}

// indexPositions scans a text that the TOML library has accepted; for any other
// text the index is incomplete, no more.
func indexPositions(text string) positions {
	s := scanner{text: text, offsets: positions{}, elements: map[string]int{}}
	table := ""
	for s.blank(); s.at < len(s.text); s.blank() {
		switch {
		case strings.HasPrefix(s.rest(), "[["):
			start := s.at
			s.at += 2
			table = s.table(s.key(), start, true)
			s.line()
		case s.text[s.at] == '[':
			start := s.at
			s.at++
			table = s.table(s.key(), start, false)
			s.line()
		default:
			s.pair(table)
			s.line()
		}
	}
	return s.offsets
}

type scanner struct {
	text     string
	at       int
	offsets  positions
	elements map[string]int // arrays of tables by path: how many so far
}

func (s *scanner) rest() string { return s.text[s.at:] }

// mark records where a path stands; the first place counts.
func (s *scanner) mark(path string, offset int) {
	if _, ok := s.offsets[path]; !ok {
		s.offsets[path] = offset
	}
}

// table resolves the key of a [header] or, with element, a [[header]] to the
// path of the table that it opens.
func (s *scanner) table(parts []string, start int, element bool) string {
	path := ""
	for i, part := range parts {
		path = join(path, part)
		s.mark(path, start)
		if element && i == len(parts)-1 {
			s.elements[path]++
		}
		if n := s.elements[path]; n > 0 {
			path = fmt.Sprintf("%s[%d]", path, n-1)
			s.mark(path, start)
		}
	}
	return path
}

// pair scans "key = value" inside the table at path.
func (s *scanner) pair(path string) {
	start := s.at
	for _, part := range s.key() {
		path = join(path, part)
		s.mark(path, start)
	}
	s.spaces()
	if s.at < len(s.text) && s.text[s.at] == '=' {
		s.at++
		s.spaces()
		s.value(path)
	}
}

// key scans a dotted key.
func (s *scanner) key() []string {
	var parts []string
	for {
		s.spaces()
		start := s.at
		if c := s.peek(); c == '"' || c == '\'' {
			s.quoted()
			parts = append(parts, keyPart(strings.Trim(s.text[start:s.at], string(c))))
		} else {
			s.until(" \t\r\n.=[]{},#\"'")
			parts = append(parts, s.text[start:s.at])
		}
		s.spaces()
		if s.peek() != '.' {
			return parts
		}
		s.at++
	}
}

// value scans a value; lists and inline tables in it are indexed below path.
func (s *scanner) value(path string) {
	switch s.peek() {
	case '"', '\'':
		s.quoted()
	case '[':
		s.at++
		s.sequence(']', func(i int) {
			element := fmt.Sprintf("%s[%d]", path, i)
			s.mark(element, s.at)
			s.value(element)
		})
	case '{':
		s.at++
		s.sequence('}', func(int) { s.pair(path) })
	default:
		s.until(",]}#\r\n")
	}
}

// sequence scans comma-separated elements up to the closing byte.
func (s *scanner) sequence(closing byte, element func(i int)) {
	for i := 0; ; i++ {
		s.blank()
		if s.at >= len(s.text) {
			return
		}
		if s.text[s.at] == closing {
			s.at++
			return
		}
		start := s.at
		element(i)
		s.blank()
		if s.peek() == ',' || s.at == start {
			s.at = min(s.at+1, len(s.text))
		}
	}
}

// quoted scans a string of any of TOML's four forms.
func (s *scanner) quoted() {
	quote := s.text[s.at]
	closing := string(quote)
	if triple := strings.Repeat(closing, 3); strings.HasPrefix(s.rest(), triple) {
		closing = triple
	}
	s.at += len(closing)
	for s.at < len(s.text) {
		switch {
		case quote == '"' && s.text[s.at] == '\\':
			s.at = min(s.at+2, len(s.text))
		case strings.HasPrefix(s.rest(), closing):
			s.at += len(closing)
			// Up to two quotes may stand right before the closing three.
			for n := 0; len(closing) == 3 && n < 2 && s.peek() == quote; n++ {
				s.at++
			}
			return
		case len(closing) == 1 && s.text[s.at] == '\n':
			return
		default:
			s.at++
		}
	}
}

// peek is the byte here, 0 at the end.
func (s *scanner) peek() byte {
	if s.at < len(s.text) {
		return s.text[s.at]
	}
	return 0
}

func (s *scanner) until(stop string) {
	if n := strings.IndexAny(s.rest(), stop); n >= 0 {
		s.at += n
	} else {
		s.at = len(s.text)
	}
}

func (s *scanner) spaces() {
	for s.peek() == ' ' || s.peek() == '\t' {
		s.at++
	}
}

// blank skips white space, line ends and comments.
func (s *scanner) blank() {
	s.at += len(s.rest()) - len(strings.TrimLeft(s.rest(), " \t\r\n"))
	for s.peek() == '#' {
		s.line()
		s.at += len(s.rest()) - len(strings.TrimLeft(s.rest(), " \t\r\n"))
	}
}

// line skips to behind the end of the line.
func (s *scanner) line() {
	s.until("\n")
	s.at = min(s.at+1, len(s.text))
}
