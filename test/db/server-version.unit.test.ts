/** Which Postgres a database may be on. */
import { expect, it } from "vitest";

import { assertServerVersion } from "../../src/db/migrations.js";
import type { Sql } from "../../src/db/sql.js";

const serverOf = (version: string): Sql => (() => Promise.resolve([{ version }])) as unknown as Sql;

it.each(["18.1", "17.6 (Debian 17.6-1.pgdg120+1)", "19beta1"])("takes Postgres %s", async (version) => {
  await expect(assertServerVersion(serverOf(version))).resolves.toBeUndefined();
});

it.each(["15.18 (Debian 15.18-0+deb12u1)", "16.4", "9.6.24"])(
  "refuses Postgres %s with a sentence",
  async (version) => {
    await expect(assertServerVersion(serverOf(version))).rejects.toThrow(
      `The telemetry database is on Postgres ${version}, which is too old: use Postgres 18 (17 at least).`,
    );
  },
);
