package proxy

import (
	"crypto/tls"
	"fmt"
	"net/netip"
	"slices"

	"braid/conf"
	"braid/internal/mysql"
)

// edge is how clients may connect under one generation. It is immutable.
type edge struct {
	mode       mysql.TLSMode // preferred, disabled or required
	tls        *tls.Config   // nil: none is offered
	zlib, zstd bool
	networks   []netip.Prefix // whose connections begin with a PROXY header
}

// newEdge reads the certificates that p names.
func newEdge(p *conf.Proxy) (edge, error) {
	e := edge{mode: mysql.TLSDisabled, zlib: slices.Contains(p.Compression, "zlib"), zstd: slices.Contains(p.Compression, "zstd")}
	switch p.TLS {
	case "optional":
		e.mode = mysql.TLSPreferred
	case "required":
		e.mode = mysql.TLSRequired
	}
	if e.mode != mysql.TLSDisabled {
		t, err := mysql.LoadServerTLS(mysql.TLSFiles{Cert: p.TLSCertificate, Key: p.TLSKey, CA: p.TLSCA})
		if err != nil {
			return e, fmt.Errorf("TLS for clients: %w", err)
		}
		e.tls = t.Config()
	}
	for _, text := range p.ProxyNetworks {
		n, err := netip.ParsePrefix(text)
		if err != nil {
			return e, fmt.Errorf("proxy.proxy_networks: %w", err)
		}
		e.networks = append(e.networks, n)
	}
	return e, nil
}

// options is what the handshake tells a client of this server.
func (e *edge) options() mysql.ServerOptions {
	return mysql.ServerOptions{TLS: e.tls, TLSMode: e.mode, Compress: e.zlib, Zstd: e.zstd}
}
