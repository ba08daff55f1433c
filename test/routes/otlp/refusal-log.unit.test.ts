import { describe, expect, test } from "vitest";

import type { Logger } from "../../../src/runtime/log/log.js";
import { RefusalLog } from "../../../src/routes/otlp/refusal-log.js";

describe("the log of refused senders", () => {
  function create() {
    const lines: Record<string, unknown>[] = [];
    const clock = { nowMs: 0 };
    const logger = {
      warn: (fields: Record<string, unknown>) => lines.push(fields),
    } as unknown as Logger;
    return { lines, clock, log: new RefusalLog(logger, () => clock.nowMs) };
  }

  test("one line says who was refused, where and why; repetitions are counted", () => {
    const { lines, clock, log } = create();
    for (let i = 0; i < 5; i++) {
      log.add(401, "invalid token", "/v1/logs", () => "10.0.0.1");
    }
    expect(lines).toEqual([{ from: "10.0.0.1", path: "/v1/logs", status: 401, reason: "invalid token", unwritten: 0 }]);
    log.add(404, "no such path", "/v1/log", () => "10.0.0.1");
    expect(lines[1]).toMatchObject({ status: 404, unwritten: 4 });
    clock.nowMs += 60_000;
    log.add(401, "invalid token", "/v1/logs", () => "10.0.0.1");
    expect(lines).toHaveLength(3);
  });

  test("a flood of senders writes a bounded number of lines and asks for no more addresses", () => {
    const { lines, clock, log } = create();
    let asked = 0;
    for (let i = 0; i < 10_000; i++) {
      log.add(401, "invalid token", "/v1/logs", () => {
        asked++;
        return `10.0.${i >> 8}.${i & 255}`;
      });
    }
    expect(lines).toHaveLength(20);
    expect(asked).toBe(20);
    clock.nowMs += 60_000;
    log.add(401, "invalid token", `/${"x".repeat(5000)}`, () => "10.0.0.1");
    expect(lines[20]).toMatchObject({ unwritten: 9980, path: `/${"x".repeat(199)}` });
  });
});
