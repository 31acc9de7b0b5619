package metadata

import (
	"bytes"
	"fmt"
	"regexp"
	"testing"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"braid/tests/servers"
	"braid/tests/wire"
)

// TestSessionFunctions compares all that is announced of the functions whose
// answer is the session's (rule D10), and the answers that are the same on both
// sides.
func TestSessionFunctions(t *testing.T) {
	each(t, func(t *testing.T, s *sides) {
		for _, use := range []bool{true, false} {
			if !use {
				plain := wire.Options{Addr: s.plainServer.Addr(), User: servers.User, Password: servers.Password}
				braid := s.b.Wire()
				braid.Database = ""
				s.braid, s.plain = connect(t, braid), connect(t, plain)
			}
			for _, text := range []string{"SELECT DATABASE()", "SELECT SCHEMA() AS s", "SELECT LAST_INSERT_ID()", "SELECT ROW_COUNT()", "SELECT FOUND_ROWS()", "SELECT VERSION()",
				"SELECT DATABASE() = 'shop', DATABASE() IS NULL", "SELECT LAST_INSERT_ID() + 1, -ROW_COUNT()",
				"SELECT CHARSET(DATABASE()), COLLATION(USER())", "SELECT @@identity, @@last_insert_id", "SELECT CONNECTION_ID() = CONNECTION_ID()",
				"SELECT @@warning_count, @@error_count", "SELECT @@autocommit", "SELECT LAST_INSERT_ID(7)", "SELECT LAST_INSERT_ID()", "SELECT CURRENT_USER = CURRENT_USER()", "SELECT SESSION_USER() = USER()"} {
				s.same(t, text, true)
			}
			if use {
				// Without a database MariaDB announces the length of the value, which is none.
				s.same(t, "SELECT CONCAT(DATABASE(), '!'), LENGTH(SCHEMA()), IFNULL(DATABASE(), 'none')", true)
			}
			for _, text := range []string{"SELECT USER()", "SELECT CURRENT_USER()", "SELECT CURRENT_USER", "SELECT SYSTEM_USER() AS u", "SELECT CONNECTION_ID()", "SELECT UPPER(USER())", "SELECT CONNECTION_ID() + 1", "SELECT CONNECTION_ID() AS id"} {
				s.same(t, text, false)
			}
		}
	})
}

// TestSQLPrepare compares PREPARE, EXECUTE and DEALLOCATE (names, types and
// values are the server's own), with the values deciding the shard.
func TestSQLPrepare(t *testing.T) {
	each(t, func(t *testing.T, s *sides) {
		s.both(t, "INSERT INTO a VALUES (1,'one'),(2,'two'),(3,'three'),(4,'four'),(5,'five')")
		for _, text := range []string{
			"PREPARE p FROM 'SELECT k, v, ? AS x, ? + 1 FROM a WHERE k = ?'",
			"SET @i = 3, @s = 'text', @d = 1.50, @n = NULL",
			"EXECUTE p USING @s, @d, @i", "EXECUTE p USING @i, @i, @nosuch", "EXECUTE p USING @i", "EXECUTE p",
			"PREPARE q FROM 'SELECT k, v FROM a ORDER BY k LIMIT ?'", "SET @l = 2", "EXECUTE q USING @l", "SET @l = 4", "EXECUTE q USING @l",
			"PREPARE w FROM 'UPDATE a SET v = ? WHERE k = ?'", "EXECUTE w USING @s, @i", "EXECUTE w USING @s, @i", "SELECT ROW_COUNT()", "SELECT * FROM a WHERE k = 3",
			"PREPARE w FROM 'INSERT INTO a VALUES (?, ?)'", "SET @i = 77", "EXECUTE w USING @i, @s", "EXECUTE w USING @i, @s", "SELECT * FROM a WHERE k = 77",
			"PREPARE c FROM 'SELECT COUNT(*), MAX(k), ? FROM a WHERE k > ?'", "EXECUTE c USING @s, @l",
			"SET @q = 'SELECT 1 AS one'", "PREPARE r FROM @q", "EXECUTE r", "PREPARE r FROM @nosuch", "EXECUTE r", "PREPARE bad FROM 'SELEC 1'",
			"PREPARE sh FROM 'SHOW TABLES'", "EXECUTE sh", "PREPARE st FROM 'SET @z = ?'", "EXECUTE st USING @s", "SELECT @z",
			"DEALLOCATE PREPARE p", "EXECUTE p", "DROP PREPARE nosuch", "PREPARE x FROM 'PREPARE y FROM ''SELECT 1'''", "SELECT 'it''s' FROM a WHERE k = 1",
			"PREPARE t FROM 'SELECT ''it''''s'' AS `a b`, k FROM a WHERE v = ? ORDER BY k'", "EXECUTE t USING @s",
		} {
			got, want := ask(s.braid, text, false, true), ask(s.plain, text, false, true)
			if got != want {
				t.Errorf("%s\n--- Braid\n%s\n--- plain\n%s", text, got, want)
			}
		}
	})
}

// TestCommands compares the answers to the protocol's other commands, byte by
// byte (B146).
func TestCommands(t *testing.T) {
	each(t, func(t *testing.T, s *sides) {
		for _, c := range []struct {
			name string
			code byte
			body string
		}{
			{"ping", gomysql.COM_PING, ""},
			{"init db", gomysql.COM_INIT_DB, "shop"},
			{"init db unknown", gomysql.COM_INIT_DB, "nosuch"},
			{"init db none", gomysql.COM_INIT_DB, ""},
			{"field list", gomysql.COM_FIELD_LIST, "a\x00%"},
			{"field list of a single table", gomysql.COM_FIELD_LIST, "far\x00"},
			{"field list by pattern", gomysql.COM_FIELD_LIST, "near\x00u%"},
			{"field list by pattern that fits nothing", gomysql.COM_FIELD_LIST, "near\x00zz"},
			{"field list unknown", gomysql.COM_FIELD_LIST, "nosuch\x00%"},
			{"set option", gomysql.COM_SET_OPTION, "\x01\x00"},
			{"set option on", gomysql.COM_SET_OPTION, "\x00\x00"},
			{"set option unknown", gomysql.COM_SET_OPTION, "\x09\x00"},
			{"execute unknown", gomysql.COM_STMT_EXECUTE, "\x63\x00\x00\x00\x00\x01\x00\x00\x00"},
			{"reset unknown", gomysql.COM_STMT_RESET, "\x63\x00\x00\x00"},
			{"fetch unknown", gomysql.COM_STMT_FETCH, "\x63\x00\x00\x00\x01\x00\x00\x00"},
			{"no command", 0x40, ""},
			{"sleep", gomysql.COM_SLEEP, ""},
			{"empty query", gomysql.COM_QUERY, ""},
			{"blank query", gomysql.COM_QUERY, " ;"},
			{"comment", gomysql.COM_QUERY, "/* nothing */"},
			{"empty prepare", gomysql.COM_STMT_PREPARE, ""},
			{"ping again", gomysql.COM_PING, ""},
		} {
			t.Run(c.name, func(t *testing.T) {
				got, err := s.braid.Packets(c.code, []byte(c.body), false)
				if err != nil {
					t.Fatalf("Braid: %v", err)
				}
				want, err := s.plain.Packets(c.code, []byte(c.body), false)
				if err != nil {
					t.Fatalf("plain: %v", err)
				}
				if len(got) != len(want) {
					t.Fatalf("%q, plain %q", got, want)
				}
				for i := range got {
					if !bytes.Equal(got[i], want[i]) {
						t.Errorf("packet %d: %q, plain %q", i+1, got[i], want[i])
					}
				}
			})
		}
		line := regexp.MustCompile(`^Uptime: \d+  Threads: \d+  Questions: \d+  Slow queries: \d+  Opens: \d+  .*Open tables: \d+  Queries per second avg: [0-9.]+$`)
		for name, c := range map[string]*wire.Conn{"Braid": s.braid, "plain": s.plain} {
			p, err := c.Packets(gomysql.COM_STATISTICS, nil, true)
			if err != nil || !line.Match(p[0]) {
				t.Error(name, fmt.Sprintf("%q", p), err)
			}
		}
	})
}
