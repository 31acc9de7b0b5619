package wire

import "encoding/binary"

// reader takes fields off a payload; bad is set when it was too short.
type reader struct {
	p   []byte
	bad bool
}

func (r *reader) bytes(n int) []byte {
	if n < 0 || n > len(r.p) {
		r.bad = true
		r.p = nil
		return nil
	}
	b := r.p[:n]
	r.p = r.p[n:]
	return b
}

func (r *reader) rest() []byte { return r.bytes(len(r.p)) }

func (r *reader) u8() byte {
	if b := r.bytes(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) u16() uint16 {
	if b := r.bytes(2); b != nil {
		return binary.LittleEndian.Uint16(b)
	}
	return 0
}

func (r *reader) u32() uint32 {
	if b := r.bytes(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

// until0 is the bytes up to a zero, which is taken too, or to the end.
func (r *reader) until0() []byte {
	for i, b := range r.p {
		if b == 0 {
			s := r.bytes(i)
			r.bytes(1)
			return s
		}
	}
	return r.rest()
}

// lenenc is a length-encoded integer; null is the byte 0xFB.
func (r *reader) lenenc() (v uint64, null bool) {
	switch b := r.u8(); b {
	case 0xfb:
		return 0, true
	case 0xfc:
		return uint64(r.u16()), false
	case 0xfd:
		lo := uint64(r.u16())
		return lo | uint64(r.u8())<<16, false
	case 0xfe:
		lo := uint64(r.u32())
		return lo | uint64(r.u32())<<32, false
	default:
		return uint64(b), false
	}
}

// str is a length-encoded string; nil is NULL.
func (r *reader) str() []byte {
	n, null := r.lenenc()
	if null {
		return nil
	}
	if n > uint64(len(r.p)) {
		r.bad = true
		return nil
	}
	b := r.bytes(int(n))
	if b == nil && !r.bad {
		b = []byte{}
	}
	return b
}

func appendLenenc(b []byte, v uint64) []byte {
	switch {
	case v < 251:
		return append(b, byte(v))
	case v < 1<<16:
		return append(b, 0xfc, byte(v), byte(v>>8))
	case v < 1<<24:
		return append(b, 0xfd, byte(v), byte(v>>8), byte(v>>16))
	}
	return binary.LittleEndian.AppendUint64(append(b, 0xfe), v)
}
