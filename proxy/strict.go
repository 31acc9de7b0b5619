package proxy

import (
	"braid/internal/mysql"
)

// strictError is the error that a writing statement under a strict sql_mode makes
// of the first of its warnings that is one; nil when all of them stay warnings.
// Where Braid lets a SELECT do a part of the write, its server only warned.
func strictError(list []warning, mariadb bool) error {
	for _, w := range list {
		if w.level == "Warning" && !ofText(w.code) && (mariadb || strictCode(w.code)) {
			return mysql.Errorf(w.code, "%s", w.message)
		}
	}
	return nil
}

// strictCode tells whether strict SQL mode makes an error of a warning on MySQL
// (Manual, Server SQL Modes; the list is the server's Strict_error_handler).
// MariaDB makes one of every warning.
func strictCode(code uint16) bool {
	switch code {
	case 1048, 1071, 1260, 1261, 1263, 1264, 1265, 1292, 1301, 1364, 1365, 1366, 1406, 1411, 1423, 1441,
		3020, 3155, 3156, 3751:
		return true
	}
	return false
}

// without are the warnings of a list that are not also in another.
func without(list, other []warning) []warning {
	left := map[warning]int{}
	for _, w := range other {
		left[w]++
	}
	var out []warning
	for _, w := range list {
		if left[w] > 0 {
			left[w]--
			continue
		}
		out = append(out, w)
	}
	return out
}
