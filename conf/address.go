package conf

import (
	"errors"
	"net"
	"net/netip"
	"path/filepath"
	"strconv"
	"strings"
)

// ParseAddress splits "host:port" or "unix:/path" into what net.Dial and
// net.Listen take. The port is a number; the host may be empty.
func ParseAddress(text string) (network, address string, err error) {
	if path, ok := strings.CutPrefix(text, "unix:"); ok {
		if !filepath.IsAbs(path) {
			return "", "", errors.New("the socket's path must begin with /")
		}
		// sockaddr_un holds 108 bytes with the closing zero.
		if len(path) > 107 {
			return "", "", errors.New("the socket's path is longer than 107 bytes")
		}
		return "unix", path, nil
	}
	_, port, err := net.SplitHostPort(text)
	if err != nil {
		return "", "", errors.New("is not an address")
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || strconv.FormatUint(n, 10) != port {
		return "", "", errors.New("the port is not a number from 0 to 65535")
	}
	return "tcp", text, nil
}

// endpoint is an address in one spelling, to see that two are the same.
type endpoint struct {
	network    string
	host, port string // unix: host is the path
}

// parseEndpoint is for addresses that ParseAddress accepts.
func parseEndpoint(text string) (endpoint, error) {
	network, address, err := ParseAddress(text)
	if err != nil {
		return endpoint{}, err
	}
	if network == "unix" {
		return endpoint{network: network, host: filepath.Clean(address)}, nil
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return endpoint{}, err
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if host == "localhost" {
		host = "127.0.0.1"
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		host = ip.Unmap().String()
	}
	return endpoint{network, host, port}, nil
}

// everywhere says that it stands for all of the machine's addresses.
func (e endpoint) everywhere() bool {
	return e.network == "tcp" && (e.host == "" || e.host == "0.0.0.0" || e.host == "::")
}

// local says that only this machine can reach it.
func (e endpoint) local() bool {
	if e.network == "unix" {
		return true
	}
	ip, err := netip.ParseAddr(e.host)
	return err == nil && ip.IsLoopback()
}

// meets says that a listener at l answers what is sent to e. Port 0 meets
// nothing: the system chooses it.
func (e endpoint) meets(l endpoint) bool {
	if e.network != l.network || e.port != l.port || e.port == "0" {
		return false
	}
	return e.host == l.host || l.everywhere() && (e.local() || e.everywhere()) || e.everywhere() && l.local()
}
