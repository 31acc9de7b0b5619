package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"braid/backend"
	"braid/internal/mysql"
	"braid/router"
)

// unfinishedChange is a row of braid.ddl: a schema change that is under way, or
// stopped on its way over the shards.
type unfinishedChange struct {
	database  string
	id        uint64
	statement string
	work      changeWork
	done      []string
	failure   string // "" while nothing has failed
	began     time.Time
}

// name is how SHOW DDL names the change.
func (u *unfinishedChange) name() string { return u.database + "." + decimal(u.id) }

// missing are the shards where it is not known to be done.
func (u *unfinishedChange) missing() (out []string) {
	for _, s := range u.work.Shards {
		if !slices.Contains(u.done, s) {
			out = append(out, s)
		}
	}
	return out
}

// changesUnfinished reads a database's rows of braid.ddl, or the one of an id.
func changesUnfinished(c *backend.Conn, db string, id uint64) ([]unfinishedChange, error) {
	where := " WHERE db=" + literal(db)
	if id != 0 {
		where += " AND id=" + decimal(id)
	}
	rows, err := c.Query("SELECT id,statement,work,done,error,began FROM braid.ddl"+where+" ORDER BY id", tablesMax)
	if missingTable(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []unfinishedChange
	for _, r := range rows {
		u := unfinishedChange{database: db, id: parseUint(r[0]), statement: string(r[1]), failure: string(r[4]), began: time.Unix(int64(parseUint(r[5])), 0)}
		if err := json.Unmarshal(r[2], &u.work); err != nil || u.work.Plan == nil || len(u.work.Texts) == 0 {
			return nil, fmt.Errorf("braid.ddl, row %d: its work cannot be read: %v", u.id, err)
		}
		if len(r[3]) > 0 {
			u.done = strings.Split(string(r[3]), ",")
		}
		out = append(out, u)
	}
	return out, nil
}

// resumeWait is for how many seconds RESUME DDL waits for another change of the
// same tables.
const resumeWait = "5"

// resumption is RESUME DDL at work. Close it with close.
type resumption struct {
	g     *generation
	ch    *schemaChange
	u     unfinishedChange
	conns map[string]*backend.Conn // by shard
}

// resume goes on with a schema change that stopped: it finishes it, or, where a
// shard goes on refusing and nothing is lost by it, takes it back everywhere. It
// returns what has become of it.
func (s *Server) resume(ctx context.Context, name string) (string, error) {
	database, number, _ := strings.Cut(name, ".")
	id, err := strconv.ParseUint(number, 10, 64)
	g := s.gen.Load()
	base := g.base[database]
	if err != nil || base == nil || id == 0 {
		return "", mysql.Errorf(1064, "RESUME DDL wants a change as SHOW DDL names it, such as shop.3, not %q", name)
	}
	c, err := base.nodes[0].Own(ctx, schemaTimeout)
	if err != nil {
		return "", err
	}
	rows, err := changesUnfinished(c, database, id)
	_ = c.Close()
	if err == nil && len(rows) == 0 {
		err = mysql.Errorf(1105, "there is no change %s: SHOW DDL lists them", name)
	}
	if err != nil {
		return "", err
	}
	r := &resumption{g: g, conns: map[string]*backend.Conn{}}
	defer r.close()
	if r.ch, err = openChange(ctx, base.nodes[0], database, rows[0].work.Plan.Tables, resumeWait, nil); err != nil {
		r.ch = nil
		return "", fmt.Errorf("change %s is under way, or another of the same tables: %w", name, err)
	}
	// Under the locks: whoever had them may have finished it.
	if rows, err = changesUnfinished(r.ch.c, database, id); err != nil || len(rows) == 0 {
		return "finished meanwhile", err
	}
	r.u = rows[0]
	r.ch.id, r.ch.done = id, r.u.done
	result, err := r.run(ctx)
	if e := s.Refresh(ctx); err == nil {
		err = e
	}
	return result, err
}

func (r *resumption) close() {
	for _, c := range r.conns {
		_ = c.Close()
	}
	if r.ch != nil {
		r.ch.end()
	}
}

// conn is a connection to a shard, as the client's would be.
func (r *resumption) conn(ctx context.Context, shard string) (*backend.Conn, string, error) {
	db := r.g.topology.Databases[r.u.database]
	i := slices.IndexFunc(db.Shards, func(s router.Shard) bool { return s.Name == shard })
	if i < 0 {
		return nil, "", fmt.Errorf("the database has no shard %s any more", shard)
	}
	schema := db.Shards[i].Schema
	if c := r.conns[shard]; c != nil {
		return c, schema, nil
	}
	c, err := r.g.base[r.u.database].nodes[i].Own(ctx, changeWait)
	if err != nil {
		return nil, "", fmt.Errorf("shard %s: %w", shard, err)
	}
	if err := c.Bring(&backend.Need{Schema: schema, Vars: backend.NewVars(r.u.work.Vars...), Autocommit: true, Write: true}); err != nil {
		_ = c.Close()
		return nil, "", fmt.Errorf("shard %s: %w", shard, err)
	}
	r.conns[shard] = c
	return c, schema, nil
}

// definitions are those of the objects that the change is about, on a shard.
func (r *resumption) definitions(ctx context.Context, shard string) (string, error) {
	c, schema, err := r.conn(ctx, shard)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, name := range r.u.work.Plan.Tables {
		d, err := definition(c, schema, objectKind(r.u.work.Plan.Verb), name)
		if err != nil {
			return "", fmt.Errorf("shard %s: %w", shard, err)
		}
		b.WriteString(d + "\n\n")
	}
	return b.String(), nil
}

// run does what is left to do.
func (r *resumption) run(ctx context.Context) (string, error) {
	d := r.u.work.Plan
	have := map[string]string{}
	for _, shard := range r.u.work.Shards {
		text, err := r.definitions(ctx, shard)
		if err != nil {
			return "", err
		}
		have[shard] = text
	}
	rows := d.Verb == "TRUNCATE TABLE" || len(d.Tables) == 0 // no definition says whether it is done
	first := have[r.u.work.Shards[0]]
	if !rows && !slices.ContainsFunc(r.u.work.Shards, func(s string) bool { return have[s] != first }) {
		return r.agreed(ctx, first)
	}
	for _, shard := range r.u.missing() {
		if !rows && len(r.ch.done) > 0 && have[shard] == have[r.ch.done[0]] {
			if err := r.ch.progress(shard); err != nil {
				return "", err
			}
			continue
		}
		c, _, err := r.conn(ctx, shard)
		if err != nil {
			return "", err
		}
		if _, err = c.Exec(r.u.work.text(shard)); err != nil {
			return r.refused(ctx, shard, err)
		}
		if err := r.ch.progress(shard); err != nil {
			return "", err
		}
	}
	return "finished", r.ch.commit(d)
}

// agreed ends a change where the shards are alike: it was done by hand, on the
// rest of them, or taken back.
func (r *resumption) agreed(ctx context.Context, have string) (string, error) {
	d := *r.u.work.Plan
	gone := strings.TrimSpace(have) == ""
	back := d.New != nil && gone
	if len(d.Renames) > 0 {
		renamed, err := r.renamed(ctx, d.Renames)
		if err != nil {
			return "", err
		}
		back = !renamed
	}
	if back {
		return "taken back by hand", r.forget(&d)
	}
	if !gone {
		d.Dropped = nil
	}
	return "the shards are alike", r.ch.commit(&d)
}

// renamed tells whether shards that are alike have their tables under the new
// names.
func (r *resumption) renamed(ctx context.Context, renames []string) (bool, error) {
	if len(r.u.missing()) == 0 {
		return true, nil
	}
	c, schema, err := r.conn(ctx, r.u.work.Shards[0])
	if err != nil {
		return false, err
	}
	there, gone := 0, 0
	for i, old := range renames {
		if i%2 == 1 || slices.ContainsFunc(pairs(renames), func(p [2]string) bool { return p[1] == old }) {
			continue // some table has this name afterwards, or on the way
		}
		text, err := definition(c, schema, "TABLE", old)
		if err != nil {
			return false, err
		}
		if text == "" {
			gone++
		} else {
			there++
		}
	}
	if there > 0 == (gone > 0) {
		return false, mysql.Errorf(1105, "the shards are alike, but whether the tables have their new names cannot be told")
	}
	return gone > 0, nil
}

// forget ends a change that is taken back: the rules of tables go back to the
// names that they had.
func (r *resumption) forget(d *router.DDL) error {
	texts := []string{bumpVersion(r.u.database)}
	if d.New != nil {
		texts = append(texts, dropPlacement(r.u.database, d.New.Rule.Name))
	}
	rules, there := map[string]string{}, map[string]bool{}
	for _, p := range slices.Backward(pairs(d.Renames)) {
		old, new := p[0], p[1]
		if _, known := rules[new]; !known {
			row, err := readPlacement(r.ch.c, r.u.database, new)
			if err != nil {
				return err
			}
			if row == nil {
				return mysql.Errorf(1105, "braid.placement has no row for table %s: it was changed by hand", new)
			}
			rules[new] = row.rule
		}
		rules[old], there[old], there[new] = rules[new], true, false
	}
	for table, is := range there {
		if is {
			texts = append(texts, writePlacement(r.u.database, table, rules[table]))
		} else {
			texts = append(texts, dropPlacement(r.u.database, table))
		}
	}
	return execAll(r.ch.c, r.ch.finished(texts)...)
}

// pairs are the old and the new name of each rename.
func pairs(renames []string) (out [][2]string) {
	for p := range slices.Chunk(renames, 2) {
		out = append(out, [2]string{p[0], p[1]})
	}
	return out
}

// refused answers for a shard that refuses again.
func (r *resumption) refused(ctx context.Context, shard string, failure error) (string, error) {
	failure = fmt.Errorf("shard %s: %w", shard, failure)
	var e *mysql.Error
	if d := r.u.work.Plan; d.Undo != "" && errors.As(failure, &e) && len(r.ch.done) > 0 {
		undone, err := r.undo(ctx, d)
		if err == nil && undone {
			return "taken back: " + failure.Error(), r.forget(d)
		}
		failure = errors.Join(failure, err)
	}
	if err := r.ch.failed(failure.Error()); err != nil {
		failure = errors.Join(failure, err)
	}
	return "", failure
}

// undo takes the change back on the shards where it is done; it is false where a
// new table has rows meanwhile.
func (r *resumption) undo(ctx context.Context, d *router.DDL) (bool, error) {
	for _, shard := range r.ch.done {
		c, _, err := r.conn(ctx, shard)
		if err != nil {
			return false, err
		}
		if d.Verb == "CREATE TABLE" {
			rows, err := c.Query("SELECT 1 FROM "+ident(d.NewTable)+" LIMIT 1", 1)
			if err != nil || len(rows) > 0 {
				return false, err
			}
		}
		if _, err := c.Exec(d.Undo); err != nil {
			return false, fmt.Errorf("taking it back on shard %s: %w", shard, err)
		}
	}
	return true, nil
}
