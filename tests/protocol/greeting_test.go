package protocol

import (
	"testing"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"braid/tests/servers"
	"braid/tests/wire"
)

// TestGreeting compares the capabilities in the greeting with a plain server's
// (B156): all of them are there but those whose promise Braid does not keep.
func TestGreeting(t *testing.T) {
	const multiFactor = 1 << 28 // CLIENT_MULTI_FACTOR_AUTHENTICATION
	// Not kept, or without a meaning since long ago.
	left := map[servers.Flavour]uint32{
		servers.MySQL: gomysql.CLIENT_NO_SCHEMA | gomysql.CLIENT_ODBC | gomysql.CLIENT_IGNORE_SIGPIPE | gomysql.CLIENT_SSL |
			gomysql.CLIENT_CAN_HANDLE_EXPIRED_PASSWORDS | gomysql.CLIENT_SSL_VERIFY_SERVER_CERT | gomysql.CLIENT_REMEMBER_OPTIONS |
			multiFactor,
		servers.MariaDB: gomysql.CLIENT_NO_SCHEMA | gomysql.CLIENT_ODBC | gomysql.CLIENT_IGNORE_SIGPIPE |
			gomysql.CLIENT_CAN_HANDLE_EXPIRED_PASSWORDS | gomysql.CLIENT_SSL_VERIFY_SERVER_CERT | gomysql.CLIENT_REMEMBER_OPTIONS,
	}
	more := map[servers.Flavour]uint32{servers.MariaDB: gomysql.CLIENT_LONG_PASSWORD | gomysql.CLIENT_ZSTD_COMPRESSION_ALGORITHM}
	for _, flavour := range flavours {
		t.Run(string(flavour), func(t *testing.T) {
			b := braid(t, flavour, nil)
			direct, through := connect(t, plain(t, flavour)), connect(t, b.Wire())
			if got, want := through.Server, direct.Server&^left[flavour]|more[flavour]; got != want {
				t.Errorf("capabilities %032b\nwant         %032b\nplain        %032b", got, want, direct.Server)
			}
			if direct.Status != through.Status || direct.Charset != through.Charset {
				t.Errorf("status %x, charset %d; plain %x, %d", through.Status, through.Charset, direct.Status, direct.Charset)
			}
			for _, c := range []*wire.Conn{direct, through} {
				if got := value(t, c, "SELECT VERSION()"); c.Version != got && c.Version != "5.5.5-"+got {
					t.Errorf("greeting says %q, VERSION() %q", c.Version, got)
				}
			}
			if direct.Version != through.Version {
				t.Errorf("version %q, plain %q", through.Version, direct.Version)
			}
		})
	}
}
