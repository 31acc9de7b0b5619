package router

// NextStatement cuts the first statement off a multi-statement text, at the
// first semicolon outside strings, quoted names and comments; rest is what
// follows it. Both alias text. A stored program's body has semicolons of its own,
// so a statement that creates one takes the whole text, as does a MariaDB
// compound statement (BEGIN NOT ATOMIC).
//
// A statement may turn out empty ("; ;", or only comments); what that means is
// the caller's decision. Call it only for a client that asked for
// CLIENT_MULTI_STATEMENTS: without it the whole text is one statement.
func NextStatement(text []byte, mode Mode, charset string) (statement, rest []byte) {
	q := Query{Mode: mode, Charset: charset}
	l := q.lexer()
	var p programWords
	for i := 0; i < len(text); {
		switch c := text[i]; byteKinds[c] {
		case byteWord, byteDigit:
			end := l.wordEnd(text, i)
			p.word(text[i:end])
			i = end
		case byteQuote:
			i = l.stringEnd(text, i)
		case byteDouble:
			if l.ansi {
				i = l.quotedEnd(text, i)
			} else {
				i = l.stringEnd(text, i)
			}
		case byteBack:
			i = l.quotedEnd(text, i)
		case byteAt:
			i = l.variableEnd(text, i)
		case byteSlash, byteDash, byteHash:
			end, kind := comment(text, i)
			if kind == commentNone {
				end = i + 1
			}
			i = end
		case byteDot:
			i = l.wordEnd(text, i+1) // a name, whatever it spells
		case byteSemi:
			if p.program {
				return text, nil
			}
			return text[:i], text[i+1:]
		default:
			i++
		}
	}
	return text, nil
}

// programWords notices a statement whose text may hold semicolons.
type programWords struct {
	n       int // words seen
	create  bool
	begin   bool
	program bool
}

func (p *programWords) word(w []byte) {
	p.n++
	switch {
	case p.n == 1:
		p.create = equalFoldWord(w, "create") || equalFoldWord(w, "alter")
		p.begin = equalFoldWord(w, "begin")
	case p.n == 2 && p.begin:
		p.program = equalFoldWord(w, "not")
	case p.create && p.n <= 16:
		// CREATE [OR REPLACE] [DEFINER = user@host] [AGGREGATE] PROCEDURE ..., but
		// not a table or view with a column of such a name.
		for _, kind := range [...]string{"procedure", "function", "trigger", "event", "package"} {
			if equalFoldWord(w, kind) {
				p.program = true
			}
		}
		for _, kind := range [...]string{"table", "view", "index", "database", "schema", "user", "role", "sequence", "server"} {
			if equalFoldWord(w, kind) {
				p.create = false
			}
		}
	}
}
