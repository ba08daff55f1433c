/** What the public npm clients make of enumerations: dictionaries before their rows, several of them. */
import { beforeAll, describe, expect, it } from "vitest";

import { startTestAnalytics, type TestAnalytics } from "../../helpers/servers/analytics.js";
import { flightClients } from "../../helpers/flight/flight-clients.js";

let t: TestAnalytics;

beforeAll(async () => {
  t = await startTestAnalytics();
  return () => t.stop();
});

/** The client over arrow-rs, which takes no dictionaries: its users cast. */
const castsOnly = /^@lakehouse-rs\//u;

describe.each(Object.entries(flightClients))("%s", (name, connect) => {
  it("reads enumerations that are cast to text", async () => {
    const query = connect({ port: t.port, key: t.key });
    expect(await query("SELECT CAST('a' AS ENUM('a', 'b'))::VARCHAR AS a")).toEqual([{ a: "a" }]);
  });

  it.skipIf(castsOnly.test(name)).each([
    [1, "CAST('a' || i % 2 AS ENUM('a0', 'a1')) AS a", { a: "a1" }],
    [
      2,
      "CAST('a' || i % 2 AS ENUM('a0', 'a1')) AS a, CAST('b' || i % 2 AS ENUM('b1', 'b0')) AS b, i",
      { a: "a1", b: "b1", i: 2999 },
    ],
  ])("reads %d dictionaries", async (_count, columns, last) => {
    const query = connect({ port: t.port, key: t.key });
    const rows = await query(`SELECT ${columns} FROM range(3000) t(i)`);
    expect(rows).toHaveLength(3000);
    expect(rows.at(-1)).toEqual(last);
  });
});
