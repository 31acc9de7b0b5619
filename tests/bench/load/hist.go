package load

import (
	"math/bits"
	"time"
)

// hist is a log-linear histogram of nanoseconds, 16 steps per power of two.
type hist [64 * 16]uint64

func (h *hist) add(d time.Duration) {
	n := uint64(max(d, 0)) | 16
	e := bits.Len64(n) - 5
	h[e*16+int(n>>e)&15]++
}

// quantile returns the middle of the step that holds the q-th part of all, 0
// when there are none.
func (h *hist) quantile(q float64) time.Duration {
	total := uint64(0)
	for _, n := range h {
		total += n
	}
	want, seen := uint64(q*float64(total)), uint64(0)
	for i, n := range h {
		if seen += n; seen > want {
			e := i / 16
			return time.Duration(uint64(16+i%16)<<e + uint64(1)<<e/2)
		}
	}
	return 0
}
