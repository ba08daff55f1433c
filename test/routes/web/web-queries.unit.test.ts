/** The limits of queries of the web application, over connections that do what a test wants. */
import { status } from "@grpc/grpc-js";
import { FlightSqlError } from "telemetry-service-client/flight/flight-sql-error";
import type { FlightCalls } from "telemetry-service-client/flight/flight-calls";
import { describe, expect, it, onTestFinished } from "vitest";

import { maxQueriesOfServer, WebQueries, type WebQuery } from "../../../src/routes/web/query/web-queries.js";
import type { DataSources } from "../../../src/routes/web/query/data-sources.js";
import { failureOf } from "../../../src/routes/web/query/query-failure.js";
import { abortReason, ServiceError } from "../../../src/runtime/errors.js";
import { createMetrics } from "../../../src/runtime/metrics.js";
import { encodeSchemaMessage } from "../../../src/wire/flight/flight-arrow.js";
import { encapsulated, messageFrame } from "../../../src/wire/web/query-frames.js";
import { createTappedLogger } from "../../helpers/cleartext/cleartext-tap.js";

type Get = FlightCalls["get"];

interface Users {
  /** Queries that use the data source. */
  count: number;
}

function queriesOver(get: Get, o: { readonly timeoutMs?: number; readonly users?: Users } = {}): WebQueries {
  const users = o.users ?? { count: 0 };
  const calls: Pick<FlightCalls, "info" | "get"> = {
    info: () => Promise.resolve({ tickets: [], metadata: undefined as never }),
    get,
  };
  const sources: Pick<DataSources, "open"> = {
    open: () => {
      users.count++;
      const release = (): void => {
        users.count--;
      };
      return Promise.resolve({ name: "fake", calls: calls as FlightCalls, release });
    },
  };
  return new WebQueries({
    sources: sources as DataSources,
    maxRows: 1000,
    timeoutMs: o.timeoutMs ?? 60_000,
    logger: createTappedLogger(),
    metrics: createMetrics(),
  });
}

function query(o: Partial<WebQuery> = {}): WebQuery {
  const input = {
    sql: "SELECT 1",
    data_source: undefined,
    begin: undefined,
    end: undefined,
    limit: undefined,
    parameters: undefined,
  };
  const origin = { from: "192.0.2.1", forwardedFor: null };
  return { session: "s", idToken: "t", origin, input, accept: "", signal: new AbortController().signal, ...o };
}

/** Runs a query to its end, and gives what was sent but for progress. */
async function answerOf(queries: WebQueries, o: Partial<WebQuery> = {}): Promise<string> {
  const sent: string[] = [];
  await queries.run(query(o), async (_answer, parts) => {
    for await (const part of parts) {
      const text = Buffer.from(part).toString("latin1");
      if (!text.startsWith("P")) {
        sent.push(`${text[0]} ${text[0] === "E" || text[0] === "D" ? text.slice(5) : ""}`);
      }
    }
    return true;
  });
  return sent.join("\n");
}

/** A call of a server that is silent: it ends with its signal. */
const silent: Get = (_tickets, signal) => silence(signal);

async function* silence(signal: AbortSignal): AsyncGenerator<never> {
  await new Promise<void>((_resolve, reject) => {
    const end = (): void => {
      reject(abortReason(signal));
    };
    signal.addEventListener("abort", end);
    if (signal.aborted) {
      end();
    }
  });
  yield* [];
}

describe("a query", () => {
  it("ends at its deadline where the server says nothing", async () => {
    const sent = await answerOf(queriesOver(silent, { timeoutMs: 50 }));
    expect(sent).toMatch(/^E .*"code":"DEADLINE_EXCEEDED"/);
  });

  it("ends with the client that leaves, and makes room for another", async () => {
    const queries = queriesOver(silent);
    for (let i = 0; i < 10; i++) {
      const client = new AbortController();
      const sent = answerOf(queries, { signal: client.signal });
      client.abort();
      expect(await sent).toMatch(/^E .*"code":"CANCELLED"/);
    }
  });

  it("makes room again although nobody began to read its answer", async () => {
    const users = { count: 0 };
    const queries = queriesOver(silent, { users });
    for (let i = 0; i < 10; i++) {
      expect(await queries.run(query(), () => Promise.resolve(false))).toBe(false);
    }
    expect(users.count).toBe(0);
  });

  it("is one of many without a warning of a leak", async () => {
    const warnings: string[] = [];
    const note = ({ message }: Error): void => void warnings.push(message);
    process.on("warning", note);
    onTestFinished(() => void process.off("warning", note));
    const queries = queriesOver(silent);
    const running = Array.from({ length: 20 }, (_, i) => answerOf(queries, { session: String(i) }));
    await queries.drain(0);
    await Promise.all(running);
    expect(warnings).toEqual([]);
  });

  it("waits for others when too many run, of whomever they are", async () => {
    const queries = queriesOver(silent);
    const client = new AbortController();
    const running = Array.from({ length: maxQueriesOfServer }, (_, i) =>
      answerOf(queries, { session: String(i), signal: client.signal }),
    );
    await expect(answerOf(queries, { session: "one more" })).rejects.toMatchObject({ code: "OVERLOADED" });
    client.abort();
    expect(new Set((await Promise.all(running)).map((sent) => sent.slice(0, 20))).size).toBe(1);
  });

  it("ends when the server stops, which waits for it so long", async () => {
    const users = { count: 0 };
    const queries = queriesOver(silent, { users });
    const sent = answerOf(queries);
    await expect.poll(() => users.count).toBe(1);
    await queries.drain(50);
    expect(await sent).toMatch(/^E .*"code":"UNAVAILABLE"/);
    expect(users.count).toBe(0);
  });

  it("fails where a server sends what is no Arrow message", async () => {
    const sent = await answerOf(
      queriesOver(async function* () {
        yield await Promise.resolve({ header: Buffer.from("nonsense"), body: Buffer.alloc(0) });
      }),
    );
    expect(sent).toMatch(/^E .*"code":"INTERNAL","message":"the data source fake sent what is no Arrow message"/);
  });

  it("ends its calls when its reader has enough", async () => {
    const header = encodeSchemaMessage([]);
    let ended = false;
    const queries = queriesOver(async function* (_tickets, signal) {
      try {
        yield await Promise.resolve({ header, body: Buffer.alloc(0) });
        yield* silence(signal);
      } finally {
        ended = true;
      }
    });
    await queries.run(query(), async (_answer, parts) => {
      for await (const part of parts) {
        expect(part[0]).toBe("S".charCodeAt(0));
        break;
      }
      return false;
    });
    await expect.poll(() => ended).toBe(true);
  });
});

describe("a failure", () => {
  const signal = new AbortController().signal;

  it.each([
    [status.INVALID_ARGUMENT, "BAD_REQUEST", "words"],
    [status.UNAUTHENTICATED, "UNAUTHENTICATED", "words"],
    [status.PERMISSION_DENIED, "FORBIDDEN", "words"],
    [status.RESOURCE_EXHAUSTED, "PAYLOAD_TOO_LARGE", "words"],
    [status.DEADLINE_EXCEEDED, "DEADLINE_EXCEEDED", "words"],
    [status.UNAVAILABLE, "UNAVAILABLE", "words"],
    [status.FAILED_PRECONDITION, "NOT_CONFIGURED", "words"],
    [status.INTERNAL, "INTERNAL", "words"],
    [status.UNKNOWN, "INTERNAL", "words"],
    // Nobody here has cancelled it.
    [status.CANCELLED, "UNAVAILABLE", "the data source s broke the query off; try again"],
  ] as const)("of gRPC status %i is %s, in the server's words", (code, expected, message) => {
    const failure = failureOf(new FlightSqlError(code, "words"), "s", signal);
    expect([failure.code, failure.publicMessage]).toEqual([expected, message]);
  });

  it("to connect names the data source, not its address", () => {
    const error = new FlightSqlError(status.UNAVAILABLE, "10.0.0.1:1 refused", { unreachable: true });
    expect(failureOf(error, "s", signal).publicMessage).toBe("the data source s cannot be reached now; try again");
  });

  it("of a query that was given up has the reason for that", () => {
    const aborted = AbortSignal.abort(new ServiceError("DEADLINE_EXCEEDED", "too long"));
    const failure = failureOf(new FlightSqlError(status.CANCELLED, "cancelled"), "s", aborted);
    expect([failure.code, failure.publicMessage]).toEqual(["DEADLINE_EXCEEDED", "too long"]);
  });

  it("that nobody foresaw says nothing of itself", () => {
    const failure = failureOf(new Error("secret"), "s", signal);
    expect([failure.code, failure.publicMessage]).toEqual(["INTERNAL", "internal error"]);
  });
});

describe("a message", () => {
  it.each([
    [0, 0],
    [1, 1],
    [8, 8],
    [13, 100_001],
  ])("with a header of %i bytes and a body of %i is padded, and framed with its length", (headerBytes, bodyBytes) => {
    const header = Buffer.alloc(headerBytes, 1);
    const body = Buffer.alloc(bodyBytes, 2);
    const stream = Buffer.concat(encapsulated(header, body));
    expect(stream.length % 8).toBe(0);
    expect(stream.readUInt32LE(0)).toBe(0xffff_ffff);
    const padded = stream.readUInt32LE(4);
    expect(padded).toBe(Math.ceil(headerBytes / 8) * 8);
    expect(stream.subarray(8, 8 + headerBytes)).toEqual(header);
    expect(stream.subarray(8 + padded, 8 + padded + bodyBytes).equals(body)).toBe(true);
    const frame = Buffer.concat(messageFrame("B", header, body));
    expect(frame.toString("latin1", 0, 1)).toBe("B");
    expect(frame.readUInt32LE(1)).toBe(stream.length);
    expect(frame.subarray(5).equals(stream)).toBe(true);
  });
});
