#!/bin/bash
# Installs what the end-to-end tests and benchmarks use and the machine lacks: MariaDB, debootstrap
# (for scripts/mysql9.sh), sysbench, haproxy, a C compiler (the race detector links with it). Needs apt-get and root; elsewhere it says what to
# install and goes on, since tests that miss a server skip and say so.
#
# Exit codes: 0 all there (or only optional ones missing), 3 a server for the tests is missing.
set -u

declare -A package=(
	[mariadbd]=mariadb-server
	[debootstrap]=debootstrap
	[sysbench]=sysbench
	[haproxy]=haproxy
	[gcc]="gcc libc6-dev"
)
PATH=$PATH:/usr/sbin:/usr/local/sbin

missing() {
	for program in mariadbd debootstrap sysbench haproxy gcc; do
		command -v "$program" >/dev/null || echo "${package[$program]}"
	done
}

# Drivers of the matrix (tests/drivers): a test whose driver is missing skips and says so.
drivers="python3-pymysql python3-mysqldb libmariadb-java libdbd-mysql-perl libdbd-mariadb-perl php-cli php-mysql"
missing_drivers() {
	command -v dpkg >/dev/null || return
	for name in $drivers; do
		dpkg -s "$name" >/dev/null 2>&1 || echo "$name"
	done
	command -v java >/dev/null || echo default-jdk-headless
	command -v npm >/dev/null || echo npm
}

want=$({ missing; missing_drivers; } | tr '\n' ' ')
# node.js's drivers come from npm, into the cache.
modules() {
	local folder=${BRAID_CACHE:-/var/cache/braid}/npm
	command -v npm >/dev/null || return
	[ -d "$folder/node_modules/mysql2" ] && [ -d "$folder/node_modules/mariadb" ] && return
	mkdir -p "$folder" && npm install --silent --no-audit --no-fund --prefix "$folder" mysql2 mariadb >/dev/null 2>&1 ||
		echo "deps: npm could not install mysql2 and mariadb" >&2
}

# The test program of MariaDB's client (tests/drivers): alone, without the 250 MB
# that its package depends on.
client_test() {
	local folder=${BRAID_CACHE:-/var/cache/braid}/mariadb-test
	command -v mariadb-client-test >/dev/null || [ -x "$folder/bin/mariadb-client-test" ] && return
	command -v apt-get >/dev/null || return
	local from
	from=$(mktemp -d)
	if (cd "$from" && apt-get -q download mariadb-test && dpkg-deb -x mariadb-test_*.deb .) >/dev/null 2>&1; then
		mkdir -p "$folder/bin" && cp "$from/usr/bin/mariadb-client-test" "$folder/bin/"
	else
		echo "deps: apt-get could not fetch mariadb-test" >&2
	fi
	rm -rf "$from"
}

if [ -z "$want" ]; then
	modules
	client_test
	echo "deps: nothing to install"
	exit 0
fi
if ! command -v apt-get >/dev/null; then
	echo "deps: this machine has no apt-get; please install: $want" >&2
elif [ "$(id -u)" != 0 ]; then
	echo "deps: not root; please run: apt-get install --no-install-recommends $want" >&2
else
	export DEBIAN_FRONTEND=noninteractive
	log=$(mktemp)
	# A package must not start its service here: the tests start servers of their own.
	policy=/usr/sbin/policy-rc.d
	if [ ! -e "$policy" ]; then
		printf '#!/bin/sh\nexit 101\n' >"$policy"
		chmod +x "$policy"
		trap 'rm -f "$policy"' EXIT
	fi
	if { apt-get -q update && apt-get -qy install --no-install-recommends $want; } >"$log" 2>&1; then
		echo "deps: installed $want"
	else
		echo "deps: apt-get could not install $want: $(tail -n 2 "$log" | tr '\n' ' ')" >&2
	fi
	rm -f "$log"
fi
modules
client_test
command -v mariadbd >/dev/null || exit 3
exit 0
