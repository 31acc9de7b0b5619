package proxy

import (
	"context"
	"fmt"
	"strings"
	"time"

	"braid/backend"
	"braid/router"
)

const (
	// copiesTries is how often copies are compared before they are said to differ:
	// they are read one after the other, and may be written in between.
	copiesTries = 3
	// copiesTimeout bounds the reading of one copy.
	copiesTimeout = time.Hour
)

// copiesDiffer compares the copies of a global table on the shards: "" when they
// are alike, otherwise what each has. The nodes sum up the rows themselves. Each
// connection is handed to use while it works, so that its statement can be stopped.
func (g *generation) copiesDiffer(ctx context.Context, db *router.Database, t *router.Table, use func(*backend.Conn, func() error) error) (string, error) {
	said := ""
	for range copiesTries {
		first, differ := "", false
		var all []string
		for i := range db.Shards {
			sum, err := g.copySum(ctx, db, i, t, use)
			if err != nil {
				return "", fmt.Errorf("shard %s: %w", db.Shards[i].Name, err)
			}
			if i == 0 {
				first = sum
			}
			differ = differ || sum != first
			all = append(all, "shard "+db.Shards[i].Name+" has "+sum)
		}
		if !differ {
			return "", nil
		}
		said = "The copies of the global table differ: " + strings.Join(all, ", ")
	}
	return said, nil
}

// copySum is the checksum of one copy, with the number of its rows.
func (g *generation) copySum(ctx context.Context, db *router.Database, shard int, t *router.Table, use func(*backend.Conn, func() error) error) (string, error) {
	c, err := g.base[db.Name].nodes[shard].Own(ctx, copiesTimeout)
	if err != nil {
		return "", err
	}
	defer c.Close()
	table := ident(db.Shards[shard].Schema) + "." + ident(t.Name)
	var sum string
	err = use(c, func() error {
		rows, err := c.Query("SELECT COUNT(*) FROM "+table, 1)
		if err != nil {
			return err
		}
		sums, err := c.Query("CHECKSUM TABLE "+table, 1)
		if err != nil {
			return err
		}
		sum = fmt.Sprintf("%s rows with checksum %s", rows[0][0], sums[0][1])
		return nil
	})
	return sum, err
}
