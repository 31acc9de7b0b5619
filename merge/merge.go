package merge

import (
	"errors"
	"fmt"
	"io"
	"slices"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"braid/internal/mysql"
)

// Options are what Merge needs to know beside the statement.
type Options struct {
	SortBytesMax int      // bytes that Spec.Sort may hold; 0: no limit
	Names        []string // names of the inputs (shards) for error texts

	// PerKeyWeightCut is the shards' max_sort_length: their sorts look at about
	// so many bytes of a string key. Values that differ only further on have no
	// certain order; meeting such is error 1235. 0: sorts look at everything.
	PerKeyWeightCut int
	// CutPadOnly says that only keys with a PAD SPACE weight are cut (MySQL);
	// MariaDB cuts every string.
	CutPadOnly bool
}

// name is input i's name in an error text.
func (o *Options) name(i int) string {
	if i < len(o.Names) {
		return o.Names[i]
	}
	return fmt.Sprintf("#%d", i+1)
}

// Merge combines the inputs by spec and lim into one stream in the inputs' own
// protocol, text or binary. Its columns are the first input's visible ones.
//
// Merge owns the inputs: it closes each exactly once, when the result is
// closed, when a limit is reached, or before it returns an error. It reads
// nothing; the first Next does. Errors of an input come out as they are. Errors
// of Merge's own are *mysql.Error: 1105 where shards disagree on the columns or
// a row is malformed, 1235 where an exact answer is not possible, 1038 where
// Spec.Sort needs too much memory, 1690 where an aggregate is out of range.
func Merge(spec *Spec, lim Limit, in []mysql.Rows, opt Options) (mysql.Rows, error) {
	m, err := newMerged(spec, lim, in, &opt)
	if err != nil {
		for _, r := range in {
			r.Close() // the error that brought us here says more
		}
		return nil, err
	}
	return m, nil
}

// merged is the stream that Merge returns.
type merged struct {
	in   []mysql.Rows
	lay  *layout
	from func() (mysql.Row, error)
	skip uint64
	left uint64 // rows still wanted, when set
	set  bool

	fields   []field // scratch for dropping hidden columns; nil: none are hidden
	out      []byte
	err      error
	closed   bool
	closeErr error
}

func newMerged(spec *Spec, lim Limit, in []mysql.Rows, opt *Options) (*merged, error) {
	if len(in) == 0 {
		return nil, broken("Merge of no inputs")
	}
	cols := widest(in)
	in = slices.Clone(in)
	for i := range in {
		in[i] = Widen(cols, in[i])
	}
	for i, r := range in[1:] {
		if err := SameColumns(cols, r.Columns(), opt.name(0), opt.name(i+1)); err != nil {
			return nil, err
		}
		if r.Binary() != in[0].Binary() {
			return nil, broken("Shards %s and %s answer in different protocols", opt.name(0), opt.name(i+1))
		}
	}
	if spec.Visible < 0 || spec.Visible > len(cols) {
		return nil, broken("Merge shows %d of %d columns", spec.Visible, len(cols))
	}
	if spec.Hidden != "" && (spec.Visible >= len(cols) || cols[spec.Visible].Name != spec.Hidden) {
		return nil, changed("The result of shard %s has other columns than its tables had when the statement was planned; is a schema change under way?", opt.name(0))
	}
	l := newLayout(cols, in[0].Binary(), spec.Visible)
	if l.visible == 0 {
		l.visible = len(cols)
	}
	grouped := len(spec.Group) > 0 || spec.Aggregate
	order := spec.Order
	if len(in) == 1 && !grouped {
		order = nil // one input has the order already
	}
	keys, err := compileKeys(order, l, opt)
	if err != nil {
		return nil, err
	}
	m := &merged{in: in, lay: l, skip: lim.Offset, left: lim.Count, set: lim.Set}
	src := newSource(in, l, keys, opt.name)
	m.from = src.next
	if grouped {
		g, err := newGrouper(src, spec, opt)
		if err != nil {
			return nil, err
		}
		m.from = g.next
	}
	if len(spec.Sort) > 0 {
		s, err := newSorter(m.from, spec, l, lim, opt)
		if err != nil {
			return nil, err
		}
		m.from = s.next
	}
	if l.visible < len(cols) {
		m.fields = make([]field, l.visible)
	}
	return m, nil
}

// typeFlags gives the flags of c that change what a value means. Servers set
// the binary flag of numbers by whether they come from a column or a temporary
// table; only a string's means something.
func typeFlags(c *mysql.Column) uint16 {
	flags := uint16(gomysql.UNSIGNED_FLAG | gomysql.ENUM_FLAG | gomysql.SET_FLAG)
	if isString(c.Type) {
		flags |= gomysql.BINARY_FLAG
	}
	return c.Flags & flags
}

// ColumnsError says that the columns of a shard's rows are not those of another
// shard's, or of the plan: a schema change is under way, or went by unnoticed.
type ColumnsError struct{ err *mysql.Error }

func (e *ColumnsError) Error() string { return e.err.Error() }

// Unwrap gives the *mysql.Error that the client sees.
func (e *ColumnsError) Unwrap() error { return e.err }

func changed(format string, args ...any) error { return &ColumnsError{broken(format, args...)} }

// SameColumns compares the column definitions of two shards; what differs is a *ColumnsError.
func SameColumns(a, b []mysql.Column, nameA, nameB string) error {
	if len(a) != len(b) {
		return changed("Shards disagree on the result's columns: %s has %d, %s has %d; is a schema change under way?", nameA, len(a), nameB, len(b))
	}
	for i := range a {
		x, y := &a[i], &b[i]
		what := ""
		switch {
		case x.Name != y.Name:
			what = "name"
		case x.Type != y.Type:
			what = "type"
		case x.Charset != y.Charset:
			what = "character set"
		case typeFlags(x) != typeFlags(y):
			what = "flags"
		case x.Decimals != y.Decimals && !isString(x.Type): // of a string they say nothing
			what = "decimals"
		default:
			continue
		}
		return changed("Shards disagree on the result's columns: the %s of column %d (`%s` on %s, `%s` on %s); is a schema change under way?", what, i+1, x.Name, nameA, y.Name, nameB)
	}
	return nil
}

func (m *merged) Columns() []mysql.Column { return m.lay.cols[:m.lay.visible:m.lay.visible] }

func (m *merged) Binary() bool { return m.lay.binary }

func (m *merged) Next() (mysql.Row, error) {
	if m.err != nil {
		return nil, m.err
	}
	if m.set {
		if m.left == 0 {
			m.closeInputs()
			return m.fail(io.EOF)
		}
		m.left--
	}
	for ; m.skip > 0; m.skip-- {
		if _, err := m.from(); err != nil {
			return m.fail(err)
		}
	}
	row, err := m.from()
	if err != nil {
		return m.fail(err)
	}
	if m.fields == nil {
		return row, nil
	}
	return m.drop(row)
}

// fail ends the stream with err.
func (m *merged) fail(err error) (mysql.Row, error) {
	m.err = err
	return nil, err
}

// drop gives row without its hidden columns.
func (m *merged) drop(row mysql.Row) (mysql.Row, error) {
	ok := false
	if m.lay.binary {
		m.out, ok = m.lay.appendVisible(m.out[:0], row, m.fields)
		row = m.out
	} else {
		var end int
		end, ok = scanText(row, m.lay.visible, m.fields)
		row = row[:end]
	}
	if !ok {
		return m.fail(broken("Malformed row in a result of several shards"))
	}
	return row, nil
}

func (m *merged) closeInputs() {
	if m.closed {
		return
	}
	m.closed = true
	errs := make([]error, 0, len(m.in))
	for _, r := range m.in {
		errs = append(errs, r.Close())
	}
	m.closeErr = errors.Join(errs...)
}

// Close closes the inputs, if a reached limit did not do it before, and gives
// their errors.
func (m *merged) Close() error {
	m.closeInputs()
	if m.err == nil {
		m.err = errClosed
	}
	return m.closeErr
}

var errClosed = errors.New("merge: Next after Close")
