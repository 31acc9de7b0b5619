package router

import "strings"

// tokenKind is what a token of SQL text is.
type tokenKind uint8

const (
	tokWord   tokenKind = iota // an unquoted identifier or keyword
	tokQuoted                  // an identifier in back quotes (or double quotes under ANSI_QUOTES)
	tokString                  // a string, x'..', b'..' or n'..' literal
	tokNumber
	tokPunct // one byte of punctuation
)

// token is one token of a text: text[start:end], at a depth of parentheses
// (an opening and its closing parenthesis have the depth outside of them).
type token struct {
	kind       tokenKind
	start, end int
	depth      int
}

// splitter splits text into tokens. Comments are skipped, the code inside of
// executable comments is not.
type splitter struct {
	text      string
	mode      Mode
	multibyte bool // a charset whose second bytes may look like ASCII
	toks      []token
}

// multibyteCharset tells whether a character's second byte may be a quote or a
// backslash in the charset.
func multibyteCharset(name string) bool {
	switch name {
	case "gbk", "gb18030", "gb2312", "big5", "sjis", "cp932", "euckr", "eucjpms", "ujis":
		return true
	}
	return false
}

// tokenize splits text into tokens.
func tokenize(text string, mode Mode, charset string) []token {
	l := splitter{text: text, mode: mode, multibyte: multibyteCharset(charset), toks: make([]token, 0, len(text)/4+8)}
	l.run()
	return l.toks
}

func isSpace(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' }
func isDigit(c byte) bool { return c >= '0' && c <= '9' }
func isWord(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || isDigit(c) || c == '_' || c == '$' || c >= 0x80
}

func (l *splitter) run() {
	s, i, depth, executable := l.text, 0, 0, 0
	for i < len(s) {
		c := s[i]
		switch {
		case isSpace(c):
			i++
		case c == '#':
			i = l.lineEnd(i)
		case c == '-' && strings.HasPrefix(s[i:], "--") && (i+2 == len(s) || isSpace(s[i+2]) || s[i+2] < ' '):
			i = l.lineEnd(i)
		case c == '/' && strings.HasPrefix(s[i:], "/*"):
			if n := executableComment(s[i:]); n > 0 {
				i += n
				executable++
				break
			}
			end := strings.Index(s[i+2:], "*/")
			if end < 0 {
				i = len(s)
			} else {
				i += end + 4
			}
		case c == '*' && executable > 0 && strings.HasPrefix(s[i:], "*/"):
			executable--
			i += 2
		case c == '\'' || c == '"' && l.mode&ModeAnsiQuotes == 0:
			i = l.add(tokString, i, l.quoteEnd(i, true), depth)
		case c == '`' || c == '"':
			i = l.add(tokQuoted, i, l.quoteEnd(i, false), depth)
		case strings.IndexByte("xXbBnN", c) >= 0 && i+1 < len(s) && s[i+1] == '\'':
			i = l.add(tokString, i, l.quoteEnd(i+1, true), depth)
		case isDigit(c) || c == '.' && i+1 < len(s) && isDigit(s[i+1]) && !l.afterName(i):
			end, word := l.numberEnd(i)
			kind := tokNumber
			if word {
				kind = tokWord
			}
			i = l.add(kind, i, end, depth)
		case isWord(c):
			i = l.add(tokWord, i, l.wordEnd(i), depth)
		case c == '(':
			l.add(tokPunct, i, i+1, depth)
			depth++
			i++
		case c == ')':
			depth--
			l.add(tokPunct, i, i+1, depth)
			i++
		default:
			i = l.add(tokPunct, i, i+1, depth)
		}
	}
}

func (l *splitter) add(kind tokenKind, start, end, depth int) int {
	l.toks = append(l.toks, token{kind, start, end, depth})
	return end
}

func (l *splitter) lineEnd(i int) int {
	if n := strings.IndexByte(l.text[i:], '\n'); n >= 0 {
		return i + n + 1
	}
	return len(l.text)
}

// afterName tells whether the byte at i follows an identifier at once, so that
// a point there qualifies and does not begin a number.
func (l *splitter) afterName(i int) bool {
	if len(l.toks) == 0 {
		return false
	}
	t := l.toks[len(l.toks)-1]
	return t.end == i && (t.kind == tokWord || t.kind == tokQuoted)
}

func (l *splitter) wordEnd(i int) int {
	for i < len(l.text) && isWord(l.text[i]) {
		if l.multibyte && l.text[i] >= 0x81 && i+1 < len(l.text) {
			i++
		}
		i++
	}
	return i
}

// numberEnd finds the end of a number; word says that it is an identifier that begins with digits.
func (l *splitter) numberEnd(i int) (end int, word bool) {
	s, start := l.text, i
	qualified := s[i] != '.' && len(l.toks) > 0 && l.toks[len(l.toks)-1].end == i && s[i-1] == '.'
	if s[i] == '0' && i+1 < len(s) && (s[i+1] == 'x' || s[i+1] == 'b') {
		return l.wordEnd(i), false
	}
	for i < len(s) && isDigit(s[i]) {
		i++
	}
	if i < len(s) && s[i] == '.' && !qualified {
		i++
		for i < len(s) && isDigit(s[i]) {
			i++
		}
	}
	if i < len(s) && (s[i] == 'e' || s[i] == 'E') {
		j := i + 1
		if j < len(s) && (s[j] == '+' || s[j] == '-') {
			j++
		}
		if j < len(s) && isDigit(s[j]) {
			for j < len(s) && isDigit(s[j]) {
				j++
			}
			i = j
		}
	}
	if i < len(s) && isWord(s[i]) && strings.IndexByte(s[start:i], '.') < 0 {
		return l.wordEnd(i), true
	}
	return i, false
}

// quoteEnd finds the end of what is quoted from i on. Doubled quotes stand for one.
func (l *splitter) quoteEnd(i int, escapes bool) int {
	s, quote := l.text, l.text[i]
	escapes = escapes && l.mode&ModeNoBackslashEscapes == 0
	for i++; i < len(s); i++ {
		switch c := s[i]; {
		case l.multibyte && c >= 0x81:
			i++
		case c == '\\' && escapes:
			i++
		case c == quote:
			if i+1 < len(s) && s[i+1] == quote {
				i++
				continue
			}
			return i + 1
		}
	}
	return len(s)
}

// executableComment returns the length of the opening of an executable comment
// whose code runs ("/*!", "/*!50100", "/*M!"), or 0.
func executableComment(s string) int {
	n := 0
	switch {
	case strings.HasPrefix(s, "/*!"):
		n = 3
	case strings.HasPrefix(s, "/*M!"):
		n = 4
	default:
		return 0
	}
	digits := n
	for digits < len(s) && digits < n+6 && isDigit(s[digits]) {
		digits++
	}
	if digits-n < 5 {
		return n
	}
	return digits
}

// words returns the token's text in upper case when it is an unquoted word.
func (t token) word(text string) string {
	if t.kind != tokWord {
		return ""
	}
	return strings.ToUpper(text[t.start:t.end])
}

// is tells whether the token is the punctuation c.
func (t token) is(text string, c byte) bool { return t.kind == tokPunct && text[t.start] == c }

// name returns an identifier's name without quotes.
func (t token) name(text string) string {
	s := text[t.start:t.end]
	if t.kind != tokQuoted || len(s) < 2 {
		return s
	}
	q := s[:1]
	return strings.ReplaceAll(s[1:len(s)-1], q+q, q)
}

// ident tells whether the token can be a name.
func (t token) ident() bool { return t.kind == tokWord || t.kind == tokQuoted }
