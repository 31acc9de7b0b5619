package mysql

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
)

// noise is text that hardly compresses.
func noise(t testing.TB, n int) string {
	t.Helper()
	r := rand.NewChaCha8([32]byte{1})
	b := make([]byte, n/2)
	r.Read(b)
	// Hex halves; letters of both halves of the alphabet would need quoting.
	return hex.EncodeToString(b)
}

// sink is a connection of which only the bytes matter: what is written is
// collected, what is read was there before.
type sink struct {
	net.Conn
	in, out bytes.Buffer
}

func (s *sink) Read(p []byte) (int, error)  { return s.in.Read(p) }
func (s *sink) Write(p []byte) (int, error) { return s.out.Write(p) }

func frames(t testing.TB, algorithm Compression, payloads ...string) []byte {
	t.Helper()
	var s sink
	c, err := NewCompressedConn(&s, NodeSide, algorithm, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range payloads {
		if n, err := c.Write([]byte(p)); n != len(p) || err != nil {
			t.Fatalf("%d of %d bytes: %v", n, len(p), err)
		}
	}
	return s.out.Bytes()
}

func unframe(algorithm Compression, side Side, b []byte) (string, error) {
	s := sink{}
	s.in.Write(b)
	c, err := NewCompressedConn(&s, side, algorithm, 0)
	if err != nil {
		return "", err
	}
	got, err := io.ReadAll(c)
	return string(got), err
}

func TestCompressedRoundTrip(t *testing.T) {
	for _, algorithm := range []Compression{CompressZlib, CompressZstd} {
		for name, payloads := range map[string][]string{
			"small":          {"x", strings.Repeat("x", 49)},
			"both":           {strings.Repeat("x", 50), "y", strings.Repeat("z", 1000)},
			"incompressible": {noise(t, 1000)[:60], "\x01\x02\x03" + noise(t, 300_000)},
			"many frames":    {strings.Repeat("abc", 1_000_000), "end"},
			"nothing":        {""},
		} {
			t.Run(fmt.Sprintf("%d/%s", algorithm, name), func(t *testing.T) {
				b := frames(t, algorithm, payloads...)
				got, err := unframe(algorithm, ClientSide, b)
				if want := strings.Join(payloads, ""); err != nil || got != want {
					t.Errorf("%d bytes came of %d: %v", len(got), len(want), err)
				}
				for _, n := range []int{1, 5, 8} {
					if len(b) <= n {
						continue
					}
					if _, err := unframe(algorithm, ClientSide, b[:len(b)-n]); !errors.Is(err, io.ErrUnexpectedEOF) {
						t.Errorf("without the last %d bytes: error is %v", n, err)
					}
				}
			})
		}
	}
}

// The form of frames, byte by byte: small ones and those that would grow travel
// as they are, with 0 for the uncompressed length.
func TestCompressedFrameForm(t *testing.T) {
	if got := frames(t, CompressZlib, "hello", "x"); string(got) != "\x05\x00\x00\x00\x00\x00\x00hello\x01\x00\x00\x01\x00\x00\x00x" {
		t.Errorf("small: %q", got)
	}
	got := frames(t, CompressZlib, strings.Repeat("x", 300))
	if size := int(got[0]) | int(got[1])<<8; size != len(got)-7 || got[3] != 0 || got[4] != 300-256 || got[5] != 1 {
		t.Errorf("compressed: % x", got)
	}
	long := frames(t, CompressZlib, strings.Repeat("x", 2*framePayloadMax+1))
	if long[len(long)-8+3] != 2 {
		t.Errorf("the third frame of three is % x", long[len(long)-8:])
	}
}

// B153: an answer's frames go on from the command's, and a command starts anew.
func TestCompressedSequence(t *testing.T) {
	var s sink
	c, err := NewCompressedConn(&s, ClientSide, CompressZlib, 0)
	if err != nil {
		t.Fatal(err)
	}
	read := func(n int) {
		t.Helper()
		if _, err := io.ReadFull(c, make([]byte, n)); err != nil {
			t.Fatal(err)
		}
	}
	s.in.WriteString("\x01\x00\x00\x00\x00\x00\x00a\x01\x00\x00\x01\x00\x00\x00b")
	read(2)
	if c.Seq() != 2 {
		t.Errorf("after two frames the next is %d", c.Seq())
	}
	c.Write([]byte("c"))
	if got := s.out.String(); got != "\x01\x00\x00\x02\x00\x00\x00c" {
		t.Errorf("the answer is %q", got)
	}
	s.in.WriteString("\x01\x00\x00\x00\x00\x00\x00d")
	read(1)
	if c.Seq() != 1 {
		t.Errorf("behind a new command's frame the next is %d", c.Seq())
	}
	s.in.WriteString("\x01\x00\x00\x05\x00\x00\x00e")
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, ErrSequence) {
		t.Errorf("a frame out of order: %v", err)
	}
	// 300 frames: the ids wrap.
	b := frames(t, CompressZlib, strings.Split(strings.Repeat("x", 300), "")...)
	if got, err := unframe(CompressZlib, ClientSide, b); err != nil || len(got) != 300 {
		t.Errorf("300 frames: %d bytes, %v", len(got), err)
	}
}

func TestBadFrames(t *testing.T) {
	good := frames(t, CompressZlib, strings.Repeat("x", 300))
	change := func(i int, by byte) []byte {
		b := bytes.Clone(good)
		b[i] += by
		return b
	}
	for name, b := range map[string][]byte{
		"longer than announced":  change(4, 0xff),
		"shorter than announced": change(4, 1),
		"no zlib":                change(7, 1),
		"broken":                 change(len(good)-1, 1),
		"garbage inside":         append(change(0, 1), 'x'),
	} {
		if got, err := unframe(CompressZlib, ClientSide, b); !errors.Is(err, ErrFrame) {
			t.Errorf("%s: %d bytes, error %v", name, len(got), err)
		}
	}
	if _, err := unframe(CompressZstd, ClientSide, good); !errors.Is(err, ErrFrame) {
		t.Errorf("zlib for zstd: %v", err)
	}
	if _, err := NewCompressedConn(nil, ClientSide, CompressNone, 0); err == nil {
		t.Error("no compression is one")
	}
}

// Both sides of Braid's, over every compression.
func TestCompressedLogins(t *testing.T) {
	for _, v := range []struct {
		compress, zstd bool
		ask, want      Compression
	}{
		{true, true, CompressZlib, CompressZlib},
		{true, true, CompressZstd, CompressZstd},
		{false, true, CompressZlib, CompressNone},
		{true, false, CompressZstd, CompressNone},
		{true, true, CompressNone, CompressNone},
	} {
		s := serve(t, "tcp", ServerOptions{Compress: v.compress, Zstd: v.zstd}, users(map[string]Credential{"u": {Password: "secret"}}))
		c, _, err := s.dial(t, ClientOptions{User: "u", Password: "secret", Compression: v.ask, ZstdLevel: 9})
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range []int{1, 1000, 500_000} {
			p, err := command(c, 3, noise(t, n))
			if err != nil || len(p) == 0 || p[0] != 0 {
				t.Fatalf("%+v: a command of %d bytes: %q, %v", v, n, p, err)
			}
		}
		quit(t, c)
		got := <-s.done
		if got.err != nil || got.login.Compression != v.want {
			t.Errorf("%+v: %+v, %v", v, got.login, got.err)
		}
		if v.want == CompressZstd && got.login.ZstdLevel != 9 {
			t.Errorf("zstd level %d", got.login.ZstdLevel)
		}
	}
}
