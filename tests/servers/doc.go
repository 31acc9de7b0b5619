// Package servers starts MariaDB and MySQL 9 servers of its own for tests,
// benchmarks and demonstrations: each on a free port of 127.0.0.1 with a data
// directory of its own, a copy of a template that is made once per flavour.
//
// The types are Server (one mysqld), Options and Flavour. The package never
// uses a server it did not start, and its servers die with the process that
// started them, whichever way that ends (parent-death signal).
//
// MariaDB comes from the machine (apt-get install mariadb-server), MySQL 9 from
// the chroot that scripts/mysql9.sh builds. Where one is missing Start answers
// an *Unavailable, whose text says why and what to do.
package servers
