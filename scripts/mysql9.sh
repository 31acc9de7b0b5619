#!/bin/bash
# Builds the MySQL 9 server the tests run against: Debian sid's mysql-server-core in a debootstrap
# chroot at ${BRAID_CACHE:-/var/cache/braid}/mysql9. Nothing on the machine itself changes.
# Idempotent: a finished chroot is kept. Two runs at once: the second waits for the first.
#
# Exit codes: 0 the server is there, 3 this machine cannot build it (not root, no debootstrap, no
# network): the reason is the last line on stderr, and also in mysql9.reason beside the chroot, so
# that tests can say why they skip. Any other code is an error of this script.
set -u
set -o pipefail

cache=${BRAID_CACHE:-/var/cache/braid}
root=$cache/mysql9
log=$cache/mysql9.log
reason=$cache/mysql9.reason

cannot() {
	echo "mysql9: $*" >&2
	if [ -w "$cache" ]; then echo "$*" >"$reason"; fi
	exit 3
}

ready() { [ -e "$root/.braid-ready" ] && [ -x "$root/usr/sbin/mysqld" ]; }

if ready; then
	echo "mysql9: $(chroot "$root" /usr/sbin/mysqld --version 2>/dev/null || echo "in $root")"
	exit 0
fi
[ "$(id -u)" = 0 ] || cannot "needs root for debootstrap and chroot"
mkdir -p "$cache" || cannot "cannot create $cache"
command -v debootstrap >/dev/null || cannot "debootstrap is not installed (scripts/deps.sh installs it)"
command -v flock >/dev/null || cannot "flock is not installed"

exec 9>"$cache/mysql9.lock"
if ! flock -n 9; then
	echo "mysql9: another run is building it, waiting" >&2
	flock -w 1800 9 || cannot "another run has held the lock for 30 minutes"
fi
if ready; then
	exit 0
fi

# The mirror the machine itself uses: the first Debian archive named in its own apt sources.
mirror=${BRAID_MIRROR:-}
if [ -z "$mirror" ]; then
	mirror=$({
		sed -n 's/^URIs:[[:space:]]*\([^[:space:]]*\).*/\1/p' /etc/apt/sources.list.d/*.sources
		sed -n 's/^deb[[:space:]]\(\[[^]]*\][[:space:]]*\)\?\([^[:space:]]*\).*/\2/p' /etc/apt/sources.list /etc/apt/sources.list.d/*.list
	} 2>/dev/null | grep -E '/debian/?$' | head -n 1)
fi
[ -n "$mirror" ] || cannot "no Debian mirror in this machine's apt sources (set BRAID_MIRROR)"

echo "mysql9: building $root (about a minute, 750 MB)" >&2
build=$cache/mysql9.build
rm -rf "$build"
# debootstrap wants a script per suite; an older one knows sid under that name.
if ! debootstrap --variant=minbase --include=mysql-server-core sid "$build" "$mirror" >"$log" 2>&1; then
	tail -n 3 "$log" >&2
	cannot "debootstrap of sid failed: $(tail -n 1 "$log") (whole log in mysql9.log beside the chroot)"
fi
version=$(chroot "$build" /usr/sbin/mysqld --version 2>>"$log") ||
	cannot "mysqld in the new chroot does not run (log in mysql9.log beside the chroot)"
rm -rf "$build"/var/cache/apt/archives/*.deb "$build"/var/lib/apt/lists/*
mkdir -p "$build/data"
rm -rf "$root"
mv "$build" "$root" || exit 1
touch "$root/.braid-ready"
rm -f "$reason"
echo "mysql9: $version"
