<?php
// The work of ../doc.go through PDO and mysqli: php.php HOST PORT USER PASSWORD DATABASE
[, $host, $port, $user, $password, $database] = $argv;
function show(...$x) { echo json_encode($x, JSON_UNESCAPED_UNICODE | JSON_INVALID_UTF8_SUBSTITUTE), "\n"; }
foreach ([true, false] as $emulate) {
    $db = new PDO("mysql:host=$host;port=$port;dbname=$database;charset=utf8mb4", $user, $password,
        [PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION, PDO::ATTR_EMULATE_PREPARES => $emulate]);
    $db->exec("DROP TABLE IF EXISTS t");
    $db->exec("CREATE TABLE t(k INT PRIMARY KEY, u BIGINT UNSIGNED, d DECIMAL(20,5), dt DATETIME(6), v VARCHAR(100), b BLOB, e ENUM('a','b'), bi BIT(9), f DOUBLE, j JSON, big LONGTEXT)");
    $in = $db->prepare("INSERT INTO t(k,u,d,dt,v,b,e,f,j) VALUES (?,?,?,?,?,?,?,?,?)");
    $in->execute([1, '18446744073709551615', '-12345.67891', '2024-02-29 01:02:03.456789', "äöü漢😀'\"\\", "\x00\x01", 'b', 0.25, '{"a": 1}']);
    show('inserted', $in->rowCount());
    $in->execute([2, null, null, null, null, null, null, null, null]);
    foreach ($db->query("SELECT k,u,d,dt,v,HEX(b),e,bi,f FROM t ORDER BY k", PDO::FETCH_NUM) as $row) show($row);
    $db->beginTransaction();
    for ($k = 100; $k < 250; $k++) $in->execute([$k, $k, $k, null, "row $k", null, 'a', $k, null]);
    show('in transaction', $db->inTransaction(), $db->query("SELECT COUNT(*) FROM t")->fetchColumn());
    $db->rollBack();
    show('after rollback', $db->query("SELECT COUNT(*) FROM t")->fetchColumn());
    $db->beginTransaction();
    for ($k = 100; $k < 250; $k++) $in->execute([$k, $k, $k, null, "row $k", null, 'a', $k, null]);
    $db->commit();
    show($db->query("SELECT COUNT(*), SUM(k), MAX(v), AVG(d) FROM t")->fetch(PDO::FETCH_NUM));
    $out = $db->prepare("SELECT k, v, u, d, dt, f FROM t WHERE k=:k OR k=:l ORDER BY k");
    foreach ([[1, 2], [100, 249], [9999, 2]] as [$k, $l]) { $out->execute(['k' => $k, 'l' => $l]); show($out->fetchAll(PDO::FETCH_NUM)); }
    $meta = $db->query("SELECT k,u,d,v FROM t LIMIT 1");
    for ($i = 0; $i < 4; $i++) { $m = $meta->getColumnMeta($i); show($m['name'], $m['native_type'] ?? '', $m['len'], $m['precision'], $m['table'], $m['flags']); }
    $meta->closeCursor();
    foreach (["INSERT INTO t(k) VALUES (100)", "SELEC 1", "SELECT * FROM nosuch", "SELECT nosuch FROM t"] as $text) {
        try { $db->exec($text); show('no error'); } catch (PDOException $e) { show($e->errorInfo[0], $e->errorInfo[1]); }
    }
    $big = str_repeat('z', 2500000);
    $db->prepare("INSERT INTO t(k,big) VALUES (?,?)")->execute([1000, $big]);
    show('big', $db->query("SELECT big FROM t WHERE k=1000")->fetchColumn() === $big);
    $db = null;
}
mysqli_report(MYSQLI_REPORT_ERROR | MYSQLI_REPORT_STRICT);
$m = new mysqli($host, $user, $password, $database, (int)$port);
$m->set_charset('utf8mb4');
show($m->query("SELECT k, v FROM t WHERE k<105 ORDER BY k")->fetch_all());
$s = $m->prepare("SELECT k, v, f, d FROM t WHERE k BETWEEN ? AND ? ORDER BY k LIMIT 3");
$a = 100; $b = 200;
$s->bind_param('ii', $a, $b);
$s->execute();
show($s->get_result()->fetch_all(MYSQLI_ASSOC));
$m->multi_query("SELECT 1; UPDATE t SET u=9 WHERE k=100; SELECT u FROM t WHERE k=100");
do { if ($r = $m->store_result()) { show($r->fetch_all()); $r->free(); } else show('affected', $m->affected_rows); } while ($m->more_results() && $m->next_result());
$u = $m->query("SELECT k FROM t ORDER BY k", MYSQLI_USE_RESULT);
$n = 0;
while ($u->fetch_row()) $n++;
show('unbuffered', $n);
$m->query("UPDATE t SET v='same' WHERE k<110");
show($m->info, $m->affected_rows, $m->warning_count);
show('change user', $m->change_user($user, $password, $database), $m->query("SELECT COUNT(*) FROM t")->fetch_row());
show($m->query("SELECT CAST('x' AS SIGNED)")->fetch_row(), $m->warning_count, $m->get_warnings()->errno ?? null);
$m->query("DROP TABLE t");
$m->close();
