# The work of ../doc.go through a DB-API module: dbapi.py MODULE HOST PORT USER PASSWORD DATABASE
import importlib, sys, datetime, decimal

module = importlib.import_module(sys.argv[1])
host, port, user, password, database = sys.argv[2], int(sys.argv[3]), *sys.argv[4:7]


def connect():
    return module.connect(host=host, port=port, user=user, passwd=password, db=database, charset="utf8mb4")


def error(cursor, text, args=None):
    try:
        cursor.execute(text, args)
        print("no error:", text)
    except module.Error as e:
        print(type(e).__name__, e.args[0])


db = connect()
c = db.cursor()
c.execute("DROP TABLE IF EXISTS t")
c.execute("""CREATE TABLE t(k INT PRIMARY KEY, u BIGINT UNSIGNED, d DECIMAL(20,5), dt DATETIME(6), da DATE, ti TIME, y YEAR, f DOUBLE,
  v VARCHAR(100), b BLOB, j JSON, bi BIT(9), e ENUM('a','b'), s SET('x','y'), big LONGTEXT)""")
insert = "INSERT INTO t(k,u,d,dt,da,ti,y,f,v,b,j,bi,e,s) VALUES (%s,%s,%s,%s,%s,%s,%s,%s,%s,%s,%s,%s,%s,%s)"
n = c.execute(insert, (1, 18446744073709551615, decimal.Decimal("-12345.67891"), datetime.datetime(2024, 2, 29, 1, 2, 3, 456789),
                       datetime.date(1999, 12, 31), datetime.timedelta(hours=-26, minutes=5), 2024, 0.1, "äöü漢😀'\"\\", b"\x00\xff\x01", '{"a": [1, null]}', 257, "b", "x,y"))
print("inserted", n, c.rowcount)
c.execute(insert, (2,) + (None,) * 13)
c.execute("SELECT k,u,d,dt,da,ti,y,f,v,b,bi,e,s,big FROM t ORDER BY k")
for row in c.fetchall():
    print(row)
print([x[:2] for x in c.description])
db.rollback()
c.execute("SELECT COUNT(*) FROM t")
print("after rollback", c.fetchall())
print("batch", c.executemany("INSERT INTO t(k,v) VALUES (%s,%s)", [(k, "row %d" % k) for k in range(100, 300)]))
db.commit()
c.execute("SELECT COUNT(*), MIN(k), MAX(k), SUM(k), AVG(k) FROM t")
print("batch", c.fetchall())
print("update", c.execute("UPDATE t SET u=5 WHERE k<150"), c.execute("UPDATE t SET u=5 WHERE k=%s", (100,)))
big = "x" * 3000000
c.execute("INSERT INTO t(k,big) VALUES (%s,%s)", (1000, big))
c.execute("SELECT big FROM t WHERE k=1000")
print("big", c.fetchone()[0] == big)
error(c, "INSERT INTO t(k) VALUES (100)")
error(c, "SELEC 1")
error(c, "SELECT * FROM nosuch")
error(c, "SELECT nosuch FROM t")
error(c, "INSERT INTO t(k,v) VALUES (5000,%s)", ("x" * 101,))
c.execute("SELECT k FROM t ORDER BY k DESC LIMIT 5")
print("limit", c.fetchall())
db.commit()
db.autocommit(True)
c.execute("SELECT g, COUNT(*) FROM (SELECT 1 AS g) x GROUP BY g")
print(c.fetchall())
db.ping()
db.select_db(database)
c.close()
db.close()
db = connect()
c = db.cursor()
c.execute("SELECT COUNT(*) FROM t")
print("again", c.fetchall())
c.execute("SELECT v FROM t WHERE k IN (100,101,102) ORDER BY v")
print(c.fetchall())
c.execute("DROP TABLE t")
db.close()
