package router

import "strings"

// The parser does not know some clauses. They are hidden from it, as far as
// nothing in them needs it: the texts for shards have them as the client wrote
// them.

// hide looks for clauses at the end of a write that the parser does not know.
func (s *shape) hide(f Flavour) {
	if len(s.toks) == 0 {
		return
	}
	verb := s.toks[0].word(s.text)
	switch {
	case f == MariaDB && (verb == "INSERT" || verb == "REPLACE" || verb == "DELETE"):
		s.hideReturning()
	case f == MySQL && verb == "INSERT":
		s.hideRowAlias()
	}
}

// hideReturning hides MariaDB's RETURNING and the list behind it.
func (s *shape) hideReturning() {
	i := s.wordAt(1, "RETURNING")
	if i+1 >= len(s.toks) {
		return
	}
	for k := i + 1; k < len(s.toks); k++ {
		t := s.toks[k]
		_, fact := factOf(t.word(s.text))
		switch w := t.word(s.text); {
		case fact, t.is(s.text, '@'), t.is(s.text, ';'), w == "SELECT", w == "IS_USED_LOCK", w == "GET_LOCK", w == "RELEASE_LOCK",
			w == "RELEASE_ALL_LOCKS", w == "IS_FREE_LOCK", w == "NEXTVAL", w == "LASTVAL", w == "SETVAL":
			return
		case t.is(s.text, '.') && k+2 < len(s.toks) && s.toks[k+2].is(s.text, '.'):
			return // a database in front of a table
		}
	}
	s.hidden = [2]int{s.toks[i].start, len(s.text)}
}

// hideRowAlias hides MySQL's name for the new rows, and for their columns:
// INSERT ... VALUES (1,2) AS new(a,b) ON DUPLICATE KEY UPDATE ...
func (s *shape) hideRowAlias() {
	i := s.wordAt(1, "VALUES", "VALUE", "SET", "SELECT", "TABLE", "WITH")
	if i == len(s.toks) || s.toks[i].word(s.text) == "SELECT" || s.toks[i].word(s.text) == "TABLE" || s.toks[i].word(s.text) == "WITH" {
		return
	}
	i = s.wordAt(i, "AS", "ON")
	if i+1 >= len(s.toks) || s.toks[i].word(s.text) != "AS" || !s.toks[i+1].ident() {
		return
	}
	end := i + 1
	if end+1 < len(s.toks) && s.toks[end+1].is(s.text, '(') {
		for end++; end < len(s.toks) && !s.toks[end].is(s.text, ')'); end++ {
		}
		if end == len(s.toks) {
			return
		}
	}
	s.hidden = [2]int{s.toks[i].start, s.toks[end].end}
}

// blank puts blanks in the place of text[from:to].
func blank(text string, from, to int) string {
	return text[:from] + strings.Repeat(" ", to-from) + text[to:]
}
