package metadata

import (
	"fmt"
	"strings"
	"testing"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"braid/tests/servers"
	"braid/tests/wire"
)

// tool is what a program with windows sends when it connects and shows a
// database and the table a.
type tool struct {
	name string
	// statements in the order they are sent. One that begins with "~" gives values
	// of the server's own (ids, times, sizes): only its columns and whether it
	// gives rows are compared. One with "?" in front is for MySQL, "!" for MariaDB.
	statements []string
}

func tools() []tool {
	connectorJ := func(read, more string) string {
		return "/* mysql-connector-j-9.1.0 (Revision: 0) */SELECT  @@session.auto_increment_increment AS auto_increment_increment, @@character_set_client AS character_set_client, " +
			"@@character_set_connection AS character_set_connection, @@character_set_results AS character_set_results, @@character_set_server AS character_set_server, " +
			"@@collation_server AS collation_server, @@collation_connection AS collation_connection, @@init_connect AS init_connect, @@interactive_timeout AS interactive_timeout, " +
			"@@license AS license, @@lower_case_table_names AS lower_case_table_names, @@max_allowed_packet AS max_allowed_packet, @@net_write_timeout AS net_write_timeout, " +
			"@@performance_schema AS performance_schema" + more + ", @@sql_mode AS sql_mode, @@system_time_zone AS system_time_zone, @@time_zone AS time_zone, " +
			read + " AS transaction_isolation, @@wait_timeout AS wait_timeout"
	}
	const workbenchVariables = "SHOW SESSION VARIABLES LIKE "
	return []tool{
		{"Navicat (B138)", []string{"SET NAMES utf8mb4", "SHOW VARIABLES LIKE 'lower_case_%'", "SHOW VARIABLES LIKE 'sql_mode'",
			"SELECT COUNT(*) AS support_ndb FROM information_schema.ENGINES WHERE Engine = 'ndbcluster'", "~SHOW DATABASES", "SHOW VARIABLES LIKE 'profiling'",
			"SELECT SCHEMA_NAME, DEFAULT_CHARACTER_SET_NAME, DEFAULT_COLLATION_NAME FROM information_schema.SCHEMATA WHERE SCHEMA_NAME IN ('shop', 'information_schema') ORDER BY SCHEMA_NAME",
			"SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_TYPE FROM information_schema.TABLES WHERE TABLE_SCHEMA='shop' ORDER BY TABLE_SCHEMA, TABLE_TYPE, TABLE_NAME",
			"~SHOW TABLE STATUS", "SHOW FULL TABLES WHERE Table_type != 'VIEW'", "SHOW TABLE STATUS LIKE 'nosuch'"}},
		{"HeidiSQL (B140)", []string{"~SELECT CONNECTION_ID()", "~SHOW VARIABLES", "~SHOW /*!50002 GLOBAL */ STATUS", "~SELECT NOW()", "/*!40101 SET NAMES utf8mb4 */", "SELECT @@lower_case_table_names", "~SHOW DATABASES",
			"SHOW OPEN TABLES FROM `shop` WHERE in_use!=0", "SELECT `DEFAULT_COLLATION_NAME` FROM `information_schema`.`SCHEMATA` WHERE `SCHEMA_NAME`='shop'",
			"~SHOW TABLE STATUS FROM `shop`", "SHOW FUNCTION STATUS WHERE `Db`='shop'", "SHOW PROCEDURE STATUS WHERE `Db`='shop'", "SHOW TRIGGERS FROM `shop`",
			"SELECT *, EVENT_SCHEMA AS `Db`, EVENT_NAME AS `Name` FROM information_schema.`EVENTS` WHERE `EVENT_SCHEMA`='shop'",
			"~SELECT * FROM `information_schema`.`COLUMNS` WHERE TABLE_SCHEMA='shop' AND TABLE_NAME='a' ORDER BY ORDINAL_POSITION", "~SHOW INDEXES FROM `a` FROM `shop`",
			"SELECT * FROM information_schema.REFERENTIAL_CONSTRAINTS WHERE CONSTRAINT_SCHEMA='shop' AND TABLE_NAME='a' AND REFERENCED_TABLE_NAME IS NOT NULL",
			"SELECT * FROM information_schema.KEY_COLUMN_USAGE WHERE TABLE_SCHEMA='shop' AND TABLE_NAME='a' AND REFERENCED_TABLE_NAME IS NOT NULL",
			"SHOW CREATE TABLE `shop`.`a`", "SELECT `k`, `v` FROM `shop`.`a` ORDER BY `k` LIMIT 1000", "SHOW ENGINES", "SHOW COLLATION LIKE 'latin1%'", "SHOW CHARSET LIKE 'utf8mb4'", "~SHOW PROCESSLIST", "~SHOW GRANTS"}},
		{"Workbench (B140)", []string{"SET NAMES 'utf8mb4'", "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ", "~SELECT CONNECTION_ID()", "SHOW SESSION STATUS LIKE 'Ssl_cipher'", "SET CHARACTER SET utf8mb4",
			"SET SQL_SAFE_UPDATES=1", "SET autocommit=1", workbenchVariables + "'lower_case_table_names'", workbenchVariables + "'sql_mode'", workbenchVariables + "'version_comment'", workbenchVariables + "'version'",
			"~SELECT current_user()", "~SHOW DATABASES", "~SHOW GLOBAL VARIABLES", "~SHOW GLOBAL STATUS", "~SHOW GRANTS FOR CURRENT_USER", "SELECT engine, support FROM information_schema.engines ORDER BY engine",
			"~SHOW PLUGINS", "SHOW FULL TABLES FROM `shop`", "SHOW PROCEDURE STATUS WHERE Db='shop'", "SHOW FUNCTION STATUS WHERE Db='shop'", "SHOW FULL COLUMNS FROM `shop`.`a`", "~SHOW INDEXES FROM `shop`.`a`",
			"SHOW TRIGGERS FROM `shop` LIKE 'a'", "~SHOW FULL PROCESSLIST", "SELECT st.* FROM information_schema.views st WHERE st.table_schema='shop'"}},
		{"DBeaver", []string{"?" + connectorJ("@@transaction_isolation", ""), "!" + connectorJ("@@tx_isolation", ", @@query_cache_size AS query_cache_size, @@query_cache_type AS query_cache_type"),
			"SHOW VARIABLES LIKE 'aurora\\_version'", "SET character_set_results = NULL", "SET autocommit=1", "SET sql_mode='STRICT_TRANS_TABLES'",
			"/* ApplicationName=DBeaver 24.2.0 - Metadata */ SELECT DATABASE()", "/* ApplicationName=DBeaver 24.2.0 - Metadata */ SHOW ENGINES", "SHOW CHARSET LIKE 'utf8%'", "SHOW COLLATION LIKE 'utf8mb4_unicode%'",
			"SELECT @@GLOBAL.character_set_server,@@GLOBAL.collation_server", "~SHOW PLUGINS", "SHOW VARIABLES LIKE 'lower_case_table_names'", "?SELECT @@session.transaction_read_only", "!SELECT @@session.tx_read_only", "~show databases",
			"SELECT * FROM information_schema.SCHEMATA WHERE SCHEMA_NAME='shop'", "SHOW FULL TABLES FROM `shop`", "~SHOW TABLE STATUS FROM `shop`",
			"~SELECT * FROM information_schema.TABLES t WHERE t.TABLE_SCHEMA = 'shop' AND t.TABLE_NAME = 'a'", "~SELECT * FROM information_schema.COLUMNS WHERE TABLE_SCHEMA='shop' AND TABLE_NAME='a' ORDER BY ORDINAL_POSITION",
			"SELECT CONSTRAINT_NAME, TABLE_NAME, COLUMN_NAME FROM INFORMATION_SCHEMA.KEY_COLUMN_USAGE WHERE TABLE_SCHEMA='shop' AND TABLE_NAME='a' AND REFERENCED_TABLE_NAME IS NULL ORDER BY CONSTRAINT_NAME, ORDINAL_POSITION",
			"SELECT * FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA='shop' AND ROUTINE_TYPE IN ('PROCEDURE','FUNCTION') ORDER BY ROUTINE_NAME", "SHOW EVENTS FROM `shop`",
			"SELECT * FROM information_schema.EVENTS WHERE EVENT_SCHEMA='shop'", "SELECT PARTITION_NAME FROM information_schema.PARTITIONS WHERE TABLE_SCHEMA='shop' AND TABLE_NAME='a'"}},
		{"phpMyAdmin", []string{"SELECT @@version, @@version_comment", "SET NAMES 'utf8mb4' COLLATE 'utf8mb4_general_ci'", "SET lc_messages = 'en_US'", "SELECT @@collation_connection", "~SELECT CURRENT_USER()", "~SHOW GRANTS",
			"SELECT COUNT(*) FROM `INFORMATION_SCHEMA`.`SCHEMATA` WHERE `SCHEMA_NAME` IN ('shop')", "SELECT `SCHEMA_NAME` FROM `INFORMATION_SCHEMA`.`SCHEMATA` WHERE SCHEMA_NAME LIKE 'shop%'",
			"SHOW SESSION VARIABLES LIKE 'FOREIGN_KEY_CHECKS'", "SELECT @@lower_case_table_names", "~SHOW TABLE STATUS FROM `shop` WHERE `Name` LIKE 'a%'", "SHOW FULL TABLES FROM `shop`",
			"SHOW FULL COLUMNS FROM `shop`.`a`", "~SHOW INDEXES FROM `shop`.`a`", "SELECT TABLE_NAME FROM information_schema.VIEWS WHERE TABLE_SCHEMA = 'shop' AND TABLE_NAME = 'a'",
			"SELECT `PARTITION_METHOD` FROM `information_schema`.`PARTITIONS` WHERE `TABLE_SCHEMA` = 'shop' AND `TABLE_NAME`='a' LIMIT 1", "SHOW CREATE TABLE `shop`.`a`", "SELECT COUNT(*) FROM `shop`.`a`",
			"SELECT * FROM `a` ORDER BY k LIMIT 0, 25", "SHOW VARIABLES LIKE 'have_%ssl'", "SHOW SESSION STATUS LIKE 'Ssl_cipher'"}},
		{"schema tools of frameworks (B141)", []string{"SELECT index_name,column_name FROM information_schema.statistics WHERE table_schema=DATABASE() AND table_name IN ('a') ORDER BY 1,2",
			"SELECT TABLE_NAME FROM INFORMATION_SCHEMA.TABLES WHERE TABLE_SCHEMA='shop' AND TABLE_NAME='a' UNION SELECT TABLE_NAME FROM information_schema.tables WHERE table_schema IN ('shop') AND table_name='a'",
			"SELECT schema_name FROM information_schema.schemata WHERE schema_name NOT IN ('mysql','performance_schema','sys') ORDER BY schema_name",
			"SELECT COUNT(*) FROM information_schema.columns WHERE table_schema='shop' AND table_name='a'", "SELECT COUNT(*) FROM information_schema.columns WHERE table_schema = SCHEMA() AND table_name LIKE 'a'",
			"SELECT kcu.* FROM information_schema.key_column_usage kcu JOIN information_schema.referential_constraints rc USING (constraint_name) WHERE kcu.table_schema='shop'",
			"select table_name as `name`, table_comment as `comment`, engine as `engine`, table_collation as `collation` from information_schema.tables where table_schema = 'shop' and table_type in ('BASE TABLE', 'SYSTEM VERSIONED') order by table_name",
			"SELECT column_name, data_type, column_default, is_nullable, extra FROM information_schema.columns WHERE table_schema = 'shop' AND table_name = 'a' ORDER BY ordinal_position"}},
	}
}

// TestToolsConnect sends what tools send when they connect, statement by
// statement and several in one text, with a database and without.
func TestToolsConnect(t *testing.T) {
	each(t, func(t *testing.T, s *sides) {
		s.both(t, "INSERT INTO a VALUES (1,'one'),(2,'two'),(3,'three')")
		for _, tool := range tools() {
			for _, database := range []string{"shop", ""} {
				t.Run(tool.name+"/"+database, func(t *testing.T) {
					var statements []string
					for _, text := range tool.statements {
						if mine := map[servers.Flavour]string{servers.MySQL: "?", servers.MariaDB: "!"}[s.b.Flavour()]; strings.HasPrefix(text, mine) {
							text = text[1:]
						} else if text[0] == '?' || text[0] == '!' {
							continue
						}
						statements = append(statements, text)
					}
					braid, plain := s.b.Wire(), wire.Options{Addr: s.plainServer.Addr(), User: servers.User, Password: servers.Password}
					braid.Database, plain.Database = database, database
					braid.Flags, plain.Flags = gomysql.CLIENT_MULTI_STATEMENTS, gomysql.CLIENT_MULTI_STATEMENTS
					b, p := connect(t, braid), connect(t, plain)
					for _, text := range statements {
						own := strings.HasPrefix(text, "~")
						text = strings.TrimPrefix(text, "~")
						if got, want := asked(b, text, own), asked(p, text, own); got != want {
							t.Errorf("%s\n--- Braid\n%.1500s\n--- plain\n%.1500s", text, got, want)
						}
					}
					all := strings.ReplaceAll(strings.Join(statements, "; "), "~", "")
					got, _ := b.Query(all)
					want, _ := p.Query(all)
					if len(got) != len(want) {
						t.Errorf("sent in one text: %d answers, plain %d", len(got), len(want))
					}
				})
			}
		}
	})
}

// asked prints the answer to a statement; of the server's own values only how
// they are announced and whether there are any.
func asked(c *wire.Conn, text string, own bool) string {
	results, err := c.Query(text)
	var b strings.Builder
	for _, r := range results {
		for _, col := range r.Columns {
			fmt.Fprintf(&b, "%s.%s type %d, ", col.Table, col.Name, col.Type)
		}
		if own {
			fmt.Fprintf(&b, "rows: %v\n", len(r.Rows) > 0)
			continue
		}
		fmt.Fprintf(&b, "%d rows, %d warnings\n", len(r.Rows), r.OK.Warnings)
		for _, row := range r.Rows {
			fmt.Fprintf(&b, "%q\n", row)
		}
	}
	if err != nil {
		fmt.Fprintf(&b, "error %v", err)
	}
	return b.String()
}
