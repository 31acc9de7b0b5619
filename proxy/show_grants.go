package proxy

import (
	"strings"

	"braid/internal/mysql"
	"braid/router"
)

// showGrants answers SHOW GRANTS, of the client itself or, to one who may use every
// database, of any user of the configuration: these are as accounts at any host.
func (s *Session) showGrants(sh *router.Show, bin bool) error {
	name := s.user
	if sh.For != "" && !currentUser(sh.For) {
		other, host, ok := account(sh.For)
		if !ok {
			return s.fail(mysql.Errorf(1235, "This version of Braid doesn't yet support 'SHOW GRANTS FOR %s'", sh.For))
		}
		_, known := s.gen.users[other]
		switch {
		case other == s.user && host == "%":
		case len(s.gen.users[s.user].Databases) > 0 && !s.mariadb():
			return s.fail(mysql.Errorf(1142, "SELECT command denied to user '%s'@'%s' for table 'user'", s.user, s.host))
		case len(s.gen.users[s.user].Databases) > 0:
			return s.fail(mysql.Errorf(1044, "Access denied for user '%s'@'%s' to database 'mysql'", s.user, "%"))
		case !known || host != "%":
			return s.fail(mysql.Errorf(1141, "There is no such grant defined for user '%s' on host '%s'", other, host))
		}
		name = other
	}
	r := &resultSet{columns: []mysql.Column{s.textColumn("Grants for "+name+"@%", 1024)}}
	user := "`" + name + "`@`%`"
	u := s.gen.users[name]
	if len(u.Databases) == 0 {
		r.rows = append(r.rows, []cell{text("GRANT ALL PRIVILEGES ON *.* TO " + user)})
	} else {
		r.rows = append(r.rows, []cell{text("GRANT USAGE ON *.* TO " + user)})
		for _, d := range u.Databases {
			r.rows = append(r.rows, []cell{text("GRANT ALL PRIVILEGES ON `" + d + "`.* TO " + user)})
		}
	}
	return s.writeResult(r, bin)
}

// currentUser tells whether an account is CURRENT_USER, with or without brackets.
func currentUser(text string) bool {
	return strings.EqualFold(strings.TrimSuffix(strings.ReplaceAll(text, " ", ""), "()"), "CURRENT_USER")
}

// account reads 'user'@'host', in any quotes or none; without a host it is "%".
func account(text string) (user, host string, ok bool) {
	user, rest, ok := accountPart(text)
	if !ok || rest == "" {
		return user, "%", ok
	}
	if !strings.HasPrefix(rest, "@") || strings.HasPrefix(rest, "@ ") {
		return "", "", false
	}
	host, rest, ok = accountPart(rest[1:])
	return user, strings.ToLower(host), ok && rest == ""
}

// accountPart reads one part and what is behind it.
func accountPart(text string) (part, rest string, ok bool) {
	text = strings.TrimSpace(text)
	if text == "" {
		return "", "", false
	}
	if q := text[0]; q == '\'' || q == '"' || q == '`' {
		end := strings.IndexByte(text[1:], q)
		if end < 0 || strings.IndexByte(text[1:1+end], '\\') >= 0 {
			return "", "", false
		}
		rest = text[end+2:]
		return text[1 : end+1], strings.TrimSpace(rest), rest == "" || rest[0] != q
	}
	end := strings.IndexAny(text, "@ \t\n,'\"`")
	if end < 0 {
		end = len(text)
	}
	return text[:end], strings.TrimSpace(text[end:]), end > 0
}
