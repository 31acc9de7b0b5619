package router

import (
	"fmt"
	"strings"
	"testing"
)

// show writes a digest with its markers readable: <i> a literal, <i*3> a folded
// list of three, <rows*3> three rows.
func show(q *Query) string {
	s := string(AppendExpanded(nil, q.Digest, func(dst []byte, h int, class Class, list bool) []byte {
		if list {
			return fmt.Appendf(dst, "<%c*%d>", class, q.Holes[h].N)
		}
		return fmt.Appendf(dst, "<%c>", class)
	}))
	if q.Rows.Rows > 0 {
		s += fmt.Sprintf(" rows*%d", q.Rows.Rows)
	}
	return s
}

func literals(q *Query) string {
	var l []string
	for i := range q.Literals {
		l = append(l, string(q.LiteralBytes(i)))
	}
	return strings.Join(l, "|")
}

type scanCase struct {
	name, text, digest, literals string
}

func runScan(t *testing.T, cases []scanCase, setup Query) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			q := setup
			q.Text = []byte(c.text)
			if err := q.Scan(); err != nil {
				t.Fatal(err)
			}
			if got := show(&q); got != c.digest {
				t.Errorf("digest of %q\n got %q\nwant %q", c.text, got, c.digest)
			}
			if got := literals(&q); got != c.literals {
				t.Errorf("literals of %q\n got %q\nwant %q", c.text, got, c.literals)
			}
		})
	}
}

func TestScanLiterals(t *testing.T) {
	runScan(t, []scanCase{
		{"point select", "SELECT c FROM t WHERE id=42", "SELECT c FROM t WHERE id=<i>", "42"},
		{"bytes are kept", "select  1+1 ,\n1 + 1", "select  <i>+<i> ,\n<i> + <i>", "1|1|1|1"},
		{"decimals", "1.5 .5 1. 0.0", "<d> <d> <d> <d>", "1.5|.5|1.|0.0"},
		{"floats", "1e5 1.5e-3 1.e+2 .5E7 1E10", "<f> <f> <f> <f> <f>", "1e5|1.5e-3|1.e+2|.5E7|1E10"},
		{"identifier begins with digits", "SELECT 1abc, 2e, 3_x, 4$ FROM 5t", "SELECT 1abc, 2e, 3_x, 4$ FROM 5t", ""},
		{"half an exponent is an identifier", "1e+x", "1e+x", ""},
		{"two dots", "1..2", "<i>.<d>", "1|.2"},
		{"touching dot is a name", "t.1e5, t.1, t .1", "t.1e5, t.1, t <d>", ".1"},
		{"dot after a quoted name is a number", "`t`.5", "`t`<d>", ".5"},
		{"word behind a dot is no keyword", "`t`.in (1,2)", "`t`.in (<i>,<i>)", "1|2"},
		{"digits in names", "c1=c_2 AND a$3=4", "c1=c_2 AND a$3=<i>", "4"},
		{"bytes over 0x7f in names", "é1=ж2+3", "é1=ж2+<i>", "3"},
		{"hex", "0x2A x'2A' X'2a' 0x 0xG 0X2A x'2'", "<h> <x> <x> 0x 0xG 0X2A x<s>", "0x2A|x'2A'|X'2a'|'2'"},
		{"hex that goes on as a name", "0x12g", "0x12g", ""},
		{"bits", "0b101 b'101' B'0' 0b 0b2 0B1 b'2'", "<b> <b> <b> 0b 0b2 0B1 b<s>", "0b101|b'101'|B'0'|'2'"},
		{"empty hex and bit", "x'' b''", "<x> <b>", "x''|b''"},
		{"string", "'a' = \"b\"", "<s> = <s>", "'a'|\"b\""},
		{"doubled quotes", "'d''q', \"d\"\"q\", \"'\", '\"'", "<s>, <s>, <s>, <s>", "'d''q'|\"d\"\"q\"|\"'\"|'\"'"},
		{"backslashes", `'a\'b', 'c\\', "\""`, "<s>, <s>, <s>", `'a\'b'|'c\\'|"\""`},
		{"adjacent strings", "'a' 'b'\n\"c\" , 'd'", "<s> , <s>", "'a' 'b'\n\"c\"|'d'"},
		{"adjacent over comments", "'a' /*c*/ 'b' -- x\n 'c' # y\n'd' e", "<s> e", "'a' /*c*/ 'b' -- x\n 'c' # y\n'd'"},
		{"not adjacent over code", "'a' /*! 'b' */", "<s> /*! <s> */", "'a'|'b'"},
		{"national", "N'x' n'y' 'z' N 'q'", "<n> <n> N <s>", "N'x'|n'y' 'z'|'q'"},
		{"introducer", "_latin1'x' _utf8mb4 0x41", "_latin1<s> _utf8mb4 <h>", "'x'|0x41"},
		{"typed", "DATE'2020-01-01' date '2020-01-01'", "DATE<s> date <s>", "'2020-01-01'|'2020-01-01'"},
		{"words stay", "NULL TRUE false", "NULL TRUE false", ""},
		{"sign is not part", "k=-1 AND x=+2", "k=-<i> AND x=+<i>", "1|2"},
		{"minus minus", "SELECT 1--1", "SELECT <i>--<i>", "1|1"},
		{"variables", "@a1 @`b 1` @'c''1' @\"d 1\" @@e1 @@global.f1 @1.5 @", "@a1 @`b 1` @'c''1' @\"d 1\" @@e1 @@global.f1 @1.5 @", ""},
		{"account", "'u'@'h' x@1", "<s>@'h' x@1", "'u'"},
		{"backticks", "`a'1``2` `x\\`1", "`a'1``2` `x\\`<i>", "1"},
		{"question mark is a byte", "?", "?", ""},
		{"string without end", "SELECT 'abc", "SELECT <s>", "'abc"},
		{"string ends in a backslash", `SELECT 'abc\`, "SELECT <s>", `'abc\`},
		{"name without end", "SELECT `abc", "SELECT `abc", ""},
		{"empty", "", "", ""},
	}, Query{})
}

func TestScanModes(t *testing.T) {
	runScan(t, []scanCase{
		{"double quotes are names", `SELECT "x 1""2" FROM t WHERE c='dq'`, `SELECT "x 1""2" FROM t WHERE c=<s>`, "'dq'"},
		{"no backslash in names", `"a\" 1`, `"a\" <i>`, "1"},
		{"string and name do not join", `'a' "b"`, `<s> "b"`, "'a'"},
		{"variable", `@"a 1"`, `@"a 1"`, ""},
	}, Query{Mode: ModeAnsiQuotes})
	runScan(t, []scanCase{
		{"backslash is a character", `c='a\' AND d="\"`, "c=<s> AND d=<s>", `'a\'|"\"`},
	}, Query{Mode: ModeNoBackslashEscapes})
	runScan(t, []scanCase{
		{"parameters", "SELECT ?,'?',`?` /* ? */ FROM t WHERE a IN (?,?) LIMIT ?", "SELECT <?>,<s>,`?` /* ? */ FROM t WHERE a IN (<?>,<?>) LIMIT <?>", "?|'?'|?|?|?"},
		{"rows of parameters do not fold", "INSERT INTO t VALUES (?,1),(?,1)", "INSERT INTO t VALUES (<?>,<i>),(<?>,<i>)", "?|1|?|1"},
		{"lists of literals fold", "a IN (1,2) AND b=?", "a IN (<i*2>) AND b=<?>", "1|2|?"},
	}, Query{Prepared: true})
}

func TestScanCharsets(t *testing.T) {
	gbk := []scanCase{
		{"second byte is a backslash", "'\x95\x5c' 1", "<s> <i>", "'\x95\x5c'|1"},
		{"second byte is a backtick", "`\x95\x60` 1", "`\x95\x60` <i>", "1"},
		{"second byte in a name", "a\x95\x5cb=1", "a\x95\x5cb=<i>", "1"},
		{"lead byte before a quote stands alone", "'\x95' 1", "<s> <i>", "'\x95'|1"},
		{"escape takes one byte", "'\\\x95\x5c' 1", "<s>", "'\\\x95\x5c' 1"},
	}
	for _, charset := range []string{"gbk", "gb18030", "sjis", "cp932"} {
		t.Run(charset, func(t *testing.T) { runScan(t, gbk, Query{Charset: charset}) })
	}
	runScan(t, []scanCase{
		{"big5", "'\xa5\x5c' 1", "<s> <i>", "'\xa5\x5c'|1"},
		{"not a big5 lead byte", "'\x95\x5c' 1'", "<s>", "'\x95\x5c' 1'"},
	}, Query{Charset: "big5"})
	runScan(t, []scanCase{
		{"latin1", "'\x95\x5c' 1'", "<s>", "'\x95\x5c' 1'"},
	}, Query{Charset: "latin1"})
}

func TestScanComments(t *testing.T) {
	runScan(t, []scanCase{
		{"around", " /* 1 */ -- 2\n# 3\n SELECT 4 /* 5 */ ; -- 6", "SELECT <i>", "4"},
		{"semicolons at the end", "SELECT 1 ;;; ", "SELECT <i>", "1"},
		{"semicolon before a comment", "SELECT 1; /* x */", "SELECT <i>", "1"},
		{"two semicolons before a comment", "SELECT 1;; /* x */", "SELECT <i>;;", "1"},
		{"two statements", "SELECT 1; SELECT 2;", "SELECT <i>; SELECT <i>", "1|2"},
		{"inner comment is kept", "SELECT /* 'a' 1 */ 2 -- 'b'\n,3", "SELECT /* 'a' 1 */ <i> -- 'b'\n,<i>", "2|3"},
		{"dash dash needs a blank", "SELECT 5--1, 6--\t7\n,8", "SELECT <i>--<i>, <i>--\t7\n,<i>", "5|1|6|8"},
		{"dash dash at the end", "SELECT 1 --", "SELECT <i>", "1"},
		{"dash dash and a control byte", "SELECT 1 --\x05'\n, 2", "SELECT <i> --\x05'\n, <i>", "1|2"},
		{"slash without star", "4/2", "<i>/<i>", "4|2"},
		{"executable", "SELECT /*!50000 1, */ 2, /*! 3,*/ 4, /*!100100 5,*/ 6 /*!1+1*/", "SELECT /*!50000 <i>, */ <i>, /*! <i>,*/ <i>, /*!100100 <i>,*/ <i> /*!<i>+<i>*/", "1|2|3|4|5|6|1|1"},
		{"executable around", "/*!40101 SET NAMES utf8 */;", "/*!40101 SET NAMES utf8 */", ""},
		{"hint", "SELECT /*+ MAX_EXECUTION_TIME(1000) */ 1", "SELECT /*+ MAX_EXECUTION_TIME(1000) */ <i>", "1"},
		{"directive in front", "/*braid shard=1*/ SELECT 1", "/*braid shard=1*/ SELECT <i>", "1"},
		{"directive behind", "SELECT 1 /* braid x */", "SELECT <i> /* braid x */", "1"},
		{"not a directive", "SELECT 1 /* braided */", "SELECT <i>", "1"},
		{"MariaDB's own", "SELECT 1 /*M! , 2 */", "SELECT <i> /*M! , 2 */", "1"},
		{"comment without end is kept", "SELECT 1 /* 2", "SELECT <i> /* 2", "1"},
		{"star slash slash", "/*/ 1 */ 2", "<i>", "2"},
	}, Query{})
}

func TestScanLists(t *testing.T) {
	runScan(t, []scanCase{
		{"list", "a IN (1,2 , 3)", "a IN (<i*3>)", "1|2|3"},
		{"blanks inside", "a in\n( 1 , 2 ) AND b=4", "a in\n( <i*2> ) AND b=<i>", "1|2|4"},
		{"one", "a IN (1)", "a IN (<i>)", "1"},
		{"classes differ", "a IN (1,'2')", "a IN (<i>,<s>)", "1|'2'"},
		{"integer and decimal differ", "a IN (1,2,3.0)", "a IN (<i>,<i>,<d>)", "1|2|3.0"},
		{"strings", "a NOT IN ('a','b' 'c',\"d\")", "a NOT IN (<s*3>)", "'a'|'b' 'c'|\"d\""},
		{"hex kinds differ", "a IN (0x41,x'41')", "a IN (<h>,<x>)", "0x41|x'41'"},
		{"null inside", "a IN (1,NULL,2)", "a IN (<i>,NULL,<i>)", "1|2"},
		{"negative", "a IN (-1,2)", "a IN (-<i>,<i>)", "1|2"},
		{"comment inside", "a IN (1,/**/2)", "a IN (<i>,/**/<i>)", "1|2"},
		{"expression inside", "a IN (1,2+3)", "a IN (<i>,<i>+<i>)", "1|2|3"},
		{"rows", "(a,b) IN ((1,2),(3,4))", "(a,b) IN ((<i>,<i>),(<i>,<i>))", "1|2|3|4"},
		{"arguments are not lists", "MOD(5,3)+ROUND(1.5,1)", "MOD(<i>,<i>)+ROUND(<d>,<i>)", "5|3|1.5|1"},
		{"row constructor is not a list", "(a,b)=(1,2)", "(a,b)=(<i>,<i>)", "1|2"},
		{"subquery", "a IN (SELECT 1 FROM t WHERE b IN (2,3))", "a IN (SELECT <i> FROM t WHERE b IN (<i*2>))", "1|2|3"},
		{"without end", "a IN (1,2", "a IN (<i>,<i>", "1|2"},
		{"comma before the end", "a IN (1,2,)", "a IN (<i>,<i>,)", "1|2"},
		{"name that ends in in", "min(1,2) domain(1,2)", "min(<i>,<i>) domain(<i>,<i>)", "1|2|1|2"},
		{"quoted in", "`in`(1,2)", "`in`(<i>,<i>)", "1|2"},
	}, Query{})
	digest := func(text string) string {
		q := Query{Text: []byte(text)}
		if err := q.Scan(); err != nil {
			t.Fatal(err)
		}
		return string(q.Digest)
	}
	if digest("a IN (1,2)") != digest("a IN (7, 8,9)") {
		t.Error("lists of two and of three have different digests")
	}
	for _, other := range []string{"a IN ('1','2')", "a IN (1.0,2.0)", "a IN (1)", "a IN (1e0,2e0)"} {
		if digest("a IN (1,2)") == digest(other) {
			t.Errorf("IN (1,2) and %s have one digest", other)
		}
	}
}

func TestScanRows(t *testing.T) {
	runScan(t, []scanCase{
		{"rows", "INSERT INTO t VALUES (1,'a'), (2,'b') ,(3,'c')", "INSERT INTO t VALUES (<i>,<s>) rows*3", "1|'a'|2|'b'|3|'c'"},
		{"replace, value", "replace t(a) value(1),(2);", "replace t(a) value(<i>) rows*2", "1|2"},
		{"one row", "INSERT INTO t VALUES (1)", "INSERT INTO t VALUES (<i>)", "1"},
		{"more behind", "INSERT INTO t VALUES (1),(2) ON DUPLICATE KEY UPDATE a=VALUES(a)+3, b=b IN (4,5)", "INSERT INTO t VALUES (<i>) ON DUPLICATE KEY UPDATE a=VALUES(a)+<i>, b=b IN (<i*2>) rows*2", "1|2|3|4|5"},
		{"literal in front", "INSERT /*+ x */ INTO t PARTITION (p1) (a) VALUES (1),(2)", "INSERT /*+ x */ INTO t PARTITION (p1) (a) VALUES (<i>) rows*2", "1|2"},
		{"a class differs", "INSERT INTO t VALUES (1),('2')", "INSERT INTO t VALUES (<i>),(<s>)", "1|'2'"},
		{"a blank differs", "INSERT INTO t VALUES (1,2),(3, 4)", "INSERT INTO t VALUES (<i>,<i>),(<i>, <i>)", "1|2|3|4"},
		{"third differs", "INSERT INTO t VALUES (1),(2),(NULL)", "INSERT INTO t VALUES (<i>),(<i>),(NULL)", "1|2"},
		{"words must be equal", "INSERT INTO t VALUES (1,NOW()),(2,NOW())", "INSERT INTO t VALUES (<i>,NOW()) rows*2", "1|2"},
		{"no literals", "INSERT INTO t VALUES (DEFAULT),(DEFAULT)", "INSERT INTO t VALUES (DEFAULT),(DEFAULT)", ""},
		{"lists inside do not fold", "INSERT INTO t VALUES (1 IN (1,2)),(3 IN (4,5))", "INSERT INTO t VALUES (<i> IN (<i>,<i>)) rows*2", "1|1|2|3|4|5"},
		{"column named value", "INSERT INTO t (value, `values`) VALUES (1,2),(3,4)", "INSERT INTO t (value, `values`) VALUES (<i>,<i>) rows*2", "1|2|3|4"},
		{"table named value", "INSERT INTO value (a) VALUES (1),(2)", "INSERT INTO value (a) VALUES (<i>) rows*2", "1|2"},
		{"comment between rows", "INSERT INTO t VALUES (1),/*c*/(2)", "INSERT INTO t VALUES (<i>),/*c*/(<i>)", "1|2"},
		{"comment before the comma", "INSERT INTO t VALUES (1),(2)/*c*/,(3)", "INSERT INTO t VALUES (<i>),(<i>)/*c*/,(<i>)", "1|2|3"},
		{"comment behind", "INSERT INTO t VALUES (1),(2) /* trace */", "INSERT INTO t VALUES (<i>) rows*2", "1|2"},
		{"ROW rows", "INSERT INTO t VALUES ROW(1,2),ROW(3,4)", "INSERT INTO t VALUES ROW(<i>,<i>),ROW(<i>,<i>)", "1|2|3|4"},
		{"without end", "INSERT INTO t VALUES (1),(2", "INSERT INTO t VALUES (<i>),(<i>", "1|2"},
		{"comma at the end", "INSERT INTO t VALUES (1),(2),", "INSERT INTO t VALUES (<i>),(<i>),", "1|2"},
		{"VALUES elsewhere", "SELECT * FROM (VALUES (1),(2)) v", "SELECT * FROM (VALUES (<i>),(<i>)) v", "1|2"},
		{"select", "INSERT INTO t SELECT 1 FROM u WHERE a IN (1,2)", "INSERT INTO t SELECT <i> FROM u WHERE a IN (<i*2>)", "1|1|2"},
	}, Query{})
}

func TestScanRowBytes(t *testing.T) {
	q := Query{Text: []byte("INSERT INTO t VALUES (NOW(), 1, 'a' ) , (NOW(), 22, 'b''b' ),(NOW(), 3, 'c' )")}
	if err := q.Scan(); err != nil {
		t.Fatal(err)
	}
	for r, want := range []string{"(NOW(), 1, 'a' )", "(NOW(), 22, 'b''b' )", "(NOW(), 3, 'c' )"} {
		if got := string(q.RowBytes(r)); got != want {
			t.Errorf("row %d is %q, want %q", r, got, want)
		}
	}
	if got := string(q.Text[q.Rows.SepStart:q.Rows.SepEnd]); got != " , " {
		t.Errorf("separator is %q", got)
	}
}

func TestScanMarkersCannotBeForged(t *testing.T) {
	real := Query{Text: []byte("SELECT 5")}
	for _, text := range []string{"SELECT \x01i", "SELECT `\x01i`", "SELECT /*\x02i*/ a", "SELECT \x04Ai"} {
		forged := Query{Text: []byte(text)}
		if real.Scan() != nil || forged.Scan() != nil {
			t.Fatal("scan failed")
		}
		if string(real.Digest) == string(forged.Digest) || len(forged.Holes) != 0 {
			t.Errorf("%q has digest %q", text, forged.Digest)
		}
		if got := rebuild(&forged); got != text {
			t.Errorf("%q comes back as %q", text, got)
		}
	}
}

// rebuild puts a scanned statement together again from digest and literals.
func rebuild(q *Query) string {
	s := AppendExpanded(nil, q.Digest, func(dst []byte, h int, _ Class, _ bool) []byte {
		dst = append(dst, q.HoleBytes(h)...)
		if r := &q.Rows; r.Rows > 0 && h == int(r.FirstHole+r.PerRow)-1 {
			// The rest of the first row stands in the digest; the other rows go there too.
			tail := int(r.SepStart - q.Literals[q.Holes[h].First].End)
			rest := q.Text[r.SepStart-int32(tail) : r.SepStart]
			last := q.RowBytes(int(r.Rows) - 1)
			from, to := int(r.SepStart), offset(q.Text, last)+len(last)
			dst = append(append(dst, rest...), q.Text[from:to]...)
			dst = dst[:len(dst)-tail] // and again it stands in the digest
		}
		return dst
	})
	return string(s)
}

// offset tells where sub, a part of t, begins in t.
func offset(t, sub []byte) int { return cap(t) - cap(sub) }

func FuzzScan(f *testing.F) {
	for _, s := range []string{
		"SELECT c FROM t WHERE id=42", "INSERT INTO t VALUES (1,'a'),(2,'b') , (3,'c') ON DUPLICATE KEY UPDATE a=1",
		"a IN (1,2 , 3) AND b IN ('a','b' /*x*/ 'c')", "/*!50000 1*/ -- x\n# y\n;", "\x01i\x04\x02 '\\''", "x'41' 0b1 .5 1e5 N'a' `\x03`",
		"REPLACE t VALUES (/*\x01*/1),(/*\x01*/2)",
	} {
		f.Add([]byte(s), uint8(0), false)
		f.Add([]byte(s), uint8(7), true)
	}
	charsets := []string{"utf8mb4", "gbk", "big5", "sjis"}
	f.Fuzz(func(t *testing.T, text []byte, setup uint8, prepared bool) {
		q := Query{Text: text, Mode: Mode(setup & 3), Charset: charsets[setup>>2&3], Prepared: prepared}
		if err := q.Scan(); err != nil {
			t.Fatal(err)
		}
		end := int32(0)
		for i, l := range q.Literals {
			if l.Start < end || l.End <= l.Start || int(l.End) > len(text) {
				t.Fatalf("literal %d of %q is [%d:%d], the one before ended at %d", i, text, l.Start, l.End, end)
			}
			end = l.End
			if _, err := q.Value(l.Class, q.LiteralBytes(i)); err != nil && l.Class != ClassParam {
				t.Fatalf("literal %q: %v", q.LiteralBytes(i), err)
			}
		}
		// What was left out is only what means nothing; scanned again nothing changes.
		again := Query{Text: []byte(rebuild(&q)), Mode: q.Mode, Charset: q.Charset, Prepared: prepared}
		if strings.TrimSpace(string(again.Text)) != "" && !strings.Contains(string(text), string(again.Text)) {
			t.Fatalf("%q comes back as %q", text, again.Text)
		}
		if err := again.Scan(); err != nil {
			t.Fatal(err)
		}
		if len(trimEnd(again.Text)) != len(again.Text) {
			return // two semicolons that only stayed because of the comment behind them
		}
		if string(again.Digest) != string(q.Digest) || literals(&again) != literals(&q) || again.Hash != q.Hash || again.Rows.Rows != q.Rows.Rows {
			t.Fatalf("%q is %q %q; again %q is %q %q", text, q.Digest, literals(&q), again.Text, again.Digest, literals(&again))
		}
		rest := text
		for len(rest) > 0 {
			_, next := NextStatement(rest, q.Mode, q.Charset)
			if len(next) >= len(rest) {
				t.Fatalf("no progress in %q", rest)
			}
			rest = next
		}
	})
}

func TestScanAllocatesNothing(t *testing.T) {
	q := Query{Text: []byte("INSERT INTO t VALUES (1,'a'),(2,'b') ON DUPLICATE KEY UPDATE c=c IN (1,2,3)")}
	if n := testing.AllocsPerRun(100, func() { _ = q.Scan() }); n != 0 {
		t.Errorf("%v allocations per scan", n)
	}
}

func BenchmarkScan(b *testing.B) {
	in := make([]string, 100)
	row := make([]string, 10)
	for i := range in {
		in[i] = fmt.Sprint(i * 7919)
	}
	for i := range row {
		row[i] = fmt.Sprintf("(%d,%d,%d,%d,%d,'%024d')", i, i*3, i*5, i*7, i*11, i)
	}
	for _, c := range []struct{ name, text string }{
		{"point", "SELECT c FROM sbtest1 WHERE id=50123"},
		{"range", "SELECT c FROM sbtest1 WHERE id BETWEEN 50123 AND 50222 ORDER BY c"},
		{"update", "UPDATE sbtest1 SET k=k+1 WHERE id=50123"},
		{"in100", "SELECT c FROM sbtest1 WHERE id IN (" + strings.Join(in, ",") + ")"},
		{"insert10", "INSERT INTO order_line (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_dist_info) VALUES " + strings.Join(row, ",")},
	} {
		b.Run(c.name, func(b *testing.B) {
			q := Query{Text: []byte(c.text), Charset: "utf8mb4"}
			b.ReportAllocs()
			for b.Loop() {
				_ = q.Scan()
			}
		})
	}
}
