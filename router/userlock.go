package router

// LockNames finds the names that the calls of GET_LOCK() in a text give their
// locks. ok is false when one is neither a string of plain characters nor a
// parameter that is one.
func LockNames(text string, mode Mode, charset string, params []Param) (names []string, ok bool) {
	toks := tokenize(text, mode, charset)
	param := 0
	for i, t := range toks {
		if t.is(text, '?') {
			param++
		}
		if t.word(text) != "GET_LOCK" || i+1 == len(toks) || !toks[i+1].is(text, '(') {
			continue
		}
		if i+3 >= len(toks) || !toks[i+3].is(text, ',') {
			return nil, false
		}
		name := ""
		switch arg := toks[i+2]; {
		case arg.is(text, '?') && param < len(params) && !params[param].Null:
			name = string(params[param].Value)
		case arg.kind == tokString && arg.end-arg.start > 2 && text[arg.start] == '\'':
			name = text[arg.start+1 : arg.end-1]
		}
		if !plainName(name) {
			return nil, false
		}
		names = append(names, name)
	}
	return names, true
}

// plainName tells whether a text is the same in all character sets and needs no
// escapes.
func plainName(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' || s[i] == '\\' || s[i] == '\'' || s[i] == '"' {
			return false
		}
	}
	return s != ""
}
