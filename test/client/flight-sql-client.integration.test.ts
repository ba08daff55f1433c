import { Table } from "apache-arrow";
import {
  type AuthProvider,
  type FlightSqlClient,
  FlightSqlError,
  type Parameter,
  type QueryOptions,
  cellText,
  connect,
  staticKey,
} from "telemetry-service-client";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { startTestAnalytics, type TestAnalytics } from "../helpers/servers/analytics.js";

let analytics: TestAnalytics;
let client: FlightSqlClient;
const uri = (): string => `grpc://127.0.0.1:${analytics.port}`;

beforeAll(async () => {
  analytics = await startTestAnalytics();
  client = connect({ uri: uri(), auth: staticKey(analytics.key) });
});
afterAll(async () => {
  client?.close();
  await analytics?.stop();
});

async function rowsOf(sql: string, options?: QueryOptions): Promise<Record<string, string | null>[]> {
  const rows: Record<string, string | null>[] = [];
  for await (const row of (await client.query(sql, options)).rows()) {
    rows.push(Object.fromEntries(Object.entries(row).map(([name, value]) => [name, cellText(value)])));
  }
  return rows;
}

async function failureOf(work: Promise<unknown>): Promise<FlightSqlError> {
  const error: unknown = await work.then(
    () => new Error("it did not fail"),
    (thrown: unknown) => thrown,
  );
  expect(error).toBeInstanceOf(FlightSqlError);
  return error as FlightSqlError;
}

describe("a result", () => {
  it("is read as batches, as a table or as plain rows with exact values", async () => {
    const sql =
      "SELECT range AS n, 12.50::DECIMAL(9, 2) AS d, TIMESTAMP_NS '2026-01-02 03:04:05.123456789' AS t FROM range(5000)";
    let batched = 0;
    for await (const batch of (await client.query(sql)).batches) {
      batched += batch.numRows;
    }
    expect(batched).toBe(5000);
    const table = await (await client.query(sql)).table();
    expect(table).toBeInstanceOf(Table);
    expect(table.numRows).toBe(5000);
    expect((await rowsOf(sql)).at(-1)).toEqual({ n: "4999", d: "12.50", t: "2026-01-02T03:04:05.123456789Z" });
    expect(await rowsOf("SELECT 1 AS a, 2 AS a")).toEqual([{ a: "1", a_2: "2" }]);
  });

  it("is read once: what is left of it never looks like the whole", async () => {
    const result = await client.query("SELECT range FROM range(500000)");
    for await (const row of result.rows()) {
      expect(row).toEqual({ range: 0n });
      break;
    }
    for (const again of [result.table(), result.rows().next()]) {
      expect(await failureOf(again)).toMatchObject({
        code: "FAILED_PRECONDITION",
        message: "the result was read already, or in part; run the query again, or keep its table()",
      });
    }
  });

  it.each([Number.NaN, -1, 1.5])("refuses the limit %s", async (limit) => {
    await expect(rowsOf("SELECT 1", { limit })).rejects.toThrow(
      `limit takes a whole number of at least 0; got ${limit}`,
    );
  });

  it("stops at the limit, and with the caller's signal, on the server too", async () => {
    expect(await rowsOf("SELECT range AS n FROM range(1000000)", { limit: 2 })).toHaveLength(2);
    const controller = new AbortController();
    const { batches } = await client.query("SELECT range AS n FROM range(100000000000)", {
      signal: controller.signal,
    });
    const read = async (): Promise<void> => {
      for await (const _ of batches) {
        controller.abort();
      }
    };
    expect((await failureOf(read())).code).toBe("CANCELLED");
    await analytics.untilGauge("query_running", 0);
  });

  it("shares a signal among many queries without a warning", async () => {
    const warnings: string[] = [];
    const listen = (warning: Error): void => void warnings.push(warning.message);
    process.on("warning", listen);
    const { signal } = new AbortController();
    try {
      const sums = await Promise.all(Array.from({ length: 12 }, (_, n) => rowsOf(`SELECT ${n} AS n`, { signal })));
      expect(sums.flat()).toHaveLength(12);
      await new Promise(setImmediate);
    } finally {
      process.off("warning", listen);
    }
    expect(warnings).toEqual([]);
  });

  const endless = "SELECT range AS n FROM range(100000000000)";

  it("is given up by cancel(), on the server too, whether somebody reads it or not", async () => {
    const unread = await client.query(endless);
    await analytics.untilGauge("query_running", 1);
    unread.cancel();
    await analytics.untilGauge("query_running", 0);
    expect(await failureOf(unread.table())).toMatchObject({ code: "CANCELLED", message: "the query was cancelled" });
    const read = await client.query(endless);
    const rows = read.rows();
    await rows.next();
    read.cancel();
    await analytics.untilGauge("query_running", 0);
    const rest = async (): Promise<void> => {
      for await (const _ of rows) {
        // To the end.
      }
    };
    expect((await failureOf(rest())).code).toBe("CANCELLED");
    const ended = await client.query("SELECT 1");
    expect((await ended.table()).numRows).toBe(1);
    ended.cancel();
  });

  it("is given up by close() when nobody has begun to read it, and else goes on to its end", async () => {
    const closing = connect({ uri: uri(), auth: staticKey(analytics.key) });
    const unread = await closing.query(endless);
    const { batches } = await closing.query("SELECT range AS n FROM range(3000000)");
    let rows = 0;
    for await (const { numRows } of batches) {
      if (rows === 0) {
        closing.close();
        await analytics.untilGauge("query_running", 1);
      }
      rows += numRows;
    }
    expect(rows).toBe(3_000_000);
    expect(await failureOf(unread.table())).toMatchObject({ code: "CANCELLED", message: "the client was closed" });
    expect((await failureOf(closing.query("SELECT 1"))).message).toBe("the client was closed");
    await analytics.untilGauge("query_running", 0);
  });

  it("fails with a code, the server's words and what to do", async () => {
    const refused = connect({ uri: uri(), auth: staticKey("svk_wrong") });
    const error = await failureOf(refused.query("SELECT 1"));
    refused.close();
    expect([error.code, error.advice]).toEqual(["UNAUTHENTICATED", "check the key, or log in again"]);
    expect((await failureOf(client.query("SELECT nothing"))).message).toContain("nothing");
    const long = await failureOf(client.query(`SELECT '${"x".repeat(16 * 1024 * 1024)}'`));
    expect(long.message).toMatch(/^the statement is too long: 167\d{5} bytes .+ the server takes 16777216$/u);
    expect([long.code, long.advice]).toEqual(["RESOURCE_EXHAUSTED", "shorten it, or ask in several queries"]);
    const nobody = connect({ uri: "grpc://127.0.0.1:1" });
    const unreachable = await failureOf(nobody.query("SELECT 1"));
    nobody.close();
    expect([unreachable.code, unreachable.message]).toEqual([
      "UNAVAILABLE",
      "the analytics server at 127.0.0.1:1 cannot be reached",
    ]);
  });
});

describe("parameters", () => {
  it("bind values of every kind", async () => {
    const [row] = await rowsOf("SELECT ? + 1 AS n, ?::DOUBLE AS f, ? AS s, ?::BOOLEAN AS b, ?::BIGINT AS big", {
      parameters: [41, 1.5, "it's", true, 2n ** 62n],
    });
    expect(row).toEqual({ n: "42", f: "1.5", s: "it's", b: "true", big: "4611686018427387904" });
    const time = new Date("2026-01-02T03:04:05.678Z");
    const [times] = await rowsOf(
      "SELECT ?::TIMESTAMP_NS AS t, ?::VARCHAR IS NULL AS nothing, list_contains(?, 2) AS l",
      {
        parameters: [time, null, [1, 2]],
      },
    );
    expect(times).toMatchObject({ t: "2026-01-02T03:04:05.678000000Z", nothing: "true", l: "true" });
  });

  it("run a prepared statement again and again, at the same time too", async () => {
    const statement = await client.prepare("SELECT ?::INTEGER * 2 AS twice");
    expect(statement.schema?.fields.map(({ name }) => name)).toEqual(["twice"]);
    expect(statement.parameters?.fields).toHaveLength(1);
    const doubled = await Promise.all(
      [1, 2, 3].map(async (n) => (await (await statement.query({ parameters: [n] })).table()).getChildAt(0)?.get(0)),
    );
    await statement.close();
    expect(doubled.map(Number)).toEqual([2, 4, 6]);
  });

  it("keep whole numbers of 64 bits, and refuse longer ones and times that are none", async () => {
    const sql = "SELECT ? AS n";
    const bound = async (value: Parameter) => (await rowsOf(sql, { parameters: [value] }))[0]?.["n"];
    expect(await bound(2n ** 64n - 1n)).toBe("18446744073709551615");
    expect(await bound(-(2n ** 63n))).toBe("-9223372036854775808");
    expect([await bound(-0), await bound(0)]).toEqual(["-0", "0"]);
    for (const value of [2n ** 64n, -(2n ** 63n) - 1n]) {
      await expect(client.query(sql, { parameters: [value] })).rejects.toThrow("beyond 64 bits");
    }
    await expect(client.query(sql, { parameters: [[-1n], [2n ** 63n]] })).rejects.toThrow("beyond 64 bits");
    await expect(client.query(sql, { parameters: [new Date(Number.NaN)] })).rejects.toThrow("cannot be bound");
  });

  it("may be lists that are empty or hold nulls alone", async () => {
    for (const list of [[], [null], [null, null]]) {
      const options: QueryOptions = { parameters: [[list]] };
      expect(await rowsOf("SELECT len(?::INTEGER[]) AS n", options)).toEqual([{ n: String(list.length) }]);
      expect(await rowsOf("SELECT coalesce(list_contains(?, 5), false) AS found", options)).toEqual([
        { found: "false" },
      ]);
    }
  });

  it("that are lists alone are one row in a list, and say so elsewhere", async () => {
    const sql = "SELECT len(?::INTEGER[]) AS a, len(?::INTEGER[]) AS b";
    const lists = [
      [1, 2, 3],
      [4, 5, 6],
    ];
    expect(await rowsOf(sql, { parameters: [lists] })).toEqual([{ a: "3", b: "3" }]);
    await expect(client.query(sql, { parameters: lists })).rejects.toThrow("lists goes into a list: [[[1, 2], [3]]]");
  });

  it("come as several rows", async () => {
    const table = await (await client.query("SELECT ?::INTEGER AS n", { parameters: [[1], [2]] })).table();
    expect(table.numRows).toBe(2);
    await expect(client.query("SELECT ?, ?", { parameters: [[1, 2], [3]] })).rejects.toThrow("one value for each ?");
    await expect(client.query("SELECT ?", { parameters: [[1], ["a"]] })).rejects.toThrow("different types");
  });
});

describe("what a server tells about itself", () => {
  it("are catalogs, schemas, tables and columns", async () => {
    expect(await client.catalogs()).toHaveLength(1);
    expect((await client.schemas()).length).toBeGreaterThan(0);
    expect(await client.tables({ tablePattern: "log\\_e%" })).toEqual([
      expect.objectContaining({ name: "log_entries", type: "VIEW" }),
    ]);
    expect(await client.columns("log_entries")).toContainEqual({
      name: "time",
      type: "Timestamp<NANOSECOND>",
      nullable: true,
    });
    expect(await client.columns("log%")).toEqual([]);
  });

  it("is also SqlInfo", async () => {
    const [name] = [...(await client.sqlInfo(0)).values()];
    expect(cellText(name ?? null)).toMatch(/telemetry/);
    expect((await client.sqlInfo()).size).toBeGreaterThan(10);
  });
});

describe("a time range", () => {
  it("narrows views", async () => {
    const range = { begin: new Date("2020-01-01T00:00:00Z"), end: 1_577_836_800_000_000_001n };
    expect(await rowsOf("SELECT count(*) AS n FROM log_entries", range)).toEqual([{ n: "0" }]);
  });
});

describe("credentials", () => {
  it("that a server refuses are replaced once, and no more", async () => {
    const asked: string[] = [];
    const provider = (replacement: string): AuthProvider => ({
      authorization: () => Promise.resolve("Bearer revoked"),
      replace(authorization) {
        asked.push(authorization);
        return Promise.resolve(replacement);
      },
    });
    const healed = connect({ uri: uri(), auth: provider(`Bearer ${analytics.key}`) });
    expect((await (await healed.query("SELECT 1")).table()).numRows).toBe(1);
    healed.close();
    const hopeless = connect({ uri: uri(), auth: provider("Bearer revoked-too") });
    expect((await failureOf(hopeless.query("SELECT 1"))).code).toBe("UNAUTHENTICATED");
    hopeless.close();
    expect(asked).toEqual(["Bearer revoked", "Bearer revoked"]);
  });

  it("may still be given as headers", async () => {
    const old = connect({ uri: uri(), headers: { Authorization: `Bearer ${analytics.key}`, "x-other": "1" } });
    expect((await (await old.query("SELECT 1")).table()).numRows).toBe(1);
    old.close();
  });
});
