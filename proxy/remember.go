package proxy

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"

	"braid/backend"
	"braid/conf"
	"braid/router"
)

// What the Braids in front of a database know together of its schema is kept on
// the node of its first shard, in schema braid:
//
//   - braid.schema_version counts the changes made through any of them.
//   - braid.placement has the rules of the tables that no configuration names.
//     A row with dropped set is of a table that is no more: see schemaLag.
//   - braid.ddl has the changes that are under way or have failed on some shards.
func schemaTables() []string {
	return []string{
		"CREATE DATABASE IF NOT EXISTS braid",
		"CREATE TABLE IF NOT EXISTS braid.schema_version (db VARBINARY(256) NOT NULL PRIMARY KEY, version BIGINT UNSIGNED NOT NULL) ENGINE=InnoDB",
		"CREATE TABLE IF NOT EXISTS braid.placement (db VARBINARY(256) NOT NULL, tbl VARBINARY(256) NOT NULL, " +
			"rule VARBINARY(16000) NOT NULL, dropped BIGINT UNSIGNED, PRIMARY KEY (db, tbl)) ENGINE=InnoDB",
		"CREATE TABLE IF NOT EXISTS braid.ddl (id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, db VARBINARY(256) NOT NULL, " +
			"statement LONGBLOB NOT NULL, work LONGBLOB NOT NULL, done VARBINARY(16000) NOT NULL, error VARBINARY(4000) NOT NULL, " +
			"began BIGINT UNSIGNED NOT NULL) ENGINE=InnoDB",
	}
}

// literal is a string as a literal that means the same in every session.
func literal(s string) string {
	if s == "" {
		return "''"
	}
	return "x'" + hex.EncodeToString([]byte(s)) + "'"
}

// tableRule is a conf.Table as braid.placement keeps it.
type tableRule struct {
	Kind        string           `json:"kind"`
	Key         []string         `json:"key,omitempty"`
	Function    string           `json:"function,omitempty"`
	Ranges      []conf.RangePart `json:"ranges,omitempty"`
	Lists       []conf.ListPart  `json:"lists,omitempty"`
	Colocated   string           `json:"colocated,omitempty"`
	Shard       string           `json:"shard,omitempty"`
	Sequence    string           `json:"sequence,omitempty"`
	UniqueCheck string           `json:"unique_check,omitempty"`
	// At are the positions that the key's columns had when the table was made, or
	// dropped: a Braid that knows the name with other positions must not use it.
	At []int `json:"at,omitempty"`
}

func ruleText(p *router.TablePlace) (string, error) {
	t := &p.Rule
	b, err := json.Marshal(tableRule{t.Kind, t.Key, t.Function, t.Ranges, t.Lists, t.Colocated, t.Shard, t.Sequence, t.UniqueCheck, p.Keys})
	return string(b), err
}

func parseRule(table string, text []byte) (conf.Table, error) {
	var r tableRule
	if err := json.Unmarshal(text, &r); err != nil {
		return conf.Table{}, fmt.Errorf("braid.placement, table %s: %w", table, err)
	}
	return conf.Table{Name: table, Kind: r.Kind, Key: r.Key, Function: r.Function, Ranges: r.Ranges, Lists: r.Lists,
		Colocated: r.Colocated, Shard: r.Shard, Sequence: r.Sequence, UniqueCheck: r.UniqueCheck}, nil
}

// schemaVersion is how often a database's schema was changed through Braid.
func schemaVersion(c *backend.Conn, db string) (uint64, error) {
	rows, err := c.Query("SELECT version FROM braid.schema_version WHERE db="+literal(db), 1)
	if missingTable(err) || err == nil && len(rows) == 0 {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return parseUint(rows[0][0]), nil
}

// rememberedRules are the rules of a database's tables that were made through
// Braid and are still there, as far as Braid knows.
func rememberedRules(c *backend.Conn, db string) ([]conf.Table, error) {
	rows, err := c.Query("SELECT tbl,rule FROM braid.placement WHERE db="+literal(db)+" AND dropped IS NULL ORDER BY tbl", tablesMax)
	if missingTable(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []conf.Table
	for _, r := range rows {
		t, err := parseRule(string(r[0]), r[1])
		if err != nil {
			return nil, err
		}
		out = append(out, t)
	}
	return out, nil
}

// placementRow is a row of braid.placement.
type placementRow struct {
	rule    string
	dropped bool
	age     uint64 // seconds since it was dropped, by the node's clock
}

func readPlacement(c *backend.Conn, db, table string) (*placementRow, error) {
	rows, err := c.Query("SELECT rule,dropped IS NOT NULL,GREATEST(0,CAST(UNIX_TIMESTAMP() AS SIGNED)-CAST(COALESCE(dropped,UNIX_TIMESTAMP()) AS SIGNED)) FROM braid.placement"+placementOf(db, table), 1)
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	return &placementRow{string(rows[0][0]), string(rows[0][1]) == "1", parseUint(rows[0][2])}, nil
}

func placementOf(db, table string) string {
	return " WHERE db=" + literal(db) + " AND tbl=" + literal(table)
}

func writePlacement(db, table, rule string) string {
	return "INSERT INTO braid.placement (db,tbl,rule) VALUES (" + literal(db) + "," + literal(table) + "," + literal(rule) +
		") ON DUPLICATE KEY UPDATE rule=" + literal(rule) + ",dropped=NULL"
}

func dropPlacement(db, table string) string {
	return "UPDATE braid.placement SET dropped=UNIX_TIMESTAMP()" + placementOf(db, table)
}

// entomb writes down that a table is no more, and where its rows were.
func entomb(db, table, rule string) string {
	return "INSERT INTO braid.placement (db,tbl,rule,dropped) VALUES (" + literal(db) + "," + literal(table) + "," + literal(rule) +
		",UNIX_TIMESTAMP()) ON DUPLICATE KEY UPDATE rule=" + literal(rule) + ",dropped=UNIX_TIMESTAMP()"
}

func bumpVersion(db string) string {
	return "INSERT INTO braid.schema_version (db,version) VALUES (" + literal(db) + ",1) ON DUPLICATE KEY UPDATE version=version+1"
}

// deadlocksMax is how often a transaction of Braid's own in schema braid is begun
// again after a deadlock: schema changes of several tables at once lock gaps there.
const deadlocksMax = 100

// execAll runs statements of Braid's own in one transaction.
func execAll(c *backend.Conn, texts ...string) error {
	texts = append(append([]string{"START TRANSACTION"}, texts...), "COMMIT")
	var err error
	for range deadlocksMax {
		if err = execOnce(c, texts); !isDeadlock(err) {
			return err
		}
	}
	return err
}

func execOnce(c *backend.Conn, texts []string) error {
	for _, text := range texts {
		if _, err := c.Exec(text); err != nil {
			_, _ = c.Exec("ROLLBACK") // the connection may be gone, and the transaction with it
			return err
		}
	}
	return nil
}

func decimal(n uint64) string { return strconv.FormatUint(n, 10) }
