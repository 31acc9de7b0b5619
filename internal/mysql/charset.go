package mysql

import (
	"sort"
	"strings"
)

//go:generate go run charset_gen.go -mysql "$BRAID_TEST_MYSQL_DSN" -mariadb "$BRAID_TEST_MARIADB_DSN"

// Collation is one collation as a server knows it.
type Collation struct {
	ID       uint16
	Name     string // lower case; MariaDB's uca1400 with its character set in front
	Charset  string
	BytesMax uint8 // of a character of Charset
	PadSpace bool  // comparisons ignore trailing spaces
	Default  bool  // its character set's
}

// Charset is one character set as a server knows it.
type Charset struct {
	Name      string
	BytesMax  uint8 // of a character
	Collation uint16
}

// Collations are those of one flavour of server. Both flavours share the ids
// below 256 mostly, but not all: look up in the flavour that sent an id.
type Collations struct {
	byID   []Collation // ascending
	byName []uint16    // indexes into byID, ascending by name
}

// MySQLCollations are MySQL 9's, which are MySQL 8's too.
func MySQLCollations() Collations {
	return Collations{mysqlCollations[:], mysqlCollationsByName[:]}
}

// MariaDBCollations are MariaDB 10.11's.
func MariaDBCollations() Collations {
	return Collations{mariadbCollations[:], mariadbCollationsByName[:]}
}

// Collations are those of the server's flavour.
func (s *ServerInfo) Collations() Collations {
	if s.MariaDB {
		return MariaDBCollations()
	}
	return MySQLCollations()
}

// ByID finds a collation by the id that travels.
func (c Collations) ByID(id uint16) (Collation, bool) {
	i := sort.Search(len(c.byID), func(i int) bool { return c.byID[i].ID >= id })
	if i < len(c.byID) && c.byID[i].ID == id {
		return c.byID[i], true
	}
	return Collation{}, false
}

// ByName finds a collation by its name in any case. "utf8_..." is the alias of
// "utf8mb3_..." that it is on both servers.
func (c Collations) ByName(name string) (Collation, bool) {
	name = strings.ToLower(name)
	if rest, ok := strings.CutPrefix(name, "utf8_"); ok {
		name = "utf8mb3_" + rest
	}
	i := sort.Search(len(c.byName), func(i int) bool { return c.byID[c.byName[i]].Name >= name })
	if i < len(c.byName) {
		if found := c.byID[c.byName[i]]; found.Name == name {
			return found, true
		}
	}
	return Collation{}, false
}

// Charset finds a character set by its name in any case. "utf8" is the alias of
// "utf8mb3" that it is on both servers, unless MariaDB's old_mode says otherwise.
func (c Collations) Charset(name string) (Charset, bool) {
	if strings.EqualFold(name, "utf8") {
		name = "utf8mb3"
	}
	for i := range c.byID {
		if d := &c.byID[i]; d.Default && strings.EqualFold(d.Charset, name) {
			return Charset{d.Charset, d.BytesMax, d.ID}, true
		}
	}
	return Charset{}, false
}
