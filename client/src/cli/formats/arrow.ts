import { type RecordBatch, RecordBatchStreamWriter, type Schema, Table, tableToIPC } from "apache-arrow";

/** Ends an IPC stream: a continuation marker and a length of zero. */
const endOfStream: Uint8Array = Uint8Array.of(0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0);

/**
 * The bytes of an Arrow IPC stream, as `pyarrow.ipc.open_stream` and DuckDB read them, one piece per
 * batch. The schema is written even when there is no row.
 */
export async function* arrowStream(schema: Schema, batches: AsyncIterable<RecordBatch>): AsyncGenerator<Uint8Array> {
  yield withoutEnd(tableToIPC(new Table(schema), "stream"));
  for await (const batch of batches) {
    // The writer makes a whole stream of one batch: its schema and its end are cut off again.
    yield withoutEnd(withoutSchema(RecordBatchStreamWriter.writeAll([batch]).toUint8Array(true)));
  }
  yield endOfStream;
}

function withoutEnd(stream: Uint8Array): Uint8Array {
  return stream.subarray(0, stream.length - endOfStream.length);
}

/** A schema message has a prefix of 8 bytes, whose second half is the length of its header, and no body. */
function withoutSchema(stream: Uint8Array): Uint8Array {
  const headerBytes = new DataView(stream.buffer, stream.byteOffset).getInt32(4, true);
  return stream.subarray(8 + headerBytes);
}
