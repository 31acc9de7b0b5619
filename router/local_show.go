package router

import "strings"

// show reads what follows SHOW.
func (l *localParser) show(x *Local) error {
	x.Op = OpShow
	s := &x.Show
	switch {
	case l.take("GLOBAL"):
		s.Global = true
	case l.take("SESSION"), l.take("LOCAL"):
	case l.take("EXTENDED"):
	}
	if l.word() == "COUNT" && l.i+3 < len(l.toks) && l.toks[l.i+1].is(l.text, '(') {
		l.i += 4
		s.What = "count " + strings.ToLower(l.word())
		if s.What != "count warnings" && s.What != "count errors" {
			return l.wrong()
		}
		l.i++
		return nil
	}
	if err := l.what(s); err != nil {
		return err
	}
	switch s.What {
	case "create table", "create view", "create procedure", "create function", "create trigger", "create event":
		return l.table(s)
	case "create database":
		if l.take("IF") && (!l.take("NOT") || !l.take("EXISTS")) {
			return l.wrong()
		}
		return l.database(s)
	case "columns", "full columns", "index":
		if !l.take("FROM") && !l.take("IN") {
			return l.wrong()
		}
		if err := l.table(s); err != nil {
			return err
		}
	}
	if l.take("FROM") || l.take("IN") {
		if err := l.database(s); err != nil {
			return err
		}
	}
	if l.take("FOR") || s.What == "engine" {
		if x.Name = l.rest(); s.What == "grants" {
			s.For = x.Name
		}
		return nil
	}
	return l.showFilter(s)
}

// database reads a database's name.
func (l *localParser) database(s *Show) (err error) {
	if s.Database, err = l.name(); err == nil {
		s.NameAt, s.NameEnd = l.toks[l.i-1].start, l.toks[l.i-1].end
	}
	return err
}

// what reads the words that say what is shown.
func (l *localParser) what(s *Show) error {
	var words []string
	for l.i < len(l.toks) {
		w := l.word()
		if w == "" || w == "FROM" || w == "IN" || w == "LIKE" || w == "WHERE" || w == "LIMIT" || w == "FOR" {
			break
		}
		switch w {
		case "FIELDS":
			w = "COLUMNS"
		case "SCHEMAS":
			w = "DATABASES"
		case "SCHEMA":
			w = "DATABASE"
		case "KEYS", "INDEXES":
			w = "INDEX"
		}
		words = append(words, strings.ToLower(w))
		l.i++
		what := strings.Join(words, " ")
		if len(words) == 2 && words[0] == "create" || what == "engine" {
			break
		}
	}
	if len(words) == 0 {
		return l.wrong()
	}
	s.What = strings.Join(words, " ")
	return nil
}

// showFilter reads LIKE, WHERE or LIMIT.
func (l *localParser) showFilter(s *Show) error {
	if w := l.word(); w == "LIKE" || w == "WHERE" {
		s.FilterAt = l.toks[l.i].start
	}
	switch {
	case l.take("LIKE"):
		if l.i >= len(l.toks) || l.toks[l.i].kind != tokString {
			return l.wrong()
		}
		s.HasLike, s.Like = true, l.unquoted(l.toks[l.i])
		l.i++
	case l.take("WHERE"):
		if s.Where = l.rest(); s.Where == "" {
			return l.wrong()
		}
	case l.take("LIMIT"):
		if s.Limit = l.rest(); s.Limit == "" {
			return l.wrong()
		}
	}
	return nil
}
