package router

import (
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	_ "github.com/go-sql-driver/mysql"
)

// The tests in this file ask a real server: for each column type and literal,
// what it stores (Assign must have named the same key) and what it finds (Compare
// must have named the shards of every row found). They run where
// BRAID_TEST_MARIADB_DSN or BRAID_TEST_MYSQL_DSN names a server on which they may
// create the database braid_keys.

func servers(t *testing.T, run func(t *testing.T, conn *sql.Conn, fl Flavour)) {
	for fl, env := range map[Flavour]string{MySQL: "BRAID_TEST_MYSQL_DSN", MariaDB: "BRAID_TEST_MARIADB_DSN"} {
		t.Run(fl.String(), func(t *testing.T) {
			dsn := os.Getenv(env)
			if dsn == "" {
				t.Skipf("%s is not set: no %s server to compare with", env, fl)
			}
			db, err := sql.Open("mysql", dsn)
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			conn, err := db.Conn(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			exec(t, conn, "SET NAMES utf8mb4")
			exec(t, conn, "SET sql_mode=''")
			exec(t, conn, "CREATE DATABASE IF NOT EXISTS braid_keys")
			exec(t, conn, "USE braid_keys")
			exec(t, conn, "SET autocommit=0")
			run(t, conn, fl)
		})
	}
}

func exec(t *testing.T, conn *sql.Conn, text string) {
	t.Helper()
	if _, err := conn.ExecContext(context.Background(), text); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

// stored runs a query for one text column and returns its values, in
// hexadecimal where the column is text.
func stored(conn *sql.Conn, query string, args ...any) ([]string, error) {
	rows, err := conn.QueryContext(context.Background(), query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []string
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, rows.Err()
}

// canonicalStored is the canonical form of a value read back from the server:
// what it is now, needing no conversion. ok is false for values that Assign lets
// nobody store (2020-00-00).
func canonicalStored(t *testing.T, c *keyColumn, s string) (key []byte, ok bool) {
	t.Helper()
	v := Value{Kind: ValueDecimal, Bytes: []byte(s)}
	switch c.kind {
	case keyText, keyBinary:
		b, err := hex.DecodeString(s)
		if err != nil {
			t.Fatal(err)
		}
		v = Value{Kind: ValueString, Bytes: b, Charset: "binary"}
	case keyDate, keyDatetime:
		v = Value{Kind: ValueString, Bytes: []byte(s), Charset: "utf8mb4"}
	}
	key, _, err := c.assign(nil, &v, &KeyContext{NoAutoValueOnZero: true})
	return key, err == nil
}

func keyColumns(fl Flavour) []Column {
	cols := []Column{
		column("tinyint", "", ""), column("tinyint unsigned", "", ""), column("smallint", "", ""), column("mediumint unsigned", "", ""),
		column("int", "", ""), column("int unsigned", "", ""), column("bigint", "", ""), column("bigint unsigned", "", ""),
		column("decimal(10,2)", "", ""), column("decimal(15,0)", "", ""), column("decimal(20,5)", "", ""), column("decimal(30,10) unsigned", "", ""),
		column("varchar(20)", "utf8mb4", "utf8mb4_bin"), column("char(20)", "utf8mb4", "utf8mb4_general_ci"),
		column("varchar(20)", "utf8mb4", "utf8mb4_unicode_ci"), column("varchar(6)", "utf8mb3", "utf8mb3_general_ci"),
		column("varchar(20)", "latin1", "latin1_swedish_ci"), column("char(10)", "latin1", "latin1_bin"),
		column("varchar(20)", "ascii", "ascii_general_ci"), column("varchar(20)", "ascii", "ascii_bin"),
		column("varbinary(20)", "", ""), column("binary(6)", "", ""),
		column("date", "", ""), column("datetime", "", ""), column("datetime(3)", "", ""),
	}
	if fl == MySQL {
		cols = append(cols, column("varchar(20)", "utf8mb4", "utf8mb4_0900_ai_ci"), column("char(20)", "utf8mb4", "utf8mb4_0900_as_cs"),
			column("varchar(20)", "utf8mb4", "utf8mb4_0900_bin"))
	}
	return cols
}

func keyLiterals() []string {
	return []string{
		"0", "1", "-1", "42", "300", "-300", "70000", "20200102", "20200102030405", "200102", "4294967296", "9007199254740993", "9223372036854775807",
		"-9223372036854775808", "9223372036854775808", "18446744073709551615", "18446744073709551616", "99999999999999999999999", "007",
		"1.0", "1.5", "2.5", "-1.5", "-0.4", "0.005", "1.005", "42.00", ".5", "7.", "123456789012345.12345", "1.0000000000000000001", "-0.0", "007.10",
		"1e0", "1.5e0", "2.5e0", "-2.5e0", "42e0", "1e15", "9007199254740993e0", "1e30", "0.1e0", "1e-3", "-0e0",
		"''", "' '", "'0'", "'-0'", "'1'", "' 1'", "'1 '", "'1abc'", "'abc'", "'1.0'", "'1.5'", "'-1.5'", "'2.5'", "'1e0'", "'1e2'", "'.5'", "'+1'", "'--1'", "'0x31'", "'42'", "'042'",
		"'1.'", "'1e'", "'1e+'", "'-'", "'.'", "'\\t1'", "'1\\n'", "'\\01'", "'1\\0'", "'0.49999999999999999999'", "'1.50abc'", "'inf'", "'nan'",
		"'300'", "'9007199254740993'", "'9007199254740993.0'", "'9007199254740993abc'", "'18446744073709551615'", "'99999999999999999999999'", "'123456789012345.12345'", "'0.30000000000000004'",
		"'1e15'", "'4e18'", "'12345678901234567.5'", "'-9223372036854775809'",
		"'Bob'", "'bob'", "'BOB  '", "' bob'", "'bob\\t'", "'bob\\0'", "'böb'", "'bo\u0308b'", "'ß'", "'ss'", "'ẞ'", "'é'", "'e\u0301'", "'É'", "'ж'", "'Ж'", "'€'", "'😀'", "'😁'", "'ＢＯＢ'",
		"'각'", "'\u1100\u1161\u11a8'", "'ﬁ'", "'fi'", "'Å'", "'\u212b'", "'A\u030a'", "'a\u00a0'", "'a'", "'a\u200b'", "'か'", "'カ'", "'が'", "'か\u3099'", "'ı'", "'İ'", "'i'", "'日本'", "'\u0e40\u0e01'",
		"'12345678901234567890   '", "'123456789012345678901'", "'braid''s'", "'it\\'s'", "N'bob'", "N'é'",
		"x'31'", "0x31", "b'110001'", "x'2A'", "0x2A", "x'626F62'", "0x424F42", "x'FF'", "0xE9", "x'C3A9'", "x'00'", "0x6100", "x'FFFFFFFFFFFFFFFF'", "0xFFFFFFFFFFFFFFFF", "0x112233445566778899", "x''", "b''", "b'0'", "b'0100000101000010'",
		"'2020-01-02'", "'2020-1-2'", "'2020/01/02'", "'2020.01.02'", "'20-1-2'", "'70-01-02'", "'20200102'", "'200102'", "'20200102030405'", "'2020-01-02 00:00:00'", "'2020-01-02 03:04:05'", "'2020-01-02T03:04:05'",
		"'2020-01-02 3:4:5'", "'2020-01-02 03:04'", "'2020-01-02 03:04:05.5'", "'2020-01-02 03:04:05.500'", "'2020-01-02 03:04:05.500000'", "'2020-01-02 03:04:05.1234'", "'2020-01-02 23:59:59.9999'", "' 2020-01-02 '", "'2020-02-30'", "'2020-02-29'", "'2019-02-29'",
		"'2020-00-00'", "'0000-00-00'", "'0000-01-01'", "'0000-02-29'", "'9999-12-31'", "'2020-01-02abc'", "'2020-13-01'", "'2020-01-02 24:00:00'", "'2020-01'", "'2020-01-02 03'", "'2020-01-02 03:04:05+00:00'", "'2020^01^02'",
	}
}

// TestServerKeys compares Assign, Compare and CompareRange with a server.
func TestServerKeys(t *testing.T) {
	servers(t, func(t *testing.T, conn *sql.Conn, fl Flavour) {
		for _, col := range keyColumns(fl) {
			name := col.ColumnType + " " + col.Collation
			t.Run(name, func(t *testing.T) {
				c := keyOf(t, col, fl)
				definition := col.ColumnType
				if c.kind == keyText {
					definition += " CHARACTER SET " + col.Charset + " COLLATE " + col.Collation
				}
				shown := "CAST(k AS CHAR)"
				if c.kind == keyText || c.kind == keyBinary {
					shown = "HEX(k)"
				}
				exec(t, conn, "DROP TABLE IF EXISTS t, one")
				exec(t, conn, "CREATE TABLE t (k "+definition+", KEY (k))")
				exec(t, conn, "CREATE TABLE one (k "+definition+")")
				assigned, compared := checkAssign(t, conn, c, shown), checkCompare(t, conn, c, shown)
				checkMixed(t, conn, c, shown)
				checkOrder(t, conn, c, shown)
				if assigned < 20 || compared < 10 {
					t.Errorf("only %d literals could be assigned and %d compared", assigned, compared)
				}
			})
		}
	})
}

// checkAssign stores every literal and returns how many Assign could tell.
func checkAssign(t *testing.T, conn *sql.Conn, c *keyColumn, shown string) (decided int) {
	for _, strict := range []bool{true, false} {
		mode := ""
		if strict {
			mode = "STRICT_ALL_TABLES"
		}
		exec(t, conn, "SET sql_mode='"+mode+"'")
		for _, literal := range keyLiterals() {
			decided += storeOne(t, conn, c, shown, literal, strict, nil)
			q := Query{Charset: "utf8mb4"}
			if args := arguments(valueOf(t, &q, literal)); args != nil {
				storeOne(t, conn, c, shown, literal, strict, args)
			}
		}
	}
	exec(t, conn, "SET sql_mode=''")
	return decided
}

// arguments is a value as a prepared statement's parameter of the binary
// protocol; nil when the driver has no parameter of that kind.
func arguments(v Value) []any {
	switch v.Kind {
	case ValueInt:
		return []any{v.Int}
	case ValueUint:
		return []any{v.Uint}
	case ValueFloat:
		return []any{v.Float}
	case ValueString:
		if v.Charset == "utf8mb4" {
			return []any{string(v.Bytes)}
		}
	}
	return nil
}

// storeOne stores one literal, as text or as a parameter; it returns 1 when
// Assign could tell its key.
func storeOne(t *testing.T, conn *sql.Conn, c *keyColumn, shown, literal string, strict bool, args []any) int {
	exec(t, conn, "DELETE FROM one")
	value := literal
	if args != nil {
		value = "?"
	}
	if _, err := conn.ExecContext(context.Background(), "INSERT INTO one VALUES ("+value+")", args...); err != nil {
		return 0 // refused: on whatever shard
	}
	values, err := stored(conn, "SELECT "+shown+" FROM one")
	if err != nil || len(values) != 1 {
		t.Fatalf("%s: %v %v", literal, values, err)
	}
	want, ok := canonicalStored(t, c, values[0])
	if ok {
		exec(t, conn, "INSERT INTO t SELECT k FROM one")
	}
	q := Query{Charset: "utf8mb4"}
	v := valueOf(t, &q, literal)
	got, _, err := c.assign(nil, &v, &KeyContext{Strict: strict})
	if errors.Is(err, ErrNotDecidable) {
		return 0
	}
	if err != nil {
		t.Fatal(err)
	}
	if !ok || string(got) != string(want) {
		t.Errorf("INSERT %s (parameter %v, strict %v) stored %s, canonical %q; assign says %q", literal, args, strict, values[0], want, got)
	}
	return 1
}

// checkCompare looks every literal up and returns for how many Compare could
// tell the shard.
func checkCompare(t *testing.T, conn *sql.Conn, c *keyColumn, shown string) (decided int) {
	for _, literal := range keyLiterals() {
		q := Query{Charset: "utf8mb4"}
		v := valueOf(t, &q, literal)
		key, m := c.compare(nil, &v, &KeyContext{})
		if m != matchAll {
			decided++
		}
		for _, condition := range []string{"k = " + literal, literal + " = k", "k IN (" + literal + ")", "k <=> " + literal, "k BETWEEN " + literal + " AND " + literal} {
			checkFound(t, conn, c, shown, condition, nil, [][]byte{key}, []match{m})
		}
		if args := arguments(v); args != nil {
			checkFound(t, conn, c, shown, "k = ?", args, [][]byte{key}, []match{m})
			checkFound(t, conn, c, shown, "k IN (?, ?)", append(args, args...), [][]byte{key}, []match{m})
		}
	}
	return decided
}

// checkMixed looks up lists of two literals of different kinds.
func checkMixed(t *testing.T, conn *sql.Conn, c *keyColumn, shown string) {
	literals := keyLiterals()
	for i, a := range literals {
		b := literals[(i*37+11)%len(literals)]
		q := Query{Charset: "utf8mb4"}
		av, bv := valueOf(t, &q, a), valueOf(t, &q, b)
		ctx := KeyContext{Mixed: av.Kind != bv.Kind}
		ak, am := c.compare(nil, &av, &ctx)
		bk, bm := c.compare(nil, &bv, &ctx)
		checkFound(t, conn, c, shown, "k IN ("+a+", "+b+")", nil, [][]byte{ak, bk}, []match{am, bm})
		if aa, ba := arguments(av), arguments(bv); aa != nil && ba != nil {
			checkFound(t, conn, c, shown, "k IN (?, ?)", append(aa, ba...), [][]byte{ak, bk}, []match{am, bm})
		}
	}
}

func checkFound(t *testing.T, conn *sql.Conn, c *keyColumn, shown, condition string, args []any, keys [][]byte, matches []match) {
	for _, m := range matches {
		if m == matchAll {
			return
		}
	}
	values, err := stored(conn, "SELECT DISTINCT "+shown+" FROM t WHERE "+condition, args...)
	if err != nil {
		return // the server refuses the comparison: no shard finds anything
	}
	for _, s := range values {
		found := false
		have, _ := canonicalStored(t, c, s)
		for i, key := range keys {
			found = found || matches[i] == matchOne && string(have) == string(key)
		}
		if !found {
			t.Errorf("WHERE %s %v finds %s, canonical %q; compare says %q %v", condition, args, s, have, keys, matches)
		}
	}
}

// checkOrder compares the bounds of range rules with what the server finds.
func checkOrder(t *testing.T, conn *sql.Conn, c *keyColumn, shown string) {
	if (&keyProgram{columns: []keyColumn{*c}}).checkOrdered("range") != nil || c.kind == keyText && !c.weights.PadSpace() {
		return
	}
	for _, literal := range keyLiterals() {
		q := Query{Charset: "utf8mb4"}
		v := valueOf(t, &q, literal)
		bound, ok := c.bound(nil, &v, &KeyContext{})
		if !ok {
			continue
		}
		for op, sign := range map[string]int{"<": -1, "<=": -1, ">": 1, ">=": 1} {
			values, err := stored(conn, "SELECT DISTINCT "+shown+" FROM t WHERE k "+op+" "+literal)
			if err != nil {
				continue
			}
			for _, s := range values {
				if have, _ := canonicalStored(t, c, s); c.order(have, bound)*sign < 0 {
					t.Errorf("WHERE k %s %s finds %s, canonical %q, outside the bound %q", op, literal, s, have, bound)
				}
			}
		}
	}
}

// TestServerEqualText holds that all pairs of stored texts that the server finds
// equal have the same canonical bytes.
func TestServerEqualText(t *testing.T) {
	servers(t, func(t *testing.T, conn *sql.Conn, fl Flavour) {
		for _, col := range keyColumns(fl) {
			c := keyOf(t, col, fl)
			if c.kind != keyText {
				continue
			}
			exec(t, conn, "DROP TABLE IF EXISTS pairs")
			exec(t, conn, fmt.Sprintf("CREATE TABLE pairs (id INT AUTO_INCREMENT PRIMARY KEY, k VARCHAR(40) CHARACTER SET %s COLLATE %s, KEY (k))", col.Charset, col.Collation))
			var texts []string
			for _, s := range pieces() {
				texts = append(texts, s)
				for _, o := range pieces() {
					texts = append(texts, s+o)
				}
			}
			for len(texts) > 0 {
				n := min(len(texts), 500)
				exec(t, conn, "INSERT IGNORE INTO pairs (k) VALUES ('"+strings.Join(texts[:n], "'),('")+"')")
				texts = texts[n:]
			}
			exec(t, conn, "SET group_concat_max_len=1000000")
			classes, err := stored(conn, "SELECT GROUP_CONCAT(HEX(k)) FROM pairs GROUP BY k HAVING COUNT(*) > 1")
			if err != nil {
				t.Fatal(err)
			}
			for _, class := range classes {
				members := strings.Split(class, ",")
				want, _ := canonicalStored(t, c, members[0])
				for _, m := range members[1:] {
					if have, ok := canonicalStored(t, c, m); !ok || string(have) != string(want) {
						t.Errorf("%s: %s and %s are equal, but not their keys", col.Collation, members[0], m)
					}
				}
			}
			if len(classes) == 0 {
				t.Errorf("%s: no equal pair among the texts", col.Collation)
			}
		}
	})
}

// pieces are characters that collations treat in special ways.
func pieces() []string {
	return []string{
		"", " ", "a", "A", "á", "a\u0301", "\u0301", "b", "ß", "s", "ss", "ẞ", "æ", "ae", "ø", "o\u0338", "ij", "ĳ", "ﬁ", "f", "i", "ı", "İ", "\u00a0", "\t", "\x01", "\u00ad", "\u200d", "Å", "\u212b",
		"각", "\u1100", "\u1161", "\u11a8", "か", "カ", "が", "\u3099", "ー", "ア", "ｱ", "\u0e40", "\u0e01", "\u0418", "\u0419", "\u0306", "\u0627", "\u0653", "\u0622", "\u09c7", "\u09be", "\u09cb", "l", "\u00b7", "ŀ",
		"😀", "😁", "𝒜", "日", "\ufa0e", "①", "1", "Ａ", "½", "\u0f71", "\u0f72", "\u0f73", "ǆ", "dž", "ϐ", "β", "ς", "σ", "\ufffd", "\u0345",
	}
}
