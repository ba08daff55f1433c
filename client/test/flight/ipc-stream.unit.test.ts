import { RecordBatchReader, Table, tableToIPC, vectorFromArray } from "apache-arrow";
import { describe, expect, it } from "vitest";

import type { FlightDataFrame } from "../../src/flight/flight-messages.js";
import { ipcStream } from "../../src/flight/ipc-stream.js";

/** The messages of an IPC stream whose bodies have the length that is left until the next marker. */
function framesOf(table: Table): FlightDataFrame[] {
  const bytes = tableToIPC(table, "stream");
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const starts: number[] = [];
  for (let at = 0; at < bytes.length; at += 8) {
    if (view.getUint32(at, true) === 0xffff_ffff) {
      starts.push(at);
    }
  }
  return starts.slice(0, -1).map((start, i) => {
    const bodyAt = start + 8 + view.getInt32(start + 4, true);
    return {
      header: bytes.subarray(start + 8, bodyAt),
      body: bytes.subarray(bodyAt, starts[i + 1]),
    };
  });
}

describe("frames as an IPC stream", () => {
  const frames = framesOf(new Table({ n: vectorFromArray([1, 2, 3]) }));

  it("give a batch as soon as its frame is there, while the server says nothing more", async () => {
    const silence = new Promise<never>(() => {});
    async function* stalled(): AsyncGenerator<FlightDataFrame> {
      yield* frames;
      await silence;
    }
    const reader = await RecordBatchReader.from(ipcStream(stalled()));
    await reader.open();
    const first = await reader.next();
    expect(first.value?.getChild("n")?.toArray()).toEqual(Float64Array.of(1, 2, 3));
  });

  it("read back whole, frames without a header left out", async () => {
    async function* all(): AsyncGenerator<FlightDataFrame> {
      yield { header: new Uint8Array(0), body: new Uint8Array(0) };
      yield* frames;
      yield* frames.slice(1);
    }
    const reader = await RecordBatchReader.from(ipcStream(all()));
    const batches = [];
    for await (const batch of reader) {
      batches.push(batch.numRows);
    }
    expect(batches).toEqual([3, 3]);
  });
});
