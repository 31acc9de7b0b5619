package router

import "strings"

// knownTypes writes a schema change for the parser with types that it knows in
// place of those that it does not, and without what belongs to those: it has to
// understand which columns and keys there are. Every byte keeps its place; the
// nodes get the client's text. ok is false where there is nothing to replace.
func knownTypes(text string, mode Mode, charset string) (known string, ok bool) {
	toks := tokenize(text, mode, charset)
	if len(toks) == 0 {
		return "", false
	}
	switch toks[0].word(text) {
	case "CREATE", "ALTER":
	default:
		return "", false
	}
	out := []byte(text)
	blank := func(t token, as string) {
		copy(out[t.start:t.end], as+strings.Repeat(" ", t.end-t.start-len(as)))
		ok = true
	}
	for i, t := range toks {
		if i == 0 {
			continue
		}
		before := toks[i-1]
		switch t.word(text) {
		case "POINT", "GEOMETRY", "LINESTRING", "POLYGON", "MULTIPOINT", "MULTILINESTRING", "MULTIPOLYGON", "GEOMETRYCOLLECTION", "GEOMCOLLECTION",
			"INET4", "INET6", "UUID":
			// A column's name stands in front of its type, and is not one of these.
			if before.ident() && !typeless(before.word(text)) {
				blank(t, "BLOB")
			}
		case "SPATIAL":
			blank(t, "")
		case "SRID", "REF_SYSTEM_ID":
			if i+1 < len(toks) && before.ident() {
				blank(t, "")
				k := i + 1
				if toks[k].is(text, '=') && k+1 < len(toks) {
					blank(toks[k], "")
					k++
				}
				blank(toks[k], "")
			}
		}
	}
	return string(out), ok
}

// typeless tells whether a word of ALTER TABLE is followed by a column's name.
func typeless(word string) bool {
	switch word {
	case "COLUMN", "ADD", "DROP", "MODIFY", "CHANGE", "ALTER", "AFTER", "EXISTS", "KEY", "INDEX", "TABLE", "TO", "DEFAULT", "RENAME":
		return true
	}
	return false
}
