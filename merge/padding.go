package merge

import "strings"

// Padding says how a collation compares values of different length by their
// WEIGHT_STRING. The zero value says that it is not known.
type Padding struct {
	Mode PadMode
	// Space is WEIGHT_STRING(' ') of a PAD SPACE collation: the shorter value is
	// compared as if it were followed by it without end.
	Space string
}

// PadMode is the pad attribute of a collation.
type PadMode uint8

const (
	PadUnknown PadMode = iota
	NoPad              // weights compare as they are, the shorter first
	PadSpace
)

// PaddingOf gives the padding of a collation of MySQL's or MariaDB's by its
// name (utf8mb4_general_ci). Mode is PadUnknown for names it does not know and
// for PAD SPACE collations with more than one level of weights, where padding
// the end of the whole weight string would be wrong: latin2_czech_cs,
// cp1250_czech_cs, *_thai_520_w2, uca1400_* other than ai_ci; and tis620_thai_ci,
// which reorders.
//
// The weights were read from MySQL 9.7 and MariaDB 10.11 with
// WEIGHT_STRING(' ' COLLATE c), every collation of both; testdata/collations.txt
// is what they answered.
func PaddingOf(collation string) Padding {
	c := strings.ToLower(collation)
	if strings.Contains(c, "_0900_") || strings.Contains(c, "_nopad_") || c == "binary" {
		return Padding{Mode: NoPad}
	}
	charset, kind, ok := strings.Cut(c, "_")
	if strings.HasPrefix(c, "uca1400_") { // the name without its character set
		charset, kind, ok = "utf8mb4", c, true
	}
	if !ok {
		return Padding{}
	}
	space := ""
	switch charset {
	case "utf8", "utf8mb3", "utf8mb4", "ucs2", "utf16", "utf16le", "utf32":
		space = unicodeSpace(charset, kind)
	case "latin7":
		switch kind {
		case "general_ci", "general_cs":
			space = "\x30"
		case "estonian_cs":
			space = "\x2c"
		case "bin":
			space = "\x20"
		}
	case "armscii8", "ascii", "big5", "cp1250", "cp1251", "cp1256", "cp1257", "cp850", "cp852",
		"cp866", "cp932", "dec8", "eucjpms", "euckr", "gb18030", "gb2312", "gbk", "geostd8",
		"greek", "hebrew", "hp8", "keybcs2", "koi8r", "koi8u", "latin1", "latin2", "latin5",
		"macce", "macroman", "sjis", "swe7", "tis620", "ujis":
		switch kind {
		case "unicode_520_ci":
			space = "\x02\x0a"
		case "bin", "bulgarian_ci", "chinese_ci", "croatian_ci", "danish_ci", "english_ci",
			"general_ci", "general_cs", "german1_ci", "german2_ci", "hungarian_ci", "japanese_ci",
			"korean_ci", "lithuanian_ci", "polish_ci", "spanish_ci", "swedish_ci", "turkish_ci",
			"ukrainian_ci":
			space = "\x20"
		}
	}
	if space == "" {
		return Padding{}
	}
	return Padding{Mode: PadSpace, Space: space}
}

// unicodeSpace gives the weight of a space in a PAD SPACE collation of a
// Unicode character set, "" when unknown.
func unicodeSpace(charset, kind string) string {
	switch kind {
	case "general_ci", "general_mysql500_ci", "tolower_ci":
		return "\x00\x20"
	case "bin":
		if charset == "ucs2" || charset == "utf8" || charset == "utf8mb3" {
			return "\x00\x20"
		}
		return "\x00\x00\x20"
	case "unicode_520_ci", "myanmar_ci":
		return "\x02\x0a"
	case "unicode_ci", "croatian_ci", "croatian_mysql561_ci", "czech_ci", "danish_ci",
		"esperanto_ci", "estonian_ci", "german2_ci", "hungarian_ci", "icelandic_ci", "latvian_ci",
		"lithuanian_ci", "persian_ci", "polish_ci", "roman_ci", "romanian_ci", "sinhala_ci",
		"slovak_ci", "slovenian_ci", "spanish2_ci", "spanish_ci", "swedish_ci", "turkish_ci",
		"vietnamese_ci":
		return "\x02\x09"
	}
	if strings.HasPrefix(kind, "uca1400_") && strings.HasSuffix(kind, "_ai_ci") {
		return "\x02\x09"
	}
	return ""
}
