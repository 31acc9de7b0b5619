package router

import (
	"fmt"
	"strconv"
	"strings"

	"braid/router/collation"
)

// keyKind is how the values of a key column are made canonical.
type keyKind uint8

const (
	keyInteger keyKind = iota
	keyDecimal
	keyText
	keyBinary
	keyDate
	keyDatetime
)

// keyColumn is a key column's type in the form that Assign and Compare use.
// It is immutable.
type keyColumn struct {
	name    string
	kind    keyKind
	flavour Flavour

	nullable      bool
	autoIncrement bool

	min int64 // keyInteger
	max uint64

	precision, scale int // keyDecimal
	unsigned         bool

	length  int           // keyText: characters, keyBinary: bytes
	charset columnCharset // keyText
	weights *collation.Table
	fixed   bool // BINARY(n): padded with zero bytes

	fraction int // keyDatetime: digits behind the second
}

// CheckKeyColumn tells whether a column can be (part of) a sharding key on nodes
// of a flavour; the error says why not (rule K2).
func CheckKeyColumn(c *Column, fl Flavour) error {
	_, err := newKeyColumn(c, fl)
	return err
}

func newKeyColumn(c *Column, fl Flavour) (keyColumn, error) {
	k := keyColumn{
		name: c.Name, flavour: fl, nullable: c.Nullable,
		autoIncrement: strings.Contains(strings.ToLower(c.Extra), "auto_increment"),
	}
	if strings.Contains(strings.ToUpper(c.Extra), "GENERATED") && !strings.Contains(strings.ToUpper(c.Extra), "DEFAULT_GENERATED") {
		return k, fmt.Errorf("column %s cannot be a sharding key: the node computes its value", c.Name)
	}
	dataType := strings.ToLower(c.DataType)
	if bits := integerBits(dataType); bits > 0 {
		k.kind = keyInteger
		k.min, k.max = -1<<(bits-1), 1<<(bits-1)-1
		if c.Unsigned() {
			k.min, k.max = 0, ^uint64(0)>>(64-bits)
		}
		return k, nil
	}
	switch dataType {
	case "decimal":
		k.kind = keyDecimal
		args := typeArguments(c.ColumnType)
		if len(args) != 2 {
			return k, fmt.Errorf("column %s cannot be a sharding key: its type %q has no precision and scale", c.Name, c.ColumnType)
		}
		k.precision, k.scale, k.unsigned = args[0], args[1], c.Unsigned()
		return k, nil
	case "binary", "varbinary":
		k.kind, k.fixed = keyBinary, dataType == "binary"
		return k, k.setLength(c)
	case "char", "varchar":
		return k, k.setText(c)
	case "date":
		k.kind = keyDate
		return k, nil
	case "datetime":
		k.kind = keyDatetime
		if args := typeArguments(c.ColumnType); len(args) == 1 {
			k.fraction = args[0]
		}
		return k, nil
	}
	return k, fmt.Errorf("column %s cannot be a sharding key: type %s is not supported (%s)", c.Name, dataType, whyNotKey(dataType))
}

// integerBits is the width of an integer type, 0 for other types.
func integerBits(dataType string) uint {
	switch dataType {
	case "tinyint":
		return 8
	case "smallint":
		return 16
	case "mediumint":
		return 24
	case "int":
		return 32
	case "bigint":
		return 64
	}
	return 0
}

func whyNotKey(dataType string) string {
	switch dataType {
	case "timestamp":
		return "its value depends on the session's time zone"
	case "float", "double":
		return "equal numbers may be spelled and rounded differently"
	case "enum", "set", "bit":
		return "it is number and text at once"
	}
	return "keys are integers, DECIMAL, CHAR, VARCHAR, BINARY, VARBINARY, DATE and DATETIME"
}

func (k *keyColumn) setLength(c *Column) error {
	if args := typeArguments(c.ColumnType); len(args) == 1 {
		k.length = args[0]
		return nil
	}
	return fmt.Errorf("column %s cannot be a sharding key: its type %q has no length", c.Name, c.ColumnType)
}

func (k *keyColumn) setText(c *Column) error {
	k.kind = keyText
	if err := k.setLength(c); err != nil {
		return err
	}
	var ok bool
	if k.charset, ok = columnCharsetOf(c.Charset); !ok {
		return fmt.Errorf("column %s cannot be a sharding key: character set %s is not supported (utf8mb4, utf8mb3, latin1 and ascii are)", c.Name, c.Charset)
	}
	k.weights = collation.Lookup(collationFlavour(k.flavour), c.Collation)
	if k.weights == nil {
		return fmt.Errorf("column %s cannot be a sharding key: collation %s is not supported on %s (these are: %s)",
			c.Name, c.Collation, k.flavour, strings.Join(collation.Names(collationFlavour(k.flavour)), ", "))
	}
	return nil
}

func collationFlavour(fl Flavour) collation.Flavour {
	if fl == MariaDB {
		return collation.MariaDB
	}
	return collation.MySQL
}

// typeArguments are the numbers in the parentheses of a column type:
// 10 and 2 of "decimal(10,2) unsigned".
func typeArguments(columnType string) []int {
	_, rest, ok := strings.Cut(columnType, "(")
	if !ok {
		return nil
	}
	inner, _, ok := strings.Cut(rest, ")")
	if !ok {
		return nil
	}
	var args []int
	for a := range strings.SplitSeq(inner, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(a))
		if err != nil {
			return nil
		}
		args = append(args, n)
	}
	return args
}
