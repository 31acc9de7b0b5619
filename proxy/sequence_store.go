package proxy

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"braid/backend"
	"braid/internal/mysql"
	"braid/router"
)

// idSource is where a table's sequence is kept, and where its rows are.
type idSource struct {
	database string
	table    *router.Table
	base     *databaseBase
	shards   []router.Shard
}

func (src *idSource) key() sequenceKey { return sequenceKey{src.database, src.table.Name} }

// sequenceTables make what sequences are kept in. next is the first id that
// nobody has; owner the Braid that took the last block, and shared says that
// another one took blocks too, which may still hold ids.
func sequenceTables() []string {
	return []string{
		"CREATE DATABASE IF NOT EXISTS braid",
		"CREATE TABLE IF NOT EXISTS braid.sequence (" +
			"db VARBINARY(256) NOT NULL, tbl VARBINARY(256) NOT NULL, " +
			"next BIGINT UNSIGNED NOT NULL, " +
			"owner VARBINARY(32) NOT NULL, " +
			"shared TINYINT NOT NULL DEFAULT 0, " +
			"PRIMARY KEY (db, tbl)) ENGINE=InnoDB",
	}
}

// where is the condition for a sequence's row.
func (k sequenceKey) where() string {
	return " WHERE db=x'" + hex.EncodeToString([]byte(k.database)) + "' AND tbl=x'" + hex.EncodeToString([]byte(k.table)) + "'"
}

// own opens a connection for a sequence's row alone: what is done on it commits
// at once, whatever transaction the ids are for.
func (src *idSource) own(ctx context.Context) (*backend.Conn, error) {
	return src.base.nodes[0].Own(ctx, sequenceTimeout)
}

// fetch takes a block of n ids, none below floor.
func (src *idSource) fetch(ctx context.Context, owner string, n, floor uint64) (idBlock, error) {
	c, err := src.own(ctx)
	if err != nil {
		return idBlock{}, err
	}
	defer c.Close()
	take := "UPDATE braid.sequence SET shared=IF(owner='" + owner + "',shared,1), owner='" + owner +
		"', next=LAST_INSERT_ID(GREATEST(next," + strconv.FormatUint(floor, 10) + "))+" + strconv.FormatUint(n, 10) + src.key().where()
	for range 3 {
		ok, err := c.Exec(take)
		switch {
		case missingTable(err):
			for _, text := range sequenceTables() {
				if _, err := c.Exec(text); err != nil {
					return idBlock{}, fmt.Errorf("making braid.sequence: %w", err)
				}
			}
		case err != nil:
			return idBlock{}, err
		case ok.AffectedRows > 0:
			return idBlock{ok.InsertID, ok.InsertID + n}, nil
		}
		start, err := src.start(ctx)
		if err != nil {
			return idBlock{}, err
		}
		if _, err := c.Exec("INSERT IGNORE INTO braid.sequence (db,tbl,next,owner) VALUES (x'" + hex.EncodeToString([]byte(src.database)) + "',x'" +
			hex.EncodeToString([]byte(src.table.Name)) + "'," + strconv.FormatUint(start, 10) + ",'" + owner + "')"); err != nil {
			return idBlock{}, err
		}
	}
	return idBlock{}, errors.New("braid.sequence keeps no row for the table")
}

func missingTable(err error) bool {
	var e *mysql.Error
	return errors.As(err, &e) && (e.Code == gomysql.ER_NO_SUCH_TABLE || e.Code == gomysql.ER_BAD_DB_ERROR)
}

// start is the first id that no shard has used and that no AUTO_INCREMENT
// option of the table excludes.
func (src *idSource) start(ctx context.Context) (uint64, error) {
	start := uint64(1)
	for i := range src.shards {
		n, err := src.startOn(ctx, i)
		if err != nil {
			return 0, fmt.Errorf("shard %s: %w", src.shards[i].Name, err)
		}
		start = max(start, n)
	}
	return start, nil
}

func (src *idSource) startOn(ctx context.Context, shard int) (uint64, error) {
	node, schema := src.base.nodes[shard], src.shards[shard].Schema
	c, err := node.Own(ctx, sequenceTimeout)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	rows, err := c.Query("SELECT MAX("+ident(src.table.Columns[src.table.AutoIncrement].Name)+") FROM "+ident(schema)+"."+ident(src.table.Name), 1)
	if err != nil {
		return 0, err
	}
	start := uint64(1)
	if v := rows[0][0]; len(v) > 0 && v[0] != '-' {
		start = parseUint(v) + 1
	}
	if !node.MariaDB() {
		if _, err := c.Exec("SET SESSION information_schema_stats_expiry=0"); err != nil {
			return 0, err
		}
	}
	rows, err = c.Query("SELECT AUTO_INCREMENT FROM information_schema.TABLES WHERE TABLE_SCHEMA="+quote(schema)+" AND TABLE_NAME="+quote(src.table.Name), 1)
	if err != nil {
		return 0, err
	}
	if len(rows) > 0 {
		start = max(start, parseUint(rows[0][0]))
	}
	return start, nil
}

// forget takes a sequence's row away, so that it begins anew; where another
// Braid may still hold ids of it, it goes on instead.
func (src *idSource) forget(ctx context.Context, owner string) error {
	c, err := src.own(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.Exec("DELETE FROM braid.sequence" + src.key().where() + " AND shared=0 AND owner='" + owner + "'")
	if missingTable(err) {
		return nil
	}
	return err
}

// raise moves a sequence past what the table's shards say. With exact, after
// ALTER TABLE, it goes on right there, unless another Braid may hold ids beyond.
func (src *idSource) raise(ctx context.Context, owner string, exact bool) error {
	start, err := src.start(ctx)
	if err != nil {
		return err
	}
	c, err := src.own(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	at := strconv.FormatUint(start, 10)
	next := "GREATEST(next," + at + ")"
	if exact {
		next = "IF(shared=0 AND owner='" + owner + "'," + at + "," + next + ")"
	}
	_, err = c.Exec("UPDATE braid.sequence SET next=" + next + src.key().where())
	if missingTable(err) {
		return nil
	}
	return err
}
