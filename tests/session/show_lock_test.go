package session

import (
	"testing"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"braid/tests/e2e"
	"braid/tests/servers"
)

// TestShowLeavesNoLock: under autocommit=0 what a session asks of a schema keeps
// no metadata lock on the pool's connections that answered, where a schema change
// would wait for it.
func TestShowLeavesNoLock(t *testing.T) {
	each(t, func(t *testing.T, flavour servers.Flavour) {
		p := shop(t, flavour, 2, 4, nil)
		c := connect(t, p)
		changeable := func(after string) {
			t.Helper()
			for _, place := range p.Shards() {
				conn, err := e2e.Open(t, place.Node, place.Schema).Conn(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				for _, text := range []string{"SET lock_wait_timeout=1", "ALTER TABLE i COMMENT 'x'"} {
					if _, err := conn.ExecContext(t.Context(), text); err != nil {
						t.Errorf("behind %s, on shard %s: %v", after, place.Shard, err)
					}
				}
				conn.Close()
			}
		}
		must(t, c, "SET autocommit=0")
		for _, text := range []string{"SHOW CREATE TABLE i", "DESCRIBE i", "SHOW INDEX FROM i", "SHOW TABLE STATUS", "SHOW TABLES",
			"SELECT COUNT(*) FROM information_schema.columns WHERE table_schema='shop'", "SELECT * FROM information_schema.statistics WHERE table_name='i'", "PREPARE p FROM 'SELECT * FROM i'"} {
			must(t, c, text)
			changeable(text)
		}
		if _, err := c.Prepare("SELECT * FROM i ORDER BY k"); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Packets(gomysql.COM_FIELD_LIST, []byte("i\x00"), false); err != nil {
			t.Fatal(err)
		}
		changeable("COM_STMT_PREPARE and COM_FIELD_LIST")
	})
}
