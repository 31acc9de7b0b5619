package protocol

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"database/sql"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	driver "github.com/go-sql-driver/mysql"

	"braid/conf"
	"braid/tests/e2e"
	"braid/tests/servers"
	"braid/tests/wire"
)

var lab = e2e.NewLab()

func TestMain(m *testing.M) { os.Exit(lab.Main(m)) }

var flavours = []servers.Flavour{servers.MariaDB, servers.MySQL}

// tables are those the tests share: t is sharded by k, c single.
func tables() []conf.Table {
	return []conf.Table{
		{Name: "t", Kind: "sharded", Key: []string{"k"}},
		{Name: "g", Kind: "global"},
		{Name: "c", Kind: "single"},
	}
}

// braid is Braid over four shards on two nodes, or as top says otherwise.
func braid(t *testing.T, flavour servers.Flavour, change func(*conf.Config)) *e2e.Braid {
	t.Helper()
	return lab.StartBraid(t, e2e.Topology{Flavour: flavour, Nodes: 2, Shards: 4, Tables: tables(), Change: change})
}

// connect is a raw client of o, closed at the test's end.
func connect(t *testing.T, o wire.Options) *wire.Conn {
	t.Helper()
	c, err := wire.Connect(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// query runs a statement that must succeed.
func query(t *testing.T, c *wire.Conn, text string) []wire.Result {
	t.Helper()
	r, err := c.Query(text)
	if err != nil {
		t.Fatalf("%.200s: %v", text, err)
	}
	for i := range r {
		if r[i].Err != nil {
			t.Fatalf("%.200s: %v", text, r[i].Err)
		}
	}
	return r
}

// value runs a statement of one row and one column.
func value(t *testing.T, c *wire.Conn, text string) string {
	t.Helper()
	r := query(t, c, text)
	if len(r) != 1 || len(r[0].Rows) != 1 || len(r[0].Rows[0]) != 1 {
		t.Fatalf("%.200s: not one value: %v", text, r)
	}
	return string(r[0].Rows[0][0])
}

// until polls what, every few milliseconds, until it holds.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-ctx.Done():
			t.Fatalf("%s: not within 30 s", what)
		case <-tick.C:
		}
	}
}

// authority is a certificate authority in a folder of the test's.
type authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{dir: t.TempDir()}
	a.key = newKey(t)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"}, IsCA: true,
		BasicConstraintsValid: true, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &a.key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.write(t, "ca.pem", "CERTIFICATE", der)
	return a
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func (a *authority) write(t *testing.T, name, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(a.file(name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o644); err != nil {
		t.Fatal(err)
	}
}

func (a *authority) file(name string) string { return filepath.Join(a.dir, name) }

// issue writes name.pem and name.key, made out to 127.0.0.1, with that serial number.
func (a *authority) issue(t *testing.T, name string, serial int64) {
	t.Helper()
	key := newKey(t)
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	a.write(t, name+".pem", "CERTIFICATE", der)
	k, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	a.write(t, name+".key", "PRIVATE KEY", k)
}

// pool is what clients check certificates of the authority against.
func (a *authority) pool() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(a.cert)
	return p
}

// open opens a driver's configuration, closed at the test's end.
func open(t *testing.T, d *driver.Config) *sql.DB {
	t.Helper()
	connector, err := driver.NewConnector(d)
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(connector)
	t.Cleanup(func() { db.Close() })
	return db
}
