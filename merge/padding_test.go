package merge

import (
	"encoding/hex"
	"os"
	"strings"
	"testing"
)

// TestPaddingOf holds the rules against what MySQL 9.7 and MariaDB 10.11
// answered for each of their collations: name, pad attribute, WEIGHT_STRING(' '),
// and whether the weight of 'a ' is that of 'a' with that of ' ' behind it.
func TestPaddingOf(t *testing.T) {
	b, err := os.ReadFile("testdata/collations.txt")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	if len(lines) < 1000 {
		t.Fatalf("%d collations", len(lines))
	}
	for _, line := range lines {
		f := strings.Split(line, "\t")
		name, pads, weight, flat := f[0], f[1] == "PAD", f[2], f[3] == "flat"
		space, err := hex.DecodeString(weight)
		if err != nil {
			t.Fatal(err)
		}
		got := PaddingOf(name)
		switch {
		case !pads:
			if got.Mode != NoPad {
				t.Errorf("%s: %+v, want NO PAD", name, got)
			}
		case !flat || name == "tis620_thai_ci":
			if got.Mode != PadUnknown {
				t.Errorf("%s: %+v, want unknown", name, got)
			}
		case got.Mode != PadSpace || got.Space != string(space):
			t.Errorf("%s: %+v, want PAD SPACE %x", name, got, space)
		}
	}
	for _, name := range []string{"", "utf8mb4", "utf8mb4_klingon_ci", "klingon_ci", "latin7_klingon_ci", "latin1_klingon_ci"} {
		if got := PaddingOf(name); got.Mode != PadUnknown {
			t.Errorf("%q: %+v", name, got)
		}
	}
	if got := PaddingOf("UTF8_General_CI"); got.Space != "\x00\x20" {
		t.Errorf("an old name in other letters: %+v", got)
	}
}
