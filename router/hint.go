package router

import (
	"bytes"
	"strings"
	"time"

	"braid/conf"
	"braid/internal/mysql"
)

// Hints are what a statement's comments /*braid ...*/ ask of Braid.
type Hints struct {
	// Shard runs the statement on the shard of that name, whatever its values say.
	Shard string
	// Scatter runs it on every shard, whatever its values say.
	Scatter bool
	// Timeout bounds the statement; 0: the configuration does.
	Timeout time.Duration
	// Primary reads from primaries only.
	Primary bool
	// Isolation is "", "READ-COMMITTED", ...: of this statement's transaction, if
	// it has one of its own, or of the transaction it begins.
	Isolation string
	// ReadFence reads behind the fence (rule T16): this statement, if it has a
	// transaction of its own, or all of the transaction it begins.
	ReadFence bool
	// Place is where a CREATE TABLE or CREATE VIEW is to put the rows; nil: nothing
	// says so. Its Name and Shard are empty.
	Place *conf.Table
	// Unknown are the words that mean nothing; the client is warned of them.
	Unknown []string
}

// hintOpening begins a comment that holds hints.
const hintOpening = "/*braid"

// ReadHints reads a statement's hints. It costs a search for the opening where
// there are none.
func ReadHints(text []byte, mode Mode, charset string) Hints {
	var h Hints
	if !bytes.Contains(text, []byte(hintOpening)) {
		return h
	}
	toks := tokenize(string(text), mode, charset)
	creates := len(toks) > 0 && toks[0].word(string(text)) == "CREATE"
	for at := 0; ; {
		i := bytes.Index(text[at:], []byte(hintOpening))
		if i < 0 {
			return h
		}
		start := at + i + len(hintOpening)
		at = start
		end := bytes.Index(text[start:], []byte("*/"))
		if end < 0 || end > 0 && !isSpace(text[start]) || inToken(toks, start-1) {
			continue
		}
		at = start + end + len("*/")
		for _, word := range strings.Fields(string(text[start : start+end])) {
			if !creates || !h.placement(word) {
				h.word(word)
			}
		}
	}
}

// placement reads a word that says where a new table's rows go; it is false
// when the word says something else.
func (h *Hints) placement(word string) bool {
	var p conf.Table
	if h.Place != nil {
		p = *h.Place
	}
	key, value, has := strings.Cut(word, "=")
	switch key = strings.ToLower(key); {
	case key == "key" && value != "":
		p.Kind, p.Key = "sharded", strings.Split(value, ",")
	case (key == "global" || key == "single") && !has:
		p.Kind = key
	case key == "function" && (value == "hash" || value == "mod"):
		p.Function = value
	case key == "colocated" && value != "":
		p.Colocated = value
	case key == "unique_check" && (value == "none" || value == "lock"):
		p.UniqueCheck = value
	case key == "sequence" && (value == "block" || value == "snowflake"):
		p.Sequence = value
	default:
		return false
	}
	h.Place = &p
	return true
}

// inToken tells whether a place of the text is inside a token, such as a string.
func inToken(toks []token, at int) bool {
	for _, t := range toks {
		if t.start > at {
			return false
		}
		if at < t.end {
			return true
		}
	}
	return false
}

func (h *Hints) word(word string) {
	key, value, has := strings.Cut(word, "=")
	switch strings.ToLower(key) {
	case "shard":
		if has && value != "" {
			h.Shard = value
			return
		}
	case "scatter":
		if !has {
			h.Scatter = true
			return
		}
	case "primary":
		if !has {
			h.Primary = true
			return
		}
	case "read_fence":
		if !has {
			h.ReadFence = true
			return
		}
	case "timeout":
		if d, err := time.ParseDuration(value); err == nil && d > 0 {
			h.Timeout = d
			return
		}
	case "isolation":
		level := strings.ToUpper(value)
		switch level {
		case "READ-UNCOMMITTED", "READ-COMMITTED", "REPEATABLE-READ", "SERIALIZABLE":
			h.Isolation = level
			return
		}
	}
	h.Unknown = append(h.Unknown, word)
}

// hinted is the set of shards that the hints choose; ok is false where they
// choose none.
func (h *Hints) hinted(db *Database) (set ShardSet, ok bool, err error) {
	n := len(db.Shards)
	if h.Shard != "" {
		for i := range db.Shards {
			if db.Shards[i].Name == h.Shard {
				return OneShard(n, i), true, nil
			}
		}
		return set, false, mysql.Errorf(1105, "Database %s has no shard %s", db.Name, h.Shard)
	}
	return AllShards(n), h.Scatter, nil
}
