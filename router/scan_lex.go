package router

import "bytes"

// The kinds of bytes that may begin a token outside literals and comments.
const (
	byteOther   uint8 = iota // operators and everything without a rule of its own
	byteBlank                // what MySQL's lexer skips
	byteWord                 // letters, _, $, bytes of multi-byte characters
	byteDigit                // also part of words
	byteQuote                // '
	byteDouble               // "
	byteBack                 // `
	byteDot                  // .
	byteSlash                // /
	byteDash                 // -
	byteHash                 // #
	byteAt                   // @
	byteOpen                 // (
	byteClose                // )
	byteParam                // ?
	byteSemi                 // ;
	byteControl              // the digest's own marker bytes
)

var byteKinds = func() (k [256]uint8) {
	for c := range 256 {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c == '_', c == '$', c >= 0x80:
			k[c] = byteWord
		case c >= '0' && c <= '9':
			k[c] = byteDigit
		case c == ' ', c >= '\t' && c <= '\r':
			k[c] = byteBlank
		case c >= digestLiteral && c <= digestEscape:
			k[c] = byteControl
		}
	}
	for c, v := range map[byte]uint8{
		'\'': byteQuote, '"': byteDouble, '`': byteBack, '.': byteDot, '/': byteSlash, '-': byteDash,
		'#': byteHash, '@': byteAt, '(': byteOpen, ')': byteClose, '?': byteParam, ';': byteSemi,
	} {
		k[c] = v
	}
	return k
}()

func isWordByte(c byte) bool  { k := byteKinds[c]; return k == byteWord || k == byteDigit }
func isDigitByte(c byte) bool { return c-'0' <= 9 }
func isBlankByte(c byte) bool { return byteKinds[c] == byteBlank }

func isHexDigit(c byte) bool {
	return isDigitByte(c) || c|0x20 >= 'a' && c|0x20 <= 'f'
}

// multibyte is a client character set whose characters may have a second byte
// that is a quote, a backslash or the like. All others read byte by byte.
type multibyte uint8

const (
	plainBytes multibyte = iota
	gbkBytes             // gbk, and the two-byte form of gb18030
	big5Bytes
	sjisBytes // sjis, cp932
)

func multibyteOf(charset string) multibyte {
	switch charset {
	case "gbk", "gb18030":
		return gbkBytes
	case "big5":
		return big5Bytes
	case "sjis", "cp932":
		return sjisBytes
	}
	return plainBytes
}

// pair tells whether t[i] and t[i+1] are one character.
func (m multibyte) pair(t []byte, i int) bool {
	if i+1 >= len(t) {
		return false
	}
	a, b := t[i], t[i+1]
	switch m {
	case gbkBytes:
		return a >= 0x81 && a <= 0xfe && b >= 0x40 && b <= 0xfe && b != 0x7f
	case big5Bytes:
		return a >= 0xa1 && a <= 0xf9 && (b >= 0x40 && b <= 0x7e || b >= 0xa1 && b <= 0xfe)
	case sjisBytes:
		return (a >= 0x81 && a <= 0x9f || a >= 0xe0 && a <= 0xfc) && b >= 0x40 && b <= 0xfc && b != 0x7f
	}
	return false
}

// lexer is what the meaning of single bytes depends on.
type lexer struct {
	mb        multibyte
	ansi      bool // "x" is an identifier
	backslash bool // \ escapes in strings
}

func (q *Query) lexer() lexer {
	return lexer{
		mb:        multibyteOf(q.Charset),
		ansi:      q.Mode&ModeAnsiQuotes != 0,
		backslash: q.Mode&ModeNoBackslashEscapes == 0,
	}
}

// stringEnd returns the position after the quoted string at t[i] (a quote), or
// len(t) when it has no end.
func (l *lexer) stringEnd(t []byte, i int) int {
	quote := t[i]
	for i++; i < len(t); i++ {
		c := t[i]
		switch {
		case c == quote:
			if i+1 >= len(t) || t[i+1] != quote {
				return i + 1
			}
			i++
		case c == '\\' && l.backslash:
			i++ // one byte, as the server does, also where a two-byte character begins
		case c >= 0x80 && l.mb != plainBytes && l.mb.pair(t, i):
			i++
		}
	}
	return len(t)
}

// quotedEnd returns the position after the quoted identifier at t[i].
func (l *lexer) quotedEnd(t []byte, i int) int {
	quote := t[i]
	for i++; i < len(t); i++ {
		c := t[i]
		if c == quote {
			if i+1 >= len(t) || t[i+1] != quote {
				return i + 1
			}
			i++
		} else if c >= 0x80 && l.mb != plainBytes && l.mb.pair(t, i) {
			i++
		}
	}
	return len(t)
}

// wordEnd returns the position after the bytes of an identifier from t[i] on.
func (l *lexer) wordEnd(t []byte, i int) int {
	if l.mb == plainBytes {
		for i < len(t) && isWordByte(t[i]) {
			i++
		}
		return i
	}
	for i < len(t) && isWordByte(t[i]) {
		if t[i] >= 0x80 && l.mb.pair(t, i) {
			i++
		}
		i++
	}
	return i
}

// qualifiedEnd extends a word that ended at i by ".word" parts: after a dot
// that touches a word, digits belong to an identifier (t.1e5).
func (l *lexer) qualifiedEnd(t []byte, i int) int {
	for i+1 < len(t) && t[i] == '.' && isWordByte(t[i+1]) {
		i = l.wordEnd(t, i+1)
	}
	return i
}

// number scans from the digit or the dot before a digit at t[i]. class 0: it is
// an identifier that begins with a digit. It follows MySQL's lexer: 0x and 0b in
// lower case only, 1e5 a float, 1e an identifier, 1.e5 a float.
func (l *lexer) number(t []byte, i int) (end int, class Class) {
	start := i
	if t[i] != '.' {
		if t[i] == '0' && i+1 < len(t) {
			switch t[i+1] {
			case 'x':
				for i += 2; i < len(t) && isHexDigit(t[i]); i++ {
				}
				if i > start+2 && (i >= len(t) || !isWordByte(t[i])) {
					return i, ClassHex0
				}
				return l.qualifiedEnd(t, l.wordEnd(t, i)), 0
			case 'b':
				for i += 2; i < len(t) && t[i]|1 == '1'; i++ {
				}
				if i > start+2 && (i >= len(t) || !isWordByte(t[i])) {
					return i, ClassBit
				}
				return l.qualifiedEnd(t, l.wordEnd(t, i)), 0
			}
		}
		for i < len(t) && isDigitByte(t[i]) {
			i++
		}
		if i < len(t) && isWordByte(t[i]) {
			if e := exponentEnd(t, i); e > 0 {
				return e, ClassFloat
			}
			return l.qualifiedEnd(t, l.wordEnd(t, i)), 0
		}
		if i >= len(t) || t[i] != '.' || i+1 < len(t) && t[i+1] == '.' {
			return i, ClassInt
		}
	}
	for i++; i < len(t) && isDigitByte(t[i]); i++ {
	}
	if e := exponentEnd(t, i); e > 0 {
		return e, ClassFloat
	}
	return i, ClassDec
}

// exponentEnd returns the position after an exponent at t[i], or 0.
func exponentEnd(t []byte, i int) int {
	if i >= len(t) || t[i]|0x20 != 'e' {
		return 0
	}
	i++
	if i < len(t) && (t[i] == '+' || t[i] == '-') {
		i++
	}
	if i >= len(t) || !isDigitByte(t[i]) {
		return 0
	}
	for i < len(t) && isDigitByte(t[i]) {
		i++
	}
	return i
}

// literal scans the literal at t[i]. class 0: there is none, or one whose end is
// missing; then end means nothing.
func (l *lexer) literal(t []byte, i int) (end int, class Class) {
	switch c := t[i]; byteKinds[c] {
	case byteDigit:
		return l.number(t, i)
	case byteDot:
		if i+1 < len(t) && isDigitByte(t[i+1]) {
			return l.number(t, i)
		}
	case byteQuote:
		return l.adjacent(t, l.stringEnd(t, i)), ClassString
	case byteDouble:
		if !l.ansi {
			return l.adjacent(t, l.stringEnd(t, i)), ClassString
		}
	case byteWord:
		if i+1 < len(t) && t[i+1] == '\'' {
			return l.prefixed(t, i)
		}
	}
	return 0, 0
}

// prefixed scans x'..', b'..' and N'..' at t[i]; class 0 for any other letter
// or digits that do not fit (which the parser refuses).
func (l *lexer) prefixed(t []byte, i int) (end int, class Class) {
	switch t[i] {
	case 'x', 'X':
		j := i + 2
		for j < len(t) && isHexDigit(t[j]) {
			j++
		}
		if j < len(t) && t[j] == '\'' && (j-i)%2 == 0 {
			return j + 1, ClassHexX
		}
	case 'b', 'B':
		j := i + 2
		for j < len(t) && t[j]|1 == '1' {
			j++
		}
		if j < len(t) && t[j] == '\'' {
			return j + 1, ClassBit
		}
	case 'n', 'N':
		return l.adjacent(t, l.stringEnd(t, i+1)), ClassNation
	}
	return 0, 0
}

// adjacent extends a string that ended at i by the strings that follow it after
// nothing but blanks and plain comments: together they are one literal.
func (l *lexer) adjacent(t []byte, i int) int {
	for j := i; j < len(t); {
		switch c := t[j]; byteKinds[c] {
		case byteBlank:
			j++
			continue
		case byteQuote:
		case byteDouble:
			if l.ansi {
				return i
			}
		case byteSlash, byteDash, byteHash:
			e, kind := comment(t, j)
			if kind != commentPlain {
				return i
			}
			j = e
			continue
		default:
			return i
		}
		i = l.stringEnd(t, j)
		j = i
	}
	return i
}

// The kinds of comments.
type commentKind uint8

const (
	commentNone  commentKind = iota // no comment begins here
	commentPlain                    // nobody reads it
	commentCode                     // the head of /*!12345: what follows is code
	commentKept                     // a hint, a directive, MariaDB's /*M!, or one without its end
)

// comment looks at the comment at t[i] ('/', '-' or '#') and returns where it
// ends (for commentCode: where its head ends).
func comment(t []byte, i int) (end int, kind commentKind) {
	switch t[i] {
	case '#':
		return lineEnd(t, i), commentPlain
	case '-':
		if i+1 < len(t) && t[i+1] == '-' && (i+2 >= len(t) || t[i+2] <= ' ' || t[i+2] == 0x7f) {
			return lineEnd(t, i), commentPlain
		}
		return i, commentNone
	}
	if i+1 >= len(t) || t[i+1] != '*' {
		return i, commentNone
	}
	body := t[i+2:]
	if len(body) > 0 && body[0] == '!' {
		// Exactly five or six digits are a version, not code.
		d := 0
		for d < 6 && 1+d < len(body) && isDigitByte(body[1+d]) {
			d++
		}
		if d < 5 {
			d = 0
		}
		return i + 3 + d, commentCode
	}
	e := bytes.Index(body, []byte("*/"))
	if e < 0 {
		return len(t), commentKept
	}
	end = i + 2 + e + 2
	if keptComment(body) {
		return end, commentKept
	}
	return end, commentPlain
}

func keptComment(body []byte) bool {
	if len(body) > 0 && body[0] == '+' || len(body) > 1 && body[0] == 'M' && body[1] == '!' {
		return true
	}
	body = bytes.TrimLeft(body, " \t\r\n")
	const word = "braid"
	return len(body) >= len(word) && string(body[:len(word)]) == word &&
		(len(body) == len(word) || !isWordByte(body[len(word)]))
}

func lineEnd(t []byte, i int) int {
	if e := bytes.IndexByte(t[i:], '\n'); e >= 0 {
		return i + e + 1
	}
	return len(t)
}

// variableEnd returns the position after the variable whose @ is at t[i]:
// @x, @`x`, @'x', @"x", @@x, @@global.x. Text in it is a name, not a literal.
func (l *lexer) variableEnd(t []byte, i int) int {
	i++
	if i >= len(t) {
		return i
	}
	switch t[i] {
	case '@':
		return l.qualifiedEnd(t, l.wordEnd(t, i+1))
	case '\'':
		return l.stringEnd(t, i)
	case '"':
		if l.ansi {
			return l.quotedEnd(t, i)
		}
		return l.stringEnd(t, i)
	case '`':
		return l.quotedEnd(t, i)
	}
	for i < len(t) && (isWordByte(t[i]) || t[i] == '.') {
		i++
	}
	return i
}

// equalFoldWord tells whether word is lower, which is in lower-case letters.
func equalFoldWord(word []byte, lower string) bool {
	if len(word) != len(lower) {
		return false
	}
	for i, c := range word {
		if c|0x20 != lower[i] {
			return false
		}
	}
	return true
}
