package proxy

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"braid/backend"
	"braid/internal/mysql"
	"braid/router"
)

// schemaChange is one change of a database's schema over several shards, from
// its locks to the version that tells other Braids of it. It has a connection
// to the node of the first shard for itself; close it with end.
type schemaChange struct {
	database string
	c        *backend.Conn
	version  uint64 // of the schema, when the locks were taken
	id       uint64 // of the row in braid.ddl; 0: none
	done     []string
	before   map[string]*placementRow // what braid.placement had of the tables it writes
}

// schemaLag is how long a Braid may go on with a schema that another has
// changed. Within it a name is not used again for a table whose rows are
// elsewhere.
const schemaLag = 10 * time.Second

// changeWait is how long a schema change lasts at most, and so the life of its
// connection.
const changeWait = 7 * 24 * time.Hour

// lockName is the name of the lock that a change of a table takes on the node of
// the first shard, so that changes of one table through any Braid come one after
// the other, on all shards in the same order.
func lockName(database, table string) string {
	h := sha256.Sum256([]byte(database + "\x00" + strings.ToLower(table)))
	return "braid:" + hex.EncodeToString(h[:16])
}

// openChange takes the locks of the tables, for which it waits for wait seconds.
// The hold function is told of the connection, so that KILL reaches it.
func openChange(ctx context.Context, node *backend.Node, database string, tables []string, wait string, hold func(*backend.Conn)) (*schemaChange, error) {
	c, err := node.Own(ctx, changeWait)
	if err != nil {
		return nil, err
	}
	ch := &schemaChange{database: database, c: c, before: map[string]*placementRow{}}
	if hold != nil {
		hold(c)
	}
	if err := ch.lock(tables, wait); err != nil {
		_ = c.Close()
		return ch, err
	}
	return ch, nil
}

func (ch *schemaChange) lock(tables []string, wait string) error {
	setup := "SET SESSION autocommit=1,sql_mode='',sql_safe_updates=0,wait_timeout=" + strconv.Itoa(int(changeWait/time.Second))
	if _, err := ch.c.Exec(setup); err != nil {
		return err
	}
	names := make([]string, 0, len(tables))
	for _, t := range tables {
		names = append(names, lockName(ch.database, t))
	}
	slices.Sort(names)
	for _, n := range slices.Compact(names) {
		rows, err := ch.c.Query("SELECT GET_LOCK('"+n+"',"+wait+")", 1)
		if err != nil {
			return err
		}
		if string(rows[0][0]) != "1" {
			return mysql.Errorf(gomysql.ER_LOCK_WAIT_TIMEOUT, "Lock wait timeout exceeded; try restarting transaction")
		}
	}
	v, err := schemaVersion(ch.c, ch.database)
	ch.version = v
	return err
}

func (ch *schemaChange) end() { _ = ch.c.Close() }

// changeWork is what braid.ddl keeps of a change, to go on with it.
type changeWork struct {
	Shards []string      `json:"shards"` // in the order in which they are changed
	Texts  [][]byte      `json:"texts"`  // one for all, or one for each
	Vars   []backend.Var `json:"vars"`   // the client's settings
	Plan   *router.DDL   `json:"plan"`
}

// text is the statement for a shard.
func (w *changeWork) text(shard string) string {
	if len(w.Texts) == 1 {
		return string(w.Texts[0])
	}
	return string(w.Texts[slices.Index(w.Shards, shard)])
}

// begin writes down what is about to be done: the rules of new tables, and, where
// several shards are changed, how to go on after a failure.
func (ch *schemaChange) begin(ctx context.Context, d *router.DDL, statement []byte, work *changeWork) error {
	err := ch.write(ctx, d, statement, work)
	if !missingTable(err) {
		return err
	}
	for _, text := range schemaTables() {
		// Several clients that find the tables missing at once may be in each other's way.
		_, err := ch.c.Exec(text)
		for n := 0; isDeadlock(err) && n < deadlocksMax; n++ {
			_, err = ch.c.Exec(text)
		}
		if err != nil {
			return err
		}
	}
	return ch.write(ctx, d, statement, work)
}

func (ch *schemaChange) write(ctx context.Context, d *router.DDL, statement []byte, work *changeWork) error {
	ch.before = map[string]*placementRow{}
	var texts []string
	if d.New != nil {
		rule, err := ruleText(d.New)
		if err != nil {
			return err
		}
		write := writePlacement(ch.database, d.New.Rule.Name, rule)
		if d.New.Configured {
			write = "DELETE FROM braid.placement" + placementOf(ch.database, d.New.Rule.Name)
		}
		if err := ch.place(ctx, d.New.Rule.Name, rule); err != nil {
			return err
		}
		texts = append(texts, write)
	}
	rules := map[string]string{}
	for i := 0; i+1 < len(d.Renames); i += 2 {
		old, new := d.Renames[i], d.Renames[i+1]
		if _, known := rules[old]; !known {
			row, err := readPlacement(ch.c, ch.database, old)
			if err != nil {
				return err
			}
			if row == nil || row.dropped {
				return mysql.Errorf(1105, "braid.placement has no row for table %s: it was changed by hand", old)
			}
			rules[old] = row.rule
		}
		if err := ch.place(ctx, new, rules[old]); err != nil {
			return err
		}
		texts = append(texts, writePlacement(ch.database, new, rules[old]))
		rules[new] = rules[old]
	}
	if len(work.Shards) > 1 {
		w, err := json.Marshal(work)
		if err != nil {
			return err
		}
		texts = append(texts, "INSERT INTO braid.ddl (db,statement,work,done,error,began) VALUES ("+literal(ch.database)+","+
			literal(string(statement))+","+literal(string(w))+",'','',UNIX_TIMESTAMP())")
	} else if len(texts) == 0 {
		// That the tables are there is found out before anything is changed.
		_, err := schemaVersionRow(ch.c, ch.database)
		return err
	}
	if err := execAll(ch.c, texts...); err != nil {
		return err
	}
	if len(work.Shards) > 1 {
		rows, err := ch.c.Query("SELECT LAST_INSERT_ID()", 1)
		if err != nil {
			return err
		}
		ch.id = parseUint(rows[0][0])
	}
	return nil
}

// schemaVersionRow is schemaVersion where a missing table is an error.
func schemaVersionRow(c *backend.Conn, db string) ([][][]byte, error) {
	return c.Query("SELECT version FROM braid.schema_version WHERE db="+literal(db), 1)
}

// place makes a name ready for a table with a rule: where it was a table's whose
// rows were elsewhere, it waits until every Braid knows that that one is no more.
func (ch *schemaChange) place(ctx context.Context, table, rule string) error {
	for {
		row, err := readPlacement(ch.c, ch.database, table)
		if err != nil {
			return err
		}
		if _, seen := ch.before[table]; !seen {
			ch.before[table] = row
			if row != nil && !row.dropped && row.rule != rule {
				// Its table was never made, or was dropped on the nodes: since when nobody knows.
				if _, err := ch.c.Exec(dropPlacement(ch.database, table)); err != nil {
					return err
				}
				continue
			}
		}
		if row == nil || row.rule == rule || time.Duration(row.age)*time.Second > schemaLag {
			return nil
		}
		select {
		case <-time.After(schemaLag - time.Duration(row.age)*time.Second + time.Second):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// progress notes that a shard is changed.
func (ch *schemaChange) progress(shard string) error {
	ch.done = append(ch.done, shard)
	if ch.id == 0 {
		return nil
	}
	_, err := ch.c.Exec("UPDATE braid.ddl SET done=" + literal(strings.Join(ch.done, ",")) + " WHERE id=" + decimal(ch.id))
	return err
}

// failed notes why the change stopped where it is.
func (ch *schemaChange) failed(why string) error {
	if len(why) > 4000 {
		why = why[:4000]
	}
	return execAll(ch.c, "UPDATE braid.ddl SET error="+literal(why)+" WHERE id="+decimal(ch.id), bumpVersion(ch.database))
}

// revoke forgets a change of which nothing is left on any shard.
func (ch *schemaChange) revoke() error {
	texts := []string{bumpVersion(ch.database)}
	for table, row := range ch.before {
		switch {
		case row == nil:
			texts = append(texts, "DELETE FROM braid.placement"+placementOf(ch.database, table))
		case row.dropped:
			texts = append(texts, writePlacement(ch.database, table, row.rule), dropPlacement(ch.database, table))
		default:
			texts = append(texts, writePlacement(ch.database, table, row.rule))
		}
	}
	return execAll(ch.c, ch.finished(texts)...)
}

func (ch *schemaChange) finished(texts []string) []string {
	if ch.id != 0 {
		texts = append(texts, "DELETE FROM braid.ddl WHERE id="+decimal(ch.id))
	}
	return texts
}

// commit says that the change is made on all its shards.
func (ch *schemaChange) commit(d *router.DDL) error {
	texts := []string{bumpVersion(ch.database)}
	for i := range d.Dropped {
		rule, err := ruleText(&d.Dropped[i])
		if err != nil {
			return err
		}
		texts = append(texts, entomb(ch.database, d.Dropped[i].Rule.Name, rule))
	}
	last := map[string]bool{} // whether the name is a table's in the end
	for i := 0; i+1 < len(d.Renames); i += 2 {
		last[d.Renames[i]], last[d.Renames[i+1]] = false, true
	}
	for table, there := range last {
		if !there {
			texts = append(texts, dropPlacement(ch.database, table))
		}
	}
	return execAll(ch.c, ch.finished(texts)...)
}
