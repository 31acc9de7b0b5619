package router

import (
	"bytes"
	"math"

	"braid/internal/mysql"

	"github.com/cespare/xxhash/v2"
)

// Marker bytes of a digest. A byte of the text below 5 (outside literals) is
// written as digestEscape and the byte | 0x40, so that no text can forge one.
const (
	digestLiteral = 0x01 // then the Class: one literal, one Hole
	digestList    = 0x02 // then the Class: an IN list of two or more such literals, one Hole
	digestRows    = 0x03 // after the first row of a VALUES list: more rows of the same shape
	digestEscape  = 0x04
)

// Scan reads q.Text once and fills Digest, Hash, Literals, Holes and Rows. The
// digest is the text's own bytes with a marker in the place of each literal;
// blanks and plain comments before and behind the statement, and its final
// semicolon, are left out. Scan allocates nothing once q's buffers have grown.
//
// Whether the text is SQL is the parser's business: a string or comment without
// an end reaches to the end of the text. The error is a text too long to index.
func (q *Query) Scan() error {
	if len(q.Text) > math.MaxInt32 {
		return mysql.Errorf(1153, "Got a packet bigger than 'max_allowed_packet' bytes")
	}
	q.Literals, q.Holes, q.Rows = q.Literals[:0], q.Holes[:0], RowsFold{}
	q.scratch = q.scratch[:0]
	s := scanner{q: q, lexer: q.lexer(), text: trimEnd(q.Text), dst: q.Digest[:0], first: -1}
	s.scan()
	q.Digest = s.dst
	q.Hash = xxhash.Sum64(s.dst)
	return nil
}

// Parameter returns the offset of the first ? that stands for a value, or -1.
func (q *Query) Parameter() int {
	text := string(q.Text)
	for _, t := range tokenize(text, q.Mode, q.Charset) {
		if t.is(text, '?') {
			return t.start
		}
	}
	return -1
}

// Parameters counts the ? that stand for values in a part of a statement's text.
func Parameters(text string, mode Mode, charset string) int {
	n := 0
	for _, t := range tokenize(text, mode, charset) {
		if t.is(text, '?') {
			n++
		}
	}
	return n
}

// LiteralBytes returns the bytes of literal i, quotes and prefixes included. They
// alias q.Text.
func (q *Query) LiteralBytes(i int) []byte {
	return q.Text[q.Literals[i].Start:q.Literals[i].End]
}

// HoleBytes returns the bytes that fill hole h: a literal, or the literals of a
// folded list with the commas and blanks between them. They alias q.Text.
func (q *Query) HoleBytes(h int) []byte {
	o := q.Holes[h]
	return q.Text[q.Literals[o.First].Start:q.Literals[o.First+o.N-1].End]
}

// RowBytes returns the bytes of row r of a folded VALUES list, parentheses
// included. They alias q.Text.
func (q *Query) RowBytes(r int) []byte {
	f := &q.Rows
	// All rows have the same bytes before their first literal and behind their last.
	lead := q.Literals[f.First].Start - f.Start
	tail := f.SepStart - q.Literals[f.First+f.PerRow-1].End
	first := f.First + int32(r)*f.PerRow
	return q.Text[q.Literals[first].Start-lead : q.Literals[first+f.PerRow-1].End+tail]
}

// trimEnd cuts what MySQL itself cuts from a command before it parses it.
func trimEnd(t []byte) []byte {
	for len(t) > 0 && (t[len(t)-1] == ';' || isBlankByte(t[len(t)-1])) {
		t = t[:len(t)-1]
	}
	return t
}

// scanner is the state of one Scan.
type scanner struct {
	lexer
	q    *Query
	text []byte
	dst  []byte

	run   int  // text[run:] up to where the scan stands is not in dst yet
	kept  int  // end of the last token that belongs to the digest
	dirty bool // text[run:] may hold marker bytes
	first int  // start of the statement's first word, -1 before it
	depth int  // of parentheses

	inEnd     int  // end of the last word IN
	valuesEnd int  // end of the last word VALUES of an INSERT or REPLACE
	insert    bool // the first word is INSERT or REPLACE, and no VALUES list was folded

	rows rowsScan
}

// rowsScan is the state of reading a VALUES list.
type rowsScan struct {
	in       bool // inside a row
	same     bool // all rows so far have the first one's digest
	n        int
	textAt   int // of the first row's "("
	textEnd  int // after its ")"
	next     int // of the second row's "("
	dstAt    int // where the first row begins and ends in the digest
	dstEnd   int
	rowAt    int // where the current row begins in the digest
	literals int // number of literals before the first row
	holes    int
	perRow   int
}

func (s *scanner) scan() {
	t := s.text
	i := s.lead()
	s.run, s.kept = i, i
	semis := 0
	for i < len(t) {
		c := t[i]
		switch byteKinds[c] {
		case byteBlank:
			i++
			continue
		case byteWord:
			if i+1 < len(t) && t[i+1] == '\'' {
				if e, class := s.prefixed(t, i); class != 0 {
					s.put(class, i, e)
					i = e
					break
				}
			}
			i = s.word(i)
		case byteDigit:
			e, class := s.number(t, i)
			if class != 0 {
				s.put(class, i, e)
			}
			i = e
		case byteDot:
			switch {
			case i+1 < len(t) && isDigitByte(t[i+1]):
				e, class := s.number(t, i)
				s.put(class, i, e)
				i = e
			default: // a name behind a dot is never a keyword
				i = s.wordEnd(t, i+1)
			}
		case byteQuote:
			e := s.adjacent(t, s.stringEnd(t, i))
			s.put(ClassString, i, e)
			i = e
		case byteDouble:
			if s.ansi {
				i = s.verbatim(i, s.quotedEnd(t, i))
				break
			}
			e := s.adjacent(t, s.stringEnd(t, i))
			s.put(ClassString, i, e)
			i = e
		case byteBack:
			i = s.verbatim(i, s.quotedEnd(t, i))
		case byteAt:
			i = s.verbatim(i, s.variableEnd(t, i))
		case byteSlash, byteDash, byteHash:
			e, kind := comment(t, i)
			switch kind {
			case commentNone:
				i++
			case commentPlain:
				dashes := i > 0 && t[i-1] == '-'
				i = s.verbatim(i, e)
				if !dashes { // "--#" without its comment would be one itself
					continue
				}
			default:
				i = s.verbatim(i, e)
			}
		case byteOpen:
			i = s.open(i)
		case byteClose:
			i = s.close(i)
		case byteParam:
			if s.q.Prepared {
				s.put(ClassParam, i, i+1)
			}
			i++
		case byteSemi:
			i++
			if semis++; semis == 1 {
				continue // the statement's end, unless more follows
			}
		case byteControl:
			s.dirty = true
			i++
		default:
			i++
		}
		s.kept = i
	}
	if s.kept > s.run {
		s.flush(s.kept)
	}
}

// lead returns where the statement begins: behind blanks and plain comments.
func (s *scanner) lead() int {
	t := s.text
	for i := 0; i < len(t); {
		switch byteKinds[t[i]] {
		case byteBlank:
			i++
			continue
		case byteSlash, byteDash, byteHash:
			if e, kind := comment(t, i); kind == commentPlain {
				i = e
				continue
			}
		}
		return i
	}
	return len(t)
}

// flush appends the text from run up to end to the digest.
func (s *scanner) flush(end int) {
	p := s.text[s.run:end]
	s.run = end
	if !s.dirty {
		s.dst = append(s.dst, p...)
		return
	}
	s.dirty = false
	for _, c := range p {
		if byteKinds[c] == byteControl {
			s.dst = append(s.dst, digestEscape, c|0x40)
		} else {
			s.dst = append(s.dst, c)
		}
	}
}

// put makes text[start:end] a literal and a hole.
func (s *scanner) put(class Class, start, end int) {
	s.flush(start)
	s.run = end
	s.dst = append(s.dst, digestLiteral, byte(class))
	q := s.q
	q.Holes = append(q.Holes, Hole{First: int32(len(q.Literals)), N: 1})
	q.Literals = append(q.Literals, Literal{Class: class, Start: int32(start), End: int32(end)})
}

// verbatim passes over bytes that stay as they are, and returns end.
func (s *scanner) verbatim(start, end int) int {
	if !s.dirty {
		for _, c := range s.text[start:end] {
			if byteKinds[c] == byteControl {
				s.dirty = true
				break
			}
		}
	}
	return end
}

// word passes over the word at i, and notes the words that folding looks at.
func (s *scanner) word(i int) int {
	t := s.text
	end := s.wordEnd(t, i)
	first := s.first < 0
	if first {
		s.first = i
	}
	if end+1 < len(t) && t[end] == '.' && isWordByte(t[end+1]) {
		return s.qualifiedEnd(t, end)
	}
	switch w := t[i:end]; len(w) {
	case 2:
		if equalFoldWord(w, "in") {
			s.inEnd = end
		}
	case 5:
		if s.insert && equalFoldWord(w, "value") {
			s.valuesEnd = end
		}
	case 6:
		if s.insert && equalFoldWord(w, "values") {
			s.valuesEnd = end
		} else if first && equalFoldWord(w, "insert") {
			s.insert = true
		}
	case 7:
		if first && equalFoldWord(w, "replace") {
			s.insert = true
		}
	}
	return end
}

// open passes over the "(" at i and, where one begins there, over an IN list.
func (s *scanner) open(i int) int {
	s.depth++
	if s.inEnd > 0 {
		at := s.inEnd
		s.inEnd = 0
		if !s.rows.in && blankOnly(s.text[at:i]) {
			return s.list(i + 1)
		}
	}
	if s.valuesEnd > 0 && s.depth == 1 {
		at := s.valuesEnd
		s.valuesEnd = 0
		if !s.q.Prepared && blankOnly(s.text[at:i]) {
			s.flush(i)
			q := s.q
			s.rows = rowsScan{
				in: true, same: true, textAt: i, dstAt: len(s.dst), rowAt: len(s.dst),
				literals: len(q.Literals), holes: len(q.Holes),
			}
		}
	}
	return i + 1
}

func blankOnly(t []byte) bool {
	for _, c := range t {
		if !isBlankByte(c) {
			return false
		}
	}
	return true
}

func (s *scanner) skipBlanks(i int) int {
	for i < len(s.text) && isBlankByte(s.text[i]) {
		i++
	}
	return i
}

// list tries to read text[i:] as the literals of a folded list, up to its ")".
// It returns where to go on: at that ")", or at i when the list does not fold.
func (s *scanner) list(i int) int {
	q, t := s.q, s.text
	from := len(q.Literals)
	at := s.skipBlanks(i)
	var class Class
	for j := at; j < len(t); {
		end, c := s.literal(t, j)
		if c == 0 || class != 0 && c != class {
			break
		}
		class = c
		q.Literals = append(q.Literals, Literal{Class: c, Start: int32(j), End: int32(end)})
		j = s.skipBlanks(end)
		if j < len(t) && t[j] == ',' {
			j = s.skipBlanks(j + 1)
			continue
		}
		n := len(q.Literals) - from
		if j >= len(t) || t[j] != ')' || n < 2 {
			break
		}
		s.flush(at)
		s.run = end
		s.dst = append(s.dst, digestList, byte(class))
		q.Holes = append(q.Holes, Hole{First: int32(from), N: int32(n)})
		return j
	}
	q.Literals = q.Literals[:from]
	return i
}

// close passes over the ")" at i. When it ends a row of a VALUES list and
// another row follows, it goes on behind that one's "(".
func (s *scanner) close(i int) int {
	s.depth--
	r := &s.rows
	if !r.in || s.depth != 0 {
		return i + 1
	}
	r.in = false
	i++
	s.flush(i)
	q := s.q
	r.n++
	if r.n == 1 {
		r.textEnd, r.dstEnd = i, len(s.dst)
		r.perRow = len(q.Literals) - r.literals
	} else if r.same {
		r.same = bytes.Equal(s.dst[r.rowAt:], s.dst[r.dstAt:r.dstEnd])
	}
	if r.same {
		switch j := s.skipBlanks(i); {
		case j >= len(s.text):
		case s.text[j] == ',':
			if j = s.skipBlanks(j + 1); j < len(s.text) && s.text[j] == '(' {
				s.flush(j)
				if r.n == 1 {
					r.next = j
				}
				r.in, r.rowAt = true, len(s.dst)
				s.depth++
				return j + 1
			}
			r.same = false
		default:
			r.same = s.listEnds(j)
		}
	}
	if r.same && r.n > 1 && r.perRow > 0 {
		s.dst = append(s.dst[:r.dstEnd], digestRows)
		q.Holes = q.Holes[:r.holes+r.perRow]
		q.Rows = RowsFold{
			Start: int32(r.textAt), First: int32(r.literals), PerRow: int32(r.perRow), Rows: int32(r.n),
			FirstHole: int32(r.holes), SepStart: int32(r.textEnd), SepEnd: int32(r.next),
		}
		s.insert = false
	}
	return i
}

// listEnds tells whether the VALUES list is over at i: no comma follows after
// comments, which a fold could not give back.
func (s *scanner) listEnds(i int) bool {
	for i < len(s.text) {
		switch c := s.text[i]; byteKinds[c] {
		case byteBlank:
			i++
		case byteSlash, byteDash, byteHash:
			e, kind := comment(s.text, i)
			if kind != commentPlain {
				return false
			}
			i = e
		default:
			return c != ','
		}
	}
	return true
}

// AppendExpanded appends digest to dst in readable form: fill appends what stands
// for hole h, whose class and kind (a folded list or one literal) it is told; the
// mark of folded rows is left out and escaped bytes are themselves again.
func AppendExpanded(dst, digest []byte, fill func(dst []byte, h int, class Class, list bool) []byte) []byte {
	h := 0
	for i := 0; i < len(digest); i++ {
		c := digest[i]
		switch {
		case c == digestRows:
		case byteKinds[c] != byteControl || i+1 >= len(digest):
			dst = append(dst, c)
		case c == digestEscape:
			i++
			dst = append(dst, digest[i]&^0x40)
		default:
			i++
			dst = fill(dst, h, Class(digest[i]), c == digestList)
			h++
		}
	}
	return dst
}

// ReadableDigest returns a digest for people: ? for a literal, ?, ... for a
// folded list.
func ReadableDigest(digest []byte) string {
	return string(AppendExpanded(nil, digest, func(dst []byte, _ int, _ Class, list bool) []byte {
		if list {
			return append(dst, "?, ..."...)
		}
		return append(dst, '?')
	}))
}
