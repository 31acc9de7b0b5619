package merge

import (
	"io"
	"math"
	"slices"
	"unsafe"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"braid/internal/mysql"
)

// sorter reads a whole stream and gives it back in the order of its keys; ties
// keep the stream's order. With a limit it holds the first rows only.
type sorter struct {
	from     func() (mysql.Row, error)
	lay      *layout
	keys     keyset
	rowsMax  uint64 // rows to keep
	bytesMax int    // 0: no limit

	fields []field
	rows   []sortRow
	heaped bool // rows is a heap, the last in order on top
	spare  []cell
	bytes  int
	seq    uint64
	at     int // the row to give next; -1 until all are read
}

// sortRow is one kept row with its own memory.
type sortRow struct {
	row   []byte
	cells []cell // alias row
	seq   uint64
}

func newSorter(from func() (mysql.Row, error), spec *Spec, l *layout, lim Limit, opt *Options) (*sorter, error) {
	keys, err := compileKeys(spec.Sort, l, opt)
	if err != nil {
		return nil, err
	}
	s := &sorter{from: from, lay: l, keys: keys, rowsMax: math.MaxUint64, bytesMax: opt.SortBytesMax, at: -1}
	if lim.Set {
		s.rowsMax = lim.Offset + min(lim.Count, math.MaxUint64-lim.Offset)
	}
	n := 0
	for _, k := range keys.keys {
		n = max(n, k.col+1, k.shown+1)
	}
	s.fields = make([]field, n)
	s.spare = make([]cell, len(keys.keys))
	return s, nil
}

func (s *sorter) next() (mysql.Row, error) {
	if s.at < 0 {
		if err := s.readAll(); err != nil {
			return nil, err
		}
		s.at = 0
	}
	if s.at >= len(s.rows) {
		return nil, io.EOF
	}
	row := s.rows[s.at].row
	s.at++
	return row, nil
}

func (s *sorter) readAll() error {
	for s.rowsMax > 0 {
		row, err := s.from()
		if err == io.EOF {
			break
		}
		if err == nil {
			err = s.take(row)
		}
		if err == nil && s.keys.unsure {
			err = unsureError()
		}
		if err != nil {
			return err
		}
	}
	slices.SortFunc(s.rows, s.compare)
	if s.keys.unsure {
		return unsureError()
	}
	return nil
}

// take keeps row when it may be among the rows wanted.
func (s *sorter) take(row []byte) error {
	s.seq++
	if uint64(len(s.rows)) < s.rowsMax {
		r := sortRow{row: slices.Clone(row), cells: make([]cell, len(s.keys.keys)), seq: s.seq}
		if !parseCells(s.keys.keys, r.cells, s.lay, r.row, s.fields) {
			return broken("Malformed row to sort")
		}
		s.rows = append(s.rows, r)
		return s.charge(cap(r.row) + len(r.cells)*int(unsafe.Sizeof(cell{})) + int(unsafe.Sizeof(r)))
	}
	if !s.heaped {
		s.heaped = true
		for i := len(s.rows)/2 - 1; i >= 0; i-- {
			s.sink(i)
		}
	}
	if !parseCells(s.keys.keys, s.spare, s.lay, row, s.fields) {
		return broken("Malformed row to sort")
	}
	top := &s.rows[0]
	if s.keys.compare(s.spare, top.cells) >= 0 { // a tie came later
		return nil
	}
	before := cap(top.row)
	top.row = append(top.row[:0], row...)
	top.seq = s.seq
	if !parseCells(s.keys.keys, top.cells, s.lay, top.row, s.fields) {
		return broken("Malformed row to sort")
	}
	err := s.charge(cap(top.row) - before)
	s.sink(0)
	return err
}

func (s *sorter) charge(bytes int) error {
	s.bytes += bytes
	if s.bytesMax > 0 && s.bytes > s.bytesMax {
		return mysql.Errorf(gomysql.ER_OUT_OF_SORTMEMORY,
			"Out of sort memory: sorting the combined rows of several shards takes more than sort_bytes_max = %d bytes; add a LIMIT, select fewer columns, or raise it", s.bytesMax)
	}
	return nil
}

func (s *sorter) compare(a, b sortRow) int {
	if c := s.keys.compare(a.cells, b.cells); c != 0 {
		return c
	}
	if a.seq < b.seq {
		return -1
	}
	return 1
}

// sink restores the heap below i.
func (s *sorter) sink(i int) {
	for {
		k := 2*i + 1
		if k >= len(s.rows) {
			return
		}
		if k+1 < len(s.rows) && s.compare(s.rows[k+1], s.rows[k]) > 0 {
			k++
		}
		if s.compare(s.rows[k], s.rows[i]) <= 0 {
			return
		}
		s.rows[i], s.rows[k] = s.rows[k], s.rows[i]
		i = k
	}
}
