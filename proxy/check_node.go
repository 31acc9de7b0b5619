package proxy

import (
	"fmt"
	"strings"

	"braid/backend"
)

// adder takes one finding; fix is "" when there is nothing to do.
type adder func(level, node, fix, format string, args ...any)

// nodeCheck is a look at one node (rule T19).
type nodeCheck struct {
	c   *backend.Conn
	n   *backend.Node
	add adder
}

// checkNode looks at one node. identity collects the nodes by their servers.
func checkNode(c *backend.Conn, n *backend.Node, identity map[string]string, add adder) {
	k := &nodeCheck{c, n, add}
	k.version()
	id := k.one("SELECT @@hostname") + "/" + k.one("SELECT @@port") + "/" + k.one("SELECT @@datadir")
	if !n.MariaDB() {
		id = k.one("SELECT @@server_uuid")
	}
	if other := identity[id]; other != "" {
		add("error", n.Name(), "remove one of the two nodes", "it is the same server as node %s", other)
	}
	identity[id] = n.Name()
	k.privileges()
	k.durability()
	k.transactions()
	if z := k.one("SELECT @@global.time_zone"); z == "SYSTEM" {
		add("ok", n.Name(), "", "time_zone is SYSTEM (%s): it must be the same on all nodes", k.one("SELECT @@system_time_zone"))
	}
}

// one is the only value of a query, "" when there is none.
func (k *nodeCheck) one(query string) string {
	rows, err := k.c.Query(query, 1)
	if err != nil || len(rows) == 0 || len(rows[0]) == 0 {
		return ""
	}
	return string(rows[0][0])
}

func (k *nodeCheck) version() {
	version := k.one("SELECT @@version")
	family, least := "MySQL", [3]int{8, 0, 30}
	if k.n.MariaDB() {
		family, least = "MariaDB", [3]int{10, 5, 0}
	}
	var v [3]int
	_, _ = fmt.Sscanf(version, "%d.%d.%d", &v[0], &v[1], &v[2])
	if older(v, least) {
		k.add("error", k.n.Name(), fmt.Sprintf("use %s %d.%d.%d or later", family, least[0], least[1], least[2]), "%s %s is too old", family, version)
	} else {
		k.add("ok", k.n.Name(), "", "%s %s", family, version)
	}
}

func older(v, least [3]int) bool {
	for i := range v {
		if v[i] != least[i] {
			return v[i] < least[i]
		}
	}
	return false
}

// privilege is one that Braid's user needs on a node.
type privilege struct {
	name, on string // on is "*" for *.*, or a schema
	level    string // of the finding when it is missing
	why      string
}

// privilegesNeeded are those of Braid's user. KILL is not among them: the
// connections that Braid ends are of the same user.
func privilegesNeeded(mariadb bool) []privilege {
	list := []privilege{
		{"PROCESS", "*", "error", "to see lock waits, and the owners of interrupted transactions"},
		{"CREATE TEMPORARY TABLES", "*", "warn", "to gather rows"},
		{"SELECT", "performance_schema", "warn", "to find deadlocks over nodes"},
	}
	for _, name := range []string{"CREATE", "SELECT", "INSERT", "UPDATE", "DELETE"} {
		list = append(list, privilege{name, "braid", "error", "to decide transactions over several nodes"})
	}
	if !mariadb {
		list = append(list, privilege{"XA_RECOVER_ADMIN", "*", "error", "to finish interrupted transactions"})
	}
	return list
}

func (k *nodeCheck) privileges() {
	rows, err := k.c.Query("SHOW GRANTS", 1000)
	if err != nil {
		k.add("error", k.n.Name(), "", "SHOW GRANTS: %v", err)
		return
	}
	lines := make([]string, 0, len(rows))
	for _, r := range rows {
		lines = append(lines, string(r[0]))
	}
	for _, p := range privilegesNeeded(k.n.MariaDB()) {
		if granted(lines, p.name, p.on) {
			continue
		}
		on := "*.*"
		if p.on != "*" {
			on = p.on + ".*"
		}
		k.add(p.level, k.n.Name(), "GRANT "+p.name+" ON "+on+" to Braid's user", "the privilege %s on %s is missing: it is needed %s", p.name, on, p.why)
	}
}

// granted tells whether the lines of SHOW GRANTS give a privilege on a schema,
// or on everything ("*").
func granted(lines []string, name, on string) bool {
	for _, line := range lines {
		rest, ok := strings.CutPrefix(line, "GRANT ")
		if !ok {
			continue
		}
		list, rest, ok := strings.Cut(rest, " ON ")
		if !ok {
			continue
		}
		object, _, _ := strings.Cut(rest, " TO ")
		object = strings.ReplaceAll(object, "`", "")
		if object != "*.*" && (on == "*" || object != on+".*") {
			continue
		}
		for p := range strings.SplitSeq(list, ",") {
			if p = strings.TrimSpace(p); p == name || p == "ALL PRIVILEGES" {
				return true
			}
		}
	}
	return false
}

// durability looks at what makes a node lose commits that it has acknowledged:
// transactions over several nodes are whole only as far as none does (rule T10).
func (k *nodeCheck) durability() {
	const lost = "a %s loses acknowledged commits, and transactions over several nodes are then not whole"
	switch k.one("SELECT @@innodb_flush_log_at_trx_commit") {
	case "0":
		k.add("warn", k.n.Name(), "SET GLOBAL innodb_flush_log_at_trx_commit=1", "innodb_flush_log_at_trx_commit is 0: "+lost, "crash of the server")
	case "2":
		k.add("warn", k.n.Name(), "SET GLOBAL innodb_flush_log_at_trx_commit=1", "innodb_flush_log_at_trx_commit is 2: "+lost, "crash of the machine")
	}
	if k.one("SELECT @@log_bin") != "1" {
		return
	}
	if n := k.one("SELECT @@sync_binlog"); n != "1" {
		k.add("warn", k.n.Name(), "SET GLOBAL sync_binlog=1", "sync_binlog is %s: "+lost, n, "crash of the machine")
	}
	replicas := k.one("SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE COMMAND LIKE 'Binlog Dump%'")
	if replicas == "0" || replicas == "" || k.one("SELECT COUNT(*) FROM information_schema.PLUGINS WHERE PLUGIN_NAME='group_replication' AND PLUGIN_STATUS='ACTIVE'") == "1" {
		return
	}
	for _, name := range []string{"rpl_semi_sync_source_enabled", "rpl_semi_sync_master_enabled"} {
		if k.one("SELECT @@"+name) == "1" {
			return
		}
	}
	k.add("warn", k.n.Name(), "use group replication or semi-synchronous replication", "it has asynchronous replicas: "+lost, "failover to one of them")
}

// transactions looks at settings that change how transactions over several
// nodes go.
func (k *nodeCheck) transactions() {
	if k.one("SELECT @@global.innodb_rollback_on_timeout") == "1" {
		k.add("ok", k.n.Name(), "", "innodb_rollback_on_timeout is ON: a lock wait timeout ends the whole transaction, on all nodes")
	}
	if k.one("SELECT @@global.performance_schema") != "1" {
		k.add("warn", k.n.Name(), "start the server with performance_schema=ON",
			"performance_schema is OFF: deadlocks over nodes between clients of different Braids last until innodb_lock_wait_timeout")
	}
	if k.one("SELECT @@global.xa_detach_on_prepare") == "0" {
		k.add("warn", k.n.Name(), "SET PERSIST xa_detach_on_prepare=ON",
			"xa_detach_on_prepare is OFF: to finish an interrupted transaction, recovery has to end the connection that began it")
	}
}
