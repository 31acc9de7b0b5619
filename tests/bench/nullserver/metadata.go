package nullserver

import (
	"encoding/base32"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"braid/tests/bench/lean"
)

// null is a NULL in a row of metadata.
const null = "\x00NULL"

// table answers with rows of text.
func (x *session) table(names []string, rows [][]string) {
	seq := byte(1)
	put := func(p []byte) {
		x.out = lean.AppendPacket(x.out, seq, p)
		seq++
	}
	put(lean.AppendInt(nil, len(names)))
	for _, n := range names {
		put(appendColumn(nil, column{name: n, typ: typeVarString}))
	}
	if !x.deprecates {
		put(lean.AppendEnd(nil, false))
	}
	for _, r := range rows {
		var p []byte
		for _, v := range r {
			if v == null {
				p = append(p, 0xfb)
				continue
			}
			p = lean.AppendString(p, v)
		}
		put(p)
	}
	put(lean.AppendEnd(nil, x.deprecates))
}

// uuid is the server's identity, and identity the form Braid keeps it in.
func (s *Server) uuid() string {
	return fmt.Sprintf("00000000-0000-4000-8000-%012x", s.options.Number)
}

func (s *Server) identity() string {
	b, _ := hex.DecodeString(strings.ReplaceAll(s.uuid(), "-", "")) // its own text is right
	return strings.ToLower(base32.HexEncoding.WithPadding(base32.NoPadding).EncodeToString(b))
}

// metadata answers what Braid and drivers ask of a server itself; a union of such
// questions with the names of the first and the rows of all.
func (x *session) metadata(q string) (names []string, rows [][]string, ok bool) {
	first, others, united := strings.Cut(q, " UNION ALL ")
	if names, rows, ok = x.simple(first); ok && united {
		_, more, _ := x.metadata(others)
		rows = append(rows, more...)
	}
	return names, rows, ok
}

// simple is metadata of one question.
func (x *session) simple(q string) (names []string, rows [][]string, ok bool) {
	upper := strings.ToUpper(q)
	list, from, hasFrom := strings.Cut(q[len("SELECT "):], " FROM ")
	for _, c := range columnsOf(list) {
		names = append(names, c.name)
	}
	if !hasFrom {
		row := make([]string, len(names))
		for i, n := range names {
			row[i] = x.value(n)
		}
		return names, [][]string{row}, true
	}
	about := func(what string) bool { return strings.HasPrefix(strings.ToUpper(from), what) }
	switch {
	case about("INFORMATION_SCHEMA.SCHEMATA"):
		return names, pick(names, map[string]string{"SCHEMA_NAME": Schema}), true
	case about("INFORMATION_SCHEMA.TABLES"):
		return names, pick(names, map[string]string{"TABLE_NAME": Table, "TABLE_TYPE": "BASE TABLE", "ENGINE": "InnoDB"}), true
	case about("INFORMATION_SCHEMA.COLUMNS"):
		for i, c := range []struct{ name, dataType, columnType, charset, collation string }{
			{"id", "int", "int", null, null}, {"k", "int", "int", null, null},
			{"c", "char", "char(120)", "utf8mb4", "utf8mb4_0900_ai_ci"}, {"pad", "char", "char(60)", "utf8mb4", "utf8mb4_0900_ai_ci"},
		} {
			rows = append(rows, pick(names, map[string]string{"TABLE_NAME": Table, "COLUMN_NAME": c.name, "DATA_TYPE": c.dataType, "COLUMN_TYPE": c.columnType,
				"CHARACTER_SET_NAME": c.charset, "COLLATION_NAME": c.collation, "IS_NULLABLE": "NO", "COLUMN_DEFAULT": null, "EXTRA": "",
				"ORDINAL_POSITION": strconv.Itoa(i + 1)})...)
		}
		return names, rows, true
	case about("INFORMATION_SCHEMA.STATISTICS"):
		return names, pick(names, map[string]string{"TABLE_NAME": Table, "INDEX_NAME": "PRIMARY", "COLUMN_NAME": "id", "NON_UNIQUE": "0"}), true
	case about("INFORMATION_SCHEMA."): // of anything else there is nothing
		return names, nil, true
	case about("BRAID.NODE") && !strings.Contains(upper, "LIMIT 0"):
		return names, pick(names, map[string]string{"id": "1", "cluster": strings.Repeat("0", 13), "identity": x.server.identity(), "predecessors": "",
			"CONNECTION_ID()": strconv.Itoa(int(x.id))}), true
	case about("BRAID."):
		return names, nil, true
	}
	return nil, nil, false
}

// pick makes one row of the values of names: a number is its own, one it does not
// know is empty.
func pick(names []string, values map[string]string) [][]string {
	row := make([]string, len(names))
	for i, n := range names {
		if _, err := strconv.Atoi(n); err == nil {
			row[i] = n
		} else {
			row[i] = values[n]
		}
	}
	return [][]string{row}
}

// value is the value of an expression without tables.
func (x *session) value(expression string) string {
	name := strings.ToLower(expression)
	name, _, _ = strings.Cut(name, " limit ")
	name = strings.TrimPrefix(name, "@@")
	name = strings.TrimPrefix(strings.TrimPrefix(name, "global."), "session.")
	switch name {
	case "server_uuid":
		return x.server.uuid()
	case "connection_id()":
		return strconv.Itoa(int(x.id))
	case "version", "version()":
		return Version
	case "sql_mode":
		return "ONLY_FULL_GROUP_BY,STRICT_TRANS_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION"
	case "time_zone":
		return "SYSTEM"
	case "lower_case_table_names", "innodb_rollback_on_timeout":
		return "0"
	case "max_prepared_stmt_count":
		return "16382"
	case "max_allowed_packet":
		return strconv.Itoa(64 << 20)
	}
	return "1"
}
