package mysql

import gomysql "github.com/go-mysql-org/go-mysql/mysql"

// ServerCapabilities is what a greeting of Braid's offers when ServerOptions
// says nothing else. It holds no flag whose promise is not kept afterwards:
//
//   - CLIENT_LOCAL_FILES, CLIENT_IGNORE_SPACE and CLIENT_QUERY_ATTRIBUTES are
//     for the caller to add once its sessions do what they say;
//   - CLIENT_SSL and the compression flags are added by AcceptHandshake from
//     ServerOptions;
//   - CLIENT_LONG_PASSWORD also tells MariaDB's clients that the upper half of
//     the filler is not MariaDB's extended capabilities.
const ServerCapabilities = gomysql.CLIENT_LONG_PASSWORD |
	gomysql.CLIENT_FOUND_ROWS |
	gomysql.CLIENT_LONG_FLAG |
	gomysql.CLIENT_CONNECT_WITH_DB |
	gomysql.CLIENT_PROTOCOL_41 |
	gomysql.CLIENT_INTERACTIVE |
	gomysql.CLIENT_TRANSACTIONS |
	gomysql.CLIENT_RESERVED |
	gomysql.CLIENT_SECURE_CONNECTION |
	gomysql.CLIENT_MULTI_STATEMENTS |
	gomysql.CLIENT_MULTI_RESULTS |
	gomysql.CLIENT_PS_MULTI_RESULTS |
	gomysql.CLIENT_PLUGIN_AUTH |
	gomysql.CLIENT_CONNECT_ATTRS |
	gomysql.CLIENT_PLUGIN_AUTH_LENENC_CLIENT_DATA |
	gomysql.CLIENT_SESSION_TRACK |
	gomysql.CLIENT_DEPRECATE_EOF

// nodeCapabilities is what Braid asks a node for, as far as the node offers it.
// CLIENT_MULTI_STATEMENTS is never among it: bytes of a client's must not be
// able to hold a second statement. CLIENT_SESSION_TRACK is off because what a
// node tracks is the node's, not the session's.
const nodeCapabilities = gomysql.CLIENT_LONG_PASSWORD |
	gomysql.CLIENT_LONG_FLAG |
	gomysql.CLIENT_PROTOCOL_41 |
	gomysql.CLIENT_TRANSACTIONS |
	gomysql.CLIENT_RESERVED |
	gomysql.CLIENT_SECURE_CONNECTION |
	gomysql.CLIENT_MULTI_RESULTS |
	gomysql.CLIENT_PS_MULTI_RESULTS |
	gomysql.CLIENT_PLUGIN_AUTH |
	gomysql.CLIENT_CONNECT_ATTRS |
	gomysql.CLIENT_PLUGIN_AUTH_LENENC_CLIENT_DATA |
	gomysql.CLIENT_DEPRECATE_EOF
