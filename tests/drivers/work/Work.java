// The work of ../doc.go through JDBC: Work.java HOST PORT USER PASSWORD DATABASE
import java.math.BigDecimal;
import java.math.BigInteger;
import java.sql.*;
import java.util.Arrays;

public class Work {
    static void show(Object... x) { System.out.println(Arrays.deepToString(x)); }

    static void rows(ResultSet r) throws SQLException {
        ResultSetMetaData m = r.getMetaData();
        while (r.next()) {
            Object[] row = new Object[m.getColumnCount()];
            for (int i = 0; i < row.length; i++) row[i] = r.getString(i + 1);
            show(row);
        }
        r.close();
    }

    public static void main(String[] a) throws Exception {
        Class.forName("org.mariadb.jdbc.Driver");
        for (String more : new String[] {"", "&useServerPrepStmts=true", "&rewriteBatchedStatements=true", "&useServerPrepStmts=true&useBulkStmts=true"}) {
            String url = "jdbc:mariadb://" + a[0] + ":" + a[1] + "/" + a[4] + "?user=" + a[2] + "&password=" + a[3] + "&allowPublicKeyRetrieval=true" + more;
            Connection c = DriverManager.getConnection(url);
            Statement s = c.createStatement();
            s.execute("DROP TABLE IF EXISTS t");
            s.execute("CREATE TABLE t(k INT PRIMARY KEY, u BIGINT UNSIGNED, d DECIMAL(20,5), dt DATETIME(6), v VARCHAR(100), b BLOB, e ENUM('a','b'), bi BIT(9), f DOUBLE, big LONGTEXT)");
            PreparedStatement in = c.prepareStatement("INSERT INTO t(k,u,d,dt,v,b,e,f) VALUES (?,?,?,?,?,?,?,?)");
            in.setInt(1, 1);
            in.setObject(2, new BigInteger("18446744073709551615"));
            in.setBigDecimal(3, new BigDecimal("-12345.67891"));
            in.setTimestamp(4, Timestamp.valueOf("2024-02-29 01:02:03.456789"));
            in.setString(5, "äöü漢😀'\"\\");
            in.setBytes(6, new byte[] {0, -1});
            in.setString(7, "b");
            in.setDouble(8, 0.25);
            show("inserted", in.executeUpdate());
            in.setInt(1, 2);
            for (int i = 2; i <= 8; i++) in.setNull(i, Types.VARCHAR);
            in.executeUpdate();
            rows(s.executeQuery("SELECT k,u,d,dt,v,HEX(b),e,f FROM t ORDER BY k"));
            c.setAutoCommit(false);
            PreparedStatement batch = c.prepareStatement("INSERT INTO t(k,v) VALUES (?,?)");
            for (int k = 100; k < 300; k++) { batch.setInt(1, k); batch.setString(2, "row " + k); batch.addBatch(); }
            show("batch", batch.executeBatch().length);
            rows(s.executeQuery("SELECT COUNT(*) FROM t"));
            c.rollback();
            rows(s.executeQuery("SELECT COUNT(*) FROM t"));
            for (int k = 100; k < 300; k++) { batch.setInt(1, k); batch.setString(2, "row " + k); batch.addBatch(); }
            batch.executeBatch();
            c.commit();
            c.setAutoCommit(true);
            rows(s.executeQuery("SELECT COUNT(*), SUM(k), MAX(v), AVG(d) FROM t"));
            PreparedStatement out = c.prepareStatement("SELECT k,v,u,d FROM t WHERE k=? OR k=? ORDER BY k");
            for (int[] k : new int[][] {{1, 2}, {100, 299}, {9999, 2}}) { out.setInt(1, k[0]); out.setInt(2, k[1]); rows(out.executeQuery()); }
            ResultSetMetaData m = out.executeQuery().getMetaData();
            for (int i = 1; i <= m.getColumnCount(); i++) show(m.getColumnName(i), m.getColumnTypeName(i), m.getPrecision(i), m.getScale(i), m.isNullable(i), m.getTableName(i), m.getCatalogName(i));
            Statement few = c.createStatement();
            few.setFetchSize(10);
            int n = 0;
            for (ResultSet r = few.executeQuery("SELECT k FROM t ORDER BY k"); r.next();) n++;
            show("streamed", n);
            byte[] big = new byte[2500000];
            Arrays.fill(big, (byte) 'w');
            PreparedStatement large = c.prepareStatement("INSERT INTO t(k,big) VALUES (1000,?)");
            large.setBytes(1, big);
            large.executeUpdate();
            ResultSet r = s.executeQuery("SELECT big FROM t WHERE k=1000");
            r.next();
            show("big", Arrays.equals(r.getBytes(1), big));
            for (String text : new String[] {"INSERT INTO t(k) VALUES (100)", "SELEC 1", "SELECT * FROM nosuch", "SELECT nosuch FROM t"}) {
                try { s.execute(text); show("no error"); } catch (SQLException e) { show("error", e.getErrorCode(), e.getSQLState()); }
            }
            show("update", s.executeUpdate("UPDATE t SET v='same' WHERE k<110"), s.getWarnings() == null);
            show(c.isValid(5), c.getCatalog(), c.getTransactionIsolation());
            c.setTransactionIsolation(Connection.TRANSACTION_READ_COMMITTED);
            show(c.getTransactionIsolation());
            DatabaseMetaData d = c.getMetaData();
            rows(d.getPrimaryKeys(a[4], null, "t"));
            s.execute("DROP TABLE t");
            c.close();
        }
    }
}
