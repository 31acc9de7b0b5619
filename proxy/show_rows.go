package proxy

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"math"
	"net"
	"os"
	"sort"
	"strconv"
	"strings"
	"time"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"braid/backend"
	"braid/internal/mysql"
	"braid/router"
)

// value brings a value of Braid's own into the form of a column.
func (a *nodeAnswer) value(column int, c cell) nodeValue {
	if !c.set {
		return nil
	}
	if !a.binary {
		return nodeValue(c.text)
	}
	n, _ := strconv.ParseInt(c.text, 10, 64)
	if u, err := strconv.ParseUint(c.text, 10, 64); err == nil {
		n = int64(u)
	}
	b := binary.LittleEndian
	switch a.columns[column].Type {
	case gomysql.MYSQL_TYPE_TINY:
		return nodeValue{byte(n)}
	case gomysql.MYSQL_TYPE_SHORT, gomysql.MYSQL_TYPE_YEAR:
		return b.AppendUint16(nil, uint16(n))
	case gomysql.MYSQL_TYPE_LONG, gomysql.MYSQL_TYPE_INT24:
		return b.AppendUint32(nil, uint32(n))
	case gomysql.MYSQL_TYPE_LONGLONG:
		return b.AppendUint64(nil, uint64(n))
	case gomysql.MYSQL_TYPE_FLOAT:
		x, _ := strconv.ParseFloat(c.text, 32)
		return b.AppendUint32(nil, math.Float32bits(float32(x)))
	case gomysql.MYSQL_TYPE_DOUBLE:
		x, _ := strconv.ParseFloat(c.text, 64)
		return b.AppendUint64(nil, math.Float64bits(x))
	}
	return nodeValue(c.text)
}

// number reads an unsigned integer column; false for NULL and other types.
func (a *nodeAnswer) number(column int, v nodeValue) (uint64, bool) {
	if v == nil {
		return 0, false
	}
	if !a.binary {
		n, err := strconv.ParseUint(string(v), 10, 64)
		return n, err == nil
	}
	switch len(v) {
	case 4:
		return uint64(binary.LittleEndian.Uint32(v)), true
	case 8:
		return binary.LittleEndian.Uint64(v), true
	}
	return 0, false
}

// visible are the databases the session's user may use, by name.
func (s *Session) visible() []string {
	var names []string
	for name := range s.gen.topology.Databases {
		if s.gen.checkDatabase(s.user, s.host, name) == nil {
			names = append(names, name)
		}
	}
	sort.Strings(names)
	return names
}

// databaseRows lists the databases. A node judges LIKE and WHERE over the list.
func (s *Session) databaseRows(a *nodeAnswer, sh *router.Show, q *router.Query, ps *execution) error {
	var b strings.Builder
	b.WriteString("SELECT `Database` FROM (SELECT SCHEMA_NAME AS `Database` FROM information_schema.SCHEMATA WHERE SCHEMA_NAME='information_schema'")
	for _, name := range s.visible() {
		fmt.Fprintf(&b, " UNION ALL SELECT _utf8mb3 x'%x'", name)
	}
	b.WriteString(") d ")
	if sh.FilterAt > 0 {
		if sh.HasLike {
			b.WriteString("WHERE `Database` ")
		}
		b.Write(q.Text[sh.FilterAt:])
	}
	p, err := s.home()
	if err != nil {
		return err
	}
	list, err := s.forward(&p, []byte(b.String()), ps)
	if err != nil {
		return err
	}
	a.rows = list.rows
	a.sortByFirst()
	return nil
}

func (a *nodeAnswer) sortByFirst() {
	sort.SliceStable(a.rows, func(i, j int) bool { return bytes.Compare(a.rows[i][0], a.rows[j][0]) < 0 })
}

// variableRows puts in the values that are the session's or Braid's.
func (s *Session) variableRows(a *nodeAnswer, sh *router.Show, q *router.Query) error {
	host, _ := os.Hostname()
	own := map[string]string{"version": s.version(), "hostname": host}
	if addr, ok := s.c.NetConn().LocalAddr().(*net.TCPAddr); ok {
		own["port"] = strconv.Itoa(addr.Port)
	}
	if !sh.Global {
		own["autocommit"] = "OFF"
		if s.autocommit {
			own["autocommit"] = "ON"
		}
		if s.bare {
			own[metadataVariable] = "NONE"
		}
		own["pseudo_thread_id"] = strconv.FormatUint(s.id, 10)
		own["last_insert_id"] = strconv.FormatUint(s.facts.LastInsertID, 10)
		own["identity"] = own["last_insert_id"]
		s.readingVars().Each(func(v backend.Var) {
			if treat(v.Name) == keptByBraid {
				own[v.Name] = unquote(v.Value)
			}
		})
	}
	a.override(own)
	return s.fenceRow(a, sh, q)
}

// fenceRow adds the variable that no node knows, where a LIKE names it.
func (s *Session) fenceRow(a *nodeAnswer, sh *router.Show, q *router.Query) error {
	if sh.Global || !sh.HasLike || len(a.columns) != 2 {
		return nil
	}
	if pattern := strings.ToLower(sh.Like); !strings.Contains(pattern, "braid") && !strings.Contains(pattern, "fence") {
		return nil
	}
	like, err := s.ask("SELECT '" + fenceVariable + "' " + string(q.Text[sh.FilterAt:]))
	if err != nil || like[0].text != "1" {
		return err
	}
	value := "OFF"
	if s.fence {
		value = "ON"
	}
	a.rows = append(a.rows, []nodeValue{nodeValue(fenceVariable), nodeValue(value)})
	a.sortByFirst()
	return nil
}

// statusRows puts in what is of the server as clients see it, and of the client's
// own connection. The other counters are those of the node, and of a connection to it.
func (s *Session) statusRows(a *nodeAnswer, sh *router.Show) {
	up := strconv.Itoa(int(time.Since(s.srv.start).Seconds()))
	sessions, running := s.srv.Sessions(), 0
	for _, x := range sessions {
		if x.Describe().Running {
			running++
		}
	}
	own := map[string]string{"Uptime": up, "Uptime_since_flush_status": up, "Threads_connected": strconv.Itoa(len(sessions)),
		"Threads_running": strconv.Itoa(running), "Prepared_stmt_count": strconv.FormatInt(s.srv.prepared.Load(), 10)}
	if !sh.Global {
		own["Ssl_cipher"], own["Ssl_version"] = "", ""
		if st, ok := mysql.TLSState(s.c.NetConn()); ok {
			own["Ssl_cipher"] = tls.CipherSuiteName(st.CipherSuite)
			own["Ssl_version"] = strings.Replace(tls.VersionName(st.Version), "TLS 1", "TLSv1", 1)
		}
	}
	a.override(own)
}

// override replaces values in rows of a name and a value.
func (a *nodeAnswer) override(own map[string]string) {
	if len(a.columns) != 2 {
		return
	}
	for _, r := range a.rows {
		if v, ok := own[string(r[0])]; ok {
			r[1] = nodeValue(v)
		}
	}
}

// processRows are Braid's own clients of the same user.
func (s *Session) processRows(a *nodeAnswer, full bool) {
	a.rows = nil
	for _, x := range s.srv.Sessions() {
		in := x.Describe()
		if in.User != s.user {
			continue
		}
		command, state, info := "Sleep", "", cell{}
		if in.Running {
			command, state, info = "Query", "executing", text(in.Text)
			if !full && len(in.Text) > 100 {
				info = text(in.Text[:100])
			}
		}
		own := map[string]cell{"Id": count(in.ID), "User": text(in.User), "Host": text(in.Host), "db": nullable(in.Database), "Command": text(command),
			"Time": number(int64(in.For / time.Second)), "State": text(state), "Info": info, "Progress": text("0.000")}
		row := make([]nodeValue, len(a.columns))
		for i := range a.columns {
			row[i] = a.value(i, own[a.columns[i].Name])
		}
		a.rows = append(a.rows, row)
	}
	id := a.column("Id")
	if id < 0 {
		return
	}
	sort.SliceStable(a.rows, func(i, j int) bool {
		x, _ := a.number(id, a.rows[i][id])
		y, _ := a.number(id, a.rows[j][id])
		return x < y
	})
}

// schemas are the databases by the schema of their first shard, where that is
// on the node the session asks; every other schema of a shard is "".
func (s *Session) schemas(p *place) map[string]string {
	m := map[string]string{"braid": ""}
	for _, db := range s.gen.topology.Databases {
		for _, sh := range db.Shards {
			if _, ok := m[sh.Schema]; !ok {
				m[sh.Schema] = ""
			}
		}
	}
	for _, name := range s.visible() {
		if first := s.shardPlace(name, 0); first.node == p.node {
			m[first.schema] = name
		}
	}
	return m
}

// mapNames makes a SHOW's condition on a column of schemas' names one on
// databases' names.
func (s *Session) mapNames(f *shown, sh *router.Show, q *router.Query, column string) error {
	same := true
	for _, name := range s.visible() {
		first := s.shardPlace(name, 0)
		same = same && first.schema == name
		if first.node != f.place.node {
			return unsupportedShow(sh, "of databases on several nodes")
		}
	}
	if same || sh.Where == "" {
		return nil
	}
	var b strings.Builder
	column = "`" + column + "`"
	fmt.Fprintf(&b, "(CASE %s", column)
	for schema, name := range s.schemas(&f.place) {
		fmt.Fprintf(&b, " WHEN %s THEN %s", quote(schema), quote(name))
	}
	fmt.Fprintf(&b, " ELSE %s END)", column)
	f.text = append(append([]byte{}, q.Text[:sh.FilterAt]...), router.ReplaceIdentifier(string(q.Text[sh.FilterAt:]), s.mode, s.charset, strings.Trim(column, "`"), b.String())...)
	return nil
}

// mapRows puts databases' names for schemas' and drops the rows of schemas that
// the client does not see.
func (s *Session) mapRows(a *nodeAnswer, column string) {
	i := a.column(column)
	p, err := s.home()
	if i < 0 || err != nil {
		return
	}
	names := s.schemas(&p)
	kept := a.rows[:0]
	for _, r := range a.rows {
		name, ours := names[string(r[i])]
		if ours && name == "" {
			continue
		}
		if ours {
			r[i] = nodeValue(name)
		}
		kept = append(kept, r)
	}
	a.rows = kept
}

// tableRows makes of one shard's rows about tables those of the database: each
// table once, from where it is; the sizes of a sharded one summed.
func (s *Session) tableRows(a *nodeAnswer, f *shown, sh *router.Show, q *router.Query, ps *execution) error {
	db := f.database
	column := 0
	if sh.What == "triggers" {
		column = a.column("Table")
	}
	status := sh.What == "table status"
	shards := map[int]bool{}
	for _, t := range db.Tables {
		if t.Kind == router.Single {
			shards[t.Shard] = true
		} else if status && t.Kind == router.Sharded {
			for i := range db.Shards {
				shards[i] = true
			}
			break
		}
	}
	sums := map[string][]nodeValue{}
	keep := func(rows [][]nodeValue, shard int) {
		for _, r := range rows {
			t := db.Table(string(r[column]))
			switch {
			case t == nil:
			case t.Kind == router.Single && t.Shard == shard, t.Kind != router.Single && shard == 0:
				a.rows = append(a.rows, r)
				sums[t.Name] = r
			case status && t.Kind == router.Sharded && sums[t.Name] != nil:
				a.addStatus(sums[t.Name], r)
			}
		}
	}
	rows := a.rows
	a.rows = nil
	keep(rows, 0)
	for shard := 1; shard < len(db.Shards); shard++ {
		if !shards[shard] {
			continue
		}
		g := shown{database: db, text: q.Text}
		g.at(s, sh, q, shard)
		more, err := s.forward(&g.place, g.text, ps)
		if err != nil {
			return err
		}
		if len(more.columns) != len(a.columns) {
			return mysql.Errorf(1105, "shards disagree on the columns of SHOW %s", strings.ToUpper(sh.What))
		}
		keep(more.rows, shard)
	}
	if sh.What != "triggers" {
		a.sortByFirst()
	}
	return nil
}

// addStatus adds the sizes in one shard's row of SHOW TABLE STATUS to sum.
func (a *nodeAnswer) addStatus(sum, r []nodeValue) {
	for i := range a.columns {
		x, okX := a.number(i, sum[i])
		y, okY := a.number(i, r[i])
		switch a.columns[i].Name {
		case "Rows", "Data_length", "Index_length", "Data_free":
			if okX && okY {
				sum[i] = a.value(i, count(x+y))
			}
		case "Auto_increment":
			if okX && okY && y > x {
				sum[i] = r[i]
			}
		case "Update_time":
			// Both forms order as text does, the binary one but for its length.
			if r[i] != nil && (sum[i] == nil || !a.binary && bytes.Compare(r[i], sum[i]) > 0 || a.binary && laterBinary(r[i], sum[i])) {
				sum[i] = r[i]
			}
		}
	}
	rows, n, size := a.column("Rows"), a.column("Avg_row_length"), a.column("Data_length")
	if rows < 0 || n < 0 || size < 0 || sum[n] == nil {
		return
	}
	total, _ := a.number(rows, sum[rows])
	bytes, _ := a.number(size, sum[size])
	sum[n] = a.value(n, count(bytes/max(total, 1)))
}

// laterBinary compares two DATETIME values of the binary protocol: a year of
// two bytes, low byte first, and then fields of one byte.
func laterBinary(x, y nodeValue) bool {
	key := func(v nodeValue) []byte {
		k := make([]byte, 7)
		copy(k, v)
		k[0], k[1] = k[1], k[0]
		return k
	}
	return bytes.Compare(key(x), key(y)) > 0
}
