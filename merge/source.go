package merge

import (
	"io"

	"braid/internal/mysql"
)

// source reads the inputs as one stream: by its keys when it has any, else one
// input after the other. Its row stays in the input's own buffer.
//
// The merge is a tournament: a binary tree over the inputs whose inner nodes
// remember the loser of the match played there. It is built with k-1
// comparisons, and replacing the winner costs one match on each level of its way
// to the root: log2(k) comparisons a row, against a heap's two on each level.
type source struct {
	in    []mysql.Rows
	lay   *layout
	keys  keyset
	names func(int) string

	scan   int         // leading columns a key lies in
	fields []field     // scratch of scan
	cells  []cell      // len(keys) for each input
	rows   []mysql.Row // nil for an input that has ended
	losers []int32     // losers[1:k]; losers[0] is the winner
	cur    int         // the input of the current row
	begun  bool

	comparisons int // counted for tests
}

// rankDone is the rank of an input that has ended, behind all values and NULL.
const rankDone = 2

func newSource(in []mysql.Rows, l *layout, keys keyset, names func(int) string) *source {
	s := &source{in: in, lay: l, keys: keys, names: names}
	for _, k := range keys.keys {
		s.scan = max(s.scan, k.col+1, k.shown+1)
	}
	s.fields = make([]field, s.scan)
	if len(keys.keys) > 0 {
		s.cells = make([]cell, len(in)*len(keys.keys))
		s.rows = make([]mysql.Row, len(in))
		s.losers = make([]int32, len(in))
	}
	return s
}

// next gives the next row, valid until the following call.
func (s *source) next() (mysql.Row, error) {
	if len(s.keys.keys) == 0 {
		return s.nextInTurn()
	}
	if !s.begun {
		s.begun = true
		for i := range s.in {
			if err := s.read(i); err != nil {
				return nil, err
			}
		}
		s.build()
	} else {
		if err := s.read(s.cur); err != nil {
			return nil, err
		}
		s.replay()
	}
	if s.keys.unsure {
		return nil, unsureError()
	}
	if s.cells[s.cur*len(s.keys.keys)].rank == rankDone {
		return nil, io.EOF
	}
	return s.rows[s.cur], nil
}

func (s *source) nextInTurn() (mysql.Row, error) {
	for ; s.cur < len(s.in); s.cur++ {
		row, err := s.in[s.cur].Next()
		if err != io.EOF {
			return row, err
		}
	}
	return nil, io.EOF
}

// current gives the key cells of the row that next returned last, valid as long.
func (s *source) current() []cell {
	n := len(s.keys.keys)
	return s.cells[s.cur*n : s.cur*n+n]
}

// read takes the next row of input i and parses its keys.
func (s *source) read(i int) error {
	row, err := s.in[i].Next()
	n := len(s.keys.keys)
	cells := s.cells[i*n : i*n+n]
	if err == io.EOF {
		s.rows[i] = nil
		for c := range cells {
			cells[c] = cell{rank: rankDone}
		}
		return nil
	}
	if err != nil {
		return err
	}
	s.rows[i] = row
	if !parseCells(s.keys.keys, cells, s.lay, row, s.fields) {
		return broken("Malformed row from shard %s", s.names(i))
	}
	return nil
}

// parseCells reads a row's key values; fields is scratch for the columns up to
// the last key's.
func parseCells(keys []key, cells []cell, l *layout, row []byte, fields []field) bool {
	if len(fields) == 1 && !l.binary && len(keys) == 1 && len(row) > 0 && row[0] < 251 && int(row[0]) < len(row) {
		return keys[0].parse(&cells[0], row[1:1+row[0]]) // the usual case, for speed
	}
	if _, ok := l.scan(row, len(fields), fields); !ok {
		return false
	}
	for j := range keys {
		k, c := &keys[j], &cells[j]
		f := fields[k.col]
		if f.null() {
			// WEIGHT_STRING of what is no string, or too long, is NULL too.
			if !fields[k.shown].null() {
				return false
			}
			k.parseNull(c)
		} else if !k.parse(c, f.of(row)) {
			return false
		}
	}
	return true
}

// beats tells whether input i's row comes before input j's.
func (s *source) beats(i, j int) bool {
	s.comparisons++
	n := len(s.keys.keys)
	x, y := &s.cells[i*n], &s.cells[j*n]
	if x.rank != y.rank {
		return x.rank < y.rank
	}
	if x.u != y.u {
		return x.u < y.u
	}
	c := s.keys.compare(s.cells[i*n:i*n+n], s.cells[j*n:j*n+n])
	return c < 0 || c == 0 && i < j
}

// build plays all matches. Input i is the leaf i+k of a tree whose node n has
// the children 2n and 2n+1.
func (s *source) build() {
	k := len(s.in)
	winners := make([]int32, 2*k)
	for i := range k {
		winners[k+i] = int32(i)
	}
	for n := k - 1; n >= 1; n-- {
		w, l := winners[2*n], winners[2*n+1]
		if !s.beats(int(w), int(l)) {
			w, l = l, w
		}
		winners[n], s.losers[n] = w, l
	}
	s.cur = int(winners[1])
}

// replay plays the matches of the winner's new row up to the root.
func (s *source) replay() {
	w := s.cur
	for n := (w + len(s.in)) / 2; n >= 1; n /= 2 {
		if l := int(s.losers[n]); s.beats(l, w) {
			s.losers[n], w = int32(w), l
		}
	}
	s.cur = w
}
