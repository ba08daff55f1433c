"""Takes query results as Arrow tables, for `pnpm bench query`: over Flight SQL, or out of a DuckDB of its own.

Each line of standard input is a request in JSON, each line of standard output its answer:
{"uri", "key" or null, "sql"} or {"files", "sql"} -> {"seconds", "cpu", "rows", "bytes"} or {"error"},
where "cpu" are the seconds of CPU that this process has used for it.
"""

import json
import sys
import time


def field(number, content):
    """A length-delimited field of a protobuf message."""
    size, length = len(content), b""
    while size > 127:
        length += bytes([size & 127 | 128])
        size >>= 7
    return bytes([number * 8 + 2]) + length + bytes([size]) + content


def command(sql):
    """A CommandStatementQuery of Flight SQL in a google.protobuf.Any."""
    url = b"type.googleapis.com/arrow.flight.protocol.sql.CommandStatementQuery"
    return field(1, url) + field(2, field(1, sql.encode()))


clients = {}


def over_flight(uri, key, sql):
    import pyarrow.flight as flight

    if uri not in clients:
        clients[uri] = flight.FlightClient(uri)
    client = clients[uri]
    headers = [] if key is None else [(b"authorization", b"Bearer " + key.encode())]
    options = flight.FlightCallOptions(headers=headers)
    info = client.get_flight_info(flight.FlightDescriptor.for_command(command(sql)), options)
    return client.do_get(info.endpoints[0].ticket, options).read_all()


databases = {}


def out_of_duckdb(files, sql):
    import duckdb

    if "connection" not in databases:
        databases["connection"] = duckdb.connect()
        databases["connection"].execute("SET GLOBAL parquet_metadata_cache = true")
    connection = databases["connection"]
    if databases.get("files") != files:
        names = ", ".join("'" + name.replace("'", "''") + "'" for name in files)
        connection.execute(
            f"CREATE OR REPLACE VIEW log_entries AS SELECT * FROM read_parquet([{names}], hive_partitioning = false)"
        )
        databases["files"] = files
    return connection.execute(sql).to_arrow_table()


for line in sys.stdin:
    request = json.loads(line)
    try:
        start, used = time.perf_counter(), time.process_time()
        if "files" in request:
            table = out_of_duckdb(request["files"], request["sql"])
        else:
            table = over_flight(request["uri"], request["key"], request["sql"])
        answer = {
            "seconds": time.perf_counter() - start,
            "cpu": time.process_time() - used,
            "rows": table.num_rows,
            "bytes": table.nbytes,
        }
        del table
    except Exception as error:  # whatever it is, the bench prints it
        answer = {"error": f"{type(error).__name__}: {error}"}
    print(json.dumps(answer), flush=True)
