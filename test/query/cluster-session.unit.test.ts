/** The protocol against a recorded session of a cluster, and what becomes of queries when it fails. */
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { type AddressInfo, createServer } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";

import { type ServerWritableStream, status } from "@grpc/grpc-js";
import { tableFromIPC } from "apache-arrow";
import { afterEach, beforeEach, expect, it } from "vitest";

import type { QueryStream } from "../../src/query/backend/backend.js";
import type { Executable } from "../../src/query/backend/inspect.js";
import { ClusterQueries, type ClusterRequest, type ClusterStatement } from "../../src/query/cluster/cluster-queries.js";
import { parseClusterUri } from "../../src/query/cluster/cluster-uri.js";
import { emptySource } from "../../src/query/sql/file-source.js";
import { ServiceError } from "../../src/runtime/errors.js";
import { createMetrics } from "../../src/runtime/metrics.js";
import type { ArrowField } from "../../src/wire/flight/flight-arrow.js";
import { createTappedLogger } from "../helpers/cleartext/cleartext-tap.js";
import { ipcOf } from "../helpers/flight/flight-ipc.js";
import { createManualClock, type ManualClock } from "../helpers/manual-clock.js";
import { listenForConnect } from "../helpers/query/connect-listener.js";
import { until } from "../helpers/until.js";

// Compiled, this file is dist/test/query/cluster-session.unit.test.js.
const fixture = new URL("../../../test/fixtures/spark-session.json", import.meta.url);
const recorded = JSON.parse(await readFile(fixture, "utf8")) as Readonly<Record<"view" | "rows", readonly string[]>>;

const fields: readonly ArrowField[] = [
  { name: "n", nullable: true, type: { kind: "int", bits: 64, signed: true }, children: [] },
  { name: "s", nullable: true, type: { kind: "utf8" }, children: [] },
  {
    name: "time",
    nullable: true,
    type: { kind: "timestamp", unit: "nanosecond", timezone: null },
    children: [],
  },
];

const statement: ClusterStatement = {
  sql: "SELECT of the recording",
  objects: [{ name: "svc_objects_0", paths: ["s3://lake/a.parquet", "s3://lake/b.parquet"] }],
  fields,
};

const never = { signal: new AbortController().signal };

type Execute = (call: ServerWritableStream<Buffer, Buffer>) => void;

let listener: Awaited<ReturnType<typeof listenForConnect>>;
let parsed: string[];
let calls: { readonly method: string; readonly request: Buffer; readonly token: string }[];
/** What a plan of a view gets. */
let onView: Execute;
/** What a plan of rows gets. */
let onRows: Execute;
let queries: ClusterQueries;
let clock: ManualClock;

const plays =
  (messages: readonly string[]): Execute =>
  (call) => {
    for (const message of messages) {
      call.write(Buffer.from(message, "base64"));
    }
    call.end();
  };
const played = plays(recorded.rows);

const queriesOf = (uri: string, o: { readonly patienceMs?: number } = {}): ClusterQueries =>
  new ClusterQueries({
    address: parseClusterUri(uri),
    minBytes: 1000,
    maxResultRows: 0,
    maxResultBytes: 0,
    parse: (texts) => {
      parsed.push(...texts);
      return Promise.resolve(texts.map(() => ({ error: false, statements: [] })));
    },
    clock,
    logger: createTappedLogger(),
    metrics: createMetrics(),
    ...o,
  });

beforeEach(async () => {
  calls = [];
  parsed = [];
  onView = plays(recorded.view);
  onRows = played;
  clock = createManualClock();
  listener = await listenForConnect({
    executePlan: (call) => {
      const { request } = call;
      const isView = request.includes("parquet");
      calls.push({ method: isView ? "view" : "rows", request, token: "" });
      (isView ? onView : onRows)(call);
    },
    unary:
      (method) =>
      ({ request, metadata }, done) => {
        calls.push({ method, request, token: String(metadata.get("authorization")[0] ?? "") });
        done(null, Buffer.alloc(0));
      },
  });
  queries = queriesOf(listener.uri);
});

afterEach(() => {
  queries.stop();
  listener.stop();
});

const methods = (): string[] => calls.map(({ method }) => method);

async function read(stream: QueryStream): Promise<unknown[]> {
  const parts: Uint8Array[] = [];
  for await (const message of stream) {
    parts.push(...ipcOf(message));
  }
  return tableFromIPC(parts)
    .toArray()
    .map((row: { toJSON(): unknown }) => row.toJSON());
}

const run = (fallback: (() => Promise<QueryStream>) | null, reasons: string[] = [], ask = never): QueryStream =>
  queries.run(statement, ask, fallback, (reason) => {
    reasons.push(reason);
  });

/** A query on this machine: the recording, from a cluster that works. */
async function fallback(): Promise<QueryStream> {
  onRows = played;
  return Promise.resolve(run(null));
}

it("passes rows through with the columns that were announced, and releases the session", async () => {
  const stream = run(null);
  const rows = await read(stream);
  expect(rows).toEqual([0, 1, 2, 3, 4].map((n) => ({ n: BigInt(n), s: `row ${n}`, time: n * 1000 })));
  expect((await stream.ended).summary.rows).toBe(5);
  await until(() => methods().includes("ReleaseSession"));
  expect(methods()).toEqual(["view", "rows", "ReleaseSession"]);
  const [view] = calls;
  expect(view?.request.includes("s3://lake/a.parquet") && view.request.includes("s3://lake/b.parquet")).toBe(true);
});

it("ends a result that breaks off with an error, however much was sent", async () => {
  onRows = (call) => {
    call.write(Buffer.from(recorded.rows.at(-1) ?? "", "base64"));
    for (const message of recorded.rows) {
      call.write(Buffer.from(message, "base64"));
    }
    call.emit("error", { code: status.UNAVAILABLE, details: "worker lost" });
  };
  const reasons: string[] = [];
  await expect(read(run(fallback, reasons))).rejects.toMatchObject({ code: "UNAVAILABLE" });
  expect(reasons).toEqual([]);
});

it.each([
  ["the cluster failed", status.UNAVAILABLE, "UNAVAILABLE"],
  ["the cluster could not run the statement", status.INTERNAL, "INTERNAL"],
] as const)("runs a query here when %s before anything was sent", async (reason, code, failure) => {
  const fails: Execute = (call) => {
    call.emit("error", { code, details: "at 10.0.0.1: no" });
  };
  onRows = fails;
  const reasons: string[] = [];
  expect(await read(run(fallback, reasons))).toHaveLength(5);
  expect(reasons).toEqual([reason]);
  onRows = fails;
  const error: unknown = await read(run(null)).catch((thrown: unknown) => thrown);
  expect(error).toMatchObject({ code: failure });
  expect(String(error)).not.toContain("10.0.0.1");
});

it("refuses rows of other columns than were announced", async () => {
  const [first, ...others] = fields;
  const other = { ...statement, fields: [...others, first ?? fields[0]].filter((field) => field !== undefined) };
  await expect(read(queries.run(other, never, null, () => undefined))).rejects.toMatchObject({ code: "INTERNAL" });
});

it("interrupts a query that nobody waits for, and releases its session", async () => {
  onRows = () => undefined;
  const controller = new AbortController();
  const stream = run(null, [], { signal: controller.signal });
  const reading = read(stream);
  await until(() => methods().includes("rows"));
  controller.abort(new ServiceError("CANCELLED"));
  await expect(reading).rejects.toMatchObject({ code: "CANCELLED" });
  expect((await stream.ended).failure?.code).toBe("CANCELLED");
  await until(() => methods().includes("ReleaseSession"));
  expect(methods()).toEqual(["view", "rows", "Interrupt", "ReleaseSession"]);
});

const executable: Executable = { explain: "none", sql: "SELECT 1" };
const request = (o: Partial<ClusterRequest>): ClusterRequest => ({
  choice: "auto",
  executable,
  fields,
  bytes: 1000,
  sources: () => ({ directories: [], files: [], rows: [{ name: "blocks", columns: [], chunks: [] }] }),
  ...o,
});

const noSources = (): ReturnType<ClusterRequest["sources"]> => ({ directories: [], files: [], rows: [] });

it("chooses by what was asked, by size and by what can be translated", async () => {
  expect(await queries.decide(request({ choice: "local" }), never)).toEqual({
    engine: "local",
    reason: "engine=local",
  });
  expect(await queries.decide(request({ bytes: 999 }), never)).toMatchObject({ engine: "local" });
  expect(methods()).toEqual([]);
  expect(await queries.decide(request({}), never)).toEqual({
    engine: "local",
    reason: "local only: blocks, whose rows are in the catalogue",
  });
  await expect(queries.decide(request({ choice: "cluster", bytes: 0 }), never)).rejects.toMatchObject({
    code: "BAD_REQUEST",
    message: "The cluster cannot run this statement: blocks, whose rows are in the catalogue is local only.",
  });
});

it("leaves rows by chance to this machine", async () => {
  const sources: ClusterRequest["sources"] = () => ({
    directories: [],
    files: [{ name: "svc_sample", view: "attribute_samples", sources: Array.from({ length: 4 }, () => emptySource) }],
    rows: [],
  });
  expect(await queries.decide(request({ sources }), never)).toEqual({
    engine: "local",
    reason: "local only: attribute_samples, which has rows by chance",
  });
});

it("does not look at long texts", async () => {
  const long: Executable = { explain: "none", sql: `SELECT 1 WHERE 1 IN (${"0,".repeat(20_000)}0)` };
  expect(await queries.decide(request({ executable: long, sources: noSources }), never)).toEqual({
    engine: "local",
    reason: "local only: a text of more than 32768 characters",
  });
  expect(parsed).toEqual([]);
});

it("keeps away from a cluster that failed three times in a row", async () => {
  listener.stop();
  for (let i = 0; i < 3; i++) {
    await expect(read(run(null))).rejects.toMatchObject({ code: "UNAVAILABLE" });
  }
  expect(await queries.decide(request({}), never)).toEqual({
    engine: "local",
    reason: "the cluster failed several times in a row",
  });
  await expect(queries.decide(request({ choice: "cluster" }), never)).rejects.toMatchObject({ code: "UNAVAILABLE" });
});

/** Where a query would run by now. */
const whyLocal = async (of: ClusterQueries): Promise<unknown> => {
  const decision = await of.decide(request({}), never);
  return decision.engine === "local" ? decision.reason : null;
};
const openBreaker = "the cluster failed several times in a row";

it("keeps away from a cluster that takes connections and says nothing", async () => {
  const silent = createServer((socket) => socket.on("error", () => undefined).resume());
  silent.listen(0, "127.0.0.1");
  await once(silent, "listening");
  const { port } = silent.address() as AddressInfo;
  const hanging = queriesOf(`sc://127.0.0.1:${port}`, { patienceMs: 100 });
  try {
    const reasons: string[] = [];
    for (let i = 0; i < 4; i++) {
      const stream = hanging.run(statement, never, fallback, (reason) => {
        reasons.push(reason);
      });
      expect(await read(stream)).toHaveLength(5);
    }
    const failed = "the cluster failed";
    expect(reasons).toEqual([failed, failed, failed, openBreaker]);
    expect(await whyLocal(hanging)).toBe(openBreaker);
  } finally {
    hanging.stop();
    silent.close();
  }
});

/** How long they wait for a sign of life: long enough to connect to a listener on a busy machine. */
const patienceMs = 500;

it.each([
  { what: "its first sign of life is waited for in vain", silent: "view", patienceMs, opens: true },
  { what: "it has not had the time to say anything", silent: "view", patienceMs: 10_000, opens: false },
  { what: "it has begun to answer", silent: "rows", patienceMs, opens: false },
] as const)("hears from queries that are given up whether a cluster works: $what", async (o) => {
  if (o.silent === "view") {
    onView = () => undefined;
  } else {
    onRows = () => undefined;
  }
  const impatient = queriesOf(listener.uri, { patienceMs: o.patienceMs });
  try {
    for (let i = 1; i <= 3; i++) {
      const given = new AbortController();
      const stream = impatient.run(statement, { signal: given.signal }, null, () => undefined);
      const reading = read(stream);
      await until(() => methods().filter((method) => method === o.silent).length === i);
      await sleep(patienceMs + 40);
      given.abort(new ServiceError("DEADLINE_EXCEEDED"));
      await expect(reading).rejects.toMatchObject({ code: "DEADLINE_EXCEEDED" });
      await stream.ended;
    }
    onRows = played;
    expect((await whyLocal(impatient)) === openBreaker).toBe(o.opens);
  } finally {
    impatient.stop();
  }
});

it("counts the question how a cluster reads times, which it did not answer, as its failure", async () => {
  onRows = () => undefined;
  const impatient = queriesOf(listener.uri, { patienceMs });
  try {
    for (let i = 1; i <= 3; i++) {
      const given = new AbortController();
      const deciding = impatient.decide(request({}), { signal: given.signal });
      await until(() => methods().filter((method) => method === "rows").length === i);
      await sleep(patienceMs + 40);
      given.abort(new ServiceError("DEADLINE_EXCEEDED"));
      await expect(deciding).rejects.toMatchObject({ code: "DEADLINE_EXCEEDED" });
    }
    expect(await whyLocal(impatient)).toBe(openBreaker);
  } finally {
    impatient.stop();
  }
});

it("lets one query try half a minute later, and the others when that has succeeded", async () => {
  const fails: Execute = (call) => {
    call.emit("error", { code: status.UNAVAILABLE, details: "no" });
  };
  onRows = fails;
  for (let i = 0; i < 3; i++) {
    await expect(read(run(null))).rejects.toMatchObject({ code: "UNAVAILABLE" });
  }
  clock.advance(30_000);
  calls = [];
  onRows = (call) => {
    setTimeout(() => {
      fails(call);
    }, 20);
  };
  await Promise.allSettled(Array.from({ length: 10 }, () => read(run(null))));
  expect(methods().filter((method) => method === "rows")).toHaveLength(1);
  clock.advance(30_000);
  onRows = played;
  expect(await read(run(null))).toHaveLength(5);
  expect(await Promise.all(Array.from({ length: 10 }, () => read(run(null))))).toHaveLength(10);
});

it("lets others in as soon as the one that tries is answered", async () => {
  onRows = (call) => {
    call.emit("error", { code: status.UNAVAILABLE, details: "no" });
  };
  for (let i = 0; i < 3; i++) {
    await expect(read(run(null))).rejects.toMatchObject({ code: "UNAVAILABLE" });
  }
  clock.advance(30_000);
  const [first = "", ...others] = recorded.rows;
  let finish = (): void => undefined;
  onRows = (call) => {
    call.write(Buffer.from(first, "base64"));
    onRows = played;
    finish = () => {
      for (const message of others) {
        call.write(Buffer.from(message, "base64"));
      }
      call.end();
    };
  };
  const trial = read(run(null));
  await until(async () => (await read(run(null)).catch(() => [])).length === 5);
  finish();
  expect(await trial).toHaveLength(5);
});

it("has a text parsed once, however often it comes", async () => {
  const decide = (sql: string): Promise<unknown> =>
    queries.decide(
      {
        choice: "auto",
        executable: { explain: "none", sql },
        fields: [],
        bytes: 10_000,
        sources: noSources,
      },
      never,
    );
  for (const sql of ["SELECT 1", "SELECT 2", "SELECT 1"]) {
    expect(await decide(sql)).toMatchObject({
      engine: "local",
      reason: expect.stringContaining("local only") as string,
    });
  }
  expect(parsed).toEqual(["SELECT 1", "SELECT 2"]);
});

it("lets go of the trees of texts that were asked long ago", async () => {
  const texts = Array.from({ length: 40 }, (_, i) => `SELECT ${i} -- ${"x".repeat(10_000)}`);
  const decide = (sql: string): Promise<unknown> =>
    queries.decide(request({ executable: { explain: "none", sql }, sources: noSources }), never);
  for (const text of texts) {
    await decide(text);
  }
  expect(parsed).toHaveLength(40);
  await decide(texts[39] ?? "");
  expect(parsed).toHaveLength(40);
  await decide(texts[0] ?? "");
  expect(parsed).toHaveLength(41);
});

it("learns nothing of how a cluster reads times while that refuses every statement", async () => {
  const ask = request({ choice: "cluster", sources: noSources });
  onRows = (call) => {
    call.emit("error", { code: status.INTERNAL, details: "a worker was lost" });
  };
  await expect(queries.decide(ask, never)).rejects.toMatchObject({ code: "UNAVAILABLE" });
  onRows = played;
  await expect(queries.decide(ask, never)).rejects.toMatchObject({ code: "BAD_REQUEST" });
  await read(run(null));
  // It would be told to read times as numbers.
  expect(methods()).not.toContain("Config");
});
