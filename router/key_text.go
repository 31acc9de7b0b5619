package router

import "unicode/utf8"

// columnCharset is the character set of a text key column.
type columnCharset uint8

const (
	columnUTF8MB4 columnCharset = iota
	columnUTF8MB3
	columnLatin1
	columnASCII
)

func columnCharsetOf(name string) (c columnCharset, ok bool) {
	switch name {
	case "utf8mb4":
		return columnUTF8MB4, true
	case "utf8mb3", "utf8":
		return columnUTF8MB3, true
	case "latin1":
		return columnLatin1, true
	case "ascii":
		return columnASCII, true
	}
	return 0, false
}

// code maps a Unicode code point to the column's code, by which its weights are
// kept; ok is false when the column cannot hold it.
func (c columnCharset) code(r rune) (code rune, ok bool) {
	switch c {
	case columnUTF8MB3:
		return r, r <= 0xffff
	case columnLatin1:
		return latin1Code(r)
	case columnASCII:
		return r, r < 0x80
	}
	return r, true
}

// latin1High are the code points of the bytes 0x80 to 0x9f in the servers'
// latin1, which is Windows-1252 with its five gaps filled.
var latin1High = [32]rune{
	0x20ac, 0x0081, 0x201a, 0x0192, 0x201e, 0x2026, 0x2020, 0x2021, 0x02c6, 0x2030, 0x0160, 0x2039, 0x0152, 0x008d, 0x017d, 0x008f,
	0x0090, 0x2018, 0x2019, 0x201c, 0x201d, 0x2022, 0x2013, 0x2014, 0x02dc, 0x2122, 0x0161, 0x203a, 0x0153, 0x009d, 0x017e, 0x0178,
}

func latin1Code(r rune) (byteCode rune, ok bool) {
	if r < 0x80 || r >= 0xa0 && r <= 0xff {
		return r, true
	}
	for i, h := range latin1High {
		if h == r {
			return rune(0x80 + i), true
		}
	}
	return 0, false
}

// textSource is how the bytes of a string value are read.
type textSource uint8

const (
	sourceNone    textSource = iota // not at all: ASCII bytes do not mean ASCII characters
	sourceASCII                     // only strings of ASCII characters are understood
	sourceUTF8MB4                   //
	sourceUTF8MB3                   //
	sourceLatin1                    //
	sourceColumn                    // the bytes are the column's own
)

func textSourceOf(charset string) textSource {
	switch charset {
	case "utf8mb4":
		return sourceUTF8MB4
	case "utf8mb3", "utf8":
		return sourceUTF8MB3
	case "latin1":
		return sourceLatin1
	case "binary":
		return sourceColumn
	case "swe7", "ucs2", "utf16", "utf16le", "utf32":
		return sourceNone
	}
	return sourceASCII
}

// textSource tells how to read v's bytes for this context: a string goes from
// the client's through the connection's character set, which may lose characters.
func (ctx *KeyContext) textSource(v *Value) textSource {
	if v.Kind != ValueString {
		return sourceColumn // x'..', 0x.. and b'..' are bytes
	}
	src := textSourceOf(v.Charset)
	if src <= sourceASCII || src == sourceColumn || ctx.Connection == "" || ctx.Connection == v.Charset {
		return src
	}
	switch to := textSourceOf(ctx.Connection); {
	case to == sourceUTF8MB4, to == sourceUTF8MB3 && src != sourceUTF8MB4:
		return src
	}
	return sourceASCII
}

// next reads one character: its code point, or for sourceColumn over a one-byte
// character set its code.
func (s textSource) next(b []byte, c columnCharset) (r rune, size int, ok bool) {
	if b[0] < utf8.RuneSelf {
		return rune(b[0]), 1, true
	}
	if s == sourceColumn {
		switch c {
		case columnUTF8MB4:
			s = sourceUTF8MB4
		case columnUTF8MB3:
			s = sourceUTF8MB3
		case columnLatin1:
			return rune(b[0]), 1, true
		default:
			return 0, 1, false
		}
	}
	switch s {
	case sourceUTF8MB4, sourceUTF8MB3:
		r, size = utf8.DecodeRune(b)
		return r, size, !(r == utf8.RuneError && size <= 1) && !(s == sourceUTF8MB3 && size == 4)
	case sourceLatin1:
		if b[0] < 0xa0 {
			return latin1High[b[0]-0x80], 1, true
		}
		return rune(b[0]), 1, true
	}
	return 0, 1, false
}

// appendText appends the canonical bytes of a string: the weights of its first
// limit characters, without those of trailing spaces. ok is false when the server
// would not read b as those characters, or cannot store them in the column.
func (k *keyColumn) appendText(dst, b []byte, src textSource, limit int) (out []byte, ok bool) {
	if src == sourceNone {
		return dst, false
	}
	from := len(dst)
	for n := 0; len(b) > 0 && n < limit; n++ {
		r, size, ok := src.next(b, k.charset)
		if !ok {
			return dst, false
		}
		b = b[size:]
		if !(src == sourceColumn && k.charset == columnLatin1) {
			if r, ok = k.charset.code(r); !ok {
				return dst, false
			}
		}
		dst = k.weights.Append(dst, r)
	}
	return k.weights.Trim(dst, from), true
}

// appendBinary appends the canonical bytes of a binary string: its first limit
// bytes, without trailing zero bytes (BINARY(n) is padded with them).
func (k *keyColumn) appendBinary(dst, b []byte, v *Value, ctx *KeyContext, limit int) (out []byte, ok bool) {
	if v.Kind == ValueString && v.Charset != "binary" {
		// The bytes are those of the connection's character set.
		if same := ctx.Connection == "" || ctx.Connection == v.Charset; !same {
			if textSourceOf(v.Charset) == sourceNone || textSourceOf(ctx.Connection) == sourceNone || !isASCII(b) {
				return dst, false
			}
		}
	}
	b = b[:min(len(b), limit)]
	for len(b) > 0 && b[len(b)-1] == 0 {
		b = b[:len(b)-1]
	}
	return append(dst, b...), true
}

func isASCII(b []byte) bool {
	for _, c := range b {
		if c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
