package proxy

import (
	"context"
	"fmt"
	"strings"
	"time"

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
// are alike, otherwise what each has. The nodes sum up the rows themselves.
func (g *generation) copiesDiffer(ctx context.Context, db *router.Database, t *router.Table) (string, error) {
	said := ""
	for range copiesTries {
		first, differ := "", false
		var all []string
		for i := range db.Shards {
			sum, err := g.copySum(ctx, db, i, t)
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
func (g *generation) copySum(ctx context.Context, db *router.Database, shard int, t *router.Table) (string, error) {
	c, err := g.base[db.Name].nodes[shard].Own(ctx, copiesTimeout)
	if err != nil {
		return "", err
	}
	defer c.Close()
	table := ident(db.Shards[shard].Schema) + "." + ident(t.Name)
	rows, err := c.Query("SELECT COUNT(*) FROM "+table, 1)
	if err != nil {
		return "", err
	}
	sums, err := c.Query("CHECKSUM TABLE "+table, 1)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s rows with checksum %s", rows[0][0], sums[0][1]), nil
}
