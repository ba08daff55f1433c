/** A database whose clock is set while somebody looks at it. */
import { expect, it } from "vitest";

import type { Sql } from "../../src/db/sql.js";
import { DatabasePace } from "../../src/lake/retention/database-pace.js";
import { createManualClock } from "../helpers/manual-clock.js";

const hourMs = 3_600_000;

it("holds for an hour after the clock of the database was set on, and not for what is slow or set back", async () => {
  const clock = createManualClock();
  const pace = new DatabasePace(clock, hourMs);
  let databaseMs = 1e12;
  const sql = (() => Promise.resolve([{ databaseMs }])) as unknown as Sql;
  const look = async (ms: number, databasesMs = ms): Promise<boolean> => {
    clock.advance(ms);
    databaseMs += databasesMs;
    return await pace.jumped(sql);
  };
  expect(await look(0)).toBe(false);
  expect(await look(300_000, 350_000)).toBe(false);
  expect(await look(300_000, -hourMs)).toBe(false);
  expect(await look(300_000, 300_000 + hourMs)).toBe(true);
  expect(await look(hourMs - 300_000)).toBe(true);
  expect(await look(300_000)).toBe(false);
});
