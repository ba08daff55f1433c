/** An engine that ends each job at once, and never comes to remove what it left behind. */
import { readSync, writeSync } from "node:fs";

import { encodeJsonFrame, FrameReader } from "../../../src/engine/frames.js";
import { type EngineHello, frameKinds, type JobEnd } from "../../../src/engine/protocol.js";

const fd = 3;
const hello: EngineHello = { pid: process.pid, duckdb: "" };
const end: JobEnd = { error: null, rows: 0, batches: 0, bytes: 0, peakMemoryBytes: null };
const reader = new FrameReader(1 << 20, (kind) => {
  if (kind === frameKinds.job) {
    writeSync(fd, encodeJsonFrame(frameKinds.end, end));
  }
});
writeSync(fd, encodeJsonFrame(frameKinds.hello, hello));
for (;;) {
  const room = reader.room();
  const bytes = readSync(fd, room);
  if (bytes === 0) {
    break;
  }
  reader.filled(bytes);
}
