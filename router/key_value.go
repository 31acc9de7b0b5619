package router

import (
	"encoding/binary"
	"errors"
	"math"
	"strconv"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"
)

// ValueKind is what a Value holds.
type ValueKind uint8

const (
	ValueNull     ValueKind = iota
	ValueInt                // Int
	ValueUint               // Uint, beyond what Int holds
	ValueDecimal            // Bytes: an exact number as text, with sign, digits and at most one dot
	ValueFloat              // Float
	ValueString             // Bytes in Charset
	ValueHexX               // Bytes: x'..' decoded; a number in a numeric context on MySQL, a string on MariaDB
	ValueHex0               // Bytes: 0x.. decoded; a number in a numeric context on both
	ValueBit                // Bytes: b'..' or 0b.. decoded, big-endian
	ValueDate               // Time
	ValueDatetime           // Time
	ValueTime               // a TIME parameter: compares and converts by rules of its own, never decided here
	ValueUnknown            // a value nothing is known of (an expression): any key may equal it
)

// Value is a literal's or a parameter's value, decoded but not converted to any
// column's type. Bytes alias the statement, the parameter or the Query's scratch
// memory: they live until the Query's next Scan.
type Value struct {
	Kind  ValueKind
	Int   int64
	Uint  uint64
	Float float64
	Bytes []byte
	// Charset is the character set of a string's Bytes, lower case; "binary" (a
	// BLOB parameter) for bytes that are taken as they are.
	Charset string
	Time    DateTime
}

// DateTime is a date with a time of day, as MySQL holds it (zero parts allowed).
type DateTime struct {
	Year                             uint16
	Month, Day, Hour, Minute, Second uint8
	Micros                           uint32
}

var errNotLiteral = errors.New("not a literal's text")

// Value decodes a literal's text, as LiteralBytes gives it, by its class. An
// error means that text is no literal of that class.
func (q *Query) Value(class Class, text []byte) (Value, error) {
	switch class {
	case ClassInt:
		return integerValue(text)
	case ClassDec:
		if len(text) == 0 {
			return Value{}, errNotLiteral
		}
		return Value{Kind: ValueDecimal, Bytes: text}, nil
	case ClassFloat:
		f, err := strconv.ParseFloat(string(text), 64)
		if err != nil && !errors.Is(err, strconv.ErrRange) {
			return Value{}, errNotLiteral
		}
		return Value{Kind: ValueFloat, Float: f}, nil
	case ClassString:
		b, err := q.unquote(text)
		return Value{Kind: ValueString, Bytes: b, Charset: q.Charset}, err
	case ClassNation:
		if len(text) < 2 {
			return Value{}, errNotLiteral
		}
		// The bytes are utf8mb3's, whatever the client's character set.
		b, err := q.unquote(text[1:])
		return Value{Kind: ValueString, Bytes: b, Charset: "utf8mb3"}, err
	case ClassHexX, ClassHex0, ClassBit:
		return q.digitsValue(class, text)
	}
	return Value{}, errNotLiteral
}

func integerValue(text []byte) (Value, error) {
	digits := text
	for len(digits) > 1 && digits[0] == '0' {
		digits = digits[1:]
	}
	if len(digits) == 0 {
		return Value{}, errNotLiteral
	}
	if len(digits) > 20 {
		return Value{Kind: ValueDecimal, Bytes: text}, nil
	}
	var u uint64
	for _, c := range digits {
		if !isDigitByte(c) {
			return Value{}, errNotLiteral
		}
		d := uint64(c - '0')
		if u > (math.MaxUint64-d)/10 {
			return Value{Kind: ValueDecimal, Bytes: text}, nil
		}
		u = u*10 + d
	}
	return uintValue(u), nil
}

// IntValue is the value of a signed number.
func IntValue(i int64) Value { return Value{Kind: ValueInt, Int: i} }

func uintValue(u uint64) Value {
	if u <= math.MaxInt64 {
		return Value{Kind: ValueInt, Int: int64(u)}
	}
	return Value{Kind: ValueUint, Uint: u}
}

// Negate is the value of -v for a number literal; ok is false for what a minus
// sign turns into something of another type (-'1', -x'31', NULL).
func (q *Query) Negate(v Value) (n Value, ok bool) {
	switch v.Kind {
	case ValueInt:
		if v.Int != math.MinInt64 {
			return IntValue(-v.Int), true
		}
		return uintValue(1 << 63), true
	case ValueUint:
		if v.Uint == 1<<63 {
			return IntValue(math.MinInt64), true
		}
		at := len(q.scratch)
		q.scratch = strconv.AppendUint(append(q.scratch, '-'), v.Uint, 10)
		return Value{Kind: ValueDecimal, Bytes: q.scratch[at:]}, true
	case ValueDecimal:
		if len(v.Bytes) > 0 && v.Bytes[0] == '-' {
			v.Bytes = v.Bytes[1:]
			return v, true
		}
		at := len(q.scratch)
		q.scratch = append(append(q.scratch, '-'), v.Bytes...)
		v.Bytes = q.scratch[at:]
		return v, true
	case ValueFloat:
		v.Float = -v.Float
		return v, true
	}
	return Value{}, false
}

// digitsValue decodes x'..', 0x.., b'..' and 0b.. into bytes.
func (q *Query) digitsValue(class Class, text []byte) (Value, error) {
	if len(text) < 2 {
		return Value{}, errNotLiteral
	}
	digits := text[2:]
	if text[1] == '\'' {
		if len(text) < 3 || text[len(text)-1] != '\'' {
			return Value{}, errNotLiteral
		}
		digits = text[2 : len(text)-1]
	}
	per, kind := 2, ValueHex0 // digits per byte
	switch class {
	case ClassHexX:
		kind = ValueHexX
	case ClassBit:
		per, kind = 8, ValueBit
	}
	at := len(q.scratch)
	for len(digits) > 0 {
		n := (len(digits)-1)%per + 1 // the first byte may have fewer
		var b byte
		for _, c := range digits[:n] {
			d := c - '0'
			switch {
			case per == 8 && d > 1:
				return Value{}, errNotLiteral
			case d <= 9:
			case isHexDigit(c):
				d = c | 0x20 - 'a' + 10
			default:
				return Value{}, errNotLiteral
			}
			b = b<<(8/per) | d
		}
		q.scratch = append(q.scratch, b)
		digits = digits[n:]
	}
	return Value{Kind: kind, Bytes: q.scratch[at:]}, nil
}

// unquote decodes a quoted string, or several adjacent ones, as the server's
// lexer does. The result aliases text where nothing had to be changed.
func (q *Query) unquote(text []byte) ([]byte, error) {
	if len(text) == 0 || text[0] != '\'' && text[0] != '"' {
		return nil, errNotLiteral
	}
	l := q.lexer()
	end := l.stringEnd(text, 0)
	if end == len(text) && end > 1 && text[end-1] == text[0] {
		if body := text[1 : end-1]; l.verbatim(body, text[0]) {
			return body, nil
		}
	}
	at := len(q.scratch)
	for i := 0; i < len(text); {
		switch c := text[i]; byteKinds[c] {
		case byteQuote, byteDouble:
			end := l.stringEnd(text, i)
			q.scratch = l.appendUnescaped(q.scratch, text[i:end])
			i = end
		case byteSlash, byteDash, byteHash:
			end, kind := comment(text, i)
			if kind != commentPlain {
				return nil, errNotLiteral
			}
			i = end
		default:
			if !isBlankByte(c) {
				return nil, errNotLiteral
			}
			i++
		}
	}
	return q.scratch[at:], nil
}

// verbatim tells whether a string's inner bytes are its value.
func (l *lexer) verbatim(body []byte, quote byte) bool {
	for _, c := range body {
		if c == quote || c == '\\' && l.backslash {
			return false
		}
	}
	return true
}

// appendUnescaped appends the value of one quoted string.
func (l *lexer) appendUnescaped(dst, s []byte) []byte {
	quote := s[0]
	for i := 1; i < len(s); i++ {
		c := s[i]
		switch {
		case c == quote:
			if i+1 >= len(s) {
				return dst // the closing one
			}
			i++
			dst = append(dst, quote)
		case c == '\\' && l.backslash && i+1 < len(s):
			i++
			dst = appendEscape(dst, s[i])
		case c >= 0x80 && l.mb != plainBytes && l.mb.pair(s, i):
			dst = append(dst, c, s[i+1])
			i++
		default:
			dst = append(dst, c)
		}
	}
	return dst
}

// appendEscape appends what \c means; \% and \_ keep their backslash.
func appendEscape(dst []byte, c byte) []byte {
	switch c {
	case '0':
		return append(dst, 0)
	case 'n':
		return append(dst, '\n')
	case 't':
		return append(dst, '\t')
	case 'r':
		return append(dst, '\r')
	case 'b':
		return append(dst, '\b')
	case 'Z':
		return append(dst, 0x1a)
	case '%', '_':
		return append(dst, '\\', c)
	}
	return append(dst, c)
}

// Decode gives the parameter's value; charset is the client's. A type that no key
// column can be compared with exactly gives ValueUnknown; so does a value whose
// bytes do not fit its type. Bytes alias p.Value.
func (p *Param) Decode(charset string) Value {
	if p.Null || p.Type == gomysql.MYSQL_TYPE_NULL {
		return Value{Kind: ValueNull}
	}
	b := p.Value
	switch p.Type {
	case gomysql.MYSQL_TYPE_TINY, gomysql.MYSQL_TYPE_SHORT, gomysql.MYSQL_TYPE_YEAR,
		gomysql.MYSQL_TYPE_LONG, gomysql.MYSQL_TYPE_INT24, gomysql.MYSQL_TYPE_LONGLONG:
		return integerParam(b, p.Unsigned)
	case gomysql.MYSQL_TYPE_FLOAT:
		if len(b) == 4 {
			return Value{Kind: ValueFloat, Float: float64(math.Float32frombits(binary.LittleEndian.Uint32(b)))}
		}
	case gomysql.MYSQL_TYPE_DOUBLE:
		if len(b) == 8 {
			return Value{Kind: ValueFloat, Float: math.Float64frombits(binary.LittleEndian.Uint64(b))}
		}
	case gomysql.MYSQL_TYPE_DECIMAL, gomysql.MYSQL_TYPE_NEWDECIMAL:
		if isDecimal(b) {
			return Value{Kind: ValueDecimal, Bytes: b}
		}
	case gomysql.MYSQL_TYPE_STRING, gomysql.MYSQL_TYPE_VAR_STRING, gomysql.MYSQL_TYPE_VARCHAR:
		return Value{Kind: ValueString, Bytes: b, Charset: charset}
	case gomysql.MYSQL_TYPE_TINY_BLOB, gomysql.MYSQL_TYPE_MEDIUM_BLOB, gomysql.MYSQL_TYPE_LONG_BLOB, gomysql.MYSQL_TYPE_BLOB:
		return Value{Kind: ValueString, Bytes: b, Charset: "binary"}
	case gomysql.MYSQL_TYPE_DATE, gomysql.MYSQL_TYPE_DATETIME, gomysql.MYSQL_TYPE_TIMESTAMP:
		return datetimeParam(b, p.Type == gomysql.MYSQL_TYPE_DATE)
	case gomysql.MYSQL_TYPE_TIME:
		return Value{Kind: ValueTime}
	}
	return Value{Kind: ValueUnknown}
}

func integerParam(b []byte, unsigned bool) Value {
	switch len(b) {
	case 1:
		if !unsigned {
			return IntValue(int64(int8(b[0])))
		}
		return IntValue(int64(b[0]))
	case 2:
		u := binary.LittleEndian.Uint16(b)
		if !unsigned {
			return IntValue(int64(int16(u)))
		}
		return IntValue(int64(u))
	case 4:
		u := binary.LittleEndian.Uint32(b)
		if !unsigned {
			return IntValue(int64(int32(u)))
		}
		return IntValue(int64(u))
	case 8:
		u := binary.LittleEndian.Uint64(b)
		if !unsigned {
			return IntValue(int64(u))
		}
		return uintValue(u)
	}
	return Value{Kind: ValueUnknown}
}

func datetimeParam(b []byte, date bool) Value {
	v := Value{Kind: ValueDatetime}
	if date {
		v.Kind = ValueDate
	}
	switch len(b) {
	case 11:
		v.Time.Micros = binary.LittleEndian.Uint32(b[7:])
		fallthrough
	case 7:
		v.Time.Hour, v.Time.Minute, v.Time.Second = b[4], b[5], b[6]
		fallthrough
	case 4:
		v.Time.Year = binary.LittleEndian.Uint16(b)
		v.Time.Month, v.Time.Day = b[2], b[3]
	case 0:
	default:
		return Value{Kind: ValueUnknown}
	}
	return v
}

// isDecimal tells whether b is a plain decimal number.
func isDecimal(b []byte) bool {
	if len(b) > 0 && (b[0] == '-' || b[0] == '+') {
		b = b[1:]
	}
	digits, dots := 0, 0
	for _, c := range b {
		switch {
		case isDigitByte(c):
			digits++
		case c == '.':
			dots++
		default:
			return false
		}
	}
	return digits > 0 && dots <= 1
}
