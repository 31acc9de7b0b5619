// Package collation carries the weights of the servers' collations that sharding
// keys may have, so that values a server finds equal get equal bytes.
//
// The types are Table, one collation's weights by character code, and Flavour,
// the server family: a name is carried for a flavour only when its weights were
// compared with a server of that flavour (TestServerWeights does that, and writes
// the embedded file; the tests of package router compare whole keys).
//
// Only primary weights are kept: a collation that also tells accents or case
// apart (utf8mb4_0900_as_cs) has the table of its accent- and case-insensitive
// sister. That is coarser than the collation: bytes may be equal for values that
// are not, never the other way around, which is all that sharding needs.
//
// The weight of a string is the concatenation of its characters' weights: the
// carried collations have no contractions (no sequence of characters weighs
// otherwise than its parts), which was checked against both servers with the
// pairs that the Unicode collation algorithm's own table contracts.
//
// A table can never change once rows were placed by it (rule K3).
package collation

import (
	"bytes"
	"compress/flate"
	_ "embed" // the tables
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"sync"
	"unicode/utf8"
)

// Flavour is a server family.
type Flavour uint8

// The flavours are a bit set: most tables are the same on both.
const (
	MySQL Flavour = 1 << iota
	MariaDB
)

// Table is the weights of one collation. It is immutable.
type Table struct {
	// binary says that a character weighs itself: its UTF-8 bytes, or the one byte
	// of an eight-bit character set.
	binary   bool
	eightBit bool
	padSpace bool

	unit int // bytes per weight: 2, or 1 for eight-bit character sets
	runs []run
	// page holds for each 256 codes the index of the run that its first code is in.
	page  []uint32
	space []byte // the weight of a space
	max   rune   // codes beyond it do not exist
	// low holds the weights of the codes that almost all keys are made of; wide
	// for those of more than one unit.
	low [128]lowWeight
}

type lowWeight struct {
	weight uint16
	none   bool // weighs nothing
	wide   bool
}

// run is count consecutive codes from first on. All weigh the same, but for the
// last unit, which grows by step from one code to the next.
type run struct {
	first  rune
	count  uint32
	step   uint16
	weight []uint16
}

// entry names a table by flavour.
type entry struct {
	name    string
	flavour Flavour
	table   string // in the embedded file; "" for a binary collation
	eight   bool   // an eight-bit character set
	noPad   bool
}

// collations is what is carried. Sources: MySQL 9.7.4 and MariaDB 10.11.19; a
// table marked for both was byte for byte the same.
func collations() []entry {
	const both = MySQL | MariaDB
	return []entry{
		{name: "ascii_bin", flavour: both, eight: true},
		{name: "ascii_general_ci", flavour: both, table: "ascii_general_ci", eight: true},
		{name: "latin1_bin", flavour: both, eight: true},
		{name: "latin1_general_ci", flavour: both, table: "latin1_general_ci", eight: true},
		{name: "latin1_swedish_ci", flavour: both, table: "latin1_swedish_ci", eight: true},
		{name: "utf8mb3_bin", flavour: both},
		{name: "utf8_bin", flavour: both},
		{name: "utf8mb3_general_ci", flavour: both, table: "general_ci"},
		{name: "utf8_general_ci", flavour: both, table: "general_ci"},
		{name: "utf8mb3_unicode_ci", flavour: both, table: "unicode_ci"},
		{name: "utf8_unicode_ci", flavour: both, table: "unicode_ci"},
		{name: "utf8mb4_bin", flavour: both},
		{name: "utf8mb4_general_ci", flavour: both, table: "general_ci"},
		{name: "utf8mb4_unicode_ci", flavour: both, table: "unicode_ci"},
		{name: "utf8mb4_0900_bin", flavour: MySQL, noPad: true},
		{name: "utf8mb4_0900_ai_ci", flavour: MySQL, table: "0900_ai_ci", noPad: true},
		{name: "utf8mb4_0900_as_ci", flavour: MySQL, table: "0900_ai_ci", noPad: true},
		{name: "utf8mb4_0900_as_cs", flavour: MySQL, table: "0900_ai_ci", noPad: true},
	}
}

// Names lists the collations carried for a flavour, sorted.
func Names(fl Flavour) []string {
	var names []string
	for _, c := range collations() {
		if c.flavour&fl != 0 {
			names = append(names, c.name)
		}
	}
	slices.Sort(names)
	return names
}

// Lookup returns a collation's table, nil when it is not carried for the flavour.
func Lookup(fl Flavour, name string) *Table {
	for _, c := range collations() {
		if c.name != name || c.flavour&fl == 0 {
			continue
		}
		if c.table == "" {
			return &Table{binary: true, eightBit: c.eight, padSpace: !c.noPad, space: []byte{' '}, unit: 1}
		}
		weights, err := embedded()
		if err != nil {
			return nil
		}
		t := *weights[c.table]
		t.eightBit, t.padSpace = c.eight, !c.noPad
		return &t
	}
	return nil
}

//go:embed weights.bin
var packed []byte

// embedded unpacks the tables once for all: they are the same for every rule.
var embedded = sync.OnceValues(func() (map[string]*Table, error) { return unpack(packed) })

// Binary tells whether characters weigh themselves, so that order by bytes is
// the collation's order.
func (t *Table) Binary() bool { return t.binary }

// PadSpace tells whether the collation compares as if the shorter string were
// padded with spaces.
func (t *Table) PadSpace() bool { return t.padSpace }

// Append appends the weight of a character: its code point, or its byte for an
// eight-bit character set. A code that the table does not have weighs nothing.
func (t *Table) Append(dst []byte, code rune) []byte {
	if t.binary {
		if t.eightBit {
			return append(dst, byte(code))
		}
		return utf8.AppendRune(dst, code)
	}
	if uint32(code) < uint32(len(t.low)) && !t.low[code].wide {
		switch l := t.low[code]; {
		case l.none:
			return dst
		case t.unit == 2:
			return append(dst, byte(l.weight>>8), byte(l.weight))
		default:
			return append(dst, byte(l.weight))
		}
	}
	return t.search(dst, code)
}

// search appends the weight of a code by its run.
func (t *Table) search(dst []byte, code rune) []byte {
	if code < 0 || code > t.max {
		return dst
	}
	i := int(t.page[code>>8])
	for i+1 < len(t.runs) && t.runs[i+1].first <= code {
		i++
	}
	r := &t.runs[i]
	n := code - r.first
	if n < 0 || uint32(n) >= r.count {
		return dst
	}
	for j, w := range r.weight {
		if j == len(r.weight)-1 {
			w += r.step * uint16(n)
		}
		if t.unit == 2 {
			dst = append(dst, byte(w>>8))
		}
		dst = append(dst, byte(w))
	}
	return dst
}

// Trim cuts the weights of spaces, and of what weighs like a space, off the end
// of dst[from:]. For a collation that does not pad this is coarser than it is.
func (t *Table) Trim(dst []byte, from int) []byte {
	for len(dst)-from >= len(t.space) && bytes.HasSuffix(dst, t.space) {
		dst = dst[:len(dst)-len(t.space)]
	}
	return dst
}

var errDamaged = errors.New("collation tables are damaged")

// unpack reads the embedded file, as TestServerWeights writes it: deflated; for each table its
// name, unit, number of runs, and each run's gap to the one before, count, step
// and weights, all as unsigned varints (a string is its length and its bytes).
func unpack(p []byte) (map[string]*Table, error) {
	raw, err := io.ReadAll(flate.NewReader(bytes.NewReader(p)))
	if err != nil {
		return nil, err
	}
	r := reader{p: raw}
	tables := make(map[string]*Table)
	for len(r.p) > 0 && !r.bad {
		name := string(r.bytes(int(r.uint())))
		t := &Table{unit: int(r.uint())}
		end := rune(0)
		for range r.uint() {
			if r.bad {
				break
			}
			u := run{first: end + rune(r.uint()), count: uint32(r.uint()), step: uint16(r.uint())}
			u.weight = make([]uint16, min(r.uint(), 64))
			for i := range u.weight {
				u.weight[i] = uint16(r.uint())
			}
			end = u.first + rune(u.count)
			t.runs = append(t.runs, u)
		}
		if len(t.runs) == 0 || end > utf8.MaxRune+1 {
			return nil, errDamaged
		}
		t.index(end - 1)
		tables[name] = t
	}
	if r.bad {
		return nil, errDamaged
	}
	return tables, nil
}

// index fills in what follows from the runs.
func (t *Table) index(last rune) {
	t.max = last
	at := 0
	for code := rune(0); code <= last; code += 256 {
		for at+1 < len(t.runs) && t.runs[at+1].first <= code {
			at++
		}
		t.page = append(t.page, uint32(at))
	}
	for code := range t.low {
		switch w := t.search(nil, rune(code)); len(w) {
		case 0:
			t.low[code].none = true
		case t.unit:
			for _, b := range w {
				t.low[code].weight = t.low[code].weight<<8 | uint16(b)
			}
		default:
			t.low[code].wide = true
		}
	}
	t.space = t.Append(nil, ' ')
}

type reader struct {
	p   []byte
	bad bool
}

func (r *reader) uint() uint64 {
	v, n := binary.Uvarint(r.p)
	if n <= 0 {
		r.bad, r.p = true, nil
		return 0
	}
	r.p = r.p[n:]
	return v
}

func (r *reader) bytes(n int) []byte {
	if n < 0 || n > len(r.p) {
		r.bad, r.p = true, nil
		return nil
	}
	b := r.p[:n]
	r.p = r.p[n:]
	return b
}
