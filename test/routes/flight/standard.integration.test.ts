/** The server against the text of the standard: schemas, answers and statuses. */
import { status } from "@grpc/grpc-js";
import { type Field, tableFromIPC } from "apache-arrow";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { mintAnalyticsKey } from "../../../src/auth/keys/keys.js";
import { isAllowedFunction } from "../../../src/query/gate/allowed-functions.js";
import { viewNames } from "../../../src/query/sql/views.js";
import { startTestAnalytics, type TestAnalytics } from "../../helpers/servers/analytics.js";
import {
  any,
  decode,
  descriptor,
  encode,
  enumOf,
  type FlightCalls,
  flightCalls,
  flightSqlProto,
  valueOfAny,
} from "../../helpers/flight/flight-standard.js";
import { addPartition } from "../../helpers/lake/lake.js";
import { endless } from "../../helpers/query/endless.js";

let t: TestAnalytics;
let calls: FlightCalls;

beforeAll(async () => {
  t = await startTestAnalytics();
  calls = flightCalls(t.port, t.key);
  // Nobody is admin.
  await t.sql`delete from group_members where group_name = 'admins'`;
  await addPartition(t.lake, t.sql, {
    table: "log_entries",
    audience: "public",
    rowsSql:
      "SELECT make_timestamp_ns(1763740800000000000 + i) AS time, 'message ' || i AS msg, CAST(1 + i % 6 AS INTEGER) AS level FROM range(12) t(i)",
  });
});

afterAll(async () => {
  calls.close();
  await t.stop();
});

/** A schema as the comment above a command in FlightSql.proto writes it: `name: type` and `not null`. */
function standardSchema(command: string): string[] {
  const end = flightSqlProto.indexOf(`message ${command} {`);
  const comment = flightSqlProto.slice(flightSqlProto.lastIndexOf("/*", end), end);
  const schema = /schema will be:\s*\*\s*<(?<fields>[\s\S]*?)\n \* >/u.exec(comment)?.groups?.["fields"];
  const fields = (schema ?? "").matchAll(
    /^ \* {1,3}(?:\[optional\] )?(?<name>\w+): (?<type>\w+)(?<item><[^>\n]*>)?(?<rest> not null)?/gmu,
  );
  return Array.from(fields, ({ groups }) =>
    [groups?.["name"], ": ", groups?.["type"], groups?.["rest"] ?? ""].join(""),
  );
}

const typeNames: Readonly<Record<string, string>> = {
  Binary: "bytes",
  Uint32: "uint32",
  Uint8: "uint8",
  Union: "dense_union",
};

function actualSchema(fields: readonly Field[]): string[] {
  return fields.map(({ name, type, nullable }) => {
    const [word] = String(type).split(/[<[]/u);
    const kind = typeNames[word ?? ""] ?? (word ?? "").toLowerCase();
    return `${name}: ${kind}${nullable ? "" : " not null"}`;
  });
}

const commands: readonly (readonly [string, Record<string, unknown>])[] = [
  ["CommandGetCatalogs", {}],
  ["CommandGetDbSchemas", {}],
  ["CommandGetTables", { include_schema: true }],
  ["CommandGetTableTypes", {}],
  ["CommandGetPrimaryKeys", { table: "spans" }],
  ["CommandGetExportedKeys", { table: "spans" }],
  ["CommandGetImportedKeys", { table: "spans" }],
  ["CommandGetCrossReference", { pk_table: "spans", fk_table: "log_entries" }],
  ["CommandGetSqlInfo", {}],
  ["CommandGetXdbcTypeInfo", {}],
];

async function rows(command: string, fields: Record<string, unknown> = {}): Promise<unknown[][]> {
  const table = await calls.table(any(command, fields));
  return Array.from(table, (row) => Object.values(row.toJSON()));
}

describe("metadata", () => {
  it.each(commands)("%s has the schema of the standard, wherever it is told", async (name, fields) => {
    // The text leaves out what implementations of it say: each id has a value.
    const expected = standardSchema(name).map((field) => field.replace(/^value: dense_union$/u, "$& not null"));
    expect(expected.length).toBeGreaterThan(0);
    const info = await calls.info(any(name, fields));
    const told = await calls.unary("GetSchema", descriptor(any(name, fields)));
    const schemas = [
      (await calls.read(info)).schema,
      tableFromIPC(info["schema"] as Uint8Array).schema,
      tableFromIPC(decode("SchemaResult", told)["schema"] as Uint8Array).schema,
    ];
    for (const schema of schemas) {
      expect(actualSchema(schema.fields)).toEqual(expected);
    }
  });

  it("has one catalog, one schema, and views", async () => {
    expect(await rows("CommandGetCatalogs")).toEqual([["telemetry"]]);
    expect(await rows("CommandGetDbSchemas")).toEqual([["telemetry", "main"]]);
    expect(await rows("CommandGetDbSchemas", { catalog: "" })).toEqual([]);
    expect(await rows("CommandGetDbSchemas", { db_schema_filter_pattern: "m_in" })).toHaveLength(1);
    expect(await rows("CommandGetDbSchemas", { db_schema_filter_pattern: "x%" })).toEqual([]);
    expect(await rows("CommandGetTableTypes")).toEqual([["VIEW"]]);
  });

  it.each([
    [{}, viewNames.length],
    [{ catalog: "telemetry", db_schema_filter_pattern: "main" }, viewNames.length],
    [{ catalog: "Telemetry", db_schema_filter_pattern: "MAIN" }, viewNames.length],
    [{ catalog: "other" }, 0],
    [{ table_name_filter_pattern: "log%" }, 2],
    [{ table_name_filter_pattern: String.raw`log\_entries` }, 1],
    [{ table_name_filter_pattern: "log_entrie" }, 0],
    [{ table_name_filter_pattern: `${"%a".repeat(50)}%x` }, 0],
    [{ table_types: ["TABLE"] }, 0],
    [{ table_types: ["TABLE", "VIEW"] }, viewNames.length],
    // What Grafana's Flight SQL plugin asks for.
    [{ table_types: ["BASE TABLE", "table"] }, viewNames.length],
  ])("finds tables by %j", async (filter, count) => {
    expect(await rows("CommandGetTables", filter)).toHaveLength(count);
  });

  it("tells of each table the schema that a query of it has", async () => {
    const found = await rows("CommandGetTables", { include_schema: true });
    expect(found.map((row) => row[2])).toContain("spans");
    for (const [, , name, , schema] of found) {
      const { fields } = tableFromIPC(schema as Uint8Array).schema;
      const result = await calls.table(
        any("CommandStatementQuery", {
          query: `SELECT * FROM telemetry.main.${String(name)} LIMIT 0`,
        }),
      );
      expect(actualSchema(fields)).toEqual(actualSchema(result.schema.fields));
      expect(fields[0]?.metadata.get("ARROW:FLIGHT:SQL:TABLE_NAME")).toBe(name);
    }
  });

  it("tells of each column the type that SQL has for it, and its size as GetXdbcTypeInfo does", async () => {
    const known = new Map((await rows("CommandGetXdbcTypeInfo")).map((row) => [row[0], [row[2], row[14]]]));
    const sizes = new Map<string, unknown>();
    for (const [, , name, , schema] of await rows("CommandGetTables", { include_schema: true })) {
      const { fields } = tableFromIPC(schema as Uint8Array).schema;
      const list = fields.map((field) => `typeof(any_value("${field.name}"))`).join(", ");
      const found = await calls.table(any("CommandStatementQuery", { query: `SELECT ${list} FROM ${String(name)}` }));
      const told = fields.map(({ metadata }) => metadata.get("ARROW:FLIGHT:SQL:TYPE_NAME"));
      // DuckDB quotes the names of members that are keywords only.
      const plain = (type: unknown): string => String(type).replaceAll('"', "");
      expect(told.map(plain)).toEqual(Object.values(found.get(0)?.toJSON() ?? {}).map(plain));
      for (const { metadata } of fields) {
        const number = (key: string): number | null => {
          const value = metadata.get(`ARROW:FLIGHT:SQL:${key}`);
          return value === undefined ? null : Number(value);
        };
        const type = metadata.get("ARROW:FLIGHT:SQL:TYPE_NAME") ?? "";
        const size = [number("PRECISION"), number("SCALE")];
        expect(size).toEqual(known.get(type) ?? [null, null]);
        sizes.set(type, size);
      }
    }
    expect(Object.fromEntries(sizes)).toMatchObject({ INTEGER: [10, 0], TIMESTAMP_NS: [29, null] });
  });

  it("shows the query log to admins only", async () => {
    expect((await rows("CommandGetTables")).map((row) => row[2])).not.toContain("query_log");
  });

  it("has no keys", async () => {
    for (const [name, fields] of commands.slice(4, 8)) {
      expect(await rows(name, fields)).toEqual([]);
    }
  });
});

describe("GetSqlInfo", () => {
  it("answers every id of the standard, once, in the kind that its text names", async () => {
    const table = await calls.table(any("CommandGetSqlInfo"));
    const ids = Array.from(table.getChild("info_name") ?? []) as number[];
    const standard = enumOf("SqlInfo");
    expect(ids).toEqual(Object.values(standard).toSorted((a, b) => a - b));
    const kinds = ["string", "boolean", "int64", "int32", "list", "map"];
    const typeIds = table.getChild("value")?.data[0]?.typeIds ?? [];
    for (const [i, id] of ids.entries()) {
      const name = Object.entries(standard).find(([, value]) => value === id)?.[0] ?? "";
      const at = flightSqlProto.indexOf(`  ${name} = ${id};`);
      const before = flightSqlProto.slice(0, at);
      const comment = before.slice(Math.max(before.lastIndexOf("/*"), before.lastIndexOf("\n  //")));
      const expected = /\bmap\b/u.test(comment)
        ? "map"
        : /string list/u.test(comment)
          ? "list"
          : /UTF-8 string|string value/u.test(comment)
            ? "string"
            : /int64/u.test(comment)
              ? "int64"
              : /int32/u.test(comment)
                ? "int32"
                : "boolean";
      expect([name, kinds[Number(typeIds[i])]]).toEqual([name, expected]);
    }
  });

  it("answers what is asked, and nothing for what it does not know", async () => {
    expect(await rows("CommandGetSqlInfo", { info: [0, 3, 8, 9, 504, 12_345] })).toEqual([
      [0, "telemetry-service"],
      [3, true],
      [8, 0],
      [9, true],
      [504, '"'],
    ]);
  });

  it("tells the conversions that work, and no others", async () => {
    const sqlNames: Readonly<Record<string, string>> = {
      BIT: "BOOLEAN",
      INTERVAL_DAY_TIME: "INTERVAL",
      INTERVAL_YEAR_MONTH: "INTERVAL",
    };
    const names = new Map(
      Object.entries(enumOf("SqlSupportsConvert"))
        .map(([name, id]): [number, string] => [id, name.replace("SQL_CONVERT_", "")])
        // Names that the dialect does not have.
        .filter(([, name]) => !name.startsWith("LONG"))
        .map(([id, name]) => [id, sqlNames[name] ?? name]),
    );
    const found = await calls.table(any("CommandGetSqlInfo", { info: [517] }));
    const map = JSON.parse(JSON.stringify(found.get(0)?.["value"])) as Record<string, number[]>;
    expect(Object.keys(map).map(Number)).toEqual([...names.keys()].toSorted((a, b) => a - b));
    for (const [from, fromName] of names) {
      const casts = Array.from(names, ([to, toName]) => {
        return `count(TRY_CAST(TRY_CAST(t AS ${fromName}) AS ${toName})) > 0 AS "${to}"`;
      });
      const texts = "(VALUES ('1'), ('2024-02-29'), ('12:34:56'), ('1 day')) v(t)";
      const query = `SELECT ${casts.join(", ")} FROM ${texts}`;
      const table = await calls.table(any("CommandStatementQuery", { query }));
      const working = Object.entries(table.get(0)?.toJSON() ?? {}).filter(([, works]) => works);
      expect([fromName, map[from]]).toEqual([fromName, working.map(([to]) => Number(to))]);
    }
  });

  it("tells the characters of names that need no quotes", async () => {
    const [[, extra] = []] = await rows("CommandGetSqlInfo", { info: [514] });
    const query = `SELECT 1 AS a${String(extra)}b`;
    const table = await calls.table(any("CommandStatementQuery", { query }));
    expect([extra, table.schema.fields[0]?.name]).toEqual(["$", "a$b"]);
  });

  it("tells functions that exist", async () => {
    const lists = await rows("CommandGetSqlInfo", { info: [509, 510, 511, 512] });
    const names = lists.map(([, list]) => [...(list as Iterable<string>)]);
    expect(names.map((list) => list.length > 0)).toEqual([true, true, true, true]);
    expect(names.flat().filter((name) => !isAllowedFunction(name))).toEqual([]);
  });
});

it("GetXdbcTypeInfo filters by type and is ordered", async () => {
  const all = await rows("CommandGetXdbcTypeInfo");
  const numbers = all.map((row) => Number(row[1]));
  expect(numbers).toEqual(numbers.toSorted((a, b) => a - b));
  expect(new Set(Object.values(enumOf("XdbcDataType")))).toEqual(
    new Set([...Object.values(enumOf("XdbcDataType")), ...numbers]),
  );
  expect((await rows("CommandGetXdbcTypeInfo", { data_type: -5 })).map((row) => row[0])).toEqual(["BIGINT", "UBIGINT"]);
});

it("GetXdbcTypeInfo names types of the dialect, each by its own name", async () => {
  const all = await rows("CommandGetXdbcTypeInfo");
  const names = all.map((row) => String(row[0]));
  const list = names.map((name, i) => `typeof(CAST(NULL AS ${name})) AS c${i}`).join(", ");
  const found = await calls.table(any("CommandStatementQuery", { query: `SELECT ${list}` }));
  const own = Object.values(found.get(0)?.toJSON() ?? {}).map((name) => String(name).replace(/\(.*/u, ""));
  expect(own).toEqual(names);
  expect(names).toEqual(expect.arrayContaining(["UHUGEINT", "UUID", "TIME_NS", "TIMESTAMP_MS"]));
  const zoned = all.find((row) => row[0] === "TIMESTAMP WITH TIME ZONE");
  expect(zoned?.slice(15, 17)).toEqual([9, 5]);
});

describe("calls", () => {
  it("PollFlightInfo is done at once", async () => {
    const command = any("CommandStatementQuery", { query: "SELECT 42 AS v" });
    const poll = decode("PollInfo", await calls.unary("PollFlightInfo", descriptor(command)));
    expect(poll).toMatchObject({ progress: 1, flight_descriptor: null });
    const table = await calls.read(poll["info"] as Record<string, unknown>);
    expect(table.get(0)?.toJSON()).toEqual({ v: 42 });
  });

  it("ListFlights lists the tables by a pattern, and their tickets read", async () => {
    const all = await calls.stream("ListFlights", encode("Criteria", {}));
    expect(all).toHaveLength(viewNames.length);
    const [first, ...rest] = await calls.stream(
      "ListFlights",
      encode("Criteria", { expression: Buffer.from("log\\_e%") }),
    );
    expect(rest).toEqual([]);
    const info = decode("FlightInfo", first ?? Buffer.alloc(0));
    expect(info["flight_descriptor"]).toMatchObject({ path: ["log_entries"] });
    expect((await calls.read(info)).numRows).toBe(12);
    const path = encode("FlightDescriptor", { type: "PATH", path: ["nothing"] });
    await expect(calls.unary("GetFlightInfo", path)).rejects.toMatchObject({
      code: status.NOT_FOUND,
    });
  });

  it("ListActions lists what DoAction does", async () => {
    const actions = (await calls.stream("ListActions", Buffer.alloc(0))).map((action) =>
      String(decode("ActionType", action)["type"]),
    );
    expect(actions).toEqual(
      expect.arrayContaining([
        "CreatePreparedStatement",
        "ClosePreparedStatement",
        "CancelFlightInfo",
        "CancelQuery",
        "CloseSession",
      ]),
    );
    for (const action of actions) {
      const error: unknown = await calls.action(action, Buffer.alloc(0)).catch((e: unknown) => e);
      expect(error).not.toMatchObject({ code: status.UNIMPLEMENTED });
    }
  });

  it.each([
    ["BeginTransaction", any("ActionBeginTransactionRequest")],
    ["BeginSavepoint", any("ActionBeginSavepointRequest", { name: "x" })],
    ["EndTransaction", any("ActionEndTransactionRequest")],
    ["EndSavepoint", any("ActionEndSavepointRequest")],
    ["CreatePreparedSubstraitPlan", any("ActionCreatePreparedSubstraitPlanRequest")],
    ["Nothing", Buffer.alloc(0)],
    ["constructor", Buffer.alloc(0)],
  ])("the action %s is UNIMPLEMENTED", async (type, body) => {
    await expect(calls.action(type, body)).rejects.toMatchObject({ code: status.UNIMPLEMENTED });
  });

  it.each([
    ["CommandStatementUpdate", { query: "DELETE FROM spans" }],
    ["CommandPreparedStatementUpdate", { prepared_statement_handle: Buffer.from("x") }],
    ["CommandStatementIngest", { table: "spans" }],
    ["CommandStatementSubstraitPlan", {}],
  ])("%s is UNIMPLEMENTED, put or asked for", async (name, fields) => {
    const flight = descriptor(any(name, fields));
    const put = encode("FlightData", { flight_descriptor: decode("FlightDescriptor", flight) });
    await expect(calls.duplex("DoPut", [put])).rejects.toMatchObject({
      code: status.UNIMPLEMENTED,
    });
    await expect(calls.unary("GetFlightInfo", flight)).rejects.toMatchObject({
      code: status.UNIMPLEMENTED,
    });
  });

  it.each([
    ["DoGet", "CommandStatementQuery", { query: "SELECT 1" }, /GetFlightInfo.* DoGet/u],
    ["DoGet", "CommandPreparedStatementQuery", {}, /GetFlightInfo.* DoGet/u],
    ["DoPut", "CommandStatementQuery", { query: "SELECT 1" }, /GetFlightInfo/u],
    ["DoPut", "CommandGetTables", {}, /GetFlightInfo/u],
    ["GetFlightInfo", "TicketStatementQuery", {}, /DoGet/u],
    ["GetFlightInfo", "ActionCancelQueryRequest", {}, /DoAction/u],
  ])("%s of a %s says where it belongs", async (method, name, fields, place) => {
    const message = any(name, fields);
    const flight = descriptor(message);
    const call =
      method === "DoGet"
        ? calls.stream(method, encode("Ticket", { ticket: message }))
        : method === "DoPut"
          ? calls.duplex(method, [encode("FlightData", { flight_descriptor: decode("FlightDescriptor", flight) })])
          : calls.unary(method, flight);
    await expect(call).rejects.toMatchObject({
      code: status.INVALID_ARGUMENT,
      details: expect.stringMatching(place) as unknown,
    });
  });

  it.each([
    "SELECT time + INTERVAL 1 DAY FROM log_entries WHERE time > '2025-01-01'",
    "SELECT time + INTERVAL 1 DAY FROM (SELECT time FROM log_entries WHERE time > '2025-01-01')",
    "SELECT (SELECT count(*) FROM log_entries WHERE time > '2025-01-01')",
    "SELECT (SELECT max(attr(properties, 'a')) FROM measures)",
    "SELECT EXISTS (FROM measures WHERE attr(properties, 'a') = 'b')",
    "SELECT attr(properties, 'a') || INTERVAL 1 DAY FROM spans WHERE kind_name = 'SERVER'",
    "SELECT s FROM (SELECT time + INTERVAL 1 DAY, 1 FROM log_entries WHERE time > '2025-01-01') s",
    "SELECT [{a: s}] FROM (SELECT INTERVAL 1 DAY, EXISTS (FROM spans WHERE time > '2025-01-01') FROM spans WHERE time > '2025-01-01') s",
    "SELECT list_transform([1], lambda x: x + 1) FROM log_entries WHERE time > '2025-01-01'",
  ])("%s: has the columns that were announced", async (query) => {
    const info = await calls.info(any("CommandStatementQuery", { query }));
    const announced = tableFromIPC(info["schema"] as Uint8Array).schema;
    const { schema } = await calls.read(info);
    expect(schema.fields.map(String)).toEqual(announced.fields.map(String));
    expect(schema.names.join()).not.toContain("svc_");
  });

  it("a statement of a transaction is UNIMPLEMENTED", async () => {
    const command = any("CommandStatementQuery", {
      query: "SELECT 1",
      transaction_id: Buffer.from("t"),
    });
    await expect(calls.info(command)).rejects.toMatchObject({ code: status.UNIMPLEMENTED });
  });

  it("sessions have one catalog and one schema, and close", async () => {
    const [options] = await calls.action("GetSessionOptions", encode("GetSessionOptionsRequest", {}));
    expect(decode("GetSessionOptionsResult", options ?? Buffer.alloc(0))["session_options"]).toMatchObject({
      catalog: { string_value: "telemetry" },
      schema: { string_value: "main" },
      engine: { string_value: "auto" },
    });
    const [set] = await calls.action(
      "SetSessionOptions",
      encode("SetSessionOptionsRequest", {
        session_options: {
          catalog: { string_value: "telemetry" },
          schema: { string_value: "other" },
          nothing: { bool_value: true },
        },
      }),
    );
    expect(decode("SetSessionOptionsResult", set ?? Buffer.alloc(0))["errors"]).toEqual({
      schema: { value: "INVALID_VALUE" },
      nothing: { value: "INVALID_NAME" },
    });
    const [unset] = await calls.action(
      "SetSessionOptions",
      encode("SetSessionOptionsRequest", {
        session_options: { catalog: {}, schema: { double_value: 1 }, nothing: {} },
      }),
    );
    expect(decode("SetSessionOptionsResult", unset ?? Buffer.alloc(0))["errors"]).toEqual({
      schema: { value: "INVALID_VALUE" },
      nothing: { value: "INVALID_NAME" },
    });
    const [closed] = await calls.action("CloseSession", encode("CloseSessionRequest", {}));
    expect(decode("CloseSessionResult", closed ?? Buffer.alloc(0))).toEqual({ status: "CLOSED" });
  });
});

describe("cancelling", () => {
  const statement = any("CommandStatementQuery", { query: endless });

  it.each(["CancelFlightInfo", "CancelQuery"])("%s ends what runs", async (action) => {
    const encoded = await calls.unary("GetFlightInfo", descriptor(statement));
    const info = decode("FlightInfo", encoded);
    const reading = calls.read(info).catch((error: unknown) => error);
    await t.untilGauge("query_running", 1);
    const body =
      action === "CancelQuery"
        ? any("ActionCancelQueryRequest", { info: encoded })
        : encode("CancelFlightInfoRequest", { info });
    const [result] = await calls.action(action, body);
    const found =
      action === "CancelQuery"
        ? decode("ActionCancelQueryResult", valueOfAny(result ?? Buffer.alloc(0)))["result"]
        : decode("CancelFlightInfoResult", result ?? Buffer.alloc(0))["status"];
    expect(found).toMatch(/_CANCELLED$/u);
    expect(await reading).toMatchObject({ code: status.CANCELLED });
    await t.untilGauge("query_running", 0);
    await expect(calls.read(info)).rejects.toMatchObject({ code: status.CANCELLED });
  });

  it("is not for metadata, which has nothing that runs", async () => {
    const encoded = await calls.unary("GetFlightInfo", descriptor(any("CommandGetTables")));
    const info = decode("FlightInfo", encoded);
    const [result] = await calls.action("CancelFlightInfo", encode("CancelFlightInfoRequest", { info }));
    expect(decode("CancelFlightInfoResult", result ?? Buffer.alloc(0))["status"]).toBe("CANCEL_STATUS_NOT_CANCELLABLE");
    const query = any("ActionCancelQueryRequest", { info: encoded });
    const [old] = await calls.action("CancelQuery", query);
    expect(decode("ActionCancelQueryResult", valueOfAny(old ?? Buffer.alloc(0)))["result"]).toBe(
      "CANCEL_RESULT_NOT_CANCELLABLE",
    );
  });

  it("is for the caller's own flights", async () => {
    const info = await calls.info(statement);
    const { key } = await mintAnalyticsKey(t.sql, { name: "stranger", createdBy: "test" });
    const stranger = flightCalls(t.port, key);
    await expect(
      stranger.action("CancelFlightInfo", encode("CancelFlightInfoRequest", { info })),
    ).rejects.toMatchObject({ code: status.PERMISSION_DENIED });
    stranger.close();
  });
});

describe("a renewed endpoint", () => {
  const statement = any("CommandStatementQuery", { query: "SELECT 7 AS v" });

  async function renewed(info: Record<string, unknown>): Promise<Record<string, unknown>> {
    const [endpoint] = info["endpoint"] as Record<string, unknown>[];
    const [result] = await calls.action("RenewFlightEndpoint", encode("RenewFlightEndpointRequest", { endpoint }));
    return { endpoint: [decode("FlightEndpoint", result ?? Buffer.alloc(0))] };
  }

  const cancel = async (info: Record<string, unknown>): Promise<Buffer[]> =>
    calls.action("CancelFlightInfo", encode("CancelFlightInfoRequest", { info }));
  const cancelled = { code: status.CANCELLED };

  it("reads and lives longer", async () => {
    const table = await calls.read(await renewed(await calls.info(statement)));
    expect(table.get(0)?.toJSON()).toEqual({ v: 7 });
  });

  it("of metadata is the endpoint itself, which does not expire", async () => {
    const info = await calls.info(any("CommandGetTableTypes"));
    expect((await renewed(info))["endpoint"]).toEqual(info["endpoint"]);
  });

  it("is cancelled with its flight", async () => {
    const info = await calls.info(statement);
    const twice = await renewed(await renewed(info));
    await cancel(info);
    await expect(calls.read(twice)).rejects.toMatchObject(cancelled);
  });

  it("is not had of a flight that was cancelled, and cancels it", async () => {
    const info = await calls.info(statement);
    const once = await renewed(info);
    await cancel(once);
    await expect(renewed(info)).rejects.toMatchObject(cancelled);
    await expect(calls.read(info)).rejects.toMatchObject(cancelled);
  });
});
