package proxy

import (
	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"braid/internal/mysql"
	"braid/router"
)

// parameterCountAvailable is the flag of COM_STMT_EXECUTE that a count of
// parameters follows also when the statement has none.
const parameterCountAvailable = 8

// attributesMax bounds the query attributes of one command.
const attributesMax = 65535

// parse decodes the parameters of an execution as far as their borders. With
// attributes (CLIENT_QUERY_ATTRIBUTES) each parameter has a name, and behind the
// statement's own further ones may follow: the query attributes, which are for
// functions that only a component of the server has. They go no further.
func (ex *execution) parse(attributes bool) error {
	ps, p := ex.ps, ex.raw
	ex.vals = ex.vals[:0]
	flags, count := p[0], ps.params
	p = p[5:] // flags and iteration count
	if attributes {
		ex.raw = nil // a node gets the parameters without names
		if flags&parameterCountAvailable != 0 {
			v, null, n := mysql.LenEncInt(p)
			if n == 0 || null || v > attributesMax || int(v) < count {
				return mysql.ErrMalformed
			}
			count, p = int(v), p[n:]
		}
	}
	if count == 0 {
		return nil
	}
	x := params{vals: ex.vals, types: ps.types, long: ps.long, named: attributes}
	if _, err := x.parse(p, count); err != nil {
		return err
	}
	if !x.bound || ps.long != nil {
		ex.raw = nil // the node may not know the types, or lacks the long data
	}
	if x.bound {
		ps.types = append(ps.types[:0], x.types[:2*ps.params]...)
	}
	ex.vals = x.vals[:ps.params]
	return nil
}

// params decodes the parameters of one command.
type params struct {
	vals  []router.Param // appended to
	types []byte         // two bytes each: of an earlier execution, or the command's own when bound
	long  [][]byte       // values that came before, by parameter; nil: none
	named bool           // each type is followed by a name
	bound bool           // the command brought types
}

// parse decodes count parameters at the start of p (NULL bitmap, types where they
// are sent, values) and returns what is behind them. Values alias p.
func (x *params) parse(p []byte, count int) (rest []byte, err error) {
	n := (count + 7) / 8
	if len(p) < n+1 {
		return nil, mysql.ErrMalformed
	}
	nulls := p[:n]
	x.bound = p[n] == 1
	p = p[n+1:]
	switch {
	case x.bound && x.named:
		if x.types, p, err = cutNamedTypes(p, count); err != nil {
			return nil, err
		}
	case x.bound:
		if len(p) < 2*count {
			return nil, mysql.ErrMalformed
		}
		x.types, p = p[:2*count], p[2*count:]
	case len(x.types) < 2*count:
		return nil, mysql.ErrMalformed
	}
	for i := range count {
		v := router.Param{Type: x.types[2*i], Unsigned: x.types[2*i+1]&0x80 != 0}
		switch {
		case i < len(x.long) && x.long[i] != nil:
			v.Value = x.long[i]
		case nulls[i/8]&(1<<(i%8)) != 0 || v.Type == gomysql.MYSQL_TYPE_NULL:
			v.Null = true
		default:
			size, head, err := paramSize(v.Type, p)
			if err != nil || size > len(p) {
				return nil, mysql.ErrMalformed
			}
			v.Value = p[head:size]
			p = p[size:]
		}
		x.vals = append(x.vals, v)
	}
	return p, nil
}

// cutNamedTypes takes types that are each followed by a name.
func cutNamedTypes(p []byte, count int) (types, rest []byte, err error) {
	for range count {
		if len(p) < 2 {
			return nil, nil, mysql.ErrMalformed
		}
		types = append(types, p[0], p[1])
		p = p[2:]
		_, null, n := mysql.LenEncString(p)
		if n == 0 || null {
			return nil, nil, mysql.ErrMalformed
		}
		p = p[n:]
	}
	return types, p, nil
}

// queryText is the statement of a COM_QUERY on a connection with
// CLIENT_QUERY_ATTRIBUTES, behind the attributes.
func queryText(p []byte) ([]byte, error) {
	count, null, n := mysql.LenEncInt(p)
	if n == 0 || null || count > attributesMax {
		return nil, mysql.ErrMalformed
	}
	p = p[n:]
	if _, null, n = mysql.LenEncInt(p); n == 0 || null { // of parameter sets: always 1
		return nil, mysql.ErrMalformed
	}
	p = p[n:]
	if count == 0 {
		return p, nil
	}
	x := params{named: true}
	return x.parse(p, int(count))
}
