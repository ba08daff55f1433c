/** Which directories an engine may open for whom. */
import path from "node:path";

import { afterAll, beforeAll, expect, it } from "vitest";

import type { AudienceFilter } from "../../src/db/audience-filter.js";
import { localFiles } from "../../src/lake/cache/lake-files.js";
import type { ObjectStore } from "../../src/lake/store/object-store.js";
import { openObjectStore } from "../../src/lake/store/open-store.js";
import { tables } from "../../src/lake/tables/tables.js";
import type { Inspection } from "../../src/query/backend/inspect.js";
import { noRange, planSources } from "../../src/query/plan.js";
import { addPartition, createTestLake, type TestLake } from "../helpers/lake/lake.js";
import { createTestDatabase, type TestDatabase } from "../helpers/postgres/postgres.js";

let database: TestDatabase;
let lake: TestLake;
let store: ObjectStore;

beforeAll(async () => {
  database = await createTestDatabase();
  lake = await createTestLake();
  store = await openObjectStore(lake.uri);
  for (const audience of ["mine", "theirs", null]) {
    const rowsSql = "SELECT make_timestamp_ns(1) AS time, 'm' AS msg";
    await addPartition(lake, database.sql, { table: "log_entries", audience, rowsSql });
  }
});

afterAll(async () => {
  await database.drop();
  await lake.remove();
});

const wholeLog: Inspection = {
  executable: { sql: "SELECT * FROM log_entries", explain: "none" },
  fields: [],
  scans: [
    {
      name: "log_entries",
      view: "log_entries",
      processId: null,
      ofTrace: null,
      traceIds: null,
      minTimeNs: null,
      maxTimeNs: null,
      attributes: [],
      comparedWithNs: null,
      columns: null,
    },
  ],
  listings: [],
  calls: [],
  fingerprint: "",
  rowsEnough: null,
  parameters: [],
};

/** Relative to the lake. */
async function directoriesOf(audiences: AudienceFilter): Promise<string[]> {
  const context = {
    sql: database.sql,
    files: localFiles(store),
    audiences,
    range: noRange,
    unstampedAudience: "",
    admin: null,
  };
  const plan = await planSources(context, wholeLog);
  const { directories } = plan.sources({ fileOf: () => null });
  return directories.map((directory) => path.relative(lake.directory, directory)).toSorted();
}

const everywhere = (names: readonly string[]): string[] =>
  Object.keys(tables)
    .flatMap((table) => names.map((name) => `${table}/${name}`))
    .toSorted();

it("those of the caller's audiences, in every table, and no others", async () => {
  const audiences = new Set(["mine", "also-mine"]);
  expect(await directoriesOf({ kind: "some", audiences, unstamped: false })).toEqual(
    everywhere(["audience=mine", "audience=also-mine"]),
  );
  expect(await directoriesOf({ kind: "some", audiences: new Set(), unstamped: true })).toEqual(
    everywhere(["unstamped"]),
  );
  expect(await directoriesOf({ kind: "some", audiences: new Set(), unstamped: false })).toEqual([]);
});

it("those of all tables for who reads everything, and not those without an audience where nobody does", async () => {
  expect(await directoriesOf({ kind: "all" })).toEqual(Object.keys(tables).toSorted());
  expect(await directoriesOf({ kind: "all", unstamped: false })).toEqual([
    "log_entries/audience=mine",
    "log_entries/audience=theirs",
  ]);
});
