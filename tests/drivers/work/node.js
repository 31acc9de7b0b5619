// The work of ../doc.go through node.js drivers: node.js MODULE HOST PORT USER PASSWORD DATABASE
const [, , name, host, port, user, password, database] = process.argv;
const show = (...x) => console.log(JSON.stringify(x, (k, v) => typeof v === 'bigint' ? v.toString() + 'n' : v && v.type === 'Buffer' ? 'hex:' + Buffer.from(v.data).toString('hex') : v));
const options = { host, port: Number(port), user, password, database, dateStrings: true, supportBigNumbers: true, bigNumberStrings: true, multipleStatements: true, charset: 'utf8mb4' };

async function connect() {
  if (name === 'mysql2') return require('mysql2/promise').createConnection(options);
  return require('mariadb').createConnection({ ...options, allowPublicKeyRetrieval: true, bigIntAsNumber: false });
}
const rows = (r) => name === 'mysql2' ? r[0] : r;

async function fails(c, text, args) {
  try { await c.query(text, args); show('no error', text); } catch (e) { show('error', e.errno, e.sqlState, e.code); }
}

(async () => {
  let c = await connect();
  const q = async (text, args) => rows(await c.query(text, args));
  const x = async (text, args) => rows(await c.execute(text, args));
  await q('DROP TABLE IF EXISTS t');
  await q("CREATE TABLE t(k INT PRIMARY KEY, u BIGINT UNSIGNED, d DECIMAL(20,5), dt DATETIME(6), v VARCHAR(100), b BLOB, e ENUM('a','b'), bi BIT(9), f DOUBLE, j JSON, big LONGTEXT)");
  const insert = 'INSERT INTO t(k,u,d,dt,v,b,e,f,j) VALUES (?,?,?,?,?,?,?,?,?)';
  let r = await x(insert, [1, '18446744073709551615', '-12345.67891', '2024-02-29 01:02:03.456789', "äöü漢😀'\"\\", Buffer.from([0, 255]), 'b', 0.25, '{"a": 1}']);
  show('inserted', r.affectedRows);
  await q(insert, [2, null, null, null, null, null, null, null, null]);
  show(await q('SELECT k,u,d,dt,v,b,e,bi,f FROM t ORDER BY k'));
  show(await x('SELECT k,u,d,dt,v,b,e,bi,f FROM t ORDER BY k'));
  await c.beginTransaction();
  for (let k = 100; k < 200; k++) await x('INSERT INTO t(k,v,u) VALUES (?,?,?)', [k, 'row ' + k, k]);
  show('in transaction', await q('SELECT COUNT(*) AS n FROM t'));
  await c.rollback();
  show('after rollback', await q('SELECT COUNT(*) AS n FROM t'));
  await c.beginTransaction();
  const batch = [];
  for (let k = 100; k < 400; k++) batch.push([k, 'row ' + k, k]);
  if (name === 'mysql2') await q('INSERT INTO t(k,v,u) VALUES ?', [batch]);
  else await c.batch('INSERT INTO t(k,v,u) VALUES (?,?,?)', batch);
  await c.commit();
  show(await q('SELECT COUNT(*) AS n, SUM(k) AS s, MAX(v) AS m, AVG(d) AS a FROM t'));
  for (const k of [100, 2, 9999]) show(await x('SELECT v,u,d FROM t WHERE k=?', [k]));
  show(await x('SELECT k FROM t WHERE k IN (?,?,?) ORDER BY k DESC', [101, 399, 5]));
  show('several', await q('SELECT 1 AS a; SELECT COUNT(*) AS n FROM t; SELECT k FROM t WHERE k=100'));
  const big = 'q'.repeat(3000000);
  await x('INSERT INTO t(k,big) VALUES (?,?)', [1000, big]);
  show('big', (await x('SELECT big FROM t WHERE k=?', [1000]))[0].big === big, (await q('SELECT big FROM t WHERE k=1000'))[0].big === big);
  await fails(c, 'INSERT INTO t(k) VALUES (100)');
  await fails(c, 'SELEC 1');
  await fails(c, 'SELECT * FROM nosuch');
  await fails(c, 'INSERT INTO t(k,v) VALUES (5000,?)', ['x'.repeat(101)]);
  r = await q("UPDATE t SET v='same' WHERE k<110");
  show('update', r.affectedRows, r.warningStatus, r.info, r.changedRows);
  await c.ping();
  try { await c.changeUser({ user, password, database }); } catch (e) { show('changeUser', e.errno); } // the mariadb module: not on MySQL
  show(await q('SELECT COUNT(*) AS n FROM t'));
  await c.end();
  c = await connect();
  show('again', await q('SELECT COUNT(*) AS n FROM t'));
  await q('DROP TABLE t');
  await c.end();
})().catch((e) => { console.log('FAILED', e); process.exit(1); });
