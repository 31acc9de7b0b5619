package wire_test

import (
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"braid/tests/e2e"
	"braid/tests/servers"
	"braid/tests/wire"
)

var lab = e2e.NewLab()

func TestMain(m *testing.M) { os.Exit(lab.Main(m)) }

func each(t *testing.T, f func(t *testing.T, c *wire.Conn, flavour servers.Flavour)) {
	for _, flavour := range []servers.Flavour{servers.MariaDB, servers.MySQL} {
		for _, flags := range []uint32{0, gomysql.CLIENT_DEPRECATE_EOF} {
			t.Run(fmt.Sprintf("%s/%x", flavour, flags), func(t *testing.T) {
				s := lab.Server(t, flavour, "plain")
				c, err := wire.Connect(t.Context(), wire.Options{Addr: s.Addr(), User: servers.User, Password: servers.Password, Flags: flags})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { c.Close() })
				f(t, c, flavour)
			})
		}
	}
}

// show is a result as text: what the server sends, cell by cell.
func show(r wire.Result) string {
	var b strings.Builder
	for _, row := range r.Rows {
		for i, cell := range row {
			if i > 0 {
				b.WriteByte(' ')
			}
			switch {
			case cell == nil:
				b.WriteString("NULL")
			case r.Binary:
				b.WriteString(hex.EncodeToString(cell))
			default:
				b.Write(cell)
			}
		}
		b.WriteByte(';')
	}
	return b.String()
}

func TestTextAndBinaryRows(t *testing.T) {
	each(t, func(t *testing.T, c *wire.Conn, _ servers.Flavour) {
		const text = "SELECT 1, NULL, 'a', CAST('2024-02-29' AS DATE), -1 UNION ALL SELECT 2, 'x', '', NULL, 300"
		results, err := c.Query(text)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := show(results[0]), "1 NULL a 2024-02-29 -1;2 x  NULL 300;"; got != want {
			t.Errorf("text: %s, want %s", got, want)
		}
		s, err := c.Prepare("SELECT ?, ?, ?, ?")
		if err != nil {
			t.Fatal(err)
		}
		if s.Params != 4 || len(s.Columns) != 4 {
			t.Errorf("%d parameters, %d columns", s.Params, len(s.Columns))
		}
		results, err = s.Execute(wire.Int(-2), wire.Null(), wire.Text("é"), wire.Uint(1<<63))
		if err != nil {
			t.Fatal(err)
		}
		if got, want := show(results[0]), "feffffffffffffff NULL c3a9 0000000000000080;"; got != want {
			t.Errorf("binary: %s, want %s", got, want)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if _, err := s.Execute(); !isCode(err, 1243) {
			t.Errorf("closed statement: %v", err)
		}
	})
}

func TestOKFields(t *testing.T) {
	each(t, func(t *testing.T, c *wire.Conn, _ servers.Flavour) {
		for _, step := range []struct {
			text string
			want wire.OK
		}{
			{"DROP DATABASE IF EXISTS wiretest", wire.OK{Status: 2, Warnings: 1}},
			{"CREATE DATABASE wiretest", wire.OK{AffectedRows: 1, Status: 2}},
			{"CREATE TABLE wiretest.t(id INT AUTO_INCREMENT PRIMARY KEY, n INT)", wire.OK{Status: 2}},
			{"INSERT INTO wiretest.t(n) VALUES (5),(6)", wire.OK{AffectedRows: 2, InsertID: 1, Status: 2, Info: "Records: 2  Duplicates: 0  Warnings: 0"}},
			{"BEGIN", wire.OK{Status: 3}},
			{"UPDATE wiretest.t SET n=6", wire.OK{AffectedRows: 1, Status: 3, Info: "Rows matched: 2  Changed: 1  Warnings: 0"}},
			{"ROLLBACK", wire.OK{Status: 2}},
		} {
			results, err := c.Query(step.text)
			if err != nil {
				t.Fatal(step.text, err)
			}
			got := results[0].OK
			got.Status &^= 0x20 | 0x10 | 0x100 | 0x4000
			if step.text == "DROP DATABASE IF EXISTS wiretest" {
				got.Warnings, got.AffectedRows = 1, 0 // depends on what was there
			}
			if got != step.want {
				t.Errorf("%s: %+v, want %+v", step.text, got, step.want)
			}
		}
		if _, err := c.Query("SELECT nosuch"); !isCode(err, 1054) {
			t.Errorf("unknown column: %v", err)
		}
		if _, err := c.Query("SELECT 1"); err != nil {
			t.Errorf("after an error: %v", err)
		}
	})
}

func TestLongPacketsAreJoined(t *testing.T) {
	each(t, func(t *testing.T, c *wire.Conn, _ servers.Flavour) {
		const n = 1<<24 + 100
		results, err := c.Query("SELECT REPEAT('x', LENGTH('" + strings.Repeat("y", n) + "'))")
		if err != nil {
			t.Fatal(err)
		}
		if got := len(results[0].Rows[0][0]); got != n {
			t.Errorf("%d bytes of %d", got, n)
		}
	})
}

func isCode(err error, code uint16) bool {
	var e *wire.Error
	return errors.As(err, &e) && e.Code == code
}
