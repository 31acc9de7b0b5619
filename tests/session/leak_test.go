package session

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"braid/conf"
	"braid/tests/e2e"
	"braid/tests/servers"
	"braid/tests/wire"
)

// The leak test: sessions set random state on a small pool that they share, and
// each asks shards directly whether its connection there has the session's own
// state and nothing else's.
func TestNothingLeaks(t *testing.T) {
	each(t, func(t *testing.T, flavour servers.Flavour) {
		b := shop(t, flavour, 2, 4, func(c *conf.Config) {
			pool(c, 3, conf.Duration(time.Minute))
		})
		keys := keys(t, b)
		fresh := readState(t, connect(t, b), flavour, keys[0])
		reset := maps.Clone(fresh)
		maps.Copy(reset, resetCharset(t, b))
		const sessions = 6
		seed := uint64(time.Now().UnixNano())
		t.Logf("seed %d, %d steps", seed, *steps)
		var wg sync.WaitGroup
		for n := range sessions {
			wg.Add(1)
			go func() {
				defer wg.Done()
				x := &client{t: t, b: b, flavour: flavour, keys: keys, fresh: fresh, reset: reset, begins: n < 2, r: rand.New(rand.NewPCG(seed, uint64(n)))}
				defer x.leave()
				for i := 0; i < *steps/sessions && !t.Failed(); i++ {
					if err := x.step(); err != nil {
						t.Errorf("session %d, step %d: %v", n, i, err)
						return
					}
				}
			}()
		}
		wg.Wait()
	})
}

// client is one session of the leak test with what it must find.
type client struct {
	t       *testing.T
	b       *e2e.Braid
	flavour servers.Flavour
	keys    []int
	fresh   map[string]string // expressions and their values in a fresh session
	reset   map[string]string // and behind a COM_RESET_CONNECTION
	begins  bool              // it may hold connections in a transaction: fewer do than the pool has
	r       *rand.Rand

	c    *wire.Conn
	want map[string]string
	inTx bool
	log  []string // since the connection began
}

// isolation is the flavour's name of the variable.
func isolation(f servers.Flavour) string {
	if f == servers.MariaDB {
		return "@@tx_isolation"
	}
	return "@@transaction_isolation"
}

// watched are the expressions that a session's state is read by.
func watched(f servers.Flavour) []string {
	list := []string{"@@sql_mode", "@@time_zone", "@@foreign_key_checks", "@@unique_checks", "@@collation_connection", "@@character_set_client",
		"@@group_concat_max_len", "@@div_precision_increment", "@@lock_wait_timeout", "@@sql_safe_updates", "@@wait_timeout", "@@sql_select_limit", isolation(f)}
	for i := range 4 {
		list = append(list, "@u"+strconv.Itoa(i))
	}
	return list
}

func readState(t *testing.T, c *wire.Conn, f servers.Flavour, key int) map[string]string {
	t.Helper()
	state := map[string]string{}
	for _, e := range watched(f) {
		state[e] = must(t, c, fmt.Sprintf("SELECT %s FROM i WHERE k=%d LIMIT 1", e, key))
	}
	return state
}

// resetCharset is what a reset makes of the character set that the handshake
// named, on a node itself.
func resetCharset(t *testing.T, b *e2e.Braid) map[string]string {
	t.Helper()
	p := b.Shards()[0]
	c, err := wire.Connect(t.Context(), wire.Options{Addr: p.Node.Addr(), User: servers.User, Password: servers.Password, Database: p.Schema, Collation: b.Wire().Collation})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Abort()
	if _, err := c.Command(gomysql.COM_RESET_CONNECTION, nil); err != nil {
		t.Fatal(err)
	}
	state := map[string]string{}
	for _, e := range []string{"@@collation_connection", "@@character_set_client"} {
		state[e] = must(t, c, "SELECT "+e)
	}
	return state
}

func (x *client) exec(text string) error {
	x.log = append(x.log, text)
	_, err := run(x.c, text)
	if err != nil {
		return fmt.Errorf("%s: %w", text, err)
	}
	return nil
}

func (x *client) leave() {
	if x.c != nil {
		x.c.Abort()
	}
}

// step does one random thing.
func (x *client) step() error {
	if x.c == nil {
		c, err := wire.Connect(x.t.Context(), x.b.Wire())
		if err != nil {
			return err
		}
		x.c, x.want, x.inTx, x.log = c, maps.Clone(x.fresh), false, nil
	}
	pick := func(from ...string) string { return from[x.r.IntN(len(from))] }
	switch x.r.IntN(16) {
	case 0:
		return x.assign("sql_mode", pick("", "ANSI_QUOTES", "STRICT_ALL_TABLES", "PIPES_AS_CONCAT,NO_BACKSLASH_ESCAPES"), true)
	case 1:
		return x.assign("time_zone", pick("+01:00", "-07:30", "+09:00"), true)
	case 2:
		return x.assign(pick("foreign_key_checks", "unique_checks", "sql_safe_updates"), pick("0", "1"), false)
	case 3:
		return x.assign(pick("group_concat_max_len", "lock_wait_timeout", "wait_timeout"), pick("1001", "2002", "3003"), false)
	case 4:
		return x.assign("div_precision_increment", pick("2", "7"), false)
	case 5:
		charset := pick("utf8mb4", "latin1")
		collation := map[string][]string{"utf8mb4": {"utf8mb4_bin", "utf8mb4_unicode_ci"}, "latin1": {"latin1_bin", "latin1_swedish_ci"}}[charset][x.r.IntN(2)]
		x.want["@@collation_connection"], x.want["@@character_set_client"] = collation, charset
		return x.exec("SET NAMES " + charset + " COLLATE " + collation)
	case 6:
		n, v := x.r.IntN(4), strconv.Itoa(x.r.IntN(1000))
		x.want["@u"+strconv.Itoa(n)] = v
		return x.exec(fmt.Sprintf("SET @u%d = %s", n, pick(v, "'"+v+"'", "CONCAT('"+v+"','')", v+"+0")))
	case 7:
		n := x.r.IntN(4)
		k := x.keys[x.r.IntN(len(x.keys))]
		x.want["@u"+strconv.Itoa(n)] = strconv.Itoa(10 * k)
		return x.exec(fmt.Sprintf(pick("SELECT x INTO @u%d FROM i WHERE k=%d", "SELECT @u%d := x FROM i WHERE k=%d"), n, k))
	case 8:
		level := pick("READ COMMITTED", "SERIALIZABLE", "REPEATABLE READ")
		x.want[isolation(x.flavour)] = strings.ReplaceAll(level, " ", "-")
		return x.exec("SET SESSION TRANSACTION ISOLATION LEVEL " + level)
	case 9:
		if x.inTx {
			x.inTx = false
			return x.exec(pick("COMMIT", "ROLLBACK"))
		}
		if !x.begins {
			return x.verify()
		}
		x.inTx = true
		return x.exec("BEGIN")
	case 10:
		if x.r.IntN(3) > 0 {
			return x.verify()
		}
		if x.r.IntN(2) == 0 {
			x.leave()
			x.c = nil
			return nil
		}
		x.log = append(x.log, "COM_RESET_CONNECTION")
		x.want, x.inTx = maps.Clone(x.reset), false
		_, err := x.c.Command(gomysql.COM_RESET_CONNECTION, nil)
		return err
	}
	return x.verify()
}

func (x *client) assign(name, value string, quoted bool) error {
	x.want["@@"+name] = value
	if quoted {
		value = "'" + value + "'"
	}
	return x.exec("SET SESSION " + name + " = " + value)
}

// verify asks one shard, or all of them.
func (x *client) verify() error {
	list := slices.Sorted(maps.Keys(x.want))
	where := fmt.Sprintf("k=%d", x.keys[x.r.IntN(len(x.keys))])
	text := "SELECT DISTINCT " + strings.Join(list, ",") + " FROM i WHERE " + where
	if x.r.IntN(3) == 0 {
		in := make([]string, len(x.keys))
		for i, k := range x.keys {
			in[i] = strconv.Itoa(k)
		}
		text = "SELECT " + strings.Join(list, ",") + " FROM i WHERE k IN (" + strings.Join(in, ",") + ")"
	}
	got, err := run(x.c, text)
	if err != nil {
		return fmt.Errorf("%s: %w\nbefore: %s", text, err, strings.Join(x.log, "; "))
	}
	for _, row := range strings.Split(got, ";") {
		rest := row
		for _, e := range list {
			want := x.want[e]
			if !strings.HasPrefix(rest+",", want+",") {
				return fmt.Errorf("%s is not %q in %q of %s\nbefore: %s", e, want, row, text, strings.Join(x.log, "; "))
			}
			rest = strings.TrimPrefix(strings.TrimPrefix(rest, want), ",")
		}
	}
	return nil
}
