package e2e

import (
	"strconv"
	"testing"

	"braid/tests/servers"
)

// Counters is a server's status counters at one moment: Rows_sent is from
// performance_schema, the others (Com_select, Handler_read_next, Bytes_sent, ...)
// are SHOW GLOBAL STATUS.
type Counters struct {
	server *servers.Server
	values map[string]int64
}

// Count reads a server's counters now.
func Count(t testing.TB, s *servers.Server) Counters {
	t.Helper()
	c := Counters{server: s, values: map[string]int64{}}
	db := Open(t, s, "")
	rows, err := db.QueryContext(t.Context(), "SHOW GLOBAL STATUS")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var name, value string
		if err := rows.Scan(&name, &value); err != nil {
			t.Fatal(err)
		}
		if n, err := strconv.ParseInt(value, 10, 64); err == nil {
			c.values[name] = n
		}
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	// Neither flavour has Rows_sent among the status counters (MariaDB's counts
	// rows read for any purpose), so it is summed over the statements of User alone.
	var sent int64
	err = db.QueryRowContext(t.Context(), "SELECT COALESCE(SUM(SUM_ROWS_SENT),0) FROM performance_schema.events_statements_summary_by_user_by_event_name WHERE USER = ?", servers.User).Scan(&sent)
	if err != nil {
		t.Fatal(err)
	}
	c.values["Rows_sent"] = sent
	return c
}

// Since is how much a counter has grown from c to now. Other statements on the
// server, and the reading itself, count too, except in Rows_sent, which counts
// the statements of servers.User.
func (c Counters) Since(t testing.TB, name string) int64 {
	t.Helper()
	now := Count(t, c.server)
	if _, ok := now.values[name]; !ok {
		t.Fatalf("the server has no counter %s", name)
	}
	return now.values[name] - c.values[name]
}
