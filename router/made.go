package router

import (
	"math"
	"strconv"

	"braid/internal/mysql"
)

// Needs is what somebody with nodes has to make before a plan can be bound: ids
// of AUTO_INCREMENT columns, and the values of expressions that choose a shard.
type Needs struct {
	Database string
	Table    *Table
	// IDs has an element for each row when the ids are Braid's to give: 0 asks
	// for one, NoID does not count, everything else is the row's own id.
	IDs []uint64
	// Texts are expressions, to be computed once each by a node (rule M5).
	Texts []string
}

// NoID is the id of a row that has nothing to do with the sequence.
const NoID = math.MaxUint64

// Made is what was made for a Needs. Bind reads it from Query.Made.
type Made struct {
	// IDs are the ids given, by row; 0 where the row has its own.
	IDs []uint64
	// First is the first id given, 0 when there is none.
	First uint64
	// Values are those of Needs.Texts, and Texts literals that mean the same in
	// every character set and sql_mode.
	Values []Value
	Texts  []string
}

// needy is a plan body that needs something made.
type needy interface {
	needs(q *Query) (*Needs, error)
}

// Needs tells what has to be made before q can be bound to the plan; nil when
// there is nothing.
func (p *Plan) Needs(q *Query) (*Needs, error) {
	if b, ok := p.body.(needy); ok {
		return b.needs(q)
	}
	return nil, nil
}

// appendValue writes a literal that means v in every character set and sql_mode;
// ok is false for a value that cannot be written so.
func appendValue(b []byte, v Value) (out []byte, ok bool) {
	switch v.Kind {
	case ValueNull:
		return append(b, "NULL"...), true
	case ValueInt:
		return strconv.AppendInt(b, v.Int, 10), true
	case ValueUint:
		return strconv.AppendUint(b, v.Uint, 10), true
	case ValueDecimal:
		return append(b, v.Bytes...), true
	case ValueFloat:
		if math.IsInf(v.Float, 0) || math.IsNaN(v.Float) {
			return b, false
		}
		return strconv.AppendFloat(b, v.Float, 'e', -1, 64), true
	case ValueString:
		if v.Charset == "" {
			return b, false
		}
		b = append(append(append(b, '_'), v.Charset...), " x'"...)
		for _, c := range v.Bytes {
			b = append(b, hexDigits[c>>4], hexDigits[c&15])
		}
		return append(b, '\''), true
	case ValueDate, ValueDatetime:
		t := v.Time
		b = append(b, '\'')
		b = appendPadded(b, int(t.Year), 4)
		b = appendPadded(append(b, '-'), int(t.Month), 2)
		b = appendPadded(append(b, '-'), int(t.Day), 2)
		if v.Kind == ValueDatetime {
			b = appendPadded(append(b, ' '), int(t.Hour), 2)
			b = appendPadded(append(b, ':'), int(t.Minute), 2)
			b = appendPadded(append(b, ':'), int(t.Second), 2)
			b = appendPadded(append(b, '.'), int(t.Micros), 6)
		}
		return append(b, '\''), true
	}
	return b, false
}

const hexDigits = "0123456789abcdef"

// Literal writes a value as a literal that means the same in every character
// set and sql_mode.
func (v Value) Literal() (string, error) {
	b, ok := appendValue(nil, v)
	if !ok {
		return "", refuse("a value of this type as the sharding key of a new row")
	}
	return string(b), nil
}

// autoValue reads the value given for an AUTO_INCREMENT column: 0 when the
// server would generate one.
func (t *Table) autoValue(v Value, fl Flavour, zero bool) (uint64, *mysql.Error) {
	if v.Kind == ValueNull {
		return 0, nil
	}
	c, err := newKeyColumn(&t.Columns[t.AutoIncrement], fl)
	if err != nil || c.kind != keyInteger {
		return 0, refuse("AUTO_INCREMENT of a column that is no integer")
	}
	neg, u, err := c.integerOf(&v)
	switch {
	case err != nil:
		return 0, refuse("this value for the AUTO_INCREMENT column " + t.Name + "." + c.name)
	case u == 0 && zero, neg && u != 0:
		return NoID, nil
	case u >= c.max:
		return NoID, nil // refused by the node, or the end of all ids
	}
	return u, nil
}
