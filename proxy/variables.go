package proxy

import (
	"strconv"
	"time"

	"braid/backend"
	"braid/internal/mysql"
	"braid/router"
)

// treatment is what becomes of a session variable that a client sets. The
// value is judged by a node in every case but refused's.
type treatment uint8

const (
	// applied variables are set on every backend connection that works for the
	// session. It is what becomes of all that are not named below.
	applied treatment = iota
	// keptByBraid variables are Braid's to follow: a backend connection gets them only
	// for a statement that reads or needs them.
	keptByBraid
	// ignored variables have no effect; the client gets a warning.
	ignored
	// privileged variables need a privilege on a server, which Braid's users do
	// not have: error 1227.
	privileged
	// unsupported variables hold or mean what Braid cannot keep the same over
	// several connections: error 1235, but for the value DEFAULT.
	unsupported
)

// treat is the table of the session variables that are not simply applied.
func treat(name string) treatment {
	switch name {
	case
		"autocommit",                          // of the session, not of the legs
		"interactive_timeout", "wait_timeout", // of the client's connection
		"last_insert_id", "identity", // the session's memory
		"sql_select_limit": // of the whole answer, not of each shard's (rule D11)
		return keptByBraid
	case
		"profiling", "profiling_history_size", // SHOW PROFILES is not there
		"optimizer_trace", "optimizer_trace_features", "optimizer_trace_limit", "optimizer_trace_max_mem_size", "optimizer_trace_offset":
		return ignored
	case
		"auto_increment_increment", "auto_increment_offset", // and Braid's sequences would not follow
		"binlog_direct_non_transactional_updates", "binlog_format", "binlog_row_image", "binlog_row_value_options", "binlog_rows_query_log_events",
		"debug", "debug_dbug", "debug_sync", "default_table_encryption", "generated_random_password_length",
		"gtid_domain_id", "gtid_next", "gtid_next_list", "gtid_seq_no", "immediate_server_version", "original_server_version",
		"original_commit_timestamp", "pseudo_replica_mode", "pseudo_slave_mode", "pseudo_thread_id", "rbr_exec_mode", "server_id", "skip_parallel_replication",
		"skip_replication", "sql_log_bin", "sql_log_off", "sql_require_primary_key", "transaction_write_set_extraction", "wsrep_on", "wsrep_osu_method", "xa_detach_on_prepare":
		return privileged
	case
		"character_set_database", "collation_database", // a USE changes them behind the client's back
		"insert_id", "rand_seed1", "rand_seed2": // used up by one statement on one connection
		return unsupported
	}
	return applied
}

// setOwn makes v the variables that Braid keeps for the session itself.
func (s *Session) setOwn(v *backend.Vars) {
	s.own, s.reading, s.limited = v, nil, nil
	wait, _ := v.Get("wait_timeout")
	s.idleSet.Store(int64(parseUint([]byte(wait))))
	s.selectLimit, s.selectLimitSet = 0, false
	if limit, ok := v.Get("sql_select_limit"); ok {
		s.selectLimit, s.selectLimitSet = parseUint([]byte(limit)), limit != "18446744073709551615"
	}
}

// varsFor is what a connection must have for a statement of plan: the
// session's variables, and Braid's own where the statement reads them, or
// where one node answers alone and sql_select_limit bounds its answer.
func (s *Session) varsFor(plan *router.Plan) *backend.Vars {
	switch {
	case plan.ReadsOwn:
		return s.readingVars()
	case s.selectLimitSet && plan.Verb == "SELECT" && len(s.route.Targets) < 2:
		if s.limited == nil {
			limit, _ := s.own.Get("sql_select_limit")
			s.limited = s.vars.With(backend.Var{Name: "sql_select_limit", Value: limit})
		}
		return s.limited
	}
	return s.vars
}

// readingVars are the session's variables together with Braid's own, as a
// statement must find them that shows them.
func (s *Session) readingVars() *backend.Vars {
	if s.reading == nil {
		wait := time.Duration(s.idleTimeout())
		interactive := time.Duration(s.srv.gen.Load().cfg.Timeouts.Interactive)
		v := s.vars.With(backend.Var{Name: "wait_timeout", Value: seconds(wait)}, backend.Var{Name: "interactive_timeout", Value: seconds(interactive)})
		s.own.Each(func(x backend.Var) { v = v.With(x) })
		s.reading = v
	}
	return s.reading
}

func seconds(d time.Duration) string {
	return strconv.FormatInt(int64(max(d, time.Second)/time.Second), 10)
}

// refuseVariable is the error for a variable that a client may not set.
func refuseVariable(t treatment, name string, toDefault bool) *mysql.Error {
	switch {
	case t == privileged:
		return mysql.Errorf(1227, "Access denied; you need (at least one of) the SUPER, SYSTEM_VARIABLES_ADMIN or SESSION_VARIABLES_ADMIN privilege(s) for this operation")
	case t == unsupported && !toDefault:
		return mysql.Errorf(1235, "This version of Braid doesn't yet support 'SET %s'", name)
	}
	return nil
}

// refuseValue is the error for a value that Braid cannot follow.
func refuseValue(name, value string) *mysql.Error {
	switch name {
	case "completion_type": // on a leg it would break the protocol of transactions
		if v := unquote(value); v != "NO_CHAIN" && v != "0" {
			return mysql.Errorf(1235, "This version of Braid doesn't yet support 'SET completion_type=%s'", v)
		}
	case "sql_auto_is_null":
		if value != "0" {
			return mysql.Errorf(1235, "This version of Braid doesn't yet support 'SET sql_auto_is_null=1'")
		}
	case "character_set_results":
		switch unquote(value) {
		case "ucs2", "utf16", "utf16le", "utf32":
			return mysql.Errorf(1235, "This version of Braid doesn't yet support 'SET character_set_results=%s'", unquote(value))
		}
	}
	return nil
}

// canonicalName is MySQL's name of a variable that MariaDB calls differently.
func canonicalName(name string) string {
	switch name {
	case "tx_isolation":
		return "transaction_isolation"
	case "tx_read_only":
		return "transaction_read_only"
	}
	return name
}
