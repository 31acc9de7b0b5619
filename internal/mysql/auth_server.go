package mysql

import (
	gomysql "github.com/go-mysql-org/go-mysql/mysql"
)

// exchange is the proof of one login's password.
type exchange struct {
	c        *Conn
	opt      *ServerOptions
	login    *Login
	plugin   string // the client's; empty: it knows mysql_native_password only
	response []byte
	// fresh tells that response was made by plugin with the salt of the
	// greeting. A client whose plugin is not the greeting's has not used the
	// salt: libmysqlclient sends an empty response and waits for a switch.
	fresh bool
	// repeat tells that the client may use the salt of before with
	// mysql_native_password.
	repeat bool
}

// run asks for the password and checks it. Unknown users take the same way.
func (x *exchange) run(lookup Lookup) error {
	cred, known := lookup(x.login.User, x.c.NetConn().RemoteAddr())
	secret, err := cred.secret()
	if err != nil || !known {
		known = false
		secret = secret.decoy()
	}
	private := isPrivate(x.c.NetConn())
	plugin := x.choose(&secret, private)
	x.login.AuthPlugin = plugin
	salt := x.login.salt
	if !x.fresh || plugin != x.announced() {
		if x.login.Capabilities&gomysql.CLIENT_PLUGIN_AUTH == 0 {
			return Errorf(gomysql.ER_NOT_SUPPORTED_AUTH_MODE,
				"Client does not support authentication protocol requested by server; consider upgrading MySQL client")
		}
		salt = newSalt()
		if plugin == gomysql.AUTH_NATIVE_PASSWORD {
			if x.repeat {
				salt = x.login.nativeSalt
			}
			x.login.nativeSalt = salt
		}
		if err := send(x.c, appendAuthSwitch(nil, plugin, salt)); err != nil {
			return err
		}
		p, err := x.c.ReadPacket()
		if err != nil {
			return err
		}
		x.response = append([]byte(nil), p...)
	}
	var ok, using bool
	switch plugin {
	case gomysql.AUTH_NATIVE_PASSWORD:
		using = len(x.response) > 0
		ok = secret.matchNative(salt, x.response)
	case gomysql.AUTH_CLEAR_PASSWORD:
		ok, using = x.clear(&secret, x.response)
	default:
		ok, using, err = x.cachingSHA2(&secret, salt, private)
	}
	if err != nil {
		return err
	}
	if !ok || !known || cred.RequireTLS && !x.login.TLS {
		return accessDenied(x.login.User, x.login.Host, using)
	}
	return nil
}

// announced is the plugin that the client's response is of.
func (x *exchange) announced() string {
	if x.plugin == "" || x.login.Capabilities&gomysql.CLIENT_PLUGIN_AUTH == 0 {
		return gomysql.AUTH_NATIVE_PASSWORD
	}
	return x.plugin
}

// choose is the plugin that decides: the client's where it can, so that no
// switch is needed.
func (x *exchange) choose(secret *secret, private bool) string {
	client := x.announced()
	if secret.serves(client) && (client != gomysql.AUTH_CLEAR_PASSWORD || private) {
		return client
	}
	if secret.serves(x.login.authPlugin) {
		return x.login.authPlugin
	}
	if secret.kind == nativeKind {
		return gomysql.AUTH_NATIVE_PASSWORD
	}
	return gomysql.AUTH_CACHING_SHA2_PASSWORD
}

// clear checks a password that came in clear, ended by a zero byte or by the
// packet.
func (x *exchange) clear(secret *secret, response []byte) (ok, using bool) {
	password, ended := cutPassword(response)
	if !ended {
		password = string(response)
	}
	return secret.matchPassword(password), password != ""
}

// cachingSHA2 is caching_sha2_password behind the client's first response.
func (x *exchange) cachingSHA2(secret *secret, salt []byte, private bool) (ok, using bool, err error) {
	r := x.response
	if len(r) == 0 || len(r) == 1 && r[0] == 0 {
		return secret.empty(), false, nil
	}
	if secret.empty() {
		return false, true, nil
	}
	var digest fastDigest
	var cached bool
	if secret.kind == plainKind {
		digest = newFastDigest(secret.plain)
		if !digest.match(salt, r) {
			return false, true, nil
		}
		cached = true
	} else {
		digest, cached = x.opt.Cache.lookup(x.login.User, secret.sha2)
		cached = cached && digest.match(salt, r)
	}
	if cached {
		// The OK follows in a packet of its own, whoever sends it.
		return true, true, x.c.WritePacket([]byte{gomysql.MORE_DATE_HEADER, gomysql.CACHE_SHA2_FAST_AUTH})
	}
	password, ok, err := x.fullSHA2(salt, private)
	if err != nil || !ok {
		return false, true, err
	}
	if !secret.matchPassword(password) {
		return false, true, nil
	}
	x.opt.Cache.store(x.login.User, secret.sha2, newFastDigest(password))
	return true, true, nil
}

// fullSHA2 asks for the password itself: in clear where nobody listens, else
// encrypted with the server's key, which the client may ask for first.
func (x *exchange) fullSHA2(salt []byte, private bool) (password string, ok bool, err error) {
	const requestPublicKey = 2
	if err := send(x.c, []byte{gomysql.MORE_DATE_HEADER, gomysql.CACHE_SHA2_FULL_AUTH}); err != nil {
		return "", false, err
	}
	p, err := x.c.ReadPacket()
	if err != nil {
		return "", false, err
	}
	if private {
		password, ok = cutPassword(p)
		return password, ok, nil
	}
	if x.opt.RSA == nil {
		return "", false, nil
	}
	if len(p) == 1 && p[0] == requestPublicKey {
		_, public, err := x.opt.RSA.get()
		if err != nil {
			return "", false, err
		}
		if err := send(x.c, append([]byte{gomysql.MORE_DATE_HEADER}, public...)); err != nil {
			return "", false, err
		}
		if p, err = x.c.ReadPacket(); err != nil {
			return "", false, err
		}
	}
	password, ok = x.opt.RSA.decrypt(p, salt)
	return password, ok, nil
}
