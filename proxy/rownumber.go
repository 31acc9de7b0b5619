package proxy

import (
	"strconv"
	"strings"

	"braid/router"
)

// atRow is how a server ends the text of what is wrong with a row of an INSERT.
const atRow = " at row "

// renumber puts the statement's own row number into a text about the n-th row
// that one shard got.
func (s *Session) renumber(text string, t *router.Target) string {
	i := strings.LastIndex(text, atRow)
	if i < 0 {
		return text
	}
	n, err := strconv.Atoi(text[i+len(atRow):])
	if err != nil {
		return text
	}
	return text[:i+len(atRow)] + strconv.Itoa(s.route.Row(t, n))
}

// ofRows is the warnings without those that are of the statement's text: a
// statement that is split has these once.
func ofRows(list []warning) []warning {
	var out []warning
	for _, w := range list {
		if !ofText(w.code) {
			out = append(out, w)
		}
	}
	return out
}
