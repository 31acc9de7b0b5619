package conf

// Config is one configuration as the operator wrote it, defaults filled in. It
// is plain data: read it, do not change it once it was handed on.
//
// Load and Parse return it complete and valid. A Config built by hand needs
// FillDefaults and then Validate.
type Config struct {
	// File is where Load read it from, and what a reload reads again; empty when
	// it did not come from a file.
	File string `toml:"-"`

	Proxy     Proxy      `toml:"proxy"`
	Admin     Admin      `toml:"admin"`
	Log       Log        `toml:"log"`
	Pool      Pool       `toml:"pool"`
	Timeouts  Timeouts   `toml:"timeouts"`
	Recovery  Recovery   `toml:"recovery"`
	Users     []User     `toml:"users"`
	Nodes     []Node     `toml:"nodes"`
	Databases []Database `toml:"databases"`
}

// Proxy is the side that clients see.
type Proxy struct {
	Listen         []string `toml:"listen"`           // "host:port" or "unix:/path"; default 127.0.0.1:3306
	TLS            string   `toml:"tls"`              // "off", "optional" or "required"; empty: optional with a certificate, off without
	TLSCertificate string   `toml:"tls_certificate"`  // PEM file: the certificate and its chain
	TLSKey         string   `toml:"tls_key"`          // PEM file: its key
	TLSCA          string   `toml:"tls_ca"`           // PEM file: what certificates of clients are checked against; empty: none is asked for
	Compression    []string `toml:"compression"`      // offered to clients: "zlib", "zstd"
	ProxyNetworks  []string `toml:"proxy_networks"`   // networks whose connections begin with a PROXY protocol header
	Version        string   `toml:"version"`          // what VERSION() and the greeting say; empty: the first node's own
	ConnectionsMax int      `toml:"connections_max"`  // beyond it: error 1040
	PacketBytesMax int      `toml:"packet_bytes_max"` // max_allowed_packet towards clients
	PlansMax       int      `toml:"plans_max"`        // plans kept in the cache
	GatherRowsMax  int      `toml:"gather_rows_max"`  // rows one statement may bring together on one node
	GatherBytesMax int      `toml:"gather_bytes_max"` // bytes of them
	SortBytesMax   int      `toml:"sort_bytes_max"`   // memory one statement may use where a merge must sort
	SetGlobal      string   `toml:"set_global"`       // "refuse" or "broadcast": what SET GLOBAL and SET PERSIST of clients do
	RelayOff       bool     `toml:"relay_off"`        // testing: decode and re-encode instead of relaying
	PlanCacheOff   bool     `toml:"plan_cache_off"`   // testing: plan each statement anew
}

// Admin is the operator's side. Both listeners are off when empty, and refuse
// a non-loopback address unless AllowRemote is set.
type Admin struct {
	Listen      string `toml:"listen"` // MySQL protocol
	HTTP        string `toml:"http"`   // /metrics, /healthz, /readyz, pprof
	AllowRemote bool   `toml:"allow_remote"`
	Users       []User `toml:"users"`
}

// Log says what is logged and how.
type Log struct {
	Level  string `toml:"level"`  // debug, info, warn, error
	Format string `toml:"format"` // json or console
	File   string `toml:"file"`   // empty: standard error
}

// Secret is a password in one of four forms; at most one of them is set. It
// prints and marshals as its form only (see secret.go); User and Node do the same.
type Secret struct {
	Password     string `toml:"password"`
	PasswordEnv  string `toml:"password_env"`  // the environment variable that holds it
	PasswordFile string `toml:"password_file"` // the file that holds it (first line); Load resolves a relative name against the configuration's folder
	PasswordHash string `toml:"password_hash"` // users only: '*HEX' (native) or '$A$005$...' (caching_sha2, or its 0x hex form), as MySQL prints it
}

// User may log in to the proxy (or the admin port).
type User struct {
	Name string `toml:"name"`
	Secret
	Databases []string `toml:"databases"` // empty: all
}

// Node is one MySQL server group: a primary and any replicas of it.
type Node struct {
	Name     string   `toml:"name"`
	Primary  string   `toml:"primary"` // "host:port" or "unix:/path"
	Replicas []string `toml:"replicas"`
	User     string   `toml:"user"`
	Secret
	TLS            string `toml:"tls"`             // "disabled", "preferred", "required", "verify-ca", "verify-identity"
	TLSCA          string `toml:"tls_ca"`          // PEM file: authorities of the verifying modes; empty: the system's
	TLSCertificate string `toml:"tls_certificate"` // PEM file: what Braid shows the node
	TLSKey         string `toml:"tls_key"`
	Compression    string `toml:"compression"`     // "none", "zlib" or "zstd"
	ConnectionsMax int    `toml:"connections_max"` // 0: pool.connections_max
}

// Database is what clients see and USE.
type Database struct {
	Name        string  `toml:"name"`
	Default     string  `toml:"default"`     // "single" or "hash": for tables not listed
	Isolation   string  `toml:"isolation"`   // "READ-UNCOMMITTED", "READ-COMMITTED", "REPEATABLE-READ", "SERIALIZABLE"
	Transaction string  `toml:"transaction"` // "atomic" or "single"
	CommitOK    string  `toml:"commit_ok"`   // "applied" or "decided"
	Shards      []Shard `toml:"shards"`
	Tables      []Table `toml:"tables"`
}

// Shard is one physical schema on one node.
type Shard struct {
	Name   string `toml:"name"`
	Node   string `toml:"node"`
	Schema string `toml:"schema"` // empty: the database's name
	Slots  string `toml:"slots"`  // "0-4095" or "0-99,200-299"; empty on all shards: spread evenly in order; "none" where it owns none
}

// Table says where one table's rows live.
type Table struct {
	Name string   `toml:"name"`
	Kind string   `toml:"kind"` // "sharded", "global", "single"
	Key  []string `toml:"key"`  // sharded: the sharding key's columns
	// Function is how the key chooses the shard: "hash" (default, over 16384
	// slots), "mod" (key mod number of shards), "range", "list".
	Function  string      `toml:"function"`
	Ranges    []RangePart `toml:"ranges"`    // range: ascending; the last may be without less_than (everything above)
	Lists     []ListPart  `toml:"lists"`     // list
	Colocated string      `toml:"colocated"` // sharded: by the same rule as that table; key names this table's own columns
	Shard     string      `toml:"shard"`     // single: where; default: the database's first shard
	Sequence  string      `toml:"sequence"`  // "", "block" or "snowflake" for the AUTO_INCREMENT column
	// UniqueCheck is what becomes of unique keys that do not contain the sharding
	// key: "" refuses them, "none" accepts that each shard checks only its own rows,
	// "lock" locks their values and looks for them on all shards.
	UniqueCheck string `toml:"unique_check"`
}

// RangePart gives keys below LessThan (and not below the part before) to Shard.
type RangePart struct {
	LessThan string `toml:"less_than" literal:"number"` // a number may be written without quotes
	Shard    string `toml:"shard"`
}

// ListPart gives the listed keys to Shard.
type ListPart struct {
	Values []string `toml:"values" literal:"number"` // numbers may be written without quotes
	Shard  string   `toml:"shard"`
}

// Pool bounds the connections to each node.
type Pool struct {
	ConnectionsMax int      `toml:"connections_max"` // per node
	IdleMax        int      `toml:"idle_max"`        // per node, kept open when unused
	IdleTimeout    Duration `toml:"idle_timeout"`
	WaitTimeout    Duration `toml:"wait_timeout"`   // how long a session waits for a free connection
	StatementsMax  int      `toml:"statements_max"` // prepared statements kept per backend connection
}

// Timeouts bound everything that waits for somebody else.
type Timeouts struct {
	Connect   Duration `toml:"connect"`   // to a node, login included
	Handshake Duration `toml:"handshake"` // a client's login
	Statement Duration `toml:"statement"` // one statement; 0: none
	Idle      Duration `toml:"idle"`      // an idle client (wait_timeout)
	// Interactive is Idle for clients that log in as interactive (interactive_timeout).
	Interactive Duration `toml:"interactive"`
	Stalled     Duration `toml:"stalled"` // a client that takes none of its answer, or stops within a command (net_write_timeout)
	Drain       Duration `toml:"drain"`   // shutting down: how long open transactions may finish
}

// Recovery is the finishing of interrupted cross-node transactions.
type Recovery struct {
	Interval  Duration `toml:"interval"`
	Grace     Duration `toml:"grace"`     // a branch is touched only when seen prepared twice this far apart
	Retention Duration `toml:"retention"` // how long decision rows are kept
}
