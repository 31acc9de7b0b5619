package backend

import (
	"errors"
	"fmt"
	"strconv"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"braid/internal/mysql"
)

// Decision is how a transaction over several nodes ends.
type Decision string

const (
	// Undecided is the absence of a decision.
	Undecided Decision = ""
	// DecidedCommit and DecidedRollback are what braid.decision holds.
	DecidedCommit   Decision = "commit"
	DecidedRollback Decision = "rollback"
)

// branchesMax is how much a decision row can name, in bytes. legsMax is how many nodes
// a transaction may be on, so that they fit: an sql_mode that is not strict would cut
// the rest off.
const (
	branchesMax = 8000
	legsMax     = 160
)

// ownTables makes what Braid keeps on each node. created is in seconds since
// 1970; branches names the nodes that had a branch that wrote, separated by spaces:
// by their identities in the row of an ordinary first leg, by the bquals of the
// branches in a branch's own. It is empty in a row that a recoverer wrote.
var ownTables = []string{
	"CREATE DATABASE IF NOT EXISTS braid",
	"CREATE TABLE IF NOT EXISTS braid.node (" +
		"id TINYINT UNSIGNED NOT NULL PRIMARY KEY, " +
		"cluster VARBINARY(32) NOT NULL, " +
		"identity VARBINARY(32) NOT NULL, " +
		"predecessors VARBINARY(4000) NOT NULL DEFAULT '') ENGINE=InnoDB",
	"CREATE TABLE IF NOT EXISTS braid.decision (" +
		"gtrid VARBINARY(64) NOT NULL PRIMARY KEY, " +
		"decision VARCHAR(8) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, " +
		"branches VARBINARY(" + strconv.Itoa(branchesMax) + ") NOT NULL, " +
		"created BIGINT UNSIGNED NOT NULL) ENGINE=InnoDB",
}

// decisionText inserts the decision of a commit; branches is as in the table. The leg's session may have
// its clock set (SET timestamp), so the time is a literal; it only has to be
// roughly right.
func decisionText(gtrid, branches string, created int64) string {
	return "INSERT INTO braid.decision (gtrid,decision,branches,created) VALUES ('" + gtrid + "','" + string(DecidedCommit) +
		"','" + branches + "'," + strconv.FormatInt(created, 10) + ")"
}

// errFenceBusy says that a fence could not be put up yet: an uncommitted
// decision row is in its way (rule T5). It decides nothing.
var errFenceBusy = errors.New("the decision is being written")

// fence decides a transaction: it returns the decision that is there, or makes
// it 'rollback' (rule T5). c is a connection of Braid's own to the decider,
// outside any transaction, with autocommit on.
func fence(c *Conn, gtrid string) (Decision, error) {
	_, err := c.Exec("INSERT INTO braid.decision (gtrid,decision,branches,created) VALUES ('" + gtrid + "','" +
		string(DecidedRollback) + "','',UNIX_TIMESTAMP())")
	if err == nil {
		return DecidedRollback, nil
	}
	var e *mysql.Error
	if !errors.As(err, &e) {
		return Undecided, err
	}
	switch e.Code {
	case gomysql.ER_DUP_ENTRY:
	case gomysql.ER_LOCK_WAIT_TIMEOUT, gomysql.ER_LOCK_DEADLOCK:
		return Undecided, errFenceBusy
	default:
		return Undecided, fmt.Errorf("node %s: deciding %s: %w", c.node.name, gtrid, err)
	}
	d, err := readDecision(c, gtrid)
	if err == nil && d == Undecided {
		return Undecided, errFenceBusy // deleted meanwhile
	}
	return d, err
}

// readDecision looks for a decision without making one.
func readDecision(c *Conn, gtrid string) (Decision, error) {
	rows, err := c.Query("SELECT decision FROM braid.decision WHERE gtrid='"+gtrid+"'", 1)
	if err != nil {
		return Undecided, fmt.Errorf("node %s: reading the decision of %s: %w", c.node.name, gtrid, err)
	}
	if len(rows) == 0 {
		return Undecided, nil
	}
	switch d := Decision(rows[0][0]); d {
	case DecidedCommit, DecidedRollback:
		return d, nil
	default:
		return Undecided, fmt.Errorf("node %s: braid.decision says %q of %s", c.node.name, d, gtrid)
	}
}
