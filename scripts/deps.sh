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

want=$(missing | tr '\n' ' ')
if [ -z "$want" ]; then
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
command -v mariadbd >/dev/null || exit 3
exit 0
