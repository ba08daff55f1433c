import { expect, it } from "vitest";

import { LethalStatements } from "../../src/query/lethal-statements.js";
import { createManualClock } from "../helpers/manual-clock.js";
import { createMetrics } from "../../src/runtime/metrics.js";

const minuteMs = 60_000;

it("a statement that ended two engines is refused to its caller until an hour after the first", async () => {
  const clock = createManualClock();
  const metrics = createMetrics();
  const lethal = new LethalStatements(clock, metrics);
  const check = (identity = "ann", statement = "s"): void => {
    lethal.check(identity, statement);
  };
  lethal.lost("ann", "s");
  clock.advance(10 * minuteMs);
  expect(check).not.toThrow();
  lethal.lost("ann", "s");
  expect(check).toThrow(/twice|2 times within an hour; .* in 50 minutes/u);
  expect(() => {
    check("ben");
  }).not.toThrow();
  expect(() => {
    check("ann", "other");
  }).not.toThrow();
  expect(await metrics.text()).toMatch(/query_lethal_refused_total 1/u);
  clock.advance(51 * minuteMs);
  expect(check).not.toThrow();
  lethal.lost("ann", "s");
  expect(check).toThrow(/2 times/u);
});

it("engines lost far apart are nobody's fault", () => {
  const clock = createManualClock();
  const lethal = new LethalStatements(clock, createMetrics());
  for (let i = 0; i < 5; i++) {
    lethal.lost("ann", "s");
    clock.advance(61 * minuteMs);
    lethal.check("ann", "s");
  }
  expect(clock.monotonicMs()).toBeGreaterThan(0);
});

it("a statement that reads less than half of the rows is let through, one that reads more is not", () => {
  const lethal = new LethalStatements(createManualClock(), createMetrics());
  const check = (rows?: number) => () => {
    lethal.check("ann", "s", rows);
  };
  lethal.lost("ann", "s", 100);
  lethal.lost("ann", "s", 100);
  for (const rows of [undefined, 1000, 100, 50]) {
    expect(check(rows)).toThrow(
      /change more of it than its constants, narrow its time range until it reads less than half/u,
    );
  }
  expect(check(49)).not.toThrow();
  lethal.lost("ann", "s", 49);
  expect(check(49)).toThrow(/2 times/u);
  expect(check(24)).not.toThrow();
});
