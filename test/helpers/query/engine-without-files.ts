/** A program that starts an engine when nearly all file descriptors are taken, and prints what comes of it. */
import { closeSync, openSync, writeSync } from "node:fs";
import { fileURLToPath } from "node:url";

import { EngineClient } from "../../../src/engine/engine-client.js";
import { MessageSlots } from "../../../src/engine/message-slots.js";

const entry = fileURLToPath(new URL("../../../src/engine/engine-process.js", import.meta.url));

// What is loaded at the first use needs descriptors as well.
MessageSlots.create()?.close();
const taken: number[] = [];
try {
  for (;;) {
    taken.push(openSync("/dev/null", "r"));
  }
} catch {
  for (const fd of taken.splice(0, 4)) {
    closeSync(fd);
  }
}
const said = await EngineClient.start({
  entry,
  directory: "/",
  dataBytes: null,
  readyMs: 10_000,
  interruptMs: 100,
}).then(
  () => "started",
  (error: unknown) => String(error),
);
// Later than every event of the process that was not started.
await new Promise((resolve) => setImmediate(resolve));
writeSync(1, said);
