package schema

import (
	"fmt"
	"sync"
	"testing"

	"braid/tests/e2e"
)

// TestTablesMadeAtOnce: clients that make, rename and drop tables at the same
// time, as schema scripts and loaders with several threads do, meet in schema
// braid; none of them gets an error of that.
func TestTablesMadeAtOnce(t *testing.T) {
	flavours(t, nil, func(t *testing.T, b *e2e.Braid) {
		var wg sync.WaitGroup
		for n := range 6 {
			wg.Go(func() {
				db := b.Open(t)
				for i := range 4 {
					for _, format := range []string{
						"CREATE TABLE together%[1]d_%[2]d (a INT PRIMARY KEY, b INT)",
						"RENAME TABLE together%[1]d_%[2]d TO renamed%[1]d_%[2]d",
						"DROP TABLE renamed%[1]d_%[2]d",
					} {
						text := fmt.Sprintf(format, n, i)
						if _, err := db.ExecContext(t.Context(), text); err != nil {
							t.Errorf("%s: %v", text, err)
							return
						}
					}
				}
			})
		}
		wg.Wait()
	})
}
