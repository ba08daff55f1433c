import { EventEmitter } from "node:events";
import { setTimeout as delay } from "node:timers/promises";

import { describe, expect, test, vi } from "vitest";

import {
  type Component,
  gracePeriod,
  Scope,
  type SignalSource,
  installSignalHandlers,
} from "../../src/runtime/lifecycle.js";
import { createSilentLogger } from "../../src/runtime/log/log.js";

const logger = createSilentLogger();

function component(name: string, events: string[], fails = false): Component {
  return {
    name,
    stop: async () => {
      events.push(`${name} stops`);
      await Promise.resolve();
      events.push(`${name} stopped`);
      if (fails) {
        throw new Error(`${name} failed to stop`);
      }
    },
  };
}

describe("scope", () => {
  test("stops in reverse order, each after the one before has finished, and only once", async () => {
    const events: string[] = [];
    const scope = new Scope("s", logger);
    const started = await scope.start("a", () => component("a", events));
    expect(started.name).toBe("a");
    scope.defer("b", () => {
      events.push("b deferred");
    });
    await scope.start("c", async () => component("c", events));
    await Promise.all([scope.stop(), scope.stop()]);
    await scope.stop();
    expect(events).toEqual(["c stops", "c stopped", "b deferred", "a stops", "a stopped"]);
  });

  test("a failing start stops what had started and reports its own error", async () => {
    const events: string[] = [];
    const scope = new Scope("s", logger);
    await scope.start("a", () => component("a", events, true));
    await scope.start("b", () => component("b", events));
    await expect(
      scope.start("c", () => {
        throw new Error("no port");
      }),
    ).rejects.toThrow("no port");
    expect(events).toEqual(["b stops", "b stopped", "a stops", "a stopped"]);
    await expect(scope.start("d", () => component("d", events))).rejects.toMatchObject({
      code: "UNAVAILABLE",
    });
    expect(events).toHaveLength(4);
  });

  test("one that fails to stop does not keep the others up, and every failure is reported", async () => {
    const events: string[] = [];
    const scope = new Scope("s", logger);
    await scope.start("a", () => component("a", events, true));
    await scope.start("b", () => component("b", events));
    await scope.start("c", () => component("c", events, true));
    const failure: unknown = await scope.stop().catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(AggregateError);
    expect((failure as AggregateError).errors.map((e: Error) => e.message)).toEqual([
      "c failed to stop",
      "a failed to stop",
    ]);
    expect(events).toHaveLength(6);
  });

  test("a component that comes up while the scope stops is stopped too", async () => {
    const events: string[] = [];
    const scope = new Scope("s", logger);
    await scope.start("a", () => component("a", events));
    let finish: (c: Component) => void = () => undefined;
    const slow = scope.start(
      "slow",
      () =>
        new Promise<Component>((resolve) => {
          finish = resolve;
        }),
    );
    const refused = slow.catch((error: unknown) => error);
    await Promise.resolve();
    const stopped = scope.stop();
    finish(component("slow", events));
    const [, error] = await Promise.all([stopped, refused]);
    expect(error).toMatchObject({ code: "UNAVAILABLE" });
    expect(events).toEqual(["slow stops", "slow stopped", "a stops", "a stopped"]);
  });
});

describe("signals", () => {
  interface Harness {
    readonly source: EventEmitter & SignalSource;
    readonly codes: number[];
    readonly exited: Promise<void>;
    readonly remove: () => void;
  }
  function install(stop: () => Promise<void>, graceMs = 60_000): Harness {
    const source = new EventEmitter() as EventEmitter & SignalSource;
    const codes: number[] = [];
    let onExit: () => void = () => undefined;
    const exited = new Promise<void>((resolve) => {
      onExit = resolve;
    });
    const remove = installSignalHandlers({
      scope: { name: "s", stop },
      graceMs,
      logger,
      process: source,
      exit: (code) => {
        codes.push(code);
        onExit();
      },
    });
    return { source, codes, exited, remove };
  }

  test("the first one drains and then exits with 0", async () => {
    let stopped = 0;
    const h = install(async () => {
      await Promise.resolve();
      stopped++;
    });
    h.source.emit("SIGTERM", "SIGTERM");
    expect(h.codes).toEqual([]);
    await h.exited;
    expect(stopped).toBe(1);
    expect(h.codes).toEqual([0]);
  });

  test("nothing exits a second time when the drain ended within the grace period", async () => {
    const h = install(() => Promise.resolve(), 1);
    h.source.emit("SIGTERM", "SIGTERM");
    await h.exited;
    await delay(20);
    expect(h.codes).toEqual([0]);
  });

  test.each([
    ["SIGTERM", "SIGINT", 130],
    ["SIGHUP", "SIGTERM", 143],
    ["SIGINT", "SIGHUP", 129],
  ])("a second one exits at once: %s, %s", (first, second, code) => {
    const h = install(() => new Promise(() => undefined));
    h.source.emit(first, first);
    expect(h.codes).toEqual([]);
    h.source.emit(second, second);
    expect(h.codes).toEqual([code]);
  });

  test("a drain that outlasts the grace period is cut off with 0", async () => {
    const h = install(() => new Promise(() => undefined), 1);
    h.source.emit("SIGINT", "SIGINT");
    await h.exited;
    expect(h.codes).toEqual([0]);
  });

  test("a component that fails to stop makes the exit code 1", async () => {
    const h = install(() => Promise.reject(new Error("no")));
    h.source.emit("SIGTERM", "SIGTERM");
    await h.exited;
    expect(h.codes).toEqual([1]);
  });

  test("nothing listens any more once removed", () => {
    const h = install(() => Promise.resolve());
    h.remove();
    expect(h.source.eventNames()).toEqual([]);
  });
});

test("a grace period begins when it is asked for, and keeps five seconds back, or half of it where it is short", () => {
  vi.useFakeTimers({ toFake: ["performance"] });
  try {
    const [long, short] = [gracePeriod(25_000), gracePeriod(4000)];
    vi.advanceTimersByTime(60_000);
    expect([long(), short()]).toEqual([20_000, 2000]);
    vi.advanceTimersByTime(15_000);
    expect([long(), short()]).toEqual([5000, 0]);
  } finally {
    vi.useRealTimers();
  }
});
