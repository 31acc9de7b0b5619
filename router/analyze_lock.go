package router

import (
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"
)

// shareLocks gives the parser MariaDB's LOCK IN SHARE MODE with NOWAIT, SKIP
// LOCKED or WAIT n, which it does not know, as the FOR SHARE it knows, of the
// same length. Only the parser sees it: the text for the nodes stays.
func (s *shape) shareLocks(text string, flavour Flavour) string {
	if flavour != MariaDB {
		return text
	}
	is := func(i int, words ...string) bool {
		for k, w := range words {
			if i+k >= len(s.toks) || s.toks[i+k].word(s.text) != w {
				return false
			}
		}
		return true
	}
	var b []byte
	for i := range s.toks {
		if !is(i, "LOCK", "IN", "SHARE", "MODE") {
			continue
		}
		end := s.toks[i+3].end
		switch {
		case is(i+4, "NOWAIT"), is(i+4, "SKIP", "LOCKED"):
		case is(i+4, "WAIT") && i+5 < len(s.toks) && s.toks[i+5].kind == tokNumber:
			end = s.toks[i+5].end
		default:
			continue
		}
		if b == nil {
			b = []byte(text)
		}
		clause := b[s.toks[i].start:end]
		copy(clause, "FOR SHARE"+strings.Repeat(" ", len(clause)))
	}
	if b == nil {
		return text
	}
	return string(b)
}

// skipsUpToLimit tells whether a SELECT passes over locked rows and ends at a
// LIMIT of rows. Over several shards it is refused: each shard would lock as many
// rows as the LIMIT says, and those that are then not in the answer would be
// missing from the answer of the next who skips.
func skipsUpToLimit(sel *ast.SelectStmt) bool {
	if sel.LockInfo == nil || sel.Limit == nil || sel.GroupBy != nil {
		return false
	}
	switch sel.LockInfo.LockType {
	case ast.SelectLockForUpdateSkipLocked, ast.SelectLockForShareSkipLocked:
		return true
	}
	return false
}
