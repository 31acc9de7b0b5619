package mysql

import "encoding/binary"

// LenEncInt decodes a length-encoded integer at the start of p and returns it
// with the number of bytes it took; null is true for 0xFB. n is 0 when p is too
// short or not such an integer.
func LenEncInt(p []byte) (v uint64, null bool, n int) {
	if len(p) == 0 {
		return 0, false, 0
	}
	switch b := p[0]; {
	case b < 0xfb:
		return uint64(b), false, 1
	case b == 0xfb:
		return 0, true, 1
	case b == 0xfc && len(p) >= 3:
		return uint64(p[1]) | uint64(p[2])<<8, false, 3
	case b == 0xfd && len(p) >= 4:
		return uint64(p[1]) | uint64(p[2])<<8 | uint64(p[3])<<16, false, 4
	case b == 0xfe && len(p) >= 9:
		return binary.LittleEndian.Uint64(p[1:]), false, 9
	}
	return 0, false, 0
}

// LenEncString decodes a length-encoded string at the start of p. The result
// aliases p. n is 0 when p is malformed.
func LenEncString(p []byte) (s []byte, null bool, n int) {
	v, null, n := LenEncInt(p)
	if n == 0 || null {
		return nil, null, n
	}
	if v > uint64(len(p)-n) {
		return nil, false, 0
	}
	return p[n : n+int(v)], false, n + int(v)
}

// AppendLenEncInt appends v length-encoded.
func AppendLenEncInt(dst []byte, v uint64) []byte {
	switch {
	case v < 251:
		return append(dst, byte(v))
	case v < 1<<16:
		return append(dst, 0xfc, byte(v), byte(v>>8))
	case v < 1<<24:
		return append(dst, 0xfd, byte(v), byte(v>>8), byte(v>>16))
	}
	return binary.LittleEndian.AppendUint64(append(dst, 0xfe), v)
}

// AppendLenEncString appends s length-encoded.
func AppendLenEncString[S ~string | ~[]byte](dst []byte, s S) []byte {
	return append(AppendLenEncInt(dst, uint64(len(s))), s...)
}
