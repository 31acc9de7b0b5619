package protocol

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"testing/iotest"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"braid/tests/e2e"
	"braid/tests/servers"
	"braid/tests/wire"
)

// loadCase is a LOAD DATA with its file; tail stands behind "INTO TABLE t".
type loadCase struct {
	name, head, tail, file string
	// refused says that Braid answers 1235 over several shards.
	refused bool
}

func loadCases() []loadCase {
	var many, quoted strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&many, "%d\t%d\trow %d\n", i, i*3, i)
		fmt.Fprintf(&quoted, "%d,\"%d\",\"line one\nline \"\"two\"\" of %d\"\r\n", i, i, i)
	}
	csv := ` FIELDS TERMINATED BY ',' OPTIONALLY ENCLOSED BY '"' LINES TERMINATED BY '\r\n'`
	return []loadCase{
		{name: "defaults", file: many.String()},
		{name: "no line end at the end", file: "1\t1\ta\n2\t2\tb"},
		{name: "empty file", file: ""},
		{name: "one empty line", file: "\n"},
		{name: "blank lines", file: "1\t1\ta\n\n\n2\t2\tb\n"},
		{name: "nulls and escapes", file: "1\t\\N\t\\\\ \\t \\n \\0 \\Z \\N\n2\t5\t\\N\n3\tN\t\\\n newline\n4\t4\tx\\\t\n"},
		{name: "csv", tail: csv, file: quoted.String()},
		{name: "csv with a header", tail: csv + " IGNORE 1 LINES (k,v,s)", file: "k,v,s\r\n" + quoted.String()},
		{name: "ignore rows", tail: " IGNORE 2999 ROWS", file: many.String()},
		{name: "ignore more than there is", tail: " IGNORE 5000 LINES", file: many.String()},
		{name: "quotes that do not end", tail: csv, file: "1,2,\"abc\r\n2,3,x\r\n"},
		{name: "quotes inside", tail: csv, file: "1,2,a\"b\"c\r\n2,3,\"a\"b\r\n3,4,\"\"\r\n4,5,\"NULL\"\r\n5,NULL,NULL\r\n"},
		{name: "fewer fields", file: "1\n2\t2\n3\t3\tc\n"},
		{name: "more fields", file: "1\t1\ta\tx\ty\n2\t2\tb\tmore\n3\t3\tc\n"},
		{name: "starting by", tail: " LINES STARTING BY 'xx'", file: "xx1\t1\ta\nno\nabc xx2\t2\tb\nxx3\t3\tc\n"},
		{name: "long terminators", tail: " FIELDS TERMINATED BY '<>' LINES TERMINATED BY '||\\n'", file: "1<>1<>a|b||\n2<>2<>c<d>e||\n3<>3<><||\n"},
		{name: "columns in another order", tail: " (s,k,v)", file: "a\t1\t10\nb\t2\t20\n"},
		{name: "some columns", tail: " (k)", file: "1\n2\n3\n"},
		{name: "variables", tail: " (@a,k,@b) SET v=@a+1, s=CONCAT(@b,'!')", file: "10\t1\tx\n20\t2\ty\n30\t3\tz\n"},
		{name: "set a constant", tail: " (k,v) SET s='fixed'", file: "1\t1\n2\t2\n"},
		{name: "bad numbers", file: "1\tabc\ta\n2x\t2\tb\n3\t99999999999\tc\n"},
		{name: "many warnings", file: strings.ReplaceAll(many.String(), "\trow", "x\trow")},
		{name: "duplicates", file: "1\t1\ta\n2\t2\tb\n1\t3\tc\n2\t4\td\n3\t5\te\n"},
		{name: "replace", head: "REPLACE", file: "1\t1\ta\n2\t2\tb\n1\t3\tc\n2\t4\td\n3\t5\te\n"},
		{name: "ignore", head: "IGNORE", file: "1\t1\ta\n2\t2\tb\n1\t3\tc\n"},
		{name: "latin1", tail: " CHARACTER SET latin1", file: "1\t1\t\xe9\xe8\n2\t2\t\xfc\n"},
		{name: "utf8", tail: " CHARACTER SET utf8mb4", file: "1\t1\té漢😀\n2\t2\tü\n"},
		{name: "hexadecimal terminators", tail: " FIELDS TERMINATED BY 0x3B LINES TERMINATED BY X'0A'", file: "1;1;a\n2;2;b\n"},
		{name: "no escapes", tail: " FIELDS ESCAPED BY ''", file: "1\t1\ta\\\n2\t2\t\\N\n"},
		{name: "escape is the quote", tail: " FIELDS TERMINATED BY ',' ENCLOSED BY '\"' ESCAPED BY '\"'", file: "1,1,\"a\"\"b\"\n2,2,\"c\n3,3,d\"\n"},
		{name: "lines end with the last field", tail: " FIELDS TERMINATED BY ';' LINES TERMINATED BY ';'", file: "1;1;a;2;2;b;3;3;c;"},
		{name: "a large row", file: "1\t1\t" + strings.Repeat("x", 3<<20) + "\n2\t2\tb\n"},
		{name: "B137", tail: ` FIELDS TERMINATED BY ',' OPTIONALLY ENCLOSED BY '"' (k,s)`,
			file: "1001,\\N\n1002,\"a,b\"\n1002,\"dup\"\n1003,\"line1\\\nline2\"\n1004,\"say \"\"hi\"\"\""},
		{name: "B137, upper case", tail: ` FIELDS TERMINATED BY ',' OPTIONALLY ENCLOSED BY '"' IGNORE 1 LINES (k,@x) SET s=UPPER(@x)`, file: "k,s\n1001,\"a,b\"\n1002,c"},
		{name: "an unknown column", tail: " (k,nosuch)", file: "1\t1\n"},
		{name: "computed key", tail: " (@x,v) SET k=@x*2", file: "1\t1\n", refused: true},
		{name: "fixed width", tail: " FIELDS TERMINATED BY '' ENCLOSED BY ''", file: "1\n", refused: true},
		{name: "a subquery", tail: " (k,v) SET s=(SELECT 'x')", file: "1\t1\n", refused: true},
	}
}

// loader is a client that sends file, in pieces of bytes.
func loader(t *testing.T, o wire.Options, file *string, bytes int) *wire.Conn {
	t.Helper()
	o.Flags |= gomysql.CLIENT_LOCAL_FILES
	o.LocalPacket = bytes
	o.Local = func(name string) (io.Reader, error) {
		if name != "the file.csv" {
			return nil, os.ErrNotExist
		}
		return strings.NewReader(*file), nil
	}
	return connect(t, o)
}

// TestLoadDataLocal compares each case with a plain server: the answer, the
// warnings with their row numbers, and the rows.
func TestLoadDataLocal(t *testing.T) {
	for _, flavour := range flavours {
		b := braid(t, flavour, nil)
		var file string
		for _, size := range []int{4000, 1 << 20} {
			direct := loader(t, plain(t, flavour), &file, 4000)
			through := loader(t, b.Wire(), &file, size)
			for _, c := range []*wire.Conn{direct, through} {
				query(t, c, "DROP TABLE IF EXISTS t")
				query(t, c, "CREATE TABLE t(k INT PRIMARY KEY, v INT, s MEDIUMTEXT) CHARACTER SET utf8mb4")
			}
			for _, test := range loadCases() {
				t.Run(fmt.Sprintf("%s/%d/%s", flavour, size, test.name), func(t *testing.T) {
					file = test.file
					text := "LOAD DATA LOCAL INFILE 'the file.csv' " + test.head + " INTO TABLE shop.t" + test.tail
					told := [2]string{}
					for i, c := range []*wire.Conn{direct, through} {
						query(t, c, "DELETE FROM t")
						told[i] = loaded(t, c, text)
					}
					if test.refused {
						if !strings.HasPrefix(told[1], "error 1235") {
							t.Errorf("Braid: %.300s", told[1])
						}
						return
					}
					if told[0] != told[1] {
						t.Errorf("Braid: %s\nplain: %s", shorten(told[1]), shorten(told[0]))
					}
				})
			}
		}
	}
}

func shorten(s string) string {
	if len(s) > 3000 {
		return s[:3000] + "..."
	}
	return s
}

// loaded is all there is to see of a LOAD DATA.
func loaded(t *testing.T, c *wire.Conn, text string) string {
	t.Helper()
	r, err := c.Query(text)
	var b strings.Builder
	if err != nil {
		fmt.Fprintf(&b, "error %d\n", code(err))
	} else {
		fmt.Fprintf(&b, "%+v\n", r[0].OK)
		for _, row := range query(t, c, "SHOW WARNINGS")[0].Rows {
			fmt.Fprintf(&b, "%s\n", row)
		}
		fmt.Fprintf(&b, "variables %s\n", query(t, c, "SELECT @a, @b")[0].Rows)
	}
	for _, row := range query(t, c, "SELECT k,v,CRC32(s),LENGTH(s),LEFT(s,40) FROM t ORDER BY k")[0].Rows {
		fmt.Fprintf(&b, "%q\n", row)
	}
	return b.String()
}

// TestLoadDataElsewhere loads into a global and a single table, in a
// transaction, and rolls back.
func TestLoadDataElsewhere(t *testing.T) {
	for _, flavour := range flavours {
		t.Run(string(flavour), func(t *testing.T) {
			b := braid(t, flavour, nil)
			file := "1\tx\n2\ty\n2\tz\n"
			c := loader(t, b.Wire(), &file, 100)
			for _, table := range []string{"g", "c", "t"} {
				query(t, c, "CREATE TABLE "+table+"(k INT PRIMARY KEY, s VARCHAR(10))")
				r := query(t, c, "LOAD DATA LOCAL INFILE 'the file.csv' INTO TABLE "+table)
				if got := r[0].OK; got.AffectedRows != 2 || got.Info != "Records: 3  Deleted: 0  Skipped: 1  Warnings: 1" {
					t.Errorf("%s: %+v", table, got)
				}
				if got := value(t, c, "SELECT COUNT(*) FROM "+table); got != "2" {
					t.Errorf("%s: %s rows", table, got)
				}
				query(t, c, "DELETE FROM "+table)
				query(t, c, "BEGIN")
				query(t, c, "INSERT INTO "+table+" VALUES (77,'before')")
				query(t, c, "LOAD DATA LOCAL INFILE 'the file.csv' INTO TABLE "+table)
				if got := value(t, c, "SELECT COUNT(*) FROM "+table); got != "3" {
					t.Errorf("%s: %s rows in the transaction", table, got)
				}
				query(t, c, "ROLLBACK")
				if got := value(t, c, "SELECT COUNT(*) FROM "+table); got != "0" {
					t.Errorf("%s: %s rows after ROLLBACK", table, got)
				}
			}
			for _, place := range b.Shards() {
				var n int
				if err := e2e.Open(t, place.Node, place.Schema).QueryRowContext(t.Context(), "SELECT COUNT(*) FROM g").Scan(&n); err != nil || n != 0 {
					t.Errorf("shard %s: %d rows of g, %v", place.Shard, n, err)
				}
			}
			// A row that cannot be placed undoes the statement, not the transaction.
			query(t, c, "BEGIN")
			query(t, c, "INSERT INTO t VALUES (5,'kept')")
			file = "1\tx\n\\N\ty\n"
			if _, err := c.Query("LOAD DATA LOCAL INFILE 'the file.csv' INTO TABLE t"); code(err) != 1235 {
				t.Errorf("NULL as the key: %v", err)
			}
			query(t, c, "COMMIT")
			if got := value(t, c, "SELECT GROUP_CONCAT(k) FROM t WHERE k IN (1,5)"); got != "5" {
				t.Errorf("rows %s", got)
			}
		})
	}
}

// TestLoadDataBreaksOff is the rest of B137: a file that the client does not
// have, which leaves the connection usable, and a client that stops in the middle
// of one, whose rows are rolled back.
func TestLoadDataBreaksOff(t *testing.T) {
	const head = 3000
	for _, flavour := range flavours {
		t.Run(string(flavour), func(t *testing.T) {
			b := braid(t, flavour, nil)
			var rows strings.Builder
			for i := range head {
				fmt.Fprintf(&rows, "%d\t%d\trow %d\n", i, i, i)
			}
			for _, o := range []wire.Options{plain(t, flavour), b.Wire()} {
				looker, file := connect(t, o), ""
				query(t, looker, "DROP TABLE IF EXISTS t")
				query(t, looker, "CREATE TABLE t(k INT PRIMARY KEY, v INT, s VARCHAR(20))")
				missing := loader(t, o, &file, 1000)
				if got := query(t, missing, "LOAD DATA LOCAL INFILE 'nosuch.csv' INTO TABLE t")[0].OK; got.AffectedRows != 0 || got.Info != "Records: 0  Deleted: 0  Skipped: 0  Warnings: 0" {
					t.Errorf("a missing file: %+v", got)
				}
				if got := value(t, missing, "SELECT COUNT(*) FROM t"); got != "0" {
					t.Errorf("%s rows of a missing file", got)
				}
				o.Flags |= gomysql.CLIENT_LOCAL_FILES
				o.LocalPacket = 1000
				o.Local = func(string) (io.Reader, error) {
					return io.MultiReader(strings.NewReader(rows.String()), iotest.ErrReader(errors.New("the disk is gone"))), nil
				}
				stops := connect(t, o)
				if _, err := stops.Query("LOAD DATA LOCAL INFILE 'the file.csv' INTO TABLE t"); err == nil {
					t.Error("a client that stops half-way has an answer")
				}
				if err := stops.Abort(); err != nil {
					t.Fatal(err)
				}
				// A lock on all rows waits until the statement has ended.
				if got := query(t, looker, "SELECT k FROM t ORDER BY k FOR UPDATE")[0].Rows; len(got) != 0 {
					t.Errorf("%d rows are there, whose client stopped half-way", len(got))
				}
			}
		})
	}
}

// TestLoadDataNeedsTheClient refuses where the client has not offered files, and
// a prepared LOAD DATA, as servers do.
func TestLoadDataNeedsTheClient(t *testing.T) {
	for _, flavour := range flavours {
		b := braid(t, flavour, nil)
		for i, o := range []wire.Options{plain(t, flavour), b.Wire()} {
			c := connect(t, o)
			query(t, c, "CREATE TABLE t(k INT PRIMARY KEY, s VARCHAR(10))")
			_, err := c.Query("LOAD DATA LOCAL INFILE 'the file.csv' INTO TABLE t")
			_, prepared := c.Prepare("LOAD DATA LOCAL INFILE 'the file.csv' INTO TABLE t")
			want := map[servers.Flavour][2]int{servers.MySQL: {3948, 1295}, servers.MariaDB: {4166, 1295}}[flavour]
			if got := [2]int{code(err), code(prepared)}; got != want && !(flavour == servers.MariaDB && got[0] == want[0]) {
				t.Errorf("%s, %d: %v, prepared %v", flavour, i, err, prepared)
			}
			if value(t, c, "SELECT 1") != "1" {
				t.Error("the connection is out of step")
			}
			if _, err := c.Query("SELECT * FROM t WHERE k=1 INTO OUTFILE '/tmp/braid-outfile'"); i == 1 && code(err) != 1235 {
				t.Errorf("INTO OUTFILE: %v", err)
			}
		}
	}
}
