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

// computeMax is how many expressions one SELECT computes: a server takes 4096
// columns.
const computeMax = 1000

// compute lets a node compute expressions of an INSERT's rows, each once, in
// this session's context (rule M5), and returns the values and literals for
// them. They name no tables. What they warn of is an error where it would be one
// in the INSERT.
func (s *Session) compute(plan *router.Plan, texts []string) (values []router.Value, literals []string, err error) {
	p := s.place(plan, 0)
	ctx, cancel := s.context()
	defer cancel()
	c, err := p.node.Get(ctx, s.caps&gomysql.CLIENT_FOUND_ROWS != 0, p.schema, s.vars)
	if err != nil {
		return nil, nil, p.shardError(err)
	}
	s.hold(c)
	for len(texts) > 0 && err == nil {
		n := min(len(texts), computeMax)
		values, err = s.computeSome(c, &p, texts[:n], values, s.mode&router.ModeStrict != 0 && !plan.Ignore)
		texts = texts[n:]
	}
	stopped := s.drop(c)
	var e *mysql.Error
	if stopped != nil || err != nil && (!errors.As(err, &e) || isPrefix(err)) {
		s.scrap(c)
	} else {
		s.giveBack(c)
	}
	if stopped != nil {
		return nil, nil, stopped
	}
	if err != nil {
		return nil, nil, p.shardError(err)
	}
	for _, v := range values {
		l, err := v.Literal()
		if err != nil {
			return nil, nil, err
		}
		literals = append(literals, l)
	}
	return values, literals, nil
}

func (s *Session) computeSome(c *backend.Conn, p *place, texts []string, values []router.Value, strict bool) ([]router.Value, error) {
	// The bytes come in the expressions' own character sets: nothing is lost.
	need := backend.Need{Schema: p.schema, Vars: s.vars.With(backend.Var{Name: "character_set_results", Value: "NULL"}), Autocommit: true}
	if err := c.Send(&need, gomysql.COM_QUERY, []byte("SELECT ("+strings.Join(texts, "),(")+")")); err != nil {
		return nil, err
	}
	first, err := c.First()
	if err != nil {
		return nil, err
	}
	if first[0] == 0xff {
		return nil, mysql.ParseError(first)
	}
	rows, err := c.ReadRows(first, false)
	if err != nil {
		return nil, err
	}
	row, err := rows.Next()
	if err != nil {
		return nil, err
	}
	for i := range rows.Columns() {
		b, null, n := mysql.LenEncString(row)
		if n == 0 {
			return nil, mysql.ErrMalformed
		}
		row = row[n:]
		v := router.Value{Kind: router.ValueNull}
		if !null {
			if v, err = s.computed(&rows.Columns()[i], append([]byte(nil), b...)); err != nil {
				return nil, errors.Join(err, rows.Drain())
			}
		}
		values = append(values, v)
	}
	if _, err := rows.Next(); err != io.EOF {
		return nil, errors.Join(mysql.ErrMalformed, err)
	}
	if rows.End.Warnings == 0 || !strict {
		return values, nil
	}
	said, err := c.Query(showWarnings, warningsMax)
	if err != nil {
		return nil, err
	}
	s.warnings = s.warnings[:0]
	s.addWarnings(said, p)
	return values, strictError(s.warnings, s.mariadb())
}

// computed is the value of one column of an answer.
func (s *Session) computed(col *mysql.Column, text []byte) (router.Value, error) {
	switch col.Type {
	case gomysql.MYSQL_TYPE_TINY, gomysql.MYSQL_TYPE_SHORT, gomysql.MYSQL_TYPE_INT24, gomysql.MYSQL_TYPE_LONG, gomysql.MYSQL_TYPE_LONGLONG, gomysql.MYSQL_TYPE_YEAR:
		if i, err := strconv.ParseInt(string(text), 10, 64); err == nil {
			return router.IntValue(i), nil
		}
		u, err := strconv.ParseUint(string(text), 10, 64)
		return router.Value{Kind: router.ValueUint, Uint: u}, err
	case gomysql.MYSQL_TYPE_DECIMAL, gomysql.MYSQL_TYPE_NEWDECIMAL:
		return router.Value{Kind: router.ValueDecimal, Bytes: text}, nil
	case gomysql.MYSQL_TYPE_DOUBLE, gomysql.MYSQL_TYPE_FLOAT:
		f, err := strconv.ParseFloat(string(text), 64)
		if err != nil || math.IsInf(f, 0) {
			return router.Value{}, mysql.Errorf(1235, "This version of Braid doesn't yet support 'this number as the sharding key of a new row'")
		}
		return router.Value{Kind: router.ValueFloat, Float: f}, nil
	case gomysql.MYSQL_TYPE_DATE, gomysql.MYSQL_TYPE_NEWDATE, gomysql.MYSQL_TYPE_DATETIME, gomysql.MYSQL_TYPE_TIMESTAMP:
		return router.Value{Kind: router.ValueString, Bytes: text, Charset: "utf8mb4"}, nil
	case gomysql.MYSQL_TYPE_STRING, gomysql.MYSQL_TYPE_VAR_STRING, gomysql.MYSQL_TYPE_VARCHAR,
		gomysql.MYSQL_TYPE_BLOB, gomysql.MYSQL_TYPE_TINY_BLOB, gomysql.MYSQL_TYPE_MEDIUM_BLOB, gomysql.MYSQL_TYPE_LONG_BLOB:
		if coll, ok := s.collations().ByID(col.Charset); ok {
			return router.Value{Kind: router.ValueString, Bytes: text, Charset: coll.Charset}, nil
		}
	}
	return router.Value{}, mysql.Errorf(1235, "This version of Braid doesn't yet support 'an expression of this type as the sharding key of a new row'")
}
