package mysql

import (
	"bytes"
	"io"
	"testing"
	"testing/iotest"
)

// pieces is a connection that gives its bytes one at a time, or as many as asked for.
type pieces struct {
	sink
	r io.Reader
}

func (p *pieces) Read(b []byte) (int, error) { return p.r.Read(b) }

// FuzzPackets: the packets read from any bytes do not depend on the pieces they
// come in, hold no byte that was not sent, and keep to the limit.
func FuzzPackets(f *testing.F) {
	f.Add([]byte{1, 0, 0, 0, 14})
	f.Add([]byte{2, 0, 0, 0, 3, 'x', 0, 0, 0, 1, 1, 0, 0, 2, 9})
	f.Add([]byte{0xff, 0xff, 0xff, 0, 1, 2, 3})
	f.Add([]byte{1, 0, 0, 5, 14})
	f.Add(append([]byte{0, 0, 2, 0}, bytes.Repeat([]byte("y"), 1<<17)...))
	f.Fuzz(func(t *testing.T, stream []byte) {
		const limit = 100_000
		read := func(r io.Reader) (payloads [][]byte, end string) {
			c := NewConn(&pieces{r: r}, ClientSide, limit)
			defer c.Idle()
			for {
				p, err := c.ReadPacket()
				if err != nil {
					return payloads, err.Error()
				}
				if len(p) > limit {
					t.Fatalf("%d bytes over a limit of %d", len(p), limit)
				}
				payloads = append(payloads, bytes.Clone(p))
			}
		}
		whole, end := read(bytes.NewReader(stream))
		slow, slowEnd := read(iotest.OneByteReader(bytes.NewReader(stream)))
		if end != slowEnd || len(whole) != len(slow) {
			t.Fatalf("%d packets, then %s; in pieces %d, then %s", len(whole), end, len(slow), slowEnd)
		}
		at := 0
		for i, p := range whole {
			if !bytes.Equal(p, slow[i]) {
				t.Fatalf("packet %d differs in pieces", i)
			}
			if !bytes.Equal(p, stream[at+4:at+4+len(p)]) {
				t.Fatalf("packet %d is not what was sent", i)
			}
			at += 4 + len(p)
		}
	})
}
