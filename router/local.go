package router

import (
	"strconv"
	"strings"
)

// localParser reads the statements that the proxy itself carries out. They are
// few and simple; what stands in their values stays the client's text.
type localParser struct {
	r    *Router
	q    *Query
	text string
	toks []token
	i    int
}

// statement plans the statement when it is one of these; ok is false when not.
func (l *localParser) statement() (p *Plan, ok bool, err error) {
	first := l.word()
	p = &Plan{Kind: KindLocal, Verb: first, Local: &Local{}}
	x := p.Local
	l.i++
	switch first {
	case "BEGIN":
		x.Op = OpBegin
		l.take("WORK")
	case "START":
		if !l.take("TRANSACTION") {
			return nil, true, refuse("START " + l.word())
		}
		err = l.start(x)
	case "COMMIT", "ROLLBACK":
		err = l.finish(x, first)
	case "SAVEPOINT":
		x.Op = OpSavepoint
		x.Name, err = l.name()
	case "RELEASE":
		if !l.take("SAVEPOINT") {
			return nil, true, l.wrong()
		}
		x.Op = OpReleaseSavepoint
		x.Name, err = l.name()
	case "USE":
		x.Op = OpUse
		x.Name, err = l.name()
	case "SET":
		if refused := l.refusedSet(); refused != nil {
			return nil, true, refused
		}
		err = l.set(x)
	case "SHOW":
		p.Rows = true
		err = l.show(x)
	case "KILL":
		err = l.kill(x)
	case "PREPARE":
		err = l.prepare(x)
	case "EXECUTE":
		err = l.execute(x)
	case "DEALLOCATE":
		if !l.take("PREPARE") {
			return nil, true, l.wrong()
		}
		x.Op = OpDeallocate
		x.Name, err = l.name()
	case "DROP":
		if !l.take("PREPARE") {
			return l.refused(first)
		}
		x.Op = OpDeallocate
		x.Name, err = l.name()
	case "EXPLAIN", "DESCRIBE", "DESC":
		p.Rows = true
		err = l.explain(x)
	case "LOCK":
		if !l.take("TABLES") && !l.take("TABLE") {
			return nil, true, refuse("LOCK " + l.word())
		}
		err = l.lockTables(x)
	case "UNLOCK":
		if !l.take("TABLES") && !l.take("TABLE") {
			return nil, true, refuse("UNLOCK " + l.word())
		}
		x.Op = OpUnlockTables
	case "LOAD":
		p, err = l.r.planLoad(l.q, l.toks)
		return p, true, err
	case "XA":
		x.Op, x.Name = OpXA, l.rest()
	default:
		return l.refused(first)
	}
	if err == nil && l.i < len(l.toks) {
		err = l.wrong()
	}
	if err != nil {
		return nil, true, err
	}
	return p, true, nil
}

// refused answers statements that Braid does not carry out and that the parser
// does not know.
func (l *localParser) refused(first string) (*Plan, bool, error) {
	switch first {
	case "CHECK", "CHECKSUM", "FLUSH":
		return l.lookAfter(first)
	case "HANDLER":
		return l.handler()
	case "GRANT", "REVOKE", "RESET", "PURGE", "CHANGE", "INSTALL", "UNINSTALL", "BINLOG",
		"SHUTDOWN", "RESTART", "CLONE", "IMPORT", "CACHE", "STOP", "SIGNAL", "RESIGNAL", "GET", "HELP":
		return nil, true, refuse(first)
	case "CREATE", "DROP", "ALTER":
		for i, t := range l.toks {
			if i > 12 || t.is(l.text, '(') {
				break
			}
			switch w := t.word(l.text); w {
			case "TABLE", "VIEW", "INDEX", "DATABASE", "SCHEMA":
				return nil, false, nil
			case "USER", "ROLE", "PROCEDURE", "FUNCTION", "TRIGGER", "EVENT", "SERVER", "TABLESPACE", "LOGFILE", "SEQUENCE", "RESOURCE", "PACKAGE", "INSTANCE", "SPATIAL":
				if w == "SPATIAL" {
					continue
				}
				switch w {
				case "PROCEDURE", "FUNCTION", "TRIGGER", "EVENT":
					if p, err := l.stored(first, w, i); p != nil {
						return p, true, nil
					} else if err != nil {
						return nil, true, err
					}
				}
				return nil, true, refuse(first + " " + w)
			}
		}
	}
	return nil, false, nil
}

// word is the current token in upper case, "" when it is no word.
func (l *localParser) word() string {
	if l.i >= len(l.toks) {
		return ""
	}
	return l.toks[l.i].word(l.text)
}

func (l *localParser) take(word string) bool {
	if l.word() != word {
		return false
	}
	l.i++
	return true
}

func (l *localParser) punct(c byte) bool {
	if l.i < len(l.toks) && l.toks[l.i].is(l.text, c) {
		l.i++
		return true
	}
	return false
}

// wrong is the syntax error at the current token.
func (l *localParser) wrong() error {
	at := len(l.text)
	if l.i < len(l.toks) {
		at = l.toks[l.i].start
	}
	return syntaxErrorAt(l.text, at)
}

// name reads an identifier.
func (l *localParser) name() (string, error) {
	if l.i >= len(l.toks) || !l.toks[l.i].ident() {
		return "", l.wrong()
	}
	l.i++
	return l.toks[l.i-1].name(l.text), nil
}

// rest is the text from the current token to the end.
func (l *localParser) rest() string {
	if l.i >= len(l.toks) {
		return ""
	}
	s := l.text[l.toks[l.i].start:l.toks[len(l.toks)-1].end]
	l.i = len(l.toks)
	return s
}

// unquoted is a string token's value.
func (l *localParser) unquoted(t token) string {
	b, err := l.q.unquote([]byte(l.text[t.start:t.end]))
	if err != nil {
		return ""
	}
	return string(b)
}

// start reads what follows START TRANSACTION.
func (l *localParser) start(x *Local) error {
	x.Op = OpBegin
	for l.i < len(l.toks) {
		switch {
		case l.take("WITH"):
			if !l.take("CONSISTENT") || !l.take("SNAPSHOT") {
				return l.wrong()
			}
			x.Snapshot = true
		case l.take("READ"):
			switch {
			case l.take("ONLY"):
				x.ReadOnly = true
			case l.take("WRITE"):
				x.ReadWrite = true
			default:
				return l.wrong()
			}
		default:
			return l.wrong()
		}
		if l.i < len(l.toks) && !l.punct(',') {
			return l.wrong()
		}
	}
	if x.ReadOnly && x.ReadWrite {
		return syntaxErrorAt(l.text, len(l.text))
	}
	return nil
}

// finish reads what follows COMMIT and ROLLBACK.
func (l *localParser) finish(x *Local, verb string) (err error) {
	x.Op = OpCommit
	if verb == "ROLLBACK" {
		x.Op = OpRollback
	}
	l.take("WORK")
	if verb == "ROLLBACK" && l.take("TO") {
		l.take("SAVEPOINT")
		x.Op = OpRollbackTo
		x.Name, err = l.name()
		return err
	}
	if l.take("AND") {
		x.Chain = !l.take("NO")
		if !l.take("CHAIN") {
			return l.wrong()
		}
	}
	if l.take("NO") {
		if !l.take("RELEASE") {
			return l.wrong()
		}
	} else if l.take("RELEASE") {
		x.Release = true
	}
	if x.Chain && x.Release {
		return syntaxErrorAt(l.text, l.toks[len(l.toks)-1].start)
	}
	return nil
}

func (l *localParser) kill(x *Local) error {
	x.Op = OpKill
	for l.take("HARD") || l.take("SOFT") {
	}
	if l.take("QUERY") {
		x.Kill.Query = true
	} else {
		l.take("CONNECTION")
	}
	if l.i >= len(l.toks) {
		return l.wrong()
	}
	t := l.toks[l.i]
	id, err := strconv.ParseUint(l.text[t.start:t.end], 10, 64)
	if err != nil || t.kind != tokNumber {
		return refuse("KILL of an expression")
	}
	l.i++
	x.Kill.ID = id
	return nil
}

func (l *localParser) prepare(x *Local) (err error) {
	x.Op = OpPrepare
	if x.Name, err = l.name(); err != nil {
		return err
	}
	if !l.take("FROM") || l.i >= len(l.toks) {
		return l.wrong()
	}
	if t := l.toks[l.i]; t.kind == tokString {
		l.i++
		x.From = l.unquoted(t)
		return nil
	}
	name, err := l.userVariable()
	x.From = "@" + name
	return err
}

// userVariable reads @name, in lower case.
func (l *localParser) userVariable() (string, error) {
	if !l.punct('@') || l.i >= len(l.toks) {
		return "", l.wrong()
	}
	t := l.toks[l.i]
	switch {
	case t.kind == tokString:
		l.i++
		return strings.ToLower(l.unquoted(t)), nil
	case !t.ident():
		return "", l.wrong()
	}
	name := t.name(l.text)
	l.i++
	// A point belongs to the name: @a.b.
	for t.kind == tokWord && l.i+1 < len(l.toks) && l.toks[l.i].is(l.text, '.') && l.toks[l.i].start == l.toks[l.i-1].end && l.toks[l.i+1].kind == tokWord {
		name += "." + l.toks[l.i+1].name(l.text)
		l.i += 2
	}
	return strings.ToLower(name), nil
}

func (l *localParser) execute(x *Local) (err error) {
	x.Op = OpExecute
	if l.word() == "IMMEDIATE" {
		return refuse("EXECUTE IMMEDIATE")
	}
	if x.Name, err = l.name(); err != nil {
		return err
	}
	if !l.take("USING") {
		return nil
	}
	for {
		name, err := l.userVariable()
		if err != nil {
			return err
		}
		x.Using = append(x.Using, name)
		if !l.punct(',') {
			return nil
		}
	}
}

// explain reads EXPLAIN and DESCRIBE: of a table, or of a statement.
func (l *localParser) explain(x *Local) (err error) {
	at := l.i
	for {
		w := l.word()
		if (w == "EXTENDED" || w == "PARTITIONS" || w == "ANALYZE") && l.i+1 < len(l.toks) {
			l.i++
			continue
		}
		if w == "FORMAT" && l.i+2 < len(l.toks) && l.toks[l.i+1].is(l.text, '=') {
			l.i += 3
			continue
		}
		break
	}
	switch l.word() {
	case "SELECT", "INSERT", "REPLACE", "UPDATE", "DELETE", "WITH", "TABLE", "VALUES":
	case "FOR":
		return refuse("EXPLAIN FOR CONNECTION")
	default:
		if l.i < len(l.toks) && l.toks[l.i].is(l.text, '(') {
			break
		}
		l.i = at
		x.Op = OpShow
		x.Show.What = "columns"
		if err = l.table(&x.Show); err != nil {
			return err
		}
		if l.i < len(l.toks) { // a column's name, or a pattern
			t := l.toks[l.i]
			l.i++
			x.Show.HasLike = true
			x.Show.Like = t.name(l.text)
			if t.kind == tokString {
				x.Show.Like = l.unquoted(t)
			}
		}
		return nil
	}
	x.Op = OpExplain
	x.Inner = l.rest()
	inner := &Query{Text: []byte(x.Inner), Database: l.q.Database, Mode: l.q.Mode, Charset: l.q.Charset, Prepared: l.q.Prepared, Facts: l.q.Facts}
	x.Explain, err = l.r.Plan(inner)
	return err
}

// table reads a table's name, with its database in front or not.
func (l *localParser) table(s *Show) (err error) {
	if s.Table, err = l.name(); err != nil {
		return err
	}
	if l.punct('.') {
		s.Database, s.NameAt, s.NameEnd = s.Table, l.toks[l.i-2].start, l.toks[l.i-2].end
		s.Table, err = l.name()
	}
	return err
}
