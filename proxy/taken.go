package proxy

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"braid/backend"
	"braid/internal/mysql"
	"braid/router"
)

// errTaken is an INSERT that one of the ids given to it was taken for, before its
// client was told anything and with nothing left of it: it may be tried with
// other ids.
var errTaken = errors.New("an id that was given is taken: the statement may be tried with others")

// takenTries is how often an INSERT is tried with other ids: more than one is
// needed only while clients of other Braids go on taking ids of our block.
const takenTries = 10

// insert runs an INSERT whose ids Braid may give. An id of our block is taken
// when a client of another Braid named it itself: the sequence is moved past all
// ids there are, and the statement tried again (rule W1).
func (s *Session) insert(plan *router.Plan, q *router.Query, ps *execution) error {
	outer := s.newIDs
	defer func() { s.newIDs = outer }()
	for n := 0; ; n++ {
		s.newIDs = n < takenTries
		err := s.runPlan(plan, q, ps)
		if err != errTaken {
			return err
		}
		if err := s.skipTaken(plan); err != nil {
			return s.failErr(err)
		}
		s.srv.stats.retried.Add(1)
	}
}

func (s *Session) skipTaken(plan *router.Plan) error {
	return s.srv.sequences.skip(s.context, s.idSource(plan.Database, plan.IDs))
}

// skip moves this Braid's part of a sequence past all ids that rows have.
func (q *sequences) skip(wait waiting, src *idSource) error {
	ctx, cancel := wait()
	defer cancel()
	s := q.lookup(src.key())
	s.mu.Lock()
	defer s.mu.Unlock()
	start, err := src.start(ctx)
	if err != nil || s.dead || start <= s.block.next {
		return err
	}
	return q.more(wait, s, src, 1, start)
}

// isTaken tells whether the error that an INSERT ended with is of an id that
// Braid gave it, and the statement may be tried again.
func (s *Session) isTaken(plan *router.Plan, err error) bool {
	var e *mysql.Error
	if !s.newIDs || plan.Rows || plan.IDs == nil || s.query.Made == nil || !errors.As(err, &e) || e.Code != gomysql.ER_DUP_ENTRY {
		return false
	}
	// Duplicate entry 'a-17' for key ...: the values of the key's columns.
	_, entry, _ := strings.Cut(e.Message, "'")
	if i := strings.LastIndex(entry, "' for key"); i >= 0 {
		entry = entry[:i]
	}
	for value := range strings.SplitSeq(entry, "-") {
		if id, err := strconv.ParseUint(value, 10, 64); err == nil && id != 0 && slices.Contains(s.query.Made.IDs, id) {
			return true
		}
	}
	return false
}

// checkTaken looks for the ids given to a REPLACE, INSERT IGNORE or INSERT ... ON
// DUPLICATE KEY UPDATE before it runs: no error would tell that another's row was
// replaced, changed, or kept in place of the new one. So it does for RETURNING,
// whose client may have got rows before an error comes.
func (s *Session) checkTaken(plan *router.Plan) error {
	careful := plan.Ignore || plan.OnDuplicate || plan.Rows || plan.Verb == "REPLACE"
	if plan.IDs == nil || s.route.FirstID == 0 || plan.IDs.Sequence == "snowflake" || !careful {
		return nil
	}
	text := " WHERE " + ident(plan.IDs.Columns[plan.IDs.AutoIncrement].Name) + " IN (" + idList(s.query.Made.IDs) + ") LIMIT 1"
	for i := range s.route.Targets {
		p := s.place(plan, s.route.Targets[i].Shard)
		found, err := s.holds(&p, plan.IDs.Name, text)
		if err != nil {
			return err
		}
		if found && s.newIDs {
			return errTaken
		}
		if found {
			return mysql.Errorf(1105, "ids for table %s could not be had: others name them faster than they are given", plan.IDs.Name)
		}
	}
	return nil
}

// holds tells whether a shard's table has rows: in a transaction of its own, which
// leaves no snapshot to whoever gets the connection next, or, as the session may
// have locked the table, on the connection that it keeps, with a lock, which sees
// what is newer than its transaction.
func (s *Session) holds(p *place, table, where string) (found bool, err error) {
	text := "SELECT 1 FROM " + ident(p.schema) + "." + ident(table) + where
	kept := s.pinned(p.node) != nil
	err = s.onPlace(p, func(c *backend.Conn, need *backend.Need) error {
		if kept {
			text += " LOCK IN SHARE MODE"
		} else {
			need.Autocommit = true
		}
		if err := c.Bring(need); err != nil {
			return err
		}
		rows, err := c.Query(text, 1)
		found = len(rows) > 0
		return err
	})
	return found, err
}

// idList writes the ids that were given.
func idList(ids []uint64) string {
	var b strings.Builder
	for _, id := range ids {
		if id != 0 {
			if b.Len() > 0 {
				b.WriteByte(',')
			}
			b.WriteString(strconv.FormatUint(id, 10))
		}
	}
	return b.String()
}
