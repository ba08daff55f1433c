/** What strangers may send to each kind of listener, under each driver, and what becomes of it. */
import { readFile } from "node:fs/promises";

import { beforeAll, describe, expect, test } from "vitest";

import { type FramingCase, framingProblem } from "../../helpers/http/framing.js";
import { chunkedBodies, codings, lengths } from "../../helpers/http/framing-bodies.js";
import { connections, smuggling } from "../../helpers/http/framing-connections.js";
import { uwsDiffers } from "../../helpers/http/framing-differences.js";
import { fields, hosts, requestLines } from "../../helpers/http/framing-heads.js";
import { type FramingListeners, listeners, startFramingListeners } from "../../helpers/http/framing-listeners.js";
import { drivers } from "../../helpers/http/http-listener.js";

const cases: readonly FramingCase[] = [
  ...requestLines,
  ...fields,
  ...hosts,
  ...lengths,
  ...codings,
  ...chunkedBodies,
  ...connections,
  ...smuggling,
];
let running: FramingListeners;

beforeAll(async () => {
  running = await startFramingListeners();
  return () => running.stop();
});

const atOnce = 16;

describe.concurrent.each(drivers)("%s", (driver) => {
  test.concurrent.each(listeners)(
    "%s: whatever comes in ends as it may",
    async (kind) => {
      const at = running.of(driver)[kind];
      const waiting = [...cases];
      const doubtful: FramingCase[] = [];
      const problemOf = (tried: FramingCase): Promise<string | null> =>
        framingProblem(at.port, at.target, driver, tried);
      const work = async (): Promise<void> => {
        for (let tried = waiting.shift(); tried !== undefined; tried = waiting.shift()) {
          if ((await problemOf(tried)) !== null) {
            doubtful.push(tried);
          }
        }
      };
      await Promise.all(Array.from({ length: atOnce }, work));
      // A busy machine may have let a connection sit idle for too long, so what counts is how it goes alone.
      const problems: string[] = [];
      for (const tried of doubtful) {
        problems.push((await problemOf(tried)) ?? "");
      }
      expect(problems.filter((problem) => problem !== "")).toEqual([]);
    },
    120_000,
  );
});

test("SECURITY.md names every class of difference of uws", async () => {
  // Compiled, this file is dist/test/routes/http/framing.integration.test.js.
  const text = await readFile(new URL("../../../../SECURITY.md", import.meta.url), "utf8");
  const words = text.replaceAll(/\s+/g, " ");
  for (const { why } of Object.values(uwsDiffers)) {
    expect(words).toContain(why);
  }
});
