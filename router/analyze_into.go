package router

// findInto looks for SELECT ... INTO @a, @b, wherever the clause stands. The
// tokens are from then on those of the text without it.
func (s *shape) findInto(q *Query) {
	if len(s.toks) == 0 {
		return
	}
	if w := s.toks[0].word(s.text); w != "SELECT" && w != "WITH" && !s.toks[0].is(s.text, '(') {
		return
	}
	for i := 0; i+1 < len(s.toks); i++ {
		if s.toks[i].depth != 0 || s.toks[i].word(s.text) != "INTO" || !s.toks[i+1].is(s.text, '@') {
			continue
		}
		l := localParser{q: q, text: s.text, toks: s.toks, i: i + 1}
		var vars []string
		for {
			name, err := l.userVariable()
			if err != nil {
				return
			}
			vars = append(vars, name)
			if !l.punct(',') {
				break
			}
		}
		s.vars, s.into = vars, [2]int{s.toks[i].start, s.toks[l.i-1].end}
		s.toks = tokenize(s.parsed(), q.Mode, q.Charset)
		return
	}
}

// parsed is the text as the parser is given it: with blanks in the place of an
// INTO clause and of what is hidden.
func (s *shape) parsed() string {
	return blank(blank(s.text, s.into[0], s.into[1]), s.hidden[0], s.hidden[1])
}

// intoLast tells whether the INTO clause is the statement's end and a FROM stands before it.
func (s *shape) intoLast() bool {
	from := false
	for _, t := range s.toks {
		if t.start > s.into[1] {
			return false
		}
		from = from || t.depth == 0 && t.word(s.text) == "FROM"
	}
	return from && s.into[1] > 0
}
