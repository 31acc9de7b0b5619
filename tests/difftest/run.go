package difftest

import (
	"context"
	"errors"
	"fmt"
	"strings"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"braid/tests/servers"
	"braid/tests/wire"
)

// Run compares two sides over one file.
type Run struct {
	Braid, Plain wire.Options // Database is set, and the same
	Flavour      servers.Flavour
	// MayRefuse says that Braid must answer 1235 to exactly the cases marked
	// unsupported (several shards). Otherwise it may, to those (one shard), or, with
	// NeverRefuse, must not at all (two plain servers).
	MayRefuse, NeverRefuse bool
	// Wrong hears of each difference.
	Wrong func(format string, args ...any)
	// Refused, when not nil, hears of each 1235.
	Refused func(c *Case, message string)
	// Noted, when not nil, collects how cases were answered, by their lines.
	Noted map[int]Note
	// Contradicted counts how often the plain server answered a case's twin with
	// other rows than the case.
	Contradicted int

	file  *File
	conns map[string]*pair
	tally Tally
}

// Note counts how often a case was refused and how often answered, right or wrong.
type Note struct{ Refused, Answered int }

func (r *Run) note(c *Case, refused bool) {
	if r.Noted == nil {
		return
	}
	n := r.Noted[c.Line]
	if refused {
		n.Refused++
	} else {
		n.Answered++
	}
	r.Noted[c.Line] = n
}

// Tally counts outcomes. Statements counts a text and a prepared run as two.
type Tally struct {
	Statements, Wrong, Unsupported int
}

// Add adds another tally.
func (t *Tally) Add(o Tally) {
	t.Statements += o.Statements
	t.Wrong += o.Wrong
	t.Unsupported += o.Unsupported
}

func (t Tally) String() string {
	return fmt.Sprintf("differential: %d statements, %d wrong, %d unsupported", t.Statements, t.Wrong, t.Unsupported)
}

// pair is one client: a connection on each side.
type pair struct{ braid, plain *wire.Conn }

// File sets up f's tables on both sides, runs its cases and compares the tables
// afterwards. An error means that the comparison could not be made.
func (r *Run) File(ctx context.Context, f *File) (Tally, error) {
	r.file, r.tally, r.conns = f, Tally{}, map[string]*pair{}
	defer r.disconnect()
	if err := r.setup(ctx); err != nil {
		return r.tally, err
	}
	for i := range f.Cases {
		c := &f.Cases[i]
		if c.Only != "" && c.Only != r.Flavour {
			continue
		}
		if c.Reconnect {
			r.disconnect()
		}
		if c.Params == nil {
			if err := r.one(ctx, c, false); err != nil {
				return r.tally, err
			}
		}
		if !c.TextOnly {
			if err := r.one(ctx, c, true); err != nil {
				return r.tally, err
			}
		}
	}
	r.disconnect()
	return r.tally, r.contents(ctx)
}

// setup makes the tables anew and fills them. Both sides get the same
// statements; an error on the plain side is the file's fault.
func (r *Run) setup(ctx context.Context) error {
	p, err := r.connection(ctx, "a", 0)
	if err != nil {
		return err
	}
	texts := make([]string, 0, len(r.file.Setup)+len(r.file.Tables))
	for _, table := range r.file.Tables {
		texts = append(texts, "DROP TABLE IF EXISTS `"+strings.ReplaceAll(table.Name, "`", "``")+"`")
	}
	for _, text := range append(texts, r.file.Setup...) {
		if _, err := p.plain.Query(text); err != nil {
			return fmt.Errorf("%s: setup, plain server: %.200s: %w", r.file.Name, text, err)
		}
		if _, err := p.braid.Query(text); err != nil {
			return fmt.Errorf("%s: setup, Braid: %.200s: %w", r.file.Name, text, err)
		}
	}
	r.disconnect()
	return nil
}

// contents compares whole tables.
func (r *Run) contents(ctx context.Context) error {
	for _, table := range r.file.Tables {
		c := &Case{Text: "SELECT * FROM `" + strings.ReplaceAll(table.Name, "`", "``") + "`"}
		if err := r.one(ctx, c, false); err != nil {
			return err
		}
	}
	return nil
}

// connection is the pair of that name; one that is made now has the charset.
func (r *Run) connection(ctx context.Context, name string, charset byte) (*pair, error) {
	if p := r.conns[name]; p != nil {
		return p, nil
	}
	p := &pair{}
	var err error
	plain, braid := r.Plain, r.Braid
	plain.Collation, braid.Collation = charset, charset
	if p.plain, err = wire.Connect(ctx, plain); err != nil {
		return nil, fmt.Errorf("plain server: %w", err)
	}
	if p.braid, err = wire.Connect(ctx, braid); err != nil {
		p.plain.Abort()
		return nil, fmt.Errorf("the Braid side: %w", err)
	}
	r.conns[name] = p
	return p, nil
}

// renew makes a pair's sessions new ones, as the case asks.
func (p *pair) renew(r *Run, c *Case) error {
	for _, side := range []struct {
		conn *wire.Conn
		o    wire.Options
	}{{p.braid, r.Braid}, {p.plain, r.Plain}} {
		if c.Reset {
			if _, err := side.conn.Command(gomysql.COM_RESET_CONNECTION, nil); err != nil {
				return fmt.Errorf("COM_RESET_CONNECTION: %w", err)
			}
		}
		if c.ChangeUser {
			side.o.Collation = c.Charset
			if err := side.conn.ChangeUser(side.o); err != nil {
				return fmt.Errorf("COM_CHANGE_USER: %w", err)
			}
		}
	}
	return nil
}

func (r *Run) disconnect() {
	for name, p := range r.conns {
		p.braid.Close()
		p.plain.Close()
		delete(r.conns, name)
	}
}

// writes tells whether a statement may change rows, so that it must not run on
// the plain server alone.
func writes(text string) bool {
	word, _, _ := strings.Cut(strings.TrimLeft(text, " ("), " ")
	switch strings.ToUpper(word) {
	case "SELECT", "SHOW", "DESC", "DESCRIBE", "EXPLAIN", "VALUES", "TABLE":
		return false
	}
	return true
}

// one runs one case in one mode on both sides.
func (r *Run) one(ctx context.Context, c *Case, prepared bool) error {
	name := c.On
	if name == "" {
		name = "a"
	}
	p, err := r.connection(ctx, name, c.Charset)
	if err != nil {
		return err
	}
	if !prepared || c.Params != nil {
		if err := p.renew(r, c); err != nil {
			return fmt.Errorf("%s:%d: %w", r.file.Name, c.Line, err)
		}
	}
	r.tally.Statements++
	mode := "text"
	if prepared {
		mode = "prepared"
	}
	wrong := func(format string, args ...any) {
		r.tally.Wrong++
		r.Wrong("WRONG %s:%d (%s): %s\n\t%s", r.file.Name, c.Line, mode, c.Text, fmt.Sprintf(format, args...))
	}
	braid, err := ask(p.braid, c, prepared)
	if err != nil {
		wrong("Braid's connection broke: %v", err)
		// What the session held is gone on this side, so the other begins anew too.
		p.braid.Abort()
		p.plain.Close()
		delete(r.conns, name)
		return nil
	}
	if braid.refused() && writes(c.Text) {
		// The plain server must not run ahead.
		r.refusal(c, braid, wrong)
		return nil
	}
	plain, err := ask(p.plain, c, prepared)
	if err != nil {
		return errors.Join(fmt.Errorf("%s:%d: plain server: %s", r.file.Name, c.Line, c.Text), err)
	}
	if braid.refused() && !plain.refused() {
		r.refusal(c, braid, wrong)
		return nil
	}
	differences := compare(c, braid, plain)
	if len(differences) > 0 && (len(c.Plans) > 0 || c.Twin != nil) {
		if braid, plain, err = r.another(p.plain, c, braid, plain, prepared); err != nil {
			return fmt.Errorf("%s:%d: plain server, other plans of %s: %w", r.file.Name, c.Line, c.Text, err)
		}
		differences = compare(c, braid, plain)
	}
	if len(differences) > 0 {
		r.note(c, false)
		wrong("%s", strings.Join(differences, "\n\t"))
		return nil
	}
	r.note(c, false)
	if c.Unsupported == Refused && r.MayRefuse {
		r.Wrong("%s:%d (%s): is marked unsupported, but Braid answered right; remove the mark: %s", r.file.Name, c.Line, mode, c.Text)
	}
	return nil
}

// another are Braid's answer and the plain server's as they may be under other
// plans, the latter with the rows of the case's twin.
func (r *Run) another(conn *wire.Conn, c *Case, braid, plain *answer, prepared bool) (*answer, *answer, error) {
	braid, plain, err := asPlanned(conn, c, braid, plain, prepared)
	if err != nil || c.Twin == nil || len(plain.results) != 1 {
		return braid, plain, err
	}
	twin, err := ask(conn, c.Twin, prepared)
	if err != nil || len(twin.results) != 1 || len(twin.results[0].Columns) != len(plain.results[0].Columns) {
		return braid, plain, err
	}
	other := plain.results[0]
	other.Rows = twin.results[0].Rows
	spellDecimals(&other)
	if compareRows(c, &other, &plain.results[0]) != "" {
		r.Contradicted++
		plain.results[0] = other
	}
	return braid, plain, nil
}

// refusal counts a 1235, and reports it where the file does not allow it.
func (r *Run) refusal(c *Case, braid *answer, wrong func(format string, args ...any)) {
	r.note(c, true)
	if r.Refused != nil {
		r.Refused(c, braid.err.Message)
	}
	if c.Unsupported != Answered && !r.NeverRefuse {
		r.tally.Unsupported++
		return
	}
	if r.NeverRefuse {
		wrong("refused: %v", braid.err)
		return
	}
	r.tally.Unsupported++
	r.Wrong("UNSUPPORTED %s:%d, but not marked so: %s\n\t%v", r.file.Name, c.Line, c.Text, braid.err)
}
