package proxy

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"braid/backend"
	"braid/router"
)

func age(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return time.Since(t).Round(time.Millisecond).String()
}

// databases are the configured databases in the order of their names.
func (g *generation) databases() []*router.Database {
	var out []*router.Database
	for _, d := range g.topology.Databases {
		out = append(out, d)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Name < out[j].Name })
	return out
}

func (a *admin) showShards(_ []string, s *adminSession) (*resultSet, error) {
	g := a.srv.gen.Load()
	r := s.table("database,shard,node,schema,slots,state")
	for i := range g.cfg.Databases {
		d := &g.cfg.Databases[i]
		state := "ok"
		if err := g.unread[d.Name]; err != nil {
			state = err.Error()
		}
		for _, sh := range d.Shards {
			schema := sh.Schema
			if schema == "" {
				schema = d.Name
			}
			r.add(d.Name, sh.Name, sh.Node, schema, sh.Slots, state)
		}
	}
	return r, nil
}

// nodeCheckTimeout bounds the look at each node.
const nodeCheckTimeout = 3 * time.Second

// nodeStates connects to every node at once and tells how that went.
func nodeStates(ctx context.Context, cluster *backend.Cluster) map[string]error {
	ctx, cancel := context.WithTimeout(ctx, nodeCheckTimeout)
	defer cancel()
	states := map[string]error{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, n := range cluster.Nodes() {
		wg.Add(1)
		go func() {
			defer wg.Done()
			c, err := n.Own(ctx, nodeCheckTimeout)
			if err == nil {
				_, err = c.Query("SELECT 1", 1)
				_ = c.Close()
			}
			mu.Lock()
			states[n.Name()] = err
			mu.Unlock()
		}()
	}
	wg.Wait()
	return states
}

func (a *admin) showNodes(_ []string, s *adminSession) (*resultSet, error) {
	g := a.srv.gen.Load()
	states := nodeStates(context.Background(), g.cluster)
	r := s.table("node,primary,version,state")
	for _, n := range g.cluster.Nodes() {
		version, state := "", "up"
		if i := n.Info(); i != nil {
			version = i.Version
		}
		if err := states[n.Name()]; err != nil {
			state = err.Error()
		}
		r.add(n.Name(), n.Address(), version, state)
	}
	return r, nil
}

func (a *admin) showPools(_ []string, s *adminSession) (*resultSet, error) {
	r := s.table("node,open,idle,in_use,waiting,max,opened,failed")
	for _, n := range a.srv.gen.Load().cluster.Nodes() {
		st := n.Stats()
		r.add(n.Name(), strconv.Itoa(st.Open), strconv.Itoa(st.Idle), strconv.Itoa(st.Open-st.Idle), strconv.Itoa(st.Waiting), strconv.Itoa(st.Max),
			strconv.FormatUint(st.Opened, 10), strconv.FormatUint(st.Failed, 10))
	}
	return r, nil
}

func (a *admin) showTables(_ []string, s *adminSession) (*resultSet, error) {
	r := s.table("database,table,kind,key,function,shard,problem")
	for _, db := range a.srv.gen.Load().databases() {
		var names []string
		for n := range db.Tables {
			names = append(names, n)
		}
		slices.Sort(names)
		for _, n := range names {
			t := db.Tables[n]
			key, function, shard := "", "", "all"
			switch t.Kind {
			case router.Sharded:
				if t.Rule == nil {
					break // Broken says why
				}
				var keys []string
				for _, k := range t.Rule.Keys {
					keys = append(keys, t.Columns[k].Name)
				}
				key, function = strings.Join(keys, ","), t.Rule.Function.String()
			case router.Single:
				shard = db.Shards[t.Shard].Name
			}
			problem := strings.Join(t.Unchecked, "; ")
			if t.Broken != "" {
				problem = "cannot be used: " + t.Broken
			}
			r.add(db.Name, t.Name, t.Kind.String(), key, function, shard, problem)
		}
	}
	return r, nil
}

func (a *admin) showSessions(_ []string, s *adminSession) (*resultSet, error) {
	r := s.table("id,user,host,database,state,for,transaction,connections,pinned,statement")
	list := a.srv.Sessions()
	sort.Slice(list, func(i, j int) bool { return list[i].id < list[j].id })
	for _, x := range list {
		in := x.Describe()
		state, tx := "idle", "no"
		if in.Running {
			state = "running"
		}
		if in.InTransaction {
			tx = "open"
		}
		r.add(strconv.FormatUint(in.ID, 10), in.User, in.Host, in.Database, state, in.For.Round(time.Millisecond).String(), tx, strconv.Itoa(in.Connections), in.Pinned, in.Text)
	}
	return r, nil
}

func (a *admin) showPlans(_ []string, s *adminSession) (*resultSet, error) {
	r := s.table("database,statement,plan,hits")
	plans := a.srv.gen.Load().router.Plans()
	sort.Slice(plans, func(i, j int) bool { return plans[i].Hits > plans[j].Hits })
	for _, p := range plans {
		r.add(p.Database, p.Digest, strings.TrimSpace(p.Plan), strconv.FormatInt(p.Hits, 10))
	}
	return r, nil
}

func (a *admin) showTransactions(_ []string, s *adminSession) (*resultSet, error) {
	r := s.table("gtrid,age,nodes,writers,session,statements,state")
	open := a.srv.tx.Open()
	sort.Slice(open, func(i, j int) bool { return open[i].Began.Before(open[j].Began) })
	for _, t := range open {
		state := t.State
		if !t.Since.IsZero() {
			state += " for " + age(t.Since)
		}
		r.add(t.GTRID, age(t.Began), strings.Join(t.Nodes, ","), strings.Join(t.Writers, ","),
			strconv.FormatUint(t.Session, 10), strconv.Itoa(t.Statements), state)
	}
	return r, nil
}

// recoverTimeout bounds a look at, or a recovery of, all nodes' branches.
const recoverTimeout = time.Minute

func (a *admin) showXA(_ []string, s *adminSession) (*resultSet, error) {
	ctx, cancel := context.WithTimeout(context.Background(), recoverTimeout)
	defer cancel()
	list, failed := a.srv.tx.InDoubt(ctx)
	r := s.table("node,gtrid,bqual,age,decider,decision,note")
	for _, x := range list {
		r.add(x.Node, x.GTRID, x.BQual, age(x.Began), x.Decider, fmt.Sprint(x.Decision), x.Reason)
	}
	for node, err := range failed {
		r.add(node, "", "", "", "", "", "cannot be asked: "+err.Error())
	}
	return r, nil
}

func (a *admin) recoverXA(_ []string, s *adminSession) (*resultSet, error) {
	ctx, cancel := context.WithTimeout(context.Background(), recoverTimeout)
	defer cancel()
	report, err := a.srv.tx.RecoverNow(ctx, backend.RecoverOptions{})
	if err != nil {
		return nil, err
	}
	r := s.table("result,value")
	r.add("nodes scanned", strings.Join(report.Scanned, ","))
	for node, err := range report.Failed {
		r.add("node "+node+" failed", err.Error())
	}
	r.add("branches committed", strconv.Itoa(report.Committed))
	r.add("branches rolled back", strconv.Itoa(report.RolledBack))
	r.add("branches left", strconv.Itoa(len(report.Left)))
	r.add("decision rows purged", strconv.Itoa(report.Purged))
	return r, nil
}

func (a *admin) showConfig(_ []string, s *adminSession) (*resultSet, error) {
	r := s.table("configuration")
	for _, line := range strings.Split(strings.TrimRight(a.srv.gen.Load().cfg.String(), "\n"), "\n") {
		r.add(line)
	}
	return r, nil
}

func (a *admin) showStats(_ []string, s *adminSession) (*resultSet, error) {
	r := s.table("name,value")
	for _, c := range a.srv.stats.list() {
		r.add(c.name, strconv.FormatUint(c.value.Load(), 10))
	}
	r.add("uptime_seconds", strconv.Itoa(int(time.Since(a.srv.start).Seconds())))
	r.add("sessions", strconv.Itoa(len(a.srv.Sessions())))
	r.add("generation", strconv.FormatUint(a.srv.gen.Load().number, 10))
	return r, nil
}
