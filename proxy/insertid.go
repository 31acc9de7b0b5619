package proxy

import (
	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"braid/backend"
	"braid/internal/mysql"
	"braid/router"
)

// insertedFirst finds out which of the ids that Braid gave an INSERT is the
// first one that a row has: it is what the client's OK and LAST_INSERT_ID()
// say. legs are where the rows went. It is 0 when none was inserted. sum is the
// whole statement's OK.
func (s *Session) insertedFirst(plan *router.Plan, rows int, duplicates uint64, sum *mysql.OK, legs []insertLeg) (uint64, error) {
	first := s.route.FirstID
	if first == 0 || !plan.Ignore && !plan.OnDuplicate {
		return first, nil
	}
	if rows == 1 {
		switch {
		case sum.AffectedRows != 1:
			return 0, nil // the row that was there stayed
		case s.caps&gomysql.CLIENT_FOUND_ROWS == 0:
			return first, nil
		}
	} else if duplicates == 0 {
		return first, nil
	}
	least := uint64(0)
	for _, l := range legs {
		column := ident(plan.IDs.Columns[plan.IDs.AutoIncrement].Name)
		got, err := l.c.Query("SELECT MIN("+column+") FROM "+ident(l.p.schema)+"."+ident(plan.IDs.Name)+" WHERE "+column+" IN ("+idList(s.query.Made.IDs)+")", 1)
		if err != nil {
			return 0, err
		}
		if id := parseUint(got[0][0]); id != 0 && (least == 0 || id < least) {
			least = id
		}
	}
	return least, nil
}

// insertLeg is one place that rows of an INSERT went to.
type insertLeg struct {
	c *backend.Conn
	p place
}

// given notes the insert id of an INSERT on one shard whose ids Braid gave.
func (s *Session) given(plan *router.Plan, c *backend.Conn, p *place, t *router.Target, ok *mysql.OK) error {
	if plan.IDs == nil || s.route.FirstID == 0 {
		return nil
	}
	var info infoSum
	info.add(ok.Info)
	first, err := s.insertedFirst(plan, t.Rows, info.duplicates, ok, []insertLeg{{c, *p}})
	if err != nil || first == 0 {
		return err
	}
	ok.InsertID, s.facts.LastInsertID = first, first
	return nil
}
