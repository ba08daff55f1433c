import { PassThrough } from "node:stream";
import { status } from "@grpc/grpc-js";
import { Schema } from "apache-arrow";
import { expect, it } from "vitest";

import { follow } from "../../src/cli/tail-command.js";
import type { FlightSqlClient } from "../../src/flight/flight-sql-client.js";
import { FlightSqlError } from "../../src/flight/flight-sql-error.js";
import type { QueryResult, Row } from "../../src/flight/query-result.js";
import type { Terminal } from "../../src/cli/terminal.js";

interface Looks {
  readonly terminal: Terminal;
  readonly stderr: PassThrough;
  readonly stop: () => void;
}

function looks(): Looks {
  const interrupted = new AbortController();
  const [stdin, stdout, stderr] = [new PassThrough(), new PassThrough(), new PassThrough()];
  const terminal = { stdin, stdout, stderr, interrupted: interrupted.signal, now: Date.now };
  return { terminal, stderr, stop: () => interrupted.abort() };
}

function result(rows: readonly Row[]): QueryResult {
  const read = async function* (): AsyncGenerator<Row> {
    yield* rows;
  };
  const unused = (): never => {
    throw new Error("tail reads rows");
  };
  const batches = { [Symbol.asyncIterator]: unused };
  return { schema: new Schema([]), batches, table: unused, rows: read, cancel: unused };
}

const all = { service: "shop", level: null, grep: null, where: null, json: false, lines: 0, interval: 0.001 };

it("each look of tail begins an hour before the newest block, also while none of them is asked for", async () => {
  const { terminal, stop } = looks();
  const begins: (bigint | Date | undefined)[] = [];
  let minute = 0;
  const query: FlightSqlClient["query"] = async (sql, o) => {
    const newest = sql.includes("max(insert_time)");
    const rows: Row[] = newest ? [{ t: `2026-11-28T10:0${minute++}:00.000000000Z` }] : [];
    if (sql.includes("FROM log_entries")) {
      begins.push(o?.begin);
    }
    if (begins.length === 3) {
      stop();
    }
    return await Promise.resolve(result(rows));
  };
  expect(await follow({ query }, all, { terminal })).toBe(130);
  const at = (time: string): bigint => BigInt(Date.parse(`2026-11-28T${time}Z`)) * 1_000_000n;
  expect(begins).toEqual([at("09:00:00"), at("09:01:00"), at("09:02:00")]);
});

it("tail goes on after a server that was away, and says so once", async () => {
  const { terminal, stderr, stop } = looks();
  let asked = 0;
  const query: FlightSqlClient["query"] = async () => {
    asked++;
    if (asked > 2 && asked < 6) {
      throw new FlightSqlError(status.UNAVAILABLE, "the analytics server at x cannot be reached");
    }
    if (asked > 8) {
      stop();
    }
    return await Promise.resolve(result([]));
  };
  expect(await follow({ query }, all, { terminal })).toBe(130);
  expect(String(stderr.read())).toBe("telemetry: the analytics server at x cannot be reached; still trying\n");
});

it("tail ends when it may not read any more", async () => {
  const { terminal } = looks();
  let asked = 0;
  const query: FlightSqlClient["query"] = async () => {
    if (asked++ > 2) {
      throw new FlightSqlError(status.UNAUTHENTICATED, "the key was revoked");
    }
    return await Promise.resolve(result([]));
  };
  await expect(follow({ query }, all, { terminal })).rejects.toThrow("the key was revoked");
});

it("a condition of tail may end with a comment", async () => {
  const { terminal, stop } = looks();
  const asked: string[] = [];
  const query: FlightSqlClient["query"] = async (sql) => {
    asked.push(sql);
    if (sql.includes("FROM log_entries")) {
      stop();
    }
    return await Promise.resolve(result([]));
  };
  expect(await follow({ query }, { ...all, where: "level <= 4 -- bad ones" }, { terminal })).toBe(130);
  expect(asked.at(-1)).toContain("(level <= 4 -- bad ones\n)");
});
