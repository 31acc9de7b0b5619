package proxy

import (
	"errors"
	"io"
	"math"
	"strconv"
	"strings"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"braid/backend"
	"braid/internal/mysql"
	"braid/router"
)

// stepBytesMax is about how long a statement of a write in steps grows.
const stepBytesMax = 1 << 20

// stepRun is one write in steps under way.
type stepRun struct {
	s        *Session
	steps    *router.Steps
	sum      writeSum
	firstID  uint64
	warnings []warning
	rows     int
	prepared bool // what is wrong with the text was said when it was prepared
}

// runSteps runs a write that reads first. Its rows are in memory in between, as
// far as proxy.gather_rows_max and gather_bytes_max allow.
func (s *Session) runSteps(plan *router.Plan, ps *execution) error {
	r := &stepRun{s: s, prepared: ps != nil, steps: s.route.Steps, sum: writeSum{verb: plan.Verb, onDuplicate: plan.OnDuplicate}}
	lastID := s.facts.LastInsertID
	err := s.together(r.run)
	if err != nil {
		s.facts.LastInsertID = lastID
		return s.failErr(err)
	}
	ok := r.sum.ok(plan)
	switch {
	case r.steps.Kind == router.StepsInsert:
		if plan.OnDuplicate && !plan.Ignore && s.caps&gomysql.CLIENT_FOUND_ROWS != 0 {
			// An INSERT ... SELECT counts the rows that it changed, its values those that
			// it met: a row that is changed counts two, any other one.
			r.sum.info.duplicates = ok.AffectedRows - min(ok.AffectedRows, uint64(r.rows))
		}
		ok.Info = "Records: " + strconv.Itoa(r.rows) + "  Duplicates: " + strconv.FormatUint(r.sum.info.duplicates, 10) + "  Warnings: " + strconv.Itoa(len(r.warnings))
		ok.InsertID = r.sum.insertID
		if r.firstID != 0 {
			ok.InsertID = r.firstID
		}
		s.facts.LastInsertID = lastID
		if r.firstID != 0 {
			s.facts.LastInsertID = r.firstID
		}
	case plan.Verb == "UPDATE":
		ok.Info = "Rows matched: " + strconv.FormatUint(r.sum.info.first, 10) + "  Changed: " + strconv.FormatUint(r.sum.info.second, 10) + "  Warnings: " + strconv.Itoa(len(r.warnings))
	}
	s.warnings, s.warned, s.errored = r.warnings, uint16(min(len(r.warnings), math.MaxUint16)), 0
	ok.Warnings = s.warned
	s.wrote(plan, &ok)
	return s.writeOK(&ok)
}

func (r *stepRun) run() error {
	s := r.s
	a, err := s.carryOut(r.steps.Select, s.vars.With(
		backend.Var{Name: "character_set_results", Value: "NULL"},
		backend.Var{Name: "sql_select_limit", Value: "18446744073709551615"}))
	if err != nil {
		return err
	}
	if s.warned > 0 {
		r.warnings = append(r.warnings, s.warnings...)
		if err := r.strict(); err != nil {
			return err
		}
	}
	if a.rows == nil {
		return mysql.ErrMalformed
	}
	switch r.steps.Kind {
	case router.StepsInsert:
		return r.batches(a, func(b []byte, row []router.Value) ([]byte, error) { return appendLiterals(b, row) }, r.steps.Head, " "+r.steps.Tail)
	case router.StepsPick:
		head := r.steps.Head + "(" + identList(r.steps.Key) + ") IN ("
		return r.batches(a, appendLiterals, head, ")")
	}
	return r.move(a)
}

// strict is the error that what was warned of while the rows were read is where
// sql_mode is strict.
func (r *stepRun) strict() error {
	if !r.steps.Strict() {
		return nil
	}
	list := r.warnings
	if err := strictError(list, r.s.mariadb()); err == nil || !r.steps.Conditional {
		return err
	}
	if r.steps.Rows == "" {
		return nil
	}
	if _, err := r.s.carryOut(r.steps.Rows, r.s.vars); err != nil {
		return err
	}
	return strictError(without(list, r.s.warnings), true)
}

// batches writes the rows of an answer in statements of some length.
func (r *stepRun) batches(a *answered, add func([]byte, []router.Value) ([]byte, error), head, tail string) error {
	b := []byte(head)
	pending := 0
	for {
		row, err := a.next(r.s)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if err != nil && pending == 0 {
			return nil
		}
		if err != nil || len(b) > stepBytesMax {
			if werr := r.write(string(append(b, tail...)), pending); werr != nil {
				return werr
			}
			b, pending = append(b[:0], head...), 0
			if err != nil {
				return nil
			}
		}
		if pending > 0 {
			b = append(b, ',')
		}
		if b, err = add(b, row); err != nil {
			return err
		}
		if pending++; r.rows+pending > r.s.gen.cfg.Proxy.GatherRowsMax {
			return mysql.Errorf(1105, "a statement may bring together %d rows at most (proxy.gather_rows_max)", r.s.gen.cfg.Proxy.GatherRowsMax)
		}
	}
}

// write runs one writing statement, of n rows, and adds its answer up.
func (r *stepRun) write(text string, n int) error {
	s := r.s
	id := s.facts.LastInsertID
	a, err := s.carryOutQuery(&router.Query{Text: []byte(text), KeyStays: r.steps.Kind == router.StepsMove}, s.vars)
	if err != nil {
		var e *mysql.Error
		if errors.As(err, &e) {
			e.Message = shiftRow(e.Message, r.rows)
		}
		return err
	}
	list := s.warnings
	if r.prepared || r.rows > 0 {
		list = ofRows(list)
	}
	for _, w := range list {
		w.message = shiftRow(w.message, r.rows)
		r.warnings = append(r.warnings, w)
	}
	if s.facts.LastInsertID != id && r.firstID == 0 {
		r.firstID = s.facts.LastInsertID
	}
	t := router.Target{Rows: n, Last: r.rows}
	if r.steps.Kind != router.StepsInsert {
		t.Rows = 0
	}
	r.sum.add(&a.ok, &t, false)
	r.rows += n
	return nil
}

// shiftRow adds to the row number that a text ends with.
func shiftRow(text string, by int) string {
	i := strings.LastIndex(text, atRow)
	if i < 0 {
		return text
	}
	n, err := strconv.Atoi(text[i+len(atRow):])
	if err != nil {
		return text
	}
	return text[:i+len(atRow)] + strconv.Itoa(n+by)
}

// appendLiterals writes a row with its parentheses.
func appendLiterals(b []byte, row []router.Value) ([]byte, error) {
	b = append(b, '(')
	for i, v := range row {
		if i > 0 {
			b = append(b, ',')
		}
		l, err := v.Literal()
		if err != nil {
			return b, err
		}
		b = append(b, l...)
	}
	return append(b, ')'), nil
}

func identList(columns []string) string {
	var b strings.Builder
	for i, c := range columns {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(ident(c))
	}
	return b.String()
}

// move updates a sharding key: rows that stay on their shard are updated there,
// others are deleted and inserted with their new values.
func (r *stepRun) move(a *answered) error {
	var rows [][]router.Value
	for {
		row, err := a.next(r.s)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if rows = append(rows, row); len(rows) > r.s.gen.cfg.Proxy.GatherRowsMax {
			return mysql.Errorf(1105, "a statement may bring together %d rows at most (proxy.gather_rows_max)", r.s.gen.cfg.Proxy.GatherRowsMax)
		}
	}
	moving := make([]bool, len(rows))
	moves := 0
	for i, row := range rows {
		from, err := r.steps.Shard(r.pick(r.steps.Key, row))
		if err != nil {
			return err
		}
		to, err := r.steps.Shard(r.pick(r.steps.Columns, row[len(r.steps.Key):]))
		if err != nil {
			if errors.Is(err, router.ErrNotDecidable) {
				err = mysql.Errorf(1235, "This version of Braid doesn't yet support '%v'", err)
			}
			return err
		}
		if moving[i] = from != to; moving[i] {
			moves++
		}
	}
	if len(rows) > 1 && !r.steps.Several && moves > 0 {
		return mysql.Errorf(1235, "This version of Braid doesn't yet support 'UPDATE of the sharding keys of several rows to values that are computed, which meet each other in an order'")
	}
	n := len(r.steps.Key)
	for i, row := range rows {
		key, err := appendLiterals(nil, row[:n])
		if err != nil {
			return err
		}
		where := "(" + identList(r.steps.Key) + ")=" + string(key)
		if n == 1 {
			where = ident(r.steps.Key[0]) + "=" + strings.Trim(string(key), "()")
		}
		if !moving[i] {
			if err := r.write(r.steps.Head+where, 1); err != nil {
				return err
			}
			continue
		}
		if _, err := r.s.carryOut("DELETE FROM "+r.steps.Tail+" WHERE "+where, r.s.vars); err != nil {
			return err
		}
		values, err := appendLiterals(nil, row[n:])
		if err != nil {
			return err
		}
		keptID := r.s.facts.LastInsertID
		_, err = r.s.carryOut("INSERT INTO "+r.steps.Tail+" ("+identList(r.steps.Columns)+") VALUES "+string(values), r.s.vars)
		r.s.facts.LastInsertID = keptID
		if err != nil {
			return err
		}
		r.warnings = append(r.warnings, r.s.warnings...)
		r.sum.any = true
		r.sum.affected++
		r.sum.info.seen, r.sum.info.matched = true, true
		r.sum.info.first++
		r.sum.info.second++
		r.rows++
	}
	return nil
}

// pick is the values of the sharding key's columns out of a row of columns.
func (r *stepRun) pick(columns []string, row []router.Value) []router.Value {
	var out []router.Value
	for _, k := range r.steps.KeyColumns() {
		for i, c := range columns {
			if c == k {
				out = append(out, row[i])
			}
		}
	}
	return out
}
