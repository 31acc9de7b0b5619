package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// cellMax is how many characters of a value stand in one line.
const cellMax = 96

// querier is a database, one connection or a transaction.
type querier interface {
	QueryContext(context.Context, string, ...any) (*sql.Rows, error)
}

// show runs a statement and prints its rows as the mysql client does.
func show(ctx context.Context, out io.Writer, db querier, query string, args ...any) (err error) {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return fmt.Errorf("%s: %w", query, err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	columns, err := rows.Columns()
	if err != nil {
		return err
	}
	lines := [][]string{columns}
	for rows.Next() {
		values := make([]sql.NullString, len(columns))
		to := make([]any, len(columns))
		for i := range values {
			to[i] = &values[i]
		}
		if err := rows.Scan(to...); err != nil {
			return err
		}
		line := make([]string, len(columns))
		for i, v := range values {
			line[i] = "NULL"
			if v.Valid {
				line[i] = v.String
			}
		}
		lines = append(lines, line)
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("%s: %w", query, err)
	}
	printTable(out, lines)
	return nil
}

// cut shortens a text to one line.
func cut(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if utf8.RuneCountInString(s) > cellMax {
		s = string([]rune(s)[:cellMax-3]) + "..."
	}
	return s
}

// wrap breaks a value into lines of cellMax at most, at its spaces.
func wrap(s string) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(s) {
		switch {
		case line == "":
			line = word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > cellMax:
			lines, line = append(lines, line), word
		default:
			line += " " + word
		}
	}
	return append(lines, line)
}

// printTable prints lines, the first of which is the header. Of a long value
// that repeats the one above it only that is said.
func printTable(out io.Writer, lines [][]string) {
	if len(lines) == 1 {
		fmt.Fprintln(out, "Empty set")
		return
	}
	wrapped := make([][][]string, len(lines))
	width := make([]int, len(lines[0]))
	for i, line := range lines {
		wrapped[i] = make([][]string, len(line))
		for j, cell := range line {
			wrapped[i][j] = wrap(cell)
			if i > 0 && len(wrapped[i][j]) > 1 && cell == lines[i-1][j] {
				wrapped[i][j] = []string{"(the same text)"}
			}
			for _, part := range wrapped[i][j] {
				width[j] = max(width[j], utf8.RuneCountInString(part))
			}
		}
	}
	rule := "+"
	for _, w := range width {
		rule += strings.Repeat("-", w+2) + "+"
	}
	fmt.Fprintln(out, rule)
	for i, cells := range wrapped {
		for at, more := 0, true; more; at++ {
			more = false
			fmt.Fprint(out, "|")
			for j, parts := range cells {
				part := ""
				if at < len(parts) {
					part = parts[at]
				}
				more = more || at+1 < len(parts)
				fmt.Fprintf(out, " %s%s |", part, strings.Repeat(" ", width[j]-utf8.RuneCountInString(part)))
			}
			fmt.Fprintln(out)
		}
		if i == 0 {
			fmt.Fprintln(out, rule)
		}
	}
	fmt.Fprintln(out, rule)
}
