package proxy

import (
	"fmt"
	"sort"
	"strconv"
	"strings"

	"braid/backend"
	"braid/router"
)

// nodeSchemas is what a node holds of a database.
type nodeSchemas struct {
	defaults nodeDefaults
	lower    bool // lower_case_table_names is set
	// schemas has the tables of each schema that is there, by the name asked for.
	schemas map[string]router.ShardTables
	err     error // why the node could not be read
}

// nodeReader reads schemas of a node, all of them with each question.
type nodeReader struct {
	c       *backend.Conn
	schemas []string
	// tables are those found, by schema as in schemas and by name. A schema that is
	// not there has no map.
	tables []map[string]*router.TableInfo
	err    error // of the first question that failed; later ones are not asked
}

// readNode reads the schemas on c, which is the caller's.
func readNode(c *backend.Conn, schemas []string) nodeSchemas {
	out := nodeSchemas{schemas: map[string]router.ShardTables{}}
	rows, err := c.Query("SELECT @@version, @@global.sql_mode, @@global.time_zone, @@lower_case_table_names, @@system_time_zone, @@max_sort_length, @@global.character_set_client, @@global.collation_connection, @@global.max_error_count, @@global.max_prepared_stmt_count", 1)
	if err != nil {
		out.err = err
		return out
	}
	v := rows[0]
	out.defaults = nodeDefaults{version: string(v[0]), sqlMode: string(v[1]), timeZone: string(v[2]), systemZone: string(v[4]), sortLength: int(parseUint(v[5])),
		clientSet: string(v[6]), collation: string(v[7]), errorsMax: int(parseUint(v[8])), preparedMax: int64(parseUint(v[9]))}
	out.lower = string(v[3]) != "0"
	c.Node().SetStatementsMax(out.defaults.preparedMax)
	r := &nodeReader{c: c, schemas: schemas, tables: make([]map[string]*router.TableInfo, len(schemas))}
	r.ask("SCHEMA_NAME", "SCHEMATA", "SCHEMA_NAME", "", "", func(schema int, _ *router.TableInfo, _ [][]byte) {
		r.tables[schema] = map[string]*router.TableInfo{}
	})
	r.readTables()
	r.readColumns()
	r.readKeys()
	out.err = r.err
	for i, tables := range r.tables {
		if tables == nil {
			continue
		}
		all := make(router.ShardTables, 0, len(tables))
		for _, t := range tables {
			all = append(all, *t)
		}
		sort.Slice(all, func(i, j int) bool { return all[i].Name < all[j].Name })
		out.schemas[schemas[i]] = all
	}
	return out
}

// ask hands f the rows of a table of information_schema: columns, of which the
// first is the name of the schema's table that the row is of; t is nil when that
// is not known. The rows of all schemas come as one answer, ordered by the numbers of
// columns. Each schema is a query of its own in it, since MariaDB opens only the tables
// that a comparison with one name leaves.
func (r *nodeReader) ask(columns, table, schemaColumn, more, order string, f func(schema int, t *router.TableInfo, row [][]byte)) {
	if r.err != nil {
		return
	}
	var b strings.Builder
	for i, s := range r.schemas {
		if i > 0 {
			b.WriteString(" UNION ALL ")
		}
		fmt.Fprintf(&b, "SELECT %s, %d FROM information_schema.%s WHERE %s=%s%s", columns, i, table, schemaColumn, quote(s), more)
	}
	rows, err := r.c.Query(b.String()+order, tablesMax)
	if err != nil {
		r.err = err
		return
	}
	for _, row := range rows {
		schema := int(parseUint(row[len(row)-1]))
		if schema >= len(r.tables) {
			r.err = fmt.Errorf("node %s: information_schema.%s answers for a schema that was not asked for: %q", r.c.Node().Name(), table, row)
			return
		}
		f(schema, r.tables[schema][string(row[0])], row)
	}
}

func (r *nodeReader) readTables() {
	r.ask("TABLE_NAME, TABLE_TYPE, ENGINE", "TABLES", "TABLE_SCHEMA", "", "", func(schema int, _ *router.TableInfo, row [][]byte) {
		if r.tables[schema] == nil {
			return // made just now
		}
		name := string(row[0])
		r.tables[schema][name] = &router.TableInfo{Name: name, View: strings.HasSuffix(string(row[1]), "VIEW"), Snapshots: string(row[2]) == "InnoDB"}
	})
	r.ask("TABLE_NAME, VIEW_DEFINITION, COLLATION_CONNECTION", "VIEWS", "TABLE_SCHEMA", "", "", func(_ int, t *router.TableInfo, row [][]byte) {
		if t != nil {
			t.Definition, t.Collation = string(row[1]), string(row[2])
		}
	})
	r.ask("EVENT_OBJECT_TABLE, TRIGGER_NAME", "TRIGGERS", "EVENT_OBJECT_SCHEMA", "", "", func(_ int, t *router.TableInfo, row [][]byte) {
		if t != nil {
			t.Triggers, t.TriggerNames = true, append(t.TriggerNames, string(row[1]))
		}
	})
}

func (r *nodeReader) readColumns() {
	r.ask("TABLE_NAME, COLUMN_NAME, DATA_TYPE, COLUMN_TYPE, CHARACTER_SET_NAME, COLLATION_NAME, IS_NULLABLE, COLUMN_DEFAULT, EXTRA, ORDINAL_POSITION",
		"COLUMNS", "TABLE_SCHEMA", "", " ORDER BY 1, 10", func(_ int, t *router.TableInfo, row [][]byte) {
			if t == nil {
				return
			}
			pos, _ := strconv.Atoi(string(row[9]))
			col := router.Column{Name: string(row[1]), DataType: strings.ToLower(string(row[2])), ColumnType: strings.ToLower(string(row[3])),
				Charset: string(row[4]), Collation: string(row[5]), Nullable: string(row[6]) == "YES", Extra: string(row[8]), Position: pos}
			if col.DataType == "enum" || col.DataType == "set" {
				col.ColumnType = string(row[3]) // its members keep their case
			}
			if row[7] != nil {
				s := string(row[7])
				col.Default = &s
			}
			t.Columns = append(t.Columns, col)
		})
}

func (r *nodeReader) readKeys() {
	r.ask("TABLE_NAME, INDEX_NAME, CASE WHEN SUB_PART IS NULL THEN COLUMN_NAME END, NON_UNIQUE, SEQ_IN_INDEX",
		"STATISTICS", "TABLE_SCHEMA", "", " ORDER BY 1, 2, 5", func(_ int, t *router.TableInfo, row [][]byte) {
			if t == nil {
				return
			}
			col := -1 // a functional key part has no column, and a beginning is not one
			for i := range t.Columns {
				if t.Columns[i].Name == string(row[2]) {
					col = i
				}
			}
			t.AddIndex(string(row[1]), string(row[3]) == "0", col)
		})
	r.ask("TABLE_NAME, CONSTRAINT_NAME, COLUMN_NAME, IF(REFERENCED_TABLE_SCHEMA=TABLE_SCHEMA, REFERENCED_TABLE_NAME, ''), REFERENCED_COLUMN_NAME, ORDINAL_POSITION",
		"KEY_COLUMN_USAGE", "TABLE_SCHEMA", " AND REFERENCED_TABLE_NAME IS NOT NULL", " ORDER BY 1, 2, 6", func(_ int, t *router.TableInfo, row [][]byte) {
			if t != nil {
				t.AddForeign(string(row[1]), string(row[2]), string(row[3]), string(row[4]))
			}
		})
}
