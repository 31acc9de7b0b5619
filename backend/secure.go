package backend

import (
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"net"
	"os"

	"braid/conf"
	"braid/internal/mysql"
)

// transport is how a node is talked to: TLS and compression. It is immutable.
type transport struct {
	mode        mysql.TLSMode
	config      *tls.Config // nil: never TLS
	compression mysql.Compression
	// stamp changes with the contents of the files, so that a reload after a
	// renewed certificate makes connections anew.
	stamp [sha256.Size]byte
}

func newTransport(n *conf.Node) (transport, error) {
	var t transport
	var err error
	if n.TLS != "" {
		if t.mode, err = mysql.ParseTLSMode(n.TLS); err != nil {
			return t, err
		}
	} else {
		t.mode = mysql.TLSDisabled
	}
	nw, host := network(n.Primary)
	if nw == "tcp" {
		if host, _, err = net.SplitHostPort(host); err != nil {
			return t, err
		}
	}
	files := mysql.TLSFiles{Cert: n.TLSCertificate, Key: n.TLSKey, CA: n.TLSCA}
	if t.config, err = mysql.ClientTLS(t.mode, host, files); err != nil {
		return t, fmt.Errorf("TLS: %w", err)
	}
	if t.config != nil {
		h := sha256.New()
		for _, name := range []string{files.Cert, files.Key, files.CA} {
			if name == "" {
				continue
			}
			b, err := os.ReadFile(name)
			if err != nil {
				return t, fmt.Errorf("TLS: %w", err)
			}
			fmt.Fprintf(h, "%d:", len(b))
			h.Write(b)
		}
		t.stamp = [sha256.Size]byte(h.Sum(nil))
	}
	switch n.Compression {
	case "zlib":
		t.compression = mysql.CompressZlib
	case "zstd":
		t.compression = mysql.CompressZstd
	}
	return t, nil
}
