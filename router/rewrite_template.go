package router

import (
	"sort"
	"strconv"
	"strings"
)

// segKind is what a segment of a template puts into a text.
type segKind uint8

const (
	segText     segKind = iota
	segHole             // the client's literals of hole n
	segName             // the same inside of back quotes
	segLimit            // the limit for a shard: count + offset
	segPage             // the LIMIT of a paged text, if it has one
	segPart             // which of the targets the text is for
	segFact             // one of the session's facts
	segSystem           // what stands for a table of information_schema
	segRows             // all rows of a folded VALUES list, of which each is alt
	segID               // the row's id from a sequence, or, where it has its own, alt
	segComputed         // value n of those a node made for the row
)

// fact is a session's fact that stands in for a function.
type fact uint8

const (
	factDatabase fact = iota
	factConnectionID
	factUser
	factCurrentUser
	factVersion
	factLastInsertID
	factRowCount
	factFoundRows
	factWarningCount
	factErrorCount
	factAutocommit
	factReadFence
	factMetadata
	factLockOwner // of IS_USED_LOCK(): the WHENs of a CASE
)

type segment struct {
	kind segKind
	text string
	n    int // hole, fact, or value
	alt  template
}

// template is a statement's text with places that are filled when it is bound.
type template []segment

func (t template) String() string {
	var b strings.Builder
	for _, s := range t {
		switch s.kind {
		case segText:
			b.WriteString(s.text)
		case segHole, segName:
			b.WriteString("{" + strconv.Itoa(s.n) + "}")
		case segLimit:
			b.WriteString("{limit}")
		case segPage:
			b.WriteString("{page}")
		case segPart:
			b.WriteString("{part}")
		case segSystem:
			b.WriteString("{" + s.text + "}")
		case segFact:
			b.WriteString("{" + factNames[s.n] + "}")
		case segRows:
			b.WriteString("{rows}")
		case segID:
			b.WriteString("{id}")
		case segComputed:
			b.WriteString("{computed}")
		}
	}
	return b.String()
}

var factNames = [...]string{"DATABASE()", "CONNECTION_ID()", "USER()", "CURRENT_USER()", "VERSION()", "LAST_INSERT_ID()", "ROW_COUNT()", "FOUND_ROWS()", "@@warning_count", "@@error_count", "@@autocommit", "@@braid_read_fence", "@@resultset_metadata", "lock owners"}

// text appends literal text to a template.
func (t template) add(s string) template {
	if s == "" {
		return t
	}
	if n := len(t); n > 0 && t[n-1].kind == segText {
		t[n-1].text += s
		return t
	}
	return append(t, segment{kind: segText, text: s})
}

// edit replaces shape.text[start:end] by a template.
type edit struct {
	start, end int
	with       template
}

// whole is the template of the whole text with the edits applied, with all rows of
// a folded VALUES list.
func (s *shape) whole(edits []edit) template {
	if s.row[1] == 0 {
		return s.slice(0, len(s.text), edits)
	}
	t := s.slice(0, s.row[0], edits)
	t = append(t, segment{kind: segRows, alt: s.slice(s.row[0], s.row[1], edits)})
	return append(t, s.slice(s.row[1], len(s.text), edits)...)
}

// slice is the template of the shape's text[a:b] with the edits in it applied.
func (s *shape) slice(a, b int, edits []edit) template {
	var t template
	for _, e := range edits {
		if e.start < a || e.end > b {
			continue
		}
		t = append(t, s.plain(a, e.start)...)
		t = append(t, e.with...)
		a = e.end
	}
	t = append(t, s.plain(a, b)...)
	out := make(template, 0, len(t))
	for _, seg := range t {
		if seg.kind == segText {
			out = out.add(seg.text)
		} else {
			out = append(out, seg)
		}
	}
	return out
}

// plain is the template of the shape's text[a:b].
func (s *shape) plain(a, b int) template {
	if a >= b {
		return nil
	}
	var t template
	i := sort.Search(len(s.spans), func(i int) bool { return s.spans[i].start >= a })
	for ; i < len(s.spans) && s.spans[i].end <= b; i++ {
		sp := s.spans[i]
		t = t.add(s.text[a:sp.start])
		t = append(t, segment{kind: segHole, n: sp.hole})
		a = sp.end
	}
	return t.add(s.text[a:b])
}

// sortEdits orders edits by place; overlapping ones keep the outer.
func sortEdits(edits []edit) []edit {
	sort.SliceStable(edits, func(i, j int) bool {
		if edits[i].start != edits[j].start {
			return edits[i].start < edits[j].start
		}
		return edits[i].end > edits[j].end
	})
	out := edits[:0]
	end := -1
	for _, e := range edits {
		if e.start < end {
			continue
		}
		out = append(out, e)
		end = e.end
	}
	return out
}

// quoteName turns a template into one that writes its text as a quoted
// identifier: the column's name as the server would take it from the text.
func quoteName(t template) template {
	out := template{}.add("`")
	for _, s := range t {
		switch s.kind {
		case segText:
			out = out.add(strings.ReplaceAll(s.text, "`", "``"))
		case segHole:
			out = append(out, segment{kind: segName, n: s.n})
		}
	}
	return out.add("`")
}
