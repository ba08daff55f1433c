/** What clients send that is wrong, where a library would not let them: each ends with the right status. */
import { status } from "@grpc/grpc-js";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { mintAnalyticsKey } from "../../../src/auth/keys/keys.js";
import { startTestAnalytics, type TestAnalytics } from "../../helpers/servers/analytics.js";
import {
  any,
  anyOf,
  descriptor,
  encode,
  field,
  type FlightCalls,
  flightCalls,
} from "../../helpers/flight/flight-standard.js";
import { startHeaderProxy } from "../../helpers/http/http2-header-proxy.js";

let t: TestAnalytics;
let otherKey: string;

beforeAll(async () => {
  t = await startTestAnalytics();
  otherKey = (await mintAnalyticsKey(t.sql, { name: "other", createdBy: "test" })).key;
});

afterAll(async () => {
  await t.stop();
});

const statement = any("CommandStatementQuery", { query: "SELECT 42 AS v" });

/** Calls whose requests carry another header beside the client's own authorization. */
async function withHeader<T>(
  name: string,
  value: string,
  key: string,
  use: (calls: FlightCalls) => Promise<T>,
): Promise<T> {
  const proxy = await startHeaderProxy(t.port, name, value);
  const calls = flightCalls(proxy.port, key);
  try {
    return await use(calls);
  } finally {
    calls.close();
    await proxy.stop();
  }
}

describe("a command that is plain SQL", () => {
  it.each([
    "SELECT 42 AS v",
    "EXPLAIN SELECT 42 AS v",
    "\nVALUES (42)",
    "(SELECT 'h\u00e9' AS v)",
    "-- twelve lines of SQL\nFROM log_entries",
  ])("runs: %s", async (sql) => {
    const calls = flightCalls(t.port, t.key);
    try {
      const said = any("CommandStatementQuery", { query: sql });
      const wanted = await calls.table(said);
      expect((await calls.table(Buffer.from(sql))).toString()).toBe(wanted.toString());
    } finally {
      calls.close();
    }
  });

  it("that is neither SQL nor a message is refused", async () => {
    const calls = flightCalls(t.port, t.key);
    try {
      for (const [command, details] of [
        [Buffer.from("hello"), /syntax error at or near "hello"/u],
        [Buffer.from("DELETE FROM log_entries"), /not allowed/u],
        [Buffer.from([0xff, 0xfe, 0x00]), /not valid protobuf/u],
        [anyOf("CommandGetNothing", Buffer.alloc(0)), /CommandGetNothing/u],
      ] as const) {
        await expect(calls.unary("GetFlightInfo", descriptor(command))).rejects.toMatchObject({
          details: expect.stringMatching(details) as unknown,
        });
      }
    } finally {
      calls.close();
    }
  });
});

const unauthenticated = { code: status.UNAUTHENTICATED };

describe("authorization", () => {
  it("comes through the proxy of this test unharmed when it is there once", async () => {
    const table = await withHeader("x-other", "fine", t.key, (calls) => calls.table(statement));
    expect(table.get(0)?.["v"]).toBe(42);
  });

  it.each([
    ["the same key twice", () => t.key, () => t.key],
    ["a good key, then another good one", () => t.key, () => otherKey],
    ["a good key, then nonsense", () => t.key, () => "nonsense"],
    ["nonsense, then a good key", () => "svk_nonsense", () => t.key],
  ])("%s: UNAUTHENTICATED, on every kind of call", async (_name, first, second) => {
    await withHeader("authorization", `Bearer ${second()}`, first(), async (calls) => {
      await expect(calls.info(statement)).rejects.toMatchObject(unauthenticated);
      await expect(calls.unary("GetSchema", descriptor(statement))).rejects.toMatchObject(unauthenticated);
      await expect(calls.stream("DoGet", field(1, statement))).rejects.toMatchObject(unauthenticated);
      await expect(calls.stream("ListActions", Buffer.alloc(0))).rejects.toMatchObject(unauthenticated);
      await expect(calls.duplex("DoPut", [Buffer.alloc(0)])).rejects.toMatchObject(unauthenticated);
      await expect(calls.duplex("Handshake", [Buffer.alloc(0)])).rejects.toMatchObject(unauthenticated);
    });
  });
});

describe("prepared statements", () => {
  it.each(["SELECT $2", "SELECT $1::INTEGER + $3::INTEGER", `SELECT $${"9".repeat(30)}`])(
    "%s, whose numbers have gaps, is INVALID_ARGUMENT",
    async (query) => {
      const calls = flightCalls(t.port, t.key);
      const body = any("ActionCreatePreparedStatementRequest", { query });
      await expect(calls.action("CreatePreparedStatement", body)).rejects.toMatchObject({
        code: status.INVALID_ARGUMENT,
      });
      calls.close();
    },
  );
});

describe("statements that cost too much", () => {
  it.each([
    ["two thousand brackets within text that closes none", `SELECT ${"[".repeat(2000)}`],
    ["nested subqueries", `SELECT * FROM ${"(SELECT * FROM ".repeat(190)}spans${")".repeat(190)}`],
    ["nested casts", `SELECT ${"CAST(".repeat(190)}1${" AS INTEGER)".repeat(190)} + 'x'`],
    ["unions", `SELECT 1${" UNION ALL SELECT 1".repeat(3000)}`],
    ["a comment that never ends", `SELECT 1 /* ${"x".repeat(100_000)}`],
  ])("%s end with a status that is the caller's, and the server goes on", async (_name, query) => {
    const calls = flightCalls(t.port, t.key);
    const code = await calls.info(any("CommandStatementQuery", { query })).then(
      () => status.OK,
      (error: unknown) => (error as { readonly code?: number }).code,
    );
    expect([status.OK, status.INVALID_ARGUMENT, status.RESOURCE_EXHAUSTED]).toContain(code);
    const table = await calls.table(statement);
    expect(table.get(0)?.["v"]).toBe(42);
    calls.close();
  });
});

it.each([
  ["an expression", "Parser", `SELECT ${"NOT ".repeat(5000)}true`],
  ["a list of subqueries", "Binder", `SELECT ${"(SELECT 1), ".repeat(1100)}1`],
])("%s that is nested too deeply is told so, without a setting that nobody may set", async (_what, kind, query) => {
  const calls = flightCalls(t.port, t.key);
  await expect(calls.info(any("CommandStatementQuery", { query }))).rejects.toMatchObject({
    details: `${kind} Error: Max expression depth limit of 1000 exceeded. Nest it less deeply.`,
  });
  calls.close();
});

it("tells of a type of an extension, without advice to load that", async () => {
  const calls = flightCalls(t.port, t.key);
  const query = "SELECT '10.0.0.1'::INET";
  await expect(calls.info(any("CommandStatementQuery", { query }))).rejects.toMatchObject({
    details: 'Catalog Error: Type with name "INET" is not in the catalog, but it exists in the inet extension.',
  });
  calls.close();
});

describe("fields of another wire type", () => {
  it("are unknown ones, which leave the value that was read", async () => {
    const calls = flightCalls(t.port, t.key);
    const query = encode("CommandStatementQuery", { query: "SELECT 42 AS v" });
    // Field 1 as a number and as eight bytes.
    const strange = Buffer.concat([query, Buffer.of(8, 1), Buffer.of(9, 1, 2, 3, 4, 5, 6, 7, 8)]);
    const table = await calls.table(anyOf("CommandStatementQuery", strange));
    expect(table.get(0)?.["v"]).toBe(42);
    // An id of no number, and the type and the patterns of what takes text as numbers.
    const types = await calls.table(anyOf("CommandGetXdbcTypeInfo", field(1, Buffer.from("x"))));
    expect(types.numRows).toBeGreaterThan(20);
    const tables = await calls.table(anyOf("CommandGetTables", Buffer.of(8, 1, 16, 1, 24, 1)));
    expect(tables.numRows).toBeGreaterThan(0);
    calls.close();
  });
});

describe("the text of a status", () => {
  it.each(["x", "日", "😀"])("fits into a header when it quotes thousands of %s", async (part) => {
    const calls = flightCalls(t.port, t.key);
    const query = `SELECT CAST('${part.repeat(6000)}' AS INTEGER)`;
    const error = await calls.table(any("CommandStatementQuery", { query })).then(
      () => null,
      (failed: unknown) => failed as { readonly code: number; readonly details: string },
    );
    expect(error?.code).toBe(status.INVALID_ARGUMENT);
    expect(encodeURI(error?.details ?? "").length).toBeLessThan(4100);
    expect(error?.details).toMatch(new RegExp(`${part}\\.\\.\\.$`, "u"));
    calls.close();
  });

  it("holds no half of a character", async () => {
    const calls = flightCalls(t.port, t.key);
    const command = anyOf(`Command${"😀".repeat(200)}`, Buffer.alloc(0));
    await expect(calls.info(command)).rejects.toMatchObject({
      code: status.UNIMPLEMENTED,
      details: expect.stringContaining("\uFFFD") as unknown,
    });
    calls.close();
  });
});
