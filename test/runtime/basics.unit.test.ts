import { describe, expect, onTestFinished, test, vi } from "vitest";

import { underSignals } from "telemetry-service-client/shared/abort";
import { atMost } from "../../src/runtime/at-most.js";
import { systemClock } from "../../src/runtime/clock.js";
import {
  type ErrorCode,
  ServiceError,
  errorCatalogue,
  fromErrorRecord,
  toErrorRecord,
  toServiceError,
} from "../../src/runtime/errors.js";
import { formatTerminalLine } from "../../src/runtime/log/log-terminal.js";
import { createLogger } from "../../src/runtime/log/log.js";
import { createMetrics } from "../../src/runtime/metrics.js";
import { heapBytes } from "../helpers/heap.js";
import { createManualClock } from "../helpers/manual-clock.js";

describe("errors", () => {
  test("only 429, 502, 503 and 504 are retryable", () => {
    const retryable = Object.values(errorCatalogue).filter((entry) => entry.retryable);
    expect(retryable.map((entry) => entry.http)).toSatisfy((all: number[]) =>
      all.every((http) => [429, 502, 503, 504].includes(http)),
    );
  });

  test("INTERNAL shows its fixed sentence only, others their message", () => {
    const inner = new ServiceError("INTERNAL", "disk /dev/sda1 is full");
    expect(inner.publicMessage).toBe("internal error");
    expect(inner.message).toContain("disk");
    expect(new ServiceError("BAD_REQUEST", "name is empty").publicMessage).toBe("name is empty");
    expect(new ServiceError("NOT_FOUND")).toMatchObject({
      httpStatus: 404,
      grpcStatus: 5,
      message: "not found",
    });
  });

  test("anything unknown becomes INTERNAL with its cause", () => {
    const cause = new TypeError("x");
    expect(toServiceError(cause)).toMatchObject({ code: "INTERNAL", cause });
    const known = new ServiceError("CONFLICT");
    expect(toServiceError(known)).toBe(known);
  });

  test("a record survives structured cloning with code, retry time, stack and causes", () => {
    const root = Object.assign(new RangeError("out of range"), { code: "ERANGE" });
    const middle = new Error("middle", { cause: root });
    const error = new ServiceError("OVERLOADED", "full", { cause: middle, retryAfterSeconds: 3 });
    const back = fromErrorRecord(structuredClone(toErrorRecord(error)));
    expect(back).toBeInstanceOf(ServiceError);
    expect(back).toMatchObject({ code: "OVERLOADED", message: "full", retryAfterSeconds: 3 });
    expect(back.stack).toBe(error.stack);
    expect(back.cause).toMatchObject({ message: "middle" });
    expect((back.cause as Error).cause).toMatchObject({ name: "RangeError", code: "ERANGE" });
  });

  test("what was no service error comes back as INTERNAL with the original as its cause", () => {
    const back = fromErrorRecord(toErrorRecord(new SyntaxError("bad")));
    expect(back.code).toBe("INTERNAL" satisfies ErrorCode);
    expect(back.cause).toMatchObject({ name: "SyntaxError", message: "bad" });
    expect(fromErrorRecord(toErrorRecord("text")).cause).toMatchObject({ message: "text" });
    expect(fromErrorRecord(toErrorRecord(undefined)).code).toBe("INTERNAL");
  });

  test("a cycle of causes ends", () => {
    const a = new Error("a");
    a.cause = new Error("b", { cause: a });
    expect(() => structuredClone(toErrorRecord(a))).not.toThrow();
  });
});

describe("clock", () => {
  test("a manual clock runs what is due, in order, at its time", () => {
    const clock = createManualClock(1000);
    const seen: [string, number][] = [];
    const at =
      (name: string): (() => void) =>
      () => {
        seen.push([name, clock.nowMs()]);
      };
    clock.schedule(at("late"), 30);
    clock.schedule(() => {
      at("first")();
      clock.schedule(at("nested"), 5);
    }, 10);
    clock.schedule(at("cancelled"), 12).cancel();
    clock.advance(9);
    expect(seen).toEqual([]);
    clock.advance(11);
    expect(seen).toEqual([
      ["first", 1010],
      ["nested", 1015],
    ]);
    clock.advance(100);
    expect(seen.at(-1)).toEqual(["late", 1030]);
    expect([clock.nowMs(), clock.monotonicMs(), clock.nowUnixNano()]).toEqual([1120, 120, 1_120_000_000n]);
  });

  test("the system clock agrees with Date", () => {
    const before = Date.now();
    const nanos = systemClock.nowUnixNano();
    expect(Math.abs(Number(nanos / 1_000_000n) - before)).toBeLessThan(10_000);
  });

  test.each([
    ["on", 3_600_000],
    ["back", -3_600_000],
  ])("the system clock follows a clock that is set %s, and goes on in microseconds", (_, byMs) => {
    const real = Date.now.bind(Date);
    vi.spyOn(Date, "now").mockImplementation(() => real() + byMs);
    onTestFinished(() => {
      vi.restoreAllMocks();
      systemClock.nowUnixNano();
    });
    const first = systemClock.nowUnixNano();
    const startMs = performance.now();
    while (performance.now() < startMs + 0.1) {
      // Some microseconds pass.
    }
    const second = systemClock.nowUnixNano();
    expect(Math.abs(Number(first / 1_000_000n) - Date.now())).toBeLessThan(10_000);
    expect(second).toBeGreaterThan(first);
  });
});

describe("metrics", () => {
  test("asking twice for a name returns the same metric, and another type is an error", () => {
    const metrics = createMetrics();
    expect(metrics.counter("x_total", "X")).toBe(metrics.counter("x_total", "X"));
    expect(() => metrics.gauge("x_total", "X")).toThrow(TypeError);
  });

  test("registries are separate, and collectors run before the exposition until removed", async () => {
    const one = createMetrics();
    const gauge = one.gauge("depth", "Depth", ["queue"]);
    let depth = 3;
    const remove = one.onCollect(() => {
      gauge.set({ queue: "q" }, depth);
    });
    expect(await one.text()).toContain('depth{queue="q"} 3');
    remove();
    depth = 4;
    expect(await one.text()).toContain('depth{queue="q"} 3');
    expect(await createMetrics().text()).not.toContain("depth");
  });
});

describe("log", () => {
  function logged(write: (logger: ReturnType<typeof createLogger>) => void): string {
    let out = "";
    const destination = {
      write: (line: string): void => {
        out += line;
      },
    };
    write(createLogger({ level: "info", service: "test", destination }));
    return out;
  }

  test("lines are JSON with service, level name and time", () => {
    const line = JSON.parse(
      logged((logger) => {
        logger.debug("not shown");
        logger.info({ port: 1 }, "listening");
      }),
    ) as Record<string, unknown>;
    expect(line).toMatchObject({ level: "info", service: "test", port: 1, msg: "listening" });
    expect(Date.parse(line["time"] as string)).not.toBeNaN();
  });

  test("no credential gets through: not by field name at any depth, not by shape in any text", () => {
    const out = logged((logger) => {
      const child = logger.child({ token: "S3CRET-a" });
      child.info(
        {
          authorization: "S3CRET-b",
          request: { headers: [{ Cookie: "S3CRET-c", "Set-Cookie": "S3CRET-d" }] },
          options: { connectionString: "S3CRET-e", api_key: "S3CRET-f", keyId: "visible-id" },
          clientSecret: "S3CRET-g",
        },
        "key svk_S3CRETh0000000000 and Authorization: Bearer S3CRET-i-0000",
      );
      const cause = new Error("connect to postgres://user:S3CRET-j@host/db failed");
      logger.error({ err: Object.assign(new Error("outer", { cause }), { body: "S3CRET-k" }) }, "failed");
      logger.error(new Error("password=S3CRET-l"));
    });
    expect(out).not.toContain("S3CRET");
    expect(out).toContain("visible-id");
    expect(out).toContain("postgres://user:[redacted]@host/db");
  });

  test("on a terminal a line is readable and shows the error's stack and cause", () => {
    const line = logged((logger) => {
      logger.warn({ port: 9000, err: new Error("outer", { cause: new Error("inner") }) }, "trouble");
    });
    const text = formatTerminalLine(line);
    expect(text).toContain("trouble");
    expect(text).toContain("port=9000");
    expect(text).toContain("Error: outer");
    expect(text).toContain("Error: inner");
    expect(formatTerminalLine("not json\n")).toBe("not json\n");
    expect(formatTerminalLine("{broken\n")).toBe("{broken\n");
  });

  test("on a terminal what callers wrote adds no line and steers nothing", () => {
    const hostile = "SELECT '\u001b]0;title\u0007'\n00:00 info \u009b2J\u202e";
    const shown = String.raw`SELECT '\x1b]0;title\x07'\n00:00 info \x9b2J\u202e`;
    const lines = [
      logged((logger) => logger.info({ sql: hostile, of: { sql: hostile } }, hostile)),
      logged((logger) =>
        logger.error({ err: new Error("outer", { cause: new Error("\u009b2J\u001b[2J") }) }, "failed"),
      ),
    ].map(formatTerminalLine);
    expect(lines[0]?.match(/\n/g)).toHaveLength(1);
    expect(lines[0]).toContain(`sql=${shown}`);
    // Of our own there are colours alone.
    expect(lines.join("").replaceAll(/\p{Cc}\[\d+m/gu, "")).not.toMatch(/[^\P{Cc}\n]|\u202e/u);
  });
});

describe("waiting", () => {
  test("with a bound ends with the value, with the error, or with null when time is up", async () => {
    expect(await atMost(Promise.resolve(5), 60_000)).toEqual({ value: 5 });
    await expect(atMost(Promise.reject(new Error("no")), 60_000)).rejects.toThrow("no");
    expect(await atMost(new Promise(() => undefined), 1)).toBe(null);
  });

  test("under several signals ends with the first, for its reason", async () => {
    const first = new AbortController();
    const second = new AbortController();
    const reason = underSignals([first.signal, second.signal], async (signal) => {
      second.abort("enough");
      first.abort("late");
      return signal.reason as unknown;
    });
    expect(await reason).toBe("enough");
    expect(await underSignals([AbortSignal.abort("before")], async (signal) => signal.reason as unknown)).toBe(
      "before",
    );
  });

  test("100,000 times under a signal that lives on leaves the heap as it was", async () => {
    const lasting = new AbortController();
    const run = async (times: number): Promise<void> => {
      for (let i = 0; i < times; i++) {
        await underSignals([new AbortController().signal, lasting.signal], () => Promise.resolve());
      }
    };
    await run(1000);
    const before = heapBytes();
    await run(100_000);
    expect(heapBytes() - before).toBeLessThan(1_000_000);
  });
});
