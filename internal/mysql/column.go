package mysql

import "errors"

// Column is one column definition (Protocol::ColumnDefinition41).
type Column struct {
	Schema, Table, OrgTable, Name, OrgName string

	Charset  uint16 // collation id of the value's bytes; 63 is binary
	Length   uint32 // display width in bytes
	Type     byte   // go-mysql's mysql.MYSQL_TYPE_*
	Flags    uint16 // go-mysql's mysql.*_FLAG
	Decimals byte   // 0..30, 31 (0x1f) for "floating"
}

// ErrMalformed is any packet that does not follow the protocol.
var ErrMalformed = errors.New("malformed packet")

// ParseColumn decodes a column definition packet's payload. The strings are copies.
func ParseColumn(p []byte) (Column, error) {
	var c Column
	ok := true
	str := func() string {
		s, _, n := LenEncString(p)
		if n <= 0 {
			ok = false
			return ""
		}
		p = p[n:]
		return string(s)
	}
	str() // catalog, always "def"
	c.Schema, c.Table, c.OrgTable, c.Name, c.OrgName = str(), str(), str(), str(), str()
	if !ok {
		return c, ErrMalformed
	}
	if len(p) > 12 && p[0] != 0x0c { // MariaDB's extended metadata is never asked for
		return c, ErrMalformed
	}
	if len(p) < 13 {
		return c, ErrMalformed
	}
	c.Charset = uint16(p[1]) | uint16(p[2])<<8
	c.Length = uint32(p[3]) | uint32(p[4])<<8 | uint32(p[5])<<16 | uint32(p[6])<<24
	c.Type = p[7]
	c.Flags = uint16(p[8]) | uint16(p[9])<<8
	c.Decimals = p[10]
	return c, nil
}

// AppendColumn appends c as a column definition packet's payload.
func AppendColumn(dst []byte, c *Column) []byte {
	dst = append(dst, 3, 'd', 'e', 'f')
	dst = AppendLenEncString(dst, c.Schema)
	dst = AppendLenEncString(dst, c.Table)
	dst = AppendLenEncString(dst, c.OrgTable)
	dst = AppendLenEncString(dst, c.Name)
	dst = AppendLenEncString(dst, c.OrgName)
	return append(dst, 0x0c,
		byte(c.Charset), byte(c.Charset>>8),
		byte(c.Length), byte(c.Length>>8), byte(c.Length>>16), byte(c.Length>>24),
		c.Type, byte(c.Flags), byte(c.Flags>>8), c.Decimals, 0, 0)
}
