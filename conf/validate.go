package conf

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Validate checks every rule that needs no node, on a configuration whose
// defaults are filled in. The error is Problems: all of them, without lines and
// columns, which only Parse knows.
func (c *Config) Validate() error { return c.check().err() }

func (c *Config) check() Problems {
	var k checker
	root := place{}
	c.checkProxy(&k, root.key("proxy"))
	k.word(root.key("proxy").key("set_global"), c.Proxy.SetGlobal, "refuse", "broadcast")
	c.checkAdmin(&k, root.key("admin"))
	k.word(root.key("log").key("level"), c.Log.Level, "debug", "info", "warn", "error")
	k.word(root.key("log").key("format"), c.Log.Format, "json", "console")
	c.checkPool(&k, root.key("pool"))
	c.checkTimeouts(&k, root.key("timeouts"))
	c.checkRecovery(&k, root.key("recovery"))
	c.checkUsers(&k, root.key("users"), c.Users, true)
	c.checkNodes(&k, root.key("nodes"))
	c.checkDatabases(&k, root.key("databases"))
	return k.problems
}

func (c *Config) checkProxy(k *checker, at place) {
	p := &c.Proxy
	if len(p.Listen) == 0 {
		k.add(at.key("listen"), "is empty", `name at least one address, as "127.0.0.1:3306"`)
	}
	var seen []endpoint
	for i, text := range p.Listen {
		if e, ok := k.listener(at.key("listen").item(i, ""), text); ok {
			if slices.ContainsFunc(seen, e.meets) {
				k.add(at.key("listen").item(i, ""), fmt.Sprintf("%s is listed already", text), "remove one of the two")
			}
			seen = append(seen, e)
		}
	}
	if p.Version != "" && !isVersion(p.Version) {
		k.add(at.key("version"), fmt.Sprintf("%q does not look like a server version", p.Version),
			`write it as MySQL does: "8.4.0" or "8.4.0-braid", 60 characters at most`)
	}
	c.checkProxyTLS(k, at)
	k.between(at.key("connections_max"), p.ConnectionsMax, 1, 1_000_000)
	k.between(at.key("packet_bytes_max"), p.PacketBytesMax, 1024, 1<<30)
	k.between(at.key("plans_max"), p.PlansMax, 1, 10_000_000)
	k.between(at.key("gather_rows_max"), p.GatherRowsMax, 1, 1<<40)
	k.between(at.key("gather_bytes_max"), p.GatherBytesMax, 32<<10, 1<<40)
	k.between(at.key("sort_bytes_max"), p.SortBytesMax, 32<<10, 1<<40)
}

// isVersion says that clients, which read the leading numbers, can read it.
func isVersion(s string) bool {
	for _, r := range s {
		if r <= ' ' || r > '~' {
			return false
		}
	}
	return len(s) <= 60 && s[0] >= '0' && s[0] <= '9' && strings.Contains(s, ".")
}

func (c *Config) checkAdmin(k *checker, at place) {
	a := &c.Admin
	var seen []endpoint
	for _, text := range c.Proxy.Listen {
		if e, err := parseEndpoint(text); err == nil {
			seen = append(seen, e)
		}
	}
	for _, l := range []struct{ key, text string }{{"listen", a.Listen}, {"http", a.HTTP}} {
		if l.text == "" {
			continue
		}
		e, ok := k.listener(at.key(l.key), l.text)
		if !ok {
			continue
		}
		if !e.local() && !a.AllowRemote {
			k.add(at.key(l.key), fmt.Sprintf("%s can be reached from other machines", l.text),
				"listen on 127.0.0.1 or a unix: socket, or set admin.allow_remote = true")
		}
		if slices.ContainsFunc(seen, e.meets) {
			k.add(at.key(l.key), fmt.Sprintf("%s is taken by another listener of this configuration", l.text), "choose another port")
		}
		seen = append(seen, e)
	}
	if a.Listen != "" && len(a.Users) == 0 {
		k.add(at.key("listen"), "the admin port is on, but nobody may log in to it", "add [[admin.users]]")
	}
	c.checkUsers(k, at.key("users"), a.Users, false)
}

// listener checks an address to listen on.
func (k *checker) listener(at place, text string) (endpoint, bool) {
	e, err := parseEndpoint(text)
	if err != nil {
		k.add(at, fmt.Sprintf("%q: %v", text, err), `write "host:port" or "unix:/path"`)
		return e, false
	}
	return e, true
}

func (c *Config) checkPool(k *checker, at place) {
	p := &c.Pool
	k.between(at.key("connections_max"), p.ConnectionsMax, 1, 100_000)
	k.between(at.key("idle_max"), p.IdleMax, 0, 100_000)
	k.duration(at.key("idle_timeout"), p.IdleTimeout, time.Second, 365*24*time.Hour)
	k.duration(at.key("wait_timeout"), p.WaitTimeout, time.Millisecond, time.Hour)
	k.between(at.key("statements_max"), p.StatementsMax, 0, 1_000_000)
}

func (c *Config) checkTimeouts(k *checker, at place) {
	t := &c.Timeouts
	k.duration(at.key("connect"), t.Connect, 10*time.Millisecond, 10*time.Minute)
	k.duration(at.key("handshake"), t.Handshake, 10*time.Millisecond, 10*time.Minute)
	if t.Statement != 0 {
		k.duration(at.key("statement"), t.Statement, time.Millisecond, 365*24*time.Hour)
	}
	// MySQL's wait_timeout knows no zero either.
	k.duration(at.key("idle"), t.Idle, time.Second, 365*24*time.Hour)
	k.duration(at.key("interactive"), t.Interactive, time.Second, 365*24*time.Hour)
	k.duration(at.key("stalled"), t.Stalled, 100*time.Millisecond, 24*time.Hour)
	k.duration(at.key("drain"), t.Drain, 0, 24*time.Hour)
}

func (c *Config) checkRecovery(k *checker, at place) {
	r := &c.Recovery
	k.duration(at.key("interval"), r.Interval, 100*time.Millisecond, time.Hour)
	k.duration(at.key("grace"), r.Grace, time.Second, 24*time.Hour)
	k.duration(at.key("retention"), r.Retention, time.Hour, 365*24*time.Hour)
	// A branch is decided only between grace and half the retention (T7).
	if r.Retention >= Duration(time.Hour) && r.Grace > r.Retention/4 {
		k.add(at.key("grace"), fmt.Sprintf("%s is more than a quarter of recovery.retention, %s", r.Grace, r.Retention),
			"branches older than half the retention are never decided: shorten grace or lengthen retention")
	}
}

func (k *checker) between(at place, value, least, most int) {
	if value < least || value > most {
		k.add(at, fmt.Sprintf("%d is out of range", value), fmt.Sprintf("choose %d to %d", least, most))
	}
}

func (k *checker) duration(at place, value Duration, least, most time.Duration) {
	if v := time.Duration(value); v < least || v > most {
		k.add(at, fmt.Sprintf("%s is out of range", value), fmt.Sprintf("choose %s to %s", Duration(least), Duration(most)))
	}
}

// unique adds a problem when name is empty or was seen before.
func (k *checker) unique(at place, kind, name string, seen map[string]bool) bool {
	switch {
	case name == "":
		k.add(at.key("name"), "is missing", "give each "+kind+" a name of its own")
		return false
	case seen[name]:
		k.add(at.key("name"), fmt.Sprintf("there is a %s %q already", kind, name), "give each "+kind+" a name of its own")
		return false
	}
	seen[name] = true
	return true
}

// checkUsers checks those who log in to the proxy or, without databases, to the
// admin port.
func (c *Config) checkUsers(k *checker, list place, users []User, databases bool) {
	names := make([]string, len(c.Databases))
	for i, d := range c.Databases {
		names[i] = d.Name
	}
	seen := map[string]bool{}
	for i, u := range users {
		at := list.item(i, u.Name)
		k.unique(at, "user", u.Name, seen)
		if len([]rune(u.Name)) > 32 {
			k.add(at.key("name"), "is longer than MySQL's 32 characters", "shorten it")
		}
		k.secret(at, u.Secret)
		if u.Secret == (Secret{}) {
			k.add(at, "has no password", "set one of password_env, password_file, password_hash, password")
		}
		if u.PasswordHash != "" && !isPasswordHash(u.PasswordHash) {
			k.add(at.key("password_hash"), "is neither a mysql_native_password nor a caching_sha2_password hash",
				"copy it from SHOW CREATE USER with print_identified_with_as_hex = ON, or use password_file")
		}
		if !databases {
			if len(u.Databases) > 0 {
				k.add(at.key("databases"), "an admin user has no databases", "remove the key")
			}
			continue
		}
		for j, name := range u.Databases {
			here := at.key("databases").item(j, "")
			if k.reference(here, "database", name, names) && slices.Contains(u.Databases[:j], name) {
				k.add(here, fmt.Sprintf("%q is listed already", name), "remove one of the two")
			}
		}
	}
}

// secret checks that at most one form is set.
func (k *checker) secret(at place, s Secret) {
	if forms := s.forms(); len(forms) > 1 {
		k.add(at.key(forms[1]), fmt.Sprintf("%s is set as well", forms[0]), "keep one of "+strings.Join(forms, ", "))
	}
}

func (c *Config) checkNodes(k *checker, list place) {
	if len(c.Nodes) == 0 {
		k.add(list, "there is no node", "add [[nodes]] with name, primary, user and a password")
	}
	seen := map[string]bool{}
	servers := map[endpoint]string{}
	for i, n := range c.Nodes {
		at := list.item(i, n.Name)
		if k.unique(at, "node", n.Name, seen) && !isNodeName(n.Name) {
			k.add(at.key("name"), fmt.Sprintf("%q cannot stand in a transaction's name", n.Name),
				"use 1 to 32 letters, digits, '-' and '_'")
		}
		if n.Primary == "" {
			k.add(at.key("primary"), "is missing", `name the primary's address, as "10.0.0.1:3306"`)
		} else {
			c.checkServer(k, at.key("primary"), n.Primary, at.label+"'s primary", servers)
		}
		if len(n.Replicas) > 0 {
			k.add(at.key("replicas"), "reading from replicas is not built yet", "remove the key: all statements go to the primary")
		}
		for j, replica := range n.Replicas {
			c.checkServer(k, at.key("replicas").item(j, ""), replica, at.label+"'s replica", servers)
		}
		if n.User == "" {
			k.add(at.key("user"), "is missing", "name the MySQL account that Braid logs in with")
		}
		k.secret(at, n.Secret)
		if n.PasswordHash != "" {
			k.add(at.key("password_hash"), "Braid cannot log in with a hash", "use password_env or password_file")
		}
		n.checkTLS(k, at)
		if n.ConnectionsMax != 0 {
			k.between(at.key("connections_max"), n.ConnectionsMax, 1, 100_000)
		}
	}
}

// isNodeName says that the name fits into an XA branch qualifier beside a
// connection id (rule T6).
func isNodeName(s string) bool {
	return len(s) <= 32 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") == ""
}

// checkServer checks the address of a node's server, who. Two servers at one
// address are one server twice: a transaction over both would wait for itself,
// and its branches could not be told apart (rule T6).
func (c *Config) checkServer(k *checker, at place, text, who string, servers map[endpoint]string) {
	e, err := parseEndpoint(text)
	switch {
	case err != nil:
		k.add(at, fmt.Sprintf("%q: %v", text, err), `write "host:port" or "unix:/path"`)
		return
	case e.host == "":
		k.add(at, fmt.Sprintf("%q names no host", text), "write the server's host before the port")
		return
	case e.port == "0":
		k.add(at, fmt.Sprintf("%q names no port", text), "write the server's port, mostly 3306")
		return
	}
	if other, ok := servers[e]; ok {
		k.add(at, fmt.Sprintf("%s is %s too", text, other), "give each of them a server of its own")
	}
	servers[e] = who
	for _, listen := range c.Proxy.Listen {
		if l, err := parseEndpoint(listen); err == nil && e.meets(l) {
			k.add(at, fmt.Sprintf("%s is where Braid itself listens (proxy.listen)", text), "name the MySQL server's address, or let Braid listen elsewhere")
		}
	}
}
