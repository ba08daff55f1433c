"""Checks of a Flight SQL server through ADBC and pyarrow: `adbc.py URI KEY CHECK`; a failure is a traceback."""

import datetime
import decimal
import sys
import threading
import time

import adbc_driver_flightsql
import adbc_driver_flightsql.dbapi as flightsql
import adbc_driver_manager
import pyarrow
import pyarrow.flight

URI, KEY, CHECK = sys.argv[1:4]
AUTHORIZATION = f"Bearer {KEY}"


def connect(key=KEY):
    options = {adbc_driver_flightsql.DatabaseOptions.AUTHORIZATION_HEADER.value: f"Bearer {key}"}
    return flightsql.connect(URI, db_kwargs=options, autocommit=True)


def raises(code, call):
    try:
        call()
    except adbc_driver_manager.Error as error:
        assert code in str(error), error
        return
    raise AssertionError(f"expected {code}")


def check_query(connection, cursor):
    cursor.execute("SELECT msg, level, trace_id FROM log_entries WHERE level = 2 ORDER BY time LIMIT 2")
    assert cursor.fetchall() == [("message 1", 2, "trace1"), ("message 7", 2, "trace7")]
    assert [column[0] for column in cursor.description] == ["msg", "level", "trace_id"]


def check_types(connection, cursor):
    cursor.execute(
        "SELECT 1::TINYINT, 2::UBIGINT, 1.5::DOUBLE, true, 'x', '\\xFF'::BLOB, 12.34::DECIMAL(10,2),"
        " DATE '2025-11-21', TIME '12:00:00', make_timestamp_ns(1763726400123456789),"
        " [1, NULL], {'a': 1, 'b': 'c'}, MAP {'k': 1}, NULL, ['x']"
    )
    table = cursor.fetch_arrow_table()
    table.validate(full=True)
    # Nanoseconds do not fit into datetime.
    row = [None if i == 9 else column[0].as_py() for i, column in enumerate(table.columns)]
    assert row[:9] == [
        1, 2, 1.5, True, "x", b"\xff", decimal.Decimal("12.34"),
        datetime.date(2025, 11, 21), datetime.time(12, 0),
    ], row
    assert table.column(9)[0].value == 1763726400123456789
    assert row[10:] == [[1, None], {"a": 1, "b": "c"}, [("k", 1)], None, ["x"]], row


# Every type: SQL of row i, the Arrow type, and the value of row i.
START = datetime.datetime(2000, 1, 1)
TYPES = [
    ("i % 2 = 0", pyarrow.bool_(), lambda i: i % 2 == 0),
    ("CAST(i % 100 AS TINYINT)", pyarrow.int8(), lambda i: i % 100),
    ("CAST(i % 100 AS SMALLINT)", pyarrow.int16(), lambda i: i % 100),
    ("CAST(i AS INTEGER)", pyarrow.int32(), lambda i: i),
    ("i", pyarrow.int64(), lambda i: i),
    ("CAST(i % 200 AS UTINYINT)", pyarrow.uint8(), lambda i: i % 200),
    ("CAST(i % 200 AS USMALLINT)", pyarrow.uint16(), lambda i: i % 200),
    ("CAST(i AS UINTEGER)", pyarrow.uint32(), lambda i: i),
    ("CAST(i AS UBIGINT)", pyarrow.uint64(), lambda i: i),
    ("CAST(i AS HUGEINT)", pyarrow.int64(), lambda i: i),
    ("CAST(i % 90 AS DECIMAL(4, 1))", pyarrow.decimal128(4, 1), lambda i: decimal.Decimal(i % 90)),
    ("CAST(i AS DECIMAL(38, 3))", pyarrow.decimal128(38, 3), decimal.Decimal),
    ("CAST(i AS FLOAT)", pyarrow.float32(), float),
    ("CAST(i AS DOUBLE)", pyarrow.float64(), float),
    ("'text number ' || i", pyarrow.string(), lambda i: f"text number {i}"),
    ("encode('b' || i)", pyarrow.binary(), lambda i: b"b%d" % i),
    ("DATE '2000-01-01' + CAST(i % 9000 AS INTEGER)", pyarrow.date32(),
     lambda i: (START + datetime.timedelta(days=i % 9000)).date()),
    ("TIME '00:00:00' + to_seconds(i % 86400)", pyarrow.time64("us"),
     lambda i: (START + datetime.timedelta(seconds=i % 86400)).time()),
    ("CAST('10:00:00+02' AS TIMETZ)", pyarrow.time64("us"), lambda i: datetime.time(10)),
    ("CAST(TIME '10:00:00' AS TIME_NS)", pyarrow.time64("ns"), lambda i: datetime.time(10)),
    ("CAST(TIMESTAMP '2000-01-01' + to_seconds(i) AS TIMESTAMP_S)", pyarrow.timestamp("s"),
     lambda i: START + datetime.timedelta(seconds=i)),
    ("CAST(TIMESTAMP '2000-01-01' + to_seconds(i) AS TIMESTAMP_MS)", pyarrow.timestamp("ms"),
     lambda i: START + datetime.timedelta(seconds=i)),
    ("TIMESTAMP '2000-01-01' + to_seconds(i)", pyarrow.timestamp("us"),
     lambda i: START + datetime.timedelta(seconds=i)),
    ("make_timestamp_ns(i)", pyarrow.timestamp("ns"), None),
    ("TIMESTAMPTZ '2000-01-01 00:00:00+00' + to_seconds(i)", pyarrow.timestamp("us", "UTC"),
     lambda i: (START + datetime.timedelta(seconds=i)).replace(tzinfo=datetime.timezone.utc)),
    ("to_days(CAST(i AS INTEGER))", pyarrow.month_day_nano_interval(), lambda i: (0, i, 0)),
    ("CAST('f0000000-0000-0000-0000-000000000001' AS UUID)", pyarrow.string(),
     lambda i: "f0000000-0000-0000-0000-000000000001"),
    ("CAST('x' || i % 2 AS ENUM('x0', 'x1'))", pyarrow.dictionary(pyarrow.uint8(), pyarrow.string()),
     lambda i: f"x{i % 2}"),
    ("CAST('y' || i % 2 AS ENUM('y1', 'y0'))", pyarrow.dictionary(pyarrow.uint8(), pyarrow.string()),
     lambda i: f"y{i % 2}"),
    ("CAST('101' AS BIT)", pyarrow.binary(), lambda i: b"\x05\xfd"),
    ("CAST(5 AS BIGNUM)", pyarrow.opaque(pyarrow.binary(), "bignum", "DuckDB"), lambda i: b"\x80\x00\x01\x05"),
    ("CAST('POINT EMPTY' AS GEOMETRY)", pyarrow.binary(), None),
    ("[i, NULL]", pyarrow.list_(pyarrow.field("item", pyarrow.int64())), lambda i: [i, None]),
    ("{'a': i, 'b': ['c']}",
     pyarrow.struct([("a", pyarrow.int64()), ("b", pyarrow.list_(pyarrow.field("item", pyarrow.string())))]),
     lambda i: {"a": i, "b": ["c"]}),
    ("MAP {'k': i}", pyarrow.map_(pyarrow.string(), pyarrow.int64()), lambda i: [("k", i)]),
    ("CASE WHEN i % 2 = 0 THEN CAST(union_value(n := i) AS UNION(n BIGINT, t VARCHAR))"
     " ELSE CAST(union_value(t := 'odd') AS UNION(n BIGINT, t VARCHAR)) END",
     pyarrow.sparse_union([pyarrow.field("n", pyarrow.int64()), pyarrow.field("t", pyarrow.string())]),
     lambda i: i if i % 2 == 0 else "odd"),
    ("[{'e': CAST('x1' AS ENUM('x0', 'x1'))}]",
     pyarrow.list_(pyarrow.field("item", pyarrow.struct([("e", pyarrow.dictionary(pyarrow.uint8(), pyarrow.string()))]))),
     lambda i: [{"e": "x1"}]),
]


def check_every_type(connection, cursor):
    items = ", ".join(f"CASE WHEN i % 3 = 1 THEN NULL ELSE {sql} END AS c{n}" for n, (sql, _, _) in enumerate(TYPES))
    for rows in (0, 7, 5000, 70000):
        cursor.execute(f"SELECT {items} FROM range({rows}) t(i)")
        table = cursor.fetch_arrow_table()
        table.validate(full=True)
        assert table.num_rows == rows
        for n, (sql, kind, value) in enumerate(TYPES):
            column = table.column(n)
            assert column.type == kind, (sql, column.type)
            if value is None:
                continue
            # Every row of some, some rows of many.
            for i in range(0, rows, max(1, rows // 500)):
                found = column[i].as_py()
                wanted = None if i % 3 == 1 else value(i)
                assert found == wanted, (sql, i, found, wanted)


def check_schemas_agree(connection, cursor):
    client = pyarrow.flight.FlightClient(URI)
    options = pyarrow.flight.FlightCallOptions(headers=[(b"authorization", AUTHORIZATION.encode())])
    sql = f"SELECT {', '.join(f'{sql} AS c{n}' for n, (sql, _, _) in enumerate(TYPES))} FROM range(3) t(i)"
    command = statement_query(sql)
    descriptor = pyarrow.flight.FlightDescriptor.for_command(command)
    told = client.get_schema(descriptor, options).schema
    info = client.get_flight_info(descriptor, options)
    sent = client.do_get(info.endpoints[0].ticket, options).read_all().schema
    assert told.equals(info.schema, check_metadata=True), told
    assert told.equals(sent, check_metadata=True), sent
    assert sent.types == [kind for _, kind, _ in TYPES], sent


def check_plain_sql(connection, cursor):
    client = pyarrow.flight.FlightClient(URI)
    options = pyarrow.flight.FlightCallOptions(headers=[(b"authorization", AUTHORIZATION.encode())])
    descriptor = pyarrow.flight.FlightDescriptor.for_command(b"SELECT count(*) AS n FROM log_entries")
    info = client.get_flight_info(descriptor, options)
    assert info.schema == client.get_schema(descriptor, options).schema
    assert client.do_get(info.endpoints[0].ticket, options).read_all().to_pylist() == [{"n": 5000}]


def statement_query(sql):
    """A google.protobuf.Any of CommandStatementQuery."""
    query = sql.encode()
    message = b"\x0a" + varint(len(query)) + query
    name = b"type.googleapis.com/arrow.flight.protocol.sql.CommandStatementQuery"
    return b"\x0a" + varint(len(name)) + name + b"\x12" + varint(len(message)) + message


def check_metadata(connection, cursor):
    assert connection.adbc_get_table_types() == ["VIEW"]
    objects = connection.adbc_get_objects(depth="all").read_all().to_pylist()
    assert [catalog["catalog_name"] for catalog in objects] == ["telemetry"]
    (schema,) = objects[0]["catalog_db_schemas"]
    assert schema["db_schema_name"] == "main"
    tables = {table["table_name"]: table for table in schema["db_schema_tables"]}
    assert {"log_entries", "spans", "measures", "processes"} <= set(tables), tables
    columns = [column["column_name"] for column in tables["log_entries"]["table_columns"]]
    assert {"time", "msg", "level"} <= set(columns), columns
    filtered = connection.adbc_get_objects(depth="tables", table_name_filter="log\\_%").read_all().to_pylist()
    names = [table["table_name"] for table in filtered[0]["catalog_db_schemas"][0]["db_schema_tables"]]
    assert names == ["log_entries", "log_stats"], names
    schema = connection.adbc_get_table_schema("log_entries")
    cursor.execute("SELECT * FROM log_entries LIMIT 0")
    # Fields alone: the metadata of the table's schema is more.
    assert schema.remove_metadata().names == cursor.fetch_arrow_table().schema.names
    cursor.execute("SELECT count(*) FROM telemetry.main.log_entries")
    assert cursor.fetchone() == (5000,)


def check_info(connection, cursor):
    info = connection.adbc_get_info()
    assert info["vendor_name"] == "telemetry-service", info
    assert info["vendor_arrow_version"] == "1.5", info


def check_parameters(connection, cursor):
    sql = "SELECT msg FROM log_entries WHERE level = ? AND time >= ? ORDER BY time LIMIT ?"
    start = datetime.datetime(2025, 11, 21, 16, 0)
    cursor.execute(sql, (2, start, 1))
    assert cursor.fetchall() == [("message 1",)]
    cursor.execute(sql, (3, start, 2))
    assert cursor.fetchall() == [("message 2",), ("message 8",)]
    values = (7, 1.5, "it's", True, b"\x00\xff", None, decimal.Decimal("1.25"), datetime.date(2025, 1, 2))
    cursor.execute("SELECT " + ", ".join("?" for _ in values), values)
    assert cursor.fetchone() == values
    schema = cursor.adbc_prepare(sql)
    assert schema.types == [pyarrow.int32(), pyarrow.timestamp("ms"), pyarrow.int64()], schema
    cursor.execute("SELECT count(*) FROM log_entries WHERE list_contains(?, level)", ([1, 2],))
    assert cursor.fetchone() == (1668,)


def check_several_rows(connection, cursor):
    statement = "SELECT ?::INTEGER * 2 AS twice"
    batch = pyarrow.record_batch([pyarrow.array([1, 2, 3], pyarrow.int32())], names=["1"])
    cursor.execute(statement, batch)
    assert cursor.fetchall() == [(2,), (4,), (6,)]


def check_wrong_parameters(connection, cursor):
    raises("INVALID_ARGUMENT", lambda: cursor.execute("SELECT ?::INTEGER", (1, 2)))
    raises("INVALID_ARGUMENT", lambda: cursor.execute("SELECT ?::INTEGER, ?::INTEGER", (1,)))
    raises("INVALID_ARGUMENT", lambda: cursor.execute("SELECT ?::INTEGER", ("x",)))
    cursor.execute("SELECT ?::INTEGER", (1,))
    assert cursor.fetchone() == (1,)


def check_big_result(connection, cursor):
    cursor.execute("SELECT i, i % 7 AS k, repeat('x', 20) AS s FROM range(3000000) t(i)")
    rows = total = 0
    for batch in cursor.fetch_record_batch():
        rows += batch.num_rows
        total += pyarrow.compute.sum(batch.column(0)).as_py()
    assert rows == 3000000 and total == 3000000 * 2999999 // 2, (rows, total)


def check_empty_result(connection, cursor):
    cursor.execute("SELECT msg, level FROM log_entries WHERE false")
    table = cursor.fetch_arrow_table()
    assert table.num_rows == 0 and table.schema.types == [pyarrow.string(), pyarrow.int32()]


def check_cancel(connection, cursor):
    cursor.execute("SELECT i FROM range(10000000000) t(i)")
    reader = cursor.fetch_record_batch()
    reader.read_next_batch()
    timer = threading.Timer(0.2, cursor.adbc_cancel)
    timer.start()
    try:
        while True:
            reader.read_next_batch()
    except (adbc_driver_manager.Error, OSError, pyarrow.ArrowException) as error:
        assert "ancel" in str(error), error
    timer.join()
    with connection.cursor() as other:
        other.execute("SELECT 1")
        assert other.fetchone() == (1,)


def check_cancel_flight_info(connection, cursor):
    client = pyarrow.flight.FlightClient(URI)
    options = pyarrow.flight.FlightCallOptions(headers=[(b"authorization", AUTHORIZATION.encode())])
    descriptor = pyarrow.flight.FlightDescriptor.for_path("log_entries")
    info = client.get_flight_info(descriptor, options)
    body = info.serialize()
    request = b"\x0a" + varint(len(body)) + body
    (result,) = client.do_action(pyarrow.flight.Action("CancelFlightInfo", request), options)
    assert result.body.to_pybytes() == b"\x08\x01", result
    try:
        client.do_get(info.endpoints[0].ticket, options).read_all()
    except (pyarrow.flight.FlightCancelledError, pyarrow.ArrowCancelled) as error:
        assert "cancel" in str(error), error
        return
    raise AssertionError("the flight was read")


def varint(number):
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def check_errors(connection, cursor):
    raises("INVALID_ARGUMENT", lambda: cursor.execute("SELECT nothing FROM log_entries"))
    raises("INVALID_ARGUMENT", lambda: cursor.execute("DROP TABLE log_entries"))
    raises("NOT_IMPLEMENTED", lambda: cursor.adbc_ingest("t", pyarrow.table({"a": [1]})))
    cursor.execute("SELECT CAST(msg AS INTEGER) FROM log_entries")
    raises("INVALID_ARGUMENT", cursor.fetchall)
    raises("UNAUTHENTICATED", lambda: connect("svk_nothing").cursor().execute("SELECT 1"))


def check_flights(connection, cursor):
    client = pyarrow.flight.FlightClient(URI)
    options = pyarrow.flight.FlightCallOptions(headers=[(b"authorization", AUTHORIZATION.encode())])
    actions = {action.type for action in client.list_actions(options)}
    assert {"CreatePreparedStatement", "CancelFlightInfo", "CloseSession"} <= actions, actions
    flights = list(client.list_flights(options=options))
    paths = [flight.descriptor.path[0].decode() for flight in flights]
    assert "log_entries" in paths, paths
    flight = flights[paths.index("log_entries")]
    table = client.do_get(flight.endpoints[0].ticket, options).read_all()
    assert table.num_rows == 5000 and table.schema.equals(flight.schema), table.schema
    token = client.authenticate_basic_token("anyone", KEY)
    assert token == (b"authorization", AUTHORIZATION.encode()), token


def check_session(_connection, _cursor):
    options = {
        adbc_driver_flightsql.DatabaseOptions.AUTHORIZATION_HEADER.value: AUTHORIZATION,
        "adbc.flight.sql.rpc.with_cookie_middleware": "true",
    }
    option = "adbc.flight.sql.session.option.engine"
    with flightsql.connect(URI, db_kwargs=options, autocommit=True) as connection, connection.cursor() as cursor:
        connection.adbc_connection.set_options(**{option: "cluster"})
        assert connection.adbc_connection.get_option(option) == "cluster"
        # There is none here, so that the option is seen to have arrived.
        raises("SVC_QUERY_CLUSTER_URI", lambda: cursor.execute("SELECT 1") and cursor.fetchall())
        connection.adbc_connection.set_options(**{option: "local"})
        cursor.execute("SELECT 1")
        assert cursor.fetchall() == [(1,)]


with connect() as connection, connection.cursor() as cursor:
    globals()[f"check_{CHECK}"](connection, cursor)
