package conf

import (
	"fmt"
	"net/netip"
	"slices"
)

// checkProxyTLS checks how clients may connect: TLS, compression, and the
// networks that say where a client is.
func (c *Config) checkProxyTLS(k *checker, at place) {
	p := &c.Proxy
	k.word(at.key("tls"), p.TLS, "off", "optional", "required")
	if p.TLS != "off" && p.TLSCertificate == "" {
		k.add(at.key("tls"), fmt.Sprintf("is %q without a certificate", p.TLS), "set proxy.tls_certificate and proxy.tls_key")
	}
	k.both(at, "tls_certificate", p.TLSCertificate, "tls_key", p.TLSKey)
	for i, name := range p.Compression {
		here := at.key("compression").item(i, "")
		k.word(here, name, "zlib", "zstd")
		if slices.Contains(p.Compression[:i], name) {
			k.add(here, fmt.Sprintf("%q is listed already", name), "remove one of the two")
		}
	}
	for i, text := range p.ProxyNetworks {
		if _, err := netip.ParsePrefix(text); err != nil {
			k.add(at.key("proxy_networks").item(i, ""), fmt.Sprintf("%q is not a network", text), `write it as "10.0.0.0/8"; one machine is "10.0.0.7/32"`)
		}
	}
}

// checkTLS checks how the node is connected to.
func (n *Node) checkTLS(k *checker, at place) {
	k.word(at.key("tls"), n.TLS, "disabled", "preferred", "required", "verify-ca", "verify-identity")
	k.both(at, "tls_certificate", n.TLSCertificate, "tls_key", n.TLSKey)
	if n.TLSCA != "" && n.TLS != "verify-ca" && n.TLS != "verify-identity" {
		k.add(at.key("tls_ca"), fmt.Sprintf("is not looked at with tls = %q", n.TLS), `set tls = "verify-ca" or "verify-identity", or remove tls_ca`)
	}
	k.word(at.key("compression"), n.Compression, "none", "zlib", "zstd")
}

// both checks that of two keys that belong together none is missing.
func (k *checker) both(at place, name1, value1, name2, value2 string) {
	if (value1 == "") == (value2 == "") {
		return
	}
	set, missing := name1, name2
	if value1 == "" {
		set, missing = name2, name1
	}
	k.add(at.key(set), "is set without "+missing, "a certificate and its key go together: set both")
}
