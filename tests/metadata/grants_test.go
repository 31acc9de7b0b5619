package metadata

import (
	"testing"

	"braid/conf"
	"braid/tests/e2e"
	"braid/tests/servers"
	"braid/tests/wire"
)

// TestGrantsOfOthers compares with a plain server whose grants a user is shown: one
// who may do all, anybody's; one who may not, his own.
func TestGrantsOfOthers(t *testing.T) {
	for _, flavour := range []servers.Flavour{servers.MariaDB, servers.MySQL} {
		t.Run(string(flavour), func(t *testing.T) {
			b := lab.StartBraid(t, e2e.Topology{Flavour: flavour, Nodes: 2, Shards: 4, Change: func(c *conf.Config) {
				c.Users = append(c.Users, conf.User{Name: "clerk", Secret: conf.Secret{Password: "clerk's"}, Databases: []string{"shop"}})
			}})
			server := lab.Server(t, flavour, "plain")
			e2e.Recreate(t, server, "shop")
			root := e2e.Open(t, server, "")
			for _, text := range []string{"DROP USER IF EXISTS clerk", "CREATE USER clerk IDENTIFIED BY 'clerk''s'", "GRANT ALL ON shop.* TO clerk"} {
				if _, err := root.ExecContext(t.Context(), text); err != nil {
					t.Fatal(err)
				}
			}
			plain := wire.Options{Addr: server.Addr(), User: servers.User, Password: servers.Password, Database: "shop"}
			for _, clerk := range []bool{false, true} {
				var sides [2]*wire.Conn
				for i, o := range []wire.Options{plain, b.Wire()} {
					if clerk {
						o.User, o.Password = "clerk", "clerk's"
					}
					sides[i] = connect(t, o)
				}
				for _, whom := range []string{"", " FOR CURRENT_USER", " FOR current_user ( )", " FOR clerk", " FOR 'clerk'@'%'", " FOR `clerk`@\"%\"", " FOR " + servers.User, " FOR '" + servers.User + "'@'%'",
					" FOR nobody", " FOR nobody@'10.0.0.1'", " FOR 'nobody'@`%`"} {
					text := "SHOW GRANTS" + whom
					var said [2]string
					for i, c := range sides {
						r, err := c.Query(text)
						switch {
						case err != nil:
							said[i] = err.Error()
						case r[0].Err != nil: // MariaDB has announced the column by then
							said[i] = r[0].Err.Error()
						default:
							said[i] = r[0].Columns[0].Name
						}
					}
					if said[0] != said[1] {
						t.Errorf("clerk %v, %s: %s\nplain: %s", clerk, text, said[1], said[0])
					}
				}
			}
		})
	}
}
