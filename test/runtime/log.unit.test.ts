/** Where lines of the log go by default, in a process of its own. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, existsSync, openSync } from "node:fs";

import { expect, it } from "vitest";

import { redactText } from "../../src/runtime/log/redact.js";

it.skipIf(!existsSync("/dev/full"))("a disk that is full of log lines ends no process", async () => {
  const log = new URL("../../src/runtime/log/log.js", import.meta.url).href;
  const script = `
    import { createLogger } from ${JSON.stringify(log)};
    const logger = createLogger({ level: "info", service: "test" });
    for (let i = 0; i < 2000; i += 1) logger.info({ text: "x".repeat(1000) }, "line");
    setTimeout(() => process.exit(3), 10);`;
  const full = openSync("/dev/full", "w");
  const child = spawn(process.execPath, ["--input-type=module", "--eval", script], {
    stdio: ["ignore", full, "inherit"],
  });
  closeSync(full);
  expect(await once(child, "exit")).toEqual([3, null]);
});

it("a long word in a line is looked through once", () => {
  const word = "x".repeat(1_000_000);
  expect(redactText(`${word} ${word}://user:secret@host`)).toBe(`${word} ${word}://user:[redacted]@host`);
});

it("the beginning of a token again and again is looked through once", () => {
  const text = "eyJ-".repeat(250_000);
  expect(redactText(`${text} eyJhbGci.eyJzdWIi.c2ln, a.b.eyJx.y.z; 1.2.3`)).toBe(
    `${text} [redacted], a.b.[redacted]; 1.2.3`,
  );
});
