import { status } from "@grpc/grpc-js";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { mintAnalyticsKey } from "../../src/auth/keys/keys.js";
import { startTestAnalytics, type TestAnalytics } from "../helpers/servers/analytics.js";
import { connectRows, type FlightRows } from "../helpers/flight/flight-rows.js";
import { startTcpProxy, type TcpProxy } from "../helpers/auth/auth-tcp-proxy.js";
import { addPartition } from "../helpers/lake/lake.js";
import { until } from "../helpers/until.js";
import { endless } from "../helpers/query/endless.js";

async function gauge(t: TestAnalytics, name: string): Promise<number> {
  const text = await t.metrics.text();
  return Number(new RegExp(`^${name} (?<n>[0-9.]+)`, "mu").exec(text)?.groups?.["n"] ?? "-1");
}

/** Waits until a gauge has a value. */
async function untilGauge(t: TestAnalytics, name: string, value: number): Promise<void> {
  await until(async () => (await gauge(t, name)) === value);
}

interface TwoCallers {
  readonly t: TestAnalytics;
  readonly caller: FlightRows;
  readonly other: FlightRows;
}

/** Runs a test with two callers of one server. */
async function withTwoCallers(
  environment: Readonly<Record<string, string>>,
  body: (o: TwoCallers) => Promise<void>,
): Promise<void> {
  const t = await startTestAnalytics(environment);
  const caller = connectRows(t.port, t.key);
  const { key } = await mintAnalyticsKey(t.sql, { name: "other", createdBy: "test" });
  const other = connectRows(t.port, key);
  try {
    await body({ t, caller, other });
  } finally {
    caller.close();
    other.close();
    await t.stop();
  }
}

/** Runs `body` while a caller waits for queries that never end; then gives them up. */
async function besideEndless(
  { t, caller }: TwoCallers,
  count: number,
  body: () => Promise<void>,
): Promise<void> {
  const giveUp = new AbortController();
  const slow = Array.from({ length: count }, () =>
    caller.failure(endless, { signal: giveUp.signal }).catch((error: unknown) => error),
  );
  try {
    await body();
  } finally {
    giveUp.abort();
    await Promise.all(slow);
  }
  await untilGauge(t, "query_running", 0);
  await untilGauge(t, "query_waiting", 0);
}

describe("limits", () => {
  let t: TestAnalytics;
  let caller: FlightRows;

  beforeAll(async () => {
    t = await startTestAnalytics({
      SVC_QUERY_TIMEOUT_SECONDS: "6",
      SVC_QUERY_MAX_CONCURRENT: "4",
    });
    caller = connectRows(t.port, t.key);
  });

  afterAll(async () => {
    caller.close();
    await t.stop();
  });

  it("end a query at its deadline, and its place comes back", async () => {
    expect(await caller.failure(endless)).toEqual({
      status: status.DEADLINE_EXCEEDED,
      message: expect.stringContaining("6 seconds") as unknown,
    });
    await untilGauge(t, "query_running", 0);
    expect(await caller.rows("SELECT 1 AS n")).toEqual([{ n: 1 }]);
  });

  it("refuse what needs more memory than there is, and go on", async () => {
    const failure = await caller.failure(
      "SELECT list(i) FROM (SELECT i, hash(i) AS h FROM range(400000000) t(i)) GROUP BY h % 400000000",
    );
    expect([status.RESOURCE_EXHAUSTED, status.DEADLINE_EXCEEDED]).toContain(failure.status);
    expect(await caller.rows("SELECT 2 AS n")).toEqual([{ n: 2 }]);
  });
});

describe("a hundred short queries at once", () => {
  it("are answered, each with its own rows, with no more running than may", async () => {
    const t = await startTestAnalytics({
      SVC_QUERY_MAX_CONCURRENT: "4",
    });
    const caller = connectRows(t.port, t.key);
    try {
      let most = 0;
      const look = async (): Promise<void> => {
        most = Math.max(most, await gauge(t, "query_running"));
      };
      const watch = setInterval(() => void look(), 5);
      const results = await Promise.all(
        Array.from({ length: 100 }, (_, i) => caller.rows(`SELECT ${i} AS n`)),
      );
      clearInterval(watch);
      expect(results.map(([row]) => row?.["n"])).toEqual(Array.from({ length: 100 }, (_, i) => i));
      expect(most).toBeLessThanOrEqual(4);
      await untilGauge(t, "query_running", 0);
    } finally {
      caller.close();
      await t.stop();
    }
  });
});

describe("one caller who asks for all places", () => {
  it("leaves one to others, and lets them go when they are given up", async () => {
    const environment = { SVC_QUERY_MAX_CONCURRENT: "4", SVC_QUERY_TIMEOUT_SECONDS: "60" };
    await withTwoCallers(environment, async (callers) => {
      const { t, other } = callers;
      await besideEndless(callers, 8, async () => {
        await untilGauge(t, "query_running", 3);
        await until(async () => (await gauge(t, "query_waiting")) > 0);
        expect(await other.rows("SELECT 7 AS n")).toEqual([{ n: 7 }]);
        expect(await gauge(t, "query_running")).toBe(3);
      });
    });
  }, 120_000);
});

describe("a caller's short queries", () => {
  it("are answered while all places but one hold queries that never end", async () => {
    const environment = { SVC_QUERY_MAX_CONCURRENT: "6", SVC_QUERY_TIMEOUT_SECONDS: "60" };
    await withTwoCallers(environment, async (callers) => {
      const { t, other } = callers;
      await besideEndless(callers, 5, async () => {
        await untilGauge(t, "query_running", 5);
        for (let i = 0; i < 10; i++) {
          expect(await other.rows(`SELECT ${i} AS n`)).toEqual([{ n: i }]);
        }
        expect(await gauge(t, "query_running")).toBe(5);
      });
    });
  });
});

describe("a statement that ends the engine that runs it", () => {
  it("is INTERNAL with a request id, then refused for a while, and nobody else notices", async () => {
    const lethal = "SELECT lead(1, -9223372036854775808) OVER ()";
    await withTwoCallers({ SVC_QUERY_MAX_CONCURRENT: "4" }, async ({ t, caller, other }) => {
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
      expect(await gauge(t, "query_lethal_refused_total")).toBe(1);
      expect(t.server.probes.health()).toBe(null);
    });
  });
});

describe("the result limit", () => {
  it("is RESOURCE_EXHAUSTED in words, and spares results that keep to it", async () => {
    const t = await startTestAnalytics({ SVC_QUERY_MAX_RESULT_ROWS: "1000" });
    const caller = connectRows(t.port, t.key);
    try {
      expect(await caller.rows("SELECT i FROM range(1000) t(i)")).toHaveLength(1000);
      expect(await caller.failure("SELECT i FROM range(1001) t(i)")).toEqual({
        status: status.RESOURCE_EXHAUSTED,
        message: expect.stringContaining("SVC_QUERY_MAX_RESULT_ROWS") as unknown,
      });
      await untilGauge(t, "query_running", 0);
    } finally {
      caller.close();
      await t.stop();
    }
  });
});

describe("an outage of the database", () => {
  it("is UNAVAILABLE for what needs it, and over when it is over", async () => {
    let proxy: TcpProxy | null = null;
    const t = await startTestAnalytics({ SVC_AUTH_CACHE_TTL_SECONDS: "3600" }, async (direct) => {
      proxy = await startTcpProxy(direct);
      return proxy.connectionString;
    });
    const between = proxy as TcpProxy | null;
    const caller = connectRows(t.port, t.key);
    try {
      await addPartition(t.lake, t.sql, {
        table: "log_entries",
        audience: "public",
        rowsSql: "SELECT make_timestamp_ns(1) AS time, 'm' AS msg",
      });
      const sql = "SELECT count(*) AS n FROM log_entries";
      expect(await caller.rows(sql)).toEqual([{ n: 1n }]);
      await between?.refuse();
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
      await between?.restore();
      expect(await caller.rows(sql)).toEqual([{ n: 1n }]);
      // Failures until then are in the log as soon as it can be written.
      const failed = await caller.rows("SELECT 1 AS n");
      expect(failed).toHaveLength(1);
      const logged = async (): Promise<number> => {
        const rows = await t.sql`select 1 from query_log where outcome = 'UNAVAILABLE'`;
        return rows.length;
      };
      await until(async () => (await logged()) >= 6);
    } finally {
      caller.close();
      await t.stop();
      await between?.stop();
    }
  });
});
