package proxy

import (
	"errors"
	"strings"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"braid/backend"
	"braid/internal/mysql"
	"braid/router"
)

// planFailed answers a statement that the router could not plan. Where it does
// not understand the text, a node is asked: its words are the answer.
func (s *Session) planFailed(q *router.Query, err error) error {
	var e *mysql.Error
	if !errors.As(err, &e) {
		return s.failErr(err)
	}
	if !q.Prepared {
		if at := q.Parameter(); at >= 0 {
			return s.failErr(s.strayParameter(q, at))
		}
	}
	if e.Code == gomysql.ER_PARSE_ERROR {
		err = s.askSyntax(q, e)
	}
	return s.failErr(err)
}

// askSyntax returns what a node says of a text that the router did not understand:
// its own error or, when it understands the text, that Braid does not.
func (s *Session) askSyntax(q *router.Query, ours *mysql.Error) error {
	p, err := s.home()
	if err != nil {
		return err
	}
	err = s.onPlace(&p, func(c *backend.Conn, need *backend.Need) error {
		_, err := c.Prepare(need, q.Text)
		return err
	})
	var theirs *mysql.Error
	switch {
	case err == nil:
	case !errors.As(err, &theirs) || isPrefix(err):
		return err
	case theirs.Code == gomysql.ER_UNSUPPORTED_PS && q.Prepared:
		return theirs
	case theirs.Code == gomysql.ER_UNSUPPORTED_PS, theirs.Code == gomysql.ER_NO_SUCH_TABLE, theirs.Code == gomysql.ER_NO_DB_ERROR, theirs.Code == gomysql.ER_BAD_DB_ERROR:
		// The node got as far as looking for what it need not have.
	default:
		return theirs
	}
	_, near, _ := strings.Cut(ours.Message, " near ")
	return mysql.Errorf(gomysql.ER_NOT_SUPPORTED_YET, "This version of Braid doesn't yet support this statement: its parser does not understand it near %s", near)
}

// strayParameter is the error for a ? at an offset of a text that is not to be
// prepared, as a server words it. What a node finds wrong in front of it comes first.
func (s *Session) strayParameter(q *router.Query, at int) error {
	e := router.SyntaxError(string(q.Text), at, s.mariadb())
	var theirs *mysql.Error
	if err := s.askSyntax(q, e); errors.As(err, &theirs) && theirs.Code == gomysql.ER_PARSE_ERROR {
		// Both texts are the statement's rest, so the longer one begins earlier.
		if len(theirs.Message) > len(e.Message) {
			return theirs
		}
	}
	return e
}
