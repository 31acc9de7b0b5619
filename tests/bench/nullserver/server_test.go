package nullserver

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"

	_ "github.com/go-sql-driver/mysql"

	"braid/tests/bench/lean"
)

func start(t *testing.T, o Options) *Server {
	t.Helper()
	s, err := Listen("127.0.0.1:0", o)
	if err != nil {
		t.Fatal(err)
	}
	go s.Serve()
	t.Cleanup(func() { s.Close() })
	return s
}

// TestDriverReads has a client of somebody else's read every kind of answer.
func TestDriverReads(t *testing.T) {
	s := start(t, Options{Rows: 1000, Base: 3, Stride: 4, Number: 1})
	for _, interpolate := range []bool{false, true} { // binary and text protocol
		db, err := sql.Open("mysql", fmt.Sprintf("sb:sb@tcp(%s)/sb?interpolateParams=%t", s.Addr(), interpolate))
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		var c string
		for range 3 {
			if err := db.QueryRowContext(t.Context(), "SELECT c FROM sbtest1 WHERE id=?", 7).Scan(&c); err != nil || len(c) != 119 {
				t.Fatalf("point select: %q, %v", c, err)
			}
		}
		for _, q := range []struct {
			text  string
			first int
			count int
		}{
			{"SELECT id, c FROM sbtest1 ORDER BY id", 3, 1000},
			{"SELECT id, `c` AS x FROM `sbtest1` ORDER BY id LIMIT 10", 3, 10},
			{"SELECT id, c FROM sbtest1 ORDER BY id LIMIT 5, 20", 23, 20},
			{"SELECT id, c FROM sbtest1 ORDER BY id LIMIT 20 OFFSET 990", 3963, 10},
		} {
			rows, err := db.QueryContext(t.Context(), q.text)
			if err != nil {
				t.Fatal(q.text, err)
			}
			n, id := 0, 0
			for rows.Next() {
				if err := rows.Scan(&id, &c); err != nil {
					t.Fatal(q.text, err)
				}
				if want := q.first + 4*n; id != want {
					t.Fatalf("%s: row %d has id %d, want %d", q.text, n, id, want)
				}
				n++
			}
			if err := rows.Err(); err != nil || n != q.count {
				t.Errorf("%s: %d rows, %v", q.text, n, err)
			}
			rows.Close()
		}
		if _, err := db.ExecContext(t.Context(), "SELECT 1 FROM nothing"); err == nil || !strings.Contains(err.Error(), "1235") {
			t.Errorf("an unknown table: %v", err)
		}
	}
}

// TestLeanReads has the load generator's own client read them.
func TestLeanReads(t *testing.T) {
	s := start(t, Options{Rows: 100, Base: 1, Stride: 1, Number: 1})
	c, err := lean.Login{Addr: s.Addr(), User: "sb", Password: "sb", Database: "sb"}.Dial()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write(lean.AppendPacket(nil, 0, []byte("\x03SELECT id FROM sbtest1"))); err != nil {
		t.Fatal(err)
	}
	if r, err := c.ReadAnswer(); err != nil || r.Rows != 100 || r.FirstRow.IsZero() {
		t.Errorf("%+v, %v", r, err)
	}
	if id, err := c.Prepare("SELECT id FROM sbtest1 WHERE id=?"); err != nil || id == 0 {
		t.Errorf("prepared %d, %v", id, err)
	}
	if _, err := c.Prepare("SELECT x FROM y"); err == nil {
		t.Error("an unknown table was prepared")
	}
}
