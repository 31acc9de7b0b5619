package backend

import (
	"crypto/rand"
	"encoding/base32"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// formatID marks the XA branches of Braid: "BRAI".
const formatID = 0x42524149

// ids are written in lower-case base 32, which is ASCII, needs no quoting and
// sorts as the bytes do (the "hex" alphabet).
var idEncoding = base32.HexEncoding.WithPadding(base32.NoPadding)

const (
	clusterChars  = 13 // 8 bytes
	identityChars = 26 // 16 bytes
	randomChars   = 13 // 8 bytes
)

func encodeID(b []byte) string { return strings.ToLower(idEncoding.EncodeToString(b)) }

func randomID(bytes int) string {
	b := make([]byte, bytes)
	_, _ = rand.Read(b) // never fails: crypto/rand ends the process instead
	return encodeID(b)
}

// identityOfUUID is a MySQL server_uuid as an identity.
func identityOfUUID(uuid string) (string, error) {
	b, err := hex.DecodeString(strings.ReplaceAll(uuid, "-", ""))
	if err != nil || len(b) != 16 {
		return "", fmt.Errorf("%q is not a server_uuid", uuid)
	}
	return encodeID(b), nil
}

// globalID names one transaction over several nodes (rule T6). Its text form,
// the gtrid, is 63 bytes of ASCII: cluster.decider.seconds.random. Texts of one
// decider sort by time, so that the decision table grows at its end.
type globalID struct {
	cluster string    // the cluster id that all nodes share
	decider string    // identity of the server that keeps the decision
	began   time.Time // when the second leg was opened, to the second
	random  string
}

func newGlobalID(cluster, decider string, now time.Time) globalID {
	return globalID{cluster, decider, time.Unix(now.Unix(), 0), randomID(8)}
}

func (g globalID) String() string {
	return g.cluster + "." + g.decider + "." + secondsText(g.began) + "." + g.random
}

// secondsText writes a time so that later ones sort behind earlier ones.
func secondsText(t time.Time) string { return fmt.Sprintf("%08x", uint32(t.Unix())) }

// parseGlobalID reads a gtrid; ok is false for one that Braid did not make.
func parseGlobalID(gtrid string) (g globalID, ok bool) {
	p := strings.Split(gtrid, ".")
	if len(p) != 4 || !isID(p[0], clusterChars) || !isID(p[1], identityChars) || len(p[2]) != 8 || !isID(p[3], randomChars) {
		return g, false
	}
	s, err := strconv.ParseUint(p[2], 16, 32)
	if err != nil {
		return g, false
	}
	return globalID{p[0], p[1], time.Unix(int64(s), 0), p[3]}, true
}

func isID(s string, chars int) bool {
	if len(s) != chars {
		return false
	}
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'v') {
			return false
		}
	}
	return true
}

// branchID is the bqual: the identity of the branch's node, and the connection
// that owns the branch there.
func branchID(node string, connection uint64) string {
	return node + "." + strconv.FormatUint(connection, 10)
}

// parseBranchID reads a bqual.
func parseBranchID(bqual string) (node string, connection uint64, ok bool) {
	node, id, found := strings.Cut(bqual, ".")
	if !found || !isID(node, identityChars) {
		return "", 0, false
	}
	connection, err := strconv.ParseUint(id, 10, 64)
	return node, connection, err == nil
}

// xidText is a branch's name as XA statements take it. Both parts are of
// Braid's own making and hold nothing to quote.
func xidText(gtrid, bqual string) string {
	return "'" + gtrid + "','" + bqual + "'," + strconv.Itoa(formatID)
}

// IsOwnFormat tells whether a branch with that format id is a Braid's.
func IsOwnFormat(id uint64) bool { return id == formatID }

// NamesOwnBranch tells whether the text of a client's XA statement may name a
// branch of Braid's: its format id stands in it, in a form that servers read as
// that number (1112686921, 01112686921, 0x42524149, x'42524149').
func NamesOwnBranch(text string) bool {
	words := strings.FieldsFunc(text, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	return slices.ContainsFunc(words, func(w string) bool {
		return isFormat(w, 10) || isFormat(w, 16) || len(w) > 2 && strings.EqualFold(w[:2], "0x") && isFormat(w[2:], 16)
	})
}

// isFormat tells whether digits of a base are the format id.
func isFormat(digits string, base int) bool {
	n, err := strconv.ParseUint(digits, base, 64)
	return err == nil && n == formatID
}
