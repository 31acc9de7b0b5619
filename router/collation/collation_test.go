package collation

import (
	"bytes"
	"hash/crc32"
	"testing"
)

func weigh(t *Table, s string) string {
	var b []byte
	for _, r := range s {
		b = t.Append(b, r)
	}
	return string(t.Trim(b, 0))
}

func TestEqualStrings(t *testing.T) {
	for _, c := range []struct {
		collation, a, b string
		equal           bool
	}{
		{"utf8mb4_general_ci", "Bob", "bob  ", true},
		{"utf8mb4_general_ci", "straße", "strase", true},
		{"utf8mb4_general_ci", "straße", "strasse", false},
		{"utf8mb4_general_ci", "e\u0301", "é", false},
		{"utf8mb4_general_ci", "😀", "😁", true},
		{"utf8mb4_unicode_ci", "straße", "STRASSE", true},
		{"utf8mb4_unicode_ci", "e\u0301", "É", true},
		{"utf8mb4_unicode_ci", "a\u00a0", "a", true},
		{"utf8mb4_0900_ai_ci", "😀", "😁", false},
		{"utf8mb4_0900_ai_ci", "각", "\u1100\u1161\u11a8", true},
		{"utf8mb4_0900_as_cs", "a", "A", true}, // coarser than the collation
		{"utf8mb4_0900_bin", "a", "A", false},
		{"utf8mb4_bin", "a ", "a", true},
		{"latin1_swedish_ci", "ü", "Y", true},
		{"latin1_bin", "ü", "Ü", false},
		{"ascii_general_ci", "aZ", "Az", true},
	} {
		tab := Lookup(MySQL, c.collation)
		if tab == nil {
			t.Fatalf("%s is not carried", c.collation)
		}
		if got := weigh(tab, c.a) == weigh(tab, c.b); got != c.equal {
			t.Errorf("%s: %q and %q equal: %v", c.collation, c.a, c.b, got)
		}
	}
}

// TestTablesNeverChange holds a checksum of every weight: rows have been placed
// by them (rule K3).
func TestTablesNeverChange(t *testing.T) {
	want := map[string]uint32{
		"ascii_general_ci":   0x879d4193,
		"latin1_general_ci":  0x41b9a9c4,
		"latin1_swedish_ci":  0x20fb1aa5,
		"utf8_general_ci":    0x7af1f1a3,
		"utf8_unicode_ci":    0x475c02a2,
		"utf8mb3_general_ci": 0x7af1f1a3,
		"utf8mb3_unicode_ci": 0x475c02a2,
		"utf8mb4_0900_ai_ci": 0x7f49742,
		"utf8mb4_0900_as_ci": 0x7f49742,
		"utf8mb4_0900_as_cs": 0x7f49742,
		"utf8mb4_general_ci": 0x7af1f1a3,
		"utf8mb4_unicode_ci": 0x475c02a2,
	}
	for _, name := range Names(MySQL) {
		tab := Lookup(MySQL, name)
		if tab.binary {
			continue
		}
		sum := crc32.NewIEEE()
		for code := rune(0); code <= tab.max; code++ {
			sum.Write(append(tab.Append(nil, code), '\n'))
		}
		if sum.Sum32() != want[name] {
			t.Errorf("%q: %#x,", name, sum.Sum32())
		}
	}
}

func TestFlavours(t *testing.T) {
	if Lookup(MariaDB, "utf8mb4_0900_ai_ci") != nil || Lookup(MySQL, "utf8mb4_0900_ai_ci") == nil || Lookup(MySQL, "nosuch_ci") != nil {
		t.Error("wrong collations are carried")
	}
	for _, fl := range []Flavour{MySQL, MariaDB} {
		for _, name := range Names(fl) {
			if Lookup(fl, name) == nil {
				t.Errorf("%s is listed but not carried", name)
			}
		}
	}
}

func TestDamagedTables(t *testing.T) {
	if _, err := unpack([]byte("nonsense")); err == nil {
		t.Error("nonsense is taken for tables")
	}
	for _, n := range []int{1, 100, len(packed) / 2, len(packed) - 1} {
		if _, err := unpack(bytes.Clone(packed[:n])); err == nil {
			t.Errorf("%d bytes are taken for tables", n)
		}
	}
}
