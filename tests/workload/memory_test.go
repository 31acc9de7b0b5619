package workload

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/go-sql-driver/mysql"

	"braid/tests/e2e"
	"braid/tests/servers"
)

const (
	streamedRows    = 4000
	streamedRowKiB  = 16 // so that an answer is 64 MiB
	streamedClients = 8
	streamedEachKiB = 4 << 10 // what Braid may hold for such a client
)

// TestB162B171AnswersAreNotHeld: clients that stop reading in the midst of long
// answers from four shards, sorted and not, text and prepared, and clients that
// turn to late pages, ten at a time: Braid holds a bounded part of each answer, and
// others are served meanwhile.
func TestB162B171AnswersAreNotHeld(t *testing.T) {
	for _, flavour := range []servers.Flavour{servers.MariaDB, servers.MySQL} {
		t.Run(string(flavour), func(t *testing.T) {
			var addrs []string
			for i := range 2 {
				node := lab.Server(t, flavour, fmt.Sprintf("node%d", i))
				e2e.Recreate(t, node, fmt.Sprintf("shop_%d", i), fmt.Sprintf("shop_%d", i+2), "braid")
				addrs = append(addrs, node.Addr())
			}
			p := newProgram(t, addrs, 2, "[[databases.tables]]\nname = \"big\"\nkind = \"sharded\"\nkey = [\"k\"]\n")
			p.start(t, "")
			c := mysql.NewConfig()
			c.User, c.Passwd, c.Net, c.Addr, c.DBName = servers.User, servers.Password, "tcp", p.addr, "shop"
			db := openDriver(t, c)
			defer db.Close()
			do := func(text string) {
				t.Helper()
				if _, err := db.ExecContext(t.Context(), text); err != nil {
					t.Fatalf("%.80s: %v", text, err)
				}
			}
			do("CREATE TABLE big(k INT PRIMARY KEY, s INT, KEY(s))")
			for at := 0; at < streamedRows; at += 1000 {
				var values []string
				for k := at; k < at+1000; k++ {
					values = append(values, fmt.Sprintf("(%d,%d)", k, streamedRows-k))
				}
				do("INSERT INTO big VALUES " + strings.Join(values, ","))
			}
			wide := fmt.Sprintf("SELECT k, s, REPEAT('x',%d) FROM big", streamedRowKiB<<10)
			before := residentKiB(t, p.pid)

			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			for i, order := range []string{"", " ORDER BY s", "", " ORDER BY s"} {
				for range streamedClients / 4 {
					text, args := wide+" WHERE k >= 0"+order, []any(nil)
					if i > 1 { // with parameters it is prepared
						text, args = wide+" WHERE k >= ?"+order, []any{0}
					}
					rows, err := db.QueryContext(ctx, text, args...)
					if err != nil {
						t.Fatal(err)
					}
					defer rows.Close()
					for range 100 {
						if !rows.Next() {
							t.Fatalf("%s ends: %v", text, rows.Err())
						}
					}
				}
			}
			point := func(k int) {
				var s int
				if err := db.QueryRowContext(t.Context(), "SELECT s FROM big WHERE k=?", k).Scan(&s); err != nil || s != streamedRows-k {
					t.Errorf("row %d has s=%d: %v", k, s, err)
				}
			}
			for k := range 200 {
				point(k)
			}
			held := residentKiB(t, p.pid) - before
			t.Logf("%d clients that stopped reading: %d KiB", streamedClients, held)
			if held > streamedClients*streamedEachKiB {
				t.Errorf("clients that stopped reading hold %d KiB, more than %d each", held, streamedEachKiB)
			}
			cancel()

			before = residentKiB(t, p.pid)
			const offset = streamedRows - 100
			var wg sync.WaitGroup
			for range 10 {
				wg.Add(1)
				go func() {
					defer wg.Done()
					var k, s int
					var x []byte
					err := db.QueryRowContext(t.Context(), fmt.Sprintf("%s ORDER BY s LIMIT %d,1", wide, offset)).Scan(&k, &s, &x)
					if err != nil || s != offset+1 || k != streamedRows-s {
						t.Errorf("the page at %d begins with k=%d, s=%d: %v", offset, k, s, err)
					}
				}()
			}
			wg.Wait()
			held = residentKiB(t, p.pid) - before
			t.Logf("10 clients on late pages: %d KiB", held)
			if held > 10*streamedEachKiB {
				t.Errorf("late pages hold %d KiB, more than %d each", held, streamedEachKiB)
			}
		})
	}
}
