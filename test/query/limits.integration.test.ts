import { status } from "@grpc/grpc-js";
import { describe, expect, it } from "vitest";

import { mintAnalyticsKey } from "../../src/auth/keys/keys.js";
import { startTestAnalytics, type TestAnalytics } from "../helpers/servers/analytics.js";
import { connectRows, type FlightRows } from "../helpers/flight/flight-rows.js";
import { startTcpProxy, type TcpProxy } from "../helpers/auth/auth-tcp-proxy.js";
import { addPartition } from "../helpers/lake/lake.js";
import { until } from "../helpers/until.js";
import { endless } from "../helpers/query/endless.js";

/** A server, and two who ask it. */
interface Asked {
  readonly t: TestAnalytics;
  readonly caller: TestAnalytics["caller"];
  readonly other: FlightRows;
  /** Starts queries of the caller's that never end, and gives them up when the returned function is called. */
  readonly occupy: (queries: number) => () => Promise<void>;
}

async function withServer(
  environment: Readonly<Record<string, string>>,
  use: (asked: Asked) => Promise<void>,
  route?: (connectionString: string) => Promise<string>,
): Promise<void> {
  const t = await startTestAnalytics(environment, route);
  const { caller } = t;
  const { key } = await mintAnalyticsKey(t.sql, { name: "other", createdBy: "test" });
  const other = connectRows(t.port, key);
  const giveUp = new AbortController();
  const occupy: Asked["occupy"] = (queries) => {
    const slow = Array.from({ length: queries }, () =>
      caller.failure(endless, { signal: giveUp.signal }).catch((error: unknown) => error),
    );
    return async () => {
      giveUp.abort();
      await Promise.all(slow);
      await t.untilGauge("query_running", 0);
      await t.untilGauge("query_waiting", 0);
    };
  };
  try {
    await use({ t, caller, other, occupy });
  } finally {
    giveUp.abort();
    other.close();
    await t.stop();
  }
}

it("a query ends at its deadline, and its place comes back", async () => {
  await withServer({ SVC_QUERY_TIMEOUT_SECONDS: "3" }, async ({ t, caller }) => {
    expect(await caller.failure(endless)).toEqual({
      status: status.DEADLINE_EXCEEDED,
      message: expect.stringContaining("3 seconds") as unknown,
    });
    await t.untilGauge("query_running", 0);
    expect(await caller.rows("SELECT 1 AS n")).toEqual([{ n: 1 }]);
  });
});

it("what needs more memory than there is, is refused, and the server goes on", async () => {
  const small = String(64 << 20);
  const environment = { SVC_QUERY_MEMORY_BYTES: small, SVC_QUERY_TEMP_BYTES: small };
  await withServer(environment, async ({ caller }) => {
    const failure = await caller.failure(
      "SELECT list(i) FROM (SELECT i, hash(i) AS h FROM range(400000000) t(i)) GROUP BY h % 400000000",
    );
    expect(failure.status).toBe(status.RESOURCE_EXHAUSTED);
    expect(await caller.rows("SELECT 2 AS n")).toEqual([{ n: 2 }]);
  });
});

describe("with four places", () => {
  const places = { SVC_QUERY_MAX_CONCURRENT: "4", SVC_QUERY_TIMEOUT_SECONDS: "60" };

  it("a hundred short queries at once are answered, each with its own rows, with no more running than may", async () => {
    await withServer(places, async ({ t, caller }) => {
      let most = 0;
      const look = async (): Promise<void> => {
        most = Math.max(most, await t.gauge("query_running"));
      };
      const watch = setInterval(() => void look(), 5);
      const results = await Promise.all(Array.from({ length: 100 }, (_, i) => caller.rows(`SELECT ${i} AS n`)));
      clearInterval(watch);
      expect(results.map(([row]) => row?.["n"])).toEqual(Array.from({ length: 100 }, (_, i) => i));
      expect(most).toBeLessThanOrEqual(4);
      await t.untilGauge("query_running", 0);
    });
  });

  it("one caller who asks for all of them leaves one to others, and lets them go when they are given up", async () => {
    await withServer(places, async ({ t, other, occupy }) => {
      const giveUp = occupy(8);
      await t.untilGauge("query_running", 3);
      await until(async () => (await t.gauge("query_waiting")) > 0);
      for (let i = 0; i < 10; i++) {
        expect(await other.rows(`SELECT ${i} AS n`)).toEqual([{ n: i }]);
      }
      expect(await t.gauge("query_running")).toBe(3);
      await giveUp();
    });
  });

  it("a statement that ends its engine is INTERNAL with a request id, then refused for a while, and nobody else notices", async () => {
    const lethal = "SELECT lead(1, -9223372036854775808) OVER ()";
    await withServer(places, async ({ t, caller, other }) => {
      expect(await caller.failure(lethal)).toEqual({
        status: status.INTERNAL,
        message: expect.stringMatching(/request id [0-9a-f-]{36}/u) as unknown,
      });
      // The first engine and the one that it was tried with once more.
      expect(await caller.failure(lethal)).toEqual({
        status: status.RESOURCE_EXHAUSTED,
        message: expect.stringContaining("2 times within an hour") as unknown,
      });
      expect(await caller.rows("SELECT 1 AS n")).toEqual([{ n: 1 }]);
      expect(await other.rows("SELECT lead(1, 1) OVER () AS n")).toEqual([{ n: null }]);
      expect(await t.gauge("query_lethal_refused_total")).toBe(1);
      expect(t.server.probes.health()).toBe(null);
    });
  });

  it("a statement that ended engines runs again over less than half of the rows, however its range is given", async () => {
    const read = "SELECT lead(severity_number, -9223372036854775808) OVER () AS n FROM log_entries";
    const within = `${read} WHERE time >= make_timestamp_ns(?) AND time < make_timestamp_ns(?)`;
    await withServer(places, async ({ t, caller }) => {
      // All rows are of the ends of an object, which is taken to have them evenly.
      await addPartition(t.lake, t.sql, {
        table: "log_entries",
        audience: "public",
        rowsSql: "SELECT make_timestamp_ns(i * 10000) AS time, 1 AS severity_number FROM range(2) t(i)",
      });
      const again = expect.stringContaining(
        "narrow its time range until it reads less than half of the rows",
      ) as unknown;
      const refused = { status: status.RESOURCE_EXHAUSTED, message: again };
      expect((await caller.failure(read)).status).toBe(status.INTERNAL);
      expect(await caller.failure(read, { begin: -5n, end: 20_000n })).toEqual(refused);
      expect(await caller.failure(read, { begin: 4000n })).toEqual(refused);
      expect(await caller.rows(read, { begin: 6000n, end: 8000n })).toEqual([]);
      expect((await caller.failure(within, { parameters: [0n, 9_000_000n] })).status).toBe(status.INTERNAL);
      expect(await caller.failure(within, { parameters: [0n, 8000n] })).toEqual(refused);
      expect(await caller.rows(within, { parameters: [6000n, 8000n] })).toEqual([]);
      expect(await t.gauge("query_lethal_refused_total")).toBe(3);
    });
  });
});

it("the result limit is RESOURCE_EXHAUSTED in words, and spares results that keep to it", async () => {
  await withServer({ SVC_QUERY_MAX_RESULT_ROWS: "1000" }, async ({ t, caller }) => {
    expect(await caller.rows("SELECT i FROM range(1000) t(i)")).toHaveLength(1000);
    expect(await caller.failure("SELECT i FROM range(1001) t(i)")).toEqual({
      status: status.RESOURCE_EXHAUSTED,
      message: expect.stringContaining("SVC_QUERY_MAX_RESULT_ROWS") as unknown,
    });
    await t.untilGauge("query_running", 0);
  });
});

it("an outage of the database is UNAVAILABLE for what needs it, and over when it is over", async () => {
  let proxy: TcpProxy | null = null;
  const use = async ({ t, caller }: Asked): Promise<void> => {
    await addPartition(t.lake, t.sql, {
      table: "log_entries",
      audience: "public",
      rowsSql: "SELECT make_timestamp_ns(1) AS time, 'm' AS msg",
    });
    const sql = "SELECT count(*) AS n FROM log_entries";
    expect(await caller.rows(sql)).toEqual([{ n: 1n }]);
    await proxy?.refuse();
    for (const query of [
      sql,
      "SELECT * FROM processes",
      "SELECT * FROM list_partitions()",
      "SELECT * FROM query_log",
      "SELECT * FROM apply_retention('log_entries', 1)",
      "SELECT * FROM list_query_denials()",
    ]) {
      expect((await caller.failure(query)).status).toBe(status.UNAVAILABLE);
    }
    await proxy?.restore();
    expect(await caller.rows(sql)).toEqual([{ n: 1n }]);
    // Failures until then are in the log as soon as it can be written.
    expect(await caller.rows("SELECT 1 AS n")).toHaveLength(1);
    await until(async () => {
      const logged = await t.sql`select 1 from query_log where outcome = 'UNAVAILABLE'`;
      return logged.length >= 6;
    });
  };
  await withServer({ SVC_AUTH_CACHE_TTL_SECONDS: "3600" }, use, async (direct) => {
    proxy = await startTcpProxy(direct);
    return proxy.connectionString;
  });
  await (proxy as TcpProxy | null)?.stop();
});
