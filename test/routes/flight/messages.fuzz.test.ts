/**
 * Garbage in every field of every call. Whatever comes, the answer is a status that says whose fault it
 * is (never INTERNAL or UNKNOWN), and the server goes on.
 */
import { status } from "@grpc/grpc-js";
import * as fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { startTestAnalytics, type TestAnalytics } from "../../helpers/servers/analytics.js";
import {
  any,
  anyOf,
  decode,
  descriptor,
  encode,
  field,
  fieldsOf,
  type FlightCalls,
  flightCalls,
  valueOfAny,
} from "../../helpers/flight/flight-standard.js";

let t: TestAnalytics;
let calls: FlightCalls;
let handle: Buffer;

beforeAll(async () => {
  t = await startTestAnalytics();
  calls = flightCalls(t.port, t.key);
  const [result] = await calls.action(
    "CreatePreparedStatement",
    any("ActionCreatePreparedStatementRequest", { query: "SELECT ?::INTEGER" }),
  );
  const message = valueOfAny(result ?? Buffer.alloc(0));
  handle = decode("ActionCreatePreparedStatementResult", message)["prepared_statement_handle"] as Buffer;
});

afterAll(async () => {
  // The server has survived.
  await calls.table(any("CommandStatementQuery", { query: "SELECT 42 AS v" }));
  calls.close();
  await t.stop();
});

/** Statuses that say that it was the caller's fault. */
const fair = /^(?:OK|INVALID_ARGUMENT|UNIMPLEMENTED|NOT_FOUND|RESOURCE_EXHAUSTED)\b/u;

/** The status of a call, with its words. */
async function outcomeOf(call: Promise<unknown>): Promise<string> {
  return call.then(
    () => "OK",
    (error: unknown) => {
      const { code, details } = error as { readonly code?: number; readonly details?: string };
      return `${status[code ?? -1]}: ${details}`;
    },
  );
}

/** Bytes of any kind, among them truncated, overlong and negative protobuf. */
const garbage = fc.oneof(
  fc.uint8Array({ maxLength: 64 }),
  fc.constantFrom(
    Uint8Array.of(0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff),
    Uint8Array.of(0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01),
    Uint8Array.of(0x0a, 0x05, 0xff, 0xfe, 0xfd, 0xfc, 0xfb),
    Uint8Array.of(0x0b, 0x0c),
    Uint8Array.of(0x08, 0x80),
    Uint8Array.of(0x09, 1, 2),
    new Uint8Array(0),
  ),
);

const commands = [
  "CommandStatementQuery",
  "CommandPreparedStatementQuery",
  "CommandGetCatalogs",
  "CommandGetDbSchemas",
  "CommandGetTables",
  "CommandGetTableTypes",
  "CommandGetPrimaryKeys",
  "CommandGetExportedKeys",
  "CommandGetImportedKeys",
  "CommandGetCrossReference",
  "CommandGetSqlInfo",
  "CommandGetXdbcTypeInfo",
  "CommandStatementUpdate",
  "TicketStatementQuery",
] as const;

/** A message whose fields hold garbage, each in turn or all of them. */
function messageOf(type: string): fc.Arbitrary<Buffer> {
  const fields = fieldsOf(type);
  return fc
    .tuple(garbage, fc.array(garbage, { minLength: fields.length, maxLength: fields.length }))
    .map(([whole, values]) =>
      fields.length === 0
        ? Buffer.from(whole)
        : Buffer.concat(fields.map(({ id }, i) => field(id, values[i] ?? new Uint8Array(0)))),
    );
}

const runs = { numRuns: 25 };

describe("garbage", () => {
  it.each(["GetFlightInfo", "PollFlightInfo", "GetSchema"])("as the request of %s", async (method) => {
    const request = fc.oneof(garbage, messageOf("FlightDescriptor"), garbage.map(descriptor));
    await fc.assert(
      fc.asyncProperty(request, async (bytes) => {
        expect(await outcomeOf(calls.unary(method, bytes))).toMatch(fair);
      }),
      runs,
    );
  });

  it.each(["DoGet", "DoAction", "ListFlights", "ListActions"])("as the request of %s", async (method) => {
    const request = fc.oneof(
      garbage,
      garbage.map((bytes) => field(1, bytes)),
    );
    await fc.assert(
      fc.asyncProperty(request, async (bytes) => {
        expect(await outcomeOf(calls.stream(method, bytes))).toMatch(fair);
      }),
      runs,
    );
  });

  it.each(commands)("in %s", async (name) => {
    const command = fc.oneof(garbage, messageOf(name)).map((bytes) => anyOf(name, bytes));
    await fc.assert(
      fc.asyncProperty(command, async (bytes) => {
        expect(await outcomeOf(calls.unary("GetFlightInfo", descriptor(bytes)))).toMatch(fair);
        expect(await outcomeOf(calls.unary("GetSchema", descriptor(bytes)))).toMatch(fair);
        expect(await outcomeOf(calls.stream("DoGet", field(1, bytes)))).toMatch(fair);
      }),
      runs,
    );
  });

  it.each([
    ["CreatePreparedStatement", "ActionCreatePreparedStatementRequest"],
    ["ClosePreparedStatement", "ActionClosePreparedStatementRequest"],
    ["CancelQuery", "ActionCancelQueryRequest"],
    ["CancelFlightInfo", "CancelFlightInfoRequest"],
    ["RenewFlightEndpoint", "RenewFlightEndpointRequest"],
    ["SetSessionOptions", "SetSessionOptionsRequest"],
    ["GetSessionOptions", "GetSessionOptionsRequest"],
    ["CloseSession", "CloseSessionRequest"],
  ])("in the body of %s", async (action, message) => {
    const body = fc.oneof(
      garbage,
      messageOf(message),
      messageOf(message).map((bytes) => anyOf(message, bytes)),
    );
    await fc.assert(
      fc.asyncProperty(body, async (bytes) => {
        expect(await outcomeOf(calls.action(action, Buffer.from(bytes)))).toMatch(fair);
      }),
      runs,
    );
  });

  it("in the messages of a DoPut, Arrow's included", async () => {
    const command = any("CommandPreparedStatementQuery", { prepared_statement_handle: handle });
    const first = { flight_descriptor: decode("FlightDescriptor", descriptor(command)) };
    const message = fc.oneof(
      garbage,
      messageOf("FlightData"),
      fc
        .tuple(fc.uint8Array({ maxLength: 400 }), garbage)
        .map(([header, body]) => encode("FlightData", { ...first, data_header: header, data_body: body })),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(message, { maxLength: 4 }), async (messages) => {
        expect(await outcomeOf(calls.duplex("DoPut", messages))).toMatch(fair);
      }),
      { numRuns: 200 },
    );
  });
});

const tables = (fields: Readonly<Record<string, unknown>>): Buffer => any("CommandGetTables", fields);

describe("too much", () => {
  it.each([
    ["10 MB of SQL", `SELECT '${"x".repeat(10 << 20)}'`],
    ["a thousand brackets", `SELECT ${"(".repeat(1000)}1${")".repeat(1000)}`],
  ])("%s is INVALID_ARGUMENT, asked for and prepared", async (_name, query) => {
    const refused = { code: status.INVALID_ARGUMENT };
    await expect(calls.info(any("CommandStatementQuery", { query }))).rejects.toMatchObject(refused);
    const body = any("ActionCreatePreparedStatementRequest", { query });
    await expect(calls.action("CreatePreparedStatement", body)).rejects.toMatchObject(refused);
  });

  it("a message of more than 16 MB is RESOURCE_EXHAUSTED", async () => {
    const request = Buffer.alloc(17 << 20);
    await expect(calls.unary("GetFlightInfo", request)).rejects.toMatchObject({
      code: status.RESOURCE_EXHAUSTED,
    });
  });

  const many = (count: number, part: Buffer): Buffer => Buffer.concat(Array.from({ length: count }, () => part));
  it.each([
    ["ids", /not valid protobuf/u, anyOf("CommandGetSqlInfo", many(2, field(1, Buffer.alloc(9000))))],
    ["characters of a pattern", /at most 10000 characters/u, tables({ table_name_filter_pattern: "_%".repeat(5001) })],
    ["types of tables", /more than 10000 fields/u, tables({ table_types: Array.from({ length: 10_001 }, () => "t") })],
  ])("%s are INVALID_ARGUMENT", async (_name, details, command) => {
    const refused = { code: status.INVALID_ARGUMENT, details: expect.stringMatching(details) as unknown };
    await expect(calls.info(command)).rejects.toMatchObject(refused);
  });

  it("tickets of a flight that is cancelled are INVALID_ARGUMENT", async () => {
    const endpoint = { ticket: { ticket: any("CommandGetSqlInfo") } };
    const info = { endpoint: Array.from({ length: 101 }, () => endpoint) };
    await expect(calls.action("CancelFlightInfo", encode("CancelFlightInfoRequest", { info }))).rejects.toMatchObject({
      code: status.INVALID_ARGUMENT,
      details: expect.stringMatching(/more than 100 tickets/u) as unknown,
    });
  });
});
