package proxy

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"regexp"
	"sort"
	"strconv"

	"braid/internal/mysql"
	"braid/router"
)

// loadWarning is a warning of a row of the client's file.
type loadWarning struct {
	warning
	row uint64
}

// warnings asks a shard for its warnings. Rows are numbered within the shard's
// part; they get their numbers in the client's file.
func (l *loading) warnings(st *loadStream) error {
	rows, err := st.n.c.Query("SHOW WARNINGS", 1<<16)
	if err != nil {
		return err
	}
	p := l.s.place(l.plan, st.shard)
	local := make([]uint64, len(rows)) // a warning that names no row stands with the one before
	spots := make([][]int, len(rows))
	for i, r := range rows {
		if all := rowNumber().FindAllSubmatchIndex(r[2], -1); len(all) > 0 {
			spots[i] = all[len(all)-1]
			local[i] = parseUint(r[2][spots[i][2]:spots[i][3]])
		} else if i > 0 {
			local[i] = local[i-1]
		}
	}
	global, err := st.inFile(local)
	if err != nil {
		return err
	}
	for i, r := range rows {
		message := string(r[2])
		if m := spots[i]; m != nil {
			message = message[:m[2]] + strconv.FormatUint(global[local[i]], 10) + message[m[3]:]
		}
		e := logical(&mysql.Error{Message: message}, p.schema, p.database)
		st.warns = append(st.warns, loadWarning{warning{string(r[0]), uint16(parseUint(r[1])), e.Message}, global[local[i]]})
	}
	return nil
}

// rowNumber finds the number of a row in a warning: "... at row 3", "Row 3 was truncated".
func rowNumber() *regexp.Regexp { return regexp.MustCompile(`\b[Rr]ow (\d+)`) }

// inFile maps numbers of a shard's records to their numbers in the file.
func (st *loadStream) inFile(local []uint64) (map[uint64]uint64, error) {
	want := make(map[uint64]uint64, len(local))
	var most uint64
	for _, n := range local {
		want[n] = n
		most = max(most, n)
	}
	st.rows.at = 0
	r := bufio.NewReader(st.rows)
	var file uint64
	for n := uint64(1); n <= min(most, st.count); n++ {
		d, err := binary.ReadUvarint(r)
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		file += d
		if _, ok := want[n]; ok {
			want[n] = file
		}
	}
	return want, nil
}

// copies tells whether every shard loaded the same.
func (l *loading) copies() bool { return l.plan.Load.Table.Kind == router.Global }

// warningsAlways is a number of warnings that a server keeps unless told otherwise.
const warningsAlways = 64

// sum is the answer that one server would have given, and the session's warnings.
func (l *loading) sum() (mysql.OK, error) {
	var ok mysql.OK
	var records, deleted, skipped, warnings uint64
	var all []loadWarning
	for i := range l.streams {
		st := &l.streams[i]
		if !st.got {
			continue
		}
		var a, b, c, d uint64
		_, _ = fmt.Sscanf(st.ok.Info, "Records: %d  Deleted: %d  Skipped: %d  Warnings: %d", &a, &b, &c, &d)
		records, deleted, skipped, warnings = records+a, deleted+b, skipped+c, warnings+d
		ok.AffectedRows += st.ok.AffectedRows
		all = append(all, st.warns...)
		if l.copies() {
			break // the others did the same
		}
	}
	sort.SliceStable(all, func(i, j int) bool { return all[i].row < all[j].row })
	if len(all) > warningsAlways {
		got, err := l.s.ask("SELECT @@max_error_count") // what one server would keep
		if err != nil {
			return ok, err
		}
		all = all[:min(len(all), int(parseUint([]byte(got[0].text))))]
	}
	l.s.warnings = l.s.warnings[:0]
	for i := range all {
		l.s.warnings = append(l.s.warnings, all[i].warning)
	}
	ok.Warnings = uint16(min(warnings, 65535))
	ok.Info = fmt.Sprintf("Records: %d  Deleted: %d  Skipped: %d  Warnings: %d", records, deleted, skipped, warnings)
	return ok, nil
}
