# The work of ../doc.go through DBI: dbi.pl DRIVER HOST PORT USER PASSWORD DATABASE
use strict;
use warnings;
use DBI;
my ($driver, $host, $port, $user, $password, $database) = @ARGV;
my $prepare = $driver eq 'mysql' ? 'mysql_server_prepare' : 'mariadb_server_prepare';
sub show { print join(' ', map { defined $_ ? (ref $_ ? show_list($_) : $_) : 'NULL' } @_), "\n" }
sub show_list { '(' . join(',', map { defined $_ ? $_ : 'NULL' } @{$_[0]}) . ')' }
for my $server (0, 1) {
    my $dbh = DBI->connect("DBI:$driver:database=$database;host=$host;port=$port", $user, $password,
        {RaiseError => 1, PrintError => 0, AutoCommit => 1, $prepare => $server});
    $dbh->do("SET NAMES utf8mb4");
    $dbh->do("DROP TABLE IF EXISTS t");
    $dbh->do("CREATE TABLE t(k INT PRIMARY KEY, u BIGINT UNSIGNED, d DECIMAL(20,5), dt DATETIME(6), v VARCHAR(100), b BLOB, e ENUM('a','b'), bi BIT(9), f DOUBLE, big LONGTEXT)");
    my $in = $dbh->prepare("INSERT INTO t(k,u,d,dt,v,b,e,f) VALUES (?,?,?,?,?,?,?,?)");
    show('inserted', $in->execute(1, '18446744073709551615', '-12345.67891', '2024-02-29 01:02:03.456789', "it's \\ \"", "\x00\x01", 'b', 0.25));
    $in->execute(2, undef, undef, undef, undef, undef, undef, undef);
    my $rows = $dbh->selectall_arrayref("SELECT k,u,d,dt,v,HEX(b),e,bi+0,f FROM t ORDER BY k");
    show('row', $_) for @$rows;
    $dbh->begin_work;
    $in->execute($_, $_, $_, undef, "row $_", undef, 'a', $_) for 100 .. 250;
    show('in transaction', $dbh->selectrow_array("SELECT COUNT(*) FROM t"));
    $dbh->rollback;
    show('after rollback', $dbh->selectrow_array("SELECT COUNT(*) FROM t"));
    $dbh->begin_work;
    $in->execute($_, $_, $_, undef, "row $_", undef, 'a', $_) for 100 .. 250;
    $dbh->commit;
    show('after commit', $dbh->selectrow_array("SELECT COUNT(*), SUM(k), MAX(v) FROM t"));
    my $out = $dbh->prepare("SELECT v, u FROM t WHERE k=?");
    for my $k (100, 2, 250, 9999) {
        $out->execute($k);
        my @row = $out->fetchrow_array;
        show('read', $k, @row ? [@row] : 'none');
        $out->finish;
    }
    my $big = 'y' x 2500000;
    $dbh->do("INSERT INTO t(k,big) VALUES (?,?)", undef, 1000, $big);
    $dbh->{LongReadLen} = 5000000;
    show('big', $dbh->selectrow_array("SELECT LENGTH(big) FROM t WHERE k=1000"), $dbh->selectrow_array("SELECT big FROM t WHERE k=1000") eq $big);
    for my $text ("INSERT INTO t(k) VALUES (100)", "SELEC 1", "SELECT * FROM nosuch", "SELECT nosuch FROM t") {
        eval { $dbh->do($text) };
        show('error', $dbh->err, $dbh->state, $text);
    }
    show('update', $dbh->do("UPDATE t SET u=7 WHERE k<120"), $dbh->do("DELETE FROM t WHERE k>240"));
    show('ping', $dbh->ping);
    $dbh->do("DROP TABLE t");
    $dbh->disconnect;
}
