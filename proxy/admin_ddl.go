package proxy

import (
	"context"
	"strings"

	"braid/internal/mysql"
)

func (a *admin) showDDL(_ []string, s *adminSession) (*resultSet, error) {
	ctx, cancel := context.WithTimeout(context.Background(), schemaTimeout)
	defer cancel()
	r := s.table("change,statement,done,missing,age,error")
	g := a.srv.gen.Load()
	for _, db := range g.databases() {
		if len(db.Shards) < 2 {
			continue
		}
		c, err := g.base[db.Name].nodes[0].Own(ctx, schemaTimeout)
		if err != nil {
			return nil, err
		}
		list, err := changesUnfinished(c, db.Name, 0)
		_ = c.Close()
		if err != nil {
			return nil, err
		}
		for i := range list {
			u := &list[i]
			r.add(u.name(), u.statement, strings.Join(u.done, ","), strings.Join(u.missing(), ","), age(u.began), u.failure)
		}
	}
	return r, nil
}

func (a *admin) resumeDDL(args []string, s *adminSession) (*resultSet, error) {
	ctx, cancel := context.WithTimeout(context.Background(), changeWait)
	defer cancel()
	result, err := a.srv.resume(ctx, args[0])
	if err != nil {
		return nil, mysql.Errorf(1105, "%v", err) // the whole of it: which shard, and why
	}
	r := s.table("result")
	r.add(result)
	return r, nil
}

func (a *admin) showDrift(_ []string, s *adminSession) (*resultSet, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 4*schemaTimeout)
	defer cancel()
	r := s.table("database,object,shard,difference")
	g := a.srv.gen.Load()
	for _, db := range g.databases() {
		list, err := g.driftOf(ctx, db)
		if err != nil {
			return nil, err
		}
		for _, d := range list {
			r.add(d.database, d.object, d.shard, d.difference)
		}
	}
	return r, nil
}
