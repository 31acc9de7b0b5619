package difftest

import (
	"path/filepath"

	"braid/conf"
)

// randomTable is a table, or a derived one, as the generator knows it.
type randomTable struct {
	name    string
	key     []string // together unique and not NULL; of a derived table all columns
	numbers []string // exact
	floats  []string
	sharp   []string // texts of which equal ones look alike
	folded  []string // texts of which equal ones may look different
	times   []string
	others  []string            // shown and compared with NULL only
	values  map[string][]string // literals to compare a column with
	joins   []randomJoin
}

// randomJoin is an equality by which a table is joined with another, %[1]s the
// one's alias and %[2]s the other's.
type randomJoin struct{ table, on string }

// randomFile is what the generator's statements run over: four shards.
func randomFile() (*File, error) {
	f, err := Load(filepath.Join("cases", "random.setup"))
	if err != nil {
		return nil, err
	}
	f.Tables = append(f.Tables,
		conf.Table{Name: "spans", Kind: "sharded", Key: []string{"k"}, Function: "range", Ranges: []conf.RangePart{
			{LessThan: "0", Shard: "s1"}, {LessThan: "10", Shard: "s0"}, {LessThan: "100", Shard: "s3"}, {Shard: "s2"}}},
		conf.Table{Name: "marks", Kind: "sharded", Key: []string{"k"}, Function: "list", Lists: []conf.ListPart{
			{Values: []string{"DE", "SE"}, Shard: "s2"}, {Values: []string{"de", "FR"}, Shard: "s0"}, {Values: []string{"NO", "IT"}, Shard: "s3"}}})
	return f, nil
}

func randomTables() []*randomTable {
	return []*randomTable{
		{
			name: "customers", key: []string{"id"}, numbers: []string{"id", "credit", "active"}, floats: []string{"score"}, sharp: []string{"city"},
			folded: []string{"name", "country"}, times: []string{"born", "seen"}, others: []string{"tier", "tags", "note"},
			values: map[string][]string{
				"id": {"7", "8", "'7'", "7.0", "0", "-5", "215", "1e2", "999", "NULL", "'7abc'", "2147483648", "6.5"}, "credit": {"0", "12.4", "'87.05'", "-5.1", "NULL"},
				"active": {"0", "1", "TRUE"}, "score": {"0", "-2.25", "1e10"},
				"name": {"'bob'", "'BOB'", "'jorg'", "'a'", "'dora '", "''", "NULL"}, "city": {"'Berlin'", "'berlin'", "'Oslo'", "'Oslo '"}, "country": {"'DE'", "'de'", "'XX'"},
				"born": {"'2011-11-11'", "DATE'1990-04-15'", "20000229", "NULL"}, "seen": {"'2024-01-01'", "'2024-03-31 02:30:00.123456'"},
			},
			joins: []randomJoin{
				{"orders", "%[2]s.customer_id = %[1]s.id"}, {"orders", "%[2]s.customer_id = %[1]s.id"}, {"countries", "%[2]s.code = %[1]s.country"}, {"customers", "%[2]s.id = %[1]s.id"},
				{"customers", "%[2]s.id = %[1]s.id + 3"}, {"events", "%[2]s.delta = %[1]s.id"}, {"pairs", "%[2]s.a = %[1]s.id"}, {"turns", "%[2]s.k = %[1]s.id"}, {"spans", "%[2]s.k = %[1]s.id"},
				{"marks", "%[2]s.k = %[1]s.country"}, {"days", "%[2]s.day = %[1]s.born"}, {"people", "%[2]s.login = %[1]s.name"}, {"settings", "%[2]s.value = %[1]s.id"},
			},
		},
		{
			name: "orders", key: []string{"customer_id", "no"}, numbers: []string{"customer_id", "no", "amount", "qty"}, folded: []string{"status"}, times: []string{"placed"},
			values: map[string][]string{
				"customer_id": {"7", "4", "'40'", "0", "999", "NULL"}, "no": {"1", "2", "10"}, "amount": {"10.5", "0", "99.999"}, "qty": {"1", "3", "65535", "-1"},
				"status": {"'paid'", "'PAID'", "'open'", "'nosuch'"}, "placed": {"'2024-03-01'", "'2023-07-04 12:34:56'"},
			},
			joins: []randomJoin{
				{"customers", "%[2]s.id = %[1]s.customer_id"}, {"orders", "%[2]s.customer_id = %[1]s.customer_id AND %[2]s.no = %[1]s.no"}, {"turns", "%[2]s.k = %[1]s.qty"},
				{"orders", "%[2]s.customer_id = %[1]s.customer_id AND %[2]s.no = %[1]s.no + 1"}, {"spans", "%[2]s.k = %[1]s.no"},
			},
		},
		{
			name: "people", key: []string{"login"}, numbers: []string{"age"}, folded: []string{"login"}, sharp: []string{"mail"},
			values: map[string][]string{"login": {"'alice'", "'ALICE'", "'bob'", "42", "'42'", "'x y'", "'ss'", "'alice  '", "NULL"}, "age": {"20", "255", "41"}, "mail": {"'shared@x.test'", "'Shared@x.test'"}},
			joins:  []randomJoin{{"people", "%[2]s.login = %[1]s.login"}, {"people", "%[2]s.mail = %[1]s.mail"}, {"customers", "%[2]s.name = %[1]s.login"}, {"customers", "%[2]s.id = %[1]s.age"}},
		},
		{
			name: "events", key: []string{"seq"}, numbers: []string{"seq", "delta"}, folded: []string{"kind"}, times: []string{"at", "took"}, others: []string{"weight"},
			values: map[string][]string{
				"seq": {"0", "1000", "18446744073709551615", "'256'", "1003", "-1", "9223372036854775808", "NULL"}, "delta": {"0", "2", "-1"}, "kind": {"'buy'", "'BUY'", "'view '"},
				"took": {"'00:00:00.001'", "'838:59:59'"}, "at": {"'2024-05-05 05:05:05'", "'2001-09-09'", "NULL"},
			},
			joins: []randomJoin{{"events", "%[2]s.seq = %[1]s.seq"}, {"events", "%[2]s.seq = %[1]s.delta"}, {"turns", "%[2]s.k = %[1]s.delta"}, {"customers", "%[2]s.id = %[1]s.delta"}},
		},
		{
			name: "countries", key: []string{"code"}, numbers: []string{"vat"}, folded: []string{"code", "name"},
			values: map[string][]string{"code": {"'DE'", "'de'", "'NO'"}, "vat": {"19", "25.0", "NULL"}, "name": {"'norge'", "'x'"}},
			joins:  []randomJoin{{"customers", "%[2]s.country = %[1]s.code"}, {"marks", "%[2]s.k = %[1]s.code"}, {"countries", "%[2]s.code = %[1]s.code"}},
		},
		{
			name: "settings", key: []string{"name"}, folded: []string{"name", "value"}, times: []string{"changed"},
			values: map[string][]string{"name": {"'theme'", "'LIMIT'", "'none'"}, "value": {"'100'", "100", "''"}, "changed": {"'2024-01-01'"}},
			joins:  []randomJoin{{"settings", "%[2]s.name = %[1]s.name"}, {"turns", "%[2]s.k = LENGTH(%[1]s.value)"}},
		},
		{
			name: "pairs", key: []string{"a", "b"}, numbers: []string{"a", "v"}, folded: []string{"b"}, sharp: []string{"t"},
			values: map[string][]string{"a": {"1", "2", "'7'", "0", "-1", "NULL"}, "b": {"'x'", "'X'", "'a'", "42", "''", "'b'"}, "v": {"5", "8", "NULL"}, "t": {"'p'", "'P'"}},
			joins: []randomJoin{
				{"pairs", "%[2]s.a = %[1]s.a AND %[2]s.b = %[1]s.b"}, {"pairs", "%[2]s.a = %[1]s.a"}, {"customers", "%[2]s.id = %[1]s.a"}, {"turns", "%[2]s.k = %[1]s.a"},
			},
		},
		{
			name: "turns", key: []string{"k"}, numbers: []string{"k", "v"}, times: []string{"d"},
			values: map[string][]string{"k": {"1", "-1", "'2'", "9223372036854775807", "-9223372036854775808", "9223372036854775808", "1.5", "1e0", "NULL"}, "v": {"3", "NULL"}, "d": {"'2024-01-31'", "'2011-11-11'"}},
			joins:  []randomJoin{{"turns", "%[2]s.k = %[1]s.k"}, {"turns", "%[2]s.k = %[1]s.v"}, {"spans", "%[2]s.n = %[1]s.k"}, {"days", "%[2]s.day = %[1]s.d"}},
		},
		{
			name: "spans", key: []string{"k"}, numbers: []string{"k", "v", "n"},
			values: map[string][]string{"k": {"0", "10", "'9'", "-1", "100", "9.5", "99.9", "NULL", "5001"}, "v": {"1.5", "2.25"}, "n": {"1", "3", "NULL"}},
			joins:  []randomJoin{{"spans", "%[2]s.k = %[1]s.k"}, {"customers", "%[2]s.id = %[1]s.k"}, {"spans", "%[2]s.k = %[1]s.n"}},
		},
		{
			name: "marks", key: []string{"k"}, numbers: []string{"v"}, sharp: []string{"k", "s"},
			values: map[string][]string{"k": {"'DE'", "'de'", "'XX'", "'FR '", "0", "NULL"}, "v": {"3", "6"}, "s": {"'one'", "'ONE'"}},
			joins:  []randomJoin{{"marks", "%[2]s.k = %[1]s.k"}, {"countries", "%[2]s.code = %[1]s.k"}, {"customers", "%[2]s.country = %[1]s.k"}},
		},
		{
			name: "blobs", key: []string{"bk"}, numbers: []string{"v"}, sharp: []string{"bk", "s"},
			values: map[string][]string{"bk": {"'a'", "'A'", "x'00'", "0x6120", "42", "'42'", "''", "NULL"}, "v": {"3", "6"}, "s": {"'a'", "'bob'"}},
			joins:  []randomJoin{{"blobs", "%[2]s.bk = %[1]s.bk"}, {"blobs", "%[2]s.s = %[1]s.s"}, {"people", "%[2]s.login = %[1]s.s"}},
		},
		{
			name: "days", key: []string{"day"}, numbers: []string{"v"}, sharp: []string{"h"}, times: []string{"day"},
			values: map[string][]string{"day": {"'2024-02-29'", "'2024-2-29'", "20240131", "'11-11-11'", "DATE'1970-01-01'", "'2024-03-01 00:00:00'", "'2024-03-01 10:00:00'", "NULL"}, "v": {"3", "6"}, "h": {"'leap'"}},
			joins:  []randomJoin{{"days", "%[2]s.day = %[1]s.day"}, {"turns", "%[2]s.d = %[1]s.day"}, {"customers", "%[2]s.born = %[1]s.day"}},
		},
	}
}
