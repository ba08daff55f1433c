"""Compares a table of the lake with what Flight SQL gives: `open_format.py SCRIPT TABLE URI KEY UNSTAMPED`.

SCRIPT reads the lake and leaves the table under its name; a difference is a traceback.
Rows without an audience have UNSTAMPED over Flight SQL.
"""

import sys

import pyarrow as pa
import pyarrow.flight as flight

SCRIPT, TABLE, URI, KEY, UNSTAMPED = sys.argv[1:6]


def without_times(kind):
    """The type with integers in place of times, which Python has with microseconds only."""
    if pa.types.is_timestamp(kind):
        assert kind.unit == "ns" and kind.tz is None, kind
        return pa.int64()
    if pa.types.is_list(kind):
        return pa.list_(pa.field("element", without_times(kind.value_type)))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, without_times(field.type)) for field in kind])
    return kind


def rows_of(table):
    schema = pa.schema([pa.field(field.name, without_times(field.type)) for field in table.schema])
    return sorted(repr(row) for row in table.cast(schema).to_pylist())


names = {}
with open(SCRIPT) as file:
    exec(compile(file.read(), SCRIPT, "exec"), names)
read = names[TABLE]
columns = [name for name in read.column_names if not name.startswith("attr.")]
assert len(columns) < read.num_columns, "no attribute is a column"

client = flight.FlightClient(URI)
options = flight.FlightCallOptions(headers=[(b"authorization", f"Bearer {KEY}".encode())])
wanted_columns = [f"nullif(audience, '{UNSTAMPED}') AS audience" if name == "audience" else name for name in columns]
sql = f"SELECT {', '.join(wanted_columns)} FROM {TABLE}"
info = client.get_flight_info(flight.FlightDescriptor.for_command(sql.encode()), options)
wanted = rows_of(client.do_get(info.endpoints[0].ticket, options).read_all())
found = rows_of(read.select(columns))

assert len(wanted) > 15, len(wanted)
assert len(found) == len(wanted), (len(found), len(wanted))
for one, other in zip(found, wanted):
    assert one == other, f"read {one}, over Flight SQL {other}"
