package mysql

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"testing"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"
)

// A response that is taken is the same after it was written and read again.
func FuzzHandshakeResponse(f *testing.F) {
	f.Fuzz(func(t *testing.T, p []byte, offered uint32) {
		r, err := ParseHandshakeResponse(p, offered)
		if err != nil {
			var e *Error
			if !errors.As(err, &e) || e.Code != gomysql.ER_HANDSHAKE_ERROR {
				t.Fatalf("error is %v", err)
			}
			return
		}
		if len(p) == responseHeadBytes {
			return // an SSLRequest
		}
		if r.Capabilities&offered&(gomysql.CLIENT_SECURE_CONNECTION|gomysql.CLIENT_PLUGIN_AUTH_LENENC_CLIENT_DATA) == 0 &&
			bytes.IndexByte(r.AuthResponse, 0) >= 0 {
			t.Fatalf("a string that ends with zero holds one: %q", r.AuthResponse)
		}
		again := *r
		again.Capabilities &= offered
		b := AppendHandshakeResponse(nil, &again)
		got, err := ParseHandshakeResponse(b, offered|gomysql.CLIENT_PROTOCOL_41)
		if err != nil {
			// What was allowed to be missing is written, so flags are the same; the
			// protocol's own flag may not have been offered.
			if offered&gomysql.CLIENT_PROTOCOL_41 == 0 {
				return
			}
			t.Fatalf("%+v does not parse again: %v", r, err)
		}
		if got.User != r.User || !bytes.Equal(got.AuthResponse, r.AuthResponse) || got.Database != r.Database ||
			got.AuthPlugin != r.AuthPlugin || !maps.Equal(got.Attributes, r.Attributes) || got.ZstdLevel != r.ZstdLevel ||
			got.Collation != r.Collation || got.MaxPacket != r.MaxPacket {
			t.Fatalf("%+v became %+v", r, got)
		}
	})
}

func FuzzChangeUser(f *testing.F) {
	f.Fuzz(func(t *testing.T, p []byte, caps uint32) {
		if r, ok := parseChangeUser(p, caps); ok && len(r.user)+len(r.database)+len(r.authPlugin)+len(r.authResponse) > len(p) {
			t.Fatalf("%d bytes hold %+v", len(p), r)
		}
	})
}

func FuzzGreeting(f *testing.F) {
	f.Fuzz(func(t *testing.T, p []byte) {
		g, err := ParseGreeting(p)
		if err != nil {
			if !errors.Is(err, ErrMalformed) {
				t.Fatalf("error is %v", err)
			}
			return
		}
		if g.Capabilities&gomysql.CLIENT_PLUGIN_AUTH == 0 || len(g.Salt) != saltBytes || bytes.IndexByte([]byte(g.AuthPlugin), 0) >= 0 {
			return
		}
		again, err := ParseGreeting(AppendGreeting(nil, g))
		if err != nil || again.Version != g.Version || !bytes.Equal(again.Salt, g.Salt) || again.AuthPlugin != g.AuthPlugin {
			t.Fatalf("%+v became %+v, %v", g, again, err)
		}
	})
}

// The header is the same however the bytes come, and takes no byte behind it.
func FuzzProxyHeader(f *testing.F) {
	f.Fuzz(func(t *testing.T, p []byte) {
		h, n, err := ParseProxyHeader(p)
		switch {
		case err == nil:
			if n < 15 || n > len(p) {
				t.Fatalf("%d bytes of %d", n, len(p))
			}
			r := bytes.NewReader(p)
			got, err := readProxyHeader(r)
			if err != nil || got != h || len(p)-r.Len() != n {
				t.Fatalf("parsed %+v from %d bytes, read %+v from %d: %v", h, n, got, len(p)-r.Len(), err)
			}
		case err != ErrProxyHeader && err != io.ErrUnexpectedEOF:
			t.Fatalf("error is %v", err)
		}
	})
}

// Bytes that are no frames are an error, and nothing comes out that was not
// announced.
func FuzzCompressedFrames(f *testing.F) {
	f.Fuzz(func(t *testing.T, zstd bool, p []byte) {
		algorithm := CompressZlib
		if zstd {
			algorithm = CompressZstd
		}
		announced := 0
		for q := p; len(q) >= frameHeaderBytes; {
			size, plain := int(q[0])|int(q[1])<<8|int(q[2])<<16, int(q[4])|int(q[5])<<8|int(q[6])<<16
			if plain == 0 {
				plain = size
			}
			announced += plain
			q = q[min(len(q), frameHeaderBytes+size):]
		}
		got, err := unframe(algorithm, NodeSide, p)
		if len(got) > announced {
			t.Fatalf("%d bytes came of %d announced", len(got), announced)
		}
		if err == nil && len(got) != announced {
			t.Fatalf("%d bytes came of %d announced, without an error", len(got), announced)
		}
		// What is written is read again.
		if got, err := unframe(algorithm, ClientSide, frames(t, algorithm, string(p))); err != nil || got != string(p) {
			t.Fatalf("%q became %q, %v", p, got, err)
		}
	})
}

func FuzzParseColumn(f *testing.F) {
	f.Fuzz(func(t *testing.T, p []byte) {
		c, err := ParseColumn(p)
		if err != nil {
			return
		}
		if again, err := ParseColumn(AppendColumn(nil, &c)); err != nil || again != c {
			t.Fatalf("%+v became %+v, %v", c, again, err)
		}
	})
}

func FuzzParseOK(f *testing.F) {
	f.Fuzz(func(t *testing.T, p []byte, track bool) {
		ok, err := ParseOK(p, track)
		if err != nil {
			return
		}
		b := AppendOK(nil, 0, &ok, track)
		again, err := ParseOK(b, track)
		if err != nil || again.AffectedRows != ok.AffectedRows || again.InsertID != ok.InsertID || again.Warnings != ok.Warnings ||
			again.Info != ok.Info || !bytes.Equal(again.Track, ok.Track) {
			t.Fatalf("%+v became %+v, %v", ok, again, err)
		}
	})
}

func FuzzParseError(f *testing.F) {
	f.Fuzz(func(t *testing.T, p []byte) {
		e := ParseError(p)
		if len(e.State) != 5 {
			t.Fatalf("state is %q", e.State)
		}
		if again := ParseError(AppendError(nil, e)); *again != *e {
			t.Fatalf("%+v became %+v", e, again)
		}
	})
}
