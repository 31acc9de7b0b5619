package router

import "strings"

// RenameQualifier puts to in the place of the name from wherever that stands
// in front of a point in SQL text: the schemas of a view's tables.
func RenameQualifier(text string, mode Mode, from, to string) string {
	toks := tokenize(text, mode, "utf8mb4")
	return replace(text, toks, "`"+strings.ReplaceAll(to, "`", "``")+"`", func(i int) bool {
		return toks[i].ident() && toks[i].name(text) == from && i+1 < len(toks) && toks[i+1].is(text, '.') && (i == 0 || !toks[i-1].is(text, '.'))
	})
}

// ReplaceIdentifier puts the SQL text with in the place of the identifier from,
// which is compared without regard to case, in a statement's text.
func ReplaceIdentifier(text string, mode Mode, charset, from, with string) string {
	toks := tokenize(text, mode, charset)
	return replace(text, toks, with, func(i int) bool { return toks[i].ident() && strings.EqualFold(toks[i].name(text), from) })
}

// HasIdentifier tells which of names, in lower case, is an identifier of the
// text; "" when none is.
func HasIdentifier(text string, mode Mode, charset string, names ...string) string {
	for _, t := range tokenize(text, mode, charset) {
		if !t.ident() {
			continue
		}
		for _, n := range names {
			if strings.EqualFold(t.name(text), n) {
				return n
			}
		}
	}
	return ""
}

func replace(text string, toks []token, with string, matches func(i int) bool) string {
	var b strings.Builder
	at := 0
	for i := range toks {
		if matches(i) {
			b.WriteString(text[at:toks[i].start])
			b.WriteString(with)
			at = toks[i].end
		}
	}
	b.WriteString(text[at:])
	return b.String()
}

// ShowsColumns tells whether a statement may use one of the columns: it has the
// name, or a * that is no COUNT(*).
func ShowsColumns(text string, mode Mode, charset string, names ...string) bool {
	if HasIdentifier(text, mode, charset, names...) != "" {
		return true
	}
	toks := tokenize(text, mode, charset)
	for i, t := range toks {
		if t.is(text, '*') && (i == 0 || !toks[i-1].is(text, '(')) {
			return true
		}
	}
	return false
}
