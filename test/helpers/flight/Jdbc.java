import java.sql.Array;
import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.SQLException;
import java.sql.Statement;
import java.sql.Timestamp;
import java.util.ArrayList;
import java.util.Calendar;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Properties;
import java.util.TimeZone;
import java.util.TreeMap;
import java.util.concurrent.atomic.AtomicBoolean;

/**
 * The Arrow Flight SQL JDBC driver against a server.
 *
 * <p>Usage: java Jdbc.java PORT KEY CHECK. Ends with status 0 when the check holds.
 */
public class Jdbc {
  interface Check {
    void run(Connection connection) throws Exception;
  }

  static int port;
  static String key;

  static Connection connect(String... properties) throws SQLException {
    Properties all = new Properties();
    all.put("useEncryption", "false");
    for (int i = 0; i < properties.length; i += 2) all.put(properties[i], properties[i + 1]);
    return DriverManager.getConnection("jdbc:arrow-flight-sql://127.0.0.1:" + port, all);
  }

  static void same(Object wanted, Object got) {
    if (!Objects.equals(wanted, got)) throw new AssertionError("wanted " + wanted + ", got " + got);
  }

  static List<List<Object>> rows(ResultSet result) throws SQLException {
    List<List<Object>> rows = new ArrayList<>();
    try (result) {
      int columns = result.getMetaData().getColumnCount();
      while (result.next()) {
        List<Object> row = new ArrayList<>();
        for (int i = 1; i <= columns; i++) row.add(result.getObject(i));
        rows.add(row);
      }
    }
    return rows;
  }

  static List<List<Object>> query(Connection connection, String sql) throws SQLException {
    try (Statement statement = connection.createStatement()) {
      return rows(statement.executeQuery(sql));
    }
  }

  static void refused(String words, Check check, Connection connection) throws Exception {
    try {
      check.run(connection);
    } catch (SQLException error) {
      String message = String.valueOf(error.getMessage()) + error.getCause();
      if (!message.contains(words)) throw new AssertionError("refused otherwise: " + message);
      return;
    }
    throw new AssertionError("was not refused");
  }

  static void views(Connection connection) throws SQLException {
    List<List<Object>> rows =
        query(
            connection,
            "SELECT time, level, msg, trace_id FROM log_entries ORDER BY time LIMIT 2");
    same(2, rows.size());
    same(1763740800000L, ((Timestamp) rows.get(0).get(0)).getTime() + localOffsetMs());
    same(List.of(1, "message 0"), rows.get(0).subList(1, 3));
    same(null, rows.get(0).get(3));
    same("trace1", rows.get(1).get(3));
    for (String view : List.of("processes", "streams", "blocks", "spans", "measures")) {
      query(connection, "SELECT * FROM " + view + " LIMIT 3");
    }
  }

  /** What the driver, which reads times without a zone as local ones, is off UTC. */
  static long localOffsetMs() {
    return TimeZone.getDefault().getOffset(1763740800000L);
  }

  static void types(Connection connection) throws SQLException {
    Map<String, Object> wanted = new TreeMap<>();
    wanted.put("1", 1);
    wanted.put("1::BIGINT", 1L);
    wanted.put("1.5::DOUBLE", 1.5);
    wanted.put("1.50::DECIMAL(10,2)", new java.math.BigDecimal("1.50"));
    wanted.put("true", true);
    wanted.put("'hé'", "hé");
    wanted.put("NULL::VARCHAR", null);
    // The driver shows the indices of dictionaries, not their values.
    wanted.put("CAST('red'::ENUM('green', 'red') AS VARCHAR)", "red");
    for (Map.Entry<String, Object> entry : wanted.entrySet()) {
      Object got = query(connection, "SELECT " + entry.getKey()).get(0).get(0);
      same(entry.getKey() + " " + entry.getValue(), entry.getKey() + " " + got);
    }
    for (String type :
        List.of(
            "[1, 2]",
            "{'k': 1}",
            "MAP {'a': 1}",
            "DATE '2024-02-03'",
            "TIME '01:02:03'",
            "TIMESTAMP '2024-01-01 00:00:00.123456'",
            "TIMESTAMP_NS '2024-01-01 00:00:00.123456789'",
            "INTERVAL 1 DAY",
            "'abc'::BLOB",
            "uuid()")) {
      Object got = query(connection, "SELECT " + type).get(0).get(0);
      if (got == null) throw new AssertionError(type + " came as null");
    }
  }

  static void metadata(Connection connection) throws SQLException {
    DatabaseMetaData data = connection.getMetaData();
    same("telemetry-service", data.getDatabaseProductName());
    same(true, data.isReadOnly());
    same("\"", data.getIdentifierQuoteString());
    same(List.of(List.of("telemetry")), rows(data.getCatalogs()));
    List<Object> views = new ArrayList<>();
    try (ResultSet tables = data.getTables(null, null, "%", null)) {
      while (tables.next()) views.add(tables.getString("TABLE_NAME"));
    }
    if (!views.containsAll(List.of("log_entries", "spans", "measures"))) {
      throw new AssertionError(views.toString());
    }
    List<Object> columns = new ArrayList<>();
    try (ResultSet found = data.getColumns(null, null, "log_entries", "%")) {
      while (found.next()) columns.add(found.getString("COLUMN_NAME"));
    }
    try (Statement statement = connection.createStatement();
        ResultSet result = statement.executeQuery("SELECT * FROM log_entries LIMIT 1")) {
      ResultSetMetaData described = result.getMetaData();
      List<Object> names = new ArrayList<>();
      for (int i = 1; i <= described.getColumnCount(); i++) names.add(described.getColumnName(i));
      same(names, columns);
    }
    same(List.of(), rows(data.getPrimaryKeys(null, null, "log_entries")));
    same(List.of(), rows(data.getImportedKeys(null, null, "log_entries")));
  }

  static void parameters(Connection connection) throws SQLException {
    String sql =
        "SELECT count(*), min(msg) FROM log_entries WHERE time >= ? AND level <= ? AND msg LIKE ?";
    try (PreparedStatement statement = connection.prepareStatement(sql)) {
      same(3, statement.getParameterMetaData().getParameterCount());
      statement.setTimestamp(1, new Timestamp(0));
      statement.setInt(2, 2);
      statement.setString(3, "message 1%");
      same(List.of(373L, "message 1"), rows(statement.executeQuery()).get(0));
      statement.setString(3, "message 12");
      same(List.of(1L, "message 12"), rows(statement.executeQuery()).get(0));
    }
  }

  interface Binding {
    void set(PreparedStatement statement) throws Exception;
  }

  static Object bound(Connection connection, String sql, Binding binding) throws Exception {
    try (PreparedStatement statement = connection.prepareStatement(sql)) {
      binding.set(statement);
      return rows(statement.executeQuery()).get(0).get(0);
    }
  }

  static final String SINCE = "SELECT count(*) FROM log_entries WHERE time >= ?";

  /** All rows are of the first microseconds of this millisecond. */
  static void times(Connection connection) throws Exception {
    long first = 1763740800000L;
    Timestamp at = new Timestamp(first);
    Timestamp after = new Timestamp(first + 1);
    Calendar utc = Calendar.getInstance(TimeZone.getTimeZone("UTC"));
    for (String sql : List.of(SINCE, SINCE + "::TIMESTAMP", SINCE + "::TIMESTAMPTZ")) {
      same(5000L, bound(connection, sql, s -> s.setTimestamp(1, at, utc)));
      same(0L, bound(connection, sql, s -> s.setTimestamp(1, after, utc)));
    }
    same(0L, bound(connection, SINCE, s -> s.setObject(1, new Timestamp(first + 86400000))));
    String since = SINCE + "::DATE";
    same(5000L, bound(connection, since, s -> s.setDate(1, java.sql.Date.valueOf("2025-11-21"))));
    same(0L, bound(connection, since, s -> s.setDate(1, java.sql.Date.valueOf("2025-11-22"))));
    String text = SINCE + "::VARCHAR::TIMESTAMP";
    same(5000L, bound(connection, text, s -> s.setString(1, "2025-11-21T16:00:00Z")));
    same(0L, bound(connection, text, s -> s.setString(1, "2025-11-21T16:00:00.001Z")));
    same(5000L, bound(connection, text, s -> s.setObject(1, at.toInstant().toString())));
    same(
        "10:20:30",
        bound(
            connection,
            "SELECT CAST(?::TIME AS VARCHAR)",
            s -> s.setTime(1, java.sql.Time.valueOf("10:20:30"))));
    // What the driver cannot write as it was asked for is an error of the driver's, not another time.
    refused("STRING", open -> bound(open, SINCE, s -> s.setString(1, "2025-11-21")), connection);
    refused("OBJECT", open -> bound(open, SINCE, s -> s.setObject(1, at.toInstant())), connection);
    refused(
        "DATE",
        open -> bound(open, SINCE, s -> s.setDate(1, java.sql.Date.valueOf("2025-11-21"))),
        connection);
  }

  static void lists(Connection connection) throws Exception {
    Array levels = connection.createArrayOf("INTEGER", new Object[] {1, 2});
    String count = "SELECT count(*) FROM log_entries WHERE ";
    same(1668L, bound(connection, count + "list_contains(?, level)", s -> s.setArray(1, levels)));
    same(1668L, bound(connection, count + "level = ANY(?::INTEGER[])", s -> s.setArray(1, levels)));
    Array texts = connection.createArrayOf("VARCHAR", new Object[] {"message 1", null, "a\"b\\,"});
    same(1L, bound(connection, count + "list_contains(?, msg)", s -> s.setArray(1, texts)));
    same("a\"b\\,", bound(connection, "SELECT (?::VARCHAR[])[3]", s -> s.setArray(1, texts)));
  }

  static void big(Connection connection) throws SQLException {
    long sum = 0;
    try (Statement statement = connection.createStatement()) {
      ResultSet result =
          statement.executeQuery("SELECT i, 'row ' || i AS t FROM range(1000000) t(i)");
      while (result.next()) {
        sum += result.getLong(1);
        if (result.getString(2).length() < 5) throw new AssertionError();
      }
    }
    same(499999500000L, sum);
  }

  static void cancel(Connection connection) throws Exception {
    AtomicBoolean done = new AtomicBoolean();
    try (Statement statement = connection.createStatement()) {
      Thread canceller =
          new Thread(
              () -> {
                try {
                  // What is cancelled before its stream is open goes on.
                  while (!done.get()) {
                    Thread.sleep(100);
                    statement.cancel();
                  }
                } catch (Exception error) {
                  throw new IllegalStateException(error);
                }
              });
      canceller.start();
      refused(
          "CANCELLED",
          open ->
              rows(
                  statement.executeQuery(
                      "SELECT sum(a.i * b.i) FROM range(1000000) a(i), range(1000000) b(i)")),
          connection);
      done.set(true);
      canceller.join();
    }
    same(List.of(List.of(1)), query(connection, "SELECT 1"));
  }

  static void timeout(Connection connection) throws Exception {
    try (Statement statement = connection.createStatement()) {
      statement.setQueryTimeout(1);
      String endless = "SELECT sum(a.i * b.i) FROM range(1000000) a(i), range(1000000) b(i)";
      refused("timed out", open -> statement.executeQuery(endless), connection);
    }
    // The statement was closed, so the connection has another turn.
    same(List.of(List.of(1)), query(connection, "SELECT 1"));
  }

  static void errors(Connection connection) throws Exception {
    refused("nope", open -> query(open, "SELECT nope FROM log_entries"), connection);
    refused("not allowed", open -> query(open, "DELETE FROM log_entries"), connection);
    refused("UNAUTHENTICATED", open -> connect("token", "wrong").close(), connection);
  }

  static void password(Connection connection) throws SQLException {
    try (Connection other = connect("user", "anyone", "password", key)) {
      same(List.of(List.of(42)), query(other, "SELECT 42"));
    }
  }

  public static void main(String[] arguments) throws Exception {
    port = Integer.parseInt(arguments[0]);
    key = arguments[1];
    Map<String, Check> checks = new TreeMap<>();
    checks.put("views", Jdbc::views);
    checks.put("types", Jdbc::types);
    checks.put("metadata", Jdbc::metadata);
    checks.put("parameters", Jdbc::parameters);
    checks.put("times", Jdbc::times);
    checks.put("lists", Jdbc::lists);
    checks.put("big", Jdbc::big);
    checks.put("cancel", Jdbc::cancel);
    checks.put("timeout", Jdbc::timeout);
    checks.put("errors", Jdbc::errors);
    checks.put("password", Jdbc::password);
    try (Connection connection = connect("token", key)) {
      checks.get(arguments[2]).run(connection);
    }
  }
}
