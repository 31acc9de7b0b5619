package protocol

import (
	"testing"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"braid/tests/servers"
	"braid/tests/wire"
)

// optionalMetadata is CLIENT_OPTIONAL_RESULTSET_METADATA.
const optionalMetadata = 1 << 25

// bareWork has answers of every origin: one shard's, rows of several merged, rows
// brought together, and Braid's own; as text, prepared, and fetched.
func bareWork(w *worker) {
	for _, text := range []string{"SELECT k, x FROM i WHERE k=2", "SELECT k, x FROM i ORDER BY k", "SELECT COUNT(*), SUM(x) FROM i", "SELECT x FROM i WHERE k IN (1,2) ORDER BY x DESC",
		"SELECT a.k, b.k FROM i a JOIN i b ON b.x=a.x+10 ORDER BY a.k", "SELECT k FROM i WHERE k=-7", "SELECT k FROM i WHERE x=-7", "SELECT DATABASE(), 1", "SHOW TABLES LIKE 'i'",
		"SHOW WARNINGS", "SELECT @@resultset_metadata", "SHOW VARIABLES LIKE 'resultset%'", "SELECT k, EXP(k*20) FROM i WHERE k=49", "SELECT * FROM nosuch", "UPDATE i SET x=x WHERE k=1"} {
		w.query(text)
		w.execute(w.prepare(text))
	}
	for _, text := range []string{"SELECT k FROM i WHERE k=?", "SELECT k FROM i WHERE x>? ORDER BY k"} {
		s := w.prepare(text)
		w.execute(s, wire.Int(2))
		r, err := s.Open(wire.Int(2))
		w.results("open", r, err)
		for last := false; !last; {
			one, err := s.Fetch(2)
			if err != nil {
				w.t.Fatal(err)
			}
			w.results("fetch", []wire.Result{*one}, nil)
			last = one.Err != nil || one.OK.Status&gomysql.SERVER_STATUS_LAST_ROW_SEND != 0
		}
	}
	fields, err := w.c.Packets(gomysql.COM_FIELD_LIST, []byte("i\x00"), false)
	w.say("COM_FIELD_LIST: %d packets, %v", len(fields), err)
}

// TestOptionalMetadata: a client that can do without column definitions gets none
// when it says so, in every answer, and as before when it takes that back.
func TestOptionalMetadata(t *testing.T) {
	work := func(w *worker) {
		tableI(w)
		bareWork(w)
		for _, set := range []string{"SET resultset_metadata=NONE", "SET SESSION resultset_metadata=7", "SET @@resultset_metadata='full'", "SET resultset_metadata=0", "SET resultset_metadata=DEFAULT",
			"SET resultset_metadata=none, sql_mode='nosuch'", "SET sql_mode='', resultset_metadata=none", "SET resultset_metadata=1"} {
			w.query(set)
			bareWork(w)
		}
		w.query("SET resultset_metadata=NONE")
		ok, err := w.c.Command(gomysql.COM_RESET_CONNECTION, nil)
		w.say("COM_RESET_CONNECTION: %x %v", ok.Status, err)
		w.query("SELECT k FROM i ORDER BY k")
		w.query("SET resultset_metadata=NONE")
		w.say("COM_CHANGE_USER: %v", w.c.ChangeUser(w.o))
		w.query("SELECT k FROM i ORDER BY k")
	}
	only := []servers.Flavour{servers.MySQL}
	besideWith(t, only, optionalMetadata, caseTables(), []script{{"a client that can", work}})
	besideWith(t, only, 0, caseTables(), []script{{"a client that cannot", work}})
}
