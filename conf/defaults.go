package conf

import (
	"fmt"
	"reflect"
	"strings"
	"time"
)

// keyDefault is the value of a key that the operator did not set.
type keyDefault struct {
	key   string // "[]" stands for every element of a list
	value any
}

// defaults is the table of all fixed defaults; docs/configuration.md repeats it
// and a test compares the two. A key not in it defaults to the empty value, or
// to what depends on other keys (fillDependent).
func defaults() []keyDefault {
	const mebibyte = 1 << 20
	duration := func(d time.Duration) Duration { return Duration(d) }
	return []keyDefault{
		{"proxy.listen", []string{"127.0.0.1:3306"}},
		{"proxy.compression", []string{"zlib", "zstd"}}, // as MySQL's protocol_compression_algorithms
		{"proxy.connections_max", 10_000},
		{"proxy.packet_bytes_max", 64 * mebibyte}, // MySQL's own default
		{"proxy.plans_max", 8192},
		{"proxy.gather_rows_max", 1_000_000},
		{"proxy.gather_bytes_max", 256 * mebibyte},
		{"proxy.sort_bytes_max", 64 * mebibyte},
		{"proxy.set_global", "refuse"},

		{"log.level", "info"},
		{"log.format", "json"},

		{"pool.connections_max", 128}, // below the 151 a MySQL server allows unless told otherwise
		{"pool.idle_max", 32},
		{"pool.idle_timeout", duration(10 * time.Minute)},
		{"pool.wait_timeout", duration(10 * time.Second)},
		{"pool.statements_max", 256},

		{"timeouts.connect", duration(5 * time.Second)},
		{"timeouts.handshake", duration(10 * time.Second)}, // MySQL's connect_timeout
		{"timeouts.statement", duration(0)},
		{"timeouts.idle", duration(8 * time.Hour)},        // MySQL's wait_timeout
		{"timeouts.interactive", duration(8 * time.Hour)}, // MySQL's interactive_timeout
		{"timeouts.stalled", duration(time.Minute)},       // MySQL's net_write_timeout
		{"timeouts.drain", duration(30 * time.Second)},

		{"recovery.interval", duration(10 * time.Second)},
		{"recovery.grace", duration(30 * time.Second)},
		{"recovery.retention", duration(48 * time.Hour)}, // half of it is the age up to which branches are decided (T7)

		{"nodes[].tls", "disabled"},
		{"nodes[].compression", "none"},

		{"databases[].default", "single"},
		{"databases[].isolation", "REPEATABLE-READ"},
		{"databases[].transaction", "atomic"},
		{"databases[].commit_ok", "applied"},
	}
}

// FillDefaults gives every key that has its zero value its default. It is for
// configurations built by hand; Parse does the same with the keys that the text
// does not set, so that there a written 0 stays 0.
func (c *Config) FillDefaults() {
	c.fill(func(_ string, v reflect.Value) bool { return !v.IsZero() })
}

// fill gives the keys for which isSet says no their defaults. The path it hands
// over is an index path, as "databases[0].default".
func (c *Config) fill(isSet func(path string, v reflect.Value) bool) {
	for _, d := range defaults() {
		eachKey(reflect.ValueOf(c).Elem(), "", strings.Split(d.key, "."), func(path string, v reflect.Value) {
			if !isSet(path, v) {
				v.Set(reflect.ValueOf(d.value))
			}
		})
	}
	c.fillDependent()
}

// eachKey calls visit for every value that a default's key stands for.
func eachKey(v reflect.Value, path string, parts []string, visit func(string, reflect.Value)) {
	if len(parts) == 0 {
		visit(path, v)
		return
	}
	name, list := strings.CutSuffix(parts[0], "[]")
	path = join(path, name)
	for _, f := range fieldsOf(v.Type()) {
		if f.name != name {
			continue
		}
		inner := v.FieldByIndex(f.index)
		if !list {
			eachKey(inner, path, parts[1:], visit)
			return
		}
		for i := range inner.Len() {
			eachKey(inner.Index(i), fmt.Sprintf("%s[%d]", path, i), parts[1:], visit)
		}
	}
}

// fillDependent fills in the defaults that follow from other keys, and brings
// what has several spellings into one.
func (c *Config) fillDependent() {
	for _, users := range [][]User{c.Users, c.Admin.Users} {
		for i := range users {
			users[i].PasswordHash = plainHash(users[i].PasswordHash)
		}
	}
	if c.Proxy.TLS == "" {
		c.Proxy.TLS = "off"
		if c.Proxy.TLSCertificate != "" {
			c.Proxy.TLS = "optional"
		}
	}
	for i := range c.Nodes {
		if n := &c.Nodes[i]; n.ConnectionsMax == 0 {
			n.ConnectionsMax = c.Pool.ConnectionsMax
		}
	}
	for i := range c.Databases {
		d := &c.Databases[i]
		d.Isolation = canonicalIsolation(d.Isolation)
		for j := range d.Shards {
			if d.Shards[j].Schema == "" {
				d.Shards[j].Schema = d.Name
			}
		}
		d.fillSlots()
		for j := range d.Tables {
			t := &d.Tables[j]
			if t.Kind == "sharded" && t.Function == "" && t.Colocated == "" {
				t.Function = "hash"
			}
			if t.Kind == "single" && t.Shard == "" && len(d.Shards) > 0 {
				t.Shard = d.Shards[0].Name
			}
		}
	}
}

// canonicalIsolation writes an isolation level the way @@transaction_isolation
// shows it: "read committed" is READ-COMMITTED.
func canonicalIsolation(s string) string {
	words := strings.FieldsFunc(strings.ToUpper(s), func(r rune) bool { return r == ' ' || r == '-' || r == '_' || r == '\t' })
	return strings.Join(words, "-")
}
