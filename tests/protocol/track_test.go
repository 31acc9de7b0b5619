package protocol

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"braid/tests/e2e"
	"braid/tests/servers"
	"braid/tests/wire"
)

// plain is a server without Braid with the database shop, beside Braid's nodes.
func plain(t *testing.T, flavour servers.Flavour) wire.Options {
	t.Helper()
	s := lab.Server(t, flavour, "plain")
	e2e.Recreate(t, s, "shop")
	return wire.Options{Addr: s.Addr(), User: servers.User, Password: servers.Password, Database: "shop"}
}

// TestSessionTrack compares what the OK packets say of the session with a plain
// server, with and without CLIENT_SESSION_TRACK (B158).
func TestSessionTrack(t *testing.T) {
	statements := []string{
		"SELECT 1",
		"USE shop",
		"SET NAMES latin1",
		"SET NAMES utf8mb4 COLLATE utf8mb4_bin",
		"SET CHARACTER SET latin1",
		"SET autocommit=0",
		"SET autocommit=0",
		"SET autocommit=1",
		"SET sql_mode=''",
		"SET time_zone='+02:00'",
		"SET @a=1",
		"SET @a=1, time_zone='+03:00', autocommit=1",
		"SET character_set_results=NULL",
		"CREATE TABLE t(k INT PRIMARY KEY, v INT)",
		"INSERT INTO t VALUES (1,1),(2,2),(3,3)",
		"BEGIN", "INSERT INTO t VALUES (4,4)", "COMMIT",
		"SET session_track_state_change=1",
		"SET @b=1",
		"SET sql_mode='ANSI'",
		"USE shop",
		"PREPARE p FROM 'SELECT 1'",
		"EXECUTE p",
		"DEALLOCATE PREPARE p",
		"BEGIN", "ROLLBACK",
		"SET session_track_state_change=0",
		"SET session_track_system_variables='sql_mode,autocommit'",
		"SET sql_mode=''", "SET time_zone='+01:00'", "SET autocommit=1",
		"SET session_track_system_variables='*'",
		"SET sql_mode='ANSI_QUOTES'", "SET lock_wait_timeout=100", "SET NAMES utf8mb4",
		"SET session_track_schema=0",
		"USE shop",
		"SET session_track_schema=1",
		"USE nosuch",
		"USE shop",
	}
	for _, flavour := range flavours {
		for _, flags := range []uint32{0, gomysql.CLIENT_SESSION_TRACK, gomysql.CLIENT_SESSION_TRACK | gomysql.CLIENT_DEPRECATE_EOF} {
			t.Run(fmt.Sprintf("%s/%x", flavour, flags), func(t *testing.T) {
				b := braid(t, flavour, nil)
				both := [2]*wire.Conn{}
				for i, o := range []wire.Options{plain(t, flavour), b.Wire()} {
					o.Flags = flags
					both[i] = connect(t, o)
				}
				if a, b := both[0].Login, both[1].Login; a != b {
					t.Errorf("login: %+v, plain %+v", b, a)
				}
				for _, text := range statements {
					var said [2]string
					for i, c := range both {
						r, err := c.Query(text)
						said[i] = fmt.Sprint(code(err), " ")
						for _, x := range r {
							items := strings.Fields(x.OK.Track)
							slices.Sort(items) // MariaDB's come in no order
							items = slices.DeleteFunc(items, func(s string) bool { return strings.HasPrefix(s, "statement_id=") })
							said[i] += fmt.Sprintf("%x %s;", x.OK.Status&^(gomysql.SERVER_STATUS_NO_INDEX_USED|gomysql.SERVER_SESSION_STATE_CHANGED), items)
						}
					}
					if testing.Verbose() {
						t.Log(text, "=>", said[0])
					}
					if said[0] != said[1] {
						t.Errorf("%s: %s, plain %s", text, said[1], said[0])
					}
				}
				for _, command := range []struct {
					name string
					code byte
					body string
				}{{"COM_INIT_DB", gomysql.COM_INIT_DB, "shop"}, {"COM_RESET_CONNECTION", gomysql.COM_RESET_CONNECTION, ""}, {"COM_PING", gomysql.COM_PING, ""}} {
					a, errA := both[0].Command(command.code, []byte(command.body))
					b, errB := both[1].Command(command.code, []byte(command.body))
					if testing.Verbose() {
						t.Log(command.name, "=>", a, errA)
					}
					if a != b || code(errA) != code(errB) {
						t.Errorf("%s: %+v %v, plain %+v %v", command.name, b, errB, a, errA)
					}
				}
			})
		}
	}
}

// TestTrackingOfTransactionsIsRefused: their state lies on several nodes.
func TestTrackingOfTransactionsIsRefused(t *testing.T) {
	b := braid(t, servers.MySQL, nil)
	c := connect(t, b.Wire())
	for text, want := range map[string]int{
		"SET session_track_transaction_info='STATE'":           1235,
		"SET session_track_transaction_info='CHARACTERISTICS'": 1235,
		"SET session_track_transaction_info='OFF'":             0,
		"SET session_track_gtids='OWN_GTID'":                   1235,
		"SET session_track_gtids=OFF":                          0,
	} {
		if _, err := c.Query(text); code(err) != want {
			t.Errorf("%s: %v, want error %d", text, err, want)
		}
	}
}
