package router

import "strings"

// refusedSet tells of the forms of SET that are not variables.
func (l *localParser) refusedSet() error {
	switch w := l.word(); w {
	case "PASSWORD", "ROLE", "DEFAULT", "RESOURCE", "STATEMENT":
		if l.i+1 < len(l.toks) && l.toks[l.i+1].is(l.text, '=') && w != "PASSWORD" {
			return nil
		}
		return refuse("SET " + w)
	}
	return nil
}

// set reads what follows SET.
func (l *localParser) set(x *Local) error {
	if l.i >= len(l.toks) {
		return l.wrong()
	}
	if done, err := l.setTransaction(x); done || err != nil {
		return err
	}
	x.Op = OpSet
	scope := ScopeSession
	for {
		s, err := l.assignment(&scope)
		if err != nil {
			return err
		}
		x.Sets = append(x.Sets, s)
		if !l.punct(',') {
			return nil
		}
	}
}

// setTransaction reads SET [scope] TRANSACTION.
func (l *localParser) setTransaction(x *Local) (bool, error) {
	at := l.i
	switch l.word() {
	case "SESSION", "LOCAL":
		l.i++
		x.Session = true
	case "GLOBAL":
		if l.i+1 < len(l.toks) && l.toks[l.i+1].word(l.text) == "TRANSACTION" {
			return true, refuse("SET GLOBAL TRANSACTION")
		}
	}
	if !l.take("TRANSACTION") {
		l.i, x.Session = at, false
		return false, nil
	}
	x.Op = OpTransaction
	for {
		switch {
		case l.take("ISOLATION"):
			if !l.take("LEVEL") || x.Isolation != "" {
				return true, l.wrong()
			}
			switch {
			case l.take("SERIALIZABLE"):
				x.Isolation = "SERIALIZABLE"
			case l.take("REPEATABLE"):
				x.Isolation = "REPEATABLE-READ"
				if !l.take("READ") {
					return true, l.wrong()
				}
			case l.take("READ"):
				switch {
				case l.take("COMMITTED"):
					x.Isolation = "READ-COMMITTED"
				case l.take("UNCOMMITTED"):
					x.Isolation = "READ-UNCOMMITTED"
				default:
					return true, l.wrong()
				}
			default:
				return true, l.wrong()
			}
		case l.take("READ"):
			if x.Access != "" {
				return true, l.wrong()
			}
			switch {
			case l.take("ONLY"):
				x.Access = "READ ONLY"
			case l.take("WRITE"):
				x.Access = "READ WRITE"
			default:
				return true, l.wrong()
			}
		default:
			return true, l.wrong()
		}
		if !l.punct(',') {
			return true, nil
		}
	}
}

// assignment reads one variable and its value. A scope keyword holds for the
// assignments behind it too.
func (l *localParser) assignment(scope *SetScope) (Set, error) {
	s := Set{}
	switch l.word() {
	case "NAMES":
		if l.i+1 < len(l.toks) && !l.toks[l.i+1].is(l.text, '=') {
			l.i++
			return l.names()
		}
	case "CHARACTER":
		if l.i+1 < len(l.toks) && l.toks[l.i+1].word(l.text) == "SET" {
			l.i += 2
			s.Name = "charset"
			return s, l.value(&s)
		}
	case "CHARSET":
		l.i++
		s.Name = "charset"
		return s, l.value(&s)
	}
	if k, ok := scopeWord(l.word()); ok && l.i+1 < len(l.toks) && l.toks[l.i+1].ident() {
		l.i++
		*scope = k
	}
	s.Scope = *scope
	var err error
	switch {
	case l.i+1 < len(l.toks) && l.toks[l.i].is(l.text, '@') && l.toks[l.i+1].is(l.text, '@'):
		l.i += 2
		s.Scope = ScopeSession
		explicit := false
		if k, ok := scopeWord(l.word()); ok && l.i+1 < len(l.toks) && l.toks[l.i+1].is(l.text, '.') {
			l.i += 2
			s.Scope, explicit = k, true
		}
		if s.Name, err = l.variableName(); err != nil {
			return s, err
		}
		switch s.Name {
		case "transaction_isolation", "tx_isolation", "transaction_read_only", "tx_read_only":
			if !explicit {
				s.Scope = ScopeNext
			}
		}
	case l.i < len(l.toks) && l.toks[l.i].is(l.text, '@'):
		s.Scope = ScopeUser
		if s.Name, err = l.userVariable(); err != nil {
			return s, err
		}
	default:
		if s.Name, err = l.variableName(); err != nil {
			return s, err
		}
	}
	if l.punct(':') && (l.i >= len(l.toks) || !l.toks[l.i].is(l.text, '=')) {
		l.i--
		return s, l.wrong()
	}
	if !l.punct('=') {
		return s, l.wrong()
	}
	return s, l.value(&s)
}

func scopeWord(w string) (SetScope, bool) {
	switch w {
	case "SESSION", "LOCAL":
		return ScopeSession, true
	case "GLOBAL":
		return ScopeGlobal, true
	case "PERSIST":
		return ScopePersist, true
	case "PERSIST_ONLY":
		return ScopePersistOnly, true
	}
	return 0, false
}

func (l *localParser) variableName() (string, error) {
	name, err := l.name()
	if err != nil {
		return "", err
	}
	for l.punct('.') { // a component's or a key cache's variable
		part, err := l.name()
		if err != nil {
			return "", err
		}
		name += "." + part
	}
	return strings.ToLower(name), nil
}

// names reads what follows NAMES.
func (l *localParser) names() (Set, error) {
	s := Set{Name: "names"}
	if l.i >= len(l.toks) {
		return s, l.wrong()
	}
	t := l.toks[l.i]
	if !t.ident() && t.kind != tokString {
		return s, l.wrong()
	}
	l.i++
	s.Text, s.Literal, s.Value = l.text[t.start:t.end], true, l.plain(t)
	if l.take("COLLATE") {
		if l.i >= len(l.toks) || !l.toks[l.i].ident() && l.toks[l.i].kind != tokString {
			return s, l.wrong()
		}
		s.Collate = l.plain(l.toks[l.i])
		l.i++
	}
	return s, nil
}

// plain is a token's value: without quotes.
func (l *localParser) plain(t token) string {
	if t.kind == tokString {
		return l.unquoted(t)
	}
	return t.name(l.text)
}

// value reads an assignment's value: up to the comma that ends it.
func (l *localParser) value(s *Set) error {
	start := l.i
	for l.i < len(l.toks) && !(l.toks[l.i].depth == 0 && l.toks[l.i].is(l.text, ',')) {
		if l.toks[l.i].is(l.text, ';') {
			l.i++
			return l.wrong()
		}
		l.i++
	}
	if l.i == start {
		return l.wrong()
	}
	toks := l.toks[start:l.i]
	s.Text = l.text[toks[0].start:toks[len(toks)-1].end]
	switch {
	case len(toks) == 1 && toks[0].kind == tokNumber:
		s.Literal, s.Value = true, s.Text
	case len(toks) == 1 && (toks[0].kind == tokString || toks[0].ident()):
		s.Literal, s.Value = true, l.plain(toks[0])
		if toks[0].kind == tokString && strings.IndexByte("xXbBnN", l.text[toks[0].start]) >= 0 {
			s.Literal, s.Value = false, ""
		}
	case len(toks) == 2 && (toks[0].is(l.text, '-') || toks[0].is(l.text, '+')) && toks[1].kind == tokNumber:
		s.Literal, s.Value = true, strings.TrimPrefix(s.Text, "+")
	}
	return nil
}
