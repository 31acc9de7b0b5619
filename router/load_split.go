package router

import "bytes"

// LoadFormat is how LOAD DATA's file is written.
type LoadFormat struct {
	FieldEnd, LineEnd, LineStart []byte

	Encloses bool // Enclosed is in force
	Enclosed byte
	Escapes  bool // Escape is in force
	Escape   byte

	Fields int // how many fields a row is read into
}

// check refuses the formats that are not split.
func (f *LoadFormat) check() error {
	if len(f.FieldEnd) == 0 {
		return refuse("LOAD DATA of rows of fixed width, over several shards")
	}
	if bytes.Equal(f.FieldEnd, f.LineEnd) {
		f.LineEnd = nil // as mysqld: rows then end with their last field
	}
	return nil
}

// EveryShard is a record's shard when every one gets it.
const EveryShard = -1

// LoadSplitter cuts a file into records and finds each one's shard. It reads as
// mysqld's LOAD DATA does: records end where the server would end them. It holds
// what was fed and not yet taken. Not safe for concurrent use.
type LoadSplitter struct {
	load    *Load
	charset string
	ctx     KeyContext
	skip    uint64
	rows    uint64

	buf    []byte
	at     int
	ended  bool // no more is fed
	retry  int  // an incomplete record is tried again when so much is there
	want   []int
	values []loadValue // of the fields in want
}

// loadValue is one field of a record.
type loadValue struct {
	text          []byte
	null, missing bool
}

// Feed adds a piece of the file, which is copied; an empty one ends it.
func (s *LoadSplitter) Feed(p []byte) {
	if len(p) == 0 {
		s.ended = true
		return
	}
	if s.at > 0 {
		s.buf = s.buf[:copy(s.buf, s.buf[s.at:])]
		s.retry -= s.at
		s.at = 0
	}
	s.buf = append(s.buf, p...)
}

// Held is how many bytes wait for the end of their record.
func (s *LoadSplitter) Held() int { return len(s.buf) - s.at }

// Rows is how many records were taken.
func (s *LoadSplitter) Rows() uint64 { return s.rows }

// Next takes a record and tells its shard; ok is false when there is none
// complete. raw is valid until the next Feed.
func (s *LoadSplitter) Next() (raw []byte, shard int, ok bool, err error) {
	if !s.ended && len(s.buf) < s.retry {
		return nil, 0, false, nil
	}
	for {
		r := loadReader{f: &s.load.Format, b: s.buf[s.at:], ended: s.ended}
		skipping := s.skip > 0
		var row bool
		if skipping && len(s.load.Format.LineEnd) > 0 {
			r.nextLine()
			row = true
		} else {
			row = s.record(&r)
		}
		if r.short {
			s.retry = s.at + 2*len(r.b)
			return nil, 0, false, nil
		}
		raw = r.b[:r.i]
		s.at += r.i
		s.retry = 0
		if skipping && (row && r.i > 0) {
			s.skip--
			continue
		}
		if !row || skipping {
			return nil, 0, false, nil // the file's end
		}
		s.rows++
		shard, err = s.shard(s.rows)
		return raw, shard, true, err
	}
}

// record reads one row's fields and to the end of its line; false at the file's end.
func (s *LoadSplitter) record(r *loadReader) bool {
	for k := range s.values {
		s.values[k] = loadValue{text: s.values[k].text[:0], missing: true}
	}
	r.startOfLine = len(r.f.LineStart) > 0
	for i := range r.f.Fields {
		var v *loadValue
		for k, w := range s.want {
			if w == i {
				v = &s.values[k]
			}
		}
		if !r.field(v) {
			if i == 0 {
				return false
			}
			break
		}
		if r.short {
			return true
		}
	}
	for k := range s.want { // a column of the key may be the AUTO_INCREMENT one, too
		for j := range k {
			if s.want[j] == s.want[k] {
				s.values[j] = s.values[k]
			}
		}
	}
	r.nextLine()
	return true
}

// loadReader reads fields as mysqld's READ_INFO does. short says that it came to
// the end of what is there before the file's end.
type loadReader struct {
	f     *LoadFormat
	b     []byte
	i     int
	ended bool
	short bool

	startOfLine bool
	endOfLine   bool // the last field ended its line
	eof         bool
}

// next is the next byte, or -1.
func (r *loadReader) next() int {
	if r.i < len(r.b) {
		r.i++
		return int(r.b[r.i-1])
	}
	if !r.ended {
		r.short = true
	}
	return -1
}

// ends tells whether term, whose first byte was just read, is here, and takes it.
func (r *loadReader) ends(c int, term []byte) bool {
	if len(term) == 0 || c != int(term[0]) {
		return false
	}
	rest := r.b[r.i:]
	if len(rest) < len(term)-1 {
		if !r.ended && bytes.HasPrefix(term[1:], rest) {
			r.short = true
		}
		return false
	}
	if !bytes.HasPrefix(rest, term[1:]) {
		return false
	}
	r.i += len(term) - 1
	return true
}

// findStart reads to behind LINES STARTING BY.
func (r *loadReader) findStart() bool {
	at := bytes.Index(r.b[r.i:], r.f.LineStart)
	if at < 0 {
		if !r.ended {
			r.short = true
		}
		r.i, r.eof, r.endOfLine = len(r.b), true, true
		return false
	}
	r.i += at + len(r.f.LineStart)
	return true
}

// field reads one field, into v unless that is nil; false when there is none.
func (r *loadReader) field(v *loadValue) bool {
	if r.endOfLine || r.eof {
		return false
	}
	if r.startOfLine {
		r.startOfLine = false
		if !r.findStart() {
			return false
		}
	}
	f := r.f
	n, null, quoted := 0, false, false
	put := func(c int) {
		n++
		if v != nil {
			v.text = append(v.text, byte(c))
		}
	}
	done := func(enclosed bool) bool {
		if v != nil {
			v.missing = false
			v.null = null && n == 1 || !enclosed && f.Encloses && string(v.text) == "NULL"
		}
		return true
	}
	c := r.next()
	if f.Encloses && c == int(f.Enclosed) {
		quoted = true
		c = r.next()
	}
	for ; ; c = r.next() {
		if c < 0 {
			break
		}
		if f.Escapes && c == int(f.Escape) {
			e := r.next()
			if e < 0 {
				put(c)
				break
			}
			if !f.Encloses || f.Escape != f.Enclosed || e == int(f.Escape) {
				if e == 'N' {
					null = true
				}
				put(unescape(e))
				continue
			}
			r.i--
		}
		if !quoted && r.ends(c, f.LineEnd) {
			r.endOfLine = true
			return done(false)
		}
		if r.short {
			return true
		}
		if quoted && c == int(f.Enclosed) {
			e := r.next()
			if e == int(f.Enclosed) {
				put(e)
				continue
			}
			if e < 0 && !r.short || r.ends(e, f.LineEnd) {
				r.endOfLine = true
				r.eof = e < 0
				return done(true)
			}
			if r.ends(e, f.FieldEnd) {
				return done(true)
			}
			if r.short {
				return true
			}
			r.i--
		} else if !quoted && r.ends(c, f.FieldEnd) {
			return done(false)
		}
		if r.short {
			return true
		}
		put(c)
	}
	r.endOfLine, r.eof = true, true
	if n == 0 && !quoted {
		return false
	}
	if quoted && v != nil { // the quote belongs to the value when nothing ends it
		v.text = append(v.text, 0)
		copy(v.text[1:], v.text)
		v.text[0] = f.Enclosed
		n++
	}
	return done(false)
}

// nextLine reads to behind the line's end.
func (r *loadReader) nextLine() {
	if r.endOfLine || r.eof {
		r.endOfLine = false
		return
	}
	if len(r.f.LineEnd) == 0 {
		return
	}
	for {
		c := r.next()
		if c < 0 {
			r.eof = true
			return
		}
		if r.f.Escapes && c == int(r.f.Escape) {
			if r.next() < 0 {
				r.eof = true
				return
			}
			continue
		}
		if r.ends(c, r.f.LineEnd) || r.short {
			return
		}
	}
}

// unescape is the byte that an escaped one stands for.
func unescape(c int) int {
	switch c {
	case 'n':
		return '\n'
	case 't':
		return '\t'
	case 'r':
		return '\r'
	case 'b':
		return '\b'
	case '0':
		return 0
	case 'Z':
		return 0x1a
	}
	return c
}
