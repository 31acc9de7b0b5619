package collation

import (
	"bytes"
	"compress/flate"
	"database/sql"
	"encoding/binary"
	"flag"
	"fmt"
	"os"
	"testing"

	_ "github.com/go-sql-driver/mysql"
)

var update = flag.Bool("update", false, "write weights.bin from the MySQL server (a new table; the old ones can never change)")

// TestServerWeights compares every weight with the servers that
// BRAID_TEST_MYSQL_DSN and BRAID_TEST_MARIADB_DSN name.
func TestServerWeights(t *testing.T) {
	for fl, env := range map[Flavour]string{MySQL: "BRAID_TEST_MYSQL_DSN", MariaDB: "BRAID_TEST_MARIADB_DSN"} {
		t.Run(env, func(t *testing.T) {
			dsn := os.Getenv(env)
			if dsn == "" {
				t.Skipf("%s is not set: no server to compare with", env)
			}
			db, err := sql.Open("mysql", dsn)
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			var file bytes.Buffer
			for _, s := range sources() {
				table := Lookup(fl, s.collation)
				if table == nil {
					continue
				}
				weights, err := s.read(db)
				if err != nil {
					t.Fatalf("%s: %v", s.collation, err)
				}
				if *update && fl == MySQL {
					s.pack(&file, weights)
					continue
				}
				bad := 0
				for code, w := range weights {
					if w != nil && !bytes.Equal(w, table.Append(nil, rune(code))) {
						bad++
					}
				}
				if bad > 0 {
					t.Errorf("%s: %d codes weigh otherwise on this server", s.collation, bad)
				}
			}
			if file.Len() > 0 {
				write(t, file.Bytes())
			}
		})
	}
}

// write deflates the file into weights.bin.
func write(t *testing.T, file []byte) {
	var packed bytes.Buffer
	w, err := flate.NewWriter(&packed, flate.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(file); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("weights.bin", packed.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// source is one table: the character set and collation to ask for, and how many
// codes there are.
type source struct {
	table, charset, collation string
	unit                      int
	codes                     int
}

func sources() []source {
	return []source{
		{"ascii_general_ci", "ascii", "ascii_general_ci", 1, 0x80},
		{"latin1_general_ci", "latin1", "latin1_general_ci", 1, 0x100},
		{"latin1_swedish_ci", "latin1", "latin1_swedish_ci", 1, 0x100},
		{"general_ci", "utf8mb4", "utf8mb4_general_ci", 2, 0x110000},
		{"unicode_ci", "utf8mb4", "utf8mb4_unicode_ci", 2, 0x110000},
		{"0900_ai_ci", "utf8mb4", "utf8mb4_0900_ai_ci", 2, 0x110000},
	}
}

// packedRun is a run as it is being made.
type packedRun struct {
	first, count int
	step         uint16
	weight       []uint16
}

// read asks for the weight of every code; nil for surrogates, which are none.
func (s source) read(db *sql.DB) ([][]byte, error) {
	weights := make([][]byte, s.codes)
	char := "CHAR(n USING " + s.charset + ")"
	if s.codes > 0x100 {
		char = "CONVERT(CHAR(n USING utf32) USING utf8mb4)"
	}
	const step = 0x10000
	for from := 0; from < s.codes; from += step {
		digits := "SELECT 0 d UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4 UNION ALL SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8 UNION ALL SELECT 9 UNION ALL SELECT 10 UNION ALL SELECT 11 UNION ALL SELECT 12 UNION ALL SELECT 13 UNION ALL SELECT 14 UNION ALL SELECT 15"
		rows, err := db.Query(fmt.Sprintf("WITH h AS (%s) SELECT n, WEIGHT_STRING(%s COLLATE %s) FROM (SELECT %d+a.d+16*b.d+256*c.d+4096*e.d n FROM h a, h b, h c, h e) x WHERE n < %d AND n NOT BETWEEN 0xD800+0 AND 0xDFFF+0", digits, char, s.collation, from, s.codes))
		if err != nil {
			return nil, err
		}
		for rows.Next() {
			var n int
			var w []byte
			if err := rows.Scan(&n, &w); err != nil {
				return nil, err
			}
			weights[n] = append([]byte{}, w...)
		}
		if err := rows.Close(); err != nil {
			return nil, err
		}
		if err := rows.Err(); err != nil {
			return nil, err
		}
	}
	return weights, nil
}

func (s source) units(w []byte) []uint16 {
	u := make([]uint16, 0, len(w)/s.unit)
	for ; len(w) >= s.unit; w = w[s.unit:] {
		if s.unit == 1 {
			u = append(u, uint16(w[0]))
		} else {
			u = append(u, binary.BigEndian.Uint16(w))
		}
	}
	return u
}

func (s source) pack(file *bytes.Buffer, weights [][]byte) {
	var runs []packedRun
	for code, w := range weights {
		if w == nil {
			continue
		}
		u := s.units(w)
		if len(runs) > 0 && runs[len(runs)-1].extend(code, u) {
			continue
		}
		runs = append(runs, packedRun{first: code, count: 1, weight: u})
	}
	put := func(v int) { file.Write(binary.AppendUvarint(nil, uint64(v))) }
	put(len(s.table))
	file.WriteString(s.table)
	put(s.unit)
	put(len(runs))
	end := 0
	for _, r := range runs {
		put(r.first - end)
		put(r.count)
		put(int(r.step))
		put(len(r.weight))
		for _, w := range r.weight {
			put(int(w))
		}
		end = r.first + r.count
	}
}

// extend adds a code to the run where it fits.
func (r *packedRun) extend(code int, u []uint16) bool {
	if code != r.first+r.count || len(u) != len(r.weight) {
		return false
	}
	last := len(u) - 1
	if last >= 0 {
		for i := range last {
			if u[i] != r.weight[i] {
				return false
			}
		}
		grown := u[last] - r.weight[last]
		if r.count == 1 && grown <= 1 {
			r.step = grown
		}
		if grown != r.step*uint16(r.count) {
			return false
		}
	}
	r.count++
	return true
}
