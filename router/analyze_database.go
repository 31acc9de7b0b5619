package router

import (
	"github.com/pingcap/tidb/pkg/parser/ast"

	"braid/internal/mysql"
)

// databaseDDL plans CREATE DATABASE of one that exists and DROP DATABASE of one that
// does not, which change nothing. The others are refused.
func (a *analysis) databaseDDL(verb, name string, exists, lenient bool) (planned, error) {
	if SystemSchema(name) || (a.r.topology.Databases[name] != nil) != exists {
		advice := "add it there with its shards, make their schemas on the nodes, and RELOAD CONFIG"
		if !exists {
			advice = "take it out there, RELOAD CONFIG, and drop the schemas of its shards on the nodes"
		}
		return planned{}, refuse(verb + " DATABASE: databases are made by the configuration; " + advice)
	}
	op := OpDropDatabase
	if exists {
		op = OpCreateDatabase
	}
	return planned{plan: &Plan{Kind: KindLocal, Verb: verb, ImplicitCommit: true, Local: &Local{Op: op, Name: name, Lenient: lenient}}}, nil
}

// alterDatabase plans ALTER DATABASE, on all shards.
func (a *analysis) alterDatabase(f *found, n *ast.AlterDatabaseStmt) (planned, error) {
	name := n.Name.O
	if n.AlterDefaultDatabase {
		name = a.q.Database
	}
	db := a.r.topology.Databases[name]
	switch {
	case name == "":
		return planned{}, mysql.Errorf(1046, "No database selected")
	case db == nil:
		return planned{}, refuse("ALTER DATABASE of " + name)
	case !db.SamePhysical && !n.AlterDefaultDatabase:
		return planned{}, refuse("ALTER DATABASE with its name, where the shards' schemas have other names")
	}
	f.db = db
	return a.ddlPlan(f, &DDL{Verb: "ALTER DATABASE"}, -1)
}
