// Gen reads the weights of collations from a live server and writes the file
// that package collate embeds:
//
//	go run ./internal/collate/gen -dsn 'root@tcp(127.0.0.1:3306)/' -out weights.bin
//
// The server must be MySQL 8 or 9 for all tables; with -check it compares the
// server's weights with an existing file, leaving out what the server lacks, which
// is how a MariaDB is shown to have the same.
package main

import (
	"bytes"
	"compress/flate"
	"database/sql"
	"encoding/binary"
	"flag"
	"fmt"
	"log"
	"os"

	"braid/internal/collate"

	_ "github.com/go-sql-driver/mysql"
)

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

// run mirrors collate's: consecutive codes whose last weight grows by step.
type run struct {
	first, count int
	step         uint16
	weight       []uint16
}

func main() {
	log.SetFlags(0)
	dsn := flag.String("dsn", "", "server, as go-sql-driver/mysql names it")
	out := flag.String("out", "", "file to write")
	check := flag.Bool("check", false, "compare the server with the embedded tables")
	flag.Parse()
	db, err := sql.Open("mysql", *dsn)
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	var file bytes.Buffer
	for _, s := range sources() {
		weights, err := s.read(db)
		if err != nil && *check {
			log.Printf("%s: not on this server (%v)", s.collation, err)
			continue
		}
		if err != nil {
			log.Fatalf("%s: %v", s.collation, err)
		}
		if *check {
			s.check(weights)
			continue
		}
		s.pack(&file, weights)
	}
	if *check {
		return
	}
	var packed bytes.Buffer
	w, err := flate.NewWriter(&packed, flate.BestCompression)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := w.Write(file.Bytes()); err != nil {
		log.Fatal(err)
	}
	if err := w.Close(); err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile(*out, packed.Bytes(), 0o644); err != nil {
		log.Fatal(err)
	}
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
	var runs []run
	for code, w := range weights {
		if w == nil {
			continue
		}
		u := s.units(w)
		if len(runs) > 0 && runs[len(runs)-1].extend(code, u) {
			continue
		}
		runs = append(runs, run{first: code, count: 1, weight: u})
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
func (r *run) extend(code int, u []uint16) bool {
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

func (s source) check(weights [][]byte) {
	t := collate.Lookup(collate.MySQL, s.collation)
	bad := 0
	for code, w := range weights {
		if w != nil && !bytes.Equal(w, t.Append(nil, rune(code))) {
			bad++
		}
	}
	if bad > 0 {
		log.Fatalf("%s: %d codes weigh otherwise on this server", s.collation, bad)
	}
	log.Printf("%s: the same", s.collation)
}
